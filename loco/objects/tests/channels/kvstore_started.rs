//! Updates of the key-value store that are started, and completed individually.

use std::collections::VecDeque;
use std::time::Duration;

use crate::common::net::{Barrier, KvStore, Manager, TasLock, Thread, TicketLock};
use crate::common::{ALL, Cluster, wait_until};
use loco::fence::Scope;
use loco::{Bytes, Inserted, KvConfig, Result};

type Store = KvStore<u64, u64>;

/// The keys, of which each node inserts its share.
const KEYS: u64 = 40;

/// Runs nodes with a store of few locks that has all keys, each with its own number as value.
fn run(cluster: Cluster, nodes: usize, node: impl Fn(&Manager, &Store, &Thread) -> Result<()> + Sync) {
    cluster.run(nodes, |manager| {
        let store = Store::new(&manager, "kv", KvConfig::default().slots_per_node(64).locks(5))?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let me = u64::from(manager.node().0);
        let mine: Vec<(u64, u64)> = (0..KEYS)
            .filter(|key| key % nodes as u64 == me)
            .map(|key| (key, key))
            .collect();
        let _ = store.insert_many(&thread, &mine)?;
        bar.wait(&thread)?;
        node(&manager, &store, &thread)?;
        bar.wait(&thread)
    });
}

/// The updates of one thread are completed in the order of their start, in the opposite order, and as they end.
#[test]
fn started_updates_can_be_completed_in_any_order() {
    for cluster in ALL {
        run(cluster, 2, |manager, store, thread| {
            let me = u64::from(manager.node().0);
            let mine: Vec<u64> = (0..KEYS).filter(|key| key / 2 % 2 == me).collect();
            for round in 1..=9 {
                let value = |key: u64| key + KEYS * round;
                let started = mine
                    .iter()
                    .map(|key| store.update_start(thread, key, &value(*key)));
                let mut started: Vec<_> = started.collect::<Result<_>>()?;
                match round % 3 {
                    0 => {}
                    1 => started.reverse(),
                    _ => {
                        while !started.is_empty() {
                            let (over, rest) = started.into_iter().partition(|update| update.query());
                            started = rest;
                            let over: Vec<_> = over;
                            for update in over {
                                assert!(update.wait()?, "{cluster:?}");
                            }
                            std::thread::yield_now();
                        }
                    }
                }
                for update in started {
                    assert!(update.wait()?, "{cluster:?}");
                }
                // Nobody else writes these.
                for key in &mine {
                    assert_eq!(store.get(thread, key)?, Some(value(*key)), "{cluster:?}: {key}");
                }
            }
            // One that is absent.
            assert!(!store.update_start(thread, &KEYS, &1)?.wait()?, "{cluster:?}");
            Ok(())
        });
    }
}

/// A thread has updates of several stores with the same type of keys under way: it starts, waits, asks and drops in any order.
#[test]
fn started_updates_of_several_stores_keep_apart() {
    for cluster in ALL {
        run(cluster, 2, |manager, first, thread| {
            let second = Store::new(manager, "kv2", KvConfig::default().slots_per_node(64).locks(3))?;
            manager.wait_for_ready()?;
            let me = u64::from(manager.node().0);
            let bar = Barrier::new(manager, "second")?;
            bar.channel().wait_for_ready()?;
            // Each node writes its own keys, and reads those that are at the other one.
            for key in (0..KEYS).filter(|key| key % 2 != me) {
                assert_eq!(second.insert(thread, &key, &0)?, Inserted::Done);
            }
            bar.wait(thread)?;
            let stores = [first, &second];
            let mine = |i: u64| i % (KEYS / 2) * 2 + me;
            let mut dice = 17 + me;
            let mut roll = |of: u64| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (dice >> 33) % of
            };
            let mut started = Vec::new();
            for i in 0..400 {
                let (store, key) = (roll(2) as usize, mine(i));
                started.push((store, key, i, stores[store].update_start(thread, &key, &i)?));
                while !started.is_empty() && roll(3) > 0 {
                    let (store, key, value, update) =
                        started.swap_remove(roll(started.len() as u64) as usize);
                    match roll(3) {
                        0 => drop(update),
                        1 => {
                            while !update.query() {
                                std::thread::yield_now();
                            }
                            assert!(update.wait()?, "{cluster:?}: {store} {key} {value}");
                        }
                        _ => assert!(update.wait()?, "{cluster:?}: {store} {key} {value}"),
                    }
                }
            }
            for (.., update) in started {
                assert!(update.wait()?, "{cluster:?}");
            }
            // Each store has the last value that it was given.
            for key in (0..KEYS).filter(|key| key % 2 == me) {
                for (store, value) in [(first, 1000), (&second, 2000)] {
                    assert!(
                        store.update_start(thread, &key, &(value + key))?.wait()?,
                        "{cluster:?}"
                    );
                }
            }
            for key in (0..KEYS).filter(|key| key % 2 == me) {
                assert_eq!(first.get(thread, &key)?, Some(1000 + key), "{cluster:?}");
                assert_eq!(second.get(thread, &key)?, Some(2000 + key), "{cluster:?}");
            }
            bar.wait(thread)
        });
    }
}

