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

/// Sources that a ladder runs, besides what every ladder runs.
fn sources_of(object: &str) -> &'static [&'static str] {
    match object {
        "wide-owned-var" => &["wide_owned_var.rs", "sealed.rs"],
        "sst" => &["sst.rs"],
        "msw" => &["msw.rs", "sealed.rs"],
        "barrier" => &["barrier.rs", "sst.rs"],
        "ring-buffer" => &["ring_buffer/"],
        "atomic" => &["atomic_var.rs", "atomic_array.rs"],
        "ticket-lock" => &["ticket_lock/", "guard.rs", "locks/loss.rs", "turn.rs"],
        "tas-lock" => &["tas_lock.rs", "guard.rs", "locks/loss.rs", "turn.rs"],
        "queue" => &["shared_queue/"],
        "kv" => &[
            "kvstore/",
            "ring_buffer/",
            "ticket_lock/",
            "guard.rs",
            "locks/loss.rs",
            "turn.rs",
        ],
        _ => &[],
    }
}

impl Mutation {
    /// True if the ladder of `object` may run what this mutation changes. The worlds of all objects use shared variables,
    /// regions and owned variables, and all objects use what lies below them.
    fn is_seen_by(&self, object: &str) -> bool {
        let special = self.file.contains("/objects/")
            && !["shared_var.rs", "shared_region.rs", "/owned_var.rs"]
                .iter()
                .any(|everywhere| self.file.ends_with(everywhere));
        !special || sources_of(object).iter().any(|source| self.file.contains(source))
    }
}

/// Puts mutations together that can be built and tried at the same time, as no ladder sees another one's: building takes
/// most of the time.
pub fn groups<'m>(mutations: &[&'m Mutation]) -> Vec<Vec<&'m Mutation>> {
    let mut groups: Vec<Vec<&Mutation>> = Vec::new();
    for &mutation in mutations {
        let apart =
            |other: &&Mutation| !other.is_seen_by(&mutation.object) && !mutation.is_seen_by(&other.object);
        match groups.iter_mut().find(|group| group.iter().all(apart)) {
            Some(group) => group.push(mutation),
            None => groups.push(vec![mutation]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(object: &str, file: &str) -> Mutation {
        Mutation {
            name: "name".into(),
            object: object.into(),
            file: format!("crates/loco/src/{file}"),
            find: String::new(),
            replace: String::new(),
            wrong: String::new(),
            after_failure: false,
            harmless: None,
        }
    }

    #[test]
    fn only_mutations_that_no_ladder_sees_two_of_are_built_together() {
        let all = [
            of("queue", "objects/shared_queue/mod.rs"),
            of("ticket-lock", "objects/locks/ticket_lock/mod.rs"),
            of("kv", "objects/kvstore/read.rs"),
            of("tas-lock", "objects/locks/turn.rs"),
            of("barrier", "objects/barrier.rs"),
            of("queue", "operations/words.rs"),
            of("owned-var", "objects/variables/owned_var.rs"),
        ];
        let all: Vec<&Mutation> = all.iter().collect();
        let [queue, ticket, kv, guard, barrier, words, owned] = all[..] else {
            panic!("seven of them");
        };
        assert_eq!(
            groups(&all),
            [
                vec![queue, ticket, barrier],
                vec![kv],
                vec![guard],
                vec![words],
                vec![owned]
            ]
        );
    }
}
