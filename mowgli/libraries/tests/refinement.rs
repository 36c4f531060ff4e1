//! Compares implementations with specifications, over all clients up to a size. The correct ones refine and
//! are locally sound. Each mistake is refuted with a client of the size that is known to be the smallest.

use std::sync::atomic::AtomicU64;

use mowgli::explain::{Arrow, Drawing};
use mowgli::outcome::Budget;
use mowgli_libraries::enumerate::Bounds;
use mowgli_libraries::implementations::list::{self, Named};
use mowgli_libraries::judge::ITERATIONS_MAX;
use mowgli_libraries::local::LocalSoundness;
use mowgli_libraries::over_clients::{Summary, over_clients, size};
use mowgli_libraries::refine::Refinement;

fn refine(named: &Named, bounds: &Bounds) -> Summary {
    let (implementation, specification) =
        (named.implemented(ITERATIONS_MAX), named.specified(ITERATIONS_MAX));
    let refinement = Refinement {
        implementation: &implementation,
        specification: &specification,
    };
    over_clients(&refinement, bounds, Budget::default(), &AtomicU64::new(0))
}

fn locally(named: &Named, calls: usize) -> Summary {
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
fn correct_implementations_refine_their_specifications() {
    for named in list::ALL.iter().filter(|n| n.sound) {
        let summary = refine(named, &named.bounds(3));
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

#[test]
fn correct_implementations_are_locally_sound() {
    for named in list::ALL.iter().filter(|n| n.sound) {
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

/// The sizes of `traps-framework.md` 13 to 15, in calls.
const SMALLEST: &[(&str, usize)] = &[
    ("I_W/one-poll", 5),
    ("I_W/first-node-only", 4),
    ("I_W/no-poll", 4),
    ("I_SV/fence-without-wait", 4),
    ("I_SV/fence-waits-first", 4),
    ("I_SV/fence-by-puts", 4),
    ("I_SV/fence-leaves-out", 4),
    ("I_SV/wait-for-other", 4),
    ("I_SV/bcast-leaves-out", 5),
    ("I_BAL/no-fence", 4),
    ("I_BAL/fence-after-counter", 5),
    ("I_BAL/fence-leaves-out-own", 4),
    ("I_BAL/fence-own-only", 5),
    ("I_BAL/no-loop", 2),
    ("I_BAL/first-loop-only", 3),
    ("I_BAL/at-least", 2),
    ("I_BAL/participants", 5),
    ("I_RBL/no-wait", 4),
    ("I_RBL/wait-after-write", 4),
    ("I_RBL/head-first", 2),
    ("I_RBL/data-not-sent", 2),
    ("I_RBL/emptiness-not-checked", 1),
    ("I_RBL/acknowledge-first", 3),
    ("I_RBL/no-room-check", 3),
    ("I_RBL/room-off-by-one", 3),
    ("I_MSW/no-check", 2),
    ("I_MSW/hash-of-first-word", 2),
    ("I_MSW/hash-is-sum", 3),
];

#[test]
fn mistakes_are_refuted_with_their_smallest_client() {
    let mut wrong = Vec::new();
    for &(name, calls) in SMALLEST {
        let named = list::by_name(name).unwrap_or_else(|| panic!("there is {name}"));
        let summary = refine(named, &named.bounds(calls));
        let found = summary.failure.map(|f| size(&f.client));
        if found != Some(calls) {
            wrong.push(format!("{name}: {found:?}, not {calls}"));
        }
    }
    let listed = |n: &&Named| SMALLEST.iter().any(|(name, _)| *name == n.name);
    let others: Vec<_> = list::ALL
        .iter()
        .filter(|n| !n.sound && !listed(n))
        .map(|n| n.name)
        .collect();
    assert_eq!(
        others,
        ["I_RBL/paper"],
        "which needs five calls of two libraries: `RING-own` in the catalogue"
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
