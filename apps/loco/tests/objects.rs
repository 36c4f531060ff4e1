//! Runs every object between real processes, which may outnumber the cores, and checks what a killed node
//! leaves behind.
//!
//! Each test starts this very program under `loco run`, as nodes of one of the [`CASES`]. They use shared
//! memory, or the fabric that `LOCO_TEST_FABRIC` names (`ci/verbs-suite` names verbs). Where a host has
//! several RDMA devices, nodes take them in turn.

#![allow(clippy::unwrap_used)]

use std::env;
use std::process::{Command, Output};
use std::time::Duration;

use loco::fabric::verbs::devices;
use loco::fabric::{AnyConfig, AnyFabric, Control as _, Fabric, Job, Mesh, NodeId, PeerState, Target};
use loco::{
    Barrier, Error, Manager, Msw, OwnedVar, Parent as _, Result, RingBuffer, RingConfig, SharedRegion,
    SharedVar, Sst, Thread, WideOwnedVar, fence,
};

type Manager_ = Manager<AnyFabric>;
type Case = fn(&Manager_) -> Result<()>;

/// The work of a node, by the name in `CASE`.
const CASES: [(&str, Case); 13] = [
    ("shared_region", shared_region),
    ("shared_var", shared_var),
    ("owned_var", owned_var),
    ("wide_owned_var", wide_owned_var),
    ("sst", sst),
    ("msw", msw),
    ("barrier", barrier),
    ("ring_buffer", ring_buffer),
    ("killed_in_set_up", killed_in_set_up),
    ("killed_in_barrier", killed_in_barrier),
    ("killed_in_broadcast", killed_in_broadcast),
    ("writer_killed_in_broadcast", writer_killed_in_broadcast),
    ("killed_holding_a_torn_value", killed_holding_a_torn_value),
];

/// The environment variable with the name of the case.
const CASE: &str = "LOCO_TEST_CASE";
/// The default time within which all others hear of a node's death. Everything takes longer on an emulated machine.
const BOUND: Duration = Duration::from_secs(1);
const BOUND_EMULATED: Duration = Duration::from_secs(5);
/// The time that nodes wait for one another. An emulated device is slow.
const DEADLINE: Duration = Duration::from_secs(60);
/// The lines that a node prints when it dies and when it hears of another's death, each with the time in nanoseconds.
const DIED: &str = "died at ";
const LOST: &str = "lost at ";

/// Runs a node. This is not a test of its own.
#[test]
fn node() {
    let Ok(name) = env::var(CASE) else { return };
    let (_, case) = CASES.iter().find(|(case, _)| *case == name).unwrap();
    let mesh = Mesh::connect(&Job::from_env().unwrap()).unwrap();
    let mut config = AnyConfig::from_env().unwrap();
    config.verbs.arena_bytes = 4 << 20;
    if let Some(last) = devices().len().checked_sub(1).filter(|&last| last > 0) {
        let own = usize::from(mesh.node().0) % (last + 1);
        config.verbs.device = Some(devices()[own].name.clone());
    }
    let settings = loco::Config::default().deadline(DEADLINE);
    let fabric = AnyFabric::new(mesh, config).unwrap();
    assert_eq!(fabric.caps().name, env::var("LOCO_FABRIC").unwrap());
    let manager = Manager::with_config(fabric, settings).unwrap();
    case(&manager).unwrap();
    println!("done: node {}", manager.node().0);
}

/// Returns the fabric under test.
fn fabric() -> String {
    env::var("LOCO_TEST_FABRIC").unwrap_or_else(|_| "shm".to_owned())
}

/// Runs `case` on `nodes` nodes. Returns its output and the number of nodes that finished.
fn run(case: &str, nodes: usize, options: &[&str]) -> (Output, usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command.args([
        "run",
        "--timeout",
        "120",
        "--fabric",
        &fabric(),
        "-n",
        &nodes.to_string(),
    ]);
    command.args(options).arg("--").arg(env::current_exe().unwrap());
    command.args(["--exact", "node", "--nocapture"]).env(CASE, case);
    let output = command.output().unwrap();
    let done = String::from_utf8_lossy(&output.stdout)
        .matches("done: node")
        .count();
    (output, done)
}

