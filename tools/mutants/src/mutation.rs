//! The list of mutations, as files in TOML. Each object has a file, and each change a `[[mutation]]`. Files of code that several
//! objects use name the object with each.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The lists, in the order in which they are run.
const LISTS: [(&str, &str); 25] = [
    ("fence", include_str!("../mutations/fence.toml")),
    ("region", include_str!("../mutations/region.toml")),
    ("shared-var", include_str!("../mutations/shared-var.toml")),
    ("owned-var", include_str!("../mutations/owned-var.toml")),
    ("wide-owned-var", include_str!("../mutations/wide-owned-var.toml")),
    ("sst", include_str!("../mutations/sst.toml")),
    ("msw", include_str!("../mutations/msw.toml")),
    ("barrier", include_str!("../mutations/barrier.toml")),
    ("collective", include_str!("../mutations/collective.toml")),
    ("ring-buffer", include_str!("../mutations/ring-buffer.toml")),
    ("atomic", include_str!("../mutations/atomic.toml")),
    ("ticket-lock", include_str!("../mutations/ticket-lock.toml")),
    ("tas-lock", include_str!("../mutations/tas-lock.toml")),
    ("queue", include_str!("../mutations/queue.toml")),
    ("kv", include_str!("../mutations/kv.toml")),
    ("log", include_str!("../mutations/log.toml")),
    ("", include_str!("../mutations/at-once.toml")),
    ("", include_str!("../mutations/purchases.toml")),
    ("", include_str!("../mutations/worlds.toml")),
    ("", include_str!("../mutations/blind.toml")),
    ("", include_str!("../mutations/tasks.toml")),
    (MESH, include_str!("../mutations/mesh.toml")),
    (LOCK_FREE, include_str!("../mutations/lock-free.toml")),
    ("", include_str!("../mutations/programs.toml")),
    (PLANTED, include_str!("../mutations/planted.toml")),
];

/// The list, and the object, of the agreement on who is in.
const MESH: &str = "mesh";
/// The list of lock-free code. Each of its mutations names a protocol as its object.
const LOCK_FREE: &str = "lock-free";
/// The list whose changes are no mistakes.
const PLANTED: &str = "planted";

/// One change of the shipped code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    /// The name, which is unique within the object.
    pub name: String,
    /// The object whose ladder is to find the mutation, as `loco check` names it; of a [purchase](Mutation::network), the
    /// fabric.
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
    /// Set if the change drops a request for order of an operation of the network.
    #[serde(default)]
    pub request: bool,
    /// Set if the change lets calls go on for ever in executions in which everybody goes on who can: the world of the ladder that shows it,
    /// when it is asked whether every call ends.
    #[serde(default)]
    pub livelock: Option<String>,
    /// Set if the change leaves out a *purchase*: an order that a fabric buys when it is asked for. Litmus tests are to find it
    /// on this network, given as options of the example `played` of `loco-litmus`.
    #[serde(default)]
    pub network: Option<String>,
    /// The litmus tests that are to find a purchase, as a folder from the root of the repository, where the others would only take time;
    /// all if none is named.
    #[serde(default)]
    pub tests: Option<String>,
    /// Set if the change is one of a program: the number of nodes, the program, and its options. Random executions of that under the
    /// model are to find it.
    #[serde(default)]
    pub program: Option<String>,
    /// The reason why the change breaks no promise, if it breaks none. Such a mutation is not counted.
    #[serde(default)]
    pub harmless: Option<String>,
    /// Set if the change is a panic that shows whether the ladder gets there, and no mistake. It is not counted.
    #[serde(skip_deserializing, default)]
    pub planted: bool,
    /// Set if the changed code is a lock-free protocol, whose tests under loom are to find the mistake.
    #[serde(skip_deserializing, default)]
    pub lock_free: bool,
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
            object: match mutation.object.is_empty() {
                true => object.to_owned(),
                false => mutation.object.clone(),
            },
            planted: object == PLANTED,
            lock_free: object == LOCK_FREE,
            ..mutation
        }));
    }
    Ok(all)
}

impl Mutation {
    /// Reads the file that is mutated, below the root of a tree whose file is as shipped.
    ///
    /// # Errors
    /// Returns [`Misfit`] if the file cannot be read.
    pub fn shipped(&self, root: &Path) -> Result<String, Misfit> {
        fs::read_to_string(root.join(&self.file))
            .map_err(|error| self.misfit(format!("{}: {error}", self.file)))
    }

