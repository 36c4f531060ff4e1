//! The operations of one queue pair that are under way.
//!
//! An operation is sent in pieces, and has ended when all of it is sent and all answers have come. Operations end in the order
//! in which they were posted. Relies on `memory`. Used by `link`.

use std::collections::VecDeque;

use loco_fabric::{Completion, CompletionStatus, FabricError, NodeId, WorkRequestId};
use smallvec::SmallVec;

use crate::frame::Kind;
use crate::memory::TcpMemory;

/// A posted operation.
pub(crate) struct Op {
    pub(crate) kind: Kind,
    pub(crate) id: WorkRequestId,
    pub(crate) signaled: bool,
    pub(crate) fenced: bool,
    /// The place in the peer's mapping.
    pub(crate) place: u64,
    pub(crate) len: usize,
    /// The source or the place of the result. `None` for inline data, and for flushes.
    pub(crate) local: Option<(TcpMemory, usize)>,
    /// Inline data that could not be sent at once.
    pub(crate) data: SmallVec<[u8; 32]>,
    /// The words that follow the header of a read-modify-write.
    pub(crate) operands: SmallVec<[u64; 2]>,
    /// The bytes sent so far.
    pub(crate) sent: usize,
    pub(crate) is_sent: bool,
    /// The answers that have not come.
    pub(crate) answers: u32,
    pub(crate) failed: Option<FabricError>,
}

impl Op {
    fn has_ended(&self) -> bool {
        self.is_sent && self.answers == 0
    }

    fn report(self, peer: NodeId) -> Option<Completion> {
        self.signaled.then(|| Completion {
            id: self.id,
            peer,
            status: match self.failed {
                None => CompletionStatus::Success,
                Some(error) => CompletionStatus::Failed(Box::new(error)),
            },
        })
    }
}

/// The operations of a queue pair.
#[derive(Default)]
pub(crate) struct Queue {
    ops: VecDeque<Op>,
    /// The number of the first of `ops`.
    first: u64,
    /// The number of the first operation that is not sent completely.
    next: u64,
    /// The answers that have not come, of all operations.
    answers: u32,
    /// Set when the owner is gone.
    pub(crate) retired: bool,
    /// Set while the link's list of queue pairs that wait to send has this one.
    pub(crate) listed: bool,
    /// Set while the link's list of queue pairs that may have operations to report has this one.
    pub(crate) marked: bool,
}

impl Queue {
    /// Returns the number of operations that have not been reported.
    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns true if every operation has been sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.next == self.first + self.ops.len() as u64
    }

    /// Returns true if an operation that begins now must wait for answers, if it is fenced.
    pub(crate) fn lacks_results(&self) -> bool {
        self.answers > 0
    }

    /// Appends an operation. One that is sent already must come after none that is not.
    pub(crate) fn push(&mut self, op: Op) {
        debug_assert!(!op.is_sent || self.is_sent());
        self.next += u64::from(op.is_sent);
        self.ops.push_back(op);
    }

    /// Returns the operation to send next, and its number.
    pub(crate) fn next(&mut self) -> Option<(u64, &mut Op)> {
        let number = self.next;
        self.op(number).map(|op| (number, op))
    }

    /// Records that the operation to send next is sent.
    pub(crate) fn sent(&mut self) {
        if let Some((_, op)) = self.next() {
            op.is_sent = true;
            self.next += 1;
        }
    }

    /// Records that an operation awaits another answer.
    pub(crate) fn awaits(&mut self, number: u64) {
        if let Some(op) = self.op(number) {
            op.answers += 1;
            self.answers += 1;
        }
    }

    /// Records that an answer to an operation has come, and returns the operation.
    pub(crate) fn answered(&mut self, number: u64) -> Option<&mut Op> {
        self.answers -= 1;
        let op = self.op(number)?;
        op.answers -= 1;
        Some(op)
    }

    fn op(&mut self, number: u64) -> Option<&mut Op> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.ops.get_mut(at)
    }

    /// Drops ended operations that nobody wants to hear of, oldest first, up to the first that is signaled.
    pub(crate) fn drop_unsignaled(&mut self) {
        while self.ops.front().is_some_and(|op| op.has_ended() && !op.signaled) {
            self.ops.pop_front();
            self.first += 1;
        }
    }

    /// Takes the operations that have ended, oldest first, and appends their reports.
    pub(crate) fn take_ended(&mut self, peer: NodeId, reports: &mut Vec<Completion>) {
        while self.ops.front().is_some_and(Op::has_ended) {
            self.first += 1;
            reports.extend(self.ops.pop_front().and_then(|op| op.report(peer)));
        }
    }

    /// Gives up all operations, because of `error`. Those that had ended before are reported as they ended.
    pub(crate) fn give_up(&mut self, peer: NodeId, error: &FabricError, reports: &mut Vec<Completion>) {
        self.first += self.ops.len() as u64;
        self.next = self.first;
        self.answers = 0;
        let mut in_order = true;
        for mut op in std::mem::take(&mut self.ops) {
            in_order &= op.has_ended();
            if !in_order {
                op.failed = Some(error.clone());
            }
            reports.extend(op.report(peer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(id: u64, is_sent: bool) -> Op {
        Op {
            kind: Kind::Flush,
            id: WorkRequestId(id),
            signaled: true,
            fenced: false,
            place: 0,
            len: 0,
            local: None,
            data: SmallVec::new(),
            operands: SmallVec::new(),
            sent: 0,
            is_sent,
            answers: 0,
            failed: None,
        }
    }

    fn ended(queue: &mut Queue) -> Vec<u64> {
        let mut reports = Vec::new();
        queue.take_ended(NodeId(1), &mut reports);
        reports.iter().map(|completion| completion.id.0).collect()
    }

    #[test]
    fn operations_end_in_the_order_in_which_they_were_posted() {
        let mut queue = Queue::default();
        queue.push(op(0, true));
        queue.awaits(0);
        queue.push(op(1, true));
        queue.push(op(2, false));
        assert!(queue.lacks_results() && !queue.is_sent());
        assert_eq!(ended(&mut queue), [], "the first awaits an answer");
        assert!(queue.answered(0).is_some());
        assert_eq!(ended(&mut queue), [0, 1]);
        assert_eq!(queue.next().map(|(number, _)| number), Some(2));
        queue.sent();
        assert!(queue.is_sent() && !queue.lacks_results());
        assert_eq!(ended(&mut queue), [2]);
    }

    #[test]
    fn what_had_ended_in_order_is_not_lost_with_the_peer() {
        let mut queue = Queue::default();
        for number in 0..3 {
            queue.push(op(number, true));
        }
        queue.awaits(1);
        let mut reports = Vec::new();
        queue.give_up(NodeId(1), &FabricError::PeerLost(NodeId(1)), &mut reports);
        let succeeded: Vec<_> = reports
            .iter()
            .map(|one| one.status == CompletionStatus::Success)
            .collect();
        assert_eq!(succeeded, [true, false, false]);
        assert_eq!(queue.len(), 0);
    }
}
