//! Snapshots: the store in a file, and back in another store. What is restored is the whole store as of one moment.
//!
//! The file is a real one, on a file system in memory if the host has one. What is in it comes from the model; what becomes of it when
//! the process is killed is not explored.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use loco::{Inserted, Manager, Result, Thread};
use loco_sim::World;

use super::{Store, named};
use crate::methods::did;
use crate::stage::{Fabric, Stage, must};

/// Keys of different locks.
const ONE: u64 = 1;
const TWO: u64 = 2;

/// A store, and another one for what is restored.
struct Stores {
    store: Store<1>,
    copy: Store<1>,
}

fn both(manager: &Manager<Fabric>) -> Result<Stores> {
    Ok(Stores {
        store: named::<1>("kv", 2, 2)(manager)?,
        copy: named::<1>("copy", 2, 2)(manager)?,
    })
}

/// The name of a file that no other execution uses. Dropped, it removes the file.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let in_memory = Path::new("/dev/shm");
        let folder = match in_memory.is_dir() {
            true => in_memory.to_owned(),
            false => std::env::temp_dir(),
        };
        // Relaxed: only the number matters.
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Scratch(folder.join(format!("loco-check-{}-{number}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may not be there yet.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns what the copy has of both keys.
fn found(stores: &Stores, thread: &Thread<Fabric>) -> [Option<u64>; 2] {
    [ONE, TWO].map(|key| must(stores.copy.get(thread, &key)).map(|value| value[0]))
}

/// Makes a world in which node 0 updates one key and then another while node 1 makes a snapshot. What is restored from it, in two
/// parts, has both keys, and the first update if it has the second. The copy had the first key before.
pub(super) fn in_order(first: u64, second: u64) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::prepared(world, 2, 1, both, |stores, thread| {
            let (key, value) = match thread.node_id().0 {
                0 => (ONE, 10),
                _ => (TWO, 20),
            };
            assert_eq!(must(stores.store.insert(thread, &key, &[value])), Inserted::Done);
            if key == ONE {
                assert_eq!(must(stores.copy.insert(thread, &ONE, &[1])), Inserted::Done);
            }
        });
        stage.run(0, 0, "writer", move |stores, thread| {
            assert!(must(stores.store.update(thread, &first, &[30])), "it is there");
            assert!(must(stores.store.update(thread, &second, &[40])), "it is there");
        });
        stage.run(1, 0, "keeper", move |stores, thread| {
            let file = Scratch::new();
            did("KvStore::snapshot");
            assert_eq!(must(stores.store.snapshot(thread, &file.0)).keys, 2);
            let (mut inserted, mut updated) = (0, 0);
            for part in 0..2 {
                did("KvStore::restore_part");
                let restored = must(stores.copy.restore_part(thread, &file.0, part, 2));
                assert_eq!(restored.keys, 2, "the keys of the file");
                inserted += restored.inserted;
                updated += restored.updated;
            }
            assert_eq!((inserted, updated), (1, 1), "each key is in one part");
            let found = found(stores, thread);
            let [first, second] = [first, second].map(|key| found[usize::from(key == TWO)]);
            assert!(
                matches!(first, Some(10 | 20 | 30)) && matches!(second, Some(10 | 20 | 40)),
                "values of the store: {found:?}"
            );
            assert!(
                second != Some(40) || first == Some(30),
                "the first update came before the second: {found:?}"
            );
        });
    }
}

/// Builds a world in which a batch inserts two keys while the other node makes a snapshot. A batch holds its locks one by one on networks, so
/// the snapshot has any of the keys. What is restored is what was written.
pub(super) fn across_a_batch(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, both);
    stage.run(0, 0, "writer", |stores, thread| {
        let outcomes = must(stores.store.insert_many(thread, &[(TWO, [20]), (ONE, [10])]));
        assert_eq!(outcomes, [Inserted::Done, Inserted::Done]);
    });
    stage.run(1, 0, "keeper", |stores, thread| {
        let file = Scratch::new();
        let written = must(stores.store.snapshot(thread, &file.0));
        did("KvStore::restore");
        let restored = must(stores.copy.restore(thread, &file.0));
        assert_eq!((restored.keys, restored.inserted), (written.keys, written.keys));
        let found = found(stores, thread);
        assert_eq!(
            found.iter().flatten().count() as u64,
            written.keys,
            "keys: {found:?}"
        );
        assert!(
            matches!(found, [None | Some(10), None | Some(20)]),
            "values: {found:?}"
        );
    });
}
