//! The options of the `kv` command. Relies on `clap`; used by the command, and by those who run the program elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use loco_app::some_time;

use crate::pick::{Distribution, Mix};
use crate::workload::Plan;

/// A key-value service over network memory.
///
/// Start it on every node: `loco run -n 3 -- kv load`, or `loco run -n 3 -- kv shell`. Values are stored on
/// the node that inserted them. Every node finds every key without asking another, and reads its value by one
/// remote read.
#[derive(Parser)]
#[command(name = "kv", version, propagate_version = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
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

/// The options of `kv load`.
#[derive(clap::Args)]
pub struct Load {
    /// Threads of each node.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u16>(1..=256))]
    pub threads: u16,
    /// Operations of a thread under way at a time.
    #[arg(short, long, value_name = "N", default_value = "16", value_parser = loco_app::number::<u16>(1..=1024))]
    pub window: u16,
    /// Keys in the store.
    #[arg(short, long, value_name = "N", default_value = "100000", value_parser = loco_app::number::<u32>(1..=1 << 26))]
    pub keys: u32,
    /// Probabilities of the keys.
    #[arg(short, long, value_enum, default_value = "uniform")]
    pub distribution: Distribution,
    /// Mix of lookups and updates.
    #[arg(short, long, value_enum, default_value = "mixed")]
    pub mix: Mix,
    /// Seconds to run.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    pub duration: Duration,
    /// End after N operations of each thread, if that comes first.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u64>(1..=1_000_000_000_000_000))]
    pub ops: Option<u64>,
    /// Locks that writers of different keys share.
    #[arg(long, value_name = "N", default_value = "64", value_parser = loco_app::number::<u32>(1..=1 << 16))]
    pub locks: u32,
    /// Seed of all choices.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u64>(..))]
    pub seed: u64,
    /// Take the keys from a snapshot, as `--snapshot` writes it, instead of inserting them. It must have as many keys as --keys
    /// says.
    #[arg(long, value_name = "FILE")]
    pub restore: Option<PathBuf>,
    /// Write a snapshot of the store while the load runs.
    ///
    /// The lowest node writes it. Updates wait while the values are read; the summary says how long it took.
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

impl Load {
    /// Returns the workload that the options ask for.
    pub fn plan(&self) -> Plan {
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn numbers_beyond_all_reason_are_refused_by_every_option() {
        loco_testing::numbers::are_refused(&super::Args::command(), &["seed"]);
    }
}
