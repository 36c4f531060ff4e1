//! Holds operations back in their queue pair until what they wait for has come.
//!
//! A queue pair on a device whose order is bought (`order`) has a *line*: an entry for each operation that has not been
//! reported, oldest first. An operation that asks for no order goes to the device at once, past those that wait, but a result
//! does not go past a put whose data the device has not read. An operation that must wait is held, and handed on by whoever polls the last completion that it waits for. So no posting call
//! waits, and a thread that sends to many peers has operations towards all of them under way. Operations end in any order and
//! are reported in theirs, as the contract demands. On such a device each work request asks for a completion, so an end is
//! that of one operation.
//!
//! On a device of tier `pcie-relaxed` a strong operation first sends a *barrier* (`order`), under its own number.
//!
//! A lock covers the line, because the owner adds to it and threads that poll hand on. Every work request of the queue pair is
//! posted under this lock.
//!
//! Relies on `request`. Used by `send_queue`, which has the line, and `queue_pair`, which adds to it.

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loco_fabric::{FabricError, NodeId, Result, Tier};
use smallvec::SmallVec;

use super::ffi::types::*;
use super::request::{Flush, Request};
use super::status::Op;

/// The properties of the device that decide what waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) tier: Tier,
    /// True if the device's own fences cannot be relied on.
    pub(super) fences_stall: bool,
}

/// The requests for order of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) strong: bool,
    pub(super) fenced: bool,
}

/// The unreported operations of a queue pair.
pub(super) struct Line {
    rules: Rules,
    exit: Exit,
    entries: VecDeque<Entry>,
    /// The number of the first of `entries`.
    first: u64,
    /// One more than the number of the last put or read-modify-write.
    writes_end: u64,
    /// On `pcie-relaxed`: the writes of operations below this number are placed.
    placed: u64,
    /// The number of operations that wait on all queue pairs of the node.
    waiting: Arc<AtomicUsize>,
}

struct Entry {
    op: Op,
    state: State,
}

#[allow(clippy::large_enum_variant)] // Few operations are under way, and a box for each that waits would be an allocation.
enum State {
    /// The operation waits.
    Held(Held),
    /// The device has its barrier.
    Barrier(Held),
    /// The device has it, or the owner's chain.
    UnderWay,
    Ended,
    Failed(Box<FabricError>),
}

/// An operation that waits.
pub(super) struct Held {
    pub(super) request: Request,
    /// The data of an inline put.
    pub(super) data: SmallVec<[u8; 32]>,
    /// The id under which the device reports it.
    pub(super) wr_id: u64,
    asked: Asked,
    /// One more than the number of the last put or read-modify-write before it.
    writes_before: u64,
}

/// The means by which operations that waited are posted.
#[derive(Clone, Copy)]
pub(super) struct Exit {
    pub(super) qp: *mut Qp,
    pub(super) post_send: PostSend,
    pub(super) flush: Flush,
    pub(super) peer: NodeId,
}

// SAFETY: the pointer is to the queue pair, which verbs allow any thread to use and which the owner of the line keeps alive.
unsafe impl Send for Exit {}

/// What earlier operations lack.
#[derive(Default)]
struct Before {
    /// Some operation has not ended.
    any: bool,
    /// Some put or read-modify-write has not ended.
    writes: bool,
    /// The device does not have some put or read-modify-write yet.
    writes_held: bool,
    /// Some get or read-modify-write has not ended.
    results: bool,
    /// The device does not have some get or read-modify-write yet.
    results_held: bool,
    /// The device does not have some put yet whose data it is to read.
    sources_held: bool,
}

impl Before {
    fn add(&mut self, entry: &Entry) {
        let (held, data) = match &entry.state {
            State::Ended | State::Failed(_) => return,
            State::Held(held) | State::Barrier(held) => (true, held.data.as_slice()),
            State::UnderWay => (false, [].as_slice()),
        };
        self.sources_held |= held && entry.op == Op::Put && data.is_empty();
        let (writes, results) = (entry.op.writes(), entry.op.has_result());
        self.any = true;
        self.writes |= writes;
        self.writes_held |= writes && held;
        self.results |= results;
        self.results_held |= results && held;
    }
}

/// What an operation does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wait,
    /// It sends a barrier.
    Barrier,
    /// It goes to the device.
    Post,
}

