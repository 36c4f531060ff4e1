//! Completion tracking (LOCO'26 C.1): records which posted operations have ended.
//!
//! Each thread has a window of 64 Ki slots for its operations under way, so that threads that post share
//! nothing. A work request id names the window in its high bits and the operation's sequence number in the
//! low bits. A thread that polls the fabric records the end in the window's [`slots`](super::slots), where a
//! waiting thread looks. On a fabric that completes operations within the call, nothing here is ever touched.
//!
//! A future leaves its waker with the one operation that it waits for next. The thread that polls that operation's
//! completion wakes it: [`Completions::poll`]. While futures are asleep some thread must poll. If waiters do that
//! themselves, the first future that sleeps starts the polling thread of the node, which polls as long as any future
//! sleeps. If the node has a doorbell, which rings for completions, the thread sleeps when none has come for a while.
//! A thread that polls a completion rings, as others may sleep until it is recorded.

use std::cell::Cell;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use loco_fabric::{
    AtomicCell, Completion, CompletionStatus, Doorbell, Fabric, FabricError, Lock, Peers, Platform, RwLock,
    Task, ThreadKind, Wait, WorkRequestId,
};

use loco_trace::timeline;

use crate::operations::counts::{Count, NodeCounts};
use crate::operations::panics;
use crate::operations::platform::{AtomicU32Of, AtomicU64Of, MutexOf, RwLockOf, TaskOf};
use crate::operations::slots::Slots;
use crate::{Error, Result};

const SEQUENCE_BITS: u32 = 48;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
/// The maximum number of threads. Thread indices are 16 bits, and the last one is kept for [`UNTRACKED`].
const THREADS_MAX: usize = (1 << (64 - SEQUENCE_BITS)) - 1;

/// The time without completions after which the polling thread sleeps by the doorbell.
const AWAKE: Duration = Duration::from_micros(200);
/// The longest sleep by the doorbell.
const SLEEP_BY_BELL_MAX: Duration = Duration::from_secs(1);

/// All windows of a node. Completions are recorded through it.
pub(crate) struct Completions<F: Fabric> {
    fabric: F,
    windows: RwLockOf<F, Vec<Arc<Window<F>>>>,
    /// Set if the polling thread always polls or sleeps by the doorbell, and waiters leave polling to it.
    polls_by_thread: bool,
    /// The node's doorbell, if the fabric has one.
    bell: Option<Arc<dyn Doorbell>>,
    /// The polling thread, once it is needed.
    poller: MutexOf<F, Option<TaskOf<F>>>,
    /// The number of futures that sleep until an operation of this node ends.
    asleep: AtomicU64Of<F>,
    /// 1 when the polling thread is to end because the node goes down.
    stopped: AtomicU32Of<F>,
    names: AtomicU64Of<F>,
    counts: NodeCounts,
}

impl<F: Fabric> Completions<F> {
    pub(crate) fn new(
        fabric: F,
        polls_by_thread: bool,
        bell: Option<Arc<dyn Doorbell>>,
        counts: NodeCounts,
    ) -> Arc<Completions<F>> {
        Arc::new(Completions {
            fabric,
            windows: RwLock::new(Vec::new()),
            polls_by_thread,
            bell,
            poller: Lock::new(None),
            asleep: AtomicCell::new(0),
            stopped: AtomicCell::new(0),
            names: AtomicCell::new(1),
            counts,
        })
    }

    /// Returns the fabric whose completions these are.
    pub(crate) fn fabric(&self) -> &F {
        &self.fabric
    }

    /// Returns true if waiters leave the polling to the polling thread.
    pub(crate) fn polls_by_thread(&self) -> bool {
        self.polls_by_thread
    }

    /// Starts the polling thread unless it runs.
    ///
    /// # Errors
    /// Returns `Closed` when the node goes down, or `Os` when the thread cannot be started.
    pub(crate) fn start_poller(self: &Arc<Self>) -> Result<()> {
        let mut poller = self.poller.lock();
        // The flag is read under the lock, which `stop` takes after it has set it.
        if self.stopped.load() != 0 {
            return Err(Error::Closed);
        }
        if poller.is_none() {
            let completions = self.clone();
            let name = format!("loco-poll-{}", self.fabric.node().0);
            let body = move || completions.poll_until_stopped();
            *poller = Some(self.fabric.platform().spawn(&name, ThreadKind::Service, body)?);
        }
        Ok(())
    }

