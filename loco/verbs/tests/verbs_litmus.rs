//! Runs the litmus tests of RDMA-TSO'24 (appendix A, Figs. 1 and 3) as real programs on this host's RDMA
//! device. An outcome that the model does not allow must not occur in any of `LOCO_LITMUS_RUNS` runs (default
//! 500). The frequency of the weak outcomes that it allows is printed.
//!
//! Runs are made in batches. Each run has its own copy of every location, on its own cache line. The threads
//! start each run together, each after a random delay, so that they meet at different points of the program.
//!
//! They run on the device of `loco nic`, too, on every host. Without another device each test says *skipped*;
//! `LOCO_REQUIRE_RDMA` makes that a failure.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use litmus::{Litmus, Observed, Outcome, Step};
use loco_fabric::{
    CompletionStatus, Fabric, FabricError, Local, Memory, MemoryKind, NodeId, Peers, Platform, Posted,
    QueuePair, Std, Target, Wait, WordCell, Work, WorkRequestId,
};
use loco_host::HugePages;
use loco_testing::{on_nic, skipped};
use loco_verbs::{VerbsConfig, VerbsFabric, VerbsMemory, VerbsQueuePair, VerbsRemote, choose};

mod litmus;
/// The number of runs that are under way at once.
const BATCH: usize = 250;
/// The distance of two locations: each has a cache line.
const STRIDE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

macro_rules! litmus {
    ($($test:ident $name:literal)*) => {
        /// Every test of the directory.
        const NAMES: &[&str] = &[$($name),*];
        $(#[test]
        fn $test() {
            run($name);
        })*
    };
}

litmus! {
    tso_1a "TSO-1a" tso_1b "TSO-1b" tso_1c "TSO-1c" tso_1d "TSO-1d"
    rdma_3a "RDMA-3a" rdma_3b "RDMA-3b" rdma_3c "RDMA-3c" rdma_3d "RDMA-3d" rdma_3e "RDMA-3e"
    st1 "ST1" st2 "ST2" st3 "ST3" st4 "ST4" st5 "ST5" st6 "ST6" st7 "ST7" st8 "ST8" st9 "ST9"
    mp1 "MP1" mp2 "MP2" mp3 "MP3" mp3bis "MP3bis" mp4 "MP4" mp4bis "MP4bis"
    sb1 "SB1" sb2 "SB2" sb3 "SB3" sb3bis "SB3bis"
    lb1 "LB1" lb2 "LB2" lb3 "LB3" lb3bis "LB3bis"
    iriw1 "IRIW1" iriw2 "IRIW2"
    w2_plus_2w1 "2+2W1" w2_plus_2w2 "2+2W2" w2_plus_2w3 "2+2W3" w2_plus_2w3bis "2+2W3bis"
    qp1 "QP1" rff1 "RFF1" rrpr3 "RRPR3" crma1 "CRMA1" crma2 "CRMA2"
    gfp1 "GFP1" gfp2 "GFP2" gfg "GFG"
}

#[test]
fn no_test_is_left_out() {
    let mut there: Vec<_> = std::fs::read_dir(litmus::directory())
        .unwrap()
        .filter_map(|file| {
            Some(
                file.unwrap()
                    .file_name()
                    .to_str()?
                    .strip_suffix(".litmus")?
                    .to_owned(),
            )
        })
        .collect();
    let mut here = NAMES.to_vec();
    there.sort_unstable();
    here.sort_unstable();
    assert_eq!(here, there);
    for name in here {
        // Each test can be read, and its verdicts agree with the outcomes that the model allows.
        assert!(!Litmus::read(name).queries.is_empty(), "{name}");
    }
}

#[test]
fn on_nic() {
    on_nic::again("on_nic", "ibta", "default", &[("LOCO_LITMUS_RUNS", "100")]);
}

fn runs() -> usize {
    std::env::var("LOCO_LITMUS_RUNS").map_or(500, |runs| runs.parse().unwrap())
}

