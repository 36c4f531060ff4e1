//! The words of the receive queues of a test.
//!
//! Filled by [`super::messages`], taken from in the order of the text by the resolution of code.

use std::collections::BTreeMap;

use crate::program::{Loc, Node};
use crate::syntax::Name;

/// The receive queue of the queue pair from a thread to a node.
#[derive(Default)]
pub(super) struct Queue {
    /// The thread that posts and polls the receives.
    pub(super) receiver: Option<usize>,
    /// The buffer of each receive.
    pub(super) buffers: Vec<Option<Name>>,
    /// Number of messages.
    pub(super) messages: usize,
    /// The words of receives and of completions.
    pub(super) entries: Vec<Loc>,
    pub(super) dones: Vec<Loc>,
    /// Messages, receives and polls that were resolved.
    pub(super) sent: usize,
    pub(super) received: usize,
    pub(super) polled: usize,
}

impl Queue {
    /// Returns the words of the next message and its number, from 0.
    pub(super) fn send(&mut self) -> Option<(Loc, Loc, usize)> {
        let at = self.sent;
        self.sent += 1;
        Some((*self.entries.get(at)?, *self.dones.get(at)?, at))
    }

    /// Returns the word of the next receive.
    pub(super) fn receive(&mut self) -> Option<Loc> {
        self.received += 1;
        self.entries.get(self.received - 1).copied()
    }

    /// Returns the word of the next completion.
    pub(super) fn poll(&mut self) -> Option<Loc> {
        self.polled += 1;
        self.dones.get(self.polled - 1).copied()
    }
}

/// The receive queues, by the thread that sends and the node that receives.
pub(super) type Queues = BTreeMap<(usize, Node), Queue>;
