//! The mapping of the contract to libfabric: the orders that a provider gives, and how the others are bought.
//!
//! Each operation of the contract is cut into *pieces*. A piece is one operation of libfabric, of one of three classes
//! ([`Class`]). Steps at the peer are the provider's. The steps here are ours: sources are copied when a piece is posted,
//! which happens in order, and results land when the operation is the oldest of its queue pair, so in order too. What
//! remains are the orders of steps at the peer, which the contract demands of *strong* operations:
//!
//! | earlier, later and strong | what the request means | what gives it between pieces of one class |
//! |---|---|---|
//! | put, put | placed in order | `FI_ORDER_WAW`, up to `max_order_waw_size` |
//! | put, get | placed before it is read | `FI_ORDER_RAW`, up to `max_order_raw_size` |
//! | put, read-modify-write | placed before it reads and writes | both |
//! | read-modify-write, put | done before it is placed | `FI_ORDER_WAW` and `FI_ORDER_WAR` |
//! | read-modify-write, get | done before it is read | `FI_ORDER_RAW` and `FI_ORDER_RAR` |
//! | read-modify-write, read-modify-write | one after the other | all four |
//! | get, anything | nothing | |
//! | get or read-modify-write, fenced operation | landed before it begins | nothing: bought by waiting |
//!
//! `FI_ORDER_RMA_*` and `FI_ORDER_ATOMIC_*` do the same for reads and writes, and for atomics, alone. The message order says
//! that headers arrive in order; the order of the data is another promise, limited by the sizes. An order that is not given is
//! **bought**: the later operation, if it asks, is held back until the earlier ones have completed, and writes are posted with
//! `FI_DELIVERY_COMPLETE`, without which a completion does not say that the data are placed. An operation that does not ask
//! waits for nothing. `FI_FENCE` is not used:
//! holding back does the same for every provider.
//!
//! A **flush** is a read that waits for nothing. It completes after the operations before it, since a queue pair's operations
//! complete in their order. Where a read comes after them by the provider's order, it has seen their writes; where that order is
//! not given, their completions say that they are placed.
//!
//! **Words.** The contract says that aligned words do not tear. libfabric says so of the elements of an atomic operation
//! and not of reads and writes, and `tcp` does tear them: a word may lie in two segments of its stream, which are received one
//! after the other. Words therefore travel as elements of `FI_ATOMIC_WRITE` and `FI_ATOMIC_READ` ([`Words::Atomic`]),
//! except with providers whose reads and writes are those of an RDMA card ([`Words::Rma`]), on which `loco-verbs`
//! relies, too.
//!
//! **Known.** `ofi_rxm` carries out an atomic, whole, when it handles the header, and handles headers in their order.
//! It promises message order and sizes of 0, since its reads and writes go another way and may overtake its atomics.
//! The mapping therefore does not ask for sizes between atomics. Between atomics, write-after-write order also gives
//! write-after-read order here. The provider's attributes do not say so ([`Trust::Known`]). The parts of an atomic on several
//! ranges are carried out in their order, too, so a piece may carry several operations. [`Trust::Attributes`]
//! relies on the attributes alone.
//!
//! **Atomicity.** A node has one endpoint, through which its own operations towards itself go, too, so the provider
//! carries out all read-modify-writes of the node's memory. libfabric promises that these are atomic against one
//! another, and nothing about the CPU: [`Hca`](loco_fabric::Atomicity::Hca). As `ofi_rxm` carries them out in calls of
//! the target's process, which are made under one lock, the node's own operations towards itself are carried out under
//! that lock there, without the provider.
//!
//! **Tested.** Litmus tests run on a provider that uses all the freedom of its attributes, and find what it keeps less than it says
//! (`checkers/litmus/tests/mapping.rs`).
//!
//! Relies on `ffi::types` for the constants. Used by `provider` to choose, and by `engine` to hold back.

use std::fmt;

use loco_fabric::{Cost, Known, Order, Tier};

use crate::ffi::types::*;

/// The effect of an operation at the peer.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It writes: a put.
    Write = 0,
    /// It reads: a get, or a flush.
    Read = 1,
    /// It reads and writes: a read-modify-write.
    Rmw = 2,
}

impl Class {
    /// The classes.
    pub const ALL: [Class; 3] = [Class::Write, Class::Read, Class::Rmw];
}

/// The way in which words travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// As elements of atomic operations.
    Atomic,
    /// By reads and writes, because the provider's do not tear words.
    Rma,
}

/// The promises that the mapping relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Trust {
    /// The provider's attributes, and the properties of the provider known from its source (see `docs/networks.md`).
    #[default]
    Known,
    /// The provider's attributes alone.
    Attributes,
}

