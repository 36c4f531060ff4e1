//! Tests the cost of posting: no allocation (counted by the allocator of this test's process), and one
//! doorbell for a batch.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use loco_fabric::{Cost, Fabric, Local, Memory, MemoryKind, QueuePair, Target, Work, WorkRequestId};
use loco_job::Mesh;
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_verbs::{VerbsConfig, VerbsFabric};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator; the counter needs no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(ptr, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn posting_and_polling_allocate_nothing() {
    // The allocations of the device would be counted, too, if requests came to it.
    let device = AlteredDevice::new(Limits {
        null: true,
        ..Limits::default()
    });
    let config = VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20)
        .queue_depth(64);
    let fabric = VerbsFabric::new(Mesh::in_process(1).unwrap().remove(0), config).unwrap();
    let memory = fabric.allocate(4096, MemoryKind::Host).unwrap();
    let remote = fabric.import(fabric.node(), &fabric.export(&memory)).unwrap();
    let mut qp = fabric.queue_pair(fabric.node()).unwrap();
    let mut completions = Vec::with_capacity(64);
    let local = |offset, len| Local {
        memory: &memory,
        offset,
        len,
    };
    let target = |offset| Target {
        remote: &remote,
        offset,
    };
    let mut round = |first: u64| {
        let work = |id| Work::signaled(WorkRequestId(first + id));
        let _ = qp.put(local(0, 64), target(1024), work(0)).unwrap();
        let _ = qp.put(local(0, 64), target(1024), Work::unsignaled()).unwrap();
        let _ = qp.put_inline(&[1; 8], target(2048), work(1).more()).unwrap();
        let _ = qp.put_inline(&[2; 100], target(2048), work(2).fenced()).unwrap();
        let _ = qp.get(local(128, 64), target(1024), work(3)).unwrap();
        let _ = qp
            .fetch_add(target(3000 / 8 * 8), 1, local(256, 8), work(4))
            .unwrap();
        let _ = qp
            .compare_swap(target(3000 / 8 * 8), 0, 1, local(256, 8), work(5))
            .unwrap();
        let _ = qp.flush(work(6)).unwrap();
        while completions.len() < 7 {
            fabric.poll(&mut completions).unwrap();
        }
        completions.clear();
    };
    round(0);
    let before = ALLOCATIONS.get();
    for n in 1..1000 {
        round(7 * n);
    }
    assert_eq!(ALLOCATIONS.get(), before);
    drop(Box::new(1));
    assert_eq!(ALLOCATIONS.get(), before + 1, "the counter counts");
}

#[test]
fn linked_requests_share_a_doorbell() {
    let device = AlteredDevice::new(Limits::default());
    let config = VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20)
        .queue_depth(64);
    let fabric = VerbsFabric::new(Mesh::in_process(1).unwrap().remove(0), config).unwrap();
    let memory = fabric.allocate(4096, MemoryKind::Host).unwrap();
    let remote = fabric.import(fabric.node(), &fabric.export(&memory)).unwrap();
    let mut qp = fabric.queue_pair(fabric.node()).unwrap();
    let mut put = |offset: usize, work| {
        let target = Target {
            remote: &remote,
            offset,
        };
        let _ = qp.put_inline(&[1; 8], target, work).unwrap();
    };
    let before = device.doorbells();
    for slot in 0..7 {
        put(8 * slot, Work::unsignaled().more());
    }
    assert_eq!(device.doorbells(), before, "more follows");
    put(56, Work::signaled(WorkRequestId(7)));
    assert_eq!(device.doorbells(), before + 1);
    let mut completions = Vec::new();
    while completions.is_empty() {
        fabric.poll(&mut completions).unwrap();
    }
    let mut bytes = [0; 64];
    memory.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 64]);
}

#[test]
fn strong_operations_cost_nothing_on_a_device_that_orders() {
    let device = AlteredDevice::new(Limits::default());
    let config = VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20)
        .queue_depth(64);
    let fabric = VerbsFabric::new(Mesh::in_process(1).unwrap().remove(0), config).unwrap();
    assert_eq!(fabric.caps().order.strong, Cost::Free);
    let memory = fabric.allocate(64, MemoryKind::Host).unwrap();
    let remote = fabric.import(fabric.node(), &fabric.export(&memory)).unwrap();
    let mut qp = fabric.queue_pair(fabric.node()).unwrap();
    device.hold_requests(true);
    let (polls, doorbells) = (device.polls(), device.doorbells());
    for offset in [0, 8, 16] {
        let target = Target {
            remote: &remote,
            offset,
        };
        let _ = qp
            .put_inline(&[1; 8], target, Work::unsignaled().strong())
            .unwrap();
    }
    assert_eq!((device.polls(), device.doorbells()), (polls, doorbells + 3));
    device.hold_requests(false);
    device.release_requests();
}
