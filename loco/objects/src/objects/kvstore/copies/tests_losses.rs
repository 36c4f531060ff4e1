//! Tests of what several losses leave: values that lost writers left different on different nodes, locks without a home, failed monitors, goodbyes.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use loco_fabric::{Control, Fabric, NodeId, PeerState};

use super::super::{KvConfig, KvStore};
use super::slot::{Backup, Presence};
use super::tests::wait_for;
use super::tests_again::{KEYS, Points, Store, config, keys_of, run, wait_until_gone};
use super::views::View;
use super::{Holder, Location};
use crate::fence::Scope;
use crate::{Barrier, Encode, ErrorKind, Inserted, Manager, Result, Thread, testing};

/// Returns the place of a key, and those who have its copies when the nodes at the positions `gone` are lost.
fn copies_of(store: &Store, key: u64, gone: &[usize]) -> (Location, Vec<Holder>) {
    let at = store.shared.find(&key).expect("it was inserted");
    let copies = store.shared.copies.as_ref().expect("it has copies");
    let view = gone.iter().fold(View::default(), |view, &node| view.with(node));
    (at, copies.holders(at, view).to_vec())
}

/// Returns what a copy that is not the primary's says of its key, and its value.
fn said(store: &Store, thread: &Thread, holder: Holder, at: Location) -> Result<(Presence, Option<Vec<u8>>)> {
    let copies = store.shared.copies.as_ref().expect("it has copies");
    let slot = copies.read(thread, holder, at)?;
    let backup = Backup::new(&slot, at.counter);
    Ok((backup.presence(), backup.value().map(<[u8]>::to_vec)))
}

/// Of three copies, the last has a value of a writer that was lost before it came to the others. When the copies are whole again, all have the
/// value that is shown, which stays the same however many of them are lost then. So it is with a key that only the last copy shows.
#[test]
fn what_was_shown_is_not_taken_back_by_a_later_loss() {
    const UPDATED: u64 = 0;
    const INSERTED: u64 = 1;
    let points = Points::new();
    run(4, &config(3, 1), |here, manager, store, thread| {
        let shared = &store.shared;
        let copies = shared.copies.as_ref().expect("it has copies");
        if here == 0 {
            // Both broken off: an update, and an insert, which has set the last valid bit alone.
            let guard = shared.lock_of(&UPDATED).lock(thread, Scope::Nothing)?;
            let (at, holders) = copies_of(store, UPDATED, &[]);
            shared.write_copy(copies, thread, (holders[2], at), &77_u64.to_ne_bytes())?;
            std::mem::forget(guard);
            let (at, holders) = copies_of(store, INSERTED, &[]);
            for &holder in &holders[..2] {
                shared.mark_copy(copies, thread, (holder, at), false)?;
            }
            return Ok(());
        }
        for lost in 0..3 {
            if here == lost {
                return Ok(());
            }
            wait_until_gone(manager, lost);
            store.wait_until_whole(thread)?;
            let gone: Vec<usize> = (0..=lost).collect();
            let (at, holders) = copies_of(store, UPDATED, &gone);
            assert_eq!(holders.len(), 3 - lost);
            for holder in holders {
                let found = said(store, thread, holder, at)?;
                let is = (Presence::Present, Some(UPDATED.to_ne_bytes().to_vec()));
                assert_eq!(found, is, "{holder:?} after {lost}");
            }
            let (at, holders) = copies_of(store, INSERTED, &gone);
            for holder in holders {
                let (presence, _) = said(store, thread, holder, at)?;
                assert_eq!(presence, Presence::Absent, "{holder:?} after {lost}");
            }
            assert_eq!(store.get(thread, &UPDATED)?, Some(UPDATED));
            assert_eq!(store.get(thread, &INSERTED)?, None);
            // All have looked before the next one is lost.
            points.meet(lost, 3 - lost);
        }
        Ok(())
    });
}

/// Two new copies of a value are due, and the node of the second is lost. The nearest one is made all the same, so it has the value when this
/// node is lost, too.
#[test]
fn the_nearest_copy_is_made_first() {
    let points = Points::new();
    run(5, &config(3, 2), |here, manager, store, thread| {
        if here == 4 {
            return Ok(());
        }
        wait_until_gone(manager, 4);
        if here == 2 {
            let shared = &store.shared;
            let copies = shared.copies.as_ref().expect("it has copies");
            // As if nodes 0 and 1 were lost, too.
            let (at, holders) = copies_of(store, 0, &[0, 1]);
            let nodes: Vec<u16> = holders.iter().map(|holder| holder.node.0).collect();
            assert_eq!(nodes, [2, 3, 4]);
            let made = shared.copy_value(copies, thread, &holders[1..], at, &0_u64.to_ne_bytes());
            assert_eq!(made.expect_err("node 4 is lost").lost_peer(), Some(NodeId(4)));
            let found = said(store, thread, holders[1], at)?;
            assert_eq!(found, (Presence::Present, Some(vec![0; 8])));
        }
        points.meet(0, 4);
        Ok(())
    });
}

