//! The card: a thread that executes posted operations later, choosing at random among the permitted steps.
//!
//! One lock guards everything; the NIC takes it for some steps at a time. Each operation and stage rests separately, so that queue pairs progress independently.
//!
//! The races that are seen must not depend on when the host runs the NIC's thread. The NIC therefore also takes turns
//! within the calls of the node's threads (each poll, and about every other post), like a card that is faster than the
//! threads. A rest lasts for a number of such calls as well as for a time ([`Rest`](super::dice::Rest)). On every
//! node alike, a put that rests is therefore still unplaced when its thread has gone on.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loco_fabric::{Completion, Control, Doorbell, Fabric, FabricError, NodeId, QueuePair, Result};
use loco_host::word;

use super::dice::{Dice, Moment};
use super::discipline::Discipline;
use super::nic::Nic;
use super::operation::PostedOperation;
use super::send_queue::SendQueue;

/// The longest time between two checks for lost peers while operations are outstanding.
const LOOK_AT_PEERS: Duration = Duration::from_millis(1);
/// The rests below which the NIC yields instead of sleeping: the system's sleeps are not that short.
const YIELD_BELOW: Duration = Duration::from_micros(60);

/// The number of powers of two to choose from: before others have a turn the NIC makes 1, 2 or 4 steps.
const BURST_DOUBLINGS: u64 = 3;

/// The mean number of bursts before the NIC yields the processor, so that threads without one see half-done
/// operations.
const YIELDS: u64 = 4;
/// The pause after other bursts, in hints to the processor.
const LOOKS: u32 = 50;
/// The unit of the time without calls after which rests in calls end. That time is between 1 us and 16 us, and
/// between 1 and 8 looks of the NIC's thread, each power of two equally likely.
const PATIENCE: Duration = Duration::from_micros(1);
const PATIENCE_DOUBLINGS: u64 = 5;
const LOOK_DOUBLINGS: u64 = 4;

/// The position of a queue pair's queue.
pub(super) type QueueId = usize;

/// A node's card. When dropped, it places the posted operations and stops.
pub(super) struct Card<F: Fabric> {
    shared: Arc<Shared<F>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<F: Fabric> {
    state: Mutex<State<F>>,
    /// Signals that an operation was posted, or that the NIC is to stop.
    changed: Condvar,
    /// Set when there is something to poll. It avoids the lock when there is nothing. Written under the lock.
    waiting: AtomicBool,
    /// The number of calls (posts and polls) of the node's threads.
    calls: AtomicU64,
    /// The doorbell of this node. It is rung after steps, and when operations have ended without one. Those of peers are rung
    /// by the queue pairs.
    bell: Option<Arc<dyn Doorbell>>,
    delay_max: Duration,
    queue_depth: usize,
    discipline: Discipline,
}

struct State<F: Fabric> {
    /// The queues by position, each with the queue pair for its steps. A closed queue leaves its place to the next one.
    queues: Vec<Option<(SendQueue<F>, F::QueuePair)>>,
    completions: Vec<Completion>,
    /// Set when there are completions, or room in a queue, that the NIC has not announced.
    found: bool,
    dice: Dice,
    /// Set while the NIC waits for [`Shared::changed`].
    waits: bool,
    stop: bool,
    /// Scratch space for the steps that may come next.
    awake: Vec<(QueueId, usize)>,
}

impl<F: Fabric> Shared<F> {
    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> Moment {
        Moment {
            now: Instant::now(),
            // Relaxed: it only measures time.
            calls: self.calls.load(Ordering::Relaxed),
        }
    }

    /// Gives the NIC a turn: some steps, if any may come next.
    fn turn(&self, state: &mut State<F>, moment: Moment) -> Next {
        // The stores that the calling thread made before come before the NIC's steps (LOCO'26 Fig. 10, B6 and B8).
        word::full_fence();
        let next = state.steps(self.delay_max, moment);
        // Relaxed: see `poll`.
        if std::mem::take(&mut state.found) && !self.waiting.swap(true, Ordering::Relaxed) {
            // There was nothing to poll before. Operations may have failed without a step.
            self.ring();
        }
        next
    }

