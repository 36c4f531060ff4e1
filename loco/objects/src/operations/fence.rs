//! Fences: earlier remote operations are complete *and placed* before anything later (LOCO'25 5.3, LOCO'26
//! C.2).
//!
//! The completion of a put says only that its source was read. A flush forces placement, and so does a get or atomic that asks
//! to come after the earlier writes ([strong order](loco_fabric::Work::strong)). On networks that keep the order of the
//! InfiniBand specification, every get and atomic does ([`Caps::order`](loco_fabric::Caps::order)). Each fence does as little as
//! it must for the operations that are outstanding on each queue pair:
//!
//! | outstanding towards a peer | the fence does |
//! |---|---|
//! | nothing, or operations that have completed and are placed | nothing |
//! | a read-like operation, and every earlier put is placed when it completes | waits for it |
//! | puts that may not be placed, and the fabric places puts when they are posted | one CPU fence |
//! | puts that may not be placed | posts a flush and waits for it |
//! | an atomic came last | as after a get where the fabric's atomics are `Glob`, else as after a put |
//!
//! An atomic that the NIC carries out (`Hca`) reports the old value when it has read it. Its write may still
//! be on the way to memory. Other atomics see the write at once. CPUs and gets of other queue pairs see it
//! only when a later flush, or a later get or atomic in strong order, of the atomic's own queue pair has pushed it to memory.
//!
//! Fences differ in the operations that they cover:
//!
//! | fence | covers | LOCO'25 5.3 | LOCO'26 3.4 |
//! |---|---|---|---|
//! | [`pair`] | operations of the calling thread to one peer | pair-only fence | |
//! | [`thread`] | operations of the calling thread to all peers | thread-only fence | |
//! | [`all_threads`] | operations of all threads of the node to all peers | global fence | |
//! | [`towards`] | operations of the calling thread to some nodes, and its CPU stores | | global fence (GF_sv) |
//!
//! No fence is called global here, because the two papers give that name to different fences.

use loco_fabric::{Atomicity, Fabric, FabricError, Lock, NodeId, Peers, QueuePair as _, Time, Wait, Work};
use smallvec::SmallVec;

use crate::operations::ack::AckKey;
use crate::operations::counts::Count;
use crate::operations::network::Network;
use crate::operations::operation::{Flags, Operation, OperationKind};
use crate::operations::queues::{Attempt, SharedQueues, Unfenced};
use crate::operations::thread::Thread;
use crate::{Error, Result};

/// The reach of a fence, where a caller chooses it (locks on release).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// No operation: the caller knows that none needs the fence.
    Nothing,
    /// The reach of [`pair`] towards this peer.
    Pair(NodeId),
    /// The reach of [`thread`].
    Thread,
    /// The reach of [`all_threads`].
    AllThreads,
}

impl Scope {
    /// Executes a fence of this scope.
    ///
    /// # Errors
    /// Returns the errors of [`pair`].
    ///
    /// # After a timeout
    /// See [`thread`].
    pub fn fence<F: Fabric>(self, thread: &Thread<F>) -> Result<()> {
        match self {
            Scope::Nothing => Ok(()),
            Scope::Pair(_) | Scope::Thread | Scope::AllThreads => {
                self.order(thread)?;
                thread.still_in()
            }
        }
    }

    /// Executes a fence of this scope. If nothing is outstanding, it succeeds also on a node that was declared lost: the
    /// caller's next step must find that out.
    #[inline]
    pub(crate) fn order<F: Fabric>(self, thread: &Thread<F>) -> Result<()> {
        match self {
            Scope::Nothing => Ok(()),
            Scope::Pair(peer) => {
                let mut fence = Fence::new(thread);
                fence.add(thread.network().position(peer)?)?;
                fence.finish().map(drop)
            }
            Scope::Thread => {
                let mut fence = Fence::new(thread);
                for position in 0..thread.fabric().nodes().len() {
                    fence.add(position)?;
                }
                fence.finish().map(drop)
            }
            Scope::AllThreads => {
                let mut key = AckKey::done();
                let lost = post_flushes(thread.network(), Some(thread.deadline()), &mut key)?;
                // Where puts are placed when posted, they are stores of the thread that posts them, and TSO orders these:
                // whoever sees that another thread has posted a put sees it placed. This thread's own puts may still wait
                // before the fence.
                thread.fabric().cpu_fence();
                lost.report(key.wait(thread), mark_pair::<F>)
            }
        }
    }