/// The attributes of a provider that decide about the mapping.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The provider, with the layers above it: `tcp;ofi_rxm`.
    pub provider: String,
    /// The orders of headers that both sides keep.
    pub msg_order: u64,
    /// The most bytes of an operation in read-after-write order; likewise the others.
    pub raw_bytes_max: usize,
    /// See `raw_bytes_max`.
    pub war_bytes_max: usize,
    /// See `raw_bytes_max`.
    pub waw_bytes_max: usize,
}

/// The mapping of the contract to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The way in which words travel.
    pub words: Words,
    /// `[earlier][later]`: whether the provider gives the order that the contract demands, if it demands one.
    given: [[bool; 3]; 3],
    /// Whether read-modify-writes are carried out by calls of the target's process.
    by_calls: bool,
}

impl Mapping {
    /// Returns the mapping to a provider with these attributes, for pieces of at most `piece_bytes`.
    #[doc(hidden)]
    pub fn of(attributes: &Attributes, trust: Trust, piece_bytes: usize) -> Mapping {
        let words = words(&attributes.provider);
        let known = trust == Trust::Known && handles_in_order(&attributes.provider);
        let promises = |bits: u64| attributes.msg_order & bits != 0;
        let given = |earlier: Class, later: Class| {
            // Libfabric has separate orders among atomics and among reads and writes.
            let atomic = |class| words == Words::Atomic || class == Class::Rmw;
            let (both_atomic, both_rma) = (
                atomic(earlier) && atomic(later),
                !atomic(earlier) && !atomic(later),
            );
            let narrow = |atomic: u64, rma: u64| match (both_atomic, both_rma) {
                (true, _) => atomic,
                (_, true) => rma,
                _ => 0,
            };
            let whole = known && both_atomic;
            let fits = |bytes_max: usize| whole || piece_bytes <= bytes_max;
            let raw = promises(FI_ORDER_RAW | narrow(FI_ORDER_ATOMIC_RAW, FI_ORDER_RMA_RAW))
                && fits(attributes.raw_bytes_max);
            let waw = promises(FI_ORDER_WAW | narrow(FI_ORDER_ATOMIC_WAW, FI_ORDER_RMA_WAW))
                && fits(attributes.waw_bytes_max);
            let war = whole && waw
                || promises(FI_ORDER_WAR | narrow(FI_ORDER_ATOMIC_WAR, FI_ORDER_RMA_WAR))
                    && fits(attributes.war_bytes_max);
            let rar = promises(FI_ORDER_RAR | narrow(FI_ORDER_ATOMIC_RAR, FI_ORDER_RMA_RAR));
            match (earlier, later) {
                // The contract does not order operations that follow a get.
                (Class::Read, _) => true,
                (Class::Write, Class::Write) => waw,
                (Class::Write, Class::Read) => raw,
                (Class::Write, Class::Rmw) => waw && raw,
                (Class::Rmw, Class::Write) => waw && war,
                (Class::Rmw, Class::Read) => raw && rar,
                (Class::Rmw, Class::Rmw) => waw && war && raw && rar,
            }
        };
        Mapping {
            words,
            given: Class::ALL.map(|earlier| Class::ALL.map(|later| given(earlier, later))),
            by_calls: known,
        }
    }

    /// Returns true if a strong operation of class `later` must be held back while a piece of `earlier` is under way.
    #[doc(hidden)]
    #[inline]
    pub fn holds(&self, earlier: Class, later: Class) -> bool {
        !self.given[earlier as usize][later as usize]
    }

    /// Returns true if some strong operations of this class must be held back.
    pub(crate) fn buys(&self, later: Class) -> bool {
        Class::ALL.iter().any(|&earlier| self.holds(earlier, later))
    }

    /// Returns what the provider orders by itself, and what the other orders cost. A provider that lacks any order that can be
    /// asked for counts as one that has none.
    pub fn order(&self) -> Order {
        let buys = Class::ALL.iter().any(|&later| self.buys(later));
        Order {
            tier: if buys { Tier::Unordered } else { Tier::Ibta },
            known: Known::Device,
            strong: if buys { Cost::Wait } else { Cost::Free },
            fenced: Cost::Wait,
            flush: Cost::Read,
        }
    }

    /// Returns true if a fenced operation must be held back until the results of `earlier` operations have landed.
    #[inline]
    pub(crate) fn fences(&self, earlier: Class) -> bool {
        earlier != Class::Write
    }

    /// Returns true if a node may carry out its operations on its own memory by itself, between calls to the provider: its
    /// read-modify-writes are then atomic against those of others, which the provider carries out in such calls.
    pub(crate) fn own_by_calls(&self) -> bool {
        self.by_calls
    }

    /// Returns true if a piece may carry several operations: its provider carries out the parts of an atomic whole, and in
    /// their order.
    pub(crate) fn gathers(&self) -> bool {
        self.by_calls && self.words == Words::Atomic
    }

    /// Returns true if completions must say that the data are placed (`FI_DELIVERY_COMPLETE`), because something waits
    /// for them.
    pub(crate) fn needs_delivery(&self) -> bool {
        Class::ALL
            .iter()
            .any(|&later| self.holds(Class::Write, later) || self.holds(Class::Rmw, later))
    }

