//! The ring buffer against a simple model, and its promises one by one.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{ALL, Cluster, Net, until_lost, wait_until};
use loco::fabric::NodeId;
use loco::{Barrier, Error, Manager, Result, RingBuffer, RingConfig, RingReader, RingWriter, Thread};
use proptest::prelude::*;

const WRITER: NodeId = NodeId(0);

type Manager_ = Manager<Net>;

fn ring(manager: &Manager_, config: &RingConfig) -> Result<RingBuffer<Net>> {
    RingBuffer::with_config(manager, "ring", WRITER, config)
}

/// One call.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// Submits a message of this many bytes.
    Submit(usize),
    /// Submits this many messages, the first of this many bytes, each one byte longer than the one before.
    SubmitBatch(usize, usize),
    /// Receives as this reader.
    Receive(usize),
}

/// A model of the ring, built of queues.
struct Model {
    capacity: usize,
    /// Unread messages of each reader.
    unread: Vec<VecDeque<Vec<u8>>>,
}

impl Model {
    fn has_room(&self, len: usize) -> bool {
        let used = |queue: &VecDeque<Vec<u8>>| {
            queue
                .iter()
                .map(|m| RingConfig::record_bytes(m.len()))
                .sum::<usize>()
        };
        let used = self.unread.iter().map(used).max().unwrap_or(0);
        used + RingConfig::record_bytes(len) <= self.capacity
    }
}

fn calls(capacity: usize, readers: usize) -> impl Strategy<Value = Vec<Call>> {
    let submit = (0..=capacity + 8).prop_map(Call::Submit);
    let batch = (0_usize..6, 0..=capacity + 8).prop_map(|(count, len)| Call::SubmitBatch(count, len));
    let receive = (0..readers).prop_map(Call::Receive);
    proptest::collection::vec(prop_oneof![submit, batch, receive.clone(), receive], 1..120)
}

fn cases() -> impl Strategy<Value = (RingConfig, Vec<Call>)> {
    let readers = prop_oneof![
        Just(vec![NodeId(1)]),
        Just(vec![NodeId(0), NodeId(1), NodeId(1)]),
        Just(vec![NodeId(2), NodeId(1), NodeId(2)]),
    ];
    (
        1usize..16,
        readers,
        any::<bool>(),
        prop_oneof![Just(0), 1usize..100],
        prop_oneof![Just(1024), 0usize..20],
    )
        .prop_flat_map(
            |(words, readers, inline, acknowledge_every_bytes, gather_bytes_max)| {
                let config = RingConfig::new(8 * words)
                    .readers(readers.clone())
                    .inline(inline)
                    .acknowledge_every_bytes(acknowledge_every_bytes)
                    .gather_bytes_max(gather_bytes_max);
                (Just(config), calls(8 * words, readers.len()))
            },
        )
}

/// A node's part of the ring.
struct Node {
    _manager: Manager_,
    thread: Thread<Net>,
    writer: Option<RingWriter<Net>>,
    readers: Vec<RingReader<Net>>,
}

