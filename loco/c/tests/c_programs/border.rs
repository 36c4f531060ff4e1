//! Programs of `tests/c`, which hold the library to what the header says.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use loco::fabric::NodeId;

use loco_conformance::job::Processes;

use crate::support::{Language, installation, job, job_over, start, texts};

fn program(name: &str) -> Option<PathBuf> {
    let installation = installation(Language::C)?;
    let source = format!("tests/c/{name}.c");
    Some(installation.compile(Language::C, &source, &installation.flags()))
}

#[test]
fn mistakes_are_refused_and_handles_are_freed_in_any_order() {
    let Some(program) = program("border") else { return };
    assert_eq!(job("border", 1, &program), ["all is as it should be\n"]);
}

#[test]
fn messages_about_mistakes_name_object_node_and_remedy() {
    let Some(program) = program("mistakes") else {
        return;
    };
    assert_eq!(
        job("mistakes", 2, &program),
        ["every message says what to do\n"; 2]
    );
}

#[test]
fn a_queue_that_found_no_memory_works_when_there_is_some() {
    let Some(program) = program("memory") else { return };
    assert_eq!(
        job("memory", 1, &program),
        ["memory lacked, and was there again\n"]
    );
}

#[test]
fn threads_of_two_nodes() {
    let Some(program) = program("threads") else { return };
    assert_eq!(job("threads", 2, &program), ["nothing was lost\n"; 2]);
}

#[test]
fn started_updates_of_two_nodes() {
    let Some(program) = program("started") else { return };
    for fabric in ["shm", "tcp"] {
        let test = format!("started-{fabric}");
        assert_eq!(
            job_over(fabric, &test, 2, &program),
            ["each update was completed by itself\n"; 2]
        );
    }
}

#[test]
fn a_lost_node_is_an_error_that_names_it() {
    let Some(program) = program("loss") else { return };
    let mut job = Processes::new("loss", 3);
    for node in 0..3 {
        start(&mut job, NodeId(node), &program);
    }
    job.rendezvous();
    for (node, output) in job.finish() {
        let (out, err) = texts(&output);
        if node == NodeId(1) {
            assert_eq!(output.status.signal(), Some(9), "{out}{err}");
        } else {
            assert_eq!(out, "the rest is well\n", "{node}: {}\n{err}", output.status);
        }
    }
}
