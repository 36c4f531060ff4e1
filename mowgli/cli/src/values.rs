//! Option values: those with a fixed set of names, so that `--help`, errors and completions list them, and whole numbers with
//! the range that errors name.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mowgli::check::Engine;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::robust::fix::{BadCost, Costs};

use crate::choice::{ModelChoice, ModelParser};

/// Parses the name of a model, or of a model file.
pub(crate) fn model() -> impl TypedValueParser<Value = ModelChoice> {
    ModelParser
}

/// Parses the name of a model to which shared-memory programs are translated.
pub(crate) fn translated() -> impl TypedValueParser<Value = Model> {
    named([Model::RdmaSc, Model::RdmaTso].map(Model::name))
}

/// Parses the name of an engine.
pub(crate) fn engine() -> impl TypedValueParser<Value = Engine> {
    named(Engine::ALL.map(Engine::name))
}

/// Parses the name of an atomicity.
pub(crate) fn rmw() -> impl TypedValueParser<Value = RmwAtomicity> {
    named(RmwAtomicity::ALL.map(RmwAtomicity::name))
}

/// Parses costs. Every error names the range of a cost.
pub(crate) fn costs(text: &str) -> Result<Costs, String> {
    text.parse().map_err(|error: BadCost| match error {
        BadCost::Unknown(_) => format!("{error}, each from 1 to 1000000"),
        _ => error.to_string(),
    })
}

/// The most threads that a command starts.
const WORKERS_MAX: u64 = 1024;

/// Parses the number of threads that a command starts.
pub(crate) fn workers() -> impl TypedValueParser<Value = NonZeroUsize> {
    whole::<usize>(1..=WORKERS_MAX).try_map(NonZeroUsize::try_from)
}

/// Parses a whole number of this range. The error names the range; clap adds the option and the value to it.
pub(crate) fn whole<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    range: RangeInclusive<u64>,
) -> impl TypedValueParser<Value = T> {
    move |text: &str| {
        let number = text.parse().ok().filter(|n| range.contains(n));
        let wrong = || NotInRange(range.clone());
        number.and_then(|n| T::try_from(n).ok()).ok_or_else(wrong)
    }
}

/// A text that is no number of a range.
#[derive(Debug)]
struct NotInRange(RangeInclusive<u64>);

impl fmt::Display for NotInRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "write a whole number from {} to {}",
            self.0.start(),
            self.0.end()
        )
    }
}

impl std::error::Error for NotInRange {}

fn named<T, const N: usize>(names: [&'static str; N]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}
