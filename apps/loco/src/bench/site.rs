//! The environment of a measured case on its node.

use loco::fabric::Fabric;
use loco::{Barrier, Manager, Thread};

use super::parameters::Parameters;
use super::progress::Progress;
use crate::error::CliError;

/// The values that the cases need.
pub(super) struct Bench<'a, F: Fabric> {
    pub(super) manager: &'a Manager<F>,
    pub(super) parameters: &'a Parameters,
    pub(super) progress: &'a Progress,
    /// A barrier of all threads of all nodes.
    pub(super) line: &'a Barrier<F>,
}

impl<F: Fabric> Bench<'_, F> {
    /// Waits for all threads of all nodes, as long as it takes: others may measure for longer than a wait's deadline.
    /// A node whose own operations time out fails and leaves, so nobody waits for it here.
    pub(super) fn meet(&self, thread: &Thread<F>) -> Result<(), CliError> {
        loop {
            match self.line.wait(thread) {
                Err(error) if error.is_timeout() => {}
                ended => return Ok(ended?),
            }
        }
    }

    /// Returns the number of a thread of this node among all threads of the job, and the number of all
    /// threads.
    pub(super) fn share(&self, index: usize) -> (usize, usize) {
        let nodes = self.manager.nodes();
        let position = nodes.iter().position(|&node| node == self.manager.node());
        let threads = usize::from(self.parameters.threads);
        (position.unwrap_or(0) * threads + index, nodes.len() * threads)
    }
}
