//! Which requests of one queue pair a NIC may carry out before earlier ones, tier by tier (`docs/ordering-models.md`).

use loco_fabric::Tier;

use crate::wire::{Header, flag, kind};

/// What the order rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Read,
    Atomic,
    /// A send, or a write with an immediate value: it takes a receive.
    Send,
}

impl Kind {
    /// Returns the kind of a request.
    pub fn of(header: &Header) -> Kind {
        match header.kind {
            kind::WRITE if header.has(flag::IMMEDIATE) => Kind::Send,
            kind::WRITE => Kind::Write,
            kind::READ => Kind::Read,
            kind::SWAP | kind::ADD => Kind::Atomic,
            _ => Kind::Send,
        }
    }
}

/// Returns whether results come in the order of the requests.
pub(super) fn answers_in_order(tier: Tier) -> bool {
    matches!(tier, Tier::Ibta | Tier::PcieRelaxed)
}

/// Returns whether a request may be carried out before an earlier one.
pub(super) fn passes(tier: Tier, later: Kind, earlier: Kind) -> bool {
    match tier {
        // Rows H and I of the table: a read keeps nothing back but by the fence flag, which the requester obeys.
        Tier::Ibta | Tier::PcieRelaxed => earlier == Kind::Read,
        Tier::OooRw => match (later, earlier) {
            (_, Kind::Read) | (Kind::Write | Kind::Read, _) => true,
            // The requester holds an atomic back until the writes before it are acknowledged, and a receive's completion announces
            // all that was sent before.
            (Kind::Atomic | Kind::Send, _) => false,
        },
        Tier::OooAll | Tier::Unordered => true,
    }
}

/// Returns whether a read at the target finds what its queue pair wrote before: the bus keeps it behind the writes.
pub(super) fn reads_push(tier: Tier) -> bool {
    tier != Tier::Unordered
}

/// Returns whether a read, or the read of an atomic, finds also what its queue pair wrote before to regions of relaxed ordering.
/// `atomics_push` is the setting of that name.
pub(super) fn pushes_relaxed(tier: Tier, kind: Kind, atomics_push: bool) -> bool {
    reads_push(tier) && (tier != Tier::PcieRelaxed || kind == Kind::Atomic && atomics_push)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_relaxed_bus_an_atomic_alone_pushes_and_only_if_it_is_set() {
        for kind in [Kind::Read, Kind::Atomic] {
            for set in [false, true] {
                let pushes = |tier| pushes_relaxed(tier, kind, set);
                assert_eq!(pushes(Tier::PcieRelaxed), kind == Kind::Atomic && set, "{kind:?}");
                assert!(pushes(Tier::Ibta) && pushes(Tier::OooAll) && !pushes(Tier::Unordered));
            }
        }
    }

    #[test]
    fn weaker_tiers_allow_what_stronger_ones_do() {
        let kinds = [Kind::Write, Kind::Read, Kind::Atomic, Kind::Send];
        let chain = [Tier::Ibta, Tier::OooRw, Tier::OooAll, Tier::Unordered];
        for pair in chain.windows(2) {
            for later in kinds {
                for earlier in kinds {
                    assert!(!passes(pair[0], later, earlier) || passes(pair[1], later, earlier));
                }
            }
        }
    }

    #[test]
    fn writes_keep_their_order_on_ibta_only() {
        for tier in Tier::ALL {
            let in_order = matches!(tier, Tier::Ibta | Tier::PcieRelaxed);
            assert_eq!(passes(tier, Kind::Write, Kind::Write), !in_order);
        }
        assert!(!passes(Tier::OooRw, Kind::Atomic, Kind::Write));
        assert!(passes(Tier::OooAll, Kind::Atomic, Kind::Write));
    }
}
