//! A queue pair's operations, from posting to their report.
//!
//! Operations are issued in order, each when the [mapping](crate::order) allows it, and end in order: a report of one
//! says that all earlier operations of the queue pair have ended, as the contract demands. Relies on `order`. Used by
//! `engine`.

use std::collections::VecDeque;

use loco_fabric::{Completion, CompletionStatus, FabricError, NodeId, Work, WorkRequestId};
use smallvec::SmallVec;

use crate::memory::OfiMemory;
use crate::order::{Class, Mapping};
use crate::port::Verb;

/// An operation as posted.
pub(crate) struct Op {
    pub(crate) name: &'static str,
    pub(crate) id: WorkRequestId,
    pub(crate) signaled: bool,
    pub(crate) fenced: bool,
    pub(crate) strong: bool,
    /// Another operation follows at once.
    pub(crate) more: bool,
    pub(crate) verb: Verb,
    /// The place in the peer's mapping.
    pub(crate) place: u64,
    pub(crate) len: usize,
    /// The source or the place of the result. `None` for inline data, and for flushes.
    pub(crate) local: Option<(OfiMemory, usize)>,
    /// Inline data.
    pub(crate) data: SmallVec<[u8; 32]>,
    /// The operand, and the value compared with.
    pub(crate) operands: (u64, u64),
    /// The bytes issued so far.
    pub(crate) issued: usize,
    /// The pieces that are under way.
    pub(crate) pieces: u32,
    /// The pieces whose results have come, but must not land yet.
    pub(crate) arrived: SmallVec<[u32; 1]>,
    pub(crate) failed: Option<FabricError>,
}

impl Op {
    /// Returns an operation on `len` bytes at `place` of the peer, of which nothing is posted yet. It has no data.
    pub(crate) fn new(name: &'static str, verb: Verb, place: u64, len: usize, work: Work) -> Op {
        Op {
            name,
            id: work.id,
            signaled: work.signaled,
            fenced: work.fenced,
            strong: work.strong,
            more: work.more,
            verb,
            place,
            len,
            local: None,
            data: SmallVec::new(),
            operands: (0, 0),
            issued: 0,
            pieces: 0,
            arrived: SmallVec::new(),
            failed: None,
        }
    }

    pub(crate) fn class(&self) -> Class {
        match self.verb {
            Verb::Write => Class::Write,
            Verb::Read => Class::Read,
            Verb::FetchAdd | Verb::CompareSwap => Class::Rmw,
        }
    }

    pub(crate) fn is_issued(&self) -> bool {
        self.issued == self.len
    }

    /// Returns true if the operation may follow others in one piece that has room for `room` bytes and does what `verb`
    /// says: it is short, consists of whole words, and need not wait for results.
    pub(crate) fn joins(&self, verb: Verb, room: usize) -> bool {
        let whole = self.place.is_multiple_of(8) && self.len.is_multiple_of(8);
        let fits = (1..=room).contains(&self.len);
        self.verb == verb && !self.fenced && self.issued == 0 && whole && fits
    }

    fn has_ended(&self) -> bool {
        self.pieces == 0 && (self.is_issued() || self.failed.is_some())
    }
}

/// A queue pair.
pub(crate) struct Queue {
    pub(crate) peer: NodeId,
    /// The position of the peer among the nodes.
    pub(crate) peer_index: usize,
    ops: VecDeque<Op>,
    /// The number of the first of `ops`.
    first: u64,
    /// The number of the first operation that is not issued completely.
    next: u64,
    /// The pieces under way, by class.
    under_way: [u32; 3],
    /// The error that broke the queue pair.
    pub(crate) failure: Option<FabricError>,
    /// Set when the owner is gone.
    pub(crate) retired: bool,
    /// Set while the engine's list of queue pairs that wait for room has this one.
    pub(crate) listed: bool,
}

impl Queue {
    pub(crate) fn new(peer: NodeId, peer_index: usize) -> Queue {
        Queue {
            peer,
            peer_index,
            ops: VecDeque::new(),
            first: 0,
            next: 0,
            under_way: [0; 3],
            failure: None,
            retired: false,
            listed: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns the number of operations that are not issued completely.
    pub(crate) fn unissued(&self) -> usize {
        usize::try_from(self.first + self.ops.len() as u64 - self.next).unwrap_or(usize::MAX)
    }

    /// Returns the number of pieces that are under way.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way.iter().sum()
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.ops.push_back(op);
    }

    pub(crate) fn op(&mut self, sequence: u64) -> Option<&mut Op> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.ops.get_mut(at)
    }

    /// Returns the number of the operation to issue next, if it may begin now.
    pub(crate) fn next(&mut self, mapping: &Mapping) -> Option<u64> {
        let sequence = self.next;
        let under_way = self.under_way;
        let op = self.op(sequence)?;
        if op.issued > 0 {
            return Some(sequence); // It has begun.
        }
        let (later, fenced, strong) = (op.class(), op.fenced, op.strong);
        let held = strong
            && Class::ALL
                .into_iter()
                .any(|earlier| under_way[earlier as usize] > 0 && mapping.holds(earlier, later));
        let waits = held || fenced && self.lacks_results(sequence, mapping);
        (!waits).then_some(sequence)
    }