/// The three homes of lock 0 are lost one after another. Values of its keys that are left keep the copies that they have, and count as short;
/// nobody waits for more.
#[test]
fn values_whose_lock_has_no_home_are_short() {
    let points = Points::new();
    let config = config(2, 1).locks(5);
    run(5, &config, |here, manager, store, thread| {
        for lost in 0..3 {
            if here == lost {
                return Ok(());
            }
            wait_until_gone(manager, lost);
            store.wait_until_whole(thread)?;
            points.meet(lost, 4 - lost);
        }
        let of_lock = |key: &u64| store.shared.lock_number(key) == 0;
        // Values of node 2 are on 3, and not on 4; those of node 4 on 4 alone.
        let due = if here == 3 { 2 } else { 4 };
        let without_lock = keys_of(due).filter(of_lock).count() as u64;
        assert!(without_lock > 0, "some key has lock 0");
        let stats = store.stats();
        assert_eq!(stats.copies_due, 0);
        // Node 4 is the only home that is left of the values that it inserted.
        let short = if here == 3 { without_lock } else { KEYS };
        assert!(stats.copies_short >= short, "{stats:?}");
        for key in keys_of(2).chain(keys_of(4)) {
            assert_eq!(store.get(thread, &key)?, Some(key));
            if of_lock(&key) && keys_of(due).any(|own| own == key) {
                let refused = store.update(thread, &key, &5);
                let error = refused.expect_err("its lock is lost");
                assert_eq!(error.lost_peer(), Some(NodeId(0)), "{error}");
            }
        }
        points.meet(3, 2);
        Ok(())
    });
}

/// A key that one thread cannot read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fussy([u8; 1]);

impl Encode for Fussy {
    const BYTES: Option<usize> = Some(1);
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn from_bytes(bytes: &[u8]) -> Option<Fussy> {
        let is_third = std::thread::current().name() == Some("loco-kv-3");
        assert!(
            bytes != [7] || !is_third,
            "a key's own fault on the monitor of node 3"
        );
        Some(Fussy(bytes.try_into().ok()?))
    }
}

/// The monitor of node 3 has failed when node 2 is lost, so copies wait for it. They are made when it is lost, too.
#[test]
fn copies_are_made_once_a_node_that_never_turns_is_lost() {
    let points = Points::new();
    testing::run(4, |fabric| {
        let manager = Manager::new(fabric)?;
        let config = KvConfig::default().slots_per_node(8).copies(2).spare_homes(2);
        let store = KvStore::<Fussy, u64>::new(&manager, "kv", config)?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let here = manager.node().0;
        assert_eq!(store.insert(&thread, &Fussy([here as u8]), &1)?, Inserted::Done);
        bar.wait(&thread)?;
        if here == 0 {
            let refused = store.insert(&thread, &Fussy([7]), &7);
            let error = refused.expect_err("node 3 applies nothing");
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        }
        bar.wait(&thread)?;
        match here {
            2 => {}
            3 => points.meet(0, 3),
            _ => {
                wait_until_gone(&manager, 2);
                let mut whole = Ok(());
                wait_for(|| {
                    whole = store.wait_until_whole(&thread);
                    whole.is_err()
                });
                let error = whole.expect_err("it was waited for");
                assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
                assert!(error.to_string().contains("node 3"), "{error}");
                points.meet(0, 3);
                wait_until_gone(&manager, 3);
                store.wait_until_whole(&thread)?;
                // Node 0 has copied the value of node 3, and node 1 its own. The only copies of that of node 2 were on nodes 2 and 3.
                let stats = store.stats();
                assert_eq!((stats.copies_made, stats.copies_short), (1, u64::from(here == 0)));
                points.meet(1, 2);
            }
        }
        manager.fabric().mesh().fail();
        points.meet(2, 4);
        Ok(())
    });
}

/// Nodes that leave with a goodbye end the job: nobody makes copies for that, or counts what is short of them. The next loss is another matter.
#[test]
fn a_goodbye_makes_no_copies() {
    let points = Points::new();
    let due = AtomicUsize::new(0);
    testing::run(5, |fabric| {
        let manager = Manager::new(fabric)?;
        let store = Store::new(&manager, "kv", config(2, 1))?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let here = usize::from(manager.node().0);
        for key in keys_of(here) {
            assert_eq!(store.insert(&thread, &key, &key)?, Inserted::Done);
        }
        points.meet(0, 5);
        for left in [4, 3] {
            if here == left {
                return Ok(());
            }
            let node = NodeId(left as u16);
            wait_for(|| manager.fabric().control().peer_state(node) == PeerState::Left);
            store.wait_until_whole(&thread)?;
            let stats = store.stats();
            let none = (stats.copies_due, stats.copies_made, stats.copies_short);
            assert_eq!(none, (0, 0, 0), "after the goodbye of {left}");
            points.meet(5 - left, left);
        }
        if here < 2 {
            wait_until_gone(&manager, 2);
            store.wait_until_whole(&thread)?;
            let stats = store.stats();
            due.fetch_add((stats.copies_made + stats.copies_short) as usize, SeqCst);
        }
        manager.fabric().mesh().fail();
        points.meet(3, 3);
        Ok(())
    });
    assert!(due.into_inner() > 0, "a loss");
}
