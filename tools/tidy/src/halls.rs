//! The halls of the repository: its folders of packages, the arrows that their manifests draw between them, and the picture of both.
//!
//! Relies on the manifests alone. Used by the test `halls`, which holds the arrows against the rules and the picture in ARCHITECTURE.md
//! against the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{fs, io};

use crate::root;

/// The halls, each with the halls that its packages may use. Nothing else may be an arrow between halls.
pub const HALLS: [(&str, &[&str]); 5] = [
    ("loco", &[]),
    ("mowgli", &[]),
    ("checkers", &["loco", "mowgli"]),
    ("apps", &["loco", "mowgli", "checkers"]),
    ("tools", &[]),
];

/// The packages that consist of tests, so that all their dependencies are those of tests.
pub const TESTS: [&str; 1] = ["loco/conformance"];

/// The package of networks made for tests. It is built from the fabrics whose tests use it.
pub const NETWORKS: &str = "loco/networks";

/// The packages of other halls that tests use against the arrows, as `(hall, package of another hall)`.
pub const USED_BY_TESTS: [(&str, &str); 5] = [
    ("loco", "checkers/history"),
    ("loco", "tools/testing"),
    ("mowgli", "tools/testing"),
    ("checkers", "tools/testing"),
    ("apps", "tools/testing"),
];

/// A package of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The folder from the root, such as `loco/shm`.
    pub folder: String,
    /// The name in its manifest, such as `loco-shm`.
    pub name: String,
    /// The folders of the packages that it is built from.
    pub uses: BTreeSet<String>,
    /// The folders of the packages that only its tests use.
    pub tests_use: BTreeSet<String>,
}

impl Package {
    /// Returns the hall of the package.
    pub fn hall(&self) -> &str {
        hall(&self.folder)
    }
}

/// Returns the hall of a package's folder.
pub fn hall(folder: &str) -> &str {
    folder.split('/').next().unwrap_or_default()
}

/// Returns the folders of all packages in halls, sorted.
///
/// # Errors
/// Fails when a folder cannot be read.
pub fn folders() -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for (hall, _) in HALLS {
        for entry in fs::read_dir(root().join(hall))? {
            let path = entry?.path();
            if path.join("Cargo.toml").is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the name of a package from the text of its manifest.
fn name(manifest: &str) -> &str {
    let (_, rest) = manifest.split_once("name = \"").unwrap_or_default();
    rest.split('"').next().unwrap_or_default()
}

/// Calls `found` with each dependency that a manifest names and with whether it is one of tests only.
pub fn dependencies(manifest: &str, mut found: impl FnMut(&str, bool)) {
    let mut table = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            table = line;
        } else if table.ends_with("dependencies]") {
            let end = line.find(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
            let dependency = &line[..end.unwrap_or(line.len())];
            if !dependency.is_empty() {
                found(dependency, table.contains("dev-dependencies"));
            }
        }
    }
}

/// Reads the packages of all halls.
///
/// # Errors
/// Fails when a manifest cannot be read.
pub fn packages() -> io::Result<Vec<Package>> {
    let mut manifests = BTreeMap::new();
    for path in folders()? {
        let text = fs::read_to_string(path.join("Cargo.toml"))?;
        manifests.insert(crate::shown(&path), text);
    }
    // Dependents know `loco-rdma` as `loco`.
    let known = |package: &str| if package == "loco-rdma" { "loco" } else { package }.to_owned();
    let by_name: BTreeMap<String, &String> = manifests
        .iter()
        .map(|(folder, text)| (known(name(text)), folder))
        .collect();
    let package = |(folder, text): (&String, &String)| {
        let mut package = Package {
            folder: folder.clone(),
            name: name(text).to_owned(),
            uses: BTreeSet::new(),
            tests_use: BTreeSet::new(),
        };
        dependencies(text, |dependency, of_tests| match by_name.get(dependency) {
            Some(&to) if to != folder && of_tests => drop(package.tests_use.insert(to.clone())),
            Some(&to) if to != folder => drop(package.uses.insert(to.clone())),
            _ => {}
        });
        package
    };
    Ok(manifests.iter().map(package).collect())
}

/// Returns the arrows between halls that [`HALLS`] and [`USED_BY_TESTS`] do not allow, a line each.
pub fn forbidden(packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for package in packages {
        let own = package.hall();
        let allowed = HALLS
            .iter()
            .find(|(name, _)| *name == own)
            .map_or(&[][..], |(_, to)| to);
        let one_way = |to: &String| hall(to) == own || allowed.contains(&hall(to));
        let of_tests = |to: &String| USED_BY_TESTS.contains(&(own, to.as_str()));
        let is_test = TESTS.contains(&package.folder.as_str());
        let built = package
            .uses
            .iter()
            .filter(|to| !(one_way(to) || is_test && of_tests(to)));
        found.extend(built.map(|to| format!("{} uses {to}", package.folder)));
        let tested = package
            .tests_use
            .iter()
            .filter(|to| !one_way(to) && !of_tests(to));
        found.extend(tested.map(|to| format!("the tests of {} use {to}", package.folder)));
    }
    found
}

/// Returns the packages of `hall` in layers: each uses only packages of the hall that stand in earlier layers.
fn layers<'a>(packages: &'a [Package], hall: &str) -> Vec<Vec<&'a Package>> {
    let mut rest: Vec<_> = packages.iter().filter(|package| package.hall() == hall).collect();
    let mut layers = Vec::new();
    while !rest.is_empty() {
        let waits = |package: &Package| rest.iter().any(|other| package.uses.contains(&other.folder));
        let (later, layer): (Vec<_>, Vec<_>) = rest.iter().partition(|package| waits(package));
        assert!(!layer.is_empty(), "the packages of {hall} form a circle");
        layers.push(layer);
        rest = later;
    }
    layers
}

/// Draws the halls: a row for each, its packages in layers from the bottom up, and the halls that it uses.
pub fn picture(packages: &[Package]) -> String {
    let mut text = String::new();
    for (hall, _) in HALLS {
        let layer = |layer: Vec<&Package>| {
            let rooms = layer.iter().map(|package| &package.folder[hall.len() + 1..]);
            rooms.collect::<Vec<_>>().join("  ")
        };
        let rooms: Vec<_> = layers(packages, hall).into_iter().map(layer).collect();
        let own = packages
            .iter()
            .filter(|package| package.hall() == hall && !TESTS.contains(&package.folder.as_str()));
        let uses: BTreeSet<_> = own
            .flat_map(|package| package.uses.iter().map(|to| self::hall(to)))
            .filter(|&to| to != hall)
            .collect();
        let uses: Vec<_> = uses.into_iter().map(|to| format!("{to}/")).collect();
        let uses = match uses.as_slice() {
            [] => "uses no other hall".to_owned(),
            uses => format!("uses {}", uses.join(", ")),
        };
        let _ = writeln!(text, "{:<11}{}", format!("{hall}/"), rooms.join("  <-  "));
        let _ = writeln!(text, "{:<11}({uses})", "");
    }
    text
}
