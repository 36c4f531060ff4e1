//! Tasks that use the objects other than locks, and calls of one `AsyncThread`.

use std::cell::Cell;
use std::sync::Arc;

use loco::asynchronous::{Async, RingSink, RingStream};
use loco::fabric::{AtomicCell, NodeId};
use loco::{
    Barrier, Inserted, KvStore, Manager, Popped, Pushed, Result, RingBuffer, RingConfig, RingReader,
    RingWriter, SharedQueue, SharedRegion,
};
use loco_sim::World;

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, get_word, here, least_store, must, put_word};

use super::executor::{Word, handed_on, once};
use super::node;

struct Data {
    region: SharedRegion<Fabric>,
    /// Not zero while a call runs.
    runs: Word,
}

/// Returns the worlds of calls of one `AsyncThread`.
pub(crate) fn fence() -> Vec<NamedWorld> {
    vec![NamedWorld::new("calls-in-order", in_order)]
}

/// Builds a world in which three tasks make calls of one `AsyncThread` at a time: one call runs at a time, in the order in which
/// they were begun.
fn in_order(world: &mut World) {
    let make = |manager: &Manager<Fabric>| {
        Ok(Arc::new(Data {
            region: SharedRegion::new(manager, "data", 64)?,
            runs: AtomicCell::new(0_u32),
        }))
    };
    let mut stage = Stage::new(world, 2, 1, node(1, make));
    stage.run(1, 0, "executor", |node, _| {
        let thread = &node.threads[0];
        let put = |value: u64| {
            let data: Arc<Data> = node.object.clone();
            Box::pin(async move {
                did("AsyncThread::call");
                let call = thread.call(move |thread| {
                    assert_eq!(data.runs.swap(1_u32), 0, "one call at a time");
                    put_word(thread, &data.region, 0, 0, value);
                    must(loco::fence::thread(thread));
                    data.runs.swap(0_u32);
                    Ok(())
                });
                must(call.await);
            }) as _
        };
        node.run([put(1), put(2), put(3)]);
        let data = node.object.clone();
        node.run([Box::pin(async move {
            did("AsyncThread::with");
            let step = thread.with(move |thread| Ok(get_word(thread, &data.region, 0, 0)));
            assert_eq!(must(step.await), 3, "the call that was begun last came last");
        }) as _]);
    });
}

/// Returns the worlds of tasks at a barrier.
pub(crate) fn barrier() -> Vec<NamedWorld> {
    vec![NamedWorld::new("tasks", met)]
}

/// Builds a world in which a task of each node puts to the other before the barrier, and finds what the other has put after it.
fn met(world: &mut World) {
    let make = |manager: &Manager<Fabric>| {
        let barrier = Async::new(Barrier::new(manager, "barrier")?);
        Ok((barrier, Arc::new(SharedRegion::new(manager, "data", 64)?)))
    };
    let mut stage = Stage::new(world, 2, 1, node(1, make));
    stage.each("executor", 0..2, |node, _, me| {
        let (barrier, data) = &node.object;
        let thread = &node.threads[0];
        node.run([Box::pin(async move {
            let its = data.clone();
            let put = thread.call(move |thread| {
                put_word(thread, &its, 1 - me, 0, 5);
                Ok(())
            });
            must(put.await);
            did("Async<Barrier>::wait");
            must(barrier.wait(thread).await);
            assert_eq!(here(data, 0), 5, "what the other put before the barrier");
        }) as _]);
    });
}

/// Returns the worlds of tasks that use a queue.
pub(crate) fn queue() -> Vec<NamedWorld> {
    vec![NamedWorld::new("tasks", popped_and_pushed).small()]
}

/// Builds a world in which one task waits for a value that another task of the same thread pushes afterwards. The wait was begun by a task
/// that handed it on.
fn popped_and_pushed(world: &mut World) {
    let make = |manager: &Manager<Fabric>| {
        let queue = SharedQueue::<u64, Fabric>::new(manager, "queue", NodeId(0), 1)?;
        Ok(Async::new(queue))
    };
    let mut stage = Stage::new(world, 2, 1, node(2, make));
    stage.run(1, 0, "executor", |node, _| {
        let (queue, threads) = (&node.object, &node.threads);
        let popped = Cell::new(None);
        node.run([
            Box::pin(async {
                did("Async<SharedQueue>::pop");
                popped.set(Some(must(handed_on(queue.pop(&threads[0])).await)));
            }) as _,
            Box::pin(async {
                did("Async<SharedQueue>::push");
                assert_eq!(must(queue.push(&threads[1], 7).await), Pushed::Done);
            }) as _,
        ]);
        assert_eq!(popped.get(), Some(Popped::Value(7)));
    });
}

/// Returns the worlds of tasks that use a store.
pub(crate) fn kv() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("tasks", life_of_a_key),
        NamedWorld::new("task-dropped", dropped_insert),
        NamedWorld::new("task-started", started_updates),
    ]
}

fn store(manager: &Manager<Fabric>) -> Result<Async<KvStore<u64, u64, Fabric>>> {
    Ok(Async::new(KvStore::new(manager, "kv", least_store(8))?))
}

/// Builds a world in which a task writes a key that another task of the same thread reads.
fn life_of_a_key(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(2, store));
    stage.run(1, 0, "executor", |node, _| {
        let (store, threads) = (&node.object, &node.threads);
        node.run([
            Box::pin(async {
                did("Async<KvStore>::insert");
                assert_eq!(must(store.insert(&threads[0], 1, 10).await), Inserted::Done);
                did("Async<KvStore>::update");
                assert!(must(store.update(&threads[0], 1, 11).await), "it is there");
                assert_eq!(must(store.get(&threads[0], 1).await), Some(11), "what it wrote");
                did("Async<KvStore>::delete");
                assert!(must(store.delete(&threads[0], 1).await), "it is there");
            }) as _,
            Box::pin(async {
                did("Async<KvStore>::get");
                let found = must(store.get(&threads[1], 1).await);
                assert!(
                    matches!(found, None | Some(10 | 11)),
                    "a value that was written: {found:?}"
                );
            }) as _,
        ]);
    });
}

