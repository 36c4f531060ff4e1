//! The runner over the fabrics that every machine has: nodes are threads of this process.
//!
//! No fabric may show what the model forbids; tests whose outcomes are certain show exactly these; hangs and lost peers
//! are reported.

#![allow(clippy::unwrap_used)]

mod support;

use std::cell::Cell;
use std::time::Duration;

use loco_fabric::Tier;
use loco_litmus::{Listener, Plan, Record, Result, Strategy, Test, test, walk};
use support::{Kept, deferred, job, plain, shm, tcp};

fn plan(runs: u64, stress: Strategy) -> Plan {
    Plan {
        runs,
        batch: 50,
        stress,
        ..Plan::default()
    }
}

fn all_as_the_model_says(kept: &Kept, least: usize) {
    assert!(
        kept.records.len() >= least,
        "{} tests, refused: {:?}",
        kept.records.len(),
        kept.refused
    );
    for record in &kept.records {
        assert!(!record.is_violated(), "{}", record.histogram().unwrap());
        assert_eq!(record.hung, None, "{}", record.test);
        let seen: u64 = record.states.iter().map(|s| s.count).sum();
        assert_eq!(seen + record.discarded, record.runs, "{}", record.test);
    }
}

#[test]
fn the_catalogue_on_shared_memory_shows_nothing_forbidden() {
    let tests = test::load(&["catalogue".to_owned()]).unwrap().tests;
    for (nodes, strategy) in [(1, Strategy::None), (2, Strategy::Default), (3, Strategy::Auto)] {
        let kept = job(shm(nodes, None), &tests, &plan(100, strategy));
        all_as_the_model_says(&kept, 60);
    }
}

#[test]
fn the_catalogue_on_the_deferred_nic_shows_nothing_forbidden() {
    let tests = test::load(&["rdma-tso24".to_owned(), "rmw".to_owned(), "loco26".to_owned()])
        .unwrap()
        .tests;
    let kept = job(shm(2, Some(deferred(15))), &tests, &plan(50, Strategy::Default));
    all_as_the_model_says(&kept, 50);
}

/// A fabric whose memory is all of one kind cannot give a test the regions that it asks for.
#[test]
fn a_test_with_regions_of_relaxed_ordering_is_refused_where_there_are_none() {
    use loco_litmus::oracle::Theory;
    let tests = test::load(&["MP+relaxed".to_owned()]).unwrap().tests;
    let kept = job(shm(2, None), &tests, &plan(10, Strategy::None));
    assert!(kept.records.is_empty());
    let [why] = &kept.refused[..] else {
        panic!("{:?}", kept.refused)
    };
    assert!(
        why.contains("leave `relaxed` out") && why.contains("--model"),
        "{why}"
    );
    let on_relaxed = shm(2, Some(deferred(1).tier(Tier::PcieRelaxed)));
    assert_eq!(
        job(on_relaxed, &tests, &plan(10, Strategy::None)).records.len(),
        1
    );
    let judged = Plan {
        model: Some(Theory::named("rdma-tso+pcie-relaxed").unwrap()),
        ..plan(10, Strategy::None)
    };
    assert_eq!(job(shm(2, None), &tests, &judged).records.len(), 1);
}

/// Each batch is judged by the program that it ran: puts from memory flush results, inlined puts do not.
#[test]
fn the_catalogue_with_constants_in_memory_and_inlined_shows_nothing_forbidden() {
    let tests = test::load(&["catalogue".to_owned()]).unwrap().tests;
    for (seed, constant) in [(41, "constant=memory"), (42, "constant=inline")] {
        let fixed = Strategy::Fixed(constant.parse().unwrap());
        let kept = job(shm(2, Some(deferred(seed))), &tests, &plan(50, fixed));
        all_as_the_model_says(&kept, 60);
        let inlined = |record: &Record| record.states.iter().map(|s| s.inlined).sum::<u64>();
        let any = kept.records.iter().any(|record| inlined(record) > 0);
        assert_eq!(any, constant == "constant=inline");
    }
}

