//! The catalogue is complete, parses without a warning, and prints back to itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use mowgli::check::{self, Engine};
use mowgli::litmus::parse;
use mowgli::outcome::Budget;
use mowgli::{catalogue, report};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every `FOLDER/NAME` below `litmus/`, sorted.
fn files() -> BTreeSet<(String, String)> {
    let mut out = BTreeSet::new();
    for folder in fs::read_dir(root().join("litmus")).unwrap().map(Result::unwrap) {
        let folder_name = folder.file_name().into_string().unwrap();
        // The tests of coreRMA are embedded by `mowgli-corerma`.
        if !folder.path().is_dir() || folder_name == "corerma16" {
            continue;
        }
        for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            let path = file.path();
            match path.extension().and_then(|e| e.to_str()) {
                Some("litmus") => {
                    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                    out.insert((folder_name.clone(), name));
                }
                Some("client") => {} // Of the libraries, which embed their own.
                Some("expected") => assert!(path.with_extension("").exists(), "{path:?} has no test"),
                _ => panic!("{path:?} is neither a test nor its expected report"),
            }
        }
    }
    out
}

#[test]
fn every_file_is_embedded() {
    let table = root().join("mowgli/core/src/catalogue/table.rs");
    let mut text = String::from(
        "//! Every test of `litmus/`. Written by the test `catalogue` under `MOWGLI_BLESS=1`; do not edit.\n\n\
         use super::Entry;\n\n\
         /// The entries, by folder and name.\npub(super) const TABLE: &[Entry] = &[\n",
    );
    for (folder, name) in files() {
        let _ = writeln!(text, "    entry!(\"{folder}\", \"{name}\"),");
        let expected = root()
            .join("litmus")
            .join(&folder)
            .join(format!("{name}.litmus.expected"));
        if !expected.exists() && std::env::var_os("MOWGLI_BLESS").is_some() {
            fs::write(expected, "").unwrap();
        }
    }
    text.push_str("];\n");
    if std::env::var_os("MOWGLI_BLESS").is_some() {
        fs::write(&table, &text).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&table).unwrap(),
        text,
        "run the tests with MOWGLI_BLESS=1"
    );
}

#[test]
fn every_test_parses_cleanly_and_is_named_after_its_file() {
    let mut names = BTreeMap::new();
    for entry in catalogue::entries() {
        let parsed = parse(entry.source).unwrap_or_else(|e| panic!("{}: {e}", entry.path()));
        assert_eq!(parsed.warnings, [], "{}", entry.path());
        assert_eq!(parsed.litmus.name, entry.name);
        assert!(
            parsed.litmus.description.is_some(),
            "{} has no source",
            entry.path()
        );
        assert_eq!(
            names.insert(entry.name.to_lowercase(), entry.path()),
            None,
            "a name is used twice"
        );
    }
}

#[test]
fn every_test_prints_back_to_itself() {
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        let again =
            parse(&litmus.print()).unwrap_or_else(|e| panic!("{}: {e}\n{}", entry.path(), litmus.print()));
        assert_eq!(again.litmus, litmus);
    }
}

#[test]
fn the_papers_are_complete() {
    let count = |folder: &str| catalogue::entries().iter().filter(|e| e.folder == folder).count();
    // RDMA-TSO'24: 37 tests of appendix A (Figs. 10 to 17, A.8, A.9), four of Fig. 1, five of Fig. 3.
    assert_eq!(count("rdma-tso24"), 37 + 4 + 5);
    // Robust'25: Figs. 1a to 1i, 2a to 2e, 3a to 3c, 6a to 6c, six of section 5.1, one of appendix B.1.
    assert_eq!(count("robust25"), 9 + 5 + 3 + 3 + 6 + 1);
    // LOCO'26, without those that need a library: Figs. 2a to 2c, 3a, 3b, both of Fig. 4, 8a to 8c.
    assert_eq!(count("loco26"), 3 + 2 + 2 + 3);
}

/// Deciding a test without the outcomes that its report does not show gives the same report.
#[test]
fn deciding_a_test_reports_what_all_outcomes_report() {
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        for setting in check::settings(&litmus.program) {
            let all = check::run(&litmus.program, setting, Engine::Declarative, &Budget::default()).unwrap();
            let decided = check::decide(&litmus, setting, Engine::Declarative, &Budget::default()).unwrap();
            for index in 0..litmus.queries.len() {
                assert_eq!(
                    report::herd(&litmus, index, &decided.search),
                    report::herd(&litmus, index, &all.search),
                    "{} under {setting}",
                    litmus.query_name(index)
                );
            }
        }
    }
}
