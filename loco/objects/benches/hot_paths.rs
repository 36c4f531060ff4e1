//! Calls one method of an object very often, in one thread, so that instructions can be counted: `hot_paths WHAT COUNT`.
//!
//! Both nodes are in this process and over shared memory. One thread makes the calls of both, so nobody waits and the number of
//! instructions does not depend on the machine's load. `ci/hot-paths` counts them.

use std::hint::black_box;

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{
    AtomicVar, Barrier, KvConfig, KvStore, OwnedVar, Result, RingBuffer, RingReader, RingWriter, SharedQueue,
    SharedRegion, Sst, Thread, TicketLock, testing,
};

/// The objects of a node.
struct Node {
    thread: Thread,
    region: SharedRegion,
    owned: OwnedVar<u64>,
    sst: Sst<u64>,
    counter: AtomicVar<u64>,
    lock: TicketLock,
    queue: SharedQueue<u64>,
    store: KvStore<u64, u64>,
    writer: Option<RingWriter>,
    reader: Option<RingReader>,
    _ring: RingBuffer,
}

/// Makes the objects of two nodes. Node 0 owns the variable and writes the ring; node 1 is the home of all else.
fn nodes() -> Vec<Node> {
    testing::run(2, |fabric| {
        let node = loco::Manager::new(fabric)?;
        let (first, second) = (NodeId(0), NodeId(1));
        let is_first = node.node() == first;
        let region = SharedRegion::new(&node, "region", 64)?;
        let owned = OwnedVar::new(&node, "owned", first)?;
        let sst = Sst::new(&node, "sst")?;
        let counter = AtomicVar::new(&node, "counter", second)?;
        let lock = TicketLock::new(&node, "lock", second)?;
        let queue = SharedQueue::new(&node, "queue", second, 64)?;
        let store = KvStore::new(&node, "store", KvConfig::default())?;
        let ring = RingBuffer::new(&node, "ring", first, 1 << 16)?;
        node.wait_for_ready()?;
        let thread = node.thread()?;
        if !is_first {
            let _ = store.insert(&thread, &7, &7)?; // the only key
        }
        Ok(Node {
            writer: is_first.then(|| ring.writer()).transpose()?,
            reader: (!is_first).then(|| ring.reader()).transpose()?,
            thread,
            region,
            owned,
            sst,
            counter,
            lock,
            queue,
            store,
            _ring: ring,
        })
    })
}

/// Calls `what` `count` times.
fn run(what: &str, count: u64) -> Result<()> {
    if what == "barrier" {
        let alone = testing::run(1, |fabric| {
            let node = loco::Manager::new(fabric)?;
            let barrier = Barrier::new(&node, "bar")?;
            node.wait_for_ready()?;
            Ok((node.thread()?, barrier))
        });
        for (thread, barrier) in &alone {
            repeat(count, || barrier.wait(thread))?;
        }
        return Ok(());
    }
    let mut nodes = nodes();
    let [a, b] = &mut nodes[..] else {
        return Ok(()); // not reached: two nodes were made
    };
    let (thread, peer) = (&a.thread, NodeId(1));
    let mut message = Vec::new();
    match what {
        "put-untracked" => repeat(count, || {
            thread.put_inline_untracked(&[1; 8], a.region.target(peer, 0)?)
        }),
        "put" => repeat(count, || {
            thread
                .put_inline(&[1; 8], a.region.target(peer, 0)?)?
                .wait(thread)
        }),
        "owned-var-push" => repeat(count, || a.owned.push(thread)?.wait(thread)),
        "sst-push" => repeat(count, || a.sst.push(thread)?.wait(thread)),
        "atomic-fetch-add" => repeat(count, || a.counter.fetch_add(thread, 1)),
        "atomic-read" => repeat(count, || a.counter.read(thread)),
        "lock-release" => repeat(count, || a.lock.lock(thread, Scope::Thread)?.release()),
        "queue-push-pop" => repeat(count, || Ok((a.queue.push(thread, 1)?, a.queue.pop(thread)?))),
        "kv-get" => repeat(count, || a.store.get(thread, &7)),
        "kv-update" => repeat(count, || a.store.update(thread, &7, &8)),
        "ring-submit-receive" => match (&mut a.writer, &mut b.reader) {
            (Some(writer), Some(reader)) => repeat(count, || {
                writer.submit(thread, &[1; 64])?;
                reader.receive_into(&b.thread, &mut message)
            }),
            _ => Ok(()), // not reached: node 0 writes and node 1 reads
        },
        _ => Err(loco::Error::Config(format!("`{what}` is not a hot path"))),
    }
}

/// Makes a call `count` times. Its result is not optimised away.
fn repeat<T>(count: u64, mut call: impl FnMut() -> Result<T>) -> Result<()> {
    (0..count).try_for_each(|_| call().map(|result| drop(black_box(result))))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let Some(what) = args.next() else {
        println!("hot_paths: run ci/hot-paths, which counts the instructions of each call");
        return Ok(());
    };
    let count = args.next().and_then(|count| count.parse().ok()).unwrap_or(1);
    run(&what, count)
}