/// Makes the calls, all from this thread, and checks each against the model.
fn follow(cluster: Cluster, config: &RingConfig, calls: &[Call]) {
    let reader_nodes = config.readers.clone().unwrap();
    let mut nodes = cluster.run(3, |manager| {
        let ring = ring(&manager, config)?;
        manager.wait_for_ready()?;
        let here = reader_nodes.iter().filter(|&&node| node == manager.node());
        Ok(Node {
            writer: (manager.node() == WRITER).then(|| ring.writer()).transpose()?,
            readers: here.map(|_| ring.reader()).collect::<Result<_>>()?,
            thread: manager.thread()?,
            _manager: manager,
        })
    });
    let capacity = config.capacity_bytes;
    let mut model = Model {
        capacity,
        unread: vec![VecDeque::new(); reader_nodes.len()],
    };
    // Exact only if the writer hears at once what has been read.
    let exact = matches!(cluster, Cluster::Synchronous) && config.acknowledge_every_bytes == 0;
    let mut sent = 0_u8;
    for &call in calls {
        match call {
            Call::Submit(len) => {
                sent = sent.wrapping_add(1);
                let message = vec![sent; len];
                let Node { writer, thread, .. } = &mut nodes[0];
                let outcome = writer.as_mut().unwrap().try_submit(thread, &message);
                match outcome {
                    Err(Error::TooLarge { max, .. }) => {
                        assert!(len > max && max == capacity - 8, "{len} of {max}");
                    }
                    Err(error) => panic!("{error}"),
                    Ok(submitted) => {
                        let room = model.has_room(len);
                        assert!(room || !submitted, "{len} bytes do not fit");
                        assert!(!exact || room == submitted, "{len} bytes fit");
                        if submitted {
                            model
                                .unread
                                .iter_mut()
                                .for_each(|queue| queue.push_back(message.clone()));
                        }
                    }
                }
            }
            Call::SubmitBatch(count, len) => {
                let messages: Vec<Vec<u8>> = (0..count)
                    .map(|i| {
                        sent = sent.wrapping_add(1);
                        vec![sent; len + i]
                    })
                    .collect();
                let Node { writer, thread, .. } = &mut nodes[0];
                match writer.as_mut().unwrap().try_submit_batch(thread, &messages) {
                    Err(Error::TooLarge { max, .. }) => {
                        assert!(count > 0 && len > max && max == capacity - 8, "{len} of {max}");
                    }
                    Err(error) => panic!("{error}"),
                    Ok(submitted) => {
                        assert!(submitted <= count);
                        let first_fits = count > 0 && model.has_room(len);
                        assert!(!exact || first_fits == (submitted > 0), "{len} bytes");
                        for message in &messages[..submitted] {
                            assert!(
                                model.has_room(message.len()),
                                "{} bytes do not fit",
                                message.len()
                            );
                            model
                                .unread
                                .iter_mut()
                                .for_each(|queue| queue.push_back(message.clone()));
                        }
                    }
                }
            }
            Call::Receive(index) => {
                let node = reader_nodes[index];
                let of_node = reader_nodes[..index]
                    .iter()
                    .filter(|&&other| other == node)
                    .count();
                let Node { readers, thread, .. } = &mut nodes[usize::from(node.0)];
                let reader = &mut readers[of_node];
                let mut message = b"untouched".to_vec();
                match model.unread[index].pop_front() {
                    Some(expected) => {
                        if exact {
                            assert!(reader.try_receive(thread, &mut message).unwrap());
                        } else {
                            reader.receive_into(thread, &mut message).unwrap();
                        }
                        assert_eq!(message, expected);
                    }
                    None => {
                        assert!(!reader.try_receive(thread, &mut message).unwrap());
                        assert_eq!(message, b"untouched");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn behaves_like_a_queue_for_each_reader((config, calls) in cases()) {
        follow(Cluster::Synchronous, &config, &calls);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn behaves_like_a_queue_for_each_reader_when_operations_are_late((config, calls) in cases(), seed: u64) {
        follow(Cluster::Deferred(seed), &config, &calls);
    }
}

/// Readers and writer at the same time, messages of all sizes many times round a small ring.
#[test]
fn every_reader_gets_every_message_whole_and_in_order() {
    const MESSAGES: u64 = 2000;
    let message = |i: u64| vec![i as u8; (i * 7 % 113) as usize];
    for (cluster, inline, acknowledge_every_bytes) in ALL
        .into_iter()
        .flat_map(|c| [(c, true, 0), (c, false, 0), (c, true, 64)])
    {
        let config = RingConfig::new(256)
            .readers([0, 1, 1, 2].map(NodeId))
            .inline(inline)
            .acknowledge_every_bytes(acknowledge_every_bytes);
        cluster.run(3, |manager| {
            let ring = ring(&manager, &config)?;
            manager.wait_for_ready()?;
            std::thread::scope(|scope| {
                let here = config
                    .readers
                    .iter()
                    .flatten()
                    .filter(|&&node| node == manager.node());
                let readers: Vec<_> = here
                    .map(|_| {
                        let (mut reader, thread) = (ring.reader()?, manager.thread()?);
                        Ok(scope.spawn(move || {
                            let mut got = Vec::new();
                            for i in 0..MESSAGES {
                                reader.receive_into(&thread, &mut got)?;
                                assert_eq!(got, message(i), "message {i}");
                            }
                            assert!(!reader.try_receive(&thread, &mut got)?);
                            Ok::<_, Error>(())
                        }))
                    })
                    .collect::<Result<_>>()?;
                if manager.node() == WRITER {
                    let (mut writer, thread) = (ring.writer()?, manager.thread()?);
                    // One by one and in batches, which the readers cannot tell apart.
                    for hundred in (0..MESSAGES).step_by(100) {
                        for i in hundred..hundred + 50 {
                            writer.submit(&thread, &message(i))?;
                        }
                        let batch: Vec<_> = (hundred + 50..hundred + 100).map(message).collect();
                        writer.submit_batch(&thread, &batch)?;
                    }
                    writer.wait_until_read(&thread)?;
                    assert_eq!(writer.unread_bytes(), 0);
                }
                readers.into_iter().try_for_each(|reader| reader.join().unwrap())
            })?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            end.wait(&manager.thread()?)
        });
    }
}

/// Writer and reader may go from thread to thread: order is kept.
#[test]
fn order_survives_a_change_of_thread() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let ring = ring(&manager, &RingConfig::new(128))?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let threads = [manager.thread()?, manager.thread()?, manager.thread()?];
            if manager.node() == WRITER {
                let mut writer = ring.writer()?;
                for i in 0..300_u64 {
                    writer.submit(&threads[i as usize % 3], &i.to_ne_bytes())?;
                }
            } else {
                let mut reader = ring.reader()?;
                for i in 0..300_u64 {
                    assert_eq!(reader.receive(&threads[i as usize / 2 % 3])?, i.to_ne_bytes());
                }
            }
            end.wait(&threads[0])
        });
    }
}

#[test]
fn a_message_larger_than_the_ring_is_refused() {
    Cluster::Synchronous.run(2, |manager| {
        let ring = ring(&manager, &RingConfig::new(64))?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        assert_eq!(ring.message_bytes_max(), 56);
        if manager.node() == WRITER {
            let mut writer = ring.writer()?;
            for outcome in [
                writer.submit(&thread, &[0; 57]),
                writer.try_submit(&thread, &[0; 57]).map(drop),
            ] {
                let error = outcome.unwrap_err();
                assert!(
                    matches!(error, Error::TooLarge { len: 57, max: 56, .. }),
                    "{error}"
                );
                assert!(error.to_string().contains("`ring`"), "{error}");
            }
            writer.submit(&thread, &[5; 56])?;
            writer.wait_until_read(&thread)?;
        } else {
            assert_eq!(ring.reader()?.receive(&thread)?, [5; 56]);
        }
        Ok(())
    });
}

/// A batch that holds a message that never fits delivers what comes before it.
#[test]
fn a_batch_ends_at_a_message_larger_than_the_ring() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let ring = ring(&manager, &RingConfig::new(64))?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == WRITER {
                let mut writer = ring.writer()?;
                let batch = [vec![1; 3], vec![2; 20], vec![3; 57], vec![4; 1]];
                let error = writer.submit_batch(&thread, &batch).unwrap_err();
                assert!(
                    matches!(error, Error::TooLarge { len: 57, max: 56, .. }),
                    "{error}"
                );
                writer.submit(&thread, &[5])?;
                assert_eq!(writer.try_submit_batch(&thread, &[] as &[&[u8]])?, 0);
            } else {
                let mut reader = ring.reader()?;
                for expected in [vec![1; 3], vec![2; 20], vec![5]] {
                    assert_eq!(reader.receive(&thread)?, expected);
                }
                assert!(!reader.try_receive(&thread, &mut Vec::new())?);
            }
            end.wait(&thread)
        });
    }
}

