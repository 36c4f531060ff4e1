//! `loco check`: explores what the memory model allows the built-in objects to do.

use std::io::IsTerminal;
use std::time::Duration;

use clap::ValueEnum;
use loco_sim::{Completeness, Config, Report, Schedule, Stats, Strategy, explore, replay};
use serde::Serialize;

use crate::error::CliError;

mod worlds;

use worlds::{Object, Size};

/// Explore what the RDMA memory model allows a built-in object to do.
///
/// The shipped object runs on the operational model of RDMA, in a small world of nodes that use it; every explored execution is
/// checked against what the object promises. The exit code is 1 if one breaks it. The result says how much was
/// explored: everything (complete), or so many random schedules.
///
/// Examples:
///
///   loco check barrier --nodes 2 --ops 1
///
///   loco check ring-buffer --ops 3 --strategy pct --executions 100000
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The object.
    object: Object,
    /// Nodes of the world.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=8))]
    nodes: u16,
    /// Threads on each node; more than one for the barrier only.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4))]
    threads: u16,
    /// Operations of each thread.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    ops: u64,
    /// Which schedules.
    #[arg(long, value_enum, default_value_t = How::Exhaustive)]
    strategy: How,
    /// Random schedules.
    #[arg(long, default_value_t = 10_000)]
    executions: u64,
    /// Seed of random schedules.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Depth of PCT: one more than the points at which priorities change.
    #[arg(long, default_value_t = 3)]
    depth: u32,
    /// Seconds after which to give up, with an incomplete result.
    #[arg(long)]
    time: Option<u64>,
    /// Remote read-modify-writes are atomic against the CPU too.
    #[arg(long)]
    glob: bool,
    /// Repeat this schedule, from an earlier failure, and explore nothing.
    #[arg(long, conflicts_with = "strategy")]
    replay: Option<Schedule>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Strategies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    /// All schedules.
    Exhaustive,
    /// Random ones, each move alike.
    Random,
    /// Random ones by priorities (probabilistic concurrency testing).
    Pct,
}

#[derive(Serialize)]
struct Line<'a> {
    object: Object,
    size: Size,
    strategy: How,
    passed: bool,
    completeness: &'a Completeness,
    stats: &'a Stats,
    failure: Option<String>,
    schedule: Option<String>,
}

/// Explores and reports.
pub fn run(args: &Args) -> Result<u8, CliError> {
    if args.threads > 1 && args.object != Object::Barrier {
        return Err(CliError::Usage(
            "--threads: only the barrier has more than one thread on a node".into(),
        ));
    }
    let size = Size {
        nodes: args.nodes,
        threads: usize::from(args.threads),
        ops: args.ops,
    };
    let (executions, seed, depth) = (args.executions, args.seed, args.depth);
    let config = Config {
        strategy: match args.strategy {
            How::Exhaustive => Strategy::Exhaustive,
            How::Random => Strategy::Random { executions, seed },
            How::Pct => Strategy::Pct {
                executions,
                seed,
                depth,
            },
        },
        glob: args.glob,
        time_max: args.time.map(Duration::from_secs),
        progress: (!args.json && std::io::stderr().is_terminal()).then_some(progress),
        ..Config::default()
    };
    let world = |world: &mut loco_sim::World| worlds::build(args.object, size, world);
    let report = match &args.replay {
        Some(schedule) => replay(&config, schedule, world),
        None => explore(&config, world),
    }
    .map_err(|error| CliError::Usage(error.to_string()))?;
    if config.progress.is_some() {
        eprint!("\r\x1b[K");
    }
    if args.json {
        print_json(args, size, &report);
    } else {
        print_text(args, size, &report);
    }
    Ok(u8::from(report.failure.is_some()))
}

fn print_json(args: &Args, size: Size, report: &Report) {
    let line = Line {
        object: args.object,
        size,
        strategy: args.strategy,
        passed: report.failure.is_none(),
        completeness: &report.completeness,
        stats: &report.stats,
        failure: report.failure.as_ref().map(ToString::to_string),
        schedule: report.failure.as_ref().map(|f| f.schedule.to_string()),
    };
    // Strings, numbers and booleans only, which always serialize.
    println!("{}", serde_json::to_string(&line).unwrap_or_default());
}

fn print_text(args: &Args, size: Size, report: &Report) {
    let name = args.object.to_possible_value();
    let name = name.as_ref().map_or("object", |value| value.get_name());
    let Size { nodes, threads, ops } = size;
    let Stats {
        states,
        executions,
        transitions,
        seconds,
        ..
    } = report.stats;
    println!("{name}: {nodes} nodes, {threads} threads each, {ops} operations each");
    match &report.failure {
        Some(failure) => println!("FAILED\n{failure}"),
        None if matches!(report.completeness, Completeness::Incomplete(_)) => {
            println!("no failure found, {}", report.completeness);
        }
        None => println!("ok, {}", report.completeness),
    }
    println!("{executions} executions ended, {states} states, {transitions} moves, {seconds:.2} s");
}

fn progress(count: u64, elapsed: Duration) {
    eprint!("\r\x1b[K{count} so far, {} s", elapsed.as_secs());
}
