//! Follows the guides for programmers in projects outside the clone: their manifests and their blocks of Rust, as a reader
//! copies them.

#![allow(clippy::unwrap_used)]

#[path = "support/shell.rs"]
mod shell;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use shell::{projects_target, repository, type_in};
use tempfile::TempDir;

/// Returns the blocks of a guide in a language, which may have attributes.
fn blocks(guide: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join("docs").join(guide)).unwrap();
    let fenced = text.split("```").skip(1).step_by(2);
    let of_language = fenced.filter_map(|block| {
        let (first, text) = block.split_once('\n')?;
        (first.split(',').next() == Some(language)).then(|| text.to_owned())
    });
    of_language.collect()
}

/// Makes a project whose manifest has the dependencies of the guide, in place of those that it begins with.
fn project(name: &str, guide: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap();
    type_in(&place, &format!("loco new {name}"));
    let project = place.join(name);
    symlink(projects_target(), project.join("target")).unwrap();
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let (package, _) = manifest.split_once("[dependencies]").unwrap();
    let manifests = blocks(guide, "toml");
    let dependencies = manifests.last().expect("the guide has a manifest");
    // The reader's clone is beside the project.
    let clone = format!("path = \"{}/", repository().display());
    let dependencies = dependencies.replace("path = \"../loco/", &clone);
    fs::write(project.join("Cargo.toml"), format!("{package}{dependencies}")).unwrap();
    (dir, project)
}

/// Runs the blocks of a guide as tests of a project, each in a function. Those that need the feature `any` of `loco-sim` are its doc tests.
fn run_as_tests(name: &str, guide: &str) {
    let (_dir, project) = project(name, guide);
    fs::remove_file(project.join("src/main.rs")).unwrap();
    fs::write(project.join("src/lib.rs"), "").unwrap();
    fs::remove_file(project.join("tests/model.rs")).unwrap();
    let mut blocks = blocks(guide, "rust");
    blocks.retain(|block| !block.contains("world.application("));
    assert!(!blocks.is_empty());
    for (number, block) in blocks.iter().enumerate() {
        let test = format!("#[test]\nfn block() {{\n{block}\n}}\n");
        fs::write(project.join(format!("tests/block_{number}.rs")), test).unwrap();
    }
    let said = type_in(&project, "cargo test");
    assert_eq!(said.matches("test block ... ok").count(), blocks.len(), "{said}");
}

#[test]
fn the_tour_of_asynchronous_calls_is_a_program() {
    let guide = "async.md";
    let (_dir, project) = project("tour", guide);
    fs::write(project.join("src/lib.rs"), "").unwrap();
    let [program] = &blocks(guide, "rust")[..] else {
        panic!("{guide} has one program");
    };
    fs::write(project.join("src/main.rs"), program).unwrap();
    let mut lines: Vec<_> = type_in(&project, "./run.sh").lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let heard = [1, 2].map(|node| format!("[{node}] node {node} hears \"rain tomorrow\""));
    assert_eq!(lines, heard);
}

#[test]
fn the_blocks_about_channels_are_tests() {
    run_as_tests("channels", "writing-a-channel.md");
}

#[test]
fn the_block_about_checking_is_a_test() {
    run_as_tests("checking", "checking-your-channel.md");
}
