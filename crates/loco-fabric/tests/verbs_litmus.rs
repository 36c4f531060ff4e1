//! The litmus tests of RDMA-TSO'24 appendix A (and its Figs. 1 to 3) as real programs on this host's RDMA device: an
//! outcome that the model forbids must not occur in any of `LOCO_LITMUS_RUNS` runs (default 1000).
//!
//! A program is written as in the paper: `x := 1` stores, `a := x` loads, `z^2 := x` puts, `a := y^2` gets, with
//! `poll(n)`, `rfence(n)`, `mfence`. Runs are made in batches: each run has its own copy of every location, on its own
//! cache line; the threads meet before each batch and go through it at their own speed, in different directions, so that
//! they meet at different points of the program.
//!
//! Without a device each test says so and passes; `LOCO_REQUIRE_RDMA` makes that a failure.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loco_fabric::verbs::{VerbsConfig, VerbsFabric, VerbsMemory, VerbsQueuePair, VerbsRemote, choose};
use loco_fabric::{
    CompletionStatus, Fabric, FabricError, HugePages, Local, Memory, MemoryKind, Mesh, NodeId, Peers,
    Platform, Posted, QueuePair, Std, Target, Wait, WordCell, Work, WorkRequestId,
};

/// Runs that are under way at once.
const BATCH: usize = 250;
/// A cache line for each location.
const STRIDE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// A litmus test: locations of each node with their first values, threads with their node (from 1), and the outcome
/// that must not occur, over registers and final values of locations.
struct Litmus {
    name: &'static str,
    nodes: &'static [&'static [(&'static str, u64)]],
    threads: &'static [(u16, &'static str)],
    forbidden: &'static [(&'static str, u64)],
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Store(usize, u64),
    /// Location to register.
    Load(usize, usize),
    Fence,
    /// To peer's location: a location or a constant.
    Put(u16, usize, Result<usize, u64>),
    /// From peer's location to a location.
    Get(u16, usize, usize),
    Poll(u16),
    RemoteFence(u16),
}

/// A test with its names resolved. Locations and registers are numbered over all nodes.
struct Program {
    locations: Vec<(u16, u64)>,
    registers: usize,
    threads: Vec<(u16, Vec<Step>)>,
    /// Register or location, and value.
    forbidden: Vec<(Result<usize, usize>, u64)>,
}

fn compile(test: &Litmus) -> Program {
    let mut names = HashMap::new();
    let mut locations = Vec::new();
    for (node, declared) in test.nodes.iter().enumerate() {
        for &(name, value) in *declared {
            names.insert(name, locations.len());
            locations.push((u16::try_from(node).unwrap() + 1, value));
        }
    }
    let mut registers: HashMap<&str, usize> = HashMap::new();
    let mut threads = Vec::new();
    for &(node, text) in test.threads {
        let mut steps = Vec::new();
        for statement in text.split(';').map(str::trim) {
            let argument = |name: &str| {
                let rest = statement.strip_prefix(name)?.strip_prefix('(')?;
                Some(rest.strip_suffix(')')?.parse().unwrap())
            };
            if statement == "mfence" {
                steps.push(Step::Fence);
            } else if let Some(peer) = argument("poll") {
                steps.push(Step::Poll(peer));
            } else if let Some(peer) = argument("rfence") {
                steps.push(Step::RemoteFence(peer));
            } else {
                let (to, from) = statement.split_once(" := ").unwrap();
                let split = |name: &'static str| -> (&'static str, Option<u16>) {
                    name.split_once('^')
                        .map_or((name, None), |(name, peer)| (name, Some(peer.parse().unwrap())))
                };
                let ((to, to_peer), (from, from_peer)) = (split(to), split(from));
                steps.push(match (to_peer, from_peer, from.parse::<u64>()) {
                    (Some(peer), None, Ok(value)) => Step::Put(peer, names[to], Err(value)),
                    (Some(peer), None, Err(_)) => Step::Put(peer, names[to], Ok(names[from])),
                    (None, Some(peer), _) => Step::Get(peer, names[from], names[to]),
                    (None, None, Ok(value)) => Step::Store(names[to], value),
                    (None, None, Err(_)) => {
                        let next = registers.len();
                        Step::Load(names[from], *registers.entry(to).or_insert(next))
                    }
                    (Some(_), Some(_), _) => panic!("{statement}: remote to remote"),
                });
            }
        }
        threads.push((node, steps));
    }
    let forbidden = test.forbidden.iter().map(|&(name, value)| {
        let what = registers
            .get(name)
            .map_or_else(|| Err(names[name]), |&register| Ok(register));
        (what, value)
    });
    Program {
        forbidden: forbidden.collect(),
        locations,
        registers: registers.len(),
        threads,
    }
}

