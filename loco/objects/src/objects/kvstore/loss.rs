//! Tests losses and failures at points that a test from outside cannot hit: halfway through a value, and between telling
//! two nodes. Tests what a call leaves of the trust in its locks, and which of them it holds at a time.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use loco_fabric::NodeId;

use super::slot::{BODY, body};
use super::tracker::Change;
use super::{KvConfig, KvStore};
use crate::fence::{self, Scope};
use crate::{Barrier, Error, Inserted, Manager, Parent as _, Result, SharedVar, Thread, testing};

type Store = KvStore<u64, [u64; 4]>;

const VICTIM: NodeId = NodeId(2);

/// Runs three nodes with a store whose one lock is on node 0. Each does its part.
fn run(slots_per_node: u32, node: impl Fn(&Manager, &Store, &Thread) -> Result<()> + Sync) {
    run_with(slots_per_node, 1, node);
}

/// Runs three nodes with a store with `locks` locks, one on each node in turn.
fn run_with(slots_per_node: u32, locks: u32, node: impl Fn(&Manager, &Store, &Thread) -> Result<()> + Sync) {
    testing::run(3, |fabric| {
        let manager = Manager::new(fabric)?;
        let config = KvConfig::default()
            .slots_per_node(slots_per_node)
            .value_bytes_max(32)
            .locks(locks);
        let store = Store::new(&manager, "kv", config)?;
        let bar = Barrier::new(&manager, "bar")?;
        // The survivors keep their part of the store until both are done.
        let left = manager.among([NodeId(0), NodeId(1)]);
        let end = match manager.node() {
            VICTIM => None,
            _ => Some(Barrier::new(&left, "end")?),
        };
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == NodeId(0) {
            assert_eq!(store.insert(&thread, &7, &[1; 4])?, Inserted::Done);
        }
        bar.wait(&thread)?;
        node(&manager, &store, &thread)?;
        end.map_or(Ok(()), |end| end.wait_unfenced(&thread))
    });
}

/// The time after which a test takes a wait for one that does not end.
const PATIENCE: Duration = Duration::from_secs(120);

