//! The log: one order on all nodes, whoever appends; records outlive their author and their leader; timeouts name whom the call
//! waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::net::{Barrier, Log, Manager};
use crate::common::{ALL, Cluster, Net, survivors_meet, until_lost};
use loco::fabric::NodeId;
use loco::{ErrorKind, LogConfig, Result, Thread};

/// The bytes of a record, of which the length depends on the number.
fn record(node: u16, number: u16) -> Vec<u8> {
    let mut bytes = vec![node as u8, number as u8];
    bytes.resize(2 + usize::from(number) * 7 % 90, (node + number) as u8);
    bytes
}

/// Appends `count` records and reads in between, until it has read `total`.
fn append_and_read(log: &Log, thread: &Thread<Net>, count: u16, total: usize) -> Result<Vec<Vec<u8>>> {
    let node = thread.node_id().0;
    let (mut read, mut next) = (Vec::new(), Vec::new());
    for number in 0..count {
        log.append(thread, &record(node, number))?;
        while log.try_read(thread, &mut next)?.is_some() {
            read.push(next.clone());
        }
    }
    while read.len() < total {
        read.push(log.read(thread)?);
    }
    Ok(read)
}

/// Checks that `read` has each of `count` records of each of `nodes` once, those of a node in order.
fn assert_whole(read: &[Vec<u8>], nodes: &[u16], count: u16) {
    let mut numbers: BTreeMap<u16, u16> = BTreeMap::new();
    for bytes in read {
        let node = u16::from(bytes[0]);
        let number = numbers.entry(node).or_default();
        assert_eq!(*bytes, record(node, *number), "of node {node}");
        *number += 1;
    }
    assert!(
        nodes.iter().all(|node| numbers.get(node) == Some(&count)),
        "{numbers:?}"
    );
}

#[test]
fn all_nodes_read_one_order() {
    for cluster in ALL {
        // A ring that goes round often, and one whose records go by registered memory.
        for (capacity, service) in [(3, true), (64, true), (5, false)] {
            let read = cluster.run(3, |manager| {
                let config = LogConfig::new(capacity, 92).service(service);
                let log = Log::new(&manager, "log", config)?;
                let end = Barrier::new(&manager, "end")?;
                manager.wait_for_ready()?;
                let thread = manager.thread()?;
                let read = append_and_read(&log, &thread, 20, 60)?;
                end.wait(&thread)?;
                Ok(read)
            });
            assert_whole(&read[0], &[0, 1, 2], 20);
            assert!(read.iter().all(|of_node| of_node == &read[0]), "{cluster:?}");
        }
    }
}

#[test]
fn threads_of_a_node_share_its_place() {
    let read = Cluster::Deferred(2).run(2, |manager| {
        let log = Log::new(&manager, "log", LogConfig::new(8, 8))?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let read = Mutex::new(BTreeSet::new());
        let left = AtomicUsize::new(40);
        std::thread::scope(|scope| {
            let thread = |number: u64| {
                let (manager, log, read, left) = (&manager, &log, &read, &left);
                scope.spawn(move || -> Result<()> {
                    let (thread, mut bytes) = (manager.thread()?, Vec::new());
                    for i in 0..10 {
                        let value = u64::from(manager.node().0) << 32 | number << 16 | i;
                        log.append(&thread, &value.to_ne_bytes())?;
                        while left.load(SeqCst) > 0
                            && let Some(position) = log.try_read(&thread, &mut bytes)?
                        {
                            left.fetch_sub(1, SeqCst);
                            assert!(
                                read.lock().unwrap().insert((position, bytes.clone())),
                                "read twice"
                            );
                        }
                    }
                    Ok(())
                })
            };
            let threads = [thread(0), thread(1)];
            threads.into_iter().try_for_each(|thread| thread.join().unwrap())
        })?;
        let thread = manager.thread()?;
        let mut bytes = Vec::new();
        while read.lock().unwrap().len() < 40 {
            let position = log.read_into(&thread, &mut bytes)?;
            read.lock().unwrap().insert((position, bytes.clone()));
        }
        end.wait(&thread)?;
        Ok(read.into_inner().unwrap())
    });
    assert_eq!(read[0], read[1]);
    assert!(read[0].iter().map(|(position, _)| *position).eq(0..40));
}

