//! Worlds that use the built-in objects as users do. Every execution is checked against the object's
//! specification.

use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use loco::fabric::NodeId;
use loco::{
    Barrier, Manager, Msw, OwnedVar, Result, RingBuffer, RingReader, RingWriter, SharedVar, Sst, Thread,
    WideOwnedVar,
};
use loco_sim::spec::{self, Operation, Violation};
use loco_sim::{World, call};
use serde::Serialize;

use super::atomics;
use super::place::{Fabric, Place, Size, must};

/// A built-in object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// Rounds of all threads, with puts before each that must be seen after it.
    Barrier,
    /// Node 0 writes and broadcasts, the others read.
    SharedVar,
    /// Node 0 writes and pushes a word, the others read.
    OwnedVar,
    /// Node 0 writes and pushes three words, the others read.
    WideOwnedVar,
    /// Each node writes and pushes its row, then reads all.
    Sst,
    /// Node 0 writes and puts two words, the others try to read.
    Msw,
    /// Node 0 submits into a ring of two messages, the others receive.
    RingBuffer,
    /// All threads add to, read and swap a variable of node 0.
    Atomic,
    /// All threads acquire and release.
    TicketLock,
    /// All threads acquire and release.
    TasLock,
    /// Even nodes try to push into a queue of two values, odd ones to pop.
    Queue,
    /// Node 0 inserts, updates and deletes a key, the others get it.
    Kv,
}

impl Object {
    /// Returns whether several threads of a node may use it at a time.
    pub fn is_for_threads(self) -> bool {
        matches!(
            self,
            Object::Barrier
                | Object::Atomic
                | Object::TicketLock
                | Object::TasLock
                | Object::Queue
                | Object::Kv
        )
    }

