//! The response of a lock to the loss of its holder. Used by both locks.

use loco_fabric::{AtomicCell, Fabric, NodeId};

use crate::objects::locks::guard::OnLoss;
use crate::operations::platform::AtomicU32Of;
use crate::{Error, Result};

/// The holder whose loss has poisoned a lock, as far as this node knows.
pub(super) struct Poison<F: Fabric> {
    /// 1 + the id of the lost holder, or 0.
    lost: AtomicU32Of<F>,
}

impl<F: Fabric> Poison<F> {
    pub(super) fn new() -> Poison<F> {
        Poison {
            lost: AtomicCell::new(0),
        }
    }

    /// Checks that the lock called `lock` is not poisoned.
    ///
    /// # Errors
    /// Returns `HolderLost` if the lock called `lock` is poisoned.
    #[inline]
    pub(super) fn check(&self, lock: &str) -> Result<()> {
        match self.lost.load() {
            0 => Ok(()),
            id => Err(holder_lost(lock, NodeId((id - 1) as u16))),
        }
    }

    /// Applies the policy `on_loss` to the lock called `lock`, whose holder is lost: poisons the lock, or logs that it
    /// is recovered.
    ///
    /// # Errors
    /// Returns `HolderLost` if the lock is poisoned.
    pub(super) fn lose(&self, lock: &str, holder: NodeId, on_loss: OnLoss) -> Result<()> {
        match on_loss {
            OnLoss::Poison => {
                self.lost.store(u32::from(holder.0) + 1);
                Err(holder_lost(lock, holder))
            }
            OnLoss::Recover => {
                tracing::warn!(lock, %holder, "recovering from a lost holder");
                Ok(())
            }
        }
    }
}

fn holder_lost(lock: &str, node: NodeId) -> Error {
    Error::HolderLost {
        lock: lock.to_owned(),
        node,
    }
}
