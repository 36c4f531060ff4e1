//! What was found of jobs, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use loco::fabric::NodeId;
use loco_app::counted;
use loco_trace::waits::Who;
use serde::Serialize;

use super::graph::{Circle, Job, Kind, Waiting};

/// The text that `Mesh::connect` of `loco-job` shows for nodes that wait for one another at the start.
const ALL_NODES: &str = "all nodes of the job";

/// The jobs of this user on this host.
#[derive(Serialize)]
pub struct Report {
    /// The jobs.
    pub jobs: Vec<JobReport>,
}

/// A job.
#[derive(Serialize)]
pub struct JobReport {
    /// Its id.
    job: String,
    /// The name of its program.
    program: String,
    /// The number of its nodes.
    nodes: u64,
    /// Those of them that are on this host.
    here: Vec<NodeReport>,
    /// The circles of threads each of which waits for the next.
    deadlocks: Vec<String>,
}

/// A node.
#[derive(Serialize)]
struct NodeReport {
    node: u16,
    process: u32,
    threads: Vec<ThreadReport>,
    /// The number of objects and waits for which the node's page has no room.
    left_out: (u64, u64),
}

/// A thread, or an asynchronous call, that waits or holds locks.
#[derive(Serialize)]
struct ThreadReport {
    thread: u32,
    name: String,
    asynchronous: bool,
    stopped: bool,
    holds: Vec<String>,
    waits: Option<WaitReport>,
}

/// A wait.
#[derive(Serialize)]
struct WaitReport {
    #[serde(rename = "for")]
    what: String,
    kind: &'static str,
    /// The nodes that have to do something.
    nodes: Vec<u16>,
    /// The threads that hold the lock.
    held_by: Vec<Holder>,
    seconds: f64,
    /// The time after which the thread gives up, if it does.
    gives_up_in_seconds: Option<f64>,
    /// Set if the wait can never end.
    deadlock: bool,
}

/// Who holds a lock.
#[derive(Serialize)]
struct Holder {
    node: u16,
    thread: u32,
    name: String,
}

/// Reports on a job at this time, in nanoseconds of `CLOCK_MONOTONIC`.
pub fn report(job: &Job, now: u64) -> JobReport {
    let circles = job.deadlocks();
    let stuck = job.stuck();
    let mut here = Vec::new();
    for (position, node) in job.nodes.iter().enumerate() {
        let mut threads: BTreeMap<Who, Vec<ThreadReport>> = BTreeMap::new();
        let blank = |who: Who| ThreadReport {
            thread: who.thread,
            name: node
                .threads
                .get(&who.thread)
                .map_or(String::new(), |thread| thread.name.clone()),
            asynchronous: who.of_task,
            stopped: node
                .threads
                .get(&who.thread)
                .is_some_and(|thread| thread.is_stopped),
            holds: Vec::new(),
            waits: None,
        };
        let own = (0..job.waits.len()).filter(|&wait| job.waits[wait].node == position);
        for wait in own {
            let who = job.waits[wait].wait.who;
            let mut report = blank(who);
            report.waits = Some(wait_report(job, wait, stuck[wait], now));
            threads.entry(who).or_default().push(report);
        }
        for object in &node.page.objects {
            if let Some(who) = object.holder.filter(|&who| !node.is_service(who)) {
                let reports = threads.entry(who).or_default();
                if reports.is_empty() {
                    reports.push(blank(who));
                }
                reports[0].holds.push(object.name.clone());
            }
        }
        here.push(NodeReport {
            node: node.id().0,
            process: node.process,
            threads: threads.into_values().flatten().collect(),
            left_out: node.page.left_out,
        });
    }
    JobReport {
        job: job.nodes[0].page.job.clone(),
        program: job.nodes[0].program.clone(),
        nodes: job.nodes[0].page.nodes,
        here,
        deadlocks: circles.iter().map(|circle| sentence(job, circle)).collect(),
    }
}

fn wait_report(job: &Job, wait: usize, deadlock: bool, now: u64) -> WaitReport {
    let Waiting {
        wait, kind, holders, ..
    } = &job.waits[wait];
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    WaitReport {
        what: wait.what.clone(),
        kind: match kind {
            Kind::SetUp => "set-up",
            Kind::Lock => "lock",
            Kind::Barrier => "barrier",
            Kind::Other => "other",
        },
        nodes: wait.nodes.iter().map(|node| node.0).collect(),
        held_by: holders
            .iter()
            .map(|&(position, who)| Holder {
                node: job.nodes[position].id().0,
                thread: who.thread,
                name: job.nodes[position].name_of(who),
            })
            .collect(),
        seconds: seconds(now.saturating_sub(wait.since)),
        gives_up_in_seconds: wait.until.map(|until| seconds(until.saturating_sub(now))),
        deadlock,
    }
}