    /// Ends the polling thread, if there is one, and wakes the futures that sleep.
    pub(crate) fn stop(&self) {
        self.stopped.store_fence(1);
        self.ring();
        let poller = self.poller.lock().take();
        // A waker that the polling thread called may have had the last handle on the node. The thread ends when that waker
        // returns.
        if let Some(Err(error)) = poller.filter(|task| !task.is_current()).map(Task::join) {
            tracing::warn!(%error, "the polling thread ended badly");
        }
        self.wake_all();
    }

    /// Wakes the threads of this node that sleep by its doorbell.
    fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Returns true while the polling thread is to poll.
    fn wanted(&self) -> bool {
        self.polls_by_thread || self.asleep.load() != 0
    }

    /// Sleeps until the doorbell rings, unless there is something to do.
    fn sleep(
        &self,
        bell: &dyn Doorbell,
        began_wanted: bool,
        scratch: &mut Vec<Completion>,
    ) -> Result<(), FabricError> {
        let Some(armed) = bell.arm() else {
            return Ok(());
        };
        let changed = || self.stopped.load() != 0 || self.wanted() != began_wanted;
        let to_do = changed() || (began_wanted && self.poll(scratch)? > 0);
        if !to_do {
            bell.sleep(armed, SLEEP_BY_BELL_MAX);
        }
        Ok(())
    }

    /// Runs the polling thread. It waits by the fabric's waiting primitive, and therefore checks regularly whether it
    /// is to end. If nothing comes for a while, it sleeps by the doorbell, if there is one.
    fn poll_until_stopped(&self) {
        let mut scratch = Vec::new();
        let wait = Wait {
            what: "completions to poll",
            peers: Peers::None,
            deadline: None,
        };
        while self.stopped.load() == 0 {
            // Each period of polling is a new wait, because the pauses of a wait grow.
            let began_wanted = self.wanted();
            let ready = || {
                if self.stopped.load() != 0 || self.wanted() != began_wanted {
                    return Some(Ok(0));
                }
                if !began_wanted {
                    return None;
                }
                match self.poll(&mut scratch) {
                    Ok(0) => None,
                    polled => Some(polled),
                }
            };
            let waited = match &self.bell {
                None => self.fabric.wait(wait, ready),
                Some(bell) => match self.fabric.wait_within(wait, AWAKE, ready) {
                    Err(FabricError::Timeout { .. }) => {
                        self.sleep(&**bell, began_wanted, &mut scratch).map(|()| Ok(0))
                    }
                    waited => waited,
                },
            };
            if let Err(error) | Ok(Err(error)) = waited {
                tracing::error!(%error, "polling ends: the fabric is broken");
                // The futures look at the fabric themselves, and find it broken.
                self.wake_all();
                return;
            }
        }
    }

    fn wake_all(&self) {
        let mut woken = Vec::new();
        for window in self.windows.read().iter() {
            window.slots.take_wakers(0..=u64::MAX, &mut woken);
        }
        self.wake(woken);
    }

    /// Returns a window for a new thread.
    pub(crate) fn new_window(self: &Arc<Self>) -> Result<Arc<Window<F>>> {
        let mut windows = self.windows.write();
        if windows.len() >= THREADS_MAX {
            return Err(Error::TooManyThreads { max: THREADS_MAX });
        }
        // The number is below THREADS_MAX, so it fits.
        let index = windows.len() as u64;
        let window = Arc::new(Window {
            index,
            slots: Slots::new(!self.fabric.caps().synchronous),
            completions: Arc::downgrade(self),
        });
        windows.push(window.clone());
        Ok(window)
    }

    /// Polls between two looks of a thread that waits for completions, unless the polling thread does that.
    pub(crate) fn poll_waiting(&self, scratch: &mut Vec<Completion>) -> Result<(), FabricError> {
        if !self.polls_by_thread || WAKES.get() {
            self.poll(scratch)?;
        }
        Ok(())
    }

