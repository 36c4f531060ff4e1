//! Stores with two copies of each value, of which one node stops: what the others do then needs it no more. The lock moves to its next
//! home, writes pass over the copy that is lost and do not wait for a deadline, and where there is room another copy is made.
//!
//! Used by `list`.

use loco::fabric::{NodeId, Peers};
use loco::{Inserted, Manager, Result, Thread};
use loco_sim::{World, note};

use super::Store;
use super::reports::{KEY, OTHER, Told, inserted_on_0};
use crate::methods::did;
use crate::stage::{Fabric, Stage, least_store, must, unless_excused, unless_lost, until_in_time};

/// Makes a store with two copies of each value, so many spare homes and so many locks.
fn make(spare_homes: usize, locks: u32) -> impl Fn(&Manager<Fabric>) -> Result<Store<1>> + Clone + Send {
    move |manager| {
        let config = least_store(8).copies(2).spare_homes(spare_homes).locks(locks);
        Store::new(manager, "kv", config)
    }
}

/// Makes a store with one lock as [`make`] does, and a word by which a thread tells another that a call has returned.
fn told(manager: &Manager<Fabric>) -> Result<Told> {
    Told::new(manager, make(0, 1))
}

fn inserted_and_told(at: &Told, thread: &Thread<Fabric>) {
    inserted_on_0(&at.store, thread);
}

/// Unwraps the result of a call, for which the loss of another node is no excuse. Returns `None` if this node is declared lost.
#[track_caller]
fn without_excuse<T>(result: Result<T>) -> Option<T> {
    unless_excused(result, |peer| {
        panic!("the loss of {peer} leaves a copy and a home")
    })
}

/// Builds a world in which node 1 stops, the first home of the second lock. Node 0 inserts a key under that lock at its next home.
pub(super) fn second_lock(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make(0, 2));
    stage.run(0, 0, "writer", |store, thread| {
        let inserted = without_excuse(until_in_time(|| store.insert(thread, &OTHER, &[10])))?;
        assert_eq!(inserted, Inserted::Done);
        Some(())
    });
}

/// Builds a world in which node 0 stops, the first home of the lock, while both others insert a key. One of them does: who holds the lock
/// at its next home comes after whoever held it at the first.
pub(super) fn moved_lock(world: &mut World) {
    let mut stage = Stage::new(world, 3, 1, make(0, 1));
    stage.each("writer", 1..3, |store, thread, _| {
        let inserted = unless_lost(until_in_time(|| store.insert(thread, &KEY, &[10])));
        if inserted == Some(Inserted::Done) {
            note("done");
        }
    });
    stage.notes(|done| assert!(done.len() < 2, "both have inserted the key"));
}

/// Builds a world in which node 1 stops while node 0 updates a value of which node 1 has the last copy. The update passes over it.
pub(super) fn last_copy(world: &mut World) {
    let mut stage = Stage::prepared(world, 2, 1, make(0, 1), inserted_on_0);
    stage.run(0, 0, "writer", |store, thread| {
        // It waits for nobody who lives, so it is not late.
        assert!(without_excuse(store.update(thread, &KEY, &[11]))?);
        Some(())
    });
}

/// Builds a world in which node 0 stops while node 1 updates its value. When the update has returned, node 2 finds it, though it may not
/// know of the loss.
pub(super) fn first_copy(world: &mut World) {
    let mut stage = Stage::prepared(world, 3, 1, told, inserted_and_told);
    stage.run(1, 0, "writer", |at, thread| {
        let updated = unless_lost(until_in_time(|| at.store.update(thread, &KEY, &[11])))?;
        assert!(updated, "nobody deletes the key");
        at.tell(thread, 2, true)
    });
    stage.run(2, 0, "reader", |at, thread| {
        at.listen(thread, 1)?;
        let found = unless_lost(until_in_time(|| at.store.get(thread, &KEY)))?;
        assert_eq!(found, Some([11]), "the update has returned");
        Some(())
    });
}

/// Builds a world in which a lookup of node 1 in its copy overlaps with two updates of it, after node 0 has stopped, which has the first
/// copy. It does not find the value that was replaced before.
pub(super) fn overtaken(world: &mut World) {
    let prepare = |store: &Store<1>, thread: &Thread<Fabric>| {
        inserted_on_0(store, thread);
        if thread.node_id() == NodeId(0) {
            assert!(must(store.update(thread, &KEY, &[11])));
        }
    };
    let mut stage = Stage::prepared(world, 2, 2, make(0, 1), prepare);
    stage.run(1, 0, "writer", |store, thread| {
        for value in [12, 13] {
            unless_lost(until_in_time(|| store.update(thread, &KEY, &[value])))?;
        }
        Some(())
    });
    stage.run(1, 1, "reader", |store, thread| {
        let found = unless_lost(until_in_time(|| store.get(thread, &KEY)))?;
        assert!(matches!(found, Some([11..=13])), "{found:?} was replaced before");
        Some(())
    });
}

/// Builds a world in which a node stops, and node 1 waits until the copies are whole. The value of node 0 is not short of one, and node 1
/// has made it if node 0 has stopped.
pub(super) fn made_again(world: &mut World) {
    let mut stage = Stage::prepared(world, 3, 1, make(1, 1), inserted_on_0);
    stage.run(1, 0, "witness", |store, thread| {
        let lost = thread.wait_until("a loss", Peers::These(store.channel().peers()), || None::<()>);
        let lost = lost.err()?.lost_peer()?;
        did("KvStore::wait_until_whole");
        unless_lost(until_in_time(|| store.wait_until_whole(thread)))?;
        assert_eq!(store.stats().copies_short, 0, "there is a home for another copy");
        let made = u64::from(lost == NodeId(0));
        assert_eq!(store.stats().copies_made, made, "node 1 is the first then");
        Some(())
    });
}
