//! Tests that a thread that sleeps by the [doorbell](loco_fabric::Doorbell) hears of every completion, whichever
//! thread polls it, and of lost nodes. On fabrics without a doorbell, and on those that complete operations within
//! the call, there is nothing to hear.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use loco_fabric::{Armed, Doorbell, Fabric, QueuePair, Work, WorkRequestId};

use super::{PATIENCE, World, share, target};

/// The number of operations, for each of which a thread sleeps.
const ROUNDS: u64 = 200;

/// Returns the doorbell of `fabric`, if completions ring it.
fn bell_of<F: Fabric>(fabric: &F) -> Option<Arc<dyn Doorbell>> {
    fabric.doorbell().filter(|_| !fabric.caps().synchronous)
}

/// Sleeps until the doorbell rings. Fails if it does not.
fn sleep(bell: &dyn Doorbell, armed: Armed) {
    let begin = Instant::now();
    bell.sleep(armed, PATIENCE);
    assert!(begin.elapsed() < PATIENCE, "nobody rang");
}

/// Polls, and records how many operations have ended, as a node's threads do for one another.
fn poll_and_record<F: Fabric>(fabric: &F, bell: &dyn Doorbell, ended: &AtomicU64) {
    let mut completions = Vec::new();
    fabric.poll(&mut completions).unwrap();
    if !completions.is_empty() {
        ended.fetch_add(completions.len() as u64, SeqCst);
        bell.ring();
    }
}

/// Posts `rounds` operations of `a` towards `b`, each when the one before has ended, while a thread sleeps until they end
/// and `competitors` other threads poll.
pub fn sleep_for_completions<F: Fabric>(a: &F, b: &F, bell: &dyn Doorbell, rounds: u64, competitors: u64) {
    let (_there, remote) = share(b, a, 64);
    let (ended, sleeps) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut qp = a.queue_pair(b.node()).unwrap();
            for round in 1..=rounds {
                let work = Work::signaled(WorkRequestId(round));
                let _ = qp.put_inline(&[1; 8], target(&remote, 0), work).unwrap();
                while ended.load(SeqCst) < round {
                    std::thread::yield_now();
                }
            }
        });
        for _ in 0..competitors {
            scope.spawn(|| {
                while ended.load(SeqCst) < rounds {
                    poll_and_record(a, bell, &ended);
                    std::thread::yield_now();
                }
            });
        }
        while ended.load(SeqCst) < rounds {
            let seen = ended.load(SeqCst);
            let armed = bell.arm().expect("a doorbell that can be relied on");
            poll_and_record(a, bell, &ended);
            if ended.load(SeqCst) == seen {
                sleeps.fetch_add(1, SeqCst);
                sleep(bell, armed);
            }
        }
    });
    assert!(sleeps.load(SeqCst) > 0, "the thread slept");
}

/// Checks that no thread sleeps on when a completion has come, even if another thread polls it.
pub fn completions_end_sleeps<W: World>() {
    let nodes = W::nodes(2);
    let Some(bell) = bell_of(&nodes[0]) else { return };
    for competitors in [0, 1] {
        sleep_for_completions(&nodes[0], &nodes[1], &*bell, ROUNDS, competitors);
    }
}

/// Checks that the loss of a node ends the sleeps of the others.
pub fn a_dead_peer_ends_the_sleep<W: World>() {
    let nodes = W::nodes(2);
    let Some(bell) = bell_of(&nodes[0]) else { return };
    let armed = bell.arm().expect("a doorbell that can be relied on");
    std::thread::scope(|scope| {
        scope.spawn(|| sleep(&*bell, armed));
        W::kill(&nodes[1]);
    });
}

/// Checks that a sleep that was announced before a ring does not begin.
pub fn a_ring_before_the_sleep_ends_it<W: World>() {
    let nodes = W::nodes(1);
    let Some(bell) = bell_of(&nodes[0]) else { return };
    let armed = bell.arm().expect("a doorbell that can be relied on");
    bell.ring();
    sleep(&*bell, armed);
}
