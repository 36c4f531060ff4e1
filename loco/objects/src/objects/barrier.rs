//! The barrier (LOCO'26 4 and Fig. 7): nobody leaves before everybody has arrived.

use loco_fabric::{AtomicCell, Fabric, Lock};

use crate::error::have;
use crate::fabric::AnyFabric;
use crate::fence::Scope;
use crate::operations::platform::{AtomicU64Of, MutexOf};
use crate::operations::timing::late_since;
use crate::{Channel, Error, Parent, Result, Sst, Thread};

/// A barrier among threads of any number of nodes.
///
/// This is the transitive barrier of LOCO'26 4.3. [`wait`](Barrier::wait) first completes the calling thread's
/// operations towards *all* nodes, participants or not. Effects before one barrier are therefore visible
/// after another that follows it.
///
/// There are three ways to wait, which differ in the operations that are complete when the barrier has been passed:
///
/// | method | completes the operations of | barrier of |
/// |---|---|---|
/// | [`wait`](Barrier::wait) | the threads that call it | LOCO'26 4 (BAR_BAL of Fig. 11) |
/// | [`wait_fencing_all_threads`](Barrier::wait_fencing_all_threads) | all threads of the nodes that call it | LOCO'25 4.1 and 5.4 |
/// | [`wait_unfenced`](Barrier::wait_unfenced) | nobody | `MPI_Barrier` |
///
/// With [`wait`](Barrier::wait), a thread that takes no part completes its own operations by
/// [`fence::thread`](crate::fence::thread) before it tells a caller about them.
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
///     flags[me].broadcast(&thread)?.forget();
///     barrier.wait(&thread)?;
///     Ok(flags[1 - me].read())
/// });
/// assert_eq!(seen, [1, 1]);
/// ```
///
/// # Strength
///
/// Robust: what was put before [`Barrier::wait`] is there after it, so clients that only put before it and only read after
/// it see what a strong memory would show them (`loco check barrier --robust`). [`Barrier::wait_unfenced`] does not promise
/// that.
pub struct Barrier<F: Fabric = AnyFabric> {
    /// The rounds that each node has arrived in. Its channel is the barrier's.
    sst: Sst<u64, F>,
    /// The number of threads of this node that take part.
    threads: u64,
    /// The number of arrivals of this node's threads in all rounds.
    arrived: AtomicU64Of<F>,
    /// The calls that failed after they had arrived, by their thread.
    unfinished: MutexOf<F, Vec<(u64, Arrival)>>,
    /// The number of these calls.
    unfinished_count: AtomicU64Of<F>,
}

/// A call that has been counted.
#[derive(Clone, Copy)]
struct Arrival {
    /// The round, counted from 1.
    round: u64,
    /// Set if it was the node's last call of the round, which announces the arrival to the others.
    announces: bool,
}

