//! Clients on shipped objects: those of the catalogue end as the specifications allow, small ones of every object are
//! explored completely, and a comparison that should fail does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use loco_check::Object;
use loco_check::clients::{Campaign, Clients, Effort, Form, Summary, again, check, promised};
use loco_sim::{FailureKind, Strategy};
use mowgli_libraries::catalogue::{CLIENTS, find};
use mowgli_libraries::client::{Client, Library, Setting, Verdict, parse};
use mowgli_libraries::judge;
use mowgli_libraries::outcome::Budget;

fn client(text: &str) -> Client {
    match parse(text) {
        Ok(parsed) => parsed.client,
        Err(error) => panic!("{error}\n{text}"),
    }
}

fn built_in(name: &str) -> Client {
    client(find(name).unwrap_or_else(|| panic!("{name} is built in")))
}

fn effort() -> Effort {
    Effort {
        workers: 2,
        ..Effort::default()
    }
}

fn campaign(object: Object, size: &str) -> Summary {
    let campaign = Campaign {
        clients: Clients::new(object, &size.parse().expect("a size")),
        random: None,
        forms: Form::of(object),
        tier: None,
        time: Duration::from_secs(600),
        states_each: 300_000,
        otherwise: None,
        workers: 2,
        progress: Arc::new(AtomicU64::new(0)),
        cancel: Arc::new(AtomicBool::new(false)),
    };
    let summary = campaign.run().unwrap_or_else(|error| panic!("{object}: {error}"));
    if let Some(failed) = &summary.failed {
        panic!("{object}: {}\n{}", failed.client.print(), failed.failure);
    }
    summary
}

/// Clients of the catalogue that have too many executions to explore all in a test.
const LARGE: &[&str] = &["KV-delete", "KV-insert"];

#[test]
fn clients_of_the_catalogue_end_as_their_specifications_allow() {
    for (name, text) in CLIENTS.iter().filter(|(name, _)| !LARGE.contains(name)) {
        let client = client(text);
        let allowed = promised(&client, None, Budget::default());
        assert!(allowed.is_complete(), "{name}");
        let forms = match client.libraries().contains(&Library::RingBuffer) {
            true => Form::of(Object::RingBuffer),
            false => vec![Form::default()],
        };
        for form in forms {
            let checked =
                check(&client, form, Some(&allowed.outcomes), &effort()).expect("it can be explored");
            if let Some(failure) = &checked.report.failure {
                panic!("{name}: {failure}");
            }
            assert!(!checked.outcomes.is_empty(), "{name} has an outcome");
            let found = checked.as_outcomes();
            for (at, query) in client.queries.iter().enumerate() {
                let Some(&stated) = query.expected.get(&Setting::Shipped) else {
                    continue;
                };
                let verdict = judge::verdict(&client, &query.condition.formula, &found);
                assert!(
                    verdict.is_some_and(|verdict| judge::agrees(stated, verdict)),
                    "{}: stated {stated}, found {verdict:?}",
                    client.query_name(at)
                );
            }
        }
    }
}

#[test]
fn the_shipped_ring_buffer_is_the_strong_one() {
    let client = built_in("LOCO-13");
    let formula = &client.queries[0].condition.formula;
    let weak = judge::outcomes_by_specification(&client, Setting::WeakRing, Budget::default());
    assert_eq!(judge::verdict(&client, formula, &weak), Some(Verdict::Allowed));
    for form in Form::of(Object::RingBuffer) {
        let checked = check(&client, form, None, &effort()).expect("it can be explored");
        assert!(checked.is_complete(), "{:?}", checked.report.completeness);
        let found = checked.as_outcomes();
        assert_eq!(judge::verdict(&client, formula, &found), Some(Verdict::Forbidden));
    }
}

/// For each object a size that is explored completely in seconds.
#[test]
fn small_clients_of_every_object_are_explored_completely() {
    for (object, size, least) in [
        (Object::Region, "threads<=1,calls<=1", 10),
        (Object::Fence, "threads<=1,calls<=2", 10),
        (Object::SharedVar, "threads<=2,calls<=1", 20),
        (Object::OwnedVar, "threads<=2,calls<=1", 10),
        (Object::WideOwnedVar, "threads<=2,calls<=1", 10),
        (Object::Sst, "threads<=2,calls<=1", 10),
        (Object::Msw, "threads<=1,calls<=2", 10),
        (Object::Barrier, "threads<=2,calls<=1", 5),
        (Object::RingBuffer, "threads<=2,calls<=1", 10),
        (Object::Atomic, "threads<=2,calls<=1,nodes<=1", 5),
        (Object::TicketLock, "threads<=2,calls<=1,nodes<=1", 2),
        (Object::TasLock, "threads<=2,calls<=1,nodes<=1", 2),
        (Object::Queue, "threads<=1,calls<=2", 2),
        (Object::Kv, "threads<=1,calls<=1", 2),
    ] {
        let summary = campaign(object, size);
        assert!(
            summary.clients >= least,
            "{object} {size}: {} clients",
            summary.clients
        );
        assert_eq!(summary.complete, summary.clients, "{object} {size}");
        assert!(summary.seen > 0, "{object} {size}");
        assert!(!summary.unfinished, "{object} {size}");
    }
}

