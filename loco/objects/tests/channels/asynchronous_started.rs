//! Updates that tasks start: many of one `AsyncThread` are under way at a time, each is completed by itself, and one that is dropped leaves
//! its lock free.

use std::future::Future as _;
use std::task::{Context, Waker};

use crate::common::ALL;
use crate::common::net::{Barrier, Driver, KvStore, Manager};
use crate::kvstore_given_up::networks;
use loco::asynchronous::Async;
use loco::fabric::NodeId;
use loco::fence;
use loco::{Inserted, KvConfig, Result};

/// The keys of the store.
const KEYS: u64 = 40;

/// Runs two nodes with a store of few locks that has all keys, each with its own number as value.
fn run(node: impl Fn(&Manager, &Async<KvStore<u64, u64>>, &Driver) -> Result<()> + Sync) {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let config = KvConfig::default().slots_per_node(64).locks(5);
            let store = Async::new(KvStore::new(&manager, "kv", config)?);
            let barrier = Barrier::new(&manager, "barrier")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            for key in (0..KEYS).filter(|key| key % 2 == u64::from(manager.node().0)) {
                assert_eq!(store.insert_many(&thread, &[(key, key)])?, [Inserted::Done]);
            }
            barrier.wait(&thread)?;
            node(&manager, &store, &Driver::new(&manager)?)?;
            barrier.wait(&thread)
        });
    }
}

/// A task starts updates of half of the keys, and waits for them in the order of their start, or in the opposite one.
#[test]
fn a_task_completes_each_of_its_updates() {
    run(|manager, store, driver| {
        let me = u64::from(manager.node().0);
        let thread = driver.thread()?;
        pollster::block_on(async {
            for round in 1..=6 {
                let mut started = Vec::new();
                for key in (0..KEYS).filter(|key| key / 2 % 2 == me) {
                    let update = store.update_start(&thread, key, key + KEYS * round).await?;
                    started.push((key, update));
                }
                if round % 2 == 0 {
                    started.reverse();
                }
                for (key, update) in started {
                    assert!(update.wait().await?);
                    let found = store.get(&thread, key).await?;
                    assert_eq!(found, Some(key + KEYS * round), "nobody else writes it");
                }
            }
            let absent = store.update_start(&thread, KEYS, 1).await?;
            assert!(!absent.wait().await?);
            Ok(())
        })
    });
}

/// Updates of one key take effect in the order of their start.
#[test]
fn updates_of_a_task_keep_their_order() {
    run(|manager, store, driver| {
        let (key, thread) = (u64::from(manager.node().0), driver.thread()?);
        pollster::block_on(async {
            for round in 0..20 {
                let first = store.update_start(&thread, key, 2 * round).await?;
                let second = store.update_start(&thread, key, 2 * round + 1).await?;
                assert!(second.wait().await? && first.wait().await?);
                assert_eq!(store.get(&thread, key).await?, Some(2 * round + 1));
            }
            Ok(())
        })
    });
}

/// A task starts an update that needs a lock which another thread has asked for before and does not use yet. An update of another store ends
/// all the same.
#[test]
fn an_update_of_a_task_waits_for_no_other_one() {
    run(|manager, store, driver| {
        let other = Async::new(KvStore::<u64, u64>::new(manager, "other", KvConfig::default())?);
        manager.wait_for_ready()?;
        if manager.node() != NodeId(0) {
            return Ok(());
        }
        let (idle, thread) = (manager.thread()?, driver.thread()?);
        assert!(!KvStore::update(&other, &idle, &0, &0)?);
        let before = KvStore::update_start(store, &idle, &0, &100)?;
        pollster::block_on(async {
            let first = store.update_start(&thread, 0, 101).await?;
            let second = other.update_start(&thread, 0, 1).await?;
            assert!(!second.wait().await?);
            assert!(before.wait()?);
            assert!(first.wait().await?);
            assert_eq!(store.get(&thread, 0).await?, Some(101));
            Ok(())
        })
    });
}

