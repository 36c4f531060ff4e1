//! The promises of a provider, stated and kept, so that a test can make a provider of any weakness, or one that
//! states more than it keeps.
//!
//! [`WeakProvider`] is the configuration of `weak`. Relies on `order` for the attributes and on `ffi::types` for the
//! constants. Used by `config`, by `provider`, which takes the mapping from here, and by `weak`.

use crate::ffi::types::*;
use crate::order::{Attributes, Bought, Class, Mapping, Trust};

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

/// The properties of an operation on which orders depend.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) class: Class,
    pub(crate) atomic: bool,
    pub(crate) bytes: usize,
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

    /// Returns true if `later` may not overtake `earlier`: each access of the one comes after every access of the
    /// other. Takes libfabric's manual in its weakest sense: a fetching atomic reads and writes, so it is in order if
    /// both of its accesses are.
    pub(crate) fn keep(&self, earlier: Shape, later: Shape) -> bool {
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

    fn bits(&self) -> u64 {
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

/// Returns whether an operation reads (`false`), writes (`true`), or does both.
fn writes(class: Class) -> &'static [bool] {
    match class {
        Class::Write => &[true],
        Class::Read => &[false],
        Class::Rmw => &[false, true],
    }
}

/// A provider as weak as its attributes allow. It hands operations to the real provider in any order that it need not
/// keep. It reports writes that were not asked to be delivered (`FI_DELIVERY_COMPLETE`) at any time.
///
/// This is a test aid without useful speed. If `says` is `keeps`, the provider is honest, and the fabric on it keeps
/// the contract. If it says more than it keeps, or if the fabric goes `without` something, the fabric is broken, and
/// tests should find that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeakProvider {
    /// The seed of its choices. (It does not control the scheduling of threads, so it does not replay a run.)
    pub seed: u64,
    /// Its name, from which the mapping concludes how words travel ([`Words`](crate::Words)) and what is known
    /// besides the attributes ([`Trust::Known`]).
    pub name: String,
    /// The orders of its attributes.
    pub says: Orders,
    /// The orders that it keeps.
    pub keeps: Orders,
    /// The purchase that the mapping leaves out, if any.
    pub without: Option<Bought>,
}

impl WeakProvider {
    /// Returns a provider called `weak` that keeps these orders and says so.
    pub fn honest(seed: u64, orders: Orders) -> WeakProvider {
        WeakProvider {
            seed,
            name: "weak".to_owned(),
            says: orders,
            keeps: orders,
            without: None,
        }
    }

    /// Returns the mapping that follows from the attributes.
    pub(crate) fn mapping(&self, trust: Trust, piece_bytes: usize) -> Mapping {
        let attributes = Attributes {
            provider: self.name.clone(),
            msg_order: self.says.bits(),
            raw_bytes_max: self.says.raw.bytes_max,
            war_bytes_max: self.says.war.bytes_max,
            waw_bytes_max: self.says.waw.bytes_max,
        };
        let mapping = Mapping::of(&attributes, trust, piece_bytes);
        match self.without {
            None => mapping,
            Some(bought) => mapping.without(bought),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Words;

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
                let provider = WeakProvider {
                    name: name.to_owned(),
                    ..WeakProvider::honest(0, keeps)
                };
                let mapping = provider.mapping(Trust::Known, 64);
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
