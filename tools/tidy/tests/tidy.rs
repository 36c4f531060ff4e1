//! Habits of this repository that a person forgets. Each rule lists every place that breaks it.

use std::fs;
use std::path::{Path, PathBuf};

use tidy::halls::HALLS;
use tidy::{files, has_extension, root};

/// The longest source file, in lines.
const LINES_MAX: usize = 600;

/// The packages whose modules may ask for unsafe code: fabrics map memory and call libraries, waits are shown in mapped memory, the model
/// fabric switches stacks, C calls the C interface, Python sees memory as a buffer.
const UNSAFE: [&str; 11] = [
    "loco/c",
    "loco/host",
    "loco/networks",
    "loco/nic",
    "loco/ofi",
    "loco/shm",
    "loco/tcp",
    "loco/trace",
    "loco/verbs",
    "checkers/sim",
    "apps/python",
];

fn sources() -> Vec<(PathBuf, String)> {
    let halls = HALLS.iter().map(|(hall, _)| *hall);
    halls
        .chain(["benches"])
        .map(|dir| root().join(dir))
        .filter(|dir| dir.is_dir())
        .flat_map(|dir| files(&dir).expect("the repository can be read"))
        .filter(|path| has_extension(path, "rs"))
        .map(|path| {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            (path, text)
        })
        .collect()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn assert_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn files_are_short() {
    let long: Vec<_> = sources()
        .iter()
        .filter(|(_, text)| text.lines().count() > LINES_MAX)
        .map(|(path, text)| format!("{}: {} lines", shown(path), text.lines().count()))
        .collect();
    assert_none("a file has one concept and at most 600 lines", &long);
}

#[test]
fn files_say_what_they_are() {
    let silent: Vec<_> = sources()
        .iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| shown(path))
        .collect();
    assert_none("a source file opens with what it is (`//!`)", &silent);
}

#[test]
fn nothing_is_left_undone() {
    // The marks are split so that this file passes its own rule.
    let marks = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["todo", "!("],
        ["unimplemented", "!("],
        ["#[igno", "re"],
        ["dbg", "!("],
    ];
    let mut left = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(&mark.concat())) {
                left.push(format!("{}:{}: {}", shown(&path), number + 1, line.trim()));
            }
        }
    }
    assert_none("finish it or write it down as an issue", &left);
}

#[test]
fn unsafe_code_stays_in_the_fabrics() {
    let mut open = Vec::new();
    for (path, text) in sources() {
        let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        let exempt = UNSAFE.iter().any(|folder| path.starts_with(root().join(folder)));
        let rule = if exempt {
            "#![deny(unsafe_code)]"
        } else {
            "#![forbid(unsafe_code)]"
        };
        if is_root && !text.contains(rule) {
            open.push(shown(&path));
        }
    }
    assert_none(
        "unsafe code is forbidden, or denied where a module is let off",
        &open,
    );
}

/// The user sees the `Debug` of an error that `main` returns, so it reads as the error's message does.
#[test]
fn public_errors_print_no_dumps() {
    let mut dumps = Vec::new();
    let libraries = sources().into_iter().filter(|(path, _)| {
        let path = shown(path);
        ["loco/", "mowgli/", "checkers/"]
            .iter()
            .any(|hall| path.starts_with(hall))
            && path.contains("/src/")
    });
    for (path, text) in libraries {
        let mut lines = (1..).zip(text.lines());
        while let Some((number, line)) = lines.next() {
            let derives = line
                .strip_prefix("#[derive(")
                .and_then(|rest| rest.strip_suffix(")]"));
            let derives: Vec<_> = derives.unwrap_or_default().split(", ").collect();
            if !(derives.contains(&"Debug") && derives.contains(&"thiserror::Error")) {
                continue;
            }
            let item = lines.find(|(_, line)| line.contains("enum ") || line.contains("struct "));
            if item.is_some_and(|(_, item)| item.starts_with("pub enum ") || item.starts_with("pub struct "))
            {
                dumps.push(format!("{}:{number}", shown(&path)));
            }
        }
    }
    assert_none("`debug_as_display!` makes the `Debug` of a public error", &dumps);
}

