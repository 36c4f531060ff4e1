//! Checks the demands of LOCO'26 Def. 3.5 on every library, on random executions: a library that breaks them makes the
//! theorems void.
//!
//! *Monotonicity:* an execution that is consistent with some `hb` is so with a smaller one. *Decomposability*, in the form
//! that holds of RDMA^WAIT and that Theorem E.3 needs: the calls on some of the objects are consistent with a
//! synchronisation order that is contained in the whole one. (Literally, with the restricted order itself, it fails: `so`
//! equals a set with `[Inst]; ib`, and a path of `ib` may pass through calls that are left out.)

use std::collections::BTreeSet;

use mowgli::generate::Random;
use mowgli::model::Tier;
use mowgli::outcome::Budget;
use mowgli_libraries::client::{Client, Library, Setting};
use mowgli_libraries::enumerate::{Bounds, RandomClients};
use mowgli_libraries::event::{Event, Loc};
use mowgli_libraries::execution::{Edge, Flow, Graph, State};
use mowgli_libraries::implementation::Rules;
use mowgli_libraries::libraries::libraries;
use mowgli_libraries::library::Specification;
use mowgli_libraries::network::Network;
use mowgli_libraries::order::Order;
use mowgli_libraries::plain::runs;

const CASES: &[(Library, Setting)] = &[
    (Library::RdmaWait, Setting::Spec),
    (Library::SharedVariable, Setting::Spec),
    (Library::Barrier, Setting::Spec),
    (Library::Barrier, Setting::TransitiveBarrier),
    (Library::RingBuffer, Setting::Spec),
    (Library::RingBuffer, Setting::PaperRing),
    (Library::RingBuffer, Setting::WeakRing),
    (Library::MixedSize, Setting::Spec),
    (Library::Owned, Setting::Spec),
    (Library::Sst, Setting::Spec),
    (Library::Atomic, Setting::Spec),
    (Library::Lock, Setting::Spec),
    (Library::Queue, Setting::Spec),
    (Library::Store, Setting::Spec),
    (Library::Fence, Setting::Spec),
];

/// Executions of a library that are looked at.
const EXECUTIONS: u32 = 100;
/// Clients that are drawn to find them.
const DRAWS_MAX: u32 = 2_000;

/// A check of a consistent execution: its graph, `so` and `hb`.
type Visit<'a> = dyn FnMut(&Client, &dyn Specification, &Graph<'_>, &[Edge], &Order, &mut Random) + 'a;

/// Consistent executions of random clients of a library: their graph, `so` and `hb`.
fn executions(library: Library, setting: Setting, visit: &mut Visit<'_>) {
    let mut random = Random::new(35);
    let mut seen = 0;
    for _ in 0..DRAWS_MAX {
        if seen >= EXECUTIONS {
            return;
        }
        let bounds = Bounds {
            objects_max: 2,
            threads_max: 3,
            results: false,
            ..Bounds::of(&[library], 4)
        };
        let client = RandomClients::new(&bounds).draw(&mut |n| random.below(n));
        let rules = Rules {
            libraries: libraries(setting),
            implementations: Vec::new(),
            iterations_max: 1,
        };
        let specification = rules.libraries.get(library).expect("it is specified");
        let plain = runs(&client, &rules, Budget::default());
        if plain.runs.iter().any(Vec::is_empty) {
            continue;
        }
        for _ in 0..4 {
            let events: Vec<Event> = plain
                .runs
                .iter()
                .flat_map(|runs| runs[random.below(runs.len())].events.iter().cloned())
                .collect();
            let Some(g) = graph(&client, specification, events) else {
                continue;
            };
            let mut state = State::new(&g, Budget::default());
            state.total = true;
            let mut found = None;
            specification.order(&g, &mut state, &mut |state| {
                if !specification.accepts(&g, &state.hb) {
                    return Flow::Continue;
                }
                found = Some((state.edges.clone(), state.hb.clone()));
                Flow::Stop
            });
            if let Some((so, hb)) = found {
                seen += 1;
                visit(&client, specification, &g, &so, &hb, &mut random);
            }
        }
    }
    panic!("{}: {seen} executions say little", library.name());
}

fn graph<'c>(client: &'c Client, specification: &dyn Specification, events: Vec<Event>) -> Option<Graph<'c>> {
    let mut refused = false;
    let g = Graph::new(client, Network::of(Tier::Ibta), events, |e| {
        let stamps = specification.stamps(client, e);
        refused |= stamps.is_none();
        stamps.unwrap_or_default()
    });
    g.ok().filter(|_| !refused)
}

#[test]
fn libraries_are_monotone() {
    for &(library, setting) in CASES {
        executions(
            library,
            setting,
            &mut |client, specification, g, _, hb, random| {
                let mut larger = hb.clone();
                for _ in 0..8 {
                    let n = larger.len();
                    let before = larger.clone();
                    // Refused where it would be a cycle.
                    larger.add(random.below(n), random.below(n));
                    let consistent = specification.accepts(g, &larger);
                    if consistent {
                        assert!(specification.accepts(g, &before), "{}", client.print());
                    }
                }
            },
        );
    }
}

#[test]
fn libraries_are_decomposable() {
    for &(library, setting) in CASES {
        executions(
            library,
            setting,
            &mut |client, specification, g, so, _, random| {
                let kept: BTreeSet<Loc> = (0..client.objects.len())
                    .filter(|_| random.below(2) == 0)
                    .map(|o| Loc::of(client, mowgli_libraries::client::ObjectId(o as u16)))
                    .collect();
                // Calls without a location go to either part.
                let stays: Vec<bool> = g
                    .events
                    .iter()
                    .map(|e| {
                        let locs = specification.locations(e);
                        match (locs.is_empty(), locs.iter().filter(|l| kept.contains(l)).count()) {
                            (true, _) => Some(random.below(2) == 0),
                            (false, 0) => Some(false),
                            (false, n) => (n == locs.len()).then_some(true),
                        }
                    })
                    .collect::<Option<_>>()
                    // A call on objects of both parts: no decomposition.
                    .unwrap_or_default();
                if stays.is_empty() {
                    return;
                }
                let events = g
                    .events
                    .iter()
                    .zip(&stays)
                    .filter(|(_, s)| **s)
                    .map(|(e, _)| e.clone())
                    .collect();
                let part = graph(client, specification, events).expect("a part of a graph is one");
                let place: Vec<Option<usize>> = renumbered(g, &stays);
                let mut within = vec![0u128; part.subevents.len()];
                for edge in so {
                    if let (Some(a), Some(b)) = (place[edge.from], place[edge.to]) {
                        within[a] |= 1 << b;
                    }
                }
                let mut state = State::new(&part, Budget::default());
                state.total = true;
                state.within = Some(within);
                let mut consistent = false;
                specification.order(&part, &mut state, &mut |_| {
                    consistent = true;
                    Flow::Stop
                });
                assert!(consistent, "{} {stays:?}\n{:?}", client.print(), g.events);
            },
        );
    }
}

/// By subevent of the whole: its number in the part.
fn renumbered(g: &Graph<'_>, stays: &[bool]) -> Vec<Option<usize>> {
    let mut next = 0;
    g.subevents
        .iter()
        .map(|s| {
            stays[s.event].then(|| {
                next += 1;
                next - 1
            })
        })
        .collect()
}
