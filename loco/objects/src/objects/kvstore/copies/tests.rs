//! Tests of copies with nodes that are lost at points that a test from outside cannot hit.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use loco_fabric::NodeId;

use super::super::slot::{BODY, body};
use super::super::{KvConfig, KvStore};
use super::Holder;
use super::slot::Backup;
use super::views::View;
use crate::fence::{self, Scope};
use crate::operations::peers::is_gone;
use crate::{Barrier, Error, ErrorKind, Inserted, Manager, Parent as _, Result, Thread, testing};

type Store = KvStore<u64, [u64; 4]>;

/// The time after which a test takes a wait for one that does not end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the nodes that are lost, the last ones.
fn is_victim(manager: &Manager, victims: usize) -> bool {
    let nodes = manager.nodes();
    nodes[nodes.len() - victims..].contains(&manager.node())
}

/// Runs `nodes` nodes with a store of `copies` copies and as many locks as nodes, in which node `i` has inserted key `i` with the
/// value `[i; 4]`. The last `victims` nodes are lost at the end of their part; the others wait for one another at theirs.
fn run(
    (nodes, copies, victims): (usize, usize, usize),
    node: impl Fn(&Manager, &Store, &Thread) -> Result<()> + Sync,
) {
    testing::run(nodes, |fabric| {
        let manager = Manager::new(fabric)?;
        let config = KvConfig::default()
            .slots_per_node(64)
            .value_bytes_max(32)
            .locks(nodes as u32)
            .copies(copies)
            .spare_homes(0);
        let store = Store::new(&manager, "kv", config)?;
        let bar = Barrier::new(&manager, "bar")?;
        let left = manager.among((0..(nodes - victims) as u16).map(NodeId));
        let end = match is_victim(&manager, victims) {
            true => None,
            false => Some(Barrier::new(&left, "end")?),
        };
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let here = u64::from(manager.node().0);
        assert_eq!(store.insert(&thread, &here, &[here; 4])?, Inserted::Done);
        bar.wait(&thread)?;
        node(&manager, &store, &thread)?;
        match end {
            Some(end) => end.wait_unfenced(&thread),
            None => {
                manager.fabric().mesh().fail();
                Ok(())
            }
        }
    });
}

pub(super) fn wait_for(mut what: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
}

/// Waits until this node knows that the last `victims` nodes are lost.
fn wait_until_gone(manager: &Manager, victims: usize) {
    let nodes = manager.nodes();
    for &victim in &nodes[nodes.len() - victims..] {
        wait_for(|| is_gone(manager.fabric(), victim));
    }
}

/// Returns the holder of the copy of the value at the key's place, and the place.
fn copy(store: &Store, key: u64, copy: usize) -> (Holder, super::Location) {
    let at = store.shared.find(&key).expect("it was inserted");
    let copies = store.shared.copies.as_ref().expect("it has copies");
    (copies.holders(at, View::default())[copy], at)
}

/// All keys go on, wherever their values and locks were, and a key of the lost node can be deleted and inserted again.
fn all_goes_on((nodes, copies, victims): (usize, usize, usize)) {
    run((nodes, copies, victims), |manager, store, thread| {
        if is_victim(manager, victims) {
            return Ok(());
        }
        wait_until_gone(manager, victims);
        let here = u64::from(manager.node().0);
        let left = (nodes - victims) as u64;
        // Each survivor writes keys of its own, whose values and locks are on all nodes.
        for key in (0..nodes as u64).filter(|key| key % left == here) {
            assert_eq!(store.get(thread, &key)?, Some([key; 4]), "key {key}");
            assert!(store.update(thread, &key, &[key + 100; 4])?);
            assert_eq!(store.get(thread, &key)?, Some([key + 100; 4]));
            assert_eq!(store.get_many(thread, &[key, 999])?, [Some([key + 100; 4]), None]);
            assert_eq!(store.get_start(thread, &key)?.wait()?, Some([key + 100; 4]));
            assert_eq!(store.insert(thread, &key, &[0; 4])?, Inserted::Duplicate);
            assert!(store.delete(thread, &key)?);
            assert_eq!(store.get(thread, &key)?, None);
            assert!(!store.update(thread, &key, &[0; 4])?);
            assert!(!store.delete(thread, &key)?);
            assert_eq!(store.insert(thread, &key, &[key + 200; 4])?, Inserted::Done);
            assert_eq!(store.get(thread, &key)?, Some([key + 200; 4]));
        }
        for key in 0..nodes as u64 {
            wait_for(|| store.get(thread, &key) == Ok(Some([key + 200; 4])));
        }
        Ok(())
    });
}

