//! Worlds in which nodes 1 and 2 of three use an object among themselves. The participants are no prefix of the nodes, so the
//! positions of participants differ from the ids of their nodes.

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{
    Barrier, Inserted, KvStore, Manager, OwnedVar, Parent as _, Participants, Popped, Pushed, Result,
    RingBuffer, SharedQueue, SharedRegion, Sst, TasLock, Thread,
};
use loco_sim::World;

use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, here, least_store, must, put_word};

/// The participants.
const FIRST: NodeId = NodeId(1);
const SECOND: NodeId = NodeId(2);

/// The parent of a participant's object: the manager, restricted to the participants.
type Parent<'a> = loco::Among<'a, Manager<Fabric>, Fabric>;

struct Objects<T> {
    object: Option<T>,
    data: SharedRegion<Fabric>,
}

/// Names a world in which both participants run `body`, with their own id and the other's.
fn named<T: Send + Sync + 'static>(
    make: fn(&Parent<'_>) -> Result<T>,
    body: fn(&T, &SharedRegion<Fabric>, &Thread<Fabric>, NodeId, NodeId),
) -> NamedWorld {
    let build = move |world: &mut World| {
        let objects = move |manager: &Manager<Fabric>| {
            let both = Participants::of([FIRST, SECOND]);
            let inside = both.contains(manager.node());
            Ok(Objects {
                object: inside.then(|| make(&manager.among(&both))).transpose()?,
                data: SharedRegion::new(manager, "data", 64)?,
            })
        };
        let mut stage = Stage::new(world, 3, 1, objects);
        stage.each("node", [1, 2], move |objects, thread, me| {
            let object = objects.object.as_ref()?;
            body(object, &objects.data, thread, NodeId(me), NodeId(3 - me));
            Some(())
        });
    };
    NamedWorld::new("last-nodes", build)
}

/// Both put at the other and meet, and then see what the other put.
pub(super) fn barrier() -> NamedWorld {
    named(
        |parent| Barrier::new(parent, "bar"),
        |barrier, data, thread, _, other| {
            put_word(thread, data, other.0, 0, 1);
            must(barrier.wait(thread));
            assert_eq!(here(data, 0), 1, "put before the barrier, seen after it");
        },
    )
}

/// Both push their rows and wait for both.
pub(super) fn sst() -> NamedWorld {
    named(
        |parent| Sst::<u64, Fabric>::new(parent, "table"),
        |table, data, thread, me, other| {
            put_word(thread, data, other.0, 0, 1);
            must(table.store_mine(u64::from(me.0)));
            must(table.push(thread)).forget();
            must(table.wait_for_each(thread, |row| row != 0));
            let row = must(table.row(other)).load();
            assert_eq!(row, u64::from(other.0), "the row of {other}");
            assert_eq!(here(data, 0), 1, "puts before the push are seen with it");
        },
    )
}

/// The last node owns a variable.
pub(super) fn owned_var() -> NamedWorld {
    named(
        |parent| OwnedVar::<u64, Fabric>::new(parent, "owned", SECOND),
        |owned, _, thread, me, _| {
            for value in 1..=2 {
                if me == SECOND {
                    must(owned.store(value));
                    must(owned.push(thread)).forget();
                }
            }
            assert_eq!(
                must(owned.wait_until(thread, |value| value == 2)),
                2,
                "pushed last"
            );
        },
    )
}

/// One participant pushes to the other, through a queue on the last node.
pub(super) fn queue() -> NamedWorld {
    named(
        |parent| SharedQueue::<u64, Fabric>::new(parent, "queue", SECOND, 1),
        |queue, _, thread, me, _| {
            for value in 1..=2 {
                match me {
                    FIRST => assert_eq!(must(queue.push(thread, value)), Pushed::Done),
                    _ => assert_eq!(must(queue.pop(thread)), Popped::Value(value), "in order"),
                }
            }
        },
    )
}

/// Both count under a lock on the last node.
pub(super) fn tas_lock() -> NamedWorld {
    named(|parent| TasLock::new(parent, "lock", SECOND), counts)
}

/// Adds to a word of the first participant under the lock. Whoever is second finds what the other has put.
fn counts(
    lock: &TasLock<Fabric>,
    data: &SharedRegion<Fabric>,
    thread: &Thread<Fabric>,
    _: NodeId,
    _: NodeId,
) {
    let guard = must(lock.lock(thread, Scope::Thread));
    let count = must(thread.read_word(must(data.target(FIRST, 0))));
    put_word(thread, data, FIRST.0, 0, count + 1);
    must(guard.release());
    assert!(count < 2, "two holders: {count}");
    loco_sim::note(format!("found {count}"));
}

/// The last node writes, the other reads.
pub(super) fn ring_buffer() -> NamedWorld {
    named(
        |parent| RingBuffer::new(parent, "ring", SECOND, 32),
        |ring, _, thread, me, _| {
            if me == SECOND {
                let mut writer = must(ring.writer());
                for number in 1..=3_u64 {
                    must(writer.submit(thread, &number.to_ne_bytes()));
                }
                must(writer.wait_until_read(thread));
            } else {
                let mut reader = must(ring.reader());
                for number in 1..=3_u64 {
                    assert_eq!(must(reader.receive(thread)), number.to_ne_bytes());
                }
            }
        },
    )
}

/// Both insert a key and look for that of the other.
pub(super) fn kv() -> NamedWorld {
    named(
        |parent| KvStore::<u64, u64, Fabric>::new(parent, "kv", least_store(8)),
        |store, _, thread, me, other| {
            let (mine, theirs) = (u64::from(me.0), u64::from(other.0));
            assert_eq!(must(store.insert(thread, &mine, &(10 * mine))), Inserted::Done);
            let found = must(store.get(thread, &theirs));
            assert!(
                found.is_none_or(|value| value == 10 * theirs),
                "{found:?} of {other}"
            );
            if me == SECOND && found.is_some() {
                assert!(must(store.delete(thread, &theirs)), "nobody else deletes it");
            }
        },
    )
}
