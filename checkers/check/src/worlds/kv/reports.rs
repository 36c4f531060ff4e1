//! Stores in which a report does not go its usual way: a thread waits for its turn to report until its deadline, or a report meets the
//! loss of a node that it was to reach. Beside them, a value torn by a node that neither has it nor reads it, updates of two nodes' values
//! under one lock, and lookups in windows of two keys.
//!
//! Used by `list`; `moves` uses the nodes that tell one another of a call.

use loco::fabric::{NodeId, Peers, Time};
use loco::{Config, Error, Inserted, Manager, Result, SharedVar, Thread};
use loco_sim::World;

use super::{Store, make};
use crate::methods::did;
use crate::stage::{Fabric, Stage, must, unless_excused, unless_lost, until_in_time, wait_here};

/// A key of the first of two locks, and one of the second.
pub(super) const KEY: u64 = 1;
pub(super) const OTHER: u64 = 2;

/// The words of [`Told`].
const DONE: u64 = 1;
const NOT_DONE: u64 = 2;

/// A store, and a word by which a thread tells another that a call has returned.
pub(super) struct Told {
    pub(super) store: Store<1>,
    word: SharedVar<u64, Fabric>,
}

impl Told {
    pub(super) fn new(
        manager: &Manager<Fabric>,
        store: impl Fn(&Manager<Fabric>) -> Result<Store<1>>,
    ) -> Result<Told> {
        Ok(Told {
            store: store(manager)?,
            word: SharedVar::new(manager, "told")?,
        })
    }

    /// Tells `node` that a call has returned, and whether it has done what it was to do.
    pub(super) fn tell(&self, thread: &Thread<Fabric>, node: u16, is_done: bool) -> Option<()> {
        self.word.write(if is_done { DONE } else { NOT_DONE });
        unless_lost(self.word.broadcast_to(thread, &[NodeId(node)])).map(loco::AckKey::forget)
    }

    /// Waits until node `from` says that a call has returned. Returns `None` if it has not done what it was to do, or that node is lost.
    pub(super) fn listen(&self, thread: &Thread<Fabric>, from: u16) -> Option<()> {
        let told = || Some(self.word.read()).filter(|&told| told != 0);
        let from = [NodeId(from)];
        let told = unless_lost(until_in_time(|| {
            thread.wait_until("a call that returns", Peers::These(&from), told)
        }))?;
        (told == DONE).then_some(())
    }
}

/// Inserts a key on node 0, before anything is explored.
pub(super) fn inserted_on_0(store: &Store<1>, thread: &Thread<Fabric>) {
    if thread.node_id() == NodeId(0) {
        assert_eq!(must(store.insert(thread, &KEY, &[10])), Inserted::Done);
    }
}

/// Builds a world in which two threads of a node report at a time, and the wait of one may be late. A key whose insert was late can be
/// inserted, since its slot is free. A key whose delete was late is there for updates if it is for lookups.
pub(super) fn beside(world: &mut World) {
    let mut stage = Stage::new(world, 2, 2, make::<1>(2, 2));
    stage.run(0, 0, "other", |store, thread| {
        let inserted = must(until_in_time(|| store.insert(thread, &OTHER, &[20])));
        assert_eq!(inserted, Inserted::Done, "there is a slot for each key");
    });
    stage.run(0, 1, "late", |store, thread| {
        let inserted = must(until_in_time(|| store.insert(thread, &KEY, &[10])));
        assert_eq!(inserted, Inserted::Done, "there is a slot for each key");
        if store.delete(thread, &KEY).is_err_and(|error| error.is_timeout()) {
            let updated = must(until_in_time(|| store.update(thread, &KEY, &[11])));
            let found = must(until_in_time(|| store.get(thread, &KEY)));
            assert_eq!(found.is_some(), updated, "an update finds what a lookup finds");
        }
    });
}

/// Builds a world in which node 1 stops, perhaps while it inserts a key that node 0 inserts, too. Node 2 then has what node 0 has inserted:
/// the report of node 0 reaches it, and no late report of node 1 replaces it.
pub(super) fn past_a_loss(world: &mut World) {
    let make = |manager: &Manager<Fabric>| Told::new(manager, make::<1>(1, 1));
    let mut stage = Stage::new(world, 3, 1, make);
    stage.run(1, 0, "lost", |at, thread| {
        unless_lost(until_in_time(|| at.store.insert(thread, &KEY, &[11]))).map(drop)
    });
    stage.run(0, 0, "writer", |at, thread| {
        // It fails if the key is on the lost node.
        let inserted = unless_lost(until_in_time(|| at.store.insert(thread, &KEY, &[10])));
        assert_ne!(inserted, Some(Inserted::Full), "node 0 has a slot");
        at.tell(thread, 2, inserted == Some(Inserted::Done))
    });
    stage.run(2, 0, "reader", |at, thread| {
        at.listen(thread, 0)?;
        let found = until_in_time(|| at.store.get(thread, &KEY));
        let found = unless_excused(found, |peer| assert_eq!(peer, NodeId(0), "it has the value"))?;
        assert_eq!(found, Some([10]), "nobody deletes the key");
        Some(())
    });
}