    /// Tells the threads of this node that something may have changed.
    fn ring(&self) {
        self.bell.iter().for_each(|bell| bell.ring());
    }
}

impl<F: Fabric> Card<F> {
    /// Starts the card of a node of `fabric`.
    ///
    /// # Errors
    /// Returns [`FabricError::Os`] if its thread cannot be started.
    pub(super) fn start(fabric: &F, nic: &Nic) -> Result<Card<F>> {
        let node = fabric.node();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queues: Vec::new(),
                completions: Vec::new(),
                found: false,
                waits: false,
                awake: Vec::new(),
                // Nodes that share a seed still make different choices.
                dice: Dice::new(nic.seed ^ u64::from(node.0).rotate_left(32)),
                stop: false,
            }),
            changed: Condvar::new(),
            waiting: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            bell: fabric.doorbell(),
            delay_max: nic.delay_max,
            queue_depth: nic.queue_depth,
            discipline: nic.discipline.clone(),
        });
        let (its, fabric) = (Arc::clone(&shared), fabric.clone());
        let thread = std::thread::Builder::new()
            .name(format!("nic of {node}"))
            .spawn(move || run(&its, &fabric))
            .map_err(|error| FabricError::os("starting the thread of the deferred NIC", &error))?;
        Ok(Card {
            shared,
            thread: Some(thread),
        })
    }

    /// Opens a queue, whose operations are executed by `qp`.
    pub(super) fn open(&self, qp: F::QueuePair) -> QueueId {
        let mut state = self.shared.lock();
        let queue = SendQueue::new(qp.peer(), self.shared.queue_depth, self.shared.discipline.clone());
        let queue = (queue, qp);
        if let Some(free) = state.queues.iter().position(Option::is_none) {
            state.queues[free] = Some(queue);
            free
        } else {
            state.queues.push(Some(queue));
            state.queues.len() - 1
        }
    }

    /// Closes a queue: nothing more will be posted to it. Posted operations still run.
    pub(super) fn close(&self, id: QueueId) {
        let mut state = self.shared.lock();
        if let Some(Some((queue, _))) = state.queues.get_mut(id) {
            queue.closed = true;
            if queue.is_empty() {
                state.queues[id] = None;
            }
        }
    }

    pub(super) fn post(&self, id: QueueId, request: PostedOperation<F>) -> Result<()> {
        let shared = &*self.shared;
        let mut state = shared.lock();
        shared.calls.fetch_add(1, Ordering::Relaxed);
        let moment = shared.moment();
        let State { queues, dice, .. } = &mut *state;
        // A queue lives at least as long as its queue pair.
        if let Some(Some((queue, _))) = queues.get_mut(id) {
            queue.post(request, dice.rest(moment, shared.delay_max))?;
        }
        let next = match dice.coin() {
            true => shared.turn(&mut state, moment),
            false => Next::Idle,
        };
        // A signal that nobody awaits costs a system call.
        let waits = state.waits;
        drop(state);
        if waits {
            shared.changed.notify_one();
        }
        if matches!(next, Next::Stepped) {
            shared.ring();
        }
        Ok(())
    }

    pub(super) fn poll(&self, completions: &mut Vec<Completion>) -> usize {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        // If the lock is taken, the NIC is at work.
        if let Ok(mut state) = self.shared.state.try_lock() {
            let next = self.shared.turn(&mut state, self.shared.moment());
            drop(state);
            if matches!(next, Next::Stepped) {
                self.shared.ring();
            }
        }
        // Relaxed: this is only a hint, and the lock orders the rest. The next call finds what this one
        // misses.
        if !self.shared.waiting.load(Ordering::Relaxed) {
            return 0;
        }
        let mut state = self.shared.lock();
        self.shared.waiting.store(false, Ordering::Relaxed);
        for (queue, _) in state.queues.iter_mut().flatten() {
            queue.polled();
        }
        let count = state.completions.len();
        completions.append(&mut state.completions);
        count
    }
}

impl<F: Fabric> fmt::Debug for Card<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Card")
            .field("discipline", &self.shared.discipline)
            .finish_non_exhaustive()
    }
}

impl<F: Fabric> Drop for Card<F> {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Runs the NIC's thread.
fn run<F: Fabric>(shared: &Shared<F>, fabric: &F) {
    let control = fabric.control();
    let mut departures_seen = 0;
    let mut state = shared.lock();
    let mut idle = IdlePeriod::since(shared.moment(), &mut state.dice);
    loop {
        let departures = control.departures();
        if departures != departures_seen {
            departures_seen = departures;
            state.fail_lost(control);
        }
        let stop = state.stop;
        let moment = shared.moment();
        let next = shared.turn(&mut state, moment);
        state = match next {
            Next::Stepped => {
                let yields = state.dice.below(YIELDS) == 0;
                drop(state);
                // The step may have changed the memory of any node.
                shared.ring();
                // Lets others post and poll: this lock is not fair. On a busy host a thread that yields may be away for
                // milliseconds.
                if yields {
                    std::thread::yield_now();
                } else {
                    (0..LOOKS).for_each(|_| std::hint::spin_loop());
                }
                shared.lock()
            }
            Next::Idle if stop => return,
            Next::Idle => wait(shared, state, None),
            Next::Listen(calls) => {
                if idle.calls != moment.calls {
                    idle = IdlePeriod::since(moment, &mut state.dice);
                } else if idle.is_over(moment.now) {
                    // The threads do something else, or sleep until the NIC has done its part.
                    shared.calls.fetch_max(calls, Ordering::Relaxed);
                }
                drop(state);
                std::thread::yield_now();
                shared.lock()
            }
            Next::Rest(rest) if rest < YIELD_BELOW => {
                drop(state);
                std::thread::yield_now();
                shared.lock()
            }
            Next::Rest(rest) => wait(shared, state, Some(rest.min(LOOK_AT_PEERS))),
        };
    }
}

/// A time without calls, in which the NIC is patient.
struct IdlePeriod {
    /// The number of calls at its beginning.
    calls: u64,
    /// The earliest time at which it ends.
    until: Instant,
    /// The number of looks until then, between which others may run. On a busy host time alone is no measure.
    looks: u32,
}

impl IdlePeriod {
    fn since(moment: Moment, dice: &mut Dice) -> IdlePeriod {
        IdlePeriod {
            calls: moment.calls,
            until: moment.now + PATIENCE * (1 << dice.below(PATIENCE_DOUBLINGS)),
            looks: 1 << dice.below(LOOK_DOUBLINGS),
        }
    }