#[test]
fn nodes_that_append_without_reading_keep_nobody_waiting_for_ever() {
    let read = Cluster::Deferred(2).run(2, |manager| {
        let log = Log::new(&manager, "log", LogConfig::new(2, 92))?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        // Each sets aside what the other appends, until it has set aside as much as the ring holds.
        for number in 0..2 {
            log.append(&thread, &record(manager.node().0, number))?;
        }
        let mut read = Vec::new();
        while log.unread(&thread)? > 0 || read.len() < 4 {
            read.push(log.read(&thread)?);
        }
        end.wait(&thread)?;
        // Nobody reads any more.
        let more = (0..9).try_for_each(|_| {
            thread.within(Duration::from_millis(50), || {
                log.append(&thread, b"more").map(drop)
            })
        });
        let error = more.expect_err("somebody must read");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        end.wait(&thread)?;
        Ok(read)
    });
    assert_whole(&read[0], &[0, 1], 2);
    assert_eq!(read[0], read[1]);
}

/// A thread that only appends must wait for its node's reader. The reader appends before it reads, and gets its turn.
#[test]
fn a_thread_that_only_appends_keeps_no_reader_from_appending() {
    const CAPACITY: usize = 2;
    const RECORDS: usize = 2 * CAPACITY + 3;
    for cluster in [Cluster::Synchronous, Cluster::Deferred(2)] {
        let read = cluster.run(2, |manager| {
            let log = Log::new(&manager, "log", LogConfig::new(CAPACITY, 8))?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let mut read = Vec::new();
            std::thread::scope(|scope| {
                let appends = (manager.node().0 == 1).then(|| {
                    scope.spawn(|| {
                        let thread = manager.thread()?;
                        (0..RECORDS - 1).try_for_each(|_| log.append(&thread, b"only").map(drop))
                    })
                });
                if appends.is_some() {
                    // The other thread has appended as much as may be unread, and waits for this one.
                    while log.unread(&thread)? < 2 * CAPACITY as u64 {
                        std::thread::yield_now();
                    }
                    log.append(&thread, b"reader")?;
                }
                while read.len() < RECORDS {
                    read.push(log.read(&thread)?);
                }
                appends.map_or(Ok(()), |appends| appends.join().unwrap())
            })?;
            end.wait(&thread)?;
            Ok(read)
        });
        assert_eq!(read[0], read[1], "{cluster:?}");
        assert_eq!(read[0].len(), RECORDS, "{cluster:?}");
    }
}

#[test]
fn what_was_read_and_not_told_keeps_nobody_waiting_for_ever() {
    // The others are told after every second record that was read.
    const CAPACITY: usize = 8;
    for cluster in [Cluster::Synchronous, Cluster::Deferred(2)] {
        let committed = cluster.run(2, |manager| {
            let log = Log::new(&manager, "log", LogConfig::new(CAPACITY, 8))?;
            let full = Barrier::new(&manager, "full")?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let leads = manager.node().0 == 0;
            if leads {
                for _ in 0..CAPACITY {
                    log.append(&thread, b"leader")?;
                    log.read(&thread)?;
                }
            } else {
                log.read(&thread)?;
            }
            full.wait(&thread)?;
            // Node 1 has read one record, and the leader does not know it.
            if !leads {
                log.append(&thread, b"other")?;
            }
            end.wait(&thread)?;
            Ok(log.committed())
        });
        assert_eq!(committed, [9, 9], "{cluster:?}");
    }
}

/// The clusters whose nodes find one another lost at once.
const MORTAL: [Cluster; 4] = [
    Cluster::Synchronous,
    Cluster::Deferred(2),
    Cluster::DeferredPolled(4),
    Cluster::Tcp,
];

