//! Tests snapshots of stores: cuts under writers, restores onto other numbers of nodes, refusals that change nothing.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use loco_fabric::NodeId;

use crate::{
    Barrier, Bytes, Error, ErrorKind, Inserted, KvConfig, KvStore, Manager, Result, Thread, testing,
};

fn config() -> KvConfig {
    KvConfig::default()
        .slots_per_node(64)
        .value_bytes_max(32)
        .locks(5)
}

/// Runs nodes with a store. All of them keep it until all are done.
fn run<V: crate::Encode>(
    nodes: usize,
    node: impl Fn(&Manager, &KvStore<u64, V>, &Thread, &Barrier) -> Result<()> + Sync,
) {
    testing::run(nodes, |fabric| {
        let manager = Manager::new(fabric)?;
        let store = KvStore::<u64, V>::new(&manager, "kv", config())?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        node(&manager, &store, &thread, &bar)?;
        bar.wait(&thread)
    });
}

/// Writes a snapshot of `keys` keys, each with its square, from two nodes.
fn squares(path: &Path, keys: u64) {
    run(2, |manager, store, thread, bar| {
        let mine = (0..keys).filter(|key| key % 2 == u64::from(manager.node().0));
        for key in mine {
            assert_eq!(store.insert(thread, &key, &(key * key))?, Inserted::Done);
        }
        bar.wait(thread)?;
        if manager.node() == NodeId(1) {
            let snapshot = store.snapshot(thread, path)?;
            assert_eq!(snapshot.keys, keys);
            assert_eq!(snapshot.bytes, fs::metadata(path).unwrap().len());
        }
        Ok(())
    });
}

#[test]
fn a_snapshot_is_restored_onto_any_number_of_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("squares");
    squares(&path, 60);
    for nodes in [1, 2, 3, 4] {
        run(nodes, |manager, store, thread, bar| {
            if manager.node() == NodeId(0) {
                // One that is in the snapshot, and one that is not.
                assert_eq!(store.insert(thread, &7, &1)?, Inserted::Done);
                assert_eq!(store.insert(thread, &1000, &2)?, Inserted::Done);
            }
            bar.wait(thread)?;
            let part = usize::from(manager.node().0);
            let restored = store.restore_part(thread, &path, part, nodes)?;
            assert_eq!(restored.keys, 60);
            assert!((restored.inserted + restored.updated).abs_diff(60 / nodes as u64) <= 1);
            bar.wait(thread)?;
            for key in 0..60 {
                assert_eq!(store.get(thread, &key)?, Some(key * key));
            }
            assert_eq!(store.get(thread, &1000)?, Some(2));
            let mut entries = store.entries(thread)?;
            entries.sort_unstable();
            let expected = (0..60).map(|key| (key, key * key)).chain([(1000, 2)]);
            assert!(entries.into_iter().eq(expected));
            Ok(())
        });
    }
}

#[test]
fn texts_of_any_length_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("texts");
    let value = |key: u64| Bytes(vec![key as u8; key as usize]);
    for round in 0..2 {
        run::<Bytes>(1, |_, store, thread, _| {
            if round == 1 {
                assert_eq!(store.restore(thread, &path)?.inserted, 33);
                for key in 0..=32 {
                    assert_eq!(store.get(thread, &key)?, Some(value(key)));
                }
                return Ok(());
            }
            for key in 0..=32 {
                assert_eq!(store.insert(thread, &key, &value(key))?, Inserted::Done);
            }
            store.snapshot(thread, &path).map(drop)
        });
    }
}

/// Each node's writer counts in two keys, first in the one, then in the other. In no cut is the second ahead of the first, nor
/// two behind, nor behind what was written before the cut began, or ahead of what was written when it had ended.
#[test]
fn a_cut_under_writers_is_consistent() {
    const CUTS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts");
    let over = AtomicBool::new(false);
    let done: [AtomicU64; 2] = Default::default();
    let pair = |writer: u64| [10 + writer, 20 + writer];
    run(3, |manager, store, thread, bar| {
        let me = u64::from(manager.node().0);
        // Both keys are on other nodes than their writer, who is one of nodes 0 and 1.
        if me == 2 {
            for key in [pair(0), pair(1)].concat() {
                assert_eq!(store.insert(thread, &key, &0)?, Inserted::Done);
            }
        }
        bar.wait(thread)?;
        if me < 2 {
            let [one, two] = pair(me);
            for count in 1.. {
                assert!(store.update(thread, &one, &count)? && store.update(thread, &two, &count)?);
                // A key that comes and goes.
                assert_eq!(store.insert(thread, &(30 + me), &count)?, Inserted::Done);
                done[me as usize].store(count, SeqCst);
                if over.load(SeqCst) {
                    return Ok(());
                }
                assert!(store.delete(thread, &(30 + me))?);
            }
        }
        let mut last = [0; 2];
        for cut in 0..CUTS {
            let before = [0, 1].map(|i| done[i].load(SeqCst));
            let entries = if cut % 2 == 0 {
                store.entries(thread)?
            } else {
                store.snapshot(thread, &path)?;
                let mut entries = Vec::new();
                store.read(&path, &mut fs::File::open(&path).unwrap(), |_, key, value| {
                    entries.push((key, value));
                    Ok(())
                })?;
                entries
            };
            let after = [0, 1].map(|i| done[i].load(SeqCst));
            let find = |key: u64| entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
            for writer in 0..2 {
                let [one, two] = pair(writer as u64).map(|key| find(key).unwrap());
                assert!(two <= one && one <= two + 1, "{one} and {two}");
                let bounds = before[writer]..=after[writer] + 1;
                assert!(bounds.contains(&one), "{one} is none of {bounds:?}");
                assert!(last[writer] <= one, "no cut is older than the one before");
                // It has the count of the pair while it is there.
                if let Some(third) = find(30 + writer as u64) {
                    assert!(third == two && third == one, "{one}, {two}, {third}");
                }
                last[writer] = one;
            }
        }
        over.store(true, SeqCst);
        Ok(())
    });
}

