//! Updates that are started: two of a thread are under way at a time, and each is completed by itself.

use loco::fabric::NodeId;
use loco::{Error, Inserted, Manager, Result, Thread};
use loco_sim::{World, call};

use super::{Store, There, named, stores};
use crate::methods::did;
use crate::stage::{Fabric, Stage, UNKNOWN, must, outcome};

/// Starts updates of two keys, and completes the second one first. Returns for each whether it was there.
pub(super) fn update_two<const N: usize>(
    store: &Store<N>,
    thread: &Thread<Fabric>,
    one: u64,
    two: u64,
    value: u64,
) -> Result<String>
where
    [u64; N]: loco::Encode,
{
    did("KvStore::update_start");
    let update = || {
        let first = store.update_start(thread, &one, &[value; N])?;
        let second = store.update_start(thread, &two, &[value + 1; N])?;
        let second = second.wait();
        Ok(format!("{} {}", first.wait()?, second?))
    };
    call(
        format!("update-many {one} {value} {two} {}", value + 1),
        update,
        outcome(UNKNOWN, String::clone),
    )
}

/// Starts an update, moves it on once if `goes_on`, and drops it: it takes effect or not.
pub(super) fn update_dropped<const N: usize>(
    store: &Store<N>,
    thread: &Thread<Fabric>,
    key: u64,
    value: u64,
    goes_on: bool,
) where
    [u64; N]: loco::Encode,
{
    did("KvStore::update_start");
    let update = || {
        let update = must(store.update_start(thread, &key, &[value; N]));
        goes_on && update.query()
    };
    call(format!("update {key} {value}"), update, |_| UNKNOWN.to_owned());
}

/// Builds a world in which node 1 starts two updates of a key of node 0, under one lock, and then inserts a key. The second update is the
/// last: a thread that finds that key finds its value.
pub(super) fn in_order(world: &mut World) {
    const KEYS: &[There] = &[(0, 1, 10)];
    let mut stage = stores::<2>(world, 2, 1, (1, 1), KEYS);
    stage.run(1, 0, "writer", |store, thread| {
        let first = must(store.update_start(thread, &1, &[11; 2]));
        let second = must(store.update_start(thread, &1, &[12; 2]));
        assert!(must(second.wait()) && must(first.wait()));
        let _ = must(store.insert(thread, &3, &[30; 2]));
    });
    stage.run(0, 0, "reader", |store, thread| {
        if must(store.get(thread, &3)).is_some() {
            let found = must(store.get(thread, &1));
            assert_eq!(found, Some([12; 2]), "the second of the two");
        }
    });
}

/// Builds a world in which a thread of each node starts an update of the key of its own node, and then makes a call that waits for the lock
/// of the other's. Whoever waits ends what it has under way.
pub(super) fn beside_calls(world: &mut World) {
    const KEYS: &[There] = &[(0, 1, 10), (1, 2, 20)];
    let mut stage = stores::<1>(world, 2, 1, (1, 2), KEYS);
    stage.each("writer", 0..2, |store, thread, node| {
        let (mine, other) = match node {
            0 => (1, 2),
            _ => (2, 1),
        };
        let update = must(store.update_start(thread, &mine, &[30]));
        assert!(must(store.delete(thread, &other)), "nobody else deletes it");
        must(update.wait());
    });
}

/// Builds a world in which a thread of each node starts an update of the key of its own node, and then inserts two keys by one call, one of
/// them under the lock of the other node's. It ends what it has under way first: it waits for acknowledgements under these locks.
pub(super) fn beside_inserts(world: &mut World) {
    const KEYS: &[There] = &[(0, 1, 10), (1, 2, 20)];
    let mut stage = stores::<1>(world, 2, 1, (3, 2), KEYS);
    stage.each("writer", 0..2, |store, thread, node| {
        let (mine, one, two) = match node {
            0 => (1, 3, 4),
            _ => (2, 5, 6),
        };
        let update = must(store.update_start(thread, &mine, &[30]));
        let inserted = must(store.insert_many(thread, &[(one, [40]), (two, [40])]));
        assert_eq!(inserted, [Inserted::Done; 2], "nobody else inserts them");
        assert!(must(update.wait()), "nobody deletes it");
    });
}

/// Builds a world in which an update of each node gives up when its lock is held: the time of its thread has passed when it begins. Then
/// each updates with time enough.
pub(super) fn late(world: &mut World) {
    const KEYS: &[There] = &[(0, 1, 10)];
    let mut stage = stores::<1>(world, 2, 1, (1, 1), KEYS);
    stage.each("writer", 0..2, |store, thread, node| {
        thread.set_deadline(Some(thread.now()));
        let late = store.update(thread, &1, &[20 + u64::from(node)]);
        thread.set_deadline(None);
        assert!(
            late.as_ref().map_or_else(Error::is_timeout, |&there| there),
            "{late:?}"
        );
        assert!(
            must(store.update(thread, &1, &[30 + u64::from(node)])),
            "nobody deletes it"
        );
    });
}

/// Builds a world in which a thread has updates under way in two stores with keys of one type. That of the first store has ended when the
/// thread starts another one in the second store, and when it waits for what it has under way there. The values are on the other node.
pub(super) fn in_two_stores(world: &mut World) {
    let make = |manager: &Manager<Fabric>| {
        let store = |name| named::<1>(name, 1, 1)(manager);
        Ok([store("first")?, store("second")?])
    };
    let mut stage = Stage::prepared(world, 2, 1, make, |stores: &[Store<1>; 2], thread| {
        if thread.node_id() == NodeId(0) {
            for store in stores {
                assert_eq!(must(store.insert(thread, &1, &[10])), Inserted::Done);
            }
        }
    });
    stage.run(1, 0, "writer", |[first, second], thread| {
        did("KvStore::update_start");
        let one = must(first.update_start(thread, &1, &[11]));
        let two = must(second.update_start(thread, &1, &[12]));
        assert!(must(one.wait()), "the key is in the first store");
        let three = must(second.update_start(thread, &1, &[13]));
        assert!(must(two.wait()), "the key is in the second store");
        assert!(must(three.wait()), "the key is in the second store");
        assert_eq!(
            must(first.get(thread, &1)),
            Some([11]),
            "the update of the first store"
        );
        assert_eq!(
            must(second.get(thread, &1)),
            Some([13]),
            "the last update of the second store"
        );
    });
    stage.run(0, 0, "reader", |[first, second], thread| {
        let known =
            |value: Option<[u64; 1]>, values: &[u64]| matches!(value, Some([word]) if values.contains(&word));
        assert!(
            known(must(second.get(thread, &1)), &[10, 12, 13]),
            "a value of the second store"
        );
        assert!(
            known(must(first.get(thread, &1)), &[10, 11]),
            "a value of the first store"
        );
    });
}
