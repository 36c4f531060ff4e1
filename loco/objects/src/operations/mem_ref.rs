//! Temporary registered memory (LOCO'26 C.4): blocks from a thread's pool, used as sources and results of operations.
//!
//! A [`MemRef`] is moved into the operation that uses it, and comes back when the operation has completed.
//! Nothing can read or write it meanwhile: a local data race (Robust'25 Def. 7) on it does not compile.

use loco_fabric::{Fabric, Local, Memory, Target, Time, WordOp};

use crate::fabric::AnyFabric;
use crate::operations::ack::AckKey;
use crate::operations::operation::{Flags, Operation};
use crate::operations::thread::Thread;
use crate::{Error, Result};

/// A piece of registered memory that belongs to its holder alone. When dropped, it goes back to the thread's
/// pool.
///
/// While an operation uses it, it cannot be touched:
///
/// ```compile_fail
/// # use loco::{MemRef, Thread, fabric::{Fabric, Target}};
/// fn race<F: Fabric>(buffer: MemRef<'_, F>, target: Target<'_, F::Remote>) -> loco::Result<()> {
///     let pending = buffer.put(target)?;
///     buffer.write(0, &[1, 2, 3])?; // moved into the operation: does not compile
///     pending.wait()?;
///     Ok(())
/// }
/// ```
///
/// ```
/// # use loco::{MemRef, Thread, fabric::{Fabric, Target}};
/// fn no_race<F: Fabric>(buffer: MemRef<'_, F>, target: Target<'_, F::Remote>) -> loco::Result<()> {
///     let buffer = buffer.put(target)?.wait()?;
///     buffer.write(0, &[1, 2, 3])?; // given back by `wait`
///     Ok(())
/// }
/// ```
pub struct MemRef<'t, F: Fabric = AnyFabric> {
    thread: &'t Thread<F>,
    /// The memory; `None` once it is dropped or kept aside.
    memory: Option<F::Memory>,
    len: usize,
    origin: Origin,
}

/// Where the memory of a [`MemRef`] goes when it is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// It goes back to the pool's free blocks.
    Block,
    /// It is the pool's block for operations on words.
    Word,
    /// It is freed.
    Own,
}

impl<F: Fabric> Thread<F> {
    /// Returns `len` bytes of temporary registered memory, 64-byte aligned, with unspecified content. They
    /// come from the pool up to [`Config::block_bytes`](crate::Config::block_bytes), and are allocated
    /// otherwise.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`](crate::fabric::FabricError::OutOfMemory).
    pub fn mem_ref(&self, len: usize) -> Result<MemRef<'_, F>> {
        let block_bytes = self.network().block_bytes();
        let (mut pool, fabric) = (self.pool().borrow_mut(), self.fabric());
        let (memory, origin) = if len <= block_bytes {
            (pool.block(fabric, block_bytes)?, Origin::Block)
        } else {
            (pool.large(fabric, len)?, Origin::Own)
        };
        Ok(MemRef {
            thread: self,
            memory: Some(memory),
            len,
            origin,
        })
    }

    /// Returns memory for the result of an operation on a word that this thread waits for. If the thread has
    /// [prepared](Thread::prepare), there is some.
    ///
    /// # Errors
    /// Returns `OutOfMemory`.
    pub(crate) fn word_ref(&self) -> Result<MemRef<'_, F>> {
        let mut pool = self.pool().borrow_mut();
        let memory = pool.word_block(self.fabric(), self.network().block_bytes())?;
        Ok(MemRef {
            thread: self,
            memory: Some(memory),
            len: size_of::<u64>(),
            origin: Origin::Word,
        })
    }
}

