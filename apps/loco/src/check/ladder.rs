//! `loco check` by default: the worlds of an object's ladder, from the smallest.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loco_app::{OutputError, counted, print};
use loco_check::{Ladder, LadderReport, NamedWorld, Object, WorldReport, worlds};
use loco_sim::{Completeness, Config, FabricKind, Failure, Schedule, Tier, World, replay};
use serde::Serialize;

use super::pictures::{self, Subject};
use super::target::{SECONDS, Target};
use super::{Args, INTERRUPTED, mesh, progress};
use crate::error::CliError;

/// Runs the ladder, lists its worlds, or repeats a schedule of a world.
pub(super) fn run(args: &Args, cancel: &Arc<AtomicBool>) -> Result<u8, CliError> {
    let targets = args.targets();
    known_worlds(args, &targets)?;
    if args.worlds {
        return list(&targets);
    }
    if let Some(schedule) = &args.replay {
        return again(args, schedule);
    }
    let mut found = false;
    for target in args.share(targets) {
        let Some(object) = target.object() else {
            match mesh::run(args, cancel)? {
                0 => continue,
                status => return Ok(if found { 1 } else { status }),
            }
        };
        let ladder = Ladder {
            fabrics: args.fabrics(),
            tier: args.tier(),
            only: args.world.clone(),
            seed: args.seed,
            progress: progress::printer(args.json),
            begins: progress::teller(args.json),
            cancel: Some(cancel.clone()),
            ..Ladder::new(object, Duration::from_secs(args.time.unwrap_or(SECONDS)))
        };
        let report = ladder.run();
        progress::clear(&Config {
            progress: ladder.progress,
            ..Config::default()
        });
        let report = report.map_err(|error| CliError::Usage(error.to_string()))?;
        show(args, &report)?;
        if let Some(failed) = report.failed()
            && let Some(failure) = &failed.failure
            && let Some(named) = named(&[object], failed.world)
        {
            draw(args, &named, &failure.schedule, Some(failure))?;
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

/// Checks that there are worlds of the names that were given.
///
/// # Errors
/// Returns [`CliError::Usage`] with the names that there are.
pub(super) fn known_worlds(args: &Args, targets: &[Target]) -> Result<(), CliError> {
    let names: Vec<&str> = targets.iter().flat_map(|&target| names(target)).collect();
    match args.world.iter().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(CliError::Usage(format!(
            "--world: no world `{unknown}`; there are {}",
            names.join(", ")
        ))),
    }
}

fn named(objects: &[Object], name: &str) -> Option<NamedWorld> {
    objects
        .iter()
        .flat_map(|&object| worlds(object))
        .find(|named| named.name() == name)
}

/// Returns the names of the worlds of a target.
fn names(target: Target) -> Vec<&'static str> {
    match target {
        Target::Object(object) => worlds(object).iter().map(NamedWorld::name).collect(),
        Target::Mesh => mesh::worlds().iter().map(|world| world.name).collect(),
    }
}

fn list(targets: &[Target]) -> Result<u8, CliError> {
    for &target in targets {
        for name in names(target) {
            print(format_args!("{:16} {name}", target.name()))?;
        }
    }
    Ok(0)
}

/// Replays a schedule of the one world that was named.
fn again(args: &Args, schedule: &Schedule) -> Result<u8, CliError> {
    let [name] = args.world.as_slice() else {
        return Err(CliError::Usage(
            "--replay: say one --world, the schedule's own".into(),
        ));
    };
    let Some(named) = named(&args.objects_or_all(), name) else {
        return Ok(0); // Not reached: the names have been checked.
    };
    let config = config(args, &named);
    let report = replay(&config, schedule, |world: &mut World| named.build(world))
        .map_err(|error| CliError::Usage(error.to_string()))?;
    draw(args, &named, schedule, report.failure.as_ref())?;
    match &report.failure {
        Some(failure) => print(format_args!("FAILED\n{failure}"))?,
        None => print("ok: this execution breaks no promise")?,
    }
    Ok(u8::from(report.failure.is_some()))
}

fn config(args: &Args, named: &NamedWorld) -> Config {
    let fabric = args.fabrics().first().copied().unwrap_or_default();
    let mut config = Config::default().fabric(fabric).tier(args.tier());
    named.configure(&mut config);
    config
}

/// Writes the pictures that the options ask for.
fn draw(
    args: &Args,
    named: &NamedWorld,
    schedule: &Schedule,
    failure: Option<&Failure>,
) -> Result<(), CliError> {
    let subject = Subject::of(named.name(), failure, Some(schedule));
    let config = config(args, named);
    pictures::write_world(args, &subject, &config, |world| named.build(world))
}

/// A line of `--json`: one object.
#[derive(Serialize)]
struct Line<'a> {
    object: Object,
    fabrics: &'a [FabricKind],
    tier: Tier,
    passed: bool,
    complete: bool,
    worlds: &'a [WorldReport],
    unreached: &'a [&'static str],
    failed_world: Option<&'static str>,
    failed_fabric: Option<FabricKind>,
    failure: Option<String>,
    schedule: Option<String>,
    seconds: f64,
}

