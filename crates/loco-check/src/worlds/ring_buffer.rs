//! The ring buffer (LOCO'26 Def. 5.2): each reader receives every message whole, once, in the order of the submits; a receive
//! that finds nothing is not after a submit that it knows of; what the writer put before a submit is seen after its
//! receive; a submit that finds no room changes nothing; records of every size may straddle the end.

use loco::fabric::{Lock, NodeId};
use loco::{
    Manager, Participants, Result, RingBuffer, RingConfig, RingReader, RingWriter, SharedRegion, SharedVar,
    Thread,
};
use loco_sim::{ModelMutex, World, call, spec};

use crate::methods::did;
use crate::rung::Rung;
use crate::stage::{
    Fabric, here, in_turn, is_loss, must, nodes, promise, put_words, run, unless_lost, until_in_time,
};

/// A handle that threads of a node use in turn. The mutex is the model's, so that the explorer sees who used it.
type Handle<T> = ModelMutex<Option<T>>;

struct Objects {
    /// Where the handles come from; kept as long as they are.
    _ring: RingBuffer<Fabric>,
    writer: Handle<RingWriter<Fabric>>,
    readers: Vec<Handle<RingReader<Fabric>>>,
    baton: SharedVar<u64, Fabric>,
    data: SharedRegion<Fabric>,
    flag: SharedVar<u64, Fabric>,
}

/// A ring of `capacity` bytes with a reader on each of `readers`, written by node 0.
#[derive(Clone)]
struct Shape {
    capacity: usize,
    readers: Vec<u16>,
    inline: bool,
    /// Lengths of the messages, in turn.
    lengths: Vec<usize>,
}

impl Shape {
    fn new(records: usize, readers: &[u16]) -> Shape {
        Shape {
            capacity: records * RingConfig::record_bytes(8),
            readers: readers.to_vec(),
            inline: true,
            lengths: vec![8],
        }
    }

    fn lengths(self, lengths: &[usize]) -> Shape {
        let lengths = lengths.to_vec();
        Shape { lengths, ..self }
    }

    fn capacity(self, capacity: usize) -> Shape {
        Shape { capacity, ..self }
    }

    fn without_inline(self) -> Shape {
        Shape {
            inline: false,
            ..self
        }
    }

    fn nodes(&self) -> u16 {
        self.readers.iter().max().map_or(1, |&last| last + 1)
    }

    /// Message `number`, from 1. Its first byte is the number, if it has one.
    fn message(&self, number: u64) -> Vec<u8> {
        let len = self.lengths[(number - 1) as usize % self.lengths.len()];
        (0..len).map(|i| number as u8 + 16 * (i % 15) as u8).collect()
    }

    fn make(&self) -> impl Fn(&Manager<Fabric>) -> Result<Objects> + Clone + Send + use<> {
        let shape = self.clone();
        move |manager| {
            let config = RingConfig {
                inline: shape.inline,
                ..RingConfig::new(shape.capacity).readers(shape.readers.iter().map(|&node| NodeId(node)))
            };
            let everybody = Participants::all(manager);
            let ring = RingBuffer::with_config(manager, "ring", &everybody, NodeId(0), &config)?;
            let data = SharedRegion::new(manager, "data", 64)?;
            let flag = SharedVar::new(manager, "flag")?;
            manager.wait_for_ready()?;
            let me = manager.node();
            let mine = shape.readers.iter().filter(|&&node| NodeId(node) == me);
            Ok(Objects {
                writer: Lock::new((me == NodeId(0)).then(|| ring.writer()).transpose()?),
                readers: mine
                    .map(|_| Ok(Lock::new(Some(ring.reader()?))))
                    .collect::<Result<_>>()?,
                _ring: ring,
                data,
                flag,
                baton: SharedVar::new(manager, "baton")?,
            })
        }
    }
}

/// Takes a handle out of its place.
#[track_caller]
fn take<T: Send + 'static>(place: &Handle<T>) -> T {
    let taken = place.lock().take();
    match taken {
        Some(handle) => handle,
        None => panic!("this node has no such handle, or it was taken"),
    }
}

/// How the writer submits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Submit {
    Wait,
    Try,
    Batch,
    TryBatch,
}

