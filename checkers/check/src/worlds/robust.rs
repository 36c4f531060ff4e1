//! Worlds for the question of robustness ([`RobustCheck`](crate::RobustCheck)): small clients of each object that
//! record what they see.
//!
//! Most are store buffering, the shape that distinguishes most memories from a strong one: two threads write one
//! variable each and read the other's. For the ring buffer it is a message in each direction. For objects whose calls
//! take effect one after another, two threads compete with a call each. Every world is small enough to be explored
//! completely in seconds.

use loco::fabric::{Lock, NodeId};
use loco::fence::Scope;
use loco::{
    AtomicVar, Barrier, Manager, Msw, OwnedVar, Result, RingBuffer, RingReader, RingWriter, SharedQueue,
    SharedRegion, SharedVar, Sst, TasLock, Thread, TicketLock, WideOwnedVar, fence,
};
use loco_sim::{ModelMutex, World, call};

use crate::Object;
use crate::named_world::{Expected, NamedWorld};
use crate::stage::{Fabric, Stage, get_word, here, must, put_word};
use crate::worlds::queue::{popped, pushed};

/// A world, and its expected answer if the object's documentation gives one.
pub(crate) type Asked = (NamedWorld, Option<Expected>);

/// A call of thread number `me` that writes or reads, and waits if the object's rules ask for it.
type Write<T> = fn(&T, &Thread<Fabric>, u16);
type Read<T> = fn(&T, &Thread<Fabric>, u16) -> u64;

/// Makes a world of store buffering: two nodes with one thread each; each writes its own variable and then reads the
/// other's.
fn buffering<T: Send + Sync + 'static>(
    make: fn(&Manager<Fabric>) -> Result<T>,
    write: impl Fn(&T, &Thread<Fabric>, u16) + Copy + Send + 'static,
    read: Read<T>,
) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 1, make);
        stage.each("node", 0..2, move |objects, thread, me| {
            call(format!("write {me}"), || write(objects, thread, me), |()| "");
            call(
                format!("read {}", 1 - me),
                || read(objects, thread, me),
                u64::to_string,
            );
        });
    }
}

/// Makes two worlds of store buffering: one without a fence, which shows what no strong memory shows, and one with a
/// fence between the write and the read.
fn unfenced_and_fenced<T: Send + Sync + 'static>(
    make: fn(&Manager<Fabric>) -> Result<T>,
    write: Write<T>,
    read: Read<T>,
) -> Vec<Asked> {
    let fenced = move |objects: &T, thread: &Thread<Fabric>, me| {
        write(objects, thread, me);
        must(fence::thread(thread));
    };
    vec![
        weak("store-buffering", buffering(make, write, read)),
        strong("store-buffering-fenced", buffering(make, fenced, read)),
    ]
}

fn weak(name: &'static str, world: impl Fn(&mut World) + Send + Sync + 'static) -> Asked {
    (NamedWorld::new(name, world), Some(Expected::Weak))
}

fn strong(name: &'static str, world: impl Fn(&mut World) + Send + Sync + 'static) -> Asked {
    (NamedWorld::new(name, world), Some(Expected::Robust))
}

fn shared(manager: &Manager<Fabric>) -> Result<[SharedVar<u64, Fabric>; 2]> {
    Ok([SharedVar::new(manager, "x")?, SharedVar::new(manager, "y")?])
}

fn shared_var() -> Vec<Asked> {
    let read: Read<[SharedVar<u64, Fabric>; 2]> = |vars, _, me| vars[usize::from(1 - me)].read();
    unfenced_and_fenced(
        shared,
        |vars, thread, me| {
            vars[usize::from(me)].write(1);
            must(vars[usize::from(me)].broadcast(thread)).forget();
        },
        read,
    )
}

fn owned(manager: &Manager<Fabric>) -> Result<[OwnedVar<u64, Fabric>; 2]> {
    Ok([
        OwnedVar::new(manager, "x", NodeId(0))?,
        OwnedVar::new(manager, "y", NodeId(1))?,
    ])
}

fn owned_var() -> Vec<Asked> {
    let read: Read<[OwnedVar<u64, Fabric>; 2]> = |vars, _, me| vars[usize::from(1 - me)].load();
    unfenced_and_fenced(
        owned,
        |vars, thread, me| {
            must(vars[usize::from(me)].store(1));
            must(vars[usize::from(me)].push(thread)).forget();
        },
        read,
    )
}

