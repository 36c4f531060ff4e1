//! Explores the worlds of the agreement within a time limit.
//!
//! The worlds come in order, each for an even share of the time that is left, so that the time that small ones leave goes to the
//! large ones. A world that has too many states is first explored within few delays. The time that remains is spent in turns on the
//! worlds that are not complete: with one delay more, and by random executions.
//!
//! Used by `loco check mesh` and by the example `mesh`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use explorer::{Bounds, Ended, Limit, Limits};

use crate::explore::{Explored, Failure};
use crate::world::{World, large, small};

/// The number of random executions of a turn.
const TURN_EXECUTIONS: u64 = 20_000;
/// The most states of one exploration, some hundreds of megabytes.
const STATES_MAX: u64 = 20_000_000;

/// The bounds within which the agreement is explored.
#[derive(Debug)]
pub struct Ladder<'a> {
    /// The names of the worlds to take; all if empty.
    pub only: Vec<String>,
    /// The time for all worlds.
    pub time: Duration,
    /// The seed of the random executions.
    pub seed: u64,
    /// Called with the name of a world and what is about to be explored of it.
    pub begins: Option<fn(&str, &str)>,
    /// A flag that ends the work early when it is set from outside.
    pub cancel: Option<&'a AtomicBool>,
}

/// The part of a world's executions that was explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Every execution.
    Complete,
    /// Every execution within these bounds. There are others beyond them.
    UpTo(Bounds),
    /// The search ended at this limit.
    Incomplete(Limit),
    /// The search ended because a promise is broken.
    Stopped,
}

/// The findings on one world.
#[derive(Clone, Debug)]
pub struct WorldReport {
    /// The world.
    pub world: World,
    /// The strongest result of an exploration; `None` if the time was over before.
    pub seen: Option<Seen>,
    /// The number of random executions besides.
    pub random: u64,
    /// The number of states of the largest exploration.
    pub states: u64,
    /// The time spent on the world.
    pub time: Duration,
    /// The execution that breaks a promise, if there was one.
    pub failure: Option<Failure>,
}

/// The findings on all worlds.
#[derive(Clone, Debug)]
pub struct LadderReport {
    /// The worlds, in order. Worlds after a failure were not explored.
    pub worlds: Vec<WorldReport>,
    /// Set if it was ended from outside.
    pub interrupted: bool,
    /// The time that it took.
    pub time: Duration,
}

impl LadderReport {
    /// Returns the world that failed, if one has.
    pub fn failed(&self) -> Option<(&WorldReport, &Failure)> {
        let mut worlds = self.worlds.iter();
        worlds.find_map(|world| Some((world, world.failure.as_ref()?)))
    }

    /// Returns true if every world was explored completely.
    pub fn is_complete(&self) -> bool {
        let mut worlds = self.worlds.iter();
        worlds.all(|world| world.seen == Some(Seen::Complete))
    }
}

impl<'a> Ladder<'a> {
    /// Returns a ladder of every world, for `time`, with the default seed.
    pub fn new(time: Duration) -> Ladder<'a> {
        Ladder {
            only: Vec::new(),
            time,
            seed: 1,
            begins: None,
            cancel: None,
        }
    }

    /// Explores the worlds. Stops at the first failure.
    ///
    /// # Panics
    /// Panics when the code that is explored does.
    pub fn run(&self) -> LadderReport {
        let begun = Instant::now();
        let end = begun + self.time;
        let worlds = small().into_iter().map(|world| (world, None)).chain(large());
        let taken = |world: &World| self.only.is_empty() || self.only.iter().any(|name| name == world.name);
        let mut climbs: Vec<Climb> = worlds
            .filter(|(world, _)| taken(world))
            .map(|(world, delays)| Climb::new(world, delays))
            .collect();
        let mut has_failed = false;
        let count = climbs.len();
        for (number, climb) in climbs.iter_mut().enumerate() {
            if has_failed || self.is_over(end) {
                break;
            }
            has_failed = climb.explore(self, share(end, count - number));
        }
        for turn in 0.. {
            let open = climbs.iter().filter(|climb| !climb.is_complete()).count();
            if open == 0 || has_failed || self.is_over(end) {
                break;
            }
            for climb in climbs.iter_mut().filter(|climb| !climb.is_complete()) {
                if has_failed || self.is_over(end) {
                    break;
                }
                has_failed = climb.sample(self, self.seed.wrapping_add(turn), end)
                    || climb.deepen(self, share(end, 2 * open));
            }
        }
        LadderReport {
            worlds: climbs.into_iter().map(|climb| climb.report).collect(),
            interrupted: self.is_cancelled(),
            time: begun.elapsed(),
        }
    }

    fn is_over(&self, end: Instant) -> bool {
        self.is_cancelled() || Instant::now() >= end
    }

    fn is_cancelled(&self) -> bool {
        // Relaxed: the flag carries no data.
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    fn limits(&self, end: Instant) -> Limits<'a> {
        Limits {
            deadline: Some(end),
            states_max: Some(STATES_MAX),
            cancel: self.cancel,
            ..Limits::default()
        }
    }

    fn tell(&self, world: &World, how: &str) {
        if let Some(begins) = self.begins {
            begins(world.name, how);
        }
    }
}

