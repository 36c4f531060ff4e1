//! Checks that packages can be published: they say what they are, bring the files that they need, and depend on nothing that stays
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tidy::{files, has_extension, root};

fn cargo(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .arg("--offline")
        .current_dir(root())
        .output()
        .expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {errors}", args.join(" "));
    output
}

/// The packages of the workspace by name, as cargo understands their manifests.
fn packages() -> BTreeMap<String, Value> {
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("a list");
    packages
        .iter()
        .map(|package| {
            (
                package["name"].as_str().expect("a name").to_owned(),
                package.clone(),
            )
        })
        .collect()
}

fn is_published(package: &Value) -> bool {
    // A list of registries, which is empty for none; null for any.
    package["publish"].is_null()
}

fn folder(package: &Value) -> PathBuf {
    let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
    manifest.parent().expect("a folder").to_owned()
}

fn assert_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

fn strings(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn packages_say_what_they_are() {
    let mut broken = Vec::new();
    for (name, package) in packages() {
        if package["description"].as_str().is_none_or(|text| text.len() < 20) {
            broken.push(format!("{name}: description"));
        }
        for field in ["license", "rust_version"] {
            if !package[field].is_string() {
                broken.push(format!("{name}: {field}"));
            }
        }
        if !is_published(&package) {
            continue;
        }
        let readme = package["readme"]
            .as_str()
            .map(|readme| folder(&package).join(readme));
        if !readme.is_some_and(|readme| readme.is_file()) {
            broken.push(format!("{name}: readme"));
        }
        // The registry's limits.
        let keywords = strings(&package["keywords"]);
        if keywords.is_empty() || keywords.len() > 5 || keywords.iter().any(|word| word.len() > 20) {
            broken.push(format!("{name}: keywords"));
        }
        let categories = strings(&package["categories"]);
        if categories.is_empty() || categories.len() > 5 {
            broken.push(format!("{name}: categories"));
        }
        // It does not build for anything but Linux, which docs.rs has to be told.
        let targets = strings(&package["metadata"]["docs"]["rs"]["targets"]);
        if targets != ["x86_64-unknown-linux-gnu"] {
            broken.push(format!("{name}: package.metadata.docs.rs"));
        }
    }
    assert_none(
        "a package that is to be published says what it is (one that is not has `publish = false`)",
        &broken,
    );
}

#[test]
fn what_is_published_depends_on_nothing_that_stays_here() {
    let packages = packages();
    let mut broken = Vec::new();
    for (name, package) in packages.iter().filter(|(_, package)| is_published(package)) {
        for dependency in package["dependencies"].as_array().expect("a list") {
            let to = dependency["name"].as_str().expect("a name");
            let Some(target) = packages.get(to) else { continue };
            let required = dependency["req"].as_str().expect("a version");
            let is_for_tests = dependency["kind"] == "dev";
            if is_published(target) {
                let version = target["version"].as_str().expect("a version");
                // For tests, a dependency without a version is left out of the package.
                if required != format!("^{version}") && !(is_for_tests && required == "*") {
                    broken.push(format!("{name}: {to} {required}, which is {version}"));
                }
            } else if !is_for_tests || required != "*" {
                broken.push(format!("{name}: {to}, which is not published"));
            }
        }
    }
    assert_none(
        "a dependency on a package of this repository has its version",
        &broken,
    );
}

#[test]
fn packages_are_made_and_have_the_files_that_they_embed() {
    let packages = packages();
    let made = tempfile::tempdir().expect("a folder");
    let made_at = made.path().to_str().expect("text");
    let private = packages.iter().filter(|(_, package)| !is_published(package));
    let excluded: Vec<_> = private.flat_map(|(name, _)| ["--exclude", name]).collect();
    let mut args = vec![
        "package",
        "--workspace",
        "--allow-dirty",
        "--no-verify",
        "--target-dir",
        made_at,
    ];
    args.extend(&excluded);
    cargo(&args);
    for (name, package) in packages.iter().filter(|(_, package)| is_published(package)) {
        let file = format!("{name}-{}.crate", package["version"].as_str().expect("a version"));
        assert!(made.path().join("package").join(&file).is_file(), "{file}");
    }
    for (package, embedded, extension) in [
        ("mowgli", "litmus", "litmus"),
        ("mowgli", "litmus", "expected"),
        ("mowgli", "models", "cat"),
        ("mowgli-corerma", "litmus", "litmus"),
        ("mowgli-corerma", "litmus", "expected"),
        ("mowgli-libraries", "clients", "client"),
    ] {
        let list = cargo(&["package", "--list", "--allow-dirty", "--package", package]);
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        let source = folder(&packages[package]).join(embedded);
        let mut count = 0;
        for path in files(&source).expect("the catalogue can be read") {
            if has_extension(&path, extension) {
                let inside = path.strip_prefix(&source).expect("it is there").display();
                let inside = format!("{embedded}/{inside}");
                assert!(
                    list.lines().any(|line| line == inside),
                    "{package} lacks {inside}"
                );
                count += 1;
            }
        }
        assert!(count > 10, "{package}: {count} files .{extension}");
    }
}

#[test]
fn sources_embed_files_of_their_package_only() {
    let mut broken = Vec::new();
    for (name, package) in packages().iter().filter(|(_, package)| is_published(package)) {
        let folder = folder(package);
        for path in files(&folder.join("src")).expect("the sources can be read") {
            if !has_extension(&path, "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            let depth = path
                .strip_prefix(&folder)
                .map_or(0, |inside| inside.iter().count() - 1);
            let mut before = "";
            for line in text.lines() {
                let embedded = line.split_once("include_str!(\"").map(|(_, rest)| rest);
                // Guides are compiled where the repository is.
                if embedded.is_some_and(|path| path.matches("../").count() > depth)
                    && !before.contains("doctest")
                {
                    broken.push(format!("{name}: {}: {}", path.display(), line.trim()));
                }
                before = line.trim();
            }
        }
    }
    assert_none(
        "a file that is not in the package cannot be embedded where it is used",
        &broken,
    );
}

/// Returns the crates that packages are built from, each with its features.
fn built_from(packages: &[&str]) -> BTreeSet<String> {
    let shown = [
        "-e",
        "normal,build",
        "--prefix",
        "none",
        "--no-dedupe",
        "-f",
        "{p} {f}",
    ];
    let output = cargo(&[&["tree"], &shown[..], packages].concat());
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_command_is_built_from_what_everything_is_built_from() {
    let all = built_from(&["--workspace"]);
    let alone = built_from(&["--package", "loco-rdma-cli"]);
    assert!(alone.len() > 50, "{alone:?}");
    let again: Vec<_> = alone.difference(&all).cloned().collect();
    assert_none(
        "`cargo run -p loco-rdma-cli` builds these again after `cargo build`, with the features that are shown",
        &again,
    );
}