/// Updates of one key take effect in the order of their start, whichever is completed first.
#[test]
fn started_updates_of_one_key_keep_their_order() {
    for cluster in ALL {
        run(cluster, 2, |manager, store, thread| {
            let key = u64::from(manager.node().0);
            for round in 0..20 {
                let first = store.update_start(thread, &key, &(round * 3))?;
                let second = store.update_start(thread, &key, &(round * 3 + 1))?;
                // The blocking call comes after those under way.
                if round % 2 == 0 {
                    assert!(store.update(thread, &key, &(round * 3 + 2))?);
                }
                assert!(second.wait()? && first.wait()?);
                let last = round * 3 + if round % 2 == 0 { 2 } else { 1 };
                assert_eq!(store.get(thread, &key)?, Some(last), "{cluster:?}: {round}");
            }
            Ok(())
        });
    }
}

/// Two threads of each of three nodes keep a window of updates of the same keys under way, in opposite orders, and make blocking calls in
/// between. All end, and each key has a value of its own.
#[test]
fn windows_of_threads_of_all_nodes_end() {
    const WINDOW: usize = 8;
    const UPDATES: u64 = 400;
    for cluster in ALL {
        run(cluster, 3, |manager, store, _| {
            let of_thread = |backwards: bool| -> Result<()> {
                let thread = manager.thread()?;
                let mut window = VecDeque::new();
                for n in 0..UPDATES {
                    let key = if backwards { KEYS - 1 - n % KEYS } else { n % KEYS };
                    if window.len() == WINDOW {
                        let oldest: Option<loco::PendingUpdate<'_, _, _, _>> = window.pop_front();
                        assert!(
                            oldest.is_some_and(|oldest| oldest.wait() == Ok(true)),
                            "{cluster:?}"
                        );
                    }
                    window.push_back(store.update_start(&thread, &key, &(key + KEYS * (n + 1)))?);
                    if n % 50 == 0 {
                        assert!(store.update(&thread, &key, &(key + KEYS))?);
                    }
                }
                window.into_iter().try_for_each(|update| update.wait().map(drop))
            };
            std::thread::scope(|scope| {
                let threads = [false, true].map(|backwards| scope.spawn(move || of_thread(backwards)));
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().expect("no panic"))
            })?;
            let thread = manager.thread()?;
            for key in 0..KEYS {
                let value = store.get(&thread, &key)?.expect("it is there");
                assert!(
                    value % KEYS == key && value >= KEYS,
                    "{cluster:?}: {key} is {value}"
                );
            }
            Ok(())
        });
    }
}

/// A thread that waits for others ends what it has under way, of which they may need the lock: the others find the values when it has
/// waited for them once.
#[test]
fn a_thread_that_waits_for_others_ends_its_updates() {
    for cluster in ALL {
        run(cluster, 2, |manager, store, thread| {
            let bar = Barrier::new(manager, "before")?;
            manager.wait_for_ready()?;
            let me = u64::from(manager.node().0);
            let started: Vec<_> = (0..KEYS)
                .filter(|key| key / 2 % 2 == me)
                .map(|key| store.update_start(thread, &key, &(key + KEYS)))
                .collect::<Result<_>>()?;
            // The first time it may have arrived before it ends them.
            bar.wait(thread)?;
            bar.wait(thread)?;
            // This moves nothing on, and takes the locks of the other node's updates.
            let other = manager.thread()?;
            for key in (0..KEYS).filter(|key| key / 2 % 2 != me) {
                assert_eq!(store.get(&other, &key)?, Some(key + KEYS), "{cluster:?}: {key}");
                assert!(store.update(&other, &key, &(key + KEYS * 7))?);
            }
            for update in started {
                assert!(update.wait()?, "{cluster:?}");
            }
            bar.wait(thread)
        });
    }
}

/// A dropped update has changed its key as a whole or not at all, and leaves the lock free.
#[test]
fn dropped_updates_leave_locks_free_and_values_whole() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let config = KvConfig::default()
                .slots_per_node(8)
                .value_bytes_max(300)
                .locks(2);
            let store = KvStore::<u64, Bytes>::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = u64::from(manager.node().0);
            let value = |n: u64| Bytes(vec![n as u8; 200 + n as usize]);
            let _ = store.insert(&thread, &me, &value(0))?;
            bar.wait(&thread)?;
            for n in 1..60 {
                let started: Vec<_> = [0, 1, 0, 1]
                    .iter()
                    .map(|key| store.update_start(&thread, key, &value(n)))
                    .collect::<Result<_>>()?;
                for (i, update) in started.into_iter().enumerate() {
                    // Some after they have got on.
                    if n % 3 == 1 {
                        let _ = update.query();
                    }
                    if (i as u64 + n).is_multiple_of(3) {
                        update.wait()?;
                    } else {
                        drop(update);
                    }
                }
                for key in 0..2 {
                    let Bytes(found) = store.get(&thread, &key)?.expect("it is there");
                    let whole = found.first().map(|&n| value(u64::from(n)));
                    assert_eq!(Some(Bytes(found)), whole, "{cluster:?}");
                }
            }
            bar.wait(&thread)?;
            // All locks are free: each call has a short time.
            if me == 0 {
                thread.set_deadline(Some(thread.now().after(Duration::from_secs(60))));
                for key in 0..2 {
                    assert!(store.update(&thread, &key, &value(9))?);
                }
                thread.set_deadline(None);
            }
            bar.wait(&thread)
        });
    }
}

