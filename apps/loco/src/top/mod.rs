//! `loco top`: what the threads of running jobs wait for, for whom and how long, and which of them wait in a circle.
//!
//! Nodes need not answer: [`found`] reads the pages on which they show their waits. Three looks tell waits that last from those
//! that change meanwhile, so that what is said of several nodes was so at one time.

use std::io::{IsTerminal as _, stdout};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use loco_app::{Stop, print};
use loco_trace::clock;
use loco_trace::waits::NodePage;
use rustix::termios::tcgetwinsize;

use crate::error::CliError;

mod fit;
mod found;
mod graph;
mod show;

use found::{Node, Page};
use graph::Job;
use show::{Report, report};

/// The time between two looks. A thread that waits for long looks for what it waits for each 20 ms at least.
const BETWEEN_LOOKS: Duration = Duration::from_millis(75);
/// The time between two reports on a terminal.
const BETWEEN_REPORTS: Duration = Duration::from_millis(850);
/// Clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Show what the threads of running jobs wait for.
///
/// The jobs are those of this user with nodes on this host, whoever started them. For each node: the threads that wait, for
/// what, for whom and how long, and those that hold locks. Threads that wait for one another in a circle are named as a
/// deadlock, and the exit code is 1.
///
/// On a terminal the report is renewed each second until Ctrl-C. Otherwise it is printed once. Waits shorter than a millisecond are
/// not shown.
#[derive(clap::Args)]
pub struct Args {
    /// Print one report and end.
    #[arg(long)]
    once: bool,
    /// Print one report as a line of JSON and end.
    #[arg(long)]
    json: bool,
    /// Only the job with this id, or whose id begins with this.
    #[arg(long, value_name = "ID")]
    job: Option<String>,
}

/// Reports on the jobs, and returns the exit code of the command.
pub fn main(args: &Args) -> ExitCode {
    match Stop::on_signals() {
        Ok(stop) => loco_app::exit("loco", &stop, run(args, &stop), CliError::exit_code),
        Err(source) => {
            let what = "installing the handlers of signals";
            let error = Err(CliError::Os { what, source });
            loco_app::exit("loco", &Stop::default(), error, CliError::exit_code)
        }
    }
}

fn run(args: &Args, stop: &Stop) -> Result<u8, CliError> {
    let once = args.once || args.json || !stdout().is_terminal();
    stop.begin_work();
    loop {
        let report = look(args.job.as_deref().unwrap_or_default());
        if once {
            match args.json {
                // Strings, numbers and lists, which always serialize.
                true => print(serde_json::to_string(&report).unwrap_or_default())?,
                false => print(report.text())?,
            }
            return Ok(u8::from(report.has_deadlock()));
        }
        let text = report.text();
        let text = match tcgetwinsize(stdout()) {
            // The last row is the cursor's.
            Ok(window) if window.ws_col > 0 && window.ws_row > 1 => {
                fit::fitted(&text, usize::from(window.ws_col), usize::from(window.ws_row) - 1)
            }
            _ => text,
        };
        print(format_args!("{CLEAR}{text}"))?;
        let parts = 10;
        for _ in 0..parts {
            if stop.is_asked() {
                return Ok(0);
            }
            thread::sleep(BETWEEN_REPORTS / parts);
        }
    }
}

/// Looks three times at the nodes of the jobs whose id begins with `job`.
fn look(job: &str) -> Report {
    let pages = Page::find();
    let read = || -> Vec<Option<NodePage>> { pages.iter().map(Page::read).collect() };
    let first = read();
    thread::sleep(BETWEEN_LOOKS);
    let second = read();
    thread::sleep(BETWEEN_LOOKS);
    let last = read();
    let mut jobs: Vec<Vec<Node>> = Vec::new();
    let mut looked = Vec::new();
    for (((page, first), second), last) in pages.iter().zip(first).zip(second).zip(last) {
        // A node that begins or ends meanwhile is seen the next time.
        let (Some(first), Some(second), Some(mut last)) = (first, second, last) else {
            continue;
        };
        if !last.job.starts_with(job) {
            continue;
        }
        let before = |state| first.waits.iter().find(|wait| wait.state == state);
        last.waits.retain(|wait| before(wait.state).is_some());
        for wait in &last.waits {
            if before(wait.state).is_some_and(|before| before.looks < wait.looks) {
                looked.push((page_id(&last), wait.state));
            }
        }
        // The threads that wait from the first look to the last hold at the second what they hold all the time.
        last.objects = second.objects;
        let node = found::node(page, last);
        let same = |nodes: &Vec<Node>| {
            nodes[0].page.job == node.page.job && nodes.iter().all(|other| other.id() != node.id())
        };
        match jobs.iter_mut().find(|nodes| same(nodes)) {
            Some(nodes) => nodes.push(node),
            None => jobs.push(vec![node]),
        }
    }
    let now = clock::now();
    let jobs = jobs.into_iter().map(|nodes| {
        let job = Job::new(nodes, |node, wait| {
            looked.contains(&(page_id(&node.page), wait.state))
        });
        report(&job, now)
    });
    Report { jobs: jobs.collect() }
}

/// Tells the pages of this host apart.
fn page_id(page: &NodePage) -> (String, u16, u32) {
    (page.job.clone(), page.node.0, page.process)
}
