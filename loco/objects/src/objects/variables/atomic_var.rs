//! The atomic variable (LOCO'25 5.1.1): a word with one home, read-modify-writes from everywhere.

use loco_fabric::{Fabric, Local, Memory, NodeId, Target, WordCell};

use crate::fabric::AnyFabric;
use crate::objects::variables::value::AtomicValue;
use crate::operations::words::Words;
use crate::{AckKey, Channel, Parent, Region, Result, Thread};

const WORD_BYTES: usize = 8;

/// A multi-writer, multi-reader word. The *home* node has the one official copy; every other participant has a cached
/// one. All operations but [`cached`](AtomicVar::cached) act on the official copy and are linearizable
/// together: each takes effect once, at one moment between its call and its return.
///
/// After a [`Timeout`](crate::ErrorKind::Timeout) it is unknown whether an operation took effect.
///
/// The operations of the variable order nothing else: earlier puts of this thread are placed before them only after a
/// [fence](crate::fence).
///
/// The home node's own operations use its NIC like everybody else's wherever the fabric does not promise that
/// remote read-modify-writes are atomic against its CPU ([`Atomicity::Glob`](loco_fabric::Atomicity)). Where
/// it does, they are CPU instructions. There a read is a CPU instruction, too, or a get. Elsewhere a read is
/// a read-modify-write that changes nothing: the write of a completed read-modify-write may still be on its
/// way from the NIC to memory, where a get would miss it.
///
/// ```
/// use loco::{AtomicVar, Barrier, Manager, testing};
///
/// let totals = testing::run(3, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let hits = AtomicVar::<u64>::new(&manager, "hits", manager.nodes()[0])?;
///     let end = Barrier::new(&manager, "end")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     for _ in 0..10 {
///         hits.fetch_add(&thread, 1)?;
///     }
///     end.wait(&thread)?;
///     let total = hits.read(&thread)?;
///     end.wait(&thread)?; // the home stays until all have read
///     Ok(total)
/// });
/// assert_eq!(totals, [30, 30, 30]);
/// ```
///
/// # Strength
///
/// Robust: clients see what a strong memory would show them, except by [`AtomicVar::cached`], which reads a copy.
/// `loco check atomic --robust` explores store buffering on two variables.
pub struct AtomicVar<T: AtomicValue, F: Fabric = AnyFabric> {
    channel: Channel<F>,
    region: Region<F>,
    words: Words<F>,
    /// The official copy on the home node, the cached one elsewhere.
    here: <F::Memory as Memory>::Cell<u64>,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<F: Fabric, T: AtomicValue> AtomicVar<T, F> {
    /// Makes this node's endpoint of the variable called `name`. It is on `home` and starts as zero.
    ///
    /// # Errors
    /// Returns [`Unsupported`](crate::fabric::FabricError::Unsupported) where the fabric has no atomics,
    /// [`NotParticipant`](crate::Error::NotParticipant) for a home outside, and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, home: NodeId) -> Result<Self> {
        let participants = parent.participants();
        participants.require(name, home)?;
        let channel = Channel::builder(parent, name)
            .kind(format!("atomic_var<{}> on {home}", T::NAME))
            .region("data", WORD_BYTES)
            .join()?;
        let region = channel.region("data")?.clone();
        Ok(AtomicVar {
            words: Words::new(parent.manager().fabric(), &region, home)?,
            here: region.local()?.cell(0)?,
            region,
            channel,
            value: std::marker::PhantomData,
        })
    }