/// Says of a circle who waits for whom: `node 0 (main) holds lock a and waits for lock b; ...`.
fn sentence(job: &Job, circle: &Circle) -> String {
    let mut parts = Vec::new();
    for (index, &wait) in circle.iter().enumerate() {
        let waiting = &job.waits[wait];
        let before = &job.waits[circle[(index + circle.len() - 1) % circle.len()]];
        let next = &job.waits[circle[(index + 1) % circle.len()]];
        let node = &job.nodes[waiting.node];
        let holds = match before.kind {
            Kind::Lock => format!("holds lock {} and ", before.wait.what),
            _ => String::new(),
        };
        let name = &waiting.wait.what;
        let next = job.nodes[next.node].id();
        let waits = match waiting.kind {
            Kind::Lock => format!("waits for lock {name}"),
            Kind::Barrier => format!("waits at barrier {name} for {next}"),
            Kind::SetUp => format!("waits until {next} has set up {name}"),
            Kind::Other => format!("waits for {name}, on which {next} has to act"),
        };
        let who = format!("{} ({})", node.id(), node.name_of(waiting.wait.who));
        parts.push(format!("{who} {holds}{waits}"));
    }
    parts.join("; ")
}

impl Report {
    /// Returns the report for people.
    pub fn text(&self) -> String {
        if self.jobs.is_empty() {
            return "no node of a job of this user runs on this host".to_owned();
        }
        let jobs: Vec<_> = self.jobs.iter().map(JobReport::text).collect();
        jobs.join("\n\n")
    }

    /// Returns whether a job has a deadlock.
    pub fn has_deadlock(&self) -> bool {
        self.jobs.iter().any(|job| !job.deadlocks.is_empty())
    }
}

impl JobReport {
    fn text(&self) -> String {
        let elsewhere = match self.here.len() as u64 == self.nodes {
            true => String::new(),
            false => format!(", {} on this host", self.here.len()),
        };
        let nodes = counted(self.nodes, "node");
        let mut text = format!("job {}: {}, {nodes}{elsewhere}", self.job, self.program);
        for node in &self.here {
            let _ = write!(text, "\n  {}, process {}", NodeId(node.node), node.process);
            if node.threads.is_empty() {
                text.push_str(": no thread waits");
            }
            for thread in &node.threads {
                let _ = write!(text, "\n    {}", thread.text());
            }
            let (objects, waits) = node.left_out;
            if objects + waits > 0 {
                let _ = write!(
                    text,
                    "\n    not shown: {objects} objects and {waits} waits that were too many"
                );
            }
        }
        for deadlock in &self.deadlocks {
            let _ = write!(text, "\n  deadlock: {deadlock}");
        }
        text
    }
}

impl ThreadReport {
    fn text(&self) -> String {
        let name = match self.name.as_str() {
            "" => format!("thread {}", self.thread),
            name => name.to_owned(),
        };
        let mut facts = Vec::new();
        if self.asynchronous {
            facts.push("in an asynchronous call".to_owned());
        }
        if self.stopped {
            facts.push("is stopped".to_owned());
        }
        if !self.holds.is_empty() {
            facts.push(format!("holds {}", self.holds.join(", ")));
        }
        facts.extend(self.waits.as_ref().map(WaitReport::text));
        format!("{name}: {}", facts.join("; "))
    }
}

impl WaitReport {
    fn text(&self) -> String {
        let name = &self.what;
        let nodes = NodeId::list(self.nodes.iter().copied().map(NodeId));
        let what = match (self.kind, &self.held_by[..]) {
            ("lock", [holder]) => format!(
                "for lock {name}, which {} ({}) holds",
                NodeId(holder.node),
                holder.name
            ),
            ("lock", _) if self.nodes.is_empty() => format!("for lock {name}"),
            ("lock", _) => format!("for lock {name}, among {nodes}"),
            ("barrier", _) => format!("at barrier {name} for {nodes}"),
            // Nodes that meet have no objects yet.
            ("set-up", _) if name == ALL_NODES => format!("until {nodes} has come"),
            ("set-up", _) => format!("until {name} is set up on {nodes}"),
            _ if self.nodes.is_empty() => format!("for {name}"),
            _ => format!("for {name}, on which {nodes} may act"),
        };
        let end = match self.gives_up_in_seconds {
            Some(left) => format!(" (gives up in {left:.0} s)"),
            None => String::new(),
        };
        format!("waits {:.1} s {what}{end}", self.seconds)
    }
}
