//! The tests of `litmus/field` name the public threads that they come from and state a verdict for every tier, and the tables of
//! `docs/field.md` are made from them. `MOWGLI_BLESS=1` rewrites the tables.
//!
//! A comment after the header of such a test has lines `key: text`, which go on until the next key. A bug has the keys `kind`, `thread`
//! (the address, then the claim in our words; once or more), `symptom`, `reason` and `repair`; a repair has `repairs` and `reason`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mowgli::catalogue;
use mowgli::check;
use mowgli::litmus::{Litmus, Setting, Verdict};
use mowgli::model::{Model, RmwAtomicity, Tier};

/// The kinds of bugs, with the headings of their tables, in the order of the page.
const KINDS: [(&str, &str); 7] = [
    ("flag", "Data, and then a flag"),
    ("flush", "Complete, and told by another way"),
    ("queue pairs", "Several queue pairs and nodes"),
    ("gets", "Gets and fences"),
    ("one word", "One word, and atomics"),
    ("source", "Sources"),
    ("relaxed", "Relaxed ordering"),
];

/// The lines before and after the tables of the page.
const MARKS: [&str; 2] = [
    "<!-- tables: `MOWGLI_BLESS=1 cargo test -p mowgli --test it field` writes them anew -->\n",
    "<!-- end of the tables -->",
];

/// A test of the folder, and what its comment says.
struct Case {
    name: &'static str,
    litmus: Litmus,
    kind: Option<String>,
    /// Addresses and claims.
    threads: Vec<(String, String)>,
    symptom: Option<String>,
    reason: String,
    repair: Option<String>,
    repairs: Vec<String>,
}

/// Splits a comment into its keys and their texts, in order.
fn entries(source: &str) -> Vec<(String, String)> {
    let comment = source
        .split_once("(*")
        .and_then(|(_, rest)| rest.split_once("*)"));
    let mut out: Vec<(String, String)> = Vec::new();
    for line in comment.map_or("", |(comment, _)| comment).lines().map(str::trim) {
        let keys = ["kind", "thread", "symptom", "reason", "repair", "repairs"];
        match line.split_once(": ").filter(|(key, _)| keys.contains(key)) {
            Some((key, text)) => out.push((key.to_owned(), text.to_owned())),
            None if out.is_empty() => assert_eq!(line, "", "text before the first key"),
            None => {
                let text = &mut out.last_mut().unwrap().1;
                *text = format!("{text} {line}").trim().to_owned();
            }
        }
    }
    out
}

fn cases() -> Vec<Case> {
    let of_field = catalogue::entries().iter().filter(|e| e.folder == "field");
    of_field
        .map(|entry| {
            let mut case = Case {
                name: entry.name,
                litmus: entry.parse().unwrap(),
                kind: None,
                threads: Vec::new(),
                symptom: None,
                reason: String::new(),
                repair: None,
                repairs: Vec::new(),
            };
            for (key, text) in entries(entry.source) {
                match key.as_str() {
                    "kind" => case.kind = Some(text),
                    "thread" => {
                        let (address, claim) = text.split_once(' ').expect("an address and a claim");
                        case.threads.push((address.to_owned(), claim.to_owned()));
                    }
                    "symptom" => case.symptom = Some(text),
                    "reason" => case.reason = text,
                    "repair" => case.repair = Some(text).filter(|t| t != "none is needed"),
                    "repairs" => case.repairs = text.split(", ").map(str::to_owned).collect(),
                    _ => unreachable!("{key}"),
                }
            }
            case
        })
        .collect()
}

/// Returns whether an outcome that the test asks about may happen on a tier, for each condition; `None` if the test has no meaning there.
fn may_happen(case: &Case, tier: Tier) -> Option<Vec<bool>> {
    let model = Model::RdmaTso.on(tier).unwrap();
    check::applicable(&case.litmus.program, model).ok()?;
    let setting = Setting {
        model,
        rmw: RmwAtomicity::Hca,
    };
    let stated = case
        .litmus
        .queries
        .iter()
        .map(|query| match query.expected.get(&setting) {
            Some(Verdict::Forbidden) => false,
            Some(Verdict::Allowed | Verdict::Required) => true,
            None => panic!("{} states no verdict for {setting}", case.name),
        });
    Some(stated.collect())
}

/// Returns the tiers on which an outcome may happen in spite of the repair.
fn left_open(bug: &Case, repair: &Case) -> Vec<&'static str> {
    let may = |case: &Case, tier| may_happen(case, tier).is_some_and(|v| v.contains(&true));
    let open = Tier::ALL.into_iter().filter(|&t| may(bug, t) && may(repair, t));
    open.map(Tier::name).collect()
}

/// Shortens the address of a thread, as in `owner/name#1`.
fn short(address: &str) -> String {
    let name = address
        .strip_prefix("https://github.com/")
        .expect("a thread of GitHub");
    name.replace("/issues/", "#").replace("/pull/", "#")
}

