//! Tests operations that are held back in their queue pair, on devices whose order is bought: posting never waits, nothing is
//! lost, and every operation is reported once.
//!
//! The device keeps requests back, as a slow network does: what a queue pair holds back because of them does not come to the device.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use loco_conformance::{allocate, local, share, target, wait_for, word};
use loco_fabric::{
    Completion, CompletionStatus, Cost, Fabric, FabricError, Known, QueuePair, Tier, Work, WorkRequestId,
};
use loco_host::HugePages;
use loco_job::Mesh;
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_verbs::{VerbsConfig, VerbsFabric, VerbsMemory, VerbsRemote};

/// A hang, however loaded the host is.
const HANG: Duration = Duration::from_secs(60);
/// The status of a request that the peer's device could not complete.
const IBV_WC_REM_OP_ERR: u32 = 11;

/// Brings nodes up on a device that orders, of which the fabric knows nothing: it counts on `ooo-all`.
fn unknown(n: usize, limits: Limits) -> (AlteredDevice, Vec<VerbsFabric>) {
    let device = AlteredDevice::new(Limits {
        known: None,
        ..limits
    });
    let fabrics = up(n, &device, None);
    assert_eq!(fabrics[0].caps().order.known, Known::Assumed);
    (device, fabrics)
}

fn up(n: usize, device: &AlteredDevice, order: Option<Tier>) -> Vec<VerbsFabric> {
    let config = VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20)
        .huge_pages(HugePages::Never)
        .order(order)
        .queue_depth(16);
    let fabrics = loco_conformance::bring_up(n, |mesh| VerbsFabric::new(mesh, config.clone()).unwrap());
    assert_ne!(fabrics[0].caps().order.strong, Cost::Free);
    fabrics
}

fn work(id: u64) -> Work {
    Work::signaled(WorkRequestId(id))
}

fn poll_until(fabric: &VerbsFabric, n: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    wait_for(fabric, || {
        fabric.poll(&mut completions).unwrap();
        (completions.len() >= n).then_some(())
    });
    assert_eq!(completions.len(), n);
    completions
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < HANG, "not in time: {what}");
        std::thread::yield_now();
    }
}

/// Two nodes of a device: `a` writes to 64 bytes of `b`.
struct Two {
    device: AlteredDevice,
    a: VerbsFabric,
    b: VerbsFabric,
    there: VerbsMemory,
    remote: VerbsRemote,
}

impl Two {
    /// Makes the nodes on a device of which no order is known.
    fn unknown(limits: Limits) -> Two {
        let (device, fabrics) = unknown(2, limits);
        Two::of(device, fabrics)
    }

    /// Makes the nodes on `device`, with this setting of its order.
    fn new(device: AlteredDevice, order: Option<Tier>) -> Two {
        let fabrics = up(2, &device, order);
        Two::of(device, fabrics)
    }

    fn of(device: AlteredDevice, fabrics: Vec<VerbsFabric>) -> Two {
        let [a, b] = <[VerbsFabric; 2]>::try_from(fabrics).unwrap();
        let (there, remote) = share(&b, &a, 64);
        Two {
            device,
            a,
            b,
            there,
            remote,
        }
    }
}

/// Returns the ids of completions, and whether they are successes.
fn outcomes(completions: &[Completion]) -> Vec<(u64, bool)> {
    completions
        .iter()
        .map(|c| (c.id.0, c.status == CompletionStatus::Success))
        .collect()
}

#[test]
fn a_setting_that_says_more_than_is_known_of_the_device_is_refused() {
    let tiers = [Tier::Ibta, Tier::OooRw, Tier::OooAll, Tier::PcieRelaxed];
    for (known, &tier) in tiers.iter().enumerate() {
        let device = AlteredDevice::new(Limits {
            known: Some(tier),
            ..Limits::default()
        });
        for (asked, order) in tiers.into_iter().enumerate() {
            let config = VerbsConfig::default()
                .provider(device.provider())
                .arena_bytes(1 << 20)
                .huge_pages(HugePages::Never)
                .order(Some(order));
            let mesh = Mesh::in_process(1).unwrap().remove(0);
            match VerbsFabric::new(mesh, config) {
                Ok(fabric) => {
                    assert!(asked >= known, "{order} on a device of tier {tier}");
                    assert_eq!(
                        (fabric.caps().order.tier, fabric.caps().order.known),
                        (order, Known::Asked)
                    );
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(asked < known, "{text}");
                    let remedy = format!("LOCO_VERBS_ORDER) says {order}");
                    assert!(
                        text.contains(&remedy) && text.contains(&format!("give {tier}")),
                        "{text}"
                    );
                }
            }
        }
    }
}

