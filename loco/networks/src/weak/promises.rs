//! The orders of a provider, stated or kept, so that a test can make a provider of any weakness, or one that states more
//! than it keeps.

use loco_fabric::Tier;
use loco_ofi::Class;
use loco_ofi::ffi::types::*;

/// An order of two operations towards a peer, by their accesses there: one reads or writes after the other has read
/// or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Between any two operations (`FI_ORDER_RAW` and so on).
    pub all: bool,
    /// Between two atomic operations (`FI_ORDER_ATOMIC_RAW` and so on).
    pub atomics: bool,
    /// Between two reads or writes (`FI_ORDER_RMA_RAW` and so on).
    pub rma: bool,
    /// The most bytes of an operation in this order (`max_order_raw_size` and so on). Libfabric has no such limit for the
    /// order of two reads.
    pub bytes_max: usize,
}

impl Order {
    /// Any two operations are in order.
    pub const ALL: Order = Order {
        all: true,
        atomics: true,
        rma: true,
        bytes_max: usize::MAX,
    };
    /// No two operations are in order.
    pub const NONE: Order = Order {
        all: false,
        atomics: false,
        rma: false,
        bytes_max: 0,
    };

    fn holds(self, atomics: [bool; 2], bytes: usize) -> bool {
        let of_these = match atomics {
            [true, true] => self.all || self.atomics,
            [false, false] => self.all || self.rma,
            _ => self.all,
        };
        of_these && bytes <= self.bytes_max
    }
}

/// The orders of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// Read after write.
    pub raw: Order,
    /// Write after read.
    pub war: Order,
    /// Write after write.
    pub waw: Order,
    /// Read after read.
    pub rar: Order,
}

/// The orders that a provider keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The orders of attributes. An operation takes effect when it is handed on, and a write may be reported before that.
    Orders(Orders),
    /// The order of a network of this tier and of the bus behind it (`docs/ordering-models.md`). All operations towards a peer
    /// are of one queue pair.
    Tier(Tier),
}

/// The properties of an operation on which orders depend.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) class: Class,
    pub(super) atomic: bool,
    pub(super) bytes: usize,
}

impl Orders {
    /// Every order.
    pub const ALL: Orders = Orders::of(Order::ALL);
    /// No order.
    pub const NONE: Orders = Orders::of(Order::NONE);

    /// Returns this order for reads and writes in each position.
    pub const fn of(order: Order) -> Orders {
        Orders {
            raw: order,
            war: order,
            waw: order,
            rar: order,
        }
    }

    /// Returns the orders that attributes can truly state for a network of this tier. They have no words for an order of
    /// atomics that reads lack, and their promises are about memory, behind the bus.
    pub const fn of_tier(tier: Tier) -> Orders {
        match tier {
            Tier::Ibta => Orders {
                raw: Order::ALL,
                waw: Order::ALL,
                ..Orders::NONE
            },
            Tier::OooRw | Tier::OooAll | Tier::PcieRelaxed | Tier::Unordered => Orders::NONE,
        }
    }

    /// Returns true if `later` may not overtake `earlier`: each access of the one comes after every access of the
    /// other. Takes libfabric's manual in its weakest sense: a fetching atomic reads and writes, so it is in order if
    /// both of its accesses are.
    pub(super) fn keep(&self, earlier: Shape, later: Shape) -> bool {
        let atomics = [earlier.atomic, later.atomic];
        let bytes = earlier.bytes.max(later.bytes);
        let in_order = |after: &Order| after.holds(atomics, bytes);
        writes(earlier.class).iter().all(|&earlier_writes| {
            writes(later.class)
                .iter()
                .all(|&later_writes| match (earlier_writes, later_writes) {
                    (true, false) => in_order(&self.raw),
                    (false, true) => in_order(&self.war),
                    (true, true) => in_order(&self.waw),
                    (false, false) => self.rar.holds(atomics, 0),
                })
        })
    }