    /// Returns the object's name on the command line.
    pub fn name(self) -> String {
        // Every object has a name.
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A node's objects and threads. The threads are made in the set-up because making them is not to be
/// explored.
struct Site<T> {
    objects: T,
    threads: Mutex<Vec<Option<Thread<Fabric>>>>,
}

/// Builds the world of an object.
pub fn build(object: Object, size: Size, world: &mut World) {
    match object {
        Object::Barrier => populate(world, size, barrier, use_barrier, spec::barrier),
        Object::SharedVar => populate(world, size, shared_var, use_shared_var, |o| {
            spec::shared_variable(o, "0")
        }),
        Object::OwnedVar => populate(world, size, owned_var, use_owned_var, |o| {
            spec::single_writer(o, "0")
        }),
        Object::WideOwnedVar => populate(world, size, wide_owned_var, use_wide_owned_var, |o| {
            spec::single_writer(o, "[0, 0, 0]")
        }),
        Object::Sst => populate(world, size, sst, use_sst, rows),
        Object::Msw => populate(world, size, msw, use_msw, |o| {
            spec::mixed_size_writes(o, "[0, 0]")
        }),
        Object::RingBuffer => populate(world, size, ring_buffer, use_ring_buffer, spec::ring_buffer),
        Object::Atomic => populate(world, size, atomics::atomic, atomics::use_atomic, |o| {
            spec::atomic_variable(o, 0)
        }),
        Object::TicketLock => populate(
            world,
            size,
            atomics::ticket_lock,
            atomics::use_ticket_lock,
            spec::mutual_exclusion,
        ),
        Object::TasLock => populate(
            world,
            size,
            atomics::tas_lock,
            atomics::use_tas_lock,
            spec::mutual_exclusion,
        ),
        Object::Queue => populate(world, size, atomics::queue, atomics::use_queue, |o| {
            spec::shared_queue(o, atomics::QUEUE_CAPACITY)
        }),
        Object::Kv => populate(world, size, atomics::kv, atomics::use_kv, spec::key_value_store),
    }
}

fn populate<T: Send + Sync + 'static>(
    world: &mut World,
    size: Size,
    make: fn(&Manager<Fabric>, Size) -> Result<T>,
    body: fn(&T, &Thread<Fabric>, Place),
    check: fn(&[Operation]) -> Result<(), Violation>,
) {
    for node in 0..size.nodes {
        let at = world.node(move |fabric| {
            let manager = must(Manager::new(fabric));
            let objects = must(make(&manager, size));
            must(manager.wait_for_ready());
            let threads = (0..size.threads).map(|_| Some(must(manager.thread()))).collect();
            Arc::new(Site {
                objects,
                threads: Mutex::new(threads),
            })
        });
        for thread in 0..size.threads {
            let place = Place { node, thread, size };
            world.thread(
                &at,
                &format!("node {node} thread {thread}"),
                move |site: &Arc<Site<T>>| {
                    let own = site.threads.lock().unwrap_or_else(PoisonError::into_inner)[thread].take();
                    if let Some(own) = own {
                        body(&site.objects, &own, place);
                    }
                },
            );
        }
    }
    world.finally(move |end| {
        if let Err(violation) = check(&spec::operations(&end.histories())) {
            panic!("{violation}");
        }
    });
}

type BarrierParts = (Vec<SharedVar<u64, Fabric>>, Barrier<Fabric>);

fn barrier(manager: &Manager<Fabric>, size: Size) -> Result<BarrierParts> {
    let flags = usize::from(size.nodes) * size.threads;
    let flags = (0..flags)
        .map(|i| SharedVar::new(manager, &format!("flag{i}")))
        .collect::<Result<_>>()?;
    Ok((flags, Barrier::with_local_threads(manager, "bar", size.threads)?))
}

fn use_barrier((flags, barrier): &BarrierParts, thread: &Thread<Fabric>, at: Place) {
    let mine = &flags[usize::from(at.node) * at.size.threads + at.thread];
    for round in 1..=at.size.ops {
        mine.write(round);
        must(mine.bcast_all(thread)).forget();
        call("wait", || must(barrier.wait(thread)), |()| "");
        for flag in flags {
            assert!(
                flag.read() >= round,
                "what was put before the barrier is seen after it"
            );
        }
    }
}

fn shared_var(manager: &Manager<Fabric>, _: Size) -> Result<SharedVar<u64, Fabric>> {
    SharedVar::new(manager, "sv")
}

fn use_shared_var(variable: &SharedVar<u64, Fabric>, thread: &Thread<Fabric>, at: Place) {
    for value in 1..=at.size.ops {
        if at.node == 0 {
            let write = || {
                variable.write(value);
                must(variable.bcast_all(thread)).forget();
            };
            call(format!("write {value}"), write, |()| "");
        } else {
            call("read", || variable.read(), u64::to_string);
        }
    }
}

fn owned_var(manager: &Manager<Fabric>, _: Size) -> Result<OwnedVar<u64, Fabric>> {
    OwnedVar::new(manager, "ov", NodeId(0))
}

fn use_owned_var(variable: &OwnedVar<u64, Fabric>, thread: &Thread<Fabric>, at: Place) {
    for value in 1..=at.size.ops {
        if at.node == 0 {
            let write = || {
                must(variable.store(value));
                must(variable.push(thread)).forget();
            };
            call(format!("write {value}"), write, |()| "");
        } else {
            call("read", || variable.load(), u64::to_string);
        }
    }
}

/// Formats a value, or `none`.
fn shown<T: std::fmt::Debug>(value: &Option<T>) -> String {
    value
        .as_ref()
        .map_or_else(|| "none".to_owned(), |value| format!("{value:?}"))
}

fn wide_owned_var(manager: &Manager<Fabric>, _: Size) -> Result<WideOwnedVar<[u64; 3], Fabric>> {
    WideOwnedVar::new(manager, "wov", NodeId(0))
}

fn use_wide_owned_var(variable: &WideOwnedVar<[u64; 3], Fabric>, thread: &Thread<Fabric>, at: Place) {
    for value in 1..=at.size.ops {
        if at.node == 0 {
            let words = [value, value, value];
            let write = || {
                must(variable.store(thread, words));
                must(variable.push(thread)).forget();
            };
            call(format!("write {words:?}"), write, |()| "");
        } else {
            call("read", || variable.try_load(), shown);
        }
    }
}

fn sst(manager: &Manager<Fabric>, _: Size) -> Result<Sst<u64, Fabric>> {
    Sst::new(manager, "sst")
}

fn use_sst(table: &Sst<u64, Fabric>, thread: &Thread<Fabric>, at: Place) {
    for value in 1..=at.size.ops {
        let write = || {
            must(table.store_mine(value));
            must(table.push_broadcast(thread)).forget();
        };
        call(format!("write{} {value}", at.node), write, |()| "");
        for node in (0..at.size.nodes).filter(|&node| node != at.node) {
            let read = || must(table.row(NodeId(node))).load();
            call(format!("read{node}"), read, u64::to_string);
        }
    }
}

/// Checks each row as a variable of its own.
fn rows(operations: &[Operation]) -> Result<(), Violation> {
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

fn msw(manager: &Manager<Fabric>, _: Size) -> Result<Msw<Fabric>> {
    Msw::new(manager, "msw", &[16])
}

fn use_msw(region: &Msw<Fabric>, thread: &Thread<Fabric>, at: Place) {
    for value in 1..=at.size.ops {
        if at.node == 0 {
            let words = [value; 2];
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let write = || {
                must(region.write(0, &bytes));
                let mut puts = loco::AckKey::done();
                for node in 1..at.size.nodes {
                    puts.unite(must(region.put(thread, 0, NodeId(node), 0)));
                }
                // The location may be written again only when the NIC has read it.
                must(puts.wait(thread));
            };
            call(format!("write {words:?}"), write, |()| "");
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
}

struct Ring {
    /// The ring of the handles. It is kept as long as they are.
    _ring: RingBuffer<Fabric>,
    writer: Mutex<Option<RingWriter<Fabric>>>,
    reader: Mutex<Option<RingReader<Fabric>>>,
}

fn ring_buffer(manager: &Manager<Fabric>, _: Size) -> Result<Ring> {
    let ring = RingBuffer::new(manager, "ring", NodeId(0), 2 * loco::RingConfig::record_bytes(8))?;
    manager.wait_for_ready()?;
    let writes = manager.node() == NodeId(0);
    Ok(Ring {
        writer: Mutex::new(writes.then(|| ring.writer()).transpose()?),
        reader: Mutex::new((!writes).then(|| ring.reader()).transpose()?),
        _ring: ring,
    })
}

fn use_ring_buffer(ring: &Ring, thread: &Thread<Fabric>, at: Place) {
    let writer = ring.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
    let reader = ring.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut writer) = writer {
        for message in 1..=at.size.ops {
            let submit = || must(writer.submit(thread, &message.to_le_bytes()));
            call(format!("submit {message}"), submit, |()| "true");
        }
    }
    if let Some(mut reader) = reader {
        for _ in 1..=at.size.ops {
            let receive = || {
                let message = must(reader.receive(thread));
                message
                    .iter()
                    .rev()
                    .fold(0, |word, &byte| word << 8 | u64::from(byte))
            };
            call("receive", receive, u64::to_string);
        }
    }
}