#[test]
fn operations_towards_all_peers_are_under_way_at_once() {
    let (device, fabrics) = unknown(5, Limits::default());
    let (a, peers) = fabrics.split_first().unwrap();
    let shared: Vec<_> = peers.iter().map(|peer| share(peer, a, 64)).collect();
    let mut qps: Vec<_> = peers
        .iter()
        .map(|peer| a.queue_pair(peer.node()).unwrap())
        .collect();
    device.hold_requests(true);
    let doorbells = device.doorbells();
    for ((_, remote), qp) in shared.iter().zip(&mut qps) {
        let _ = qp
            .put_inline(&5u64.to_ne_bytes(), target(remote, 0), Work::unsignaled())
            .unwrap();
        let flag = 6u64.to_ne_bytes();
        let _ = qp.put_inline(&flag, target(remote, 8), work(1).strong()).unwrap();
    }
    // No call waited, the data of every peer are on their way, and no flag is.
    assert_eq!(device.doorbells(), doorbells + 4);
    device.release_requests();
    until("one round trip later all flags follow", || {
        assert_eq!(a.poll(&mut Vec::new()), Ok(0));
        device.doorbells() == doorbells + 8
    });
    assert!(
        shared
            .iter()
            .all(|(there, _)| word(there, 0) == 5 && word(there, 8) == 0)
    );
    device.hold_requests(false);
    device.release_requests();
    until("all flags are there", || {
        shared.iter().all(|(there, _)| word(there, 8) == 6)
    });
    assert!(
        outcomes(&poll_until(a, 4))
            .iter()
            .all(|&outcome| outcome == (1, true))
    );
}

#[test]
fn an_operation_that_asks_for_nothing_passes_one_that_is_held_and_is_reported_after_it() {
    let two = Two::unknown(Limits::default());
    let Two {
        device,
        a,
        b,
        there,
        remote,
    } = &two;
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    let doorbells = device.doorbells();
    let _ = qp.put_inline(&[1; 8], target(remote, 0), work(0)).unwrap();
    let _ = qp
        .put_inline(&[2; 8], target(remote, 0), work(1).strong())
        .unwrap();
    let _ = qp.put_inline(&[3; 8], target(remote, 8), work(2)).unwrap();
    let _ = qp.get(local(&here, 0, 8), target(remote, 8), work(3)).unwrap();
    assert_eq!(device.doorbells(), doorbells + 3, "one is held");
    device.release_requests();
    // The device places in order: the second put would be there if it had come to the device before the get.
    until("the others have passed", || {
        word(&here, 0) == u64::from_ne_bytes([3; 8])
    });
    assert_eq!(word(there, 0), u64::from_ne_bytes([1; 8]), "it waits");
    device.hold_requests(false);
    device.release_requests();
    assert_eq!(
        outcomes(&poll_until(a, 4)),
        [(0, true), (1, true), (2, true), (3, true)]
    );
    assert_eq!(word(there, 0), u64::from_ne_bytes([2; 8]));
}

#[test]
fn a_flush_waits_for_the_puts_before_it() {
    let two = Two::unknown(Limits::default());
    let Two {
        device, a, b, remote, ..
    } = &two;
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    let _ = qp.put_inline(&[1; 8], target(remote, 0), work(0)).unwrap();
    let doorbells = device.doorbells();
    let _ = qp.flush(work(1)).unwrap();
    assert_eq!(device.doorbells(), doorbells, "it is held");
    device.hold_requests(false);
    device.release_requests();
    assert_eq!(outcomes(&poll_until(a, 2)), [(0, true), (1, true)]);
    assert_eq!(device.doorbells(), doorbells + 1);
}

