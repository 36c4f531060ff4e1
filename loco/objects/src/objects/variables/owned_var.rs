//! Owned variables: a register that one node writes and the others read (LOCO'25 5.1.1).

use std::sync::Arc;

use loco_fabric::{Fabric, Memory, NodeId, Target, WordCell};

use crate::fabric::AnyFabric;
use crate::objects::variables::value::{AtomicValue, Value};
use crate::operations::exclusive::Exclusive;
use crate::operations::published::Published;
use crate::{AckKey, Channel, Error, Parent, Region, Result, Thread};

/// Bytes of a register that holds one word.
const WORD_BYTES: usize = 8;

/// A single-writer, multi-reader register. The owner's copy is authoritative; the others have cached copies, renewed
/// when the owner *pushes* or when they *pull*.
///
/// ```
/// use loco::{Manager, OwnedVar, testing};
///
/// let seen = testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let owner = manager.nodes()[0];
///     let setpoint = OwnedVar::<f64>::new(&manager, "setpoint", owner)?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     if manager.node() == owner {
///         setpoint.store(0.5)?;
///         setpoint.push(&thread)?.wait(&thread)?;
///     }
///     setpoint.wait_until(&thread, |value| value != 0.0)
/// });
/// assert_eq!(seen, [0.5, 0.5]);
/// ```
///
/// # Strength
///
/// Weak on purpose: a value that was pushed may arrive after the owner has read something else. Two owners that each
/// push and then read the other's variable can both read the old value, which no strong memory shows. A fence after the
/// push ([`fence::thread`](crate::fence::thread)) prevents that. `loco check owned-var --robust` shows both.
pub struct OwnedVar<T: Value, F: Fabric = AnyFabric> {
    /// The channel, which is that of a table if the variable is one of its rows.
    channel: Arc<Channel<F>>,
    region: Region<F>,
    /// The place of the word in the region.
    offset: usize,
    owner: NodeId,
    cell: <F::Memory as Memory>::Cell<u64>,
    /// The owner's part. Other nodes have none, so that their rows of a table are small.
    writer: Option<Box<Writer<F>>>,
    value: std::marker::PhantomData<fn() -> T>,
}

/// The part of a variable that its owner has.
struct Writer<F: Fabric> {
    /// The place that readers have copies of. One thread pushes at a time.
    published: Published<F>,
    pushing: Exclusive<F, ()>,
}

