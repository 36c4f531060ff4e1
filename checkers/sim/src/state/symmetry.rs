//! Threads that run the same code: which of them is where makes no difference to what can happen.
//!
//! Symmetric threads begin with the same past. As long as they get the same replies they have the same past, so they must ask for the
//! same things ([`super::behaviour`] compares). What a thread has made itself has a name of its own, so such threads use only what was made
//! before they began ([`State::tells_apart`]); other worlds are refused.
//! A permutation of such threads therefore turns executions into executions (an automorphism; Emerson and Sistla, FMSD 9, 1996), and a
//! search may take all states that are permutations of one another for one.
//!
//! Three things keep the permutations apart or name threads all the same:
//! * The history says of each call which calls of which threads had returned before. A thread stays itself once it has begun a call.
//! * A lock names its holder. It is encoded with the thread that holds it.
//! * What a thread was seen to access ([`super::sharing`]), every thread of its group counts as accessing, since states are left
//!   out in which the others do. Persistent sets may be used together with symmetry then (Emerson, Jha and Peled, TACAS 1997).
//!
//! Used by [`super::encode`], by grants, and by runs, which add the threads.

use std::ops::Range;
use std::sync::Arc;

use super::{Common, State};
use crate::fabric::request::{LockId, Request, VirtualWord};

/// The size of the largest group of which all permutations are tried.
const ALL_OF: usize = 4;

/// Returns the orders of some threads.
fn orders(threads: &[u16]) -> Vec<Vec<u16>> {
    let Some((&first, rest)) = threads.split_first() else {
        return vec![Vec::new()];
    };
    let mut all = Vec::new();
    for order in orders(rest) {
        for at in 0..=order.len() {
            let mut with = order.clone();
            with.insert(at, first);
            all.push(with);
        }
    }
    all
}

/// Returns the orders of some threads in which two have changed places.
fn exchanges(threads: &[u16]) -> Vec<Vec<u16>> {
    let pairs = (0..threads.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs
        .map(|(a, b)| {
            let mut order = threads.to_vec();
            order.swap(a, b);
            order
        })
        .collect()
}

impl State {
    /// Makes the last `count` threads symmetric. They are of one node, and have not begun.
    pub(crate) fn make_symmetric(&mut self, common: &Common, count: u16) {
        let end = self.threads.len() as u16;
        let group = end.saturating_sub(count)..end;
        let infos = Arc::make_mut(&mut self.infos);
        for thread in group.clone() {
            infos[usize::from(thread)].symmetric = group.clone();
            self.threads[usize::from(thread)].past = common.behaviour.root(group.start);
        }
    }

    /// Returns the threads that are symmetric with this one, itself among them.
    pub(crate) fn symmetric(&self, thread: u16) -> Range<u16> {
        self.info(thread).symmetric.clone()
    }

    /// Returns whether the request tells a symmetric thread from the others of its group: it names what the thread has made itself.
    pub(crate) fn tells_apart(&self, thread: u16, request: &Request) -> bool {
        let group = self.symmetric(thread);
        let own = |word: VirtualWord| group.contains(&word.owner());
        let own_lock = |lock: LockId| own(VirtualWord(lock.0));
        group.len() > 1
            && match *request {
                Request::Load { word }
                | Request::Store { word, .. }
                | Request::Rmw { word, .. }
                | Request::Direct { word, .. } => own(word),
                Request::Lock { lock, .. } | Request::TryLock { lock } | Request::Unlock { lock, .. } => {
                    own_lock(lock)
                }
                // Threads number their transfers of several words apart.
                Request::Post { owner, transfer, .. } => group.contains(&owner) || transfer != 0,
                Request::Spawn { .. } => true,
                _ => false,
            }
    }

    /// Returns whether the thread may be exchanged with others of its group.
    fn is_interchangeable(&self, thread: u16) -> bool {
        self.symmetric(thread).len() > 1 && !self.threads[usize::from(thread)].called
    }

    /// Returns whether the world has symmetric threads.
    pub(super) fn has_symmetric(&self) -> bool {
        self.infos.iter().any(|info| info.symmetric.len() > 1)
    }

    /// Returns for each thread the one that takes its place, in each permutation of the interchangeable threads of a group but the one
    /// that changes nothing. Of groups of more than [`ALL_OF`] threads only two change places at a time.
    pub(crate) fn permutations(&self) -> Vec<Vec<u16>> {
        let unchanged: Vec<u16> = (0..self.threads.len() as u16).collect();
        let mut all = Vec::new();
        let mut begin = 0;
        while begin < unchanged.len() as u16 {
            let group = self.symmetric(begin);
            let places: Vec<u16> = group.clone().filter(|&t| self.is_interchangeable(t)).collect();
            let orders = match places.len() <= ALL_OF {
                true => orders(&places),
                false => exchanges(&places),
            };
            all.extend(orders.into_iter().filter(|order| *order != places).map(|order| {
                let mut permuted = unchanged.clone();
                for (&place, thread) in places.iter().zip(order) {
                    permuted[usize::from(place)] = thread;
                }
                permuted
            }));
            begin = group.end.max(begin + 1);
        }
        all
    }

    /// Puts the encodings of threads, one for each thread in order, in the order that all permutations of interchangeable threads have
    /// in common.
    pub(super) fn sort_interchangeable(&self, encodings: &mut [Vec<u8>]) {
        let mut begin = 0;
        while begin < encodings.len() as u16 {
            let group = self.symmetric(begin);
            let places: Vec<u16> = group.clone().filter(|&t| self.is_interchangeable(t)).collect();
            let mut sorted: Vec<Vec<u8>> = places
                .iter()
                .map(|&t| std::mem::take(&mut encodings[usize::from(t)]))
                .collect();
            sorted.sort_unstable();
            for (place, encoding) in places.into_iter().zip(sorted) {
                encodings[usize::from(place)] = encoding;
            }
            begin = group.end;
        }
    }
}
