//! Follows `README.md` from the clone to a program of one's own that runs, in the places where a reader does it.

#![allow(clippy::unwrap_used)]

#[path = "support/shell.rs"]
mod shell;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use shell::{projects_target, repository, type_in};

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

#[test]
fn the_first_project_is_made_beside_the_clone_and_runs() {
    let repository = repository();
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
    let [install, make, rest @ ..] = &begin.text.lines().collect::<Vec<_>>()[..] else {
        panic!("the first block makes the project");
    };
    // The command is that of this build. To install it takes as long as to build everything for release.
    assert!(
        install.starts_with("cargo install --locked --path apps/loco "),
        "{install}"
    );
    assert!(repository.join("apps/loco/Cargo.toml").exists());
    type_in(&clone, make);
    let hello = place.join("hello");
    let made = fs::read_to_string(hello.join("Cargo.toml")).unwrap();
    // The reader's clone is beside the project, and this one is not.
    let (_, way) = made.split_once("loco = { path = \"").unwrap();
    let (way, _) = way.split_once("/loco/objects\"").unwrap();
    assert_eq!(hello.join(way).canonicalize().unwrap(), repository);
    assert_eq!(made.replace(way, "../loco").trim(), manifest.text.trim());
    assert_eq!(
        fs::read_to_string(repository.join("Cargo.toml")).unwrap(),
        workspace
    );

    symlink(projects_target(), hello.join("target")).unwrap();
    assert!(
        rest[0].starts_with("./run.sh ") && rest[1].starts_with("cargo test "),
        "{rest:?}"
    );
    assert_eq!(
        sorted(&type_in(&hello, rest[0])),
        ["[1] node 1 reads 42", "[2] node 2 reads 42"]
    );
    let tested = type_in(&hello, rest[1]);
    assert!(
        tested.contains("test who_sees_the_news_sees_the_number ... ok"),
        "{tested}"
    );

    fs::write(hello.join("src/main.rs"), program.text).unwrap();
    let expected: Vec<_> = (0..3)
        .map(|node| format!("[{node}] node {node}: 3 nodes are here and bring 4.5"))
        .collect();
    assert_eq!(sorted(&type_in(&hello, end.text)), expected);
}

/// The way in which a block of the README is tested.
enum Done {
    /// It is typed in the clone, with these changes, which make it short.
    Typed(&'static [(&'static str, &'static str)]),
    /// Another test runs it, or it takes too long here.
    Elsewhere,
}

/// The blocks of the README by their first words, in their order.
const BLOCKS: [(&str, Done); 14] = [
    (
        "$ mowgli check -q relay",
        Done::Typed(&[("cargo build -q -p loco-rdma --example hello && ", "")]),
    ),
    // The second line is what runs this test.
    (
        "./demo.sh ",
        Done::Typed(&[("./demo.sh ", "loco demo --quick "), ("./test.sh ", "true ")]),
    ),
    // Builds for minutes.
    ("cargo build --release", Done::Elsewhere),
    // These five are in the test above.
    ("cargo install --locked", Done::Elsewhere),
    ("[package]", Done::Elsewhere),
    ("//! Nodes count", Done::Elsewhere),
    ("cargo build\nloco run", Done::Elsewhere),
    // These two are in `loco/c/tests`.
    ("cc hello.c", Done::Elsewhere),
    ("/* Nodes count", Done::Elsewhere),
    // This one is in `apps/python/tests`.
    ("import loco", Done::Elsewhere),
    (
        "loco run -n 3 -- kv load",
        Done::Typed(&[
            ("kv load", "kv load --duration 100ms"),
            ("transfer --threads", "transfer --duration 100ms --threads"),
        ]),
    ),
    (
        "mowgli check litmus/",
        Done::Typed(&[
            ("litmus/ --engine", "litmus/loco26 --engine"),
            (
                "rdma-tso,rdma-tso-nopcie",
                "rdma-tso,rdma-tso-nopcie || [ $? = 1 ]",
            ), // they differ
        ]),
    ),
    (
        "mowgli outcomes LOCO-23",
        Done::Typed(&[("I_BAL/no-fence  ", "I_BAL/no-fence || [ $? = 1 ] ")]), // it is refuted
    ),
    (
        "loco check barrier",
        Done::Typed(&[
            ("loco check barrier  ", "loco check barrier --time 2 "),
            ("--soak 10m", "--soak 1s"),
        ]),
    ),
];

/// A folder with everything that the clone has, in which commands may leave files.
fn like_the_clone() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(repository()).unwrap() {
        let entry = entry.unwrap();
        symlink(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

/// Returns a line with each number replaced by 0: counts of states and times differ from build to build.
fn without_numbers(line: &str) -> String {
    let mut text = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' | '.' if text.ends_with('0') => {}
            '0'..='9' => text.push('0'),
            c => text.push(c),
        }
    }
    text
}

/// Builds the programs of other packages, unless they are there. The tests of the workspace build them all, with its features; a build
/// of some packages has fewer, and would take minutes to make them again.
fn build_what_is_missing() {
    let built = Path::new(env!("CARGO_BIN_EXE_loco")).parent().unwrap();
    for (program, package) in [
        ("mowgli", "-p mowgli-cli"),
        ("kv", "-p loco-kv"),
        ("transfer", "-p loco-transfer"),
        ("power", "-p loco-power"),
        ("examples/hello", "-p loco-rdma --example hello"),
    ] {
        if !built.join(program).exists() {
            type_in(&repository(), &format!("cargo build -q {package}"));
        }
    }
}

#[test]
fn the_commands_are_typed_in_the_clone() {
    build_what_is_missing();
    let clone = like_the_clone();
    let all = blocks("# LOCO", "## The house");
    assert_eq!(all.len(), BLOCKS.len(), "each block has a line in the table");
    for (block, (begin, done)) in all.iter().zip(&BLOCKS) {
        assert!(block.text.starts_with(begin), "{begin}: {}", block.text);
        let Done::Typed(changes) = done else { continue };
        let mut text = block.text.to_owned();
        for (from, to) in *changes {
            assert!(text.contains(from), "{from}: {text}");
            text = text.replace(from, to);
        }
        if !text.starts_with("$ ") {
            type_in(clone.path(), &text);
            continue;
        }
        for command in text.split("$ ").skip(1) {
            let (command, shown) = command.split_once('\n').unwrap();
            let printed = without_numbers(&type_in(clone.path(), command));
            assert_eq!(sorted(&printed), sorted(&without_numbers(shown)), "{command}");
        }
    }
}

fn sorted(printed: &str) -> Vec<&str> {
    let mut lines: Vec<_> = printed.lines().collect();
    lines.sort_unstable();
    lines
}
