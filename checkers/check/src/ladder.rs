//! Runs the ladder of an object within a time limit.
//!
//! Every world runs on the weakest fabric and on the one with the capabilities of shared memory, unless others are asked for. First
//! every world is run under a few random schedules, which find shallow mistakes in the largest worlds at once. The worlds that are marked as
//! small come first in this, and are explored next. Then those that are marked as too large for that have more random schedules. Then the
//! worlds are explored exhaustively, cheapest first: those on a synchronous fabric before the others. Each world gets an even share of
//! the time that is left, so the time that cheap worlds leave goes to the large ones. The time that remains is spent in turns on the worlds
//! that are not complete: all executions with ever more delays, and random schedules by priorities (PCT) at rising depth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loco_sim::{
    Bounds, Completeness, Config, Estimate, FabricKind, Failure, Faults, Progress, SimError, Stats, Strategy,
    Tier, explore,
};
use serde::Serialize;

use crate::Object;
use crate::methods::unreached;
use crate::named_world::NamedWorld;
use crate::worlds::worlds;

/// The fabrics on which each world runs unless others are asked for: every call of the shipped code that depends on the
/// capabilities of a fabric goes one way on the first and the other way on the second.
pub const FABRICS: [FabricKind; 2] = [FabricKind::Model, FabricKind::Shm];

/// The number of random schedules of each world before anything else.
const SMOKE_EXECUTIONS: u64 = 300;
/// The share of the time after which that round ends.
const SMOKE_SHARE: f64 = 0.18;
/// The share of the time after which that round turns from the small worlds to the others.
const SMALL_SMOKE_SHARE: f64 = 0.12;
/// The share of the time after which no small world is explored.
const SMALL_SHARE: f64 = 0.35;
/// A small world gets at most one part in so many of what is left of the share of its round. Of the exploration's the last one gets the rest.
const SMALL_AMONG: usize = 8;
/// The share of the time after which no sampled world begins.
const SAMPLED_SHARE: f64 = 0.45;
/// The share of the time after which no exhaustive exploration begins.
const EXHAUSTIVE_SHARE: f64 = 0.75;
/// The shortest exploration that is worth beginning.
const SLICE_MIN: Duration = Duration::from_millis(100);
/// The maximum number of random schedules of one turn of the last phase.
const TURN_EXECUTIONS: u64 = 20_000;
/// The depth after which PCT begins again from the smallest.
const DEPTH_MAX: u32 = 10;

/// The bounds within which an object is checked.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// The object.
    pub object: Object,
    /// The fabrics on which each world runs.
    pub fabrics: Vec<FabricKind>,
    /// The order of the network, of those that have one.
    pub tier: Tier,
    /// The names of the worlds to take; all if empty.
    pub only: Vec<String>,
    /// The time for the whole ladder. It is kept to within one slice of a world.
    pub time: Duration,
    /// Seed of the random schedules.
    pub seed: u64,
    /// Explorers that work in parallel.
    pub workers: usize,
    /// Called from time to time while a world is explored.
    pub progress: Option<fn(&Progress)>,
    /// Called with the object, the name of a world and what is about to be explored of it, once for each of these.
    pub begins: Option<fn(Object, &str, &str)>,
    /// A flag that ends the work early when it is set from outside.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// The findings on one world.
