//! What `loco check` prints of a world of chosen size.

use loco_app::{OutputError, counted, print};
use loco_check::Object;
use loco_check::sized::Size;
use loco_sim::{Completeness, Estimate, FabricKind, Faults, Report, Stats, Strategy, Tier};
use serde::Serialize;

use super::Args;
use super::progress::in_all;
use crate::error::CliError;

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    object: Object,
    size: Size,
    strategy: &'static str,
    fabric: FabricKind,
    tier: Tier,
    passed: bool,
    completeness: &'a Completeness,
    faults: Faults,
    estimate: Option<Estimate>,
    stats: &'a Stats,
    failure: Option<String>,
    schedule: Option<String>,
}

/// Prints what the exploration of one world has found, as the options ask.
pub(super) fn show(
    args: &Args,
    object: Object,
    size: Size,
    strategy: Strategy,
    report: &Report,
) -> Result<(), CliError> {
    if args.json {
        print_json(args.replay.is_some(), object, size, strategy, report)
    } else {
        print_text(args.glob, object, size, report)
    }
}

fn print_json(
    replayed: bool,
    object: Object,
    size: Size,
    strategy: Strategy,
    report: &Report,
) -> Result<(), CliError> {
    let line = Line {
        object,
        size,
        strategy: match strategy {
            _ if replayed => "replay",
            Strategy::Exhaustive => "exhaustive",
            Strategy::Bounded(_) => "bounded",
            Strategy::Random { .. } => "random",
            Strategy::Pct { .. } => "pct",
        },
        fabric: report.fabric,
        tier: report.tier,
        passed: report.failure.is_none(),
        completeness: &report.completeness,
        faults: report.faults,
        estimate: report.estimate,
        stats: &report.stats,
        failure: report.failure.as_ref().map(ToString::to_string),
        schedule: report.failure.as_ref().map(|f| f.schedule.to_string()),
    };
    // The line has only strings, numbers and booleans, which always serialize.
    Ok(print(serde_json::to_string(&line).unwrap_or_default())?)
}

/// Returns the options that allow these faults.
fn options_of(faults: Faults) -> String {
    let options = [
        ("expiries", faults.expiries),
        ("crashes", faults.crashes),
        ("suspicions", faults.suspicions),
        ("cuts", faults.cuts),
    ];
    let given = options.iter().filter(|(_, n)| *n > 0);
    given.map(|(name, n)| format!(" --{name} {n}")).collect()
}

/// Says which world is explored, before that takes its time.
pub(super) fn say_what(object: Object, size: Size) -> Result<(), OutputError> {
    let Size { nodes, threads, ops } = size;
    print(format_args!(
        "{object}: {}, {} each, {} each",
        counted(nodes, "node"),
        counted(threads, "thread"),
        counted(ops, "operation")
    ))
}

fn print_text(glob: bool, object: Object, size: Size, report: &Report) -> Result<(), CliError> {
    let Stats {
        states,
        executions,
        transitions,
        seconds,
        ..
    } = report.stats;
    match &report.failure {
        Some(failure) => {
            let Size { nodes, threads, ops } = size;
            let name = object.name();
            let glob = if glob { " --glob" } else { "" };
            let faults = options_of(report.faults);
            print(format_args!("FAILED\n{failure}"))?;
            print(format_args!(
                "again: loco check {name} --nodes {nodes} --threads {threads} --ops {ops}{glob}{faults} --replay '{}'",
                failure.schedule
            ))?;
        }
        None if matches!(report.completeness, Completeness::Incomplete(_)) => {
            print(format_args!("no failure found, {}", report.seen()))?;
            if let Some(estimate) = &report.estimate {
                print(in_all(estimate, states))?;
            }
        }
        None => print(format_args!("ok, {}", report.seen()))?,
    }
    Ok(print(format_args!(
        "{} ended, {}, {}, {seconds:.2} s",
        counted(executions, "execution"),
        counted(states, "state"),
        counted(transitions, "move")
    ))?)
}
