//! The driver: the one thread of a node that waits for all asynchronous calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use loco_fabric::{AtomicCell, Doorbell, Fabric, FabricError, Platform, Time};
use loco_host::fiber::{Fiber, Paused, Resume};

use crate::asynchronous::call::GivenUp;
use crate::asynchronous::call_queue::{Calls, Start, make};
use crate::asynchronous::thread::AsyncThread;
use crate::fabric::AnyFabric;
use crate::operations::panics;
use crate::{Manager, Result};

/// The number of rounds without pauses in which nothing happens. A round looks at all calls, one after the other.
const SPINS: u32 = 100;
/// The number of further rounds between which the core is offered to others.
const YIELDS: u32 = 200;
/// The first sleep between later rounds.
const SLEEP_MIN: Duration = Duration::from_micros(5);
const SLEEP_MAX: Duration = Duration::from_micros(100);
/// The longest sleep by the doorbell, unless the program says otherwise.
const SLEEP_BY_BELL_MAX: Duration = Duration::from_secs(1);

/// Waits for the asynchronous calls of a node on one thread. It is a cheap handle. See the [module](super).
///
/// The thread ends when the last handle, the last [`AsyncThread`] and the last call have ended. Without calls that wait it
/// sleeps and takes no processor time.
pub struct Driver<F: Fabric = AnyFabric> {
    manager: Manager<F>,
    calls: Calls<F>,
    rounds: Arc<AtomicU64>,
}

impl<F: Fabric> Driver<F> {
    /// Starts the driver's thread. One driver for each node suffices.
    ///
    /// # Errors
    /// Returns [`Os`](crate::fabric::FabricError::Os) when the system refuses another thread.
    pub fn new(manager: &Manager<F>) -> Result<Driver<F>> {
        Driver::with_sleep_max(manager, SLEEP_BY_BELL_MAX)
    }

    /// Starts the driver's thread, as [`new`](Driver::new) does. The thread sleeps for `sleep_max` at most where the
    /// node's doorbell would wake it. If a node is stopped just before it rings the doorbell, a call is delayed by up
    /// to `sleep_max`. [`new`](Driver::new) uses one second.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Driver::new).
    pub fn with_sleep_max(manager: &Manager<F>, sleep_max: Duration) -> Result<Driver<F>> {
        let rounds = Arc::new(AtomicU64::new(0));
        let bell = manager.network().bell().cloned();
        let driver = |starts| Driver {
            manager: manager.clone(),
            calls: Calls::new(starts, bell.clone()),
            rounds: rounds.clone(),
        };
        let platform = manager.network().fabric().platform().clone();
        if !platform.has_fibers() {
            return Ok(driver(None));
        }
        let (starts, arriving) = channel();
        let name = format!("loco-async-{}", manager.node().0);
        let (sleeps_by, counts) = (bell.clone(), rounds.clone());
        std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || drive(&platform, &arriving, sleeps_by.as_deref(), sleep_max, &counts))
            .map_err(|error| FabricError::os(format!("starting thread `{name}`"), &error))?;
        Ok(driver(Some(starts)))
    }

    /// Returns how many times the driver has looked at its calls. The number stands still while the driver sleeps.
    pub fn rounds(&self) -> u64 {
        // Relaxed: the number publishes no other data.
        self.rounds.load(Ordering::Relaxed)
    }

    /// Returns access to the network for one sequence of asynchronous calls, as [`Manager::thread`] does for a
    /// thread.
    ///
    /// # Errors
    /// Returns [`TooManyThreads`](crate::Error::TooManyThreads).
    pub fn thread(&self) -> Result<AsyncThread<F>> {
        Ok(AsyncThread::new(self.manager.thread()?, self.calls.clone()))
    }
}

impl<F: Fabric> Clone for Driver<F> {
    fn clone(&self) -> Self {
        Driver {
            manager: self.manager.clone(),
            calls: self.calls.clone(),
            rounds: self.rounds.clone(),
        }
    }
}

/// A call that has begun.
struct Running<P: Platform> {
    fiber: Fiber,
    given_up: GivenUp<P>,
}

impl<P: Platform> Running<P> {
    /// Begins a call; `None` if there is nothing to run.
    fn new<F: Fabric<Platform = P>>(start: Start<F>) -> Option<Running<P>> {
        let Start {
            call_queue,
            thread,
            job,
        } = start.unless_given_up()?;
        let given_up = job.given_up.clone();
        // The work is taken back from here if there is no stack.
        let work = std::rc::Rc::new(std::cell::Cell::new(Some((call_queue, thread, job.body))));
        let its = work.clone();
        let body = move || {
            if let Some((call_queue, thread, body)) = its.take() {
                make(call_queue, thread, body);
            }
        };
        match Fiber::new(body) {
            Ok(fiber) => Some(Running { fiber, given_up }),
            Err(error) => {
                if let Some((call_queue, thread, body)) = work.take() {
                    panics::contain(&thread.platform(), || body(Err(error.into())));
                    call_queue.give_back(thread);
                }
                None
            }
        }
    }
}