fn run(name: &str) {
    let config = VerbsConfig::from_env()
        .unwrap()
        .arena_bytes(1 << 20)
        .huge_pages(HugePages::Never);
    if let Err(error) = choose(&config) {
        return skipped("RDMA", error);
    }
    let litmus = Litmus::read(name);
    let nodes = litmus.locations.iter().map(|(node, _)| node);
    let nodes = nodes
        .chain(litmus.threads.iter().map(|(node, _)| node))
        .max()
        .unwrap();
    let fabrics = loco_conformance::bring_up(usize::from(*nodes), |mesh| {
        VerbsFabric::new(mesh, config.clone()).unwrap()
    });
    let memories: Vec<_> = litmus
        .locations
        .iter()
        .map(|&(node, _)| {
            fabrics[usize::from(node) - 1]
                .allocate(STRIDE * BATCH, MemoryKind::Host)
                .unwrap()
        })
        .collect();
    let inboxes: Vec<_> = fabrics.iter().map(|_| Mutex::default()).collect();
    let mut runners: Vec<_> = (0..litmus.threads.len())
        .map(|tag| Runner::new(tag, &litmus, &fabrics, &memories, &inboxes))
        .collect();
    let start = Instant::now();
    let mut seen: Vec<BTreeMap<Outcome, usize>> = vec![BTreeMap::new(); litmus.queries.len()];
    let batches = runs().div_ceil(BATCH);
    for _ in 0..batches {
        for (memory, (_, value)) in memories.iter().zip(&litmus.locations) {
            for run in 0..BATCH {
                memory.cell::<u64>(STRIDE * run).unwrap().store_fence(*value);
            }
        }
        let begun: Vec<_> = runners.iter().map(|_| AtomicUsize::new(0)).collect();
        std::thread::scope(|scope| {
            for (runner, (_, steps)) in runners.iter_mut().zip(&litmus.threads) {
                let begun = &begun;
                scope.spawn(move || runner.batch(steps, begun));
            }
        });
        // A last read on each queue pair places the puts.
        for runner in &mut runners {
            let peers: Vec<_> = runner.queue_pairs.keys().copied().collect();
            for peer in peers {
                runner.post(peer, |qp, work| qp.flush(work));
            }
            runner.finish();
        }
        for run in 0..BATCH {
            let value_of = |what: Observed| match what {
                // One thread writes a register; its value in the others is 0.
                Observed::Register(register) => runners
                    .iter()
                    .map(|r| r.registers[run * litmus.registers + register])
                    .sum(),
                Observed::Location(location) => memories[location].cell::<u64>(STRIDE * run).unwrap().load(),
            };
            for (query, seen) in litmus.queries.iter().zip(&mut seen) {
                let outcome: Outcome = query.asked.keys().map(|&what| (what, value_of(what))).collect();
                assert!(
                    query.allowed.contains(&outcome),
                    "{name}: {outcome:?} is not among {:?}",
                    query.allowed
                );
                *seen.entry(outcome).or_default() += 1;
            }
        }
    }
    let took = start.elapsed();
    for (query, seen) in litmus.queries.iter().zip(&seen) {
        let outcomes: BTreeSet<_> = seen.keys().collect();
        println!(
            "{name}: {} runs in {took:.1?}, {} of {} allowed outcomes seen; asked for ({}): {} times",
            batches * BATCH,
            outcomes.len(),
            query.allowed.len(),
            if query.forbidden { "forbidden" } else { "allowed" },
            seen.get(&query.asked).unwrap_or(&0),
        );
    }
}

/// A thread's view: its node's memory, its peers' memory, and the operations that it has posted.
struct Runner<'a> {
    fabric: &'a VerbsFabric,
    litmus: &'a Litmus,
    memories: &'a [VerbsMemory],
    remotes: Vec<VerbsRemote>,
    constants: VerbsMemory,
    queue_pairs: HashMap<u16, VerbsQueuePair>,
    /// The number of operations posted to each peer, and polled by the program.
    posted: HashMap<u16, u64>,
    polled: HashMap<u16, u64>,
    fenced: HashMap<u16, bool>,
    /// The number of this thread.
    tag: usize,
    inbox: &'a Mutex<HashMap<u64, u64>>,
    registers: Vec<u64>,
    random: u64,
}

