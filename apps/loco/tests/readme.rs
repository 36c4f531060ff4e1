//! Follows `README.md` from the clone to a program of one's own that runs, in the places where a reader does it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../../../README.md");

/// A block of code with its language, which is empty for commands.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

/// Returns the blocks between two headings.
fn blocks<'a>(from: &str, to: &str) -> Vec<Block<'a>> {
    let (_, section) = README.split_once(from).unwrap();
    let (section, _) = section.split_once(to).unwrap();
    let mut parts = section.split("```");
    let mut blocks = Vec::new();
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push(Block { language, text });
    }
    blocks
}

/// Runs commands as one who has typed them in a shell in `place`, with the `loco` command of this build.
fn type_in(place: &Path, commands: &str) -> String {
    let loco = Path::new(env!("CARGO_BIN_EXE_loco")).parent().unwrap();
    let path = format!("{}:{}", loco.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell
        .args(["-ec", commands])
        .current_dir(place)
        .env("PWD", place)
        .env("PATH", path);
    for (name, _) in std::env::vars_os() {
        // Cargo tells tests of itself, which a reader's shell does not.
        if name.to_string_lossy().starts_with("CARGO_") || name.to_string_lossy().starts_with("LOCO_") {
            shell.env_remove(name);
        }
    }
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        shell.env("CARGO_HOME", home);
    }
    let output = shell.env("CARGO_NET_OFFLINE", "true").output().unwrap();
    assert!(
        output.status.success(),
        "{commands}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_first_program_is_made_beside_the_clone_and_runs() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let workspace = fs::read_to_string(repository.join("Cargo.toml")).unwrap();
    let [begin, manifest, program, end] =
        &blocks("## A program of your own", "These programs are also there")[..]
    else {
        panic!("the README's section has other blocks than this test follows");
    };
    assert_eq!((begin.language, manifest.language), ("", "toml"));
    assert_eq!((program.language, end.language), ("rust", ""));

    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap();
    let clone = place.join("loco");
    symlink(&repository, &clone).unwrap();
    // The command is that of this build. To install it takes as long as to build everything for release.
    let (install, rest) = begin.text.split_once('\n').unwrap();
    assert!(
        install.starts_with("cargo install --locked --path apps/loco "),
        "{install}"
    );
    assert!(repository.join("apps/loco/Cargo.toml").exists());
    type_in(&clone, rest);
    let hello = place.join("hello");
    let made = fs::read_to_string(hello.join("Cargo.toml")).unwrap();
    assert_eq!(made.trim(), manifest.text.trim());
    assert_eq!(
        fs::read_to_string(repository.join("Cargo.toml")).unwrap(),
        workspace
    );

    fs::write(hello.join("src/main.rs"), program.text).unwrap();
    // The next run of this test finds what this one has built. The dependencies have the versions of the repository, which
    // are on this machine already.
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    fs::create_dir_all(&built).unwrap();
    symlink(built, hello.join("target")).unwrap();
    fs::copy(repository.join("Cargo.lock"), hello.join("Cargo.lock")).unwrap();
    let printed = type_in(&hello, end.text);
    let mut lines: Vec<_> = printed.lines().collect();
    lines.sort_unstable();
    let expected: Vec<_> = (0..3)
        .map(|node| format!("[{node}] node {node}: 3 nodes are here and bring 4.5"))
        .collect();
    assert_eq!(lines, expected);
}