/// Runs the driver's thread: examines every call in rounds, and pauses after rounds in which nothing happened, like a
/// thread that waits. A call that arrives ends the pause. If the node has a doorbell that covers all waits, the
/// thread sleeps until it rings.
fn drive<F: Fabric>(
    platform: &F::Platform,
    arriving: &Receiver<Start<F>>,
    bell: Option<&dyn Doorbell>,
    sleep_max: Duration,
    rounds: &AtomicU64,
) {
    let mut running: Vec<Running<F::Platform>> = Vec::new();
    let mut pauses = Pauses::default();
    // The time of the next check without a ring; `None` if some call needs rounds.
    let mut rung_or_at = None;
    loop {
        let mut armed = None;
        let first = if running.is_empty() {
            match arriving.recv() {
                Ok(start) => Some(start),
                // No handle and no call is left.
                Err(_) => return,
            }
        } else {
            match pauses.next(bell.is_some() && rung_or_at.is_some()) {
                Pause::No => arriving.try_recv().ok(),
                Pause::For(pause) => arriving.recv_timeout(pause).ok(),
                Pause::UntilRung => {
                    armed = bell.and_then(Doorbell::arm);
                    arriving.try_recv().ok()
                }
            }
        };
        let mut moved = first.is_some();
        running.extend(
            first
                .into_iter()
                .chain(arriving.try_iter())
                .filter_map(Running::new),
        );
        rung_or_at = Some(Time::NEVER);
        running.retain_mut(|call| match call.look() {
            Look::Waits { advanced, until } => {
                moved |= advanced;
                rung_or_at = rung_or_at.and_then(|at| until.map(|until| at.min(until)));
                true
            }
            Look::Over => {
                moved = true;
                false
            }
        });
        // Relaxed: the number publishes no other data.
        rounds.fetch_add(1, Ordering::Relaxed);
        if moved {
            pauses = Pauses::default();
        } else if let (Some(bell), Some(armed), Some(at)) = (bell, armed, rung_or_at) {
            // Everything was looked at since the doorbell was armed.
            bell.sleep(armed, at.since(platform.now()).min(sleep_max));
        }
    }
}

/// The outcome of a look at a call.
enum Look {
    /// The call waits. `advanced` and `until` are the fields of [`Paused::Waits`].
    Waits {
        advanced: bool,
        until: Option<Time>,
    },
    Over,
}

impl<P: Platform> Running<P> {
    /// Runs the call until it waits again, or is over.
    fn look(&mut self) -> Look {
        let with = match self.given_up.load() != 0 {
            false => Resume::GoOn,
            true => Resume::GiveUp,
        };
        match self.fiber.resume(with) {
            Paused::Waits { advanced, rung_or_at } => Look::Waits {
                advanced,
                until: rung_or_at,
            },
            Paused::Ended(end) => {
                if end.is_err() {
                    // Panics of calls are caught where the outcome is left.
                    tracing::error!("an asynchronous call ended badly");
                }
                Look::Over
            }
        }
    }
}

/// The pauses between rounds in which nothing happens.
struct Pauses {
    spins: u32,
    yields: u32,
    sleep: Duration,
    /// The last sleep was ended by a ring that helped no call.
    slept: bool,
}

/// The action before the next round.
enum Pause {
    No,
    For(Duration),
    /// Arms the doorbell, and sleeps after the round if nothing has happened.
    UntilRung,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses {
            spins: SPINS,
            yields: YIELDS,
            sleep: SLEEP_MIN,
            slept: false,
        }
    }
}

impl Pauses {
    /// Returns the pause before the next round. `rings` says that the doorbell covers all waits.
    fn next(&mut self, rings: bool) -> Pause {
        if self.spins > 0 {
            self.spins -= 1;
            std::hint::spin_loop();
            return Pause::No;
        }
        if self.yields > 0 {
            self.yields -= 1;
            std::thread::yield_now();
            return Pause::No;
        }
        // Operations that no call waits for ring too. Between two sleeps there is a pause, so that they do not ring
        // all the time, which slows the threads that post them.
        if rings && !self.slept {
            self.slept = true;
            return Pause::UntilRung;
        }
        self.slept = false;
        let sleep = self.sleep;
        self.sleep = (sleep * 2).min(SLEEP_MAX);
        Pause::For(sleep)
    }
}
