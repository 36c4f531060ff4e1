//! The operations of one queue pair under the deferred NIC, and the steps of them that may come next.
//!
//! An operation is one to three stages, each named by its stamp (LOCO'26 Fig. 10). Sending a put is a separate stage,
//! reported by its completion, and so is the return of a result, for which a fence waits. A stage may run once every earlier operation of the queue pair has done the stages
//! that the stamp order puts before it ([`Discipline::orders`]). Nothing else orders the stages. A put may be placed
//! before an earlier get reads, and a put completes before it is placed. A transfer moves in pieces of whole words,
//! so that larger values tear. Under every discipline a flush waits for all stages before it, because tests end their
//! runs by it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use loco_fabric::{Completion, CompletionStatus, FabricError, NodeId, Result, Work};
use loco_host::word;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::discipline::{Discipline, STAGES_LEN, Stage};
use crate::operation::{OperationKind, PostedOperation};

/// The maximum number of operations that have left the send queue (completed and polled) but are not placed, as a
/// multiple of its depth.
const UNPLACED_FACTOR: usize = 4;
/// The number of operations under way among which the next step is chosen. A real card works on about as many.
const WINDOW: usize = 24;

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
#[derive(Debug)]
struct Operation {
    request: PostedOperation,
    stages: &'static [Stage],
    /// The number of stages done.
    done: usize,
    /// The number of bytes moved by the current stage.
    moved: usize,
    /// The end of the current stage's rest.
    rest: Rest,
    /// Set if the operation waits for the gets and atomics before it. All operations after it wait with it.
    fence_up: bool,
    /// The value that a read-modify-write that is not atomic has read, and will compute with.
    read: Option<u64>,
}

impl Operation {
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

/// The moment at which the NIC takes a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// The number of calls (posts and polls) that threads of the node have made.
    pub(super) calls: u64,
}

/// The end of a rest. A rest in time alone would be over before a thread without a processor goes on. A rest in calls
/// lasts until the threads of the node have gone some way in their programs, however fast they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) until: Instant,
    /// See [`Moment::calls`].
    pub(super) calls: u64,
}

/// The number of powers of two to choose the length of a rest from, up to 8 calls. That is about the time until the
/// next run of a litmus test. Longer rests show less, since rests of several nodes end at one time less often.
const CALL_DOUBLINGS: u64 = 4;

/// The source of the NIC's choices.
#[derive(Debug)]
pub(super) struct Dice(SmallRng);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(SmallRng::seed_from_u64(seed))
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.0.random_range(0..bound)
        }
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Returns the end of a rest that begins now. Half of the rests need no calls, and half need no time.
    pub(super) fn rest(&mut self, at: Moment, delay_max: Duration) -> Rest {
        let calls = match self.coin() {
            true => 0,
            false => (1 << self.below(CALL_DOUBLINGS)) - 1 + self.below(2),
        };
        Rest {
            until: at.now + self.delay(delay_max),
            calls: at.calls + calls,
        }
    }

    /// Draws a delay up to `max`, log-uniformly, or none: rests of some hundred nanoseconds and of many microseconds
    /// lead to different races.
    fn delay(&mut self, max: Duration) -> Duration {
        if max.is_zero() || self.coin() {
            return Duration::ZERO;
        }
        let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        let decade = self.below(1 + u64::from(max.ilog10())) as u32;
        Duration::from_nanos(self.below(max / 10u64.pow(decade)))
    }
}

/// The operations of one queue pair, oldest first.
#[derive(Debug)]
pub(super) struct SendQueue {
    pub(super) peer: NodeId,
    depth: usize,
    discipline: Discipline,
    /// See [`Discipline::awaited`].
    awaited: [u8; STAGES_LEN],
    operations: VecDeque<Operation>,
    /// The number of operations that are completed: the oldest ones, since completions come in order.
    acknowledged: usize,
    /// The number of slots in use: operations posted and not both completed and polled.
    used: usize,
    /// The number of those completed since the last poll.
    completed: usize,
    /// Set when the queue pair was dropped: nothing more will be posted.
    pub(super) closed: bool,
    pub(super) lost: bool,
}

