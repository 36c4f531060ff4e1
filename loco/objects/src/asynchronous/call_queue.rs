//! Call queues, and the way of calls to the driver's thread. A call queue is one thread of the node with the asynchronous
//! calls that wait for it. One call at a time gets the thread. Used by [`AsyncThread`](super::AsyncThread).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loco_fabric::{Doorbell, Fabric, Std};

use crate::{Result, Thread};

/// A thread and the calls that wait for it.
pub(super) struct CallQueue<F: Fabric<Platform = Std>> {
    state: Mutex<State<F>>,
    driver: Calls<F>,
}

struct State<F: Fabric<Platform = Std>> {
    /// `None` while a call uses it.
    thread: Option<Box<Thread<F>>>,
    waiting: VecDeque<Job<F>>,
}

impl<F: Fabric<Platform = Std>> CallQueue<F> {
    pub(super) fn new(thread: Thread<F>, driver: Calls<F>) -> CallQueue<F> {
        CallQueue {
            state: Mutex::new(State {
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

    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the thread, if no call uses it.
    pub(super) fn take(&self) -> Option<Box<Thread<F>>> {
        self.lock().thread.take()
    }

    /// Ends the use of the thread by a call. The next call gets it, if there is one.
    pub(super) fn give_back(self: Arc<Self>, thread: Box<Thread<F>>) {
        let next = {
            let mut state = self.lock();
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

    /// Queues a call behind those under way.
    pub(super) fn enqueue(self: Arc<Self>, job: Job<F>) {
        let mut state = self.lock();
        match state.thread.take() {
            None => state.waiting.push_back(job),
            // The call under way has ended in between.
            Some(thread) => {
                drop(state);
                self.start(thread, job);
            }
        }
    }
}

/// A call to run.
pub(super) struct Job<F: Fabric<Platform = Std>> {
    /// Makes the call, or passes on the reason that it cannot be made.
    pub(super) body: Body<F>,
    /// Set when nobody wants the outcome any more.
    pub(super) given_up: Arc<AtomicBool>,
}

type Body<F> = Box<dyn FnOnce(Result<&Thread<F>>) + Send>;

impl<F: Fabric<Platform = Std>> Job<F> {
    pub(super) fn is_given_up(&self) -> bool {
        // Relaxed: it publishes nothing.
        self.given_up.load(Ordering::Relaxed)
    }
}

/// A call to run now, on the thread of `call_queue`, which is not in use.
pub(super) struct Start<F: Fabric<Platform = Std>> {
    pub(super) call_queue: Arc<CallQueue<F>>,
    pub(super) thread: Box<Thread<F>>,
    pub(super) job: Job<F>,
}

/// The way to the driver's thread.
pub(super) struct Calls<F: Fabric<Platform = Std>> {
    starts: Sender<Start<F>>,
    /// The doorbell of the node, by which the thread sleeps while calls wait.
    bell: Option<Arc<dyn Doorbell>>,
}

impl<F: Fabric<Platform = Std>> Calls<F> {
    pub(super) fn new(starts: Sender<Start<F>>, bell: Option<Arc<dyn Doorbell>>) -> Calls<F> {
        Calls { starts, bell }
    }

    /// Hands a call to the driver's thread. If the thread has panicked, the call is dropped, and reports it.
    pub(super) fn start(&self, start: Start<F>) {
        drop(self.starts.send(start));
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Returns the doorbell that makes the thread look at its calls again.
    pub(super) fn bell(&self) -> Option<Arc<dyn Doorbell>> {
        self.bell.clone()
    }
}

impl<F: Fabric<Platform = Std>> Clone for Calls<F> {
    fn clone(&self) -> Self {
        Calls {
            starts: self.starts.clone(),
            bell: self.bell.clone(),
        }
    }
}