    /// Returns the orders as attributes state them (`msg_order`).
    pub(super) fn bits(&self) -> u64 {
        let bits = |order: &Order, [all, atomics, rma]: [u64; 3]| {
            [(order.all, all), (order.atomics, atomics), (order.rma, rma)]
                .into_iter()
                .filter_map(|(promised, bit)| promised.then_some(bit))
                .sum::<u64>()
        };
        bits(&self.raw, [FI_ORDER_RAW, FI_ORDER_ATOMIC_RAW, FI_ORDER_RMA_RAW])
            | bits(&self.war, [FI_ORDER_WAR, FI_ORDER_ATOMIC_WAR, FI_ORDER_RMA_WAR])
            | bits(&self.waw, [FI_ORDER_WAW, FI_ORDER_ATOMIC_WAW, FI_ORDER_RMA_WAW])
            | bits(&self.rar, [FI_ORDER_RAR, FI_ORDER_ATOMIC_RAR, FI_ORDER_RMA_RAR])
    }
}

/// Returns whether the network of a tier keeps `later` behind `earlier`: the columns G, H and K of its table, where the
/// effect at the peer is concerned.
pub(super) fn network_keeps(tier: Tier, earlier: Class, later: Class) -> bool {
    match tier {
        Tier::Ibta | Tier::PcieRelaxed => earlier != Class::Read,
        Tier::OooRw => earlier != Class::Read && later == Class::Rmw,
        Tier::OooAll | Tier::Unordered => false,
    }
}

/// Returns whether the bus of a tier places writes in the order in which the network sent them, and before what then reads.
pub(super) fn bus_keeps(tier: Tier) -> bool {
    matches!(tier, Tier::Ibta | Tier::OooRw | Tier::OooAll)
}

/// Returns whether an operation reads (`false`), writes (`true`), or does both.
fn writes(class: Class) -> &'static [bool] {
    match class {
        Class::Write => &[true],
        Class::Read => &[false],
        Class::Rmw => &[false, true],
    }
}

#[cfg(test)]
mod tests {
    use loco_ofi::{Attributes, Mapping, Trust, Words};

    use super::*;

    /// A played tier keeps every order that its attributes state.
    #[test]
    fn a_tier_states_no_more_than_it_keeps() {
        for tier in Tier::ALL {
            let shape = |class| Shape {
                class,
                atomic: false,
                bytes: 8,
            };
            for earlier in Class::ALL {
                for later in Class::ALL {
                    let stated = Orders::of_tier(tier).keep(shape(earlier), shape(later));
                    let kept = network_keeps(tier, earlier, later) && bus_keeps(tier);
                    assert!(kept || !stated, "{tier}, {earlier:?}, {later:?}");
                }
            }
        }
    }

    /// The mapping relies on the orders that an honest provider keeps, and buys all others, for all attributes.
    #[test]
    fn the_mapping_buys_what_an_honest_provider_does_not_keep() {
        const BITS: u64 = 1 << 15;
        let order = |bits: u64| Order {
            all: bits & 1 != 0,
            atomics: bits & 2 != 0,
            rma: bits & 4 != 0,
            bytes_max: 64,
        };
        let limited = |bits: u64, limit: bool| match limit {
            false => order(bits),
            true => Order {
                bytes_max: 63,
                ..order(bits)
            },
        };
        for bits in 0..BITS {
            let keeps = Orders {
                raw: limited(bits, bits & 1 << 12 != 0),
                war: limited(bits >> 3, bits & 1 << 13 != 0),
                waw: limited(bits >> 6, bits & 1 << 14 != 0),
                rar: order(bits >> 9),
            };
            for name in ["weak", "verbs"] {
                let attributes = Attributes {
                    provider: name.to_owned(),
                    msg_order: keeps.bits(),
                    raw_bytes_max: keeps.raw.bytes_max,
                    war_bytes_max: keeps.war.bytes_max,
                    waw_bytes_max: keeps.waw.bytes_max,
                };
                let mapping = Mapping::of(&attributes, Trust::Known, 64);
                let shape = |class| Shape {
                    class,
                    atomic: class == Class::Rmw || mapping.words == Words::Atomic,
                    bytes: 64,
                };
                for earlier in [Class::Write, Class::Rmw] {
                    for later in Class::ALL {
                        let kept = keeps.keep(shape(earlier), shape(later));
                        let held = mapping.holds(earlier, later);
                        assert_eq!(held, !kept, "{name}, {earlier:?}, {later:?}: {keeps:?}");
                    }
                }
            }
        }
    }
}
