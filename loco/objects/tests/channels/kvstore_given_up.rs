//! Updates of the key-value store that are started and not waited for to their end: late ones, dropped and forgotten ones, and those that
//! meet the loss of a node.

use std::cell::Cell;
use std::future::Future as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::common::net::{Barrier, Driver, KvStore, Manager, Thread, TicketLock};
use crate::common::{ALL, Cluster, Net, until_lost, wait_until};
use loco::asynchronous::Async;
use loco::fabric::NodeId;
use loco::fence::{self, Scope};
use loco::{Encode, KvConfig, Parent as _, Participants, PendingUpdate, Result};

type Store = KvStore<u64, u64>;

/// The networks on which an update is under way between its start and its wait.
pub(crate) fn networks() -> impl Iterator<Item = Cluster> {
    ALL.into_iter()
        .filter(|cluster| !matches!(cluster, Cluster::Synchronous))
}

/// A store with one lock, whose words are on node 0, and with key 0 on node 0.
struct OneLock {
    store: Store,
    bar: Barrier,
}

impl OneLock {
    fn new(manager: &Manager) -> Result<OneLock> {
        let config = KvConfig::default().slots_per_node(8).locks(1);
        let store = Store::new(manager, "kv", config)?;
        let bar = Barrier::new(manager, "bar")?;
        manager.wait_for_ready()?;
        if manager.node().0 == 0 {
            let _ = store.insert(&manager.thread()?, &0, &0)?;
        }
        bar.wait(&manager.thread()?)?;
        Ok(OneLock { store, bar })
    }

    /// Updates key 0 until `limit` from now at most. Returns false if it came too late.
    fn update_within(&self, thread: &Thread, limit: Duration) -> Result<bool> {
        thread.set_deadline(Some(thread.now().after(limit)));
        let updated = self.store.update(thread, &0, &1);
        thread.set_deadline(None);
        match updated {
            Err(error) if error.is_timeout() => Ok(false),
            updated => updated,
        }
    }

    /// Starts an update that has the lock, and that does not go on before its thread asks again.
    fn hold<'a>(&'a self, thread: &'a Thread) -> Result<PendingUpdate<'a, u64, u64, Net>> {
        // Who has drawn a ticket of a free lock has it, and needs to know only to release it.
        let held = self.store.update_start(thread, &0, &9)?;
        fence::thread(thread)?;
        Ok(held)
    }

    /// Each node updates: nobody has kept the lock.
    fn all_can_update(&self, thread: &Thread) -> Result<()> {
        self.bar.wait(thread)?;
        for _ in 0..3 {
            assert!(self.store.update(thread, &0, &2)?);
        }
        self.bar.wait(thread)
    }
}

/// Updates give the lock up at a deadline that the thread has set, while it is held and at the moment of its release. It is free for all
/// afterwards.
#[test]
fn an_update_that_gives_up_at_its_deadline_keeps_no_lock() {
    for cluster in networks() {
        cluster.run(2, |manager| {
            let one = OneLock::new(&manager)?;
            // What is under way on a thread stands still while the thread does nothing.
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            let me = manager.node().0;
            if me == 0 {
                let held = one.hold(&idle)?;
                one.bar.wait(&thread)?;
                one.bar.wait(&thread)?;
                // A thread of the same node waits in the line.
                assert!(
                    !one.update_within(&thread, Duration::from_millis(5))?,
                    "{cluster:?}"
                );
                assert!(held.wait()?);
            } else {
                one.bar.wait(&thread)?;
                assert!(
                    !one.update_within(&thread, Duration::from_millis(2))?,
                    "{cluster:?}"
                );
                one.bar.wait(&thread)?;
            }
            one.all_can_update(&thread)?;
            for round in 0..200 {
                if me == 0 {
                    assert!(one.store.update(&thread, &0, &round)?);
                } else {
                    one.update_within(&thread, Duration::from_micros(round * 10))?;
                }
            }
            one.all_can_update(&thread)
        });
    }
}

