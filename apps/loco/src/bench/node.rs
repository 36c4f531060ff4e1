//! One node of `loco bench`.

use std::thread;

use loco::fabric::{AnyFabric, Fabric};
use loco::{Barrier, Manager, Sst};
use loco_app::{Latencies, Phase, print};
use serde::Serialize;

use super::measure::{Results, Sample};
use super::parameters::{Parameters, What};
use super::progress::Progress;
use super::site::{Bench, leads};
use super::workload::Workload;
use super::{cases, objects};
use crate::error::CliError;
use crate::meet;
use crate::record::Record;

/// Name of the subcommand.
pub const NAME: &str = "bench-node";

/// Be one node of a measurement: `loco run -n 2 -- loco bench-node put`.
#[derive(clap::Args)]
pub struct NodeArgs {
    #[arg(value_enum)]
    what: What,
    #[command(flatten)]
    parameters: Parameters,
    #[arg(long)]
    json: bool,
}

/// The label of a result that comes from a number of operations.
#[derive(Serialize)]
struct Label {
    nodes: usize,
    #[serde(flatten)]
    parameters: Parameters,
}

/// The label of a result that comes from a length of time.
#[derive(Serialize)]
struct TimedLabel {
    nodes: usize,
    threads: u16,
    window: u32,
    #[serde(flatten)]
    workload: Workload,
}

/// Meets the other nodes and measures. The lowest node reports.
pub fn node(args: &NodeArgs) -> Result<u8, CliError> {
    // Each arm measures a concrete fabric type, so that the choice of a fabric costs nothing.
    match meet::fabric()? {
        AnyFabric::Shm(fabric) => measure(fabric, args),
        AnyFabric::Verbs(fabric) => measure(fabric, args),
        AnyFabric::Tcp(fabric) => measure(fabric, args),
        AnyFabric::Ofi(fabric) => measure(fabric, args),
    }?;
    Ok(0)
}

fn measure<F: Fabric>(fabric: F, args: &NodeArgs) -> Result<(), CliError> {
    let manager = Manager::new(fabric)?;
    match args.what {
        What::Put => one(&manager, args, "put", 8, cases::put),
        What::Get => one(&manager, args, "get", 8, cases::get),
        What::Atomic => one(&manager, args, "atomic", 8, cases::atomic),
        What::Barrier => {
            one(&manager, args, "barrier", 0, |bench, index| {
                cases::barrier(bench, index, false)
            })?;
            one(&manager, args, "barrier-fenced", 0, |bench, index| {
                cases::barrier(bench, index, true)
            })
        }
        What::Broadcast => {
            one(&manager, args, "broadcast", 64, |bench, _| {
                cases::broadcast(bench, true)
            })?;
            one(&manager, args, "broadcast-single", 64, |bench, _| {
                cases::broadcast(bench, false)
            })
        }
        What::PingPong => one(&manager, args, "ping-pong", 64, |bench, _| {
            cases::ping_pong(bench)
        }),
        What::Lock => {
            let object = objects::Contended::new(&manager)?;
            one(&manager, args, "lock", 0, |bench, index| {
                objects::lock(bench, index, &object)
            })?;
            one(&manager, args, "lock-hand-overs", 0, |_, _| object.hand_overs())
        }
        What::Transfer => {
            let accounts = objects::Accounts::new(&manager, &args.parameters.workload)?;
            one(&manager, args, "transfer", 0, |bench, index| {
                objects::transfer(bench, index, &accounts)
            })
        }
        What::Queue => {
            let jobs = objects::Jobs::new(&manager, args.parameters.threads)?;
            one(&manager, args, "queue", 0, |bench, index| {
                objects::queue(bench, index, &jobs)
            })
        }
        What::Kv => {
            let store = objects::Filled::new(&manager, &args.parameters.workload)?;
            one(&manager, args, "kv", 0, |bench, index| {
                objects::kv(bench, index, &store)
            })
        }
    }
}

