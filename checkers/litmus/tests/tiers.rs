//! Networks of every tier, played: the deferred card of shared memory plays each, and the software NIC under verbs those of its
//! kind. What they show is allowed by the tier's model, the weak outcomes that the tier is about do appear, and an order that
//! is asked for and not bought is found.
//!
//! `LOCO_LITMUS_RUNS` sets the runs of each test in a round (default 400); with `--nocapture` the figures of
//! `docs/evidence/fabrics.md` are printed.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use loco_fabric::Tier;
use loco_litmus::oracle::{on, usual};
use loco_litmus::{Test, test};
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_test_networks::deferred::{Discipline, Nic};
use mowgli::model::Tier as ModelTier;
use support::{
    allowed, deferred, is_seen, job, nothing_forbidden, on_device, ordering, plan, shm, shows, tests_of,
    until_shown,
};

/// The most times that tests are run again until they show what they must.
const ROUNDS: u64 = 4000;

fn runs() -> u64 {
    std::env::var("LOCO_LITMUS_RUNS").map_or(400, |runs| runs.parse().unwrap())
}

/// Every weak outcome of a tier appears, and nothing that its model forbids.
#[test]
fn the_deferred_card_of_a_tier_shows_what_the_tier_allows_and_nothing_else() {
    for tier in Tier::ALL {
        let card = |round| shm(1 + (round % 2) as usize, Some(deferred(round).tier(tier)));
        let found = until_shown(card, &tests_of(tier), tier, (ROUNDS, runs()));
        assert!(found.unseen.is_empty(), "{tier}: {:?}", found.unseen);
    }
}

/// Random programs and the rest of the catalogue on every tier.
#[test]
fn the_deferred_card_of_a_tier_shows_nothing_forbidden_by_other_tests() {
    let mut tests = test::load(&["rdma-tso24".to_owned(), "rmw".to_owned(), "loco26".to_owned()])
        .unwrap()
        .tests;
    tests.extend(test::random(60, 7));
    for (seed, tier) in (1..).zip(Tier::ALL) {
        let kept = job(shm(2, Some(deferred(seed).tier(tier))), &tests, &plan(50, seed));
        nothing_forbidden(&kept.records);
        assert!(kept.records.len() > 100);
    }
}

/// Tests in which a tier forbids the outcome because of a request for strong order.
fn strong_tests(tier: Tier) -> Vec<Test> {
    let tests = tests_of(tier);
    let forbidden = allowed(&tests, tier);
    let asks = |test: &&Test| test.litmus.print().contains("strong ") && !forbidden.contains(&test.name);
    tests.iter().filter(asks).cloned().collect()
}

/// A card that ignores requests is found by every test in which the request forbids the outcome.
#[test]
fn a_card_that_ignores_requests_for_strong_order_is_found() {
    for tier in [Tier::OooRw, Tier::OooAll, Tier::PcieRelaxed, Tier::Unordered] {
        let mut discipline = Discipline::of(tier);
        discipline.strong = false;
        let card = |seed| Nic {
            delay_max: std::time::Duration::ZERO,
            discipline: discipline.clone(),
            ..Nic::deferred(seed)
        };
        let tests = strong_tests(tier);
        assert!(tests.len() >= 3, "{tier}");
        let mut unseen: BTreeSet<_> = tests.iter().map(|test| test.name.clone()).collect();
        // Without its request, the test is one of those whose outcome the tier allows, unless something else forbids it.
        let weak = without_requests(&tests, tier);
        unseen.retain(|name| weak.contains(name) && shows(tier, name));
        assert!(!unseen.is_empty(), "{tier}");
        for round in 0..ROUNDS {
            let these: Vec<Test> = tests
                .iter()
                .filter(|test| unseen.contains(&test.name))
                .cloned()
                .collect();
            if these.is_empty() {
                break;
            }
            let kept = job(shm(1, Some(card(round))), &these, &plan(runs(), round + 1));
            let found = |name: &String| kept.records.iter().any(|r| r.test == *name && r.is_violated());
            unseen.retain(|name| !found(name));
        }
        assert!(unseen.is_empty(), "{tier}: not found by {unseen:?}");
    }
}

