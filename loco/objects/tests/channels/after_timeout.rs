//! Tests of what a call leaves behind that ran into its deadline, and of the promise that the caller may go
//! on as its documentation says.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::common::net::{
    Barrier, KvStore, Manager, RingBuffer, SharedRegion, SharedVar, TasLock, Thread, TicketLock,
};
use crate::common::{ALL, Net, Shared, run_on_shm};
use loco::fabric::{NodeId, ShmConfig, Tier};
use loco::fence::Scope;
use loco::{KvConfig, Result};
use loco_test_networks::deferred::Nic;

/// Runs `call` with a deadline that has passed; it ends by it.
fn times_out<T>(thread: &Thread<Net>, call: impl FnOnce() -> Result<T>) {
    thread.set_deadline(Some(thread.now()));
    let outcome = call().map(drop);
    thread.set_deadline(None);
    let error = outcome.expect_err("nobody else is there");
    assert!(error.is_timeout(), "{error}");
}

/// The flag of a node: what it has told the others.
struct Flags(Vec<SharedVar<u64>>);

impl Flags {
    fn new(manager: &Manager<Net>) -> Result<Flags> {
        let flags = manager.nodes().iter();
        let flags = flags.map(|node| SharedVar::new(manager, &format!("flag{}", node.0)));
        flags.collect::<Result<_>>().map(Flags)
    }

    fn raise(&self, thread: &Thread<Net>, value: u64) -> Result<()> {
        let mine = &self.0[usize::from(thread.node_id().0)];
        mine.write(value);
        mine.broadcast(thread)?.wait(thread)
    }

    fn wait(&self, thread: &Thread<Net>, node: usize, value: u64) -> Result<()> {
        self.0[node].wait_until(thread, |seen| seen >= value).map(drop)
    }
}

/// Node 0 tries again and again before node 1 comes. It has arrived once, so that node 1 does not pass in the next round before
/// node 0 is there.
#[test]
fn a_barrier_goes_on_with_the_round_that_was_given_up() {
    for cluster in ALL {
        for fenced in [false, true] {
            cluster.run(2, |manager| {
                let bar = Barrier::new(&manager, "bar")?;
                let flags = Flags::new(&manager)?;
                let end = Barrier::new(&manager, "end")?;
                manager.wait_for_ready()?;
                let thread = manager.thread()?;
                let wait = || match fenced {
                    true => bar.wait(&thread),
                    false => bar.wait_unfenced(&thread),
                };
                if manager.node() == NodeId(0) {
                    for _ in 0..3 {
                        times_out(&thread, wait);
                    }
                    flags.raise(&thread, 1)?;
                    wait()?;
                    // The second round: not before node 1 has seen that it does not pass alone.
                    flags.wait(&thread, 1, 1)?;
                    wait()?;
                } else {
                    flags.wait(&thread, 0, 1)?;
                    wait()?;
                    times_out(&thread, wait);
                    flags.raise(&thread, 1)?;
                    wait()?;
                }
                end.wait(&thread)
            });
        }
    }
}

/// Checks this with two threads on each node: each goes on with its own call.
#[test]
fn each_thread_goes_on_with_the_round_that_it_gave_up() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let bar = Barrier::with_local_threads(&manager, "bar", 2)?;
            let flags = Flags::new(&manager)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let (one, mut other) = (manager.thread()?, manager.thread()?);
            let bar = &bar;
            let both = |one: &Thread<Net>, other: &mut Thread<Net>| {
                std::thread::scope(|scope| {
                    let second = scope.spawn(move || bar.wait(other));
                    bar.wait(one).and(second.join().unwrap())
                })
            };
            if manager.node() == NodeId(0) {
                // All of node 0 has arrived.
                for _ in 0..2 {
                    times_out(&one, || bar.wait(&one));
                    times_out(&other, || bar.wait(&other));
                }
                flags.raise(&one, 1)?;
                both(&one, &mut other)?;
                flags.wait(&one, 1, 1)?;
                both(&one, &mut other)?;
            } else {
                flags.wait(&one, 0, 1)?;
                both(&one, &mut other)?;
                times_out(&one, || bar.wait(&one));
                times_out(&other, || bar.wait(&other));
                flags.raise(&one, 1)?;
                both(&one, &mut other)?;
            }
            end.wait(&one)
        });
    }
}

/// A message that did not get into a full ring is not submitted, and may be submitted again or another in its place.
#[test]
fn what_a_full_ring_did_not_take_is_not_submitted() {
    for cluster in ALL {
        let received = cluster.run(2, |manager| {
            let ring = RingBuffer::new(&manager, "ring", NodeId(0), 32)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let mut received = Vec::new();
            if manager.node() == NodeId(0) {
                let mut writer = ring.writer()?;
                writer.submit(&thread, b"1")?;
                writer.submit(&thread, b"2")?;
                for _ in 0..3 {
                    times_out(&thread, || writer.submit(&thread, b"given up"));
                }
                end.wait(&thread)?;
                writer.submit(&thread, b"3")?;
                writer.submit(&thread, b"4")?;
            } else {
                let mut reader = ring.reader()?;
                end.wait(&thread)?;
                for _ in 0..4 {
                    received.push(reader.receive(&thread)?);
                }
            }
            end.wait(&thread)?;
            Ok(received)
        });
        assert_eq!(received[1], [b"1", b"2", b"3", b"4"], "{cluster:?}");
    }
}

