//! What the threads of a node have done, counted for exporters of metrics ([`crate::metrics`]).
//!
//! A thread counts in words of its own, by loads and stores that nobody contends for. Without the feature `metrics` nothing is counted,
//! and nothing of this is left in a program. The words are those of the standard library, not of the fabric's platform: no
//! object may depend on them, and the model need not see them.

use crate::operations::operation::OperationKind;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Puts that were posted or done, and the bytes that they move.
    Puts,
    PutBytes,
    /// Gets, likewise.
    Gets,
    GetBytes,
    /// Read-modify-writes, likewise.
    Atomics,
    AtomicBytes,
    /// Flushes.
    Flushes,
    /// Fences that needed a flush, a wait for an operation, or a fence of the processor: one for each peer, but for the last.
    FencesByFlush,
    FencesByWait,
    FencesByCpu,
    /// Attempts that were made again: to post, as a queue was full; to take a lock; to read a value that was being written.
    PostsAgain,
    LocksAgain,
    ReadsAgain,
    /// Waits for a lock.
    LockWaits,
    /// Copies of a store's values that were made after a loss, and values that were found with too few.
    CopiesMade,
    CopiesShort,
    /// Completions that were polled.
    Completions,
}

impl Count {
    /// Returns the counts of operations of a kind, and of their bytes.
    #[inline]
    fn of(kind: OperationKind) -> (Count, Option<Count>) {
        match kind {
            OperationKind::Put => (Count::Puts, Some(Count::PutBytes)),
            OperationKind::Read => (Count::Gets, Some(Count::GetBytes)),
            OperationKind::Atomic => (Count::Atomics, Some(Count::AtomicBytes)),
            OperationKind::Flush => (Count::Flushes, None),
        }
    }
}

#[cfg(feature = "metrics")]
pub(crate) use counted::{NodeCounts, ThreadCounts};
#[cfg(not(feature = "metrics"))]
pub(crate) use uncounted::{NodeCounts, ThreadCounts};

#[cfg(feature = "metrics")]
mod counted {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use super::{Count, OperationKind};

    const COUNTS: usize = Count::Completions as usize + 1;

    /// A word for each count.
    #[derive(Default)]
    #[repr(align(128))] // Words of different threads are in different lines, and in different pairs of lines.
    struct Words([AtomicU64; COUNTS]);

    /// The counts of a thread. Only that thread, or whoever has its state, adds to them.
    #[derive(Clone)]
    pub(crate) struct ThreadCounts(Arc<Words>);

    impl ThreadCounts {
        /// Adds to a count.
        #[inline]
        pub(crate) fn add(&self, count: Count, more: u64) {
            let word = &self.0.0[count as usize];
            // Relaxed: a number that publishes nothing. Nobody else stores it.
            word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        }

        /// Counts operations of a kind, which together move so many bytes.
        #[inline]
        pub(crate) fn operations(&self, kind: OperationKind, operations: u64, bytes: usize) {
            let (count, its_bytes) = Count::of(kind);
            self.add(count, operations);
            if let Some(count) = its_bytes {
                self.add(count, bytes as u64);
            }
        }
    }

    /// The counts of a node: of its threads, and of what no single thread does.
    #[derive(Clone, Default)]
    pub(crate) struct NodeCounts(Arc<Node>);

    #[derive(Default)]
    struct Node {
        shared: Words,
        threads: Mutex<Vec<ThreadCounts>>,
    }

    impl NodeCounts {
        /// Adds to a count that several threads share.
        pub(crate) fn add(&self, count: Count, more: u64) {
            // Relaxed: a number that publishes nothing.
            self.0.shared.0[count as usize].fetch_add(more, Ordering::Relaxed);
        }

        /// Returns the counts for the state of a new thread.
        pub(crate) fn new_thread(&self) -> ThreadCounts {
            let counts = ThreadCounts(Arc::default());
            let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.push(counts.clone());
            counts
        }

        /// Returns a count of the whole node.
        pub(crate) fn total(&self, count: Count) -> u64 {
            let threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
            let words = threads.iter().map(|thread| &*thread.0).chain([&self.0.shared]);
            words
                .map(|words| words.0[count as usize].load(Ordering::Relaxed))
                .fold(0, u64::wrapping_add)
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod uncounted {
    use super::{Count, OperationKind};

    /// Stands for the counts of a thread.
    #[derive(Clone)]
    pub(crate) struct ThreadCounts;

    impl ThreadCounts {
        #[inline(always)]
        #[allow(clippy::unused_self)] // As where it counts.
        pub(crate) fn add(&self, _: Count, _: u64) {}

        #[inline(always)]
        #[allow(clippy::unused_self)]
        pub(crate) fn operations(&self, kind: OperationKind, _: u64, _: usize) {
            let _ = Count::of(kind);
        }
    }

    /// Stands for the counts of a node.
    #[derive(Clone, Default)]
    pub(crate) struct NodeCounts(());

    impl NodeCounts {
        #[inline(always)]
        #[allow(clippy::unused_self)]
        pub(crate) fn add(&self, _: Count, _: u64) {}

        #[inline(always)]
        #[allow(clippy::unused_self)]
        pub(crate) fn new_thread(&self) -> ThreadCounts {
            ThreadCounts
        }
    }
}
