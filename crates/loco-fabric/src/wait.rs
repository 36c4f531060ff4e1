//! The description of a wait: its purpose, and the events that make it fail. Objects describe their waits by it,
//! fabrics carry them out.

use crate::{NodeId, Time};

/// The description of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The object and the peer that are waited for, for error messages and deadlock reports: "barrier `bar`:
    /// node 2".
    pub what: &'a str,
    /// The peers whose loss makes the wait fail.
    pub peers: Peers<'a>,
    /// The time at which to give up.
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