    /// Returns true if the result of an operation before `sequence`, for which a fence waits, has not landed.
    fn lacks_results(&self, sequence: u64, mapping: &Mapping) -> bool {
        let before = usize::try_from(sequence - self.first).unwrap_or(usize::MAX);
        self.ops
            .iter()
            .take(before)
            .any(|op| mapping.fences(op.class()) && (op.pieces > 0 || !op.arrived.is_empty()))
    }

    /// Records that a piece of `len` bytes of the next operation was issued.
    pub(crate) fn issued(&mut self, len: usize) {
        let sequence = self.next;
        let Some(op) = self.op(sequence) else { return };
        op.issued += len;
        op.pieces += 1;
        let class = op.class();
        if op.is_issued() {
            self.next += 1;
        }
        self.under_way[class as usize] += 1;
    }

    /// Passes over an operation without bytes.
    pub(crate) fn skip(&mut self) {
        self.next += 1;
    }

    /// Records that a piece of operation `sequence` has ended.
    pub(crate) fn ended(&mut self, sequence: u64) {
        let Some(op) = self.op(sequence) else { return };
        op.pieces -= 1;
        let class = op.class();
        self.under_way[class as usize] -= 1;
    }

    /// Returns the number of the oldest operation, whose results may land. Those of later ones arrive and wait.
    pub(crate) fn oldest(&self) -> u64 {
        self.first
    }

    /// Returns the pieces of the oldest operation whose results must land now.
    pub(crate) fn arrived(&mut self) -> SmallVec<[u32; 1]> {
        let oldest = self.ops.front_mut();
        oldest
            .map(|op| std::mem::take(&mut op.arrived))
            .unwrap_or_default()
    }

    /// Takes the oldest operation if it has ended and all its results have landed. Returns its report, if it wants
    /// one.
    pub(crate) fn take_ended(&mut self) -> Option<Option<Completion>> {
        let ended = self.ops.front().is_some_and(Op::has_ended);
        if !ended {
            return None;
        }
        let op = self.ops.pop_front()?;
        self.first += 1;
        self.next = self.next.max(self.first);
        Some(self.report(op))
    }

    fn report(&self, op: Op) -> Option<Completion> {
        op.signaled.then(|| Completion {
            id: op.id,
            peer: self.peer,
            status: match op.failed {
                None => CompletionStatus::Success,
                Some(error) => CompletionStatus::Failed(Box::new(error)),
            },
        })
    }

    /// Fails the operations that are not issued completely. Those that have pieces under way end with these.
    pub(crate) fn break_off(&mut self, error: &FabricError) {
        let first = self.failure.get_or_insert_with(|| error.clone()).clone();
        let (peer, from) = (self.peer, self.next - self.first);
        for op in self
            .ops
            .iter_mut()
            .skip(usize::try_from(from).unwrap_or(usize::MAX))
        {
            op.failed.get_or_insert_with(|| FabricError::Operation {
                operation: op.name,
                peer,
                status: "flushed".to_owned(),
                cause: format!("not executed, because the queue pair had failed: {first}"),
            });
        }
        self.next = self.first + self.ops.len() as u64;
    }

    /// Gives up all operations, because the peer is gone. Returns their reports, and the pieces whose results had come.
    pub(crate) fn give_up(&mut self, error: &FabricError) -> (Vec<Completion>, Vec<u32>) {
        self.failure = Some(error.clone());
        let ops = std::mem::take(&mut self.ops);
        self.first += ops.len() as u64;
        self.next = self.first;
        self.under_way = [0; 3];
        let mut pieces = Vec::new();
        let mut reports = Vec::new();
        for mut op in ops {
            pieces.append(&mut op.arrived.to_vec());
            op.failed = Some(error.clone());
            reports.extend(self.report(op));
        }
        (reports, pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Attributes, Trust};

    fn op(verb: Verb, strong: bool) -> Op {
        let work = Work {
            strong,
            ..Work::signaled(WorkRequestId(0))
        };
        Op::new("test", verb, 0, 8, work)
    }

    /// Returns whether an operation may begin while an earlier one is under way, with a provider without orders.
    fn begins(earlier: Verb, later: Op) -> bool {
        let attributes = Attributes {
            provider: "new".to_owned(),
            msg_order: 0,
            raw_bytes_max: 0,
            war_bytes_max: 0,
            waw_bytes_max: 0,
        };
        let mapping = Mapping::of(&attributes, Trust::Attributes, 64);
        let mut queue = Queue::new(NodeId(1), 1);
        queue.push(op(earlier, false));
        queue.push(later);
        assert_eq!(queue.next(&mapping), Some(0));
        queue.issued(8);
        queue.next(&mapping) == Some(1)
    }

    #[test]
    fn an_operation_waits_for_earlier_ones_only_if_it_asks_and_they_write() {
        for earlier in [Verb::Write, Verb::Read, Verb::FetchAdd] {
            for later in [Verb::Write, Verb::Read, Verb::CompareSwap] {
                assert!(begins(earlier, op(later, false)));
                assert_eq!(begins(earlier, op(later, true)), earlier == Verb::Read);
            }
        }
    }
}