    /// Returns the node that has the official copy.
    pub fn home(&self) -> NodeId {
        self.words.home()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if the home is gone,
    /// [`NotConnected`](crate::Error::NotConnected), and the errors of [`Thread::read_word`].
    ///
    /// # After a timeout
    /// Nothing has changed. Read again.
    #[inline]
    pub fn read(&self, thread: &Thread<F>) -> Result<T> {
        self.words.read(thread, 0).map(|word| self.remember(word))
    }

    /// Sets the value. This is a compare-and-swap, which may take several rounds where others write too:
    /// another node's read-modify-write could undo a put.
    ///
    /// # Errors
    /// Returns the errors of [`fetch_add`](AtomicVar::fetch_add).
    ///
    /// # After a timeout
    /// See [`swap`](AtomicVar::swap).
    #[inline]
    pub fn write(&self, thread: &Thread<F>, value: T) -> Result<()> {
        self.swap(thread, value).map(drop)
    }

    /// Sets the value and returns the old one. It may take several rounds, like [`write`](AtomicVar::write).
    ///
    /// # Errors
    /// Returns the errors of [`fetch_add`](AtomicVar::fetch_add).
    ///
    /// # After a timeout
    /// It is unknown whether the value was set. The set may take effect at any later time, once. If your value
    /// differs from all that others write, a read shows whether it has been set so far.
    #[inline]
    pub fn swap(&self, thread: &Thread<F>, value: T) -> Result<T> {
        let old = self
            .words
            .swap(thread, 0, self.cached().to_word(), value.to_word())?;
        self.remember(value.to_word());
        Ok(T::from_word(old))
    }

    /// Sets the value to `new` if it is `expected`, bit for bit. Returns the old value either way.
    ///
    /// # Errors
    /// Returns the errors of [`fetch_add`](AtomicVar::fetch_add).
    ///
    /// # After a timeout
    /// It is unknown whether the value was set. If it was not, it may still be set at any later time, once, if it is
    /// `expected` then.
    #[inline]
    pub fn compare_swap(&self, thread: &Thread<F>, expected: T, new: T) -> Result<T> {
        let (expected, new) = (expected.to_word(), new.to_word());
        let old = self.words.compare_swap(thread, 0, expected, new)?;
        self.remember(if old == expected { new } else { old });
        Ok(T::from_word(old))
    }

    /// Returns this node's copy, without using the network. On the home node this is the value as far as it
    /// is placed. Elsewhere it is a value that it had when a thread of this node last heard of it. It never
    /// fails and orders nothing.
    #[inline]
    pub fn cached(&self) -> T {
        T::from_word(self.here.load())
    }

    /// Fetches the value into this node's copy, which has it when the key is done. A get fetches it, which may miss the
    /// latest operations. A pull is therefore cheaper than a [`read`](AtomicVar::read), and not ordered with the
    /// operations on the variable. On the home node there is nothing to fetch.
    ///
    /// # Errors
    /// Returns the errors of [`read`](AtomicVar::read).
    ///
    /// # After a timeout
    /// Nothing was posted. Pull again.
    pub fn pull(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
        if self.channel.node() == self.home() {
            return Ok(AckKey::done());
        }
        let local = Local {
            memory: self.region.local()?,
            offset: 0,
            len: WORD_BYTES,
        };
        let remote = self.region.remote(self.home())?;
        // This is one aligned word, so a thread that reads the copy meanwhile has the value before or after.
        thread.raw().get(local, Target { remote, offset: 0 })
    }

    /// Returns the endpoint, to wait until this variable alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Stores the value that the variable had as the cached copy.
    #[inline]
    fn remember(&self, word: u64) -> T {
        if self.channel.node() != self.home() {
            // Threads overwrite one another in any order: each stored a value that the variable had.
            self.here.store(word);
        }
        T::from_word(word)
    }
}

macro_rules! fetch_add {
    ($($t:ty),*) => {$(
        impl<F: Fabric> AtomicVar<$t, F> {
            /// Adds, with wrap-around. Returns the old value.
            ///
            /// # Errors
            /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if the home is gone (it is then unknown whether the
            /// operation took effect), [`NotConnected`](crate::Error::NotConnected), and the errors of
            /// [`Thread::fetch_add_word`].
            ///
            /// # After a timeout
            /// It is unknown whether the addition took effect. It may take effect at any later time, once. Adding
            /// again may add twice.
            #[inline]
            pub fn fetch_add(&self, thread: &Thread<F>, add: $t) -> Result<$t> {
                let old = self.words.fetch_add(thread, 0, add.to_word())?;
                self.remember(old.wrapping_add(add.to_word()));
                Ok(<$t>::from_word(old))
            }
        }
    )*};
}
fetch_add!(u64, i64);
