//! Tests of the copies that are made again after a loss: nodes are lost one after another, and writes go on meanwhile.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use loco_fabric::NodeId;

use super::super::{KvConfig, KvStore};
use super::tests::wait_for;
use crate::operations::peers::is_gone;
use crate::{Inserted, Manager, Result, Thread, testing};

pub(super) type Store = KvStore<u64, u64>;

/// The keys that each node inserts.
pub(super) const KEYS: u64 = 40;

pub(super) fn config(copies: usize, spare_homes: usize) -> KvConfig {
    let config = KvConfig::default().slots_per_node(64).locks(4);
    config.copies(copies).spare_homes(spare_homes)
}

/// Returns the keys that a node inserts.
pub(super) fn keys_of(node: usize) -> impl Iterator<Item = u64> + Clone {
    let first = node as u64 * KEYS;
    first..first + KEYS
}

/// The points that the nodes of a test wait for one another at. Each has the number of nodes that have come.
pub(super) struct Points([AtomicUsize; 8]);

impl Points {
    pub(super) fn new() -> Points {
        Points(Default::default())
    }

    /// Comes to a point, and waits until `nodes` have.
    pub(super) fn meet(&self, point: usize, nodes: usize) {
        self.0[point].fetch_add(1, SeqCst);
        wait_for(|| self.0[point].load(SeqCst) >= nodes);
    }
}

/// Runs nodes with a store in which each has inserted its keys, with values that are the keys. A node whose part returns is lost.
pub(super) fn run(
    nodes: usize,
    config: &KvConfig,
    node: impl Fn(usize, &Manager, &Store, &Thread) -> Result<()> + Sync,
) {
    let (there, ended) = (Points::new(), Points::new());
    testing::run(nodes, |fabric| {
        let manager = Manager::new(fabric)?;
        let store = Store::new(&manager, "kv", config.clone())?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let here = usize::from(manager.node().0);
        for key in keys_of(here) {
            assert_eq!(store.insert(&thread, &key, &key)?, Inserted::Done);
        }
        there.meet(0, nodes);
        node(here, &manager, &store, &thread)?;
        manager.fabric().mesh().fail();
        // Nobody leaves with a goodbye, from whom the others would turn away before they are done.
        ended.meet(0, nodes);
        Ok(())
    });
}

pub(super) fn wait_until_gone(manager: &Manager, node: usize) {
    wait_for(|| is_gone(manager.fabric(), NodeId(node as u16)));
}

/// Four nodes with two copies are lost one after another until one is left, which has every value. Each is lost when the copies are whole.
#[test]
fn all_but_one_are_lost_one_after_another() {
    const NODES: usize = 4;
    let points = Points::new();
    let made = AtomicUsize::new(0);
    run(NODES, &config(2, 2), |here, manager, store, thread| {
        for left in (1..NODES).rev() {
            if here == left {
                made.fetch_add(store.stats().copies_made as usize, SeqCst);
                return Ok(());
            }
            wait_until_gone(manager, left);
            store.wait_until_whole(thread)?;
            points.meet(left, left);
            let keys = 0..NODES as u64 * KEYS;
            for key in keys.clone().filter(|key| *key as usize % left == here) {
                let before = key + 1000 * (NODES - 1 - left) as u64;
                assert_eq!(store.get(thread, &key)?, Some(before), "key {key}, {left} left");
                assert!(store.update(thread, &key, &(before + 1000))?);
            }
            let stats = store.stats();
            assert_eq!(stats.copies_due, 0);
            assert_eq!(stats.copies_short > 0, left == 1, "only the last one has no home");
            points.meet(NODES + left - 1, left);
        }
        let mut entries = store.entries(thread)?;
        entries.sort_unstable();
        let all = (0..NODES as u64 * KEYS).map(|key| (key, key + 3000));
        assert_eq!(entries, all.collect::<Vec<_>>());
        assert_eq!(store.stats().copies_short, NODES as u64 * KEYS);
        Ok(())
    });
    assert!(
        made.into_inner() > 0,
        "those that were lost have made copies before"
    );
}

