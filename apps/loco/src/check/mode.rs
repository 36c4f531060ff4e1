//! The ways in which `loco check` explores, and the options that have an effect in each.

use super::{Args, How};
use crate::effect::{Mode, refuse_others};
use crate::error::CliError;

const LADDER: usize = 0;
const RUNGS: usize = 1;
const EXHAUSTIVE: usize = 2;
const BOUNDED: usize = 3;
const RANDOM: usize = 4;
const PCT: usize = 5;
const SOAK: usize = 6;
const REPLAY: usize = 7;
const REPLAY_OF_RUNG: usize = 8;
const ROBUST: usize = 9;
const CLIENT: usize = 10;
const CLIENTS: usize = 11;
const REPLAY_OF_CLIENT: usize = 12;

/// Options of a world of chosen size.
macro_rules! world {
    ($name:literal, $($more:literal),*) => {
        Mode {
            name: $name,
            options: &[
                "--nodes", "--threads", "--ops", "--glob", "--expiries", "--crashes", "--suspicions", "--json", "--svg",
                "--dot", $($more),*
            ],
        }
    };
}

static MODES: [Mode; 13] = [
    Mode {
        name: "the ladder",
        options: &[
            "--rung", "--seed", "--time", "--json", "--shard", "--svg", "--dot", "--html", "--open",
        ],
    },
    Mode {
        name: "--rungs",
        options: &["--rungs"],
    },
    world!(
        "every schedule of one world",
        "--strategy",
        "--time",
        "--shard",
        "--html",
        "--open"
    ),
    world!(
        "--strategy bounded",
        "--strategy",
        "--preemptions",
        "--delays",
        "--time",
        "--shard",
        "--html",
        "--open"
    ),
    world!(
        "--strategy random",
        "--strategy",
        "--executions",
        "--seed",
        "--time",
        "--shard",
        "--html",
        "--open"
    ),
    world!(
        "--strategy pct",
        "--strategy",
        "--executions",
        "--seed",
        "--depth",
        "--time",
        "--shard",
        "--html",
        "--open"
    ),
    world!("--soak", "--soak", "--seed"),
    world!("--replay", "--replay", "--html", "--open"),
    Mode {
        name: "--replay of a rung's schedule",
        options: &["--rung", "--replay", "--svg", "--dot", "--html", "--open"],
    },
    Mode {
        name: "--robust",
        options: &[
            "--robust", "--rung", "--time", "--json", "--svg", "--dot", "--html", "--open",
        ],
    },
    Mode {
        name: "--client",
        options: &[
            "--client", "--time", "--json", "--svg", "--dot", "--html", "--open",
        ],
    },
    Mode {
        name: "--clients",
        options: &[
            "--clients",
            "--random",
            "--states",
            "--samples",
            "--keep",
            "--seed",
            "--time",
            "--json",
            "--shard",
            "--svg",
            "--dot",
            "--html",
            "--open",
        ],
    },
    Mode {
        name: "--replay of a client's schedule",
        options: &[
            "--client", "--replay", "--json", "--svg", "--dot", "--html", "--open",
        ],
    },
];

impl Args {
    /// Returns the index of the mode that the options ask for.
    fn mode(&self) -> usize {
        let clients = &self.clients;
        match (self.replay.is_some(), self.strategy) {
            (true, _) if !clients.client.is_empty() => REPLAY_OF_CLIENT,
            (true, _) if !self.rung.is_empty() => REPLAY_OF_RUNG,
            (true, _) => REPLAY,
            _ if self.soak.is_some() => SOAK,
            _ if clients.clients.is_some() => CLIENTS,
            _ if clients.is_asked() => CLIENT,
            _ if self.robust => ROBUST,
            _ if self.rungs => RUNGS,
            _ if !self.is_sized() => LADDER,
            (_, None | Some(How::Exhaustive)) => EXHAUSTIVE,
            (_, Some(How::Bounded)) => BOUNDED,
            (_, Some(How::Random)) => RANDOM,
            (_, Some(How::Pct)) => PCT,
        }
    }

    /// Refuses options that have no effect in the mode that the others ask for.
    ///
    /// # Errors
    /// Returns [`CliError::Usage`].
    pub(super) fn refuse_what_has_no_effect(&self, given: &[String]) -> Result<(), CliError> {
        refuse_others(given, &MODES[self.mode()], &MODES, &[])
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;

    /// An option that no mode knows would be refused always, and one that does not exist helps nobody.
    #[test]
    fn every_option_has_an_effect_in_some_mode() {
        let command = Args::augment_args(Command::new("check"));
        let mut exist: Vec<_> = command
            .get_arguments()
            .filter_map(|option| option.get_long())
            .collect();
        let mut known: Vec<_> = MODES
            .iter()
            .flat_map(|mode| mode.options)
            .map(|name| &name[2..])
            .collect();
        exist.sort_unstable();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known, exist);
    }
}
