//! Finds the accesses to memory that operations under way have yet to make.
//!
//! From these accesses, a partial-order reduction learns that a queue pair or a store buffer no longer touches a word.
//! Relies on the rules of [`super::simplified`] and [`super::concrete`]. Used by explorers of object code.

use super::buffers::{Delayed, Entry, LocalBack, Source, Stage};
use super::{Addr, Machine, QpId, RemoteOp, Rule};

/// An access to a word by a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The rule that makes the access.
    pub rule: Rule,
    /// The word.
    pub word: Addr,
    /// Set if the word is written.
    pub writes: bool,
}

/// A place of operations that a rule has yet to apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// In the queue pair.
    Queued,
    /// Posted, and in the store buffer.
    Delayed,
}

impl RemoteOp {
    /// Calls `visit` with every access that the operation makes once it has been posted.
    pub fn accesses(self, visit: impl FnMut(Access)) {
        Stage::of(self).accesses(visit);
    }
}

impl Stage {
    fn accesses(self, mut visit: impl FnMut(Access)) {
        let mut access = |rule, word, writes| visit(Access { rule, word, writes });
        match self {
            Stage::Put { dst, src } => {
                if let Source::Word(src) = src {
                    access(Rule::LocalRead, src, false);
                }
                access(Rule::PlaceRemote, dst, true);
            }
            Stage::PutValue { dst, .. } => access(Rule::PlaceRemote, dst, true),
            Stage::Get { dst, src } => {
                access(Rule::RemoteRead, src, false);
                access(Rule::PlaceLocal, dst, true);
            }
            Stage::Value { dst, .. } => access(Rule::PlaceLocal, dst, true),
            Stage::Rmw { dst, target, .. } | Stage::Executing { dst, target, .. } => {
                access(Rule::AtomicRead, target, false);
                // An operation that is atomic against every access (`glob`) writes in the step in which it reads.
                access(Rule::AtomicRead, target, true);
                access(Rule::PlaceRemote, target, true);
                access(Rule::PlaceLocal, dst, true);
            }
            Stage::Ack | Stage::Fence | Stage::Done => {}
        }
    }

    /// Returns the rules that may apply to the entry from now on, besides those that place its writes.
    fn rules(self) -> &'static [Rule] {
        match self {
            Stage::Put { .. } => &[Rule::LocalRead, Rule::RemoteWrite, Rule::Complete, Rule::Forward],
            Stage::PutValue { .. } => &[Rule::RemoteWrite, Rule::Complete, Rule::Forward],
            Stage::Ack | Stage::Done => &[Rule::Complete, Rule::Forward],
            Stage::Get { .. } => &[Rule::RemoteRead, Rule::Respond, Rule::Forward],
            Stage::Value { .. } => &[Rule::Respond, Rule::Forward],
            Stage::Rmw { .. } => &[Rule::AtomicRead, Rule::AtomicWrite, Rule::Respond, Rule::Forward],
            Stage::Executing { .. } => &[Rule::AtomicWrite, Rule::Respond, Rule::Forward],
            Stage::Fence => &[Rule::Fence, Rule::Forward],
        }
    }
}

impl Machine {
    /// Calls `visit` with every access that the queue pair has yet to make for operations which have been posted to it.
    pub fn outstanding(&self, id: QpId, mut visit: impl FnMut(Access)) {
        let Some(thread) = self.threads.get(usize::from(id.thread)) else {
            return;
        };
        for delayed in thread.store_buffer.iter() {
            if let Delayed::Remote { peer, entry } = delayed
                && *peer == id.peer
            {
                entry.stage.accesses(&mut visit);
            }
        }
        let Some(qp) = thread.queue_pair(id.peer) else {
            return;
        };
        for entry in qp.pipe.iter() {
            entry.stage.accesses(&mut visit);
        }
        for write in qp.wb_r.iter() {
            visit(Access {
                rule: Rule::PlaceRemote,
                word: write.dst,
                writes: true,
            });
        }
        for back in qp.wb_l.iter() {
            if let LocalBack::Write { dst, .. } = *back {
                visit(Access {
                    rule: Rule::PlaceLocal,
                    word: dst,
                    writes: true,
                });
            }
        }
    }

    /// Returns the words of the writes that are on their way to memory (`wb_R`), oldest first.
    pub fn unplaced(&self, id: QpId) -> impl Iterator<Item = Addr> + '_ {
        let writes = self.queue_pair(id).map_or(&[][..], |qp| &qp.wb_r);
        writes.iter().map(|write| write.dst)
    }

    /// Returns whether an operation that was posted to the queue pair will write the remote word, and its write is not on
    /// its way to memory yet.
    pub fn will_write(&self, id: QpId, word: Addr) -> bool {
        let mut writes = 0;
        self.outstanding(id, |access| {
            writes += usize::from(access.rule == Rule::PlaceRemote && access.word == word);
        });
        writes > self.unplaced(id).filter(|&to| to == word).count()
    }

    /// Returns whether an operation of the queue pair is in this place to which a rule of this sort may yet apply.
    pub fn next_in(&self, id: QpId, place: Next, sort: impl Fn(Rule) -> bool) -> bool {
        let Some(thread) = self.threads.get(usize::from(id.thread)) else {
            return false;
        };
        let applies = |entry: &Entry| entry.stage.rules().iter().any(|&rule| sort(rule));
        match place {
            Next::Queued => thread
                .queue_pair(id.peer)
                .is_some_and(|qp| qp.pipe.iter().any(applies)),
            Next::Delayed => thread.store_buffer.iter().any(|delayed| {
                matches!(delayed, Delayed::Remote { peer, entry } if *peer == id.peer && applies(entry))
            }),
        }
    }

    /// Returns whether the thread's store buffer holds a store to the word.
    pub fn buffers(&self, thread: u16, word: Addr) -> bool {
        self.buffered(thread).any(|at| at == word)
    }

    /// Returns the words to which the thread's store buffer holds stores, oldest first.
    pub fn buffered(&self, thread: u16) -> impl Iterator<Item = Addr> + '_ {
        let thread = self.threads.get(usize::from(thread));
        let entries = thread.into_iter().flat_map(|thread| thread.store_buffer.iter());
        entries.filter_map(|delayed| match delayed {
            Delayed::Store { loc, .. } => Some(*loc),
            _ => None,
        })
    }
}
