//! The checkers: how each runs the threads of an algorithm, and what it says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::algorithms::{Algorithm, Size, Variant, WORDS, Words};

/// A checker and a way to choose schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Tool {
    /// loom: all executions under its model of C11.
    Loom,
    /// shuttle: all interleavings, depth first. Memory is sequentially consistent.
    ShuttleDfs,
    /// shuttle: random schedules.
    ShuttleRandom,
    /// loco-sim: all executions under x86-TSO (one node of the RDMA model).
    LocoSim,
    /// loco-sim: random schedules.
    LocoSimRandom,
}

/// What a checker said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Executions: complete ones that were run; for the exhaustive loco-sim, distinct final states.
    pub executions: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// True if there is no other execution.
    pub complete: bool,
    /// True if an execution failed.
    pub found: bool,
}

/// Random schedules that are tried where nothing fails before.
const RANDOM: u64 = 20_000;
/// Longest execution for shuttle's depth-first search, which never lets a spinning thread off. What is longer is cut off.
const STEPS: usize = 200;

/// Runs an algorithm under a checker for at most `limit`.
pub fn run(tool: Tool, algorithm: Algorithm, size: Size, variant: Variant, limit: Duration) -> Answer {
    match tool {
        Tool::Loom => loom(algorithm, size, variant, limit),
        Tool::ShuttleDfs | Tool::ShuttleRandom => shuttle(tool, algorithm, size, variant, limit),
        Tool::LocoSim | Tool::LocoSimRandom => loco_sim(tool, algorithm, size, variant, limit),
    }
}

/// Runs a checker that panics when an execution fails, and counts the executions begun.
fn until_panic(limit: Duration, check: impl FnOnce(Arc<AtomicU64>) -> bool) -> Answer {
    let executions = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    std::panic::set_hook(Box::new(|_| {}));
    let ended = catch_unwind(AssertUnwindSafe(|| check(executions.clone())));
    let _ = std::panic::take_hook();
    let seconds = began.elapsed();
    Answer {
        executions: executions.load(Relaxed),
        seconds: seconds.as_secs_f64(),
        complete: matches!(ended, Ok(true)) && seconds < limit,
        found: ended.is_err(),
    }
}

#[derive(Clone)]
struct LoomWords(Arc<Vec<loom::sync::atomic::AtomicU64>>);

impl Words for LoomWords {
    fn load(&self, word: usize) -> u64 {
        self.0[word].load(loom::sync::atomic::Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        self.0[word].store(value, loom::sync::atomic::Ordering::Release);
    }

    fn fetch_add(&self, word: usize, value: u64) -> u64 {
        self.0[word].fetch_add(value, loom::sync::atomic::Ordering::AcqRel)
    }

    fn fence(&self) {
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    }

    fn wait(&self, mut ready: impl FnMut() -> bool) {
        while !ready() {
            loom::thread::yield_now();
        }
    }
}

fn loom(algorithm: Algorithm, size: Size, variant: Variant, limit: Duration) -> Answer {
    until_panic(limit, |executions| {
        let mut builder = loom::model::Builder::new();
        builder.max_duration = Some(limit);
        builder.max_branches = 100_000;
        builder.check(move || {
            executions.fetch_add(1, Relaxed);
            let words = LoomWords(Arc::new(
                (0..WORDS)
                    .map(|_| loom::sync::atomic::AtomicU64::new(0))
                    .collect(),
            ));
            let others: Vec<_> = (1..size.threads)
                .map(|me| {
                    let words = words.clone();
                    loom::thread::spawn(move || algorithm.run(&words, me, size, variant))
                })
                .collect();
            algorithm.run(&words, 0, size, variant);
            others
                .into_iter()
                .for_each(|other| other.join().expect("a thread of loom"));
        });
        true
    })
}

#[derive(Clone)]
struct ShuttleWords(Arc<Vec<shuttle::sync::atomic::AtomicU64>>);

impl Words for ShuttleWords {
    fn load(&self, word: usize) -> u64 {
        self.0[word].load(shuttle::sync::atomic::Ordering::SeqCst)
    }

    fn store(&self, word: usize, value: u64) {
        self.0[word].store(value, shuttle::sync::atomic::Ordering::SeqCst);
    }

    fn fetch_add(&self, word: usize, value: u64) -> u64 {
        self.0[word].fetch_add(value, shuttle::sync::atomic::Ordering::SeqCst)
    }