/// The same of an update whose future is dropped.
#[test]
fn an_update_whose_future_is_dropped_keeps_no_lock() {
    for cluster in networks() {
        cluster.run(2, |manager| {
            let one = OneLock::new(&manager)?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            let OneLock { store, bar } = one;
            let store = Async::new(store);
            let driver = Driver::new(&manager)?;
            let task = driver.thread()?;
            for round in 0..20 {
                if manager.node().0 == 0 {
                    let held = KvStore::update_start(&store, &idle, &0, &9)?;
                    bar.wait(&thread)?;
                    if round % 2 == 0 {
                        bar.wait(&thread)?;
                    }
                    assert!(held.wait()?);
                    if round % 2 == 1 {
                        bar.wait(&thread)?;
                    }
                } else {
                    bar.wait(&thread)?;
                    {
                        let mut update = pin!(store.update(&task, 0, round));
                        let waker = Waker::noop();
                        // It may have the lock at once if the other node's draw comes late.
                        let _ = update.as_mut().poll(&mut Context::from_waker(waker));
                    }
                    bar.wait(&thread)?;
                }
                bar.wait(&thread)?;
                // Also the thread whose call was given up.
                assert!(pollster::block_on(store.update(&task, 0, round))?, "{cluster:?}");
                assert!(KvStore::update(&store, &thread, &0, &round)?, "{cluster:?}");
                bar.wait(&thread)?;
            }
            Ok(())
        });
    }
}

/// A program that asks again and again hears of the deadline.
#[test]
fn an_update_that_is_only_asked_for_ends_at_its_deadline() {
    for cluster in networks() {
        cluster.run(2, |manager| {
            let one = OneLock::new(&manager)?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            if manager.node().0 == 0 {
                let held = one.hold(&idle)?;
                one.bar.wait(&thread)?;
                one.bar.wait(&thread)?;
                assert!(held.wait()?);
            } else {
                one.bar.wait(&thread)?;
                thread.set_deadline(Some(thread.now().after(Duration::from_millis(2))));
                let update = one.store.update_start(&thread, &0, &1)?;
                wait_until("the deadline", || update.query());
                thread.set_deadline(None);
                let error = update.wait().expect_err("the lock is held");
                assert!(error.is_timeout(), "{cluster:?}: {error}");
                one.bar.wait(&thread)?;
            }
            one.all_can_update(&thread)
        });
    }
}

/// Makes the barrier at which the others meet after the loss of the last node. Returns `None` on that node.
fn end_of_survivors(manager: &Manager) -> Result<Option<Barrier>> {
    let Some((last, others)) = manager.nodes().split_last() else {
        return Ok(None);
    };
    if manager.node() == *last {
        return Ok(None);
    }
    let survivors = Participants::of(others.iter().copied());
    Ok(Some(Barrier::new(&manager.among(&survivors), "end")?))
}

/// A program that asks again and again gets the lock of a node that is lost.
#[test]
fn an_update_that_is_only_asked_for_goes_on_after_a_loss() {
    for cluster in networks() {
        cluster.run(3, |manager| {
            let end = end_of_survivors(&manager)?;
            let one = OneLock::new(&manager)?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            let held = match manager.node().0 {
                2 => Some(one.hold(&idle)?),
                _ => None,
            };
            one.bar.wait(&thread)?;
            let update = match manager.node().0 {
                1 => Some(one.store.update_start(&idle, &0, &1)?),
                _ => held,
            };
            one.bar.wait(&thread)?;
            let Some(end) = end else {
                fence::thread(&thread)?;
                manager.fabric().mesh().fail();
                return Ok(());
            };
            if let Some(update) = update {
                wait_until("the lock of the lost node", || update.query());
                assert!(update.wait()?, "{cluster:?}");
            }
            // A fence may report what was under way to node 2.
            end.wait_unfenced(&thread)?;
            assert!(one.store.update(&thread, &0, &3)?);
            end.wait_unfenced(&thread)
        });
    }
}

/// Of two updates of one key under one hold of its lock, the first is not written, since the second overwrites it. If the second fails, so
/// does the first.
#[test]
fn an_update_fails_with_the_one_that_overwrites_it() {
    for cluster in networks() {
        cluster.run(3, |manager| {
            let end = end_of_survivors(&manager)?;
            let config = KvConfig::default().slots_per_node(8).locks(1);
            let store = Store::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            if manager.node().0 == 2 {
                let _ = store.insert(&manager.thread()?, &0, &0)?;
            }
            let before = manager.thread()?;
            bar.wait(&before)?;
            let Some(end) = end else {
                fence::thread(&before)?;
                manager.fabric().mesh().fail();
                return Ok(());
            };
            // One whose queue pair to the lost node is there, and one that has none.
            let _ = store.update_start(&before, &0, &1)?.wait();
            until_lost(&manager, NodeId(2));
            for thread in [before, manager.thread()?] {
                let first = store.update_start(&thread, &0, &2)?;
                let second = store.update_start(&thread, &0, &3)?;
                for update in [first, second] {
                    let error = update.wait().expect_err("the value is lost");
                    assert_eq!(error.lost_peer(), Some(NodeId(2)), "{cluster:?}: {error}");
                }
            }
            end.wait_unfenced(&manager.thread()?)
        });
    }
}