    /// Takes completions from the fabric and records them. Returns their number.
    pub(crate) fn poll(&self, scratch: &mut Vec<Completion>) -> Result<usize, FabricError> {
        scratch.clear();
        let count = self.fabric.poll(scratch)?;
        if scratch.is_empty() {
            return Ok(0);
        }
        self.counts.add(Count::Completions, scratch.len() as u64);
        let mut woken = Vec::new();
        let windows = self.windows.read();
        for completion in scratch.drain(..) {
            if timeline::is_on() {
                let how = match completion.status {
                    CompletionStatus::Success => "completed",
                    CompletionStatus::Failed(_) => "failed",
                };
                timeline::completed(self.fabric.node(), how, completion.peer);
            }
            let index = completion.id.0 >> SEQUENCE_BITS;
            match windows.get(usize::try_from(index).unwrap_or(usize::MAX)) {
                Some(window) => window.end(completion, &mut woken),
                // An untracked operation failed. Its queue pair reports every later one as failed too.
                None => tracing::warn!(peer = %completion.peer, status = ?completion.status,
                                       "an untracked operation ended"),
            }
        }
        drop(windows);
        self.ring();
        // No lock is held here: a waker may do anything, even poll its future again or drop the last handle on the node.
        if !woken.is_empty() {
            let _outer = Waking(WAKES.replace(true));
            self.wake(woken);
        }
        Ok(count)
    }

    /// Calls wakers. They are code of the program's executor: the panic of one must reach neither the others nor whoever
    /// polls.
    fn wake(&self, woken: Vec<Waker>) {
        for waker in woken {
            panics::wake(self.fabric.platform(), waker);
        }
    }
}

thread_local! {
    /// True while this thread calls the wakers of what it has polled. A waker that waits for completions then polls for
    /// itself: on the polling thread, no other thread would poll for it.
    static WAKES: Cell<bool> = const { Cell::new(false) };
}

/// Restores [`WAKES`], also when a waker panics.
struct Waking(bool);

impl Drop for Waking {
    fn drop(&mut self) {
        WAKES.set(self.0);
    }
}

/// The operations of one thread that are under way.
pub(crate) struct Window<F: Fabric> {
    index: u64,
    slots: Slots<F::Platform>,
    completions: Weak<Completions<F>>,
}

impl<F: Fabric> Window<F> {
    /// Returns the name of the window among those of its node, which is never 0.
    #[inline]
    pub(crate) fn name(&self) -> u64 {
        self.index + 1
    }

    /// Returns the work request id of operation `seq` (from 1).
    pub(crate) fn id(&self, seq: u64) -> WorkRequestId {
        debug_assert!(seq > 0 && seq <= SEQUENCE_MASK);
        WorkRequestId(self.index << SEQUENCE_BITS | seq)
    }

    /// Returns the slots of the window.
    #[inline]
    pub(crate) fn slots(&self) -> &Slots<F::Platform> {
        &self.slots
    }

    /// Returns the source of completions, or `None` once the manager is gone.
    pub(crate) fn completions(&self) -> Option<Arc<Completions<F>>> {
        self.completions.upgrade()
    }

    /// Records the end of an operation, and adds to `woken` the wakers of the futures that sleep until that end.
    fn end(&self, completion: Completion, woken: &mut Vec<Waker>) {
        let error = match completion.status {
            CompletionStatus::Success => None,
            CompletionStatus::Failed(error) => {
                tracing::debug!(peer = %completion.peer, %error, "operation failed");
                Some(*error)
            }
        };
        self.slots.end(completion.id.0 & SEQUENCE_MASK, error, woken);
    }
}

/// The sleep of a future until one operation ends. Once the `Sleep` is dropped, the future is not woken any more.
pub(crate) struct Sleep<F: Fabric> {
    completions: Arc<Completions<F>>,
    window: Arc<Window<F>>,
    seq: u64,
    name: u64,
}

impl<F: Fabric> Sleep<F> {
    /// Begins a sleep until operation `seq` of `window` ends; [`renew`](Sleep::renew) leaves the waker.
    pub(crate) fn new(completions: Arc<Completions<F>>, window: Arc<Window<F>>, seq: u64) -> Sleep<F> {
        if completions.asleep.fetch_add(1) == 0 {
            // The polling thread may sleep because nobody wanted it.
            completions.ring();
        }
        Sleep {
            name: completions.names.fetch_add(1),
            completions,
            window,
            seq,
        }
    }

    /// Returns true if the future sleeps for this operation.
    pub(crate) fn is_for(&self, window: &Arc<Window<F>>, seq: u64) -> bool {
        self.seq == seq && Arc::ptr_eq(&self.window, window)
    }

    /// Leaves `waker` in place of an earlier one. The caller must look at the operation again afterwards: if the
    /// operation has ended in between, either that look sees it or the waker is called.
    pub(crate) fn renew(&self, waker: &Waker) {
        self.window.slots.leave_waker(self.seq, self.name, waker);
    }
}

impl<F: Fabric> Drop for Sleep<F> {
    fn drop(&mut self) {
        self.completions.asleep.fetch_add(u64::MAX); // one less
        self.window.slots.take_waker_back(self.seq, self.name);
    }
}
