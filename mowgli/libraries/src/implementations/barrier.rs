//! I_BAL: barriers over shared variables (LOCO'26 Fig. 11, and section 4.3 for all nodes).

use super::{CR, last, loc};
use crate::client::{Client, Library, Method, NodeSet, ThreadId};
use crate::event::{Arg, Event, Loc, Stamp, StampKind, Wid};
use crate::execution::Graph;
use crate::implementation::{Caller, Cut, Implementation, Run};
use crate::libraries::Reach;
use crate::libraries::barrier::{fenced_nodes, participants};
use crate::value::Value;

/// The implementation.
#[derive(Clone, Copy, Debug)]
pub struct IBal {
    /// The nodes that its fence is for.
    pub reach: Reach,
    /// The mistake in it, if any.
    pub mistake: Option<BarrierMistake>,
}

/// Mistakes of the barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierMistake {
    /// There is no global fence.
    NoFence,
    /// The global fence comes after the counter is sent.
    FenceAfterCounter,
    /// The global fence leaves out the own node.
    FenceLeavesOutOwn,
    /// The global fence is only for the own node.
    FenceOwnOnly,
    /// The barrier does not wait for the others.
    NoLoop,
    /// The barrier waits only for the first participant.
    FirstLoopOnly,
    /// The barrier waits for counters that are at least as large as the old one.
    AtLeast,
}

/// Returns `x_t`, the counter of a thread.
fn counter(x: Loc, thread: ThreadId) -> Loc {
    x.part(1 + u32::from(thread.0), Loc::EVERYWHERE)
}

impl IBal {
    fn is(self, mistake: BarrierMistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn fence(self, c: &mut Caller<'_>, s_n: NodeSet) -> Run<()> {
        let own = c.node();
        c.gf_sv(match self.mistake {
            Some(BarrierMistake::FenceLeavesOutOwn) => s_n.without(own),
            Some(BarrierMistake::FenceOwnOnly) => NodeSet::default().with(own),
            _ => s_n,
        })
    }
}

impl Implementation for IBal {
    fn name(&self) -> &str {
        "I_BAL"
    }

    fn library(&self) -> Library {
        Library::Barrier
    }

    fn run(&self, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        let x = loc(args, 0)?;
        let t = ThreadId(c.thread());
        let b = participants(c.client(), x);
        if !b.contains(&t) {
            return Err(Cut::Blocked);
        }
        let s_n = fenced_nodes(c.client(), x, self.reach);
        let others: NodeSet = b
            .iter()
            .map(|&t| c.client().node_of(t))
            .collect::<NodeSet>()
            .without(c.node());

        let fenced = method == Method::Barrier && !self.is(BarrierMistake::NoFence);
        if fenced && !self.is(BarrierMistake::FenceAfterCounter) {
            self.fence(c, s_n)?;
        }
        let v = c.read_sv(counter(x, t))?;
        c.write_sv(counter(x, t), v + 1)?;
        c.bcast_sv(counter(x, t), Wid::NONE, others)?;
        if fenced && self.is(BarrierMistake::FenceAfterCounter) {
            self.fence(c, s_n)?;
        }
        let waited_for = match self.mistake {
            Some(BarrierMistake::NoLoop) => &[],
            Some(BarrierMistake::FirstLoopOnly) => &b[..1],
            _ => b,
        };
        for &other in waited_for {
            c.until(|c| {
                let seen = c.read_sv(counter(x, other))?;
                Ok(seen > v || self.is(BarrierMistake::AtLeast) && seen >= v)
            })?;
        }
        Ok(Value::Unit)
    }

    /// Implements appendix G.3: entries are those of the fence, the exit is the last read.
    fn concretise(
        &self,
        _: &Client,
        _: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize> {
        match stamp.kind {
            StampKind::Cr => last(g, events, CR, |e| e.method == Method::ReadSv),
            StampKind::Gf => last(g, events, stamp, |e| e.method == Method::GfSv),
            _ => last(g, events, stamp, |e| e.method == Method::WriteSv),
        }
    }
}