#[test]
fn all_goes_on_after_a_loss() {
    all_goes_on((2, 2, 1));
    all_goes_on((3, 2, 1));
}

#[test]
fn three_copies_outlive_two_losses() {
    all_goes_on((4, 3, 2));
    all_goes_on((3, 3, 2));
}

/// More nodes are lost than values have copies. The keys that were on them are lost, and only those.
#[test]
fn what_all_holders_had_is_lost() {
    run((4, 2, 2), |manager, store, thread| {
        if is_victim(manager, 2) {
            return Ok(());
        }
        wait_until_gone(manager, 2);
        // The copies of key 2 were on nodes 2 and 3.
        let found = store.get(thread, &2);
        assert_eq!(
            found.expect_err("all copies are lost").lost_peer(),
            Some(NodeId(2))
        );
        assert_eq!(store.get(thread, &0)?, Some([0; 4]));
        assert_eq!(store.get(thread, &3)?, Some([3; 4]), "a copy is on node 0");
        Ok(())
    });
}

/// The victim is lost when the later copy and the spare have its update and the slot of the first has half of it. Lookups find the
/// new value, and mend the slot. So it is when the later copy is the victim's own (key 1).
#[test]
fn a_torn_first_copy_is_written_again() {
    for key in [0, 1] {
        run((3, 2, 1), |manager, store, thread| {
            let shared = &store.shared;
            let copies = shared.copies.as_ref().expect("it has copies");
            if is_victim(manager, 1) {
                let guard = shared.lock_of(&key).lock(thread, Scope::Nothing)?;
                let (second, at) = copy(store, key, 1);
                shared.write_copy(copies, thread, (second, at), &[7; 32])?;
                let (first, at) = copy(store, key, 0);
                let spare = copies.read(thread, first, at)?;
                let write = Backup::new(&spare, at.counter).next(&[7; 32]);
                copies.begin_write(thread, first, at, &write)?;
                fence::thread(thread)?;
                let half = &body(&[7; 32], at.counter)[..24];
                thread.put_inline(half, shared.place(at, BODY)?)?.forget();
                fence::thread(thread)?;
                std::mem::forget(guard);
                return Ok(());
            }
            let new = Some([0x0707_0707_0707_0707; 4]);
            wait_until_gone(manager, 1);
            if manager.node() == NodeId(1) {
                let entries = store.entries(thread)?;
                assert!(
                    entries.contains(&(key, [0x0707_0707_0707_0707; 4])),
                    "{entries:?}"
                );
            }
            assert_eq!(store.get(thread, &key)?, new);
            assert_eq!(store.get(thread, &key)?, new);
            Ok(())
        });
    }
}

/// The victim, which has the first copy, is lost while the second has half of its update. The old value stays, and
/// can be updated.
#[test]
fn a_torn_later_copy_has_the_old_value() {
    run((3, 2, 1), |manager, store, thread| {
        let shared = &store.shared;
        let copies = shared.copies.as_ref().expect("it has copies");
        if is_victim(manager, 1) {
            let guard = shared.lock_of(&2).lock(thread, Scope::Nothing)?;
            let (second, at) = copy(store, 2, 1);
            let slot = copies.read(thread, second, at)?;
            let mut write = Backup::new(&slot, at.counter).next(&[7; 32]);
            write.bytes.truncate(32);
            copies.begin_write(thread, second, at, &write)?;
            fence::thread(thread)?;
            std::mem::forget(guard);
            return Ok(());
        }
        if manager.node() == NodeId(1) {
            wait_until_gone(manager, 1);
            assert_eq!(store.get(thread, &2)?, Some([2; 4]));
            assert!(store.update(thread, &2, &[5; 4])?);
        }
        wait_for(|| store.get(thread, &2) == Ok(Some([5; 4])));
        Ok(())
    });
}

