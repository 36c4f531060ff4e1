//! The parents of channels.

use loco_fabric::{Fabric, NodeId};

use crate::channels::manager::Manager;
use crate::channels::participants::Participants;
use crate::fabric::AnyFabric;

/// The parent of a channel: the manager, or another channel.
///
/// Every object takes part on the participants of its parent. [`among`](Parent::among) chooses others:
///
/// ```
/// use loco::prelude::*;
///
/// loco::testing::run(3, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let workers = &manager.nodes()[1..];
///     if workers.contains(&manager.node()) {
///         let barrier = Barrier::new(&manager.among(workers.iter().copied()), "workers")?;
///         manager.wait_for_ready()?;
///         barrier.wait(&manager.thread()?)?;
///     }
///     Ok(())
/// });
/// ```
pub trait Parent<F: Fabric = AnyFabric> {
    /// Returns the node's manager.
    fn manager(&self) -> &Manager<F>;
    /// Returns the full name; `None` for the manager.
    fn path(&self) -> Option<&str>;
    /// Returns the participants of channels made here, unless they choose others.
    fn participants(&self) -> Participants;

    /// Returns a parent whose objects have these participants instead. Their names stay below this parent's.
    fn among(&self, nodes: impl IntoIterator<Item = NodeId>) -> Among<'_, Self, F>
    where
        Self: Sized,
    {
        Among {
            parent: self,
            participants: Participants::of(nodes),
            fabric: std::marker::PhantomData,
        }
    }
}

/// A manager or channel as a parent whose objects have other participants. Made by [`Parent::among`].
pub struct Among<'a, P: Parent<F>, F: Fabric = AnyFabric> {
    parent: &'a P,
    participants: Participants,
    fabric: std::marker::PhantomData<fn() -> F>,
}

impl<P: Parent<F>, F: Fabric> Parent<F> for Among<'_, P, F> {
    fn manager(&self) -> &Manager<F> {
        self.parent.manager()
    }

    fn path(&self) -> Option<&str> {
        self.parent.path()
    }

    fn participants(&self) -> Participants {
        self.participants.clone()
    }
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
