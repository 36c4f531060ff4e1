//! Compares implementations with specifications, over all clients up to a size. The correct ones refine and
//! are locally sound. Each mistake is refuted at the default size, with a client of the size that is known to be the smallest.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use mowgli::explain::{Arrow, Drawing};
use mowgli::outcome::Budget;
use mowgli::shard::Shard;
use mowgli_libraries::client::{Library, Method};
use mowgli_libraries::enumerate::Bounds;
use mowgli_libraries::implementations::list::{self, Named};
use mowgli_libraries::judge::ITERATIONS_MAX;
use mowgli_libraries::local::LocalSoundness;
use mowgli_libraries::over_clients::{Summary, over_clients, over_families, size};
use mowgli_libraries::refine::Refinement;

fn refine(named: &Named<'_>, bounds: &Bounds) -> Summary {
    let (implementation, specification) =
        (named.implemented(ITERATIONS_MAX), named.specified(ITERATIONS_MAX));
    let refinement = Refinement {
        implementation: &implementation,
        specification: &specification,
    };
    over_clients(&refinement, bounds, Budget::default(), &AtomicU64::new(0))
}

fn locally(named: &Named<'_>, calls: usize) -> Summary {
    let rules = named.implemented(ITERATIONS_MAX);
    let specified = named.specified(ITERATIONS_MAX);
    let specification = specified.libraries.get(named.implementation.library());
    let local = LocalSoundness {
        implementation: named.implementation,
        specification: specification.expect("its library is specified"),
        rules: &rules,
        executions_max: 20_000,
    };
    over_clients(
        &local,
        &named.local_bounds(calls),
        Budget::default(),
        &AtomicU64::new(0),
    )
}

#[test]
fn correct_implementations_are_locally_sound() {
    for named in list::ALL.iter().filter(|n| n.is_sound()) {
        let summary = locally(named, 2);
        let why = summary
            .local_failure
            .as_ref()
            .map(|f| (f.client.print(), f.why.clone()));
        assert_eq!(why, None, "{}", named.name);
        assert_eq!(
            summary.complete, summary.clients,
            "{}: {:?}",
            named.name, summary.limit
        );
    }
}

/// Judges the clients of the default size until one refutes, as `mowgli refine NAME` does, and prints how long that takes.
fn by_default(named: &Named<'_>) -> Summary {
    let begun = Instant::now();
    let (implementation, specification) =
        (named.implemented(ITERATIONS_MAX), named.specified(ITERATIONS_MAX));
    let refinement = Refinement {
        implementation: &implementation,
        specification: &specification,
    };
    let families = named.families(named.calls());
    let (whole, budget) = (Shard::WHOLE, Budget::default());
    let summary = over_families(&refinement, &families, whole, budget, &AtomicU64::new(0));
    println!(
        "{}: {} clients, {:?}",
        named.name,
        summary.clients,
        begun.elapsed()
    );
    summary
}

#[test]
fn the_default_size_refutes_every_mistake_with_its_smallest_client() {
    let mut wrong = Vec::new();
    for named in list::ALL.iter().filter(|n| !n.is_sound()) {
        let summary = by_default(named);
        let found = summary.failure.map(|f| size(&f.client));
        if found != named.refuted_with {
            wrong.push(format!("{}: {found:?}, not {:?}", named.name, named.refuted_with));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_default_size_refutes_no_correct_implementation() {
    for named in list::ALL.iter().filter(|n| n.is_sound()) {
        let summary = by_default(named);
        assert_eq!(summary.failure, None, "{}", named.name);
        assert!(
            summary.clients > 100,
            "{}: {} clients",
            named.name,
            summary.clients
        );
        assert_eq!(
            summary.complete, summary.clients,
            "{}: {:?}",
            named.name, summary.limit
        );
    }
}

/// Words beside shared variables on one node: threads read what they have stored before it is placed.
#[test]
fn shared_variables_refine_beside_words() {
    let named = list::by_name("I_SV").expect("it is listed");
    let bounds = Bounds {
        libraries: vec![Library::RdmaWait, Library::SharedVariable],
        methods: vec![
            Method::Write,
            Method::Read,
            Method::Cas,
            Method::WriteSv,
            Method::ReadSv,
        ],
        nodes_max: 1,
        ..named.bounds(5)
    };
    let summary = refine(named, &bounds);
    assert_eq!(summary.failure, None);
    assert_eq!(summary.complete, summary.clients, "{:?}", summary.limit);
}

/// Local soundness finds the unsound definition of ring buffers with two calls.
#[test]
fn the_printed_definition_of_ring_buffers_is_not_locally_sound() {
    let named = list::by_name("I_RBL/paper").expect("it is listed");
    let failure = locally(named, 2).local_failure.expect("it is not sound");
    assert_eq!(size(&failure.client), 2, "{}", failure.client.print());
    // Both executions are drawn: the calls of the rings, and the events that implement them.
    let boxes = |drawn: &Drawing, word| drawn.boxes.iter().filter(|b| b.label.contains(word)).count();
    assert!(boxes(&failure.execution, "_sv(") > 2, "{:?}", failure.execution);
    let missing = failure.missing.expect("each call has an abstract one");
    assert_eq!(boxes(&missing, "_sv("), 0, "{missing:?}");
    assert!(
        boxes(&missing, "submit(") > 0 && boxes(&missing, "receive(") > 0,
        "{missing:?}"
    );
    let is_order = |arrow: &Arrow| arrow.label == "po" || arrow.label == "hb";
    assert!(missing.arrows.iter().all(is_order), "{missing:?}");
}