#[test]
fn a_strong_operation_goes_at_once_if_nothing_is_under_way() {
    let two = Two::unknown(Limits::default());
    let Two {
        device,
        a,
        b,
        there,
        remote,
    } = &two;
    let mut qp = a.queue_pair(b.node()).unwrap();
    let _ = qp.put_inline(&[1; 8], target(remote, 0), work(0)).unwrap();
    poll_until(a, 1);
    let (doorbells, polls) = (device.doorbells(), device.polls());
    let _ = qp
        .put_inline(&[2; 8], target(remote, 0), work(1).strong())
        .unwrap();
    assert_eq!((device.doorbells(), device.polls()), (doorbells + 1, polls));
    until("the put is there", || {
        word(there, 0) == u64::from_ne_bytes([2; 8])
    });
}

/// Posts two puts of which the second is strong, looks at the fabric no more, and waits until the second is there.
fn goes_on_by_itself(limits: Limits) {
    let two = Two::unknown(limits);
    let Two {
        device,
        a,
        b,
        there,
        remote,
    } = &two;
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    let doorbells = device.doorbells();
    let _ = qp
        .put_inline(&[1; 8], target(remote, 0), Work::unsignaled())
        .unwrap();
    let _ = qp
        .put_inline(&[2; 8], target(remote, 8), Work::unsignaled().strong())
        .unwrap();
    assert_eq!(device.doorbells(), doorbells + 1, "the second is held");
    device.hold_requests(false);
    device.release_requests();
    until("the flag is handed on", || word(there, 8) != 0);
    assert_eq!(device.doorbells(), doorbells + 2);
}

#[test]
fn an_operation_whose_owner_looks_away_is_handed_on() {
    goes_on_by_itself(Limits::default());
    goes_on_by_itself(Limits {
        completion_events: false,
        ..Limits::default()
    });
}

#[test]
fn what_is_held_ends_with_the_put_that_failed_before_it() {
    let two = Two::unknown(Limits::default());
    let Two {
        device,
        a,
        b,
        there,
        remote,
    } = &two;
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    let _ = qp.put_inline(&[1; 8], target(remote, 0), work(0)).unwrap();
    device.fail_next(0, IBV_WC_REM_OP_ERR);
    let _ = qp.put_inline(&[1; 8], target(remote, 0), work(1)).unwrap();
    let _ = qp
        .put_inline(&[2; 8], target(remote, 8), work(2).strong())
        .unwrap();
    let completions = poll_until(a, 3);
    // What is posted after the failure is refused, and not reported.
    for id in 3..5 {
        assert!(
            qp.put_inline(&[2; 8], target(remote, 8), work(id).strong())
                .is_err()
        );
    }
    assert_eq!(outcomes(&completions), [(0, true), (1, false), (2, false)]);
    let CompletionStatus::Failed(error) = &completions[2].status else {
        unreachable!()
    };
    let text = error.to_string();
    assert!(
        text.contains("not executed") && text.contains("remote operation error"),
        "{text}"
    );
    assert_eq!(word(there, 8), 0);
    assert_eq!(a.poll(&mut Vec::new()), Ok(0));
}

#[test]
fn what_is_held_towards_a_lost_peer_is_reported_as_lost() {
    for order in [Tier::OooAll, Tier::PcieRelaxed] {
        let two = Two::new(AlteredDevice::new(Limits::default()), Some(order));
        let Two {
            device, a, b, remote, ..
        } = &two;
        let mut qp = a.queue_pair(b.node()).unwrap();
        device.hold_requests(true);
        for id in 0..3 {
            let _ = qp
                .put_inline(&[1; 8], target(remote, 0), work(id).strong())
                .unwrap();
        }
        let _ = qp.flush(work(3)).unwrap();
        b.mesh().fail();
        let completions = poll_until(a, 4);
        for (id, completion) in completions.iter().enumerate() {
            assert_eq!(completion.id.0, id as u64);
            let lost = CompletionStatus::Failed(Box::new(FabricError::PeerLost(b.node())));
            assert_eq!(completion.status, lost);
        }
        assert!(qp.put_inline(&[1; 8], target(remote, 0), work(4)).is_err());
    }
}

