//! Worlds of the ring buffer without faults.

use loco::fabric::{Lock, NodeId};
use loco_sim::{World, call, note, spec};

use super::shape::{Objects, Shape, Submit, submit, take};
use crate::methods::did;
use crate::stage::{Stage, here, must, put_words};

/// Returns the number of a message, which must be one of the shape's messages as a whole.
pub(super) fn number_of(shape: &Shape, message: &[u8], count: u64) -> u64 {
    let number = (1..=count).find(|&number| shape.message(number) == message);
    match number {
        Some(number) => number,
        None => panic!("a message that nobody submitted: {message:?}"),
    }
}

/// Makes a world in which the writer submits `count` messages, waiting for room, by `threads` threads in turn. Each
/// reader receives them all.
pub(super) fn stream(shape: Shape, count: u64, threads: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, shape.nodes(), 4, shape.make());
        let sent = shape.clone();

        stage.in_turn(
            0,
            0..threads,
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
        readers(&mut stage, &shape, count, threads);
        if threads == 1 {
            // The calls of several threads on one reader would count as those of several readers.
            stage.promise(spec::ring_buffer);
        }
    }
}

/// Adds a thread for each reader that receives all `count` messages in order, by `threads` threads in turn.
pub(super) fn readers(stage: &mut Stage<'_, Objects>, shape: &Shape, count: u64, threads: usize) {
    for (index, &node) in shape.readers.iter().enumerate() {
        let of_node = shape.readers[..index]
            .iter()
            .filter(|&&other| other == node)
            .count();
        // The first threads of node 0 are the writer's. Two readers of one node take no turns: they have one baton.
        let own = match node {
            0 => 2..3,
            _ => 2 * of_node..2 * of_node + threads,
        };
        let shape = shape.clone();
        stage.in_turn(
            node,
            own,
            &format!("reader {index}"),
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

/// Makes a world in which the writer tries to submit `tries` messages, and node 1 tries to receive as often. Every
/// received message was sent, in order.
pub(super) fn attempts(shape: Shape, tries: u64) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, shape.nodes(), 1, shape.make());
        let sent = shape.clone();
        stage.run(0, 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            let mut next = 1;
            for attempt in 0..tries {
                let done = submit(&mut writer, thread, &sent, Submit::Try, next, next);
                assert!(attempt > 0 || done == 1, "an empty ring has room");
                next += done;
            }
        });
        let shape = shape.clone();
        stage.run(1, 0, "reader", move |objects, thread| {
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
        stage.promise(spec::ring_buffer);
    }
}

/// Makes a world in which the writer submits a batch of `count`, and the readers receive the messages one by one.
/// Then the writer waits until all are read.
pub(super) fn batch(shape: Shape, count: u64, how: Submit) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, shape.nodes(), 4, shape.make());
        let sent = shape.clone();
        stage.run(0, 0, "writer", move |objects, thread| {
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
        readers(&mut stage, &shape, count, 1);
    }
}

/// Makes a world in which the writer overwrites messages. When every message is read, every reader has copied it out.
pub(super) fn overwritten(shape: Shape) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, shape.nodes(), 4, shape.make());
        let sent = shape.clone();
        stage.run(0, 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            for number in 1..=3 {
                submit(&mut writer, thread, &sent, Submit::Wait, number, number);
                must(writer.wait_until_read(thread));
            }
        });
        readers(&mut stage, &shape, 3, 1);
    }
}

/// Builds a world in which the writer puts data from memory, then submits. A reader that receives the message sees
/// the data.
pub(super) fn with_data(world: &mut World) {
    let shape = Shape::new(2, &[1]);
    let mut stage = Stage::new(world, 2, 1, shape.make());
    let sent = shape.clone();
    stage.run(0, 0, "writer", move |objects, thread| {
        let mut writer = take(&objects.writer);
        put_words(thread, &objects.data, 1, 0, &[4, 5]);
        submit(&mut writer, thread, &sent, Submit::Wait, 1, 1);
    });
    stage.run(1, 0, "reader", |objects, thread| {
        let mut reader = take(&objects.readers[0]);
        must(reader.receive(thread));
        assert_eq!(
            [here(&objects.data, 0), here(&objects.data, 8)],
            [4, 5],
            "what was put before the submit is seen after the receive"
        );
    });
}

