//! Call queues, and the way of calls to the driver's thread. A call queue is one thread of the node with the asynchronous
//! calls that wait for it. One call at a time gets the thread. Used by [`AsyncThread`](super::AsyncThread).
//!
//! On a platform without fibers, which only the model is, there is no such thread: each call gets one of its own. The executions
//! are those in which the driver turns to the calls in any order, and more, since it may now leave a call at any step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use loco_fabric::{AtomicCell, Doorbell, Fabric, Lock, Platform, ThreadKind};

use crate::asynchronous::call::GivenUp;
use crate::operations::panics;
use crate::{Result, Thread};

/// A thread and the calls that wait for it.
pub(super) struct CallQueue<F: Fabric> {
    state: <F::Platform as Platform>::Mutex<State<F>>,
    driver: Calls<F>,
}

struct State<F: Fabric> {
    /// `None` while a call uses it.
    thread: Option<Box<Thread<F>>>,
    waiting: VecDeque<Job<F>>,
}

impl<F: Fabric> CallQueue<F> {
    pub(super) fn new(thread: Thread<F>, driver: Calls<F>) -> CallQueue<F> {
        CallQueue {
            state: Lock::new(State {
                thread: Some(Box::new(thread)),
                waiting: VecDeque::new(),
            }),
            driver,
        }
    }

    /// Returns the doorbell that makes the driver look at its calls again.
    pub(super) fn bell(&self) -> Option<Arc<dyn Doorbell>> {
        self.driver.bell()
    }

    /// Takes the thread, if no call uses it.
    pub(super) fn take(&self) -> Option<Box<Thread<F>>> {
        self.state.lock().thread.take()
    }

    /// Ends the use of the thread by a call. The next call gets it, if there is one.
    pub(super) fn give_back(self: Arc<Self>, thread: Box<Thread<F>>) {
        let next = {
            let mut state = self.state.lock();
            match state.waiting.pop_front() {
                Some(job) => Some((thread, job)),
                None => {
                    state.thread = Some(thread);
                    None
                }
            }
        };
        if let Some((thread, job)) = next {
            self.start(thread, job);
        }
    }

    /// Hands a call to the driver.
    pub(super) fn start(self: Arc<Self>, thread: Box<Thread<F>>, job: Job<F>) {
        let driver = self.driver.clone();
        driver.start(Start {
            call_queue: self,
            thread,
            job,
        });
    }

    /// Queues a call behind that under way.
    pub(super) fn enqueue(self: Arc<Self>, job: Job<F>, place: Place) {
        let mut state = self.state.lock();
        match state.thread.take() {
            None if place == Place::First => state.waiting.push_front(job),
            None => state.waiting.push_back(job),
            // The call under way has ended in between.
            Some(thread) => {
                drop(state);
                self.start(thread, job);
            }
        }
    }
}

/// The place of a call among those that wait for their thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    First,
    Last,
}

/// A call to run.
pub(super) struct Job<F: Fabric> {
    /// Makes the call, or passes on the reason that it cannot be made.
    pub(super) body: Body<F>,
    /// Set when nobody wants the outcome any more.
    pub(super) given_up: GivenUp<F::Platform>,
}

pub(super) type Body<F> = Box<dyn FnOnce(Result<&Thread<F>>) + Send>;

impl<F: Fabric> Job<F> {
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load() != 0
    }
}

/// A call to run now, on the thread of `call_queue`, which is not in use.
pub(super) struct Start<F: Fabric> {
    pub(super) call_queue: Arc<CallQueue<F>>,
    pub(super) thread: Box<Thread<F>>,
    pub(super) job: Job<F>,
}

impl<F: Fabric> Start<F> {
    /// Returns the call unless it is given up. Then its work is dropped, and the next call gets the thread.
    pub(super) fn unless_given_up(self) -> Option<Start<F>> {
        if !self.job.is_given_up() {
            return Some(self);
        }
        let Start {
            call_queue,
            thread,
            job,
        } = self;
        panics::contain(&thread.platform(), || drop(job));
        call_queue.give_back(thread);
        None
    }
}

/// Makes a call to its end on the running thread or fiber. An outcome that nobody awaits any more is dropped here.
pub(super) fn make<F: Fabric>(call_queue: Arc<CallQueue<F>>, thread: Box<Thread<F>>, body: Body<F>) {
    panics::contain(&thread.platform(), || body(Ok(&thread)));
    call_queue.give_back(thread);
}

/// The way of a call to whoever makes it.
pub(super) struct Calls<F: Fabric> {
    /// The way to the driver's thread; `None` where each call has a thread of its own.
    starts: Option<Sender<Start<F>>>,
    /// The doorbell of the node, by which the thread sleeps while calls wait.
    bell: Option<Arc<dyn Doorbell>>,
}

impl<F: Fabric> Calls<F> {
    pub(super) fn new(starts: Option<Sender<Start<F>>>, bell: Option<Arc<dyn Doorbell>>) -> Calls<F> {
        Calls { starts, bell }
    }

    /// Hands a call to the driver's thread. If the thread has panicked, the call is dropped, and reports it.
    pub(super) fn start(&self, start: Start<F>) {
        match &self.starts {
            Some(starts) => drop(starts.send(start)),
            None => start_apart(start),
        }
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Returns the doorbell that makes the thread look at its calls again.
    pub(super) fn bell(&self) -> Option<Arc<dyn Doorbell>> {
        self.bell.clone()
    }
}

/// Makes a call on a thread of its own. If there is none, the call is dropped, and reports it.
fn start_apart<F: Fabric>(start: Start<F>) {
    let platform = start.thread.platform();
    let own = platform.clone();
    let call = move || {
        if let Some(start) = start.unless_given_up() {
            own.give_up_by(start.job.given_up.clone());
            make(start.call_queue, start.thread, start.job.body);
        }
    };
    if let Err(error) = platform.spawn("asynchronous call", ThreadKind::Worker, call) {
        tracing::error!(%error, "an asynchronous call got no thread");
    }
}

impl<F: Fabric> Clone for Calls<F> {
    fn clone(&self) -> Self {
        Calls {
            starts: self.starts.clone(),
            bell: self.bell.clone(),
        }
    }
}
