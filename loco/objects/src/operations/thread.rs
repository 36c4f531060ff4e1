//! The access of one thread to the network, which objects need: its queue pairs, its completion window, its
//! pool of temporary memory.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use loco_fabric::{
    Completion, Control, Fabric, FabricError, Lock, NodeId, Peers, Platform, QueuePair, RemoteMemory, Target,
    Time, Wait, WordOp, Work, WorkRequestId,
};

use loco_host::interrupt;
use loco_trace::timeline::{self, Span};
use loco_trace::waits::{self, Access};

use crate::Result;
use crate::fabric::AnyFabric;
use crate::operations::ack::AckKey;
use crate::operations::completion::Window;
use crate::operations::counts::ThreadCounts;
use crate::operations::machines::OfThread;
use crate::operations::network::{Idle, Network};
use crate::operations::operation::{Flags, Operation, OperationKind, target};
use crate::operations::pool::Pool;
use crate::operations::queues::{Queues, ThreadQueues, Unfenced};

/// The number of nodes of which a thread knows by a bit that it has queue pairs towards them.
const OPENED_BITS: u16 = 64;

/// One thread's access to the network. It is `Send` and not `Sync`: it moves with its thread and is shared
/// with nobody, so that posting threads contend for nothing (LOCO'26 C.3).
///
/// Object operations take a `&Thread`. Operations that are posted through one `Thread` towards one peer are ordered where they ask
/// for it ([`Flags`]). Operations of different `Thread`s are not ordered.
///
/// A thread's access is made by [`Manager::thread`](crate::Manager::thread). Its queue pairs are made when first used. When
/// it is dropped, they are kept for the node's next `Thread`.
pub struct Thread<F: Fabric = AnyFabric> {
    /// The node's services, kept up by this handle.
    _services: Arc<dyn Send + Sync>,
    network: Arc<Network<F>>,
    queues: ThreadQueues<F>,
    window: Arc<Window<F>>,
    pub(super) scratch: RefCell<Vec<Completion>>,
    pool: RefCell<Pool<F>>,
    /// The deadline of this thread's waits, in place of the configured one.
    deadline: Cell<Option<Time>>,
    /// The first nodes ([`OPENED_BITS`]) to which the thread is known to have queue pairs, one bit for each.
    opened: Cell<u64>,
    counts: ThreadCounts,
    under_way: OfThread<Thread<F>>,
    /// The access as others see it.
    _access: Access,
}

impl<F: Fabric> Thread<F> {
    /// Makes a thread. `services` stay up as long as the thread.
    pub(crate) fn new(network: Arc<Network<F>>, idle: Idle<F>, services: Arc<dyn Send + Sync>) -> Thread<F> {
        let (queues, window) = match idle.queues {
            ThreadQueues::Private(queues) => {
                let window = queues.borrow().window().clone();
                (ThreadQueues::Private(queues), window)
            }
            ThreadQueues::Shared(queues) => {
                let window = queues.lock().window().clone();
                (ThreadQueues::Shared(queues), window)
            }
        };
        Thread {
            _access: waits::access(network.fabric().node()),
            network,
            _services: services,
            queues,
            window,
            scratch: RefCell::new(Vec::new()),
            pool: RefCell::new(idle.pool),
            deadline: Cell::new(None),
            opened: Cell::new(0),
            counts: idle.counts,
            under_way: OfThread::new(),
        }
    }

    /// Returns this node.
    pub fn node_id(&self) -> NodeId {
        self.network.fabric().node()
    }

    /// Returns the fabric.
    #[inline]
    pub fn fabric(&self) -> &F {
        self.network.fabric()
    }

    /// Returns the time at which a wait that starts now gives up:
    /// [`Config::deadline`](crate::Config::deadline) from now, unless [`set_deadline`](Thread::set_deadline)
    /// set another.
    pub fn deadline(&self) -> Time {
        self.deadline
            .get()
            .unwrap_or_else(|| self.network.default_deadline())
    }

    /// Makes every later wait of this thread end at `deadline`, which may be [`Time::NEVER`]. `None` goes back to the
    /// configured one. To limit some calls only, see [`within`](Thread::within).
    pub fn set_deadline(&self, deadline: Option<Time>) {
        self.deadline.set(deadline);
    }

    /// Returns the deadline that [`set_deadline`](Thread::set_deadline) set for all waits, if one is set.
    pub(crate) fn explicit_deadline(&self) -> Option<Time> {
        self.deadline.get()
    }