/// Makes a world in which the writer submits and then broadcasts a flag. A reader that sees the flag does not find
/// the ring empty (`fb` of Def. 5.2).
pub(super) fn known(fenced: bool) -> impl Fn(&mut World) {
    move |world| {
        let shape = Shape::new(2, if fenced { &[1, 2] } else { &[1] });
        let mut stage = Stage::new(world, shape.nodes(), 1, shape.make());
        let sent = shape.clone();
        stage.run(0, 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            submit(&mut writer, thread, &sent, Submit::Wait, 1, 1);
            if fenced {
                must(loco::fence::thread(thread));
            }
            objects.flag.write(1);
            must(objects.flag.broadcast_to(thread, &[NodeId(1)])).forget();
        });
        stage.run(1, 0, "messenger", move |objects, thread| {
            must(objects.flag.wait_until(thread, |flag| flag == 1));
            let mut reader = take(&objects.readers[0]);
            let mut message = Vec::new();
            assert!(
                must(reader.try_receive(thread, &mut message)),
                "a submit that is known of"
            );
            if fenced {
                must(objects.flag.broadcast_to(thread, &[NodeId(2)])).forget();
            }
        });
        if fenced {
            stage.run(2, 0, "last", |objects, thread| {
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

/// Builds a world in which the writer submits, fences and looks at a word; the reader puts that word, fences and tries to receive.
/// One of the two notices the other.
pub(super) fn buffered(world: &mut World) {
    let shape = Shape::new(2, &[1]);
    let mut stage = Stage::new(world, 2, 1, shape.make());
    stage.run(0, 0, "writer", move |objects, thread| {
        let mut writer = take(&objects.writer);
        submit(&mut writer, thread, &shape, Submit::Wait, 1, 1);
        must(loco::fence::pair(thread, NodeId(1)));
        note(format!("writer {}", here(&objects.data, 0) == 1));
    });
    stage.run(1, 0, "reader", |objects, thread| {
        let mut reader = take(&objects.readers[0]);
        put_words(thread, &objects.data, 0, 0, &[1]);
        must(loco::fence::pair(thread, NodeId(0)));
        let mut message = Vec::new();
        let received = must(reader.try_receive(thread, &mut message));
        note(format!("reader {received}"));
    });
    stage.notes(|lines| {
        assert!(
            lines.iter().any(|line| line.ends_with("true")),
            "after the fences one of the nodes sees what the other did"
        );
    });
}

/// Builds a world with the reader on the writer's node. The writer submits and reads a flag; the reader sets the
/// flag, fences and tries to receive. One of the two notices the other.
pub(super) fn known_here(world: &mut World) {
    let shape = Shape {
        readers: vec![0],
        ..Shape::new(2, &[1])
    };
    let mut stage = Stage::new(world, 2, 2, shape.make());
    stage.run(0, 0, "writer", move |objects, thread| {
        let mut writer = take(&objects.writer);
        submit(&mut writer, thread, &shape, Submit::Wait, 1, 1);
        note(format!("writer {}", objects.flag.read() == 1));
    });
    stage.run(0, 1, "reader", |objects, thread| {
        let mut reader = take(&objects.readers[0]);
        objects.flag.write(1);
        must(loco::fence::towards(thread, &[]));
        let mut message = Vec::new();
        note(format!(
            "reader {}",
            must(reader.try_receive(thread, &mut message))
        ));
    });
    stage.notes(|lines| {
        assert!(
            lines.iter().any(|line| line.ends_with("true")),
            "a submit that is over is found"
        );
    });
}

/// Makes a world in which node 2 leaves, or is excluded, after one message. The writer goes on with node 1, which
/// gets all messages.
pub(super) fn without(excluded: bool) -> impl Fn(&mut World) {
    move |world| {
        let shape = Shape::new(1, &[1, 2]);
        let mut stage = Stage::new(world, 3, 1, shape.make());
        let sent = shape.clone();
        stage.run(0, 0, "writer", move |objects, thread| {
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
        stage.run(1, 0, "stays", move |objects, thread| {
            let mut reader = take(&objects.readers[0]);
            for number in 1..=3 {
                assert_eq!(must(reader.receive(thread)), received.message(number));
            }
        });
        if !excluded {
            stage.run(2, 0, "leaves", move |objects, thread| {
                let mut reader = take(&objects.readers[0]);
                assert_eq!(must(reader.receive(thread)), shape.message(1));
                did("RingReader::leave");
                must(reader.leave(thread));
            });
        }
    }
}
