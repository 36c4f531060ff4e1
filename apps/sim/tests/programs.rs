//! The programs as they are: no execution fails, and calls that cannot be run here are refused.
#![allow(clippy::unwrap_used)]

use loco_programs::{NoProgram, Program, names, reads_input};
use loco_sim::{Completeness, Config, FabricKind, Faults, Strategy, World, explore};

fn words(call: &str) -> Vec<String> {
    call.split_whitespace().map(str::to_owned).collect()
}

fn read(call: &str) -> Result<Program, NoProgram> {
    Program::read(&words(call), 2, b"put a 1\nupdate a 2\nget a\ndelete a\nquit\n")
}

/// Many more run when mistakes in programs are measured; here each program has a few, on each fabric.
#[test]
fn no_execution_of_a_program_fails() {
    let executions = 100;
    for call in [
        "transfer",
        "transfer --threads 2 --accounts 2 --locks 1 --deposit 60 --transfers 1",
        "transfer --single-lock --transfers 2",
        "kv",
        "kv load --threads 2 --keys 2 --ops 1 --window 1 --locks 1",
        "kv shell",
    ] {
        let program = read(call).unwrap();
        for fabric in [FabricKind::Model, FabricKind::Shm] {
            let strategy = Strategy::Pct {
                executions,
                seed: 3,
                depth: 5,
            };
            let config = Config::default().strategy(strategy).fabric(fabric);
            let report = explore(&config, |world: &mut World| program.build(world)).unwrap();
            if let Some(failure) = report.failure {
                panic!("{call}: {failure}");
            }
            assert_eq!(report.completeness, Completeness::Random(executions), "{call}");
        }
    }
}

/// A node that is lost, or late, keeps no other from its end. Whoever ends without an error has the right result.
#[test]
fn no_execution_of_a_program_with_a_fault_fails() {
    let none = Faults {
        idle_expiries: true,
        ..Faults::default()
    };
    let (crash, suspicion, expiry) = (
        Faults { crashes: 1, ..none },
        Faults {
            suspicions: 1,
            ..none
        },
        Faults { expiries: 1, ..none },
    );
    for faults in [crash, suspicion, expiry] {
        for call in [
            "transfer --accounts 2 --locks 1 --transfers 1",
            "transfer --threads 2 --accounts 2 --locks 1 --deposit 60 --transfers 1",
            "kv load --keys 2 --ops 2 --window 1 --locks 1",
            "kv shell",
        ] {
            let program = read(call).unwrap();
            for fabric in [FabricKind::Model, FabricKind::Shm] {
                let strategy = Strategy::Pct {
                    executions: 60,
                    seed: 3,
                    depth: 5,
                };
                let config = Config {
                    faults,
                    longer_fails: true,
                    ..Config::default().strategy(strategy).fabric(fabric)
                };
                let report = explore(&config, |world: &mut World| program.build(world)).unwrap();
                if let Some(failure) = report.failure {
                    panic!("{call}, {faults}: {failure}");
                }
            }
        }
    }
}

#[test]
fn a_mistake_is_one_after_a_crash_too() {
    let program = Program::read(&words("kv shell"), 2, b"fetch a\n").unwrap();
    let config = Config {
        faults: Faults {
            crashes: 1,
            idle_expiries: true,
            ..Faults::default()
        },
        ..Config::default().strategy(Strategy::Random {
            executions: 10,
            seed: 1,
        })
    };
    let report = explore(&config, |world: &mut World| program.build(world)).unwrap();
    let failure = report.failure.unwrap().to_string();
    assert!(failure.contains("no command `fetch`"), "{failure}");
}

#[test]
fn a_program_that_would_never_end_is_refused() {
    for (call, part) in [
        ("transfer --accounts 3", "give --transfers N"),
        ("kv load --keys 2", "give --ops N"),
        ("kv load --ops 2 --snapshot file", "--snapshot use files"),
        ("transfer --transfers 0", "a whole number from 1"),
        ("transfer --transfer 1", "unexpected argument"),
    ] {
        let error = read(call).err().unwrap().to_string();
        assert!(error.contains(part), "{call}: {error}");
    }
}

#[test]
fn who_asks_for_another_program_hears_which_there_are() {
    let error = read("power").err().unwrap().to_string();
    for name in names() {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn only_the_shell_reads_its_input() {
    assert!(reads_input(&words("kv shell --slots 2")));
    assert!(!reads_input(&words("kv load --keys 2")));
    assert!(!reads_input(&words("transfer")));
}

#[test]
fn a_line_that_is_no_command_is_a_failure_with_the_answers() {
    let program = Program::read(&words("kv shell"), 1, b"fetch a\n").unwrap();
    let strategy = Strategy::Random {
        executions: 1,
        seed: 1,
    };
    let config = Config::default().strategy(strategy);
    let report = explore(&config, |world: &mut World| program.build(world)).unwrap();
    let failure = report.failure.unwrap().to_string();
    assert!(failure.contains("no command `fetch`"), "{failure}");
}
