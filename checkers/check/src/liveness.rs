//! Checks for each object whether every call of its worlds ends in every fair execution.
//!
//! The worlds are those of the object's ladder. Relies on [`loco_sim::liveness`]. `loco check --liveness` is its command line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loco_sim::{Config, FabricKind, Liveness, SimError, liveness};

use crate::Object;
use crate::ladder::is_repeated;
use crate::named_world::NamedWorld;
use crate::worlds::worlds;

/// The most states of a world. Larger worlds stay unknown: a graph of them needs too much memory.
const STATES_MAX: u64 = 2_000_000;

/// A check whether the calls of an object end.
#[derive(Clone, Debug)]
pub struct LivenessCheck {
    /// The object.
    pub object: Object,
    /// The fabric: shared memory unless set otherwise, on which a loop has finitely many states.
    pub fabric: FabricKind,
    /// The names of the worlds to take; all if empty.
    pub only: Vec<String>,
    /// The time for all worlds together, shared evenly among those that are left.
    pub time: Duration,
    /// Called with the object, the name of a world and what is about to be explored of it.
    pub begins: Option<fn(Object, &str, &str)>,
    /// A flag that ends the work early when it is set from outside.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// The answer about one world.
#[derive(Clone, Debug)]
pub struct LivenessReport {
    /// Name of the world.
    pub world: &'static str,
    /// The answer.
    pub found: Liveness,
}

impl LivenessCheck {
    /// Returns a check of every world of the object's ladder for `time`.
    pub fn new(object: Object, time: Duration) -> LivenessCheck {
        LivenessCheck {
            object,
            fabric: FabricKind::Shm,
            only: Vec::new(),
            time,
            begins: None,
            cancel: None,
        }
    }

    /// Runs the check. Stops at the first failure, and early when it is cancelled.
    ///
    /// # Errors
    /// Returns [`SimError`] when a world cannot be explored.
    pub fn run(&self) -> Result<Vec<LivenessReport>, SimError> {
        let begun = Instant::now();
        let all = worlds(self.object);
        let taken = |named: &&NamedWorld| {
            let wanted = self.only.is_empty() || self.only.iter().any(|name| name == named.name());
            wanted && !is_repeated(named, self.fabric, &all)
        };
        let taken: Vec<&NamedWorld> = all.iter().filter(taken).collect();
        let mut reports = Vec::new();
        for (number, named) in taken.iter().enumerate() {
            if self.is_cancelled() {
                break;
            }
            let left = self.time.saturating_sub(begun.elapsed());
            let mut config = Config {
                fabric: self.fabric,
                states_max: Some(STATES_MAX),
                time_max: Some(left / (taken.len() - number) as u32),
                cancel: self.cancel.clone(),
                ..Config::default()
            };
            named.configure(&mut config);
            if let Some(begins) = self.begins {
                begins(self.object, named.name(), "whether every call ends");
            }
            let found = liveness(&config, |world| named.build(world))?;
            let failed = found.fate.failure().is_some();
            reports.push(LivenessReport {
                world: named.name(),
                found,
            });
            if failed {
                break;
            }
        }
        Ok(reports)
    }

    fn is_cancelled(&self) -> bool {
        // Relaxed: the flag carries no data.
        self.cancel
            .as_ref()
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
