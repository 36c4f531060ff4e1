//! The model fabric: loco's objects, unchanged, on the operational RDMA model, with an explorer that drives its steps.
//!
//! In the manner of `loom`: a closure builds a world of nodes and threads that assert; [`explore`] runs it under every
//! schedule that the model allows (or many random ones), and reports the first failure with a schedule that
//! [`replay`] repeats.
//!
//! Relies on `mowgli` for the machine and on `loco-fabric` for the contract; knows nothing of objects.
// Only `fabric::coroutine` may: it is where a running thread finds the coroutine that it is.
#![deny(unsafe_code)]

mod exploring;
mod fabric;
mod graphs;
mod reports;
pub mod spec;
mod state;
mod world;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mowgli::machine;
use mowgli::model::{Model, RmwAtomicity};

use explorer::Choice;

use exploring::{random, search, shorten};
use state::behaviour;

pub use explorer::Bounds;

pub use exploring::progress::Progress;
pub use exploring::reach::{Reach, reaches};
pub use fabric::platform::{
    ModelAtomic, ModelGuard, ModelMutex, ModelPlatform, ModelReadGuard, ModelRwLock, ModelTask, ModelWord,
    ModelWriteGuard,
};
pub use fabric::{ModelCell, ModelControl, ModelFabric, ModelMemory, ModelQueuePair, ModelRemote};
pub use graphs::ExecutionGraph;
pub use reports::schedule::{NotASchedule, Schedule};
pub use reports::trace::TraceStep;
pub use reports::{Completeness, Failure, FailureKind, Report, Stats};
pub use state::faults::Faults;
pub use world::history::{End, Event, ThreadHistory};
pub use world::{Node, World, call, note};

/// How to explore.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which schedules.
    pub strategy: Strategy,
    /// Remote read-modify-writes are atomic against the CPU as well.
    pub glob: bool,
    /// What may go wrong in an execution besides its schedule, in every strategy.
    pub faults: Faults,
    /// Explorers that work in parallel (exhaustive strategy).
    pub workers: usize,
    /// Leave moves out whose order cannot matter. Off, every interleaving's states are visited: for checking the reduction.
    /// Random strategies leave nothing out either way.
    pub reduction: bool,
    /// Give up after so many states.
    pub states_max: Option<u64>,
    /// Give up after so long.
    pub time_max: Option<Duration>,
    /// Longest execution, moves; a longer one makes the result incomplete.
    pub steps_max: usize,
    /// Called now and then, by any of the workers.
    pub progress: Option<fn(&Progress)>,
    /// Set from outside to end the exploration early; the result says that it was.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// Which schedules to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All of them.
    Exhaustive,
    /// All of them within these bounds. For worlds with too many: most mistakes need few preemptions or delays.
    Bounded(Bounds),
    /// Uniform choices at every move.
    Random {
        /// Number of executions.
        executions: u64,
        /// Seed of the generator.
        seed: u64,
    },
    /// Probabilistic concurrency testing (PCT): by random priorities of threads, store buffers and queue pairs, which change
    /// at a few random points. Finds a bug that needs `depth` ordering constraints far more often than uniform choices.
    Pct {
        /// Number of executions.
        executions: u64,
        /// Seed of the generator.
        seed: u64,
        /// One more than the number of points at which priorities change.
        depth: u32,
    },
}

impl Default for Config {
    fn default() -> Config {
        Config {
            strategy: Strategy::Exhaustive,
            glob: false,
            faults: Faults::default(),
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            reduction: true,
            states_max: None,
            time_max: None,
            steps_max: 100_000,
            progress: None,
            cancel: None,
        }
    }
}

impl Config {
    pub(crate) fn machine(&self) -> machine::Config {
        machine::Config::new(Model::RdmaTso, self.atomicity())
    }

    pub(crate) fn atomicity(&self) -> RmwAtomicity {
        match self.glob {
            true => RmwAtomicity::Glob,
            false => RmwAtomicity::Hca,
        }
    }
}

/// Why an exploration could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The set-up of the world failed or never ends.
    #[error("set-up: {0}")]
    SetUp(String),
    /// A thread did different things after the same replies.
    #[error(
        "a thread is not a function of what it is told: after the same replies it asked for {before}, now for {now}; \
         share state between threads only through the fabric, and use no clock, randomness or addresses"
    )]
    NotDeterministic {
        /// What it asked for before.
        before: String,
        /// What it asked for now.
        now: String,
    },
    /// A schedule does not fit this world.
    #[error(
        "move {number} of the schedule, {what}, is not possible here: the world or the object has changed"
    )]
    Replay {
        /// Position of the move.
        number: usize,
        /// The move.
        what: String,
    },
    /// The machine that runs the exploration let us down.
    #[error("{0}")]
    Host(String),
}

impl SimError {
    pub(crate) fn diverged(diverged: behaviour::Diverged) -> SimError {
        SimError::NotDeterministic {
            before: format!("{:?}", diverged.before),
            now: format!("{:?}", diverged.now),
        }
    }
}

/// Explores the world that `builder` builds.
///
/// # Errors
/// [`SimError`] when the world cannot be explored; a failing execution is not an error but part of the report.
pub fn explore(config: &Config, builder: impl Fn(&mut World) + Sync) -> Result<Report, SimError> {
    let mut report = match config.strategy {
        Strategy::Exhaustive => search::exhaustive(config, &builder, None)?,
        Strategy::Bounded(bounds) => search::exhaustive(config, &builder, Some(bounds))?,
        Strategy::Random { executions, seed } => {
            random::explore(config, &builder, Choice::Uniform, executions, seed)?
        }
        Strategy::Pct {
            executions,
            seed,
            depth,
        } => random::explore(config, &builder, Choice::Priorities(depth), executions, seed)?,
    };
    report.failure = match report.failure {
        Some(failure) => Some(shorten::shorten(config, &builder, failure)?),
        None => None,
    };
    Ok(report)
}

/// Repeats one execution.
///
/// # Errors
/// [`SimError::Replay`] when the schedule does not fit the world; otherwise as [`explore`].
pub fn replay(
    config: &Config,
    schedule: &Schedule,
    builder: impl Fn(&mut World) + Sync,
) -> Result<Report, SimError> {
    let mut report = random::replay(config, &builder, schedule)?;
    report.failure = match report.failure {
        Some(failure) => Some(shorten::explain(config, &builder, failure, schedule)?),
        None => None,
    };
    Ok(report)
}

/// The execution that `schedule` leads to as a graph, to draw as `mowgli explain` does: of a failure, or of a witness of
/// [`reaches`]. The world is the one that was explored.
///
/// # Errors
/// As [`replay`].
pub fn execution_graph(
    config: &Config,
    schedule: &Schedule,
    builder: impl Fn(&mut World) + Sync,
) -> Result<ExecutionGraph, SimError> {
    graphs::of(config, &builder, schedule)
}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/checking-your-channel.md")]
struct Guide;
