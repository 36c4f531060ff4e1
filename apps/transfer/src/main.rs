//! The `transfer` command: one node of a run of transfers.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use loco_app::{Stop, print, seconds};
use loco_transfer::{BankConfig, Outcome, Plan, Result, TransferError, run};

/// Transfers between accounts on several nodes, each under the locks of both accounts.
///
/// Start it on every node: `loco run -n 3 -- transfer`. The lowest node checks that no money was made or
/// lost, and prints the result. Ctrl-C ends the run early, with the check.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Threads of each node.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Accounts, striped over the nodes.
    #[arg(short, long, value_name = "N", default_value = "1000000")]
    accounts: usize,
    /// Locks that the accounts share, striped over the nodes.
    #[arg(short, long, value_name = "N", default_value = "341")]
    locks: usize,
    /// Seconds to run.
    #[arg(short, long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    duration: Duration,
    /// Let all threads pay into one account under one lock, instead of transferring between random accounts.
    #[arg(long)]
    single_lock: bool,
    /// Seed of the choice of accounts and amounts.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args: Args = loco_app::arguments();
    loco_app::init_logging();
    let stop = match Stop::on_signals() {
        Ok(stop) => stop,
        Err(error) => return loco_app::exit("transfer", &Stop::default(), Err(error), |_| 1),
    };
    let outcome = node(&args, &stop);
    loco_app::exit("transfer", &stop, outcome, TransferError::exit_code)
}

fn node(args: &Args, stop: &Stop) -> Result<u8> {
    let plan = Plan {
        bank: BankConfig {
            accounts: args.accounts,
            locks: args.locks,
            deposit: if args.single_lock {
                0
            } else {
                BankConfig::default().deposit
            },
        },
        threads: args.threads,
        duration: args.duration,
        single: args.single_lock,
        seed: args.seed,
    };
    let outcome = run(loco_app::fabric("loco run -n 2 -- transfer")?, &plan, stop)?;
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
        "{} transfers on {} nodes with {} threads each: {:.0} a second; {} refused for lack of money\n\
         {} accounts under {} locks hold {} together, as they should",
        outcome.transfers,
        outcome.nodes,
        outcome.threads,
        outcome.transfers_per_second,
        outcome.short,
        outcome.accounts,
        outcome.locks,
        outcome.total
    )
}
