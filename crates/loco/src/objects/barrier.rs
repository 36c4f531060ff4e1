//! The barrier (LOCO'26 4 and Fig. 7): nobody leaves before everybody has arrived.

use loco_fabric::{AtomicCell, Fabric, Lock};

use crate::fabric::AnyFabric;
use crate::operations::platform::{AtomicU64Of, MutexOf};
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
    /// Calls that failed after they had arrived, by their thread.
    unfinished: MutexOf<F, Vec<(u64, Arrival)>>,
    /// How many those are.
    unfinished_count: AtomicU64Of<F>,
}

/// A call that has been counted.
#[derive(Clone, Copy)]
struct Arrival {
    /// From 1.
    round: u64,
    /// It was the node's last one, which tells the others.
    tells: bool,
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
        Barrier::of_kind(parent, name, participants, threads, "barrier".to_owned())
    }

    /// Makes this node's endpoint of a barrier among `threads` threads of each participant of `parent`.
    ///
    /// # Errors
    /// `Config` if `threads` is zero; see [`new`](Barrier::new). Where nodes give different numbers, waiting until the
    /// barrier is ready fails with `Mismatch` on each of them.
    pub fn with_threads(parent: &impl Parent<F>, name: &str, threads: usize) -> Result<Self> {
        let kind = format!("barrier of {threads} threads a node");
        Barrier::of_kind(parent, name, &parent.participants(), threads, kind)
    }

    fn of_kind(
        parent: &impl Parent<F>,
        name: &str,
        participants: &Participants,
        threads: usize,
        kind: String,
    ) -> Result<Self> {
        if threads == 0 {
            return Err(Error::Config(format!(
                "barrier `{name}`: zero threads cannot arrive"
            )));
        }
        let channel = Channel::builder(parent, name)
            .kind(kind)
            .participants(participants)
            .join()?;
        Ok(Barrier {
            sst: Sst::new(&channel, "sst")?,
            channel,
            threads: threads as u64,
            arrived: AtomicCell::new(0),
            unfinished: Lock::new(Vec::new()),
            unfinished_count: AtomicCell::new(0),
        })
    }

    /// Completes this thread's remote operations towards all nodes, arrives, and waits for everybody. A barrier for one
    /// thread of a node may be waited for by another one each time, one call after the other.
    ///
    /// # Errors
    /// `PeerLost` for a node that has not arrived; `Timeout`; see [`fence::thread`].
    ///
    /// # After a timeout
    /// The thread may have arrived already, and counts as arrived once. Its next call, of this method or of
    /// [`wait_unfenced`](Barrier::wait_unfenced), goes on with the same round, and makes nobody pass before all have
    /// arrived. (Where the barrier is for one thread of this node, so does the next call of any thread.) Whoever gives up
    /// for good instead leaves a barrier that is of no more use to anybody.
    ///
    /// After `PeerLost` the same holds, but the round cannot be completed: every further call fails. The others may have
    /// passed, if the lost node had arrived as far as they saw. Those left make another barrier among themselves.
    pub fn wait(&self, thread: &Thread<F>) -> Result<()> {
        fence::thread(thread)?;
        self.wait_unfenced(thread)
    }

    /// Arrives and waits for everybody, without completing outstanding operations: what others see of this
    /// thread's earlier puts is only what they would see by their order (the semantics of `MPI_Barrier`).
    ///
    /// # Errors
    /// `PeerLost` for a node that has not arrived; `Timeout`.
    ///
    /// # After a timeout
    /// As after [`wait`](Barrier::wait).
    pub fn wait_unfenced(&self, thread: &Thread<F>) -> Result<()> {
        let arrival = match self.unfinished(thread) {
            Some(arrival) => arrival,
            None => self.arrive()?,
        };
        let met = self.meet(thread, arrival);
        if met.is_err() {
            self.unfinished.lock().push((self.caller(thread), arrival));
            self.unfinished_count.fetch_add(1);
        }
        met
    }

    /// The endpoint, to wait until this barrier alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Counts the calling thread in.
    fn arrive(&self) -> Result<Arrival> {
        let mine = self.sst.mine()?;
        if self.threads == 1 {
            let round = mine.load() + 1;
            return Ok(Arrival { round, tells: true });
        }
        // The last thread to arrive has seen what the others did before they did. Nobody is counted for the next round
        // before this one is over, as that takes all of them.
        let earlier = self.arrived.fetch_add(1);
        Ok(Arrival {
            round: earlier / self.threads + 1,
            tells: (earlier + 1).is_multiple_of(self.threads),
        })
    }

    /// Tells the others of the node's arrival, if that is for this call to do, and waits for theirs.
    fn meet(&self, thread: &Thread<F>, arrival: Arrival) -> Result<()> {
        if arrival.tells {
            // The others only: the NIC writing our own row back could undo a later round (LOCO'26 4.2). Nor is there
            // reason to wait for these puts. Whether the loss of a peer matters shows below.
            match self.sst.mine()?.publish(thread, arrival.round) {
                Err(error) if error.lost_peer().is_none() => return Err(error),
                _ => {}
            }
        }
        self.sst.wait_for_each(thread, |count| count >= arrival.round)
    }

    /// The call that this one goes on with, if an earlier one of the thread failed after it had arrived.
    #[inline]
    fn unfinished(&self, thread: &Thread<F>) -> Option<Arrival> {
        if self.unfinished_count.load() == 0 {
            return None;
        }
        self.take_unfinished(thread)
    }

    #[cold]
    fn take_unfinished(&self, thread: &Thread<F>) -> Option<Arrival> {
        let mut unfinished = self.unfinished.lock();
        let caller = self.caller(thread);
        let position = unfinished.iter().position(|&(of, _)| of == caller)?;
        self.unfinished_count.fetch_add(u64::MAX); // one less
        Some(unfinished.swap_remove(position).1)
    }

    /// Who counts as the same caller: the node, where one thread takes part.
    fn caller(&self, thread: &Thread<F>) -> u64 {
        if self.threads == 1 {
            0
        } else {
            thread.window().name()
        }
    }
}
