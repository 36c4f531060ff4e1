//! The doorbell of a node: a word by which the node's threads sleep and writers of its memory wake them. It is in the
//! node's gate.
//!
//! The word is odd while a sleep is announced. It is the word of the sleepers' futex, too:
//!
//! ```text
//! sleeper                                      any thread that changes the node's memory
//! seen = word |= 1                             store (or read-modify-write)
//! membarrier: a full fence on every            (compiler fence)
//!   processor that runs a registered process   if word is odd, and word: odd -> even by compare-and-swap:
//! look at everything once more                   futex wake
//! futex wait while word == seen
//! ```
//!
//! No wake-up is lost. The store comes before the load of the word in the program, and the sleeper's barrier is a
//! full fence somewhere in the other thread's program. If that fence comes before the load, the load finds the word
//! odd, or changed by somebody who rang since: either way the word is no longer `seen` when the other thread goes on,
//! so the sleeper does not fall asleep, or is woken. If the fence comes after the load, it comes after the store too,
//! and the sleeper's last look finds the store. Ringing therefore costs a load, of a line that changes only when a
//! thread falls asleep, and no fence: the sleeper executes the barrier for both sides, as the survivors of a loss do at
//! the [gate](crate::gate).
//!
//! Among the threads that find the word odd, one wakes the sleepers. If its process is killed between the exchange and
//! the wake, nobody wakes them, so sleepers have a limit, and a loss rings too. Where a kernel has no such barrier a
//! node has no doorbell.
//!
//! The steps of both sides are in `protocol`, over any kind of word. Here it is a word of an arena; in `model`, a test, it is one of
//! loom.
//!
//! Relies on `loco_host`'s futex. Used by queue pairs, and by the asynchronous calls of this node.

mod protocol;

#[cfg(test)]
mod model;

use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

use loco_fabric::{Armed, Doorbell, WordCell};
use loco_host::span::SpanCell;
use rustix::thread::{MembarrierCommand, membarrier};

use crate::arena::Arena;
use protocol::{BellWord, announce, ring};

type Cell = SpanCell<u32, Arena>;

impl BellWord for Cell {
    #[inline(always)]
    fn load(&self) -> u32 {
        WordCell::load(self)
    }

    fn compare_exchange(&self, current: u32, new: u32) -> Result<u32, u32> {
        WordCell::compare_exchange(self, current, new)
    }

    /// Keeps the compiler from moving the accesses. The processor's fence is executed by the sleeper's barrier.
    #[inline(always)]
    fn light_fence(&self) {
        compiler_fence(Ordering::SeqCst);
    }

    fn wake_all(&self) {
        SpanCell::wake_all(self);
    }
}

/// The doorbell of a node, of this process or another.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Cell);

/// Rings a bell when it is dropped.
pub(crate) struct Ring<'a>(&'a Bell);

impl Drop for Ring<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.ring_if_awaited();
    }
}

impl Bell {
    pub(crate) fn new(word: SpanCell<u32, Arena>) -> Bell {
        Bell(word)
    }

    /// Wakes the node's sleepers, if there are any, after a change that this thread has made.
    #[inline(always)]
    pub(crate) fn ring_if_awaited(&self) {
        ring(&self.0);
    }

    /// Returns a guard that [rings](Bell::ring_if_awaited) when it is dropped.
    #[inline(always)]
    pub(crate) fn ring_when_dropped(&self) -> Ring<'_> {
        Ring(self)
    }
}

impl Doorbell for Bell {
    fn arm(&self) -> Option<Armed> {
        let word = announce(&self.0);
        match membarrier(MembarrierCommand::GlobalExpedited) {
            Ok(()) => Some(Armed(word)),
            Err(error) => {
                tracing::debug!("membarrier: {error}");
                None
            }
        }
    }

    fn sleep(&self, armed: Armed, limit: Duration) {
        self.0.sleep_while(armed.0, limit);
    }

    fn ring(&self) {
        self.ring_if_awaited();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use loco_host::HugePages;

    use super::protocol::ARMED;
    use super::*;
    use crate::arena::ArenaId;
    use crate::memory::whole;

    /// Long enough to tell a wake-up that is lost from one that is late.
    const FOR_EVER: Duration = Duration::from_secs(3600);

    /// Makes the parts of a node that two processors use: the bell, and a word of its memory.
    fn bell_and_word(token: u8) -> (Bell, SpanCell<u64, Arena>) {
        membarrier(MembarrierCommand::RegisterGlobalExpedited).expect("Linux 4.16");
        let id = ArenaId {
            token: [token; 16],
            index: 0,
        };
        let arena = Arena::create(id, loco_fabric::NodeId(0), 4096, HugePages::Never).unwrap();
        let span = whole(arena);
        (Bell::new(span.cell(0).unwrap()), span.cell(64).unwrap())
    }

    /// Waits until the word is at least `value`, asleep most of the time.
    fn await_value(bell: &Bell, word: &SpanCell<u64, Arena>, value: u64, sleeps: &AtomicU64) {
        loop {
            let armed = bell.arm().expect("a barrier");
            if word.load() >= value {
                return;
            }
            sleeps.fetch_add(1, Ordering::Relaxed);
            bell.sleep(armed, FOR_EVER);
        }
    }

    #[test]
    fn no_wake_up_is_lost() {
        // Each side sleeps until the other has stored, without a limit: a lost wake-up would end the test by its
        // patience.
        let (bells, words): (Vec<_>, Vec<_>) = [bell_and_word(0x51), bell_and_word(0x52)].into_iter().unzip();
        let sleeps = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for own in 0..2 {
                let (bells, words, sleeps) = (&bells, &words, &sleeps);
                scope.spawn(move || {
                    for round in 1..=20_000_u64 {
                        if own == 0 {
                            words[1].store(round);
                            bells[1].ring_if_awaited();
                            await_value(&bells[0], &words[0], round, sleeps);
                        } else {
                            await_value(&bells[1], &words[1], round, sleeps);
                            words[0].store(round);
                            bells[0].ring_if_awaited();
                        }
                    }
                });
            }
        });
        assert!(sleeps.load(Ordering::Relaxed) > 0, "somebody slept");
    }

    #[test]
    fn every_sleeper_is_woken_and_several_may_ring() {
        let (bell, word) = bell_and_word(0x53);
        let sleeps = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for value in 1..=2_000 {
                        await_value(&bell, &word, value, &sleeps);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        word.fetch_add(1);
                        bell.ring_if_awaited();
                    }
                });
            }
        });
        assert_eq!(word.load(), 2_000);
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it() {
        let (bell, _) = bell_and_word(0x54);
        let armed = bell.arm().expect("a barrier");
        bell.ring();
        bell.sleep(armed, FOR_EVER);
        // Nobody sleeps now: ringing changes nothing.
        let before = WordCell::load(&bell.0);
        bell.ring();
        assert_eq!(WordCell::load(&bell.0), before);
        assert_eq!(before & ARMED, 0);
    }
}