/// RDMA-TSO'24 appendix A.11: the outcome of GFP2 was seen with inlined puts, and its model, whose puts read, forbids it.
#[test]
fn the_outcome_of_gfp2_is_allowed_where_the_put_is_inlined() {
    let tests = test::load(&["GFP2".to_owned()]).unwrap().tests;
    let record = |constant: &str, seed: u64| {
        let stress = format!("delay=between:4,{constant}");
        let fixed = Strategy::Fixed(stress.parse().unwrap());
        let kept = job(shm(2, Some(deferred(seed))), &tests, &plan(400, fixed));
        all_as_the_model_says(&kept, 1);
        kept.records.into_iter().next().unwrap()
    };
    let weak = |record: &Record| {
        let litmus = record.litmus().unwrap();
        let wanted = &litmus.queries[0].condition.formula;
        let is_weak = |s: &&loco_litmus::State| wanted.holds(&Record::outcome(&litmus.program, s));
        record.states.iter().find(is_weak).map(|s| (s.verdict, s.count))
    };
    assert_eq!(weak(&record("constant=memory", 43)), None);
    let (verdict, seen) = weak(&record("constant=inline", 44)).unwrap();
    assert_eq!(verdict, loco_litmus::Verdict::Allowed);
    println!("seen {seen} times in 400 runs");
}

/// A state that only inlined puts allow is forbidden where a batch without them showed it.
#[test]
fn a_state_is_judged_by_the_batches_that_showed_it() {
    use loco_litmus::oracle::Oracle;
    use loco_litmus::record::Part;
    use std::collections::BTreeMap;
    let test = test::load(&["GFP2".to_owned()]).unwrap().tests.remove(0);
    let program = &test.litmus.program;
    let oracle = Oracle::new(None, loco_fabric::Atomicity::Hca);
    let (memory, inline) = (oracle.ask(program), oracle.ask(&program.inlined()));
    let only = inline.outcomes.difference(&memory.outcomes).next().unwrap();
    let one = BTreeMap::from([(only.clone(), 1)]);
    let none = BTreeMap::new();
    for (of_memory, of_inline, violated) in [(&none, &one, false), (&one, &none, true), (&one, &one, true)] {
        let parts = [(false, &memory, of_memory), (true, &inline, of_inline)];
        let parts = parts.map(|(inlined, allowed, counts)| Part {
            inlined,
            allowed,
            counts,
        });
        let record = Record::new(&test, &parts);
        assert_eq!(record.is_violated(), violated);
        let inlined: u64 = record.states.iter().map(|s| s.inlined).sum();
        assert_eq!(inlined, of_inline.len() as u64);
    }
}

#[test]
fn a_sample_on_the_software_nic_shows_nothing_forbidden() {
    let tests = test::load(&["rdma-tso24".to_owned()]).unwrap().tests;
    for strategy in [Strategy::None, Strategy::Fixed("completions=8".parse().unwrap())] {
        let kept = job(plain(2), &tests, &plan(50, strategy));
        all_as_the_model_says(&kept, 40);
    }
}

/// The nodes end one after the other, and one that is behind does not take the end of another for a loss.
#[test]
fn three_nodes_end_without_an_error() {
    let tests = test::load(&["MP1".to_owned()]).unwrap().tests;
    for _ in 0..10 {
        let kept = job(tcp(3), &tests, &plan(20, Strategy::None));
        all_as_the_model_says(&kept, 1);
    }
}

/// A strong get that moves nothing is posted as a flush, whose end tells the same.
#[test]
fn flushes_place_what_was_put() {
    let names = ["tests/flushed", "MP+put-get-put+strong-wait"].map(str::to_owned);
    let tests = test::load(&names).unwrap().tests;
    let fixed = |stress: &str| plan(200, Strategy::Fixed(stress.parse().unwrap()));
    let on_tcp = job(tcp(3), &tests, &fixed("flush=call,traffic=same:10:8"));
    all_as_the_model_says(&on_tcp, 2);
    let unordered = shm(2, Some(deferred(20).tier(Tier::Unordered)));
    let on_card = job(unordered, &tests, &fixed("flush=call"));
    all_as_the_model_says(&on_card, 2);
}