    /// Returns the bytes of the shipped file that change, and the text that replaces them: the smallest change.
    ///
    /// # Errors
    /// Returns [`Misfit`] if the text to be replaced does not occur exactly once.
    pub fn change(&self, shipped: &str) -> Result<(Range<usize>, &str), Misfit> {
        let found: Vec<usize> = shipped.match_indices(&self.find).map(|(at, _)| at).collect();
        let &[start] = found.as_slice() else {
            return Err(self.misfit(format!(
                "the text to be replaced occurs {} times in {}; it must occur once",
                found.len(),
                self.file
            )));
        };
        let equal = |(a, b): &(char, char)| a == b;
        let length = |(c, _): (char, char)| c.len_utf8();
        let (find, replace) = (self.find.as_str(), self.replace.as_str());
        let before: usize = find
            .chars()
            .zip(replace.chars())
            .take_while(equal)
            .map(length)
            .sum();
        let (find, replace) = (&find[before..], &replace[before..]);
        let after: usize = find
            .chars()
            .rev()
            .zip(replace.chars().rev())
            .take_while(equal)
            .map(length)
            .sum();
        let start = start + before;
        Ok((
            start..start + find.len() - after,
            &replace[..replace.len() - after],
        ))
    }

    /// Returns the text of the mutated file.
    ///
    /// # Errors
    /// Returns [`Misfit`] if the text to be replaced does not occur exactly once.
    pub fn apply(&self, shipped: &str) -> Result<String, Misfit> {
        let (range, replace) = self.change(shipped)?;
        Ok([&shipped[..range.start], replace, &shipped[range.end..]].concat())
    }

    /// Returns true if the change is one of the agreement on who is in, which the worlds of `checkers/mesh` are to find.
    pub fn is_of_mesh(&self) -> bool {
        self.object == MESH
    }

    /// Returns a number by which a result identifies its change, because a name stays when its text changes.
    pub fn fingerprint(&self) -> u64 {
        xxh3_64(format!("{}\0{}\0{}", self.file, self.find, self.replace).as_bytes())
    }

    fn misfit(&self, why: String) -> Misfit {
        Misfit {
            object: self.object.clone(),
            name: self.name.clone(),
            why,
        }
    }
}

/// Orders mutations, given by their places in `all`, so that the objects take turns, those with the fewest mutations first: a
/// run that is cut short has tried some of each.
pub fn in_turns(chosen: &[usize], all: &[Mutation]) -> Vec<usize> {
    let mut by_object: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &number in chosen {
        by_object.entry(&all[number].object).or_default().push(number);
    }
    let mut by_object: Vec<Vec<usize>> = by_object.into_values().collect();
    by_object.sort_by_key(Vec::len);
    let longest = by_object.last().map_or(0, Vec::len);
    (0..longest)
        .flat_map(|turn| {
            by_object
                .iter()
                .filter_map(move |numbers| numbers.get(turn).copied())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrowed() -> Mutation {
        Mutation {
            name: "narrowed".into(),
            object: "fence".into(),
            file: "loco/objects/src/lib.rs".into(),
            find: "fence(Scope::Node);".into(),
            replace: "fence(Scope::Thread);".into(),
            wrong: "narrowed".into(),
            after_failure: false,
            request: false,
            livelock: None,
            network: None,
            program: None,
            tests: None,
            harmless: None,
            planted: false,
            lock_free: false,
        }
    }

    #[test]
    fn objects_take_turns() {
        let all = ["kv", "kv", "kv", "sst", "barrier", "barrier"].map(|object| Mutation {
            object: object.into(),
            ..narrowed()
        });
        assert_eq!(in_turns(&[0, 1, 2, 3, 4, 5], &all), [3, 4, 0, 5, 1, 2]);
        assert!(in_turns(&[], &all).is_empty());
    }

    #[test]
    fn only_what_differs_changes() {
        let mutation = narrowed();
        let shipped = "{ fence(Scope::Node); }";
        assert_eq!(mutation.change(shipped), Ok((15..19, "Thread")));
        assert_eq!(
            mutation.apply(shipped).as_deref(),
            Ok("{ fence(Scope::Thread); }")
        );
        assert!(mutation.apply("{ fence(Scope::Pair); }").is_err());
    }
}
