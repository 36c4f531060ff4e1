//! The named worlds of an object, from the cheapest to the largest.

use loco_sim::{Config, Faults, World};
use serde::Serialize;

/// The maximum number of steps of an execution. Executions of the worlds have some hundreds, because a waiting thread
/// stops until it can go on.
pub(crate) const STEPS_MAX: usize = 10_000;
/// The maximum number of steps of an execution of a [long](NamedWorld::long) world.
const LONG_STEPS_MAX: usize = 100_000;

/// One world of an object's ladder.
pub struct NamedWorld {
    name: &'static str,
    glob: bool,
    small: bool,
    sampled: bool,
    steps_max: usize,
    faults: Faults,
    build: Box<dyn Fn(&mut World) + Send + Sync>,
}

impl NamedWorld {
    /// Names the world that `build` builds. `name` says how the world differs from others. It is in lower
    /// case and without spaces, so that it can be given on a command line.
    pub(crate) fn new(name: &'static str, build: impl Fn(&mut World) + Send + Sync + 'static) -> NamedWorld {
        NamedWorld {
            name,
            glob: false,
            small: false,
            sampled: false,
            steps_max: STEPS_MAX,
            faults: Faults::default(),
            build: Box::new(build),
        }
    }

    /// Makes remote read-modify-writes atomic against the CPU as well (`IBV_ATOMIC_GLOB`).
    #[must_use]
    pub(crate) fn glob(self) -> NamedWorld {
        NamedWorld { glob: true, ..self }
    }

    /// Takes the world before all others, with random schedules and then exhaustively for a share of the time. For small worlds with
    /// mistakes that only a rare order of operations shows.
    #[must_use]
    pub(crate) fn small(self) -> NamedWorld {
        NamedWorld { small: true, ..self }
    }

    /// Takes random schedules of the world for a share of the time before worlds are explored exhaustively, apart from the small ones. For
    /// worlds too large to be explored, with mistakes that some of a thousand schedules show.
    #[must_use]
    pub(crate) fn sampled(self) -> NamedWorld {
        NamedWorld {
            sampled: true,
            ..self
        }
    }

    /// Lets executions have ten times as many steps. For calls that do something more than a hundred times.
    #[must_use]
    pub(crate) fn long(self) -> NamedWorld {
        NamedWorld {
            steps_max: LONG_STEPS_MAX,
            ..self
        }
    }

    /// Lets time pass when nothing else can happen.
    #[must_use]
    pub(crate) fn idle(mut self) -> NamedWorld {
        self.faults.idle_expiries = true;
        self
    }

    /// Lets up to `expiries` waits of an execution end by their deadlines.
    #[must_use]
    pub(crate) fn expiries(mut self, expiries: u32) -> NamedWorld {
        self.faults.expiries = expiries;
        self
    }

    /// Lets one node of an execution stop for good, at any step.
    #[must_use]
    pub(crate) fn crash(self) -> NamedWorld {
        self.crashes(1)
    }

    /// Lets up to `crashes` nodes of an execution stop for good, at any steps.
    #[must_use]
    pub(crate) fn crashes(mut self, crashes: u32) -> NamedWorld {
        self.faults.crashes = crashes;
        // Objects wait for a while for messages of lost nodes.
        self.faults.idle_expiries = true;
        self
    }

    /// Lets one node of an execution be declared lost although it lives and goes on.
    #[must_use]
    pub(crate) fn suspicion(mut self) -> NamedWorld {
        self.faults.suspicions = 1;
        self.faults.idle_expiries = true;
        self
    }

    /// Lets one link of an execution be cut for a while, and up to `expiries` waits end by their deadlines: without deadlines a
    /// cut link only delays what happens on it.
    #[must_use]
    pub(crate) fn link_cut(mut self, expiries: u32) -> NamedWorld {
        self.faults.cuts = 1;
        self.expiries(expiries)
    }

    /// Returns the name, unique within the object's ladder.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether the world is explored before all others.
    pub(crate) fn is_small(&self) -> bool {
        self.small
    }

    /// Returns whether the world has random schedules before worlds are explored exhaustively.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Returns the faults that each execution of this world may have.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Builds the world.
    pub fn build(&self, world: &mut World) {
        world.name(self.name);
        (self.build)(world);
    }

    /// Sets what this world needs in an explorer's configuration.
    pub fn configure(&self, config: &mut Config) {
        config.glob = self.glob;
        config.faults = self.faults;
        config.steps_max = self.steps_max;
        config.longer_fails = true;
    }
}

/// The answer of an object's documentation about a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// The clients see only what a strong memory shows.
    Robust,
    /// The clients can see more than a strong memory shows, on purpose.
    Weak,
}
