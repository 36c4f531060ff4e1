//! The protocol of the doorbell, over any kind of word: a word of an arena in production, one of a model checker in tests.
//!
//! Nothing here knows of memory or clocks. [`ring`] runs in a thread that has changed the node's memory, [`announce`] in one that is
//! about to sleep. The head of [`bell`](crate::bell) draws the two sides. The sleeper executes the heavy half of the asymmetric
//! fence between [`announce`] and its last look.
//!
//! Used by `bell`, and by `model`, which runs it under loom.

/// The bit that says that a sleep is announced.
pub(super) const ARMED: u32 = 1;

/// A word by which threads sleep.
pub(super) trait BellWord {
    /// Loads the word, before later accesses of this thread.
    fn load(&self) -> u32;

    /// Replaces `current` by `new`, with a full fence, or returns what was found instead.
    fn compare_exchange(&self, current: u32, new: u32) -> Result<u32, u32>;

    /// Orders the change, which comes before it, and later loads, for every sleeper that executes a heavy fence.
    fn light_fence(&self);

    /// Wakes all threads that sleep on the word.
    fn wake_all(&self);
}

/// Wakes the sleepers, if a sleep is announced. Called after a change.
#[inline(always)]
pub(super) fn ring<W: BellWord>(word: &W) {
    word.light_fence();
    let seen = word.load();
    if seen & ARMED != 0 {
        wake(word, seen);
    }
}

#[cold]
#[inline(never)]
fn wake<W: BellWord>(word: &W, seen: u32) {
    // If another thread was faster, it wakes them.
    if word.compare_exchange(seen, seen.wrapping_add(1)).is_ok() {
        word.wake_all();
    }
}

/// Announces a sleep. Returns the value of the word while nobody has rung since.
pub(super) fn announce<W: BellWord>(word: &W) -> u32 {
    let mut seen = word.load();
    // The exchange is a full fence. If the bit is already set no fence is needed, because the heavy one follows.
    while seen & ARMED == 0 {
        match word.compare_exchange(seen, seen | ARMED) {
            Ok(_) => seen |= ARMED,
            Err(found) => seen = found,
        }
    }
    seen
}