fn submit(
    writer: &mut RingWriter<Fabric>,
    thread: &Thread<Fabric>,
    shape: &Shape,
    how: Submit,
    first: u64,
    last: u64,
) -> u64 {
    let messages: Vec<Vec<u8>> = (first..=last).map(|number| shape.message(number)).collect();
    match how {
        Submit::Wait => {
            did("RingWriter::submit");
            call(
                format!("submit {first}"),
                || must(writer.submit(thread, &messages[0])),
                |()| "true",
            );
            1
        }
        Submit::Try => {
            did("RingWriter::try_submit");
            let done = call(
                format!("submit {first}"),
                || must(writer.try_submit(thread, &messages[0])),
                bool::to_string,
            );
            u64::from(done)
        }
        Submit::Batch => {
            did("RingWriter::submit_batch");
            must(writer.submit_batch(thread, &messages));
            last + 1 - first
        }
        Submit::TryBatch => {
            did("RingWriter::try_submit_batch");
            must(writer.try_submit_batch(thread, &messages)) as u64
        }
    }
}

/// The number of a message, which is one of the shape's messages as a whole.
fn number_of(shape: &Shape, message: &[u8], count: u64) -> u64 {
    let number = (1..=count).find(|&number| shape.message(number) == message);
    match number {
        Some(number) => number,
        None => panic!("a message that nobody submitted: {message:?}"),
    }
}

/// The writer submits `count` messages, waiting for room, by `threads` threads in turn; each reader receives them all.
fn stream(shape: Shape, count: u64, threads: usize) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, shape.nodes(), 4, shape.make());
        let sent = shape.clone();
        let own: Vec<usize> = (0..threads).collect();
        in_turn(
            world,
            &at[0],
            &own,
            "writer",
            |o| &o.baton,
            count,
            move |objects, thread, number| {
                let mut writer = take(&objects.writer);
                submit(&mut writer, thread, &sent, Submit::Wait, number, number);
                did("RingWriter::unread_bytes");
                assert!(writer.unread_bytes() <= sent.capacity as u64);
                *objects.writer.lock() = Some(writer);
            },
        );
        readers(world, &at, &shape, count, threads);
        if threads == 1 {
            // The calls of several threads on one reader would count as those of several readers.
            promise(world, spec::ring_buffer);
        }
    }
}

/// A thread for each reader that receives all `count` messages in order, by `threads` threads in turn.
fn readers(world: &mut World, at: &[crate::stage::At<Objects>], shape: &Shape, count: u64, threads: usize) {
    for (index, &node) in shape.readers.iter().enumerate() {
        let of_node = shape.readers[..index]
            .iter()
            .filter(|&&other| other == node)
            .count();
        // The node's first threads are the writer's on node 0; further readers there take the others.
        let own = if node == 0 {
            [2, 3]
        } else {
            [2 * of_node, 2 * of_node + 1]
        };
        let shape = shape.clone();
        // Two readers of one node take no turns: they have one baton.
        let name = format!("reader {index}");
        let own = &own[..if node == 0 { 1 } else { threads }];
        in_turn(
            world,
            &at[usize::from(node)],
            own,
            &name,
            |o| &o.baton,
            count,
            move |objects, thread, number| {
                let mut reader = take(&objects.readers[of_node]);
                let receive = || {
                    let mut message = Vec::new();
                    if number % 2 == 0 {
                        did("RingReader::receive_into");
                        must(reader.receive_into(thread, &mut message));
                    } else {
                        did("RingReader::receive");
                        message = must(reader.receive(thread));
                    }
                    assert_eq!(
                        message,
                        shape.message(number),
                        "message {number}, whole and in order"
                    );
                    number
                };
                call("receive", receive, u64::to_string);
                *objects.readers[of_node].lock() = Some(reader);
            },
        );
    }
}

/// The writer tries to submit `tries` messages; node 1 tries to receive as often. Whatever came was sent, in order.
fn attempts(shape: Shape, tries: u64) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, shape.nodes(), 1, shape.make());
        let sent = shape.clone();
        run(world, &at[0], 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            let mut next = 1;
            for attempt in 0..tries {
                let done = submit(&mut writer, thread, &sent, Submit::Try, next, next);
                assert!(attempt > 0 || done == 1, "an empty ring has room");
                next += done;
            }
        });
        let shape = shape.clone();
        run(world, &at[1], 0, "reader", move |objects, thread| {
            let mut reader = take(&objects.readers[0]);
            for _ in 0..tries {
                let mut message = Vec::new();
                did("RingReader::try_receive");
                let receive = || {
                    must(reader.try_receive(thread, &mut message)).then(|| number_of(&shape, &message, tries))
                };
                call("receive", receive, |got| {
                    got.map_or("none".to_owned(), |n| n.to_string())
                });
            }
        });
        promise(world, spec::ring_buffer);
    }
}