impl<F: Fabric, T: AtomicValue> OwnedVar<T, F> {
    /// Makes this node's endpoint of the variable called `name`, owned by `owner`.
    ///
    /// # Errors
    /// Returns the errors of [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, owner: NodeId) -> Result<Self> {
        let channel = Channel::builder(parent, name)
            .kind(format!("owned_var<{}> of {owner}", T::NAME))
            .published("data", WORD_BYTES)
            .join()?;
        let region = channel.published("data")?.clone();
        OwnedVar::at(&Arc::new(channel), &region, 0, owner)
    }

    /// Makes the variable of `owner` in the word at `offset` of `region`, which `channel` declared as published. No other
    /// variable may be there.
    pub(crate) fn at(
        channel: &Arc<Channel<F>>,
        region: &Region<F>,
        offset: usize,
        owner: NodeId,
    ) -> Result<Self> {
        let writer = || {
            Box::new(Writer {
                published: Published::new(region, offset, WORD_BYTES, channel.peers().to_vec()),
                pushing: Exclusive::new(()),
            })
        };
        Ok(OwnedVar {
            cell: region.local()?.cell(offset)?,
            writer: (channel.node() == owner).then(writer),
            channel: channel.clone(),
            region: region.clone(),
            offset,
            owner,
            value: std::marker::PhantomData,
        })
    }

    /// Returns the owner.
    pub fn owner(&self) -> NodeId {
        self.owner
    }

    /// Sets the owner's copy.
    ///
    /// # Errors
    /// Returns [`NotOwner`](crate::Error::NotOwner) on another node.
    #[inline]
    pub fn store(&self, value: T) -> Result<()> {
        self.writer("set the value")?;
        // Everything that the owner stored before is visible to a thread that reads this value.
        self.cell.store(value.to_word());
        Ok(())
    }

    /// Returns this node's copy. A word is read whole.
    #[inline]
    pub fn load(&self) -> T {
        // This pairs with the owner's release and with the NIC's ordered writes.
        T::from_word(self.cell.load())
    }

    /// Sends the owner's value, as of now, to every other participant, also when one of them is lost. A participant
    /// that sees the value sees every put that this thread posted to it before. Participants see values in the order
    /// in which they were stored, whichever threads push them. The call therefore waits while another thread pushes,
    /// and, if another thread pushed last, until those pushes are placed.
    ///
    /// # Errors
    /// Returns [`NotOwner`](crate::Error::NotOwner), [`NotConnected`](crate::Error::NotConnected),
    /// [`PeerLost`](crate::ErrorKind::PeerLost) if a peer is gone (after the value was sent to the others),
    /// [`Timeout`](crate::ErrorKind::Timeout), and the errors of [`Thread::put_inline`].
    ///
    /// # After a timeout
    /// The value may have been sent to some of the others. Push again: nobody sees a value after a later one.
    #[inline]
    pub fn push(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
        let writer = self.writer("push the value")?;
        let _pushing = writer.pushing.enter(thread, self.channel.name())?;
        let word = self.load().to_word().to_ne_bytes();
        writer.published.post_inline(thread, &word)
    }

    /// Pushes the value without a key, for values that a later push replaces.
    ///
    /// # Errors
    /// Returns the errors of [`push`](OwnedVar::push).
    ///
    /// # After a timeout
    /// See [`push`](OwnedVar::push).
    #[inline]
    pub fn push_untracked(&self, thread: &Thread<F>) -> Result<()> {
        let writer = self.writer("push the value")?;
        let _pushing = writer.pushing.enter(thread, self.channel.name())?;
        let word = self.load().to_word().to_ne_bytes();
        writer.published.post_inline_untracked(thread, &word)
    }

    /// Does [`store`](OwnedVar::store) and [`push_untracked`](OwnedVar::push_untracked). No caller may push
    /// before the call of another has ended.
    ///
    /// # Errors
    /// Returns the errors of [`push`](OwnedVar::push).
    #[inline]
    pub(crate) fn publish(&self, thread: &Thread<F>, value: T) -> Result<()> {
        self.store(value)?;
        let writer = self.writer("push the value")?;
        let word = value.to_word().to_ne_bytes();
        writer.published.post_inline_untracked(thread, &word)
    }

    /// Returns the owner's present value. This node's copy stays as it is: it follows the owner's pushes, and a
    /// fetched value could overwrite a later one.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected), [`PeerLost`](crate::ErrorKind::PeerLost) if the owner is
    /// gone, [`Timeout`](crate::ErrorKind::Timeout), and the errors of [`Thread::read_word`].
    ///
    /// # After a timeout
    /// Nothing has changed. Pull again.
    pub fn pull(&self, thread: &Thread<F>) -> Result<T> {
        let _call = thread.call(self.channel.name(), "pull");
        if self.writer.is_some() {
            return Ok(self.load());
        }
        let target = Target {
            remote: self.region.remote(self.owner)?,
            offset: self.offset,
        };
        thread.read_word(target).map(T::from_word)
    }

    /// Waits until this node's copy satisfies `condition`. Returns the value that did.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if the owner is gone, or
    /// [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// Nothing has changed. Wait again.
    pub fn wait_until(&self, thread: &Thread<F>, mut condition: impl FnMut(T) -> bool) -> Result<T> {
        let _call = thread.call(self.channel.name(), "wait_until");
        thread.wait_until(self.channel.name(), loco_fabric::Peers::One(self.owner), || {
            Some(self.load()).filter(|&value| condition(value))
        })
    }

    /// Returns the endpoint, to wait until this variable alone is ready. That of a table's row is the table's.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Returns the owner's part. Only the owner may do `what`.
    #[inline]
    fn writer(&self, what: &'static str) -> Result<&Writer<F>> {
        match &self.writer {
            Some(writer) => Ok(writer),
            None => Err(self.not_owner(what)),
        }
    }

    #[cold]
    fn not_owner(&self, what: &'static str) -> Error {
        Error::NotOwner {
            what,
            channel: self.channel.name().to_owned(),
            owner: self.owner,
            node: self.channel.node(),
        }
    }
}
