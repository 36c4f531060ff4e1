//! The list of mutations, as files in TOML. Each object has a file, and each change a `[[mutation]]`.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The lists, in the order in which they are run.
const LISTS: [(&str, &str); 14] = [
    ("fence", include_str!("../mutations/fence.toml")),
    ("region", include_str!("../mutations/region.toml")),
    ("shared-var", include_str!("../mutations/shared-var.toml")),
    ("owned-var", include_str!("../mutations/owned-var.toml")),
    ("wide-owned-var", include_str!("../mutations/wide-owned-var.toml")),
    ("sst", include_str!("../mutations/sst.toml")),
    ("msw", include_str!("../mutations/msw.toml")),
    ("barrier", include_str!("../mutations/barrier.toml")),
    ("ring-buffer", include_str!("../mutations/ring-buffer.toml")),
    ("atomic", include_str!("../mutations/atomic.toml")),
    ("ticket-lock", include_str!("../mutations/ticket-lock.toml")),
    ("tas-lock", include_str!("../mutations/tas-lock.toml")),
    ("queue", include_str!("../mutations/queue.toml")),
    ("kv", include_str!("../mutations/kv.toml")),
];

/// One change of the shipped code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    /// The name, which is unique within the object.
    pub name: String,
    /// The object whose ladder is to find the mutation, as `loco check` names it.
    #[serde(default)]
    pub object: String,
    /// The source file, from the root of the repository.
    pub file: String,
    /// The text that is replaced. It must occur exactly once in the file.
    pub find: String,
    /// The text that takes its place.
    pub replace: String,
    /// The mistake of the mutated code.
    pub wrong: String,
    /// Set if the changed code runs only after a timeout or a loss.
    #[serde(default)]
    pub after_failure: bool,
    /// The reason why the change breaks no promise, if it breaks none. Such a mutation is not counted.
    #[serde(default)]
    pub harmless: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    mutation: Vec<Mutation>,
}

/// A mutation that does not fit the sources.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}/{name}: {why}")]
pub struct Misfit {
    /// The object.
    pub object: String,
    /// Name of the mutation.
    pub name: String,
    /// The mismatch.
    pub why: String,
}

/// Returns every mutation, by object.
///
/// # Errors
/// Returns the error of a list that is not TOML of the right shape. Its text names the line.
pub fn all() -> Result<Vec<Mutation>, Misfit> {
    let mut all = Vec::new();
    for (object, text) in LISTS {
        let list: List = toml::from_str(text).map_err(|error| Misfit {
            object: object.to_owned(),
            name: "(list)".to_owned(),
            why: error.to_string(),
        })?;
        all.extend(list.mutation.into_iter().map(|mutation| Mutation {
            object: object.to_owned(),
            ..mutation
        }));
    }
    Ok(all)
}

impl Mutation {
    /// Returns the text of the mutated file, below the root of a tree whose file is as shipped.
    ///
    /// # Errors
    /// Returns [`Misfit`] if the file cannot be read or the text does not occur exactly once.
    pub fn apply(&self, root: &Path) -> Result<String, Misfit> {
        let misfit = |why: String| Misfit {
            object: self.object.clone(),
            name: self.name.clone(),
            why,
        };
        let text = fs::read_to_string(root.join(&self.file))
            .map_err(|error| misfit(format!("{}: {error}", self.file)))?;
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            n => Err(misfit(format!(
                "the text to be replaced occurs {n} times in {}; it must occur once",
                self.file
            ))),
        }
    }
}
