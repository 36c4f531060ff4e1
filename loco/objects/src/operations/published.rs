//! Orders the writes of a place that this node alone writes and other nodes have copies of.
//!
//! Nothing orders two puts, and without an order the earlier value may arrive last, and stay. [`Published`] owns such a place
//! and every put to it. The puts of one thread ask for strong order. For those of two threads there is no such request, so the
//! puts of a thread are placed before another thread posts. Nothing else can post there: a region that
//! was declared [`published`](crate::ChannelBuilder::published) is given out only as a [`Published`], once
//! for each place.
//!
//! While the posting thread stays the same, this costs a comparison. When it changes, the new thread waits
//! until the former one's posts are placed. Where the fabric places puts within the call, there is nothing to
//! wait for.
//!
//! Owned variables (and with them the table and the barrier), the ring buffer's acknowledgements, and the
//! locks' announcements are published in this way. The ring buffer's records, which have no place of their own,
//! go by a [`Poster`] alone. The caller must order the calls on one place: by a
//! lock of its own, by `&mut`, or by a protocol between the threads.

use std::sync::OnceLock;

use loco_fabric::{AtomicCell, Fabric, NodeId};

use crate::Result;
use crate::operations::ack::AckKey;
use crate::operations::fence;
use crate::operations::platform::AtomicU64Of;
use crate::operations::put_op::PutOp;
use crate::operations::region::Region;
use crate::operations::thread::Thread;

/// The thread that posts to places that this node alone writes. Another thread waits for its posts first.
pub(crate) struct Poster<F: Fabric> {
    /// The completion window of the thread that posted last; 0 before the first post.
    window: AtomicU64Of<F>,
}

impl<F: Fabric> Poster<F> {
    /// Makes a poster before its first post.
    pub(crate) fn new() -> Poster<F> {
        Poster {
            window: AtomicCell::new(0),
        }
    }

    /// Makes `thread` the poster. The posts of another thread to `peers` are placed first.
    ///
    /// # Errors
    /// Returns `Timeout`: the former thread stays the poster, and the caller must try again. Returns the
    /// failure of an earlier post, which is reported once. A lost peer is not an error, since nothing is
    /// placed there any more.
    #[inline]
    pub(crate) fn enter<P: AsRef<[NodeId]>>(
        &self,
        thread: &Thread<F>,
        peers: impl FnOnce() -> P,
    ) -> Result<()> {
        // The caller orders its calls, so this is the value that the last call stored.
        if self.window.load() == thread.window().name() {
            return Ok(());
        }
        self.take_over(thread, peers().as_ref())
    }

    #[cold]
    fn take_over(&self, thread: &Thread<F>, peers: &[NodeId]) -> Result<()> {
        let former = self.window.load();
        if former != 0 {
            fence::of_former(thread, former, peers)?;
        }
        self.window.store(thread.window().name());
        Ok(())
    }
}

/// A place in a region that this node writes, with copies at the same place on `peers`.
pub(crate) struct Published<F: Fabric> {
    region: Region<F>,
    offset: usize,
    len: usize,
    /// The nodes with copies.
    peers: Vec<NodeId>,
    /// The put, prepared at the first post, when the peers are connected.
    put: OnceLock<PutOp<F>>,
    /// Whether puts are placed in any order.
    any_order: bool,
    /// Whether nobody waits for the puts soon.
    lazy: bool,
    poster: Poster<F>,
    /// The posts that may still read this node's copy.
    reading: AckKey<F>,
}

impl<F: Fabric> Published<F> {
    /// Makes the place of `len` bytes from `offset` of `region`, with copies on `peers`. This node must not
    /// be among them.
    pub(crate) fn new(region: &Region<F>, offset: usize, len: usize, peers: Vec<NodeId>) -> Published<F> {
        Published {
            region: region.clone(),
            offset,
            len,
            peers,
            put: OnceLock::new(),
            any_order: false,
            lazy: false,
            poster: Poster::new(),
            reading: AckKey::done(),
        }
    }

    /// Lets the puts of one thread be placed in any order, for places of which every change counts and no value.
    pub(crate) fn in_any_order(self) -> Published<F> {
        Published {
            any_order: true,
            ..self
        }
    }

    /// Lets the puts be [lazy](PutOp::lazy).
    pub(crate) fn lazily(self) -> Published<F> {
        Published { lazy: true, ..self }
    }

    /// Makes `thread` the [poster](Poster). This is part of every post; a call by itself puts the wait before
    /// other steps.
    ///
    /// # Errors
    /// Returns the errors of [`Poster::enter`].
    #[inline]
    pub(crate) fn enter(&self, thread: &Thread<F>) -> Result<()> {
        self.poster.enter(thread, || &self.peers)
    }

    /// Sends `data`, which is copied within the call, to every peer, also when one of them is lost.
    ///
    /// # Errors
    /// Returns the errors of [`enter`](Published::enter), after which nothing was posted, and of
    /// [`PutOp::post_inline`].
    #[inline]
    pub(crate) fn post_inline(&self, thread: &Thread<F>, data: &[u8]) -> Result<AckKey<F>> {
        self.enter(thread)?;
        self.put()?.post_inline(thread, data)
    }

    /// Sends `data` without tracking the puts' completion.
    ///
    /// # Errors
    /// Returns the errors of [`post_inline`](Published::post_inline).
    #[inline]
    pub(crate) fn post_inline_untracked(&self, thread: &Thread<F>, data: &[u8]) -> Result<()> {
        self.enter(thread)?;
        self.put()?.post_inline_untracked(thread, data)
    }

    /// Sends this node's copy, which must not be written before
    /// [`wait_until_read`](Published::wait_until_read). The posted operations are added to `key`, even on an
    /// error.
    ///
    /// # Errors
    /// Returns the errors of [`post_inline`](Published::post_inline).
    pub(crate) fn post_copy(&mut self, thread: &Thread<F>, key: &mut AckKey<F>) -> Result<()> {
        self.enter(thread)?;
        let mut posted = AckKey::done();
        let outcome = self.put()?.post_into(thread, &mut posted);
        self.reading.unite(posted.clone());
        key.unite(posted);
        outcome
    }

    /// Sends this node's copy as it is when it is read, which may be later than now. For monotonic
    /// values such as positions, of which a later value supersedes the earlier ones.
    ///
    /// # Errors
    /// Returns the errors of [`post_inline`](Published::post_inline).
    pub(crate) fn post_latest_untracked(&self, thread: &Thread<F>) -> Result<()> {
        self.enter(thread)?;
        self.put()?.post_untracked(thread)
    }

    /// Waits until every [`post_copy`](Published::post_copy) has read this node's copy. A post that failed
    /// reads no more.
    ///
    /// # Errors
    /// Returns `Timeout`: the posts may still read the copy. Call again.
    pub(crate) fn wait_until_read(&mut self, thread: &Thread<F>) -> Result<()> {
        self.reading.wait_until_read(thread)
    }

    #[inline]
    fn put(&self) -> Result<&PutOp<F>> {
        match self.put.get() {
            Some(put) => Ok(put),
            None => self.prepare(),
        }
    }

    #[cold]
    fn prepare(&self) -> Result<&PutOp<F>> {
        let put = PutOp::to_copies(&self.region, self.offset, self.len, &self.peers)?;
        // A later value of the place replaces the earlier ones, and shows that the thread's earlier puts are there.
        let put = if self.any_order { put } else { put.strong() };
        let put = if self.lazy { put.lazy() } else { put };
        Ok(self.put.get_or_init(|| put))
    }
}