/// Node 1 inserts many keys while an update is under way that has asked for the lock they need. The inserts come after it.
#[test]
fn inserts_of_many_keys_end_the_updates_under_way_first() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let config = KvConfig::default().slots_per_node(64).locks(2);
            let store = Store::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = u64::from(manager.node().0);
            let _ = store.insert(&thread, &me, &me)?;
            bar.wait(&thread)?;
            for round in 1..20 {
                // The lock of one of the keys is here, and that of the other one there. Both nodes want both.
                let started: Vec<_> = [me, 1 - me]
                    .iter()
                    .map(|key| store.update_start(&thread, key, &(round * 2 + me)))
                    .collect::<Result<_>>()?;
                let new = 10 + 2 * round + me;
                let inserted = store.insert_many(&thread, &[(new, new), (new + 100, new)])?;
                assert_eq!(inserted, [Inserted::Done; 2], "{cluster:?}");
                for update in started {
                    assert!(update.wait()?, "{cluster:?}");
                }
                for key in [new, new + 100] {
                    assert!(store.delete(&thread, &key)?, "{cluster:?}");
                }
            }
            bar.wait(&thread)
        });
    }
}

/// A thread tries for a lock until it has it, whose holder waits for the lock of an update that the thread has started.
#[test]
fn who_tries_for_a_lock_moves_its_updates_on() {
    for cluster in ALL {
        run(cluster, 2, |manager, store, thread| {
            let ticket = TicketLock::new(manager, "ticket", manager.nodes()[0])?;
            let tas = TasLock::new(manager, "tas", manager.nodes()[0])?;
            let bar = Barrier::new(manager, "before")?;
            manager.wait_for_ready()?;
            let me = u64::from(manager.node().0);
            let update_all = |value| {
                let keys = (0..KEYS).map(|key| (key, key + KEYS * value));
                store.update_many(thread, &keys.collect::<Vec<_>>())
            };
            for of_tickets in [true, false] {
                if me == 0 {
                    let held = match of_tickets {
                        true => (Some(ticket.lock(thread, Scope::Nothing)?), None),
                        false => (None, Some(tas.lock(thread, Scope::Nothing)?)),
                    };
                    bar.wait(thread)?;
                    bar.wait(thread)?;
                    assert_eq!(update_all(1)?, KEYS as usize);
                    drop(held);
                } else {
                    bar.wait(thread)?;
                    bar.wait(thread)?;
                    let started: Vec<_> = (0..KEYS)
                        .map(|key| store.update_start(thread, &key, &key))
                        .collect::<Result<_>>()?;
                    let has_it = || -> Result<bool> {
                        Ok(match of_tickets {
                            true => ticket.try_lock(thread, Scope::Nothing)?.is_some(),
                            false => tas.try_lock(thread, Scope::Nothing)?.is_some(),
                        })
                    };
                    wait_until("the lock", || has_it().expect("the other node lives"));
                    for update in started {
                        assert!(update.wait()?, "{cluster:?}");
                    }
                }
                bar.wait(thread)?;
            }
            Ok(())
        });
    }
}

/// Values that are longer than a block of the thread's pool overlap with nothing, and are all written.
#[test]
fn long_values_of_a_window_are_all_written() {
    const LONG: usize = 10_000;
    for cluster in ALL {
        cluster.run(2, |manager| {
            let config = KvConfig::default()
                .slots_per_node(40)
                .value_bytes_max(LONG)
                .locks(3);
            let store = KvStore::<u64, Bytes>::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = u64::from(manager.node().0);
            let value = |key: u64, round: u64| Bytes(vec![(key + round) as u8; LONG - key as usize]);
            for key in (0..KEYS).filter(|key| key % 2 == me) {
                let _ = store.insert(&thread, &key, &value(key, 0))?;
            }
            bar.wait(&thread)?;
            if me == 0 {
                let started: Vec<_> = (0..KEYS)
                    .map(|key| store.update_start(&thread, &key, &value(key, 1)))
                    .collect::<Result<_>>()?;
                for update in started.into_iter().rev() {
                    assert!(update.wait()?, "{cluster:?}");
                }
            }
            bar.wait(&thread)?;
            for key in 0..KEYS {
                assert_eq!(
                    store.get(&thread, &key)?,
                    Some(value(key, 1)),
                    "{cluster:?}: {key}"
                );
            }
            bar.wait(&thread)
        });
    }
}
