//! Explores the ladder of one object with default options, as `loco check OBJECT` does, or one world of it, or asks whether every call
//! of that world ends (`--liveness`), or runs generated clients, as `loco check OBJECT --clients SIZE` does, and says what failed. What the
//! mutation harness builds and runs for each mutation, as less is built for it than for the command.
//!
//! `ladder OBJECT SECONDS [SIZE | --world WORLD | --liveness WORLD]`. Exit status: 0 nothing found, 1 a failing execution, whose world or
//! client is printed with what broke, 2 bad usage or a world that cannot be explored.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use loco_check::clients::{Campaign, Clients, Form, Size};
use loco_check::{Ladder, LivenessCheck, Object};
use loco_sim::Strategy;

/// States of a client, and random schedules and their depth for one that has more, as of `loco check`.
const STATES: u64 = 300_000;
const SAMPLES: u64 = 300;
const DEPTH: u32 = 4;

const USAGE: &str = "usage: ladder OBJECT SECONDS [SIZE | --world WORLD | --liveness WORLD]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    match args.as_slice() {
        [_, object, seconds] => done(ladder(object, seconds, &[])),
        [_, object, seconds, size] => done(clients(object, seconds, size)),
        [_, object, seconds, asked, world] => match asked.as_str() {
            "--world" => done(ladder(object, seconds, std::slice::from_ref(world))),
            "--liveness" => done(liveness(object, seconds, world)),
            _ => done(Err(USAGE.to_owned())),
        },
        _ => done(Err(USAGE.to_owned())),
    }
}

/// Prints what was found.
fn done(found: Result<Option<String>, String>) -> ExitCode {
    match found {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(found)) => {
            println!("{found}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn parsed(object: &str, seconds: &str) -> Result<(Object, Duration), String> {
    let object = object.parse::<Object>().map_err(|error| error.to_string())?;
    let seconds = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
    Ok((object, Duration::from_secs(seconds)))
}

/// The world that failed, and how: one of `worlds`, or of all if none is named.
fn ladder(object: &str, seconds: &str, worlds: &[String]) -> Result<Option<String>, String> {
    let (object, time) = parsed(object, seconds)?;
    let ladder = Ladder {
        only: worlds.to_vec(),
        ..Ladder::new(object, time)
    };
    let report = ladder.run().map_err(|error| error.to_string())?;
    let failed = report.failed();
    let found = failed.and_then(|named| Some((named.world, named.failure.as_ref()?)));
    Ok(found.map(|(named, failure)| format!("{named}: {failure}")))
}

/// The world, if a call of it does not end, and how.
fn liveness(object: &str, seconds: &str, world: &str) -> Result<Option<String>, String> {
    let (object, time) = parsed(object, seconds)?;
    let check = LivenessCheck {
        only: vec![world.to_owned()],
        ..LivenessCheck::new(object, time)
    };
    let reports = check.run().map_err(|error| error.to_string())?;
    if reports.is_empty() {
        return Err(format!("{object} has no world {world}"));
    }
    let failed = reports.iter().find_map(|report| report.found.fate.failure());
    Ok(failed.map(|failure| format!("{world}: {failure}")))
}

/// The client that failed, and how.
fn clients(object: &str, seconds: &str, size: &str) -> Result<Option<String>, String> {
    let (object, time) = parsed(object, seconds)?;
    let size: Size = size
        .parse()
        .map_err(|error: loco_check::clients::NotASize| error.to_string())?;
    let campaign = Campaign {
        clients: Clients::new(object, &size),
        random: None,
        forms: Form::of(object),
        tier: None,
        time,
        states_each: STATES,
        otherwise: Some(Strategy::Pct {
            executions: SAMPLES,
            seed: 1,
            depth: DEPTH,
        }),
        workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        progress: Arc::new(AtomicU64::new(0)),
        cancel: Arc::new(AtomicBool::new(false)),
    };
    let summary = campaign.run().map_err(|error| error.to_string())?;
    Ok(summary.failed.map(|failed| {
        let (number, client, failure) = (failed.number, failed.client.print(), failed.failure);
        format!("client {number}: {client}\n{failure}")
    }))
}
