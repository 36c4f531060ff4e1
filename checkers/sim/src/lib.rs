//! The model fabric: loco's objects, unchanged, on the operational RDMA model, with an explorer that drives its steps.
//!
//! The crate works in the manner of `loom`. A closure builds a world of nodes and threads that assert.
//! [`explore`] runs it under every schedule that the model allows (or many random ones), and reports the
//! first failure with a schedule that [`replay`] repeats.
//!
//! Relies on `mowgli` for the machine and on `loco-fabric` for the contract; knows nothing of objects. The feature `any` runs programs that
//! name no fabric (`World::application`).
// Only two modules have unsafe code: in `fabric::coroutine` a running thread must find the coroutine that runs it, and in
// `fabric::dying` what is left of an execution goes to another OS thread.
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
use std::time::{Duration, Instant};

use mowgli::machine;
use mowgli::model::{Model, RmwAtomicity};

pub use mowgli::model::Tier;

use explorer::Choice;

use exploring::{liveness as lives, random, search, shorten};
use state::behaviour;

pub use explorer::{Bounds, Estimate};

pub use exploring::liveness::{Fate, Liveness, liveness};
pub use exploring::progress::Progress;
pub use exploring::reach::{Reach, reaches};
pub use exploring::robust::{Robustness, Strength, robust};
pub use exploring::rounds::rounds;
pub use fabric::blame::Blame;
pub use fabric::platform::{
    ModelAtomic, ModelGuard, ModelMutex, ModelPlatform, ModelReadGuard, ModelRwLock, ModelTask, ModelWord,
    ModelWriteGuard,
};
pub use fabric::{
    FabricKind, ModelCell, ModelControl, ModelFabric, ModelMemory, ModelQueuePair, ModelRemote, UnknownFabric,
};
pub use graphs::ExecutionGraph;
pub use graphs::film::{Film, FilmCall, FilmNote, FilmThread, FilmWord, Frame, ThreadFrame};
pub use reports::schedule::{NotASchedule, Schedule};
pub use reports::trace::TraceStep;
pub use reports::{Completeness, Failure, FailureKind, Report, Stats};
pub use state::allowed::Faults;
pub use world::history::{End, Event, ThreadHistory};
pub use world::{Node, World, call, faults, note};

/// The settings of an exploration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The schedules to explore.
    pub strategy: Strategy,
    /// The memory on which the world runs.
    pub memory: Memory,
    /// Makes remote read-modify-writes atomic against the CPU as well ([`RmwAtomicity::Glob`]).
    pub glob: bool,
    /// The fabric: the weakest, unless set otherwise.
    pub fabric: FabricKind,
    /// The order of the network: that of the fabric contract, [`Tier::Unordered`], unless set otherwise. On
    /// [`Tier::PcieRelaxed`] all regions are of relaxed ordering. Some fabrics have one tier only ([`FabricKind::has_tiers`]).
    pub tier: Tier,
    /// The faults that may happen in an execution besides its schedule, in every strategy.
    pub faults: Faults,
    /// The number of explorers that work in parallel, in every strategy.
    pub workers: usize,
    /// Leaves out moves whose order cannot matter. When off, the states of every interleaving are visited,
    /// which checks the reduction. Random strategies leave nothing out either way.
    pub reduction: bool,
    /// The number of states after which the exploration ends as incomplete. Random strategies ignore this limit.
    pub states_max: Option<u64>,
    /// The time after which the exploration ends as incomplete. Shortening the schedule of a failure may take the rest of this
    /// time, or a tenth of it where less is left, but at most 5 s.
    pub time_max: Option<Duration>,
    /// The number of moves of the longest execution to explore. A longer execution makes the result
    /// incomplete.
    pub steps_max: usize,
    /// Reports a longer execution as a failure ([`FailureKind::Endless`]): some thread goes on without end. Meant for
    /// worlds whose threads wait only by the waiting primitive, so that every execution ends.
    pub longer_fails: bool,
    /// Estimates how large an exhaustive exploration would be that a limit ends ([`Report::estimate`]). A tenth of
    /// [`time_max`](Config::time_max) is kept for that.
    pub estimates: bool,
    /// A function that any of the workers calls from time to time with the progress.
    pub progress: Option<fn(&Progress)>,
    /// A flag that ends the exploration early when it is set from outside. The result says that the
    /// exploration was ended.
    pub cancel: Option<Arc<AtomicBool>>,
}