    /// Returns true if writes must be posted so that their completions say that the data are placed.
    pub(crate) fn writes_need_delivery(&self) -> bool {
        Class::ALL.iter().any(|&later| self.holds(Class::Write, later))
    }
}

/// Prints the orders that are given and those that are bought, for logs and `loco fabrics`.
impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.words {
            Words::Atomic => "words by atomics",
            Words::Rma => "words by reads and writes",
        };
        let names = ["put", "get", "read-modify-write"];
        let mut bought = Vec::new();
        for earlier in Class::ALL {
            for later in Class::ALL {
                if self.holds(earlier, later) {
                    bought.push(format!(
                        "{} after {}",
                        names[later as usize], names[earlier as usize]
                    ));
                }
            }
        }
        if bought.is_empty() {
            return write!(f, "{words}; every order given");
        }
        write!(f, "{words}; by waiting, where asked for: {}", bought.join(", "))
    }
}

/// Returns the way in which words travel with `provider`.
fn words(provider: &str) -> Words {
    let core = provider.split(';').next().unwrap_or(provider);
    match core {
        // A card places an aligned word by one transaction, see `docs/networks.md`.
        "verbs" | "cxi" => Words::Rma,
        _ => Words::Atomic,
    }
}

/// Returns true if `provider` carries out an atomic when it handles its header.
fn handles_in_order(provider: &str) -> bool {
    provider.split(';').any(|layer| layer == "ofi_rxm")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATOMIC: u64 = FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAW;
    const RMA: u64 = FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;

    fn attributes(provider: &str, msg_order: u64, bytes_max: usize) -> Attributes {
        Attributes {
            provider: provider.to_owned(),
            msg_order,
            raw_bytes_max: bytes_max,
            war_bytes_max: bytes_max,
            waw_bytes_max: bytes_max,
        }
    }

    fn held(mapping: &Mapping) -> Vec<(Class, Class)> {
        let pairs = Class::ALL.into_iter().flat_map(|a| Class::ALL.map(|b| (a, b)));
        pairs.filter(|&(a, b)| mapping.holds(a, b)).collect()
    }

    use Class::{Read, Rmw, Write};

    #[test]
    fn a_provider_that_promises_nothing_is_waited_for() {
        for trust in [Trust::Known, Trust::Attributes] {
            let mapping = Mapping::of(&attributes("new", 0, 0), trust, 64);
            let all = [
                (Write, Write),
                (Write, Read),
                (Write, Rmw),
                (Rmw, Write),
                (Rmw, Read),
                (Rmw, Rmw),
            ];
            assert_eq!(held(&mapping), all);
            assert!(mapping.needs_delivery() && mapping.writes_need_delivery());
        }
    }

    #[test]
    fn a_provider_that_promises_everything_is_never_waited_for() {
        let all = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW;
        for provider in ["new", "verbs"] {
            let mapping = Mapping::of(&attributes(provider, all, usize::MAX), Trust::Attributes, 4096);
            assert_eq!(held(&mapping), []);
            assert!(!mapping.needs_delivery());
        }
    }

    #[test]
    fn the_order_of_headers_alone_is_not_enough() {
        // The attributes that `tcp;ofi_rxm` of libfabric 1.17 gives when it is asked for atomics.
        let rxm = attributes("tcp;ofi_rxm", ATOMIC | RMA, 0);
        let known = Mapping::of(&rxm, Trust::Known, 4096);
        assert_eq!(known.words, Words::Atomic);
        assert_eq!(held(&known), []);
        let strict = Mapping::of(&rxm, Trust::Attributes, 4096);
        assert_eq!(held(&strict).len(), 6);
        // Nothing is known of another provider with these attributes.
        let other = attributes("new", ATOMIC | RMA, 0);
        assert_eq!(held(&Mapping::of(&other, Trust::Known, 4096)).len(), 6);
    }

    #[test]
    fn orders_hold_up_to_a_size() {
        let limited = attributes("new", ATOMIC, 64);
        assert_eq!(
            held(&Mapping::of(&limited, Trust::Attributes, 64)),
            [(Rmw, Write), (Rmw, Rmw)]
        );
        assert_eq!(held(&Mapping::of(&limited, Trust::Attributes, 65)).len(), 6);
    }

    #[test]
    fn orders_of_a_class_do_not_join_classes() {
        // Puts are writes there, and read-modify-writes atomics.
        let verbs = attributes("verbs;ofi_rxm", ATOMIC | RMA, usize::MAX);
        let mapping = Mapping::of(&verbs, Trust::Known, 4096);
        assert_eq!(mapping.words, Words::Rma);
        assert_eq!(held(&mapping), [(Write, Rmw), (Rmw, Write), (Rmw, Read)]);
    }
}
