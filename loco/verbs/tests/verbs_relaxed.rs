//! Runs the conformance suite on a device of tier `pcie-relaxed` that treats all memory as relaxed, and that has no reads of length
//! zero: what is asked for is bought.

#![allow(clippy::unwrap_used)]

mod worlds;

use loco_fabric::{Fabric, Tier};
use loco_test_networks::altered::{AlteredDevice, Limits};

worlds::world!(
    Relaxed,
    AlteredDevice::on(
        Tier::PcieRelaxed,
        7,
        Limits {
            known: Some(Tier::PcieRelaxed),
            relaxed_memory: true,
            zero_length_reads: false,
            ..Limits::default()
        }
    ),
    |fabric| assert_eq!(fabric.caps().order.tier, Tier::PcieRelaxed)
);

loco_conformance::suite!(Relaxed);
