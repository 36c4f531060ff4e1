//! Clients of the barrier, the variables, the table of rows, the region of mixed sizes and the ring.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use loco::fabric::NodeId;
use loco::{
    AckKey, Barrier, Manager, Msw, OwnedVar, Result, RingBuffer, RingConfig, RingReader, RingWriter,
    SharedVar, Sst, Thread, WideOwnedVar,
};
use loco_sim::call;
use loco_sim::spec::{Operation, Violation};

use super::{Place, Size, made, nothing};
use crate::stage::{Fabric, must, unless_lost, until_in_time};
use crate::worlds::sst::of_row;

pub(super) type BarrierParts = (Vec<SharedVar<u64, Fabric>>, Barrier<Fabric>);

pub(super) fn barrier(manager: &Manager<Fabric>, size: Size) -> Result<BarrierParts> {
    let flags = usize::from(size.nodes) * size.threads;
    let flags = (0..flags)
        .map(|i| SharedVar::new(manager, &format!("flag{i}")))
        .collect::<Result<_>>()?;
    Ok((flags, Barrier::with_local_threads(manager, "bar", size.threads)?))
}

pub(super) fn use_barrier((flags, barrier): &BarrierParts, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    let mine = &flags[usize::from(at.node) * at.size.threads + at.thread];
    for round in 1..=at.size.ops {
        mine.write(round);
        // Broadcasts to each peer separately, and then goes on to the barrier: the others wait for every
        // participant, even if one is lost.
        for peer in (0..at.size.nodes).filter(|&node| node != at.node) {
            if let Some(key) = unless_lost(mine.broadcast_to(thread, &[NodeId(peer)])) {
                key.forget();
            }
        }
        made(thread, "wait", || barrier.wait(thread), nothing)?;
        for flag in flags {
            assert!(
                flag.read() >= round,
                "what was put before the barrier is seen after it"
            );
        }
    }
    Some(())
}

/// Writes values, made from 1 and up, on node 0, and reads as often on the others.
fn write_or_read<V: Copy + Debug>(
    thread: &Thread<Fabric>,
    at: Place,
    value: fn(u64) -> V,
    write: impl Fn(V) -> Result<()>,
    read: impl Fn() -> String,
) -> Option<()> {
    for value in (1..=at.size.ops).map(value) {
        if at.node == 0 {
            made(thread, format!("write {value:?}"), || write(value), nothing)?;
        } else {
            call("read", &read, String::clone);
        }
    }
    Some(())
}

/// Formats a value, or `none`.
fn shown<T: Debug>(value: Option<T>) -> String {
    value.map_or("none".to_owned(), |value| format!("{value:?}"))
}

pub(super) fn shared_var(manager: &Manager<Fabric>, _: Size) -> Result<SharedVar<u64, Fabric>> {
    SharedVar::new(manager, "sv")
}

pub(super) fn use_shared_var(
    variable: &SharedVar<u64, Fabric>,
    thread: &Thread<Fabric>,
    at: Place,
) -> Option<()> {
    let write = |value| {
        variable.write(value);
        variable.broadcast(thread)?.forget();
        Ok(())
    };
    write_or_read(thread, at, |value| value, write, || variable.read().to_string())
}

pub(super) fn owned_var(manager: &Manager<Fabric>, _: Size) -> Result<OwnedVar<u64, Fabric>> {
    OwnedVar::new(manager, "ov", NodeId(0))
}

pub(super) fn use_owned_var(
    variable: &OwnedVar<u64, Fabric>,
    thread: &Thread<Fabric>,
    at: Place,
) -> Option<()> {
    let write = |value| {
        variable.store(value)?;
        variable.push(thread)?.forget();
        Ok(())
    };
    write_or_read(thread, at, |value| value, write, || variable.load().to_string())
}

pub(super) fn wide_owned_var(manager: &Manager<Fabric>, _: Size) -> Result<WideOwnedVar<[u64; 3], Fabric>> {
    WideOwnedVar::new(manager, "wov", NodeId(0))
}

