//! The protocol of the gate, over any kind of words: the words of an arena in production, those of a model checker in
//! tests.
//!
//! Nothing here knows of memory, processes or clocks. [`enter`] and [`leave`] run in the thread of a node around its
//! remote stores, [`shut`] in a survivor. The head of [`gate`](crate::gate) draws the two sides.
//!
//! The two fences are the two halves of an asymmetric fence. The *light* one is between a thread's store to its slot
//! and its load of `revoked`; the *heavy* one is between a survivor's store to `revoked` and its loads of the slots.
//! For every pair of a light and a heavy fence, what comes before one of them is visible to what comes after the
//! other. Two light fences promise nothing to each other.
//!
//! Used by `gate`, and by `model`, which runs it under loom.

use std::ops::ControlFlow;

use loco_fabric::Result;

/// The bit of `revoked` that says that the node is out.
pub(super) const OUT: u64 = 1;
/// The bit of `revoked` that says that not all nodes have a barrier for all processors, so the section needs its own
/// fence.
pub(super) const FENCE: u64 = 2;

/// A word that several processes access.
pub(super) trait GateWord {
    /// Loads the word, before later accesses of this thread.
    fn load(&self) -> u64;

    /// Stores to the word, after earlier accesses of this thread.
    fn store(&self, value: u64);

    /// Adds to the word and returns the value before, with a full fence.
    fn fetch_add(&self, add: u64) -> u64;

    /// Replaces `current` by `new`, with a full fence, or returns what was found instead.
    fn compare_exchange(&self, current: u64, new: u64) -> std::result::Result<u64, u64>;

    /// Orders the store to this slot, which comes before it, and later loads, for every survivor that executes a heavy
    /// fence.
    fn light_fence(&self);

    /// Orders everything before and everything after, for this thread.
    fn full_fence(&self);
}

/// Takes a slot that nobody has used, and returns its index.
///
/// The index comes from the shared count itself. A thread that has an index has therefore raised the count above it, and
/// a survivor that reads the count looks at every slot in use. An index from a second counter would let a thread that
/// came later use a slot above the shared count, while the thread before it had not raised the count yet.
pub(super) fn take_slot(slots_used: &impl GateWord) -> u64 {
    slots_used.fetch_add(1)
}

/// Begins a section in which peers' memory may be changed. Returns false, and begins none, if the node is out.
#[inline(always)]
pub(super) fn enter<W: GateWord>(busy: &W, revoked: &W) -> bool {
    busy.store(1);
    busy.light_fence();
    revoked.load() == 0 || look_again(busy, revoked)
}

#[cold]
fn look_again<W: GateWord>(busy: &W, revoked: &W) -> bool {
    busy.full_fence();
    let is_in = revoked.load() & OUT == 0;
    if !is_in {
        leave(busy);
    }
    is_in
}

/// Ends a section. The stores of the section come before it.
#[inline(always)]
pub(super) fn leave(busy: &impl GateWord) {
    busy.store(0);
}

/// Enters `victim` into the log on behalf of node `own`; both are indices in the job's nodes. Returns false if the log
/// has `own`: then others have shut this node out first. `log` gives the words of the log, which has `len`.
pub(super) fn enter_log<W: GateWord>(
    log: impl Fn(usize) -> Result<W>,
    len: usize,
    own: usize,
    victim: usize,
) -> Result<bool> {
    let entry = |node: usize| node as u64 + 1;
    for index in 0..len {
        let found = match log(index)?.compare_exchange(0, entry(victim)) {
            Ok(_) => entry(victim),
            Err(found) => found,
        };
        if found == entry(own) {
            return Ok(false);
        }
        if found == entry(victim) {
            break;
        }
    }
    Ok(true)
}

/// Closes a node's gate for good: returns when no section of the node is open and none can begin.
///
/// `heavy_fence` is the survivor's half of the asymmetric fence. `slot` gives the slot with an index below the value of
/// `slots_used`. While a slot is busy, `busy` is called between two looks; it breaks once the node executes nothing more.
pub(super) fn shut<W: GateWord>(
    revoked: &W,
    heavy_fence: impl FnOnce(),
    slots_used: &W,
    slot: impl Fn(u64) -> Result<Option<W>>,
    mut busy: impl FnMut() -> ControlFlow<()>,
) -> Result<()> {
    // Several survivors may do this at once. All of them store the same value, since the other bit no longer changes.
    revoked.store(revoked.load() | OUT);
    revoked.full_fence();
    heavy_fence();
    // After the fence: a thread that is in a section without having seen `revoked` has taken its slot before.
    for index in 0..slots_used.load() {
        let Some(slot) = slot(index)? else { break };
        // Once the slot was seen to be free, the stores of its sections are visible.
        while slot.load() != 0 {
            if busy().is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}
