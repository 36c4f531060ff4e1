//! Towers: implementations on one another (LOCO'26 Fig. 1), and Theorem 3.14, by which locally sound implementations are sound.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

use mowgli::model::Tier;
use mowgli_libraries::catalogue;
use mowgli_libraries::client::{self, Library, Setting};
use mowgli_libraries::enumerate::for_each_client;
use mowgli_libraries::event::Event;
use mowgli_libraries::implementation::Implementation;
use mowgli_libraries::implementations::list::{self, Named};
use mowgli_libraries::judge::{ITERATIONS_MAX, Under, outcomes_under};
use mowgli_libraries::local::LocalSoundness;
use mowgli_libraries::outcome::Budget;
use mowgli_libraries::over_clients::{Summary, over_clients};
use mowgli_libraries::plain::runs;
use mowgli_libraries::refine::Refinement;
use mowgli_libraries::tower::Tower;

#[test]
fn towers_are_read_and_printed() {
    let tower: Tower = "I_W+I_RBL+I_SV".parse().unwrap();
    assert_eq!(tower.to_string(), "I_RBL+I_SV+I_W");
    assert_eq!(tower.single(), None);
    let names = |t: Tower| {
        t.rules(1)
            .unwrap()
            .implementations
            .iter()
            .map(|i| i.name().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(tower), ["I_RBL", "I_SV", "I_W"]);
    assert_eq!(
        "weak-ring+I_SV".parse::<Tower>().unwrap().to_string(),
        "I_SV+weak-ring"
    );
    assert_eq!("I_SV+spec".parse::<Tower>().unwrap().to_string(), "I_SV");
    for setting in Setting::ALL {
        let tower: Tower = setting.name().parse().unwrap();
        assert_eq!(
            (tower.single(), tower.to_string().as_str()),
            (Some(setting), setting.name())
        );
    }
    for wrong in [
        "I_SV+I_SV",
        "weak-ring+paper-ring",
        "shipped+I_SV",
        "I_SV+shipped",
        "I_SV+nothing",
        "",
    ] {
        assert!(wrong.parse::<Tower>().is_err(), "{wrong}");
    }
    let under: Under = "I_RBL+I_SV+I_W+ooo-rw".parse().unwrap();
    assert_eq!(
        (under.tier, under.to_string().as_str()),
        (Tier::OooRw, "I_RBL+I_SV+I_W+ooo-rw")
    );
    assert_eq!("I_RBL+I_SV".parse::<Under>().unwrap().tier, Tier::Ibta);
}

/// On the catalogue, a tower has only outcomes that the specifications allow.
#[test]
fn towers_refine_on_the_catalogue() {
    let mut compared = 0;
    for (name, text) in catalogue::CLIENTS {
        let client = client::parse(text).unwrap().client;
        let allowed = outcomes_under(&client, Setting::Spec, Budget::default()).unwrap();
        for tower in ["I_RBL+I_BAL+I_SV", "I_SV+I_W", "I_RBL+I_BAL+I_MSV+I_MSW+I_SV+I_W"] {
            let budget = Budget {
                states_max: Some(20_000),
                ..Budget::default()
            };
            let tower: Tower = tower.parse().unwrap();
            let found = outcomes_under(&client, tower, budget).unwrap();
            let beyond = found.outcomes.difference(&allowed.outcomes).next();
            assert!(beyond.is_none() || !allowed.is_complete(), "{name} under {tower}");
            compared += usize::from(found.is_complete());
        }
    }
    assert!(compared > 60, "{compared}");
}

fn refine(named: &Named<'_>, calls: usize) -> Summary {
    let refinement = Refinement {
        implementation: &named.implemented(ITERATIONS_MAX),
        specification: &named.specified(ITERATIONS_MAX),
    };
    over_clients(
        &refinement,
        &named.bounds(calls),
        Budget::default(),
        &AtomicU64::new(0),
    )
}

fn locally(named: &Named<'_>, calls: usize) -> Summary {
    let rules = named.implemented(ITERATIONS_MAX);
    let specified = named.specified(ITERATIONS_MAX);
    let local = LocalSoundness {
        implementation: named.implementation,
        specification: specified.libraries.get(named.implementation.library()).unwrap(),
        rules: &rules,
        executions_max: 1_000_000,
    };
    over_clients(
        &local,
        &named.local_bounds(calls),
        Budget::default(),
        &AtomicU64::new(0),
    )
}

/// Each implementation over all those that are below it, against the specification of the uppermost. A mistake below shows above.
#[test]
fn towers_refine_and_mistakes_below_show_above() {
    let tower = |names: &[&'static str], calls| {
        let parts: Vec<&dyn Implementation> = names
            .iter()
            .map(|n| list::by_name(n).unwrap_or_else(|| panic!("{n}")).implementation)
            .collect();
        let named = Named {
            name: names[0],
            about: "",
            implementation: parts[0],
            below: &parts[1..],
            setting: Setting::Spec,
            refuted_with: None,
        };
        refine(&named, calls)
    };
    for (names, calls) in [
        (&["I_RBL", "I_SV", "I_W"][..], 2),
        (&["I_BAL", "I_SV", "I_W"], 3),
        (&["I_SV", "I_W"], 3),
        (&["I_MSW", "I_W"], 3),
        (&["I_RBL", "I_SV"], 3),
        (&["I_MSV", "I_MSW", "I_W"], 2),
        (&["I_MSV", "I_MSW"], 3),
    ] {
        let found = tower(names, calls);
        assert_eq!(found.failure.map(|f| f.client.print()), None, "{names:?}");
        assert!(
            found.clients > 10 && found.complete == found.clients,
            "{names:?}: {:?}",
            found.limit
        );
    }
    for (names, calls) in [
        // A ring that does not wait for its head's last broadcast because the wait below it polls nothing.
        (&["I_BAL", "I_SV/fence-without-wait"][..], 4),
        (&["I_SV", "I_W/no-poll"], 4),
    ] {
        assert!(tower(names, calls).failure.is_some(), "{names:?}");
    }
}

/// Returns the settings whose specifications of a library differ.
fn specifications(library: Library) -> &'static [Setting] {
    match library {
        Library::Barrier => &[Setting::Spec, Setting::TransitiveBarrier],
        Library::RingBuffer => &[Setting::Spec, Setting::WeakRing, Setting::PaperRing],
        _ => &[Setting::Spec],
    }
}

