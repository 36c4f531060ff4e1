//! The driver: the one thread of a node that waits for all asynchronous calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use loco_fabric::{Fabric, FabricError, Std};
use loco_host::strand::{Paused, Resume, Strand};

use crate::asynchronous::thread::{AsyncThread, Lane};
use crate::fabric::AnyFabric;
use crate::{Manager, Result, Thread};

/// Rounds of looking at all calls, one after the other, while nothing happens.
const SPINS: u32 = 100;
/// Rounds after those, with the core offered to others in between.
const YIELDS: u32 = 200;
/// Sleeps between rounds after those.
const SLEEP_MIN: Duration = Duration::from_micros(5);
const SLEEP_MAX: Duration = Duration::from_micros(100);

/// Waits for the asynchronous calls of a node, on one thread of its own; a cheap handle. The [module](super) says how.
///
/// The thread ends when the last handle, the last [`AsyncThread`] and the last call have ended. Without calls that wait it
/// sleeps and takes no processor time.
pub struct Driver<F: Fabric<Platform = Std> = AnyFabric> {
    manager: Manager<F>,
    starts: Sender<Start<F>>,
}

impl<F: Fabric<Platform = Std>> Driver<F> {
    /// Starts the thread that waits. One driver for each node does.
    ///
    /// # Errors
    /// `Os` when the system refuses another thread.
    pub fn new(manager: &Manager<F>) -> Result<Driver<F>> {
        let (starts, arriving) = channel();
        let name = format!("loco-async-{}", manager.node().0);
        std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || drive(&arriving))
            .map_err(|error| FabricError::os(format!("starting thread `{name}`"), &error))?;
        Ok(Driver {
            manager: manager.clone(),
            starts,
        })
    }

    /// Access to the network for one sequence of asynchronous calls, as [`Manager::thread`] for a thread.
    ///
    /// # Errors
    /// `TooManyThreads`.
    pub fn thread(&self) -> Result<AsyncThread<F>> {
        Ok(AsyncThread::new(self.manager.thread()?, self.starts.clone()))
    }
}

impl<F: Fabric<Platform = Std>> Clone for Driver<F> {
    fn clone(&self) -> Self {
        Driver {
            manager: self.manager.clone(),
            starts: self.starts.clone(),
        }
    }
}

/// A call to run.
pub(super) struct Job<F: Fabric<Platform = Std>> {
    /// Makes the call, or hands on why it cannot be made.
    pub(super) body: Body<F>,
    /// Set when nobody wants the outcome any more.
    pub(super) given_up: Arc<AtomicBool>,
}

type Body<F> = Box<dyn FnOnce(Result<&Thread<F>>) + Send>;

impl<F: Fabric<Platform = Std>> Job<F> {
    fn is_given_up(&self) -> bool {
        // Relaxed: it publishes nothing.
        self.given_up.load(Ordering::Relaxed)
    }
}

/// A call to run now, on the thread of `lane`, which is not in use.
pub(super) struct Start<F: Fabric<Platform = Std>> {
    pub(super) lane: Arc<Lane<F>>,
    pub(super) thread: Box<Thread<F>>,
    pub(super) job: Job<F>,
}

/// A call that has begun.
struct Running {
    strand: Strand,
    given_up: Arc<AtomicBool>,
}

impl Running {
    /// Begins a call; `None` if there is nothing to run.
    fn new<F: Fabric<Platform = Std>>(start: Start<F>) -> Option<Running> {
        let Start { lane, thread, job } = start;
        if job.is_given_up() {
            lane.give_back(thread);
            return None;
        }
        let given_up = job.given_up.clone();
        // Where it is taken from again if there is no stack.
        let work = std::rc::Rc::new(std::cell::Cell::new(Some((lane, thread, job.body))));
        let its = work.clone();
        let body = move || {
            if let Some((lane, thread, body)) = its.take() {
                body(Ok(&thread));
                lane.give_back(thread);
            }
        };
        match Strand::new(body) {
            Ok(strand) => Some(Running { strand, given_up }),
            Err(error) => {
                if let Some((lane, thread, body)) = work.take() {
                    body(Err(error.into()));
                    lane.give_back(thread);
                }
                None
            }
        }
    }
}

/// Body of the driver's thread: looks at every call whether what it waits for has come, over and over. A round in which
/// nothing happens is followed by a pause, as in the waits of threads; a call that arrives ends the pause.
fn drive<F: Fabric<Platform = Std>>(arriving: &Receiver<Start<F>>) {
    let mut running: Vec<Running> = Vec::new();
    let mut pauses = Pauses::default();
    loop {
        let first = if running.is_empty() {
            match arriving.recv() {
                Ok(start) => Some(start),
                // No handle and no call is left.
                Err(_) => return,
            }
        } else {
            match pauses.next() {
                Some(pause) => arriving.recv_timeout(pause).ok(),
                None => arriving.try_recv().ok(),
            }
        };
        let mut moved = first.is_some();
        running.extend(
            first
                .into_iter()
                .chain(arriving.try_iter())
                .filter_map(Running::new),
        );
        running.retain_mut(|call| {
            let with = match call.given_up.load(Ordering::Relaxed) {
                false => Resume::GoOn,
                true => Resume::GiveUp,
            };
            match call.strand.resume(with) {
                Paused::Waits(answered) => {
                    moved |= answered;
                    true
                }
                Paused::Ended(end) => {
                    moved = true;
                    if end.is_err() {
                        // Panics of calls are caught where the outcome is left.
                        tracing::error!("an asynchronous call ended badly");
                    }
                    false
                }
            }
        });
        if moved {
            pauses = Pauses::default();
        }
    }
}

/// The pauses between rounds in which nothing happens.
struct Pauses {
    spins: u32,
    yields: u32,
    sleep: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses {
            spins: SPINS,
            yields: YIELDS,
            sleep: SLEEP_MIN,
        }
    }
}

impl Pauses {
    /// Returns the time to sleep before the next round, or none to go on at once.
    fn next(&mut self) -> Option<Duration> {
        if self.spins > 0 {
            self.spins -= 1;
            std::hint::spin_loop();
            return None;
        }
        if self.yields > 0 {
            self.yields -= 1;
            std::thread::yield_now();
            return None;
        }
        let sleep = self.sleep;
        self.sleep = (sleep * 2).min(SLEEP_MAX);
        Some(sleep)
    }
}