/// Returns the end of an even share, among so many, of the time until `end`.
fn share(end: Instant, among: usize) -> Instant {
    let now = Instant::now();
    let among = u32::try_from(among).unwrap_or(u32::MAX).max(1);
    now + end.saturating_duration_since(now) / among
}

/// A world, and how far its exploration has come.
struct Climb {
    report: WorldReport,
    /// The delays of the next exploration; `None` for all executions, or if the last one reached a limit.
    delays: Option<u32>,
}

impl Climb {
    fn new(world: World, delays: Option<u32>) -> Climb {
        Climb {
            report: WorldReport {
                world,
                seen: None,
                random: 0,
                states: 0,
                time: Duration::ZERO,
                failure: None,
            },
            delays,
        }
    }

    fn is_complete(&self) -> bool {
        self.report.seen == Some(Seen::Complete)
    }

    /// Explores the world until `end`. Returns true if a promise is broken.
    fn explore(&mut self, ladder: &Ladder<'_>, end: Instant) -> bool {
        let bounds = self.delays.map(|delays| Bounds {
            preemptions: None,
            delays: Some(delays),
        });
        let world = &self.report.world;
        let how = bounds.map_or("every execution".to_owned(), |bounds| {
            format!("every execution within {bounds}")
        });
        ladder.tell(world, &how);
        let explored = world.explore(bounds, ladder.limits(end));
        let seen = match (explored.ended, bounds) {
            (Ended::Complete, _) | (Ended::Bounded, None) => Seen::Complete,
            (Ended::Bounded, Some(bounds)) => Seen::UpTo(bounds),
            (Ended::Quit, _) => Seen::Stopped,
            (Ended::Limit(limit), _) => Seen::Incomplete(limit),
        };
        let is_limit = matches!(seen, Seen::Incomplete(_));
        // What was seen within fewer delays says more than that more delays are too many.
        if !(is_limit && self.report.seen.is_some()) {
            self.report.seen = Some(seen);
        }
        self.delays = self.delays.filter(|_| !is_limit).map(|delays| delays + 1);
        self.report.states = self.report.states.max(explored.states);
        self.take(explored)
    }

    /// Explores the world with one delay more, unless the delays before were too many. Returns true if a promise is broken.
    fn deepen(&mut self, ladder: &Ladder<'_>, end: Instant) -> bool {
        self.delays.is_some() && self.explore(ladder, end)
    }

    /// Runs random executions. Returns true if a promise is broken.
    fn sample(&mut self, ladder: &Ladder<'_>, seed: u64, end: Instant) -> bool {
        ladder.tell(&self.report.world, "random executions");
        let sampled = self
            .report
            .world
            .sample(TURN_EXECUTIONS, seed, ladder.limits(end));
        self.report.random += sampled.ends;
        self.take(sampled)
    }

    fn take(&mut self, explored: Explored) -> bool {
        self.report.time += explored.time;
        self.report.failure = explored.failure;
        self.report.failure.is_some()
    }
}