#[test]
fn handles_are_given_out_once_and_where_they_belong() {
    Cluster::Synchronous.run(2, |manager| {
        let config = RingConfig::new(64).readers([1, 1].map(NodeId));
        let ring = ring(&manager, &config)?;
        manager.wait_for_ready()?;
        if manager.node() == WRITER {
            let writer = ring.writer()?;
            assert!(matches!(ring.writer(), Err(Error::Config(_))), "there is one");
            assert!(
                matches!(ring.reader(), Err(Error::Config(_))),
                "there is none here"
            );
            drop(writer);
        } else {
            assert!(matches!(ring.writer(), Err(Error::NotOwner { .. })));
            let _readers = (ring.reader()?, ring.reader()?);
            assert!(matches!(ring.reader(), Err(Error::Config(_))), "there are two");
        }
        for capacity in [0, 12] {
            assert!(matches!(
                RingBuffer::new(&manager, "odd", WRITER, capacity),
                Err(Error::Config(_))
            ));
        }
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        end.wait(&manager.thread()?)
    });
}

#[test]
fn endpoints_that_differ_name_both_sides() {
    for differ in [true, false] {
        let errors = Cluster::Synchronous.run(2, |manager| {
            let me = usize::from(manager.node().0);
            let config = if differ {
                RingConfig::new(64 + 8 * me)
            } else {
                RingConfig::new(64).readers([NodeId(1)].repeat(1 + me))
            };
            let _ring = ring(&manager, &config)?;
            Ok(manager.wait_for_ready().unwrap_err())
        });
        for error in errors {
            assert!(matches!(error, Error::Mismatch { .. }), "{error}");
            assert!(error.to_string().contains("node 0") && error.to_string().contains("node 1"));
        }
    }
}

/// A reader that is late finds everything from the beginning; until then the writer waits when the ring is full.
#[test]
fn a_late_reader_holds_the_writer_up_and_misses_nothing() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let ring = ring(&manager, &RingConfig::new(64))?;
            let (full, end) = (Barrier::new(&manager, "full")?, Barrier::new(&manager, "end")?);
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == WRITER {
                let mut writer = ring.writer()?;
                for i in 0..4_u64 {
                    assert!(writer.try_submit(&thread, &i.to_ne_bytes())?);
                }
                assert!(!writer.try_submit(&thread, b"one more")?);
                thread.set_deadline(Some(thread.now().after(Duration::from_millis(20))));
                assert!(writer.submit(&thread, b"one more").unwrap_err().is_timeout());
                thread.set_deadline(None);
                full.wait(&thread)?;
                writer.submit(&thread, &4_u64.to_ne_bytes())?;
            } else {
                full.wait(&thread)?;
                let mut reader = ring.reader()?;
                for i in 0..5_u64 {
                    assert_eq!(reader.receive(&thread)?, i.to_ne_bytes());
                }
            }
            end.wait(&thread)
        });
    }
}