/// The writer submits a batch of `count`; the readers receive them one by one. Then it waits until all are read.
fn batch(shape: Shape, count: u64, how: Submit) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, shape.nodes(), 4, shape.make());
        let sent = shape.clone();
        run(world, &at[0], 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            let mut next = 1;
            while next <= count {
                let done = submit(&mut writer, thread, &sent, how, next, count);
                next += done;
                if done == 0 {
                    must(writer.wait_until_read(thread));
                }
            }
            did("RingWriter::wait_until_read");
            must(writer.wait_until_read(thread));
            assert_eq!(writer.unread_bytes(), 0, "every reader has read everything");
        });
        readers(world, &at, &shape, count, 1);
    }
}

/// When every message is read every reader has copied it out: the writer may overwrite it then, and it does.
fn overwritten(shape: Shape) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, shape.nodes(), 4, shape.make());
        let sent = shape.clone();
        run(world, &at[0], 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            for number in 1..=3 {
                submit(&mut writer, thread, &sent, Submit::Wait, number, number);
                must(writer.wait_until_read(thread));
            }
        });
        readers(world, &at, &shape, 3, 1);
    }
}

/// The writer puts data from memory, then submits: who receives sees the data.
fn with_data(world: &mut World) {
    let shape = Shape::new(2, &[1]);
    let at = nodes(world, 2, 1, shape.make());
    let sent = shape.clone();
    run(world, &at[0], 0, "writer", move |objects, thread| {
        let mut writer = take(&objects.writer);
        put_words(thread, &objects.data, 1, 0, &[4, 5]);
        submit(&mut writer, thread, &sent, Submit::Wait, 1, 1);
    });
    run(world, &at[1], 0, "reader", |objects, thread| {
        let mut reader = take(&objects.readers[0]);
        must(reader.receive(thread));
        assert_eq!(
            [here(&objects.data, 0), here(&objects.data, 8)],
            [4, 5],
            "what was put before the submit is seen after the receive"
        );
    });
}

/// The writer submits and then broadcasts a flag: who sees the flag does not find the ring empty (`fb` of Def. 5.2).
fn known(fenced: bool) -> impl Fn(&mut World) {
    move |world| {
        let shape = Shape::new(2, if fenced { &[1, 2] } else { &[1] });
        let at = nodes(world, shape.nodes(), 1, shape.make());
        let sent = shape.clone();
        run(world, &at[0], 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            submit(&mut writer, thread, &sent, Submit::Wait, 1, 1);
            if fenced {
                must(loco::fence::thread(thread));
            }
            objects.flag.write(1);
            must(objects.flag.bcast(thread, &[NodeId(1)])).forget();
        });
        run(world, &at[1], 0, "messenger", move |objects, thread| {
            must(objects.flag.wait_until(thread, |flag| flag == 1));
            let mut reader = take(&objects.readers[0]);
            let mut message = Vec::new();
            assert!(
                must(reader.try_receive(thread, &mut message)),
                "a submit that is known of"
            );
            if fenced {
                must(objects.flag.bcast(thread, &[NodeId(2)])).forget();
            }
        });
        if fenced {
            run(world, &at[2], 0, "last", |objects, thread| {
                must(objects.flag.wait_until(thread, |flag| flag == 1));
                let mut reader = take(&objects.readers[0]);
                let mut message = Vec::new();
                assert!(
                    must(reader.try_receive(thread, &mut message)),
                    "a submit that is known of"
                );
            });
        }
    }
}

/// Node 2 leaves, or is excluded, after one message; the writer goes on with node 1, which gets everything.
fn without(excluded: bool) -> impl Fn(&mut World) {
    move |world| {
        let shape = Shape::new(1, &[1, 2]);
        let at = nodes(world, 3, 1, shape.make());
        let sent = shape.clone();
        run(world, &at[0], 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            submit(&mut writer, thread, &sent, Submit::Wait, 1, 1);
            if excluded {
                did("RingWriter::exclude");
                writer.exclude(NodeId(2));
            }
            submit(&mut writer, thread, &sent, Submit::Wait, 2, 2);
            submit(&mut writer, thread, &sent, Submit::Wait, 3, 3);
        });
        let received = shape.clone();
        run(world, &at[1], 0, "stays", move |objects, thread| {
            let mut reader = take(&objects.readers[0]);
            for number in 1..=3 {
                assert_eq!(must(reader.receive(thread)), received.message(number));
            }
        });
        if !excluded {
            run(world, &at[2], 0, "leaves", move |objects, thread| {
                let mut reader = take(&objects.readers[0]);
                assert_eq!(must(reader.receive(thread)), shape.message(1));
                did("RingReader::leave");
                must(reader.leave(thread));
            });
        }
    }
}

