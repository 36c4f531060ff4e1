//! The operations of one queue pair under the deferred NIC, and the steps of them that may come next.
//!
//! An operation is one to three stages, each named by its stamp (LOCO'26 Fig. 10). Sending a put is a separate stage,
//! reported by its completion, and so is the return of a result, for which a fence waits. A stage may run once every earlier
//! operation of the queue pair has done the stages that the discipline puts before it ([`Discipline::orders`]), if the
//! bus allows it ([`Bus`]). Nothing else orders the stages. A put may be placed before an earlier get reads, and a put
//! completes before it is placed. A transfer moves in pieces of whole words, in any order, so that larger values tear.
//! Under every discipline a flush waits for all stages before it, because tests end their runs by it.

use std::collections::VecDeque;
use std::time::Duration;

use loco_fabric::{
    Completion, CompletionStatus, Fabric, FabricError, Memory, NodeId, QueuePair, Result, Target, Work,
};
use loco_host::word;

use super::dice::{Dice, Moment, Rest, pieces};
use super::discipline::{Bus, Discipline, STAGES_LEN, Stage};
use super::operation::{OperationKind, PostedOperation};
use super::place::Place;

/// The maximum number of operations that have left the send queue (completed and polled) but are not placed, as a
/// multiple of its depth.
const UNPLACED_FACTOR: usize = 4;
/// The number of operations under way among which the next step is chosen. A real card works on about as many.
const WINDOW: usize = 24;

/// The longest inline put of the other fabric that the card makes. Whole words: those at its ends do not tear.
pub(super) const CHUNK: usize = 1 << 16;

/// Returns the stages of an operation of this kind, in order.
fn stages(kind: OperationKind, inline: bool) -> &'static [Stage] {
    match kind {
        OperationKind::Put if inline => &[Stage::Send, Stage::RemoteWrite],
        OperationKind::Put => &[Stage::LocalRead, Stage::Send, Stage::RemoteWrite],
        OperationKind::Get | OperationKind::Flush => &[Stage::RemoteRead, Stage::Return, Stage::LocalWrite],
        OperationKind::FetchAdd { .. } | OperationKind::CompareSwap { .. } => {
            &[Stage::Atomic, Stage::Return, Stage::LocalWrite]
        }
    }
}

/// An operation under way.
struct Operation<F: Fabric> {
    request: PostedOperation<F>,
    stages: &'static [Stage],
    /// The number of stages done.
    done: usize,
    /// The pieces that the current stage has yet to move, from one byte up to another. Empty before it begins.
    left: Vec<(usize, usize)>,
    /// The place of the last send or return in the order of all of the queue pair.
    issued_at: u64,
    /// The end of the current stage's rest.
    rest: Rest,
    /// Set if the operation waits for the gets and atomics before it. All operations after it wait with it.
    fence_up: bool,
    /// The value that a read-modify-write that is not atomic has read, and will compute with.
    read: Option<u64>,
}

impl<F: Fabric> Operation<F> {
    fn is_done(&self) -> bool {
        self.done == self.stages.len()
    }

    /// Returns the stage that comes next.
    fn next(&self) -> Option<Stage> {
        self.stages.get(self.done).copied()
    }

    /// Returns the stages that are open, a bit for each.
    fn open(&self) -> u8 {
        let open = self.stages[self.done..].iter();
        open.fold(0, |bits, stage| bits | stage.bit())
    }

    /// Returns whether the operation may complete. By the contract, a put may when it is sent, any other when it is
    /// done.
    fn may_complete(&self, discipline: &Discipline) -> bool {
        match self.request.kind {
            OperationKind::Put if discipline.put_waits_for_placement => self.is_done(),
            OperationKind::Put => {
                self.open() & !Stage::RemoteWrite.bit() == 0 || !discipline.put_waits_for_read
            }
            OperationKind::Flush => self.is_done(),
            _ => self.is_done() || (self.done > 0 && !discipline.get_waits_for_result),
        }
    }
}

/// The operations of one queue pair, oldest first.
pub(super) struct SendQueue<F: Fabric> {
    pub(super) peer: NodeId,
    depth: usize,
    discipline: Discipline,
    /// See [`Discipline::awaited`].
    awaited: [u8; STAGES_LEN],
    operations: VecDeque<Operation<F>>,
    /// The number of operations that are completed: the oldest ones, since completions come in order.
    acknowledged: usize,
    /// The number of sends and returns so far.
    issues: u64,
    /// The number of slots in use: operations posted and not both completed and polled.
    used: usize,
    /// The number of those completed since the last poll.
    completed: usize,
    /// Set when the queue pair was dropped: nothing more will be posted.
    pub(super) closed: bool,
    pub(super) lost: bool,
}

