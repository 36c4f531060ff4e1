//! Runs random executions, with uniform choices or by probabilistic concurrency testing.
//!
//! Each execution is a function of the seed and its number, so the first finding does not depend on the
//! number of workers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustc_hash::FxHashMap;

use crate::bounds::Mover;
use crate::limits::{Limit, Limits, Progress};
use crate::shared::Stats;
use crate::system::{Failed, Flow, System};

/// The number of executions between two reports of progress.
const REPORT: u64 = 256;

/// The way in which moves are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Each enabled move has the same probability.
    Uniform,
    /// PCT with this depth (Burckhardt et al., ASPLOS 2010). The mover of highest priority moves; at `depth -
    /// 1` random points its priority falls below all others. The moves of one mover have the same
    /// probability.
    Priorities(u32),
}

/// The random executions to run.
#[derive(Clone, Copy)]
pub struct Samples<'a> {
    /// The way in which moves are chosen.
    pub choice: Choice,
    /// The number of executions.
    pub executions: u64,
    /// The seed of the generator.
    pub seed: u64,
    /// The most optional moves of an execution. They are taken at random steps. Some of these steps may be beyond
    /// its end.
    pub optional_max: u32,
    /// The number of threads that run them.
    pub workers: usize,
    /// The limits. `states_max` is ignored.
    pub limits: Limits<'a>,
    /// The most moves of an execution. A longer one is cut off there, and counted.
    pub depth_max: u64,
    /// Called now and then, by any of the workers.
    pub progress: Option<&'a (dyn Fn(&Progress) + Sync)>,
}

/// The result of random executions.
#[derive(Debug)]
pub struct Sampled<F, C> {
    /// The finding of the execution with the smallest number that has one.
    pub finding: Option<F>,
    /// The work that was done. `ends` counts all executions that were run, including those cut off.
    pub stats: Stats,
    /// The number of executions that were cut off at the largest depth. Their ends are unknown.
    pub cut_off: u64,
    /// The limit that ended the exploration, if one did.
    pub limit: Option<Limit>,
    /// The values that the workers have collected.
    pub collected: Vec<C>,
}

/// The result of [`sample`] for a system.
pub type SampleResult<W> =
    Result<Sampled<<W as System>::Finding, <W as System>::Collected>, Failed<<W as System>::Error>>;

/// Runs random executions. Each worker makes a system, whose first state is where its executions start.
///
/// # Errors
/// Returns [`Failed`] if the system returned an error or panicked. All workers have then ended.
pub fn sample<W: System>(samples: &Samples<'_>, make: impl Fn() -> W + Sync) -> SampleResult<W> {
    let job = Job::<W> {
        samples,
        next: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
        limit: Mutex::new(None),
        found: Mutex::new(None),
    };
    let (job, make) = (&job, &make);
    let workers = (samples.workers.max(1) as u64).min(samples.executions.max(1));
    let results: Vec<_> = std::thread::scope(|scope| {
        let spawn = |_| scope.spawn(|| job.worker(make));
        let handles: Vec<_> = (0..workers).map(spawn).collect();
        let join = |h: std::thread::ScopedJoinHandle<'_, _>| h.join();
        handles.into_iter().map(join).collect()
    });
    let mut sampled = Sampled {
        finding: None,
        stats: Stats::default(),
        cut_off: 0,
        limit: *held(&job.limit),
        collected: Vec::new(),
    };
    for result in results {
        let (stats, cut_off, collected) = result.unwrap_or_else(|panic| Err(Failed::Panicked(panic)))?;
        sampled.stats.add(&stats);
        sampled.cut_off += cut_off;
        sampled.collected.push(collected);
    }
    sampled.finding = held(&job.found).take().map(|(_, finding)| finding);
    Ok(sampled)
}

/// The state that the workers share.
struct Job<'a, W: System> {
    samples: &'a Samples<'a>,
    /// The number of the next execution.
    next: AtomicU64,
    stopped: AtomicBool,
    limit: Mutex<Option<Limit>>,
    /// The finding of the execution with the smallest number.
    found: Mutex<Option<(u64, W::Finding)>>,
}

