//! The verbs fabric on the device of `loco nic`: weak outcomes that its tier allows appear, and none that the tier forbids.
//!
//! The device is of the package `loco_nic`, on which this one depends, so that cargo builds it.
//! `LOCO_LITMUS_RUNS` sets the runs of each test in a round (default 60), and `LOCO_LITMUS_ROUNDS` the most rounds (4); with
//! `--nocapture` the figures of `docs/evidence/nic.md` are printed.

#![allow(clippy::unwrap_used)]

mod support;

use loco_fabric::Tier;
use loco_litmus::test;
use loco_testing::{on_nic, skipped};
use support::{job, nothing_forbidden, plan, tests_of, until_shown, verbs};

/// The least share of the weak outcomes of a tier that must appear, in percent: some are rare.
const SHARE: usize = 60;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |number| number.parse().unwrap())
}

/// Returns the most rounds in which tests are run again that have not shown their outcome, and the runs of each test in a round.
fn rounds() -> (u64, u64) {
    (number("LOCO_LITMUS_ROUNDS", 4), number("LOCO_LITMUS_RUNS", 60))
}

/// Returns the tier of the device, if this process has it. Reports otherwise that a test is skipped.
fn tier() -> Option<Tier> {
    let Ok(name) = std::env::var("LOCO_NIC_TIER") else {
        skipped(
            "RDMA",
            "the device is not this process's; `on_every_tier` runs the test on it",
        );
        return None;
    };
    Tier::ALL.into_iter().find(|tier| tier.name() == name)
}

/// The fabric registers no memory of relaxed ordering, so that on `pcie-relaxed` it meets a device as on `ibta`.
#[test]
fn on_every_tier() {
    for tier in [Tier::Ibta, Tier::OooRw, Tier::OooAll] {
        let said = on_nic::again("on_every_tier", tier.name(), "default", &[]);
        for line in said.lines().filter(|line| line.contains("weak outcomes")) {
            println!("{line}");
        }
    }
}

#[test]
fn weak_outcomes_of_the_tier_appear_and_none_that_is_forbidden() {
    let Some(tier) = tier() else { return };
    let mut tests = tests_of(tier);
    tests.extend(test::load(&["rdma-tso24".to_owned()]).unwrap().tests);
    let nodes = |round| verbs(1 + (round % 2) as usize, None);
    let found = until_shown(nodes, &tests, tier, rounds());
    assert!(found.percent() >= SHARE, "{tier}: not seen: {:?}", found.unseen);
}

#[test]
fn the_rest_of_the_catalogue_and_random_programs_show_nothing_forbidden() {
    let Some(_) = tier() else { return };
    let mut tests = test::load(&["rmw".to_owned()]).unwrap().tests;
    tests.extend(test::random(40, 7));
    let kept = job(verbs(2, None), &tests, &plan(20, 3));
    nothing_forbidden(&kept.records);
    assert!(kept.records.len() > 40, "{}", kept.records.len());
}