    /// Executes a fence of this scope before a read-modify-write, which must be this thread's next step. The read-modify-write must
    /// be on a word of the peer `home`, in strong order, or on a local word if there is no such peer and the fabric's atomics are
    /// CPU instructions.
    ///
    /// The read-modify-write is itself part of the fence. On synchronous fabrics whose puts a CPU fence places, it is a full fence. Elsewhere it
    /// takes effect after this thread's puts to `home` are placed. So this fence leaves these to it, and waits for no round trip that
    /// the caller makes anyway. If they fail with the loss of `home`, the read-modify-write fails with it as well.
    #[inline]
    pub(crate) fn fence_before_rmw<F: Fabric>(self, thread: &Thread<F>, home: Option<NodeId>) -> Result<()> {
        let caps = thread.fabric().caps();
        if caps.synchronous && caps.puts_placed_on_post && caps.atomicity == Atomicity::Glob {
            return Ok(());
        }
        match (self, home) {
            (Scope::Pair(_) | Scope::Thread, Some(home)) => self.fence_but_for_puts_to(thread, home),
            _ => self.fence(thread),
        }
    }

    /// Executes a fence of this scope, which is `Pair` or `Thread`, that need not place puts to `home`.
    fn fence_but_for_puts_to<F: Fabric>(self, thread: &Thread<F>, home: NodeId) -> Result<()> {
        let home = thread.network().position(home)?;
        let mut fence = Fence::new(thread);
        let positions = match self {
            Scope::Pair(peer) => {
                let peer = thread.network().position(peer)?;
                peer..peer + 1
            }
            _ => 0..thread.fabric().nodes().len(),
        };
        for position in positions {
            match position == home {
                true => fence.add_reads(position)?,
                false => fence.add(position)?,
            }
        }
        fence.finish()?;
        thread.still_in()
    }
}

/// Completes and places earlier operations of this thread towards `peer` before later operations of this
/// thread (the pair-only fence of LOCO'25 5.3).
///
/// # Errors
/// Returns [`UnknownPeer`](crate::fabric::FabricError::UnknownPeer), the failure of an operation,
/// [`PeerLost`](crate::ErrorKind::PeerLost), or [`Timeout`](crate::ErrorKind::Timeout); `DeclaredLost` on a node that the
/// others go on without, even if nothing was outstanding.
///
/// # After a timeout
/// Nothing is ordered yet, and outstanding operations still are outstanding. Execute the fence again.
pub fn pair<F: Fabric>(thread: &Thread<F>, peer: NodeId) -> Result<()> {
    Scope::Pair(peer).fence(thread)
}

/// Completes and places earlier operations of this thread, to all peers, before later operations of this
/// thread (the thread-only fence of LOCO'25 5.3).
///
/// # Errors
/// Returns the failure of an operation, [`PeerLost`](crate::ErrorKind::PeerLost), or
/// [`Timeout`](crate::ErrorKind::Timeout).
///
/// # After a timeout
/// Nothing is ordered yet, and outstanding operations still are outstanding. Execute the fence again.
pub fn thread<F: Fabric>(thread: &Thread<F>) -> Result<()> {
    Scope::Thread.fence(thread)
}

/// Completes and places earlier operations of all threads of this node before later operations of any of
/// them. An operation of another thread is earlier if posting it happens before this call.
///
/// This is the *global fence* of LOCO'25 5.3. The global fence of LOCO'26, GF_sv, covers one thread: [`towards`].
///
/// # Errors
/// Returns the errors of [`thread`].
///
/// # After a timeout
/// Nothing is ordered yet, and outstanding operations still are outstanding. Execute the fence again.
pub fn all_threads<F: Fabric>(thread: &Thread<F>) -> Result<()> {
    Scope::AllThreads.fence(thread)
}

/// Places the operations that the thread with the completion window `former` posted to `peers` before
/// anything that `thread` does later. Nothing is placed at a lost peer any more, so nothing is left to do for
/// it.
///
/// # Errors
/// Returns the failure of an operation, or `Timeout`: call again.
pub(crate) fn of_former<F: Fabric>(thread: &Thread<F>, former: u64, peers: &[NodeId]) -> Result<()> {
    let network = thread.network();
    // A thread's queues are private only where its puts are stores of its own. TSO has ordered those before the
    // hand-over to `thread`.
    let Some(queues) = network.shared_queues_of(former) else {
        return Ok(());
    };
    let mut key = AckKey::done();
    for &peer in peers {
        let position = network.position(peer)?;
        match post_flush(network, &queues, position, Some(thread.deadline()), &mut key) {
            Err(error) if error.lost_peer() == Some(peer) => {}
            posted => posted?,
        }
    }
    match key.wait_for_ends(thread, Some(thread.deadline())) {
        Err(error) if error.lost_peer().is_some_and(|lost| peers.contains(&lost)) => Ok(()),
        waited => waited,
    }
}

