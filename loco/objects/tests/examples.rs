//! The examples run as processes, and the documentation shows or names them.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use loco::fabric::{NodeId, var};
use loco_conformance::job::Processes;
use loco_testing::free_addresses;

/// An example. Cargo builds examples with the tests, but not for a single file of tests.
fn example(name: &str) -> Command {
    let tests = std::env::current_exe().expect("this test");
    let built = tests
        .parent()
        .and_then(Path::parent)
        .expect("the folder of what is built");
    let program = built.join("examples").join(name);
    assert!(program.exists(), "first: cargo build -p loco-rdma --examples");
    Command::new(program)
}

/// Runs an example in `nodes` processes, which are the nodes of a job; gives their outputs.
fn as_processes(name: &str, nodes: u16) -> Vec<String> {
    let mut job = Processes::new("examples-test", nodes);
    for node in 0..nodes {
        job.start_heard(NodeId(node), example(name).env(var::FABRIC, "shm"));
    }
    job.rendezvous();
    job.finish_well()
}

#[test]
fn hello_counts_the_nodes() {
    for (node, output) in as_processes("hello", 3).iter().enumerate() {
        assert_eq!(*output, format!("node {node}: 3 nodes are here and bring 4.5\n"));
    }
}

#[test]
fn news_reach_every_reader_in_order() {
    let heard = |node| {
        let headlines = ["rain tomorrow", "sun on Friday", "storms by the end of the week"];
        let lines = headlines
            .iter()
            .zip(1..)
            .map(|(headline, number)| format!("node {node}: {number}. {headline}\n"));
        lines.collect::<String>()
    };
    assert_eq!(as_processes("news", 3), [String::new(), heard(1), heard(2)]);
}

#[test]
fn stock_is_read_by_every_node() {
    for (node, output) in as_processes("stock", 3).iter().enumerate() {
        assert_eq!(*output, format!("node {node}: [1, 101, 201]\n"));
    }
}

#[test]
fn heat_spreads_over_the_nodes() {
    for (node, output) in as_processes("heat", 3).iter().enumerate() {
        // A rod of 12 cells between 100 and 0 degrees ends as a straight line between them.
        assert_eq!(
            *output,
            format!("node {node}: the pieces have 80.8, 50.0, 19.2 degrees\n")
        );
    }
}

/// A process of an example that is heard line by line, and killed when dropped.
struct Heard(Child, Lines<BufReader<ChildStdout>>);

impl Heard {
    fn start(command: &mut Command) -> Heard {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
        let out = child.stdout.take().expect("its output");
        Heard(child, BufReader::new(out).lines())
    }

    fn hear(&mut self, text: &str) {
        let heard = self
            .1
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.contains(text));
        assert!(heard, "no `{text}`");
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn visitors_come_and_go() {
    let addresses = free_addresses(&["127.0.0.1"; 2]);
    let hosts = format!("0 {}\n1 {}\n", addresses[0], addresses[1]);
    let visitors = || {
        let mut command = example("visitors");
        command
            .env(var::FABRIC, "shm")
            .env(var::SECRET, "a shared secret");
        command
    };
    let mut members = ["0", "1"].map(|node| {
        let mut member = visitors();
        member
            .env(var::NODE, node)
            .env(var::NODES_MAX, "4")
            .env(var::HOSTS_TEXT, &hosts);
        Heard::start(&mut member)
    });
    // Nobody joins a job that is not up yet.
    for member in &mut members {
        member.hear("counts in view 2");
    }
    for (id, view) in [(2, 3), (3, 5)] {
        let mut visitor = Heard::start(visitors().arg("3").env(var::JOIN, addresses[0].to_string()));
        visitor.hear(&format!("node {id} counts in view {view}"));
        visitor.hear("the count was ");
        assert!(visitor.0.wait().expect("its end").success());
        for member in &mut members {
            member.hear(&format!("counts in view {view}"));
            member.hear(&format!("counts in view {}", view + 1)); // it has gone
        }
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
fn the_documentation_names_every_example() {
    let documentation = include_str!("../src/lib.rs");
    let readme = include_str!("../../../README.md");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let name = entry.expect("an example").file_name();
        let name = name.to_string_lossy();
        let path = format!("examples/{name}");
        assert!(
            documentation.contains(&path) && readme.contains(&format!("loco/objects/{path}")),
            "{path} is not in the documentation"
        );
    }
}

#[test]
fn a_process_that_is_in_no_job_is_told_how_to_start() {
    let output = example("hello").env_clear().output().expect("a process");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("loco run -n 3 PROGRAM"), "{text}");
}
