//! A waker that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Wake;

/// Counts how often it is woken, and unparks the thread that made it.
pub struct Alarm {
    rung: AtomicUsize,
    thread: std::thread::Thread,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.fetch_add(1, SeqCst);
        self.thread.unpark();
    }
}

impl Alarm {
    pub fn new() -> Arc<Alarm> {
        Arc::new(Alarm {
            rung: AtomicUsize::new(0),
            thread: std::thread::current(),
        })
    }

    /// Returns how often it was woken.
    pub fn rung(&self) -> usize {
        self.rung.load(SeqCst)
    }

    /// Waits until it was woken `times` times.
    pub fn wait(&self, times: usize) {
        while self.rung() < times {
            std::thread::park();
        }
    }
}