#[test]
fn random_programs_show_nothing_forbidden() {
    let tests = test::random(120, 1);
    for fabrics in [shm(2, None), shm(2, Some(deferred(16)))] {
        let kept = job(fabrics, &tests, &plan(50, Strategy::Default));
        all_as_the_model_says(&kept, 100);
    }
}

#[test]
fn the_deferred_nic_shows_weak_outcomes() {
    let mut tests = test::load(&["SB3".to_owned(), "LB3".to_owned(), "MP3".to_owned()])
        .unwrap()
        .tests;
    // How soon depends on when the processors run which thread.
    for round in 0..1000 {
        if tests.is_empty() {
            return;
        }
        let kept = job(
            shm(2, Some(deferred(17 + round))),
            &tests,
            &plan(600, Strategy::Default),
        );
        let unseen = |record: &&Record| record.witnesses(&record.litmus().unwrap())[0].0 == 0;
        let unseen: Vec<_> = kept
            .records
            .iter()
            .filter(unseen)
            .map(|r| r.test.clone())
            .collect();
        tests.retain(|test| unseen.contains(&test.name));
    }
    let unseen: Vec<_> = tests.iter().map(|test| &test.name).collect();
    assert!(unseen.is_empty(), "never seen: {unseen:?}");
}

#[test]
fn tests_with_one_outcome_show_it_each_time() {
    let text = "RDMA one\n{ x@1=7; y@2=0; z@1=0; }\n P0@1 ;\n y^2 := x ;\n z := y^2 ;\n poll(2) ;\n poll(2) ;\n a := z ;\n\nexists (0:a=7)\n";
    let tests = [Test::new(mowgli::litmus::parse(text).unwrap().litmus, "one")];
    for nodes in 1..=2 {
        for nic in [None, Some(deferred(18))] {
            let kept = job(shm(nodes, nic), &tests, &plan(100, Strategy::Default));
            let states: Vec<_> = kept.records[0]
                .states
                .iter()
                .map(|s| (s.count, &*s.state))
                .collect();
            assert_eq!(states, [(100, "0:a=7; [x]=7; [y]=7; [z]=7;")]);
        }
    }
}

#[test]
fn a_test_that_hangs_is_reported_and_the_others_go_on() {
    let vain = "RDMA vain\n{ x@2=0; }\n P0@1 | P1@2 ;\n x^2 := 1 | a := x ;\n poll(2) | ;\n poll(2) | ;\n\nexists (1:a=0)\n";
    let mut tests = vec![Test::new(mowgli::litmus::parse(vain).unwrap().litmus, "vain")];
    tests.extend(test::load(&["SB1".to_owned()]).unwrap().tests);
    let plan = Plan {
        patience: Duration::from_millis(200),
        ..plan(20, Strategy::None)
    };
    let kept = job(shm(2, None), &tests, &plan);
    assert_eq!(kept.records[0].hung.as_deref(), Some("P0"));
    assert!(kept.records[0].histogram().unwrap().contains("Hung: P0"));
    assert_eq!((kept.records[1].runs, &kept.records[1].hung), (20, &None));
}

#[test]
fn a_lost_peer_ends_the_job_with_the_name_of_the_test() {
    let tests = test::load(&["SB3".to_owned()]).unwrap().tests;
    let error = support::job_with_a_loss(shm(2, None), &tests, &plan(u64::MAX, Strategy::None));
    let text = error.to_string();
    assert!(
        text.contains("test SB3") && text.contains("node 1 is lost"),
        "{text}"
    );
}

/// Stops the job at a certain number of looks, and keeps what is handed on.
#[derive(Default)]
struct Stopping {
    looks: Cell<u32>,
    whole: Vec<Record>,
    cut: Vec<Record>,
}

impl Listener for Stopping {
    fn record(&mut self, record: Record) -> Result<()> {
        self.whole.push(record);
        Ok(())
    }

    fn cut_short(&mut self, record: Record) -> Result<()> {
        self.cut.push(record);
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.looks.get() > 12
    }
}