/// Survivors write, delete and insert while copies are made, until these are whole. Then one of the two is lost, and the other has the last
/// of every write.
#[test]
fn no_write_is_lost_or_taken_back_while_copies_are_made() {
    let points = Points::new();
    let written = Mutex::new(BTreeMap::new());
    let overlaps = AtomicUsize::new(0);
    // Each node has 40 values, so copying takes two seconds.
    let config = config(2, 1).copies_per_second(20);
    run(3, &config, |here, manager, store, thread| {
        if here == 2 {
            points.meet(0, 3);
            return Ok(());
        }
        // Some of all nodes' keys.
        let mine = (0..3 * KEYS).filter(|key| *key as usize % 2 == here);
        let mut last: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        let mut round = 0;
        let mut whole_for = 0;
        // Two rounds more when the copies are whole.
        while whole_for < 2 {
            for key in mine.clone() {
                let value = key + 1000 * (round + 1);
                match last.get(&key) {
                    Some(None) => {
                        assert_eq!(store.get(thread, &key)?, None);
                        assert_eq!(store.insert(thread, &key, &value)?, Inserted::Done);
                    }
                    Some(Some(before)) if (round + key).is_multiple_of(5) => {
                        assert_eq!(store.get(thread, &key)?, Some(*before));
                        assert!(store.delete(thread, &key)?);
                        last.insert(key, None);
                        continue;
                    }
                    _ => assert!(store.update(thread, &key, &value)?, "key {key}"),
                }
                last.insert(key, Some(value));
                overlaps.fetch_add(usize::from(store.stats().copies_due > 0), SeqCst);
            }
            if round == 0 {
                points.meet(0, 3);
            }
            round += 1;
            let is_whole = || {
                thread
                    .within(Duration::ZERO, || store.wait_until_whole(thread))
                    .is_ok()
            };
            if is_gone(manager.fabric(), NodeId(2)) && is_whole() {
                whole_for += 1;
            }
        }
        written.lock().expect("nobody panics").extend(last);
        points.meet(1, 2);
        if here == 1 {
            return Ok(());
        }
        wait_until_gone(manager, 1);
        for (key, value) in written.lock().expect("nobody panics").iter() {
            assert_eq!(store.get(thread, key)?, *value, "key {key}");
        }
        Ok(())
    });
    assert!(overlaps.into_inner() > 0, "no write was made while copies were");
}

/// The second of the nodes that have copies is lost before the third has got them all. What it has not got is lost, and is not
/// taken for keys that are not there, until it is deleted.
#[test]
fn what_was_not_copied_in_time_is_lost_and_not_absent() {
    let config = config(2, 1).copies_per_second(1);
    run(4, &config, |here, manager, store, thread| {
        match here {
            2 => return Ok(()),
            3 => {
                wait_until_gone(manager, 2);
                return Ok(());
            }
            _ => {}
        }
        wait_until_gone(manager, 2);
        wait_until_gone(manager, 3);
        if here == 1 {
            // Until node 0 is done with the keys, which it needs this node for.
            wait_for(|| store.get(thread, &0) == Ok(Some(7)));
            return Ok(());
        }
        let mut lost = 0;
        for key in keys_of(2) {
            match store.get(thread, &key) {
                Ok(found) => assert_eq!(found, Some(key)),
                Err(error) => {
                    assert_eq!(error.lost_peer(), Some(NodeId(2)), "{error}");
                    let refused = [
                        store.update(thread, &key, &5).map(drop),
                        store.insert(thread, &key, &5).map(drop),
                        store.entries(thread).map(drop),
                        store.delete(thread, &key).map(drop),
                    ];
                    for refused in refused {
                        assert_eq!(
                            refused.expect_err("nobody knows the value").lost_peer(),
                            Some(NodeId(2))
                        );
                    }
                    assert_eq!(store.get(thread, &key)?, None, "it was deleted");
                    lost += 1;
                }
            }
        }
        assert!(lost > 0, "one value a second is copied");
        assert!(store.update(thread, &0, &7)?);
        Ok(())
    });
}

/// The copies of a hundred values are not made faster than at the rate.
#[test]
fn copies_are_made_at_a_bounded_rate() {
    const RATE: u32 = 100;
    let begin = Mutex::new(None);
    let config = config(2, 1).copies_per_second(RATE);
    let points = Points::new();
    run(3, &config, |here, manager, store, thread| {
        if here == 2 {
            *begin.lock().expect("nobody panics") = Some(Instant::now());
            return Ok(());
        }
        wait_until_gone(manager, 2);
        store.wait_until_whole(thread)?;
        let begin = begin.lock().expect("nobody panics").expect("node 2 is gone");
        // Node 0 copies the values of node 2, and node 1 its own: each as many.
        assert_eq!(store.stats().copies_made, KEYS);
        let least = Duration::from_secs(KEYS - 1) / RATE;
        assert!(begin.elapsed() >= least, "{:?}", begin.elapsed());
        points.meet(0, 2);
        Ok(())
    });
}

/// A snapshot of a store that has lost a node has every value, and is put into a store with copies again.
#[test]
fn a_snapshot_after_a_loss_has_all_values() {
    let file = std::env::temp_dir().join(format!("loco-copies-{}", std::process::id()));
    let points = Points::new();
    run(3, &config(2, 1), |here, manager, store, thread| {
        if here == 2 {
            return Ok(());
        }
        wait_until_gone(manager, 2);
        if here == 0 {
            assert_eq!(store.snapshot(thread, &file)?.keys, 3 * KEYS);
            assert!(store.update(thread, &0, &9)?);
            assert!(store.delete(thread, &(2 * KEYS))?);
            let restored = store.restore(thread, &file)?;
            assert_eq!((restored.inserted, restored.updated), (1, 3 * KEYS - 1));
            let mut entries = store.entries(thread)?;
            entries.sort_unstable();
            assert_eq!(entries, (0..3 * KEYS).map(|key| (key, key)).collect::<Vec<_>>());
        }
        points.meet(0, 2);
        Ok(())
    });
    std::fs::remove_file(&file).expect("it was written");
}
