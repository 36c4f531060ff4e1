//! The slots of a thread's operations: which have ended, why some failed, and whom to wake.
//!
//! ```text
//! poller                                       thread that waits
//! (failed: note why)                           look at the slot: not ended
//! slot = number of the operation, and fence    leave a waker; sleepers = 1, and fence
//! if sleepers: take the wakers, and wake       look at the slot once more
//! ```
//!
//! No wake-up is lost: of the two fences one comes first, so that the poller sees the sleeper or the sleeper the slot. A slot has the
//! number of the operation that ended there last, since later ones use it again. Of those before, the table of failures says which
//! have failed.
//!
//! Over any platform and any size of the window: in `model`, a test, they are run under loom. Used by
//! [`completion`](super::completion).

#[cfg(test)]
mod model;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::task::Waker;

use loco_fabric::{AtomicCell, FabricError, Lock, Platform};

/// The number of slots in a thread's window, which is the most operations of one thread that may be under way
/// at a time.
pub(crate) const WINDOW_SLOTS: u64 = 1 << 16;
const CHUNK_SLOTS: u64 = 1 << 10;
/// The number of failures remembered per thread. Older ones are forgotten first.
const FAILURES_MAX: usize = 4096;

const _: () = assert!(WINDOW_SLOTS.is_multiple_of(CHUNK_SLOTS));
const _: () = assert!(WINDOW_SLOTS.is_power_of_two());

/// The status of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    Done,
    Failed,
}

/// The slots of one thread, in chunks of `CHUNK` that are allocated when first used.
pub(crate) struct Slots<P: Platform, const WINDOW: u64 = WINDOW_SLOTS, const CHUNK: u64 = CHUNK_SLOTS> {
    /// The slots. Each is 0, or twice the sequence number that ended there last, plus one if it failed. The
    /// posting thread writes the later chunk cells once, without waiting, and makes no platform step inside.
    chunks: Box<[OnceLock<Chunk<P>>]>,
    failures: P::Mutex<Failures>,
    /// Nonzero while there are `wakers`.
    sleepers: P::AtomicU32,
    /// The wakers, by the operation that a future waits for and the name of its sleep.
    wakers: P::Mutex<BTreeMap<(u64, u64), Waker>>,
}

type Chunk<P> = Box<[<P as Platform>::AtomicU64]>;

/// The causes of the latest failures.
#[derive(Default)]
struct Failures {
    causes: BTreeMap<u64, FabricError>,
    /// The last operation whose failure was forgotten, or 0.
    forgotten: u64,
}

impl Failures {
    fn insert(&mut self, seq: u64, error: FabricError) {
        self.causes.insert(seq, error);
        if self.causes.len() > FAILURES_MAX
            && let Some((oldest, _)) = self.causes.pop_first()
        {
            self.forgotten = self.forgotten.max(oldest);
        }
    }

    /// Returns whether operation `seq`, whose slot was reused, may have failed. Every operation up to
    /// `forgotten` is reported as failed: the record that would tell its success from a failure is gone.
    fn may_have(&self, seq: u64) -> bool {
        seq <= self.forgotten || self.causes.contains_key(&seq)
    }
}

impl<P: Platform, const WINDOW: u64, const CHUNK: u64> Slots<P, WINDOW, CHUNK> {
    /// Returns the slots of a new window. If it is `used`, the first chunk is there: other threads then know the words in
    /// which they record completions from the beginning, as a model of threads that share nothing else requires.
    pub(crate) fn new(used: bool) -> Self {
        let chunks = (0..WINDOW / CHUNK).map(|number| match used && number == 0 {
            true => OnceLock::from(Self::empty_chunk()),
            false => OnceLock::new(),
        });
        Slots {
            chunks: chunks.collect(),
            failures: Lock::new(Failures::default()),
            sleepers: AtomicCell::new(0),
            wakers: Lock::new(BTreeMap::new()),
        }
    }

    fn empty_chunk() -> Chunk<P> {
        (0..CHUNK).map(|_| AtomicCell::new(0)).collect()
    }