loco_fabric::setters!(Config {
    strategy: Strategy,
    memory: Memory,
    glob: bool,
    fabric: FabricKind,
    tier: Tier,
    faults: Faults,
    workers: usize,
    reduction: bool,
    states_max: Option<u64>,
    time_max: Option<Duration>,
    steps_max: usize,
    estimates: bool,
    progress: Option<fn(&Progress)>,
    cancel: Option<Arc<AtomicBool>>,
});
/// The memory of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Memory {
    /// The RDMA model: stores and posted operations take effect some time after the thread has moved on.
    #[default]
    Model,
    /// A strong memory: whatever a thread issues takes effect, and is completed, before any thread takes another
    /// move. Schedules then have no moves of the machine.
    Strong,
}

/// The choice of schedules to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All schedules.
    Exhaustive,
    /// All schedules within these bounds. For worlds with too many schedules: most mistakes need few
    /// preemptions or delays.
    Bounded(Bounds),
    /// Schedules with a uniform choice at every move.
    Random {
        /// Number of executions.
        executions: u64,
        /// Seed of the generator.
        seed: u64,
    },
    /// Schedules by probabilistic concurrency testing (PCT). Threads, store buffers and queue pairs have
    /// random priorities, which change at a few random points. PCT finds a bug that needs `depth` ordering
    /// constraints far more often than uniform choices do.
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
            memory: Memory::Model,
            glob: false,
            fabric: FabricKind::Model,
            tier: Tier::Unordered,
            faults: Faults::default(),
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            reduction: true,
            states_max: None,
            time_max: None,
            steps_max: 100_000,
            longer_fails: false,
            estimates: false,
            progress: None,
            cancel: None,
        }
    }
}

impl Config {
    pub(crate) fn machine(&self) -> machine::Config {
        machine::Config::new(self.model(), self.atomicity())
    }

    /// Returns the memory model of a world.
    pub(crate) fn model(&self) -> Model {
        Model::RdmaTso.on(self.tier).unwrap_or(Model::RdmaTso)
    }

    /// Returns these settings on the network that the schedule was found on.
    fn of(&self, schedule: &Schedule) -> Config {
        Config {
            fabric: schedule.fabric().unwrap_or(self.fabric),
            tier: schedule.tier().unwrap_or(self.tier),
            ..self.clone()
        }
        .as_the_fabric_has_it()
    }

    /// Returns these settings with what the fabric says of them: its atomicity, and the order of a fabric that keeps the order of
    /// each queue pair.
    fn as_the_fabric_has_it(&self) -> Config {
        Config {
            glob: self.glob || self.fabric.is_glob(),
            tier: match self.fabric.has_tiers() {
                true => self.tier,
                false => Tier::Ibta,
            },
            ..self.clone()
        }
    }

    /// Returns whether moves are left out. On a strong memory none are: there a post accesses memory at once, which the
    /// reduction does not know.
    pub(crate) fn reduces(&self) -> bool {
        self.reduction && self.memory == Memory::Model
    }

    pub(crate) fn atomicity(&self) -> RmwAtomicity {
        match self.glob {
            true => RmwAtomicity::Glob,
            false => RmwAtomicity::Hca,
        }
    }
}

