//! Tests the doorbell of the verbs fabric over an altered device: completions end sleeps that have no limit, whoever
//! polls them, and events are acknowledged.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco_conformance::sleeping::sleep_for_completions;
use loco_conformance::{share, target};
use loco_fabric::{Fabric, QueuePair, Work, WorkRequestId};
use loco_host::HugePages;
use loco_test_networks::altered::{AlteredDevice, Counts, Limits};
use loco_verbs::{VerbsConfig, VerbsFabric};

/// Long enough to tell a wake-up that is lost from one that is late.
const FOR_EVER: Duration = Duration::from_secs(3600);

fn pair(device: &AlteredDevice) -> Vec<VerbsFabric> {
    let config = VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20)
        .huge_pages(HugePages::Never);
    loco_conformance::bring_up(2, |mesh| VerbsFabric::new(mesh, config.clone()).unwrap())
}

#[test]
fn no_wake_up_is_lost() {
    // With a second thread that polls, it takes some of the completions that the sleeper waits for.
    for competitors in [0, 1] {
        let device = AlteredDevice::new(Limits::default());
        let [a, b] = &pair(&device)[..] else {
            unreachable!()
        };
        sleep_for_completions(a, b, &*a.doorbell().unwrap(), 3000, competitors);
        assert_eq!(device.counts().unacknowledged_events, 0);
    }
}

#[test]
fn a_completion_from_before_the_sleep_is_seen_and_a_ring_ends_a_sleep() {
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device)[..] else {
        unreachable!()
    };
    let (_there, remote) = share(b, a, 64);
    let bell = a.doorbell().unwrap();
    let mut qp = a.queue_pair(b.node()).unwrap();
    let _ = qp
        .put_inline(&[1; 8], target(&remote, 0), Work::signaled(WorkRequestId(1)))
        .unwrap();
    // The device raises no event for it, so the last look has to find it.
    let _armed = bell.arm().unwrap();
    let mut completions = Vec::new();
    assert_eq!(a.poll(&mut completions).unwrap(), 1);
    let armed = bell.arm().unwrap();
    bell.ring();
    bell.sleep(armed, FOR_EVER);
}

#[test]
fn a_device_without_completion_channels_has_no_doorbell() {
    let device = AlteredDevice::new(Limits {
        completion_events: false,
        ..Limits::default()
    });
    let fabrics = pair(&device);
    assert!(fabrics[0].doorbell().is_none());
    assert_eq!(device.counts().completion_channels, 0);
}

#[test]
fn a_doorbell_keeps_nothing_of_a_node() {
    let device = AlteredDevice::new(Limits::default());
    let bells: Vec<_> = pair(&device)
        .iter()
        .map(|fabric| fabric.doorbell().unwrap())
        .collect();
    assert_eq!(device.counts(), Counts::default());
    assert!(bells[0].arm().is_none(), "nothing would ring it");
    bells[0].ring();
}