#[test]
fn a_device_that_refuses_what_was_held_fails_it_once() {
    let two = Two::unknown(Limits::default());
    let Two {
        device, a, b, remote, ..
    } = &two;
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    let _ = qp.put_inline(&[1; 8], target(remote, 0), work(0)).unwrap();
    let _ = qp
        .put_inline(&[2; 8], target(remote, 0), work(1).strong())
        .unwrap();
    let _ = qp
        .put_inline(&[3; 8], target(remote, 0), work(2).strong())
        .unwrap();
    let _ = qp.put_inline(&[4; 8], target(remote, 8), work(3).more()).unwrap();
    device.refuse_posts(5);
    let refused = qp.put_inline(&[5; 8], target(remote, 8), work(4));
    assert!(refused.is_err(), "{refused:?}");
    device.refuse_posts(0);
    let completions = poll_until(a, 4);
    let ids: Vec<_> = completions.iter().map(|c| c.id.0).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    assert!(
        completions[1..]
            .iter()
            .all(|c| c.status != CompletionStatus::Success)
    );
    assert!(qp.put_inline(&[1; 8], target(remote, 0), work(5)).is_err());
    assert_eq!(a.poll(&mut Vec::new()), Ok(0));

    // Now the request that is handed on is the one that is refused.
    let mut qp = a.queue_pair(b.node()).unwrap();
    let _ = qp.put_inline(&[1; 8], target(remote, 0), work(0)).unwrap();
    let _ = qp
        .put_inline(&[2; 8], target(remote, 0), work(1).strong())
        .unwrap();
    device.refuse_posts(5);
    device.hold_requests(false);
    device.release_requests();
    assert_eq!(outcomes(&poll_until(a, 2)), [(0, true), (1, false)]);
    device.refuse_posts(0);
    assert!(qp.put_inline(&[1; 8], target(remote, 0), work(2)).is_err());
}

#[test]
fn a_full_queue_pair_says_so_while_operations_are_held() {
    let two = Two::unknown(Limits::default());
    let Two {
        device,
        a,
        b,
        there,
        remote,
    } = &two;
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    let mut posted = 0;
    let full = loop {
        let value = (posted + 1u64).to_ne_bytes();
        match qp.put_inline(&value, target(remote, 0), work(posted).strong()) {
            Ok(_) => posted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((full, posted), (FabricError::QueueFull(b.node()), 15));
    device.hold_requests(false);
    device.release_requests();
    let expected: Vec<_> = (0..posted).map(|id| (id, true)).collect();
    assert_eq!(outcomes(&poll_until(a, 15)), expected);
    assert_eq!(word(there, 0), posted);
    assert_eq!(device.counts().overflows, 0);
}

#[test]
fn what_is_held_when_a_queue_pair_is_dropped_still_happens() {
    let two = Two::unknown(Limits::default());
    let Two {
        device,
        a,
        b,
        there,
        remote,
    } = &two;
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    let _ = qp
        .put_inline(&[1; 8], target(remote, 0), Work::unsignaled())
        .unwrap();
    let _ = qp
        .put_inline(&[2; 8], target(remote, 8), Work::unsignaled().strong())
        .unwrap();
    let _ = qp
        .put_inline(&[3; 8], target(remote, 16), work(1).strong())
        .unwrap();
    drop(qp);
    device.hold_requests(false);
    device.release_requests();
    assert_eq!(outcomes(&poll_until(a, 1)), [(1, true)]);
    let words = [0, 8, 16].map(|offset| word(there, offset).to_ne_bytes()[0]);
    assert_eq!(words, [1, 2, 3]);
    wait_for(a, || {
        assert_eq!(a.poll(&mut Vec::new()), Ok(0));
        (a.queue_pairs() == 0).then_some(())
    });
}

#[test]
fn memory_that_reorders_is_paid_for_without_waiting_too() {
    let two = Two::new(AlteredDevice::new(Limits::default()), Some(Tier::PcieRelaxed));
    let Two {
        device,
        a,
        b,
        there,
        remote,
    } = &two;
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    let doorbells = device.doorbells();
    let _ = qp.put_inline(&[1; 8], target(remote, 0), work(0)).unwrap();
    let _ = qp
        .put_inline(&[2; 8], target(remote, 8), work(1).strong())
        .unwrap();
    // The put, the barrier, the flag: each when the one before it has completed.
    for round in 1..=3 {
        until("the next request", || {
            let _ = a.poll(&mut Vec::new()).unwrap();
            device.doorbells() == doorbells + round
        });
        assert_eq!(word(there, 8), 0);
        device.release_requests();
    }
    device.hold_requests(false);
    until("the flag is there", || {
        word(there, 8) == u64::from_ne_bytes([2; 8])
    });
}
