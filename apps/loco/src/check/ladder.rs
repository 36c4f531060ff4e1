//! `loco check` by default: the object climbs its ladder.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use loco_app::{OutputError, counted, print};
use loco_check::{Ladder, LadderReport, Object, Rung, RungReport, rungs};
use loco_sim::{
    Completeness, Config, FabricKind, Failure, Schedule, Tier, World, execution_graph, film, replay,
};
use serde::Serialize;

use super::pictures::{self, Subject};
use super::{Args, INTERRUPTED, progress};
use crate::error::CliError;

/// Seconds for each object.
const SECONDS: u64 = 60;

/// Returns the objects by name, for the argument parser and its help.
pub(super) fn object() -> impl TypedValueParser<Value = Object> {
    PossibleValuesParser::new(Object::ALL.map(Object::name)).try_map(|name| name.parse::<Object>())
}

/// Climbs, lists the rungs, or repeats a schedule of a rung.
pub(super) fn run(args: &Args, cancel: &Arc<AtomicBool>) -> Result<u8, CliError> {
    let objects = args.object.map_or(Object::ALL.to_vec(), |object| vec![object]);
    if let Some(unknown) = args.rung.iter().find(|name| rung(&objects, name).is_none()) {
        let names: Vec<&str> = objects
            .iter()
            .flat_map(|&o| rungs(o))
            .map(|rung| rung.name())
            .collect();
        return Err(CliError::Usage(format!(
            "--rung: no rung `{unknown}`; there are {}",
            names.join(", ")
        )));
    }
    if args.rungs {
        return list(&objects);
    }
    if let Some(schedule) = &args.replay {
        return again(args, &objects, schedule);
    }
    let mut found = false;
    for object in args.share(objects) {
        let ladder = Ladder {
            fabrics: args.fabrics(),
            tier: args.tier(),
            only: args.rung.clone(),
            seed: args.seed,
            progress: progress::printer(args.json),
            begins: progress::teller(args.json),
            cancel: Some(cancel.clone()),
            ..Ladder::new(object, Duration::from_secs(args.time.unwrap_or(SECONDS)))
        };
        let report = ladder.climb();
        progress::clear(&Config {
            progress: ladder.progress,
            ..Config::default()
        });
        let report = report.map_err(|error| CliError::Usage(error.to_string()))?;
        show(args, &report)?;
        if let Some(failed) = report.failed()
            && let Some(failure) = &failed.failure
            && let Some(rung) = rung(&[object], failed.rung)
        {
            draw(args, &rung, &failure.schedule, Some(failure))?;
            found = true;
        } else if args.wants_pictures() {
            pictures::nothing_to_draw(object.name());
        }
        if report.interrupted {
            return Ok(if found { 1 } else { INTERRUPTED });
        }
    }
    Ok(u8::from(found))
}

fn rung(objects: &[Object], name: &str) -> Option<Rung> {
    objects
        .iter()
        .flat_map(|&object| rungs(object))
        .find(|rung| rung.name() == name)
}

fn list(objects: &[Object]) -> Result<u8, CliError> {
    for &object in objects {
        for rung in rungs(object) {
            print(format_args!("{:16} {}", object.name(), rung.name()))?;
        }
    }
    Ok(0)
}

/// Replays a schedule of the one rung that was named.
fn again(args: &Args, objects: &[Object], schedule: &Schedule) -> Result<u8, CliError> {
    let [name] = args.rung.as_slice() else {
        return Err(CliError::Usage(
            "--replay: say one --rung, the schedule's own".into(),
        ));
    };
    let Some(rung) = rung(objects, name) else {
        return Ok(0); // Not reached: the names have been checked.
    };
    let config = config(args, &rung);
    let report = replay(&config, schedule, |world: &mut World| rung.build(world))
        .map_err(|error| CliError::Usage(error.to_string()))?;
    draw(args, &rung, schedule, report.failure.as_ref())?;
    match &report.failure {
        Some(failure) => print(format_args!("FAILED\n{failure}"))?,
        None => print("ok: this execution breaks no promise")?,
    }
    Ok(u8::from(report.failure.is_some()))
}

fn config(args: &Args, rung: &Rung) -> Config {
    let fabric = args.fabrics().first().copied().unwrap_or_default();
    let mut config = Config::default().fabric(fabric).tier(args.tier());
    rung.configure(&mut config);
    config
}