/// A call that has to wait ends at its own deadline, though the updates before it have more time.
#[test]
fn a_call_ends_at_its_deadline_before_the_updates_under_way_do() {
    for cluster in networks() {
        cluster.run(2, |manager| {
            let one = OneLock::new(&manager)?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            if manager.node().0 == 0 {
                let held = one.hold(&idle)?;
                one.bar.wait(&thread)?;
                one.bar.wait(&thread)?;
                assert!(held.wait()?);
            } else {
                one.bar.wait(&thread)?;
                let update = one.store.update_start(&idle, &0, &1)?;
                let deadline = idle.now().after(Duration::from_millis(2));
                let in_time = |thread: &Thread| thread.set_deadline(Some(deadline));
                in_time(&idle);
                let late = one.store.insert_many(&idle, &[(1, 1)]);
                assert!(late.is_err_and(|late| late.is_timeout()), "{cluster:?}");
                let late = one.store.delete(&idle, &0);
                assert!(late.is_err_and(|late| late.is_timeout()), "{cluster:?}");
                idle.set_deadline(None);
                one.bar.wait(&thread)?;
                assert!(update.wait()?, "{cluster:?}: it has more time");
            }
            one.all_can_update(&thread)
        });
    }
}

/// An update does not share the end of those that have given its lock up before it was started.
#[test]
fn an_update_takes_a_lock_that_others_of_its_thread_gave_up() {
    for cluster in networks() {
        cluster.run(2, |manager| {
            let store = Store::new(&manager, "kv", KvConfig::default().slots_per_node(64).locks(2))?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            if manager.node().0 == 0 {
                let entries: Vec<(u64, u64)> = (0..16).map(|key| (key, key)).collect();
                let _ = store.insert_many(&thread, &entries)?;
                bar.wait(&thread)?;
                let held = store.update_start(&idle, &0, &1)?;
                fence::thread(&idle)?;
                bar.wait(&thread)?;
                bar.wait(&thread)?;
                assert!(held.wait()?);
                return bar.wait(&thread);
            }
            bar.wait(&thread)?;
            bar.wait(&thread)?;
            // One whose lock is not that of key 0, which node 0 holds.
            let is_free = |key: &u64| {
                thread.set_deadline(Some(thread.now().after(Duration::from_millis(20))));
                let updated = store.update(&thread, key, &2);
                thread.set_deadline(None);
                updated == Ok(true)
            };
            let other = (1..16).cycle().find(is_free).unwrap_or(0);
            let held = store.update_start(&idle, &other, &3)?;
            fence::thread(&idle)?;

            thread.set_deadline(Some(thread.now().after(Duration::from_millis(1))));
            let late = [
                store.update_start(&thread, &0, &4)?,
                store.update_start(&thread, &other, &4)?,
            ];
            thread.set_deadline(None);
            let in_time = store.update_start(&thread, &0, &5)?;
            let [first, second] = late;
            assert!(first.wait().is_err_and(|late| late.is_timeout()), "{cluster:?}");
            let again = store.update_start(&thread, &other, &6)?;
            assert!(second.wait().is_err_and(|late| late.is_timeout()), "{cluster:?}");
            assert!(held.wait()?);
            assert!(again.wait()?, "{cluster:?}");
            bar.wait(&thread)?;
            assert!(in_time.wait()?, "{cluster:?}");
            bar.wait(&thread)
        });
    }
}

/// A thread that is dropped ends what its program has forgotten.
#[test]
fn a_forgotten_update_ends_with_its_thread() {
    for cluster in networks() {
        cluster.run(2, |manager| {
            let one = OneLock::new(&manager)?;
            let forgetful = manager.thread()?;
            std::mem::forget(one.store.update_start(&forgetful, &0, &9)?);
            drop(forgetful);
            one.all_can_update(&manager.thread()?)
        });
    }
}

/// A program that calls again and again, and has no time to wait, moves on what it has under way.
#[test]
fn calls_without_time_move_updates_on() {
    for cluster in networks() {
        let updated = AtomicBool::new(false);
        cluster.run(2, |manager| {
            let lock = TicketLock::new(&manager, "lock", manager.nodes()[0])?;
            let one = OneLock::new(&manager)?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            if manager.node().0 == 0 {
                one.bar.wait(&thread)?;
                assert!(one.store.update(&thread, &0, &1)?);
                updated.store(true, SeqCst);
            } else {
                let held = one.hold(&idle)?;
                one.bar.wait(&thread)?;
                wait_until("the update of node 0", || {
                    match lock.lock_until(&idle, Scope::Nothing, idle.now()) {
                        Ok(guard) => guard.release().expect("a lock that is held"),
                        Err(error) => assert!(error.is_timeout(), "{cluster:?}: {error}"),
                    }
                    updated.load(SeqCst)
                });
                assert!(held.wait()?);
            }
            one.all_can_update(&thread)
        });
    }
}