/// Node 0 has half a delete of the victim's: the later copy says that the key is not present, the first that it is. An update that
/// returns after that is not lost with the first copy.
#[test]
fn an_update_after_half_a_delete_is_kept() {
    run((3, 2, 1), |manager, store, thread| {
        let shared = &store.shared;
        let copies = shared.copies.as_ref().expect("it has copies");
        if is_victim(manager, 1) {
            wait_for(|| store.get(thread, &2) == Ok(Some([5; 4])));
            return Ok(());
        }
        if manager.node() == NodeId(0) {
            // As if a writer had been lost here.
            let (second, at) = copy(store, 2, 1);
            shared.mark_copy(copies, thread, (second, at), false)?;
            assert!(store.update(thread, &2, &[5; 4])?);
        }
        wait_until_gone(manager, 1);
        assert_eq!(store.get(thread, &2)?, Some([5; 4]));
        Ok(())
    });
}

/// Node 0 is in a call when the victim is lost, with whose memory are the lock and the value. Node 1 has turned away from the victim, and
/// writes the key only when that call is over.
#[test]
fn nobody_goes_on_before_all_have_turned() {
    let (has_entered, updated) = (AtomicBool::new(false), AtomicBool::new(false));
    run((3, 2, 1), |manager, store, thread| {
        let copies = store.shared.copies.as_ref().expect("it has copies");
        match manager.node() {
            NodeId(2) => wait_for(|| has_entered.load(SeqCst)),
            NodeId(0) => {
                let entered = copies.views.enter(thread, View::default())?;
                assert_eq!(entered.view, View::default());
                has_entered.store(true, SeqCst);
                let turned = View::default().with(2);
                wait_for(|| {
                    copies
                        .views
                        .behind(turned)
                        .is_ok_and(|behind| *behind == [NodeId(0)])
                });
                assert!(
                    !updated.load(SeqCst),
                    "node 0 may still write by the lock of the lost node"
                );
                drop(entered);
                wait_for(|| store.get(thread, &2) == Ok(Some([5; 4])));
            }
            _ => {
                wait_until_gone(manager, 1);
                assert!(store.update(thread, &2, &[5; 4])?);
                updated.store(true, SeqCst);
            }
        }
        Ok(())
    });
}

/// Node 2 was lost in an insert, when only the last of three copies, on node 0, was valid. Node 3, which has the copy before, deletes the
/// key, and is lost when node 0 has heard of that and node 1 has not. Everybody agrees that the key is not there.
#[test]
fn what_a_lost_insert_has_left_is_gone_before_it_is_forgotten() {
    let heard = AtomicBool::new(false);
    run((4, 3, 2), |manager, store, thread| {
        let shared = &store.shared;
        let copies = shared.copies.as_ref().expect("it has copies");
        let is_known = || shared.find(&2).is_some();
        match manager.node() {
            NodeId(2) => {
                for number in [0, 1] {
                    let (holder, at) = copy(store, 2, number);
                    shared.mark_copy(copies, thread, (holder, at), false)?;
                }
            }
            NodeId(3) => {
                wait_for(|| is_gone(manager.fabric(), NodeId(2)));
                let mut tracker = shared.tracker.enter(thread, "test")?;
                tracker
                    .as_mut()
                    .expect("it has inserted")
                    .writer
                    .exclude(NodeId(1));
                drop(tracker);
                // Node 1 acknowledges nothing, so the call runs out of time; before it has told node 0 where the machine is slow.
                wait_for(|| {
                    thread.set_deadline(Some(thread.now().after(Duration::from_secs(1))));
                    let deleted = store.delete(thread, &2);
                    let in_vain = matches!(&deleted, Err(error) if error.is_timeout());
                    assert!(in_vain || deleted == Ok(false), "{deleted:?}");
                    heard.load(SeqCst)
                });
            }
            node => {
                if node == NodeId(0) {
                    wait_for(|| !is_known());
                    heard.store(true, SeqCst);
                }
                wait_until_gone(manager, 2);
                assert_eq!(
                    is_known(),
                    node == NodeId(1),
                    "only node 0 has heard of the delete"
                );
                assert_eq!(store.get(thread, &2)?, None);
                assert!(!store.update(thread, &2, &[5; 4])?);
            }
        }
        Ok(())
    });
}