#[derive(Clone, Debug, Serialize)]
pub struct WorldReport {
    /// Name of the world.
    pub world: &'static str,
    /// The fabric.
    pub fabric: FabricKind,
    /// The faults that each execution could have.
    pub faults: Faults,
    /// The strongest exhaustive result: complete, complete up to bounds, or the reason that it is incomplete.
    pub completeness: Completeness,
    /// The number of random schedules besides.
    pub random: u64,
    /// The deepest PCT exploration, 0 for none.
    pub depth: u32,
    /// The estimated size of the exhaustive exploration, if a limit has ended it and there was time for an estimate.
    pub estimate: Option<Estimate>,
    /// Counters of all explorations of the world.
    pub stats: Stats,
    /// The failing execution, if there was one.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

/// The findings on a ladder.
#[derive(Clone, Debug, Serialize)]
pub struct LadderReport {
    /// The object.
    pub object: Object,
    /// The fabrics on which each world ran.
    pub fabrics: Vec<FabricKind>,
    /// The order of the network, of those that have one.
    pub tier: Tier,
    /// The worlds, in order, by fabric. Worlds after a failure were not explored.
    pub worlds: Vec<WorldReport>,
    /// The public methods of the object that no execution called.
    pub unreached: Vec<&'static str>,
    /// Set if it was ended from outside.
    pub interrupted: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl LadderReport {
    /// Returns the world that failed, if one has.
    pub fn failed(&self) -> Option<&WorldReport> {
        self.worlds.iter().find(|world| world.failure.is_some())
    }

    /// Returns true if every world was explored completely.
    pub fn is_complete(&self) -> bool {
        self.worlds
            .iter()
            .all(|world| world.completeness == Completeness::Complete)
    }
}

impl Ladder {
    /// Returns a ladder of every world, on the default fabrics, for `time`, with the default seed and as many workers as there are processors.
    pub fn new(object: Object, time: Duration) -> Ladder {
        Ladder {
            object,
            fabrics: FABRICS.to_vec(),
            tier: Config::default().tier,
            only: Vec::new(),
            time,
            seed: 1,
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            progress: None,
            begins: None,
            cancel: None,
        }
    }

    /// Runs the ladder. Stops at the first failure.
    ///
    /// # Errors
    /// Returns [`SimError`] when a world cannot be explored.
    pub fn run(&self) -> Result<LadderReport, SimError> {
        let taken =
            |named: &NamedWorld| self.only.is_empty() || self.only.iter().any(|name| name == named.name());
        let worlds: Vec<NamedWorld> = worlds(self.object).into_iter().filter(taken).collect();
        let mut runs: Vec<(&NamedWorld, FabricKind)> = Vec::new();
        for &fabric in &self.fabrics {
            let own = worlds.iter().filter(|named| !is_repeated(named, fabric, &worlds));
            runs.extend(own.map(|named| (named, fabric)));
        }
        runs.sort_by_key(|(_, fabric)| !fabric.is_synchronous());
        let mut run = Run {
            ladder: self,
            begun: Instant::now(),
            reports: runs
                .iter()
                .map(|&(named, fabric)| WorldReport::new(named, fabric))
                .collect(),
            runs,
        };
        run.run()?;
        let place = |report: &WorldReport| self.fabrics.iter().position(|&fabric| fabric == report.fabric);
        run.reports.sort_by_key(place);
        Ok(LadderReport {
            object: self.object,
            fabrics: self.fabrics.clone(),
            tier: self.tier,
            worlds: run.reports,
            unreached: unreached(self.object),
            interrupted: self.is_cancelled(),
            seconds: run.begun.elapsed().as_secs_f64(),
        })
    }

