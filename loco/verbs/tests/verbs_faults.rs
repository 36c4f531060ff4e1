//! Tests the verbs fabric when things go wrong, on devices that are altered so that they do.
//!
//! Every wait here is bounded: a fault that makes a thread hang fails the test.

#![allow(clippy::unwrap_used)]

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use loco_conformance::{Poster, allocate, local, set_word, share, target, wait_for, word};
use loco_fabric::{
    Atomicity, Completion, CompletionStatus, Fabric, FabricError, Memory, MemoryKind, NodeId, Posted,
    QueuePair, Tier, Work, WorkRequestId,
};
use loco_host::HugePages;
use loco_job::Mesh;
use loco_test_networks::altered::{AlteredDevice, Counts, Limits};
use loco_verbs::{VerbsConfig, VerbsFabric};

fn config(device: &AlteredDevice) -> VerbsConfig {
    VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20)
        .memory_limit_bytes(4 << 20)
        .huge_pages(HugePages::Never)
        .queue_depth(16)
        .connect_timeout(Duration::from_secs(2))
        .set_up_timeout(Duration::from_secs(2))
        .link_timeout(Duration::from_millis(20))
}

fn try_bring_up(n: usize, device: &AlteredDevice) -> Vec<Result<VerbsFabric, FabricError>> {
    bring_up(n, &config(device))
}

fn bring_up(n: usize, config: &VerbsConfig) -> Vec<Result<VerbsFabric, FabricError>> {
    loco_conformance::bring_up(n, |mesh| VerbsFabric::new(mesh, config.clone()))
}

