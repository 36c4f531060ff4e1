//! The option `--shard` of the commands ([`mowgli::shard`]), and rows that say to which unit of the work they belong.

use mowgli::litmus::fingerprint_of;
pub(crate) use mowgli::shard::{HELP, LONG_HELP, Shard};
use serde::Serialize;

/// Reads the option. Slurm's variables come from the environment.
pub(crate) fn read(text: &str) -> Result<Shard, String> {
    Shard::read(text, |name| std::env::var(name).ok())
}

/// A row of a report, and in a share of a run the number of its unit, by which `mowgli merge` puts rows in order.
#[derive(Serialize)]
pub(crate) struct Numbered<'a, R> {
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<usize>,
    #[serde(flatten)]
    row: &'a R,
}

/// Numbers the rows of a share. The rows of a whole run have no numbers.
pub(crate) fn numbered<R>(shard: Shard, rows: &[R], units: Vec<usize>) -> Vec<Numbered<'_, R>> {
    let numbered = |(row, unit)| Numbered {
        unit: (shard != Shard::WHOLE).then_some(unit),
        row,
    };
    rows.iter().zip(units).map(numbered).collect()
}

/// Returns the share for a document; a whole run does not name it.
pub(crate) fn named(shard: Shard) -> Option<String> {
    (shard != Shard::WHOLE).then(|| shard.to_string())
}

/// Returns what tells a run from others: the fingerprint of all that was asked, in a share only. `mowgli merge` refuses shares that
/// differ in it.
pub(crate) fn run_of(shard: Shard, asked: impl FnOnce() -> String) -> Option<String> {
    (shard != Shard::WHOLE).then(|| fingerprint_of(&asked()))
}
