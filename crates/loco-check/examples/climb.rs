//! Climbs the ladder of one object with default options, as `loco check OBJECT` does, and says what failed. What the
//! mutation harness builds and runs for each mutation, as less is built for it than for the command.
//!
//! `climb OBJECT SECONDS`. Exit status: 0 nothing found, 1 a failing execution, whose rung is printed with what broke, 2 bad
//! usage or a world that cannot be explored.

use std::process::ExitCode;
use std::time::Duration;

use loco_check::{Ladder, Object};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let [_, object, seconds] = args.as_slice() else {
        eprintln!("usage: climb OBJECT SECONDS");
        return ExitCode::from(2);
    };
    let (object, seconds) = match (object.parse::<Object>(), seconds.parse()) {
        (Ok(object), Ok(seconds)) => (object, Duration::from_secs(seconds)),
        (Err(error), _) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
        (_, Err(error)) => {
            eprintln!("{seconds}: {error}");
            return ExitCode::from(2);
        }
    };
    let report = match Ladder::new(object, seconds).climb() {
        Ok(report) => report,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let failed = report.failed();
    match failed.and_then(|rung| Some((rung.rung, rung.failure.as_ref()?))) {
        Some((rung, failure)) => {
            println!("{rung}: {failure}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}
