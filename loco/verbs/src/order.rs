//! The tier of a device, and the means by which the fabric obtains the orders that the device does not give.
//!
//! A verbs program cannot ask a device for its tier: an mlx5 card of the newest kind chooses out-of-order placement by
//! itself, and `ibv_query_qp_data_in_order` speaks of one work request only. So the fabric counts on the order of devices that
//! are known to it, and elsewhere obtains each order that is asked for by a wait. A setting says more, or less; nothing can check it.
//!
//! | tier | a strong operation, and a flush, first |
//! |---|---|
//! | `ibta` | do nothing: the device orders |
//! | `ooo-rw`, `ooo-all` | wait for the completion of the earlier puts and atomics: what is acknowledged is placed before anything that arrives later. Atomics of `ooo-rw` need no wait, since the card holds them back itself |
//! | `pcie-relaxed` | wait for the completion of everything earlier, and then for that of a fetch-and-add of zero |
//!
//! They wait in their queue pair (`line`), and the posting call does not.
//!
//! The remedies are those of `docs/ordering-models.md`. That of `pcie-relaxed` rests on `ibv_reg_mr(3)`, which says that relaxed
//! writes do not bypass atomics. Others dispute it for devices in PCI-atomic mode, and the models do not count on it. The
//! fabric itself registers no memory of relaxed ordering; the tier is for devices that treat all memory so.
//!
//! Relies on `config` and `sysfs`. Used by `fabric`, and by `line`, which keeps these rules.

use loco_fabric::{Atomicity, Cost, FabricError, Known, Order, Result, Tier};

use super::config::VerbsConfig;
use super::ffi::types::IBV_ACCESS_RELAXED_ORDERING;
use super::sysfs::Choice;

// Nothing that the fabric registers may be reordered on the bus.
const _: () = assert!(super::device::ACCESS & IBV_ACCESS_RELAXED_ORDERING == 0);

/// Returns the order that a node with this configuration relies on with this device, and the costs of the others. A job
/// relies on the weakest of its nodes.
pub fn order(config: &VerbsConfig, choice: &Choice) -> Order {
    let fences_stall = config.provider.fences_stall(choice);
    order_of(config.order, config.provider.tier(choice), fences_stall)
}

/// Returns the orders of a device, given the tier that a setting asks for and the one that is known of the device.
fn order_of(asked: Option<Tier>, known: Option<Tier>, fences_stall: bool) -> Order {
    let (tier, known) = match (asked, known) {
        (Some(tier), _) => (tier, Known::Asked),
        (None, Some(tier)) => (tier, Known::Device),
        (None, None) => (Tier::OooAll, Known::Assumed),
    };
    let (strong, flush) = match tier {
        Tier::Ibta => (Cost::Free, Cost::Read),
        Tier::OooRw | Tier::OooAll => (Cost::Wait, Cost::WaitAndRead),
        Tier::PcieRelaxed | Tier::Unordered => (Cost::WaitAndRead, Cost::WaitAndRead),
    };
    Order {
        tier,
        known,
        strong,
        fenced: if fences_stall { Cost::Wait } else { Cost::Flag },
        flush,
    }
}

/// Returns the order that two nodes can count on together: that for which more is bought.
pub(super) fn weaker(a: Order, b: Order) -> Order {
    if bought(b.tier) > bought(a.tier) { b } else { a }
}

/// Ranks tiers by what is bought: what is bought for one is enough for those of smaller ranks.
fn bought(tier: Tier) -> u8 {
    match tier {
        Tier::Ibta => 0,
        Tier::OooRw => 1,
        Tier::OooAll => 2,
        Tier::PcieRelaxed => 3,
        Tier::Unordered => 4,
    }
}

/// Fails if a setting says that the device orders more than it is known to.
pub(super) fn check_asked(config: &VerbsConfig, choice: &Choice) -> Result<()> {
    match (config.order, config.provider.tier(choice)) {
        (Some(asked), Some(known)) if bought(asked) < bought(known) => Err(FabricError::Config(format!(
            "{choice} is known to be of tier {known}, and `VerbsConfig::order` (LOCO_VERBS_ORDER) says {asked}, with which data \
             could be seen after its flag: give {known}, or `auto`"
        ))),
        _ => Ok(()),
    }
}

/// Fails if the fabric cannot obtain the orders of the contract on this tier. On `unordered` no read, atomic or completion says that
/// earlier data are placed, so that nothing that verbs offers can order them.
pub(super) fn check(order: Order, atomicity: Atomicity, choice: &Choice) -> Result<()> {
    if order.tier == Tier::Unordered {
        return Err(FabricError::Config(format!(
            "{choice} is of tier {tier}, on which no operation of verbs waits until earlier ones are placed: use `--fabric ofi`, \
             or say by LOCO_VERBS_ORDER that some node's device orders more",
            tier = order.tier
        )));
    }
    if order.tier == Tier::PcieRelaxed && atomicity == Atomicity::None {
        return Err(FabricError::Config(format!(
            "{choice} is of tier {tier} and has no remote atomics, without which nothing can be ordered there: use \
             `--fabric ofi`, or say by LOCO_VERBS_ORDER that some node's device orders more",
            tier = order.tier
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_ordered_is_bought() {
        let unknown = order_of(None, None, false);
        assert_eq!((unknown.tier, unknown.known), (Tier::OooAll, Known::Assumed));
        assert_eq!((unknown.strong, unknown.flush), (Cost::Wait, Cost::WaitAndRead));
        let software = order_of(None, Some(Tier::Ibta), true);
        assert_eq!((software.tier, software.known), (Tier::Ibta, Known::Device));
        assert_eq!((software.strong, software.fenced), (Cost::Free, Cost::Wait));
        let forced = order_of(Some(Tier::OooRw), Some(Tier::Ibta), false);
        assert_eq!((forced.tier, forced.known), (Tier::OooRw, Known::Asked));
    }

    #[test]
    fn a_device_that_is_known_to_order_nothing_is_refused() {
        let choice = Choice {
            device: "loco0".to_owned(),
            port: 1,
            gid_index: None,
            address: std::net::Ipv4Addr::LOCALHOST.into(),
        };
        let order = order_of(None, Some(Tier::Unordered), false);
        let refused = check(order, Atomicity::Hca, &choice).expect_err("nothing orders there");
        assert!(refused.to_string().contains("of tier unordered"), "{refused}");
        for tier in [Tier::Ibta, Tier::OooRw, Tier::OooAll, Tier::PcieRelaxed] {
            check(order_of(None, Some(tier), false), Atomicity::Hca, &choice).expect("it can be bought");
        }
    }

    #[test]
    fn a_job_counts_on_its_weakest_node() {
        let of = |tier| order_of(Some(tier), None, false);
        let (strong, weak) = (of(Tier::Ibta), of(Tier::OooAll));
        assert_eq!(weaker(strong, weak), weak);
        assert_eq!(weaker(weak, strong), weak);
        assert_eq!(weaker(weak, of(Tier::PcieRelaxed)).tier, Tier::PcieRelaxed);
    }
}
