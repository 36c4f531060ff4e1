//! The way in: the template program as processes, participants given in one way, and what is refused at the door.

use std::path::Path;
use std::process::{Command, Stdio};

use loco::fabric::{Platform, Rendezvous, Secret, Std, var};
use loco::prelude::*;
use loco::testing;

const JOB: &str = "interface-test";
const SECRET: &str = "a secret of this test only";

/// The template program. Cargo builds examples with the tests, but not for a single file of tests.
fn template() -> Command {
    let tests = std::env::current_exe().expect("this test");
    let built = tests
        .parent()
        .and_then(Path::parent)
        .expect("the folder of what is built");
    let program = built.join("examples").join("hello");
    assert!(program.exists(), "first: cargo build -p loco --examples");
    Command::new(program)
}

/// Runs the template in `nodes` processes, which are the nodes of a job; gives their outputs.
fn as_processes(nodes: u16) -> Vec<String> {
    let rendezvous = Rendezvous::on_loopback().expect("a port");
    let at = rendezvous.address().to_string();
    let processes: Vec<_> = (0..nodes)
        .map(|node| {
            template()
                .env(var::NODE, node.to_string())
                .env(var::NODES, nodes.to_string())
                .env(var::LAUNCHER, &at)
                .env(var::JOB, JOB)
                .env(var::SECRET, SECRET)
                .env(var::FABRIC, "shm")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("a process")
        })
        .collect();
    let ids: Vec<NodeId> = (0..nodes).map(NodeId).collect();
    let secret = Secret::new(SECRET.as_bytes()).expect("a secret");
    let deadline = Std.now().after(std::time::Duration::from_secs(60));
    rendezvous
        .serve(JOB, &secret, &ids, deadline)
        .expect("all nodes come");
    let outputs = processes.into_iter().map(|process| {
        let output = process.wait_with_output().expect("its end");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        text
    });
    outputs.collect()
}

#[test]
fn the_template_runs_as_three_processes() {
    for (node, output) in as_processes(3).iter().enumerate() {
        let line = format!("node {node}: 3 nodes are here and bring 4.5\n");
        assert!(output.contains(&line), "{output}");
    }
}

#[test]
fn the_readme_shows_the_template() {
    let readme = include_str!("../../../README.md");
    let template = include_str!("../examples/hello.rs");
    assert!(template.lines().count() <= 30);
    assert!(
        readme.contains(template),
        "README.md must have examples/hello.rs as it is"
    );
}

#[test]
fn a_process_that_is_in_no_job_is_told_how_to_start() {
    let output = template().env_clear().output().expect("a process");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("loco run -n 3 -- PROGRAM"), "{text}");
}

#[test]
fn thread_counts_that_differ_are_noticed() {
    let errors = testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        let threads = 1 + usize::from(manager.node().0);
        let barrier = Barrier::with_threads(&manager, "line", threads)?;
        Ok(barrier
            .channel()
            .wait_for_ready()
            .map_err(|error| error.to_string()))
    });
    for error in errors {
        let error = error.expect_err("1 thread and 2");
        assert!(
            error.contains("1 threads a node") && error.contains("2 threads a node"),
            "{error}"
        );
    }
}

#[test]
fn sizes_beyond_all_addresses_are_refused() {
    testing::run(1, |fabric| {
        let manager = Manager::new(fabric)?;
        let home = manager.node();
        for items in [usize::MAX, 1 << 61, (1 << 61) + 1] {
            let array = AtomicArray::<u64>::new(&manager, "array", items).map(drop);
            let queue = SharedQueue::<[u64; 3]>::new(&manager, "queue", home, items).map(drop);
            for outcome in [array, queue] {
                let error = outcome.expect_err("more than there is");
                assert!(matches!(error, Error::TooLarge { .. }), "{error}");
            }
        }
        Ok(())
    });
}

#[test]
fn every_object_takes_the_participants_of_its_parent() {
    testing::run(3, |fabric| {
        let manager = Manager::new(fabric)?;
        let pair = manager.among([NodeId(0), NodeId(2)]);
        if manager.node() == NodeId(1) {
            let outside = Barrier::new(&pair, "bar").map(drop).expect_err("not among them");
            assert!(matches!(outside, Error::NotParticipant { .. }), "{outside}");
            return Ok(());
        }
        let barrier = Barrier::new(&pair, "bar")?;
        let table = Sst::<u64>::new(&pair, "table")?;
        let ring = RingBuffer::new(&pair, "ring", NodeId(0), 64)?;
        let lock = TicketLock::new(&pair, "lock", NodeId(2))?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        assert_eq!(table.participants().nodes(), [NodeId(0), NodeId(2)]);
        if manager.node() == NodeId(0) {
            ring.writer()?.submit(&thread, b"news")?;
        } else {
            assert_eq!(ring.reader()?.receive(&thread)?, b"news");
        }
        lock.lock(&thread, fence::Scope::Thread)?.release()?;
        barrier.wait(&thread)
    });
}
