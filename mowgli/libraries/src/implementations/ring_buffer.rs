//! I_RBL: ring buffers over shared variables (LOCO'26 Fig. 14).

use super::{CR, CW, first, last, loc, value};
use crate::client::{Client, Library, Method, NodeSet, ObjectKind, ThreadId};
use crate::event::{Arg, Event, Loc, Stamp, StampKind, Wid};
use crate::execution::Graph;
use crate::implementation::{Caller, Cut, Implementation, Run};
use crate::libraries::ring_buffer::threads;
use crate::value::{BOTTOM, Value};

/// The implementation.
#[derive(Clone, Copy, Debug, Default)]
pub struct IRbl {
    /// True if the broadcast of the head asks for strong order, so that the ring is one on every network (ours). The
    /// papers' ring relies on two puts that keep their order.
    pub strong: bool,
    /// True if a writer that reads its own ring fences first. This is the other repair of Def. 5.2, with
    /// which the definition as printed holds.
    pub fence_own: bool,
    /// The mistake in it, if any.
    pub mistake: Option<RingMistake>,
}

/// Mistakes of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingMistake {
    /// The submit does not wait for the head's last broadcast.
    NoWait,
    /// The wait is between the head's write and its broadcast.
    WaitAfterWrite,
    /// The head is written and sent before the data.
    HeadFirst,
    /// The data is not sent to other nodes.
    DataNotSent,
    /// A receive does not check whether there is a message.
    EmptinessNotChecked,
    /// A receive acknowledges before it reads.
    AcknowledgeFirst,
    /// A submit does not check whether there is room.
    NoRoomCheck,
    /// A submit counts one cell of room too many.
    RoomOffByOne,
}

/// Returns `h^x`, the head.
fn head(x: Loc) -> Loc {
    x.part(1, Loc::EVERYWHERE)
}

/// Returns `h^x_t`, a reader's position.
fn tail(x: Loc, thread: ThreadId) -> Loc {
    x.part(2 + u32::from(thread.0), Loc::EVERYWHERE)
}

/// Returns `x_i`, a cell, with `i` taken modulo `S`.
fn cell(x: Loc, i: i64, size: i64) -> Loc {
    x.part(64 + i.rem_euclid(size) as u32, Loc::EVERYWHERE)
}

fn size(client: &Client, x: Loc) -> i64 {
    match x.client_object().map(|object| &client.object(object).kind) {
        Some(ObjectKind::Ring { size, .. }) => i64::from(*size),
        _ => 1,
    }
}

impl IRbl {
    fn is(self, mistake: RingMistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn submit(self, c: &mut Caller<'_>, x: Loc, message: &[i64]) -> Run<Value> {
        let (writer, readers) = threads(c.client(), x).ok_or(Cut::Blocked)?;
        if writer.0 != c.thread() {
            return Err(Cut::Blocked);
        }
        let client = c.client();
        let s_n = readers
            .iter()
            .map(|&t| client.node_of(t))
            .collect::<NodeSet>()
            .without(c.node());
        let s = size(client, x);
        let v = message.len() as i64;
        let h = c.read_sv(head(x))?;
        let mut m = i64::MAX;
        for &reader in readers {
            m = m.min(c.read_sv(tail(x, reader))?);
        }
        let room = match self.mistake {
            Some(RingMistake::NoRoomCheck) => true,
            Some(RingMistake::RoomOffByOne) => (h - m) + (v + 1) <= s + 1,
            _ => (h - m) + (v + 1) <= s,
        };
        if !room {
            return Ok(Value::Bool(false));
        }
        let d = Wid::of(x.object);
        let advance = |c: &mut Caller<'_>| {
            if !self.is(RingMistake::NoWait) && !self.is(RingMistake::WaitAfterWrite) {
                c.wait_sv(d)?;
            }
            c.write_sv(head(x), h + v + 1)?;
            if self.is(RingMistake::WaitAfterWrite) {
                c.wait_sv(d)?;
            }
            c.bcast_sv_asking(head(x), d, s_n, self.strong)
        };
        if self.is(RingMistake::HeadFirst) {
            advance(c)?;
        }
        let sent = if self.is(RingMistake::DataNotSent) {
            NodeSet::default()
        } else {
            s_n
        };
        for (i, word) in (0..).zip(std::iter::once(v).chain(message.iter().copied())) {
            c.write_sv(cell(x, h + i, s), word)?;
            c.bcast_sv(cell(x, h + i, s), Wid::NONE, sent)?;
        }
        if !self.is(RingMistake::HeadFirst) {
            advance(c)?;
        }
        Ok(Value::Bool(true))
    }

    fn receive(self, c: &mut Caller<'_>, x: Loc) -> Run<Value> {
        let (writer, readers) = threads(c.client(), x).ok_or(Cut::Blocked)?;
        let t = ThreadId(c.thread());
        if !readers.contains(&t) {
            return Err(Cut::Blocked);
        }
        if self.fence_own && writer == t {
            c.call(Method::Mfence, &[])?;
        }
        let s = size(c.client(), x);
        let h = c.read_sv(tail(x, t))?;
        let end = c.read_sv(head(x))?;
        if h >= end && !self.is(RingMistake::EmptinessNotChecked) {
            return Ok(BOTTOM);
        }
        let home = c.client().node_of(writer);
        let acknowledge = |c: &mut Caller<'_>, v: i64| {
            c.write_sv(tail(x, t), h + v + 1)?;
            c.bcast_sv(
                tail(x, t),
                Wid::NONE,
                NodeSet::default().with(home).without(c.node()),
            )
        };
        let v = c.read_sv(cell(x, h, s))?;
        // No submit writes a message that is longer than the ring. Only a mistake reads a wrong length.
        let v = v.clamp(0, s);
        if self.is(RingMistake::AcknowledgeFirst) {
            acknowledge(c, v)?;
        }
        let mut message = Vec::new();
        for i in 1..=v {
            message.push(c.read_sv(cell(x, h + i, s))?);
        }
        if !self.is(RingMistake::AcknowledgeFirst) {
            acknowledge(c, v)?;
        }
        Ok(Value::message(&message))
    }
}

impl Implementation for IRbl {
    fn name(&self) -> &str {
        "I_RBL"
    }

    fn library(&self) -> Library {
        Library::RingBuffer
    }

    fn run(&self, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        let x = loc(args, 0)?;
        match method {
            Method::Submit => self.submit(c, x, &value(args, 1).words()),
            Method::Receive => self.receive(c, x),
            _ => Err(Cut::Blocked),
        }
    }

    /// Implements appendix G.4: a submit is its head's write and broadcast, a receive its read of the head.
    fn concretise(
        &self,
        _: &Client,
        call: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize> {
        let x = call.loc(0)?;
        match (call.method, stamp.kind) {
            (Method::Submit, StampKind::Cw) => last(g, events, CW, |e| {
                e.method == Method::WriteSv && e.loc(0) == Some(head(x))
            }),
            (Method::Submit, StampKind::Nrw) => last(g, events, stamp, |e| {
                e.method.plain() == Method::BcastSv && e.loc(0) == Some(head(x))
            }),
            _ => first(g, events, CR, |e| {
                e.method == Method::ReadSv && e.loc(0) == Some(head(x))
            }),
        }
    }
}
