//! The nodes of the worlds, random numbers to make these from, and the outcomes of their executions.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use loco_fabric::{Fabric, Memory, MemoryKind, Peers, RegionKey, Wait, WordCell};
use loco_sim::{Completeness, Config, End, ModelFabric, ModelMemory, Strategy, Tier, World, explore};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The most threads of a world. Each has a word on each node.
pub(crate) const THREADS: usize = 3;

/// Returns the seeds from `first` on: so many, or as many as the variable `SEEDS` of the environment says, to try more than the
/// suite has time for.
pub(crate) fn seeds(first: u64, count: u64) -> Range<u64> {
    let more = std::env::var("SEEDS").ok().map(|text| text.parse().unwrap());
    first..first + more.unwrap_or(count)
}

/// Random numbers that a seed determines.
pub(crate) struct Dice(SmallRng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(SmallRng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    /// Returns some of the numbers below `bound`, in some order.
    pub(crate) fn some(&mut self, bound: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..bound).collect();
        let count = self.below(bound + 1);
        (0..count).map(|_| left.remove(self.below(left.len()))).collect()
    }
}

pub(crate) struct Node {
    pub(crate) fabric: ModelFabric,
    pub(crate) memory: ModelMemory,
    pub(crate) scratch: ModelMemory,
}

/// Makes a node with a word for each thread.
pub(crate) fn node(fabric: ModelFabric) -> Node {
    let memory = fabric.allocate(8 * THREADS, MemoryKind::Host).unwrap();
    let scratch = fabric.allocate(8, MemoryKind::Host).unwrap();
    Node {
        fabric,
        memory,
        scratch,
    }
}

impl Node {
    /// The region is the first thing that a node allocates, and set-up threads have the numbers of their nodes.
    pub(crate) fn key(peer: usize) -> RegionKey {
        RegionKey {
            arena: 0,
            address: (peer as u64) << 43,
            len: 8 * THREADS as u64,
            rkey: 0,
        }
    }

    pub(crate) fn load(&self, word: usize) -> u64 {
        self.memory.cell::<u64>(8 * word).unwrap().load()
    }

    pub(crate) fn wait(&self, holds: impl FnMut() -> Option<()>) {
        let wait = Wait {
            what: "words",
            peers: Peers::None,
            deadline: None,
        };
        self.fabric.wait(wait, holds).unwrap();
    }
}

/// Explores and returns what `show` says of the ends of all executions that were met. None of them may fail, and nothing may be left
/// out, except by random executions.
pub(crate) fn outcomes<T: Ord + Clone + Send + 'static>(
    config: &Config,
    world_is: &dyn Debug,
    show: fn(&End<'_>) -> T,
    build: impl Fn(&mut World) + Sync,
) -> BTreeSet<T> {
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let report = explore(config, |world| {
        build(world);
        let found = found.clone();
        world.finally(move |end| {
            found.lock().unwrap().insert(show(end));
        });
    })
    .unwrap();
    assert!(report.failure.is_none(), "{world_is:?}: {:?}", report.failure);
    if let Strategy::Exhaustive = config.strategy {
        assert_eq!(report.completeness, Completeness::Complete, "{world_is:?}");
    }
    let found = found.lock().unwrap();
    found.clone()
}

/// Formats the histories of all threads.
pub(crate) fn history(end: &End<'_>) -> String {
    let threads = end.histories().into_iter().map(|of| (of.name, of.events));
    format!("{:?}", threads.collect::<Vec<_>>())
}

/// Checks for each seed that searches with the reduction, by one worker and by two, meet the outcomes that a search without it meets.
/// The tiers of the network take turns.
pub(crate) fn agree<P: Debug>(
    seeds: Range<u64>,
    plans: fn(u64) -> Vec<P>,
    outcomes: impl Fn(&Config, &[P]) -> BTreeSet<String>,
) {
    for seed in seeds {
        // Every other world is on the weakest tier, on which objects rely.
        let tier = match seed % 2 {
            0 => Tier::Unordered,
            _ => Tier::ALL[(seed / 2 % 4) as usize],
        };
        let plans = plans(seed);
        let config = |reduction, workers| Config {
            tier,
            reduction,
            workers,
            ..Config::default()
        };
        let whole = outcomes(&config(false, 2), &plans);
        for workers in [1, 2] {
            assert_eq!(
                outcomes(&config(true, workers), &plans),
                whole,
                "seed {seed}, {workers}, {tier}: {plans:?}"
            );
        }
    }
}
