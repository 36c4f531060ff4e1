//! Owned variables: a register that one node writes and the others read (LOCO'25 5.1.1).

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use loco_fabric::{Fabric, Local, Memory, NodeId, Target, WordCell};

use crate::fabric::AnyFabric;
use crate::objects::variables::value::{AtomicValue, Value};
use crate::{AckKey, Channel, Parent, PutOp, Result, Thread};

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
pub struct OwnedVar<T: Value, F: Fabric = AnyFabric> {
    channel: Channel<F>,
    owner: NodeId,
    /// It is this node.
    is_owner: bool,
    cell: <F::Memory as Memory>::Cell<u64>,
    /// Prepared at the first push, when the peers are connected.
    push: OnceLock<PutOp<F>>,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<F: Fabric, T: AtomicValue> OwnedVar<T, F> {
    /// Makes this node's endpoint of the variable called `name`, owned by `owner`.
    ///
    /// # Errors
    /// See [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, owner: NodeId) -> Result<Self> {
        let channel = Channel::builder(parent, name)
            .kind(format!("owned_var<{}> of {owner}", T::NAME))
            .region("data", WORD_BYTES)
            .join()?;
        Ok(OwnedVar {
            cell: channel.region("data")?.local()?.cell(0)?,
            is_owner: channel.node() == owner,
            owner,
            channel,
            push: OnceLock::new(),
            value: std::marker::PhantomData,
        })
    }

    /// The writer.
    pub fn owner(&self) -> NodeId {
        self.owner
    }

    /// Sets the owner's copy.
    ///
    /// # Errors
    /// `NotOwner` on another node.
    #[inline]
    pub fn store(&self, value: T) -> Result<()> {
        self.check_owner("set the value")?;
        // Release: what the owner stored before is visible to who reads this.
        self.cell.store(value.to_word(), Ordering::Release);
        Ok(())
    }

    /// This node's copy. A word is read whole.
    #[inline]
    pub fn load(&self) -> T {
        // Acquire: pairs with the owner's release and with the NIC's ordered writes.
        T::from_word(self.cell.load(Ordering::Acquire))
    }

    /// Sends the owner's value, as of now, to every other participant. When they see it they see every put that this
    /// thread posted to them before.
    ///
    /// # Errors
    /// `NotOwner`; `NotConnected`; see [`Thread::put`].
    #[inline]
    pub fn push(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
        let word = self.load().to_word().to_ne_bytes();
        self.push_op()?.post_inline(thread, &word)
    }

    /// The same without a key, for pushes that a later one replaces.
    ///
    /// # Errors
    /// See [`push`](OwnedVar::push).
    #[inline]
    pub fn push_untracked(&self, thread: &Thread<F>) -> Result<()> {
        let word = self.load().to_word().to_ne_bytes();
        self.push_op()?.post_inline_untracked(thread, &word)
    }

    /// Fetches the owner's value into this node's copy; it is there when the key is done.
    ///
    /// # Errors
    /// `NotConnected`; see [`Thread::get`].
    pub fn pull(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
        if self.channel.node() == self.owner {
            return Ok(AckKey::done());
        }
        let region = self.channel.region("data")?;
        let local = Local {
            memory: region.local()?,
            offset: 0,
            len: WORD_BYTES,
        };
        let target = Target {
            remote: region.remote(self.owner)?,
            offset: 0,
        };
        thread.get(local, target)
    }

    /// Waits until this node's copy satisfies `condition`; returns the value that did.
    ///
    /// # Errors
    /// `PeerLost` if the owner is gone; `Timeout`.
    pub fn wait_until(&self, thread: &Thread<F>, mut condition: impl FnMut(T) -> bool) -> Result<T> {
        thread.wait_until(self.channel.name(), loco_fabric::Peers::One(self.owner), || {
            Some(self.load()).filter(|&value| condition(value))
        })
    }

    /// The endpoint, to wait until this variable alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    #[inline]
    fn push_op(&self) -> Result<&PutOp<F>> {
        match self.push.get() {
            Some(op) => Ok(op),
            None => self.prepare_push(),
        }
    }

    #[cold]
    fn prepare_push(&self) -> Result<&PutOp<F>> {
        self.check_owner("push the value")?;
        let region = self.channel.region("data")?;
        let op = PutOp::broadcast(region, 0, WORD_BYTES, self.owner, self.channel.peers())?;
        Ok(self.push.get_or_init(|| op))
    }

    #[inline]
    fn check_owner(&self, what: &'static str) -> Result<()> {
        if self.is_owner {
            return Ok(());
        }
        self.channel.check_owner(self.owner, what)
    }
}
