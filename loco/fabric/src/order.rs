//! The orders between operations of one queue pair that a network gives by itself, and what the others cost.
//!
//! A [`Tier`] names what a network orders. `docs/ordering-models.md` has the tables and their sources, and `docs/ordering.md`
//! says which networks are of which tier.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A class of networks, by the order that they keep among the operations of one queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The order of the InfiniBand specification, with PCIe in its default mode.
    Ibta,
    /// Data of writes and reads is placed in any order; atomics keep theirs (mlx5 `dp_ordering` 1).
    OooRw,
    /// Every operation is carried out in any order (mlx5 `dp_ordering` 2).
    OooAll,
    /// The order of InfiniBand, but the bus before memory reorders writes (`IBV_ACCESS_RELAXED_ORDERING`, or a device whose
    /// keys are all of that kind).
    PcieRelaxed,
    /// Neither the network nor the bus keeps an order (EFA, the unordered modes of Ultra Ethernet).
    Unordered,
}

impl Tier {
    /// Every tier, the strongest first. Each allows what the one before it allows, except that `pcie-relaxed` is comparable
    /// with `ibta` alone.
    pub const ALL: [Tier; 5] = [
        Tier::Ibta,
        Tier::OooRw,
        Tier::OooAll,
        Tier::PcieRelaxed,
        Tier::Unordered,
    ];

    /// Returns the name that settings and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Ibta => "ibta",
            Tier::OooRw => "ooo-rw",
            Tier::OooAll => "ooo-all",
            Tier::PcieRelaxed => "pcie-relaxed",
            Tier::Unordered => "unordered",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that no tier has.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown tier '{0}': expected one of {names}", names = Tier::ALL.map(Tier::name).join(", "))]
pub struct UnknownTier(String);

crate::debug_as_display!(UnknownTier);

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(name: &str) -> Result<Tier, UnknownTier> {
        let known = Tier::ALL.into_iter().find(|tier| tier.name() == name);
        known.ok_or_else(|| UnknownTier(name.to_owned()))
    }
}

/// How a fabric knows the tier of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// A setting says so. Nothing checks it.
    Asked,
    /// The device or provider is known, or says so itself.
    Device,
    /// Nothing is known about the network, so the fabric relies on no order beyond this tier.
    Assumed,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Known::Asked => "asked for by a setting",
            Known::Device => "known of this device",
            Known::Assumed => "assumed, as nothing more is known of this device",
        })
    }
}

/// The costs of asking for an order ([`Caps::order`](crate::Caps::order)). A program may read it to choose between two ways
/// that are both right; no program needs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The tier of the network, which says what it orders by itself.
    pub tier: Tier,
    /// How that is known.
    pub known: Known,
    /// The cost of [`Work::strong`](crate::Work::strong). Where it is [`Cost::Free`], every operation is ordered as if it had
    /// asked.
    pub strong: Cost,
    /// The cost of [`Work::fenced`](crate::Work::fenced).
    pub fenced: Cost,
    /// The cost of a [`flush`](crate::QueuePair::flush).
    pub flush: Cost,
}

/// The price of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Nothing: the network orders so anyway.
    Free,
    /// A flag on the work request, which the network obeys.
    Flag,
    /// A wait for the completion of earlier operations before the request is given to the network.
    Wait,
    /// A read or a read-modify-write of the peer's memory, which takes a round trip.
    Read,
    /// A wait for the completion of earlier operations, and then what [`Cost::Read`] says.
    WaitAndRead,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Cost::Free => "free",
            Cost::Flag => "a flag on the request",
            Cost::Wait => "a wait for completion",
            Cost::Read => "a round trip",
            Cost::WaitAndRead => "a wait for completion and a round trip",
        })
    }
}

impl Order {
    /// The orders of a fabric on which every operation has taken effect when the next one begins.
    pub const IMMEDIATE: Order = Order {
        tier: Tier::Ibta,
        known: Known::Device,
        strong: Cost::Free,
        fenced: Cost::Free,
        flush: Cost::Free,
    };

    /// The orders of a network of the InfiniBand specification (tier `ibta`). Strong order is free there. A fenced
    /// operation costs a flag, and a flush a read.
    pub const IN_ORDER: Order = Order::of_card(Tier::Ibta);

    /// Returns the orders of a card of this tier that obeys every request by itself.
    pub const fn of_card(tier: Tier) -> Order {
        Order {
            tier,
            known: Known::Device,
            strong: match tier {
                Tier::Ibta => Cost::Free,
                _ => Cost::Flag,
            },
            fenced: Cost::Flag,
            flush: Cost::Read,
        }
    }
}

/// Writes the tier, how it is known, and the cost of each request.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Order {
            tier,
            known,
            strong,
            fenced,
            flush,
        } = self;
        write!(
            f,
            "tier {tier} ({known}); strong: {strong}, fenced: {fenced}, flush: {flush}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tiers_are_read_and_others_are_refused_with_the_known_ones() {
        for tier in Tier::ALL {
            assert_eq!(tier.name().parse(), Ok(tier));
            assert_eq!(format!("{tier:>12}").len(), 12);
        }
        let error = "ooo".parse::<Tier>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown tier 'ooo': expected one of ibta, ooo-rw, ooo-all, pcie-relaxed, unordered"
        );
    }

    #[test]
    fn an_order_says_its_tier_how_it_is_known_and_every_cost() {
        assert_eq!(
            Order::of_card(Tier::OooRw).to_string(),
            "tier ooo-rw (known of this device); strong: a flag on the request, fenced: a flag on the request, flush: a round trip"
        );
        assert!(
            Order::IMMEDIATE
                .to_string()
                .ends_with("strong: free, fenced: free, flush: free")
        );
    }
}