impl SendQueue {
    pub(super) fn new(peer: NodeId, depth: usize, discipline: Discipline) -> SendQueue {
        SendQueue {
            peer,
            depth,
            awaited: discipline.awaited(),
            discipline,
            operations: VecDeque::new(),
            acknowledged: 0,
            used: 0,
            completed: 0,
            closed: false,
            lost: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    pub(super) fn post(&mut self, request: PostedOperation, rest: Rest) -> Result<()> {
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
            moved: 0,
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
            let awaited = if is_flush {
                u8::MAX
            } else {
                self.awaited[next as usize]
            };
            let flushes = match next {
                Stage::RemoteRead => sent,
                Stage::LocalRead => returned,
                _ => false,
            };
            if earlier & awaited == 0 && !(flushes && self.discipline.reads_flush) {
                each(index, operation.rest);
            }
            let open = operation.open();
            earlier |= open;
            sent |= next == Stage::RemoteWrite;
            returned |= next == Stage::LocalWrite;
            fenced_by |= open & !(Stage::RemoteWrite.bit() | Stage::LocalWrite.bit());
        }
    }

    /// Runs the current stage of an operation, or a part of it.
    pub(super) fn step(
        &mut self,
        index: usize,
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
            (Stage::LocalRead | Stage::LocalWrite, Some((memory, offset)), _) => memory.span().phase(*offset),
            (_, _, Some((remote, offset))) => remote.span().phase(*offset),
            _ => 0,
        };
        let (from, to) = (operation.moved, piece_end(phase, operation.moved, len, dice));
        let piece = &mut request.buffer[from..to];
        match (stage, &request.local, &request.remote) {
            (Stage::LocalRead, Some((memory, offset)), _) => {
                let at = memory.span().start().addr().get() + offset + from;
                memory.span().read(offset + from, piece)?;
                overlay(piece, at, &unlanded);
            }
            (Stage::LocalWrite, Some((memory, offset)), _) => memory.span().write(offset + from, piece)?,
            (Stage::RemoteWrite, _, Some((remote, offset))) => remote.span().write(offset + from, piece)?,
            (Stage::RemoteRead, _, Some((remote, offset))) => {
                let at = remote.span().start().addr().get() + offset + from;
                remote.span().read(offset + from, piece)?;
                overlay(piece, at, &unplaced);
            }
            (Stage::Atomic, _, Some((remote, offset))) if !self.discipline.atomics_are_atomic => {
                // A read first, and at the next turn a write of what follows from it.
                let mut word = [0; 8];
                remote.span().read(*offset, &mut word)?;
                let Some(old) = operation.read else {
                    operation.read = Some(u64::from_ne_bytes(word));
                    operation.rest = dice.rest(moment, delay_max);
                    return Ok(());
                };
                if let Some(new) = request.kind.computed(old) {
                    remote.span().write(*offset, &new.to_ne_bytes())?;
                }
                request.buffer.copy_from_slice(&old.to_ne_bytes());
            }
            (Stage::Atomic, _, Some((remote, offset))) => {
                let old = request.kind.apply(remote, *offset)?;
                request.buffer.copy_from_slice(&old.to_ne_bytes());
            }
            _ => {} // Sending and returning change no memory, and a flush has neither side: its turn is its effect.
        }
        // Every observer sees the stages in the order in which they are chosen: none stays in the store
        // buffer.
        word::full_fence();
        let whole = to == len || matches!(stage, Stage::Atomic | Stage::Send | Stage::Return);
        if whole {
            operation.done += 1;
            operation.moved = 0;
        } else {
            operation.moved = to;
        }
        operation.rest = dice.rest(moment, delay_max);
        Ok(())
    }

