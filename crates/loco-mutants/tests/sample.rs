//! A sample of the mutations is applied, built and found: one of each object that a single build takes, so that this stays
//! short. All of them: `cargo run --release --package loco-mutants`.

use std::path::Path;

use loco_mutants::{Mutation, Outcome, Tree, all, groups};

/// Faults that need several steps in a certain order, all in objects of which no ladder runs another one's code.
const SAMPLE: [(&str, &str); 5] = [
    ("barrier", "timeout-forgets-arrival"),
    ("ticket-lock", "abandoned-is-served"),
    ("tas-lock", "lost-means-anybody"),
    ("queue", "lost-push-is-waited-for"),
    ("msw", "put-to-first-location"),
];
/// Seconds for each: they are found in a few.
const SECONDS: u64 = 60;

#[test]
fn a_sample_of_the_mutations_is_found() {
    let all = all().unwrap_or_else(|misfit| panic!("{misfit}"));
    let sample: Vec<&Mutation> = SAMPLE
        .iter()
        .map(|&(object, name)| {
            let found = all.iter().find(|m| m.object == object && m.name == name);
            found.unwrap_or_else(|| panic!("no mutation {object}/{name}"))
        })
        .collect();
    let groups = groups(&sample);
    assert_eq!(groups.len(), 1, "one build is enough for all of them");

    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let tree = Tree::copy(&workspace, &folder).unwrap_or_else(|error| panic!("{error}"));
    let mut outcomes = Vec::new();
    for group in &groups {
        tree.check(group, SECONDS, &mut |mutation, outcome| {
            outcomes.push((mutation.name.clone(), outcome));
        })
        .unwrap_or_else(|error| panic!("{error}"));
    }
    let survived: Vec<_> = outcomes
        .iter()
        .filter(|(_, outcome)| !matches!(outcome, Outcome::Found { by, .. } if !by.is_empty()))
        .collect();
    assert!(
        outcomes.len() == SAMPLE.len() && survived.is_empty(),
        "{outcomes:?}"
    );
}
