//! Posting does not allocate, nor does looking up: on the shared-memory fabric the hot paths, once warm, never call the
//! allocator. This binary's allocator counts, thread by thread.

#![allow(clippy::unwrap_used)]

use allocation_counter::measure;
use loco::fabric::{AnyFabric, Local, NodeId, Target};
use loco::{
    Barrier, Channel, Inserted, KvConfig, KvStore, Manager, Result, RingBuffer, SharedVar, Sst, Thread,
    TicketLock, fence, testing,
};

const ROUNDS: u64 = 1000;

/// Runs `step` a few times, then many times, of which none may allocate.
fn never_allocates(what: &str, mut step: impl FnMut() -> Result<()>) -> Result<()> {
    // Queue pairs and buffers are made when first used; a wait that finds nothing to wait for warms nothing up.
    for _ in 0..100 {
        step()?;
    }
    let mut outcome = Ok(());
    let info = measure(|| {
        for _ in 0..ROUNDS {
            outcome = step();
            if outcome.is_err() {
                return;
            }
        }
    });
    assert_eq!(info.count_total, 0, "{what}: {info:?}");
    outcome
}

/// This node and the other one.
fn both<T: Send>(node: impl Fn(Manager<AnyFabric>, NodeId) -> Result<T> + Sync) -> Vec<T> {
    testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        let other = NodeId(1 - manager.node().0);
        node(manager, other)
    })
}

/// The counter counts: without that the tests below would show nothing.
#[test]
fn an_allocation_is_noticed() {
    let info = measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(info.count_total, 1);
}

#[test]
fn posting_and_fencing() {
    both(|manager, other| {
        let channel = Channel::builder(&manager, "words")
            .kind("words")
            .region("data", 256)
            .join()?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let region = channel.region("data")?;
        let (here, there) = (region.local()?, region.remote(other)?);
        let local = |len| Local {
            memory: here,
            offset: 64,
            len,
        };
        let target = |offset| Target {
            remote: there,
            offset,
        };
        type Step<'a> = &'a dyn Fn(&Thread<AnyFabric>) -> Result<()>;
        let each: [(&str, Step<'_>); 7] = [
            ("put", &|t| t.raw().put(local(40), target(128))?.wait(t)),
            ("put_inline", &|t| t.put_inline(&[1; 8], target(0))?.wait(t)),
            ("get", &|t| t.raw().get(local(40), target(128))?.wait(t)),
            ("fetch_add", &|t| {
                t.raw().fetch_add(target(0), 1, local(8))?.wait(t)
            }),
            ("compare_swap", &|t| {
                t.raw().compare_swap(target(0), 1, 2, local(8))?.wait(t)
            }),
            ("fence::thread", &|t| {
                t.put_inline(&[1; 8], target(0))?.forget();
                fence::thread(t)
            }),
            ("fence::towards", &|t| fence::towards(t, &[other])),
        ];
        for (what, step) in each {
            never_allocates(what, || step(&thread))?;
        }
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        end.wait(&thread)
    });
}

#[test]
fn shared_variable_and_table() {
    both(|manager, _| {
        let variable = SharedVar::<u64, _>::new(&manager, "variable")?;
        let table = Sst::<u64, _>::new(&manager, "table")?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        never_allocates("SharedVar::broadcast", || {
            variable.write(1);
            variable.broadcast(&thread)?.wait(&thread)
        })?;
        never_allocates("Sst::push", || {
            table.store_mine(1)?;
            table.push(&thread)?.wait(&thread)
        })?;
        never_allocates("Sst::wait_for_each", || {
            table.wait_for_each(&thread, |row| row == 1)
        })?;
        end.wait(&thread)
    });
}

/// With waiting, for however long the other node takes.
#[test]
fn barrier() {
    both(|manager, _| {
        let barrier = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        never_allocates("Barrier::wait_unfenced", || barrier.wait_unfenced(&thread))?;
        never_allocates("Barrier::wait", || barrier.wait(&thread))
    });
}

/// Submitting and receiving, round the end of the ring, with waiting for room and for messages.
#[test]
fn ring_buffer() {
    both(|manager, _| {
        let ring = RingBuffer::new(&manager, "ring", NodeId(0), 1024)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let batch = [[7; 64]; 5];
        if manager.node() == NodeId(0) {
            let mut writer = ring.writer()?;
            never_allocates("RingWriter::submit", || writer.submit(&thread, &batch[0]))?;
            never_allocates("RingWriter::submit_batch", || {
                writer.submit_batch(&thread, &batch)
            })?;
        } else {
            let mut reader = ring.reader()?;
            let mut message = Vec::new();
            never_allocates("RingReader::receive_into", || {
                for _ in 0..6 {
                    reader.receive_into(&thread, &mut message)?;
                }
                Ok(())
            })?;
            assert_eq!(message, batch[0]);
        }
        end.wait(&thread)
    });
}

/// One by one, several under way, many by one call; keys of this node, of the other, and of none.
#[test]
fn key_value_lookups() {
    const KEYS: u64 = 16;
    both(|manager, other| {
        let store = KvStore::<u64, u64, _>::new(&manager, "kv", KvConfig::default())?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let me = u64::from(manager.node().0);
        for key in (me..KEYS).step_by(2) {
            assert_eq!(store.insert(&thread, &key, &(key + 100))?, Inserted::Done);
        }
        end.wait(&thread)?;
        let expected = |key: u64| (key < KEYS).then_some(key + 100);
        let keys: Vec<u64> = (0..KEYS + 2).collect();
        let [here, there] = [me, u64::from(other.0)];
        for (what, key) in [("here", here), ("there", there), ("nowhere", KEYS)] {
            never_allocates(&format!("KvStore::get, {what}"), || {
                assert_eq!(store.get(&thread, &key)?, expected(key));
                Ok(())
            })?;
        }
        never_allocates("KvStore::get_start", || {
            let (one, two) = (
                store.get_start(&thread, &there)?,
                store.get_start(&thread, &(there + 2))?,
            );
            assert_eq!((one.wait()?, two.wait()?), (expected(there), expected(there + 2)));
            Ok(())
        })?;
        let mut values = Vec::new();
        never_allocates("KvStore::get_many_into", || {
            store.get_many_into(&thread, &keys, &mut values)?;
            assert!(
                keys.iter()
                    .zip(&values)
                    .all(|(&key, &value)| value == expected(key))
            );
            Ok(())
        })?;
        end.wait(&thread)
    });
}

#[test]
fn locking() {
    both(|manager, _| {
        // Both nodes at the home of one and away from the other's; they meet at either now and then.
        let locks = [
            TicketLock::new(&manager, "lock0", NodeId(0))?,
            TicketLock::new(&manager, "lock1", NodeId(1))?,
        ];
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        never_allocates("lock and release", || {
            for lock in &locks {
                lock.lock(&thread, fence::Scope::Thread)?.release()?;
            }
            Ok(())
        })?;
        end.wait(&thread)
    });
}
