//! Clients of the barrier, the variables, the table of rows, the region of mixed sizes and the ring.

use std::sync::{Mutex, PoisonError};

use loco::fabric::NodeId;
use loco::{
    AckKey, Barrier, Manager, Msw, OwnedVar, Result, RingBuffer, RingConfig, RingReader, RingWriter,
    SharedVar, Sst, Thread, WideOwnedVar,
};
use loco_sim::call;
use loco_sim::spec::{self, Operation, Violation};

use super::{Place, Size, made, nothing, shown};
use crate::stage::{Fabric, must, unless_lost, until_in_time};

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
        // To each by itself, and then on to the barrier: the others wait for everyone who is in, also where one of them is lost.
        for peer in (0..at.size.nodes).filter(|&node| node != at.node) {
            if let Some(key) = unless_lost(mine.bcast(thread, &[NodeId(peer)])) {
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

pub(super) fn shared_var(manager: &Manager<Fabric>, _: Size) -> Result<SharedVar<u64, Fabric>> {
    SharedVar::new(manager, "sv")
}

pub(super) fn use_shared_var(
    variable: &SharedVar<u64, Fabric>,
    thread: &Thread<Fabric>,
    at: Place,
) -> Option<()> {
    for value in 1..=at.size.ops {
        if at.node == 0 {
            let write = || {
                variable.write(value);
                variable.bcast_all(thread)?.forget();
                Ok(())
            };
            made(thread, format!("write {value}"), write, nothing)?;
        } else {
            call("read", || variable.read(), u64::to_string);
        }
    }
    Some(())
}

pub(super) fn owned_var(manager: &Manager<Fabric>, _: Size) -> Result<OwnedVar<u64, Fabric>> {
    OwnedVar::new(manager, "ov", NodeId(0))
}

pub(super) fn use_owned_var(
    variable: &OwnedVar<u64, Fabric>,
    thread: &Thread<Fabric>,
    at: Place,
) -> Option<()> {
    for value in 1..=at.size.ops {
        if at.node == 0 {
            let write = || {
                variable.store(value)?;
                variable.push(thread)?.forget();
                Ok(())
            };
            made(thread, format!("write {value}"), write, nothing)?;
        } else {
            call("read", || variable.load(), u64::to_string);
        }
    }
    Some(())
}

pub(super) fn wide_owned_var(manager: &Manager<Fabric>, _: Size) -> Result<WideOwnedVar<[u64; 3], Fabric>> {
    WideOwnedVar::new(manager, "wov", NodeId(0))
}

pub(super) fn use_wide_owned_var(
    variable: &WideOwnedVar<[u64; 3], Fabric>,
    thread: &Thread<Fabric>,
    at: Place,
) -> Option<()> {
    for value in 1..=at.size.ops {
        if at.node == 0 {
            let words = [value, value, value];
            let write = || {
                variable.store(thread, words)?;
                variable.push(thread)?.forget();
                Ok(())
            };
            made(thread, format!("write {words:?}"), write, nothing)?;
        } else {
            call("read", || variable.try_load(), shown);
        }
    }
    Some(())
}

pub(super) fn sst(manager: &Manager<Fabric>, _: Size) -> Result<Sst<u64, Fabric>> {
    Sst::new(manager, "sst")
}

pub(super) fn use_sst(table: &Sst<u64, Fabric>, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    for value in 1..=at.size.ops {
        let write = || {
            table.store_mine(value)?;
            table.push_broadcast(thread)?.forget();
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
    (0..nodes).try_for_each(|row| {
        let of_row: Vec<Operation> = operations
            .iter()
            .filter_map(|o| {
                let name = o.name.strip_suffix(&row.to_string())?;
                Some(Operation {
                    name: name.to_owned(),
                    ..o.clone()
                })
            })
            .collect();
        spec::single_writer(&of_row, "0")
    })
}

pub(super) fn msw(manager: &Manager<Fabric>, _: Size) -> Result<Msw<Fabric>> {
    Msw::new(manager, "msw", &[16])
}

pub(super) fn use_msw(region: &Msw<Fabric>, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    for value in 1..=at.size.ops {
        if at.node == 0 {
            let words = [value; 2];
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let write = || {
                region.write(0, &bytes)?;
                let mut puts = AckKey::done();
                for node in 1..at.size.nodes {
                    puts.unite(region.put(thread, 0, NodeId(node), 0)?);
                }
                // The location may be written again only when the NIC has read it.
                until_in_time(|| puts.wait(thread))
            };
            made(thread, format!("write {words:?}"), write, nothing)?;
        } else {
            let read = || {
                let mut bytes = [0; 16];
                must(region.try_read(0, &mut bytes)).then(|| {
                    let word = |i: usize| {
                        bytes[8 * i..]
                            .iter()
                            .take(8)
                            .rev()
                            .fold(0, |w, &b| w << 8 | u64::from(b))
                    };
                    [word(0), word(1)]
                })
            };
            call("read", read, shown);
        }
    }
    Some(())
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
                    // The writer goes on without a reader that is lost.
                    Err(error) => match error.lost_peer() {
                        Some(node) => writer.exclude(node),
                        None => return Err(error),
                    },
                    submitted => return submitted,
                }
            };
            made(thread, format!("submit {message}"), &mut submit, |()| {
                "true".to_owned()
            })?;
        }
    }
    if let Some(mut reader) = reader {
        for _ in 1..=at.size.ops {
            let number = |message: &Vec<u8>| {
                let bytes = message.iter().rev();
                bytes
                    .fold(0_u64, |word, &byte| word << 8 | u64::from(byte))
                    .to_string()
            };
            made(thread, "receive", || Ok(reader.receive(thread)?.to_vec()), number)?;
        }
    }
    Some(())
}
