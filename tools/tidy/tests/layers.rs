//! Crates form no circles, nor do the modules of a folder, and every dependency of a crate is used in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use tidy::modules::{Modules, Uses};
use tidy::{files, halls, has_extension, shown};

fn crates() -> Vec<PathBuf> {
    halls::folders().expect("the repository can be read")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the words of `text`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// Returns the circles: who is in it, and a line an edge of it with its places.
fn circles(uses: &Uses) -> Vec<String> {
    let reached = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for to in uses.get(at).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = uses.keys().map(|from| (from.as_str(), reached(from))).collect();
    let mut found = BTreeMap::<Vec<&str>, String>::new();
    for (from, to) in uses {
        let back = |to: &str| reached.get(to).is_some_and(|seen| seen.contains(from.as_str()));
        for (to, places) in to.iter().filter(|(to, _)| back(to)) {
            let own = &reached[from.as_str()];
            let members = own.iter().copied().filter(|&member| back(member)).collect();
            let edge = format!("\n    {from} uses {to} ({})", places.join(", "));
            found.entry(members).or_default().push_str(&edge);
        }
    }
    let line = |(members, edges): (Vec<&str>, String)| format!("{}:{edges}", members.join(", "));
    found.into_iter().map(line).collect()
}

#[test]
fn modules_form_no_circle() {
    let mut broken = Vec::new();
    for path in crates() {
        let src = path.join("src");
        let modules = Modules::read(&src).expect("sources are UTF-8");
        for (folder, uses) in modules.uses() {
            let folder = shown(&src.join(folder));
            let found = circles(&uses);
            broken.extend(found.iter().map(|circle| format!("{folder}: {circle}")));
        }
    }
    assert!(
        broken.is_empty(),
        "modules of a folder form no circle:\n  {}",
        broken.join("\n  ")
    );
}

/// Returns the name by which sources know a package of this repository, or of the registry.
fn library(package: &str) -> String {
    let manifest = crates()
        .iter()
        .map(|path| fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default())
        .find(|text| text.contains(&format!("[package]\nname = \"{package}\"")));
    let renamed = manifest.as_deref().and_then(|text| {
        let (_, lib) = text.split_once("[lib]\n")?;
        lib.strip_prefix("name = \"")?
            .split('"')
            .next()
            .map(str::to_owned)
    });
    renamed.unwrap_or_else(|| package.to_owned()).replace('-', "_")
}

#[test]
fn crates_form_no_circle() {
    // Cargo allows circles through the dependencies of tests, except those through a crate itself, which enable features. Here only
    // the networks made for tests are in some.
    let mut uses = Uses::new();
    for package in halls::packages().expect("the manifests can be read") {
        let place = vec![format!("{}/Cargo.toml", package.folder)];
        let tests_use = package.tests_use.into_iter().filter(|to| to != halls::NETWORKS);
        let to = package.uses.into_iter().chain(tests_use);
        let to = to.map(|to| (to, place.clone())).collect();
        uses.insert(package.folder, to);
    }
    let found = circles(&uses);
    assert!(
        found.is_empty(),
        "crates form no circle:\n  {}",
        found.join("\n  ")
    );
}

#[test]
fn dependencies_are_used() {
    let mut unused = Vec::new();
    for path in crates() {
        let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("manifests are UTF-8");
        let mut named = BTreeSet::new();
        for source in files(&path).expect("the repository can be read") {
            if has_extension(&source, "rs") {
                let text = fs::read_to_string(&source).expect("sources are UTF-8");
                named.extend(words(&text).map(str::to_owned));
            }
        }
        halls::dependencies(&manifest, |package, _| {
            if !named.contains(&library(package)) {
                unused.push(format!("{}: {package}", shown(&path)));
            }
        });
    }
    assert!(
        unused.is_empty(),
        "a dependency that nothing names:\n  {}",
        unused.join("\n  ")
    );
}

#[test]
fn circles_are_found() {
    let uses = |edges: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in edges {
            let places = uses.entry((*from).to_owned()).or_default();
            places.insert((*to).to_owned(), vec!["x.rs:1".to_owned()]);
        }
        uses
    };
    assert_eq!(circles(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])), [""; 0]);
    let found = circles(&uses(&[("a", "b"), ("b", "c"), ("c", "b")]));
    assert_eq!(found, ["b, c:\n    b uses c (x.rs:1)\n    c uses b (x.rs:1)"]);
}
