//! Memoised puts (LOCO'26 C.1.1): a source and its targets, which are checked once and posted any number of
//! times. Also, several puts to one node that are posted one after the other.

use loco_fabric::{Fabric, Local, Memory, NodeId, RemoteMemory, Target};

use crate::fabric::AnyFabric;
use crate::operations::ack::AckKey;
use crate::operations::operation::{Flags, Operation};
use crate::operations::region::Region;
use crate::operations::thread::Thread;
use crate::{Error, Result};

/// A put of one piece of local memory to the same place on any number of nodes.
pub struct PutOp<F: Fabric = AnyFabric> {
    src: F::Memory,
    len: usize,
    targets: Box<[F::Remote]>,
    flags: Flags,
}

impl<F: Fabric> PutOp<F> {
    /// Prepares a put of `src` to each of `targets`.
    ///
    /// # Errors
    /// Returns [`TooLarge`](crate::Error::TooLarge) if a target is shorter than the source.
    pub fn new(src: F::Memory, targets: impl IntoIterator<Item = F::Remote>) -> Result<PutOp<F>> {
        let len = src.len();
        let targets: Box<[F::Remote]> = targets.into_iter().collect();
        match targets.iter().find(|target| target.len() < len) {
            Some(target) => Err(Error::TooLarge {
                what: format!("a put to {}", target.node()),
                len,
                max: target.len(),
            }),
            None => Ok(PutOp {
                src,
                len,
                targets,
                flags: Flags::default(),
            }),
        }
    }

    /// Lets every post ask for strong order: at each target it is placed after this thread's earlier puts to that node, those of
    /// this operation among them. Otherwise nothing orders two posts.
    #[must_use]
    pub fn strong(self) -> PutOp<F> {
        let flags = Flags {
            strong: true,
            ..self.flags
        };
        PutOp { flags, ..self }
    }

    /// Lets every post be kept until this node sends something else, for values that nobody waits for soon ([`Flags::lazy`]).
    #[must_use]
    pub fn lazy(self) -> PutOp<F> {
        let flags = Flags {
            lazy: true,
            ..self.flags
        };
        PutOp { flags, ..self }
    }

    /// Prepares a broadcast of `len` bytes at `offset` of this node's part of `region` to the same place on
    /// `nodes`, except on this node.
    ///
    /// # Errors
    /// Returns [`OutOfRange`](crate::fabric::FabricError::OutOfRange), or [`NotConnected`](crate::Error::NotConnected)
    /// for one of the nodes.
    pub fn broadcast(
        region: &Region<F>,
        offset: usize,
        len: usize,
        here: NodeId,
        nodes: &[NodeId],
    ) -> Result<PutOp<F>> {
        let others: Vec<NodeId> = nodes.iter().copied().filter(|&node| node != here).collect();
        PutOp::to_copies(region, offset, len, &others)
    }

    /// Prepares a put of a part of `region` to the same place on each of `nodes`.
    pub(crate) fn to_copies(
        region: &Region<F>,
        offset: usize,
        len: usize,
        nodes: &[NodeId],
    ) -> Result<PutOp<F>> {
        let targets = nodes.iter();
        let targets = targets.map(|&node| Ok(region.remote(node)?.slice(offset, len)?));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        PutOp::new(region.local()?.slice(offset, len)?, targets)
    }

    /// Posts the put to every target. The memory may be read until the key is done, and may have changed by
    /// then. Targets may therefore receive different values (LOCO'26 Fig. 9c).
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`]. The puts to the other targets have still been posted.
    ///
    /// # After a timeout
    /// The puts to some of the targets were posted, and it is unknown to which. Post again if a later put to
    /// the same place replaces an earlier one.
    #[inline]
    pub fn post(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
        let mut key = AckKey::done();
        self.post_into(thread, &mut key)?;
        Ok(key)
    }

    /// Posts the put to every target, and adds the posted operations to `key`, even on an error.
    pub(crate) fn post_into(&self, thread: &Thread<F>, key: &mut AckKey<F>) -> Result<()> {
        self.each(|target| thread.post_into(&self.put(target), self.flags, key))
    }

    /// Posts the put to every target without tracking its completion.
    pub(crate) fn post_untracked(&self, thread: &Thread<F>) -> Result<()> {
        self.each(|target| thread.post_untracked(&self.put(target), self.flags))
    }

    /// Posts a put of `data`, which is copied within the call, to every target.
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`].
    ///
    /// # After a timeout
    /// See [`post`](PutOp::post).
    #[inline]
    pub fn post_inline(&self, thread: &Thread<F>, data: &[u8]) -> Result<AckKey<F>> {
        let mut key = AckKey::done();
        self.each(|target| thread.post_into(&inline(data, target), self.flags, &mut key))?;
        Ok(key)
    }

    /// Posts a put of `data` to every target without tracking the puts' completion.
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`].
    ///
    /// # After a timeout
    /// See [`post`](PutOp::post).
    #[inline]
    pub fn post_inline_untracked(&self, thread: &Thread<F>, data: &[u8]) -> Result<()> {
        self.each(|target| thread.post_untracked(&inline(data, target), self.flags))
    }

    /// Posts to every target, even when one of them is lost, and then returns the first error.
    #[inline]
    fn each(&self, mut post: impl FnMut(&F::Remote) -> Result<()>) -> Result<()> {
        // Results are looked at, never copied. A copy would read them back wider than they were written, and
        // would wait until the puts before have left the store buffer, which is a cache miss for each.
        let mut failed = None;
        for target in &self.targets {
            if let Err(error) = post(target)
                && failed.is_none()
            {
                failed = Some(error);
            }
        }
        match failed {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn put<'a>(&'a self, remote: &'a F::Remote) -> Operation<'a, F> {
        let local = Local {
            memory: &self.src,
            offset: 0,
            len: self.len,
        };
        Operation::Put(local, Target { remote, offset: 0 })
    }
}

fn inline<'a, F: Fabric>(data: &'a [u8], remote: &'a F::Remote) -> Operation<'a, F> {
    Operation::PutInline(data, Target { remote, offset: 0 })
}

impl<F: Fabric> Thread<F> {
    /// Does what [`put_each_untracked`](Thread::put_each_untracked) does, one post after the other.
    #[inline(never)]
    pub(crate) fn post_each_untracked(
        &self,
        pieces: &[(usize, &[u8])],
        remote: &F::Remote,
        last: Flags,
    ) -> Result<()> {
        let more = Flags {
            more: true,
            ..Flags::default()
        };
        let mut left = pieces.iter().filter(|(_, data)| !data.is_empty()).peekable();
        while let Some(&(offset, data)) = left.next() {
            let flags = left.peek().map_or(last, |_| more);
            self.post_untracked(&Operation::PutInline(data, Target { remote, offset }), flags)?;
        }
        Ok(())
    }
}
