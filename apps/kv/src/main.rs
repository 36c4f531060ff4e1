//! The `kv` command: one node of a key-value service.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use loco_app::{Stop, counted, print, some_time};
use loco_kv::pick::{Distribution, Mix};
use loco_kv::workload::{self, Outcome, Plan};
use loco_kv::{KvError, Result, shell};

/// A key-value service over network memory.
///
/// Start it on every node: `loco run -n 3 -- kv load`, or `loco run -n 3 -- kv shell`. Values are stored on
/// the node that inserted them. Every node finds every key without asking another, and reads its value by one
/// remote read.
#[derive(Parser)]
#[command(name = "kv", version, propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put the store under load on all nodes; the lowest one prints the result.
    ///
    /// Every lookup checks that the value was written for its key. Ctrl-C ends the run early, with the
    /// summary.
    Load(Load),
    /// Serve commands from standard input, which `loco run` gives to the lowest node.
    ///
    /// Keys and values are texts. `help` lists the commands. The job ends at `quit` or at the end of the
    /// input. Its exit status is 1 if some line was not a command.
    Shell {
        /// Values that each node has room for.
        #[arg(long, value_name = "N", default_value = "4096", value_parser = loco_app::number::<u32>(1..=1 << 20))]
        slots: u32,
    },
}

#[derive(clap::Args)]
struct Load {
    /// Threads of each node.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u16>(1..=256))]
    threads: u16,
    /// Operations of a thread under way at a time.
    #[arg(short, long, value_name = "N", default_value = "16", value_parser = loco_app::number::<u16>(1..=1024))]
    window: u16,
    /// Keys in the store.
    #[arg(short, long, value_name = "N", default_value = "100000", value_parser = loco_app::number::<u32>(1..=1 << 26))]
    keys: u32,
    /// Probabilities of the keys.
    #[arg(short, long, value_enum, default_value = "uniform")]
    distribution: Distribution,
    /// Mix of lookups and updates.
    #[arg(short, long, value_enum, default_value = "mixed")]
    mix: Mix,
    /// Seconds to run.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    duration: Duration,
    /// End after N operations of each thread, if that comes first.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u64>(1..=1_000_000_000_000_000))]
    ops: Option<u64>,
    /// Locks that writers of different keys share.
    #[arg(long, value_name = "N", default_value = "64", value_parser = loco_app::number::<u32>(1..=1 << 16))]
    locks: u32,
    /// Seed of all choices.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u64>(..))]
    seed: u64,
    /// Take the keys from a snapshot, as `--snapshot` writes it, instead of inserting them. It must have as many keys as --keys
    /// says.
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// Write a snapshot of the store while the load runs.
    ///
    /// The lowest node writes it. Updates wait while the values are read; the summary says how long it took.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

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
            let (config, input) = (shell::config(*slots), BufReader::new(io::stdin()));
            let mut output = io::stdout();
            let tally = shell::run(fabric, config, input, &mut output, stop)?;
            // A line that is not a command has been answered, and a script learns of it by the exit code.
            Ok(u8::from(tally.mistakes > 0))
        }
    }
}

impl Load {
    fn plan(&self) -> Plan {
        Plan {
            threads: self.threads,
            window: usize::from(self.window),
            keys: self.keys,
            distribution: self.distribution,
            mix: self.mix,
            duration: self.duration,
            ops: self.ops,
            locks: self.locks,
            seed: self.seed,
            restore: self.restore.clone(),
            snapshot: self.snapshot.clone(),
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn numbers_beyond_all_reason_are_refused_by_every_option() {
        loco_testing::numbers::are_refused(&super::Args::command(), &["seed"]);
    }
}
