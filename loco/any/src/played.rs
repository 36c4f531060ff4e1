//! Knows the player that runs threads on a fabric of its own. `loco-sim` installs itself here.
//!
//! A program that begins with `loco::run` has no fabric yet, and asks here whether its thread is one of a player.

use std::sync::OnceLock;

use loco_fabric::Platform;

use crate::erased;
use crate::fabric::AnyFabric;

/// Returns the fabric of the calling thread's node.
static FABRIC: OnceLock<fn() -> Option<AnyFabric>> = OnceLock::new();

/// Installs a player: threads for which `is_played` holds make the locks and atomics of the platform `P`, and `fabric` returns the
/// fabric of the calling thread's node, if it is played. A process has one player; later calls change nothing.
pub fn install<P: Platform>(is_played: fn() -> bool, fabric: fn() -> Option<AnyFabric>) {
    erased::install::<P>(is_played);
    FABRIC.get_or_init(|| fabric);
}

/// Returns the fabric of the calling thread's node, if a player runs this thread.
pub fn fabric_of_this_thread() -> Option<AnyFabric> {
    FABRIC.get()?()
}