impl Rules {
    /// Returns what an operation does next. `placed` says that every earlier write is known to be placed.
    fn step(self, op: Op, asked: Asked, before: &Before, placed: bool) -> Step {
        let relaxed = self.tier == Tier::PcieRelaxed;
        let strong = asked.strong
            && match self.tier {
                Tier::Ibta => false,
                // The card itself holds atomics back, behind the writes that it has.
                Tier::OooRw if op.is_atomic() => before.writes_held,
                Tier::OooRw | Tier::OooAll | Tier::Unordered => before.writes,
                Tier::PcieRelaxed => before.any && !placed,
            };
        // The card itself keeps a fenced operation behind the results that it was asked for before.
        let fenced = asked.fenced
            && match self.fences_stall {
                true => before.results,
                false => before.results_held,
            };
        // A card reads the data of a put before it places a later result, which may be for the same memory.
        let overwrites = op.has_result() && before.sources_held;
        match strong || fenced || overwrites {
            true => Step::Wait,
            // A flush of this tier is a barrier itself.
            false if asked.strong && relaxed && !placed && op != Op::Flush => Step::Barrier,
            false => Step::Post,
        }
    }

    /// Returns the flag that asks the device for a fence.
    pub(super) fn fence_flag(self, asked: Asked) -> u32 {
        match asked.fenced && !self.fences_stall {
            true => IBV_SEND_FENCE,
            false => 0,
        }
    }
}

impl Line {
    pub(super) fn new(rules: Rules, exit: Exit, waiting: Arc<AtomicUsize>) -> Line {
        Line {
            rules,
            exit,
            entries: VecDeque::new(),
            first: 0,
            writes_end: 0,
            placed: 0,
            waiting,
        }
    }

    /// Returns whether the device is asked for the fence of an operation.
    pub(super) fn tells_fence(&self, asked: Asked) -> bool {
        self.rules.fence_flag(asked) != 0
    }

    /// Returns the number of operations that have been reported.
    pub(super) fn reported(&self) -> u64 {
        self.first
    }

    /// Adds an operation. Returns true if it goes to the device now, and false if it waits.
    pub(super) fn add(&mut self, asked: Asked, request: &Request, wr_id: u64, data: Option<&[u8]>) -> bool {
        let op = request.op;
        // Relaxed: the operations of this line were added under its lock.
        let overwrites = op.has_result() && self.waiting.load(Ordering::Relaxed) > 0;
        let goes = !(asked.strong || asked.fenced || overwrites) || {
            let mut before = Before::default();
            self.entries.iter().for_each(|entry| before.add(entry));
            self.rules
                .step(op, asked, &before, self.writes_end <= self.placed)
                == Step::Post
        };
        let state = match goes {
            true => State::UnderWay,
            false => State::Held(Held {
                request: *request,
                data: SmallVec::from_slice(data.unwrap_or_default()),
                wr_id,
                asked,
                writes_before: self.writes_end,
            }),
        };
        self.entries.push_back(Entry { op, state });
        if op.writes() {
            self.writes_end = self.first + self.entries.len() as u64;
        }
        // Relaxed: a hint to those who wait. The lock orders the line.
        self.waiting.fetch_add(usize::from(!goes), Ordering::Relaxed);
        goes
    }

    /// Takes the operation back that was added last and that did not go.
    pub(super) fn take_back(&mut self) {
        self.entries.pop_back();
    }