/// After a loss, the lock cannot be taken over while a live node has a draw under way. An update with time left waits on then, though another
/// one of its thread is late.
#[test]
fn an_update_with_time_left_waits_on_after_a_loss() {
    for cluster in networks() {
        cluster.run(4, |manager| {
            let end = end_of_survivors(&manager)?;
            let one = OneLock::new(&manager)?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            let held = match manager.node().0 {
                3 => Some(one.hold(&idle)?),
                _ => None,
            };
            one.bar.wait(&thread)?;
            let deadline = idle.now().after(Duration::from_millis(300));
            let waiting = match manager.node().0 {
                1 => {
                    idle.set_deadline(Some(deadline));
                    let late = one.store.update_start(&idle, &0, &1)?;
                    idle.set_deadline(None);
                    let in_time = one.store.update_start(&idle, &0, &2)?;
                    // The draw and the claim.
                    for _ in 0..2 {
                        fence::thread(&idle)?;
                        assert!(!in_time.query(), "node 3 holds the lock");
                    }
                    Some((late, in_time))
                }
                _ => None,
            };
            one.bar.wait(&thread)?;
            let drawing = match manager.node().0 {
                2 => Some(one.hold(&idle)?),
                _ => held,
            };
            one.bar.wait(&thread)?;
            let Some(end) = end else {
                fence::thread(&thread)?;
                manager.fabric().mesh().fail();
                return Ok(());
            };
            until_lost(&manager, NodeId(3));
            if let Some((_, in_time)) = &waiting {
                wait_until("a deadline", || idle.now() >= deadline);
                for _ in 0..10 {
                    in_time.query();
                }
            }
            end.wait_unfenced(&thread)?;
            if let Some(update) = drawing {
                assert!(update.wait()?, "{cluster:?}");
            }
            if let Some((late, in_time)) = waiting {
                let late = late.wait();
                assert!(late.unwrap_or_else(|late| late.is_timeout()), "{cluster:?}");
                assert!(in_time.wait()?, "{cluster:?}: it has more time");
            }
            end.wait_unfenced(&thread)
        });
    }
}

thread_local! {
    /// Set while keys cannot be compared on this thread.
    static REFUSES: Cell<bool> = const { Cell::new(false) };
}

/// A key whose comparison panics now and then.
#[derive(Clone, Debug)]
struct Refusing([u8; 8]);

impl PartialEq for Refusing {
    fn eq(&self, other: &Refusing) -> bool {
        assert!(!REFUSES.get(), "keys cannot be compared");
        self.0 == other.0
    }
}

impl Eq for Refusing {}

impl Encode for Refusing {
    const BYTES: Option<usize> = Some(8);

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn from_bytes(bytes: &[u8]) -> Option<Refusing> {
        bytes.try_into().ok().map(Refusing)
    }
}

/// A panic of the key type under one lock, and those under the other locks that the thread holds then, reach the program as one, and leave the
/// locks free.
#[test]
fn panics_of_keys_under_several_locks_keep_no_lock() {
    for cluster in networks() {
        cluster.run(2, |manager| {
            let config = KvConfig::default().slots_per_node(64).locks(8);
            let store = KvStore::<Refusing, u64>::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            let keys: Vec<Refusing> = (0..16u64).map(|key| Refusing(key.to_ne_bytes())).collect();
            if manager.node().0 == 0 {
                let entries: Vec<(Refusing, u64)> = keys.iter().map(|key| (key.clone(), 0)).collect();
                let _ = store.insert_many(&thread, &entries)?;
            }
            bar.wait(&thread)?;
            if manager.node().0 == 1 {
                let panicked = catch_unwind(AssertUnwindSafe(|| {
                    let started = keys.iter().map(|key| store.update_start(&idle, key, &1));
                    let mut started: Vec<_> = started.collect::<Result<_>>().expect("they fit");
                    // All locks are held when it goes on.
                    fence::thread(&idle).expect("nobody is lost");
                    REFUSES.set(true);
                    started.remove(0).wait()
                }));
                REFUSES.set(false);
                assert!(panicked.is_err(), "{cluster:?}");
            }
            bar.wait(&thread)?;
            for key in &keys {
                assert!(store.update(&thread, key, &2)?);
                assert!(store.update(&idle, key, &3)?);
            }
            bar.wait(&thread)
        });
    }
}
