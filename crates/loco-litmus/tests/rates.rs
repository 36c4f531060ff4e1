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

/// The tests of Fig. 18.
const FIG_18: [&str; 19] = [
    "ST2", "ST4", "ST5", "ST6", "ST8", "MP3", "MP3bis", "MP4", "SB3", "SB3bis", "LB2", "LB3", "IRIW1",
    "2+2W3", "2+2W3bis", "QP1", "RFF1", "GFP2", "GFG",
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
    let names = FIG_18.map(str::to_owned);
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
    for (row, name) in FIG_18.iter().enumerate() {
        let rates = columns.iter().map(|records| {
            let record = &records[row];
            let (positive, negative) = record.witnesses(&record.litmus().unwrap())[0];
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
        for strategy in [Strategy::None, Strategy::Default, Strategy::Auto] {
            let plan = Plan {
                // The time decides, and not the runs.
                time: Some(Duration::from_micros(100 * runs())),
                runs: u64::MAX,
                ..plan(strategy, fabric)
            };
            records.extend(without_violations(
                job(shm(2, nic.clone()), &tests, &plan).records,
            ));
        }
    }
    print!("{}", Table::new(&records));
}
