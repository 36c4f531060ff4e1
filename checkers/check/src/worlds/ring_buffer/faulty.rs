//! Worlds in which waits are late and nodes are lost.

use loco::Result;
use loco::fabric::{Lock, NodeId};
use loco::raw::{Flags, Operation};
use loco_sim::World;

use super::shape::{Shape, take};
use crate::stage::{Stage, here, is_loss, must, unless_excused, unless_lost, until_in_time};

/// Builds a world in which the writer submits one message and waits until it is read. A reader that has read it says
/// so, and may then be lost. Only the loss of a reader that has not read it fails the wait.
pub(super) fn read_and_lost(world: &mut World) {
    let shape = Shape::new(1, &[1, 2]);
    let mut stage = Stage::new(world, 3, 1, shape.make());
    let sent = shape.message(1);
    stage.run(0, 0, "writer", move |objects, thread| {
        let mut writer = take(&objects.writer);
        while let Err(error) = writer.submit(thread, &sent) {
            assert!(is_loss(&error), "{error}");
            match error.lost_peer() {
                Some(node) => writer.exclude(node),
                None => return,
            }
        }
        unless_excused(until_in_time(|| writer.wait_until_read(thread)), |node| {
            let said = here(&objects.data, 8 * usize::from(node.0));
            assert_eq!(said, 0, "it has read everything, so its loss is no matter");
        });
    });
    stage.each("reader", [1, 2], move |objects, thread, node| {
        let mut reader = take(&objects.readers[0]);
        unless_lost(until_in_time(|| reader.receive(thread)))?;
        // In strong order, so that who sees it sees the acknowledgement.
        let say = || -> Result<()> {
            let place = objects.data.target(NodeId(0), 8 * usize::from(node))?;
            let put = Operation::PutInline(&1_u64.to_ne_bytes(), place);
            thread.raw().post(&put, Flags::STRONG)?.forget();
            Ok(())
        };
        unless_lost(say())
    });
}

/// Makes a world in which writer and reader are used by two threads each, in turn. Any wait may be late, and is then
/// repeated.
pub(super) fn late(shape: Shape, count: u64) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 4, shape.make());
        let sent = shape.clone();
        stage.in_turn(
            0,
            0..2,
            "writer",
            |o| &o.baton,
            count,
            move |objects, thread, number| {
                let mut writer = take(&objects.writer);
                let message = sent.message(number);
                must(until_in_time(|| writer.submit(thread, &message)));
                *objects.writer.lock() = Some(writer);
            },
        );
        let received = shape.clone();
        stage.in_turn(
            1,
            0..2,
            "reader",
            |o| &o.baton,
            count,
            move |objects, thread, number| {
                let mut reader = take(&objects.readers[0]);
                let message = must(until_in_time(|| reader.receive(thread)));
                assert_eq!(
                    message,
                    received.message(number),
                    "message {number}, whole and in order"
                );
                *objects.readers[0].lock() = Some(reader);
            },
        );
    }
}

/// Makes a world in which the writer submits `count` messages and the readers receive them in order. A wait may be
/// late, and is then repeated. A node may be lost: the writer goes on without lost readers, and readers without their
/// writer stop.
pub(super) fn faulty(shape: Shape, count: u64) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, shape.nodes(), 1, shape.make());
        let sent = shape.clone();
        stage.run(0, 0, "writer", move |objects, thread| {
            let mut writer = take(&objects.writer);
            for number in 1..=count {
                let message = sent.message(number);
                // While there is no room nothing is submitted, so a late wait for room may be repeated.
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
            stage.run(node, 0, &format!("reader {index}"), move |objects, thread| {
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
            });
        }
    }
}