pub(super) fn use_wide_owned_var(
    variable: &WideOwnedVar<[u64; 3], Fabric>,
    thread: &Thread<Fabric>,
    at: Place,
) -> Option<()> {
    let write = |words| {
        variable.store(thread, words)?;
        variable.push(thread)?.forget();
        Ok(())
    };
    write_or_read(
        thread,
        at,
        |value| [value; 3],
        write,
        || shown(variable.try_load()),
    )
}

pub(super) fn sst(manager: &Manager<Fabric>, _: Size) -> Result<Sst<u64, Fabric>> {
    Sst::new(manager, "sst")
}

pub(super) fn use_sst(table: &Sst<u64, Fabric>, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    for value in 1..=at.size.ops {
        let write = || {
            table.store_mine(value)?;
            table.push(thread)?.forget();
            Ok(())
        };
        made(thread, format!("write{} {value}", at.node), write, nothing)?;
        for node in (0..at.size.nodes).filter(|&node| node != at.node) {
            let read = || must(table.row(NodeId(node))).load();
            call(format!("read{node}"), read, u64::to_string);
        }
    }
    Some(())
}

/// Checks each row as a variable of its own.
pub(super) fn rows(operations: &[Operation]) -> Result<(), Violation> {
    let nodes = operations.iter().map(|o| o.node).max().map_or(0, |last| last + 1);
    (0..nodes).try_for_each(|row| of_row(operations, row))
}

pub(super) fn msw(manager: &Manager<Fabric>, _: Size) -> Result<Msw<Fabric>> {
    Msw::new(manager, "msw", &[16])
}

pub(super) fn use_msw(region: &Msw<Fabric>, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    let write = |words: [u64; 2]| {
        region.write(0, &words.map(u64::to_le_bytes).concat())?;
        let mut puts = AckKey::done();
        for node in 1..at.size.nodes {
            puts.unite(region.put(thread, 0, NodeId(node), 0)?);
        }
        // The location may be written again only when the NIC has read it.
        until_in_time(|| puts.wait(thread))
    };
    let read = || {
        let mut bytes = [0; 16];
        let whole = must(region.try_read(0, &mut bytes));
        shown(whole.then(|| {
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|&word| u64::from_le_bytes(word))
                .collect::<Vec<_>>()
        }))
    };
    write_or_read(thread, at, |value| [value; 2], write, read)
}

pub(super) struct Ring {
    /// The ring of the handles. It is kept as long as they are.
    _ring: RingBuffer<Fabric>,
    writer: Mutex<Option<RingWriter<Fabric>>>,
    reader: Mutex<Option<RingReader<Fabric>>>,
}

pub(super) fn ring_buffer(manager: &Manager<Fabric>, _: Size) -> Result<Ring> {
    let ring = RingBuffer::new(manager, "ring", NodeId(0), 2 * RingConfig::record_bytes(8))?;
    manager.wait_for_ready()?;
    let writes = manager.node() == NodeId(0);
    Ok(Ring {
        writer: Mutex::new(writes.then(|| ring.writer()).transpose()?),
        reader: Mutex::new((!writes).then(|| ring.reader()).transpose()?),
        _ring: ring,
    })
}

pub(super) fn use_ring_buffer(ring: &Ring, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    let writer = ring.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
    let reader = ring.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut writer) = writer {
        for message in 1..=at.size.ops {
            let mut submit = || loop {
                match writer.submit(thread, &message.to_le_bytes()) {
                    // The writer goes on without a lost reader.
                    Err(error) => match error.lost_peer() {
                        Some(node) => writer.exclude(node),
                        None => return Err(error),
                    },
                    submitted => return submitted,
                }
            };
            made(thread, format!("submit {message}"), &mut submit, |()| "true")?;
        }
    }
    if let Some(mut reader) = reader {
        for _ in 1..=at.size.ops {
            let receive = || Ok(reader.receive(thread)?.to_vec());
            // A message of another length was not submitted.
            let number = |message: &Vec<u8>| match message.as_slice().try_into() {
                Ok(word) => u64::from_le_bytes(word).to_string(),
                Err(_) => format!("{message:?}"),
            };
            made(thread, "receive", receive, number)?;
        }
    }
    Some(())
}