    /// Runs `steps` without a deadline. Used where other nodes depend on the steps being completed. The steps end
    /// when they are done or the peer is lost.
    pub(crate) fn to_the_end<T>(&self, steps: impl FnOnce() -> T) -> T {
        self.until(Time::NEVER, steps)
    }

    /// Runs `steps` with this deadline of the thread's waits.
    pub(crate) fn until<T>(&self, deadline: Time, steps: impl FnOnce() -> T) -> T {
        /// Restores the deadline, also when the steps panic.
        struct Restore<'a>(&'a Cell<Option<Time>>, Option<Time>);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _restore = Restore(&self.deadline, self.deadline.replace(Some(deadline)));
        steps()
    }

    /// Gets in advance what the steps after a claim need: a queue pair towards each of `peers`, and memory for the results
    /// of operations on words. A caller that claims something of which others wait for the end (a ticket, a lock, a
    /// cell) prepares first. Its next steps on words of `peers` then fail only if a peer is lost, unless this thread
    /// gives one of them up.
    ///
    /// # Errors
    /// Returns `OutOfMemory` and the errors of making a queue pair. A lost peer is not an error yet.
    #[inline(always)] // a few instructions, where operations on words that are done at once need no memory
    pub(crate) fn prepare(&self, peers: &[NodeId]) -> Result<()> {
        match self.queues {
            ThreadQueues::Private(_) if self.are_open(peers) => Ok(()),
            _ => self.prepare_queues(peers),
        }
    }

    /// Prepares where there is something to do.
    #[inline(never)]
    fn prepare_queues(&self, peers: &[NodeId]) -> Result<()> {
        self.open(peers)?;
        match self.queues {
            ThreadQueues::Private(_) => Ok(()),
            ThreadQueues::Shared(_) => {
                let block_bytes = self.network.block_bytes();
                Ok(self.pool.borrow_mut().set_aside(self.fabric(), block_bytes)?)
            }
        }
    }

    /// Returns true if the thread is known to have queue pairs towards all of `peers`.
    #[inline(always)]
    fn are_open(&self, peers: &[NodeId]) -> bool {
        let opened = self.opened.get();
        peers
            .iter()
            .all(|peer| peer.0 < OPENED_BITS && opened & (1 << peer.0) != 0)
    }

    /// Makes the queue pairs towards `peers` that the thread does not have.
    fn open(&self, peers: &[NodeId]) -> Result<()> {
        if self.are_open(peers) {
            return Ok(());
        }
        self.with_queues(|queues| queues.open_all(self.fabric(), peers))?;
        let bits = peers.iter().filter(|peer| peer.0 < OPENED_BITS);
        self.opened
            .set(bits.fold(self.opened.get(), |opened, peer| opened | 1 << peer.0));
        Ok(())
    }

    /// Returns true if the call's future was dropped, or the program has interrupted the call. Waits then end at once; loops of
    /// short waits must ask, and end as at their deadline.
    #[inline]
    #[cfg_attr(not(feature = "async"), allow(clippy::unused_self))] // It is this thread's call.
    pub(crate) fn given_up(&self) -> bool {
        #[cfg(feature = "async")]
        if loco_host::fiber::given_up() || self.fabric().platform().given_up() {
            return true;
        }
        interrupt::requested()
    }

    /// Fails if this node was declared lost. Called after a step in which only this node's memory took part. If the
    /// others go on without this node, the step may have found old values, and the others will not see its effects.
    ///
    /// # Errors
    /// Returns `DeclaredLost`.
    #[inline]
    pub(crate) fn still_in(&self) -> Result<()> {
        match self.fabric().control().declared_lost() {
            false => Ok(()),
            true => Err(FabricError::DeclaredLost.into()),
        }
    }

    /// Begins a call of `method` on the object called `object`, which a timeline that is on shows until the span is dropped.
    /// The calls of fibers are left out: a thread has many of them at a time.
    #[inline]
    pub(crate) fn call(&self, object: &str, method: &'static str) -> Span {
        match timeline::is_on() {
            true => self.show_call(object, method),
            false => Span::default(),
        }
    }

    #[cold]
    #[inline(never)]
    fn show_call(&self, object: &str, method: &'static str) -> Span {
        #[cfg(feature = "async")]
        if loco_host::fiber::running() {
            return Span::default();
        }
        timeline::call(self.node_id(), object, method)
    }

    /// Returns the platform of the fabric.
    #[cfg(feature = "async")]
    pub(crate) fn platform(&self) -> F::Platform {
        self.fabric().platform().clone()
    }

    /// Returns the clock of this node.
    pub fn now(&self) -> Time {
        self.network.fabric().platform().now()
    }

    /// Writes `data`, which is copied within the call, to a peer's memory. Data beyond
    /// [`Caps::inline_bytes_max`](loco_fabric::Caps) go by a block of this thread's pool, if they fit in one
    /// ([`Config::block_bytes`](crate::Config)). Longer data need a buffer: [`MemRef::put`](crate::MemRef::put).
    ///
    /// # Errors
    /// Returns range errors before anything is posted, [`PeerLost`](crate::ErrorKind::PeerLost),
    /// [`Timeout`](crate::ErrorKind::Timeout) when the queue gets no room, and
    /// [`Unsupported`](crate::fabric::FabricError::Unsupported) for data that are too long.
    ///
    /// # After a timeout
    /// Nothing was posted. Post again. This holds for every method that posts one operation.
    #[inline]
    pub fn put_inline(&self, data: &[u8], dst: Target<'_, F::Remote>) -> Result<AckKey<F>> {
        self.put_inline_with(data, dst, Flags::default())
    }

    /// Writes `data` as [`put_inline`](Thread::put_inline) does, with `flags`. [`Flags::STRONG`] places the data after this
    /// thread's earlier puts to that node, so that whoever sees the data sees those puts.
    ///
    /// # Errors
    /// Returns the errors of [`put_inline`](Thread::put_inline).
    ///
    /// # After a timeout
    /// Nothing was posted. Post again.
    #[inline]
    pub fn put_inline_with(
        &self,
        data: &[u8],
        dst: Target<'_, F::Remote>,
        flags: Flags,
    ) -> Result<AckKey<F>> {
        self.post(&Operation::PutInline(data, dst), flags)
    }

    /// Writes `data` as [`put_inline`](Thread::put_inline) does, for puts whose end nobody will ask for. This
    /// saves the completion. [Fences](crate::fence) cover it as they do every put.
    ///
    /// # Errors
    /// Returns the errors of [`put_inline`](Thread::put_inline).
    ///
    /// # After a timeout
    /// Nothing was posted. Post again.
    #[inline(always)] // see `Queues::at_once`
    pub fn put_inline_untracked(&self, data: &[u8], dst: Target<'_, F::Remote>) -> Result<()> {
        self.post_untracked(&Operation::PutInline(data, dst), Flags::default())
    }

    /// Posts an operation. The key tells when it has ended. For this and the next two methods see
    /// [`raw`](crate::raw).
    #[inline]
    pub(crate) fn post(&self, operation: &Operation<'_, F>, flags: Flags) -> Result<AckKey<F>> {
        let mut key = AckKey::done();
        self.post_into(operation, flags, &mut key)?;
        Ok(key)
    }

    /// Posts an operation and adds it to `key`.
    #[inline]
    pub(crate) fn post_into(
        &self,
        operation: &Operation<'_, F>,
        flags: Flags,
        key: &mut AckKey<F>,
    ) -> Result<()> {
        // The id is filled in when the sequence number is known.
        let seq = self.post_work(operation, flags, Work::signaled(WorkRequestId(0)))?;
        if seq != 0 {
            key.insert(&self.window, seq, operation.peer());
        }
        Ok(())
    }

    /// Posts a put whose end nobody will ask for, which saves the completion. Its source must stay valid and
    /// unchanged until a [fence](crate::fence) or a later tracked operation to the same peer is done.
    #[inline(always)] // see `Queues::at_once`
    pub(crate) fn post_untracked(&self, operation: &Operation<'_, F>, flags: Flags) -> Result<()> {
        // This is the short path where a put is done when it is posted: a few instructions, which the
        // compiler can inline into the caller.
        if let (Operation::PutInline(data, dst), ThreadQueues::Private(queues)) = (operation, &self.queues) {
            return match queues.borrow_mut().put_at_once(self.fabric(), data, target(dst)) {
                Ok(()) => {
                    self.counts.operations(OperationKind::Put, 1, data.len());
                    Ok(())
                }
                Err(error) => Err(self.failed(error)),
            };
        }
        match operation.kind() {
            OperationKind::Put => match self.post_work(operation, flags, Work::unsignaled()) {
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            },
            // Fences wait for the last read-like operation, so that one needs an id.
            _ => self.post(operation, flags).map(AckKey::forget),
        }
    }

    /// Posts puts of those of `pieces` that are not empty in `remote`, each at its offset and like
    /// [`put_inline_untracked`](Thread::put_inline_untracked). `flags` are those of the last piece, which must not be empty if
    /// they ask for order. The others ask for nothing.
    #[inline(always)] // Of a few pieces whose lengths the caller knows, little is left.
    pub(crate) fn put_each_untracked(
        &self,
        pieces: &[(usize, &[u8])],
        remote: &F::Remote,
        flags: Flags,
    ) -> Result<()> {
        if let ThreadQueues::Private(queues) = &self.queues {
            return match queues
                .borrow_mut()
                .put_each_at_once(self.fabric(), pieces, remote, flags.strong)
            {
                Ok(()) => {
                    let puts = pieces.iter().filter(|(_, data)| !data.is_empty()).count();
                    let bytes = pieces.iter().map(|(_, data)| data.len()).sum();
                    self.counts.operations(OperationKind::Put, puts as u64, bytes);
                    Ok(())
                }
                Err(error) => Err(self.failed(error)),
            };
        }
        self.post_each_untracked(pieces, remote, flags)
    }

    /// Waits until `ready` returns `Some`, by the fabric's waiting primitive with this thread's deadline.
    /// `what` and `peers` have the meaning of [`Wait`]'s fields.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) when one of `peers` is gone and `ready` still returns `None`,
    /// or [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// Only `ready` itself may have changed anything. Wait again.
    #[inline]
    pub fn wait_until<T>(&self, what: &str, peers: Peers<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.settle(self.deadline.get())?;
        let wait = Wait {
            what,
            peers,
            deadline: self.deadline.get(),
        };
        let outcome = match wait.deadline {
            Some(_) => self.fabric().wait(wait, ready),
            None => self
                .fabric()
                .wait_within(wait, self.network.default_patience(), ready),
        };
        match outcome {
            Ok(value) => Ok(value),
            Err(error) => Err(self.wait_failed(wait, error)),
        }
    }

    /// Waits as [`wait_until`](Thread::wait_until) does. `arrives` says that only operations of queue pairs towards this node
    /// change what is waited for, and code that [rings](Thread::ring) afterwards: a thread or a driver that waits for long
    /// may sleep by the doorbell meanwhile.
    #[inline]
    pub(crate) fn wait_for<T>(
        &self,
        arrives: bool,
        what: &str,
        peers: Peers<'_>,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        if !arrives {
            return self.wait_until(what, peers, ready);
        }
        self.settle(self.deadline.get())?;
        #[cfg_attr(not(feature = "async"), allow(unused_mut))]
        let mut wait = Wait {
            what,
            peers,
            deadline: self.deadline.get(),
        };
        // The driver of fibers has to know the deadline.
        #[cfg(feature = "async")]
        if loco_host::fiber::running() {
            wait.deadline = Some(self.deadline());
        }
        let outcome = match wait.deadline {
            Some(_) => self.fabric().wait_for_arrival(wait, ready),
            None => {
                let within = self.network.default_patience();
                self.fabric().wait_for_arrival_within(wait, within, ready)
            }
        };
        match outcome {
            Ok(value) => Ok(value),
            Err(error) => Err(self.wait_failed(wait, error)),
        }
    }

    /// Wakes the threads of this node that sleep, and the driver of its asynchronous calls, after a store of this thread for
    /// which [`wait_for`](Thread::wait_for) may wait.
    pub(crate) fn ring(&self) {
        if let Some(bell) = self.network.bell() {
            bell.ring();
        }
    }

    /// Returns what this thread has counted.
    #[inline]
    pub(crate) fn counts(&self) -> &ThreadCounts {
        &self.counts
    }

    #[inline]
    pub(crate) fn network(&self) -> &Arc<Network<F>> {
        &self.network
    }

    pub(crate) fn pool(&self) -> &RefCell<Pool<F>> {
        &self.pool
    }

    /// Waits until the tracking state satisfies `ready`. Polls if waiters have to do that.
    pub(crate) fn wait_completion<T>(
        &self,
        peers: Peers<'_>,
        deadline: Option<Time>,
        mut ready: impl FnMut() -> Option<Result<T>>,
    ) -> Result<T> {
        if let Some(outcome) = ready() {
            return outcome;
        }
        let completions = self.network.completions();
        let wait = Wait {
            what: "completion of posted operations",
            peers,
            deadline,
        };
        let mut scratch = self.scratch.borrow_mut();
        let waited = self.fabric().wait_for_completion(wait, || {
            if let Err(error) = completions.poll_waiting(&mut scratch) {
                return Some(Err(error.into()));
            }
            ready()
        });
        match waited {
            Ok(outcome) => outcome,
            Err(error @ FabricError::Timeout { .. }) => Err(self.of_wait(wait.what, deadline, error)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Returns what this thread has under way beyond a call.
    #[inline]
    pub(crate) fn under_way(&self) -> &OfThread<Thread<F>> {
        &self.under_way
    }

    /// Does `op` without posting it, where the fabric can, and returns its old value.
    #[inline(always)] // see `Queues::at_once`
    pub(crate) fn word_at_once(&self, word: &Target<'_, F::Remote>, op: WordOp) -> Result<Option<u64>> {
        // Shared queues belong to fabrics that are not synchronous.
        let ThreadQueues::Private(queues) = &self.queues else {
            return Ok(None);
        };
        let kind = match op {
            WordOp::Get => OperationKind::Read,
            WordOp::FetchAdd(_) | WordOp::CompareSwap { .. } => OperationKind::Atomic,
        };
        let peer = word.remote.node();
        let operation = |queue: &mut F::QueuePair| queue.word_at_once(target(word), op);
        match queues.borrow_mut().at_once(self.fabric(), peer, kind, operation) {
            Ok(done) => {
                if done.is_some() {
                    self.counts.operations(kind, 1, size_of::<u64>());
                }
                Ok(done)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Returns true if peers' memory, and this node's as seen by the fabric, is read by
    /// [`read_at_once`](Thread::read_at_once). Shared queues belong to fabrics that are not synchronous.
    #[inline]
    pub(crate) fn reads_at_once(&self) -> bool {
        matches!(self.queues, ThreadQueues::Private(_))
    }

    /// Reads a node's memory into private memory without posting, where the thread
    /// [can](Thread::reads_at_once). The read may overtake this thread's earlier stores and puts, unless a `cpu_fence` is in
    /// between.
    ///
    /// # Errors
    /// Returns the errors of [`put_inline`](Thread::put_inline).
    #[inline(always)] // see `Queues::at_once`
    pub(crate) fn read_at_once(&self, src: Target<'_, F::Remote>, out: &mut [u8]) -> Result<()> {
        self.counts.operations(OperationKind::Read, 1, out.len());
        let read = match &self.queues {
            ThreadQueues::Private(queues) => queues.borrow_mut().read_at_once(self.fabric(), src, out),
            ThreadQueues::Shared(queues) => queues.lock().read_at_once(self.fabric(), src, out),
        };
        match read {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Posts an operation. Returns its sequence number, or 0 if it has ended.
    #[inline]
    pub(crate) fn post_seq(&self, operation: &Operation<'_, F>, flags: Flags) -> Result<u64> {
        self.post_work(operation, flags, Work::signaled(WorkRequestId(0)))
    }

    /// Returns the remaining work of a fence towards a peer.
    #[inline]
    pub(crate) fn unfenced(&self, position: usize) -> Unfenced {
        let placed = self.network.placed_on_post();
        self.with_queues(|queues| queues.unfenced(position, placed))
    }

    /// Notes that a fence towards a peer is over.
    #[inline]
    pub(crate) fn mark_fenced(&self, position: usize) {
        self.with_queues(|queues| queues.mark_fenced(position));
    }

    /// Returns the window, for keys of operations posted earlier.
    #[inline]
    pub(crate) fn window(&self) -> &Arc<Window<F>> {
        &self.window
    }

    #[inline]
    pub(crate) fn with_queues<T>(&self, f: impl FnOnce(&mut Queues<F>) -> T) -> T {
        match &self.queues {
            // The queues are never borrowed across a call out of this function.
            ThreadQueues::Private(queues) => f(&mut queues.borrow_mut()),
            ThreadQueues::Shared(queues) => f(&mut queues.lock()),
        }
    }
}

impl<F: Fabric> Drop for Thread<F> {
    fn drop(&mut self) {
        // Only what a program has forgotten is under way still.
        self.end_under_way();
        let queues = match &self.queues {
            ThreadQueues::Private(queues) => {
                let empty = Queues::new(self.window.clone(), 0);
                ThreadQueues::Private(RefCell::new(queues.replace(empty)))
            }
            ThreadQueues::Shared(queues) => ThreadQueues::Shared(queues.clone()),
        };
        let mut pool = self.pool.take();
        pool.free_ended();
        let counts = self.counts.clone();
        self.network.keep_idle(Idle { queues, pool, counts });
    }
}

impl<F: Fabric> std::fmt::Debug for Thread<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread")
            .field("node", &self.node_id())
            .finish_non_exhaustive()
    }
}
