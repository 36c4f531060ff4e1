//! Tests what a copy of the workspace reads from the compiler and from tests.

use super::*;
use crate::all;

#[test]
fn every_mutation_of_lock_free_code_is_of_a_protocol() {
    let mutations = all().unwrap_or_else(|error| panic!("{error}"));
    let of_lock_free = mutations.iter().filter(|mutation| mutation.lock_free);
    for mutation in of_lock_free {
        let (package, _) = protocol(mutation);
        assert!(
            !package.is_empty(),
            "{}/{}: no such protocol",
            mutation.object,
            mutation.name
        );
    }
}

#[test]
fn a_livelock_is_asked_of_its_world() {
    let mutations: Vec<_> = all()
        .unwrap_or_else(|error| panic!("{error}"))
        .into_iter()
        .filter(|mutation| mutation.livelock.is_some())
        .collect();
    let first = mutations.first().expect("there are livelocks").clone();
    let world = first.livelock.unwrap_or_default();
    let tree = Tree {
        from: PathBuf::new(),
        root: PathBuf::new(),
        laid: BTreeSet::new(),
        mutations,
        apart: BTreeSet::new(),
        trial: LADDERS,
        programs: BTreeMap::new(),
    };
    let object = first.object.as_str();
    assert_eq!(tree.arguments(0, 60, None), [object, "60", "--liveness", &world]);
    assert_eq!(
        tree.arguments(0, 60, Some("--world")),
        [object, "60", "--world", &world]
    );
}

#[test]
fn the_test_that_failed_is_named() {
    let output =
        "\nrunning 3 tests\ntest a::b ... ok\ntest a::c - should panic ... FAILED\ntest a::d ... FAILED\n";
    assert_eq!(failed_test(output), "a::c");
    assert_eq!(failed_test("running 1 test\n"), "");
}

#[test]
fn programs_are_known_by_their_package() {
    for id in [
        "path+file:///w/loco/objects#loco-rdma@0.1.0",
        "path+file:///w/loco/loco-rdma#0.1.0",
    ] {
        let message = serde_json::json!({ "executable": "/w/p", "package_id": id });
        assert_eq!(
            program_of(&message),
            Some(("loco-rdma".to_owned(), "/w/p".into()))
        );
    }
    assert_eq!(program_of(&serde_json::json!({ "executable": null })), None);
}
#[test]
fn the_path_of_a_module_elsewhere_is_that_of_its_file() {
    assert_eq!(plain("apps/sim/examples/../../loco/lib.rs"), "apps/loco/lib.rs");
    assert_eq!(plain("apps/loco/src/lib.rs"), "apps/loco/src/lib.rs");
}
