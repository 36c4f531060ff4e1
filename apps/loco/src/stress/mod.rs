//! `loco stress`: processes use an object at the same time, every call is recorded, and the history is checked.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use loco::fabric::{FabricChoice, NodeId, var};
use loco_app::{complain, counted, print, some_time};
use serde::Serialize;

use crate::effect::refuse_others;
use crate::error::CliError;
use crate::launcher::{Ended, Plan, launch};
use crate::record::Record;
use crate::run::local_nodes;

mod calls;
mod journals;
mod judge;
mod load;
mod log;
mod node;
mod pause;
mod worker;

pub use node::{Args as NodeArgs, NAME as NODE, node};
pub use pause::{Args as PauseArgs, NAME as PAUSE, pause};

use journals::Journals;
use judge::Findings;
use load::{ALWAYS, Load, MODES, NODES_MAX, Object};

/// Let processes use an object at the same time, and check what they saw
///
/// Every thread of every node makes random calls as fast as it can. It records
/// each in a journal that survives it, by the host's monotonic clock. The
/// history of all threads is then checked. It has to be linearizable (for the
/// key-value store: on each key). Under a lock no update may be lost. The queue
/// loses and doubles nothing, and keeps each producer's order. All nodes read
/// the same log, with every record whose append has returned, in an order that
/// agrees with time.
///
/// --kill kills the last node in the middle of a call: while it holds the lock,
/// inside an insert, inside a pop. Of the log it kills the first node, which
/// leads, inside an append: the next one has to lead. The others go on or get
/// errors, in bounded time. What they saw has to be linearizable, whether or not
/// the victim's last calls took effect. With --copies the store goes on without
/// the victim: no call of the others may fail. With --kills more nodes are killed
/// one after another, each when the copies are whole again.
///
/// --pause stops that node and resumes it after --pause-for. If that is
/// longer than --silence, the others give the node up: it has to end with an
/// error, and what the others saw has to be linearizable.
///
/// With both options the node is killed only after it was resumed. `random` in
/// place of a time lets --seed choose a call.
///
/// Examples:
///
///   loco stress kv --nodes 3 --ops 1000000
///
///   loco stress ticket-lock --nodes 3 --kill 100 --on-loss recover
///
///   loco stress kv --copies 2 --kill random
///
///   loco stress kv --nodes 5 --copies 2 --kill random --kills 3
///
///   loco stress tas-lock --pause random --pause-for 3000 --silence 1000
///
/// Exit status: 0 nothing found; 1 the history breaks a promise, or a node
/// failed; 2 bad usage, as when the calls are over before --kill or --pause;
/// 3 the check ran out of time.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The object.
    object: Object,
    /// Number of node processes.
    #[arg(short, long, value_name = "N", default_value = "3", value_parser = loco_app::number::<u16>(2..=u64::from(NODES_MAX)))]
    nodes: u16,
    /// Fabric that the nodes use: shm, verbs (RDMA), tcp, ofi or ofi:PROVIDER (libfabric), or auto (the best that every node has).
    #[arg(long, env = var::FABRIC, value_name = "FABRIC", default_value_t)]
    fabric: FabricChoice,
    /// Time after which the job is ended as failed.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = some_time)]
    timeout: Duration,
    /// Time after which the check gives up.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = some_time)]
    check_time: Duration,
    /// Write the history as an HTML timeline if it breaks a promise.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: Load,
}

/// The exit code of a node that was killed.
const KILLED: u8 = 128 + 9;
/// The exit code of a node whose calls were over before its fault.
const BAD_USAGE: u8 = 2;
/// The exit code of a check that ran out of time.
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

/// Starts the nodes, then checks their recorded calls.
pub fn run(args: &Args, given: &[String]) -> Result<u8, CliError> {
    refuse_others(given, args.object.mode(), &MODES, &ALWAYS)?;
    args.load.validate(args.nodes)?;
    let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
    let journals = Journals::new()?;
    let mut command = vec![own.into_os_string(), NODE.into(), args.object.to_string().into()];
    command.push(journals.directory().into());
    command.extend(args.load.words());
    let begin = Instant::now();
    let mut nodes = local_nodes(args.nodes, args.fabric)?;
    for node in &mut nodes {
        let silence = args.load.silence_ms().to_string();
        node.set.push((var::SILENCE_SAME_HOST_MS, silence.clone()));
        node.set.push((var::SILENCE_MS, silence));
    }
    let ended = launch(&Plan {
        nodes,
        command,
        timeout: Some(args.timeout),
        grace: Duration::from_secs(3),
        keep_going: args.load.kill.is_some() || args.load.pause.is_some(),
        prefix: true,
        joins: false,
        bar: None,
        input: false,
        scratch: Some(journals.directory().to_owned()),
    })?;
    let run_s = begin.elapsed().as_secs_f64();
    if let Some(code) = unexpected_end(args, &ended) {
        return Ok(code);
    }
    let begin = Instant::now();
    let recorded = journals.read()?;
    let findings = judge::judge(
        args.object,
        args.nodes,
        &args.load,
        &recorded,
        args.check_time,
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
        print(Record::new("stress", recorded.fabric(), parameters, results).line()?)?;
    } else {
        print(format_args!(
            "{}: {}, {} each, {run_s:.1} s; {}checked in {check_s:.1} s",
            args.object,
            counted(args.nodes, "node"),
            counted(args.load.threads, "thread"),
            results.findings
        ))?;
    }
    Ok(code)
}

/// Reports nodes that did not end as they should, and returns the exit code of the run. Returns `None` if
/// they did.
fn unexpected_end(args: &Args, ended: &Ended) -> Option<u8> {
    let load = &args.load;
    let marked = NodeId(args.object.victim(args.nodes));
    let later: Vec<NodeId> = load
        .victims(args.object, args.nodes)
        .into_iter()
        .skip(1)
        .map(NodeId)
        .collect();
    let end_of = |node| ended.failures.iter().find(|failure| failure.node == node);
    let end_of_marked = end_of(marked);
    // A later victim that was not killed has failed, too.
    let others = ended.failures.iter().find(|failure| {
        failure.node != marked && !(later.contains(&failure.node) && failure.code() == KILLED)
    });
    let spared = later.iter().copied().find(|&node| end_of(node).is_none());
    // The order is that in which a user wants to hear of the causes.
    let (said, code) = match (end_of_marked, others) {
        // The node has said which option is of no use.
        (Some(end), _) if end.code() == BAD_USAGE => (None, BAD_USAGE),
        (_, Some(failure)) => (
            Some(format!("{failure}, which nothing was done to")),
            failure.code(),
        ),
        (Some(end), None) if end.code() == KILLED && spared.is_some() => {
            let said = spared.map(|node| format!("{node} was not killed after {marked}"));
            (said, 1)
        }
        // The launcher has reported a timeout or a signal.
        (None, None) if ended.code != 0 => (None, ended.code),
        (Some(end), None) if load.kill.is_some() && end.code() == KILLED => return None,
        (Some(end), None) if load.kill.is_some() => (Some(format!("{end}, and not killed")), end.code()),
        (Some(_), None) if load.outlasts_silence() => return None,
        (Some(end), None) => (Some(format!("{end}, though nobody gave it up")), end.code()),
        (None, None) if load.outlasts_silence() => {
            let said = format!(
                "{marked} went on without an error after {} ms, though the others gave it up after {} ms",
                load.pause_for().as_millis(),
                load.silence_ms()
            );
            (Some(said), 1)
        }
        (None, None) => return None,
    };
    if let Some(said) = said {
        complain(format_args!("loco: {said}"));
    }
    Some(code)
}