fn all_finish(case: &str) {
    let counts: &[usize] = match (fabric().as_str(), devices().len()) {
        ("verbs", 0 | 1) => &[2, 4],
        ("verbs", _) => &[2],
        _ => &[2, 3, 4, 5],
    };
    for &nodes in counts {
        let (output, done) = run(case, nodes, &[]);
        assert!(
            output.status.success() && done == nodes,
            "{case} on {nodes} nodes: {output:?}"
        );
    }
}

/// Checks that, when one node is killed, all others finish in time with the expected results, and nothing is
/// left behind.
fn others_finish(case: &str, nodes: usize) {
    let before = shared_memory();
    let (output, done) = run(case, nodes, &["--keep-going"]);
    assert_eq!(output.status.code(), Some(128 + 9), "{case}: {output:?}");
    assert_eq!(done, nodes - 1, "{case}: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let moments = |what| {
        let times = text.lines().filter_map(move |line| line.split_once(what));
        times.map(|(_, time)| Duration::from_nanos(time.parse().unwrap()))
    };
    let bound = if fabric() == "shm" { BOUND } else { BOUND_EMULATED };
    let died = moments(DIED).next().expect("the victim says when");
    assert!(moments(LOST).count() > 0, "{case}: nobody heard: {text}");
    for lost in moments(LOST) {
        let after = lost.saturating_sub(died);
        assert!(after < bound, "{case}: heard {after:?} after the death");
    }
    let left: Vec<_> = shared_memory()
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect();
    assert!(left.is_empty(), "{case} leaves {left:?}");
}

/// Lists files of shared memory that are ours by name. (Arenas have no name, so they cannot be left behind.)
fn shared_memory() -> Vec<String> {
    let Ok(files) = std::fs::read_dir("/dev/shm") else {
        return Vec::new();
    };
    let names = files
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("loco")).collect()
}

