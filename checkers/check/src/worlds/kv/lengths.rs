//! Values of a length that lookups cannot know, and lookups of more keys than are looked up together.

use loco::fabric::NodeId;
use loco::{Bytes, Inserted, KvStore, Manager};
use loco_sim::World;

use super::{There, stores};
use crate::methods::did;
use crate::stage::{Fabric, Stage, least_store, must};

/// The number of keys that are looked up together, and one.
const MORE_THAN_A_WINDOW: usize = 129;

/// Builds a world of values that a lookup cannot know the length of, and that are longer than what it reads first. Node 1 looks
/// them up in every way while node 0 writes one of another length.
pub(super) fn longer(world: &mut World) {
    const SHORT: usize = 8;
    const LONG: usize = 112;
    let value = |len| Bytes(vec![len as u8; len]);
    let make = |manager: &Manager<Fabric>| {
        let config = least_store(LONG).slots_per_node(2);
        KvStore::<u64, Bytes, Fabric>::new(manager, "kv", config)
    };
    let mut stage = Stage::prepared(world, 2, 1, make, move |store, thread| {
        if thread.node_id() == NodeId(0) {
            for key in [1, 2] {
                assert_eq!(must(store.insert(thread, &key, &value(LONG))), Inserted::Done);
            }
        }
    });
    stage.run(0, 0, "writer", move |store, thread| {
        assert!(must(store.update(thread, &1, &value(SHORT))), "the key is there");
    });
    stage.run(1, 0, "reader", move |store, thread| {
        let one = must(store.get(thread, &1));
        let many = must(store.get_many(thread, &[1, 2]));
        let started = must(must(store.get_start(thread, &2)).wait());
        for (found, lens) in [
            (&one, &[SHORT, LONG][..]),
            (&many[0], &[SHORT, LONG]),
            (&many[1], &[LONG]),
            (&started, &[LONG]),
        ] {
            let is_whole = |found: &Bytes| lens.iter().any(|&len| *found == value(len));
            assert!(
                found.as_ref().is_some_and(is_whole),
                "{found:?}, of the lengths {lens:?}"
            );
        }
    });
}

/// Builds a world in which node 1 looks up more keys by one call than overlap. It finds each of them.
pub(super) fn many(world: &mut World) {
    const KEYS: &[There] = &[(0, 1, 10)];
    let mut stage = stores::<1>(world, 2, 1, (1, 1), KEYS);
    stage.run(1, 0, "reader", |store, thread| {
        did("KvStore::get_many");
        let values = must(store.get_many(thread, &[1; MORE_THAN_A_WINDOW]));
        assert_eq!(values, [Some([10]); MORE_THAN_A_WINDOW], "nobody changes it");
    });
}
