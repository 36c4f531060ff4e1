//! Hands tasks to a thread that waits on file descriptors. An eventfd wakes it. Used by the service thread.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use loco_fabric::{FabricError, Result};
use rustix::event::{EventfdFlags, eventfd};

/// The end by which other threads give tasks.
pub(crate) struct Mailbox<T> {
    wake: Arc<OwnedFd>,
    tasks: Mutex<Sender<T>>,
}

/// The end of the thread that takes tasks.
pub(crate) struct Inbox<T> {
    wake: Arc<OwnedFd>,
    tasks: Receiver<T>,
}

impl<T> Mailbox<T> {
    /// Makes both ends.
    pub(crate) fn new() -> Result<(Mailbox<T>, Inbox<T>)> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| FabricError::os("making an eventfd", &e.into()))?;
        let wake = Arc::new(wake);
        let (sender, tasks) = channel();
        let mailbox = Mailbox {
            wake: Arc::clone(&wake),
            tasks: Mutex::new(sender),
        };
        Ok((mailbox, Inbox { wake, tasks }))
    }

    /// Hands a task over and wakes the thread. If the thread has panicked, the task is dropped.
    pub(crate) fn give(&self, task: T) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = tasks.send(task);
        // The write fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl<T> Inbox<T> {
    /// Returns the descriptor that is readable when there may be tasks.
    pub(crate) fn fd(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Returns the tasks given since the last call.
    pub(crate) fn take(&self) -> impl Iterator<Item = T> + '_ {
        let _ = rustix::io::read(&*self.wake, &mut [0u8; 8][..]);
        self.tasks.try_iter()
    }
}