    fn is_cancelled(&self) -> bool {
        // Relaxed: the flag carries no data.
        self.cancel
            .as_ref()
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Returns whether the world is the same on this fabric as another one: that without `-glob`, where read-modify-writes are
/// atomic against the processor anyway, and that without a cut link, where there are no links.
pub(crate) fn is_repeated(named: &NamedWorld, fabric: FabricKind, worlds: &[NamedWorld]) -> bool {
    let plain = named.name().strip_suffix("-glob");
    let is_plain =
        fabric.is_glob() && plain.is_some_and(|plain| worlds.iter().any(|other| other.name() == plain));
    is_plain || fabric.is_synchronous() && named.faults().cuts > 0
}

impl WorldReport {
    fn new(named: &NamedWorld, fabric: FabricKind) -> WorldReport {
        WorldReport {
            world: named.name(),
            fabric,
            faults: named.faults(),
            completeness: Completeness::Incomplete("not explored exhaustively".into()),
            random: 0,
            depth: 0,
            estimate: None,
            stats: Stats::default(),
            failure: None,
        }
    }
}

struct Run<'a> {
    ladder: &'a Ladder,
    begun: Instant,
    /// The worlds, each on a fabric, in the order in which they are taken.
    runs: Vec<(&'a NamedWorld, FabricKind)>,
    reports: Vec<WorldReport>,
}

impl Run<'_> {
    fn run(&mut self) -> Result<(), SimError> {
        // Mistakes that only a rare order of operations shows have small worlds of their own. These come first, since there is time for
        // a few schedules of each world only where there are many.
        let (small, large): (Vec<usize>, Vec<usize>) = (0..self.runs.len())
            .partition(|&index| self.runs[index].0.is_small() && !self.runs[index].1.is_synchronous());
        for (number, &index) in small.iter().enumerate() {
            let among = SMALL_AMONG.max(small.len() - number);
            let time = self.share(SMALL_SMOKE_SHARE, among);
            if !self.random(index, 3, SMOKE_EXECUTIONS, time)? {
                return Ok(());
            }
        }
        for (number, &index) in large.iter().enumerate() {
            let time = self.share(SMOKE_SHARE, large.len() - number);
            if !self.random(index, 3, SMOKE_EXECUTIONS, time)? {
                return Ok(());
            }
        }
        for (number, &index) in small.iter().enumerate() {
            let left = small.len() - number;
            // The last of several is the largest.
            let among = if small.len() > 1 && left == 1 {
                1
            } else {
                SMALL_AMONG.max(left)
            };
            let Some(time) = self.slice(SMALL_SHARE, among) else {
                break;
            };
            if !self.exhaustive(index, time)? {
                return Ok(());
            }
        }
        // Where there are no others, all the time is for the exploration.
        let has_others = self.runs.iter().any(|(world, _)| !world.is_sampled());
        let is_sampled = |&index: &usize| {
            let (world, fabric) = self.runs[index];
            has_others && world.is_sampled() && !fabric.is_synchronous()
        };
        let sampled: Vec<usize> = self.open().filter(is_sampled).collect();
        for (number, &index) in sampled.iter().enumerate() {
            let time = self.share(SAMPLED_SHARE, sampled.len() - number);
            if !self.random(index, 3, TURN_EXECUTIONS, time)? {
                return Ok(());
            }
        }
        let left: Vec<usize> = self.open().collect();
        for (number, &index) in left.iter().enumerate() {
            let Some(time) = self.slice(EXHAUSTIVE_SHARE, left.len() - number) else {
                break;
            };
            if !self.exhaustive(index, time)? {
                return Ok(());
            }
        }
        let mut turn = 0;
        loop {
            let left: Vec<usize> = self.open().collect();
            if left.is_empty() {
                return Ok(());
            }
            for (number, &index) in left.iter().enumerate() {
                let Some(time) = self.slice(1.0, (left.len() - number) * 2) else {
                    return Ok(());
                };
                let depth = 2 + turn % (DEPTH_MAX - 1);
                if !self.random(index, depth, TURN_EXECUTIONS, time)?
                    || !self.bounded(index, turn + 1, time)?
                {
                    return Ok(());
                }
            }
            turn += 1;
        }
    }

    /// Returns each of `among` worlds' share of the time until this part of the whole has passed.
    fn share(&self, part: f64, among: usize) -> Duration {
        let until = self.ladder.time.mul_f64(part);
        until.saturating_sub(self.begun.elapsed()) / among.max(1) as u32
    }

    /// Returns a [`share`](Run::share) that is long enough to begin, or `None` if that much is not left.
    fn slice(&self, part: f64, among: usize) -> Option<Duration> {
        (self.share(part, 1) >= SLICE_MIN).then(|| self.share(part, among).max(SLICE_MIN))
    }

    /// Returns the worlds that are not complete, in the order in which they are taken.
    fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.runs.len()).filter(|&index| self.reports[index].completeness != Completeness::Complete)
    }

