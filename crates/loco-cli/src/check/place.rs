//! The size of a world, and the place of a thread in it.

use loco::Result;
use loco_sim::ModelFabric;
use serde::Serialize;

pub(super) type Fabric = ModelFabric;

/// The size of a world.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    /// Nodes.
    pub nodes: u16,
    /// Threads on each node.
    pub threads: usize,
    /// Operations of each thread.
    pub ops: u64,
}

/// One thread's place in the world.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) node: u16,
    pub(super) thread: usize,
    pub(super) size: Size,
}

/// Returns the value of a call that must not fail: in an explored thread an error is a finding.
pub(super) fn must<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}
