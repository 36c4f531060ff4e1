//! The programs of `examples/`, and the page that shows them.

use std::path::PathBuf;

use loco::fabric::{AnyConfig, Environment, FabricChoice, Job as NodeOfJob, NodeId};
use loco::{AtomicVar, Barrier, Startup};

use loco_conformance::job::Processes;

use crate::support::{Language, here, installation, job, start, texts};

/// Compiles an example.
fn example(language: Language, name: &str) -> Option<PathBuf> {
    let installation = installation(language)?;
    let source = format!("examples/{name}.c");
    Some(installation.compile(language, &source, &installation.flags()))
}

fn sorted_lines(outputs: &[String]) -> Vec<&str> {
    let mut lines: Vec<_> = outputs.iter().flat_map(|output| output.lines()).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn hello() {
    let Some(program) = example(Language::C, "hello") else {
        return;
    };
    let lines: Vec<_> = (0..3)
        .map(|node| format!("node {node}: 3 nodes are here\n"))
        .collect();
    assert_eq!(job("hello", 3, &program), lines);
}

#[test]
fn the_readme_shows_hello() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("a file of the repository");
    let hello = read(here().join("examples/hello.c"));
    assert!(hello.lines().count() <= 35);
    let readme = read(here().join("../../README.md"));
    assert!(
        readme.contains(&hello),
        "README.md must have examples/hello.c as it is"
    );
}

#[test]
fn a_process_that_is_in_no_job_is_told_how_to_start() {
    let Some(program) = example(Language::C, "hello") else {
        return;
    };
    let output = std::process::Command::new(program)
        .env_clear()
        .output()
        .expect("a process");
    let (_, words) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(words.starts_with("LOCO_USAGE: "), "{words}");
    assert!(words.contains("loco run -n 3 PROGRAM"), "{words}");
}

#[test]
fn counter() {
    let Some(program) = example(Language::C, "counter") else {
        return;
    };
    let mut expected = Vec::new();
    for node in 0..3 {
        expected.extend((0..3).map(|other| format!("node {node} has greetings from node {other}")));
        expected.push(format!("node {node}: total with a TAS lock is 300"));
        expected.push(format!("node {node}: total with a ticket lock is 300"));
    }
    expected.sort_unstable();
    assert_eq!(sorted_lines(&job("counter", 3, &program)), expected);
}

#[test]
fn ring() {
    let Some(program) = example(Language::C, "ring") else {
        return;
    };
    let expected = [
        "node 0: 1000 messages were read",
        "node 1: 1000 messages, in order",
        "node 2: 1000 messages, in order",
    ];
    assert_eq!(sorted_lines(&job("ring", 3, &program)), expected);
}

#[test]
fn store() {
    let Some(program) = example(Language::C, "store") else {
        return;
    };
    let mut expected = Vec::new();
    for node in 0..3 {
        expected.extend(
            (0..3).map(|other| format!("node {node}: node {other} is the process called node {other}")),
        );
        expected.push(format!("node {node}: node 0 is gone"));
    }
    expected.sort_unstable();
    assert_eq!(sorted_lines(&job("store", 3, &program)), expected);
}

#[test]
fn collective() {
    let Some(program) = example(Language::C, "collective") else {
        return;
    };
    let lines: Vec<_> = (0..3)
        .map(|node| format!("node {node}: the squares add up to 338350\n"))
        .collect();
    assert_eq!(job("collective", 3, &program), lines);
}

#[test]
fn the_examples_are_cxx_too() {
    for name in ["hello", "counter", "ring", "store", "collective"] {
        let Some(program) = example(Language::Cxx, name) else {
            return;
        };
        assert_eq!(job(&format!("{name}-cxx"), 2, &program).len(), 2);
    }
}

/// A node in C and one in Rust share objects: the same names, the same types.
#[test]
fn a_job_of_both_languages() {
    let Some(program) = example(Language::C, "hello") else {
        return;
    };
    let mut job = Processes::new("both", 2);
    start(&mut job, NodeId(1), &program);
    let here = job.environment(NodeId(0));
    let variables = here.iter().map(|(name, value)| (*name, value.as_str()));
    let description = NodeOfJob::from_environment(&Environment::of(variables)).expect("a job");
    let fabric = AnyConfig::default().choice(FabricChoice::Shm);
    let arrived = std::thread::scope(|scope| {
        let node = scope.spawn(|| {
            Startup::new().job(description).fabric(fabric).run(|node| {
                let arrivals = AtomicVar::<u64>::new(node, "arrivals", NodeId(0))?;
                let barrier = Barrier::new(node, "barrier")?;
                node.wait_for_ready()?;
                let thread = node.thread()?;
                arrivals.fetch_add(&thread, 1)?;
                barrier.wait(&thread)?;
                arrivals.read(&thread)
            })
        });
        job.rendezvous();
        node.join().expect("no panic")
    });
    assert_eq!(arrived, Ok::<u64, loco::Error>(2));
    let (out, err) = texts(&job.finish()[&NodeId(1)]);
    assert_eq!(out, "node 1: 2 nodes are here\n", "{err}");
}
