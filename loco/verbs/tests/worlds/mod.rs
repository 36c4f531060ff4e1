//! Nodes on an altered device, for the conformance suite.

use loco_host::HugePages;
use loco_test_networks::altered::AlteredDevice;
use loco_verbs::{VerbsConfig, VerbsFabric};

/// Brings up `n` nodes on a device.
pub fn bring_up(n: usize, device: AlteredDevice) -> Vec<VerbsFabric> {
    let config = VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20)
        .memory_limit_bytes(16 << 20)
        .huge_pages(HugePages::Never)
        .queue_depth(16);
    loco_conformance::bring_up(n, |mesh| VerbsFabric::new(mesh, config.clone()).unwrap())
}

/// Defines a world on a device, whose nodes are looked at when they are up.
macro_rules! world {
    ($world:ident, $device:expr, |$fabric:ident| $look:expr) => {
        struct $world;

        impl loco_conformance::World for $world {
            type Fabric = loco_verbs::VerbsFabric;

            fn nodes(n: usize) -> Vec<loco_verbs::VerbsFabric> {
                let nodes = crate::worlds::bring_up(n, $device);
                for $fabric in &nodes {
                    $look;
                }
                nodes
            }

            fn kill(node: &loco_verbs::VerbsFabric) {
                node.mesh().fail();
            }
        }
    };
}

pub(crate) use world;
