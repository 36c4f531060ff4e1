//! Owned variables of more than a word. A checksum tells readers whether a value is whole (LOCO'25 5.1.1).

use std::time::Duration;

use loco_fabric::{Fabric, FabricError, Memory, NodeId, Peers, Seen, Target, Wait};

use crate::fabric::AnyFabric;
use crate::objects::variables::sealed::{Buffer, Seal};
use crate::operations::exclusive::Exclusive;
use crate::operations::published::Published;
use crate::{AckKey, Channel, Error, Parent, Region, Result, Thread, Value};

/// The number of pulls at full speed before there are pauses between them.
const PULLS_UNPAUSED: u32 = 64;
/// The time between two pulls of a value that stays torn.
const PAUSE: Duration = Duration::from_micros(20);

/// A single-writer, multi-reader register for values of any size, the sibling of
/// [`OwnedVar`](crate::OwnedVar). Readers never see a mixture of two values. They retry while the value is
/// not whole, for their deadline at most. A writer that is stuck half-way is therefore an error and not a
/// hang.
///
/// ```
/// use loco::{Manager, WideOwnedVar, testing};
/// use loco::zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
/// #[zerocopy(crate = "loco::zerocopy")]
/// #[repr(C)]
/// struct Reading {
///     volts: f64,
///     amperes: f64,
///     sample: u64,
/// }
///
/// let seen = testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let sensor = manager.nodes()[0];
///     let reading = WideOwnedVar::<Reading>::new(&manager, "reading", sensor)?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     if manager.node() == sensor {
///         reading.store(&thread, Reading { volts: 4.8, amperes: 0.1, sample: 1 })?;
///         reading.push(&thread)?.wait(&thread)?;
///     }
///     reading.wait_until(&thread, |reading| reading.sample == 1)
/// });
/// assert_eq!(seen[0], seen[1]);
/// ```
///
/// # Strength
///
/// Weak on purpose, as [`OwnedVar`](crate::OwnedVar) is: two owners that each push and then read the other's variable
/// can both read the old value, which no strong memory shows. A fence after the push
/// ([`fence::thread`](crate::fence::thread)) prevents that. `loco check wide-owned-var --robust` shows both.
/// [`try_load`](WideOwnedVar::try_load) may also find a push in progress and then returns `None`.
pub struct WideOwnedVar<T: Value, F: Fabric = AnyFabric> {
    channel: Channel<F>,
    owner: NodeId,
    seal: Seal,
    region: Region<F>,
    memory: F::Memory,
    writer: Exclusive<F, Writer<F>>,
    value: std::marker::PhantomData<fn() -> T>,
}

/// The owner's part.
struct Writer<F: Fabric> {
    /// The content of the memory.
    sealed: Buffer,
    published: Published<F>,
}

