//! Completion tracking: ack keys as sets, futures, the window, temporary memory, threads.

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::common::{ALL, Cluster, Net};
use loco::fabric::{Fabric, NodeId};
use loco::raw::Flags;
use loco::{AckKey, Barrier, Manager, Result, SharedRegion, Thread, fence};
use proptest::prelude::*;

type Key = AckKey<Net>;

/// A region of `len` bytes, a barrier and a thread on each of two nodes; node 0 runs `body`.
fn on_node_0(
    cluster: Cluster,
    len: usize,
    body: impl Fn(&Manager<Net>, &SharedRegion<Net>, &Thread<Net>) -> Result<()> + Sync,
    check: impl Fn(&SharedRegion<Net>) -> Result<()> + Sync,
) {
    cluster.run(2, |manager| {
        let bar = Barrier::new(&manager, "bar")?;
        let region = SharedRegion::new(&manager, "r", len)?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        if manager.node().0 == 0 {
            body(&manager, &region, &thread)?;
        }
        bar.wait(&thread)?;
        if manager.node().0 == 1 {
            check(&region)?;
        }
        bar.wait(&thread)
    });
}

/// Unions are taken in the order of `merges`, pairs of indices into the keys.
fn laws(keys: &[Key], merges: &[(usize, usize)]) {
    for &(i, j) in merges {
        let (a, b) = (keys[i % keys.len()].clone(), keys[j % keys.len()].clone());
        let ab = a.clone().union(b.clone());
        let ba = b.clone().union(a.clone());
        assert_eq!(ab.len(), ba.len(), "union commutes");
        assert_eq!(ab.clone().union(ba).len(), ab.len(), "union is idempotent");
        assert_eq!(
            a.clone().union(AckKey::done()).len(),
            a.len(),
            "the empty set is neutral"
        );
        let expected = if i % keys.len() == j % keys.len() {
            a.len()
        } else {
            a.len() + b.len()
        };
        assert_eq!(ab.len(), expected, "distinct operations are counted once each");
        if ab.query() {
            assert!(a.query() && b.query(), "a union is done only when its parts are");
        }
        if a.query() && b.query() {
            assert!(ab.query(), "a union of done keys is done");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Keys of batches of puts behave as sets of operations, before and after completion.
    #[test]
    fn ack_keys_are_sets(
        batches in proptest::collection::vec(1..90_usize, 1..5),
        merges in proptest::collection::vec((0..8_usize, 0..8_usize), 1..12),
        seed in any::<u64>(),
    ) {
        on_node_0(
            Cluster::Deferred(seed),
            8,
            |_, region, thread| {
                let mut keys = Vec::new();
                for &batch in &batches {
                    let mut key = AckKey::done();
                    for i in 0..batch {
                        let target = region.target(NodeId(1), 0)?;
                        key.unite(thread.put_inline(&(i as u64).to_ne_bytes(), target)?);
                    }
                    assert!(key.len() <= batch);
                    keys.push(key);
                }
                laws(&keys, &merges);
                let all = keys.iter().cloned().reduce(Key::union).unwrap_or_default();
                all.wait(thread)?;
                assert!(keys.iter().all(Key::query), "waiting for the union waits for each");
                laws(&keys, &merges);
                Ok(())
            },
            |_| Ok(()),
        );
    }
}

/// Wakes by unparking.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park_timeout(Duration::from_secs(10)),
        }
        assert!(Instant::now() < end, "never woken");
    }
}

#[test]
fn a_key_can_be_awaited() {
    for cluster in ALL {
        on_node_0(
            cluster,
            8,
            |_, region, thread| {
                for round in 1..=50_u64 {
                    let buffer = thread.mem_ref(8)?;
                    buffer.set_word(0, round)?;
                    let pending = buffer.put(region.target(NodeId(1), 0)?)?;
                    block_on(pending.key().into_future())?;
                    // The end of a put does not say that it is placed.
                    let after_put = Flags::STRONG;
                    let read = pending
                        .wait()?
                        .get_with(region.target(NodeId(1), 0)?, after_put)?;
                    block_on(read.key().into_future())?;
                    assert_eq!(read.wait()?.word(0)?, round, "{cluster:?}");
                }
                Ok(())
            },
            |_| Ok(()),
        );
    }
}

