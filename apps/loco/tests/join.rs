//! `loco run --nodes-max` and `loco run --join` as users see them: nodes join a running job from a second terminal and leave it, and wrong
//! use is refused with the reason.

#![allow(clippy::unwrap_used)] // Helpers of tests unwrap, too.

#[allow(dead_code)] // This test does not use all of it.
#[path = "support/running.rs"]
mod running;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use loco::fabric::Time;
use loco::{AtomicVar, Barrier, Manager, Startup};
use loco_testing::free_addresses;
use running::{Running, finish};
use rustix::process::Signal;
use tempfile::TempDir;

const LOCO: &str = env!("CARGO_BIN_EXE_loco");
const SECRET: &str = "a secret of those who join";
/// Tells this file to be a node.
const ROLE: &str = "TEST_ROLE";
/// The nodes that a job begins with.
const MEMBERS: usize = 2;

/// Plays a node; not a test by itself. It meets the members of each view at a barrier and counts them. A visitor leaves then; a member
/// of the first view goes on with the next view.
#[test]
fn node_process() {
    match std::env::var(ROLE).as_deref() {
        Ok("node") => {}
        Ok("run") => {
            return println!(
                "> {:?}",
                loco::run(|_| -> loco::Result<()> { Ok(()) })
                    .unwrap_err()
                    .to_string()
            );
        }
        _ => return,
    }
    let mut node = match Startup::new().connect() {
        Ok(node) => node,
        Err(error) => return println!("\n> refused: {error}."),
    };
    let is_visitor = std::env::var_os("LOCO_JOIN").is_some();
    loop {
        let count = meet(&node).unwrap();
        let ids: Vec<_> = node.nodes().iter().map(|node| node.0).collect();
        println!("\n> node {} met {ids:?}, which are {count}.", node.node().0);
        if is_visitor {
            // The members have to have met as well: a barrier says so only to who stays.
            let _ = std::io::stdin().read_line(&mut String::new());
            return;
        }
        node = node.next_view(Time::NEVER).unwrap().unwrap();
    }
}

fn meet(node: &Manager) -> loco::Result<u64> {
    let total = AtomicVar::<u64>::new(node, "total", node.nodes()[0])?;
    let barrier = Barrier::new(node, "barrier")?;
    node.wait_for_ready()?;
    let thread = node.thread()?;
    total.fetch_add(&thread, 1)?;
    barrier.wait(&thread)?;
    let count = total.read(&thread)?;
    barrier.wait(&thread)?;
    Ok(count)
}

/// The hosts file of a job on this machine.
struct Job {
    _folder: TempDir,
    hosts: PathBuf,
    fabric: &'static str,
}

impl Job {
    fn new(fabric: &'static str) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let hosts = folder.path().join("hosts");
        let addresses: Vec<_> = free_addresses(&["127.0.0.1"; MEMBERS]);
        let line = |(id, address): (usize, &SocketAddr)| format!("{id} {address}\n");
        let lines: String = (0..MEMBERS).zip(&addresses).map(line).collect();
        std::fs::write(&hosts, lines).unwrap();
        Job {
            _folder: folder,
            hosts,
            fabric,
        }
    }

    /// Returns `loco run --hosts FILE OPTIONS -- PROGRAM`, where the program is this file in a role.
    fn run(&self, options: &[&str], role: &str) -> Command {
        let mut command = Command::new(LOCO);
        let names = std::env::vars().map(|(name, _)| name);
        for name in names.filter(|name| name.starts_with("LOCO_")) {
            command.env_remove(name);
        }
        // Only a hang reaches the timeout.
        command
            .args(["run", "--timeout", "5m", "--fabric", self.fabric, "--hosts"])
            .arg(&self.hosts);
        command
            .args(options)
            .arg("--")
            .arg(std::env::current_exe().unwrap());
        command.args(["--exact", "node_process", "--nocapture"]);
        command
            .env(ROLE, role)
            .env("LOCO_SECRET", SECRET)
            .env("LOCO_PAGES", "small");
        command.stdin(Stdio::piped());
        command
    }

    fn start(&self, options: &[&str]) -> Running {
        Running::start(self.run(options, "node"))
    }
}

impl Running {
    /// Waits until these nodes have said that they met these.
    fn hear(&mut self, nodes: &[u16], members: &[u16]) {
        let said = |node| format!("> node {node} met {members:?}, which are {}.", members.len());
        let mut waited: Vec<_> = nodes.iter().map(said).collect();
        while !waited.is_empty() {
            let line = self
                .lines
                .next()
                .unwrap_or_else(|| panic!("no {waited:?}"))
                .unwrap();
            waited.retain(|text| !line.ends_with(text));
        }
    }

    /// Ends a job whose nodes wait for others.
    fn end(self) {
        self.signal(Signal::TERM);
        assert_eq!(self.finish().1, Some(128 + 15));
    }

    /// Ends the input of the job, and waits until it has ended well.
    fn leave(mut self) {
        drop(self.launcher.stdin.take());
        let (rest, code) = self.finish();
        assert_eq!(code, Some(0), "{rest}");
    }
}

