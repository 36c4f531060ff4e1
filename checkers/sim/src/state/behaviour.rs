//! The behaviour of each model thread after each past: a tree of replies, learned from runs and shared by all
//! explorers.
//!
//! A thread's past is the list of its replies, which is a node of this tree. Two states of the world are
//! therefore equal if their machines and their threads' nodes are equal. A past that any run has seen need
//! not be run again: its next request is stored here. A failed evaluation of a wait's condition that only
//! read is not part of the past, unless the exploration keeps evaluations apart
//! ([`Waits::Apart`](crate::state::waits::Waits)). The thread goes back to the past where the wait began, or, if the
//! condition keeps its progress, to a node for the request that it makes next.
//!
//! The tree only grows, so reading it takes no lock: nodes sit in chunks that never move.

use std::sync::atomic::{AtomicBool, Ordering};
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
    /// The past before the last reply, and the last reply; empty for a root.
    parent: OnceLock<(u32, Reply)>,
    request: OnceLock<Request>,
    /// The past in which a wait's condition is evaluated again. Set for a failed evaluation that only read.
    resumption: OnceLock<Past>,
    /// Set once a failed evaluation that only read has ended here.
    has_failed: AtomicBool,
    /// The child that was seen first, which is usually the only one.
    first: OnceLock<(Reply, u32)>,
}

/// The error that a thread acted differently than before after the same past.
#[derive(Debug)]
pub(crate) struct Diverged {
    pub(crate) before: Request,
    pub(crate) now: Request,
}

impl Behaviour {
    /// Returns the past of thread number `thread` when it starts. Roots are made in order of thread numbers.
    pub(crate) fn root(&self, thread: u16) -> Past {
        // Roots are the children of a parent that is not a node.
        Past(self.child(u32::MAX, Reply::Value(u64::from(thread)), false))
    }

    /// Returns the past of thread number `thread` when the thread with the past `by` starts it. Which thread has that number depends
    /// on the schedule.
    pub(crate) fn started(&self, by: Past, thread: u16) -> Past {
        Past(self.child(by.0, Reply::Started(thread), false))
    }

    /// Returns the past that follows when `reply` is given.
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
        // The tree is only ever extended, so it is valid even after a panic of another explorer.
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

    /// Returns the thread's next request, if a run has seen it.
    pub(crate) fn request(&self, past: Past) -> Option<&Request> {
        self.nodes.get(past.0).request.get()
    }

    /// Records the request that a run has seen after a past.
    pub(crate) fn learn(&self, past: Past, request: &Request) -> Result<(), Box<Diverged>> {
        let before = self.nodes.get(past.0).request.get_or_init(|| request.clone());
        if before == request {
            return Ok(());
        }
        Err(Box::new(Diverged {
            before: before.clone(),
            now: request.clone(),
        }))
    }

    /// Returns the past in which the condition is evaluated again after the evaluation that ended at
    /// `failed`.
    pub(crate) fn resumption(&self, failed: Past) -> Option<Past> {
        self.nodes.get(failed.0).resumption.get().copied()
    }

    /// Records that a failed evaluation which only read has ended at `past`. Returns true the first time.
    pub(crate) fn fails_first(&self, past: Past) -> bool {
        let flag = &self.nodes.get(past.0).has_failed;
        // Looks first, so that explorers that come again only read the cache line. Relaxed: the flag publishes no
        // other data.
        !flag.load(Ordering::Relaxed) && !flag.swap(true, Ordering::Relaxed)
    }

    /// Records what [`resumption`](Behaviour::resumption) returns for `failed`.
    pub(crate) fn resumes(&self, failed: Past, at: Past) {
        let _ = self.nodes.get(failed.0).resumption.set(at);
    }

    /// Returns the past in which the wait that began at `begin` is evaluated from `request` on.
    pub(crate) fn resumed(&self, begin: Past, request: &Request) -> Past {
        let past = self.after(begin, &Reply::Resumed(Arc::new(request.clone())));
        let _ = self.nodes.get(past.0).request.set(request.clone());
        past
    }

    /// Returns the first past after `entry`, on the way to `failed`, in which the thread made this request.
    pub(crate) fn met(&self, entry: Past, failed: Past, request: &Request) -> Option<Past> {
        let mut met = None;
        let mut at = failed.0;
        while at != entry.0 {
            let node = self.nodes.get(at);
            if node.request.get() == Some(request) {
                met = Some(Past(at));
            }
            at = node.parent.get()?.0;
        }
        met
    }

    /// Returns the past that follows when `reply` is given, if the thread has been given it before.
    pub(crate) fn known(&self, past: Past, reply: &Reply) -> Option<Past> {
        if let Some((first, child)) = self.nodes.get(past.0).first.get()
            && first == reply
        {
            return Some(Past(*child));
        }
        let children = self.children.read().unwrap_or_else(PoisonError::into_inner);
        let child = children.by_reply.get(&(past.0, reply.clone()));
        child.copied().map(Past)
    }

    /// Returns the past before the last reply; `None` at the beginning of a thread.
    pub(crate) fn parent(&self, past: Past) -> Option<Past> {
        self.nodes
            .get(past.0)
            .parent
            .get()
            .map(|&(parent, _)| Past(parent))
    }

    /// Returns the reply that led to `past`.
    ///
    /// # Panics
    /// Panics at the beginning of a thread, to which no reply has led.
    pub(crate) fn reply(&self, past: Past) -> Reply {
        match self.nodes.get(past.0).parent.get() {
            Some((_, reply)) => reply.clone(),
            None => unreachable!("a reply has led to every past but the first"),
        }
    }

    /// Returns the notes that a thread has made on the way to `past`, oldest first, each with its reply.
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

    /// Returns the number of pasts known.
    pub(crate) fn len(&self) -> usize {
        self.children.read().unwrap_or_else(PoisonError::into_inner).count as usize
    }
}