    #[allow(clippy::cast_possible_truncation)] // Below the number of chunks.
    fn chunk(&self, seq: u64) -> &OnceLock<Chunk<P>> {
        &self.chunks[(seq % WINDOW / CHUNK) as usize]
    }

    #[allow(clippy::cast_possible_truncation)] // Below the size of a chunk.
    fn in_chunk(seq: u64) -> usize {
        (seq % CHUNK) as usize
    }

    /// Makes the slot of `seq` ready before the operation is posted.
    pub(crate) fn prepare(&self, seq: u64) {
        self.chunk(seq).get_or_init(Self::empty_chunk);
    }

    /// Returns the status of operation `seq`.
    pub(crate) fn status(&self, seq: u64) -> Status {
        let Some(chunk) = self.chunk(seq).get() else {
            return Status::Pending;
        };
        // This pairs with `leave_waker`. Everything that the completion promises is ordered before the
        // slot's store.
        let mark = chunk[Self::in_chunk(seq)].load();
        match mark >> 1 {
            ended if ended < seq => Status::Pending,
            ended if ended == seq && mark & 1 == 0 => Status::Done,
            ended if ended == seq => Status::Failed,
            // The slot has been used again since, so only the table of failures knows.
            _ if self.failures.lock().may_have(seq) => Status::Failed,
            _ => Status::Done,
        }
    }

    /// Returns the reason that operation `seq` failed.
    pub(crate) fn failure(&self, seq: u64) -> FabricError {
        self.failures
            .lock()
            .causes
            .get(&seq)
            .cloned()
            .unwrap_or_else(|| FabricError::Os {
                what: "an operation failed, or ended before others that did".to_owned(),
                source: format!("more than {FAILURES_MAX} operations have failed since: which is forgotten")
                    .into(),
            })
    }

    /// Records the end of operation `seq`, with its cause if it failed, and adds to `woken` the wakers of the futures that sleep until
    /// that end.
    pub(crate) fn end(&self, seq: u64, error: Option<FabricError>, woken: &mut Vec<Waker>) {
        let failed = error.is_some();
        if let Some(error) = error {
            // Before the slot: whoever sees that it failed finds the cause.
            self.failures.lock().insert(seq, error);
        }
        if let Some(chunk) = self.chunk(seq).get() {
            chunk[Self::in_chunk(seq)].store_fence(seq << 1 | u64::from(failed));
        }
        if self.sleepers.load() != 0 {
            self.take_wakers(seq..=seq, woken);
        }
    }

    /// Takes the wakers of the futures that sleep until one of these operations ends.
    pub(crate) fn take_wakers(&self, ended: RangeInclusive<u64>, woken: &mut Vec<Waker>) {
        let mut wakers = self.wakers.lock();
        let names = (*ended.start(), 0)..=(*ended.end(), u64::MAX);
        let names: Vec<_> = wakers.range(names).map(|(&name, _)| name).collect();
        woken.extend(names.iter().filter_map(|name| wakers.remove(name)));
        self.sleepers.store_fence(u32::from(!wakers.is_empty()));
    }

    /// Leaves `waker` for the end of operation `seq`, in place of an earlier one of the sleep `name`. The caller must look at the
    /// operation again afterwards: if the operation has ended in between, either that look sees it or the waker is called.
    pub(crate) fn leave_waker(&self, seq: u64, name: u64, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        match wakers.get_mut(&(seq, name)) {
            Some(left) => left.clone_from(waker),
            None => drop(wakers.insert((seq, name), waker.clone())),
        }
        // Fenced, as is the slot's store: either the poller sees the sleeper or the sleeper the slot.
        self.sleepers.store_fence(1);
    }

    /// Takes the waker of the sleep `name` back, if it has not been called.
    pub(crate) fn take_waker_back(&self, seq: u64, name: u64) {
        let mut wakers = self.wakers.lock();
        let waker = wakers.remove(&(seq, name));
        if wakers.is_empty() {
            self.sleepers.store(0);
        }
        drop(wakers);
        // The lock is not held here: this may be the last handle on a task, which has destructors.
        drop(waker);
    }
}
