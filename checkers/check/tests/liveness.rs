//! Asks of small worlds of shipped objects whether every call ends in every fair execution.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco_check::{LivenessCheck, Object};
use loco_sim::Fate;

/// Checks that every call of the worlds ends, and prints how large their graphs are.
fn ends(object: Object, worlds: &[&str]) {
    let check = LivenessCheck {
        only: worlds.iter().map(|&name| name.to_owned()).collect(),
        ..LivenessCheck::new(object, Duration::from_secs(900))
    };
    let reports = check.run().unwrap();
    assert_eq!(reports.len(), worlds.len(), "{object}");
    for report in reports {
        let found = &report.found;
        println!(
            "{object} {}: {} states, {} moves, {:.2} s",
            report.world, found.states, found.moves, found.seconds
        );
        assert!(
            matches!(found.fate, Fate::Ends),
            "{object} {}: {}",
            report.world,
            found.fate
        );
    }
}

#[test]
fn calls_of_the_locks_end() {
    ends(Object::TasLock, &["two-nodes", "tries"]);
    ends(Object::TicketLock, &["two-nodes", "crash"]);
}

#[test]
fn calls_of_the_ring_buffer_end() {
    ends(Object::RingBuffer, &["stream", "crash"]);
}

#[test]
fn calls_of_the_store_end() {
    ends(Object::Kv, &["insert", "writers"]);
}
