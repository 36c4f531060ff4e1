//! The load of `loco stress`: the calls of the nodes, and the faults that befall one node.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use loco::fabric::var;
use serde::{Serialize, Serializer};

use crate::effect::Mode;
use crate::error::CliError;

/// A day in milliseconds, the longest time that a fault takes.
const DAY_MS: u64 = 24 * 3600 * 1000;

/// The most nodes.
pub(super) const NODES_MAX: u16 = 16;

/// The options that have an effect with every object.
pub(super) const ALWAYS: [&str; 11] = [
    "--nodes",
    "--fabric",
    "--timeout",
    "--json",
    "--threads",
    "--ops",
    "--seed",
    "--kill",
    "--pause",
    "--pause-for",
    "--silence",
];

/// The other options that have an effect, in the order of [`Object`].
pub(super) static MODES: [Mode; 6] = [
    Mode::new("`atomic`", &["--check-time", "--report"]),
    Mode::new("`ticket-lock`", &["--check-time", "--report", "--on-loss"]),
    Mode::new("`tas-lock`", &["--check-time", "--report", "--on-loss"]),
    Mode::new("`queue`", &["--check-time", "--report"]),
    Mode::new(
        "`kv`",
        &["--check-time", "--report", "--keys", "--copies", "--kills"],
    ),
    // Records have positions, so its history is judged without a search.
    Mode::new("`log`", &[]),
];

impl Object {
    /// Returns the options that have an effect with this object and not with every one.
    pub(super) fn mode(self) -> &'static Mode {
        &MODES[self as usize]
    }

    /// Returns which of `nodes` nodes is stopped or killed: the last, or where a node leads, the first, which does.
    pub(super) fn victim(self, nodes: u16) -> u16 {
        match self {
            Object::Log => 0,
            _ => nodes - 1,
        }
    }
}

/// The work of the nodes.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Load {
    /// Threads of each node.
    #[arg(short, long, value_name = "N", default_value = "2", value_parser = loco_app::number::<u16>(1..=64))]
    pub(super) threads: u16,
    /// Calls of all threads of all nodes together.
    #[arg(long, value_name = "N", default_value = "60000", value_parser = loco_app::number::<u64>(1..=1_000_000_000))]
    pub(super) ops: u64,
    /// Number of keys that the calls of the key-value store use.
    #[arg(long, value_name = "N", default_value = "8", value_parser = loco_app::number::<u64>(1..=1 << 20))]
    pub(super) keys: u64,
    /// Number of nodes that the key-value store keeps each value on. With 2 or more no call of a survivor may fail.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u16>(1..=u64::from(NODES_MAX)))]
    pub(super) copies: u16,
    /// Seed of the calls.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u64>(..))]
    pub(super) seed: u64,
    /// Kill the last node (of the log the first, which leads) this time after the start of the calls (a number alone counts
    /// milliseconds), or at a random one of its calls.
    #[arg(long, value_name = "TIME|random")]
    pub(super) kill: Option<Moment>,
    /// Kill so many nodes of a store with --copies one after another, from the last on: each in the middle of a call, when the copies are
    /// whole again after the one before.
    #[arg(long, value_name = "N", default_value = "1", requires = "kill", value_parser = loco_app::number::<u16>(1..=u64::from(NODES_MAX)))]
    pub(super) kills: u16,
    /// Stop that node (SIGSTOP) this time after the start of the calls, or at a random one of its calls.
    #[arg(long, value_name = "TIME|random")]
    pub(super) pause: Option<Moment>,
    /// Resume the stopped node after this time.
    #[arg(long, value_name = "TIME", default_value = "200ms", requires = "pause", value_parser = loco_app::milliseconds(DAY_MS))]
    #[serde(rename = "pause_for_ms")]
    pause_for: u64,
    /// Silence after which the others give a node up.
    #[arg(long, value_name = "TIME", env = var::SILENCE_SAME_HOST_MS, default_value = "10s", value_parser = loco_app::milliseconds(DAY_MS))]
    #[serde(rename = "silence_ms")]
    silence: u64,
    /// The policy of a lock whose holder is lost.
    #[arg(long, value_enum, default_value = "poison")]
    pub(super) on_loss: OnLoss,
}

