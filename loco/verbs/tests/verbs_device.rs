//! Runs the conformance suite on the RDMA device of this host: Soft-RoCE in the machine of `ci/rdma-vm`, or a
//! real device; and on the device of `loco nic`, on every host.
//!
//! (The device is of the package `loco_nic`, on which this one depends, so that cargo builds it.)
//!
//! Two tests of the suite are left out. Soft-RoCE copies packets by the kernel's `memcpy`. That function
//! moves words that are aligned to the start of the copy, not to memory (`words_within_copies_do_not_tear`),
//! and it moves the last bytes that are less than a word one by one (`narrow_words_do_not_tear`). Words of 8
//! bytes and copies that begin at one are tested.
//!
//! Without a device each test says *skipped*; `LOCO_REQUIRE_RDMA` makes that a failure.

#![allow(clippy::unwrap_used)]

use loco_conformance::World;
use loco_host::HugePages;
use loco_testing::{on_nic, skipped};
use loco_verbs::{VerbsConfig, VerbsFabric, choose};

struct Device;

fn config() -> VerbsConfig {
    VerbsConfig::from_env()
        .unwrap()
        .arena_bytes(1 << 20)
        .memory_limit_bytes(16 << 20)
        .huge_pages(HugePages::Never)
        .queue_depth(64)
}

impl World for Device {
    type Fabric = VerbsFabric;
    fn nodes(n: usize) -> Vec<VerbsFabric> {
        loco_conformance::bring_up(n, |mesh| VerbsFabric::new(mesh, config()).unwrap())
    }
    fn kill(node: &VerbsFabric) {
        node.mesh().fail();
    }
    fn runs(test: &str) -> bool {
        if matches!(
            test,
            "words_within_copies_do_not_tear" | "narrow_words_do_not_tear"
        ) {
            skipped(
                "WHOLE_WORDS",
                "Soft-RoCE does not promise it, see the head of this file",
            );
            return false;
        }
        let error = match choose(&config()) {
            Ok(_) => return true,
            Err(error) => error,
        };
        skipped("RDMA", error);
        false
    }
}

loco_conformance::suite!(Device);

/// What a tier does not order is bought. (`verbs_unknown` is for a device of which the fabric knows no tier.)
#[test]
fn on_nic() {
    for (tier, stress) in [
        ("ibta", "none"),
        ("ooo-rw", "default"),
        ("ooo-all", "default"),
        ("pcie-relaxed", "default"),
    ] {
        on_nic::again("on_nic", tier, stress, &[]);
    }
}