/// Returns the time of a clock that all processes of this host share.
fn nanoseconds() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// Kills this process as a `kill -9` does.
fn die() -> ! {
    println!("{DIED}{}", nanoseconds());
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

/// Runs `f`, which must find `node` lost.
fn finds_lost<T>(node: NodeId, f: impl FnOnce() -> Result<T>) {
    let Err(error) = f() else {
        panic!("it went on without {node}")
    };
    println!("{LOST}{}", nanoseconds());
    assert_eq!(error.lost_peer(), Some(node), "{error}");
}

/// Returns `n` on shared memory, and less on a device: operations of an emulated device take a hundred times as long.
fn times(manager: &Manager_, n: u64) -> u64 {
    if manager.fabric().caps().synchronous {
        n
    } else {
        n / 10
    }
}

fn number(manager: &Manager_) -> u64 {
    u64::from(manager.node().0)
}

fn after(manager: &Manager_, steps: u16) -> NodeId {
    let nodes = manager.nodes();
    nodes[(usize::from(manager.node().0) + usize::from(steps)) % nodes.len()]
}

/// Returns a barrier and this thread's access. To be called once everything else is made.
fn ready(manager: &Manager_) -> Result<(Barrier<AnyFabric>, Thread<AnyFabric>)> {
    let barrier = Barrier::new(manager, "rounds")?;
    manager.wait_for_ready()?;
    Ok((barrier, manager.thread()?))
}

#[test]
fn shared_regions() {
    all_finish("shared_region");
}

/// Puts a block at the next node and gets that of the previous one.
fn shared_region(manager: &Manager_) -> Result<()> {
    let region = SharedRegion::new(manager, "region", 8192)?;
    let (barrier, thread) = ready(manager)?;
    let (next, last) = (
        after(manager, 1),
        after(manager, manager.nodes().len() as u16 - 1),
    );
    let buffer = thread.mem_ref(4096)?;
    buffer.write(0, &[number(manager) as u8 + 1; 4096])?;
    drop(buffer.put(region.target(next, 4096)?)?.wait()?);
    barrier.wait(&thread)?;
    let mut block = [0; 4096];
    region.read(4096, &mut block)?;
    assert_eq!(block, [last.0 as u8 + 1; 4096]);
    let buffer = thread.mem_ref(4096)?.get(region.target(next, 4096)?)?.wait()?;
    buffer.read(0, &mut block)?;
    assert_eq!(block, [number(manager) as u8 + 1; 4096]);
    // All nodes add to one word, and the sum is exact.
    let counter = region.target(manager.nodes()[0], 0)?;
    for _ in 0..times(manager, 500) {
        let word = Target {
            offset: counter.offset,
            remote: counter.remote,
        };
        drop(thread.mem_ref(8)?.fetch_add(word, 1)?.wait()?);
    }
    barrier.wait(&thread)?;
    let sum = thread.mem_ref(8)?.get(counter)?.wait()?;
    assert_eq!(sum.word(0)?, times(manager, 500) * manager.nodes().len() as u64);
    barrier.wait(&thread)
}

#[test]
fn shared_variables() {
    all_finish("shared_var");
}

/// Passes messages along all nodes (LOCO'26 Fig. 9a): a node that has seen the flag sees the data.
fn shared_var(manager: &Manager_) -> Result<()> {
    let data = SharedVar::<u64, _>::new(manager, "data")?;
    let flag = SharedVar::<u64, _>::new(manager, "flag")?;
    let (barrier, thread) = ready(manager)?;
    for round in 1..=times(manager, 300) {
        if number(manager) == 0 {
            data.write(round);
            data.broadcast(&thread)?.forget();
            flag.write(round);
            flag.broadcast(&thread)?.wait(&thread)?;
        } else {
            flag.wait_until(&thread, |seen| seen >= round)?;
            assert!(data.read() >= round);
        }
        barrier.wait(&thread)?;
    }
    Ok(())
}

#[test]
fn owned_variables() {
    all_finish("owned_var");
}

/// Lets the owner push, and checks that values never go back. Then the others pull.
fn owned_var(manager: &Manager_) -> Result<()> {
    let var = OwnedVar::<u64, _>::new(manager, "var", manager.nodes()[0])?;
    let (barrier, thread) = ready(manager)?;
    let last = times(manager, 2000);
    if number(manager) == 0 {
        for i in 1..=last {
            var.store(i)?;
            var.push_untracked(&thread)?;
        }
    } else {
        let mut seen = 0;
        while seen < last {
            seen = var.wait_until(&thread, |value| value > seen)?;
        }
    }
    barrier.wait(&thread)?;
    if number(manager) == 0 {
        var.store(last + 1)?;
    }
    barrier.wait(&thread)?;
    assert_eq!(var.pull(&thread)?, last + 1);
    barrier.wait(&thread)
}

#[test]
fn owned_variables_of_many_words() {
    all_finish("wide_owned_var");
}

/// Does the same with values of several words. No reader ever sees a torn value.
fn wide_owned_var(manager: &Manager_) -> Result<()> {
    let var = WideOwnedVar::<[u64; 32], _>::new(manager, "var", manager.nodes()[0])?;
    let (barrier, thread) = ready(manager)?;
    let last = times(manager, 2000);
    if number(manager) == 0 {
        for i in 1..=last {
            var.store(&thread, [i; 32])?;
            var.push(&thread)?.forget();
        }
    } else {
        let mut seen = 0;
        while seen < last {
            for value in [var.load(&thread)?, var.pull(&thread)?] {
                assert!(value.iter().all(|&word| word == value[0]), "torn: {value:?}");
            }
            let value = var.load(&thread)?[0];
            assert!(value >= seen, "{value} after {seen}");
            seen = value;
        }
    }
    barrier.wait(&thread)
}

#[test]
fn shared_state_tables() {
    all_finish("sst");
}

/// Counts in this node's row, and checks that all rows grow.
fn sst(manager: &Manager_) -> Result<()> {
    let table = Sst::<u64, _>::new(manager, "table")?;
    let (barrier, thread) = ready(manager)?;
    let last = times(manager, 300);
    for round in 1..=last {
        table.store_mine(round)?;
        table.push(&thread)?.wait(&thread)?;
        table.wait_for_each(&thread, |row| row >= round)?;
    }
    assert!(table.rows()?.all(|row| row.load() >= last));
    barrier.wait(&thread)
}

#[test]
fn mixed_size_writes() {
    all_finish("msw");
}

/// Lets all nodes put to one location at once. Reads of it are whole or fail.
fn msw(manager: &Manager_) -> Result<()> {
    let region = Msw::new(manager, "msw", &[200, 200])?;
    let (barrier, thread) = ready(manager)?;
    let first = manager.nodes()[0];
    let mut value = [0; 200];
    for i in 0..times(manager, 500) {
        if manager.node() == first {
            if region.try_read(0, &mut value)? {
                assert!(value.iter().all(|&byte| byte == value[0]), "torn: {value:?}");
            }
        } else {
            region.write(1, &[(i * 16 + number(manager)) as u8; 200])?;
            region.put(&thread, 1, first, 0)?.wait(&thread)?;
        }
    }
    barrier.wait(&thread)?;
    if manager.node() == first {
        region.write(0, &[77; 200])?;
    }
    barrier.wait(&thread)?;
    region.get(&thread, 1, first, 0)?.wait(&thread)?;
    assert!(region.try_read(1, &mut value)?);
    assert_eq!(value, [77; 200]);
    barrier.wait(&thread)
}

#[test]
fn barriers() {
    all_finish("barrier");
}

/// Uses one thread on the first node, two on the next, and so on. Nobody is more than one round ahead of anybody.
fn barrier(manager: &Manager_) -> Result<()> {
    let others = usize::from(manager.node().0);
    let barrier = Barrier::with_local_threads(manager, "bar", 1 + others)?;
    let rounds = Sst::<u64, _>::new(manager, "rounds")?;
    manager.wait_for_ready()?;
    let last = times(manager, 300);
    std::thread::scope(|scope| {
        let worker = || {
            let thread = manager.thread()?;
            (0..2 * last).try_for_each(|_| barrier.wait(&thread))
        };
        let others: Vec<_> = (0..others).map(|_| scope.spawn(worker)).collect();
        let thread = manager.thread()?;
        for round in 1..=last {
            rounds.store_mine(round)?;
            rounds.push_untracked(&thread)?;
            barrier.wait(&thread)?;
            let ahead = |row: u64| row == round || row == round + 1;
            assert!(rounds.rows()?.all(|row| ahead(row.load())), "round {round}");
            barrier.wait_unfenced(&thread)?;
        }
        others.into_iter().try_for_each(|other| other.join().unwrap())
    })
}

#[test]
fn ring_buffers() {
    all_finish("ring_buffer");
}

/// Lets each node in turn broadcast messages of all sizes round a small ring, to two readers on every node,
/// its own included.
fn ring_buffer(manager: &Manager_) -> Result<()> {
    let mut rings = Vec::new();
    for &writer in manager.nodes() {
        let name = format!("ring{}", writer.0);
        let config = RingConfig::new(512).readers(manager.nodes().iter().flat_map(|&node| [node, node]));
        rings.push(RingBuffer::with_config(manager, &name, writer, &config)?);
    }
    let (barrier, thread) = ready(manager)?;
    let message = |i: u64| vec![i as u8; (i * 31 % 150) as usize];
    for (&writer, ring) in manager.nodes().iter().zip(&rings) {
        let mut readers = [ring.reader()?, ring.reader()?];
        let mut writer = (writer == manager.node()).then(|| ring.writer()).transpose()?;
        for i in 0..times(manager, 400) {
            if let Some(writer) = &mut writer {
                writer.submit(&thread, &message(i))?;
            }
            for reader in &mut readers {
                assert_eq!(reader.receive(&thread)?, message(i), "message {i}");
            }
        }
        if let Some(writer) = &mut writer {
            writer.wait_until_read(&thread)?;
        }
    }
    barrier.wait(&thread)
}

#[test]
fn a_node_killed_in_set_up_is_named_to_the_others() {
    others_finish("killed_in_set_up", 3);
}

fn killed_in_set_up(manager: &Manager_) -> Result<()> {
    let _barrier = Barrier::new(manager, "bar")?;
    if number(manager) == 1 {
        // The others have a fabric, then: while they make it, the loss of a node is the end of it.
        manager.wait_for_ready()?;
        die();
    }
    let _never = Barrier::new(manager, "never")?;
    finds_lost(NodeId(1), || manager.wait_for_ready());
    finish_among_survivors(manager, NodeId(1))
}

#[test]
fn a_node_killed_in_a_barrier_is_named_to_the_others() {
    others_finish("killed_in_barrier", 4);
}

fn killed_in_barrier(manager: &Manager_) -> Result<()> {
    let (barrier, thread) = ready(manager)?;
    for _ in 0..times(manager, 100) {
        barrier.wait(&thread)?;
    }
    if number(manager) == 1 {
        // The arrivals at the last barrier have reached everybody.
        fence::thread(&thread)?;
        die();
    }
    finds_lost(
        NodeId(1),
        || loop {
            barrier.wait(&thread)?;
        } as Result<()>,
    );
    finish_among_survivors(manager, NodeId(1))
}

#[test]
fn a_reader_killed_in_a_broadcast_is_named_to_the_writer() {
    others_finish("killed_in_broadcast", 3);
}

/// Checks that the writer hears of the dead reader and excludes it, and that the other reader misses nothing.
fn killed_in_broadcast(manager: &Manager_) -> Result<()> {
    let ring = RingBuffer::new(manager, "ring", manager.nodes()[0], 256)?;
    let (_, thread) = ready(manager)?;
    match number(manager) {
        0 => {
            let mut writer = ring.writer()?;
            let mut lost = 0;
            for i in 0..times(manager, 20_000) {
                while let Err(error) = writer.submit(&thread, &i.to_ne_bytes()) {
                    finds_lost(NodeId(1), || Err::<(), _>(error));
                    writer.exclude(NodeId(1));
                    lost += 1;
                }
            }
            assert_eq!(lost, 1);
            writer.wait_until_read(&thread)?;
        }
        1 => {
            let mut reader = ring.reader()?;
            for i in 0..times(manager, 5_000) {
                assert_eq!(reader.receive(&thread)?, i.to_ne_bytes());
            }
            die();
        }
        _ => {
            let mut reader = ring.reader()?;
            for i in 0..times(manager, 20_000) {
                assert_eq!(reader.receive(&thread)?, i.to_ne_bytes());
            }
        }
    }
    finish_among_survivors(manager, NodeId(1))
}

#[test]
fn a_writer_killed_in_a_broadcast_is_named_to_its_readers() {
    others_finish("writer_killed_in_broadcast", 3);
}

/// Checks that everything the writer submitted before its death arrives whole. Then the readers hear of its death.
fn writer_killed_in_broadcast(manager: &Manager_) -> Result<()> {
    let ring = RingBuffer::new(manager, "ring", manager.nodes()[0], 1024)?;
    let (_, thread) = ready(manager)?;
    let message = |i: u64| [i.to_ne_bytes(); 9].concat();
    if number(manager) == 0 {
        let mut writer = ring.writer()?;
        for i in 0..times(manager, 5_000) {
            writer.submit(&thread, &message(i))?;
        }
        die();
    }
    let mut reader = ring.reader()?;
    let mut got = Vec::new();
    for i in 0..times(manager, 5_000) {
        reader.receive_into(&thread, &mut got)?;
        assert_eq!(got, message(i));
    }
    finds_lost(NodeId(0), || reader.receive(&thread));
    finish_among_survivors(manager, NodeId(0))
}

#[test]
fn an_owner_killed_while_others_pull_is_named_to_them() {
    others_finish("killed_holding_a_torn_value", 3);
}

/// Lets the owner die while it stores without pause. Readers see whole values until they see that it is dead.
fn killed_holding_a_torn_value(manager: &Manager_) -> Result<()> {
    let var = WideOwnedVar::<[u64; 64], _>::new(manager, "var", manager.nodes()[0])?;
    let (barrier, thread) = ready(manager)?;
    barrier.wait(&thread)?;
    if number(manager) == 0 {
        for i in 0.. {
            var.store(&thread, [i; 64])?;
            if i == 50_000 {
                die();
            }
        }
    }
    finds_lost(
        NodeId(0),
        || loop {
            let value = var.pull(&thread)?;
            assert!(value.iter().all(|&word| word == value[0]), "torn: {value:?}");
        } as Result<()>,
    );
    finish_among_survivors(manager, NodeId(0))
}

/// Makes new channels among the survivors, who meet without the dead node.
fn finish_among_survivors(manager: &Manager_, dead: NodeId) -> Result<()> {
    let left = manager.nodes().iter().copied().filter(|&node| node != dead);
    let end = Barrier::new(&manager.among(left), "end")?;
    end.channel().wait_for_ready()?;
    let thread = manager.thread()?;
    // The fenced barrier also waits for operations that were outstanding towards the dead node, and reports them once.
    match end.wait(&thread) {
        Err(error) if error.lost_peer() == Some(dead) => end.wait(&thread)?,
        outcome => outcome?,
    }
    assert_eq!(manager.fabric().mesh().peer_state(dead), PeerState::Lost);
    Ok::<_, Error>(())
}
