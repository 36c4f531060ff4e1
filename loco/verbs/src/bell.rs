//! The doorbell of a node on verbs: it rings when an operation of this node has completed.
//!
//! The word is odd while a sleep is announced:
//!
//! ```text
//! sleeper                                    any thread that polls
//! seen = word |= 1                           take completions, record them
//! ask for an event of the next completion    full fence
//! wait until no thread is inside a poll      if word is odd: odd -> even by compare-and-swap, wake all
//! look at everything once more (poll)
//! sleep while word == seen
//! ```
//!
//! No wake-up is lost. Take a completion that the sleeper's last look does not show. If the device delivered it after
//! the request, it is an event: the service thread reads it from the completion channel and rings. If the device
//! delivered it before the request, every poll that begins afterwards finds it, and none that began before is still
//! under way. So some poll took it: the sleeper's own, which records what it takes, or another thread's. That
//! thread records it before its fence and looks at the word after it, and the sleeper changed the word before it looked at
//! the record. Therefore either the sleeper sees the record or the other thread the odd word.
//!
//! **What does not ring.** A one-sided operation of a peer changes this node's memory without any event here. A
//! peer could ring after each of its puts, by a write with immediate data, if it knew that this node sleeps. But this node
//! cannot learn when a peer's earlier puts have arrived. A put that the peer posted before it knew, and that is still
//! under way when this node looks for the last time, would wake nobody. So waits for memory go on in rounds.
//!
//! Relies on `device` and `send_queue`. Used by `service`, which hears the device's events, by `node` and `fabric`.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use loco_fabric::{Armed, Doorbell};

use super::device::Device;
use super::send_queue::Poller;

/// The bit that says that a sleep is announced.
const ARMED: u32 = 1;

/// The doorbell of a node. It keeps neither the device nor the queue pairs.
#[derive(Debug)]
pub(super) struct CompletionBell {
    word: AtomicU32,
    /// Taken between a change of `word` and the wake-up, so that no sleeper is in between.
    sleepers: Mutex<()>,
    rung: Condvar,
    device: Weak<Device>,
    poller: Weak<Mutex<Poller>>,
}

impl CompletionBell {
    /// Returns the doorbell of a node, or `None` if its device has no completion channel.
    pub(super) fn new(device: &Arc<Device>, poller: &Arc<Mutex<Poller>>) -> Option<Arc<CompletionBell>> {
        device.events_fd()?;
        Some(Arc::new(CompletionBell {
            word: AtomicU32::new(0),
            sleepers: Mutex::new(()),
            rung: Condvar::new(),
            device: Arc::downgrade(device),
            poller: Arc::downgrade(poller),
        }))
    }
}

impl Doorbell for CompletionBell {
    fn arm(&self) -> Option<Armed> {
        let (device, poller) = (self.device.upgrade()?, self.poller.upgrade()?);
        let armed = self.word.fetch_or(ARMED, Ordering::SeqCst) | ARMED;
        if let Err(error) = device.request_event() {
            tracing::debug!("{}: asking for a completion event: {error}", device.choice);
            return None;
        }
        // A poll that began before the request may miss a completion for which no event will come.
        drop(poller.lock().unwrap_or_else(PoisonError::into_inner));
        Some(Armed(armed))
    }

    fn sleep(&self, armed: Armed, limit: Duration) {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = |(): &mut ()| self.word.load(Ordering::SeqCst) == armed.0;
        drop(self.rung.wait_timeout_while(sleepers, limit, silent));
    }

    fn ring(&self) {
        // See the module head.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders the load after what the caller has recorded.
        let word = self.word.load(Ordering::Relaxed);
        if word & ARMED == 0 {
            return;
        }
        let even = word.wrapping_add(1);
        let rings = self
            .word
            .compare_exchange(word, even, Ordering::SeqCst, Ordering::SeqCst);
        // If another thread was faster, it wakes them.
        if rings.is_ok() {
            drop(self.sleepers.lock().unwrap_or_else(PoisonError::into_inner));
            self.rung.notify_all();
        }
    }
}