    /// Returns the earlier puts that were sent and are not placed, as addresses and data, if gets see them.
    fn unplaced_before(&self, index: usize) -> Vec<(usize, Vec<u8>)> {
        let far = |request: &PostedOperation| {
            let (remote, offset) = request.remote.as_ref()?;
            Some(remote.span().start().addr().get() + offset)
        };
        self.under_way_before(index, Stage::RemoteWrite, far)
    }

    /// Returns the earlier results that were fetched and have not landed, as addresses and data, if puts see them.
    fn unlanded_before(&self, index: usize) -> Vec<(usize, Vec<u8>)> {
        let near = |request: &PostedOperation| {
            let (memory, offset) = request.local.as_ref()?;
            Some(memory.span().start().addr().get() + offset)
        };
        self.under_way_before(index, Stage::LocalWrite, near)
    }

    fn under_way_before(
        &self,
        index: usize,
        next: Stage,
        place: impl Fn(&PostedOperation) -> Option<usize>,
    ) -> Vec<(usize, Vec<u8>)> {
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
fn overlay(piece: &mut [u8], at: usize, writes: &[(usize, Vec<u8>)]) {
    for (start, data) in writes {
        for (byte, address) in piece.iter_mut().zip(at..) {
            if let Some(&new) = address.checked_sub(*start).and_then(|index| data.get(index)) {
                *byte = new;
            }
        }
    }
}

/// Returns the end of the piece that starts at `from`: `len`, or an earlier end of an aligned word. `phase`
/// is the address of the first byte modulo the size of a word.
fn piece_end(phase: usize, from: usize, len: usize, dice: &mut Dice) -> usize {
    if dice.coin() {
        return len;
    }
    #[allow(clippy::cast_possible_truncation)] // Below 8.
    let words = 1 + dice.below(8) as usize;
    let in_word = (phase + from) % 8;
    (from + 8 * words - in_word).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(works: &[(OperationKind, Work)]) -> SendQueue {
        let mut queue = SendQueue::new(NodeId(1), 64, Discipline::contract());
        for &(kind, work) in works {
            queue.post(PostedOperation::new(kind, work), at_once()).unwrap();
        }
        queue
    }

    fn at_once() -> Rest {
        Rest {
            until: Instant::now(),
            calls: 0,
        }
    }

    fn free(queue: &mut SendQueue) -> Vec<usize> {
        let mut free = Vec::new();
        queue.candidates(|index, _| free.push(index));
        free
    }

    fn step(queue: &mut SendQueue, index: usize) {
        let moment = Moment {
            now: Instant::now(),
            calls: 0,
        };
        queue
            .step(index, &mut Dice::new(0), Duration::ZERO, moment)
            .unwrap();
    }

    impl SendQueue {
        fn take_on(&mut self, discipline: Discipline) {
            self.awaited = discipline.awaited();
            self.discipline = discipline;
        }
    }

    const PLAIN: (OperationKind, Work) = (
        OperationKind::Get,
        Work {
            id: loco_fabric::WorkRequestId(1),
            signaled: true,
            fenced: false,
            strong: false,
            more: false,
        },
    );

    #[test]
    fn gets_may_read_in_any_order_but_land_in_order() {
        let mut queue = queue(&[PLAIN, PLAIN]);
        assert_eq!(free(&mut queue), [0, 1]);
        step(&mut queue, 1);
        assert_eq!(free(&mut queue), [0], "the second result waits for the first");
    }

    #[test]
    fn a_put_may_overtake_a_get_unless_fenced() {
        let put = (OperationKind::Put, PLAIN.1);
        assert_eq!(free(&mut queue(&[PLAIN, put])), [0, 1]);
        let mut fenced = queue(&[PLAIN, (OperationKind::Put, PLAIN.1.fenced()), put]);
        assert_eq!(free(&mut fenced), [0], "nothing passes a fence");
        step(&mut fenced, 0);
        assert_eq!(free(&mut fenced), [0], "the result is not back");
        step(&mut fenced, 0);
        assert_eq!(
            free(&mut fenced),
            [0],
            "the fence is passed, but the source is read when the result has landed"
        );
        step(&mut fenced, 0);
        assert_eq!(free(&mut fenced), [1]);
        let mut sent = queue(&[put, (OperationKind::Put, PLAIN.1.fenced())]);
        step(&mut sent, 0);
        assert_eq!(free(&mut sent), [0], "a fence waits for the sending of a put");
        step(&mut sent, 0);
        assert_eq!(free(&mut sent), [0, 1], "and not for its placement");
    }

    /// RDMA-TSO'24 Fig. 17 (GFP2): the data of an inlined put are not read, so nothing flushes the result.
    #[test]
    fn a_fenced_put_with_inlined_data_may_overtake_the_landing_of_a_result() {
        let mut fenced = queue(&[PLAIN]);
        let put = PostedOperation::new(OperationKind::Put, PLAIN.1.fenced()).inline(&[1; 8]);
        fenced.post(put, at_once()).unwrap();
        step(&mut fenced, 0);
        assert_eq!(free(&mut fenced), [0]);
        step(&mut fenced, 0);
        assert_eq!(free(&mut fenced), [0, 1]);
    }

    #[test]
    fn a_put_completes_when_it_is_sent_off_and_before_it_is_placed() {
        let mut queue = queue(&[(OperationKind::Put, PLAIN.1), (OperationKind::Flush, PLAIN.1)]);
        let mut completions = Vec::new();
        step(&mut queue, 0);
        queue.complete(&mut completions);
        assert_eq!(completions.len(), 0, "its source was read, no more");
        step(&mut queue, 0);
        queue.complete(&mut completions);
        assert_eq!(completions.len(), 1);
        assert_eq!(free(&mut queue), [0], "a flush waits for the placement");
    }

    #[test]
    fn completions_come_in_order() {
        let mut queue = queue(&[PLAIN, (OperationKind::Put, PLAIN.1)]);
        for _ in 0..3 {
            step(&mut queue, 1);
        }
        let mut completions = Vec::new();
        queue.complete(&mut completions);
        assert_eq!(completions, [], "the put is done, the get before it is not");
    }

    #[test]
    fn a_discipline_without_a_cell_frees_that_stage_alone() {
        let mut loose = queue(&[
            (OperationKind::Put, PLAIN.1),
            PLAIN,
            (OperationKind::Flush, PLAIN.1),
        ]);
        step(&mut loose, 0);
        assert_eq!(free(&mut loose), [0], "the get waits for the placement (G8)");
        loose.take_on(Discipline::contract().with(Stage::RemoteWrite, Stage::RemoteRead, false));
        assert_eq!(free(&mut loose), [0, 1], "the flush still waits");
        step(&mut loose, 1);
        assert_eq!(free(&mut loose), [0], "the result waits for the placement (G9)");
        step(&mut loose, 0);
        let mut sent = queue(&[(OperationKind::Put, PLAIN.1), PLAIN]);
        sent.take_on(Discipline::contract().with(Stage::RemoteWrite, Stage::RemoteRead, false));
        step(&mut sent, 0);
        step(&mut sent, 0);
        assert_eq!(
            free(&mut sent),
            [0],
            "a read places what was sent off (the PCIe flush)"
        );
        sent.take_on(Discipline::without_pcie());
        assert_eq!(free(&mut sent), [0, 1], "without the guarantee it does not");
    }

    #[test]
    fn pieces_end_at_words() {
        let mut dice = Dice::new(1);
        for phase in 0..8 {
            let (mut from, len) = (0, 300);
            while from < len {
                let to = piece_end(phase, from, len, &mut dice);
                assert!(to > from && (to == len || (phase + to).is_multiple_of(8)));
                from = to;
            }
        }
    }
}
