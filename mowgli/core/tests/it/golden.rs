//! Every test of the catalogue against its `.litmus.expected`: the report under each model over the papers' network that applies, and
//! one line for each model with its verdicts on every tier, by both engines, which must agree. `MOWGLI_BLESS=1` rewrites the files.

use std::fmt::Write as _;
use std::path::Path;

use mowgli::catalogue::{self, Entry};
use mowgli::check::{self, Engine, expected, judge, run, settings, tiered_settings};
use mowgli::litmus::{Litmus, Setting, Verdict};
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::outcome::{Budget, Search};
use mowgli::report;

/// Runs both engines, which must be complete and agree, and returns their answer.
fn search(litmus: &Litmus, setting: Setting) -> Search {
    let answer = run(&litmus.program, setting, Engine::Both, &Budget::default()).unwrap();
    assert_eq!(
        answer.disagreement, None,
        "{} under {setting}: the engines disagree",
        litmus.name
    );
    assert!(answer.search.is_complete(), "{} under {setting}", litmus.name);
    answer.search
}

fn golden(entry: &Entry) -> String {
    let litmus = entry.parse().unwrap();
    let mut out = String::new();
    for setting in settings(&litmus.program) {
        let search = search(&litmus, setting);
        let _ = writeln!(out, "Model {setting}");
        for index in 0..litmus.queries.len() {
            out.push_str(&report::herd(&litmus, index, &search));
        }
        out.push('\n');
    }
    out.push_str(&tiers(&litmus));
    out
}

/// Lists the verdicts on every tier: a line for each model and condition, with the number of states behind each verdict.
fn tiers(litmus: &Litmus) -> String {
    let tiered = tiered_settings(&litmus.program);
    let mut out = String::new();
    if !litmus.program.has_remote_operations() || tiered.is_empty() {
        return out;
    }
    out.push_str("Tiers\n");
    for base in Model::ROBUSTNESS {
        for rmw in RmwAtomicity::ALL {
            let on = |tier| base.on(tier).map(|model| Setting { model, rmw });
            let settings = Tier::ALL
                .into_iter()
                .filter_map(on)
                .filter(|s| match s.model.tier() {
                    Tier::Ibta => settings(&litmus.program).contains(s),
                    _ => tiered.contains(s),
                });
            let found: Vec<(Tier, Search)> = settings.map(|s| (s.model.tier(), search(litmus, s))).collect();
            if found.is_empty() {
                continue;
            }
            for index in 0..litmus.queries.len() {
                let verdict = |(tier, search): &(Tier, Search)| {
                    let judgement = judge(litmus, index, search);
                    let verdict = judgement.verdict().map_or("vacuous", Verdict::keyword);
                    format!("{tier} {verdict} {}", judgement.positive + judgement.negative)
                };
                let verdicts: Vec<String> = found.iter().map(verdict).collect();
                let model = Setting { model: base, rmw };
                let _ = writeln!(
                    out,
                    "{model} {}: {}",
                    litmus.query_name(index),
                    verdicts.join(", ")
                );
            }
        }
    }
    out
}

#[test]
fn reports_are_as_written_beside_the_tests() {
    let mut changed = Vec::new();
    for entry in catalogue::entries() {
        let text = golden(entry);
        if text == entry.expected {
            continue;
        }
        if std::env::var_os("MOWGLI_BLESS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(entry.path() + ".expected");
            std::fs::write(path, text).unwrap();
        } else {
            changed.push(format!("{}:\n{text}", entry.path()));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn verdicts_are_as_the_tests_state() {
    let mut stated = 0;
    for entry in catalogue::entries() {
        let litmus = entry.parse().unwrap();
        for (index, query) in litmus.queries.iter().enumerate() {
            for (&setting, &verdict) in &query.expected {
                assert_eq!(
                    check::applicable(&litmus.program, setting.model),
                    Ok(()),
                    "{}",
                    entry.path()
                );
                let judgement = judge(&litmus, index, &search(&litmus, setting));
                let name = litmus.query_name(index);
                assert_eq!(
                    judgement.meets(verdict),
                    Some(true),
                    "{name} under {setting} is not {verdict}"
                );
                assert_eq!(expected(&litmus.program, query, setting), Some(verdict));
                stated += 1;
            }
        }
    }
    assert!(stated > 200, "{stated} verdicts are stated");
}

#[test]
fn every_query_states_a_verdict() {
    for entry in catalogue::entries() {
        for (index, query) in entry.parse().unwrap().queries.iter().enumerate() {
            assert!(
                !query.expected.is_empty(),
                "{} condition {}",
                entry.path(),
                index + 1
            );
        }
    }
}
