//! Option values with a fixed set of names, so that `--help`, errors and completions list them.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mowgli::check::Engine;
use mowgli::model::{Model, RmwAtomicity, UnknownName};
use mowgli_corerma::switches::Model as CoreRma;

/// Parses the name of a model.
pub(crate) fn model() -> impl TypedValueParser<Value = Model> {
    named(Model::ALL.map(Model::name))
}

/// A model of RDMA or of coreRMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnyModel {
    /// Of RDMA.
    Rdma(Model),
    /// Of coreRMA.
    CoreRma(CoreRma),
}

impl AnyModel {
    /// Returns the model, if it is one of RDMA.
    pub(crate) fn rdma(self) -> Option<Model> {
        match self {
            AnyModel::Rdma(model) => Some(model),
            AnyModel::CoreRma(_) => None,
        }
    }

    /// Returns the name that options and reports use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AnyModel::Rdma(model) => model.name(),
            AnyModel::CoreRma(model) => model.name(),
        }
    }
}

impl FromStr for AnyModel {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<AnyModel, UnknownName> {
        match s.parse() {
            Ok(model) => Ok(AnyModel::CoreRma(model)),
            Err(_) => s.parse().map(AnyModel::Rdma),
        }
    }
}

/// Parses the name of a model of either kind.
pub(crate) fn any_model() -> impl TypedValueParser<Value = AnyModel> {
    let rdma = Model::ALL.map(Model::name);
    let names = rdma.into_iter().chain(CoreRma::ALL.map(CoreRma::name));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<AnyModel>())
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