/// What is dropped is done or not, and leaves the lock free: also what was dropped while it was being started.
#[test]
fn updates_that_a_task_drops_leave_locks_free() {
    run(|manager, store, driver| {
        let (key, thread) = (u64::from(manager.node().0), driver.thread()?);
        pollster::block_on(async {
            for round in 1..20 {
                let value = KEYS * round + key;
                let dropped = store.update_start(&thread, key, value).await?;
                let kept = store.update_start(&thread, key + 2, value).await?;
                drop(dropped);
                assert!(kept.wait().await?);
                // Perhaps it is started, and its outcome is dropped.
                let mut starts = Box::pin(store.update_start(&thread, key, value));
                let _ = starts.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                drop(starts);
                // Another thread takes the lock.
                let blocking = manager.thread()?;
                assert!(store.update(&thread, key, value + 1).await?);
                assert!(KvStore::update(store, &blocking, &key, &(value + 2))?);
                assert_eq!(store.get(&thread, key).await?, Some(value + 2));
            }
            Ok(())
        })
    });
}

/// What is dropped ends though nothing more is asked of its `AsyncThread`, also what was dropped while it was being started.
#[test]
fn an_update_that_a_task_drops_needs_no_later_call_to_end() {
    run(|manager, store, driver| {
        let key = u64::from(manager.node().0);
        let (thread, other) = (driver.thread()?, manager.thread()?);
        for round in 1..20 {
            let value = KEYS * round + key;
            let mut starts = Box::pin(store.update_start(&thread, key, value));
            if round % 4 == 0 {
                let _ = starts.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                drop(starts);
            } else {
                drop(pollster::block_on(starts)?);
            }
            // Would wait for a lock that the update has kept, until its deadline.
            assert!(KvStore::update(store, &other, &key, &(value + 1))?);
            let found = KvStore::get(store, &other, &key)?;
            assert_eq!(found, Some(value + 1), "the last one");
        }
        Ok(())
    })
}

/// An update that is dropped while another node holds its lock has not begun: the old value stays, and the lock goes to the next one.
#[test]
fn an_update_that_a_task_drops_without_the_lock_is_taken_back() {
    for cluster in networks() {
        cluster.run(2, |manager| {
            let config = KvConfig::default().slots_per_node(8).locks(1);
            let store = Async::new(KvStore::<u64, u64>::new(&manager, "kv", config)?);
            let barrier = Barrier::new(&manager, "barrier")?;
            manager.wait_for_ready()?;
            let (thread, idle) = (manager.thread()?, manager.thread()?);
            let driver = Driver::new(&manager)?;
            let task = driver.thread()?;
            if manager.node() == NodeId(0) {
                assert_eq!(KvStore::insert(&store, &thread, &0, &0)?, Inserted::Done);
            }
            for round in 1..10 {
                barrier.wait(&thread)?;
                if manager.node() == NodeId(0) {
                    // Has the lock, and goes no further while its thread does nothing.
                    let held = KvStore::update_start(&store, &idle, &0, &round)?;
                    fence::thread(&idle)?;
                    barrier.wait(&thread)?;
                    barrier.wait(&thread)?;
                    assert!(held.wait()?);
                } else {
                    barrier.wait(&thread)?;
                    drop(pollster::block_on(store.update_start(&task, 0, 100 + round))?);
                    // Does nothing, after what the drop has left to the driver.
                    pollster::block_on(task.with(|_| Ok(())))?;
                    barrier.wait(&thread)?;
                }
                barrier.wait(&thread)?;
                let found = KvStore::get(&store, &thread, &0)?;
                assert_eq!(found, Some(round), "{cluster:?}: it has not begun");
                barrier.wait(&thread)?;
                assert!(KvStore::update(&store, &thread, &0, &0)?, "{cluster:?}");
            }
            barrier.wait(&thread)
        });
    }
}