impl<F: Fabric> Barrier<F> {
    /// Makes a barrier among one thread of each participant of `parent` (all nodes under the manager).
    ///
    /// # Errors
    /// Returns the errors of [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str) -> Result<Self> {
        Barrier::with_local_threads(parent, name, 1)
    }

    /// Makes this node's endpoint of a barrier among `threads` threads of each participant of `parent`.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if `threads` is zero, and the errors of [`new`](Barrier::new). If nodes
    /// give different numbers, waiting until the barrier is ready fails with [`Mismatch`](crate::Error::Mismatch) on
    /// each of them.
    pub fn with_threads(parent: &impl Parent<F>, name: &str, threads: usize) -> Result<Self> {
        let kind = format!("barrier of {threads} threads a node");
        Barrier::of_kind(parent, name, threads, kind)
    }

    /// Makes this node's endpoint of a barrier among `threads` threads of this node, and as many threads of each other
    /// participant as that node says.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if `threads` is zero, and the errors of [`new`](Barrier::new).
    pub fn with_local_threads(parent: &impl Parent<F>, name: &str, threads: usize) -> Result<Self> {
        Barrier::of_kind(parent, name, threads, "barrier".to_owned())
    }

    fn of_kind(parent: &impl Parent<F>, name: &str, threads: usize, kind: String) -> Result<Self> {
        if threads == 0 {
            return Err(Error::Config(format!(
                "barrier `{name}`: zero threads cannot arrive"
            )));
        }
        Ok(Barrier {
            sst: Sst::of_kind(parent, name, kind)?,
            threads: threads as u64,
            arrived: AtomicCell::new(0),
            unfinished: Lock::new(Vec::new()),
            unfinished_count: AtomicCell::new(0),
        })
    }

    /// Completes this thread's remote operations towards all nodes, arrives, and waits for everybody: BAR_BAL of LOCO'26
    /// Fig. 11, in the transitive form of 4.3. It does not complete operations of other threads of the node; the barrier of
    /// LOCO'25, which does, is [`wait_fencing_all_threads`](Barrier::wait_fencing_all_threads). If the barrier is for one
    /// thread of this node, different threads may call it, one call after the other.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) for a node that has not arrived,
    /// [`Timeout`](crate::ErrorKind::Timeout), and the errors of [`fence::thread`](crate::fence::thread).
    ///
    /// # After a timeout
    /// The thread may have arrived already, and counts as arrived once. Its next call, of any of the three methods that
    /// wait, continues the same round. It lets nobody pass before all have arrived. If the thread gives up for good
    /// instead, no later call of anybody can succeed.
    ///
    /// If the barrier is for one thread of this node, any thread may continue the round. It completes only its own
    /// operations; the thread that gave up must call [`fence::thread`](crate::fence::thread) first.
    ///
    /// After [`PeerLost`](crate::ErrorKind::PeerLost) the thread counts as arrived in the same way, but the round
    /// cannot be completed: every further call fails. The others may have passed, if they saw the lost node arrive. The
    /// survivors must make another barrier among themselves.
    pub fn wait(&self, thread: &Thread<F>) -> Result<()> {
        let _call = thread.call(self.channel().name(), "wait");
        self.wait_fencing(thread, Scope::Thread)
    }

    /// Completes the remote operations of *all threads* of this node, arrives, and waits for everybody: the barrier of
    /// LOCO'25 4.1 and 5.4, with the global fence of that paper ([`fence::all_threads`](crate::fence::all_threads)). An
    /// operation of another thread is complete if posting it happens before this call.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) for a node that has not arrived,
    /// [`Timeout`](crate::ErrorKind::Timeout), and the errors of [`fence::all_threads`](crate::fence::all_threads).
    ///
    /// # After a timeout
    /// See [`wait`](Barrier::wait).
    pub fn wait_fencing_all_threads(&self, thread: &Thread<F>) -> Result<()> {
        let _call = thread.call(self.channel().name(), "wait_fencing_all_threads");
        self.wait_fencing(thread, Scope::AllThreads)
    }

    /// Executes a fence of this scope, arrives, and waits for everybody.
    #[inline]
    fn wait_fencing(&self, thread: &Thread<F>, scope: Scope) -> Result<()> {
        // Where operations are done when they are posted, the fence takes no time.
        let timing = (!thread.reads_at_once()).then(|| thread.timing_from_now());
        // Announcing the arrival fails on a node that was declared lost.
        scope.order(thread)?;
        self.arrive_and_wait(thread)
            .map_err(|error| late_since(timing, thread, error))
    }

    /// Arrives and waits for everybody, without completing outstanding operations (the semantics of `MPI_Barrier`). If the
    /// barrier is for one thread of each node, a node that passes sees what this thread put into that node before. It need
    /// not see this thread's puts into other nodes, nor puts of other threads.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) for a node that has not arrived, or
    /// [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// See [`wait`](Barrier::wait).
    pub fn wait_unfenced(&self, thread: &Thread<F>) -> Result<()> {
        let _call = thread.call(self.channel().name(), "wait_unfenced");
        self.arrive_and_wait(thread)
    }

    /// Arrives and waits for everybody.
    fn arrive_and_wait(&self, thread: &Thread<F>) -> Result<()> {
        let arrival = match self.unfinished(thread) {
            Some(arrival) => arrival,
            None => self.arrive()?,
        };
        let met = self.announce_and_wait(thread, arrival);
        if met.is_err() {
            self.unfinished.lock().push((self.caller(thread), arrival));
            self.unfinished_count.fetch_add(1);
        }
        met
    }

    /// Returns the endpoint, to wait until this barrier alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        self.sst.channel()
    }

    /// Counts the calling thread.
    fn arrive(&self) -> Result<Arrival> {
        let mine = self.sst.mine()?;
        if self.threads == 1 {
            let round = mine.load() + 1;
            return Ok(Arrival {
                round,
                announces: true,
            });
        }
        // The last thread to arrive has seen everything that the others did before they arrived. Nobody is
        // counted for the next round before this one is over, because the next round needs all of them.
        debug_assert!(self.threads > 1, "one thread counts in the table alone");
        let earlier = self.arrived.fetch_add(1);
        Ok(Arrival {
            round: earlier / self.threads + 1,
            announces: (earlier + 1).is_multiple_of(self.threads),
        })
    }

    /// Announces the node's arrival to the others, if this call is the one to do it, and waits for theirs.
    fn announce_and_wait(&self, thread: &Thread<F>, arrival: Arrival) -> Result<()> {
        debug_assert!(arrival.round >= 1, "rounds are counted from 1");
        if arrival.announces {
            // It is announced to the others only: if the NIC wrote our own row back, it could undo a later round
            // (LOCO'26 4.2). There is no reason to wait for these puts. Whether the loss of a peer matters
            // shows below.
            match self.sst.mine()?.publish(thread, arrival.round) {
                Err(error) if error.lost_peer().is_none() => return Err(error),
                _ => {}
            }
        }
        // The call that announces has changed this node's own row. Others may wait for that.
        let met = self
            .sst
            .wait_for_all(thread, arrival.announces, |count| count >= arrival.round);
        met.map_err(|error| {
            let missing = error.awaited().to_vec();
            let who = match missing[..] == [thread.node_id()] {
                true => format!("other threads of {} have", thread.node_id()),
                false => have(&missing),
            };
            error.because(
                &missing,
                format!(
                    "{who} not arrived at {}; every participant must call the barrier as often",
                    self.channel().name()
                ),
            )
        })
    }

    /// Returns the call that this call continues, if an earlier call of the thread failed after it had
    /// arrived.
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

    /// Returns the identity of the caller: the node, if one of its threads takes part.
    fn caller(&self, thread: &Thread<F>) -> u64 {
        if self.threads == 1 {
            0
        } else {
            thread.window().name()
        }
    }
}