/// What the nodes of a test with losses know of one another by the test's own means.
#[derive(Default)]
struct Known {
    /// The records whose appends have returned, with their positions.
    acknowledged: Mutex<Vec<(u64, Vec<u8>)>>,
    ended: AtomicUsize,
}

/// Appends numbered records until `number` is reached, and notes each that has returned.
fn append_until(log: &Log, thread: &Thread<Net>, known: &Known, numbers: std::ops::Range<u16>) -> Result<()> {
    for number in numbers {
        let bytes = record(thread.node_id().0, number);
        let position = log.append(thread, &bytes)?;
        known.acknowledged.lock().unwrap().push((position, bytes));
    }
    Ok(())
}

#[test]
fn leaders_that_are_lost_lose_no_acknowledged_record() {
    for cluster in MORTAL {
        for service in [true, false] {
            let known = Known::default();
            let read = cluster.run(3, |manager| {
                let log = Log::new(&manager, "log", LogConfig::new(200, 92).service(service))?;
                let start = Barrier::new(&manager, "start")?;
                manager.wait_for_ready()?;
                let thread = manager.thread()?;
                start.wait(&thread)?;
                let (node, mut read) = (manager.node().0, Vec::new());
                // Nodes 0 and 1 lead, one after the other, and die while others append.
                for round in 0..3 {
                    append_until(&log, &thread, &known, 10 * round..10 * round + 10)?;
                    if round == node && node < 2 {
                        manager.fabric().mesh().fail();
                        known.ended.fetch_add(1, SeqCst);
                        return Ok(read);
                    }
                    if round < 2 {
                        until_lost_unless_served(&manager, &log, &thread, &known, round)?;
                    }
                }
                // The last node reads everything alone.
                log.append(&thread, b"end")?;
                while read.last().is_none_or(|last| last != b"end") {
                    read.push(log.read(&thread)?);
                }
                Ok(read)
            });
            let read = &read[2];
            let once: BTreeSet<_> = read.iter().collect();
            assert_eq!(once.len(), read.len(), "no record is there twice");
            let acknowledged = known.acknowledged.into_inner().unwrap();
            assert_eq!(acknowledged.len(), 10 + 20 + 30, "{cluster:?}");
            for (position, bytes) in acknowledged {
                assert_eq!(read[position as usize], bytes, "{cluster:?}: record {position}");
            }
        }
    }
}

/// Waits until the leader of the round is lost. A node without a service thread appends meanwhile: who leads must make calls.
fn until_lost_unless_served(
    manager: &Manager,
    log: &Log,
    thread: &Thread<Net>,
    known: &Known,
    round: u16,
) -> Result<()> {
    let leader = NodeId(round);
    while log.leader() <= leader && known.ended.load(SeqCst) <= usize::from(round) {
        log.lead(thread)?;
        std::thread::yield_now();
    }
    until_lost(manager, leader);
    Ok(())
}

#[test]
fn survivors_of_a_leader_read_the_same() {
    for cluster in MORTAL {
        let arrived = AtomicUsize::new(0);
        let read = cluster.run(3, |manager| {
            let log = Log::new(&manager, "log", LogConfig::new(4, 92))?;
            let start = Barrier::new(&manager, "start")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            start.wait(&thread)?;
            let node = manager.node().0;
            let (mut read, mut next) = (Vec::new(), Vec::new());
            for number in 0..40 {
                if node == 0 && number == 20 {
                    manager.fabric().mesh().fail();
                    return Ok(read);
                }
                log.append(&thread, &record(node, number))?;
                while log.try_read(&thread, &mut next)?.is_some() {
                    read.push(next.clone());
                }
            }
            // Waits for the loss of node 0, so that its records come before the last ones. It goes on only while others read.
            while log.leader() == NodeId(0) {
                match log.try_read(&thread, &mut next)? {
                    Some(_) => read.push(next.clone()),
                    None => std::thread::yield_now(),
                }
            }
            log.append(&thread, &[node as u8, 255, 255])?;
            let is_last = |bytes: &Vec<u8>| bytes.len() == 3 && bytes[1..] == [255, 255];
            while read.iter().filter(|bytes| is_last(bytes)).count() < 2 {
                read.push(log.read(&thread)?);
            }
            survivors_meet(&arrived, 1);
            Ok(read)
        });
        assert_eq!(read[1], read[2], "{cluster:?}");
        assert!(
            read[1].starts_with(&read[0]),
            "{cluster:?}: what the lost node has read"
        );
        let of_node = |node: u8| read[1].iter().filter(|bytes| bytes[0] == node).count();
        assert_eq!((of_node(0), of_node(1), of_node(2)), (20, 41, 41), "{cluster:?}");
    }
}

