//! What `loco check` can be asked about by name: an object, or the agreement of the nodes on who is in.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use loco_check::Object;

use super::Args;

/// The name of the agreement of the nodes on who is in.
pub(super) const MESH: &str = "mesh";

/// The seconds for each ladder, unless others are given.
pub(super) const SECONDS: u64 = 60;

/// Something with a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// An object, on the model fabric.
    Object(Object),
    /// The agreement of the nodes on who is in, which has no fabric.
    Mesh,
}

impl Target {
    /// Returns everything that has a ladder, in the order in which `loco check` takes it.
    pub(super) fn all() -> Vec<Target> {
        let objects = Object::ALL.into_iter().map(Target::Object);
        objects.chain([Target::Mesh]).collect()
    }

    /// Returns the object, if it is one.
    pub(super) fn object(self) -> Option<Object> {
        match self {
            Target::Object(object) => Some(object),
            Target::Mesh => None,
        }
    }

    /// Returns the name on the command line.
    pub(super) fn name(self) -> &'static str {
        self.object().map_or(MESH, Object::name)
    }
}

impl Args {
    /// Returns the object that was named, if one was.
    pub(super) fn object(&self) -> Option<Object> {
        self.target.and_then(Target::object)
    }

    /// Returns what was named, or else everything that has a ladder, as far as it has the fabric that was asked for.
    pub(super) fn targets(&self) -> Vec<Target> {
        let asks_of_fabric = !self.fabric.is_empty() || self.tier.is_some();
        match self.target {
            Some(target) => vec![target],
            None if asks_of_fabric => Object::ALL.into_iter().map(Target::Object).collect(),
            None => Target::all(),
        }
    }

    /// Returns the object that was named, or else all.
    pub(super) fn objects_or_all(&self) -> Vec<Object> {
        self.object().map_or(Object::ALL.to_vec(), |object| vec![object])
    }
}

/// Returns the parser of names, for the arguments and their help.
pub(super) fn parser() -> impl TypedValueParser<Value = Target> {
    let named = |name: String| Target::all().into_iter().find(|target| target.name() == name);
    let names = Target::all().into_iter().map(Target::name);
    PossibleValuesParser::new(names).try_map(move |name| named(name).ok_or("no object has this name"))
}