/// A value of two words, so that a reader could find a mixture.
type Wide = [u64; 2];

fn wide(manager: &Manager<Fabric>) -> Result<[WideOwnedVar<Wide, Fabric>; 2]> {
    Ok([
        WideOwnedVar::new(manager, "x", NodeId(0))?,
        WideOwnedVar::new(manager, "y", NodeId(1))?,
    ])
}

fn wide_owned_var() -> Vec<Asked> {
    let read: Read<[WideOwnedVar<Wide, Fabric>; 2]> =
        |vars, thread, me| must(vars[usize::from(1 - me)].load(thread))[0];
    unfenced_and_fenced(
        wide,
        |vars, thread, me| {
            must(vars[usize::from(me)].store(thread, [1; 2]));
            must(vars[usize::from(me)].push(thread)).forget();
        },
        read,
    )
}

/// Makes a location for each node, of two words.
fn notes(manager: &Manager<Fabric>) -> Result<Msw<Fabric>> {
    Msw::new(manager, "notes", &[16, 16])
}

fn msw() -> Vec<Asked> {
    let read: Read<Msw<Fabric>> = |notes, thread, me| {
        let mut value = [0; 16];
        must(notes.read(thread, usize::from(1 - me), &mut value));
        u64::from(value[0])
    };
    unfenced_and_fenced(
        notes,
        |notes, thread, me| {
            let own = usize::from(me);
            must(notes.write(own, &[1; 16]));
            must(notes.put(thread, own, NodeId(1 - me), own)).forget();
        },
        read,
    )
}

/// A ring in each direction between two nodes, and this node's ends of them.
struct Rings {
    _rings: [RingBuffer<Fabric>; 2],
    ends: ModelMutex<(RingWriter<Fabric>, RingReader<Fabric>)>,
}

fn rings(manager: &Manager<Fabric>) -> Result<Rings> {
    let rings = [
        RingBuffer::new(manager, "there", NodeId(0), 64)?,
        RingBuffer::new(manager, "back", NodeId(1), 64)?,
    ];
    manager.wait_for_ready()?;
    let me = usize::from(manager.node().0);
    let ends = (rings[me].writer()?, rings[1 - me].reader()?);
    Ok(Rings {
        _rings: rings,
        ends: Lock::new(ends),
    })
}

fn ring_buffer() -> Vec<Asked> {
    let read: Read<Rings> = |rings, thread, _| {
        let mut message = Vec::new();
        let received = must(rings.ends.lock().1.try_receive(thread, &mut message));
        u64::from(received)
    };
    unfenced_and_fenced(
        rings,
        |rings, thread, _| must(rings.ends.lock().0.submit(thread, b"1")),
        read,
    )
}

fn jobs(manager: &Manager<Fabric>) -> Result<SharedQueue<u64, Fabric>> {
    SharedQueue::new(manager, "queue", NodeId(0), 1)
}

/// Builds a world in which node 0 pushes, and node 1 pops.
fn handing(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, jobs);
    stage.run(0, 0, "pusher", |queue, thread| {
        let _ = call("push", || must(queue.try_push(thread, 1)), pushed);
    });
    stage.run(1, 0, "popper", |queue, thread| {
        let _ = call("pop", || must(queue.try_pop(thread)), popped);
    });
}

fn table(manager: &Manager<Fabric>) -> Result<Sst<u64, Fabric>> {
    Sst::new(manager, "table")
}

fn sst() -> Vec<Asked> {
    let read: Read<Sst<u64, Fabric>> = |table, _, me| must(table.row(NodeId(1 - me))).load();
    unfenced_and_fenced(
        table,
        |table, thread, _| {
            must(table.store_mine(1));
            must(table.push(thread)).forget();
        },
        read,
    )
}

fn data(manager: &Manager<Fabric>) -> Result<SharedRegion<Fabric>> {
    SharedRegion::new(manager, "data", 64)
}

/// Makes a world in which each thread puts into the other node's part and reads its own.
fn region() -> Asked {
    weak(
        "store-buffering",
        buffering(
            data,
            |data, thread, me| put_word(thread, data, 1 - me, 0, 1),
            |data, _, _| here(data, 0),
        ),
    )
}

fn fenced(scope: fn(&Thread<Fabric>, u16)) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 1, data);
        stage.each("node", 0..2, move |data, thread, me| {
            let write = || {
                put_word(thread, data, 1 - me, 0, 1);
                scope(thread, 1 - me);
            };
            call(format!("write {}", 1 - me), write, |()| "");
            call(format!("read {me}"), || here(data, 0), u64::to_string);
        });
    }
}