fn pair(device: &AlteredDevice) -> [VerbsFabric; 2] {
    let mut up = try_bring_up(2, device).into_iter().map(Result::unwrap);
    [up.next().unwrap(), up.next().unwrap()]
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

fn failure(completion: &Completion) -> &FabricError {
    match &completion.status {
        CompletionStatus::Failed(error) => error,
        CompletionStatus::Success => panic!("{completion:?} succeeded"),
    }
}

/// Counts the device's objects of two idle nodes. Each has a memory region, a listener and a completion channel. The queue
/// pairs that a node tries at bring-up are destroyed soon after it.
const PAIR: Counts = Counts {
    queue_pairs: 0,
    memory_regions: 2,
    identifiers: 2,
    completion_channels: 2,
    unacknowledged_events: 0,
    overflows: 0,
};

/// Waits until the device has `expected` objects: another thread destroys queue pairs.
fn counts_become(device: &AlteredDevice, expected: Counts) {
    let start = Instant::now();
    while device.counts() != expected {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{:?}, not {expected:?}",
            device.counts()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every `ibv_wc_status` except success.
const STATUSES: std::ops::RangeInclusive<u32> = 1..=23;

#[test]
fn every_completion_status_becomes_an_error_that_names_all() {
    for status in STATUSES {
        let device = AlteredDevice::new(Limits::default());
        let [a, b] = &pair(&device);
        let (_there, remote) = share(b, a, 64);
        let here = allocate(a, 64);
        let mut qp = a.queue_pair(b.node()).unwrap();
        device.fail_next(1, status);
        for id in 0..4 {
            let work = Work::signaled(WorkRequestId(id));
            let posted = if id == 1 {
                qp.fetch_add(target(&remote, 0), 1, local(&here, 0, 8), work)
            } else {
                qp.put(local(&here, 0, 8), target(&remote, 8), work)
            };
            assert_eq!(posted, Ok(Posted::Pending));
        }
        let completions = poll_until(a, 4);
        assert_eq!(completions[0].status, CompletionStatus::Success);
        let FabricError::Operation {
            operation,
            peer,
            status: named,
            cause,
        } = failure(&completions[1])
        else {
            panic!("status {status}: {completions:?}");
        };
        assert_eq!((*operation, *peer), ("fetch_add", b.node()));
        assert!(!named.is_empty() && !cause.is_empty());
        // Later operations are flushed, and their errors name the culprit.
        for flushed in &completions[2..] {
            let text = failure(flushed).to_string();
            assert!(text.contains("put towards node 1 failed: flushed"), "{text}");
            assert!(text.contains("fetch_add"), "{text}");
        }
        // The queue pair reports the error at once; another works.
        let refused = qp.put(local(&here, 0, 8), target(&remote, 8), Work::unsignaled());
        assert_eq!(refused.as_ref(), Err(failure(&completions[1])));
        drop(qp);
        let mut poster = Poster::new(a, b.node());
        poster.complete(|qp, work| qp.flush(work));
    }
}

#[test]
fn an_unsignaled_failure_is_told_by_the_next_signaled_operation() {
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device);
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.fail_next(0, 10);
    let _ = qp
        .put(local(&here, 0, 8), target(&remote, 0), Work::unsignaled())
        .unwrap();
    let _ = qp.flush(Work::signaled(WorkRequestId(7))).unwrap();
    let completions = poll_until(a, 1);
    assert_eq!(completions[0].id, WorkRequestId(7));
    let text = failure(&completions[0]).to_string();
    assert!(
        text.contains("put towards node 1 failed: remote access error"),
        "{text}"
    );
    assert_eq!(word(&there, 0), 0);
}

#[test]
fn freed_memory_of_a_peer_is_a_remote_access_error() {
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device);
    let words = Box::leak(Box::new([0_u64; 8]));
    let start = NonNull::new(words.as_mut_ptr().cast::<u8>()).unwrap();
    // SAFETY: leaked, so mapped for ever, and accessed by nobody else.
    let there = unsafe { b.register(start, 64) }.unwrap();
    let remote = a.import(b.node(), &b.export(&there)).unwrap();
    let mut poster = Poster::new(a, b.node());
    poster.complete(|qp, work| qp.put_inline(&5u64.to_ne_bytes(), target(&remote, 8), work));
    poster.complete(|qp, work| qp.flush(work));
    assert_eq!(word(&there, 8), 5, "the user's own memory");
    drop(there);
    let _ = poster
        .qp
        .put_inline(&[1; 8], target(&remote, 8), Work::signaled(WorkRequestId(9)))
        .unwrap();
    let text = failure(&poll_until(a, 1)[0]).to_string();
    assert!(
        text.contains("remote access error") && text.contains("freed it"),
        "{text}"
    );
}

#[test]
fn a_link_that_goes_down_ends_operations() {
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device);
    let (_there, remote) = share(b, a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let mut posted = 0;
    // The link changes in the middle of a batch.
    for id in 0..8 {
        device.set_link(id < 4);
        let work = Work::signaled(WorkRequestId(id));
        posted += usize::from(qp.put_inline(&[1; 8], target(&remote, 0), work).is_ok());
    }
    let completions = poll_until(a, posted);
    let failed: Vec<_> = completions
        .iter()
        .filter(|c| c.status != CompletionStatus::Success)
        .collect();
    assert_eq!(failed.len(), posted - 4);
    assert!(
        failure(failed[0])
            .to_string()
            .contains("transport retry counter exceeded")
    );
    device.set_link(true);
    Poster::new(a, b.node()).complete(|qp, work| qp.flush(work));
}

#[test]
fn operations_that_are_not_acknowledged_end_when_the_peer_is_lost() {
    for tier in [Tier::Ibta, Tier::OooAll] {
        let device = AlteredDevice::new(Limits {
            known: Some(tier),
            ..Limits::default()
        });
        // For an hour, nothing but the loss of the peer ends them.
        let patient = config(&device).link_timeout(Duration::from_secs(3600));
        let mut up = bring_up(2, &patient).into_iter().map(Result::unwrap);
        let [a, b] = &[up.next().unwrap(), up.next().unwrap()];
        let (_there, remote) = share(b, a, 64);
        let mut qp = a.queue_pair(b.node()).unwrap();
        device.set_link(false);
        // The device fails the first, and no longer executes the others.
        for id in 0..3 {
            let _ = qp
                .put_inline(&[1; 8], target(&remote, 0), Work::signaled(WorkRequestId(id)))
                .unwrap();
        }
        let mut completions = Vec::new();
        // The first failure is reported as such, and the others as flushed.
        let errors = device.errors();
        wait_for(a, || {
            a.poll(&mut completions).unwrap();
            (device.errors() == errors + 3).then_some(())
        });
        assert!(
            completions.is_empty(),
            "the peer is not lost yet: {completions:?}"
        );
        b.mesh().fail();
        for (id, completion) in (0..).zip(poll_until(a, 3)) {
            assert_eq!(completion.id, WorkRequestId(id));
            assert_eq!(failure(&completion), &FabricError::PeerLost(b.node()));
        }
        assert_eq!(
            qp.put_inline(&[1; 8], target(&remote, 0), Work::signaled(WorkRequestId(3)))
                .unwrap_err(),
            FabricError::PeerLost(b.node())
        );
    }
}

#[test]
fn a_lost_peer_flushes_its_operations_as_lost() {
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device);
    let (_there, remote) = share(b, a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    device.hold_requests(true);
    for id in 0..3 {
        let _ = qp
            .put_inline(&[1; 8], target(&remote, 0), Work::signaled(WorkRequestId(id)))
            .unwrap();
    }
    b.mesh().fail();
    for completion in poll_until(a, 3) {
        assert_eq!(failure(&completion), &FabricError::PeerLost(b.node()));
    }
}

#[test]
fn refused_registration_says_what_to_raise() {
    let device = AlteredDevice::new(Limits::default());
    let [a, _b] = &pair(&device);
    counts_become(&device, PAIR);
    device.refuse_registration(libc::ENOMEM);
    let error = a.allocate(2 << 20, MemoryKind::Host).unwrap_err().to_string();
    assert!(
        error.contains("ulimit -l") && error.contains("locked memory"),
        "{error}"
    );
    // A refusal at bring-up is an error on every node, and leaves nothing behind.
    for up in try_bring_up(2, &device) {
        assert!(matches!(up, Err(FabricError::Os { .. })), "{up:?}");
    }
    counts_become(&device, PAIR);
    device.refuse_registration(0);
    assert_eq!(a.allocate(2 << 20, MemoryKind::Host).unwrap().len(), 2 << 20);
}

#[test]
fn refused_queue_pairs_are_errors_on_the_side_that_asked() {
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device);
    device.refuse_queue_pairs(libc::ENOMEM);
    let error = a.queue_pair(b.node()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("queue pair"), "{error}");
    device.refuse_queue_pairs(0);
    Poster::new(a, b.node()).complete(|qp, work| qp.flush(work));
}

