//! Participants are given in one way for all objects, and what is refused at the door.

use loco::prelude::*;
use loco::testing;

#[test]
fn thread_counts_that_differ_are_noticed() {
    let errors = testing::run(2, |fabric| {
        let manager = Manager::new(fabric)?;
        let threads = 1 + usize::from(manager.node().0);
        let barrier = Barrier::with_threads(&manager, "line", threads)?;
        Ok(barrier
            .channel()
            .wait_for_ready()
            .map_err(|error| error.to_string()))
    });
    for error in errors {
        let error = error.expect_err("1 thread and 2");
        assert!(
            error.contains("1 threads a node") && error.contains("2 threads a node"),
            "{error}"
        );
    }
}

#[test]
fn sizes_beyond_all_addresses_are_refused() {
    testing::run(1, |fabric| {
        let manager = Manager::new(fabric)?;
        let home = manager.node();
        for items in [usize::MAX, 1 << 61, (1 << 61) + 1] {
            let array = AtomicArray::<u64>::new(&manager, "array", items).map(drop);
            let queue = SharedQueue::<[u64; 3]>::new(&manager, "queue", home, items).map(drop);
            for outcome in [array, queue] {
                let error = outcome.expect_err("more than there is");
                assert!(matches!(error, Error::TooLarge { .. }), "{error}");
            }
        }
        Ok(())
    });
}

#[test]
fn every_object_takes_the_participants_of_its_parent() {
    testing::run(3, |fabric| {
        let manager = Manager::new(fabric)?;
        let pair = manager.among([NodeId(0), NodeId(2)]);
        if manager.node() == NodeId(1) {
            let outside = Barrier::new(&pair, "bar").map(drop).expect_err("not among them");
            assert!(matches!(outside, Error::NotParticipant { .. }), "{outside}");
            return Ok(());
        }
        let barrier = Barrier::new(&pair, "bar")?;
        let table = Sst::<u64>::new(&pair, "table")?;
        let ring = RingBuffer::new(&pair, "ring", NodeId(0), 64)?;
        let lock = TicketLock::new(&pair, "lock", NodeId(2))?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        assert_eq!(table.participants().nodes(), [NodeId(0), NodeId(2)]);
        if manager.node() == NodeId(0) {
            ring.writer()?.submit(&thread, b"news")?;
        } else {
            assert_eq!(ring.reader()?.receive(&thread)?, b"news");
        }
        lock.lock(&thread, Scope::Thread)?.release()?;
        barrier.wait(&thread)
    });
}

/// A key that has no hash of its own, and a value that derives its traits through `loco`.
#[test]
fn types_of_keys_and_values_need_nothing_else() {
    use loco::zerocopy::{FromBytes, Immutable, IntoBytes};

    #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
    #[zerocopy(crate = "loco::zerocopy")]
    #[repr(C)]
    struct Place {
        row: u32,
        column: u32,
    }

    testing::run(1, |fabric| {
        let manager = Manager::new(fabric)?;
        let store = KvStore::<Place, Place>::new(&manager, "store", KvConfig::default())?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let (here, there) = (Place { row: 1, column: 2 }, Place { row: 2, column: 1 });
        assert_eq!(store.insert(&thread, &here, &there)?, Inserted::Done);
        assert_eq!(store.get(&thread, &here)?, Some(there));
        assert_eq!(store.get(&thread, &there)?, None);
        Ok(())
    });
}
