//! Reads of the whole store as of one moment, while others write. The keys have different locks.

use loco::{Inserted, Result, Thread};
use loco_sim::World;

use super::{Store, There, make, stores};
use crate::methods::did;
use crate::stage::{Fabric, Stage, is_loss, must};

/// Keys of different locks, and another one.
const ONE: u64 = 1;
const TWO: u64 = 2;
const NEW: u64 = 3;

/// A key of each node.
const APART: &[There] = &[(0, ONE, 10), (1, TWO, 20)];

/// The value that a cut has of a key.
type Cut = Vec<(u64, [u64; 1])>;

fn cut(store: &Store<1>, thread: &Thread<Fabric>) -> Result<Cut> {
    did("KvStore::entries");
    store.entries(thread)
}

fn value(cut: &Cut, key: u64) -> Option<u64> {
    let mut found = cut.iter().filter(|entry| entry.0 == key);
    let value = found.next().map(|entry| entry.1[0]);
    assert!(found.next().is_none(), "no key is twice in a cut: {cut:?}");
    value
}

/// Makes a world in which the writer on node 0 updates one key and then another. A cut on node 1 that has the second update
/// has the first. It also has what its own thread wrote before.
pub(super) fn in_order(first: u64, second: u64) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = stores::<1>(world, 2, 1, (1, 2), APART);
        stage.run(0, 0, "writer", move |store, thread| {
            assert!(must(store.update(thread, &first, &[30])), "it is there");
            assert!(must(store.update(thread, &second, &[40])), "it is there");
        });
        stage.run(1, 0, "reader", move |store, thread| {
            let cut = must(cut(store, thread));
            let [first, second] = [first, second].map(|key| value(&cut, key));
            assert!(first.is_some() && second.is_some(), "no key is missing: {cut:?}");
            assert!(
                second != Some(40) || first == Some(30),
                "the first came before: {cut:?}"
            );
        });
    }
}

/// Builds a world in which the writer inserts a key, updates another one, and deletes the first again. A cut has the
/// whole of each, in their order, and the update of its own thread.
pub(super) fn come_and_gone(world: &mut World) {
    let mut stage = stores::<1>(world, 2, 1, (2, 2), APART);
    stage.run(0, 0, "writer", |store, thread| {
        assert_eq!(must(store.insert(thread, &NEW, &[50])), Inserted::Done);
        assert!(must(store.update(thread, &ONE, &[30])), "it is there");
        assert!(must(store.delete(thread, &NEW)), "it is there");
    });
    stage.run(1, 0, "reader", |store, thread| {
        assert!(must(store.update(thread, &TWO, &[40])), "it is there");
        let cut = must(cut(store, thread));
        assert_eq!(value(&cut, TWO), Some(40), "what the thread wrote before");
        match (value(&cut, NEW), value(&cut, ONE)) {
            (None | Some(50), Some(10 | 30)) => {}
            _ => panic!("values that nobody wrote, or no value: {cut:?}"),
        }
    });
}

/// Builds a world in which a batch inserts two keys of different locks while a cut takes both. Neither waits for ever. The cut has each key
/// as a whole or not at all, and a cut after the batch has both.
pub(super) fn across_a_batch(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<1>(2, 2));
    stage.run(0, 0, "writer", |store, thread| {
        let outcomes = must(store.insert_many(thread, &[(TWO, [20]), (ONE, [10])]));
        assert_eq!(outcomes, [Inserted::Done, Inserted::Done]);
        let cut = must(cut(store, thread));
        assert_eq!([ONE, TWO].map(|key| value(&cut, key)), [Some(10), Some(20)]);
    });
    stage.run(1, 0, "reader", |store, thread| {
        let cut = must(cut(store, thread));
        let found = [ONE, TWO].map(|key| value(&cut, key));
        assert!(
            matches!(found, [None | Some(10), None | Some(20)]),
            "as a whole or not: {cut:?}"
        );
    });
}

