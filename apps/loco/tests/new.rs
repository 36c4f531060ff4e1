//! `loco new`: the projects that it makes, and what it refuses.

#![allow(clippy::unwrap_used)]

#[path = "support/shell.rs"]
mod shell;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use shell::{projects_target, repository, type_in, typed};

/// Returns what is said on standard error by a command that ends with this exit code.
fn refused(place: &Path, command: &str, code: i32) -> String {
    let output = typed(place, command);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{command}: {said}");
    said
}

/// The order that the channel asks for is needed: without it, the project's own test shows an execution.
#[test]
fn a_mistake_in_the_channel_is_found_by_the_test_of_the_project() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap();
    let clone = repository();
    let said = type_in(
        &place,
        &format!("loco new below/mistaken --path '{}'", clone.display()),
    );
    assert!(
        said.contains("cd below/mistaken") && said.contains("cargo test"),
        "{said}"
    );
    let project = place.join("below/mistaken");
    symlink(projects_target(), project.join("target")).unwrap();
    type_in(&project, "cargo fmt --check");

    let channel = project.join("src/lib.rs");
    let right = fs::read_to_string(&channel).unwrap();
    // The comment of the template says so.
    assert!(right.contains("`Flags::default()` in its place, `cargo test` shows"));
    let wrong = right.replace("at(NEWS), Flags::STRONG", "at(NEWS), Flags::default()");
    assert_ne!(right, wrong);
    fs::write(&channel, wrong).unwrap();
    let output = typed(&project, "cargo test");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(101), "{said}");
    assert!(said.contains("who sees the news sees the number"), "{said}");
    assert!(said.contains("replay: "), "{said}");
}

#[test]
fn a_project_can_take_the_library_from_a_repository() {
    let dir = tempfile::tempdir().unwrap();
    type_in(
        dir.path(),
        "loco new hello --git https://example.org/loco.git --rev 0123abc",
    );
    let manifest = fs::read_to_string(dir.path().join("hello/Cargo.toml")).unwrap();
    let from = "git = \"https://example.org/loco.git\", rev = \"0123abc\"";
    assert!(
        manifest.contains(&format!("loco = {{ {from}, package = \"loco-rdma\" }}\n")),
        "{manifest}"
    );
    assert!(
        manifest.contains(&format!("loco-sim = {{ {from} }}\n")),
        "{manifest}"
    );
    // The versions of the clone's crates are not those of the repository.
    assert!(!dir.path().join("hello/Cargo.lock").exists());
}

#[test]
fn a_project_below_another_manifest_is_a_workspace_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("Cargo.toml"), "[workspace]\n").unwrap();
    type_in(dir.path(), "loco new inner");
    let manifest = fs::read_to_string(dir.path().join("inner/Cargo.toml")).unwrap();
    assert!(manifest.ends_with("\n[workspace]\n"), "{manifest}");
    type_in(
        &dir.path().join("inner"),
        "cargo metadata --offline --no-deps --format-version 1 >/dev/null",
    );
}

#[test]
fn what_cannot_be_made_is_refused_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let refuses = |command: &str, words: &[&str]| {
        let said = refused(dir.path(), command, 2);
        for word in words {
            assert!(said.contains(word), "{command}: {said}");
        }
    };
    refuses("loco new fn", &["called `fn`", "take another name"]);
    refuses("loco new 1st", &["`1st`", "a letter first"]);
    refuses(
        "loco new hello --path .",
        &[". is no clone", "--path CLONE", "--git URL --rev REVISION"],
    );
    refuses("loco new hello --git https://example.org/x", &["--rev"]);
    refuses(
        "loco new --c hello --git https://example.org/x --rev 1",
        &["cannot be used with"],
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    type_in(dir.path(), "mkdir hello && echo mine >hello/Cargo.toml");
    refuses("loco new hello", &["hello exists already", "another name"]);
    assert_eq!(
        fs::read_to_string(dir.path().join("hello/Cargo.toml")).unwrap(),
        "mine\n"
    );
}
