//! How often fabrics show what RDMA-TSO'24 Fig. 18 counts, and how much of what is allowed each strategy of stress shows.
//!
//! `LOCO_LITMUS_RUNS` sets the runs of each test (default 100); with `--nocapture` the tables of `docs/fabrics.md` are printed. Nothing
//! forbidden may be seen.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use loco_litmus::table::Table;
use loco_litmus::{Plan, Record, Strategy, Test, test};
use loco_shm::Nic;
use support::{deferred, job, shm, soft};

/// The tests of Fig. 18, with the question that is about the weak outcome. Those of ST ask about the outcome of the program order, too;
/// the weak one is that in which the later operation comes first.
const FIG_18: [(&str, usize); 19] = [
    ("ST2", 1),
    ("ST4", 1),
    ("ST5", 0),
    ("ST6", 1),
    ("ST8", 1),
    ("MP3", 0),
    ("MP3bis", 0),
    ("MP4", 0),
    ("SB3", 0),
    ("SB3bis", 0),
    ("LB2", 0),
    ("LB3", 0),
    ("IRIW1", 0),
    ("2+2W3", 0),
    ("2+2W3bis", 0),
    ("QP1", 0),
    ("RFF1", 0),
    ("GFP2", 0),
    ("GFG", 0),
];

fn runs() -> u64 {
    std::env::var("LOCO_LITMUS_RUNS").map_or(100, |runs| runs.parse().unwrap())
}

fn plan(stress: Strategy, fabric: &str) -> Plan {
    Plan {
        runs: runs(),
        batch: 50,
        stress,
        fabric: fabric.to_owned(),
        ..Plan::default()
    }
}

fn without_violations(records: Vec<Record>) -> Vec<Record> {
    for record in &records {
        assert!(
            !record.is_violated() && record.hung.is_none(),
            "{}",
            record.histogram().unwrap()
        );
    }
    records
}

#[test]
fn fig_18_on_the_fabrics_of_every_machine() {
    let names = FIG_18.map(|(name, _)| name.to_owned());
    let tests = test::load(&names).unwrap();
    let columns = [
        job(shm(2, Nic::Synchronous), &tests, &plan(Strategy::Auto, "shm")),
        job(
            shm(2, deferred(3)),
            &tests,
            &plan(Strategy::Auto, "shm, deferred NIC"),
        ),
        job(soft(2), &tests, &plan(Strategy::None, "verbs, software device")),
    ];
    let columns = columns.map(|kept| without_violations(kept.records));
    for (row, (name, question)) in FIG_18.into_iter().enumerate() {
        let rates = columns.iter().map(|records| {
            let record = &records[row];
            let (positive, negative) = record.witnesses(&record.litmus().unwrap())[question];
            format!(
                "{:.2}%",
                100.0 * positive as f64 / (positive + negative).max(1) as f64
            )
        });
        println!("| {name} | {} |", rates.collect::<Vec<_>>().join(" | "));
    }
}

#[test]
fn strategies_compared_in_the_same_time() {
    let mut tests: Vec<Test> = test::load(&["rdma-tso24".to_owned(), "rmw".to_owned()]).unwrap();
    tests.extend(test::random(40, 1));
    let mut records = Vec::new();
    for (nic, fabric) in [(Nic::Synchronous, "shm"), (deferred(4), "shm, deferred NIC")] {
        let mut shares = Vec::new();
        for strategy in [Strategy::None, Strategy::Default, Strategy::Auto] {
            let plan = Plan {
                // The time decides, and not the runs.
                time: Some(Duration::from_micros(100 * runs())),
                runs: u64::MAX,
                ..plan(strategy, fabric)
            };
            let kept = job(shm(2, nic.clone()), &tests, &plan).records;
            let seen = kept.iter().map(|record| record.allowed().1);
            shares.push(seen.sum::<usize>());
            records.extend(without_violations(kept));
        }
        // A search that took its time from every test would see less than half of what is seen without it.
        assert!(2 * shares[2] > shares[0], "{fabric}: {shares:?}");
    }
    print!("{}", Table::new(&records));
}
