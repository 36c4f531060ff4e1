//! How often fabrics show what RDMA-TSO'24 Fig. 18 counts, and how much of what is allowed each strategy of stress shows.
//!
//! `LOCO_LITMUS_RUNS` sets the runs of each test (default 100), `LOCO_LITMUS_ROUNDS` the rounds in which strategies are
//! compared (default 1), each with its own seeds; with `--nocapture` the tables of `docs/fabrics.md` are printed.
//! Nothing forbidden may be seen.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use loco_litmus::table::Table;
use loco_litmus::{Plan, Record, Strategy, Test, test};
use support::{deferred, job, plain, shm};

/// The tests of Fig. 18, with the question that is about the weak outcome. Those of ST ask about the outcome of the
/// program order, too; the weak one is that in which the later operation comes first.
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
    let tests = test::load(&names).unwrap().tests;
    let columns = [
        job(shm(2, None), &tests, &plan(Strategy::Auto, "shm")),
        job(
            shm(2, Some(deferred(3))),
            &tests,
            &plan(Strategy::Auto, "shm, deferred NIC"),
        ),
        job(plain(2), &tests, &plan(Strategy::None, "verbs, software NIC")),
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

/// Returns the median, and the least and the most.
fn spread(mut values: Vec<usize>) -> String {
    values.sort_unstable();
    let [least, .., most] = values[..] else {
        return format!("{values:?}");
    };
    format!("{} ({least} to {most})", values[values.len() / 2])
}

/// Each round takes the strategies one after another, and the next one begins with another of them.
#[test]
fn strategies_compared_in_the_same_time() {
    const STRATEGIES: [Strategy; 3] = [Strategy::None, Strategy::Default, Strategy::Auto];
    let rounds = std::env::var("LOCO_LITMUS_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let mut tests: Vec<Test> = test::load(&["rdma-tso24".to_owned(), "rmw".to_owned()])
        .unwrap()
        .tests;
    tests.extend(test::random(40, 1));
    let mut last = Vec::new();
    for fabric in ["shm", "shm, deferred NIC"] {
        let mut seen = [const { Vec::new() }; 3];
        let mut seconds = [0.0; 3];
        for round in 0..rounds {
            last.clear();
            for turn in 0..3 {
                let which = (turn + round) % 3;
                let nic = match fabric {
                    "shm" => None,
                    _ => Some(deferred(4 + round as u64)),
                };
                let plan = Plan {
                    // The time decides, and not the runs.
                    time: Some(Duration::from_micros(100 * runs())),
                    runs: u64::MAX,
                    seed: round as u64 + 1,
                    ..plan(STRATEGIES[which].clone(), fabric)
                };
                let kept = without_violations(job(shm(2, nic), &tests, &plan).records);
                seen[which].push(kept.iter().map(|record| record.allowed().1).sum::<usize>());
                seconds[which] += kept.iter().map(|record| record.seconds).sum::<f64>();
                last.extend(kept);
            }
        }
        let totals = seen.each_ref().map(|seen| seen.iter().sum::<usize>());
        for ((strategy, seen), seconds) in STRATEGIES.iter().zip(seen).zip(seconds) {
            println!("{fabric}, {strategy}: {} in {seconds:.1} s", spread(seen));
        }
        // A search that took its time from every test would see less than half of what is seen without it.
        assert!(2 * totals[2] > totals[0], "{fabric}: {totals:?}");
        print!("{}", Table::new(&last));
    }
}
