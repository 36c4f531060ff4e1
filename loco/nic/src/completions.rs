//! Completion queues: what the NIC puts in and the program takes out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::events::{Events, lock};
use crate::ffi::*;

/// The number of queues whose next completion gives an event, for which somebody may wait.
static ARMED: AtomicUsize = AtomicUsize::new(0);

/// Returns whether somebody may wait for an event of a completion queue.
pub(crate) fn is_any_armed() -> bool {
    ARMED.load(Ordering::Relaxed) > 0
}

/// The address of a program's `ibv_cq`, as an event names it.
pub(crate) type CqAddress = usize;

/// A completion, and what becomes free when the program takes it.
pub(crate) struct Completion {
    pub wc: Wc,
    /// The places of work requests that it frees: its own, and those of the unsignaled ones before it.
    pub frees: Option<(Arc<AtomicU32>, u32)>,
    /// True if it wakes those who wait for solicited completions only.
    pub solicited: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

struct Inner {
    waiting: VecDeque<Completion>,
    capacity: usize,
    armed: Armed,
    overrun: bool,
}

/// A completion queue.
pub(crate) struct Completions {
    inner: Mutex<Inner>,
    /// The channel of its events, and the address that they name.
    channel: Option<Arc<Events<CqAddress>>>,
    address: Mutex<CqAddress>,
}

impl Completions {
    /// Makes a queue that holds so many completions.
    pub fn new(capacity: usize, channel: Option<Arc<Events<CqAddress>>>) -> Completions {
        Completions {
            inner: Mutex::new(Inner {
                waiting: VecDeque::new(),
                capacity,
                armed: Armed::No,
                overrun: false,
            }),
            channel,
            address: Mutex::new(0),
        }
    }

    /// Sets the address that events name.
    pub fn set_address(&self, address: CqAddress) {
        *lock(&self.address) = address;
    }

    /// Returns the address that events name.
    pub fn address(&self) -> CqAddress {
        *lock(&self.address)
    }

    /// Puts a completion in. Returns false if the queue was full: it is then broken, as on a card, and the completion is lost.
    pub fn push(&self, completion: Completion) -> bool {
        let mut inner = lock(&self.inner);
        if inner.waiting.len() >= inner.capacity || inner.overrun {
            let first = !inner.overrun;
            inner.overrun = true;
            return !first;
        }
        let failed = completion.wc.status != IBV_WC_SUCCESS;
        let wakes = match inner.armed {
            Armed::No => false,
            Armed::Solicited => completion.solicited || failed,
            Armed::Any => true,
        };
        inner.waiting.push_back(completion);
        if wakes {
            inner.armed = Armed::No;
            if let Some(channel) = &self.channel {
                ARMED.fetch_sub(1, Ordering::Relaxed);
                channel.push(*lock(&self.address));
            }
        }
        true
    }

    /// Takes the oldest completion.
    pub fn take(&self) -> Option<Wc> {
        let completion = lock(&self.inner).waiting.pop_front()?;
        free(&completion);
        Some(completion.wc)
    }

    /// Asks for an event at the next completion, or at the next solicited one. What is in the queue gives none.
    pub fn arm(&self, solicited_only: bool) {
        let mut inner = lock(&self.inner);
        if inner.armed == Armed::No && self.channel.is_some() {
            ARMED.fetch_add(1, Ordering::Relaxed);
        }
        inner.armed = match (solicited_only, inner.armed) {
            (true, Armed::No | Armed::Solicited) => Armed::Solicited,
            _ => Armed::Any,
        };
    }

    /// Changes the capacity. Returns false if more completions wait than it has room for.
    pub fn resize(&self, capacity: usize) -> bool {
        let mut inner = lock(&self.inner);
        let fits = inner.waiting.len() <= capacity;
        if fits {
            inner.capacity = capacity;
        }
        fits
    }

    /// Removes the completions of a queue pair that goes.
    pub fn forget(&self, qpn: u32) {
        lock(&self.inner).waiting.retain(|completion| {
            let keep = completion.wc.qp_num != qpn;
            if !keep {
                free(completion);
            }
            keep
        });
    }

    /// Removes the events that the channel has of this queue.
    pub fn forget_events(&self) {
        let address = *lock(&self.address);
        if let Some(channel) = &self.channel {
            channel.retain(|event| *event != address);
        }
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        if lock(&self.inner).armed != Armed::No && self.channel.is_some() {
            ARMED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn free(completion: &Completion) {
    if let Some((used, places)) = &completion.frees {
        used.fetch_sub(*places, Ordering::AcqRel);
    }
}