/// Returns whether Theorem 3.14 is about an implementation. It is not about those of RDMA^WAIT, since RDMA^TSO is no library (F.3).
fn is_subject(named: &Named<'_>) -> bool {
    named.implementation.library() != Library::RdmaWait
}

/// LOCO'26 Theorem 3.14: where local soundness (Def. 3.13) holds on all clients of a size, soundness (Def. 3.10) holds on them, for every
/// implementation, with mistakes and without, and every specification of its library.
#[test]
fn local_soundness_implies_soundness() {
    const CALLS: usize = 3;
    let mut tally = [0; 4];
    for named in list::ALL.iter().filter(|n| is_subject(n)) {
        for &setting in specifications(named.implementation.library()) {
            let pair = Named {
                setting,
                ..named.clone()
            };
            let local = locally(&pair, CALLS);
            let is_local = local.local_failure.is_none();
            assert!(
                !is_local || local.complete == local.clients,
                "{} {setting}: {:?}",
                named.name,
                local.limit
            );
            let sound = refine(&pair, CALLS);
            let is_sound = sound.failure.is_none();
            assert!(
                !is_sound || sound.complete == sound.clients,
                "{} {setting}: {:?}",
                named.name,
                sound.limit
            );
            assert!(
                !is_local || is_sound,
                "{} is locally sound against {setting} and is not sound: {}",
                named.name,
                sound.failure.map(|f| f.client.print()).unwrap_or_default()
            );
            tally[2 * usize::from(is_local) + usize::from(is_sound)] += 1;
        }
    }
    println!("neither, sound only, local only, both: {tally:?}");
    assert!(
        tally[0] >= 5 && tally[1] >= 5 && tally[2] == 0 && tally[3] >= 10,
        "{tally:?}"
    );
}

/// The same from the other side: an implementation that some client of a size refutes is not locally sound on the clients of that size.
#[test]
fn what_is_refuted_is_not_locally_sound() {
    for named in list::ALL.iter().filter(|n| !n.is_sound() && is_subject(n)) {
        let calls = named.refuted_with.unwrap();
        let local = locally(named, calls);
        assert!(local.local_failure.is_some(), "{} with {calls} calls", named.name);
    }
}

/// LOCO'26 Def. E.1 and Lemma E.2: what a client does on an implementation is a wide abstraction of what it does on the specification. The
/// function `f` maps an event to the call that it serves.
#[test]
fn runs_on_an_implementation_are_wide_abstractions() {
    let mut runs_seen = 0;
    for named in list::ALL.iter().filter(|n| n.is_sound()) {
        let (rules, library) = (named.implemented(ITERATIONS_MAX), named.implementation.library());
        let flow = for_each_client(&named.bounds(2), &mut |client| {
            for run in runs(&client, &rules, Budget::default()).runs.iter().flatten() {
                runs_seen += 1;
                let of = |call: usize| run.events.iter().filter(move |e| usize::from(e.serves) == call);
                let what = || format!("{}\n{}{run:?}", named.name, client.print());
                for (at, call) in run.calls.iter().enumerate() {
                    // E' = f(E), and other calls are kept as they are.
                    let events: Vec<_> = of(at).collect();
                    assert!(!events.is_empty(), "{}", what());
                    if call.method.library() != library {
                        assert_eq!(events, [call], "{}", what());
                    }
                }
                // RDMA^TSO shares the methods of RDMA^WAIT, so only other implementations have no call to their own library.
                let own = |e: &Event| library != Library::RdmaWait && e.method.library() == library;
                assert!(!run.events.iter().any(own), "{}", what());
                // f(po) is within po', and calls in po' are served by events in po.
                let serves: Vec<u16> = run.events.iter().map(|e| e.serves).collect();
                assert!(
                    serves.is_sorted() && serves.len() >= run.calls.len(),
                    "{}",
                    what()
                );
            }
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
    }
    assert!(runs_seen > 1_000, "{runs_seen}");
}