    /// Notes a look. Returns true if the NIC has waited long enough.
    fn is_over(&mut self, now: Instant) -> bool {
        self.looks = self.looks.saturating_sub(1);
        self.looks == 0 && now >= self.until
    }
}

fn wait<'a, F: Fabric>(
    shared: &Shared<F>,
    mut state: MutexGuard<'a, State<F>>,
    limit: Option<Duration>,
) -> MutexGuard<'a, State<F>> {
    state.waits = true;
    let mut state = match limit {
        None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        Some(limit) => {
            let waited = shared.changed.wait_timeout(state, limit);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
    };
    state.waits = false;
    state
}

/// The next action of the NIC.
enum Next {
    /// The NIC made a step.
    Stepped,
    /// The operations that may run next rest for this time.
    Rest(Duration),
    /// The operation whose rest is over first rests until this number of calls.
    Listen(u64),
    /// No operation is posted.
    Idle,
}

impl<F: Fabric> State<F> {
    /// Runs some permitted steps, each chosen at random. Others can neither post nor poll between them. Often it is
    /// one step only.
    fn steps(&mut self, delay_max: Duration, moment: Moment) -> Next {
        let burst = 1 << self.dice.below(BURST_DOUBLINGS);
        for made in 0..burst {
            match self.step(delay_max, moment) {
                Next::Stepped => {}
                _ if made > 0 => break,
                next => return next,
            }
        }
        Next::Stepped
    }

    /// Runs one permitted step, chosen at random.
    fn step(&mut self, delay_max: Duration, moment: Moment) -> Next {
        let State {
            queues, awake, stop, ..
        } = self;
        awake.clear();
        let (mut left, mut calls): (Option<Duration>, Option<u64>) = (None, None);
        let now = moment.now;
        for (id, queue) in queues.iter_mut().enumerate() {
            let Some((queue, _)) = queue else { continue };
            queue.candidates(|index, rest| {
                // A NIC that stops does the remaining steps at once.
                if *stop || (rest.until <= now && rest.calls <= moment.calls) {
                    awake.push((id, index));
                } else if rest.until <= now {
                    calls = Some(calls.map_or(rest.calls, |calls| calls.min(rest.calls)));
                } else {
                    let its = rest.until - now;
                    left = Some(left.map_or(its, |left| left.min(its)));
                }
            });
        }
        #[allow(clippy::cast_possible_truncation)] // Below `awake.len()`.
        let choice = self.dice.below(self.awake.len() as u64) as usize;
        let Some(&(id, index)) = self.awake.get(choice) else {
            let rest = || left.map_or(Next::Idle, Next::Rest);
            return calls.map_or_else(rest, Next::Listen);
        };
        if let Some((queue, qp)) = &mut self.queues[id] {
            match queue.step(index, qp, &mut self.dice, delay_max, moment) {
                Ok(()) => {}
                Err(error @ FabricError::DeclaredLost) => {
                    self.fail(|_| Some(error.clone()));
                    return Next::Stepped;
                }
                Err(error @ FabricError::PeerLost(lost)) => {
                    self.fail(|peer| (peer == lost).then(|| error.clone()));
                    return Next::Stepped;
                }
                // Ranges and alignment were checked when the operation was posted.
                Err(error) => unreachable!("a checked operation failed: {error}"),
            }
            self.found |= queue.complete(&mut self.completions);
            if queue.closed && queue.is_empty() {
                self.queues[id] = None;
            }
        }
        Next::Stepped
    }

    fn fail_lost(&mut self, control: &F::Control) {
        self.fail(|peer| control.is_gone(peer).then_some(FabricError::PeerLost(peer)));
    }

    /// Fails the posted operations towards those peers for which there is an error.
    fn fail(&mut self, error: impl Fn(NodeId) -> Option<FabricError>) {
        for slot in &mut self.queues {
            if let Some((queue, _)) = slot
                && let Some(error) = error(queue.peer)
            {
                queue.fail(&error, &mut self.completions);
                if queue.closed {
                    *slot = None;
                }
            }
        }
        self.found |= !self.completions.is_empty();
    }
}