#[test]
fn too_few_members_commit_nothing() {
    for cluster in MORTAL {
        cluster.run(2, |manager| {
            let log = Log::new(&manager, "log", LogConfig::new(4, 8).members_min(2))?;
            let start = Barrier::new(&manager, "start")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            log.append(&thread, b"both")?;
            let met = start.wait(&thread);
            if manager.node().0 == 0 {
                met?;
                manager.fabric().mesh().fail();
                return Ok(());
            }
            // The node that fails may take the news of its arrival with it.
            if let Err(error) = met {
                assert_eq!(error.lost_peer(), Some(NodeId(0)), "{cluster:?}: {error}");
            }
            until_lost(&manager, NodeId(0));
            let error = log.append(&thread, b"alone").expect_err("one of two lives");
            assert_eq!(error.lost_peer(), Some(NodeId(0)), "{cluster:?}: {error}");
            // The news of node 0's own record may have gone with it.
            let committed = log.committed();
            assert!((1..=2).contains(&committed), "{cluster:?}: {committed}");
            for _ in 0..committed {
                assert_eq!(log.read(&thread)?, b"both");
            }
            Ok(())
        });
    }
}

#[test]
fn timeouts_name_whom_the_append_waits_for() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let full = Log::new(&manager, "full", LogConfig::new(1, 8))?;
            let idle = Log::new(&manager, "idle", LogConfig::new(1, 8).service(false))?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            let late = |call: &dyn Fn() -> Result<u64>| {
                let error = thread
                    .within(Duration::from_millis(50), call)
                    .expect_err("it must be late");
                assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
                error
            };
            let node = manager.node();
            if node.0 == 1 {
                full.append(&thread, b"first")?;
                let error = late(&|| full.append(&thread, b"second"));
                assert_eq!(error.awaited(), [NodeId(0)], "{cluster:?}");
                assert!(error.to_string().contains("must read"), "{error}");
                let error = late(&|| idle.append(&thread, b"asked"));
                assert_eq!(error.awaited(), [NodeId(0)], "{cluster:?}");
                assert!(error.to_string().contains("which leads log idle"), "{error}");
                assert_eq!(full.read(&thread)?, b"first");
            }
            end.wait(&thread)?;
            if node.0 == 0 {
                // What was late is appended, once.
                assert_eq!(full.read(&thread)?, b"first");
                assert_eq!(idle.read(&thread)?, b"asked");
            }
            assert_eq!(full.read(&thread)?, b"second");
            end.wait(&thread)
        });
    }
}

#[test]
fn settings_that_no_log_can_have_are_refused() {
    Cluster::Synchronous.run(2, |manager| {
        let refused = |config: LogConfig, words: &str| {
            let error = Log::new(&manager, "log", config).err().expect("refused");
            assert!(error.to_string().contains(words), "{error}");
        };
        refused(LogConfig::new(0, 8), "a `capacity` of 1 at least");
        refused(LogConfig::new(1, 8).members_min(0), "take 1 to 2");
        refused(LogConfig::new(1, 8).members_min(3), "take 1 to 2");
        refused(LogConfig::new(1, 1 << 24), "a record of log `log`");
        refused(LogConfig::new(usize::MAX / 8, 1000), "items of");
        let log = Log::new(&manager, "log", LogConfig::new(1, 8))?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let error = log.append(&thread, &[0; 9]).expect_err("too long");
        assert!(error.to_string().contains("9 bytes do not fit into 8"), "{error}");
        Ok(())
    });
}