    fn fence(&self) {
        shuttle::sync::atomic::fence(shuttle::sync::atomic::Ordering::SeqCst);
    }

    fn wait(&self, mut ready: impl FnMut() -> bool) {
        while !ready() {
            shuttle::thread::yield_now();
        }
    }
}

fn shuttle(tool: Tool, algorithm: Algorithm, size: Size, variant: Variant, limit: Duration) -> Answer {
    use shuttle::scheduler::{DfsScheduler, RandomScheduler};
    until_panic(limit, |executions| {
        let mut config = shuttle::Config::new();
        config.max_time = Some(limit);
        config.failure_persistence = shuttle::FailurePersistence::None;
        config.max_steps = shuttle::MaxSteps::ContinueAfter(STEPS);
        let cut_off = Arc::new(AtomicU64::new(0));
        let ended = cut_off.clone();
        let begun = executions.clone();
        let body = move || {
            executions.fetch_add(1, Relaxed);
            let words = ShuttleWords(Arc::new(
                (0..WORDS)
                    .map(|_| shuttle::sync::atomic::AtomicU64::new(0))
                    .collect(),
            ));
            let others: Vec<_> = (1..size.threads)
                .map(|me| {
                    let words = words.clone();
                    shuttle::thread::spawn(move || algorithm.run(&words, me, size, variant))
                })
                .collect();
            algorithm.run(&words, 0, size, variant);
            others
                .into_iter()
                .for_each(|other| other.join().expect("a thread of shuttle"));
            ended.fetch_add(1, Relaxed);
        };
        match tool {
            Tool::ShuttleRandom => {
                shuttle::Runner::new(RandomScheduler::new(RANDOM as usize), config).run(body);
                false
            }
            _ => {
                shuttle::Runner::new(DfsScheduler::new(None, false), config).run(body);
                cut_off.load(Relaxed) == begun.load(Relaxed)
            }
        }
    })
}

#[derive(Clone)]
struct ModelWords {
    fabric: loco_sim::ModelFabric,
    memory: loco_sim::ModelMemory,
}

impl ModelWords {
    fn cell(&self, word: usize) -> impl loco_fabric::WordCell<u64> {
        loco_fabric::Memory::cell::<u64>(&self.memory, 8 * word).expect("a word of the region")
    }
}

impl Words for ModelWords {
    fn load(&self, word: usize) -> u64 {
        loco_fabric::WordCell::load(&self.cell(word))
    }

    fn store(&self, word: usize, value: u64) {
        loco_fabric::WordCell::store(&self.cell(word), value);
    }

    fn fetch_add(&self, word: usize, value: u64) -> u64 {
        loco_fabric::WordCell::fetch_add(&self.cell(word), value)
    }

    fn fence(&self) {
        loco_fabric::Fabric::cpu_fence(&self.fabric);
    }

    fn wait(&self, mut ready: impl FnMut() -> bool) {
        let wait = loco_fabric::Wait {
            what: "a word",
            peers: loco_fabric::Peers::None,
            deadline: None,
        };
        loco_fabric::Fabric::wait(&self.fabric, wait, || ready().then_some(())).expect("nobody is lost");
    }
}

fn loco_sim(tool: Tool, algorithm: Algorithm, size: Size, variant: Variant, limit: Duration) -> Answer {
    use loco_sim::{Completeness, Config, Strategy, explore};
    let strategy = match tool {
        Tool::LocoSimRandom => Strategy::Random {
            executions: RANDOM,
            seed: 1,
        },
        _ => Strategy::Exhaustive,
    };
    // As the others, on one core.
    let config = Config::default()
        .strategy(strategy)
        .time_max(Some(limit))
        .workers(1);
    let report = explore(&config, |world| {
        let node = world.node(|fabric| {
            let memory = loco_fabric::Fabric::allocate(&fabric, 8 * WORDS, loco_fabric::MemoryKind::Host)
                .expect("memory of the model");
            ModelWords { fabric, memory }
        });
        for me in 0..size.threads {
            world.thread(&node, &format!("thread {me}"), move |words: &ModelWords| {
                algorithm.run(words, me, size, variant)
            });
        }
    })
    .expect("a world that can be explored");
    Answer {
        executions: report.stats.executions,
        seconds: report.stats.seconds,
        complete: report.completeness == Completeness::Complete,
        found: report.failure.is_some(),
    }
}