fn show(args: &Args, report: &LadderReport) -> Result<(), OutputError> {
    let failed = report.failed();
    let failure = failed.and_then(|world| world.failure.as_ref());
    if args.json {
        let line = Line {
            object: report.object,
            fabrics: &report.fabrics,
            tier: report.tier,
            passed: failure.is_none(),
            complete: report.is_complete(),
            worlds: &report.worlds,
            unreached: &report.unreached,
            failed_world: failed.map(|world| world.world),
            failed_fabric: failed.map(|world| world.fabric),
            failure: failure.map(ToString::to_string),
            schedule: failure.map(|failure| failure.schedule.to_string()),
            seconds: report.seconds,
        };
        // The line has only strings, numbers and booleans, which always serialize.
        return print(serde_json::to_string(&line).unwrap_or_default());
    }
    for &fabric in &report.fabrics {
        let of_fabric = report.worlds.iter().filter(|world| world.fabric == fabric);
        print(format_args!(
            "{}: {}, on {}",
            report.object,
            counted(of_fabric.clone().count(), "world"),
            fabric.on(report.tier)
        ))?;
        for world in of_fabric {
            print(format_args!("  {}", line_of(world)))?;
        }
    }
    match (failed, failure) {
        (Some(world), Some(failure)) => show_failure(report, world, failure)?,
        _ => print(verdict(report))?,
    }
    if !report.unreached.is_empty() && args.world.is_empty() && failed.is_none() {
        print(format_args!(
            "not called by any execution: {}",
            report.unreached.join(", ")
        ))?;
    }
    Ok(())
}

fn show_failure(report: &LadderReport, world: &WorldReport, failure: &Failure) -> Result<(), OutputError> {
    print(format_args!(
        "FAILED in world {}, {}\n{failure}",
        world.world,
        world.fabric.on(report.tier)
    ))?;
    print(format_args!(
        "again: loco check {} --world {} --replay '{}'",
        report.object, world.world, failure.schedule
    ))
}

/// Formats the result of a world, in columns.
fn line_of(world: &WorldReport) -> String {
    let faults = match world.faults == loco_sim::Faults::default() {
        true => String::new(),
        false => format!(", at most {}", world.faults),
    };
    let random = match world.random {
        0 => String::new(),
        n => format!(", {} up to depth {}", counted(n, "random schedule"), world.depth),
    };
    let seen = match (&world.completeness, &world.estimate) {
        (Completeness::Complete, _) => format!("complete{faults}"),
        (seen, None) => format!("{seen}{faults}{random}"),
        (seen, Some(estimate)) => {
            let all = progress::in_all(estimate, world.stats.states);
            format!("{seen}{faults}{random}; {all}")
        }
    };
    format!(
        "{:26} {seen} ({}, {:.1} s)",
        world.world,
        counted(world.stats.states, "state"),
        world.stats.seconds
    )
}

fn verdict(report: &LadderReport) -> String {
    let complete = report
        .worlds
        .iter()
        .filter(|r| r.completeness == Completeness::Complete)
        .count();
    let all = report.worlds.len();
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