impl<F: Fabric, T: Value> WideOwnedVar<T, F> {
    /// Makes this node's endpoint of the variable called `name`, owned by `owner`. Its value is all zeros until the
    /// first store.
    ///
    /// # Errors
    /// Returns the errors of [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, owner: NodeId) -> Result<Self> {
        let seal = Seal::new(size_of::<T>());
        let channel = Channel::builder(parent, name)
            .kind(format!("wide_owned_var<{} bytes> of {owner}", size_of::<T>()))
            .published("data", seal.sealed_len())
            .join()?;
        let region = channel.published("data")?.clone();
        let memory = region.local()?.clone();
        Ok(WideOwnedVar {
            writer: Exclusive::new(Writer {
                sealed: seal.load(&memory)?,
                published: Published::new(&region, 0, seal.sealed_len(), channel.peers().to_vec()),
            }),
            channel,
            owner,
            seal,
            region,
            memory,
            value: std::marker::PhantomData,
        })
    }

    /// Returns the owner.
    pub fn owner(&self) -> NodeId {
        self.owner
    }

    /// Sets the owner's copy, once earlier pushes have read it. Stores and pushes of several threads happen
    /// one after the other.
    ///
    /// # Errors
    /// Returns [`NotOwner`](crate::Error::NotOwner) on another node, or [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// The value is still the former one. Store again.
    pub fn store(&self, thread: &Thread<F>, value: T) -> Result<()> {
        self.check_owner("set the value")?;
        let mut writer = self.writer.enter(thread, self.channel.name())?;
        // A push that is under way would send a mixture.
        writer.published.wait_until_read(thread)?;
        let sealed = self.seal.seal(value.as_bytes());
        self.memory.write(0, &sealed)?;
        writer.sealed = sealed;
        Ok(())
    }

    /// Sends the owner's value, as of now, to every other participant, also when one of them is lost. A participant
    /// that sees the value sees every put that this thread posted to it before. Participants see values in the order
    /// in which they were stored, whichever threads push them.
    ///
    /// # Errors
    /// Returns [`NotOwner`](crate::Error::NotOwner), [`NotConnected`](crate::Error::NotConnected),
    /// [`PeerLost`](crate::ErrorKind::PeerLost) if a peer is gone (after the value was sent to the others),
    /// [`Timeout`](crate::ErrorKind::Timeout), and the errors of [`Thread::put_inline`].
    ///
    /// # After a timeout
    /// The value may have been sent to some of the others. Push again: nobody sees a value after a later one.
    pub fn push(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
        self.check_owner("push the value")?;
        let mut writer = self.writer.enter(thread, self.channel.name())?;
        debug_assert_eq!(
            writer.sealed.len(),
            self.seal.sealed_len(),
            "all words of the value"
        );
        if writer.sealed.len() <= thread.fabric().caps().inline_bytes_max {
            return writer.published.post_inline(thread, &writer.sealed);
        }
        let mut key = AckKey::done();
        writer.published.post_copy(thread, &mut key)?;
        Ok(key)
    }

    /// Returns this node's copy, unless it is being written right now.
    pub fn try_load(&self) -> Option<T> {
        let sealed = self.seal.load(&self.memory).ok()?;
        self.open(&sealed)
    }

    /// Returns this node's copy. Waits while it is being written, for the thread's deadline at most.
    ///
    /// # Errors
    /// Returns [`Torn`](crate::Error::Torn) if the writer is stuck half-way, and
    /// [`PeerLost`](crate::ErrorKind::PeerLost) if it is gone.
    ///
    /// # After a timeout
    /// (The error is [`Torn`](crate::Error::Torn) here.) Nothing has changed. Load again.
    pub fn load(&self, thread: &Thread<F>) -> Result<T> {
        let _call = thread.call(self.channel.name(), "load");
        let loaded = thread.wait_until(self.channel.name(), Peers::One(self.owner), || self.try_load());
        loaded.map_err(|error| if error.is_timeout() { self.torn() } else { error })
    }

    /// Returns the owner's present value, unless it was being written. This node's copy stays as it is.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected), [`PeerLost`](crate::ErrorKind::PeerLost), and the errors
    /// of [`Thread::read_word`].
    ///
    /// # After a timeout
    /// Nothing has changed. Pull again.
    pub fn try_pull(&self, thread: &Thread<F>) -> Result<Option<T>> {
        if self.channel.node() == self.owner {
            return Ok(self.try_load());
        }
        Ok(self.open(&self.fetch(thread)?))
    }

    /// Repeats [`try_pull`](WideOwnedVar::try_pull) until it succeeds, for the thread's deadline at most.
    ///
    /// # Errors
    /// Returns [`Torn`](crate::Error::Torn) if the writer is stuck half-way, and the errors of
    /// [`try_pull`](WideOwnedVar::try_pull).
    ///
    /// # After a timeout
    /// (The error is [`Torn`](crate::Error::Torn) or [`Timeout`](crate::ErrorKind::Timeout) here.) Nothing has changed.
    /// Pull again.
    pub fn pull(&self, thread: &Thread<F>) -> Result<T> {
        let _call = thread.call(self.channel.name(), "pull");
        if self.channel.node() == self.owner {
            return self.load(thread);
        }
        let deadline = thread.deadline();
        for tries in 1_u32.. {
            let sealed = self.fetch(thread)?;
            if let Some(value) = self.open(&sealed) {
                return Ok(value);
            }
            let wait = Wait {
                what: self.channel.name(),
                peers: Peers::One(self.owner),
                deadline: Some(deadline),
            };
            let pause = if tries < PULLS_UNPAUSED {
                Duration::ZERO
            } else {
                PAUSE
            };
            let seen = Seen {
                at: self.owners()?,
                bytes: &sealed,
            };
            match thread.fabric().pause(wait, pause, &seen) {
                Ok(()) if thread.now() < deadline => {}
                Ok(()) | Err(FabricError::Timeout { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.torn())
    }

    /// Returns a copy of the owner's memory, whole or not.
    fn fetch(&self, thread: &Thread<F>) -> Result<Buffer> {
        let buffer = thread.mem_ref(self.seal.sealed_len())?;
        let buffer = buffer.get(self.owners()?)?.wait()?;
        let mut sealed: Buffer = smallvec::SmallVec::from_elem(0, self.seal.sealed_len());
        buffer.read(0, &mut sealed)?;
        Ok(sealed)
    }

    fn owners(&self) -> Result<Target<'_, F::Remote>> {
        let remote = self.region.remote(self.owner)?;
        Ok(Target { remote, offset: 0 })
    }

    /// Waits until this node's copy satisfies `condition`. Returns the value that did.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if the owner is gone, or
    /// [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// Nothing has changed. Wait again.
    pub fn wait_until(&self, thread: &Thread<F>, mut condition: impl FnMut(&T) -> bool) -> Result<T> {
        let _call = thread.call(self.channel.name(), "wait_until");
        thread.wait_until(self.channel.name(), Peers::One(self.owner), || {
            self.try_load().filter(|value| condition(value))
        })
    }

    fn open(&self, sealed: &[u8]) -> Option<T> {
        // Every value of the right length is a valid `T`.
        T::read_from_bytes(self.seal.open(sealed)?).ok()
    }

    fn torn(&self) -> Error {
        Error::Torn {
            channel: self.channel.name().to_owned(),
        }
    }

    fn check_owner(&self, what: &'static str) -> Result<()> {
        self.channel.check_owner(self.owner, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Barrier, Manager, testing};

    /// If a writer stopped half-way, every way of reading says so in bounded time. The next store repairs the
    /// value.
    #[test]
    fn a_stuck_writer_is_an_error_in_bounded_time() {
        testing::run(2, |fabric| {
            let manager = Manager::new(fabric)?;
            let owner = manager.nodes()[0];
            let value = WideOwnedVar::<[u64; 3]>::new(&manager, "value", owner)?;
            let barrier = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == owner {
                value.store(&thread, [1, 2, 3])?;
                value.memory.write(8, &7_u64.to_ne_bytes())?;
            }
            barrier.wait(&thread)?;
            let torn = Error::Torn {
                channel: "value".to_owned(),
            };
            thread.set_deadline(Some(thread.now().after(Duration::from_millis(30))));
            assert_eq!(value.pull(&thread), Err(torn.clone()));
            if manager.node() == owner {
                assert_eq!(value.try_load(), None);
                thread.set_deadline(Some(thread.now().after(Duration::from_millis(30))));
                assert_eq!(value.load(&thread), Err(torn));
            } else {
                assert_eq!(value.try_load(), Some([0; 3]), "nothing was pushed");
            }
            thread.set_deadline(None);
            barrier.wait(&thread)?;
            if manager.node() == owner {
                value.store(&thread, [4, 5, 6])?;
            }
            barrier.wait(&thread)?;
            assert_eq!(value.pull(&thread)?, [4, 5, 6]);
            barrier.wait(&thread)
        });
    }
}
