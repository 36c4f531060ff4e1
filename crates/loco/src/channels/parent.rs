//! Under what a channel is made.

use loco_fabric::Fabric;

use crate::channels::manager::Manager;
use crate::channels::participants::Participants;
use crate::fabric::AnyFabric;

/// Under what a channel is made: the manager, or another channel.
pub trait Parent<F: Fabric = AnyFabric> {
    /// The node's manager.
    fn manager(&self) -> &Manager<F>;
    /// Full name; `None` for the manager.
    fn path(&self) -> Option<&str>;
    /// Who takes part in channels made here, unless they say otherwise.
    fn participants(&self) -> Participants;
}

impl<F: Fabric> Parent<F> for Manager<F> {
    fn manager(&self) -> &Manager<F> {
        self
    }

    fn path(&self) -> Option<&str> {
        None
    }

    fn participants(&self) -> Participants {
        Participants::all(self)
    }
}
