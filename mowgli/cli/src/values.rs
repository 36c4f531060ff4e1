//! Option values with a fixed set of names, so that `--help`, errors and completions list them.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mowgli::check::Engine;
use mowgli::model::{Model, RmwAtomicity};

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

fn named<T, const N: usize>(names: [&'static str; N]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}
