//! Tells which threads a player runs (`loco-sim` is one). They make the locks and atomics of its platform.
//!
//! A lock or an atomic is made without a fabric at hand ([`Lock::new`](loco_fabric::Lock::new)), so it asks here whether a player
//! runs its thread.

use std::sync::OnceLock;

use loco_fabric::Platform;

use super::primitives::{DynPrimitives, primitives};

struct Player {
    is_played: fn() -> bool,
    primitives: &'static dyn DynPrimitives,
}

static PLAYER: OnceLock<Player> = OnceLock::new();

/// Installs a player: threads for which `is_played` holds make the locks and atomics of the platform `P`.
pub(crate) fn install<P: Platform>(is_played: fn() -> bool) {
    PLAYER.get_or_init(|| Player {
        is_played,
        primitives: primitives::<P>(),
    });
}

/// Returns what makes locks and atomics for the calling thread, if that is played.
pub(super) fn primitives_of_this_thread() -> Option<&'static dyn DynPrimitives> {
    let player = PLAYER.get()?;
    (player.is_played)().then_some(player.primitives)
}