/// A thread that waits for room in the node's tracker holds up no other one beyond its deadline.
#[test]
fn who_waits_for_a_tracker_holds_nobody_up() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            // The tracker has room for one message.
            let config = KvConfig::default().key_bytes_max(8).locks(16).tracker_bytes(40);
            let store = KvStore::<u64, u64>::new(&manager, "kv", config)?;
            let flags = Flags::new(&manager)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == NodeId(1) {
                // Reads no more, but lives until node 0 has seen what it wants to see.
                drop(store);
                bar.wait(&thread)?;
                flags.wait(&thread, 0, 1)?;
                manager.fabric().mesh().fail();
                return Ok(());
            }
            bar.wait(&thread)?;
            // Fills the tracker.
            times_out(&thread, || store.insert(&thread, &1, &1));
            let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let thread = manager.thread().unwrap();
                    thread.set_deadline(Some(thread.now().after(Duration::from_secs(600))));
                    begun.store(true, SeqCst);
                    // How it ends is not the point: its lock may be lost with node 1.
                    let _ = store.insert(&thread, &2, &2);
                    ended.store(true, SeqCst);
                });
                while !begun.load(SeqCst) {
                    std::thread::yield_now();
                }
                for key in 3..10 {
                    times_out(&thread, || store.insert(&thread, &key, &0));
                }
                assert!(!ended.load(SeqCst), "{cluster:?}: held up by the other thread");
                match flags.raise(&thread, 1) {
                    // Node 1 goes as soon as it has seen the flag, which may be before the put is acknowledged.
                    Err(error) if error.lost_peer() == Some(NodeId(1)) => Ok(()),
                    raised => raised,
                }
            })
        });
    }
}

/// A fence that was given up, in whichever step, has ordered nothing, and the next one does.
#[test]
fn a_fence_that_was_given_up_is_still_to_be_done() {
    // One operation at a time, and slow: there is no room for the fence's flush at first.
    let slow = Nic {
        delay_max: Duration::from_micros(200),
        queue_depth: 1,
        ..Nic::deferred(3).tier(Tier::Unordered)
    };
    run_on_shm(2, &ShmConfig::default(), Some(&slow), |fabric| {
        let manager = Manager::new(fabric)?;
        let region = SharedRegion::new(&manager, "data", 8)?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == NodeId(0) {
            let other = manager.thread()?;
            for round in 1..=10_u64 {
                let word = || region.target(NodeId(1), 0);
                thread.put_inline(&round.to_ne_bytes(), word()?)?.forget();
                thread.set_deadline(Some(thread.now()));
                let given_up = loco::fence::thread(&thread);
                thread.set_deadline(None);
                assert!(given_up.is_ok() || given_up.is_err_and(|error| error.is_timeout()));
                loco::fence::thread(&thread)?;
                assert_eq!(other.read_word(word()?)?, round, "placed");
            }
        }
        bar.wait(&thread)
    });
}

/// A thread of node 0 gives up its place in the node's line while the holder is in the fence of its release, on a card that
/// takes its time: the lock leaves the node then, and node 1 gets it.
fn given_up_during_the_fence<L: Send + Sync>(
    make: impl Fn(&Manager<Shared>, NodeId) -> Result<L> + Sync,
    hold: impl Fn(&L, &Thread<Shared>, Option<Duration>, &dyn Fn() -> Result<()>) -> Result<()> + Sync,
) {
    let slow = Nic {
        delay_max: Duration::from_millis(4),
        ..Nic::deferred(7).tier(Tier::Unordered)
    };
    run_on_shm(2, &ShmConfig::default(), Some(&slow), |fabric| {
        let manager = Manager::new(fabric)?;
        let home = NodeId(1);
        let lock = make(&manager, home)?;
        let region = SharedRegion::new(&manager, "data", 8)?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        for round in 0..40 {
            if manager.node() == home {
                bar.wait(&thread)?;
                hold(&lock, &thread, None, &|| Ok(()))?;
            } else {
                let waits = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let waiter = scope.spawn({
                        let (waits, lock, manager, hold) = (&waits, &lock, &manager, &hold);
                        move || -> Result<()> {
                            let thread = manager.thread()?;
                            while !waits.load(SeqCst) {
                                std::thread::yield_now();
                            }
                            let patience = Duration::from_micros(100 * round);
                            match hold(lock, &thread, Some(patience), &|| Ok(())) {
                                Err(error) if !error.is_timeout() => Err(error),
                                _ => Ok(()),
                            }
                        }
                    });
                    let held = hold(&lock, &thread, None, &|| {
                        thread.put_inline(&[1; 8], region.target(home, 0)?)?.forget();
                        waits.store(true, SeqCst);
                        Ok(())
                    });
                    held.and(waiter.join().unwrap())
                })?;
                bar.wait(&thread)?;
            }
            bar.wait(&thread)?;
        }
        Ok(())
    });
}

#[test]
fn a_ticket_lock_leaves_the_node_when_the_waiter_gave_up_during_the_fence() {
    given_up_during_the_fence(
        |manager, home| TicketLock::new(manager, "lock", home),
        |lock, thread, patience, section| {
            let deadline =
                patience.map_or_else(|| thread.deadline(), |patience| thread.now().after(patience));
            let guard = lock.lock_until(thread, Scope::Thread, deadline)?;
            section()?;
            guard.release()
        },
    );
}

#[test]
fn a_tas_lock_leaves_the_node_when_the_waiter_gave_up_during_the_fence() {
    given_up_during_the_fence(
        |manager, home| TasLock::new(manager, "lock", home),
        |lock, thread, patience, section| {
            let deadline =
                patience.map_or_else(|| thread.deadline(), |patience| thread.now().after(patience));
            let guard = lock.lock_until(thread, Scope::Thread, deadline)?;
            section()?;
            guard.release()
        },
    );
}
