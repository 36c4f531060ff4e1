//! Shared regions and temporary registered memory. An operation that has completed has taken effect as documented,
//! its buffer comes back with the result, and operations of one thread towards one node keep their order where they ask.

use loco::fabric::NodeId;
use loco::raw::Flags;
use loco::{Manager, Result, SharedRegion, SharedVar, fence};
use loco_sim::{World, note};

use super::awaiting;
use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, here, must, put_word, put_words, until_in_time};

struct Objects {
    data: SharedRegion<Fabric>,
    flag: SharedVar<u64, Fabric>,
}

fn make(manager: &Manager<Fabric>) -> Result<Objects> {
    Ok(Objects {
        data: SharedRegion::new(manager, "data", 64)?,
        flag: SharedVar::new(manager, "flag")?,
    })
}

/// Builds a world with data of three words, then a flag, along one queue pair.
fn message(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "writer", |objects, thread| {
        did("MemRef::put");
        put_words(thread, &objects.data, 1, 8, &[1, 2, 3]);
        objects.flag.write(1);
        must(objects.flag.broadcast(thread)).forget();
    });
    stage.run(1, 0, "reader", |objects, thread| {
        must(objects.flag.wait_until(thread, |flag| flag == 1));
        did("SharedRegion::read");
        let mut bytes = [0; 24];
        must(objects.data.read(8, &mut bytes));
        let words: Vec<u64> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&word| u64::from_ne_bytes(word))
            .collect();
        assert_eq!(
            words,
            [1, 2, 3],
            "a strong put is placed after the others of its thread"
        );
    });
}

/// Builds a world in which a buffer that comes back is written again. The earlier put keeps the former content.
fn buffer_again(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "writer", |objects, thread| {
        let buffer = must(thread.mem_ref(8));
        must(buffer.set_word(0, 1));
        let buffer = must(must(buffer.put(must(objects.data.target(NodeId(1), 0)))).wait());
        must(buffer.set_word(0, 2));
        let _buffer = must(must(buffer.put(must(objects.data.target(NodeId(1), 8)))).wait());
        let other = must(thread.mem_ref(8));
        must(other.set_word(0, 3));
        drop(must(other.put(must(objects.data.target(NodeId(1), 16)))));
        let third = must(thread.mem_ref(8));
        must(third.set_word(0, 4));
        drop(must(third.put(must(objects.data.target(NodeId(1), 24)))));
        objects.flag.write(1);
        must(objects.flag.broadcast(thread)).forget();
    });
    stage.run(1, 0, "reader", |objects, thread| {
        must(objects.flag.wait_until(thread, |flag| flag == 1));
        let words = [0, 8, 16, 24].map(|offset| here(&objects.data, offset));
        assert_eq!(words, [1, 2, 3, 4], "a put sends what its buffer held");
    });
}

/// Builds a world in which buffers are used again while waits for them may be late. Each put sends what its buffer
/// held when it was posted.
fn buffer_late(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "writer", |objects, thread| {
        for number in 1..=3_u64 {
            let buffer = must(thread.mem_ref(8));
            must(buffer.set_word(0, number));
            let target = must(objects.data.target(NodeId(1), 8 * number as usize));
            match must(buffer.put(target)).wait() {
                Err(error) if error.is_timeout() => {}
                waited => drop(must(waited)),
            }
        }
        objects.flag.write(1);
        must(objects.flag.broadcast(thread)).forget();
    });
    stage.run(1, 0, "reader", |objects, thread| {
        must(until_in_time(|| {
            objects.flag.wait_until(thread, |flag| flag == 1)
        }));
        let words = [8, 16, 24].map(|offset| here(&objects.data, offset));
        assert_eq!(words, [1, 2, 3], "a put sends what its buffer held");
    });
}

/// Builds a world of puts from the region's own memory to both other nodes, their keys united. When the key is done
/// the memory may be written, and nobody receives the new content.
fn united(world: &mut World) {
    let mut stage = Stage::new(world, 3, 1, make);
    stage.run(0, 0, "writer", |objects, thread| {
        must(objects.data.write(0, &1_u64.to_ne_bytes()));
        must(objects.data.write(8, &1_u64.to_ne_bytes()));
        let mut all = loco::AckKey::done();
        for (peer, offset) in [(1, 0), (2, 0), (2, 8), (1, 8)] {
            let local = loco::fabric::Local {
                memory: must(objects.data.local()),
                offset,
                len: 8,
            };
            all.unite(must(objects.data.raw_put(thread, local, NodeId(peer), offset)));
        }
        must(all.wait(thread));
        assert!(all.query(), "a key that was waited for is done");
        must(objects.data.write(0, &2_u64.to_ne_bytes()));
        must(objects.data.write(8, &2_u64.to_ne_bytes()));
    });
    stage.each("reader", [1, 2], |objects, _, _| {
        let words = [0, 8].map(|offset| here(&objects.data, offset));
        assert!(words.iter().all(|&word| word < 2), "put before: {words:?}");
    });
}

/// Builds a world in which a completed get has brought the data, which is not older than a put before it, as the get asked.
fn get_after_put(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "both", |objects, thread| {
        put_word(thread, &objects.data, 1, 0, 7);
        did("MemRef::get");
        let buffer = must(thread.mem_ref(16));
        let target = must(objects.data.target(NodeId(1), 0));
        let buffer = must(must(buffer.get_with(target, Flags::STRONG)).wait());
        assert_eq!(
            [must(buffer.word(0)), must(buffer.word(8))],
            [7, 0],
            "a strong get sees the puts before it on its queue pair"
        );
    });
}

