//! Shared variables, the library `sv` of LOCO'26 3.4: a word replicated on all participants.

use loco_fabric::{Fabric, Local, Memory, NodeId, Target, WordCell};

use crate::fabric::AnyFabric;
use crate::objects::variables::value::AtomicValue;
use crate::operations::operation::{Flags, Operation};
use crate::{AckKey, Channel, Parent, Region, Result, Thread};

const WORD_BYTES: usize = 8;

/// A word with a copy on every participant. [`write`](SharedVar::write) and [`read`](SharedVar::read) access
/// this node's copy (Write_sv, Read_sv). [`broadcast_to`](SharedVar::broadcast_to) overwrites the copies of chosen nodes
/// (Bcast_sv). Wait_sv is [`AckKey::wait`]. The global fence GF_sv is
/// [`fence::towards`](crate::fence::towards).
///
/// Any node may write and broadcast. Concurrent broadcasts of different threads overwrite one another in no particular
/// order.
///
/// ```
/// use loco::{Barrier, Manager, SharedVar, fence, testing};
///
/// // Store buffering with a global fence, LOCO'26 Fig. 5: (0, 0) is impossible.
/// let seen = testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let x = SharedVar::<u32>::new(&manager, "x")?;
///     let y = SharedVar::<u32>::new(&manager, "y")?;
///     let end = Barrier::new(&manager, "end")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     let (me, other) = (manager.node(), manager.nodes()[1 - usize::from(manager.node().0)]);
///     let (mine, theirs) = if me.0 == 0 { (&x, &y) } else { (&y, &x) };
///     mine.write(1);
///     mine.broadcast_to(&thread, &[other])?.forget();
///     fence::towards(&thread, &[other])?;
///     let read = theirs.read();
///     end.wait(&thread)?; // nobody leaves while others still put to it
///     Ok(read)
/// });
/// assert_ne!(seen, [0, 0]);
/// ```
///
/// # Strength
///
/// Weak on purpose: a broadcast takes effect later, so two nodes that each write and broadcast one variable and then read
/// another can both read the old value. A fence after the broadcast ([`fence::thread`](crate::fence::thread)) prevents
/// that. `loco check shared-var --robust` shows both.
pub struct SharedVar<T: AtomicValue, F: Fabric = AnyFabric> {
    channel: Channel<F>,
    region: Region<F>,
    cell: <F::Memory as Memory>::Cell<u64>,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<F: Fabric, T: AtomicValue> SharedVar<T, F> {
    /// Makes this node's endpoint of the variable called `name`. Its copy is zero.
    ///
    /// # Errors
    /// Returns the errors of [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str) -> Result<Self> {
        let channel = Channel::builder(parent, name)
            .kind(format!("sv<{}>", T::NAME))
            .region("data", WORD_BYTES)
            .join()?;
        let region = channel.region("data")?.clone();
        Ok(SharedVar {
            cell: region.local()?.cell(0)?,
            region,
            channel,
            value: std::marker::PhantomData,
        })
    }

    /// Sets this node's copy (a CPU write, stamp aCW).
    #[inline]
    pub fn write(&self, value: T) {
        // Release: TSO keeps stores in order.
        self.cell.store(value.to_word());
    }

    /// Returns this node's copy (a CPU read, stamp aCR).
    #[inline]
    pub fn read(&self) -> T {
        // Acquire: TSO keeps loads in order.
        T::from_word(self.cell.load())
    }

    /// Overwrites the copies of `nodes` with this node's copy as the NIC finds it. That may be a later value
    /// than now, and a different one for each node (LOCO'26 Fig. 9c). Broadcasts of one thread to one node arrive in
    /// order, also those of different variables, and after the thread's earlier puts to that node. The key is done when
    /// the NIC has read the copy for all nodes. If `nodes` has this node, the NIC writes the copy over itself: leave it
    /// out unless that is wanted.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected), [`PeerLost`](crate::ErrorKind::PeerLost) if one of the
    /// nodes is gone, and the errors of [`Thread::put_inline`]. After an error the copy may have been sent to the
    /// nodes that `nodes` lists before the one that failed, and to no others.
    ///
    /// # After a timeout
    /// The copy may have been sent to some of the nodes. Broadcast again.
    pub fn broadcast_to(&self, thread: &Thread<F>, nodes: &[NodeId]) -> Result<AckKey<F>> {
        let memory = self.region.local()?;
        let mut key = AckKey::done();
        for &node in nodes {
            let local = Local {
                memory,
                offset: 0,
                len: WORD_BYTES,
            };
            let remote = self.region.remote(node)?;
            let put = Operation::Put(local, Target { remote, offset: 0 });
            // Strong: broadcasts of one thread to one node keep their order, those of other variables and other puts included
            // (LOCO'26 Fig. 10, G7).
            thread.post_into(&put, Flags::STRONG, &mut key)?;
        }
        Ok(key)
    }

    /// Overwrites the copies of every other participant with this node's copy, like [`broadcast_to`](SharedVar::broadcast_to).
    ///
    /// # Errors
    /// Returns the errors of [`broadcast_to`](SharedVar::broadcast_to).
    ///
    /// # After a timeout
    /// See [`broadcast_to`](SharedVar::broadcast_to).
    pub fn broadcast(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
        self.broadcast_to(thread, self.channel.peers())
    }

    /// Waits until this node's copy satisfies `condition`. Returns the value that did.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if a participant is gone, or
    /// [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// Nothing has changed. Wait again.
    pub fn wait_until(&self, thread: &Thread<F>, mut condition: impl FnMut(T) -> bool) -> Result<T> {
        let _call = thread.call(self.channel.name(), "wait_until");
        self.channel
            .wait_until(thread, || Some(self.read()).filter(|&value| condition(value)))
    }

    /// Returns the endpoint, to wait until this variable alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }
}