fn nodes_come_and_go(fabric: &'static str) {
    let job = Job::new(fabric);
    let mut members = job.start(&["--nodes-max", "4"]);
    members.hear(&[0, 1], &[0, 1]);
    let mut third = job.start(&["--join"]);
    members.hear(&[0, 1], &[0, 1, 2]);
    third.hear(&[2], &[0, 1, 2]);
    third.leave();
    let mut fourth = job.start(&["--join"]);
    members.hear(&[0, 1], &[0, 1, 3]);
    fourth.hear(&[3], &[0, 1, 3]);
    // There were two ids to join with.
    let (_, out, _) = finish(job.run(&["--join"], "node"));
    assert!(out.contains("the job has used all of its 4 ids"), "{out}");
    fourth.leave();
    members.end();
}

#[test]
fn nodes_join_by_the_command_and_leave_over_tcp() {
    nodes_come_and_go("tcp");
}

#[test]
fn nodes_join_by_the_command_and_leave_over_shared_memory() {
    nodes_come_and_go("shm");
}

#[test]
fn a_job_that_nobody_may_join_is_named_with_the_remedy() {
    let job = Job::new("tcp");
    let nobody = |job: &Job| finish(job.run(&["--join"], "node")).1;
    let out = nobody(&job);
    assert!(out.contains("nobody listens at 127.0.0.1:"), "{out}");
    let remedy = "the job is over, is not up yet, or has a fixed number of nodes; start it with room for more (`loco run --nodes-max`, LOCO_NODES_MAX)";
    assert!(out.contains(remedy), "{out}");
    let mut members = job.start(&[]);
    members.hear(&[0, 1], &[0, 1]);
    let out = nobody(&job);
    assert!(out.contains(remedy), "{out}");
    members.end();
}

#[test]
fn another_secret_is_refused() {
    let job = Job::new("tcp");
    let mut members = job.start(&["--nodes-max", "3"]);
    members.hear(&[0, 1], &[0, 1]);
    let mut stranger = job.run(&["--join"], "node");
    stranger.env("LOCO_SECRET", "another secret");
    let (_, out, _) = finish(stranger);
    assert!(out.contains("refused: ") && out.contains("secret"), "{out}");
    // It has used up no id.
    let mut third = job.start(&["--join"]);
    third.hear(&[2], &[0, 1, 2]);
    third.leave();
    members.end();
}

#[test]
fn a_program_that_takes_part_in_one_view_says_so_at_once() {
    let job = Job::new("tcp");
    let (code, out, err) = finish(job.run(&["--join"], "run"));
    assert_eq!(code, 0, "{out} {err}");
    assert!(out.contains("let it begin with `Startup::connect`"), "{out}");
}

/// The ids that the first failure names are those of the job, and the launcher does not know that of a node that joins.
#[test]
fn a_failure_of_the_node_has_no_id() {
    let job = Job::new("tcp");
    let mut command = Command::new(LOCO);
    command
        .args(["run", "--hosts"])
        .arg(&job.hosts)
        .args(["--join", "--", "sh", "-c"]);
    command
        .arg("echo \"$LOCO_JOIN/$LOCO_NODE\"; exit 7")
        .env("LOCO_SECRET", SECRET);
    command.env("LOCO_NODE", "5").env("LOCO_FABRIC", "tcp");
    let (code, out, err) = finish(command);
    let hosts = std::fs::read_to_string(&job.hosts).unwrap();
    let addresses: Vec<_> = hosts
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!((code, out), (7, format!("{}/\n", addresses.join(","))));
    assert_eq!(err, "loco: the node of `--join` ended with exit code 7\n");
}

#[test]
fn wrong_use_is_refused_with_the_remedy() {
    let job = Job::new("tcp");
    let file = job.hosts.to_str().unwrap();
    let with_secret = [("LOCO_SECRET", SECRET)];
    for (args, variables, remedy) in [
        (
            &["-n", "2", "--nodes-max", "4"][..],
            &with_secret[..],
            "--nodes-max needs --hosts FILE: ",
        ),
        (
            &["-n", "2", "--join"],
            &with_secret,
            "--join needs --hosts FILE: ",
        ),
        (&["--hosts", file, "--join"], &[], "--join needs the secret"),
        (
            &["--hosts", file, "--nodes-max", "4"],
            &[],
            "set LOCO_SECRET or LOCO_SECRET_FILE",
        ),
        (
            &["--hosts", file, "--nodes-max", "1"],
            &with_secret,
            "--nodes-max 1 is too little for the 2 nodes",
        ),
        (
            &["--hosts", file, "--join", "--ssh"],
            &with_secret,
            "'--join' cannot be used with '--ssh'",
        ),
    ] {
        let mut command = Command::new(LOCO);
        for name in ["LOCO_SECRET", "LOCO_SECRET_FILE"] {
            command.env_remove(name);
        }
        command
            .arg("run")
            .args(args)
            .args(["--", "true"])
            .envs(variables.iter().copied());
        let (code, _, err) = finish(command);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(remedy), "{args:?}: {err}");
    }
}
