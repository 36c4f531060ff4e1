//! The last look of a thread before it sleeps by the doorbell.
//!
//! ```text
//! thread that waits                            whoever changes something, or reports a loss
//! announce the sleep                           change the memory; or count a departure
//! look at the memory                           ring: wake who announced a sleep
//! look at the count of departures
//! sleep, unless woken since the announcement
//! ```
//!
//! Both looks come after the announcement. A change or a departure that they do not show comes later than the announcement, and
//! its ring ends the sleep. With a look before it, what happens in between would wake nobody.
//!
//! Used by [`Membership`](crate::membership::Membership).

use loco_fabric::{Armed, Doorbell};

/// What the last look has found.
pub(crate) enum LastLook<T> {
    /// What the thread waits for.
    Ready(T),
    /// A node has departed since the thread looked for departures.
    Departed,
    /// Nothing: the thread may sleep, if the doorbell has taken the announcement.
    Nothing(Option<Armed>),
}

/// Announces a sleep by `bell` and looks once more. The thread has seen the first `seen` of the `departures`.
#[inline]
pub(crate) fn last_look<T>(
    bell: &dyn Doorbell,
    ready: &mut impl FnMut() -> Option<T>,
    departures: impl FnOnce() -> u64,
    seen: u64,
) -> LastLook<T> {
    let armed = bell.arm();
    if let Some(value) = ready() {
        return LastLook::Ready(value);
    }
    match departures() == seen {
        true => LastLook::Nothing(armed),
        false => LastLook::Departed,
    }
}