/// Builds a world in which node 1 stops while it updates a value of node 0 that node 2 looks up. The loss of node 1 is no excuse for the
/// lookup.
pub(super) fn torn_by_a_third(world: &mut World) {
    let mut stage = Stage::prepared(world, 3, 1, make::<1>(1, 1), inserted_on_0);
    stage.run(1, 0, "writer", |store, thread| {
        unless_lost(until_in_time(|| store.update(thread, &KEY, &[11]))).map(drop)
    });
    stage.run(2, 0, "reader", |store, thread| match store.get(thread, &KEY) {
        Err(Error::Torn { .. }) => None,
        found => {
            let found = unless_excused(found, |peer| assert_eq!(peer, NodeId(0), "it has the value"))?;
            assert!(matches!(found, Some([10 | 11])), "{found:?}");
            Some(())
        }
    });
}

/// Builds a world in which a call updates a value of node 1 and then one of node 0, which is the home of their lock. Another thread of
/// node 0, with queues of its own, finds both when the call has returned.
pub(super) fn two_nodes_under_a_lock(world: &mut World) {
    let make = |manager: &Manager<Fabric>| Told::new(manager, make::<1>(1, 1));
    let insert = |at: &Told, thread: &Thread<Fabric>| {
        let key = u64::from(thread.node_id().0);
        assert_eq!(must(at.store.insert(thread, &key, &[10])), Inserted::Done);
    };
    let mut stage = Stage::prepared(world, 2, 2, make, insert);
    stage.run(0, 0, "writer", |at, thread| {
        did("KvStore::update_many");
        assert_eq!(must(at.store.update_many(thread, &[(1, [11]), (0, [11])])), 2);
        at.word.write(DONE);
    });
    stage.run(0, 1, "reader", |at, thread| {
        wait_here(thread, &at.word, DONE)?;
        assert_eq!(
            must(at.store.get(thread, &1)),
            Some([11]),
            "the call has returned"
        );
        assert_eq!(
            must(at.store.get(thread, &0)),
            Some([11]),
            "the call has returned"
        );
        Some(())
    });
}

/// Builds a world in which a node gives up an update of two keys again and again, while another updates one of them. It waits with no more
/// than one ticket of a lock, whatever it has given up.
pub(super) fn impatient(world: &mut World) {
    let insert = |store: &Store<1>, thread: &Thread<Fabric>| {
        if thread.node_id() == NodeId(0) {
            let inserted = must(store.insert_many(thread, &[(KEY, [10]), (OTHER, [20])]));
            assert_eq!(inserted, [Inserted::Done; 2]);
        }
    };
    let mut stage = Stage::prepared(world, 2, 1, make::<1>(2, 2), insert);
    stage.run(0, 0, "patient", |store, thread| {
        assert!(must(store.update(thread, &KEY, &[11])));
    });
    stage.run(1, 0, "impatient", |store, thread| {
        let update = || store.update_many(thread, &[(KEY, [12]), (OTHER, [22])]);
        thread.set_deadline(Some(Time(0)));
        for _ in 0..5 {
            match update() {
                Err(late) if late.is_timeout() => {}
                updated => assert_eq!(must(updated), 2),
            }
        }
        thread.set_deadline(None);
        assert_eq!(must(update()), 2);
    });
}

/// Builds a world with a lookup of three keys, of which two make a window. Each result is in the place of its key.
pub(super) fn windows(world: &mut World) {
    // A block has room for two slots.
    let config = Config::default().block_bytes(64);
    let mut stage = Stage::configured(world, (2, 1), config, make::<1>(1, 1), inserted_on_0);
    stage.run(1, 0, "reader", |store, thread| {
        did("KvStore::get_many");
        let found = must(store.get_many(thread, &[KEY, OTHER, KEY]));
        assert_eq!(found, [Some([10]), None, Some([10])]);
    });
}