/// A thread's view: its node's memory, its peers', and what it has posted.
struct Runner<'a> {
    fabric: &'a VerbsFabric,
    program: &'a Program,
    memories: &'a [VerbsMemory],
    remotes: Vec<VerbsRemote>,
    constants: VerbsMemory,
    queue_pairs: HashMap<u16, VerbsQueuePair>,
    /// Per peer, operations posted, and polled by the program.
    posted: HashMap<u16, u64>,
    polled: HashMap<u16, u64>,
    fenced: HashMap<u16, bool>,
    tag: u64,
    inbox: &'a std::sync::Mutex<HashMap<u64, u64>>,
    registers: Vec<u64>,
}

impl Runner<'_> {
    /// Takes this node's completions and sorts them to the threads that posted, by their tag and peer.
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
        self.tag << 16 | u64::from(peer)
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
                Err(FabricError::QueueFull(_)) => self.take(),
                posted => break assert_eq!(posted, Ok(Posted::Pending)),
            }
        }
        *self.posted.entry(peer).or_default() += 1;
    }

    fn step(&mut self, step: Step, run: usize) {
        let at = STRIDE * run;
        let part = |memory, value: u64| Local {
            memory,
            offset: usize::try_from(value).unwrap() * 8,
            len: 8,
        };
        match step {
            // Relaxed and acquire or release are what plain accesses of x86-TSO give; none adds a fence.
            Step::Store(x, value) => self.memories[x]
                .cell::<u64>(at)
                .unwrap()
                .store(value, Ordering::Release),
            Step::Load(x, register) => {
                self.registers[run * self.program.registers + register] =
                    self.memories[x].cell::<u64>(at).unwrap().load(Ordering::Acquire);
            }
            Step::Fence => self.fabric.cpu_fence(),
            Step::Put(peer, to, from) => {
                let (remote, memories, constants) =
                    (self.remotes[to].clone(), self.memories, self.constants.clone());
                self.post(peer, |qp, work| {
                    let src = match from {
                        Ok(from) => Local {
                            memory: &memories[from],
                            offset: at,
                            len: 8,
                        },
                        Err(value) => part(&constants, value),
                    };
                    qp.put(
                        src,
                        Target {
                            remote: &remote,
                            offset: at,
                        },
                        work,
                    )
                });
            }
            Step::Get(peer, from, to) => {
                let (remote, memories) = (self.remotes[from].clone(), self.memories);
                self.post(peer, |qp, work| {
                    let dst = Local {
                        memory: &memories[to],
                        offset: at,
                        len: 8,
                    };
                    qp.get(
                        dst,
                        Target {
                            remote: &remote,
                            offset: at,
                        },
                        work,
                    )
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

    /// Between runs: what was posted but not polled in the last one is not this one's business.
    fn begin(&mut self) {
        for (&peer, &posted) in &self.posted {
            self.polled.insert(peer, posted);
        }
        self.fenced.clear();
    }

    fn finish(&self) {
        for (&peer, &posted) in &self.posted {
            self.until(|| self.ended(peer) >= posted);
        }
    }
}

fn runs() -> usize {
    std::env::var("LOCO_LITMUS_RUNS").map_or(1000, |runs| runs.parse().unwrap())
}

fn run(test: &Litmus) {
    let config = VerbsConfig {
        arena_bytes: 1 << 20,
        huge_pages: HugePages::Never,
        ..VerbsConfig::from_env().unwrap()
    };
    if let Err(error) = choose(&config) {
        assert!(std::env::var_os("LOCO_REQUIRE_RDMA").is_none(), "{error}");
        return eprintln!("SKIPPED: {error}");
    }
    let program = compile(test);
    let nodes = test.nodes.len();
    let fabrics: Vec<_> = std::thread::scope(|scope| {
        let ups: Vec<_> = Mesh::in_process(nodes)
            .unwrap()
            .into_iter()
            .map(|mesh| scope.spawn(|| VerbsFabric::new(mesh, config.clone()).unwrap()))
            .collect();
        ups.into_iter().map(|up| up.join().unwrap()).collect()
    });
    let fabric = |node: u16| &fabrics[usize::from(node) - 1];
    let memories: Vec<_> = program
        .locations
        .iter()
        .map(|&(node, _)| fabric(node).allocate(STRIDE * BATCH, MemoryKind::Host).unwrap())
        .collect();
    let inboxes: Vec<_> = fabrics.iter().map(|_| std::sync::Mutex::default()).collect();
    let mut runners: Vec<_> = program
        .threads
        .iter()
        .enumerate()
        .map(|(tag, (node, steps))| {
            let own = fabric(*node);
            let import = |((owner, _), memory): (&(u16, u64), &VerbsMemory)| {
                let key = fabric(*owner).export(memory);
                own.import(NodeId(owner - 1), &key).unwrap()
            };
            let constants = own.allocate(64, MemoryKind::Host).unwrap();
            for value in 0..8 {
                let cell = constants.cell::<u64>(8 * value).unwrap();
                cell.store(value as u64, Ordering::Release);
            }
            let peers = steps.iter().filter_map(|step| match *step {
                Step::Put(peer, ..) | Step::Get(peer, ..) => Some(peer),
                _ => None,
            });
            Runner {
                fabric: own,
                program: &program,
                memories: &memories,
                remotes: program.locations.iter().zip(&memories).map(import).collect(),
                constants,
                queue_pairs: peers
                    .map(|peer| (peer, own.queue_pair(NodeId(peer - 1)).unwrap()))
                    .collect(),
                posted: HashMap::new(),
                polled: HashMap::new(),
                fenced: HashMap::new(),
                tag: tag as u64,
                inbox: &inboxes[usize::from(*node) - 1],
                registers: vec![0; BATCH * program.registers],
            }
        })
        .collect();
    let start = std::time::Instant::now();
    for batch in 0..runs().div_ceil(BATCH) {
        for (memory, (_, value)) in memories.iter().zip(&program.locations) {
            for run in 0..BATCH {
                memory
                    .cell::<u64>(STRIDE * run)
                    .unwrap()
                    .store(*value, Ordering::SeqCst);
            }
        }
        let meet = Barrier::new(runners.len());
        std::thread::scope(|scope| {
            for (tag, (runner, (_, steps))) in runners.iter_mut().zip(&program.threads).enumerate() {
                let meet = &meet;
                scope.spawn(move || {
                    meet.wait();
                    for turn in 0..BATCH {
                        // Every other batch the threads come towards each other.
                        let backwards = batch % 2 == 1 && tag % 2 == 1;
                        let run = if backwards { BATCH - 1 - turn } else { turn };
                        runner.begin();
                        for &step in steps {
                            runner.step(step, run);
                        }
                    }
                    runner.finish();
                });
            }
        });
        // The queue pairs' puts are placed by a last read on each.
        for runner in &mut runners {
            let peers: Vec<_> = runner.queue_pairs.keys().copied().collect();
            for peer in peers {
                runner.post(peer, |qp, work| qp.flush(work));
            }
            runner.finish();
        }
        for run in 0..BATCH {
            let value_of = |what: &Result<usize, usize>| match *what {
                // A register is written by one thread; in the others it is 0.
                Ok(register) => runners
                    .iter()
                    .map(|r| r.registers[run * program.registers + register])
                    .sum(),
                Err(location) => memories[location]
                    .cell::<u64>(STRIDE * run)
                    .unwrap()
                    .load(Ordering::SeqCst),
            };
            let occurred = program
                .forbidden
                .iter()
                .all(|(what, value)| value_of(what) == *value);
            assert!(
                !occurred,
                "{}: {:?} in run {}",
                test.name,
                test.forbidden,
                batch * BATCH + run
            );
        }
    }
    println!(
        "{}: {} runs in {:?}",
        test.name,
        runs().div_ceil(BATCH) * BATCH,
        start.elapsed()
    );
}

macro_rules! litmus {
    ($($test:ident = $name:literal { $($node:expr),* } $($thread:literal: $text:literal),* => $($reg:ident $value:literal),*;)*) => {
        $(
            #[test]
            fn $test() {
                run(&Litmus {
                    name: $name,
                    nodes: &[$(&$node),*],
                    threads: &[$(($thread, $text)),*],
                    forbidden: &[$((stringify!($reg), $value)),*],
                });
            }
        )*
    };
}

litmus! {
    st1 = "ST1" { [("x", 0)], [("z", 0)] }
        1: "x := 1; z^2 := x"
        => z 0;
    st3 = "ST3" { [("x", 0)], [("z", 0)] }
        1: "z^2 := x; poll(2); x := 1"
        => z 1;
    st7 = "ST7" { [("x", 1)], [("y", 0), ("z", 0)] }
        1: "z^2 := x; x := y^2"
        => z 0;
    st9 = "ST9" { [("x", 1)], [("y", 0), ("z", 0)] }
        1: "x := y^2; rfence(2); z^2 := x"
        => z 1;
    rdma_3c = "RDMA-3c" { [("x", 0), ("a", 0)], [("y", 0), ("b", 0)] }
        1: "a := y^2; poll(2); x := 1", 2: "b := x^1; poll(1); y := 1"
        => a 1, b 1;
    rdma_3e = "RDMA-3e" { [("y", 0), ("w", 0), ("c", 0)], [("x", 0), ("z", 0), ("d", 0)] }
        1: "x^2 := 1; c := z^2; poll(2); poll(2); a := y", 2: "y^1 := 1; d := w^1; poll(1); poll(1); b := x"
        => a 0, b 0;
    mp1 = "MP1" { [], [("x", 0), ("y", 0)] }
        1: "x^2 := 1; y^2 := 1", 2: "a := y; b := x"
        => a 1, b 0;
    mp2 = "MP2" { [("x", 0)], [("y", 0), ("b", 0)] }
        1: "x := 1; y^2 := 1", 2: "a := y; b := x^1"
        => a 1, b 0;
    mp4bis = "MP4bis" { [("x", 0), ("y", 0)], [("a", 0), ("b", 0)] }
        1: "x := 1; y := 1", 2: "a := y^1; rfence(1); b := x^1"
        => a 1, b 0;
    sb1 = "SB1" { [("x", 0), ("a", 0)], [("y", 0), ("b", 0)] }
        1: "x := 1; a := y^2", 2: "y := 1; b := x^1"
        => a 0, b 0;
    sb2 = "SB2" { [("x", 0), ("y", 0)], [("b", 0)] }
        1: "x := 1; mfence; a := y", 2: "y^1 := 1; b := x^1"
        => a 0, b 0;
    lb1 = "LB1" { [("y", 0)], [("x", 0)] }
        1: "a := y; x^2 := 1", 2: "b := x; y^1 := 1"
        => a 1, b 1;
    lb3bis = "LB3bis" { [("x", 0), ("a", 0)], [("y", 0), ("b", 0)] }
        1: "a := y^2; poll(2); x := 1", 2: "b := x^1; poll(1); y := 1"
        => a 1, b 1;
    iriw2 = "IRIW2" { [("x", 0), ("a", 0)], [("y", 0), ("c", 0)] }
        1: "x := 1", 1: "a := y^2; poll(2); b := x", 2: "c := x^1; poll(1); d := y", 2: "y := 1"
        => a 1, b 0, c 1, d 0;
    w2_plus_2w1 = "2+2W1" { [("x", 0), ("y", 0)], [] }
        1: "x := 2; y := 1", 2: "y^1 := 2; x^1 := 1"
        => x 2, y 2;
    w2_plus_2w2 = "2+2W2" { [("x", 0)], [("y", 0)] }
        1: "x := 2; y^2 := 1", 2: "y := 2; x^1 := 1"
        => x 2, y 2;
    rff1 = "RFF1" { [("z", 0), ("a", 0)], [("x", 0), ("y", 0)] }
        1: "z := x^2; a := y^2; y^2 := 2; x^2 := 1", 2: "y := z^1; poll(1); b := y"
        => a 1, b 2;
    rrpr3 = "RRPR3" { [("x", 1), ("y", 1)], [("z", 0)] }
        1: "x := z^2; y := z^2; a := y; b := x"
        => a 0, b 1;
    crma1 = "CRMA1" { [("x", 0)], [("y", 0)], [("z", 0)] }
        1: "x := y^2; poll(2); z^3 := x; a := x", 2: "y := 2", 3: "z := 1; b := z"
        => a 2, b 0;
    crma2 = "CRMA2" { [("x", 0), ("y", 0)], [("z", 0), ("w", 0)] }
        1: "z^2 := x; w^2 := y; y := 2; x := 2", 2: "w := 1; a := z; b := w"
        => a 2, b 0;
    gfp1 = "GFP1" { [("x", 0), ("t", 0)], [("y", 0), ("z", 0)] }
        1: "x := z^2; rfence(2); t := 1; y^2 := t; b := x; c := x", 2: "a := y; x^1 := 2"
        => a 1, b 2, c 0;
    gfp2 = "GFP2" { [("x", 0)], [("y", 0), ("z", 0)] }
        1: "x := z^2; rfence(2); y^2 := 1; b := x; c := x", 2: "a := y; x^1 := 2"
        => a 1, b 2, c 0;
}
