//! Checks the figures that commands print against the clock of this test and against one another. Nothing here says how fast
//! something is: a part of a run cannot take longer than the whole, whatever the machine.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use loco_testing::launched::alone;
use serde_json::Value;

/// Runs a command that prints a line of JSON a result. Returns the lines, and the seconds that all of it took.
fn records(args: &[&str]) -> (Vec<Value>, f64) {
    let mut command = alone(env!("CARGO_BIN_EXE_loco"));
    let begin = Instant::now();
    let output = command.args(args).env("LOCO_FABRIC", "shm").output().unwrap();
    let whole = begin.elapsed().as_secs_f64();
    assert!(output.status.success(), "{args:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    (
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        whole,
    )
}

fn figure(record: &Value, name: &str) -> f64 {
    record["results"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name}: {record}"))
}

/// Checks the times of single operations, of which one thread made `count`.
fn latencies_fit(record: &Value, count: f64, whole: f64) {
    let at = |name: &str| figure(record, &format!("latency_ns_{name}"));
    let names = ["min", "p50", "p90", "p99", "p999", "max"];
    assert!(
        names.windows(2).all(|pair| at(pair[0]) <= at(pair[1])),
        "{record}"
    );
    assert!(at("min") <= at("mean") && at("mean") <= at("max"), "{record}");
    assert!(at("min") > 0.0, "{record}");
    assert!(at("mean") * count <= whole * 1e9, "{record}: more than {whole} s");
    // Half of the operations take the middle time at least.
    assert!(
        at("p50") * count / 2.0 <= whole * 1e9,
        "{record}: more than {whole} s"
    );
}

#[test]
fn operations_that_are_counted_take_a_part_of_the_run() {
    for (what, size) in [
        ("put", 8.0),
        ("get", 8.0),
        ("atomic", 8.0),
        ("barrier", 0.0),
        ("broadcast", 64.0),
    ] {
        let (records, whole) = records(&["bench", what, "--json", "--iters", "20000", "--warmup", "0"]);
        for record in &records {
            let rate = figure(record, "operations_per_second");
            // Each of two nodes counts its own, and they work at the same time.
            let nodes = if ["put", "get", "atomic"].contains(&what) {
                2.0
            } else {
                1.0
            };
            assert!(
                nodes * 20000.0 / rate <= nodes * whole,
                "{record}: more than {whole} s"
            );
            if size > 0.0 {
                let bytes = figure(record, "bytes_per_second");
                assert!((bytes / rate - size).abs() < 1e-6, "{record}");
            }
            latencies_fit(record, 20000.0, whole);
        }
    }
}

#[test]
fn a_way_is_half_of_the_way_to_and_fro() {
    let (records, whole) = records(&[
        "bench",
        "ping-pong",
        "--json",
        "--iters",
        "20000",
        "--warmup",
        "0",
    ]);
    let record = &records[0];
    // Messages both ways are counted.
    assert!(
        2.0 * 20000.0 / figure(record, "operations_per_second") <= whole,
        "{record}"
    );
    assert!(figure(record, "one_way_ns") * 20000.0 <= whole * 1e9, "{record}");
    latencies_fit(record, 20000.0, whole);
}

#[test]
fn what_runs_for_a_time_is_timed_by_the_same_clock() {
    for what in ["lock", "transfer", "queue", "kv"] {
        let (records, whole) = records(&["bench", what, "--json", "--duration", "0.2"]);
        assert!(whole >= 0.2, "{records:?}");
        latencies_fit(&records[0], 20_000.0, whole);
    }
}

#[test]
fn the_demonstration_takes_the_time_that_its_figures_add_up_to() {
    let (records, whole) = records(&["demo", "--json"]);
    let mut sum = 0.0;
    for record in &records {
        let operations = record["parameters"]["operations"].as_f64().unwrap();
        let time = operations / figure(record, "operations_per_second");
        let mean = figure(record, "latency_ns_mean") / 1e9;
        assert!((mean * operations - time).abs() <= time * 1e-6, "{record}");
        sum += time;
    }
    assert!(sum > 0.0 && sum <= whole, "{records:?}: {sum} of {whole} s");
}

#[test]
fn stress_counts_the_calls_that_were_asked_for() {
    let (records, whole) = records(&["stress", "atomic", "--json", "--ops", "600"]);
    let record = &records[0];
    // Three nodes of two threads share them evenly.
    assert_eq!(figure(record, "calls"), 600.0, "{record}");
    assert!(
        figure(record, "run_s") + figure(record, "check_s") <= whole,
        "{record}: more than {whole} s"
    );
}
