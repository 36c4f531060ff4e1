//! `loco check mesh`: the worlds of the agreement on who is in.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loco_app::{OutputError, counted, print};
use loco_mesh_check::{Failure, Faults, Ladder, LadderReport, Seen, World, WorldReport, large, small};
use loco_sim::Completeness;
use serde::Serialize;

use super::target::{MESH, SECONDS};
use super::{Args, INTERRUPTED, progress};
use crate::error::CliError;

/// Returns the worlds, in the order in which they are explored.
pub(super) fn worlds() -> Vec<World> {
    let large = large().into_iter().map(|(world, _)| world);
    small().into_iter().chain(large).collect()
}

/// Explores the worlds that were named, or all. Returns the exit status.
pub(super) fn run(args: &Args, cancel: &AtomicBool) -> Result<u8, CliError> {
    let ladder = Ladder {
        only: args.world.clone(),
        seed: args.seed,
        begins: progress::mesh_teller(args.json),
        cancel: Some(cancel),
        ..Ladder::new(Duration::from_secs(args.time.unwrap_or(SECONDS)))
    };
    let report = ladder.run();
    if !args.json && !progress::is_in_lines(args.json) {
        progress::clear_line();
    }
    match args.json {
        true => show_json(&report)?,
        false => show(&report)?,
    }
    Ok(match (report.failed(), report.interrupted) {
        (Some(_), _) => 1,
        (None, true) => INTERRUPTED,
        (None, false) => 0,
    })
}

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    object: &'static str,
    passed: bool,
    complete: bool,
    worlds: Vec<WorldLine>,
    failed_world: Option<&'static str>,
    failure: Option<&'a str>,
    moves: Option<&'a [String]>,
    seconds: f64,
}

/// A world in a line of `--json`.
#[derive(Serialize)]
struct WorldLine {
    world: &'static str,
    nodes: usize,
    faults: FaultsLine,
    completeness: Completeness,
    random: u64,
    states: u64,
    seconds: f64,
}

/// The faults of a world in a line of `--json`.
#[derive(Serialize)]
struct FaultsLine {
    max: u8,
    crashes: bool,
    silences: bool,
    cuts: bool,
}

impl WorldLine {
    fn new(report: &WorldReport) -> WorldLine {
        let Faults {
            max,
            crashes,
            silences,
            cuts,
        } = report.world.faults;
        WorldLine {
            world: report.world.name,
            nodes: report.world.nodes,
            faults: FaultsLine {
                max,
                crashes,
                silences,
                cuts,
            },
            completeness: completeness(report),
            random: report.random,
            states: report.states,
            seconds: report.time.as_secs_f64(),
        }
    }
}

/// Returns how much was seen of a world, as the ladders of objects say it.
fn completeness(report: &WorldReport) -> Completeness {
    match report.seen {
        Some(Seen::Complete) => Completeness::Complete,
        Some(Seen::UpTo(bounds)) => Completeness::UpTo(bounds),
        Some(Seen::Incomplete(limit)) => Completeness::Incomplete(limit.to_string()),
        Some(Seen::Stopped) => Completeness::Stopped,
        None => Completeness::Incomplete("not begun".to_owned()),
    }
}

fn show_json(report: &LadderReport) -> Result<(), OutputError> {
    let failed = report.failed();
    let line = Line {
        object: MESH,
        passed: failed.is_none(),
        complete: report.is_complete(),
        worlds: report.worlds.iter().map(WorldLine::new).collect(),
        failed_world: failed.map(|(world, _)| world.world.name),
        failure: failed.map(|(_, failure)| failure.broken.as_str()),
        moves: failed.map(|(_, failure)| &failure.schedule[..]),
        seconds: report.time.as_secs_f64(),
    };
    // The line has only strings, numbers and booleans, which always serialize.
    print(serde_json::to_string(&line).unwrap_or_default())
}

fn show(report: &LadderReport) -> Result<(), OutputError> {
    print(format_args!("{MESH}: {}", counted(report.worlds.len(), "world")))?;
    for world in &report.worlds {
        print(format_args!("  {}", line_of(world)))?;
    }
    match report.failed() {
        Some((world, failure)) => show_failure(world, failure),
        None => print(verdict(report)),
    }
}

fn show_failure(world: &WorldReport, failure: &Failure) -> Result<(), OutputError> {
    print(format_args!("FAILED in world {}: {failure}", world.world.name))?;
    print(format_args!(
        "again: loco check {MESH} --world {}",
        world.world.name
    ))
}

/// Formats the result of a world, in columns.
fn line_of(report: &WorldReport) -> String {
    let faults = match report.world.faults.max {
        0 => String::new(),
        max => format!(", at most {}", counted(u64::from(max), "fault")),
    };
    let random = match report.random {
        0 => String::new(),
        n => format!(", {}", counted(n, "random execution")),
    };
    format!(
        "{:26} {}{faults}{random} ({}, {:.1} s)",
        report.world.name,
        match completeness(report) {
            Completeness::Complete => "complete".to_owned(),
            other => other.to_string(),
        },
        counted(report.states, "state"),
        report.time.as_secs_f64()
    )
}

fn verdict(report: &LadderReport) -> String {
    let is_complete = |world: &&WorldReport| world.seen == Some(Seen::Complete);
    let complete = report.worlds.iter().filter(is_complete).count();
    let (all, seconds) = (report.worlds.len(), report.time.as_secs_f64());
    let interrupted = if report.interrupted { ", interrupted" } else { "" };
    match complete == all {
        true => format!("ok: no failure; all complete, {seconds:.1} s"),
        false => format!(
            "no failure found{interrupted}: {complete} of {} complete, the others as far as said above, {seconds:.1} s",
            counted(all, "world")
        ),
    }
}