impl<F: Fabric> SendQueue<F> {
    pub(super) fn new(peer: NodeId, depth: usize, discipline: Discipline) -> SendQueue<F> {
        SendQueue {
            peer,
            depth,
            awaited: discipline.awaited(),
            discipline,
            operations: VecDeque::new(),
            acknowledged: 0,
            issues: 0,
            used: 0,
            completed: 0,
            closed: false,
            lost: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    pub(super) fn post(&mut self, request: PostedOperation<F>, rest: Rest) -> Result<()> {
        if self.lost {
            return Err(FabricError::PeerLost(self.peer));
        }
        if self.used >= self.depth || self.operations.len() >= self.depth.saturating_mul(UNPLACED_FACTOR) {
            return Err(FabricError::QueueFull(self.peer));
        }
        self.used += 1;
        self.operations.push_back(Operation {
            stages: stages(request.kind, request.inline),
            done: 0,
            left: Vec::new(),
            issued_at: 0,
            rest,
            fence_up: request.work.fenced,
            read: None,
            request,
        });
        Ok(())
    }

    /// Frees the slots of completed operations, whose completions have been handed out.
    pub(super) fn polled(&mut self) {
        self.used -= self.completed;
        self.completed = 0;
    }

    /// Hands out the operations whose current stage may run, with the end of their rest.
    pub(super) fn candidates(&mut self, mut each: impl FnMut(usize, Rest)) {
        let (mut earlier, mut fenced_by) = (0, 0);
        let (first_sent, first_returned) = self.first_issued();
        let fifo = self.discipline.bus == Bus::Fifo;
        // Whether an earlier put was sent and is not placed, and whether an earlier result is back and has not landed.
        let (mut sent, mut returned) = (false, false);
        let mut under_way = 0;
        for (index, operation) in self.operations.iter_mut().enumerate() {
            let Some(next) = operation.next() else { continue };
            // A fence waits for the return of earlier results, and for the sending of earlier puts.
            operation.fence_up &= fenced_by != 0 && self.discipline.fences;
            if operation.fence_up || under_way == WINDOW {
                return;
            }
            under_way += 1;
            let is_flush = operation.request.kind == OperationKind::Flush;
            let mut awaited = if is_flush {
                u8::MAX
            } else {
                self.awaited[next as usize]
            };
            if operation.request.work.strong {
                awaited |= self.discipline.strong_awaits(next);
            }
            let flushes = match next {
                Stage::RemoteRead => sent,
                Stage::LocalRead => returned,
                _ => false,
            };
            let comes_first = |first: Option<u64>| first == Some(operation.issued_at);
            let bus_is_ready = match next {
                _ if !fifo => true,
                Stage::RemoteWrite => comes_first(first_sent),
                Stage::LocalWrite => comes_first(first_returned),
                Stage::RemoteRead | Stage::Atomic => first_sent.is_none(),
                Stage::LocalRead => first_returned.is_none(),
                Stage::Send | Stage::Return => true,
            };
            if earlier & awaited == 0 && bus_is_ready && !(flushes && self.discipline.reads_flush) {
                each(index, operation.rest);
            }
            let open = operation.open();
            earlier |= open;
            sent |= next == Stage::RemoteWrite;
            returned |= next == Stage::LocalWrite;
            fenced_by |= open & self.discipline.fence_awaits;
        }
    }

    /// Returns the places of the first put that was sent and is not placed, and of the first result that is back and has
    /// not landed.
    fn first_issued(&self) -> (Option<u64>, Option<u64>) {
        let first = |next: Stage| {
            let under_way = self.operations.iter().filter(|o| o.next() == Some(next));
            under_way.map(|operation| operation.issued_at).min()
        };
        match self.discipline.bus {
            Bus::Fifo => (first(Stage::RemoteWrite), first(Stage::LocalWrite)),
            Bus::Table | Bus::Unordered => (None, None),
        }
    }

    /// Runs the current stage of an operation, or a part of it, by `qp`.
    pub(super) fn step(
        &mut self,
        index: usize,
        qp: &mut F::QueuePair,
        dice: &mut Dice,
        delay_max: Duration,
        moment: Moment,
    ) -> Result<()> {
        let (unplaced, unlanded) = (self.unplaced_before(index), self.unlanded_before(index));
        let Some(operation) = self.operations.get_mut(index) else {
            return Ok(());
        };
        let request = &mut operation.request;
        let stage = operation.stages[operation.done];
        let len = request.buffer.len();
        let phase = match (stage, &request.local, &request.remote) {
            (Stage::LocalRead | Stage::LocalWrite, Some((_, place)), _) | (_, _, Some((_, place))) => {
                place.phase()
            }
            _ => 0,
        };
        let moves = !matches!(stage, Stage::Atomic | Stage::Send | Stage::Return);
        if operation.left.is_empty() {
            operation.left = match moves {
                true => pieces(phase, len, dice),
                false => vec![(0, len)],
            };
        }
        let (from, to) = operation.left.pop().unwrap_or((0, len));
        let piece = &mut request.buffer[from..to];
        match (stage, &request.local, &request.remote) {
            (Stage::LocalRead, Some((memory, place)), _) => {
                memory.read(from, piece)?;
                overlay(piece, place.plus(from), &unlanded);
            }
            (Stage::LocalWrite, Some((memory, _)), _) => memory.write(from, piece)?,
            (Stage::RemoteWrite, _, Some((remote, _))) => {
                for (index, chunk) in piece.chunks(CHUNK).enumerate() {
                    let offset = from + CHUNK * index;
                    let _done = qp.put_inline(chunk, Target { remote, offset }, Work::unsignaled())?;
                }
            }
            (Stage::RemoteRead, _, Some((remote, place))) => {
                let source = Target { remote, offset: from };
                qp.read_at_once(source, piece)?;
                overlay(piece, place.plus(from), &unplaced);
            }
            (Stage::Atomic, _, Some((remote, _))) if !self.discipline.atomics_are_atomic => {
                // A read first, and at the next turn a write of what follows from it.
                let mut word = [0; 8];
                qp.read_at_once(Target { remote, offset: 0 }, &mut word)?;
                let Some(old) = operation.read else {
                    operation.read = Some(u64::from_ne_bytes(word));
                    operation.rest = dice.rest(moment, delay_max);
                    return Ok(());
                };
                if let Some(new) = request.kind.computed(old) {
                    let target = Target { remote, offset: 0 };
                    let _done = qp.put_inline(&new.to_ne_bytes(), target, Work::unsignaled())?;
                }
                request.buffer.copy_from_slice(&old.to_ne_bytes());
            }
            (Stage::Atomic, _, Some((remote, _))) => {
                let target = Target { remote, offset: 0 };
                let Some(old) = qp.word_at_once(target, request.kind.word_op())? else {
                    unreachable!("the fabric executes operations on words at once");
                };
                request.buffer.copy_from_slice(&old.to_ne_bytes());
            }
            _ => {} // Sending and returning change no memory, and a flush has neither side: its turn is its effect.
        }
        // Every observer sees the stages in the order in which they are chosen: none stays in the store
        // buffer.
        word::full_fence();
        if operation.left.is_empty() {
            operation.done += 1;
        }
        if matches!(stage, Stage::Send | Stage::Return) {
            operation.issued_at = self.issues;
            self.issues += 1;
        }
        operation.rest = dice.rest(moment, delay_max);
        Ok(())
    }

    /// Returns the earlier puts that were sent and are not placed, as addresses and data, if gets see them.
    fn unplaced_before(&self, index: usize) -> Vec<(Place, Vec<u8>)> {
        let far = |request: &PostedOperation<F>| request.remote.as_ref().map(|(_, place)| *place);
        self.under_way_before(index, Stage::RemoteWrite, far)
    }

    /// Returns the earlier results that were fetched and have not landed, as addresses and data, if puts see them.
    fn unlanded_before(&self, index: usize) -> Vec<(Place, Vec<u8>)> {
        let near = |request: &PostedOperation<F>| request.local.as_ref().map(|(_, place)| *place);
        self.under_way_before(index, Stage::LocalWrite, near)
    }

    fn under_way_before(
        &self,
        index: usize,
        next: Stage,
        place: impl Fn(&PostedOperation<F>) -> Option<Place>,
    ) -> Vec<(Place, Vec<u8>)> {
        if !self.discipline.forwards {
            return Vec::new();
        }
        let before = self.operations.iter().take(index);
        let under_way = before.filter(|operation| operation.next() == Some(next));
        let data = under_way.filter_map(|o| Some((place(&o.request)?, o.request.buffer.clone())));
        data.collect()
    }

    /// Completes the operations that may complete, in order, and removes finished ones. Returns true if a
    /// poll would find something: a completion or a slot to free.
    pub(super) fn complete(&mut self, completions: &mut Vec<Completion>) -> bool {
        let before = self.completed;
        while let Some(operation) = self.operations.get(self.acknowledged) {
            if !operation.may_complete(&self.discipline) {
                break;
            }
            self.acknowledged += 1;
            self.completed += 1;
            report(
                &operation.request.work,
                self.peer,
                CompletionStatus::Success,
                completions,
            );
        }
        while self.acknowledged > 0 && self.operations.front().is_some_and(Operation::is_done) {
            self.operations.pop_front();
            self.acknowledged -= 1;
        }
        self.completed > before
    }

    /// Fails the incomplete operations because the peer or this node is gone. Unplaced puts are never placed.
    pub(super) fn fail(&mut self, error: &FabricError, completions: &mut Vec<Completion>) {
        self.lost = true;
        let acknowledged = std::mem::take(&mut self.acknowledged);
        for operation in self.operations.drain(..).skip(acknowledged) {
            let status = CompletionStatus::Failed(Box::new(error.clone()));
            report(&operation.request.work, self.peer, status, completions);
        }
    }
}

fn report(work: &Work, peer: NodeId, status: CompletionStatus, completions: &mut Vec<Completion>) {
    if work.signaled {
        let id = work.id;
        completions.push(Completion { id, peer, status });
    }
}

/// Writes the parts of `writes` that fall on `piece`, which was read from `at`, over it. The last write wins.
fn overlay(piece: &mut [u8], at: Place, writes: &[(Place, Vec<u8>)]) {
    for (start, data) in writes {
        for (offset, byte) in piece.iter_mut().enumerate() {
            if let Some(&new) = at.plus(offset).since(*start).and_then(|index| data.get(index)) {
                *byte = new;
            }
        }
    }
}

#[cfg(test)]
#[path = "send_queue_tests.rs"]
mod tests;