/// Measures one case on all threads, and reports the results of this node and the others.
fn one<F: Fabric>(
    manager: &Manager<F>,
    args: &NodeArgs,
    name: &'static str,
    size: u32,
    case: impl Fn(&Bench<'_, F>, usize) -> Result<Sample, CliError> + Sync,
) -> Result<(), CliError> {
    let parameters = &args.parameters;
    let threads = match args.what {
        What::Broadcast | What::PingPong => 1,
        _ => parameters.threads,
    };
    let line = Barrier::with_threads(manager, &format!("{name}-line"), usize::from(threads))?;
    let rates = Sst::<f64, _>::new(manager, &format!("{name}-rates"))?;
    loco_app::wait_for_ready(manager)?;
    let leads = leads(manager);
    let progress = Progress::new(work(args, threads), leads);
    let timing = Phase::new(
        "loco: timing single operations",
        timed_operations(args, threads),
        progress.speaks(),
    );
    let bench = Bench {
        manager,
        parameters,
        progress: &progress,
        timing: &timing,
        line: &line,
    };
    let samples = on_threads(threads, |index| case(&bench, index))?;
    let mut latencies = Latencies::new();
    samples.iter().for_each(|sample| latencies.add(&sample.latencies));
    let rate: f64 = samples.iter().map(|sample| sample.operations_per_second).sum();
    let one_way_ns = samples.iter().find_map(|sample| sample.one_way_ns);
    let of_all = sum_of_rates(manager, &rates, rate)?;
    if leads {
        // A barrier moves no bytes, whatever size the options give.
        let bytes = (size != 0).then(|| parameters.size(size));
        let results = Results::new(of_all, bytes, &latencies, one_way_ns);
        report(manager, args, name, threads, bytes, results)?;
    }
    Ok(())
}

/// Returns the amount of work of all threads, in the unit of the progress: milliseconds, or operations.
fn work(args: &NodeArgs, threads: u16) -> u64 {
    let parameters = &args.parameters;
    let of_a_thread = match args.what.is_timed() {
        true => parameters.workload.milliseconds(),
        false => parameters
            .iters
            .saturating_add(parameters.warmup())
            .saturating_mul(2),
    };
    u64::from(threads).saturating_mul(of_a_thread)
}

/// Returns the number of operations that all threads time one by one.
fn timed_operations(args: &NodeArgs, threads: u16) -> u64 {
    u64::from(threads)
        * match args.what.is_timed() {
            true => objects::TIMED,
            false => args.parameters.iters.min(cases::TIMED_MAX),
        }
}

/// Runs `case` on so many threads, each with its index, and returns their samples. A panic of a thread is passed on.
fn on_threads(
    threads: u16,
    case: impl Fn(usize) -> Result<Sample, CliError> + Sync,
) -> Result<Vec<Sample>, CliError> {
    thread::scope(|scope| {
        let case = &case;
        let threads: Vec<_> = (0..usize::from(threads))
            .map(|index| scope.spawn(move || case(index)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|sample| sample.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Pushes this node's rate, in operations per second, and returns the sum of all nodes' rates.
fn sum_of_rates<F: Fabric>(manager: &Manager<F>, rates: &Sst<f64, F>, own: f64) -> Result<f64, CliError> {
    let thread = manager.thread()?;
    // -1 says "nothing measured here", since 0 says "nothing heard yet".
    rates.store_mine(if own > 0.0 { own } else { -1.0 })?;
    rates.push(&thread)?.wait(&thread)?;
    rates.wait_for_each(&thread, |rate| rate != 0.0)?;
    Ok(rates.rows()?.map(|row| row.load().max(0.0)).sum())
}

/// Prints the results of all nodes, as a line of JSON if that is asked for.
fn report<F: Fabric>(
    manager: &Manager<F>,
    args: &NodeArgs,
    name: &'static str,
    threads: u16,
    bytes: Option<usize>,
    results: Results,
) -> Result<(), CliError> {
    if !args.json {
        return Ok(print(results.text(name))?);
    }
    let parameters = &args.parameters;
    let fabric = manager.fabric().caps().name.clone();
    let nodes = manager.nodes().len();
    let line = match args.what.is_timed() {
        true => {
            let label = TimedLabel {
                nodes,
                threads,
                window: parameters.window,
                workload: parameters.workload.clone(),
            };
            Record::new(name, fabric, label, results).line()?
        }
        false => {
            let label = Label {
                nodes,
                parameters: Parameters {
                    size: bytes.and_then(|bytes| u32::try_from(bytes).ok()),
                    warmup: Some(parameters.warmup()),
                    threads,
                    ..parameters.clone()
                },
            };
            Record::new(name, fabric, label, results).line()?
        }
    };
    Ok(print(line)?)
}
