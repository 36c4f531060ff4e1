//! The mixed-size write region (LOCO'26 G.6, Def. G.11). A read that succeeds returns a value that was written as a
//! whole. A put that is done and fenced is there. Locations do not touch one another.

use loco::fabric::NodeId;
use loco::{Manager, Msw, Result, SharedVar};
use loco_sim::World;

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, must};

struct Objects {
    region: Msw<Fabric>,
    flag: SharedVar<u64, Fabric>,
}

/// Returns a maker of regions with two locations of `size` and a neighbour.
fn make(size: usize) -> impl Fn(&Manager<Fabric>) -> Result<Objects> + Clone + Send {
    move |manager| {
        Ok(Objects {
            region: Msw::new(manager, "msw", &[size, size, 8])?,
            flag: SharedVar::new(manager, "flag")?,
        })
    }
}

fn value(size: usize, number: u8) -> Vec<u8> {
    (0..size)
        .map(|i| number.wrapping_mul(17).wrapping_add(i as u8))
        .collect()
}

/// Reads location 0 or 1. Checks that the value is one of the whole values of numbers up to `last`, or zeros.
fn read(objects: &Objects, location: usize, size: usize, last: u8) -> Option<u8> {
    // The bytes are neither zeros nor any value: a read that succeeds replaces all of them.
    let mut bytes = vec![0xA5; size];
    did("Msw::try_read");
    if !must(objects.region.try_read(location, &mut bytes)) {
        return None;
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return Some(0);
    }
    let number = (1..=last).find(|&number| value(size, number) == bytes);
    assert!(number.is_some(), "a value that nobody wrote: {bytes:?}");
    number
}

/// Makes a world in which node 0 writes and puts `values` values into location 0 of node 1, waiting for each put.
/// Node 1 reads.
fn sequence(size: usize, values: u8) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 1, make(size));
        stage.run(0, 0, "writer", move |objects, thread| {
            for number in 1..=values {
                did("Msw::write");
                must(objects.region.write(0, &value(size, number)));
                did("Msw::put");
                let key = must(objects.region.put(thread, 0, NodeId(1), 0));
                // The NIC may read the location until the put is done.
                must(key.wait(thread));
            }
            must(objects.region.write(2, &[1; 8]));
            objects.flag.write(1);
            must(objects.flag.broadcast(thread)).forget();
            assert_eq!(
                read(objects, 0, size, values),
                Some(values),
                "a node reads what it wrote"
            );
        });
        stage.run(1, 0, "reader", move |objects, thread| {
            let first = read(objects, 0, size, values).unwrap_or(0);
            let second = read(objects, 0, size, values).unwrap_or(first);
            assert!(second >= first, "{second} after {first}");
            must(objects.flag.wait_until(thread, |flag| flag == 1));
            assert_eq!(
                read(objects, 0, size, values),
                Some(values),
                "puts before the flag are there"
            );
            assert_eq!(
                read(objects, 1, size, values),
                Some(0),
                "nobody wrote this location"
            );
            let mut bytes = [7; 8];
            assert!(must(objects.region.try_read(2, &mut bytes)) && bytes == [0; 8]);
        });
    }
}

/// Makes a world in which a value goes to another location of node 1, and comes back from there.
fn across(size: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 1, make(size));
        stage.run(0, 0, "both", move |objects, thread| {
            must(objects.region.write(0, &value(size, 1)));
            must(must(objects.region.put(thread, 0, NodeId(1), 1)).wait(thread));
            must(must(objects.region.get(thread, 1, NodeId(1), 1)).wait(thread));
            assert_eq!(
                read(objects, 1, size, 1),
                Some(1),
                "what was put there comes back"
            );
            must(must(objects.region.get(thread, 1, NodeId(1), 0)).wait(thread));
            assert_eq!(read(objects, 1, size, 1), Some(0), "nobody wrote that location");
        });
        stage.run(1, 0, "reader", move |objects, thread| {
            let mut bytes = vec![0xA5; size];
            must(objects.region.read(thread, 1, &mut bytes));
            assert!(
                bytes == value(size, 1) || bytes.iter().all(|&byte| byte == 0),
                "whole: {bytes:?}"
            );
            assert_eq!(read(objects, 0, size, 1), Some(0), "nobody wrote this location");
        });
    }
}

/// Makes a world in which both nodes put into the same location of the other node and of node 2. A read returns one
/// of the two values.
fn two_writers(size: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 1, make(size));
        stage.each("writer", 0..2, move |objects, thread, me| {
            must(objects.region.write(1, &value(size, me as u8 + 1)));
            must(must(objects.region.put(thread, 1, NodeId(2), 0)).wait(thread));
        });
        stage.run(2, 0, "reader", move |objects, _| {
            let _ = read(objects, 0, size, 2);
            let _ = read(objects, 0, size, 2);
        });
    }
}

/// Makes a world in which node 1 gets location 0 of node 0, which node 0 writes twice.
fn gotten(size: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 1, make(size));
        stage.run(0, 0, "writer", move |objects, thread| {
            must(objects.region.write(0, &value(size, 1)));
            objects.flag.write(1);
            must(objects.flag.broadcast(thread)).forget();
            must(objects.region.write(0, &value(size, 2)));
        });
        stage.run(1, 0, "reader", move |objects, thread| {
            must(objects.flag.wait_until(thread, |flag| flag == 1));
            did("Msw::get");
            must(must(objects.region.get(thread, 1, NodeId(0), 0)).wait(thread));
            if let Some(number) = read(objects, 1, size, 2) {
                assert!(number >= 1, "written before the get");
            }
        });
    }
}

/// Makes a world in which a blocking read waits until the value is whole.
fn blocking(size: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 1, make(size));
        stage.run(0, 0, "writer", move |objects, thread| {
            must(objects.region.write(0, &value(size, 1)));
            must(objects.region.put(thread, 0, NodeId(1), 0)).forget();
        });
        stage.run(1, 0, "reader", move |objects, thread| {
            let mut bytes = vec![0xA5; size];
            did("Msw::read");
            must(objects.region.read(thread, 0, &mut bytes));
            assert!(
                bytes == value(size, 1) || bytes.iter().all(|&byte| byte == 0),
                "whole: {bytes:?}"
            );
        });
    }
}

/// Returns the worlds of the region.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("one-word", sequence(8, 1)),
        NamedWorld::new("two-words", sequence(16, 1)),
        NamedWorld::new("blocking", blocking(16)),
        NamedWorld::new("across", across(16)),
        NamedWorld::new("get", gotten(16)),
        NamedWorld::new("odd-size", sequence(13, 1)),
        NamedWorld::new("twice", sequence(16, 2)),
        NamedWorld::new("two-writers", two_writers(16)),
        NamedWorld::new("two-writers-odd", two_writers(20)),
        NamedWorld::new("get-three-words", gotten(24)),
    ]
}
