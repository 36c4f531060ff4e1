//! The corpus of mistakes: each shows on the weakest tier that has it, and its mended form never fails.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::support::{World, compiled};

/// Seeds that a test tries. `LOCO_NIC_SEEDS` makes it more.
fn seeds() -> u64 {
    let given = std::env::var("LOCO_NIC_SEEDS").ok();
    given.map_or(2, |seeds| seeds.parse().unwrap())
}

/// Rounds of a mended form. `LOCO_NIC_ROUNDS` makes it more.
fn rounds() -> String {
    std::env::var("LOCO_NIC_ROUNDS").unwrap_or_else(|_| "2000".to_owned())
}

/// A mistake shows long before that many rounds; a machine with much else to do makes them slow.
const ROUNDS_MAX: &str = "100000";

fn run(
    program: &Path,
    tier: &'static str,
    stress: &'static str,
    seed: u64,
    form: &str,
    rounds: &str,
) -> Output {
    let world = World::new(tier, stress, seed);
    let mut command: Command = world.command(program, &[form, rounds]);
    command.output().unwrap()
}

/// Checks that a mistake shows on these tiers for every seed, and that its mended form does not fail there.
fn shows(name: &str, tiers: &[&'static str]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(name, folder.path()) else {
        return;
    };
    for &tier in tiers {
        let mut slowest = Duration::ZERO;
        for seed in 1..=seeds() {
            let start = Instant::now();
            let output = run(&program, tier, "default", seed, "mistake", ROUNDS_MAX);
            slowest = slowest.max(start.elapsed());
            assert_eq!(
                output.status.code(),
                Some(3),
                "{name} on {tier}, seed {seed}: {output:?}"
            );
        }
        println!(
            "{name} on {tier}: shows within {slowest:?} for each of {} seeds",
            seeds()
        );
        let output = run(&program, tier, "default", 1, "mended", &rounds());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{name} on {tier}, mended: {output:?}"
        );
    }
}

/// Checks that what a tier orders is not a mistake there.
fn is_none(name: &str, tier: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(name, folder.path()) else {
        return;
    };
    let output = run(&program, tier, "default", 1, "mistake", "1000");
    assert_eq!(output.status.code(), Some(0), "{name} on {tier}: {output:?}");
}

#[test]
fn a_flag_before_its_data() {
    shows("flag_before_data", &["ooo-rw", "ooo-all"]);
    is_none("flag_before_data", "ibta");
}

#[test]
fn an_atomic_as_flag() {
    shows("atomic_flag", &["ooo-all"]);
    is_none("atomic_flag", "ibta");
    is_none("atomic_flag", "ooo-rw");
}

#[test]
fn a_source_that_is_reused_early() {
    shows("source_reused", &["ibta", "ooo-rw"]);
}

#[test]
fn a_completion_taken_for_placement() {
    shows("completion_as_placement", &["ibta", "ooo-rw"]);
}

#[test]
fn a_read_of_another_queue_pair_as_flush() {
    shows("flush_by_other_qp", &["ibta"]);
}

#[test]
fn atomics_of_cpu_and_nic_on_one_word() {
    shows("mixed_atomics", &["ibta"]);
}

#[test]
fn a_lock_released_without_a_fence() {
    shows("release_without_fence", &["ibta", "ooo-all"]);
}

#[test]
fn a_torn_record_believed() {
    shows("torn_record", &["ibta", "unordered"]);
}

#[test]
fn a_receive_that_is_not_posted() {
    shows("receive_not_posted", &["ibta"]);
}

#[test]
fn an_unsignaled_queue_that_overflows() {
    shows("unsignaled_queue", &["ibta"]);
}

#[test]
fn memory_that_is_deregistered_early() {
    shows("early_deregistration", &["ibta"]);
}

#[test]
fn an_event_asked_for_too_late() {
    shows("armed_too_late", &["ibta"]);
}

#[test]
fn completed_data_in_a_region_of_relaxed_ordering() {
    shows("relaxed_region", &["pcie-relaxed"]);
    is_none("relaxed_region", "ibta");
}

/// Mistakes that need one late step, two, and the overtaking of two requests.
const OF_SEVERAL_KINDS: [(&str, &str); 4] = [
    ("completion_as_placement", "ibta"),
    ("torn_record", "ibta"),
    ("release_without_fence", "ibta"),
    ("flag_before_data", "ooo-rw"),
];

/// Checks that mistakes show, and mended forms pass, with another stress or schedule.
fn shows_with(stress: &'static str, set: (&str, &str)) {
    let folder = tempfile::tempdir().unwrap();
    for (name, tier) in OF_SEVERAL_KINDS {
        let Some(program) = compiled(name, folder.path()) else {
            return;
        };
        for (form, rounds, code) in [("mistake", ROUNDS_MAX, 3), ("mended", "1000", 0)] {
            let world = World::new(tier, stress, 1);
            let mut command = world.command(&program, &[form, rounds]);
            let output = command.env(set.0, set.1).output().unwrap();
            assert_eq!(
                output.status.code(),
                Some(code),
                "{name} on {tier}, {form}: {output:?}"
            );
        }
    }
}

#[test]
fn mistakes_show_in_the_phases_of_auto() {
    shows_with("auto", ("LOCO_NIC_SCHEDULE", "random"));
}

#[test]
fn mistakes_show_in_schedules_by_priorities() {
    shows_with("default", ("LOCO_NIC_SCHEDULE", "pct:3"));
}

#[test]
fn mistakes_show_in_schedules_of_two_delays() {
    shows_with("default", ("LOCO_NIC_SCHEDULE", "delays:2"));
}

#[test]
fn mended_forms_pass_without_stress() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "flag_before_data",
        "source_reused",
        "completion_as_placement",
        "torn_record",
    ] {
        let Some(program) = compiled(name, folder.path()) else {
            return;
        };
        let output = run(&program, "unordered", "none", 1, "mended", "500");
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
    }
}
