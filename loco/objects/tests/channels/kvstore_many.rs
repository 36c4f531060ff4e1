//! The key-value store's calls on many keys, and values whose length is not known before.

use crate::common::ALL;
use crate::common::net::{AtomicArray, Barrier, KvStore};
use loco::{Bytes, Inserted, KvConfig};

type Store = KvStore<u64, u64>;

fn config() -> KvConfig {
    KvConfig::default()
        .slots_per_node(400)
        .locks(5)
        .tracker_bytes(1024)
}

/// More keys than a window has room for; more than a tracker has.
#[test]
fn every_node_finds_what_each_inserted_and_updated() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let store = Store::new(&manager, "kv", config())?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = u64::from(manager.node().0);
            let mine: Vec<(u64, u64)> = (0..300).map(|i| (i * 2 + me, i)).collect();
            let inserted = store.insert_many(&thread, &mine)?;
            assert!(inserted.iter().all(|&outcome| outcome == Inserted::Done));
            bar.wait(&thread)?;
            let keys: Vec<u64> = (0..610).collect();
            let values = store.get_many(&thread, &keys)?;
            for (key, value) in keys.iter().zip(&values) {
                assert_eq!(*value, (*key < 600).then_some(key / 2), "{cluster:?}: {key}");
            }
            bar.wait(&thread)?;
            // The other node's keys, some that are not there, and one of them twice: the later one counts.
            let mut changes: Vec<(u64, u64)> = (0..310).map(|i| (i * 2 + 1 - me, 1000 + i)).collect();
            changes.push((1 - me, 7));
            assert_eq!(store.update_many(&thread, &changes)?, 301);
            bar.wait(&thread)?;
            let mut values = Vec::new();
            store.get_many_into(&thread, &keys, &mut values)?;
            for (key, value) in keys.iter().zip(&values) {
                let expected = match key {
                    0 | 1 => Some(7),
                    2..600 => Some(1000 + key / 2),
                    _ => None,
                };
                assert_eq!(*value, expected, "{cluster:?}: {key}");
            }
            bar.wait(&thread)
        });
    }
}

#[test]
fn inserts_of_many_keys_tell_each_ones_outcome() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let config = KvConfig::default().slots_per_node(3).locks(2);
            let store = Store::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == manager.nodes()[0] {
                assert_eq!(store.insert(&thread, &1, &10)?, Inserted::Done);
                // One that is there; one twice; and no room for both of the last two.
                let outcomes = store.insert_many(&thread, &[(1, 11), (2, 20), (2, 21), (3, 30), (4, 40)])?;
                assert_eq!(outcomes[..2], [Inserted::Duplicate, Inserted::Done]);
                assert_eq!(outcomes[2], Inserted::Duplicate);
                let full = |outcome: &&Inserted| **outcome == Inserted::Full;
                assert_eq!(outcomes[3..].iter().filter(full).count(), 1, "{outcomes:?}");
            }
            bar.wait(&thread)?;
            assert_eq!(store.get_many(&thread, &[1, 2])?, [Some(10), Some(20)]);
            assert_eq!(store.stats().keys, 3);
            bar.wait(&thread)
        });
    }
}

/// Both nodes update the same few keys, many by one call, in opposite orders.
#[test]
fn calls_that_meet_in_opposite_orders_do_not_wait_for_each_other() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let store = Store::new(&manager, "kv", config())?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = u64::from(manager.node().0);
            let mine: Vec<(u64, u64)> = (0..10).map(|i| (i * 2 + me, 0)).collect();
            let _ = store.insert_many(&thread, &mine)?;
            bar.wait(&thread)?;
            for round in 0..20 {
                let mut changes: Vec<(u64, u64)> = (0..20).map(|key| (key, round)).collect();
                if me == 1 {
                    changes.reverse();
                }
                assert_eq!(store.update_many(&thread, &changes)?, 20);
            }
            bar.wait(&thread)?;
            let values = store.get_many(&thread, &(0..20).collect::<Vec<_>>())?;
            assert!(
                values.iter().all(|value| *value == Some(19)),
                "{cluster:?}: {values:?}"
            );
            bar.wait(&thread)
        });
    }
}

