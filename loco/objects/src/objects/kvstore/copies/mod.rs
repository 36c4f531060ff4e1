//! Copies of values on several nodes, which outlive the loss of the node that they were inserted on.
//!
//! *Where they are.* A value has *homes*: the node that inserted it, the *primary*, with a slot as without copies, and the participants
//! after that node, in a ring, each with a *backup slot* ([`slot`]). Of these, the first `n` that are not lost have the `n` copies. The
//! first of them is read. Every node has room for the backups of all slots of the participants before it whose home it is,
//! so a place in an index tells where all copies are. Locks have as many homes, and the first that is not lost counts.
//!
//! *A write* (`writes`) goes to the copies from the last to the first, with a fence after each, and is done when the first has it.
//! So whatever a lookup shows is on every later copy, and the next copy shows it, too, when the first is lost. A backup slot has room
//! for two values: the last whole one stays while the next is written. The slot of the primary has room for one, as without copies, so that
//! a lookup reads no more than that. It therefore has a *spare*, a backup slot beside it on the same node, which a write goes to
//! just before. So a writer that is lost in the middle of one copy, and with it the copy that it has itself, takes no value
//! with it.
//!
//! *After a loss* nodes hear of it one after another. A node that has not heard of it still reads the lost node's memory, and
//! may hold a lock there. So no node uses another copy, or another home of a lock, before all the others have turned away
//! from the lost node ([`views`]).
//!
//! *What a lost writer left half done* is no longer wanted nor harmful: a value that only later copies have is shown when the
//! earlier ones are lost, as if its call had taken so long, and the next writer of the key replaces it. A value that it left torn in
//! the slot of the primary is whole in the spare, and is written again from there (`reads`).
//!
//! *New copies* (`copier`). When a home is lost, the next one in the ring gets a copy, in the background, from the node that is the first
//! then. It brings all later copies to the value of the first. Until it has it, its backup slot is of an earlier use of the primary's slot or of none, which tells that it knows nothing. Every write
//! goes to it, too, and gives it the copy if it comes first.
//!
//! Relies on the fabric's membership: after a loss is reported, the lost node changes no memory of others. Used by the calls of
//! the store where [`KvConfig::copies`](super::KvConfig::copies) is more than one; without copies none of this exists.

mod copier;
mod cut;
mod place;
mod reads;
mod slot;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_again;
#[cfg(test)]
mod tests_losses;
mod views;
mod words;
mod writes;

use loco_fabric::{Fabric, NodeId};
use smallvec::SmallVec;

use crate::channels::channel::region_bytes;
use crate::objects::locks::guard::{LockConfig, OnLoss};
use crate::{Channel, Error, Parent, Region, Result, TicketLock};

use super::KvConfig;
use super::slot::Location;
pub(super) use copier::{Again, DONE, copier};
use views::VIEW_NODES_MAX;
pub(super) use views::{REGION as TURNED, View, Views};
pub(super) use writes::Ended;

/// The name of the region of backup slots.
pub(super) const REGION: &str = "backups";

/// What a node has for copies.
pub(super) struct Copies<F: Fabric> {
    /// The number of copies, at least 2.
    count: usize,
    /// The number of nodes that have room for the copies of a value, and of the homes of a lock: at least `count`.
    homes: usize,
    /// The progress of new copies after losses; `None` if there is no room for any.
    again: Option<Again<F>>,
    slots_per_node: usize,
    /// The bytes of a backup slot.
    slot_bytes: usize,
    backups: Region<F>,
    views: Views<F>,
    /// The locks of the second home, then those of the third, and so on.
    later_locks: Vec<TicketLock<F>>,
}

/// A node that has a copy of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    node: NodeId,
    /// Which copy it has: 0 is the slot of the node that inserted the value, with its spare, others are backup slots.
    copy: usize,
}

/// The nodes that have copies of a value, or get them, and are not lost, in the order of the copies.
type Holders = SmallVec<[Holder; 4]>;

/// Returns the bytes of a node's region of backup slots.
///
/// # Errors
/// Returns `TooLarge` for sizes beyond all addresses.
pub(super) fn backup_bytes(name: &str, config: &KvConfig, nodes: usize) -> Result<usize> {
    let slots = (config.slots_per_node as usize).saturating_mul(homes(config, nodes));
    region_bytes(name, slots, slot::slot_bytes(config.value_bytes_max))
}

/// Returns the number of the `nodes` participants that have room for the copies of a value.
pub(super) fn homes(config: &KvConfig, nodes: usize) -> usize {
    config.copies.saturating_add(config.spare_homes).min(nodes)
}

