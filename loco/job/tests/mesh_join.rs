//! Tests of nodes that join a running job. Each node is a process of its own, which tells what happens to it line by line.
//!
//! The silence after which a peer is lost is an hour, and so is the time to connect, unless a test says otherwise. So what only a
//! timeout could bring about would hang, and be found by the patience of the test.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use loco_fabric::{Control, NodeId, Platform, Std, Time};
use loco_job::{Address, Environment, Hosts, Job, Join, Mesh, Secret};
use loco_testing::free_addresses;
use rustix::process::{Pid, Signal, kill_process};

/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);
const SECRET: &str = "a shared secret";
const HOUR_MS: &str = "3600000";
/// Tells a node to leave.
const LEAVE: &str = "leave\n";

/// Prints a line for the test.
fn tell(line: &str) {
    println!("\n> {line}");
}

fn ids(nodes: &[NodeId]) -> String {
    let ids: Vec<_> = nodes.iter().map(|node| node.0.to_string()).collect();
    ids.join(" ")
}

/// Plays a node; not a test by itself. It begins with a job, or joins one, and tells what happens until it is killed.
#[test]
fn node_process() {
    if std::env::var("TEST_ROLE").as_deref() != Ok("node") {
        return;
    }
    // The log is for the test, too.
    tracing_subscriber::fmt()
        .with_writer(std::io::stdout)
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .init();
    let mesh = match Join::from_env().unwrap() {
        Some(join) => Mesh::join(&join),
        None => Mesh::connect(&Job::from_env().unwrap()),
    };
    let mesh = match mesh {
        Ok(mesh) => mesh,
        Err(error) => return tell(&format!("error {error}.")),
    };
    let number = mesh.view_number();
    tell(&format!(
        "node {} in view {number}: {}.",
        mesh.node().0,
        ids(mesh.nodes())
    ));
    if let Some(address) = mesh.joined_at() {
        tell(&format!("at {address}."));
    }
    let watched = mesh.clone();
    let watching = thread::spawn(move || tell_of_departures(&watched));
    let meshes = Arc::new(Mutex::new(vec![mesh.clone()]));
    let left = Arc::clone(&meshes);
    let leaving = thread::spawn(move || leave_when_told(&left));
    let first = mesh.clone();
    thread::spawn(move || meet(&first));
    let mut known = number;
    while let Some(view) = mesh.next_view(known, Time::NEVER) {
        known = view.number();
        tell(&format!("view {known}: {}.", ids(view.members())));
        let mesh = mesh.of_view(&view).unwrap();
        meshes.lock().unwrap().push(mesh.clone());
        thread::spawn(move || meet(&mesh));
    }
    tell("no more views.");
    // Who was declared lost says so, and who leaves says goodbye.
    match mesh.declared_lost() {
        true => watching.join(),
        false => leaving.join(),
    }
    .unwrap();
}

/// Closes all views once the test says so.
fn leave_when_told(meshes: &Mutex<Vec<Mesh>>) {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    if line == LEAVE {
        meshes.lock().unwrap().iter().for_each(Control::close);
    }
}

/// Meets all members of the mesh's view: each contributes its id. Then waits for ever, as a member of the view.
fn meet(mesh: &Mesh) {
    let number = mesh.view_number();
    match mesh.allgather("meet", &mesh.node().0.to_le_bytes(), Time::NEVER) {
        Ok(all) => {
            let said = all
                .iter()
                .map(|(_, bytes)| NodeId(u16::from_le_bytes(bytes[..].try_into().unwrap())));
            tell(&format!(
                "met in view {number}: {}.",
                ids(&said.collect::<Vec<_>>())
            ));
        }
        Err(error) => tell(&format!("not met in view {number}: {error}.")),
    }
    mesh.next_view(u32::MAX, Time::NEVER);
}

fn tell_of_departures(mesh: &Mesh) {
    let (mut members, mut known, mut departures) = (mesh.nodes().to_vec(), mesh.view_number(), 0);
    loop {
        departures = mesh.wait_for_departures(departures, Time::NEVER);
        while let Some(view) = mesh.next_view(known, Std.now()) {
            known = view.number();
            members.extend(view.members());
        }
        members.sort();
        members.dedup();
        let gone: Vec<_> = members
            .iter()
            .copied()
            .filter(|&node| mesh.is_gone(node))
            .collect();
        tell(&format!("gone {}.", ids(&gone)));
        if mesh.declared_lost() {
            return tell("out.");
        }
    }
}

