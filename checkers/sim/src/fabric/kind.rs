//! The fabrics that a world can run on: the weakest that the contract allows, and one for each set of capabilities that a
//! shipped fabric has.
//!
//! Object code branches on [`Caps`]. An exploration therefore covers the code that runs on a shipped fabric only if the model's
//! fabric has the same capabilities.

use std::fmt;
use std::str::FromStr;

use loco_fabric::{Atomicity, Caps, Cost, Order};
use mowgli::model::Tier;
use serde::{Deserialize, Serialize};

/// The fabric of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricKind {
    /// The weakest: operations are posted, and read-modify-writes are atomic only against one another, unless a world asks for
    /// more ([`Config::glob`](crate::Config::glob)). Short puts are inline.
    #[default]
    Model,
    /// Shared memory, as `loco-shm`: every operation is done when the call that posts it returns. It consists of loads, stores
    /// and locked instructions of the poster's own processor. So its stores wait in the thread's store buffer, as any store
    /// does, and there is neither a card nor a network.
    Shm,
    /// A card whose read-modify-writes are atomic against the processor, too (`IBV_ATOMIC_GLOB`), as `loco-verbs` says of such
    /// a card. Puts of some length are inline.
    Verbs,
    /// A card as [`Verbs`](FabricKind::Verbs) that has no inline puts.
    VerbsNoInline,
    /// A provider of libfabric, as `loco-ofi`. Worlds of objects give each node a thread that polls.
    Ofi,
    /// Connections of TCP, as `loco-tcp`: operations are posted, those of a queue pair keep their order, and processors execute
    /// them at the peer, so that read-modify-writes are atomic against processors.
    Tcp,
}

/// The longest inline put of the weakest fabric, in bytes.
const INLINE_BYTES: usize = 64;
/// The longest inline put that `loco-verbs`, `loco-ofi` and `loco-tcp` ask for, in bytes.
const INLINE_BYTES_ASKED: usize = 512;
/// The longest inline put of `loco-shm`, in bytes.
const INLINE_BYTES_SYNCHRONOUS: usize = 4 << 20;

impl FabricKind {
    /// Every fabric.
    pub const ALL: [FabricKind; 6] = [
        FabricKind::Model,
        FabricKind::Shm,
        FabricKind::Verbs,
        FabricKind::VerbsNoInline,
        FabricKind::Ofi,
        FabricKind::Tcp,
    ];

    /// Returns the name that options, reports and schedules use.
    pub const fn name(self) -> &'static str {
        match self {
            FabricKind::Model => "model",
            FabricKind::Shm => "shm",
            FabricKind::Verbs => "verbs",
            FabricKind::VerbsNoInline => "verbs-no-inline",
            FabricKind::Ofi => "ofi",
            FabricKind::Tcp => "tcp",
        }
    }

    /// Returns whether every operation is done within the call that posts it. Such a fabric has no network.
    pub const fn is_synchronous(self) -> bool {
        matches!(self, FabricKind::Shm)
    }

    /// Returns whether the network may be of any tier. Otherwise it keeps the order of each queue pair, as
    /// [`Tier::Ibta`] does, or there is no network.
    pub const fn has_tiers(self) -> bool {
        !matches!(self, FabricKind::Shm | FabricKind::Tcp)
    }

    /// Returns whether remote read-modify-writes are atomic against the processor, whatever the world asks for.
    pub const fn is_glob(self) -> bool {
        matches!(
            self,
            FabricKind::Shm | FabricKind::Verbs | FabricKind::VerbsNoInline | FabricKind::Tcp
        )
    }

    /// Returns whether a thread of each node polls for completions on behalf of the others.
    pub const fn has_polling_thread(self) -> bool {
        matches!(self, FabricKind::Ofi)
    }

    /// Describes where a world runs: the fabric, unless it is the weakest, and the tier of its network, if it may be of several.
    pub fn on(self, tier: Tier) -> String {
        match self {
            FabricKind::Model => format!("tier {tier}"),
            _ if self.has_tiers() => format!("fabric {self}, tier {tier}"),
            _ => format!("fabric {self}"),
        }
    }

    /// Returns the capabilities. `glob` is what the world asks for, on the weakest fabric.
    pub fn caps(self, tier: Tier, glob: bool) -> Caps {
        let synchronous = self.is_synchronous();
        Caps {
            name: self.name().into(),
            inline_bytes_max: match self {
                FabricKind::Model => INLINE_BYTES,
                FabricKind::Shm => INLINE_BYTES_SYNCHRONOUS,
                FabricKind::Verbs | FabricKind::Ofi | FabricKind::Tcp => INLINE_BYTES_ASKED,
                FabricKind::VerbsNoInline => 0,
            },
            atomicity: match glob || self.is_glob() {
                true => Atomicity::Glob,
                false => Atomicity::Hca,
            },
            order: match self {
                FabricKind::Shm => Order::IMMEDIATE,
                FabricKind::Tcp => Order {
                    fenced: Cost::Wait,
                    ..Order::IN_ORDER
                },
                // Tiers have the same names there and here.
                _ => tier.name().parse().map_or(Order::IN_ORDER, Order::of_card),
            },
            puts_placed_on_post: synchronous,
            synchronous,
            device_memory_bytes: 0,
        }
    }
}

impl fmt::Display for FabricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that no fabric of the model has.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown fabric '{0}': expected one of {names}", names = FabricKind::ALL.map(FabricKind::name).join(", "))]
pub struct UnknownFabric(String);

loco_fabric::debug_as_display!(UnknownFabric);

impl FromStr for FabricKind {
    type Err = UnknownFabric;

    fn from_str(name: &str) -> Result<FabricKind, UnknownFabric> {
        let known = FabricKind::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownFabric(name.to_owned()))
    }
}