#[test]
fn more_operations_than_the_window_holds() {
    const OPERATIONS: u64 = 70_000;
    for cluster in ALL {
        on_node_0(
            cluster,
            8,
            |_, region, thread| {
                let mut first = None;
                for i in 1..=OPERATIONS {
                    let last = Flags {
                        strong: i == OPERATIONS,
                        ..Flags::default()
                    };
                    let word = region.target(NodeId(1), 0)?;
                    let key = thread.put_inline_with(&i.to_ne_bytes(), word, last)?;
                    if i == 1 {
                        first = Some(key);
                    } else {
                        key.forget();
                    }
                }
                // Its slot has been used again since.
                first.unwrap_or_default().wait(thread)
            },
            |region| {
                let mut word = [0; 8];
                region.read(0, &mut word)?;
                assert_eq!(u64::from_ne_bytes(word), OPERATIONS);
                Ok(())
            },
        );
    }
}

#[test]
fn an_abandoned_buffer_is_not_reused_while_it_is_read() {
    const SLOTS: usize = 256;
    for cluster in ALL {
        on_node_0(
            cluster,
            SLOTS * 4096,
            |_, region, thread| {
                for slot in 0..SLOTS {
                    let buffer = thread.mem_ref(4096)?;
                    buffer.write(0, &[u8::try_from(slot % 251).unwrap_or(0); 4096])?;
                    // Dropped while under way; the next round fills whatever the pool hands out.
                    drop(buffer.put(region.target(NodeId(1), slot * 4096)?)?);
                }
                Ok(())
            },
            |region| {
                let mut block = vec![0; 4096];
                for slot in 0..SLOTS {
                    region.read(slot * 4096, &mut block)?;
                    let expected = u8::try_from(slot % 251).unwrap_or(0);
                    assert!(
                        block.iter().all(|&b| b == expected),
                        "{cluster:?}: slot {slot} was overwritten"
                    );
                }
                Ok(())
            },
        );
    }
}

#[test]
fn buffers_larger_than_a_block_work_too() {
    for cluster in ALL {
        on_node_0(
            cluster,
            100_000,
            |_, region, thread| {
                let buffer = thread.mem_ref(100_000)?;
                buffer.write(0, &vec![5; 100_000])?;
                buffer.put(region.target(NodeId(1), 0)?)?.wait()?;
                Ok(())
            },
            |region| {
                let mut all = vec![0; 100_000];
                region.read(0, &mut all)?;
                assert!(all.iter().all(|&b| b == 5));
                Ok(())
            },
        );
    }
}

#[test]
fn atomics_return_the_old_value() {
    for cluster in ALL {
        let sums = cluster.run(3, |manager| {
            let bar = Barrier::new(&manager, "bar")?;
            let region = SharedRegion::new(&manager, "r", 16)?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let mut tickets = Vec::new();
            let mut buffer = thread.mem_ref(8)?;
            for _ in 0..100 {
                buffer = buffer.fetch_add(region.target(NodeId(0), 0)?, 1)?.wait()?;
                tickets.push(buffer.word(0)?);
            }
            let won = buffer
                .compare_swap(region.target(NodeId(0), 8)?, 0, 1)?
                .wait()?
                .word(0)?
                == 0;
            bar.wait(&thread)?;
            Ok((tickets, won))
        });
        let mut tickets: Vec<u64> = sums.iter().flat_map(|(t, _)| t.clone()).collect();
        tickets.sort_unstable();
        assert_eq!(tickets, (0..300).collect::<Vec<_>>(), "{cluster:?}");
        assert_eq!(sums.iter().filter(|(_, won)| *won).count(), 1, "{cluster:?}");
    }
}

