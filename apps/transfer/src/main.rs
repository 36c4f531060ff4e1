//! The `transfer` command: one node of a run of transfers.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use loco::fabric::{AnyConfig, AnyFabric, Job, Mesh};
use loco_transfer::{BankConfig, Outcome, Plan, Result, TransferError, run};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of a run that was interrupted, as shells have it.
const INTERRUPTED: u8 = 130;

/// Transfers between accounts on several nodes, each under the locks of both accounts.
///
/// Start it on every node: `loco run -n 3 -- transfer`. The lowest node prints what came of it, after it has checked
/// that no money was made or lost. Ctrl-C ends the run early, with the check.
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
    /// Seconds.
    #[arg(short, long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    duration: Duration,
    /// All pay into one account under one lock, instead of transferring between random ones.
    #[arg(long)]
    single_lock: bool,
    /// Seed of the choice of accounts and amounts.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let stop = Arc::new(AtomicBool::new(false));
    match node(&args, &stop) {
        // Relaxed: the handler writes nothing else.
        Ok(()) if stop.load(Ordering::Relaxed) => ExitCode::from(INTERRUPTED),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfer: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn node(args: &Args, stop: &Arc<AtomicBool>) -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(stop))
            .map_err(|error| TransferError::Usage(format!("handling signals: {error}")))?;
    }
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
    let job = Job::from_env().map_err(|error| {
        TransferError::Usage(format!("{error}\nStart it as a job: loco run -n 2 -- transfer"))
    })?;
    let outcome = match AnyFabric::new(Mesh::connect(&job)?, AnyConfig::from_env()?)? {
        AnyFabric::Shm(fabric) => run(fabric, &plan, stop),
        AnyFabric::Verbs(fabric) => run(fabric, &plan, stop),
    }?;
    match outcome {
        Some(outcome) if args.json => println!("{}", serde_json::to_string(&outcome)?),
        Some(outcome) => print(&outcome),
        None => {}
    }
    Ok(())
}

fn print(outcome: &Outcome) {
    println!(
        "{} transfers on {} nodes with {} threads each: {:.0} a second; {} refused for lack of money",
        outcome.transfers, outcome.nodes, outcome.threads, outcome.transfers_per_second, outcome.short
    );
    println!(
        "{} accounts under {} locks hold {} together, as they should",
        outcome.accounts, outcome.locks, outcome.total
    );
}