impl<'a> Runner<'a> {
    fn new(
        tag: usize,
        litmus: &'a Litmus,
        fabrics: &'a [VerbsFabric],
        memories: &'a [VerbsMemory],
        inboxes: &'a [Mutex<HashMap<u64, u64>>],
    ) -> Runner<'a> {
        let (node, steps) = &litmus.threads[tag];
        let at = |node: u16| usize::from(node) - 1;
        let fabric = &fabrics[at(*node)];
        let import = |((owner, _), memory): (&(u16, u64), &VerbsMemory)| {
            let key = fabrics[at(*owner)].export(memory);
            fabric.import(NodeId(owner - 1), &key).unwrap()
        };
        let constants = fabric.allocate(64, MemoryKind::Host).unwrap();
        for value in 0..8 {
            let cell = constants.cell::<u64>(8 * value).unwrap();
            cell.store(value as u64);
        }
        let mut queue_pairs = HashMap::new();
        for step in steps {
            if let Step::Put(peer, ..) | Step::Get(peer, ..) = *step {
                queue_pairs
                    .entry(peer)
                    .or_insert_with(|| fabric.queue_pair(NodeId(peer - 1)).unwrap());
            }
        }
        Runner {
            fabric,
            litmus,
            memories,
            remotes: litmus.locations.iter().zip(memories).map(import).collect(),
            constants,
            queue_pairs,
            posted: HashMap::new(),
            polled: HashMap::new(),
            fenced: HashMap::new(),
            tag,
            inbox: &inboxes[at(*node)],
            registers: vec![0; BATCH * litmus.registers],
            random: 0x9E37_79B9_7F4A_7C15 ^ tag as u64,
        }
    }

    /// Takes this node's completions and sorts them by tag and peer to the threads that posted.
    fn take(&self) {
        let mut completions = Vec::new();
        let mut inbox = self.inbox.lock().unwrap();
        self.fabric.poll(&mut completions).unwrap();
        for completion in completions {
            assert_eq!(completion.status, CompletionStatus::Success);
            *inbox.entry(completion.id.0).or_default() += 1;
        }
    }

    fn ended(&self, peer: u16) -> u64 {
        self.inbox
            .lock()
            .unwrap()
            .get(&self.key(peer))
            .copied()
            .unwrap_or(0)
    }

    fn key(&self, peer: u16) -> u64 {
        (self.tag as u64) << 16 | u64::from(peer)
    }

    fn until(&self, ready: impl Fn() -> bool) {
        let wait = Wait {
            what: "a litmus test",
            peers: Peers::None,
            deadline: Some(Std.now().after(PATIENCE)),
        };
        let looked = self.fabric.wait(wait, || {
            self.take();
            ready().then_some(())
        });
        looked.unwrap();
    }

    fn post(
        &mut self,
        peer: u16,
        operation: impl Fn(&mut VerbsQueuePair, Work) -> Result<Posted, FabricError>,
    ) {
        let mut work = Work::signaled(WorkRequestId(self.key(peer)));
        if self.fenced.insert(peer, false) == Some(true) {
            work = work.fenced();
        }
        loop {
            match operation(self.queue_pairs.get_mut(&peer).unwrap(), work) {
                Err(FabricError::QueueFull(_)) => {
                    let ended = self.ended(peer);
                    self.until(|| self.ended(peer) > ended);
                }
                posted => break assert_eq!(posted, Ok(Posted::Pending)),
            }
        }
        *self.posted.entry(peer).or_default() += 1;
    }

    fn step(&mut self, step: Step, run: usize) {
        let at = STRIDE * run;
        let local = |memory, offset| Local {
            memory,
            offset,
            len: 8,
        };
        match step {
            // Plain accesses of x86-TSO give acquire and release; neither adds a fence.
            Step::Store(x, value) => self.memories[x].cell::<u64>(at).unwrap().store(value),
            Step::Load(x, register) => {
                self.registers[run * self.litmus.registers + register] =
                    self.memories[x].cell::<u64>(at).unwrap().load();
            }
            Step::Fence => self.fabric.cpu_fence(),
            Step::Put(peer, to, from) => {
                let (remote, memories, constants) =
                    (self.remotes[to].clone(), self.memories, self.constants.clone());
                self.post(peer, |qp, work| {
                    let src = match from {
                        Ok(from) => local(&memories[from], at),
                        Err(value) => local(&constants, usize::try_from(value).unwrap() * 8),
                    };
                    let dst = Target {
                        remote: &remote,
                        offset: at,
                    };
                    qp.put(src, dst, work)
                });
            }
            Step::Get(peer, from, to) => {
                let (remote, memories) = (self.remotes[from].clone(), self.memories);
                self.post(peer, |qp, work| {
                    let src = Target {
                        remote: &remote,
                        offset: at,
                    };
                    qp.get(local(&memories[to], at), src, work)
                });
            }
            // The n-th poll waits for the n-th operation.
            Step::Poll(peer) => {
                let polled = self.polled.entry(peer).or_default();
                *polled += 1;
                let polled = *polled;
                self.until(|| self.ended(peer) >= polled);
            }
            Step::RemoteFence(peer) => {
                self.fenced.insert(peer, true);
            }
        }
    }

    /// Prepares for a run: operations of the last run that were not polled do not count in this one.
    fn begin(&mut self) {
        for (&peer, &posted) in &self.posted {
            self.polled.insert(peer, posted);
        }
        self.fenced.clear();
    }

    /// Executes all runs of a batch. Every run starts when each thread has come to it, with a random delay.
    fn batch(&mut self, steps: &[Step], begun: &[AtomicUsize]) {
        let start = Instant::now();
        for run in 0..BATCH {
            begun[self.tag].store(run + 1, Ordering::Release);
            while begun.iter().any(|thread| thread.load(Ordering::Acquire) <= run) {
                assert!(start.elapsed() < 2 * PATIENCE, "a thread does not come");
                std::thread::yield_now();
            }
            self.delay();
            self.begin();
            for &step in steps {
                self.step(step, run);
            }
        }
        self.finish();
    }

    /// Waits between nothing and several times the time of an operation. Short delays are as likely as long
    /// ones.
    fn delay(&mut self) {
        // This is xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let nanoseconds = (self.random >> 32) % (1 << (self.random % 19));
        let start = Instant::now();
        while start.elapsed() < Duration::from_nanos(nanoseconds) {
            std::hint::spin_loop();
        }
    }

    fn finish(&self) {
        for (&peer, &posted) in &self.posted {
            self.until(|| self.ended(peer) >= posted);
        }
    }
}
