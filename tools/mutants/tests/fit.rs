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

/// A find text that ends within a comment leaves the rest of the comment behind as code. The compiler says so only in a run of the
/// mutation itself.
#[test]
fn every_mutated_file_is_still_rust() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mutations = all().unwrap_or_else(|error| panic!("{error}"));
    let broken: Vec<String> = mutations
        .iter()
        .filter(|mutation| mutation.file.ends_with(".rs"))
        .filter_map(|mutation| {
            let text = mutation.shipped(&root).ok()?;
            let error = syn::parse_file(&mutation.apply(&text).ok()?).err()?;
            Some(format!("{}/{}: {error}", mutation.object, mutation.name))
        })
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn names_are_unique() {
    let mutations = all().unwrap_or_else(|error| panic!("{error}"));
    let names: BTreeSet<_> = mutations.iter().map(|m| (&m.object, &m.name)).collect();
    assert_eq!(names.len(), mutations.len());
}
