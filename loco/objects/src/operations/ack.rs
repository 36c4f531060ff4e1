//! Ack keys: sets of posted operations that can be united, queried, waited on and awaited (LOCO'26 C.1.2).
//!
//! A key has positions in the completion windows of the threads that posted, and looks there. It owns no
//! state that a poller must find and clear, so uniting and querying take no lock and need no registration.
//! (In LOCO'26 the poller clears bits inside the keys. Looking instead keeps keys `Clone` and posting free of
//! shared writes.)

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use loco_fabric::{Completion, Fabric, NodeId};
use smallvec::SmallVec;

use crate::fabric::AnyFabric;
use crate::operations::completion::{Sleep, Window};
use crate::operations::peers::tell_launcher;
use crate::operations::slots::Status;
use crate::{Error, Result};

/// A set of posted operations. It is empty if everything completed within the call, as on a synchronous
/// fabric.
///
/// If a key is done, the result of each `get` and atomic is in local memory, and the source of each `put` has
/// been read. Nothing more is promised (RDMA^WAIT's `Wait`, LOCO'26 2.1): placement at the peer needs a
/// [fence](crate::fence).
#[must_use = "operations are under way: wait on the key, or drop it on purpose with `forget`"]
pub struct AckKey<F: Fabric = AnyFabric> {
    /// The groups, one per window and block of sequence numbers, so that each operation has one place. Two
    /// are inline: a batch of up to 64 operations needs no more.
    groups: SmallVec<[Group<F>; 2]>,
    peers: SmallVec<[NodeId; 8]>,
}

/// Operations of one thread. Each bit `i` of `mask` stands for sequence number `base + i`; `base` is a
/// multiple of 64.
struct Group<F: Fabric> {
    window: Arc<Window<F>>,
    base: u64,
    mask: u64,
}

impl<F: Fabric> AckKey<F> {
    /// Returns the empty set, which is done.
    pub fn done() -> AckKey<F> {
        AckKey {
            groups: SmallVec::new(),
            peers: SmallVec::new(),
        }
    }

    /// Returns true when every operation has ended, successfully or not. It uses earlier polls, and polls
    /// nothing itself.
    pub fn query(&self) -> bool {
        self.groups.iter().all(|group| {
            group
                .sequence_numbers()
                .all(|seq| group.window.slots().status(seq) != Status::Pending)
        })
    }

    /// Returns `None` while an operation is under way. After that, returns `Ok`, or the first failure among the
    /// operations.
    pub fn outcome(&self) -> Option<Result<()>> {
        let mut outcome = Ok(());
        for group in &self.groups {
            for seq in group.sequence_numbers() {
                match group.window.slots().status(seq) {
                    Status::Pending => return None,
                    Status::Done => {}
                    Status::Failed => {
                        if outcome.is_ok() {
                            outcome = Err(group.window.slots().failure(seq).into());
                        }
                    }
                }
            }
        }
        Some(outcome)
    }

    /// Returns the first operation of `window` that has failed.
    pub(crate) fn first_failed(&self, window: &Arc<Window<F>>) -> Option<u64> {
        let mut groups = self
            .groups
            .iter()
            .filter(|group| Arc::ptr_eq(&group.window, window));
        groups.find_map(|group| {
            let failed = |&seq: &u64| group.window.slots().status(seq) == Status::Failed;
            group.sequence_numbers().find(failed)
        })
    }

    /// Returns the last posted of the operations under way. Operations towards one peer end in the order in which
    /// they were posted, so that the others have mostly ended when it does.
    fn last_pending(&self) -> Option<(&Arc<Window<F>>, u64)> {
        self.groups.iter().rev().find_map(|group| {
            let pending = |&seq: &u64| group.window.slots().status(seq) == Status::Pending;
            let last = group.sequence_numbers().filter(pending).last();
            last.map(|seq| (&group.window, seq))
        })
    }

    /// Adds the operations of `other`.
    pub fn unite(&mut self, other: AckKey<F>) {
        for group in other.groups {
            self.add(group);
        }
        for peer in other.peers {
            self.add_peer(peer);
        }
    }

    /// Returns the union of two sets.
    pub fn union(mut self, other: AckKey<F>) -> AckKey<F> {
        self.unite(other);
        self
    }