/// An object that can be stressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// Atomic variable: adds, swaps, compare-and-swaps, writes, reads.
    Atomic,
    /// Ticket lock around a get and a put of a counter.
    TicketLock,
    /// Test-and-set lock, likewise.
    TasLock,
    /// Shared queue: pushes and pops.
    Queue,
    /// Key-value store: inserts, updates, deletes, gets.
    Kv,
    /// Log: appends and reads.
    Log,
}

/// The policy of a lock when its holder is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnLoss {
    /// Waiters fail.
    Poison,
    /// The next waiter gets the lock, and is told.
    Recover,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value()
            .map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// The time of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// This long after the start of the calls.
    After(Duration),
    /// At one of its calls, which the seed chooses.
    Random,
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        if text == "random" {
            return Ok(Moment::Random);
        }
        let found = loco_app::milliseconds(DAY_MS)(text);
        let found = found.map_err(|why| format!("not `random`, and {why}"))?;
        Ok(Moment::After(Duration::from_millis(found)))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::After(time) => write!(f, "{}", time.as_millis()),
            Moment::Random => f.write_str("random"),
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Load {
    /// Returns how long the stopped node stays stopped.
    pub(super) fn pause_for(&self) -> Duration {
        Duration::from_millis(self.pause_for)
    }

    /// Returns the milliseconds of silence after which the others give a node up.
    pub(super) fn silence_ms(&self) -> u64 {
        self.silence
    }

    /// Returns whether a node is stopped for longer than the silence after which the others give it up.
    pub(super) fn outlasts_silence(&self) -> bool {
        self.pause.is_some() && self.pause_for > self.silence
    }

    /// Returns the nodes of `nodes` that the others lose, in the order of their losses.
    pub(super) fn victims(&self, object: Object, nodes: u16) -> Vec<u16> {
        let first = object.victim(nodes);
        match self.loses_a_node() {
            true => (0..self.kills).map(|number| first - number).collect(),
            false => Vec::new(),
        }
    }

    /// Returns whether the others lose a node.
    pub(super) fn loses_a_node(&self) -> bool {
        self.kill.is_some() || self.outlasts_silence()
    }

    /// Refuses a load whose history cannot be judged.
    ///
    /// # Errors
    /// Returns [`CliError::Usage`].
    pub(super) fn validate(&self, nodes: u16) -> Result<(), CliError> {
        let usage = |text: &str| Err(CliError::Usage(text.into()));
        if self.loses_a_node() && nodes < 3 {
            return usage("two nodes have to be left after a loss; give --nodes 3 or more");
        }
        if self.kills > 1 && (self.copies == 1 || self.pause.is_some()) {
            return usage(
                "--kills: the copies have to be whole after each; give --copies 2 or more, and no --pause",
            );
        }
        if self.kills > 1 && nodes.saturating_sub(self.kills) < 2 {
            return usage("--kills: two nodes have to be left after the last; give more --nodes");
        }
        if self.copies > nodes {
            return usage("--copies: there are fewer --nodes than that");
        }
        let (pause, silence) = (self.pause_for, self.silence);
        if self.pause.is_some() && (silence / 2..=silence.saturating_mul(2)).contains(&pause) {
            return usage(
                "--pause-for: give less than half of --silence, so that nobody is given up, or more than twice as much, \
                 so that the stopped node surely is",
            );
        }
        Ok(())
    }

    /// Returns the load as arguments for a node.
    pub(super) fn words(&self) -> Vec<OsString> {
        let on_loss = match self.on_loss {
            OnLoss::Poison => "poison",
            OnLoss::Recover => "recover",
        };
        let mut words = vec![
            format!("--threads={}", self.threads),
            format!("--ops={}", self.ops),
            format!("--keys={}", self.keys),
            format!("--copies={}", self.copies),
            format!("--seed={}", self.seed),
            format!("--on-loss={on_loss}"),
        ];
        if let Some(moment) = self.kill {
            words.push(format!("--kill={moment}"));
            words.push(format!("--kills={}", self.kills));
        }
        if let Some(moment) = self.pause {
            words.push(format!("--pause={moment}"));
            words.push(format!("--pause-for={}", self.pause_for));
        }
        words.push(format!("--silence={}", self.silence));
        words.into_iter().map(OsString::from).collect()
    }
}
