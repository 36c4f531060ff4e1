//! The options of the `transfer` command. Relies on `clap`; used by the command, and by those who run the program elsewhere.

use std::time::Duration;

use clap::Parser;
use loco_app::some_time;

use crate::{BankConfig, Plan};

/// Transfers between accounts on several nodes, each under the locks of both accounts.
///
/// Start it on every node: `loco run -n 3 -- transfer`. The lowest node checks that no money was made or
/// lost, and prints the result. Ctrl-C ends the run early, with the check.
#[derive(Parser)]
#[command(name = "transfer", version)]
pub struct Args {
    /// Threads of each node.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u16>(1..=256))]
    pub threads: u16,
    /// Accounts, striped over the nodes.
    #[arg(short, long, value_name = "N", default_value = "1000000", value_parser = loco_app::number::<u64>(2..=1 << 40))]
    pub accounts: u64,
    /// Locks that the accounts share, striped over the nodes.
    #[arg(short, long, value_name = "N", default_value = "341", value_parser = loco_app::number::<u32>(1..=1 << 16))]
    pub locks: u32,
    /// Money in each account at the start.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = loco_app::number::<u32>(1..))]
    pub deposit: u32,
    /// Seconds to run.
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = some_time)]
    pub duration: Duration,
    /// End after N transfers of each thread, done or refused, if that comes first.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u64>(1..=1_000_000_000_000_000))]
    pub transfers: Option<u64>,
    /// Let all threads pay into one account under one lock, instead of transferring between random accounts.
    #[arg(long, conflicts_with_all = ["accounts", "locks", "deposit", "seed"])]
    pub single_lock: bool,
    /// Seed of the choice of accounts and amounts.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u64>(..))]
    pub seed: u64,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// Returns the run that the options ask for.
    pub fn plan(&self) -> Plan {
        Plan {
            bank: match self.single_lock {
                true => BankConfig {
                    accounts: 2,
                    locks: 1,
                    deposit: 0,
                },
                false => BankConfig {
                    accounts: usize::try_from(self.accounts).unwrap_or(usize::MAX),
                    locks: self.locks as usize,
                    deposit: self.deposit.into(),
                },
            },
            threads: self.threads,
            duration: self.duration,
            transfers: self.transfers,
            single: self.single_lock,
            seed: self.seed,
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
