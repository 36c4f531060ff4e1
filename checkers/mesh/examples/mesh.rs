//! Explores the worlds of the agreement on who is in for so many seconds at most, for the harness of the mutations.
//!
//! `mesh SECONDS`. Prints the first world that breaks a promise, with the execution. Exit status: 0 none does, 1 one does, 2 bad
//! usage. `loco check mesh` is for people.

use std::process::ExitCode;
use std::time::Duration;

use loco_mesh_check::Ladder;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds = match &args[..] {
        [seconds] => seconds.parse().ok(),
        _ => None,
    };
    let Some(seconds) = seconds else {
        eprintln!("usage: mesh SECONDS");
        return ExitCode::from(2);
    };
    let report = Ladder::new(Duration::from_secs(seconds)).run();
    match report.failed() {
        Some((world, failure)) => {
            println!("{}: {failure}", world.world.name);
            ExitCode::from(1)
        }
        None => ExitCode::SUCCESS,
    }
}
