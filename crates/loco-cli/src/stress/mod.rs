//! `loco stress`: processes use an object at the same time, every call is recorded, and the history is checked.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use loco::fabric::{FabricChoice, NodeId, var};
use loco_app::{complain, print};
use serde::Serialize;

use crate::error::CliError;
use crate::launcher::{Failure, Plan, launch};
use crate::record::Record;
use crate::run::local_nodes;

mod calls;
mod judge;
mod node;

pub use node::{Args as NodeArgs, NAME as NODE, node};

use judge::Findings;

/// Let processes use an object at the same time, and check what they saw.
///
/// Every thread of every node makes random calls as fast as it can and records each in a journal that survives it, by the
/// host's monotonic clock. The history of all of them is then checked: it has to be linearizable (the key-value store for
/// each key); under a lock no update may be lost; the queue loses and doubles nothing and keeps each producer's order.
///
/// With --kill the last node is killed in the middle: while it holds the lock, inside an insert, inside a pop. The
/// others have to go on or to get errors, in bounded time, and what they saw has to be linearizable with the calls that
/// the victim was in done or not.
///
/// Examples:
///
///   loco stress kv --nodes 3 --ops 1000000
///
///   loco stress ticket-lock --nodes 3 --kill 100 --on-loss recover
///
/// Exit status: 0 nothing found, 1 the history breaks a promise or a node failed, 2 bad usage, 3 the check ran out of time.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The object.
    object: Object,
    /// Number of node processes.
    #[arg(short, long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u16).range(2..=16))]
    nodes: u16,
    /// Fabric that the nodes use: shm, verbs (RDMA), or auto (verbs if every node has a usable device, else shm).
    #[arg(long, env = var::FABRIC, value_name = "FABRIC", default_value_t)]
    fabric: FabricChoice,
    /// Seconds after which the job is ended as failed.
    #[arg(long, value_name = "S", default_value = "600")]
    timeout: u64,
    /// Seconds after which the check gives up.
    #[arg(long, value_name = "S", default_value = "300")]
    check_time: u64,
    /// Write the history as an HTML timeline if it breaks a promise.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: Load,
}

/// What the nodes do.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Load {
    /// Threads of each node.
    #[arg(short, long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Calls of all threads of all nodes together.
    #[arg(long, value_name = "N", default_value = "60000", value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// Keys that the calls of the key-value store are about.
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    keys: u64,
    /// Seed of the calls.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Kill the last node so many milliseconds after the start.
    #[arg(long, value_name = "MS")]
    kill: Option<u64>,
    /// What a lock does when its holder is lost.
    #[arg(long, value_enum, default_value = "poison")]
    on_loss: OnLoss,
}

/// What can be stressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// Atomic variable: adds, swaps, compare-and-swaps, writes, reads.
    Atomic,
    /// Ticket lock around a get and a put of a counter.
    TicketLock,
    /// Test-and-set lock, likewise.
    TasLock,
    /// Shared queue: pushes and pops.
    Queue,
    /// Key-value store: inserts, updates, deletes, gets.
    Kv,
}

/// A lock's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum OnLoss {
    /// Waiters fail.
    Poison,
    /// The next one gets the lock, and is told.
    Recover,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value()
            .map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

impl Load {
    /// As arguments.
    fn words(&self) -> Vec<OsString> {
        let on_loss = match self.on_loss {
            OnLoss::Poison => "poison",
            OnLoss::Recover => "recover",
        };
        let mut words = vec![
            format!("--threads={}", self.threads),
            format!("--ops={}", self.ops),
            format!("--keys={}", self.keys),
            format!("--seed={}", self.seed),
            format!("--on-loss={on_loss}"),
        ];
        words.extend(self.kill.map(|after| format!("--kill={after}")));
        words.into_iter().map(OsString::from).collect()
    }
}

/// How a node ends that was killed.
const KILLED: u8 = 128 + 9;
/// The check ran out of time.
const UNKNOWN: u8 = 3;

#[derive(Serialize)]
struct Parameters<'a> {
    object: Object,
    nodes: u16,
    #[serde(flatten)]
    load: &'a Load,
}

#[derive(Serialize)]
struct Results {
    run_s: f64,
    check_s: f64,
    #[serde(flatten)]
    findings: Findings,
}

/// Starts the nodes, then checks what they recorded.
pub fn run(args: &Args) -> Result<u8, CliError> {
    if args.load.kill.is_some() && args.nodes < 3 {
        return Err(CliError::Usage(
            "--kill: two nodes have to be left; give --nodes 3 or more".into(),
        ));
    }
    let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
    let journals = Journals::new()?;
    let mut command = vec![own.into_os_string(), NODE.into(), args.object.to_string().into()];
    command.push(journals.0.clone().into());
    command.extend(args.load.words());
    let begin = Instant::now();
    let ended = launch(&Plan {
        nodes: local_nodes(args.nodes, args.fabric)?,
        command,
        timeout: Some(Duration::from_secs(args.timeout)),
        grace: Duration::from_secs(3),
        keep_going: args.load.kill.is_some(),
        prefix: true,
        bar: None,
        input: false,
    })?;
    let run_s = begin.elapsed().as_secs_f64();
    let victim = args.load.kill.map(|_| NodeId(args.nodes - 1));
    let (dead, survivors): (Vec<Failure>, Vec<Failure>) = ended
        .failures
        .iter()
        .partition(|failure| Some(failure.node) == victim);
    if let Some(failure) = survivors.first() {
        complain(format_args!("loco: {failure}, and nobody killed it"));
        return Ok(failure.code());
    }
    let expected = if victim.is_some() { KILLED } else { 0 };
    if ended.code != expected || dead.len() != usize::from(victim.is_some()) {
        complain(format_args!(
            "loco: the nodes ended with {}, not {expected}",
            ended.code
        ));
        return Ok(if ended.code == 0 { 1 } else { ended.code });
    }
    let begin = Instant::now();
    let limit = Duration::from_secs(args.check_time);
    let findings = judge::judge(
        args.object,
        args.nodes,
        &args.load,
        &journals.0,
        limit,
        args.report.as_deref(),
    )?;
    let check_s = begin.elapsed().as_secs_f64();
    let code = match findings.verdict {
        judge::Outcome::Ok => 0,
        judge::Outcome::Violation => 1,
        judge::Outcome::Unknown => UNKNOWN,
    };
    let results = Results {
        run_s,
        check_s,
        findings,
    };
    if args.json {
        let parameters = Parameters {
            object: args.object,
            nodes: args.nodes,
            load: &args.load,
        };
        print(Record::new("stress", args.fabric.to_string(), parameters, results).line()?)?;
    } else {
        print(format_args!(
            "{}: {} nodes, {} threads each, {run_s:.1} s; {}checked in {check_s:.1} s",
            args.object, args.nodes, args.load.threads, results.findings
        ))?;
    }
    Ok(code)
}

/// Where the nodes write what they did; removed at the end.
struct Journals(PathBuf);

impl Journals {
    fn new() -> Result<Journals, CliError> {
        let path = std::env::temp_dir().join(format!("loco-stress-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(CliError::os("making a directory for the journals"))?;
        Ok(Journals(path))
    }
}

impl Drop for Journals {
    fn drop(&mut self) {
        // Nobody is helped by an error here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The journal of a thread. `part` tells two histories of one thread apart.
fn journal_path(directory: &Path, part: &str, node: u16, thread: u16) -> PathBuf {
    directory.join(format!("{part}-{node}-{thread}.jsonl"))
}