/// A specification that allows less than the object shows: an execution is the failure, and its schedule repeats it.
#[test]
fn an_outcome_that_is_not_allowed_is_a_failure_with_a_schedule() {
    let client = built_in("LOCO-8a");
    let allowed = promised(&client, None, Budget::default()).outcomes;
    let checked = check(&client, Form::default(), None, &effort()).expect("it can be explored");
    let seen = checked
        .outcomes
        .iter()
        .next_back()
        .expect("it has an outcome")
        .clone();
    let without: BTreeSet<_> = allowed.into_iter().filter(|outcome| *outcome != seen).collect();
    let checked = check(&client, Form::default(), Some(&without), &effort()).expect("it can be explored");
    let failure = checked.report.failure.expect("an outcome is not allowed");
    assert!(matches!(failure.kind, FailureKind::End { .. }), "{failure}");
    assert!(
        failure
            .to_string()
            .contains(&format!("does not allow {}", seen.display(&client))),
        "{failure}"
    );
    let again = again(
        &client,
        Form::default(),
        Some(&without),
        &effort(),
        &failure.schedule,
    )
    .expect("it is repeated");
    assert!(again.report.failure.is_some());
}

/// A lock that the thread does not hold is never given back: no outcome, and no claim to have seen all.
#[test]
fn a_call_that_never_returns_has_no_outcome() {
    let client = client(
        "RDMA never\n{ }\nobjects { lock l@1; }\n P0@1 ;\n a := try_lock(l) ;\n unlock(l) ;\n unlock(l) ;\n",
    );
    assert!(promised(&client, None, Budget::default()).outcomes.is_empty());
    let checked =
        check(&client, Form::default(), Some(&BTreeSet::new()), &effort()).expect("it can be explored");
    assert!(checked.report.failure.is_none());
    assert!(checked.cut && !checked.is_complete() && checked.outcomes.is_empty());
}

/// Random clients are the same ones for the same seed, and are explored by random schedules where all are too many.
#[test]
fn random_clients_are_drawn_by_their_seed() {
    let run = |seed| {
        let campaign = Campaign {
            clients: Clients::new(
                Object::OwnedVar,
                &"threads<=3,calls<=3,total<=7".parse().expect("a size"),
            ),
            random: Some((10, seed)),
            forms: Form::of(Object::OwnedVar),
            tier: None,
            time: Duration::from_secs(600),
            states_each: 20,
            otherwise: Some(Strategy::Pct {
                executions: 20,
                seed: 1,
                depth: 3,
            }),
            workers: 2,
            progress: Arc::new(AtomicU64::new(0)),
            cancel: Arc::new(AtomicBool::new(false)),
        };
        let summary = campaign.run().expect("they can be explored");
        assert!(summary.failed.is_none(), "{:?}", summary.failed);
        assert_eq!(summary.clients + summary.unknown + summary.blocked, 10);
        assert!(summary.otherwise > 0, "some client has more than 20 states");
        (summary.allowed, summary.complete)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0, "other clients have other outcomes");
}

/// A client that is under way when the time is over ends then, and does not count.
#[test]
fn the_time_of_a_campaign_ends_the_client_under_way() {
    let campaign = Campaign {
        clients: Clients::new(
            Object::Kv,
            &"threads<=3,calls<=3,total<=9".parse().expect("a size"),
        ),
        // Exploring one of them takes minutes.
        random: Some((5, 1)),
        forms: Form::of(Object::Kv),
        tier: None,
        time: Duration::from_millis(200),
        states_each: u64::MAX,
        otherwise: None,
        workers: 2,
        progress: Arc::new(AtomicU64::new(0)),
        cancel: Arc::new(AtomicBool::new(false)),
    };
    let summary = campaign.run().expect("they can be explored");
    assert!(summary.unfinished && summary.failed.is_none());
    assert_eq!(summary.clients, summary.complete);
}
