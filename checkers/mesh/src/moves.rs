//! The moves of a world.

use std::fmt;

/// A move. Nodes are given by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The next item on the link from `from` arrives at `to`.
    Deliver { from: usize, to: usize },
    /// A connection that `from` has closed ends at `to` without what was sent before.
    LoseTail { from: usize, to: usize },
    /// A revocation is done.
    Revoked { by: usize, victim: usize },
    /// A node finds in its own memory that the others have shut it out.
    Look { node: usize },
    /// A node finds that nothing comes over a connection that is cut.
    Expire { node: usize, peer: usize },
    /// Two nodes have shaken hands.
    Connect { one: usize, other: usize },
    /// A node takes over a connection.
    Attach { node: usize, peer: usize },
    /// A node hears from the rendezvous that a peer has ended.
    Told { node: usize, ended: usize },
    /// A node begins the round of the set-up.
    Contribute { node: usize },
    /// A node whose set-up has failed leaves.
    GiveUp { node: usize },
    /// The deadline of a node comes, which waits for connections with nodes that have ended.
    Late { node: usize },
    /// A node that wants to join asks a member.
    Ask { node: usize, sponsor: usize },
    /// The deadline of a node comes, which joins and cannot.
    Withdraw { node: usize },
    /// A node announces that it leaves.
    Announce { node: usize },
    /// A node leaves.
    Leave { node: usize },
    /// A node stops for good.
    Crash { node: usize },
    /// A node has heard nothing of a peer for too long, though the connection is whole.
    Silence { node: usize, peer: usize },
    /// Nothing comes from one node to another any more.
    Cut { from: usize, to: usize },
    /// Nothing comes between two nodes any more.
    CutBoth { one: usize, other: usize },
}

impl Move {
    /// Returns true if the move never has to happen.
    pub(crate) fn is_optional(self) -> bool {
        self.is_fault()
            || matches!(
                self,
                Move::LoseTail { .. } | Move::Announce { .. } | Move::Leave { .. }
            )
    }

    /// Returns true if the move is a fault, of which an execution has a limited number.
    pub(crate) fn is_fault(self) -> bool {
        use Move::{Crash, Cut, CutBoth, Silence};
        matches!(self, Crash { .. } | Silence { .. } | Cut { .. } | CutBoth { .. })
    }

    /// Returns the node that makes the move.
    pub(crate) fn mover(self) -> usize {
        match self {
            Move::Deliver { to, .. } | Move::LoseTail { to, .. } | Move::Cut { to, .. } => to,
            Move::Revoked { by, .. } => by,
            Move::Connect { one, .. } | Move::CutBoth { one, .. } => one,
            Move::Look { node }
            | Move::Expire { node, .. }
            | Move::Attach { node, .. }
            | Move::Told { node, .. }
            | Move::Contribute { node }
            | Move::GiveUp { node }
            | Move::Late { node }
            | Move::Ask { node, .. }
            | Move::Withdraw { node }
            | Move::Announce { node }
            | Move::Leave { node }
            | Move::Crash { node }
            | Move::Silence { node, .. } => node,
        }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Move::Deliver { from, to } => write!(f, "node {to} hears node {from}"),
            Move::LoseTail { from, to } => write!(f, "what node {from} said last to node {to} is lost"),
            Move::Revoked { by, victim } => write!(f, "node {by} has revoked the access of node {victim}"),
            Move::Look { node } => write!(f, "node {node} finds that it is shut out"),
            Move::Expire { node, peer } => {
                write!(f, "node {node} gives node {peer} up, from which nothing comes")
            }
            Move::Connect { one, other } => write!(f, "nodes {one} and {other} shake hands"),
            Move::Attach { node, peer } => write!(f, "node {node} has its connection with node {peer}"),
            Move::Told { node, ended } => {
                write!(f, "the rendezvous tells node {node} that node {ended} has ended")
            }
            Move::Contribute { node } => write!(f, "node {node} begins the round of the set-up"),
            Move::GiveUp { node } => write!(f, "node {node} ends, as its set-up has failed"),
            Move::Late { node } => write!(
                f,
                "the deadline of node {node} comes, which waits for connections"
            ),
            Move::Ask { node, sponsor } => write!(f, "node {node} asks node {sponsor} to let it join"),
            Move::Withdraw { node } => write!(f, "node {node} gives up joining"),
            Move::Announce { node } => write!(f, "node {node} announces that it leaves"),
            Move::Leave { node } => write!(f, "node {node} leaves"),
            Move::Crash { node } => write!(f, "node {node} stops"),
            Move::Silence { node, peer } => {
                write!(f, "node {node} has heard nothing of node {peer} for too long")
            }
            Move::Cut { from, to } => write!(f, "the way from node {from} to node {to} is cut"),
            Move::CutBoth { one, other } => write!(f, "the connection of nodes {one} and {other} is cut"),
        }
    }
}
