//! An array of atomic variables, striped over its participants. It suits tables of accounts or counters
//! (LOCO'26 B.1, LOCO'25 7.1).

use loco_fabric::{Atomicity, Fabric, FabricError, NodeId, RemoteMemory, Target};

use crate::channels::channel::region_bytes;
use crate::fabric::AnyFabric;
use crate::objects::variables::value::AtomicValue;
use crate::{Channel, Error, Parent, Region, Result, Thread};

const WORD_BYTES: usize = 8;

/// Words with one home each and read-modify-writes from everywhere. Word `i` is on participant `i` modulo
/// their number.
///
/// Unlike an [`AtomicVar`](crate::AtomicVar), a word has no cached copy and no channel. Millions of words are possible.
/// Each word by itself is linearizable. The array orders neither operations on different words nor any other
/// operations. Every access uses a queue pair, even to this node's words, so it is atomic on every fabric that has
/// atomics.
///
/// ```
/// use loco::{AtomicArray, Barrier, Manager, testing};
///
/// testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let counters = AtomicArray::<u64>::new(&manager, "counters", 10)?;
///     let end = Barrier::new(&manager, "end")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     for i in 0..counters.len() {
///         counters.fetch_add(&thread, i, i as u64)?;
///     }
///     end.wait(&thread)?;
///     assert_eq!(counters.read(&thread, 7)?, 14);
///     end.wait(&thread) // homes stay until all have read
/// });
/// ```
pub struct AtomicArray<T: AtomicValue, F: Fabric = AnyFabric> {
    channel: Channel<F>,
    region: Region<F>,
    nodes: Vec<NodeId>,
    len: usize,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<F: Fabric, T: AtomicValue> AtomicArray<T, F> {
    /// Makes this node's endpoint of the array called `name`, of `len` words that start as zero.
    ///
    /// # Errors
    /// Returns [`Unsupported`](crate::fabric::FabricError::Unsupported) where the fabric has no atomics,
    /// [`TooLarge`](crate::Error::TooLarge) for more words than there are addresses,
    /// [`OutOfMemory`](crate::fabric::FabricError::OutOfMemory), and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, len: usize) -> Result<Self> {
        if parent.manager().fabric().caps().atomicity == Atomicity::None {
            let what = format!("`{name}` needs remote atomics");
            return Err(FabricError::Unsupported(what).into());
        }
        let nodes = parent.participants().nodes().to_vec();
        let bytes = region_bytes(name, len.div_ceil(nodes.len().max(1)).max(1), WORD_BYTES)?;
        let channel = Channel::builder(parent, name)
            .kind(format!("atomic_array<{}> of {len}", T::NAME))
            .region("data", bytes)
            .join()?;
        Ok(AtomicArray {
            region: channel.region("data")?.clone(),
            channel,
            nodes,
            len,
            value: std::marker::PhantomData,
        })
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no words.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the node that has word `index`.
    pub fn home(&self, index: usize) -> NodeId {
        self.nodes[index % self.nodes.len()]
    }

    /// Returns the value of a word.
    ///
    /// # Errors
    /// Returns [`OutOfRange`](crate::fabric::FabricError::OutOfRange), [`PeerLost`](crate::ErrorKind::PeerLost) if the
    /// home is gone, [`NotConnected`](crate::Error::NotConnected), and the errors of [`Thread::read_word`].
    ///
    /// # After a timeout
    /// Nothing has changed. Read again.
    #[inline]
    pub fn read(&self, thread: &Thread<F>, index: usize) -> Result<T> {
        let word = self.target(index)?;
        // Where a NIC carries out read-modify-writes, a get could miss the write of a completed one.
        match thread.network().atomics_placed() {
            true => thread.read_word(word),
            false => thread.fetch_add_word(word, 0),
        }
        .map(T::from_word)
    }

    /// Sets a value to `new` if it is `expected`, bit for bit. Returns the old value either way.
    ///
    /// # Errors
    /// Returns the errors of [`read`](AtomicArray::read) and of [`Thread::compare_swap_word`].
    ///
    /// # After a timeout
    /// It is unknown whether the value was set. If it was not, it may still be set at any later time, once, if it is
    /// `expected` then.
    #[inline]
    pub fn compare_swap(&self, thread: &Thread<F>, index: usize, expected: T, new: T) -> Result<T> {
        let (expected, new) = (expected.to_word(), new.to_word());
        let old = thread.compare_swap_word(self.target(index)?, expected, new)?;
        Ok(T::from_word(old))
    }

    /// Hints that a word will be changed soon.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        if let Ok(target) = self.target(index) {
            target.remote.prefetch_write(target.offset);
        }
    }

    /// Returns the endpoint, to wait until this array alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    fn target(&self, index: usize) -> Result<Target<'_, F::Remote>> {
        if index >= self.len {
            return Err(Error::from(FabricError::OutOfRange {
                offset: index.saturating_mul(WORD_BYTES),
                len: WORD_BYTES,
                region_len: self.len.saturating_mul(WORD_BYTES),
            }));
        }
        Ok(Target {
            remote: self.region.remote(self.home(index))?,
            offset: index / self.nodes.len() * WORD_BYTES,
        })
    }
}

macro_rules! fetch_add {
    ($($t:ty),*) => {$(
        impl<F: Fabric> AtomicArray<$t, F> {
            /// Adds, with wrap-around. Returns the old value.
            ///
            /// # Errors
            /// Returns the errors of [`read`](AtomicArray::read). After an error it is unknown whether the operation
            /// took effect.
            ///
            /// # After a timeout
            /// The addition may take effect at any later time, once. Adding again may add twice.
            #[inline]
            pub fn fetch_add(&self, thread: &Thread<F>, index: usize, add: $t) -> Result<$t> {
                let old = thread.fetch_add_word(self.target(index)?, add.to_word())?;
                Ok(<$t>::from_word(old))
            }
        }
    )*};
}
fetch_add!(u64, i64);