/// Locks a mutex and ignores its poisoning: the worker that panicked is reported elsewhere.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Done<W> = (Stats, u64, <W as System>::Collected);

impl<W: System> Job<'_, W> {
    fn worker(&self, make: &impl Fn() -> W) -> Result<Done<W>, Failed<W::Error>> {
        // The remains of a worker that panicked serve only to stop the others.
        let result = match catch_unwind(AssertUnwindSafe(|| self.executions(make()))) {
            Ok(result) => result.map_err(Failed::System),
            Err(panic) => Err(Failed::Panicked(panic)),
        };
        if result.is_err() {
            self.stop();
        }
        result
    }

    fn stop(&self) {
        // Relaxed: joins hand the results over.
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn executions(&self, mut system: W) -> Result<Done<W>, W::Error> {
        let samples = self.samples;
        let Some(start) = system.start()? else {
            return Ok((Stats::default(), 0, system.collected()));
        };
        let mut walk: Walk<'_, W> = Walk {
            depth_max: samples.depth_max,
            limits: samples.limits,
            at: start.clone(),
            moves: Vec::new(),
            optional: Vec::new(),
            stats: Stats::default(),
            cut_off: 0,
        };
        // The length of a first, uniform execution. Priorities change and optional moves are taken at steps
        // chosen within about this length.
        let mut length = 1;
        if samples.optional_max > 0 || samples.choice != Choice::Uniform {
            let mut rng = SmallRng::seed_from_u64(samples.seed);
            let mut never = Times::new(&mut rng.clone(), 0, 1);
            walk.run(&mut system, &mut never, |_, moves, _| {
                rng.random_range(0..moves.len())
            })?;
            length = walk.stats.depth.max(1) as usize;
            (walk.stats, walk.cut_off) = (Stats::default(), 0);
        }
        loop {
            // Relaxed: the numbers only have to differ.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let passed = held(&self.found)
                .as_ref()
                .is_some_and(|(first, _)| *first < number);
            if number >= samples.executions || passed || self.stopped.load(Ordering::Relaxed) {
                break;
            }
            walk.at.clone_from(&start);
            let mut rng = SmallRng::seed_from_u64(samples.seed.wrapping_add(number));
            let mut times = Times::new(&mut rng, samples.optional_max, length);
            let finding = match samples.choice {
                Choice::Uniform => walk.run(&mut system, &mut times, |_, moves, _| {
                    rng.random_range(0..moves.len())
                }),
                Choice::Priorities(depth) => {
                    let mut priorities = Priorities::new(rng, depth, length);
                    walk.run(&mut system, &mut times, |step, moves, system| {
                        priorities.choose(step, moves, |what| system.mover(what))
                    })
                }
            }?;
            if let Some(finding) = finding {
                let mut found = held(&self.found);
                if found.as_ref().is_none_or(|(first, _)| number < *first) {
                    *found = Some((number, finding));
                }
            }
            if let Some(limit) = samples.limits.exceeded(0) {
                held(&self.limit).get_or_insert(limit);
                self.stop();
            }
            if let Some(tell) = samples.progress.filter(|_| number.is_multiple_of(REPORT)) {
                tell(&Progress {
                    states: 0,
                    executions: number,
                    done: number as f64 / samples.executions as f64,
                });
            }
        }
        Ok((walk.stats, walk.cut_off, system.collected()))
    }
}

/// The storage of one worker's executions.
struct Walk<'a, W: System> {
    depth_max: u64,
    limits: Limits<'a>,
    at: W::State,
    moves: Vec<W::Move>,
    optional: Vec<W::Move>,
    stats: Stats,
    cut_off: u64,
}

