//! The shared queue: one FIFO, whoever pushes and pops; each value is popped once; full, empty and closed are exact; a
//! node that is lost does not stop the others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::net::{Barrier, Manager, SharedQueue};
use crate::common::{ALL, Cluster, Net, spin_until, survivors_meet, until_lost};
use loco::fabric::NodeId;
use loco::{Error, Popped, Pushed, Result};
use loco_history::spec::{Queue, QueueCall, QueueRet};
use loco_history::{History, Limits, MonotonicClock, Recorder, ThreadId, check};

const HOME: NodeId = NodeId(0);

type Calls = History<QueueCall<u64>, QueueRet<u64>>;

fn mixed_calls(manager: &Manager<Net>, queue: &SharedQueue<u64>, number: u16, calls: u64) -> Result<Calls> {
    let thread = manager.thread()?;
    let id = ThreadId {
        node: manager.node().0,
        thread: number,
    };
    let me = u64::from(id.node) * 16 + u64::from(number) + 1;
    let mut recorder = Recorder::new(id, MonotonicClock);
    for i in 0..calls {
        // Phases of more pushes and of more pops, so that the queue is found full and empty.
        let pushes = if (i / 10) % 2 == 0 { 2 } else { 1 };
        if i % 3 < pushes {
            let value = me * 1_000_000 + i;
            let call = recorder.invoke(QueueCall::Push(value));
            let result = match queue.try_push(&thread, value)? {
                Pushed::Done => QueueRet::Pushed,
                Pushed::Full(_) => QueueRet::Full,
                Pushed::Closed(_) => QueueRet::Closed,
            };
            recorder.respond(call, result);
        } else {
            let call = recorder.invoke(QueueCall::Pop);
            let result = match queue.try_pop(&thread)? {
                Popped::Value(value) => QueueRet::Popped(value),
                Popped::Empty => QueueRet::Empty,
                Popped::Closed => QueueRet::Closed,
            };
            recorder.respond(call, result);
        }
        if id.node == 1 && number == 0 && i == calls * 3 / 4 {
            let call = recorder.invoke(QueueCall::Close);
            queue.close(&thread)?;
            recorder.respond(call, QueueRet::Closed);
        }
    }
    Ok(recorder.finish())
}

#[test]
fn histories_are_linearizable() {
    for cluster in ALL {
        for capacity in [1, 5] {
            let histories = cluster.run(3, |manager| {
                let queue = SharedQueue::new(&manager, "q", HOME, capacity)?;
                let end = Barrier::new(&manager, "end")?;
                manager.wait_for_ready()?;
                end.wait(&manager.thread()?)?;
                let parts = std::thread::scope(|scope| {
                    let started: Vec<_> = (0..2)
                        .map(|number| {
                            let (queue, manager) = (&queue, &manager);
                            scope.spawn(move || mixed_calls(manager, queue, number, 40))
                        })
                        .collect();
                    let join = |t: std::thread::ScopedJoinHandle<'_, _>| t.join().expect("no panic");
                    started.into_iter().map(join).collect::<Result<Vec<_>>>()
                })?;
                end.wait(&manager.thread()?)?;
                Ok(History::merge(parts))
            });
            let history = History::merge(histories);
            let spec = Queue::bounded(capacity);
            let report = check(&spec, &history, &Limits::default());
            assert!(report.is_ok(), "{cluster:?}, {capacity}: {}", report.text());
        }
    }
}

/// Wide values, blocking calls: nothing lost, nothing twice, in order per producer at each consumer.
fn fifo(cluster: Cluster, nodes: usize, threads: u64, each: u64) {
    let popped = cluster.run(nodes, |manager| {
        let queue = SharedQueue::<[u64; 3], _>::new(&manager, "q", HOME, 7)?;
        let bar = Barrier::new(&manager, "bar")?;
        manager.wait_for_ready()?;
        bar.wait(&manager.thread()?)?;
        let node = u64::from(manager.node().0);
        let popped = std::thread::scope(|scope| {
            let producers: Vec<_> = (0..threads)
                .map(|number| {
                    let (queue, manager) = (&queue, &manager);
                    scope.spawn(move || -> Result<()> {
                        let thread = manager.thread()?;
                        for i in 0..each {
                            let id = node * threads + number;
                            let pushed = queue.push(&thread, [id, i, id ^ i])?;
                            assert_eq!(pushed, Pushed::Done);
                        }
                        Ok(())
                    })
                })
                .collect();
            let consumers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| -> Result<Vec<[u64; 3]>> {
                        let thread = manager.thread()?;
                        let mut popped = Vec::new();
                        while let Popped::Value(value) = queue.pop(&thread)? {
                            popped.push(value);
                        }
                        Ok(popped)
                    })
                })
                .collect();
            for producer in producers {
                producer.join().expect("no panic")?;
            }
            let thread = manager.thread()?;
            bar.wait(&thread)?;
            queue.close(&thread)?;
            assert_eq!(queue.push(&thread, [0; 3])?, Pushed::Closed([0; 3]));
            consumers
                .into_iter()
                .map(|consumer| consumer.join().expect("no panic"))
                .collect::<Result<Vec<_>>>()
        })?;
        bar.wait(&manager.thread()?)?;
        Ok(popped)
    });
    let mut count = 0;
    let mut seen = std::collections::BTreeSet::new();
    for consumer in popped.into_iter().flatten() {
        let mut last = BTreeMap::new();
        for [id, i, both] in consumer {
            assert_eq!(both, id ^ i, "{cluster:?}: torn");
            assert!(
                last.insert(id, i).is_none_or(|before| before < i),
                "{cluster:?}: out of order"
            );
            assert!(seen.insert((id, i)), "{cluster:?}: twice");
            count += 1;
        }
    }
    assert_eq!(count, nodes as u64 * threads * each, "{cluster:?}: lost");
}