#[test]
fn a_refused_post_reports_each_operation_once() {
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device);
    let (_there, remote) = share(b, a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let work = |id| Work::signaled(WorkRequestId(id));
    let _ = qp.put_inline(&[1; 8], target(&remote, 0), work(0)).unwrap();
    assert_eq!(poll_until(a, 1)[0].status, CompletionStatus::Success);
    // Two puts wait for the doorbell, which the third rings in vain.
    let _ = qp
        .put_inline(&[2; 8], target(&remote, 0), work(1).more())
        .unwrap();
    let _ = qp
        .put_inline(&[3; 8], target(&remote, 0), work(2).more())
        .unwrap();
    device.refuse_posts(libc::EIO);
    assert!(qp.put_inline(&[4; 8], target(&remote, 0), work(3)).is_err());
    device.refuse_posts(0);
    let completions = poll_until(a, 2);
    let mut ids: Vec<_> = completions
        .iter()
        .map(|c| (c.id.0, c.status == CompletionStatus::Success))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [(1, false), (2, false)]);
    assert!(qp.put_inline(&[5; 8], target(&remote, 0), work(4)).is_err());
}

#[test]
fn queues_cannot_overflow() {
    // The completion queue is so small that it must grow, and nobody polls the many queue pairs.
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device);
    let (_there, remote) = share(b, a, 64);
    let mut queue_pairs: Vec<_> = (0..300).map(|_| a.queue_pair(b.node()).unwrap()).collect();
    let mut posted = 0;
    for qp in &mut queue_pairs {
        for id in 0.. {
            let work = Work {
                signaled: id % 3 == 0,
                ..Work::signaled(WorkRequestId(id))
            };
            match qp.put_inline(&[1; 8], target(&remote, 0), work) {
                Ok(_) => posted += usize::from(work.signaled),
                Err(error) => {
                    assert_eq!(error, FabricError::QueueFull(b.node()));
                    break;
                }
            }
        }
    }
    // After an error every request completes, even an unsignaled one.
    b.mesh().fail();
    assert!(poll_until(a, posted).len() > 1000);
    assert_eq!(device.counts().overflows, 0);
}