#[test]
fn crates_take_the_workspace_lints() {
    let mut missing = Vec::new();
    for path in files(&root()).expect("the repository can be read") {
        if path.ends_with("Cargo.toml") && path != root().join("Cargo.toml") {
            let text = fs::read_to_string(&path).expect("manifests are UTF-8");
            if !text.contains("[lints]\nworkspace = true") {
                missing.push(shown(&path));
            }
        }
    }
    assert_none(
        "every crate takes the workspace's lints (documentation of public items among them)",
        &missing,
    );
}

#[test]
fn modules_are_used() {
    let all = sources();
    let mut dead = Vec::new();
    for (path, _) in &all {
        let Some(inside) = shown(path)
            .split_once("/src/")
            .map(|(_, inside)| inside.to_owned())
        else {
            continue;
        };
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        if ["lib", "main"].contains(&stem) || inside.starts_with("bin/") {
            continue;
        }
        let folder = path.parent().unwrap_or(path);
        // `mod.rs` is declared one folder up, under its folder's name.
        let (module, home) = if stem == "mod" {
            (
                folder.file_name().and_then(|n| n.to_str()).unwrap_or_default(),
                folder.parent().unwrap_or(folder),
            )
        } else {
            (stem, folder)
        };
        let declared = all.iter().any(|(other, text)| {
            let declares = text.lines().any(|line| {
                let line = line.trim_start();
                let line = line
                    .strip_prefix("pub ")
                    .or(line.strip_prefix("pub(crate) "))
                    .unwrap_or(line);
                let line = line.strip_prefix("pub(super) ").unwrap_or(line);
                line == format!("mod {module};") || line.contains(&format!("{module}.rs\""))
            });
            declares && (other.parent() == Some(home) || other.with_extension("") == *home)
        });
        if !declared {
            dead.push(shown(path));
        }
    }
    assert_none("every module is part of its crate", &dead);
}

#[test]
fn litmus_tests_have_their_expected_output() {
    let mut alone = Vec::new();
    for path in files(&root().join("litmus")).expect("the catalogue can be read") {
        if has_extension(&path, "litmus") && !path.with_extension("litmus.expected").is_file() {
            alone.push(shown(&path));
        }
    }
    assert_none("every litmus test has its `.litmus.expected` beside it", &alone);
}

#[test]
fn sources_that_are_named_exist() {
    let tree: Vec<_> = files(&root())
        .expect("the repository can be read")
        .iter()
        .map(|path| format!("/{}", shown(path)))
        .collect();
    // Text between single backticks that is a path with a folder: it may be given from any folder of the tree.
    let is_source = |name: &str| {
        name.ends_with(".rs")
            && name.contains('/')
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    };
    let mut missing = Vec::new();
    for path in files(&root()).expect("the repository can be read") {
        let in_code = has_extension(&path, "rs");
        if !in_code && !has_extension(&path, "md") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("sources and documents are UTF-8");
        for (number, line) in text.lines().enumerate() {
            if in_code && !line.trim_start().starts_with("//") {
                continue;
            }
            for name in line.split('`').skip(1).step_by(2) {
                let end = format!("/{}", name.trim_start_matches("../"));
                if is_source(name) && !tree.iter().any(|file| file.ends_with(&end)) {
                    missing.push(format!("{}:{}: {name}", shown(&path), number + 1));
                }
            }
        }
    }
    assert_none("comments and documents name sources that exist", &missing);
}

#[test]
fn nothing_names_a_machine() {
    let marks = [["/work", "/"], ["/root", "/"], ["/home", "/"]];
    let mut named = Vec::new();
    for path in files(&root()).expect("the repository can be read") {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(&mark.concat())) {
                named.push(format!("{}:{}: {}", shown(&path), number + 1, line.trim()));
            }
        }
    }
    assert_none("no paths of one machine", &named);
}
