//! The description of a wait: its purpose, and the events that make it fail. Objects describe their waits by it,
//! fabrics carry them out.

use crate::{NodeId, Time};

/// The description of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The description of what is waited for, in error messages and deadlock reports: usually the full name of an
    /// object.
    pub what: &'a str,
    /// The peers whose loss makes the wait fail.
    pub peers: Peers<'a>,
    /// The time at which to give up. `None` means never.
    pub deadline: Option<Time>,
}

/// A set of peers.
#[derive(Clone, Copy, Debug)]
pub enum Peers<'a> {
    /// No peer.
    None,
    /// One peer.
    One(NodeId),
    /// These peers.
    These(&'a [NodeId]),
    /// Every node of the job.
    All,
}

impl Peers<'_> {
    /// Returns the peers as a list. `all` are the nodes of the job.
    pub fn among<'n>(&'n self, all: &'n [NodeId]) -> &'n [NodeId] {
        match self {
            Peers::None => &[],
            Peers::One(peer) => std::slice::from_ref(peer),
            Peers::These(peers) => peers,
            Peers::All => all,
        }
    }
}
