//! What each model thread does after each past: a tree of replies, learned from runs and shared by all explorers.
//!
//! A thread's past is the list of replies it has had, a node of this tree, so two states of the world are equal if their machines
//! and their threads' nodes are. And a past that any run has seen need not be run again: its next request is here.
//! A failed evaluation of a wait's condition that only read is no part of the past ([`crate::state`] goes back to the
//! node where the wait began).

use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashMap;

use crate::request::{Note, Reply, Request};

/// A past of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Past(pub(crate) u32);

#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    children: FxHashMap<(u32, Reply), u32>,
}

struct Node {
    /// The past before the last reply, and that reply.
    parent: Option<(u32, Reply)>,
    request: Option<Arc<Request>>,
}

/// The tree. Cheap to read from several explorers.
#[derive(Default)]
pub(crate) struct Behaviour {
    tree: RwLock<Tree>,
}

/// A thread did something else than before after the same past.
#[derive(Debug)]
pub(crate) struct Diverged {
    pub(crate) before: Arc<Request>,
    pub(crate) now: Request,
}

impl Behaviour {
    /// The past of thread number `thread` when it starts. Roots are made in order of thread numbers.
    pub(crate) fn root(&self, thread: u16) -> Past {
        // A reply that no request gets serves as the name of a root.
        let key = (u32::MAX, Reply::Value(u64::from(thread)));
        if let Some(&node) = self.read().children.get(&key) {
            return Past(node);
        }
        let mut tree = self.write();
        let fresh = tree.nodes.len() as u32;
        let node = *tree.children.entry(key).or_insert(fresh);
        if node == fresh {
            tree.nodes.push(Node {
                parent: None,
                request: None,
            });
        }
        Past(node)
    }

    /// The past that follows when `reply` is given.
    pub(crate) fn after(&self, past: Past, reply: &Reply) -> Past {
        let key = (past.0, reply.clone());
        if let Some(&node) = self.read().children.get(&key) {
            return Past(node);
        }
        let mut tree = self.write();
        let fresh = tree.nodes.len() as u32;
        let node = *tree.children.entry(key).or_insert(fresh);
        if node == fresh {
            tree.nodes.push(Node {
                parent: Some((past.0, reply.clone())),
                request: None,
            });
        }
        Past(node)
    }

    /// What the thread asks for next, if a run has seen it.
    pub(crate) fn request(&self, past: Past) -> Option<Arc<Request>> {
        self.read().nodes[past.0 as usize].request.clone()
    }

    /// Records what a run has seen.
    pub(crate) fn learn(&self, past: Past, request: &Request) -> Result<Arc<Request>, Diverged> {
        if let Some(before) = self.request(past) {
            return if *before == *request {
                Ok(before)
            } else {
                Err(Diverged {
                    before,
                    now: request.clone(),
                })
            };
        }
        let shared = Arc::new(request.clone());
        self.write().nodes[past.0 as usize].request = Some(shared.clone());
        Ok(shared)
    }

    /// The notes that a thread has made on the way to `past`, oldest first, each with its reply.
    pub(crate) fn notes(&self, past: Past) -> Vec<(Note, Reply)> {
        let tree = self.read();
        let mut notes = Vec::new();
        let mut at = past.0;
        while let Some((parent, reply)) = &tree.nodes[at as usize].parent {
            if let Some(Request::Note(note)) = tree.nodes[*parent as usize].request.as_deref() {
                notes.push((note.clone(), reply.clone()));
            }
            at = *parent;
        }
        notes.reverse();
        notes
    }

    /// Number of pasts known.
    pub(crate) fn len(&self) -> usize {
        self.read().nodes.len()
    }

    // The tree is only ever extended: after a panic of another explorer it is as good as before.
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }
}