/// Builds a world of two cuts that meet, on different nodes: neither waits for ever, and both are of what is there.
pub(super) fn twice(world: &mut World) {
    let mut stage = stores::<1>(world, 2, 1, (1, 2), APART);
    stage.each("reader", 0..2, |store, thread, _| {
        let cut = must(cut(store, thread));
        assert_eq!([ONE, TWO].map(|key| value(&cut, key)), [Some(10), Some(20)]);
    });
}

/// Builds a world in which the slot between those of two keys is free. A cut has both keys, and no third one.
pub(super) fn with_a_gap(world: &mut World) {
    let make = make::<1>(3, 1);
    let mut stage = Stage::prepared(world, 2, 1, make, |store, thread| {
        if thread.node_id().0 == 0 {
            for (key, value) in [(ONE, 10), (NEW, 50), (TWO, 20)] {
                assert_eq!(must(store.insert(thread, &key, &[value])), Inserted::Done);
            }
        }
    });
    stage.run(0, 0, "writer", |store, thread| {
        assert!(must(store.delete(thread, &NEW)), "it is there");
        let cut = must(cut(store, thread));
        assert_eq!(
            [ONE, TWO, NEW].map(|key| value(&cut, key)),
            [Some(10), Some(20), None]
        );
    });
    stage.run(1, 0, "reader", |store, thread| {
        let cut = must(cut(store, thread));
        assert_eq!([ONE, TWO].map(|key| value(&cut, key)), [Some(10), Some(20)]);
        assert!(matches!(value(&cut, NEW), None | Some(50)), "{cut:?}");
    });
}

/// Builds a world in which a node may be lost. A cut that succeeds has all keys, in the order of their updates. One that has
/// succeeded is not taken back by the next.
pub(super) fn lost(world: &mut World) {
    const OF_NODE_0: &[There] = &[(0, ONE, 10), (0, TWO, 20)];
    let mut stage = stores::<1>(world, 3, 1, (2, 1), OF_NODE_0);
    stage.run(1, 0, "writer", |store, thread| {
        let updated = store.update(thread, &ONE, &[30]);
        if updated.is_ok() {
            let _ = store.update(thread, &TWO, &[40]);
        }
    });
    stage.run(2, 0, "reader", |store, thread| {
        let mut last = None;
        for _ in 0..2 {
            match cut(store, thread) {
                Ok(cut) => {
                    let found = [ONE, TWO].map(|key| value(&cut, key));
                    let order = [[Some(10), Some(20)], [Some(30), Some(20)], [Some(30), Some(40)]];
                    let at = order.iter().position(|state| *state == found);
                    assert!(at.is_some(), "all keys, in the order of their updates: {cut:?}");
                    assert!(at >= last, "an earlier state than before: {cut:?}");
                    last = at;
                }
                Err(error) => {
                    let torn = matches!(error, loco::Error::Torn { .. });
                    assert!(torn || is_loss(&error), "{error}");
                }
            }
        }
    });
}

/// Builds a world in which an insert may time out halfway. A cut has no key that is not there, and does not fail at what is left.
pub(super) fn left_behind(world: &mut World) {
    let mut stage = stores::<1>(world, 2, 1, (2, 1), APART);
    stage.run(0, 0, "writer", |store, thread| {
        match store.insert(thread, &NEW, &[50]) {
            Ok(done) => assert_eq!(done, Inserted::Done),
            Err(error) => assert!(error.is_timeout(), "{error}"),
        }
    });
    stage.run(1, 0, "reader", |store, thread| match cut(store, thread) {
        Ok(cut) => {
            let found = [ONE, TWO].map(|key| value(&cut, key));
            assert_eq!(found, [Some(10), Some(20)], "no key is missing");
            assert!(matches!(value(&cut, NEW), None | Some(50)), "{cut:?}");
        }
        Err(error) => assert!(error.is_timeout(), "{error}"),
    });
}