/// Each thread takes the writer, submits and gives it back: readers get the messages in the order of the turns.
#[test]
fn the_writer_goes_from_thread_to_thread() {
    for cluster in ALL {
        cluster.run(2, |manager| {
            let ring = ring(&manager, &RingConfig::new(64))?;
            let other = RingBuffer::new(&manager, "other", WRITER, 64)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == WRITER {
                for i in 0..20_u64 {
                    std::thread::scope(|scope| {
                        let turn = || -> Result<()> {
                            let thread = manager.thread()?;
                            let mut writer = ring.writer()?;
                            writer.submit(&thread, &i.to_ne_bytes())?;
                            ring.return_writer(writer)
                        };
                        scope.spawn(turn).join().unwrap()
                    })?;
                }
                let stranger = other.writer()?;
                assert!(matches!(ring.return_writer(stranger), Err(Error::Config(_))));
            } else {
                let mut reader = ring.reader()?;
                for i in 0..20_u64 {
                    assert_eq!(reader.receive(&thread)?, i.to_ne_bytes());
                }
            }
            end.wait(&thread)
        });
    }
}

#[test]
fn a_reader_that_leaves_is_not_waited_for() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let ring = ring(&manager, &RingConfig::new(64))?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            match manager.node().0 {
                0 => {
                    let mut writer = ring.writer()?;
                    for i in 0..100_u64 {
                        writer.submit(&thread, &i.to_ne_bytes())?;
                    }
                }
                1 => {
                    let mut reader = ring.reader()?;
                    assert_eq!(reader.receive(&thread)?, 0_u64.to_ne_bytes());
                    reader.leave(&thread)?;
                }
                _ => {
                    let mut reader = ring.reader()?;
                    for i in 0..100_u64 {
                        assert_eq!(reader.receive(&thread)?, i.to_ne_bytes());
                    }
                }
            }
            end.wait(&thread)
        });
    }
}

/// A node that has read everything may end at once, while the writer still waits for a slower one.
#[test]
fn a_reader_that_is_done_may_leave_before_the_others() {
    for cluster in ALL {
        let heard = AtomicBool::new(false);
        cluster.run(3, |manager| {
            let ring = ring(&manager, &RingConfig::new(256))?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            if manager.node() == NodeId(0) {
                let mut writer = ring.writer()?;
                writer.submit(&thread, b"the last word")?;
                return std::thread::scope(|scope| {
                    scope.spawn(|| {
                        until_lost(&manager, NodeId(1));
                        heard.store(true, Ordering::SeqCst);
                    });
                    writer.wait_until_read(&thread)
                });
            }
            if manager.node() == NodeId(2) {
                // The writer knows that node 1 is gone while it waits for this one.
                wait_until("the writer hears of it", || heard.load(Ordering::SeqCst));
            }
            assert_eq!(ring.reader()?.receive(&thread)?, b"the last word");
            Ok(())
        });
    }
}

/// A dead reader is an error for a writer that waits for it, and for none that excludes it; the other readers miss
/// nothing. A dead writer is an error once all its messages are read.
#[test]
fn the_dead_are_named_and_the_living_go_on() {
    for cluster in ALL {
        cluster.run(3, |manager| {
            let ring = ring(&manager, &RingConfig::new(64))?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            match manager.node().0 {
                0 => {
                    let mut writer = ring.writer()?;
                    let mut lost = 0;
                    for i in 0..100_u64 {
                        while let Err(error) = writer.submit(&thread, &i.to_ne_bytes()) {
                            assert_eq!(error.lost_peer(), Some(NodeId(1)), "{error}");
                            writer.exclude(NodeId(1));
                            lost += 1;
                        }
                    }
                    assert_eq!(lost, 1);
                    writer.wait_until_read(&thread)?;
                    manager.fabric().mesh().fail();
                }
                1 => {
                    assert_eq!(ring.reader()?.receive(&thread)?, 0_u64.to_ne_bytes());
                    manager.fabric().mesh().fail();
                }
                _ => {
                    let mut reader = ring.reader()?;
                    for i in 0..100_u64 {
                        assert_eq!(reader.receive(&thread)?, i.to_ne_bytes());
                    }
                    let error = reader.receive(&thread).unwrap_err();
                    assert_eq!(error.lost_peer(), Some(WRITER), "{error}");
                }
            }
            Ok(())
        });
    }
}
