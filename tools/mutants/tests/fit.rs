//! Checks that every mutation fits the sources as they are, so that the list stays correct.

use std::collections::BTreeSet;
use std::path::Path;

use loco_mutants::all;

#[test]
fn every_mutation_fits_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mutations = all().unwrap_or_else(|error| panic!("{error}"));
    let misfits: Vec<String> = mutations
        .iter()
        .filter_map(|mutation| {
            mutation
                .shipped(&root)
                .and_then(|text| mutation.apply(&text))
                .err()
        })
        .map(|misfit| misfit.to_string())
        .collect();
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
}

#[test]
fn names_are_unique() {
    let mutations = all().unwrap_or_else(|error| panic!("{error}"));
    let names: BTreeSet<_> = mutations.iter().map(|m| (&m.object, &m.name)).collect();
    assert_eq!(names.len(), mutations.len());
}