    /// Runs random schedules by priorities. Returns false if the run is over.
    fn random(
        &mut self,
        index: usize,
        depth: u32,
        executions: u64,
        time: Duration,
    ) -> Result<bool, SimError> {
        let seed = self.ladder.seed.wrapping_add(self.reports[index].random);
        let strategy = Strategy::Pct {
            executions,
            seed,
            depth,
        };
        let done = self.explore(index, strategy, time)?;
        if let Some(Completeness::Random(executions)) = done {
            self.reports[index].random += executions;
            self.reports[index].depth = self.reports[index].depth.max(depth);
        }
        Ok(self.goes_on(index))
    }

    /// Explores every execution. Returns false if the run is over.
    fn exhaustive(&mut self, index: usize, time: Duration) -> Result<bool, SimError> {
        if let Some(done) = self.explore(index, Strategy::Exhaustive, time)? {
            self.reports[index].completeness = done;
        }
        Ok(self.goes_on(index))
    }

    /// Explores every execution with at most `delays` delays. Returns false if the run is over.
    fn bounded(&mut self, index: usize, delays: u32, time: Duration) -> Result<bool, SimError> {
        let done = match &self.reports[index].completeness {
            Completeness::UpTo(Bounds { delays: Some(n), .. }) => *n,
            _ => 0,
        };
        if delays <= done {
            return Ok(self.goes_on(index));
        }
        let bounds = Bounds {
            delays: Some(delays),
            ..Bounds::default()
        };
        if let Some(done @ (Completeness::Complete | Completeness::UpTo(_))) =
            self.explore(index, Strategy::Bounded(bounds), time)?
        {
            self.reports[index].completeness = done;
        }
        Ok(self.goes_on(index))
    }

    fn explore(
        &mut self,
        index: usize,
        strategy: Strategy,
        time: Duration,
    ) -> Result<Option<Completeness>, SimError> {
        let (named, fabric) = self.runs[index];
        if let Some(begins) = self.ladder.begins {
            let what = match strategy {
                Strategy::Exhaustive => Some("every schedule".to_owned()),
                Strategy::Bounded(bounds) => Some(format!("every schedule up to {bounds}")),
                _ => (self.reports[index].random == 0).then(|| "random schedules".to_owned()),
            };
            if let Some(what) = what {
                let world = match fabric {
                    FabricKind::Model => named.name().to_owned(),
                    _ => format!("{} on {fabric}", named.name()),
                };
                begins(self.ladder.object, &world, &what);
            }
        }
        let mut config = Config {
            strategy,
            fabric,
            tier: self.ladder.tier,
            workers: self.ladder.workers,
            time_max: Some(time),
            progress: self.ladder.progress,
            estimates: true,
            cancel: self.ladder.cancel.clone(),
            ..Config::default()
        };
        named.configure(&mut config);
        let report = explore(&config, |world| named.build(world))?;
        let so_far = &mut self.reports[index];
        so_far.stats.states = so_far.stats.states.max(report.stats.states);
        so_far.stats.executions += report.stats.executions;
        so_far.stats.transitions += report.stats.transitions;
        so_far.stats.seconds += report.stats.seconds;
        so_far.estimate = report.estimate.or(so_far.estimate);
        so_far.stats.depth_max = so_far.stats.depth_max.max(report.stats.depth_max);
        if report.failure.is_some() {
            so_far.failure = report.failure;
            so_far.completeness = Completeness::Stopped;
            return Ok(None);
        }
        Ok(Some(report.completeness))
    }

    fn goes_on(&self, index: usize) -> bool {
        self.reports[index].failure.is_none() && !self.ladder.is_cancelled()
    }
}