#[test]
fn no_value_is_lost_or_popped_twice() {
    for cluster in ALL {
        fifo(cluster, 2, 2, 60);
    }
    fifo(Cluster::Synchronous, 4, 1, 500);
}

#[test]
fn waiting_ends() {
    for cluster in ALL {
        cluster.run(1, |manager| {
            let queue = SharedQueue::<u64, _>::new(&manager, "q", HOME, 1)?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let soon = || Some(thread.now().after(Duration::from_millis(20)));
            thread.set_deadline(soon());
            assert!(queue.pop(&thread).expect_err("it is empty").is_timeout());
            thread.set_deadline(None);
            assert_eq!(queue.push(&thread, 1)?, Pushed::Done);
            assert_eq!(queue.try_push(&thread, 2)?, Pushed::Full(2));
            thread.set_deadline(soon());
            assert!(queue.push(&thread, 2).expect_err("it is full").is_timeout());
            thread.set_deadline(None);
            queue.close(&thread)?;
            queue.close(&thread)?;
            assert_eq!(
                queue.try_push(&thread, 2)?,
                Pushed::Closed(2),
                "though it is full"
            );
            assert_eq!(queue.pop(&thread)?, Popped::Value(1));
            assert_eq!(queue.pop(&thread)?, Popped::Closed);
            Ok(())
        });
    }
}

#[test]
fn a_capacity_of_zero_is_refused() {
    Cluster::Synchronous.run(1, |manager| {
        let error = SharedQueue::<u64, _>::new(&manager, "q", HOME, 0).err();
        assert!(matches!(error, Some(Error::Config(_))));
        Ok(())
    });
}

/// Node 2, which has no cell of the ring (capacity 2), dies inside pushes and pops; the others go on.
#[test]
fn a_node_is_lost_at_any_point() {
    for (round, cluster) in ALL.into_iter().cycle().take(9).enumerate() {
        let arrived = AtomicUsize::new(0);
        // Each round dies after other calls, at a point in the next one that the machine chooses.
        let (begun, calls) = (AtomicUsize::new(0), 1 + 7 * round);
        // The others may still be at the barrier when it has passed, and would hear of the loss there.
        let passed = AtomicUsize::new(0);
        cluster.run(3, |manager| {
            let queue = SharedQueue::<u64, _>::new(&manager, "q", HOME, 2)?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            bar.wait(&thread)?;
            let me = manager.node().0;
            if me == 2 {
                spin_until("the others have passed the barrier", || passed.load(SeqCst) == 2);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        spin_until("calls have begun", || begun.load(SeqCst) >= calls);
                        manager.fabric().mesh().fail();
                    });
                    for i in 0.. {
                        begun.fetch_add(1, SeqCst);
                        let outcome = queue
                            .try_push(&thread, 1_000_000 + i)
                            .map(drop)
                            .and_then(|()| queue.try_pop(&thread).map(drop));
                        if outcome.is_err() {
                            return;
                        }
                    }
                });
                return Ok(());
            }
            passed.fetch_add(1, SeqCst);
            until_lost(&manager, NodeId(2));
            if me == 0 {
                for i in 0..50 {
                    assert_eq!(queue.push(&thread, i)?, Pushed::Done, "{cluster:?}");
                }
                queue.close(&thread)?;
            } else {
                let mut mine = Vec::new();
                while let Popped::Value(value) = queue.pop(&thread)? {
                    mine.push(value);
                }
                mine.retain(|&value| value < 1_000_000);
                assert_eq!(mine, (0..50).collect::<Vec<u64>>(), "{cluster:?}");
            }
            // Each serves the other until both are done.
            survivors_meet(&arrived, 1);
            Ok(())
        });
    }
}