fn refused(store: &KvStore<u64, u64>, thread: &Thread, path: &Path) -> (u64, String) {
    let before = store.entries(thread).unwrap();
    let error = store.restore(thread, path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
    let mut after = store.entries(thread).unwrap();
    after.sort_unstable();
    let mut sorted = before;
    sorted.sort_unstable();
    assert_eq!(after, sorted, "a refused file changes nothing");
    match error {
        Error::BadSnapshot { offset, reason, .. } => (offset, reason),
        other => panic!("{other}"),
    }
}

#[test]
fn a_file_that_was_altered_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, altered) = (folder.path().join("squares"), folder.path().join("altered"));
    squares(&path, 60);
    let whole = fs::read(&path).unwrap();
    run(1, |_, store, thread, _| {
        assert_eq!(store.insert(thread, &7, &1)?, Inserted::Done);
        // A flipped bit in each byte, and a cut before it.
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&altered, &bytes).unwrap();
            refused(store, thread, &altered);
            fs::write(&altered, &whole[..at]).unwrap();
            let (offset, _) = refused(store, thread, &altered);
            assert!(offset <= at as u64);
        }
        fs::write(&altered, [&whole[..], b"\n"].concat()).unwrap();
        assert_eq!(refused(store, thread, &altered).0, whole.len() as u64);
        fs::write(&altered, "a text\n".repeat(100)).unwrap();
        let (offset, reason) = refused(store, thread, &altered);
        assert!(offset == 0 && reason.contains("no snapshot"), "{reason}");
        assert_eq!(store.restore(thread, &path)?.keys, 60);
        Ok(())
    });
}

#[test]
fn what_does_not_fit_the_store_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("squares");
    squares(&path, 100);
    run::<[u64; 2]>(1, |_, store, thread, _| {
        let error = store.restore(thread, &path).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("values of 8 bytes, and the store keys of 8 bytes and values of 16 bytes"),
            "{error}"
        );
        Ok(())
    });
    run::<u64>(1, |_, store, thread, _| {
        // There are 64 slots.
        let error = store.restore(thread, &path).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("need 100 more slots on this node, and 64 are free"),
            "{error}"
        );
        assert_eq!(store.stats().keys, 0);
        assert!(store.restore_part(thread, &path, 2, 2).is_err());
        let missing = store.restore(thread, folder.path().join("missing")).unwrap_err();
        assert_eq!(
            (missing.kind(), missing.os_error().is_some()),
            (ErrorKind::System, true)
        );
        let unwritable = store
            .snapshot(thread, folder.path().join("missing/file"))
            .unwrap_err();
        assert_eq!(unwritable.kind(), ErrorKind::System);
        Ok(())
    });
}

/// Keys of a lost node are missing, so there is no snapshot, and the earlier one stays.
#[test]
fn no_snapshot_leaves_out_what_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kv");
    testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        // The only lock is on node 0.
        let store = KvStore::<u64, u64>::new(&manager, "kv", config().locks(1))?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let me = u64::from(manager.node().0);
        assert_eq!(store.insert(&thread, &me, &me)?, Inserted::Done);
        bar.wait(&thread)?;
        if me == 1 {
            bar.wait(&thread)?;
            manager.fabric().mesh().fail();
            return Ok(());
        }
        store.snapshot(&thread, &path)?;
        let earlier = fs::read(&path).unwrap();
        bar.wait(&thread)?;
        thread.set_deadline(Some(loco_fabric::Time::NEVER));
        let lost = || crate::operations::peers::is_gone(manager.fabric(), NodeId(1)).then_some(());
        thread.wait_until("the loss", loco_fabric::Peers::None, lost)?;
        let error = store.snapshot(&thread, &path).unwrap_err();
        assert_eq!(error.lost_peer(), Some(NodeId(1)), "{error}");
        assert_eq!(fs::read(&path).unwrap(), earlier);
        // Without the lost keys it works again.
        assert!(store.delete(&thread, &1).unwrap_err().is_peer_lost());
        assert_eq!(store.snapshot(&thread, &path)?.keys, 1);
        Ok(())
    });
}
