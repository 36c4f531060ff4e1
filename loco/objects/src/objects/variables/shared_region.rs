//! Shared regions: the same amount of raw memory on every participant (LOCO'25 5.1.1).

use loco_fabric::{Fabric, FabricError, Local, Memory, MemoryKind, NodeId, Target};

use crate::fabric::AnyFabric;
use crate::{AckKey, Channel, Error, Parent, Region, Result, Thread};

/// A region of bytes on every participant, which all others may access by operations. It promises nothing
/// about overlapping accesses beyond the fabric contract. Objects add such promises.
///
/// ```
/// use loco::{Barrier, Manager, SharedRegion, testing};
///
/// let read = testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let board = SharedRegion::new(&manager, "board", 64)?;
///     let barrier = Barrier::new(&manager, "bar")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     let other = manager.nodes()[1 - usize::from(manager.node().0)];
///
///     let buffer = thread.mem_ref(5)?;
///     buffer.write(0, b"hello")?;
///     let _buffer = buffer.put(board.target(other, 8)?)?.wait()?;
///     barrier.wait(&thread)?;
///
///     let mut text = [0; 5];
///     board.read(8, &mut text)?;
///     Ok(text)
/// });
/// assert_eq!(read, [*b"hello"; 2]);
/// ```
///
/// # Strength
///
/// Weak on purpose: puts and gets are those of the network. Only those that ask for it ([`Flags`](crate::raw::Flags)) are
/// ordered, and only with others of the same thread to the same node. `loco check region --robust` shows a history that no
/// strong memory has.
pub struct SharedRegion<F: Fabric = AnyFabric> {
    channel: Channel<F>,
    region: Region<F>,
}

impl<F: Fabric> SharedRegion<F> {
    /// Makes this node's endpoint, with `len` zeroed bytes.
    ///
    /// # Errors
    /// Returns the errors of [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, len: usize) -> Result<Self> {
        SharedRegion::with_kind(parent, name, len, MemoryKind::Host)
    }

    /// Makes this node's endpoint in memory of this kind.
    ///
    /// # Errors
    /// Returns [`Unsupported`](crate::fabric::FabricError::Unsupported) where there is no device memory, and the errors
    /// of [`new`](SharedRegion::new).
    pub fn with_kind(parent: &impl Parent<F>, name: &str, len: usize, kind: MemoryKind) -> Result<Self> {
        let builder = Channel::builder(parent, name).kind("shared_region");
        let channel = match kind {
            MemoryKind::Host => builder.region("data", len),
            MemoryKind::Device => builder.device_region("data", len),
        }
        .join()?;
        Ok(SharedRegion {
            region: channel.region("data")?.clone(),
            channel,
        })
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// Returns true if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.region.is_empty()
    }

    /// Returns this node's memory.
    ///
    /// # Errors
    /// Does not fail, because every participant has the region.
    pub fn local(&self) -> Result<&F::Memory> {
        self.region.local()
    }

    /// Returns the place at `offset` on `node`, for operations.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected).
    #[inline]
    pub fn target(&self, node: NodeId, offset: usize) -> Result<Target<'_, F::Remote>> {
        Ok(Target {
            remote: self.region.remote(node)?,
            offset,
        })
    }

    /// Copies from this node's memory.
    ///
    /// # Errors
    /// Returns [`BadPlace`](crate::Error::BadPlace).
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.placed(self.local()?.read(offset, out))
    }

    /// Copies into this node's memory.
    ///
    /// # Errors
    /// Returns [`BadPlace`](crate::Error::BadPlace).
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.placed(self.local()?.write(offset, data))
    }

    /// Returns the word at `offset` of this node's memory.
    ///
    /// # Errors
    /// Returns [`BadPlace`](crate::Error::BadPlace).
    pub fn word(&self, offset: usize) -> Result<<F::Memory as Memory>::Cell<u64>> {
        self.placed(self.local()?.cell(offset))
    }

    /// Returns the outcome of an operation on this region. An error about the place then names the region.
    ///
    /// # Errors
    /// Returns the error of the operation, as [`BadPlace`](crate::Error::BadPlace) if it is about the place.
    pub fn placed<T, E: Into<Error>>(&self, outcome: Result<T, E>) -> Result<T> {
        outcome.map_err(|error| match error.into() {
            Error::Fabric(reason @ (FabricError::OutOfRange { .. } | FabricError::Misaligned { .. })) => {
                Error::BadPlace {
                    region: self.region.name().to_owned(),
                    reason,
                }
            }
            error => error,
        })
    }

    /// Puts `src` at `offset` of `node`'s memory. The caller guarantees that nobody writes `src` until the key is done,
    /// as [`raw`](crate::raw) says.
    ///
    /// # Errors
    /// Returns the errors of [`Raw::put`](crate::raw::Raw::put).
    ///
    /// # After a timeout
    /// Nothing was posted. Put again.
    pub fn raw_put(
        &self,
        thread: &Thread<F>,
        src: Local<'_, F::Memory>,
        node: NodeId,
        offset: usize,
    ) -> Result<AckKey<F>> {
        thread.raw().put(src, self.target(node, offset)?)
    }

    /// Gets `dst.len` bytes from `offset` of `node`'s memory. The caller guarantees that nobody touches `dst` until the
    /// key is done, as [`raw`](crate::raw) says.
    ///
    /// # Errors
    /// Returns the errors of [`Raw::put`](crate::raw::Raw::put).
    ///
    /// # After a timeout
    /// Nothing was posted. Get again.
    pub fn raw_get(
        &self,
        thread: &Thread<F>,
        dst: Local<'_, F::Memory>,
        node: NodeId,
        offset: usize,
    ) -> Result<AckKey<F>> {
        thread.raw().get(dst, self.target(node, offset)?)
    }

    /// Returns the endpoint, to wait until this region alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }
}
