//! Handles on registered memory of a type that is not known here.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use loco_fabric::{Local, Memory, NodeId, RemoteMemory, Result, Target, Word, WordCell};

use super::Of;
use crate::foreign::mixed;

/// The object-safe form of [`WordCell`]: words go as `u64`.
trait DynCell: Send + Sync {
    fn load(&self) -> u64;
    fn store(&self, value: u64);
    fn store_fence(&self, value: u64);
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64>;
    fn fetch_add(&self, add: u64) -> u64;
}

impl<W: Word, C: WordCell<W>> DynCell for Of<(C, PhantomData<W>)> {
    fn load(&self) -> u64 {
        self.0.0.load().to_u64()
    }

    fn store(&self, value: u64) {
        self.0.0.store(W::from_u64(value));
    }

    fn store_fence(&self, value: u64) {
        self.0.0.store_fence(W::from_u64(value));
    }

    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        let swapped = self.0.0.compare_exchange(W::from_u64(current), W::from_u64(new));
        swapped.map(W::to_u64).map_err(W::to_u64)
    }

    fn fetch_add(&self, add: u64) -> u64 {
        self.0.0.fetch_add(W::from_u64(add)).to_u64()
    }
}

/// The object-safe form of [`Memory`].
trait DynMemory: Send + Sync {
    fn any(&self) -> &dyn Any;
    fn len(&self) -> usize;
    fn slice(&self, offset: usize, len: usize) -> Result<ErasedMemory>;
    /// Returns the word of `bytes` bytes.
    fn cell(&self, offset: usize, bytes: usize) -> Result<Arc<dyn DynCell>>;
    fn load_word(&self, offset: usize) -> Result<u64>;
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()>;
    fn write(&self, offset: usize, data: &[u8]) -> Result<()>;
}

impl<M: Memory> Of<M> {
    fn typed<W: Word>(&self, offset: usize) -> Result<Arc<dyn DynCell>> {
        Ok(Arc::new(Of((self.0.cell::<W>(offset)?, PhantomData::<W>))))
    }
}

impl<M: Memory> DynMemory for Of<M> {
    fn any(&self) -> &dyn Any {
        &self.0
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<ErasedMemory> {
        self.0.slice(offset, len).map(ErasedMemory::new)
    }

    fn cell(&self, offset: usize, bytes: usize) -> Result<Arc<dyn DynCell>> {
        match bytes {
            1 => self.typed::<u8>(offset),
            2 => self.typed::<u16>(offset),
            4 => self.typed::<u32>(offset),
            _ => self.typed::<u64>(offset),
        }
    }

    fn load_word(&self, offset: usize) -> Result<u64> {
        self.0.load_word(offset)
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.0.read(offset, out)
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.0.write(offset, data)
    }
}

/// Registered memory of this node, of any type.
#[derive(Clone)]
pub struct ErasedMemory(Arc<dyn DynMemory>);

impl ErasedMemory {
    pub(super) fn new<M: Memory>(memory: M) -> ErasedMemory {
        ErasedMemory(Arc::new(Of(memory)))
    }

    /// Returns the memory, if it is of this type: that of the fabric that is asked to use it.
    pub(super) fn get<M: Memory>(&self) -> Result<&M> {
        self.0.any().downcast_ref().ok_or_else(mixed)
    }

    /// Returns none: the memory need not have an address.
    pub(crate) fn address(&self) -> Option<NonNull<u8>> {
        None
    }
}

impl fmt::Debug for ErasedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErasedMemory")
            .field("len", &self.0.len())
            .finish_non_exhaustive()
    }
}

impl Memory for ErasedMemory {
    type Cell<W: Word> = ErasedCell<W>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        self.0.slice(offset, len)
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<ErasedCell<W>> {
        Ok(ErasedCell(self.0.cell(offset, W::BYTES)?, PhantomData))
    }

    fn load_word(&self, offset: usize) -> Result<u64> {
        self.0.load_word(offset)
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.0.read(offset, out)
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.0.write(offset, data)
    }
}

/// An aligned word of registered memory of any type.
#[derive(Clone)]
pub struct ErasedCell<W>(Arc<dyn DynCell>, PhantomData<W>);

impl<W> fmt::Debug for ErasedCell<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErasedCell").finish_non_exhaustive()
    }
}

impl<W: Word> WordCell<W> for ErasedCell<W> {
    fn load(&self) -> W {
        W::from_u64(self.0.load())
    }

    fn store(&self, value: W) {
        self.0.store(value.to_u64());
    }

    fn store_fence(&self, value: W) {
        self.0.store_fence(value.to_u64());
    }

    fn compare_exchange(&self, current: W, new: W) -> Result<W, W> {
        let swapped = self.0.compare_exchange(current.to_u64(), new.to_u64());
        swapped.map(W::from_u64).map_err(W::from_u64)
    }

    fn fetch_add(&self, add: W) -> W {
        W::from_u64(self.0.fetch_add(add.to_u64()))
    }
}

/// The object-safe form of [`RemoteMemory`].
trait DynRemote: Send + Sync {
    fn any(&self) -> &dyn Any;
    fn node(&self) -> NodeId;
    fn len(&self) -> usize;
    fn slice(&self, offset: usize, len: usize) -> Result<ErasedRemote>;
}

impl<R: RemoteMemory> DynRemote for Of<R> {
    fn any(&self) -> &dyn Any {
        &self.0
    }

    fn node(&self) -> NodeId {
        self.0.node()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<ErasedRemote> {
        self.0.slice(offset, len).map(ErasedRemote::new)
    }
}

/// A peer's registered memory, of any type.
#[derive(Clone)]
pub struct ErasedRemote(Arc<dyn DynRemote>);

impl ErasedRemote {
    pub(super) fn new<R: RemoteMemory>(remote: R) -> ErasedRemote {
        ErasedRemote(Arc::new(Of(remote)))
    }

    pub(super) fn get<R: RemoteMemory>(&self) -> Result<&R> {
        self.0.any().downcast_ref().ok_or_else(mixed)
    }
}

impl fmt::Debug for ErasedRemote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErasedRemote")
            .field("node", &self.0.node())
            .field("len", &self.0.len())
            .finish_non_exhaustive()
    }
}

impl RemoteMemory for ErasedRemote {
    fn node(&self) -> NodeId {
        self.0.node()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        self.0.slice(offset, len)
    }
}

/// Returns the local side of an operation, of the type that the fabric knows.
pub(super) fn local<'a, M: Memory>(local: &Local<'a, ErasedMemory>) -> Result<Local<'a, M>> {
    Ok(Local {
        memory: local.memory.get()?,
        offset: local.offset,
        len: local.len,
    })
}

/// Returns the remote side of an operation, of the type that the fabric knows.
pub(super) fn target<'a, R: RemoteMemory>(target: &Target<'a, ErasedRemote>) -> Result<Target<'a, R>> {
    Ok(Target {
        remote: target.remote.get()?,
        offset: target.offset,
    })
}
