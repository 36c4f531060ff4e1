//! The fabrics of a node as the mesh sees them: what shuts lost nodes out of each, and what tells that this node is shut out itself.
//!
//! Relies on [`view`](super::view). Kept by [`state`](super::state).

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use loco_fabric::NodeId;

use super::agreement::Revoked;
use super::view::Scope;

/// Revokes a lost node's access to this node's memory. The fabric implements it, because the access is by its means.
pub trait Revoke: Send + Sync + 'static {
    /// Returns once `peer` can no longer change this node's memory, whatever it does. May block for a while.
    fn revoke(&self, peer: NodeId) -> Revoked;

    /// Wakes the threads that wait for a node that is gone. The mesh calls it after it has reported one, and after one has closed the view of
    /// the fabric. Must not block.
    fn gone(&self) {}
}

/// The revoker of a fabric, with the view whose nodes the fabric reaches.
type OfFabric = (Arc<Scope>, Arc<dyn Revoke>);

/// Tells whether peers have revoked this node's access.
pub(super) type Look = Box<dyn Fn() -> bool + Send + Sync>;

/// What the mesh knows of the fabrics of a node.
pub(super) struct Revokers {
    of_fabrics: Mutex<Vec<OfFabric>>,
    looks: Looks,
}

/// Looks whether peers have declared this node lost, where a fabric can tell before a call fails.
enum Looks {
    /// That of the one view of a job of a fixed number of nodes.
    One(OnceLock<Look>),
    /// Those of the fabrics of a job that grows, with the numbers of their views. A node may be shut out through any.
    Each(RwLock<Vec<(u32, Look)>>),
}

impl Revokers {
    /// Makes those of a node without fabrics, in a job to which nodes may be added or not.
    pub(super) fn new(grows: bool) -> Revokers {
        Revokers {
            of_fabrics: Mutex::default(),
            looks: match grows {
                true => Looks::Each(RwLock::default()),
                false => Looks::One(OnceLock::new()),
            },
        }
    }

    /// Adds the revoker of a fabric of a view.
    pub(super) fn add(&self, scope: Arc<Scope>, revoker: Arc<dyn Revoke>) {
        let mut all = self.of_fabrics.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((scope, revoker));
    }

    /// Adds a look of a fabric of the view with this number. In a job of a fixed number of nodes, the one that was given first stays.
    pub(super) fn add_look(&self, view: u32, look: Look) {
        match &self.looks {
            // What was given first stays.
            Looks::One(one) => drop(one.set(look)),
            Looks::Each(each) => {
                let mut each = each.write().unwrap_or_else(PoisonError::into_inner);
                each.push((view, look));
            }
        }
    }

    /// Drops what belongs to the fabrics of a view, once this node has none of that view any more.
    pub(super) fn forget(&self, view: u32) {
        let mut all = self.of_fabrics.lock().unwrap_or_else(PoisonError::into_inner);
        let (dropped, kept) = std::mem::take(&mut *all)
            .into_iter()
            .partition::<Vec<_>, _>(|(scope, _)| scope.number() == view);
        *all = kept;
        drop(all);
        // Outside the lock: it is the fabric's code that runs.
        drop(dropped);
        if let Looks::Each(each) = &self.looks {
            let mut each = each.write().unwrap_or_else(PoisonError::into_inner);
            let dropped: Vec<_> = each.extract_if(.., |(of, _)| *of == view).collect();
            drop(each);
            drop(dropped);
        }
    }

    fn all(&self) -> Vec<OfFabric> {
        let all = self.of_fabrics.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// Makes `peer` harmless, through all fabrics that reach it. May block.
    pub(super) fn revoke(&self, peer: NodeId) -> Revoked {
        let mut revokers = self.all();
        revokers.retain(|(scope, _)| scope.nodes().contains(&peer));
        // Another node may have a fabric with the peer that this one has not: where a job grows, none speaks for all.
        let mut outcome = match revokers.is_empty() || matches!(self.looks, Looks::Each(_)) {
            true => Revoked::Done,
            false => Revoked::DoneForAll,
        };
        for (_, revoker) in revokers {
            match revoker.revoke(peer) {
                Revoked::WeAreOut => return Revoked::WeAreOut,
                Revoked::Done => outcome = Revoked::Done,
                Revoked::DoneForAll => {}
            }
        }
        outcome
    }

    /// Wakes the threads that wait for a node that is gone, in all fabrics or in those of one view.
    pub(super) fn wake(&self, view: Option<u32>) {
        for (scope, revoker) in self.all() {
            if view.is_none_or(|view| scope.number() == view) {
                revoker.gone();
            }
        }
    }

    /// Returns true if peers have shut this node out of a fabric.
    #[inline]
    pub(super) fn is_shut_out(&self) -> bool {
        match &self.looks {
            Looks::One(one) => one.get().is_some_and(|look| look()),
            Looks::Each(each) => {
                let each = each.read().unwrap_or_else(PoisonError::into_inner);
                each.iter().any(|(_, look)| look())
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all().len()
    }
}
