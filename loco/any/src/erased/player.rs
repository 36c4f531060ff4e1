//! Who plays the fabric of a thread. `loco-sim` installs itself here.
//!
//! A lock or an atomic is made without a fabric at hand ([`Lock::new`](loco_fabric::Lock::new)), and a program that begins with
//! `loco::run` has no fabric yet. Both ask here whether their thread is one of a player.

use std::sync::OnceLock;

use loco_fabric::Platform;

use super::platform::{DynPrimitives, primitives};
use crate::AnyFabric;

struct Player {
    is_played: fn() -> bool,
    fabric: fn() -> Option<AnyFabric>,
    primitives: &'static dyn DynPrimitives,
}

static PLAYER: OnceLock<Player> = OnceLock::new();

/// Installs a player: threads for which `is_played` holds make the locks and atomics of the platform `P`, and `fabric` returns the
/// fabric of the calling thread's node, if it is played. A process has one player; later calls change nothing.
pub fn install<P: Platform>(is_played: fn() -> bool, fabric: fn() -> Option<AnyFabric>) {
    PLAYER.get_or_init(|| Player {
        is_played,
        fabric,
        primitives: primitives::<P>(),
    });
}

/// Returns the fabric of the calling thread's node, if a player runs this thread.
pub fn fabric_of_this_thread() -> Option<AnyFabric> {
    (PLAYER.get()?.fabric)()
}

/// Returns what makes locks and atomics for the calling thread, if a player runs it.
pub(super) fn primitives_of_this_thread() -> Option<&'static dyn DynPrimitives> {
    let player = PLAYER.get()?;
    (player.is_played)().then_some(player.primitives)
}