/// Completes and places earlier operations of this thread towards `nodes`, and makes its earlier CPU stores visible,
/// before anything later of this thread (stamp aGF of LOCO'26 Fig. 10, which orders CPU writes too).
///
/// This is the *global fence* GF_sv of LOCO'26 3.4. It does not cover the operations of the node's other threads, as the
/// global fence of LOCO'25 does: [`all_threads`].
///
/// # Errors
/// Returns the errors of [`pair`].
///
/// # After a timeout
/// Nothing is ordered yet, and outstanding operations still are outstanding. Execute the fence again.
pub fn towards<F: Fabric>(thread: &Thread<F>, nodes: &[NodeId]) -> Result<()> {
    let mut fence = Fence::new(thread);
    for &peer in nodes {
        fence.add(thread.network().position(peer)?)?;
    }
    if !fence.finish()? {
        thread.fabric().cpu_fence();
    }
    thread.still_in()
}

/// Completes and places earlier operations of this thread towards each of `nodes` before anything later of this thread, all at once.
/// Returns those that are lost. The operations towards every other one are placed, whatever became of the rest.
///
/// # Errors
/// Returns the failure of an operation towards a node that is not lost, `Timeout`, and `DeclaredLost` on a node that the others go
/// on without. Nothing is known of the placement then: post again what must be placed. Unless it is `Timeout`, no operation towards any
/// of the nodes is under way any more.
pub(crate) fn towards_each<F: Fabric>(thread: &Thread<F>, nodes: &[NodeId]) -> Result<SmallVec<[NodeId; 4]>> {
    let mut lost = SmallVec::new();
    // A failure does not end the fences towards the other nodes.
    let mut failed = Ok(());
    let mut fences: SmallVec<[(NodeId, Fence<'_, F>); 8]> = SmallVec::new();
    for &node in nodes {
        let mut fence = Fence::new(thread);
        failed = failed.and(fence.add(thread.network().position(node)?));
        fences.push((node, fence));
    }
    for (node, mut fence) in fences {
        match fence.finish() {
            Err(error) if error.lost_peer() == Some(node) => lost.push(node),
            fenced => failed = failed.and(fenced.map(drop)),
        }
    }
    failed?;
    thread.still_in()?;
    Ok(lost)
}

/// Begins a fence of this thread's earlier operations towards `node`. They are placed when the operations of the key have succeeded. What
/// the thread posts later is not covered, and a later fence does not take this one for its own.
///
/// # Errors
/// Returns the errors of posting a flush, as `PeerLost`.
pub(crate) fn begin<F: Fabric>(thread: &Thread<F>, node: NodeId) -> Result<AckKey<F>> {
    let mut key = AckKey::done();
    let position = thread.network().position(node)?;
    match thread.unfenced(position) {
        Unfenced::Nothing => {}
        Unfenced::WaitFor(seq) => {
            thread.counts().add(Count::FencesByWait, 1);
            key.insert(thread.window(), seq, node);
        }
        Unfenced::CpuFence(read) => {
            thread.counts().add(Count::FencesByCpu, 1);
            thread.fabric().cpu_fence();
            match read {
                Some(seq) => key.insert(thread.window(), seq, node),
                None => thread.mark_fenced(position),
            }
        }
        Unfenced::Flush(_) => {
            thread.counts().add(Count::FencesByFlush, 1);
            thread.post_into(&Operation::Flush(node), Flags::default(), &mut key)?;
        }
    }
    Ok(key)
}

/// Leaves the failure of a fence towards `node` for the thread's next one. For a caller that [began](begin) the fence for itself, and to whom
/// the failure of an operation of the program is nothing.
///
/// An operation that the thread posts in between to get an answer, such as the exchange that releases a lock, takes the place of the failure:
/// the next fence waits for that one. It tells all the same where a failure fails what follows on its queue pair, as on `verbs`
/// and after a loss.
#[cold]
pub(crate) fn leave_failure<F: Fabric>(thread: &Thread<F>, node: NodeId, fence: &AckKey<F>) {
    if let (Ok(position), Some(seq)) = (
        thread.network().position(node),
        fence.first_failed(thread.window()),
    ) {
        thread.with_queues(|queues| queues.leave_failure(position, seq));
    }
}

/// A fence of one thread's own operations, under construction.
struct Fence<'t, F: Fabric> {
    thread: &'t Thread<F>,
    key: AckKey<F>,
    /// Set if a CPU fence is needed.
    cpu: bool,
    /// The positions of the lost peers.
    lost: LostPeers<usize>,
}

impl<'t, F: Fabric> Fence<'t, F> {
    fn new(thread: &'t Thread<F>) -> Fence<'t, F> {
        Fence {
            thread,
            key: AckKey::done(),
            cpu: false,
            lost: LostPeers::new(),
        }
    }

    /// Adds the operations towards the peer at `position`. The loss of that peer is reported at the end: the fence still places
    /// what goes to the others, on whom the caller's next step may rely.
    fn add(&mut self, position: usize) -> Result<()> {
        let unfenced = self.thread.unfenced(position);
        self.add_work(position, unfenced)
    }

    /// Adds the work that is left towards the peer at `position`. It is asked for once: a failure is told to one fence alone.
    fn add_work(&mut self, position: usize, unfenced: Unfenced) -> Result<()> {
        let thread = self.thread;
        let peer = thread.fabric().nodes()[position];
        match unfenced {
            Unfenced::Nothing => {}
            Unfenced::WaitFor(seq) => {
                thread.counts().add(Count::FencesByWait, 1);
                self.key.insert(thread.window(), seq, peer);
            }
            Unfenced::CpuFence(read) => {
                self.cpu = true;
                match read {
                    Some(seq) => self.key.insert(thread.window(), seq, peer),
                    None => thread.mark_fenced(position),
                }
            }
            Unfenced::Flush(_) => {
                thread.counts().add(Count::FencesByFlush, 1);
                let posted = thread.post_into(&Operation::Flush(peer), Flags::default(), &mut self.key);
                if let Err(error) = posted {
                    self.lost
                        .add(position, error, |position| thread.mark_fenced(position))?;
                }
            }
        }
        Ok(())
    }

    /// Adds the operations towards the peer at `position` unless they are puts alone, which a later operation in strong order places.
    fn add_reads(&mut self, position: usize) -> Result<()> {
        match self.thread.unfenced(position) {
            Unfenced::Flush(None) => Ok(()),
            // A read under way is in no order with the later operation, and one that has failed is reported.
            unfenced => self.add_work(position, unfenced),
        }
    }

    /// Completes the fence. Returns true if it ordered CPU stores too.
    #[inline]
    fn finish(&mut self) -> Result<bool> {
        if self.cpu {
            self.thread.counts().add(Count::FencesByCpu, 1);
            self.thread.fabric().cpu_fence();
        }
        if self.key.is_empty() && self.lost.peers.is_empty() {
            // Nothing is under way, so abandoned operations have ended, too.
            self.thread.pool().borrow_mut().free_ended();
            return Ok(self.cpu);
        }
        self.wait()
    }

    /// Waits for the operations that were added, and reports lost peers.
    fn wait(&mut self) -> Result<bool> {
        let thread = self.thread;
        let waited = self.key.wait(thread);
        match &waited {
            // The wait timed out: the operation is still outstanding, so a later fence waits again.
            Err(error) if error.is_timeout() => {}
            _ => {
                for &peer in self.key.peers() {
                    thread.mark_fenced(thread.network().position(peer)?);
                }
                // Abandoned operations have ended, too.
                thread.pool().borrow_mut().free_ended();
            }
        }
        std::mem::replace(&mut self.lost, LostPeers::new())
            .report(waited, |position| thread.mark_fenced(position))?;
        Ok(self.cpu || !self.key.is_empty())
    }
}

/// Waits until every operation that any thread of the node has posted is done and placed. Used when a channel is
/// dropped; needs no thread of its own. Waits for live peers even if others are gone, then reports the loss.
pub(crate) fn drain<F: Fabric>(network: &Network<F>, deadline: Option<Time>) -> Result<()> {
    let mut key = AckKey::done();
    let lost = post_flushes(network, deadline, &mut key)?;
    network.fabric().cpu_fence();
    if key.is_empty() {
        return lost.report(Ok(()), mark_pair::<F>);
    }
    let mut scratch = Vec::new();
    let wait = Wait {
        what: "operations outstanding when a channel is dropped",
        peers: Peers::None,
        deadline,
    };
    let waited = network.fabric().wait_for_completion(wait, || {
        if let Err(error) = network.completions().poll_waiting(&mut scratch) {
            return Some(Err(error.into()));
        }
        key.outcome()
    });
    lost.report(
        waited.map_err(Error::from).and_then(|ended| ended),
        mark_pair::<F>,
    )
}

/// The peers to which a fence could post no flush because they are lost, as whatever `P` marks them by.
struct LostPeers<P> {
    peers: Vec<P>,
    /// The error of the first of them.
    error: Option<Error>,
}

impl<P> LostPeers<P> {
    fn new() -> LostPeers<P> {
        LostPeers {
            peers: Vec::new(),
            error: None,
        }
    }

    /// Takes note of a flush to `peer` that could not be posted. Returns its error if that is another than the loss of the
    /// peer. `mark` marks a peer as fenced.
    #[cold]
    fn add(&mut self, peer: P, error: Error, mark: impl FnOnce(P)) -> Result<()> {
        if error.lost_peer().is_some() {
            self.peers.push(peer);
            self.error.get_or_insert(error);
            return Ok(());
        }
        if !error.is_timeout() {
            mark(peer);
        }
        Err(error)
    }

    /// Returns the outcome of the fence whose flushes ended with `waited`. Outstanding operations are lost with their peer. A
    /// fence that was not late says so, and later ones need not.
    fn report(self, waited: Result<()>, mark: impl FnMut(P)) -> Result<()> {
        if waited.as_ref().is_err_and(Error::is_timeout) {
            return waited;
        }
        self.peers.into_iter().for_each(mark);
        waited.and(self.error.map_or(Ok(()), Err))
    }
}

/// A queue pair of a thread: its queues, and the position of the peer.
type Pair<F> = (SharedQueues<F>, usize);

/// Marks a queue pair as fenced.
fn mark_pair<F: Fabric>((queues, position): Pair<F>) {
    queues.lock().mark_fenced(position);
}

/// Posts a flush on every queue pair of the node that has puts outstanding, and adds the operations to wait for to `key`.
/// Returns those whose peer is lost: the caller waits for the others before it reports the loss.
fn post_flushes<F: Fabric>(
    network: &Network<F>,
    deadline: Option<Time>,
    key: &mut AckKey<F>,
) -> Result<LostPeers<Pair<F>>> {
    let mut lost = LostPeers::new();
    for queues in network.shared_queues() {
        for position in 0..network.fabric().nodes().len() {
            if let Err(error) = post_flush(network, &queues, position, deadline, key) {
                lost.add((queues.clone(), position), error, mark_pair::<F>)?;
            }
        }
    }
    Ok(lost)
}

/// Posts a flush on a queue pair of `shared` if it has puts outstanding, and adds the operations to wait for to
/// `key`.
fn post_flush<F: Fabric>(
    network: &Network<F>,
    shared: &SharedQueues<F>,
    position: usize,
    deadline: Option<Time>,
    key: &mut AckKey<F>,
) -> Result<()> {
    let peer = network.fabric().nodes()[position];
    // `None` means that there is no room. The thread then waits, without the lock, until polling has made
    // some.
    let mut attempt = || {
        let mut queues = shared.lock();
        let window = queues.window().clone();
        let seq = match queues.unfenced(position, network.placed_on_post()) {
            Unfenced::Nothing | Unfenced::CpuFence(None) => return Some(Ok(())),
            Unfenced::WaitFor(seq) | Unfenced::CpuFence(Some(seq)) => {
                network.counts().add(Count::FencesByWait, 1);
                seq
            }
            Unfenced::Flush(_) => {
                let work = Work::signaled(loco_fabric::WorkRequestId(0));
                let flush = |queue: &mut F::QueuePair, work| queue.flush(work);
                let posted = queues.post(network.fabric(), peer, OperationKind::Flush, work, flush);
                if let Ok(Attempt::Done | Attempt::Pending(_)) = posted {
                    network.counts().add(Count::Flushes, 1);
                    network.counts().add(Count::FencesByFlush, 1);
                }
                match posted {
                    Ok(Attempt::Done) => return Some(Ok(())),
                    Ok(Attempt::Pending(seq)) => seq,
                    Ok(Attempt::WindowFull) | Err(FabricError::QueueFull(_)) => return None,
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        key.insert(&window, seq, peer);
        Some(Ok(()))
    };
    let posted = match attempt() {
        Some(posted) => posted,
        None => {
            let mut scratch = Vec::new();
            let wait = Wait {
                what: "room in a send queue",
                peers: Peers::One(peer),
                deadline,
            };
            network.fabric().wait(wait, || {
                if let Err(error) = network.completions().poll_waiting(&mut scratch) {
                    return Some(Err(error));
                }
                attempt()
            })?
        }
    };
    Ok(posted?)
}
