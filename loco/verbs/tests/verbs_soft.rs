//! Tests the verbs fabric over the software device: the conformance suite, and every fault that the function
//! table can show.

#![allow(clippy::unwrap_used)]

use loco_conformance::World;
use loco_fabric::{Fabric, Tier};
use loco_host::HugePages;
use loco_job::Mesh;
use loco_test_networks::soft::{SoftDevice, SoftLimits};
use loco_verbs::{VerbsConfig, VerbsFabric};

struct Soft;
/// A device without reads of length zero, so that flushes read a word, and without reliable fences.
struct NoZeroLengthReads;

fn config(device: &SoftDevice) -> VerbsConfig {
    VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20)
        .memory_limit_bytes(16 << 20)
        .huge_pages(HugePages::Never)
        .queue_depth(16)
}

fn bring_up(n: usize, limits: SoftLimits) -> (SoftDevice, Vec<VerbsFabric>) {
    let device = SoftDevice::new(limits);
    let meshes = Mesh::in_process(n).unwrap();
    let fabrics = std::thread::scope(|scope| {
        let ups: Vec<_> = meshes
            .into_iter()
            .map(|mesh| scope.spawn(|| VerbsFabric::new(mesh, config(&device)).unwrap()))
            .collect();
        ups.into_iter().map(|up| up.join().unwrap()).collect()
    });
    (device, fabrics)
}

impl World for Soft {
    type Fabric = VerbsFabric;
    fn nodes(n: usize) -> Vec<VerbsFabric> {
        bring_up(n, SoftLimits::default()).1
    }
    fn kill(node: &VerbsFabric) {
        node.mesh().fail();
    }
}

impl World for NoZeroLengthReads {
    type Fabric = VerbsFabric;
    fn nodes(n: usize) -> Vec<VerbsFabric> {
        let (_, fabrics) = bring_up(
            n,
            SoftLimits {
                zero_length_reads: false,
                fences_stall: true,
                ..SoftLimits::default()
            },
        );
        assert!(!fabrics[0].flushes_by_zero_length_reads());
        fabrics
    }
    fn kill(node: &VerbsFabric) {
        node.mesh().fail();
    }
}

/// Defines a world on a device of a tier, of which the fabric knows or not, and runs the conformance suite there: what is
/// asked for is bought.
macro_rules! on_a_device {
    ($module:ident, $world:ident, $limits:expr, $counts_on:expr) => {
        struct $world;

        impl World for $world {
            type Fabric = VerbsFabric;
            fn nodes(n: usize) -> Vec<VerbsFabric> {
                let (_, fabrics) = bring_up(n, $limits);
                for fabric in &fabrics {
                    assert_eq!(fabric.caps().order.tier, $counts_on);
                }
                fabrics
            }
            fn kill(node: &VerbsFabric) {
                node.mesh().fail();
            }
        }

        mod $module {
            use super::$world;
            loco_conformance::suite!($world);
        }
    };
}

on_a_device!(
    unknown,
    Unknown,
    SoftLimits {
        tier: Tier::OooAll,
        tier_is_known: false,
        ..SoftLimits::default()
    },
    Tier::OooAll
);
on_a_device!(
    relaxed,
    Relaxed,
    SoftLimits {
        tier: Tier::PcieRelaxed,
        zero_length_reads: false,
        ..SoftLimits::default()
    },
    Tier::PcieRelaxed
);

/// A device that puts nothing inline.
struct NoInline;

impl World for NoInline {
    type Fabric = VerbsFabric;
    fn nodes(n: usize) -> Vec<VerbsFabric> {
        let limits = SoftLimits {
            inline_bytes_max: 0,
            ..SoftLimits::default()
        };
        let (_, fabrics) = bring_up(n, limits);
        assert_eq!(fabrics[0].caps().inline_bytes_max, 0);
        fabrics
    }
    fn kill(node: &VerbsFabric) {
        node.mesh().fail();
    }
}

mod no_inline {
    use super::NoInline;
    loco_conformance::suite! { NoInline:
        operations {
            inline_data_may_be_reused_at_once, inline_data_beyond_the_limit_are_refused,
        }
    }
}

mod soft {
    use super::Soft;
    loco_conformance::suite!(Soft);
}

mod no_zero_length_reads {
    use super::NoZeroLengthReads;
    loco_conformance::suite!(NoZeroLengthReads);
}
