//! The ways in which `loco check` explores, and the options that have an effect in each.

use super::target::Target;
use super::{Args, How};
use crate::effect::{Mode, refuse_others};
use crate::error::CliError;

/// Options of a world of chosen size.
macro_rules! world {
    ($name:literal, $($more:literal),*) => {
        Mode::new(
            $name,
            &[
                "--nodes", "--threads", "--ops", "--glob", "--fabric", "--tier", "--expiries", "--crashes", "--suspicions", "--cuts",
                "--json", "--svg", "--dot", $($more),*
            ],
        )
    };
}

const LADDER: Mode = Mode::new(
    "the ladder",
    &[
        "--fabric", "--tier", "--world", "--seed", "--time", "--json", "--shard", "--svg", "--dot", "--html",
        "--open",
    ],
);
const MESH: Mode = Mode::new("`mesh`", &["--world", "--seed", "--time", "--json"]);
const WORLDS: Mode = Mode::new("--worlds", &["--worlds"]);
const EXHAUSTIVE: Mode = world!(
    "every schedule of one world",
    "--strategy",
    "--time",
    "--shard",
    "--html",
    "--open"
);
const BOUNDED: Mode = world!(
    "--strategy bounded",
    "--strategy",
    "--preemptions",
    "--delays",
    "--time",
    "--shard",
    "--html",
    "--open"
);
const RANDOM: Mode = world!(
    "--strategy random",
    "--strategy",
    "--executions",
    "--seed",
    "--time",
    "--shard",
    "--html",
    "--open"
);
const PCT: Mode = world!(
    "--strategy pct",
    "--strategy",
    "--executions",
    "--seed",
    "--depth",
    "--time",
    "--shard",
    "--html",
    "--open"
);
const SOAK: Mode = world!("--soak", "--soak", "--seed");
const REPLAY: Mode = world!("--replay", "--replay", "--html", "--open");
const REPLAY_OF_WORLD: Mode = Mode::new(
    "--replay of a schedule of the ladder",
    &[
        "--fabric", "--tier", "--world", "--replay", "--svg", "--dot", "--html", "--open",
    ],
);
const ROBUST: Mode = Mode::new(
    "--robust",
    &[
        "--robust", "--tier", "--world", "--time", "--json", "--svg", "--dot", "--html", "--open",
    ],
);
const LIVENESS: Mode = Mode::new(
    "--liveness",
    &[
        "--liveness",
        "--fabric",
        "--world",
        "--time",
        "--json",
        "--svg",
        "--dot",
        "--html",
        "--open",
    ],
);
const CLIENT: Mode = Mode::new(
    "--client",
    &[
        "--client", "--tier", "--time", "--json", "--svg", "--dot", "--html", "--open",
    ],
);
const CLIENTS: Mode = Mode::new(
    "--clients",
    &[
        "--clients",
        "--tier",
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
);
const REPLAY_OF_CLIENT: Mode = Mode::new(
    "--replay of a client's schedule",
    &[
        "--client", "--tier", "--replay", "--json", "--svg", "--dot", "--html", "--open",
    ],
);

static MODES: [Mode; 15] = [
    LADDER,
    MESH,
    WORLDS,
    EXHAUSTIVE,
    BOUNDED,
    RANDOM,
    PCT,
    SOAK,
    REPLAY,
    REPLAY_OF_WORLD,
    ROBUST,
    LIVENESS,
    CLIENT,
    CLIENTS,
    REPLAY_OF_CLIENT,
];

impl Args {
    /// Returns the mode that the options ask for.
    fn mode(&self) -> Mode {
        let clients = &self.clients;
        match (self.replay.is_some(), self.strategy) {
            _ if self.target == Some(Target::Mesh) && !self.worlds => MESH,
            (true, _) if !clients.client.is_empty() => REPLAY_OF_CLIENT,
            (true, _) if !self.world.is_empty() => REPLAY_OF_WORLD,
            (true, _) => REPLAY,
            _ if self.soak.is_some() => SOAK,
            _ if clients.clients.is_some() => CLIENTS,
            _ if clients.is_asked() => CLIENT,
            _ if self.robust => ROBUST,
            _ if self.liveness => LIVENESS,
            _ if self.worlds => WORLDS,
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
        refuse_others(given, &self.mode(), &MODES, &[])
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