/// Returns those tests whose outcome the tier would allow without their requests.
fn without_requests(tests: &[Test], tier: Tier) -> BTreeSet<String> {
    let stripped = tests.iter().map(|test| {
        let text = test.litmus.print().replace("strong ", "");
        let litmus = mowgli::litmus::parse(&text).unwrap().litmus;
        let mut stripped = Test::new(litmus, "stripped");
        stripped.name.clone_from(&test.name);
        stripped
    });
    allowed(&stripped.collect::<Vec<_>>(), tier)
}

/// Verbs on devices of every tier: what is asked for is bought, and nothing forbidden is seen. Without the purchases, because
/// a setting says that the device orders more than it does, it is.
#[test]
fn verbs_buys_what_is_asked_for_and_a_purchase_left_out_is_found() {
    // A process has one NIC, so that each tier has a process, which runs this test again.
    let tiers = [Tier::OooRw, Tier::OooAll, Tier::PcieRelaxed];
    let Ok(name) = std::env::var("LOCO_LITMUS_NIC") else {
        let this = "verbs_buys_what_is_asked_for_and_a_purchase_left_out_is_found";
        for tier in tiers {
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", this]).env("LOCO_LITMUS_NIC", tier.name());
            let output = again.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{tier}: {}: {said}", output.status);
            assert!(said.contains("1 passed"), "{tier}: {said}");
        }
        return;
    };
    let tier = tiers.into_iter().find(|tier| tier.name() == name).unwrap();
    let device = |known| {
        let limits = Limits {
            known,
            relaxed_memory: tier == Tier::PcieRelaxed,
            ..Limits::default()
        };
        AlteredDevice::on(tier, 3, limits)
    };
    let tests = tests_of(tier);
    for (nodes, order) in [(1, None), (2, None), (2, Some(tier))] {
        let nodes = on_device(nodes, device(Some(tier)), order);
        let kept = job(nodes, &tests, &plan(runs(), 3));
        for record in &kept.records {
            assert!(!record.is_violated(), "{tier}: {}", record.histogram().unwrap());
            assert_eq!(record.hung, None, "{}", record.test);
        }
    }
    // `ibta` buys nothing. What is not bought is seen by tests of strong order.
    let strong = without_requests(&strong_tests(tier), tier);
    let mut these: Vec<Test> = tests
        .into_iter()
        .filter(|test| strong.contains(&test.name))
        .collect();
    // A device is stronger than its tier allows in some places.
    these.retain(|test| test.name.starts_with("MP+puts") || test.name.starts_with("CoWW"));
    let mut seen = BTreeSet::new();
    for round in 0..ROUNDS {
        these.retain(|test| !seen.contains(&test.name));
        if these.is_empty() {
            break;
        }
        // A setting may not claim more order than is known of a device, so that the device must be unknown.
        let nodes = on_device(1, device(None), Some(Tier::Ibta));
        let kept = job(nodes, &these, &plan(runs(), round));
        seen.extend(kept.records.iter().filter(|r| is_seen(r)).map(|r| r.test.clone()));
    }
    let missed: Vec<_> = these.iter().map(|test| &test.name).collect();
    assert!(missed.is_empty(), "{tier}: not found by {missed:?}");
    assert!(!seen.is_empty(), "{tier}");
}

#[test]
fn every_tier_of_a_fabric_is_one_of_the_models() {
    for (fabric, model) in Tier::ALL.into_iter().zip(ModelTier::ALL) {
        assert_eq!(fabric.name(), model.name());
    }
    let program = &ordering()[0].litmus.program;
    assert_eq!(on(ModelTier::OooRw, usual(program)).tier(), ModelTier::OooRw);
}
