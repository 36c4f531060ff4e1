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
    let work = match args.what.is_timed() {
        true => parameters.workload.milliseconds(),
        false => parameters
            .iters
            .saturating_add(parameters.warmup())
            .saturating_mul(2),
    };
    let progress = Progress::new(u64::from(threads).saturating_mul(work), leads);
    let timed = match args.what.is_timed() {
        true => u64::from(threads) * objects::TIMED,
        false => u64::from(threads) * parameters.iters.min(cases::TIMED_MAX),
    };
    let timing = Phase::new("loco: timing single operations", timed, progress.speaks());
    let bench = Bench {
        manager,
        parameters,
        progress: &progress,
        timing: &timing,
        line: &line,
    };
    let samples = thread::scope(|scope| {
        let threads: Vec<_> = (0..usize::from(threads))
            .map(|index| {
                let (bench, case) = (&bench, &case);
                scope.spawn(move || case(bench, index))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|sample| sample.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<Sample>, CliError>>()
    })?;
    let mut latencies = Latencies::new();
    let mut rate = 0.0;
    let mut one_way_ns = None;
    for sample in &samples {
        one_way_ns = one_way_ns.or(sample.one_way_ns);
        rate += sample.operations_per_second;
        latencies.add(&sample.latencies);
    }
    let thread = manager.thread()?;
    // -1 says "nothing measured here", since 0 says "nothing heard yet".
    rates.store_mine(if rate > 0.0 { rate } else { -1.0 })?;
    rates.push(&thread)?.wait(&thread)?;
    rates.wait_for_each(&thread, |rate| rate != 0.0)?;
    let of_all: f64 = rates.rows()?.map(|row| row.load().max(0.0)).sum();
    if leads {
        // A barrier moves no bytes, whatever size the options give.
        let bytes = (size != 0).then(|| parameters.size(size));
        let results = Results::new(of_all, bytes, &latencies, one_way_ns);
        let label = Label {
            nodes: manager.nodes().len(),
            parameters: Parameters {
                size: bytes.and_then(|bytes| u32::try_from(bytes).ok()),
                warmup: Some(parameters.warmup()),
                threads,
                ..parameters.clone()
            },
        };
        if args.json {
            let fabric = manager.fabric().caps().name.clone();
            let line = match args.what.is_timed() {
                true => {
                    let label = TimedLabel {
                        nodes: label.nodes,
                        threads,
                        window: parameters.window,
                        workload: parameters.workload.clone(),
                    };
                    Record::new(name, fabric, label, results).line()?
                }
                false => Record::new(name, fabric, label, results).line()?,
            };
            print(line)?;
        } else {
            print(results.text(name))?;
        }
    }
    Ok(())
}