fn tables(cases: &[Case]) -> String {
    let by_name: BTreeMap<&str, &Case> = cases.iter().map(|c| (c.name, c)).collect();
    let tiers = Tier::ALL.map(|t| format!("`{t}`")).join(" | ");
    let mut out = String::new();
    for (kind, heading) in KINDS {
        let bugs: Vec<&Case> = cases.iter().filter(|c| c.kind.as_deref() == Some(kind)).collect();
        if bugs.is_empty() {
            continue;
        }
        let _ = write!(
            out,
            "\n### {heading}\n\n| symptom | threads | what the network may do | {tiers} | repair | test |\n{}\n",
            "|---".repeat(10) + "|"
        );
        for bug in bugs {
            let threads = bug
                .threads
                .iter()
                .map(|(address, _)| format!("[{}]({address})", short(address)));
            let verdict = |tier| match may_happen(bug, tier) {
                None => "-".to_owned(),
                Some(all) if all.iter().all(|may| *may == all[0]) => {
                    ["no", "may"][usize::from(all[0])].to_owned()
                }
                Some(all) => all
                    .iter()
                    .map(|may| ["no", "may"][usize::from(*may)])
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            let repair = bug.repair.as_deref().map_or("none is needed".to_owned(), |name| {
                let open = left_open(bug, by_name[name]);
                let but = if open.is_empty() {
                    String::new()
                } else {
                    format!(", but on {}", open.join(", "))
                };
                format!("`{name}`{but}")
            });
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {repair} | `{}` |",
                bug.symptom.as_deref().unwrap(),
                threads.collect::<Vec<_>>().join(", "),
                bug.reason,
                Tier::ALL.map(verdict).join(" | "),
                bug.name
            );
        }
    }
    out.push('\n');
    out
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/field.md")
}

#[test]
fn every_test_says_what_it_comes_from() {
    let cases = cases();
    let names: BTreeSet<&str> = cases.iter().map(|c| c.name).collect();
    let mut repaired: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for case in &cases {
        assert_ne!(case.reason, "", "{} gives no reason", case.name);
        assert_eq!(case.kind.is_some(), !case.threads.is_empty(), "{}", case.name);
        assert_eq!(case.kind.is_some(), case.symptom.is_some(), "{}", case.name);
        if let Some(kind) = &case.kind {
            assert!(KINDS.iter().any(|(k, _)| k == kind), "{}: kind {kind}", case.name);
        }
        for (address, claim) in &case.threads {
            assert!(claim.ends_with(['.', '?']), "{}: {address}: {claim}", case.name);
        }
        if let Some((address, _)) = case.threads.first() {
            let description = case.litmus.description.as_deref().unwrap();
            assert!(
                description.starts_with(&short(address)),
                "{}: {description}",
                case.name
            );
        }
        if let Some(repair) = &case.repair {
            assert!(names.contains(repair.as_str()), "{} names {repair}", case.name);
            repaired.entry(repair).or_default().insert(case.name);
        }
    }
    for case in &cases {
        let stated: BTreeSet<&str> = case.repairs.iter().map(String::as_str).collect();
        let named = repaired.get(case.name).cloned().unwrap_or_default();
        assert_eq!(
            stated, named,
            "{}: `repairs` and the `repair` of others",
            case.name
        );
        assert!(
            !case.threads.is_empty() || !named.is_empty(),
            "{} has no thread",
            case.name
        );
    }
    let threads: BTreeSet<&str> = cases
        .iter()
        .flat_map(|c| &c.threads)
        .map(|(address, _)| address.as_str())
        .collect();
    let count: usize = cases.iter().map(|c| c.threads.len()).sum();
    assert_eq!(threads.len(), count, "a thread stands in two tests");
    assert!(threads.len() >= 50, "{} threads", threads.len());
}

/// A bug can happen somewhere and its repair mends it somewhere; what needs no repair happens nowhere.
#[test]
fn repairs_repair() {
    let cases = cases();
    for bug in cases.iter().filter(|c| c.kind.is_some()) {
        let may = |tier| may_happen(bug, tier).is_some_and(|v| v.contains(&true));
        let broken: Vec<&str> = Tier::ALL
            .into_iter()
            .filter(|&t| may(t))
            .map(Tier::name)
            .collect();
        let Some(name) = &bug.repair else {
            assert!(broken.is_empty(), "{} needs a repair on {broken:?}", bug.name);
            continue;
        };
        let repair = cases.iter().find(|c| c.name == name).unwrap();
        assert!(!broken.is_empty(), "{} needs no repair", bug.name);
        assert!(
            left_open(bug, repair).len() < broken.len(),
            "{name} mends nothing"
        );
    }
}

#[test]
fn the_tables_of_the_page_are_those_of_the_tests() {
    let text = std::fs::read_to_string(page()).unwrap();
    let (before, rest) = text
        .split_once(MARKS[0])
        .expect("the page has the mark of its tables");
    let (_, after) = rest
        .split_once(MARKS[1])
        .expect("the page has the mark of their end");
    let wanted = [before, MARKS[0], &tables(&cases()), MARKS[1], after].concat();
    if std::env::var_os("MOWGLI_BLESS").is_some() {
        std::fs::write(page(), &wanted).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(page()).unwrap(),
        wanted,
        "run the tests with MOWGLI_BLESS=1"
    );
}

/// Returns whether a word is the name of a test of the folder, as in `ucx-7215` or `ucx-7215+rfence`.
fn is_name(word: &str) -> bool {
    let stem = word.split_once('+').map_or(word, |(stem, _)| stem);
    stem.rsplit_once('-')
        .is_some_and(|(_, number)| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

#[test]
fn the_page_names_tests_that_exist() {
    let text = std::fs::read_to_string(page()).unwrap();
    let names: BTreeSet<&str> = cases().iter().map(|c| c.name).collect();
    let mut named = 0;
    for word in text.split('`').skip(1).step_by(2).filter(|word| is_name(word)) {
        assert!(
            names.contains(word),
            "the page names {word}, which is no test of litmus/field"
        );
        named += 1;
    }
    assert!(named > 50, "{named}");
}
