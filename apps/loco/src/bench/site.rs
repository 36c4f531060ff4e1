//! The environment of a measured case on its node.

use loco::fabric::Fabric;
use loco::{Barrier, Manager, Thread};
use loco_app::{Phase, Share};

use super::parameters::Parameters;
use super::progress::Progress;
use crate::error::CliError;

/// The values that the cases need.
pub(super) struct Bench<'a, F: Fabric> {
    pub(super) manager: &'a Manager<F>,
    pub(super) parameters: &'a Parameters,
    pub(super) progress: &'a Progress,
    /// How far the operations are that are timed one by one.
    pub(super) timing: &'a Phase,
    /// A barrier of all threads of all nodes.
    pub(super) line: &'a Barrier<F>,
}

impl<F: Fabric> Bench<'_, F> {
    /// Waits for all threads of all nodes, as long as it takes: others may measure for longer than a wait's deadline.
    pub(super) fn meet(&self, thread: &Thread<F>) -> Result<(), CliError> {
        Ok(loco_app::meet(self.line, thread)?)
    }

    /// Returns the share of a thread of this node.
    pub(super) fn share(&self, index: usize) -> Share {
        Share::new(self.manager, index, usize::from(self.parameters.threads))
    }
}

/// Returns whether this is the lowest node, which says how far the job is.
pub(super) fn leads<F: Fabric>(manager: &Manager<F>) -> bool {
    manager.nodes().first() == Some(&manager.node())
}