/// Writes the pictures that the options ask for.
fn draw(args: &Args, rung: &Rung, schedule: &Schedule, failure: Option<&Failure>) -> Result<(), CliError> {
    let subject = Subject::of(rung.name(), failure, Some(schedule));
    let config = config(args, rung);
    let world = |world: &mut World| rung.build(world);
    let graph = |schedule: &Schedule| execution_graph(&config, schedule, world);
    pictures::write(args, &subject, graph, |schedule| film(&config, schedule, world))
}

/// A line of `--json`: one object.
#[derive(Serialize)]
struct Line<'a> {
    object: Object,
    fabrics: &'a [FabricKind],
    tier: Tier,
    passed: bool,
    complete: bool,
    rungs: &'a [RungReport],
    unreached: &'a [&'static str],
    failed_rung: Option<&'static str>,
    failed_fabric: Option<FabricKind>,
    failure: Option<String>,
    schedule: Option<String>,
    seconds: f64,
}

fn show(args: &Args, report: &LadderReport) -> Result<(), OutputError> {
    let failed = report.failed();
    let failure = failed.and_then(|rung| rung.failure.as_ref());
    if args.json {
        let line = Line {
            object: report.object,
            fabrics: &report.fabrics,
            tier: report.tier,
            passed: failure.is_none(),
            complete: report.is_complete(),
            rungs: &report.rungs,
            unreached: &report.unreached,
            failed_rung: failed.map(|rung| rung.rung),
            failed_fabric: failed.map(|rung| rung.fabric),
            failure: failure.map(ToString::to_string),
            schedule: failure.map(|failure| failure.schedule.to_string()),
            seconds: report.seconds,
        };
        // The line has only strings, numbers and booleans, which always serialize.
        return print(serde_json::to_string(&line).unwrap_or_default());
    }
    for &fabric in &report.fabrics {
        let of_fabric = report.rungs.iter().filter(|rung| rung.fabric == fabric);
        print(format_args!(
            "{}: {}, on {}",
            report.object,
            counted(of_fabric.clone().count(), "rung"),
            fabric.on(report.tier)
        ))?;
        for rung in of_fabric {
            print(format_args!("  {}", line_of(rung)))?;
        }
    }
    match (failed, failure) {
        (Some(rung), Some(failure)) => show_failure(report, rung, failure)?,
        _ => print(verdict(report))?,
    }
    if !report.unreached.is_empty() && args.rung.is_empty() && failed.is_none() {
        print(format_args!(
            "not called by any execution: {}",
            report.unreached.join(", ")
        ))?;
    }
    Ok(())
}

fn show_failure(report: &LadderReport, rung: &RungReport, failure: &Failure) -> Result<(), OutputError> {
    print(format_args!(
        "FAILED on rung {}, {}\n{failure}",
        rung.rung,
        rung.fabric.on(report.tier)
    ))?;
    print(format_args!(
        "again: loco check {} --rung {} --replay '{}'",
        report.object, rung.rung, failure.schedule
    ))
}

/// Formats the result of a rung, in columns.
fn line_of(rung: &RungReport) -> String {
    let faults = match rung.faults == loco_sim::Faults::default() {
        true => String::new(),
        false => format!(", at most {}", rung.faults),
    };
    let random = match rung.random {
        0 => String::new(),
        n => format!(", {} up to depth {}", counted(n, "random schedule"), rung.depth),
    };
    let seen = match rung.completeness {
        Completeness::Complete => format!("complete{faults}"),
        _ => format!("{}{faults}{random}", rung.completeness),
    };
    format!(
        "{:26} {seen} ({}, {:.1} s)",
        rung.rung,
        counted(rung.stats.states, "state"),
        rung.stats.seconds
    )
}

fn verdict(report: &LadderReport) -> String {
    let complete = report
        .rungs
        .iter()
        .filter(|r| r.completeness == Completeness::Complete)
        .count();
    let all = report.rungs.len();
    let interrupted = if report.interrupted { ", interrupted" } else { "" };
    match complete == all {
        true => format!(
            "ok: no failure; {} complete, {:.1} s",
            match all {
                1 => "the world is".to_owned(),
                _ => format!("all {all} worlds"),
            },
            report.seconds
        ),
        false => format!(
            "no failure found{interrupted}: {complete} of {} complete, the others as far as said above, {:.1} s",
            counted(all, "world"),
            report.seconds
        ),
    }
}
