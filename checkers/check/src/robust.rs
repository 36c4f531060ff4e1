//! Checks for each object whether it is robust: whether its clients see only what a strong memory would show them.
//!
//! Each object has small worlds for this question, with the answer of its documentation: *robust*, or *weak* on
//! purpose, which a client has to know. Relies on [`loco_sim::robust`]. `loco check --robust` is its command line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loco_sim::{Config, Progress, Robustness, SimError, Strength, Tier, robust};

use crate::Object;
use crate::named_world::{Expected, NamedWorld};
use crate::worlds::{asked, worlds};

/// A check whether an object is robust.
#[derive(Clone, Debug)]
pub struct RobustCheck {
    /// The object.
    pub object: Object,
    /// The order of the network.
    pub tier: Tier,
    /// The names of worlds of the object's ladder to check in place of the worlds for this question.
    pub only: Vec<String>,
    /// The time for all worlds together, shared evenly among those that are left.
    pub time: Duration,
    /// Explorers that work in parallel.
    pub workers: usize,
    /// Called from time to time.
    pub progress: Option<fn(&Progress)>,
    /// Called with the object, the name of a world and what is about to be explored of it.
    pub begins: Option<fn(Object, &str, &str)>,
    /// A flag that ends the work early when it is set from outside.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// The answer about one world.
#[derive(Clone, Debug)]
pub struct RobustReport {
    /// Name of the world.
    pub world: &'static str,
    /// The answer that the documentation gives.
    pub expected: Option<Expected>,
    /// The answer.
    pub found: Robustness,
}

impl RobustReport {
    /// Returns whether the answer is that of the documentation. Returns `None` if there is no answer or the
    /// documentation gives none. A failed world is never as expected.
    pub fn as_expected(&self) -> Option<bool> {
        match (&self.found.strength, self.expected) {
            (Strength::Failed(_), _) => Some(false),
            (Strength::Robust, Some(expected)) => Some(expected == Expected::Robust),
            (Strength::Weak(_), Some(expected)) => Some(expected == Expected::Weak),
            _ => None,
        }
    }
}

impl RobustCheck {
    /// Returns a check of every world of the object for `time`, with as many workers as there are processors.
    pub fn new(object: Object, time: Duration) -> RobustCheck {
        RobustCheck {
            object,
            tier: Config::default().tier,
            only: Vec::new(),
            time,
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            progress: None,
            begins: None,
            cancel: None,
        }
    }

    /// Runs the check. Stops early when it is cancelled.
    ///
    /// # Errors
    /// Returns [`SimError`] when a world cannot be explored.
    pub fn run(&self) -> Result<Vec<RobustReport>, SimError> {
        let begun = Instant::now();
        let worlds = self.worlds();
        let mut reports = Vec::new();
        for (number, (named, expected)) in worlds.iter().enumerate() {
            if self.is_cancelled() {
                break;
            }
            let left = self.time.saturating_sub(begun.elapsed());
            let mut config = Config {
                tier: self.tier,
                workers: self.workers,
                time_max: Some(left / (worlds.len() - number) as u32),
                progress: self.progress,
                cancel: self.cancel.clone(),
                ..Config::default()
            };
            named.configure(&mut config);
            if let Some(begins) = self.begins {
                begins(self.object, named.name(), "histories, against a strong memory");
            }
            reports.push(RobustReport {
                world: named.name(),
                expected: *expected,
                found: robust(&config, |world| named.build(world))?,
            });
        }
        Ok(reports)
    }

    /// Returns the world of this name.
    pub fn world(&self, name: &str) -> Option<NamedWorld> {
        self.worlds()
            .into_iter()
            .map(|(named, _)| named)
            .find(|named| named.name() == name)
    }

    fn worlds(&self) -> Vec<(NamedWorld, Option<Expected>)> {
        if self.only.is_empty() {
            return asked(self.object);
        }
        let wanted = |named: &NamedWorld| self.only.iter().any(|name| name == named.name());
        worlds(self.object)
            .into_iter()
            .filter(wanted)
            .map(|named| (named, None))
            .collect()
    }

    fn is_cancelled(&self) -> bool {
        // Relaxed: the flag carries no data.
        self.cancel
            .as_ref()
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