impl<W: System> Walk<'_, W> {
    /// Runs one execution from `at`. `choose` picks among the moves that are not optional at a step. `times`
    /// says whether an optional move comes first.
    fn run(
        &mut self,
        system: &mut W,
        times: &mut Times,
        mut choose: impl FnMut(usize, &[W::Move], &W) -> usize,
    ) -> Result<Option<W::Finding>, W::Error> {
        self.stats.ends += 1;
        for step in 0.. {
            self.moves.clear();
            system.enabled(&mut self.at, &mut self.moves);
            self.optional.clear();
            let (at, optional) = (&self.at, &mut self.optional);
            self.moves.retain(|&what| {
                let is_optional = system.is_optional(at, what);
                optional.extend(is_optional.then_some(what));
                !is_optional
            });
            self.stats.depth = self.stats.depth.max(step);
            // An execution that the deadline interrupts is not counted. The caller finds the same limit.
            if step > 0 && self.limits.is_late_after(step) {
                self.stats.ends -= 1;
                system.limited(&self.at);
                break;
            }
            let optional = times.choose(step as usize, self.optional.len());
            let flow = if self.moves.is_empty() && optional.is_none() {
                match system.end(&mut self.at)? {
                    Flow::On => Flow::Cut,
                    flow => flow,
                }
            } else if step > self.depth_max {
                self.cut_off += 1;
                system.limited(&self.at);
                Flow::Cut
            } else {
                let what = match optional {
                    Some(index) => self.optional[index],
                    None => self.moves[choose(step as usize, &self.moves, system)],
                };
                self.stats.moves += 1;
                system.apply(&mut self.at, what)?
            };
            match flow {
                Flow::On => {}
                Flow::Cut | Flow::Quit => break,
                Flow::Found(finding) => return Ok(Some(finding)),
            }
        }
        Ok(None)
    }
}

/// The steps at which an execution takes optional moves.
struct Times {
    rng: SmallRng,
    /// The steps, ascending, and the number of them that have passed.
    at: Vec<usize>,
    passed: usize,
}

impl Times {
    fn new(rng: &mut SmallRng, count: u32, length: usize) -> Times {
        let range = 0..length + length / 2 + 1;
        let mut at: Vec<usize> = (0..count).map(|_| rng.random_range(range.clone())).collect();
        at.sort_unstable();
        let seed = if count == 0 { 0 } else { rng.random() };
        Times {
            rng: SmallRng::seed_from_u64(seed),
            at,
            passed: 0,
        }
    }

    /// Returns the optional move that comes next among `count`, if it is time for one.
    fn choose(&mut self, step: usize, count: usize) -> Option<usize> {
        let due = self.at.get(self.passed).is_some_and(|&at| at <= step);
        (due && count > 0).then(|| {
            self.passed += 1;
            self.rng.random_range(0..count)
        })
    }
}

/// The priorities of one execution.
struct Priorities {
    rng: SmallRng,
    of: FxHashMap<Mover, u64>,
    /// The steps, ascending, at which the highest priority falls, and the number of them that have passed.
    changes: Vec<usize>,
    passed: usize,
}

impl Priorities {
    fn new(mut rng: SmallRng, depth: u32, length: usize) -> Priorities {
        let mut changes: Vec<usize> = (1..depth).map(|_| rng.random_range(0..length)).collect();
        changes.sort_unstable();
        Priorities {
            rng,
            of: FxHashMap::default(),
            changes,
            passed: 0,
        }
    }

    fn choose<M: Copy>(&mut self, step: usize, moves: &[M], mover: impl Fn(M) -> Mover) -> usize {
        for &what in moves {
            let rng = &mut self.rng;
            // A first priority is above every priority that has fallen.
            self.of
                .entry(mover(what))
                .or_insert_with(|| rng.random_range(1 << 32..u64::MAX));
        }
        let mut best = self.highest(moves, &mover);
        while self.changes.get(self.passed).is_some_and(|&at| at <= step) {
            self.passed += 1;
            let low = (self.changes.len() - self.passed) as u64;
            self.of.insert(best, low);
            best = self.highest(moves, &mover);
        }
        let own: Vec<usize> = (0..moves.len()).filter(|&i| mover(moves[i]) == best).collect();
        own[self.rng.random_range(0..own.len())]
    }

    fn highest<M: Copy>(&self, moves: &[M], mover: &impl Fn(M) -> Mover) -> Mover {
        let movers = moves.iter().map(|&what| mover(what));
        let by_priority = movers.max_by_key(|m| (self.of.get(m).copied().unwrap_or(0), *m));
        by_priority.unwrap_or_default()
    }
}
