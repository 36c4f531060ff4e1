//! Runs the conformance suite on a device of tier `ooo-all` of which the fabric knows nothing, so that it assumes that tier: what is
//! asked for is bought.

#![allow(clippy::unwrap_used)]

mod worlds;

use loco_fabric::{Fabric, Known, Tier};
use loco_test_networks::altered::{AlteredDevice, Limits};

worlds::world!(
    Unknown,
    AlteredDevice::on(
        Tier::OooAll,
        7,
        Limits {
            known: None,
            ..Limits::default()
        }
    ),
    |fabric| {
        let order = fabric.caps().order;
        assert_eq!((order.tier, order.known), (Tier::OooAll, Known::Assumed));
    }
);

loco_conformance::suite!(Unknown);
