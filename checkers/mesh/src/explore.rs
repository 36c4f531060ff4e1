//! Explores a world, and finds a short schedule to what is broken.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use explorer::{Bounds, Choice, Ended, Failed, Flow, Limits, Mover, Options, Samples, Stats, System};

use crate::moves::Move;
use crate::promises;
use crate::state::State;
use crate::world::World;

/// The most states of a search for the shortest schedule.
const SHORTEST_STATES_MAX: usize = 100_000;

/// The outcome of an exploration.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The end of the search.
    pub ended: Ended,
    /// The states that were seen, or for random executions none.
    pub states: u64,
    /// The ends of executions.
    pub ends: u64,
    /// The time that it took.
    pub time: Duration,
    /// The broken promise, if one is.
    pub failure: Option<Failure>,
}

/// An execution that breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The promise.
    pub broken: String,
    /// The moves, in order.
    pub schedule: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.broken)?;
        for (number, what) in self.schedule.iter().enumerate() {
            writeln!(f, "{:>4}  {what}", number + 1)?;
        }
        Ok(())
    }
}

impl World {
    /// Explores every execution of the world, or with `bounds` those within them, up to these limits.
    ///
    /// # Panics
    /// Panics when the code that is explored does.
    pub fn explore(&self, bounds: Option<Bounds>, limits: Limits<'_>) -> Explored {
        let begun = Instant::now();
        let options = Options {
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            bounds,
            limits,
            ..Options::default()
        };
        let searched = explorer::search(&options, || Worlds { world: self });
        let searched = searched.unwrap_or_else(panics);
        Explored {
            ended: searched.ended,
            states: searched.stats.states,
            ends: searched.stats.ends,
            time: begun.elapsed(),
            failure: searched.finding.map(|found| self.shortest().unwrap_or(found)),
        }
    }

    /// Runs random executions, up to these limits. With equal seeds they are equal.
    ///
    /// # Panics
    /// Panics when the code that is explored does.
    pub fn sample(&self, executions: u64, seed: u64, limits: Limits<'_>) -> Explored {
        let begun = Instant::now();
        let samples = Samples {
            choice: Choice::Uniform,
            executions,
            seed,
            optional_max: u32::from(self.faults.max) + u32::from(self.leavers) + 6,
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            limits,
            depth_max: u64::MAX,
            progress: None,
        };
        let sampled = explorer::sample(&samples, || Worlds { world: self });
        let sampled = sampled.unwrap_or_else(panics);
        let Stats { ends, .. } = sampled.stats;
        Explored {
            ended: sampled.limit.map_or(Ended::Bounded, Ended::Limit),
            states: 0,
            ends,
            time: begun.elapsed(),
            failure: sampled.finding,
        }
    }

    /// Returns one of the shortest executions that break a promise. `None` if there is none, or too many states before it.
    fn shortest(&self) -> Option<Failure> {
        let mut system = Worlds { world: self };
        let mut seen = HashSet::new();
        let mut open = VecDeque::from([At::new(self)]);
        let (mut moves, mut bytes) = (Vec::new(), Vec::new());
        while let Some(mut at) = open.pop_front() {
            moves.clear();
            at.state.enabled(self, &mut moves);
            if moves.iter().all(|what| what.is_optional())
                && let Ok(Flow::Found(failure)) = system.end(&mut at)
            {
                return Some(failure);
            }
            for &what in &moves {
                let mut next = at.clone();
                if let Ok(Flow::Found(failure)) = system.apply(&mut next, what) {
                    return Some(failure);
                }
                bytes.clear();
                next.state.encode(&mut bytes);
                if seen.insert(explorer::fingerprint(&bytes)) {
                    open.push_back(next);
                }
            }
            if seen.len() > SHORTEST_STATES_MAX {
                return None;
            }
        }
        None
    }
}

fn panics<T>(failed: Failed<Never>) -> T {
    match failed {
        Failed::System(never) => match never {},
        Failed::Panicked(panic) => std::panic::resume_unwind(panic),
    }
}

/// A world as the explorer sees it.
struct Worlds<'a> {
    world: &'a World,
}

/// An error that there is not.
#[derive(Debug)]
enum Never {}

/// A state, and how it was reached.
#[derive(Clone)]
struct At {
    state: State,
    last: Option<Arc<Step>>,
}

/// A move, and those before it.
struct Step {
    what: Move,
    before: Option<Arc<Step>>,
}

impl At {
    fn new(world: &World) -> At {
        At {
            state: State::new(world),
            last: None,
        }
    }

    fn failure(&self, broken: String) -> Failure {
        let steps = std::iter::successors(self.last.as_ref(), |step| step.before.as_ref());
        let mut schedule: Vec<_> = steps.map(|step| step.what.to_string()).collect();
        schedule.reverse();
        Failure { broken, schedule }
    }
}

impl System for Worlds<'_> {
    type State = At;
    type Move = Move;
    type Finding = Failure;
    type Error = Never;
    type Collected = ();

    fn start(&mut self) -> Result<Option<At>, Never> {
        Ok(Some(At::new(self.world)))
    }

    fn enabled(&mut self, at: &mut At, moves: &mut Vec<Move>) {
        at.state.enabled(self.world, moves);
    }

    fn apply(&mut self, at: &mut At, what: Move) -> Result<Flow<Failure>, Never> {
        at.state.apply(self.world, what);
        let before = at.last.take();
        at.last = Some(Arc::new(Step { what, before }));
        let broken = promises::always(self.world, &at.state);
        Ok(broken.map_or(Flow::On, |broken| Flow::Found(at.failure(broken))))
    }

    fn end(&mut self, at: &mut At) -> Result<Flow<Failure>, Never> {
        let broken = promises::at_end(self.world, &at.state);
        Ok(broken.map_or(Flow::On, |broken| Flow::Found(at.failure(broken))))
    }

    fn encode(&self, at: &At, out: &mut Vec<u8>) {
        at.state.encode(out);
    }

    fn is_optional(&self, _: &At, what: Move) -> bool {
        what.is_optional()
    }

    fn mover(&self, what: Move) -> Mover {
        Mover(u32::try_from(what.mover()).unwrap_or(u32::MAX))
    }

    fn collected(self) {}
}