impl<'t, F: Fabric> MemRef<'t, F> {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies out from `offset`.
    ///
    /// # Errors
    /// Returns [`OutOfRange`](crate::fabric::FabricError::OutOfRange).
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        Ok(self.memory()?.read(offset, out)?)
    }

    /// Copies in at `offset`.
    ///
    /// # Errors
    /// Returns [`OutOfRange`](crate::fabric::FabricError::OutOfRange).
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        Ok(self.memory()?.write(offset, data)?)
    }

    /// Returns the 8-byte word at `offset`.
    ///
    /// # Errors
    /// Returns [`OutOfRange`](crate::fabric::FabricError::OutOfRange).
    #[inline]
    pub fn word(&self, offset: usize) -> Result<u64> {
        let mut word = [0; 8];
        self.memory()?.read(offset, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Sets the 8-byte word at `offset`.
    ///
    /// # Errors
    /// Returns [`OutOfRange`](crate::fabric::FabricError::OutOfRange).
    #[inline]
    pub fn set_word(&self, offset: usize, value: u64) -> Result<()> {
        Ok(self.memory()?.write(offset, &value.to_ne_bytes())?)
    }

    /// Puts the whole buffer at `dst`.
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`]. The buffer is dropped.
    ///
    /// # After a timeout
    /// Nothing was posted, and the buffer is dropped. This holds for every method that posts the buffer.
    pub fn put(self, dst: Target<'_, F::Remote>) -> Result<Pending<'t, F>> {
        self.put_with(dst, Flags::default())
    }

    /// Puts the whole buffer at `dst`, with requests: [`Flags::STRONG`](crate::raw::Flags::STRONG) places it after this thread's
    /// earlier puts to that node.
    ///
    /// # Errors
    /// Returns the errors of [`put`](MemRef::put).
    pub fn put_with(self, dst: Target<'_, F::Remote>, flags: Flags) -> Result<Pending<'t, F>> {
        let operation = Operation::Put(self.local(0, self.len)?, dst);
        let key = self.thread.post(&operation, flags)?;
        Ok(Pending::new(key, self))
    }

    /// Fills the whole buffer from `src`.
    ///
    /// # Errors
    /// Returns the errors of [`put`](MemRef::put).
    pub fn get(self, src: Target<'_, F::Remote>) -> Result<Pending<'t, F>> {
        self.get_with(src, Flags::default())
    }

    /// Fills the whole buffer from `src`, with requests: [`Flags::STRONG`](crate::raw::Flags::STRONG) reads after this thread's
    /// earlier puts to that node are placed.
    ///
    /// # Errors
    /// Returns the errors of [`put`](MemRef::put).
    pub fn get_with(self, src: Target<'_, F::Remote>, flags: Flags) -> Result<Pending<'t, F>> {
        let operation = Operation::Get(self.local(0, self.len)?, src);
        let key = self.thread.post(&operation, flags)?;
        Ok(Pending::new(key, self))
    }

    /// Adds to the peer's word. Its old value will be this buffer's [word](MemRef::word) at 0.
    ///
    /// # Errors
    /// Returns the errors of [`put`](MemRef::put), and [`Unsupported`](crate::fabric::FabricError::Unsupported) where
    /// the fabric has no atomics.
    pub fn fetch_add(self, word: Target<'_, F::Remote>, add: u64) -> Result<Pending<'t, F>> {
        self.word_op(word, WordOp::FetchAdd(add), Flags::default())
    }

    /// Stores `new` in the peer's word if it holds `expected`. Its old value will be this buffer's
    /// [word](MemRef::word) at 0.
    ///
    /// # Errors
    /// Returns the errors of [`fetch_add`](MemRef::fetch_add).
    pub fn compare_swap(
        self,
        word: Target<'_, F::Remote>,
        expected: u64,
        new: u64,
    ) -> Result<Pending<'t, F>> {
        self.word_op(word, WordOp::CompareSwap { expected, new }, Flags::default())
    }

    /// Begins an operation on the peer's word, with requests. Its old value will be this buffer's [word](MemRef::word) at 0.
    pub(crate) fn word_op(
        self,
        word: Target<'_, F::Remote>,
        op: WordOp,
        flags: Flags,
    ) -> Result<Pending<'t, F>> {
        let operation = Operation::on_word(word, op, self.local(0, 8)?);
        let key = self.thread.post(&operation, flags)?;
        Ok(Pending::new(key, self))
    }

    /// Returns a part as the local side of an operation.
    pub(crate) fn local(&self, offset: usize, len: usize) -> Result<Local<'_, F::Memory>> {
        let memory = self.memory()?;
        Ok(Local { memory, offset, len })
    }

    #[inline]
    fn memory(&self) -> Result<&F::Memory> {
        // Not reached: only drop and `Pending`'s drop take the memory.
        self.memory.as_ref().ok_or(Error::Closed)
    }
}

impl<F: Fabric> Drop for MemRef<'_, F> {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        match self.origin {
            Origin::Block => self.thread.pool().borrow_mut().give_back(memory),
            Origin::Word => self.thread.pool().borrow_mut().give_word_back(memory),
            Origin::Own => {}
        }
    }
}

/// A buffer in use by an operation. [`wait`](Pending::wait) returns it. If this is dropped before that, the buffer is
/// kept aside until the operation has ended. After that the memory returns to the pool when the thread next executes a
/// fence, takes or abandons another buffer, or is dropped.
#[must_use = "the operation is under way: wait to get the buffer back"]
pub struct Pending<'t, F: Fabric = AnyFabric> {
    key: AckKey<F>,
    /// The buffer; `None` once it was given back.
    buffer: Option<MemRef<'t, F>>,
}

impl<'t, F: Fabric> Pending<'t, F> {
    pub(crate) fn new(key: AckKey<F>, buffer: MemRef<'t, F>) -> Pending<'t, F> {
        Pending {
            key,
            buffer: Some(buffer),
        }
    }

    /// Returns true when the operation has ended; see [`AckKey::query`].
    pub fn query(&self) -> bool {
        self.key.query()
    }

    /// Returns the operation as a key, to be united with others. The buffer stays here.
    pub fn key(&self) -> AckKey<F> {
        self.key.clone()
    }

    /// Waits for the operation and returns the buffer.
    ///
    /// # Errors
    /// Returns the errors of [`AckKey::wait`]. The buffer is then kept aside until the operation has ended.
    ///
    /// # After a timeout
    /// The operation is still under way: its effect at the peer may come later. The buffer goes back to the
    /// pool when the operation has ended.
    pub fn wait(self) -> Result<MemRef<'t, F>> {
        self.wait_until(None)
    }

    /// Waits as [`wait`](Pending::wait) does until `deadline`, or until the thread's deadline if it is `None`.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Pending::wait).
    pub fn wait_until(mut self, deadline: Option<Time>) -> Result<MemRef<'t, F>> {
        match self.buffer.take() {
            Some(buffer) => {
                let waited = match deadline {
                    None => self.key.wait(buffer.thread),
                    some => self.key.wait_until(buffer.thread, some),
                };
                match waited {
                    Ok(()) => Ok(buffer),
                    Err(error) => {
                        self.buffer = Some(buffer);
                        Err(error)
                    }
                }
            }
            // `wait` takes `self`, and only `wait` and `drop` take the buffer.
            None => Err(Error::Closed),
        }
    }
}

impl<F: Fabric> Drop for Pending<'_, F> {
    fn drop(&mut self) {
        let Some(mut buffer) = self.buffer.take() else {
            return;
        };
        if !self.key.query()
            && let Some(memory) = buffer.memory.take()
        {
            let key = std::mem::take(&mut self.key);
            let mut pool = buffer.thread.pool().borrow_mut();
            pool.keep_until_done(key, memory, buffer.origin != Origin::Own);
        }
    }
}
