//! Queues of events with a file descriptor that is readable while there is one.
//!
//! A child of `fork` shares the descriptors with its parent, so that it neither writes nor reads them: the events are the parent's.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::child::is_child;

/// A queue of events. Programs may wait for its descriptor, and may make it non-blocking.
///
/// The descriptor counts. Its count and what takers have read of it are as many as the events and the surplus, whenever nobody has the
/// lock.
pub(crate) struct Events<T> {
    fd: OwnedFd,
    queue: Mutex<Queue<T>>,
}

struct Queue<T> {
    events: VecDeque<T>,
    /// The number of takers that read the descriptor, or have read it and do not have the lock yet.
    takers: usize,
    /// The part of the descriptor's count that belongs to events which were removed.
    surplus: usize,
}

/// Locks, also after a panic of another thread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the events of an object that the program has taken and not acknowledged. While there are some, the object stays.
#[derive(Default)]
pub(crate) struct Unacknowledged {
    count: Mutex<usize>,
    acknowledged: Condvar,
}

impl Unacknowledged {
    /// Counts an event that is taken.
    pub fn taken(&self) {
        *lock(&self.count) += 1;
    }

    /// Counts events that are acknowledged, and wakes who waits for that.
    pub fn acknowledge(&self, events: usize) {
        let mut count = lock(&self.count);
        *count = count.saturating_sub(events);
        self.acknowledged.notify_all();
    }

    /// Waits until all events are acknowledged. In a child of `fork` there are no threads that could do that, so that it returns at once.
    pub fn wait(&self) {
        if is_child() {
            return;
        }
        let mut count = lock(&self.count);
        while *count > 0 {
            count = self
                .acknowledged
                .wait(count)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Events<T> {
    /// Makes a queue without events.
    ///
    /// # Errors
    /// Fails when the process may open no more descriptors.
    pub fn new() -> io::Result<Events<T>> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?;
        Ok(Events {
            fd,
            queue: Mutex::new(Queue {
                events: VecDeque::new(),
                takers: 0,
                surplus: 0,
            }),
        })
    }

    /// Returns the descriptor.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Appends an event. A child of `fork` is told of none.
    pub fn push(&self, event: T) {
        if is_child() {
            return;
        }
        let mut queue = lock(&self.queue);
        queue.events.push_back(event);
        // With the lock: who removes the event finds it counted.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    /// Waits for an event and takes it, as [`take_and`](Events::take_and) does.
    ///
    /// # Errors
    /// Fails as [`take_and`](Events::take_and) does.
    pub fn take(&self) -> io::Result<T> {
        self.take_and(|_| ())
    }

    /// Waits for an event and takes it. Calls `taken` with the event before [`retain`](Events::retain) can find that it is gone.
    ///
    /// # Errors
    /// Fails with what reading the descriptor fails with: `EAGAIN` if it is non-blocking and there is no event, `EINTR` after a signal.
    /// Fails with `EOPNOTSUPP` in a child of `fork`, to which no event comes.
    pub fn take_and(&self, taken: impl FnOnce(&T)) -> io::Result<T> {
        if is_child() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        loop {
            lock(&self.queue).takers += 1;
            let read = rustix::io::read(&self.fd, &mut [0; 8]);
            let mut queue = lock(&self.queue);
            queue.takers -= 1;
            if read.is_ok() {
                match queue.events.pop_front() {
                    Some(event) => {
                        taken(&event);
                        self.balance(&mut queue);
                        return Ok(event);
                    }
                    None => queue.surplus = queue.surplus.saturating_sub(1),
                }
            }
            self.balance(&mut queue);
            read?;
        }
    }

    /// Removes the events that are not to be kept. The descriptor is readable for the others only, as soon as nobody is about to take one.
    /// Does nothing in a child of `fork`: the events are the parent's, and a thread that is not there may have had the lock.
    pub fn retain(&self, keep: impl FnMut(&T) -> bool) {
        if is_child() {
            return;
        }
        let mut queue = lock(&self.queue);
        let before = queue.events.len();
        queue.events.retain(keep);
        queue.surplus += before - queue.events.len();
        self.balance(&mut queue);
    }

    /// Reads the surplus, unless somebody takes an event: who finds no event reads again. This never waits, since a program may read the
    /// descriptor by itself at any time.
    fn balance(&self, queue: &mut Queue<T>) {
        if queue.takers > 0 || is_child() {
            return;
        }
        while queue.surplus > 0 {
            match self.read_now() {
                Ok(_) => queue.surplus -= 1,
                Err(Errno::INTR) => {}
                // A program that reads the descriptor by itself has read this, too.
                Err(Errno::AGAIN) => queue.surplus = 0,
                // The system cannot read without waiting. Takers pass over the surplus.
                Err(_) => return,
            }
        }
    }

    /// Reads the descriptor if that need not wait.
    fn read_now(&self) -> rustix::io::Result<usize> {
        let mut count = [0; 8];
        // There is no position, as for `read`.
        preadv2(
            &self.fd,
            &mut [IoSliceMut::new(&mut count)],
            u64::MAX,
            ReadWriteFlags::NOWAIT,
        )
    }

    /// Moves the events that a function chooses to another queue.
    pub fn move_to(&self, other: &Events<T>, moves: impl Fn(&T) -> bool)
    where
        T: Clone,
    {
        let mut moved = Vec::new();
        self.retain(|event| {
            let stays = !moves(event);
            if !stays {
                moved.push(event.clone());
            }
            stays
        });
        for event in moved {
            other.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_are_removed_are_not_counted() {
        let events = Events::new().unwrap();
        (0..3).for_each(|event| events.push(event));
        events.retain(|event| *event == 1);
        assert_eq!(events.read_now(), Ok(8));
        assert_eq!(events.read_now(), Err(Errno::AGAIN));
    }

    #[test]
    fn a_program_may_have_read_the_count_of_what_is_removed() {
        let events = Events::new().unwrap();
        events.push(0);
        assert_eq!(events.read_now(), Ok(8));
        events.retain(|_| false);
        events.push(1);
        assert_eq!(events.take().unwrap(), 1);
    }
}
