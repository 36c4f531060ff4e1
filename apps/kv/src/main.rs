//! The `kv` command: one node of a key-value service.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::io::{self, BufReader};
use std::process::ExitCode;

use loco_app::{Stop, counted, print};
use loco_kv::command::{Args, Command};
use loco_kv::workload::{self, Outcome};
use loco_kv::{KvError, Result, shell};

fn main() -> ExitCode {
    let args: Args = loco_app::arguments();
    loco_app::run(
        "kv",
        Stop::on_signals(),
        |stop| node(&args.command, stop),
        KvError::exit_code,
    )
}

fn node(command: &Command, stop: &Stop) -> Result<u8> {
    let fabric = loco_app::fabric("loco run -n 3 -- kv ...")?;
    match command {
        Command::Load(load) => {
            let plan = load.plan();
            let outcome = workload::run(fabric, &plan, stop)?;
            match outcome {
                Some(outcome) if load.json => print(serde_json::to_string(&outcome)?)?,
                Some(outcome) => print(summary(&outcome))?,
                None => {}
            }
            Ok(0)
        }
        Command::Shell { slots } => {
            let mut output = io::stdout();
            let input = || shell::lines(BufReader::new(io::stdin()));
            let tally = shell::run(fabric, shell::config(*slots), input, &mut output, stop)?;
            // A line that is not a command has been answered, and a script learns of it by the exit code.
            Ok(u8::from(tally.mistakes > 0))
        }
    }
}

/// Returns the outcome for people.
fn summary(outcome: &Outcome) -> String {
    let snapshot = outcome.snapshot.map_or_else(String::new, |taken| {
        format!(
            "\na snapshot under load: {}, {}, {:.3} s",
            counted(taken.keys, "key"),
            counted(taken.bytes, "byte"),
            taken.seconds
        )
    });
    format!(
        "{} and {} on {} with {} each: {:.0} a second\n\
         a single lookup: p50 {} ns, p99 {} ns; {}, {}, window {}{snapshot}",
        counted(outcome.reads, "lookup"),
        counted(outcome.writes, "update"),
        counted(outcome.nodes, "node"),
        counted(outcome.threads, "thread"),
        outcome.operations_per_second,
        outcome.latency_ns_p50,
        outcome.latency_ns_p99,
        counted(outcome.keys, "key"),
        outcome.distribution,
        outcome.window
    )
}