    /// Returns the number of operations in the set, ended ones included.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|g| g.mask.count_ones() as usize).sum()
    }

    /// Returns true if the set has no operations.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the peers that the operations go to, each once.
    pub fn peers(&self) -> &[NodeId] {
        &self.peers
    }

    /// Gives up tracking: the operations go on, and nobody learns how they end. The memory that they use must stay
    /// valid.
    pub fn forget(self) {}

    /// Adds one operation.
    pub(crate) fn insert(&mut self, window: &Arc<Window<F>>, seq: u64, peer: NodeId) {
        self.add_peer(peer);
        let base = seq & !63;
        let bit = 1 << (seq & 63);
        match self.groups.last_mut() {
            // Usually this is one more operation of a batch.
            Some(last) if last.base == base && Arc::ptr_eq(&last.window, window) => last.mask |= bit,
            _ => self.add(Group {
                window: window.clone(),
                base,
                mask: bit,
            }),
        }
    }

    fn add(&mut self, group: Group<F>) {
        let same = self
            .groups
            .iter_mut()
            .find(|mine| mine.base == group.base && Arc::ptr_eq(&mine.window, &group.window));
        match same {
            Some(mine) => mine.mask |= group.mask,
            None => self.groups.push(group),
        }
    }

    fn add_peer(&mut self, peer: NodeId) {
        if !self.peers.contains(&peer) {
            self.peers.push(peer);
        }
    }
}

impl<F: Fabric> Group<F> {
    fn sequence_numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let mut left = self.mask;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bit = left.trailing_zeros();
                left &= left - 1;
                self.base + u64::from(bit)
            })
        })
    }
}

impl<F: Fabric> Clone for AckKey<F> {
    fn clone(&self) -> Self {
        AckKey {
            groups: self
                .groups
                .iter()
                .map(|g| Group {
                    window: g.window.clone(),
                    ..*g
                })
                .collect(),
            peers: self.peers.clone(),
        }
    }
}

impl<F: Fabric> Default for AckKey<F> {
    fn default() -> Self {
        AckKey::done()
    }
}

impl<F: Fabric> std::fmt::Debug for AckKey<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AckKey")
            .field("operations", &self.len())
            .field("peers", &self.peers)
            .field("done", &self.query())
            .finish()
    }
}

impl<F: Fabric> IntoFuture for AckKey<F> {
    type Output = Result<()>;
    type IntoFuture = AckFuture<F>;

    fn into_future(self) -> AckFuture<F> {
        AckFuture {
            key: self,
            scratch: Vec::new(),
            sleep: None,
        }
    }
}

/// Resolves when every operation of an [`AckKey`] has ended, with the result that [`AckKey::wait`] would return, on
/// any executor. It has no deadline. Operations towards a lost peer fail, which ends it. A program that wants to give up
/// earlier drops it; the operations then go on.
///
/// The future is woken only when the operation that it waits for has ended, by the thread that polls the completion.
/// It is polled once for each operation of the key at most, and usually once for all. Where waiters poll for
/// themselves ([`Polling::CallerDriven`](crate::Polling::CallerDriven)), the first future that has to wait starts a
/// polling thread of the node. That thread polls while futures wait. Otherwise it sleeps by the node's doorbell, or,
/// where there is none, looks for futures with pauses that grow to 2 ms.
///
/// # Errors
/// Returns the errors of [`AckKey::wait`], and [`Closed`](crate::Error::Closed) when the node has gone down.
pub struct AckFuture<F: Fabric = AnyFabric> {
    key: AckKey<F>,
    scratch: Vec<Completion>,
    sleep: Option<Sleep<F>>,
}

impl<F: Fabric> AckFuture<F> {
    /// Arranges that `context` is woken when there is something new. Returns the outcome if it is known.
    fn look_or_sleep(&mut self, context: &Context<'_>) -> Result<Option<Result<()>>> {
        let Some((window, _)) = self.key.last_pending() else {
            return Ok(self.key.outcome());
        };
        let completions = window.completions().ok_or(Error::Closed)?;
        if !completions.polls_by_thread() {
            completions.poll(&mut self.scratch)?;
        }
        let Some((window, seq)) = self.key.last_pending() else {
            return Ok(self.key.outcome());
        };
        completions.start_poller()?;
        let sleep = match self.sleep.take() {
            Some(sleep) if sleep.is_for(window, seq) => sleep,
            _ => Sleep::new(completions, window.clone(), seq),
        };
        self.sleep.insert(sleep).renew(context.waker());
        Ok(self.key.outcome())
    }
}

impl<F: Fabric> Future for AckFuture<F> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            match self.look_or_sleep(context) {
                Err(error) | Ok(Some(Err(error))) => {
                    let completions = self
                        .key
                        .groups
                        .first()
                        .and_then(|group| group.window.completions());
                    break Poll::Ready(Err(match completions {
                        Some(completions) => tell_launcher(completions.fabric(), error),
                        None => error,
                    }));
                }
                Ok(Some(Ok(()))) => break Poll::Ready(Ok(())),
                Ok(None) => {}
            }
            // The operation that it sleeps for may have ended before the waker was left, and others not yet.
            let slept_for = self.sleep.as_ref();
            let still = self.key.last_pending();
            if still.is_some_and(|(window, seq)| slept_for.is_some_and(|sleep| sleep.is_for(window, seq))) {
                break Poll::Pending;
            }
        }
    }
}
