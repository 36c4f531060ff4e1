//! The `transfer` command: one node of a run of transfers.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use loco_app::{Stop, counted, print};
use loco_transfer::command::Args;
use loco_transfer::{Outcome, Result, TransferError, run};

fn main() -> ExitCode {
    let args: Args = loco_app::arguments();
    loco_app::run(
        "transfer",
        Stop::on_signals(),
        |stop| node(&args, stop),
        TransferError::exit_code,
    )
}

fn node(args: &Args, stop: &Stop) -> Result<u8> {
    let outcome = run(loco_app::fabric("loco run -n 2 -- transfer")?, &args.plan(), stop)?;
    match outcome {
        Some(outcome) if args.json => print(serde_json::to_string(&outcome)?)?,
        Some(outcome) => print(summary(&outcome))?,
        None => {}
    }
    Ok(0)
}

/// Returns the outcome for people.
fn summary(outcome: &Outcome) -> String {
    format!(
        "{} on {} with {} each: {:.0} a second; {} refused for lack of money\n\
         {} accounts under {} hold {} together, as they should",
        counted(outcome.transfers, "transfer"),
        counted(outcome.nodes, "node"),
        counted(outcome.threads, "thread"),
        outcome.transfers_per_second,
        outcome.short,
        outcome.accounts,
        counted(outcome.locks, "lock"),
        outcome.total
    )
}