#[test]
fn a_stopped_job_hands_on_what_it_has_seen() {
    let tests = test::load(&["SB1".to_owned(), "SB3".to_owned(), "MP1".to_owned()])
        .unwrap()
        .tests;
    let mut seen = Stopping::default();
    let fabrics = shm(2, None);
    support::job_for(fabrics, &tests, &plan(300, Strategy::None), &mut seen);
    let made = |records: &[Record]| {
        let made = records.iter().map(|r| (r.test.clone(), r.runs));
        made.collect::<Vec<_>>()
    };
    assert_eq!(made(&seen.whole), [("SB1".to_owned(), 300)]);
    let [(test, runs)] = &made(&seen.cut)[..] else {
        panic!("one test was cut short: {:?}", made(&seen.cut));
    };
    assert!(test == "SB3" && (1..300).contains(runs), "{test}: {runs}");
}

/// Outcomes that are all seen end a test when time is the bound, and so does half of the time without a new one. What
/// is left goes to the tests after it.
#[test]
fn automatic_stress_gives_up_tests_that_can_show_nothing_new() {
    let tests = test::load(&["SB3".to_owned(), "SB1".to_owned(), "MP1".to_owned()])
        .unwrap()
        .tests;
    let plan = Plan {
        time: Some(Duration::from_millis(50)),
        ..plan(u64::MAX, Strategy::Auto)
    };
    let kept = job(shm(2, Some(deferred(19))), &tests, &plan);
    all_as_the_model_says(&kept, 3);
    for record in &kept.records {
        let (allowed, seen) = record.allowed();
        // Either everything was seen, or at least half of the time was taken.
        assert!(seen == allowed || record.seconds >= 0.025, "{record:?}");
    }
}

#[test]
fn words_can_be_out_of_every_cache() {
    let tests = test::load(&["rdma-tso24".to_owned()]).unwrap().tests;
    for stress in ["cache=flushed,pin=near", "cache=flushed,place=page,pin=far"] {
        let fixed = Strategy::Fixed(stress.parse().unwrap());
        let kept = job(shm(1, None), &tests, &plan(50, fixed));
        all_as_the_model_says(&kept, 40);
    }
}

/// Stresses tests as RDMA-TSO'24 section 5 does: by floods of the test's queue pair at a point of the test, many queue pairs beside it,
/// delays by the round trip, and full completion queues. A model allows a test the same outcomes whatever is posted beside it.
#[test]
fn the_stress_of_the_paper_shows_nothing_forbidden() {
    let tests = test::load(&["rdma-tso24".to_owned()]).unwrap().tests;
    for (stress, nic) in [
        ("traffic=within:0:7:0,delay=between:rtt", Some(deferred(17))),
        ("traffic=within:4:3:2,delay=start:rtt,completions=8", None),
        ("traffic=other:2:3:5", Some(deferred(18))),
        ("completions=6,delay=between:rtt", Some(deferred(19))),
    ] {
        let fixed = Strategy::Fixed(stress.parse().unwrap());
        let kept = job(shm(2, nic), &tests, &plan(50, fixed));
        all_as_the_model_says(&kept, 40);
    }
}

#[test]
fn random_walks_show_what_the_model_allows_and_nothing_else() {
    let mut tests = test::load(&["rdma-tso24".to_owned(), "rmw".to_owned(), "loco26".to_owned()])
        .unwrap()
        .tests;
    tests.extend(test::random(60, 3));
    let mut kept = Kept::default();
    walk::run(&tests, &plan(300, Strategy::None), &mut kept).unwrap();
    all_as_the_model_says(&kept, 100);
    let (allowed, seen) = kept
        .records
        .iter()
        .map(Record::allowed)
        .fold((0, 0), |sum, (a, s)| (sum.0 + a, sum.1 + s));
    // Blind chance sees most of it, and so both engines agree on it.
    assert!(4 * seen > 3 * allowed, "{seen} of {allowed}");
}

#[test]
fn nodes_with_different_tests_do_not_begin() {
    let error = support::job_with_other_tests(shm(2, None), &plan(1, Strategy::None));
    assert!(error.to_string().contains("other tests than node 0"), "{error}");
}
