//! The ring buffer (LOCO'26 Def. 5.2). Each reader receives every message whole, once, in the order of the submits. A
//! receive that finds nothing is not after a submit that it knows of. What the writer put before a submit is seen
//! after the message's receive. A submit that finds no room changes nothing. Records of every size may straddle the
//! end.

mod faulty;
mod shape;
mod streams;

use crate::named_world::NamedWorld;

use faulty::{faulty, late, read_and_lost};
use shape::{Shape, Submit};
use streams::{attempts, batch, buffered, known, known_here, overwritten, stream, with_data, without};

/// Returns the worlds of the ring buffer.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    let mixed = || Shape::new(2, &[1]).capacity(40).lengths(&[11, 17, 8, 0]);
    let odd_room = || Shape::new(1, &[1]).capacity(24).lengths(&[8, 0, 3]);
    let longest = || Shape::new(1, &[1]).capacity(24).lengths(&[16, 0, 15]);
    vec![
        NamedWorld::new("stream", stream(Shape::new(2, &[1]), 2, 1)),
        NamedWorld::new("attempts", attempts(Shape::new(1, &[1]), 2)),
        NamedWorld::new("with-data", with_data),
        NamedWorld::new("known", known(false)),
        NamedWorld::new("buffered", buffered),
        NamedWorld::new("wrap", stream(Shape::new(2, &[1]), 3, 1)),
        NamedWorld::new("straddle", stream(mixed(), 3, 1)),
        NamedWorld::new("memory", stream(Shape::new(2, &[1]).without_inline(), 3, 1)),
        NamedWorld::new("straddle-memory", stream(mixed().without_inline(), 4, 1)),
        NamedWorld::new(
            "long",
            stream(mixed().lengths(&[11, 25, 8]).gather_bytes_max(3), 3, 1),
        ),
        NamedWorld::new(
            "long-memory",
            stream(mixed().gather_bytes_max(3).without_inline(), 3, 1),
        ),
        NamedWorld::new("expiry", faulty(Shape::new(1, &[1]), 2)).expiries(1),
        NamedWorld::new("link-cut", faulty(Shape::new(1, &[1]), 2)).link_cut(1),
        NamedWorld::new("crash", faulty(Shape::new(1, &[1]), 2)).crash(),
        NamedWorld::new("crash-of-three", faulty(Shape::new(1, &[1, 2]), 2)).crash(),
        NamedWorld::new("suspicion", faulty(Shape::new(1, &[1]), 2)).suspicion(),
        NamedWorld::new("known-here", known_here),
        NamedWorld::new("read-and-lost", read_and_lost).crash(),
        NamedWorld::new("two-threads-expiry", late(Shape::new(1, &[1]), 3)).expiries(1),
        NamedWorld::new(
            "two-threads-memory-expiry",
            late(Shape::new(1, &[1]).without_inline(), 3),
        )
        .expiries(1),
        NamedWorld::new(
            "two-threads-memory",
            stream(Shape::new(1, &[1]).without_inline(), 3, 2),
        ),
        NamedWorld::new("two-threads", stream(Shape::new(2, &[1]), 3, 2)),
        NamedWorld::new("batch", batch(Shape::new(8, &[1]), 3, Submit::Batch)),
        NamedWorld::new(
            "try-batch",
            batch(Shape::new(4, &[1]).lengths(&[3, 8]), 3, Submit::TryBatch),
        ),
        NamedWorld::new(
            "long-in-a-batch",
            batch(
                Shape::new(4, &[1]).lengths(&[3, 8]).gather_bytes_max(3),
                3,
                Submit::TryBatch,
            ),
        ),
        // A record and a half, and records as long as the ring.
        NamedWorld::new("odd-room", stream(odd_room(), 4, 1)),
        NamedWorld::new("odd-room-memory", stream(odd_room().without_inline(), 4, 1)),
        NamedWorld::new("odd-room-batch", batch(odd_room(), 3, Submit::TryBatch)),
        // Room for one of two messages, which are less than a quarter of the ring.
        NamedWorld::new(
            "little-room-batch",
            batch(Shape::new(8, &[1]).lengths(&[96, 8, 8]), 3, Submit::Batch),
        ),
        NamedWorld::new("longest", stream(longest(), 3, 1)),
        NamedWorld::new("longest-memory", stream(longest().without_inline(), 3, 1)),
        NamedWorld::new("longest-batch", batch(longest(), 3, Submit::Batch)),
        NamedWorld::new("two-readers-expiry", faulty(Shape::new(1, &[1, 2]), 2)).expiries(1),
        super::last_nodes::ring_buffer(),
        NamedWorld::new("overwritten", overwritten(Shape::new(1, &[1]))),
        NamedWorld::new("local-reader", stream(Shape::new(2, &[0]), 3, 1)),
        NamedWorld::new(
            "long-local",
            stream(Shape::new(2, &[0]).gather_bytes_max(0), 3, 1),
        ),
        NamedWorld::new("local-and-remote", stream(Shape::new(1, &[0, 1]), 2, 1)),
        NamedWorld::new("two-readers-one-node", stream(Shape::new(1, &[1, 1]), 2, 1)),
        NamedWorld::new("two-readers", stream(Shape::new(1, &[1, 2]), 2, 1)),
        NamedWorld::new("known-fenced", known(true)),
        NamedWorld::new("leave", without(false)),
        NamedWorld::new("exclude", without(true)),
        NamedWorld::new("attempts-thrice", attempts(Shape::new(2, &[1]), 4)),
        NamedWorld::new(
            "straddle-large",
            stream(Shape::new(2, &[1]).capacity(64).lengths(&[40, 20, 33]), 4, 1),
        ),
    ]
}
