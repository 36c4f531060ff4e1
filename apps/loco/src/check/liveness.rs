//! `loco check --liveness`: checks whether every call of an object ends in every fair execution.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loco_app::{counted, print};
use loco_check::{LivenessCheck, LivenessReport, NamedWorld, Object, worlds};
use loco_sim::{Config, FabricKind, Fate};
use serde::Serialize;

use super::pictures::{self, Subject};
use super::target::{SECONDS, Target};
use super::{Args, INTERRUPTED, ladder, progress};
use crate::error::CliError;

/// Asks about each object that was named, on each fabric that was.
pub(super) fn run(args: &Args, cancel: &Arc<AtomicBool>) -> Result<u8, CliError> {
    let objects = args.objects_or_all();
    let targets: Vec<Target> = objects.iter().copied().map(Target::Object).collect();
    ladder::known_worlds(args, &targets)?;
    let fabrics = match args.fabric.is_empty() {
        true => vec![FabricKind::Shm],
        false => args.fabric.clone(),
    };
    let mut found = false;
    for object in objects {
        for &fabric in &fabrics {
            let check = LivenessCheck {
                fabric,
                only: args.world.clone(),
                begins: progress::teller(args.json),
                cancel: Some(cancel.clone()),
                ..LivenessCheck::new(object, Duration::from_secs(args.time.unwrap_or(SECONDS)))
            };
            let reports = check.run().map_err(|error| CliError::Usage(error.to_string()))?;
            show(args, &check, &reports)?;
            let failed = reports.iter().find_map(|r| Some((r, r.found.fate.failure()?)));
            if let Some((report, failure)) = failed {
                found = true;
                if let Some(named) = worlds(object).iter().find(|named| named.name() == report.world) {
                    draw(args, fabric, named, failure)?;
                }
                break;
            }
            if args.wants_pictures() {
                pictures::nothing_to_draw(object.name());
            }
            if progress::is_set(cancel) {
                return Ok(if found { 1 } else { INTERRUPTED });
            }
        }
    }
    Ok(u8::from(found))
}

fn draw(
    args: &Args,
    fabric: FabricKind,
    named: &NamedWorld,
    failure: &loco_sim::Failure,
) -> Result<(), CliError> {
    let subject = Subject::of(named.name(), Some(failure), None);
    let mut config = Config::default().fabric(fabric);
    named.configure(&mut config);
    pictures::write_world(args, &subject, &config, |world| named.build(world))
}

/// A line of `--json`: one object on one fabric.
#[derive(Serialize)]
struct Line<'a> {
    object: Object,
    fabric: FabricKind,
    passed: bool,
    worlds: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    world: &'a str,
    answer: &'static str,
    why: Option<String>,
    schedule: Option<String>,
    states: u64,
    rounds: usize,
    seconds: f64,
}

impl<'a> Entry<'a> {
    fn new(report: &'a LivenessReport) -> Entry<'a> {
        let found = &report.found;
        Entry {
            world: report.world,
            answer: answer(&found.fate),
            why: match &found.fate {
                Fate::Ends => None,
                Fate::Failed(failure) => Some(failure.to_string()),
                Fate::Unknown(why) => Some(why.clone()),
            },
            schedule: found.fate.failure().map(|failure| failure.schedule.to_string()),
            states: found.states,
            rounds: found.rounds,
            seconds: found.seconds,
        }
    }
}

fn answer(fate: &Fate) -> &'static str {
    match fate {
        Fate::Ends => "every call ends",
        Fate::Failed(_) => "failed",
        Fate::Unknown(_) => "unknown",
    }
}

fn show(args: &Args, check: &LivenessCheck, reports: &[LivenessReport]) -> Result<(), CliError> {
    let LivenessCheck { object, fabric, .. } = *check;
    if args.json {
        let line = Line {
            object,
            fabric,
            passed: reports.iter().all(|report| report.found.fate.failure().is_none()),
            worlds: reports.iter().map(Entry::new).collect(),
        };
        // The line has only strings, numbers and booleans, which always serialize.
        return Ok(print(serde_json::to_string(&line).unwrap_or_default())?);
    }
    print(format_args!(
        "{object}: {}, on {fabric}, in fair executions",
        counted(reports.len(), "world")
    ))?;
    for report in reports {
        let found = &report.found;
        let why = match &found.fate {
            Fate::Unknown(why) => format!(": {why}"),
            _ => String::new(),
        };
        print(format_args!(
            "  {:26} {}{why} ({}, {:.1} s)",
            report.world,
            answer(&found.fate),
            counted(found.states, "state"),
            found.seconds
        ))?;
        if let Some(failure) = found.fate.failure() {
            print(format_args!("{failure}"))?;
            print(format_args!(
                "again: loco check {object} --world {} --replay '{}'",
                report.world, failure.schedule
            ))?;
        }
    }
    Ok(())
}