#[test]
fn too_many_queue_pairs_for_the_completion_queue_are_refused() {
    let device = AlteredDevice::new(Limits {
        cq_entries_max: 64,
        ..Limits::default()
    });
    let [a, b] = &pair(&device);
    let mut queue_pairs = Vec::new();
    let error = loop {
        match a.queue_pair(b.node()) {
            Ok(qp) => queue_pairs.push(qp),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        queue_pairs.len() <= 4 && error.contains("completion queue"),
        "{}: {error}",
        queue_pairs.len()
    );
    // Dropping a queue pair frees its room.
    queue_pairs.pop();
    assert!(a.queue_pair(b.node()).is_ok());
}

#[test]
fn what_is_under_way_when_a_queue_pair_is_dropped_still_happens() {
    let device = AlteredDevice::new(Limits::default());
    let [a, b] = &pair(&device);
    counts_become(&device, PAIR);
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    set_word(&here, 0, 3);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let _ = qp
        .put(
            local(&here, 0, 8),
            target(&remote, 0),
            Work::signaled(WorkRequestId(1)),
        )
        .unwrap();
    let _ = qp
        .put_inline(&4u64.to_ne_bytes(), target(&remote, 8), Work::unsignaled().more())
        .unwrap();
    drop(qp);
    assert_eq!(poll_until(a, 1)[0].id, WorkRequestId(1));
    wait_for(a, || {
        assert_eq!(a.poll(&mut Vec::new()), Ok(0), "the rest was not signaled");
        (a.queue_pairs() == 0).then_some(())
    });
    assert_eq!((word(&there, 0), word(&there, 8)), (3, 4));
    counts_become(&device, PAIR);
}

#[test]
fn nothing_is_left_of_nodes_that_are_gone() {
    let device = AlteredDevice::new(Limits::default());
    {
        let [a, b] = pair(&device);
        let (_there, remote) = share(&b, &a, 64);
        let mut posters: Vec<_> = (0..5).map(|_| Poster::new(&a, b.node())).collect();
        for poster in &mut posters {
            poster.complete(|qp, work| qp.put_inline(&[1; 8], target(&remote, 0), work));
        }
        drop(b); // Its peer still holds queue pairs towards it.
    }
    counts_become(&device, Counts::default());
}

#[test]
fn device_memory_where_there_is_some() {
    let device = AlteredDevice::new(Limits {
        device_memory_bytes: 4096,
        ..Limits::default()
    });
    let [a, b] = &pair(&device);
    let there = b.allocate(64, MemoryKind::Device).unwrap();
    let remote = a.import(b.node(), &b.export(&there)).unwrap();
    let here = allocate(a, 64);
    let mut poster = Poster::new(a, b.node());
    poster.complete(|qp, work| qp.fetch_add(target(&remote, 8), 5, local(&here, 0, 8), work));
    poster.complete(|qp, work| qp.fetch_add(target(&remote, 8), 5, local(&here, 0, 8), work));
    assert_eq!(word(&here, 0), 5);
    let mut bytes = [0; 8];
    there.slice(8, 8).unwrap().read(0, &mut bytes).unwrap();
    assert_eq!(u64::from_ne_bytes(bytes), 10);
    assert!(matches!(there.cell::<u64>(0), Err(FabricError::Unsupported(_))));
    let error = b.allocate(1 << 20, MemoryKind::Device).unwrap_err().to_string();
    assert!(error.contains("4096 bytes of device memory"), "{error}");
}

#[test]
fn a_device_without_atomics_says_so() {
    let device = AlteredDevice::new(Limits {
        atomicity: Atomicity::None,
        ..Limits::default()
    });
    let [a, b] = &pair(&device);
    assert_eq!(a.caps().atomicity, Atomicity::None);
    let (_there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let posted = qp.fetch_add(target(&remote, 0), 1, local(&here, 0, 8), Work::unsignaled());
    assert!(matches!(posted, Err(FabricError::Unsupported(_))));
}

#[test]
fn a_node_that_does_not_come_is_an_error_in_time() {
    let device = AlteredDevice::new(Limits::default());
    let mut meshes = Mesh::in_process(2).unwrap();
    let _absent = meshes.pop();
    let error = VerbsFabric::new(meshes.pop().unwrap(), config(&device)).unwrap_err();
    assert!(matches!(error, FabricError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains(&NodeId(1).to_string()), "{error}");
    counts_become(&device, Counts::default());
}