fn fences() -> Vec<Asked> {
    vec![
        strong(
            "pair",
            fenced(|thread, peer| must(fence::pair(thread, NodeId(peer)))),
        ),
        strong("thread", fenced(|thread, _| must(fence::thread(thread)))),
        strong(
            "all-threads",
            fenced(|thread, _| must(fence::all_threads(thread))),
        ),
    ]
}

fn counters(manager: &Manager<Fabric>) -> Result<[AtomicVar<u64, Fabric>; 2]> {
    Ok([
        AtomicVar::new(manager, "x", NodeId(0))?,
        AtomicVar::new(manager, "y", NodeId(1))?,
    ])
}

fn atomic() -> Asked {
    strong(
        "store-buffering",
        buffering(
            counters,
            |vars, thread, me| {
                must(vars[usize::from(me)].fetch_add(thread, 1));
            },
            |vars, thread, me| must(vars[usize::from(1 - me)].read(thread)),
        ),
    )
}

struct Met {
    vars: [SharedVar<u64, Fabric>; 2],
    barrier: Barrier<Fabric>,
}

fn met(manager: &Manager<Fabric>) -> Result<Met> {
    Ok(Met {
        vars: shared(manager)?,
        barrier: Barrier::new(manager, "barrier")?,
    })
}

fn barrier() -> Asked {
    strong(
        "store-buffering",
        buffering(
            met,
            |met, thread, me| {
                met.vars[usize::from(me)].write(1);
                must(met.vars[usize::from(me)].broadcast(thread)).forget();
                must(met.barrier.wait(thread));
            },
            |met, _, me| met.vars[usize::from(1 - me)].read(),
        ),
    )
}

struct Locked<L> {
    lock: L,
    data: SharedRegion<Fabric>,
}

/// Makes a world in which each thread takes the lock, reads a word on node 0 and increments it by a put.
fn counting<L: Send + Sync + 'static>(
    make: fn(&Manager<Fabric>) -> Result<L>,
    hold: fn(&L, &Thread<Fabric>, &mut dyn FnMut()),
) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 1, move |manager| {
            Ok(Locked {
                lock: make(manager)?,
                data: data(manager)?,
            })
        });
        stage.each("node", 0..2, move |objects, thread, _| {
            let mut seen = 0;
            let mut section = || {
                seen = get_word(thread, &objects.data, 0, 0);
                put_word(thread, &objects.data, 0, 0, seen + 1);
            };
            call("count", || hold(&objects.lock, thread, &mut section), |()| "");
            loco_sim::note(format!("saw {seen}"));
        });
    }
}

fn ticket_lock() -> Asked {
    strong(
        "counting",
        counting(
            |manager| TicketLock::new(manager, "lock", NodeId(0)),
            |lock: &TicketLock<Fabric>, thread, section| {
                let guard = must(lock.lock(thread, Scope::Thread));
                section();
                must(guard.release());
            },
        ),
    )
}

fn tas_lock() -> Asked {
    strong(
        "counting",
        counting(
            |manager| TasLock::new(manager, "lock", NodeId(0)),
            |lock: &TasLock<Fabric>, thread, section| {
                let guard = must(lock.lock(thread, Scope::Thread));
                section();
                must(guard.release());
            },
        ),
    )
}

/// Returns the worlds that decide whether an object is robust.
pub(crate) fn asked(object: Object) -> Vec<Asked> {
    match object {
        Object::SharedVar => shared_var(),
        Object::OwnedVar => owned_var(),
        Object::Sst => sst(),
        Object::Region => vec![region()],
        Object::Fence => fences(),
        Object::Atomic => vec![atomic()],
        Object::Barrier => vec![barrier()],
        Object::Collective => vec![(super::collective::shown(), Some(Expected::Robust))],
        Object::Log => vec![(super::log::shown(), Some(Expected::Robust))],
        Object::TicketLock => vec![ticket_lock()],
        Object::TasLock => vec![tas_lock()],
        Object::Queue => vec![strong("push-and-pop", handing)],
        Object::Kv => vec![(super::kv::insert_and_get(), Some(Expected::Robust))],
        Object::RingBuffer => ring_buffer(),
        Object::WideOwnedVar => wide_owned_var(),
        Object::Msw => msw(),
    }
}