/// Builds a world in which read-modify-writes are atomic against one another, and return the old value.
fn atomics(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.each("node", 0..2, |objects, thread, _| {
        let target = || must(objects.data.target(NodeId(1), 0));
        did("MemRef::fetch_add");
        let buffer = must(thread.mem_ref(8));
        let buffer = must(must(buffer.fetch_add(target(), 1)).wait());
        note(format!("old {}", must(buffer.word(0))));
        did("MemRef::compare_swap");
        let buffer = must(must(buffer.compare_swap(target(), 2, 10)).wait());
        note(format!("swapped {}", must(buffer.word(0)) == 2));
    });
    stage.notes(|lines| {
        let of = |line: &str| lines.iter().filter(|&l| l == line).count();
        assert_eq!(
            (of("old 0"), of("old 1"), of("swapped true")),
            (1, 1, 1),
            "each addition counts once, one exchange succeeds: {lines:?}"
        );
    });
}

/// Builds a world in which the other node gets what this node writes with its CPU.
fn get_written(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "writer", |objects, thread| {
        did("SharedRegion::write");
        must(objects.data.write(0, &[9; 16]));
        objects.flag.write(1);
        must(objects.flag.broadcast(thread)).forget();
    });
    stage.run(1, 0, "reader", |objects, thread| {
        must(objects.flag.wait_until(thread, |flag| flag == 1));
        let buffer = must(thread.mem_ref(16));
        let buffer = must(must(buffer.get(must(objects.data.target(NodeId(0), 0)))).wait());
        let word = u64::from_ne_bytes([9; 8]);
        assert_eq!([must(buffer.word(0)), must(buffer.word(8))], [word, word]);
    });
}

/// Builds a world of puts from a region's own memory, and gets into it.
fn of_the_region(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "both", |objects, thread| {
        must(objects.data.write(0, &7_u64.to_ne_bytes()));
        let local = |offset| loco::fabric::Local {
            memory: must(objects.data.local()),
            offset,
            len: 8,
        };
        did("SharedRegion::raw_put");
        must(must(objects.data.raw_put(thread, local(0), NodeId(1), 32)).wait(thread));
        must(fence::pair(thread, NodeId(1)));
        did("SharedRegion::raw_get");
        must(must(objects.data.raw_get(thread, local(40), NodeId(1), 32)).wait(thread));
        assert_eq!(
            here(&objects.data, 40),
            7,
            "what was put there is what is got from there"
        );
    });
}

/// Builds a world in which a thread of node 0 awaits a put, then a get.
fn awaited(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "awaits", |objects, thread| {
        put_word(thread, &objects.data, 1, 0, 7);
        let buffer = must(thread.mem_ref(8));
        let get = must(buffer.get_with(must(objects.data.target(NodeId(1), 0)), Flags::STRONG));
        must(awaiting::until_done(thread, get.key()));
        let buffer = must(get.wait());
        assert_eq!(
            must(buffer.word(0)),
            7,
            "a get that was awaited has brought the data"
        );
    });
}

/// Builds a world in which two threads of a node await puts at the same time.
fn awaited_together(world: &mut World) {
    let mut stage = Stage::new(world, 2, 2, make);
    for own in 0..2 {
        stage.run(0, own, &format!("awaits {own}"), move |objects, thread| {
            let put = || {
                let target = must(objects.data.target(NodeId(1), 8 * own));
                must(thread.put_inline(&1_u64.to_ne_bytes(), target))
            };
            must(awaiting::until_done(thread, put()));
        });
    }
}

/// Builds a world in which a thread gives up awaiting a put, and then another one while it awaits a third.
fn abandoned(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "awaits", |objects, thread| {
        let put = |value: u64| {
            let target = must(objects.data.target(NodeId(1), 8 * value as usize));
            must(thread.put_inline(&value.to_ne_bytes(), target))
        };
        must(awaiting::once(put(1)));
        let other = put(2);
        must(awaiting::until_done_beside(thread, put(3), other));
        must(fence::pair(thread, NodeId(1)));
        objects.flag.write(1);
        must(objects.flag.broadcast(thread)).forget();
    });
    stage.run(1, 0, "reader", |objects, thread| {
        must(objects.flag.wait_until(thread, |flag| flag == 1));
        let words = [8, 16, 24].map(|offset| here(&objects.data, offset));
        assert_eq!(words, [1, 2, 3], "a put that nobody awaits any more goes on");
    });
}

/// Returns the worlds of regions.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("message", message),
        NamedWorld::new("get-after-put", get_after_put),
        NamedWorld::new("atomics", atomics),
        NamedWorld::new("get-written", get_written),
        NamedWorld::new("buffer-again", buffer_again),
        NamedWorld::new("of-the-region", of_the_region),
        NamedWorld::new("united", united),
        NamedWorld::new("awaited", awaited),
        NamedWorld::new("abandoned", abandoned),
        NamedWorld::new("buffer-late", buffer_late).expiries(2),
        NamedWorld::new("awaited-together", awaited_together),
    ]
}
