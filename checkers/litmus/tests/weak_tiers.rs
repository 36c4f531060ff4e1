//! The libfabric fabric (`loco-ofi`) over networks of every tier, which a provider before `tcp` plays. Whatever the tier, the
//! fabric shows nothing that the tier forbids, and the weak outcomes that the tier allows do appear.
//!
//! `LOCO_LITMUS_RUNS` sets the runs of each test in a round (default 50); with `--nocapture` the figures of
//! `docs/evidence/ordering.md` are printed. Without libfabric each test says *skipped*; `LOCO_REQUIRE_OFI` makes that a failure,
//! as `test.sh` does.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use loco_fabric::{Atomicity, Tier};
use loco_litmus::{Plan, Record, Test, test};
use loco_ofi::OfiConfig;
use loco_test_networks::weak::WeakProvider;
use support::{allowed, has_libfabric, is_seen, job, nothing_forbidden_on, ofi, tests_of};

/// The most times that tests are run again until they show what they must. The rarest outcome takes some 2,000 runs, of which a round
/// has 50, so that none is missed by chance. Who misses one for another reason waits for minutes.
const ROUNDS: u64 = 4000;

fn config(seed: u64, tier: Tier, words: &str) -> OfiConfig {
    let provider = WeakProvider {
        name: words.to_owned(),
        ..WeakProvider::of_tier(seed, tier)
    };
    provider
        .config()
        .memory_limit_bytes(16 << 20)
        .huge_pages(loco_host::HugePages::Never)
}

fn plan(seed: u64) -> Plan {
    let runs = std::env::var("LOCO_LITMUS_RUNS").map_or(50, |runs| runs.parse().unwrap());
    support::plan(runs, seed)
}

fn sum(records: &[Record], of: impl Fn(&Record) -> u64) -> u64 {
    records.iter().map(of).sum()
}

/// The whole catalogue on every tier, with words by atomics and by reads and writes.
#[test]
fn the_catalogue_shows_nothing_that_the_tier_forbids() {
    if !has_libfabric() {
        return;
    }
    let rest = ["rdma-tso24", "rmw", "loco26"].map(str::to_owned);
    for (seed, tier) in (1..).zip(Tier::ALL) {
        let mut tests = tests_of(Tier::Ibta); // All memory is of one kind.
        tests.extend(test::load(&rest).unwrap().tests);
        tests.extend(test::random(40, seed));
        for words in ["weak", "verbs"] {
            let kept = job(ofi(2, &config(seed, tier, words)), &tests, &plan(seed));
            assert!(kept.records.len() > 140, "{} tests", kept.records.len());
            nothing_forbidden_on(tier, Atomicity::Hca, &kept.records);
            println!(
                "{tier}, {words}: {} tests, {} runs, {} of {} states that the fabric's tier allows seen",
                kept.records.len(),
                sum(&kept.records, |record| record.runs),
                sum(&kept.records, |record| record.allowed().1 as u64),
                sum(&kept.records, |record| record.allowed().0 as u64),
            );
        }
    }
}

/// Parts of the names of tests whose weak outcome the fabric rules out. It reads sources when it posts, and lands results, both in
/// the order of the operations. Where it buys orders, the completion of a put is that of its delivery. The tiers promise neither.
const RULED_OUT: [&str; 7] = [
    "source",
    "gets",
    "result",
    "get-rfaa",
    "rfaas-one-place",
    "poll",
    "wait",
];

/// Every weak outcome that a tier allows and that the fabric does not rule out appears.
#[test]
fn what_nobody_asks_for_is_as_weak_as_the_tier() {
    if !has_libfabric() {
        return;
    }
    for tier in Tier::ALL {
        let mut tests = tests_of(Tier::Ibta); // All memory is of one kind.
        let weak = allowed(&tests, tier);
        let rules_out = |name: &str| RULED_OUT.iter().any(|part| name.contains(part));
        tests.retain(|test| weak.contains(&test.name) && !rules_out(&test.name));
        let (all, mut runs) = (tests.len(), 0);
        for round in 0..ROUNDS {
            if tests.is_empty() {
                break;
            }
            let nodes = 1 + (round % 2) as usize;
            let kept = job(ofi(nodes, &config(round, tier, "weak")), &tests, &plan(round));
            nothing_forbidden_on(tier, Atomicity::Hca, &kept.records);
            runs += sum(&kept.records, |record| record.runs);
            let seen: BTreeSet<_> = kept
                .records
                .iter()
                .filter(|r| is_seen(r))
                .map(|r| &r.test)
                .collect();
            tests.retain(|test: &Test| !seen.contains(&test.name));
        }
        let unseen: Vec<_> = tests.iter().map(|test| test.name.as_str()).collect();
        println!(
            "{tier}: {} of {all} weak outcomes seen in {runs} runs",
            all - unseen.len()
        );
        assert_eq!(unseen, [""; 0], "{tier}");
    }
}