/// A process that plays a node. It is killed when dropped.
struct Node {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Node {
    fn start(variables: &[(&str, String)]) -> Node {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "node_process", "--nocapture"])
            .env("TEST_ROLE", "node")
            .env("LOCO_SECRET", SECRET)
            .env("LOCO_CONNECT_TIMEOUT_MS", HOUR_MS)
            .env("LOCO_SILENCE_MS", HOUR_MS)
            .env("LOCO_SILENCE_SAME_HOST_MS", HOUR_MS)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Fails once nobody listens.
                let _ = sender.send(line);
            }
        });
        Node {
            child,
            lines,
            heard: Vec::new(),
        }
    }

    /// Waits for a line with this text.
    fn hear(&mut self, text: &str) -> String {
        if let Some(at) = self.heard.iter().position(|line| line.contains(text)) {
            return self.heard.remove(at);
        }
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => self.heard.push(line),
                Err(error) => panic!("no `{text}` ({error}): {:#?}", self.heard),
            }
        }
    }

    /// Waits for the end of the process, and returns all that it has said since the last line that was heard.
    fn end(mut self) -> Vec<String> {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.heard.push(line);
        }
        std::mem::take(&mut self.heard)
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells the process to say goodbye.
    fn leave(&mut self) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(LEAVE.as_bytes()).unwrap();
    }

    /// Stops the process, or lets it go on. A stopped process is silent, and takes part in nothing.
    fn stop(&self, stop: bool) {
        let signal = if stop { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A job of processes on this host, with a hosts file.
struct Nodes {
    addresses: Vec<String>,
    members: Vec<Node>,
}

impl Nodes {
    /// Starts a job of `count` nodes with room for `max`, and waits until it is up.
    fn start(count: usize, max: u16, more: &[(&str, String)]) -> Nodes {
        let addresses: Vec<_> = free_addresses(&vec!["127.0.0.1"; count])
            .iter()
            .map(ToString::to_string)
            .collect();
        let line = |(id, address): (usize, &String)| format!("{id} {address}\n");
        let hosts: String = addresses.iter().enumerate().map(line).collect();
        let start = |id: usize| {
            let mut variables = vec![
                ("LOCO_NODE", id.to_string()),
                ("LOCO_HOSTS_TEXT", hosts.clone()),
                ("LOCO_NODES_MAX", max.to_string()),
            ];
            variables.extend_from_slice(more);
            Node::start(&variables)
        };
        let mut members: Vec<_> = (0..count).map(start).collect();
        for member in &mut members {
            member.hear(&format!("met in view {count}: "));
        }
        Nodes { addresses, members }
    }

    /// Starts a process that joins by asking `member`.
    fn join_by(&self, member: usize, more: &[(&str, String)]) -> Node {
        let mut variables = vec![("LOCO_JOIN", self.addresses[member].clone())];
        variables.extend_from_slice(more);
        Node::start(&variables)
    }

    /// Checks that all members have a view, and have met in it.
    fn assert_view(&mut self, number: u32, members: &str) {
        for node in &mut self.members {
            node.hear(&format!("view {number}: {members}."));
            node.hear(&format!("met in view {number}: {members}."));
        }
    }
}

#[test]
fn a_node_joins_by_any_member_and_meets_all() {
    for by in [0, 2] {
        let mut job = Nodes::start(3, 4, &[]);
        let mut newcomer = job.join_by(by, &[]);
        newcomer.hear("node 3 in view 4: 0 1 2 3.");
        newcomer.hear("met in view 4: 0 1 2 3.");
        job.assert_view(4, "0 1 2 3");
        // Its loss is found like that of any other.
        newcomer.kill();
        for member in &mut job.members {
            member.hear("gone 3.");
        }
    }
}

#[test]
fn a_node_joins_a_job_of_one() {
    let mut job = Nodes::start(1, 2, &[]);
    let mut newcomer = job.join_by(0, &[]);
    newcomer.hear("node 1 in view 2: 0 1.");
    job.assert_view(2, "0 1");
    job.members[0].kill();
    newcomer.hear("gone 0.");
}

#[test]
fn two_join_at_once_and_come_in_one_after_the_other() {
    let mut job = Nodes::start(2, 4, &[]);
    let mut newcomers = [0, 1].map(|by| job.join_by(by, &[]));
    let second = "met in view 4: 0 1 2 3.";
    newcomers.iter_mut().for_each(|node| drop(node.hear(second)));
    job.assert_view(4, "0 1 2 3");
    let mut first = 0;
    for mut node in newcomers {
        first += usize::from(node.hear(" in view ").contains("node 2 in view 3: 0 1 2."));
    }
    assert_eq!(first, 1);
}

/// Members that are there at the start go, and those that came later let in the next.
#[test]
fn those_that_joined_carry_on_the_job_without_those_that_began_it() {
    let mut job = Nodes::start(1, 3, &[]);
    let mut first = job.join_by(0, &[]);
    first.hear("met in view 2: 0 1.");
    let said = first.hear("> at ");
    let address = said.trim_start_matches("> at ").trim_end_matches('.').to_owned();
    job.members[0].kill();
    first.hear("gone 0.");
    let mut second = Node::start(&[("LOCO_JOIN", address)]);
    second.hear("met in view 4: 1 2.");
    first.hear("met in view 4: 1 2.");
}

#[test]
fn a_newcomer_that_is_killed_half_way_costs_the_members_only_its_id() {
    let mut job = Nodes::start(2, 4, &[]);
    // Nobody comes in while a member is stopped.
    job.members[1].stop(true);
    let mut newcomer = job.join_by(0, &[]);
    job.members[0].hear("connected with a node that joins");
    newcomer.kill();
    job.members[1].stop(false);
    let mut next = job.join_by(0, &[]);
    next.hear("met in view 4: 0 1 3.");
    job.assert_view(4, "0 1 3");
    next.kill();
    for member in &mut job.members {
        // The one that was never in is not reported.
        member.hear("gone 3.");
        assert!(!member.heard.iter().any(|line| line.contains("gone 2")));
    }
}

/// The one that lets the newcomer in, or another, is killed in the middle.
#[test]
fn a_member_that_is_killed_while_a_node_joins_is_not_waited_for() {
    for killed in [0, 1, 2] {
        let mut job = Nodes::start(3, 4, &[]);
        // The newcomer waits for this one, and is in the middle as long as it is stopped.
        let stopped = if killed == 2 { 1 } else { 2 };
        job.members[stopped].stop(true);
        let mut newcomer = job.join_by(0, &[]);
        job.members[0].hear("connected with a node that joins");
        job.members[killed].kill();
        job.members[stopped].stop(false);
        newcomer.hear("node 3 in view 4: 0 1 2 3.");
        newcomer.hear(&format!("gone {killed}."));
        for (id, member) in job.members.iter_mut().enumerate().filter(|&(id, _)| id != killed) {
            member.hear("view 4: 0 1 2 3.");
            assert!(member.hear("gone ").contains(&format!("gone {killed}.")), "{id}");
        }
    }
}

/// The sponsor or another member says goodbye in the middle.
#[test]
fn a_member_that_leaves_while_a_node_joins_is_not_waited_for() {
    for leaver in [0, 1] {
        let mut job = Nodes::start(3, 4, &[]);
        // The newcomer is in the middle as long as this one is stopped.
        job.members[2].stop(true);
        let mut newcomer = job.join_by(0, &[]);
        job.members[leaver].hear("connected with a node that joins");
        job.members[leaver].leave();
        job.members[1 - leaver].hear(&format!("gone {leaver}."));
        job.members[2].stop(false);
        newcomer.hear("node 3 in view 4: 0 1 2 3.");
        newcomer.hear(&format!("gone {leaver}."));
        for id in [1 - leaver, 2] {
            job.members[id].hear("view 4: 0 1 2 3.");
        }
    }
}

/// One member is connected with the newcomer when it ends, the other is stopped and is not.
#[test]
fn a_newcomer_whose_members_have_all_ended_says_that_the_job_is_over() {
    let mut job = Nodes::start(2, 3, &[]);
    job.members[1].stop(true);
    let newcomer = job.join_by(0, &[]);
    job.members[0].hear("connected with a node that joins");
    job.members.iter_mut().for_each(Node::kill);
    let said = newcomer.end().join("\n");
    let reason = format!("nobody listens at {}: the job is over", job.addresses[0]);
    assert!(said.contains(&reason), "{said}");
}

/// The silence after which a node of these tests is lost that is stopped. Nodes that run are not silent for so long on a loaded
/// machine, either.
fn silence() -> [(&'static str, String); 1] {
    [("LOCO_SILENCE_SAME_HOST_MS", "4000".to_owned())]
}

#[test]
fn a_node_that_was_lost_comes_back_as_a_new_one_and_its_old_self_stays_out() {
    let silence = silence();
    let mut job = Nodes::start(3, 4, &silence);
    job.members[1].stop(true);
    for member in [0, 2] {
        job.members[member].hear("gone 1.");
    }
    let mut again = job.join_by(2, &silence);
    again.hear("node 3 in view 5: 0 2 3.");
    again.hear("met in view 5: 0 2 3.");
    job.members[1].stop(false);
    job.members[1].hear("> out.");
    job.members[1].hear("> no more views.");
    let heard = &job.members[1].heard;
    assert!(
        !heard
            .iter()
            .any(|line| line.contains("view 4") || line.contains("view 5")),
        "{heard:#?}"
    );
    again.kill();
    for member in [0, 2] {
        job.members[member].hear("gone 1 3.");
    }
}

/// The newcomer asks another member, which names the one that is stopped.
#[test]
fn a_member_that_would_let_the_newcomer_in_and_is_stopped_is_waited_for_until_it_is_lost() {
    let silence = silence();
    let mut job = Nodes::start(3, 4, &silence);
    job.members[0].stop(true);
    let mut newcomer = job.join_by(1, &silence);
    for member in &mut job.members[1..] {
        member.hear("gone 0.");
    }
    newcomer.hear("met in view 5: 1 2 3.");
    for member in &mut job.members[1..] {
        member.hear("met in view 5: 1 2 3.");
    }
}

#[test]
fn a_wrong_secret_is_refused_and_costs_nothing() {
    let mut job = Nodes::start(2, 3, &[]);
    let stranger = job.join_by(0, &[("LOCO_SECRET", "something else".to_owned())]);
    let said = stranger.end().join("\n");
    assert!(
        said.contains("the secrets differ; give all nodes the same one"),
        "{said}"
    );
    let mut newcomer = job.join_by(0, &[]);
    newcomer.hear("met in view 3: 0 1 2.");
    job.assert_view(3, "0 1 2");
}

#[test]
fn a_job_that_has_used_all_its_ids_says_so() {
    let job = Nodes::start(2, 3, &[]);
    let mut newcomer = job.join_by(0, &[]);
    newcomer.hear("met in view 3: 0 1 2.");
    newcomer.kill();
    let said = job.join_by(1, &[]).end().join("\n");
    assert!(said.contains("the job has used all of its 3 ids"), "{said}");
    assert!(said.contains("LOCO_NODES_MAX"), "{said}");
}

#[test]
fn a_node_of_another_job_is_refused() {
    let job = Nodes::start(1, 2, &[]);
    let said = job
        .join_by(0, &[("LOCO_JOB", "another".to_owned())])
        .end()
        .join("\n");
    assert!(
        said.contains("it belongs to another job; check the address"),
        "{said}"
    );
}

#[test]
fn a_job_that_is_over_is_named() {
    let mut job = Nodes::start(2, 3, &[]);
    job.members.iter_mut().for_each(Node::kill);
    let said = job.join_by(0, &[]).end().join("\n");
    let reason = "the job is over, is not up yet, or has a fixed number of nodes; start it with room for more (`loco run --nodes-max`, LOCO_NODES_MAX)";
    assert!(said.contains(reason), "{said}");
    assert!(
        said.contains(&format!("nobody listens at {}", job.addresses[0])),
        "{said}"
    );
}

#[test]
fn nodes_with_different_rooms_are_refused_at_the_start() {
    let addresses = free_addresses(&["127.0.0.1"; 2]).into_iter().map(Address::from);
    let hosts = Hosts::from_pairs((0..).map(NodeId).zip(addresses)).unwrap();
    let job = |node, max| {
        let job = Job::builder(NodeId(node)).secret(Secret::new(SECRET.as_bytes()).unwrap());
        job.nodes_max(max).hosts(hosts.clone()).unwrap()
    };
    let jobs = [job(0, 4), job(1, 5)];
    thread::scope(|scope| {
        let other = scope.spawn(|| Mesh::connect(&jobs[0]));
        let error = Mesh::connect(&jobs[1]).unwrap_err().to_string();
        assert!(
            error.contains("its job has room for 4 nodes; set LOCO_NODES_MAX alike"),
            "{error}"
        );
        let right = Mesh::connect(&job(1, 4)).unwrap();
        assert_eq!(right.nodes().len(), 2);
        drop(right);
        drop(other.join().unwrap());
    });
}

#[test]
fn a_launcher_that_fixes_the_number_of_nodes_starts_no_job_that_grows() {
    let of = |variables: &[(&'static str, &'static str)]| Environment::of(variables.iter().copied());
    let slurm = [
        ("SLURM_PROCID", "0"),
        ("SLURM_NTASKS", "2"),
        ("LOCO_SECRET", SECRET),
    ];
    let with = |name, value| of(&[&slurm[..], &[(name, value)]].concat());
    let error = Job::from_environment(&with("LOCO_NODES_MAX", "4"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("LOCO_NODES_MAX is set, but Slurm fixes the number of nodes"),
        "{error}"
    );
    // As of a shell that Slurm has started, for a job that `loco run` has.
    let join = Join::from_environment(&with("LOCO_JOIN", "alpha:7700"))
        .unwrap()
        .unwrap();
    assert_eq!(join.members(), [Address::parse("alpha:7700", None).unwrap()]);
    assert!(Join::from_environment(&of(&slurm)).unwrap().is_none());
    let join = Join::from_environment(&of(&[("LOCO_JOIN", "alpha:7700, beta:1")]))
        .unwrap()
        .unwrap();
    assert_eq!(join.members().len(), 2);
    let error = Mesh::join(&join).unwrap_err().to_string();
    assert!(error.contains("the job has no secret"), "{error}");
}
