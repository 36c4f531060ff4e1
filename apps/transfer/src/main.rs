//! The `transfer` command: one node of a run of transfers.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use loco_app::{Stop, counted, print, some_time};
use loco_transfer::{BankConfig, Outcome, Plan, Result, TransferError, run};

/// Transfers between accounts on several nodes, each under the locks of both accounts.
///
/// Start it on every node: `loco run -n 3 -- transfer`. The lowest node checks that no money was made or
/// lost, and prints the result. Ctrl-C ends the run early, with the check.
#[derive(Parser)]
#[command(name = "transfer", version)]
struct Args {
    /// Threads of each node.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u16>(1..=256))]
    threads: u16,
    /// Accounts, striped over the nodes.
    #[arg(short, long, value_name = "N", default_value = "1000000", value_parser = loco_app::number::<u64>(2..=1 << 40))]
    accounts: u64,
    /// Locks that the accounts share, striped over the nodes.
    #[arg(short, long, value_name = "N", default_value = "341", value_parser = loco_app::number::<u32>(1..=1 << 16))]
    locks: u32,
    /// Seconds to run.
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    duration: Duration,
    /// Let all threads pay into one account under one lock, instead of transferring between random accounts.
    #[arg(long, conflicts_with_all = ["accounts", "locks", "seed"])]
    single_lock: bool,
    /// Seed of the choice of accounts and amounts.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u64>(..))]
    seed: u64,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

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
    let plan = Plan {
        bank: BankConfig {
            accounts: usize::try_from(args.accounts).unwrap_or(usize::MAX),
            locks: args.locks as usize,
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn numbers_beyond_all_reason_are_refused_by_every_option() {
        loco_testing::numbers::are_refused(&super::Args::command(), &["seed"]);
    }
}