/// The reason for which an exploration could not be carried out.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The set-up of the world failed or never ends.
    #[error("set-up: {0}")]
    SetUp(String),
    /// A thread did different things after the same replies.
    #[error(
        "a thread is not a function of its replies: after the same replies it asked for {before}, now for {now}; \
         share state between threads only through the fabric, and use no clock, randomness or addresses"
    )]
    NotDeterministic {
        /// The request that it made before.
        before: String,
        /// The request that it made now.
        now: String,
    },
    /// A symmetric thread uses what it has made itself, which tells it from the others.
    #[error(
        "{thread} is said to be symmetric with others and asked for {request}, which names the thread; make what symmetric threads \
         use in the set-up of their node, or add the threads one by one (World::thread)"
    )]
    NotSymmetric {
        /// The thread.
        thread: String,
        /// The request.
        request: String,
    },
    /// A check of ends asks which of several symmetric threads has done something.
    #[error(
        "a check of ends holds of an execution, and not of the one in which threads that are said to be symmetric have changed places: \
         {message}; ask what the threads have done together, or add them one by one (World::thread)"
    )]
    EndNotSymmetric {
        /// The message of the check.
        message: String,
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
    /// The host that runs the exploration failed.
    #[error("{0}")]
    Host(String),
}

loco_fabric::debug_as_display!(SimError);

impl SimError {
    pub(crate) fn diverged(diverged: &behaviour::Diverged) -> SimError {
        SimError::NotDeterministic {
            before: format!("{:?}", diverged.before),
            now: format!("{:?}", diverged.now),
        }
    }
}

/// Explores the world that `builder` builds.
///
/// # Errors
/// Returns [`SimError`] when the world cannot be explored. A failing execution is not an error but part of
/// the report.
///
/// # Aborts
/// A panic in a destructor that runs while its thread unwinds from another panic ends the process, as Rust defines. The last words say
/// which thread of the world it was. Every other panic of a thread is a failing execution.
pub fn explore(config: &Config, builder: impl Fn(&mut World) + Sync) -> Result<Report, SimError> {
    let begun = Instant::now();
    let config = &config.as_the_fabric_has_it();
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
        Some(failure) => Some(shorten::shorten(config, &builder, failure, begun)?),
        None => None,
    };
    Ok(report)
}

/// Repeats the execution that `schedule` leads to, on the network that the schedule was found on, and reports on it as [`explore`]
/// does.
///
/// # Errors
/// Returns [`SimError::Replay`] when the schedule does not fit the world, and otherwise the errors of
/// [`explore`].
pub fn replay(
    config: &Config,
    schedule: &Schedule,
    builder: impl Fn(&mut World) + Sync,
) -> Result<Report, SimError> {
    let config = config.of(schedule);
    if let Some((before, round)) = schedule.round() {
        return lives::replay(&config, &builder, before, round);
    }
    let mut report = random::replay(&config, &builder, schedule)?;
    report.failure = match report.failure {
        Some(failure) => Some(shorten::explain(&config, &builder, failure, schedule)?),
        None => None,
    };
    Ok(report)
}

/// Returns the execution that `schedule` leads to as a graph, to draw as `mowgli explain` does. The schedule
/// is that of a failure, or of a witness of [`reaches`]. The world is the one that was explored.
///
/// # Errors
/// Returns the errors of [`replay`].
pub fn execution_graph(
    config: &Config,
    schedule: &Schedule,
    builder: impl Fn(&mut World) + Sync,
) -> Result<ExecutionGraph, SimError> {
    graphs::of(&config.of(schedule), &builder, schedule)
}

/// Returns the execution that `schedule` leads to as a film: the machine after each step, the calls of objects, and
/// the operations that were outstanding. The world is the one that was explored.
///
/// # Errors
/// Returns the errors of [`replay`].
pub fn film(
    config: &Config,
    schedule: &Schedule,
    builder: impl Fn(&mut World) + Sync,
) -> Result<Film, SimError> {
    graphs::film::of(&config.of(schedule), &builder, schedule)
}

#[cfg(all(doctest, feature = "any"))]
#[doc = include_str!("../../../docs/checking-your-channel.md")]
struct Guide;
