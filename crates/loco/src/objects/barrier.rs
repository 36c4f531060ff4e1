//! The barrier (LOCO'26 4 and Fig. 7): nobody leaves before everybody has arrived.

use std::sync::atomic::Ordering;

use loco_fabric::{AtomicCell, Fabric};

use crate::fabric::AnyFabric;
use crate::operations::platform::AtomicU64Of;
use crate::{Channel, Error, Parent, Participants, Result, Sst, Thread, fence};

/// A barrier among threads of any number of nodes.
///
/// It is the transitive one of LOCO'26 4.3: [`wait`](Barrier::wait) first completes the thread's operations towards
/// *all* nodes, participants or not, so that what happened before one barrier is visible after another that follows it.
///
/// ```
/// use loco::{Barrier, Manager, SharedVar, testing};
///
/// // LOCO'26 Fig. 6: each node puts 1 at the other; after the barrier both see it.
/// let seen = testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let flags = [
///         SharedVar::<u64>::new(&manager, "x")?,
///         SharedVar::<u64>::new(&manager, "y")?,
///     ];
///     let barrier = Barrier::new(&manager, "bar")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///
///     let me = usize::from(manager.node().0);
///     flags[me].write(1);
///     flags[me].bcast_all(&thread)?.forget();
///     barrier.wait(&thread)?;
///     Ok(flags[1 - me].read())
/// });
/// assert_eq!(seen, [1, 1]);
/// ```
pub struct Barrier<F: Fabric = AnyFabric> {
    channel: Channel<F>,
    /// Rounds that each node has arrived in.
    sst: Sst<u64, F>,
    /// Threads of this node that take part.
    threads: u64,
    /// Arrivals of this node's threads in all rounds.
    arrived: AtomicU64Of<F>,
}

impl<F: Fabric> Barrier<F> {
    /// A barrier among one thread of each participant of `parent` (all nodes under the manager).
    ///
    /// # Errors
    /// See [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str) -> Result<Self> {
        Barrier::with_participants(parent, name, &parent.participants(), 1)
    }

    /// A barrier among `threads` threads of this node and those that the other participants say for theirs.
    ///
    /// # Errors
    /// `Config` if `threads` is zero; see [`new`](Barrier::new).
    pub fn with_participants(
        parent: &impl Parent<F>,
        name: &str,
        participants: &Participants,
        threads: usize,
    ) -> Result<Self> {
        if threads == 0 {
            return Err(Error::Config(format!(
                "barrier `{name}`: zero threads cannot arrive"
            )));
        }
        let channel = Channel::builder(parent, name)
            .kind("barrier")
            .participants(participants)
            .join()?;
        Ok(Barrier {
            sst: Sst::new(&channel, "sst")?,
            channel,
            threads: threads as u64,
            arrived: AtomicCell::new(0),
        })
    }

    /// Completes this thread's remote operations towards all nodes, arrives, and waits for everybody.
    ///
    /// # Errors
    /// `PeerLost` for a node that has not arrived; `Timeout`; see [`fence::thread`].
    pub fn wait(&self, thread: &Thread<F>) -> Result<()> {
        fence::thread(thread)?;
        self.wait_unfenced(thread)
    }

    /// Arrives and waits for everybody, without completing outstanding operations: what others see of this
    /// thread's earlier puts is only what they would see by their order (the semantics of `MPI_Barrier`).
    ///
    /// # Errors
    /// `PeerLost` for a node that has not arrived; `Timeout`.
    pub fn wait_unfenced(&self, thread: &Thread<F>) -> Result<()> {
        let round = self.arrive(thread)?;
        self.sst.wait_for_each(thread, |count| count >= round)
    }

    /// The endpoint, to wait until this barrier alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Counts this thread in; the node's last one tells the others. Returns the round, from 1.
    fn arrive(&self, thread: &Thread<F>) -> Result<u64> {
        let mine = self.sst.mine()?;
        let round = if self.threads == 1 {
            mine.load() + 1
        } else {
            // AcqRel: the last thread to arrive has seen what the others did before they did. Nobody is counted for
            // the next round before this one is over, as that takes all of them.
            let earlier = self.arrived.fetch_add(1, Ordering::AcqRel);
            let round = earlier / self.threads + 1;
            if !(earlier + 1).is_multiple_of(self.threads) {
                return Ok(round);
            }
            round
        };
        mine.store(round)?;
        // The others only: the NIC writing our own row back could undo a later round (LOCO'26 4.2). Nor is there
        // reason to wait for these puts.
        mine.push_untracked(thread)?;
        Ok(round)
    }
}
