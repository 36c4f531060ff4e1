//! Tests the `transfer` command as nodes of a job.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use loco_testing::launched::{alone, interrupted};

fn job(nodes: usize, args: &[&str]) -> Command {
    loco_testing::launched::job(env!("CARGO_BIN_EXE_transfer"), nodes, args)
}

fn outcome(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_command_gives_its_own_name_as_that_of_the_version() {
    loco_testing::launched::gives_its_name(env!("CARGO_BIN_EXE_transfer"), "transfer");
}

#[test]
fn a_run_without_time_and_locks_without_end_are_refused() {
    for (option, value) in [
        ("--duration", "0"),
        ("--locks", "0"),
        ("--locks", "2305843009213693951"),
    ] {
        loco_testing::launched::refuses(env!("CARGO_BIN_EXE_transfer"), &[], option, value);
    }
}

/// With few accounts and fewer locks, transfers meet: in both orders, and on one lock for both accounts.
#[test]
fn no_money_is_made_or_lost() {
    for (nodes, accounts, locks) in [(2, 10, 3), (3, 7, 7), (2, 1000, 1)] {
        let (accounts, locks) = (accounts.to_string(), locks.to_string());
        let args = [
            "--json",
            "--duration",
            "0.3",
            "--threads",
            "2",
            "--accounts",
            &accounts,
            "--locks",
            &locks,
        ];
        let outcome = outcome(&job(nodes, &args).output().unwrap());
        let held = accounts.parse::<i64>().unwrap() * 1000;
        assert_eq!(outcome["total"].as_i64(), Some(held), "{outcome}");
        assert!(outcome["transfers"].as_u64().unwrap() > 0, "{outcome}");
    }
}

#[test]
fn under_a_single_lock_no_payment_is_lost() {
    let args = ["--json", "--single-lock", "--duration", "0.3", "--threads", "2"];
    let outcome = outcome(&job(2, &args).output().unwrap());
    assert_eq!(
        outcome["total"].as_i64(),
        outcome["transfers"].as_i64(),
        "{outcome}"
    );
    assert!(outcome["transfers"].as_u64().unwrap() > 0, "{outcome}");
}

#[test]
fn a_run_ends_after_as_many_transfers_as_were_asked_for() {
    let args = [
        "--json",
        "--duration",
        "1000",
        "--threads",
        "2",
        "--transfers",
        "70",
        "--accounts",
        "5",
    ];
    let outcome = outcome(
        &job(2, &[&args[..], &["--deposit", "7"]].concat())
            .output()
            .unwrap(),
    );
    let number = |name: &str| outcome[name].as_u64().unwrap();
    assert_eq!(number("transfers") + number("short"), 2 * 2 * 70, "{outcome}");
    assert_eq!(number("total"), 5 * 7, "{outcome}");
}

/// Two ways to the rate: that which is printed, and the number of transfers by the clock of this test.
#[test]
fn the_rate_is_that_of_the_time() {
    let begin = std::time::Instant::now();
    let args = ["--json", "--duration", "0.3", "--accounts", "100"];
    let outcome = outcome(&job(2, &args).output().unwrap());
    let whole = begin.elapsed().as_secs_f64();
    let number = |name: &str| outcome[name].as_f64().unwrap();
    let seconds = (number("transfers") + number("short")) / number("transfers_per_second");
    assert!(
        (0.299..whole).contains(&seconds),
        "{outcome}: {seconds} of {whole} s"
    );
}

/// Each node fills and adds up its own accounts, so their number may be whatever the nodes have memory for. When the lowest
/// node did it alone over a network, the others gave up.
#[test]
fn millions_of_accounts_are_checked_over_a_network() {
    if let Err(error) = loco::fabric::ofi::library_version() {
        return loco_testing::skipped("OFI", error);
    }
    let program = env!("CARGO_BIN_EXE_transfer");
    let mut job = loco_testing::launched::launched_over("ofi:tcp", program, 3, program);
    job.args([
        "--json",
        "--duration",
        "0.3",
        "--accounts",
        "3000000",
        "--threads",
        "2",
    ]);
    let output = job.output().unwrap();
    assert_eq!(
        outcome(&output)["total"].as_i64(),
        Some(3_000_000_000),
        "{output:?}"
    );
}

#[test]
fn an_interrupted_run_ends_early_with_its_check() {
    let output = interrupted(job(2, &["--accounts", "100", "--duration", "1000"]), 2);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("as they should"),
        "{output:?}"
    );
}

#[test]
fn help_and_mistakes_on_the_command_line() {
    let transfer = |args: &[&str]| alone(env!("CARGO_BIN_EXE_transfer")).args(args).output().unwrap();
    let help = transfer(&["--help"]);
    assert!(help.status.success() && !help.stdout.is_empty());
    assert_eq!(transfer(&["--threads", "0"]).status.code(), Some(2));
    let alone = transfer(&[]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&alone.stderr).contains("loco run"));
    let one_account = job(2, &["--accounts", "1"]).output().unwrap();
    assert_eq!(one_account.status.code(), Some(2), "{one_account:?}");
    assert!(String::from_utf8_lossy(&one_account.stderr).contains("a whole number from 2 to"));
}

#[test]
fn nodes_with_different_options_are_told_so() {
    let said = loco_testing::launched::refuses_different(
        env!("CARGO_BIN_EXE_transfer"),
        "--duration 0.1 --accounts 10",
        "--threads",
        1,
    );
    assert!(!said.contains("atomic"), "{said}");
}