/// The writer submits `count` messages and the readers receive what comes, in order, also where a wait is late (then it is
/// tried again) or a node is lost (then the writer goes on without its readers, and readers without their writer stop).
fn faulty(shape: Shape, count: u64) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, shape.nodes(), 1, shape.make());
        let sent = shape.clone();
        run(world, &at[0], 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            for number in 1..=count {
                let message = sent.message(number);
                // While there is no room nothing is submitted, so a late wait for room may be tried again.
                loop {
                    let waited = match writer.try_submit(thread, &message) {
                        Ok(true) => break,
                        Ok(false) => writer.wait_until_read(thread),
                        Err(error) => Err(error),
                    };
                    match waited {
                        Err(error) if error.is_timeout() => {}
                        Err(error) => match error.lost_peer() {
                            Some(node) => writer.exclude(node),
                            None if is_loss(&error) => return,
                            None => must(Err(error)),
                        },
                        Ok(()) => {}
                    }
                }
            }
        });
        for (index, &node) in shape.readers.iter().enumerate() {
            let shape = shape.clone();
            run(
                world,
                &at[usize::from(node)],
                0,
                &format!("reader {index}"),
                move |objects, thread| {
                    let mut reader = take(&objects.readers[0]);
                    for number in 1..=count {
                        let received = until_in_time(|| reader.receive(thread));
                        let Some(message) = unless_lost(received) else {
                            return;
                        };
                        assert_eq!(
                            message,
                            shape.message(number),
                            "message {number}, whole and in order"
                        );
                    }
                },
            );
        }
    }
}

/// The worlds of the ring buffer.
pub(crate) fn rungs() -> Vec<Rung> {
    let mixed = || Shape::new(2, &[1]).capacity(40).lengths(&[3, 17, 8, 0]);
    vec![
        Rung::new("stream", stream(Shape::new(2, &[1]), 2, 1)),
        Rung::new("attempts", attempts(Shape::new(1, &[1]), 2)),
        Rung::new("with-data", with_data),
        Rung::new("known", known(false)),
        Rung::new("wrap", stream(Shape::new(2, &[1]), 3, 1)),
        Rung::new("straddle", stream(mixed(), 3, 1)),
        Rung::new("memory", stream(Shape::new(2, &[1]).without_inline(), 3, 1)),
        Rung::new("straddle-memory", stream(mixed().without_inline(), 4, 1)),
        Rung::new("expiry", faulty(Shape::new(1, &[1]), 2)).expiries(1),
        Rung::new("crash", faulty(Shape::new(1, &[1]), 2)).crash(),
        Rung::new("crash-of-three", faulty(Shape::new(1, &[1, 2]), 2)).crash(),
        Rung::new("two-threads", stream(Shape::new(2, &[1]), 3, 2)),
        Rung::new("batch", batch(Shape::new(8, &[1]), 3, Submit::Batch)),
        Rung::new(
            "try-batch",
            batch(Shape::new(4, &[1]).lengths(&[3, 8]), 3, Submit::TryBatch),
        ),
        Rung::new("overwritten", overwritten(Shape::new(1, &[1]))),
        Rung::new("local-reader", stream(Shape::new(2, &[0]), 3, 1)),
        Rung::new("local-and-remote", stream(Shape::new(1, &[0, 1]), 2, 1)),
        Rung::new("two-readers-one-node", stream(Shape::new(1, &[1, 1]), 2, 1)),
        Rung::new("two-readers", stream(Shape::new(1, &[1, 2]), 2, 1)),
        Rung::new("known-fenced", known(true)),
        Rung::new("leave", without(false)),
        Rung::new("exclude", without(true)),
        Rung::new("attempts-thrice", attempts(Shape::new(2, &[1]), 4)),
        Rung::new(
            "straddle-large",
            stream(Shape::new(2, &[1]).capacity(64).lengths(&[40, 20, 33]), 4, 1),
        ),
    ]
}
