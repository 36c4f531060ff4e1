//! The option `--shard` of the commands ([`mowgli::shard`]).

pub(crate) use mowgli::shard::{HELP, LONG_HELP, Shard};

/// Reads the option. Slurm's variables come from the environment.
pub(crate) fn read(text: &str) -> Result<Shard, String> {
    Shard::read(text, |name| std::env::var(name).ok())
}