fn wait_for(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Readers of a value that a lost writer left torn get an error at once. An update repairs the value.
#[test]
fn a_value_left_torn_is_an_error_and_no_hang() {
    run(4, |manager, store, thread| {
        let shared = &store.shared;
        if manager.node() == VICTIM {
            let guard = shared.lock_of(&7).lock(thread, Scope::Nothing)?;
            let at = shared.find(&7).expect("it was inserted");
            // These bytes are the first half of an update.
            let half = &body(&[2; 32], at.counter)[..24];
            thread.put_inline(half, shared.place(at, BODY)?)?.forget();
            fence::thread(thread)?;
            std::mem::forget(guard);
            manager.fabric().mesh().fail();
            return Ok(());
        }
        wait_for(|| crate::operations::peers::is_gone(manager.fabric(), VICTIM));
        // An error at once is one long before this.
        thread.set_deadline(Some(thread.now().after(10 * PATIENCE)));
        let begin = Instant::now();
        let found = store.get(thread, &7);
        // Node 1 may read after node 0 has repaired the value.
        let torn = matches!(found, Err(Error::Torn { .. }));
        assert!(
            torn || (manager.node() == NodeId(1) && found == Ok(Some([3; 4]))),
            "{found:?}"
        );
        if manager.node() == NodeId(0) {
            assert!(store.update(thread, &7, &[3; 4])?);
            assert_eq!(store.get(thread, &7)?, Some([3; 4]));
        } else {
            wait_for(|| store.get(thread, &7) == Ok(Some([3; 4])));
        }
        thread.set_deadline(None);
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
        Ok(())
    });
}

/// The victim has deleted a key of node 0. Only node 0 has heard of it, and has used the slot again. Node 1,
/// whose index still has the key there, cleans up without touching the slot.
#[test]
fn cleaning_up_after_a_lost_delete_leaves_the_slots_new_key_alone() {
    let heard = AtomicBool::new(false);
    run(1, |manager, store, thread| {
        let shared = &store.shared;
        match manager.node() {
            VICTIM => {
                let guard = shared.lock_of(&7).lock(thread, Scope::Nothing)?;
                let at = shared.find(&7).expect("it was inserted");
                shared.set_meta(thread, at, false)?;
                let mut writer = shared.ring_of(VICTIM)?.writer()?;
                writer.exclude(NodeId(1));
                *shared.tracker.enter(thread, "test")? = Some(super::tracker::Tracker::new(writer));
                shared.announce(thread, &guard, Change::Delete, &7, at)?;
                fence::thread(thread)?;
                wait_for(|| heard.load(SeqCst));
                std::mem::forget(guard);
                manager.fabric().mesh().fail();
            }
            NodeId(0) => {
                wait_for(|| store.stats().keys == 0);
                heard.store(true, SeqCst);
                assert_eq!(store.insert(thread, &8, &[8; 4])?, Inserted::Done);
                // Wait until node 1 has cleaned up.
                wait_for(|| store.get(thread, &7) == Ok(Some([9; 4])));
                assert_eq!(store.get(thread, &8)?, Some([8; 4]));
            }
            _ => {
                wait_for(|| crate::operations::peers::is_gone(manager.fabric(), VICTIM));
                wait_for(|| store.get(thread, &8) == Ok(Some([8; 4])));
                assert_eq!(store.insert(thread, &7, &[9; 4])?, Inserted::Done);
                assert_eq!(store.get(thread, &8)?, Some([8; 4]), "its slot is its own");
            }
        }
        Ok(())
    });
}

/// The home of the lock is lost after everything under the lock was done. The calls report success.
#[test]
fn a_lock_lost_at_the_release_takes_nothing_from_what_was_done() {
    run_with(4, 3, |manager, store, thread| {
        let told = SharedVar::<u64>::new(manager, "told")?;
        manager.wait_for_ready()?;
        // This is a key whose lock is on the victim.
        let key = (100..)
            .find(|key| store.shared.lock_number(key) == 2)
            .unwrap_or(0);
        match manager.node() {
            VICTIM => {
                // The victim's monitor applies nothing in the meantime, so the insert goes on until the
                // victim is lost.
                let index = store.shared.index.read();
                told.write(1);
                told.broadcast_to(thread, &[NodeId(0)])?.wait(thread)?;
                told.wait_until(thread, |told| told == 2)?;
                manager.fabric().mesh().fail();
                drop(index);
            }
            NodeId(0) => {
                told.wait_until(thread, |told| told == 1)?;
                assert_eq!(store.insert_many(thread, &[(key, [1; 4])])?, [Inserted::Done]);
                assert_eq!(store.get(thread, &key)?, Some([1; 4]));
            }
            _ => {
                wait_for(|| store.shared.find(&key).is_some());
                told.write(2);
                told.broadcast_to(thread, &[VICTIM])?.wait(thread)?;
            }
        }
        Ok(())
    });
}

/// Only a change that is half done leaves its lock in doubt: not one that failed before the first word of it, nor one that was done and
/// reports a loss, nor another one of the same call.
#[test]
fn a_lock_is_in_doubt_for_what_is_half_done_alone() {
    let (blocked, tried) = (AtomicBool::new(false), AtomicBool::new(false));
    run_with(8, 3, |manager, store, thread| {
        let shared = &store.shared;
        let keys_of = |lock| (100..).filter(move |key| shared.lock_number(key) == lock);
        let lost = keys_of(0).next().unwrap_or(0);
        let is_gone = || crate::operations::peers::is_gone(manager.fabric(), VICTIM);
        match manager.node() {
            VICTIM => {
                assert_eq!(store.insert(thread, &lost, &[1; 4])?, Inserted::Done);
                manager.fabric().mesh().fail();
                return Ok(());
            }
            NodeId(0) => {}
            _ => {
                wait_for(is_gone);
                // It was deleted, and node 0 has inserted it again.
                wait_for(|| shared.find(&lost).is_some_and(|at| at.node == NodeId(0)));
                // This node's monitor applies nothing meanwhile.
                let index = shared.index.read();
                blocked.store(true, SeqCst);
                wait_for(|| tried.load(SeqCst));
                drop(index);
                return Ok(());
            }
        }
        wait_for(is_gone);
        let in_doubt = |key: &u64| {
            let guard = shared.lock_of(key).lock(thread, Scope::Nothing)?;
            let recovered = guard.recovered();
            guard.release().map(|()| recovered)
        };
        wait_for(|| shared.find(&lost).is_some());
        // Done on all nodes that live.
        let deleted = store.delete(thread, &lost).map_err(|error| error.lost_peer());
        assert_eq!(deleted, Err(Some(VICTIM)));
        assert!(!in_doubt(&lost)?, "deleted everywhere");
        // Not begun: another thread announces.
        let other = manager.thread()?;
        let late = |call: &dyn Fn() -> Result<()>| {
            thread.set_deadline(Some(thread.now()));
            let error = call().expect_err("it waits until the deadline");
            thread.set_deadline(None);
            assert!(error.is_timeout(), "{error}");
        };
        let announces = shared.tracker.enter(&other, "test")?;
        late(&|| store.insert(thread, &lost, &[2; 4]).map(drop));
        assert!(!in_doubt(&lost)?, "nothing was announced");
        drop(announces);
        // Half done under one of the locks of a call.
        let (old, new) = (lost, keys_of(1).next().unwrap_or(0));
        assert_eq!(store.insert(thread, &old, &[2; 4])?, Inserted::Done);
        wait_for(|| blocked.load(SeqCst));
        late(&|| {
            store
                .insert_many(thread, &[(old, [3; 4]), (new, [3; 4])])
                .map(drop)
        });
        assert!(!in_doubt(&old)?, "it was there, and nothing was done");
        assert!(in_doubt(&new)?, "it was announced, and not applied");
        tried.store(true, SeqCst);
        // Mended; but the doubt stays.
        assert_eq!(store.insert(thread, &new, &[4; 4])?, Inserted::Done);
        assert!(in_doubt(&new)?);
        // A delete is half done when its slot is not valid.
        let announces = shared.tracker.enter(&other, "test")?;
        late(&|| store.delete(thread, &old).map(drop));
        drop(announces);
        assert!(
            in_doubt(&old)?,
            "its slot is not valid, and its key is still in the indices"
        );
        assert_eq!(store.insert(thread, &old, &[5; 4])?, Inserted::Done);
        assert_eq!(store.get(thread, &old)?, Some([5; 4]));
        Ok(())
    });
}

/// Where operations are done at once, a call takes all its locks before it inserts, so that one wait for acknowledgements does for all.
#[test]
fn inserts_over_shared_memory_are_made_under_all_locks() {
    testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        let config = KvConfig::default().slots_per_node(8).value_bytes_max(32).locks(2);
        let store = Store::new(&manager, "kv", config)?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == NodeId(0) {
            let shared = &store.shared;
            let key_of = |lock| (0..).find(|key| shared.lock_number(key) == lock).unwrap_or(0);
            let entries = [0, 1].map(|lock| (key_of(lock), [1; 4]));
            let (first, last) = (&entries[0].0, &entries[1].0);
            let last = shared.lock_of(last).lock(&thread, Scope::Nothing)?;
            std::thread::scope(|scope| {
                let inserts = scope.spawn(|| store.insert_many(&manager.thread()?, &entries));
                let holds = || match shared.lock_of(first).try_lock(&thread, Scope::Nothing) {
                    Ok(Some(guard)) => guard.release().is_err(),
                    Ok(None) => true,
                    Err(_) => false,
                };
                wait_for(|| holds() || shared.find(first).is_some());
                for _ in 0..1000 {
                    assert_eq!(shared.find(first), None, "before the last lock is held");
                    std::thread::yield_now();
                }
                last.release()?;
                let inserted = inserts.join().expect("it does not panic");
                assert_eq!(inserted?, [Inserted::Done; 2]);
                Ok::<_, Error>(())
            })?;
        }
        bar.wait(&thread)
    });
}