/// Checks that `nodes` participants can keep the copies of each value that `config` asks for, in the store called `name`.
///
/// # Errors
/// Returns `Config`.
pub(super) fn check(name: &str, config: &KvConfig, nodes: usize) -> Result<()> {
    let copies = config.copies;
    let wrong = if copies == 0 {
        "no copy of a value; take 1 at least".to_owned()
    } else if copies > nodes {
        format!("{copies} copies of each value among {nodes} participants; take {nodes} at most")
    } else if copies > 1 && nodes > VIEW_NODES_MAX {
        format!("copies among {nodes} participants; a store with copies has {VIEW_NODES_MAX} at most")
    } else if copies > 1 && homes(config, nodes) > copies && config.copies_per_second == 0 {
        "no copies a second after a loss; take 1 at least, or `spare_homes(0)` for none at all".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Config(format!("key-value store `{name}`: {wrong}")))
}

impl<F: Fabric> Copies<F> {
    /// Makes what this node needs for the copies of the store in `channel`, which has the region [`REGION`]. Returns `None` if the
    /// store has one copy of each value.
    pub(super) fn new(channel: &Channel<F>, config: &KvConfig) -> Result<Option<Copies<F>>> {
        if config.copies == 1 {
            return Ok(None);
        }
        let participants = channel.participants();
        let nodes = participants.nodes();
        let on_loss = LockConfig::default().on_loss(OnLoss::Recover);
        let homes = homes(config, nodes.len());
        let numbers = (1..homes).flat_map(|home| (0..config.locks).map(move |lock| (home, lock)));
        let later_locks = numbers.map(|(home, lock)| {
            let node = nodes[(lock as usize + home) % nodes.len()];
            let lock = TicketLock::with_config(channel, &format!("lock{lock}-{home}"), node, on_loss);
            lock.map(TicketLock::keeping_doubt)
        });
        let views = Views::new(channel)?;
        let again = match homes > config.copies {
            true => Some(Again::new(channel, &views)?),
            false => None,
        };
        Ok(Some(Copies {
            count: config.copies,
            homes,
            again,
            slots_per_node: config.slots_per_node as usize,
            slot_bytes: slot::slot_bytes(config.value_bytes_max),
            backups: channel.region(REGION)?.clone(),
            views,
            later_locks: later_locks.collect::<Result<_>>()?,
        }))
    }

    pub(super) fn views(&self) -> &Views<F> {
        &self.views
    }

    /// Returns true if this node has turned away from `node`.
    pub(super) fn has_turned_from(&self, node: NodeId) -> bool {
        self.views.view().has(self.views.position(node))
    }

    /// Returns the nodes that have or get the copies of the value at `at` in `view`. Views only grow, so a node that is among them stays
    /// so while it lives, and every write goes to it: it never has a value that was replaced.
    fn holders(&self, at: Location, view: View) -> Holders {
        let (nodes, first) = (self.views.nodes(), self.views.position(at.node));
        let copies = (0..self.homes).map(|copy| ((first + copy) % nodes.len(), copy));
        let left = copies.filter(|&(position, _)| !view.has(position));
        let node = |(position, copy): (usize, usize)| Holder {
            node: nodes[position],
            copy,
        };
        left.take(self.count).map(node).collect()
    }

    /// Returns true if `error` is the loss of a node that is out of this node's view already: another view mends nothing.
    fn is_out(&self, error: &Error) -> bool {
        let lost = self.views.lost_in(error);
        lost.is_some_and(|position| self.views.view().has(position))
    }

    /// Returns the home of lock `number` that counts in `view`: which of its homes it is.
    ///
    /// # Errors
    /// Returns `PeerLost` for the first home if all of them are lost.
    fn home(&self, number: usize, view: View) -> Result<usize> {
        let nodes = self.views.nodes();
        let is_left = |&home: &usize| !view.has((number + home) % nodes.len());
        let home = (0..self.homes).find(is_left);
        home.ok_or_else(|| lost(nodes[number % nodes.len()]))
    }

    /// Returns the offset of the backup slot of the value at `at` in the region of the node that has this copy of it; of the spare,
    /// for copy 0.
    fn offset(&self, at: Location, copy: usize) -> usize {
        debug_assert!(copy < self.homes, "copy {copy} of {}", self.homes);
        (copy * self.slots_per_node + at.slot as usize) * self.slot_bytes
    }
}

/// Returns the error of a call that needs what was on `node` alone.
fn lost(node: NodeId) -> Error {
    loco_fabric::FabricError::PeerLost(node).into()
}
