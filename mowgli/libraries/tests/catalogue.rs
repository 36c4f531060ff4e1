//! Checks the clients of `litmus/clients`: every stated verdict holds, and every report equals its golden
//! file.
//!
//! `MOWGLI_BLESS=1 cargo test -p mowgli-libraries --test catalogue` rewrites the golden files.

use std::fs;
use std::path::PathBuf;

use mowgli::outcome::Budget;
use mowgli_libraries::client::{Client, Setting, parse};
use mowgli_libraries::judge;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../litmus/clients")
}

fn clients() -> Vec<(PathBuf, Client)> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder()).expect("the catalogue is there") {
        let path = entry.expect("its entries can be read").path();
        if path.extension().is_some_and(|e| e == "client") {
            let source = fs::read_to_string(&path).expect("clients are text");
            let parsed = parse(&source).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert!(
                parsed.warnings.is_empty(),
                "{}: {:?}",
                path.display(),
                parsed.warnings
            );
            out.push((path, parsed.client));
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(out.len() >= 20, "{} clients", out.len());
    out
}

/// Returns the settings that a client states verdicts for, and the specification.
fn settings(client: &Client) -> Vec<Setting> {
    let mut out: Vec<Setting> = client
        .queries
        .iter()
        .flat_map(|q| q.expected.keys().copied())
        .collect();
    out.push(Setting::Spec);
    out.sort_unstable();
    out.dedup();
    out
}

#[test]
fn stated_verdicts_hold_and_reports_are_the_golden_ones() {
    let bless = std::env::var_os("MOWGLI_BLESS").is_some();
    let mut wrong = Vec::new();
    for (path, client) in clients() {
        let name = path
            .file_stem()
            .expect("clients have names")
            .to_string_lossy()
            .into_owned();
        assert_eq!(name, client.name, "a client's file has its name");
        let mut reports = Vec::new();
        for setting in settings(&client) {
            let Some(found) = judge::outcomes_under(&client, setting, Budget::default()) else {
                continue;
            };
            for (at, query) in client.queries.iter().enumerate() {
                let verdict = judge::verdict(&client, &query.condition.formula, &found);
                let stated = query.expected.get(&setting).copied();
                if stated.is_some_and(|s| !verdict.is_some_and(|v| judge::agrees(s, v))) {
                    wrong.push(format!(
                        "{} under {setting}: stated {stated:?}, found {verdict:?}",
                        client.query_name(at)
                    ));
                }
            }
            reports.push(judge::report(&client, setting, &found));
        }
        let report = reports.join("\n");
        let golden = path.with_extension("client.expected");
        if bless {
            fs::write(&golden, &report).expect("golden files can be written");
        } else if fs::read_to_string(&golden).ok().as_deref() != Some(report.as_str()) {
            wrong.push(format!(
                "{}: the report differs from {}:\n{report}",
                client.name,
                golden.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_client_is_built_in() {
    let mut found: Vec<String> = clients().into_iter().map(|(_, client)| client.name).collect();
    found.sort_unstable();
    let built_in: Vec<&str> = mowgli_libraries::catalogue::CLIENTS
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(found, built_in, "list them in catalogue.rs, in this order");
}

#[test]
fn the_catalogue_is_as_it_prints() {
    for (path, client) in clients() {
        let again = parse(&client.print())
            .expect("a printed client can be read")
            .client;
        assert_eq!(again, client, "{}", path.display());
    }
}
