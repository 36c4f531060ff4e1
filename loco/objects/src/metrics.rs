//! The counters of a node, for the facade of the crate [`metrics`](::metrics) and so for every exporter (feature `metrics`).
//!
//! A node counts in any case while the feature is on. [`Counters`] hands its numbers to the recorder that the program has installed,
//! from time to time and when it is asked to. `docs/seeing-a-job.md` lists the counters. Each has the label `node`.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter};
use loco_fabric::{Fabric, FabricError, NodeId};
use loco_job::missed_by;

use crate::operations::counts::{Count, NodeCounts};
use crate::{Manager, Result};

/// Operations towards peers: label `kind`, which is `put`, `get`, `atomic` or `flush`.
pub const OPERATIONS: &str = "loco_operations_total";
/// Bytes that these operations move: label `kind`, which is `put`, `get` or `atomic`.
pub const BYTES: &str = "loco_bytes_total";
/// Fences that cost something: label `with`, which names the cost: `flush` (a flush of a queue pair), `wait` (for
/// operations under way) or `cpu` (a fence of the processor).
pub const FENCES: &str = "loco_fences_bought_total";
/// Attempts that were made again: label `of`, which is `post` (a queue was full), `lock` (another node held it) or `read` (the value was
/// being written).
pub const RETRIES: &str = "loco_retries_total";
/// Calls that waited for a lock, once for the threads of the own node and once for other nodes.
pub const LOCK_WAITS: &str = "loco_lock_waits_total";
/// Copies of stores' values that this node has made after losses.
pub const COPIES_MADE: &str = "loco_copies_made_total";
/// Values that this node found, after a loss, with too few copies and no home left for another.
pub const COPIES_SHORT: &str = "loco_copies_short_total";
/// Lost nodes: each that a call of this node has reported as lost counts once.
pub const LOSSES: &str = "loco_losses_total";
/// Completions that were polled.
pub const COMPLETIONS: &str = "loco_completions_total";

/// The name and the value of a label.
type Label = (&'static str, &'static str);

/// Each count: its counter, and the label that tells it from others of that counter.
const ALL: [(Count, &str, Option<Label>); 17] = [
    (Count::Puts, OPERATIONS, Some(("kind", "put"))),
    (Count::Gets, OPERATIONS, Some(("kind", "get"))),
    (Count::Atomics, OPERATIONS, Some(("kind", "atomic"))),
    (Count::Flushes, OPERATIONS, Some(("kind", "flush"))),
    (Count::PutBytes, BYTES, Some(("kind", "put"))),
    (Count::GetBytes, BYTES, Some(("kind", "get"))),
    (Count::AtomicBytes, BYTES, Some(("kind", "atomic"))),
    (Count::FencesByFlush, FENCES, Some(("with", "flush"))),
    (Count::FencesByWait, FENCES, Some(("with", "wait"))),
    (Count::FencesByCpu, FENCES, Some(("with", "cpu"))),
    (Count::PostsAgain, RETRIES, Some(("of", "post"))),
    (Count::LocksAgain, RETRIES, Some(("of", "lock"))),
    (Count::ReadsAgain, RETRIES, Some(("of", "read"))),
    (Count::LockWaits, LOCK_WAITS, None),
    (Count::CopiesMade, COPIES_MADE, None),
    (Count::CopiesShort, COPIES_SHORT, None),
    (Count::Completions, COMPLETIONS, None),
];

/// Hands the counters of a node to the program's recorder until it is dropped.
///
/// ```no_run
/// use std::time::Duration;
/// use loco::metrics::Counters;
///
/// // Install a recorder first, such as that of `metrics-exporter-prometheus`.
/// loco::run(|node| {
///     let _counters = Counters::publish(node, Duration::from_secs(1))?;
///     Ok::<_, loco::Error>(())
/// })?;
/// # Ok::<(), loco::Error>(())
/// ```
pub struct Counters {
    source: Source,
    stopped: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Counters {
    /// Hands the counters of `manager`'s node to the recorder now and each time that `every` has passed.
    ///
    /// # Errors
    /// Returns [`Os`](crate::fabric::FabricError::Os) when the thread that does so cannot be started.
    pub fn publish<F: Fabric>(manager: &Manager<F>, every: Duration) -> Result<Counters> {
        let source = Source {
            node: manager.node(),
            counts: manager.network().counts().clone(),
        };
        source.describe();
        source.publish();
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        let (its_source, its_stopped) = (source.clone(), stopped.clone());
        let body = move || its_source.publish_until(&its_stopped, every);
        let name = format!("loco-metrics-{}", source.node.0);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(body)
            .map_err(|error| FabricError::os("starting the thread that publishes counters", &error))?;
        Ok(Counters {
            source,
            stopped,
            thread: Some(thread),
        })
    }

    /// Hands the counters to the recorder at once.
    pub fn publish_now(&self) {
        self.source.publish();
    }
}

impl Drop for Counters {
    /// Hands the counters to the recorder a last time.
    fn drop(&mut self) {
        *self.stopped.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.1.notify_all();
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!("the thread that publishes counters panicked");
        }
        self.source.publish();
    }
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters")
            .field("node", &self.source.node)
            .finish_non_exhaustive()
    }
}

/// A node whose counters are published.
#[derive(Clone)]
struct Source {
    node: NodeId,
    counts: NodeCounts,
}

impl Source {
    #[allow(clippy::unused_self)] // Of a node that is published.
    fn describe(&self) {
        describe_counter!(OPERATIONS, Unit::Count, "Operations towards peers");
        describe_counter!(BYTES, Unit::Bytes, "Bytes that operations towards peers move");
        describe_counter!(FENCES, Unit::Count, "Fences that were not free");
        describe_counter!(RETRIES, Unit::Count, "Attempts that were made again");
        describe_counter!(LOCK_WAITS, Unit::Count, "Calls that waited for a lock");
        describe_counter!(
            COPIES_MADE,
            Unit::Count,
            "Copies of values that were made after losses"
        );
        describe_counter!(
            COPIES_SHORT,
            Unit::Count,
            "Values found with too few copies after losses"
        );
        describe_counter!(LOSSES, Unit::Count, "Nodes of whose loss a call has heard");
        describe_counter!(COMPLETIONS, Unit::Count, "Completions that were polled");
    }

    fn publish(&self) {
        let node = self.node.0.to_string();
        for (count, name, label) in ALL {
            let counter = match label {
                Some((label, value)) => counter!(name, "node" => node.clone(), label => value),
                None => counter!(name, "node" => node.clone()),
            };
            counter.absolute(self.counts.total(count));
        }
        counter!(LOSSES, "node" => node).absolute(missed_by(self.node));
    }

    /// Publishes each time that `every` has passed, until it is stopped.
    fn publish_until(&self, stopped: &(Mutex<bool>, Condvar), every: Duration) {
        let mut is_stopped = stopped.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_stopped {
            let waited = stopped.1.wait_timeout(is_stopped, every);
            let (lock, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
            is_stopped = lock;
            if outcome.timed_out() {
                self.publish();
            }
        }
    }
}
