//! Processes use the objects at the same time, as `loco stress` lets them, and what they saw is linearizable: also when one
//! of them is killed while it holds a lock, inside an insert, inside a pop.

use std::process::Command;

/// Runs it; the line of JSON.
fn stress(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_") && name != "LOCO_FABRIC") {
        command.env_remove(name);
    }
    let fabric = std::env::var("LOCO_FABRIC").unwrap_or_else(|_| "shm".to_owned());
    let output = command
        .args(["stress", "--json", "--timeout", "120", "--fabric", &fabric])
        .args(arguments)
        .output()
        .expect("the command starts");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert!(line.contains(r#""verdict":"ok""#), "{arguments:?}: {line}");
    line
}

/// The number after `"name":`.
fn number(line: &str, name: &str) -> u64 {
    let (_, rest) = line.split_once(&format!(r#""{name}":"#)).expect("it is there");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

fn between_processes(object: &str, ops: &str) {
    for nodes in ["2", "3", "4"] {
        let line = stress(&[object, "--nodes", nodes, "--threads", "2", "--ops", ops]);
        assert_eq!(number(&line, "open"), 0, "{line}");
    }
}

#[test]
fn atomic_variable() {
    between_processes("atomic", "10000");
}

/// No update is lost, and who waits is overtaken a bounded number of times: a node that has drawn its ticket, by each other
/// node once, and by the threads of that node as often as they may hand over. Before that the scheduler has its
/// way with a thread that has asked already, which the middle one has not felt.
#[test]
fn ticket_lock() {
    for nodes in ["2", "3", "4"] {
        let line = stress(&["ticket-lock", "--nodes", nodes, "--threads", "2", "--ops", "6000"]);
        assert_eq!(number(&line, "open"), 0, "{line}");
        let others = nodes.parse::<u64>().expect("a number") - 1;
        // Twice: the node's own other thread may have its turn in between.
        let bound = 2 * others * (1 + 4);
        assert!(number(&line, "p50") <= bound, "{line}");
    }
}

#[test]
fn tas_lock() {
    between_processes("tas-lock", "6000");
}

#[test]
fn queue() {
    between_processes("queue", "10000");
}

#[test]
fn kv() {
    between_processes("kv", "10000");
    // So few keys that every slot is used again all the time.
    stress(&[
        "kv", "--nodes", "3", "--keys", "2", "--ops", "10000", "--seed", "2",
    ]);
}

/// The last of three nodes is killed; the others end in time, and the history with the victim's last calls done or not is
/// linearizable. Again with other seeds until it was killed where it should be.
fn killed(object: &str, was_in: &str, ops: u32, more: &[&str]) {
    let ops = ops.to_string();
    for seed in 1..=15 {
        let seed = seed.to_string();
        let arguments = [
            object, "--nodes", "3", "--kill", "20", "--ops", &ops, "--seed", &seed,
        ];
        let line = stress(&[&arguments[..], more].concat());
        assert!(number(&line, "open") > 0, "{line}");
        let (_, calls) = line.split_once(r#""victim_was_in":"#).expect("it is there");
        if calls.contains(was_in) {
            return;
        }
    }
    panic!("{object}: the victim was never in {was_in}");
}

/// While it holds the lock, under either policy.
fn killed_with(lock: &str) {
    for on_loss in ["poison", "recover"] {
        killed(lock, "the critical section", 40_000, &["--on-loss", on_loss]);
    }
}

#[test]
fn killed_with_a_ticket_lock() {
    killed_with("ticket-lock");
}

#[test]
fn killed_with_a_tas_lock() {
    killed_with("tas-lock");
}

#[test]
fn killed_inside_a_pop() {
    killed("queue", "Pop", 40_000, &[]);
}

#[test]
fn killed_inside_an_insert() {
    killed("kv", "Insert", 20_000, &[]);
}
