//! The past of a call, on which its results may depend: the thread's earlier events, and the values that may
//! be found where.
//!
//! The specifications of libraries ([`crate::library`]) read it. The code that runs threads
//! ([`crate::plain`]) fills it.

use std::cell::Cell;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::client::{Client, Node};
use crate::event::{Event, Loc};
use crate::value::Value;

/// The values that may be found at a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) values: BTreeSet<Value>,
    pub(crate) writer: Writer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writer {
    #[default]
    Nobody,
    /// Only the CPU of this thread.
    Cpu(u8),
    Several,
}

pub(crate) type Domain = FxHashMap<Loc, Entry>;

/// The past of a call, on which its results may depend: the thread's earlier events, and the values that may
/// be found where.
#[derive(Clone, Debug)]
pub struct Past<'a> {
    /// The client.
    pub client: &'a Client,
    /// The thread.
    pub thread: u8,
    pub(crate) events: &'a [Event],
    pub(crate) own: &'a FxHashMap<Loc, Value>,
    pub(crate) domain: &'a Domain,
    /// The location that was last looked at.
    pub(crate) looked: Cell<Option<Loc>>,
}

impl Past<'_> {
    /// Returns the thread's node.
    pub fn node(&self) -> Node {
        self.client.threads[usize::from(self.thread)].node
    }

    /// Returns the values that a CPU read of the location may return.
    pub fn read(&self, loc: Loc, init: Value) -> Vec<Value> {
        self.looked.set(Some(loc));
        let entry = self.domain.get(&loc);
        match entry.map_or(Writer::Nobody, |e| e.writer) {
            Writer::Cpu(thread) if thread == self.thread => {
                vec![self.own.get(&loc).cloned().unwrap_or(init)]
            }
            Writer::Nobody if self.own.contains_key(&loc) => vec![self.own[&loc].clone()],
            _ => self.fetched(loc, init),
        }
    }

    /// Returns the values that a network card's read of the location may return. It may come before earlier stores of the
    /// thread are placed, or after later ones.
    pub fn fetched(&self, loc: Loc, init: Value) -> Vec<Value> {
        let mut out = self.written(loc);
        if !out.contains(&init) {
            out.push(init);
        }
        out
    }

    /// Returns the values that any thread writes to the location.
    pub fn written(&self, loc: Loc) -> Vec<Value> {
        self.looked.set(Some(loc));
        self.domain
            .get(&loc)
            .map_or_else(Vec::new, |e| e.values.iter().cloned().collect())
    }

    /// Returns the number of the thread's earlier events that satisfy `is`.
    pub fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|e| is(e)).count()
    }
}