/// Builds a world in which a task starts three updates of a key. It waits for the second one first, and drops the third, after which
/// nothing is asked of its `AsyncThread`: another thread gets the lock all the same.
fn started_updates(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(1, store));
    stage.run(1, 0, "executor", |node, other| {
        let (store, thread) = (&node.object, &node.threads[0]);
        node.run([Box::pin(async {
            assert_eq!(must(store.insert(thread, 1, 10).await), Inserted::Done);
            did("Async<KvStore>::update_start");
            let first = must(store.update_start(thread, 1, 11).await);
            let second = must(store.update_start(thread, 1, 12).await);
            did("AsyncUpdate::wait");
            assert!(
                must(second.wait().await) && must(first.wait().await),
                "it is there"
            );
            assert_eq!(
                must(store.get(thread, 1).await),
                Some(12),
                "the second of the two"
            );
            drop(must(store.update_start(thread, 1, 13).await));
        }) as _]);
        let found = must(KvStore::get(store, other, &1));
        assert!(matches!(found, Some(12 | 13)), "taken back or not: {found:?}");
        assert!(must(KvStore::update(store, other, &1, &14)), "the lock is free");
        assert_eq!(must(KvStore::get(store, other, &1)), Some(14), "the last one");
    });
}

/// Builds a world in which a task is dropped while it inserts. The key is there afterwards, or not, and for good.
fn dropped_insert(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(1, store));
    stage.run(1, 0, "executor", |node, _| {
        let (store, thread) = (&node.object, &node.threads[0]);
        node.run([Box::pin(async {
            drop(once(store.insert(thread, 1, 10)).await);
            let before = must(store.get(thread, 1).await);
            let inserted = must(store.insert(thread, 1, 20).await);
            match before {
                Some(value) => assert_eq!((value, inserted), (10, Inserted::Duplicate)),
                None => assert_eq!(inserted, Inserted::Done, "the first insert is over"),
            }
            let after = must(store.get(thread, 1).await);
            assert_eq!(after, Some(before.unwrap_or(20)));
        }) as _]);
    });
}

/// Returns the worlds of tasks at the ends of a ring buffer.
pub(crate) fn ring_buffer() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("task-stream", stream),
        NamedWorld::new("task-sink", sink),
    ]
}

type Place<T> = std::sync::Mutex<Option<T>>;

/// The ends of a ring from node 0 to node 1, each on its node.
struct Ends {
    _ring: RingBuffer<Fabric>,
    writer: Place<RingWriter<Fabric>>,
    reader: Place<RingReader<Fabric>>,
}

/// Makes a ring with room for one message.
fn ends(manager: &Manager<Fabric>) -> Result<Ends> {
    let config = RingConfig::new(16).readers([NodeId(1)]);
    let ring = RingBuffer::with_config(manager, "ring", NodeId(0), &config)?;
    manager.wait_for_ready()?;
    let is_writer = manager.node() == NodeId(0);
    Ok(Ends {
        writer: Place::new(is_writer.then(|| ring.writer()).transpose()?),
        reader: Place::new((!is_writer).then(|| ring.reader()).transpose()?),
        _ring: ring,
    })
}

/// Takes a handle out of its place.
fn take<T>(place: &Place<T>) -> T {
    let taken = place.lock().ok().and_then(|mut place| place.take());
    match taken {
        Some(handle) => handle,
        None => panic!("this node has no such handle, or it was taken"),
    }
}

const MESSAGES: [[u8; 8]; 2] = [[1; 8], [2; 8]];

/// Builds a world in which a task stops waiting for a message and waits again, as one does that was handed the wait: none is lost. In the end
/// it drops the stream, which waits for a message that does not come.
fn stream(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(1, ends));
    stage.run(0, 0, "writer", |node, thread| {
        let mut writer = take(&node.object.writer);
        for message in MESSAGES {
            must(writer.submit(thread, &message));
        }
    });
    stage.run(1, 0, "executor", |node, _| {
        let mut stream = RingStream::new(take(&node.object.reader), &node.threads[0]);
        node.run([Box::pin(async move {
            let mut next = once(stream.next()).await.flatten();
            for message in MESSAGES {
                did("RingStream::next");
                let received = match next.take() {
                    Some(received) => Some(received),
                    None => handed_on(stream.next()).await,
                };
                assert_eq!(
                    received.map(must),
                    Some(message.to_vec()),
                    "the messages in order"
                );
            }
            assert!(once(stream.next()).await.is_none(), "nothing more was sent");
        }) as _]);
    });
}

/// Builds a world in which a task sends more into a sink than there is room for, and waits until everything is read.
fn sink(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(1, ends));
    stage.run(0, 0, "executor", |node, _| {
        let mut sink = RingSink::new(take(&node.object.writer), &node.threads[0]);
        node.run([Box::pin(async move {
            did("RingSink::submit");
            for message in MESSAGES {
                must(sink.submit(message).await);
            }
            did("RingSink::wait_until_read");
            must(sink.wait_until_read().await);
        }) as _]);
    });
    stage.run(1, 0, "reader", |node, thread| {
        let mut reader = take(&node.object.reader);
        for message in MESSAGES {
            assert_eq!(must(reader.receive(thread)), message, "the messages in order");
        }
    });
}
