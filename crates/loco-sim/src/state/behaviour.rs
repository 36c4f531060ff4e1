//! What each model thread does after each past: a tree of replies, learned from runs and shared by all explorers.
//!
//! A thread's past is the list of replies it has had, a node of this tree, so two states of the world are equal if their machines
//! and their threads' nodes are. And a past that any run has seen need not be run again: its next request is here.
//! A failed evaluation of a wait's condition that only read is no part of the past: the thread goes back to where the
//! wait began, or, if the condition keeps its progress, to a node for what it looks at next.
//!
//! The tree only grows, so reading it takes no lock: nodes sit in chunks that never move.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rustc_hash::FxHashMap;

use crate::fabric::request::{Note, Reply, Request};
use crate::state::chunks::Chunks;

/// A past of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Past(pub(crate) u32);

/// The tree.
#[derive(Default)]
pub(crate) struct Behaviour {
    nodes: Chunks<Node>,
    children: RwLock<Children>,
}

#[derive(Default)]
struct Children {
    count: u32,
    by_reply: FxHashMap<(u32, Reply), u32>,
}

#[derive(Default)]
struct Node {
    /// The past before the last reply, and that reply; nothing for a root.
    parent: OnceLock<(u32, Reply)>,
    request: OnceLock<Request>,
    /// For a failed evaluation of a wait that only read: the past in which it is evaluated again.
    resumption: OnceLock<Past>,
    /// The child seen first: usually the only one.
    first: OnceLock<(Reply, u32)>,
}

/// A thread did something else than before after the same past.
#[derive(Debug)]
pub(crate) struct Diverged {
    pub(crate) before: Request,
    pub(crate) now: Request,
}

impl Behaviour {
    /// The past of thread number `thread` when it starts. Roots are made in order of thread numbers.
    pub(crate) fn root(&self, thread: u16) -> Past {
        // A parent that no node is serves to name roots.
        Past(self.child(u32::MAX, Reply::Value(u64::from(thread)), false))
    }

    /// The past that follows when `reply` is given.
    pub(crate) fn after(&self, past: Past, reply: &Reply) -> Past {
        let node = self.nodes.get(past.0);
        if let Some((first, child)) = node.first.get()
            && first == reply
        {
            return Past(*child);
        }
        let child = self.child(past.0, reply.clone(), true);
        let _ = node.first.set((reply.clone(), child));
        Past(child)
    }

    fn child(&self, parent: u32, reply: Reply, linked: bool) -> u32 {
        let key = (parent, reply);
        let known = self
            .children
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_reply
            .get(&key)
            .copied();
        if let Some(known) = known {
            return known;
        }
        // The tree is only ever extended: after a panic of another explorer it is as good as before.
        let mut children = self.children.write().unwrap_or_else(PoisonError::into_inner);
        let fresh = children.count;
        let node = *children.by_reply.entry(key.clone()).or_insert(fresh);
        if node == fresh {
            children.count += 1;
            if linked {
                let _ = self.nodes.get(node).parent.set(key);
            }
        }
        node
    }

    /// What the thread asks for next, if a run has seen it.
    pub(crate) fn request(&self, past: Past) -> Option<&Request> {
        self.nodes.get(past.0).request.get()
    }

    /// Records what a run has seen.
    pub(crate) fn learn(&self, past: Past, request: &Request) -> Result<(), Diverged> {
        let before = self.nodes.get(past.0).request.get_or_init(|| request.clone());
        if before == request {
            return Ok(());
        }
        Err(Diverged {
            before: before.clone(),
            now: request.clone(),
        })
    }

    /// Where the condition is evaluated again after the evaluation that ended at `failed`.
    pub(crate) fn resumption(&self, failed: Past) -> Option<Past> {
        self.nodes.get(failed.0).resumption.get().copied()
    }

    /// Records [`resumption`](Behaviour::resumption).
    pub(crate) fn resumes(&self, failed: Past, at: Past) {
        let _ = self.nodes.get(failed.0).resumption.set(at);
    }

    /// The past in which the wait that began at `begin` is evaluated from `request` on.
    pub(crate) fn resumed(&self, begin: Past, request: &Request) -> Past {
        let past = self.after(begin, &Reply::Resumed(Arc::new(request.clone())));
        let _ = self.nodes.get(past.0).request.set(request.clone());
        past
    }

    /// The notes that a thread has made on the way to `past`, oldest first, each with its reply.
    pub(crate) fn notes(&self, past: Past) -> Vec<(Note, Reply)> {
        let mut notes = Vec::new();
        let mut at = past.0;
        while let Some((parent, reply)) = self.nodes.get(at).parent.get() {
            if let Some(Request::Note(note)) = self.nodes.get(*parent).request.get() {
                notes.push((note.clone(), reply.clone()));
            }
            at = *parent;
        }
        notes.reverse();
        notes
    }

    /// Number of pasts known.
    pub(crate) fn len(&self) -> usize {
        self.children.read().unwrap_or_else(PoisonError::into_inner).count as usize
    }
}