/// The monitor of node 1 has failed when node 2 is lost, so node 1 turns away from nobody. The calls of node 0 that wait for that, and
/// those of node 1, tell so.
#[test]
fn nobody_waits_for_a_node_that_never_turns() {
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Fussy([u8; 1]);
    impl crate::Encode for Fussy {
        const BYTES: Option<usize> = Some(1);
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn from_bytes(bytes: &[u8]) -> Option<Fussy> {
            assert_ne!(bytes, [7], "a key's own fault");
            Some(Fussy(bytes.try_into().ok()?))
        }
    }
    testing::run(3, |fabric| {
        let manager = Manager::new(fabric)?;
        let config = KvConfig::default().slots_per_node(4).copies(2);
        let store = KvStore::<Fussy, u64>::new(&manager, "kv", config)?;
        let bar = Barrier::new(&manager, "bar")?;
        let left = manager.among([NodeId(0), NodeId(1)]);
        let end = match is_victim(&manager, 1) {
            true => None,
            false => Some(Barrier::new(&left, "end")?),
        };
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node() == NodeId(0) {
            assert_eq!(store.insert(&thread, &Fussy([1]), &1)?, Inserted::Done);
            let refused = store.insert(&thread, &Fussy([7]), &7);
            assert_eq!(
                refused.expect_err("node 1 applies nothing").kind(),
                ErrorKind::Refused
            );
        }
        bar.wait(&thread)?;
        let Some(end) = end else {
            manager.fabric().mesh().fail();
            return Ok(());
        };
        wait_until_gone(&manager, 1);
        // Far beyond a wait that does not end.
        thread.set_deadline(Some(thread.now().after(10 * PATIENCE)));
        // Until this node has turned away from node 2, its calls are in the view before.
        let mut updated = Ok(true);
        wait_for(|| {
            updated = store.update(&thread, &Fussy([1]), &2);
            updated.is_err()
        });
        let error = updated.expect_err("it was waited for");
        match manager.node() {
            NodeId(0) => {
                assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
                assert!(error.to_string().contains("node 1"), "{error}");
            }
            _ => assert_eq!(error.kind(), ErrorKind::Panicked, "{error}"),
        }
        // A lookup of what has not moved goes on.
        assert!(store.get(&thread, &Fussy([1]))?.is_some());
        end.wait_unfenced(&thread)
    });
}

#[test]
fn what_cannot_be_is_refused() {
    testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        for copies in [0, 3] {
            let made = Store::new(&manager, "kv", KvConfig::default().copies(copies));
            let Err(Error::Config(text)) = made.map(drop) else {
                panic!("{copies} copies on two nodes")
            };
            assert!(text.contains("store `kv`") && text.contains("take "), "{text}");
        }
        let copied = KvConfig::default().value_bytes_max(32).copies(2);
        let never = copied.clone().spare_homes(1).copies_per_second(0);
        let Err(Error::Config(text)) = super::check("kv", &never, 3) else {
            panic!("no copy a second")
        };
        assert!(text.contains("`spare_homes(0)`"), "{text}");
        assert_eq!(
            super::check("kv", &never.clone().spare_homes(0), 3),
            Ok(()),
            "the remedy"
        );
        assert_eq!(
            super::check("kv", &never, 2),
            Ok(()),
            "no node has room for another copy"
        );
        let none = Store::new(&manager, "none", copied.clone())?;
        let full = Store::new(&manager, "full", copied.spare_homes(1))?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let Err(Error::Config(text)) = none.wait_until_whole(&thread) else {
            panic!("it was made without spare homes")
        };
        assert!(text.contains("`none` makes no copies"), "{text}");
        full.wait_until_whole(&thread)?;
        let bar = Barrier::new(&manager, "bar")?;
        bar.channel().wait_for_ready()?;
        bar.wait(&thread)
    });
}