    /// Posts what need not wait any more.
    ///
    /// # Errors
    /// Returns the error of the device if it refuses a request. That operation has failed, and the queue pair is to be broken
    /// off.
    pub(super) fn hand_on(&mut self) -> Result<()> {
        while let Some((at, step)) = self.next() {
            let entry = &mut self.entries[at];
            let State::Held(mut held) = std::mem::replace(&mut entry.state, State::UnderWay) else {
                break;
            };
            let posted = match step {
                Step::Barrier => {
                    let barrier = Request::barrier(self.exit.flush);
                    self.exit.post(&barrier, held.wr_id, 0, &mut [])
                }
                _ => {
                    let flags = self.rules.fence_flag(held.asked);
                    self.exit.post(&held.request, held.wr_id, flags, &mut held.data)
                }
            };
            match (posted, step) {
                (Ok(()), Step::Barrier) => entry.state = State::Barrier(held),
                (Ok(()), _) => {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                }
                (Err(error), _) => {
                    entry.state = State::Failed(Box::new(error.clone()));
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the place of the oldest operation that waits and need not any more, and its step.
    fn next(&self) -> Option<(usize, Step)> {
        let mut before = Before::default();
        for (at, entry) in self.entries.iter().enumerate() {
            if let State::Held(held) = &entry.state {
                let placed = held.writes_before <= self.placed;
                match self.rules.step(entry.op, held.asked, &before, placed) {
                    Step::Wait => {}
                    step => return Some((at, step)),
                }
            }
            before.add(entry);
        }
        None
    }

    /// Returns the number and the kind of the operation that the device has under `wr_id`, of which the bits of `mask` are the
    /// low bits of the number.
    pub(super) fn under_way(&self, wr_id: u64, mask: u64) -> Option<(u64, Op)> {
        let at = wr_id.wrapping_sub(self.first) & mask;
        let entry = self.entries.get(usize::try_from(at).ok()?)?;
        let has_it = matches!(entry.state, State::UnderWay | State::Barrier(_));
        has_it.then_some((self.first + at, entry.op))
    }

    /// Notes that the device has ended what it had of an operation.
    pub(super) fn ended(&mut self, sequence: u64) {
        let Some(entry) = self.entry(sequence) else { return };
        let (op, state) = (entry.op, std::mem::replace(&mut entry.state, State::Ended));
        let barrier = matches!(state, State::Barrier(_));
        if let State::Barrier(held) = state {
            entry.state = State::Held(held); // It has nothing more to wait for.
        }
        if barrier || op == Op::Flush {
            self.placed = self.placed.max(sequence);
        }
    }

    /// Notes that an operation failed.
    pub(super) fn failed(&mut self, sequence: u64, error: FabricError) {
        let Some(entry) = self.entry(sequence) else { return };
        let state = std::mem::replace(&mut entry.state, State::Failed(Box::new(error)));
        let waited = matches!(state, State::Held(_) | State::Barrier(_));
        self.waiting.fetch_sub(usize::from(waited), Ordering::Relaxed);
    }

    /// Fails the operations of which the device has nothing.
    pub(super) fn fail_held(&mut self, error: impl Fn(Op) -> FabricError) {
        for entry in &mut self.entries {
            if matches!(entry.state, State::Held(_)) {
                entry.state = State::Failed(Box::new(error(entry.op)));
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes the oldest operation if it has ended. Returns its number and its error.
    pub(super) fn take_ended(&mut self) -> Option<(u64, Option<Box<FabricError>>)> {
        if !matches!(self.entries.front()?.state, State::Ended | State::Failed(_)) {
            return None;
        }
        let entry = self.entries.pop_front()?;
        self.first += 1;
        let error = match entry.state {
            State::Failed(error) => Some(error),
            _ => None,
        };
        Some((self.first - 1, error))
    }

    fn entry(&mut self, sequence: u64) -> Option<&mut Entry> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(at)
    }
}

impl Exit {
    /// Posts one request. `data` is the source of an inline put.
    fn post(&self, request: &Request, wr_id: u64, flags: u32, data: &mut [u8]) -> Result<()> {
        let mut wr = zeroed::<SendWr>();
        request.write(&mut wr, wr_id, flags | IBV_SEND_SIGNALED);
        let mut sge = request.local.unwrap_or(zeroed());
        if !data.is_empty() {
            sge.addr = data.as_mut_ptr().expose_provenance() as u64;
        }
        wr.sg_list = &raw mut sge;
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is live; the request and its element live during the call; the local piece is registered memory,
        // which the caller of the post keeps until completion, or inline data that live during the call. There is room, since
        // no more operations are under way than the window has slots, and each has one request at the device.
        match unsafe { (self.post_send)(self.qp, &raw mut wr, &raw mut bad) } {
            0 => Ok(()),
            status => Err(refused(self.peer, status)),
        }
    }
}

/// Returns the error of a request that the device did not take.
#[cold]
pub(super) fn refused(peer: NodeId, status: i32) -> FabricError {
    FabricError::Os {
        what: format!("posting to the queue pair towards {peer}"),
        source: std::io::Error::from_raw_os_error(status.abs()).into(),
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