#[test]
fn a_range_error_posts_nothing() {
    for cluster in ALL {
        on_node_0(
            cluster,
            8,
            |_, region, thread| {
                let outside = thread.put_inline(&[1; 8], region.target(NodeId(1), 4)?);
                assert!(outside.is_err());
                let odd = thread.mem_ref(8)?.fetch_add(region.target(NodeId(1), 3)?, 1);
                assert!(odd.is_err());
                fence::thread(thread)
            },
            |region| {
                let mut word = [9; 8];
                region.read(0, &mut word)?;
                assert_eq!(word, [0; 8]);
                Ok(())
            },
        );
    }
}

#[test]
fn all_threads_scope_covers_other_threads() {
    for cluster in ALL {
        on_node_0(
            cluster,
            64,
            |manager, region, thread| {
                for round in 1..=200_u64 {
                    let other = manager.thread()?;
                    std::thread::scope(|scope| {
                        scope
                            .spawn(|| {
                                let other = other;
                                other
                                    .put_inline(&round.to_ne_bytes(), region.target(NodeId(1), 8)?)
                                    .map(AckKey::forget)
                            })
                            .join()
                            .expect("does not panic")
                    })?;
                    // Happens after the other thread's post. Placed now, so a get on another queue pair sees it.
                    fence::all_threads(thread)?;
                    let seen = thread
                        .mem_ref(8)?
                        .get(region.target(NodeId(1), 8)?)?
                        .wait()?
                        .word(0)?;
                    assert_eq!(seen, round, "{cluster:?}");
                }
                Ok(())
            },
            |_| Ok(()),
        );
    }
}

#[test]
fn a_barrier_can_complete_operations_of_other_threads() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let bar = Barrier::new(&manager, "bar")?;
            let region = SharedRegion::new(&manager, "r", 64)?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            for round in 1..=200_u64 {
                if manager.node().0 == 0 {
                    let other = manager.thread()?;
                    std::thread::scope(|scope| {
                        scope
                            .spawn(|| {
                                let other = other;
                                other
                                    .put_inline(&round.to_ne_bytes(), region.target(NodeId(1), 8)?)
                                    .map(AckKey::forget)
                            })
                            .join()
                            .expect("does not panic")
                    })?;
                }
                bar.wait_fencing_all_threads(&thread)?;
                let mut word = [0; 8];
                region.read(8, &mut word)?;
                if manager.node().0 == 1 {
                    assert_eq!(u64::from_ne_bytes(word), round, "{cluster:?}");
                }
                bar.wait(&thread)?;
            }
            Ok(())
        });
    }
}

#[test]
fn any_number_of_threads_per_node() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let me = manager.node();
            let threads = 2 + usize::from(me.0);
            let bar = Barrier::with_local_threads(&manager, "bar", threads)?;
            let region = SharedRegion::new(&manager, "r", 8 * 5)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let outcome: Result<Vec<()>> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|i| {
                        let (manager, bar, region) = (&manager, &bar, &region);
                        scope.spawn(move || worker(manager, bar, region, 2 * usize::from(me.0) + i))
                    })
                    .collect();
                workers
                    .into_iter()
                    .map(|w| w.join().expect("does not panic"))
                    .collect()
            });
            outcome?;
            end.wait(&manager.thread()?)
        });
    }
}

/// Puts its round number into slot `slot` of both nodes; after the barrier all five slots have it.
fn worker<F: Fabric>(
    manager: &Manager<F>,
    bar: &Barrier<F>,
    region: &SharedRegion<F>,
    slot: usize,
) -> Result<()> {
    let thread = manager.thread()?;
    for round in 1..=50_u64 {
        for &node in manager.nodes() {
            thread
                .put_inline(&round.to_ne_bytes(), region.target(node, 8 * slot)?)?
                .forget();
        }
        bar.wait(&thread)?;
        for slot in 0..5 {
            let mut word = [0; 8];
            region.read(8 * slot, &mut word)?;
            assert_eq!(u64::from_ne_bytes(word), round, "slot {slot}");
        }
        bar.wait(&thread)?;
    }
    Ok(())
}