/// A lookup reads the beginning of a slot, and the rest only of values that are longer.
#[test]
fn values_of_any_length_are_found_whole() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let config = KvConfig::default().slots_per_node(64).value_bytes_max(1000);
            let store = KvStore::<u64, Bytes>::new(&manager, "kv", config)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let lengths = [0, 1, 8, 103, 104, 105, 500, 1000];
            let value = |len: usize| Bytes((0..len).map(|i| (i * 7 + len) as u8).collect());
            let mut keys: Vec<u64> = Vec::new();
            for (key, len) in (0_u64..).zip(lengths) {
                keys.push(key);
                if key % 2 == u64::from(manager.node().0) {
                    assert_eq!(store.insert(&thread, &key, &value(len))?, Inserted::Done);
                }
            }
            bar.wait(&thread)?;
            let many = store.get_many(&thread, &keys)?;
            for ((key, len), found) in keys.iter().zip(lengths).zip(many) {
                assert_eq!(found, Some(value(len)), "{cluster:?}: {len}");
                assert_eq!(store.get(&thread, key)?, Some(value(len)), "{cluster:?}: {len}");
                let started = store.get_start(&thread, key)?;
                assert_eq!(started.wait()?, Some(value(len)), "{cluster:?}: {len}");
            }
            bar.wait(&thread)
        });
    }
}

#[test]
fn words_of_an_array_are_counted_by_all() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let words = AtomicArray::<i64, _>::new(&manager, "words", 10)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            for _ in 0..20 {
                for i in 0..words.len() {
                    words.fetch_add(&thread, i, -(i as i64))?;
                }
            }
            bar.wait(&thread)?;
            for i in 0..words.len() {
                assert_eq!(words.read(&thread, i)?, -(60 * i as i64), "{cluster:?}: {i}");
                assert_eq!(words.home(i), manager.nodes()[i % 3]);
            }
            assert!(words.read(&thread, 10).is_err(), "there is no such word");
            bar.wait(&thread)?;
            if manager.node() == manager.nodes()[1] {
                assert_eq!(words.compare_swap(&thread, 3, -180, 5)?, -180);
                assert_eq!(words.compare_swap(&thread, 3, -180, 6)?, 5);
            }
            bar.wait(&thread)
        });
    }
}

/// A cut reads neighbouring slots of each node by one read, over gaps, and this node's by the CPU.
#[test]
fn a_cut_has_the_keys_of_all_nodes() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let store = Store::new(&manager, "kv", config())?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = u64::from(manager.node().0);
            let mine: Vec<(u64, u64)> = (0..200).map(|i| (i * 3 + me, i)).collect();
            let _ = store.insert_many(&thread, &mine)?;
            // Gaps, one of them long.
            for (key, _) in mine.iter().filter(|(_, i)| (50..160).contains(i) || i % 7 == 0) {
                assert!(store.delete(&thread, key)?);
            }
            bar.wait(&thread)?;
            let mut entries = store.entries(&thread)?;
            entries.sort_unstable();
            let expected = (0..600).map(|key| (key, key / 3));
            let expected = expected.filter(|(_, i)| !(50..160).contains(i) && i % 7 != 0);
            assert!(entries.into_iter().eq(expected), "{cluster:?}");
            bar.wait(&thread)
        });
    }
}

/// Threads of several nodes update overlapping keys in opposite orders. None waits for another's lock while it holds one, and
/// of each key the value of some call is left.
#[test]
fn updates_of_many_keys_by_threads_of_all_nodes_end() {
    const KEYS: u64 = 40;
    const ROUNDS: u64 = 30;
    for cluster in ALL {
        cluster.run(3, |manager| {
            let store = Store::new(&manager, "kv", config())?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let me = u64::from(manager.node().0);
            let mine: Vec<(u64, u64)> = (0..KEYS)
                .filter(|key| key % 3 == me)
                .map(|key| (key, key))
                .collect();
            let _ = store.insert_many(&thread, &mine)?;
            bar.wait(&thread)?;
            std::thread::scope(|scope| {
                let of_thread = |backwards: bool| {
                    let (store, manager) = (&store, &manager);
                    move || -> loco::Result<()> {
                        let thread = manager.thread()?;
                        for round in 0..ROUNDS {
                            // Each value names its key.
                            let mut changes: Vec<(u64, u64)> =
                                (0..KEYS).map(|key| (key, key + KEYS * (round + 1))).collect();
                            changes.rotate_left((round * (me + 1) % KEYS) as usize);
                            if backwards {
                                changes.reverse();
                            }
                            assert_eq!(
                                store.update_many(&thread, &changes)?,
                                KEYS as usize,
                                "{cluster:?} {me} {round}"
                            );
                        }
                        Ok(())
                    }
                };
                let threads = [false, true].map(|backwards| scope.spawn(of_thread(backwards)));
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().expect("no panic"))
            })?;
            bar.wait(&thread)?;
            for key in 0..KEYS {
                let value = store.get(&thread, &key)?.expect("it is there");
                assert!(
                    value % KEYS == key && value > key,
                    "{cluster:?}: {key} is {value}"
                );
            }
            bar.wait(&thread)
        });
    }
}
