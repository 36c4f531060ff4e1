//! The descriptors that a thread of a mesh waits for: connections and processes, and the one by which others wake it.
//!
//! The kernel keeps the list (epoll), so a wait costs time in proportion to what is ready. With a list that is given anew at
//! each wait, the start of a job would take time in proportion to the cube of its nodes.
//!
//! Used by `wire` and `rendezvous`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

/// Stands for the descriptor that wakes the thread, beside the indices of connections.
const WAKE: u64 = u64::MAX;

/// The most events that one wait returns. The next wait returns the others.
const EVENTS_MAX: usize = 64;

/// The list, and what was ready at the last wait.
pub(super) struct Watch {
    epoll: OwnedFd,
    /// The events that are waited for, by the index of the descriptor. Empty for those that are not in the list.
    wanted: Vec<EventFlags>,
    /// The number of connections that are not being read from.
    paused: usize,
    /// The events of the last wait, by the index of the descriptor.
    ready: Vec<EventFlags>,
    /// The descriptors that have any.
    ready_descriptors: Vec<usize>,
}

impl Watch {
    /// Returns a list for `len` descriptors, with the descriptor `wake` and nothing else in it.
    pub(super) fn new(len: usize, wake: impl AsFd) -> io::Result<Watch> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Watch {
            epoll,
            wanted: vec![EventFlags::empty(); len],
            paused: 0,
            ready: vec![EventFlags::empty(); len],
            ready_descriptors: Vec::new(),
        })
    }

    /// Waits for these events of a descriptor from now on; for none if `wanted` is empty.
    pub(super) fn listen(&mut self, index: usize, stream: impl AsFd, wanted: EventFlags) {
        let before = self.wanted[index];
        if before == wanted {
            return;
        }
        let data = EventData::new_u64(index as u64);
        let changed = match (before.is_empty(), wanted.is_empty()) {
            (true, _) => epoll::add(&self.epoll, stream, data, wanted),
            (false, true) => epoll::delete(&self.epoll, stream),
            (false, false) => epoll::modify(&self.epoll, stream, data, wanted),
        };
        match changed {
            Ok(()) => {
                let is_paused = |wanted: EventFlags| !wanted.is_empty() && !wanted.contains(EventFlags::IN);
                self.paused -= usize::from(is_paused(before));
                self.paused += usize::from(is_paused(wanted));
                self.wanted[index] = wanted;
            }
            // The kernel is out of memory. The connection's next turn tries again.
            Err(error) => tracing::warn!(%error, "cannot change what is waited for"),
        }
    }

    /// Returns true if some connection is not being read from.
    pub(super) fn is_paused(&self) -> bool {
        self.paused > 0
    }

    /// Waits for an event, for `time` at most. Returns true if somebody has woken the thread.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<bool> {
        for index in self.ready_descriptors.drain(..) {
            self.ready[index] = EventFlags::empty();
        }
        let time = Timespec::try_from(time).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        let mut room = [MaybeUninit::uninit(); EVENTS_MAX];
        let events: &[Event] = match epoll::wait(&self.epoll, &mut room, Some(&time)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &[],
            Err(error) => return Err(error.into()),
        };
        let mut woken = false;
        for event in events {
            match event.data.u64() {
                WAKE => woken = true,
                index => {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    self.ready[index] = event.flags;
                    self.ready_descriptors.push(index);
                }
            }
        }
        Ok(woken)
    }

    /// Returns the events of a descriptor at the last wait.
    pub(super) fn ready(&self, index: usize) -> EventFlags {
        self.ready[index]
    }

    /// Returns the indices of the descriptors with events at the last wait.
    pub(super) fn ready_descriptors(&self) -> &[usize] {
        &self.ready_descriptors
    }
}
