//! Sizes, lengths and numbers near the ends of their ranges: each is taken, or refused by an error that names it. None
//! panics, overflows or ends the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::common::net::{
    AtomicArray, Barrier, Channel, KvStore, Manager, Msw, RingBuffer, SharedQueue, SharedRegion, TasLock,
    TicketLock,
};
use crate::common::{ALL, Net};
use loco::fabric::NodeId;
use loco::{Bytes, Config, ErrorKind, KvConfig, LockConfig, Result, RingConfig};

/// The sizes that are tried everywhere.
const SIZES: [usize; 15] = [
    0,
    1,
    7,
    8,
    1 << 16,
    1 << 40,
    (1 << 62) - 1,
    1 << 62,
    isize::MAX as usize - 7,
    isize::MAX as usize,
    1 << 63,
    usize::MAX / 8 * 8 - 64,
    usize::MAX - 8,
    usize::MAX - 7,
    usize::MAX,
];

/// Makes `what` of each size. Sizes beyond all memory must be refused, with an error that has `named` in it.
fn each(what: &str, named: &str, make: impl Fn(usize, &str) -> Result<()>) {
    for (number, &size) in SIZES.iter().enumerate() {
        let name = format!("o{number}");
        let made = catch_unwind(AssertUnwindSafe(|| make(size, &name)));
        let Ok(made) = made else {
            panic!("{what} of {size}: it panicked");
        };
        let Err(error) = made else {
            assert!(size < 1 << 40, "{what} of {size} was made");
            continue;
        };
        let kind = error.kind();
        assert!(
            matches!(kind, ErrorKind::Usage | ErrorKind::Exhausted),
            "{what} of {size}: {kind:?}: {error}"
        );
        let message = error.to_string();
        assert!(
            kind == ErrorKind::Exhausted || message.contains(named) || message.contains(&name),
            "{what} of {size}: the error does not name it: {message}"
        );
    }
}

#[test]
fn every_size_is_taken_or_refused_by_name() {
    for cluster in ALL {
        cluster.run(1, |manager| {
            let (manager, home) = (&manager, manager.node());
            each("a region", "region", |size, name| {
                SharedRegion::new(manager, name, size).map(drop)
            });
            for offered in [true, false] {
                each("a declared region", "region", |size, name| {
                    let builder = Channel::<Net>::builder(manager, name);
                    match offered {
                        true => builder.offers("r", size),
                        false => builder.region("r", size),
                    }
                    .join()
                    .map(drop)
                });
            }
            each("a location", "location", |size, name| {
                Msw::new(manager, name, &[size]).map(drop)
            });
            each("the second location", "location", |size, name| {
                Msw::new(manager, name, &[size, 8, size, size, size]).map(drop)
            });
            each("a ring", "ring", |size, name| {
                RingBuffer::new(manager, name, home, size).map(drop)
            });
            each("a queue", "queue", |size, name| {
                SharedQueue::<u64>::new(manager, name, home, size).map(drop)
            });
            each("a queue of large values", "queue", |size, name| {
                SharedQueue::<[u64; 1 << 20]>::new(manager, name, home, size).map(drop)
            });
            each("an array", "array", |size, name| {
                AtomicArray::<u64>::new(manager, name, size).map(drop)
            });
            let store = |name: &str, config| KvStore::<Bytes, Bytes>::new(manager, name, config).map(drop);
            let small = KvConfig::default().slots_per_node(4).locks(1);
            each("a store's values", "value", |size, name| {
                store(name, small.clone().value_bytes_max(size))
            });
            each("a store's keys", "key", |size, name| {
                store(name, small.clone().key_bytes_max(size))
            });
            each("a store's tracker", "tracker", |size, name| {
                store(name, small.clone().tracker_bytes(size))
            });
            let thread = manager.thread()?;
            each("a buffer", "bytes", |size, _| thread.mem_ref(size).map(drop));
            Ok(())
        });
    }
}

#[test]
fn numbers_that_are_no_sizes_have_no_limit_or_a_named_one() {
    ALL.into_iter().for_each(|cluster| {
        cluster.run(1, |manager| {
            let home = manager.node();
            let store = |config| KvStore::<u64, u64>::new(&manager, "kv", config).map(drop);
            for number in [0, 1 << 31, u32::MAX] {
                for config in [
                    KvConfig::default().locks(number),
                    KvConfig::default()
                        .locks(1)
                        .slots_per_node(number)
                        .value_bytes_max(1 << 40),
                ] {
                    let error = store(config).expect_err("too many or none");
                    assert!(error.to_string().contains("kv"), "{error}");
                }
            }
            // Every number of threads and hand-overs is possible.
            Barrier::with_threads(&manager, "bar", usize::MAX)?;
            let config = LockConfig::default().local_hand_overs_max(u32::MAX);
            let ticket = TicketLock::with_config(&manager, "ticket", home, config)?;
            let tas = TasLock::with_config(&manager, "tas", home, config)?;
            let ring = RingConfig::new(64)
                .acknowledge_every_bytes(usize::MAX)
                .gather_bytes_max(usize::MAX);
            let ring = RingBuffer::with_config(&manager, "ring", home, &ring.readers([home]))?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            ticket.lock(&thread, loco::fence::Scope::Thread)?.release()?;
            tas.lock(&thread, loco::fence::Scope::Thread)?.release()?;
            let (mut writer, mut reader) = (ring.writer()?, ring.reader()?);
            writer.submit(&thread, b"news")?;
            assert_eq!(reader.receive(&thread)?, b"news");
            // A message, an index and an offset beyond everything.
            let array = AtomicArray::<u64>::new(&manager, "array", 3)?;
            let region = SharedRegion::new(&manager, "region", 64)?;
            manager.wait_for_ready()?;
            for &huge in SIZES.iter().filter(|&&size| size > 64) {
                assert_eq!(
                    array.read(&thread, huge).expect_err("no such index").kind(),
                    ErrorKind::Usage
                );
                let target = region.target(home, huge);
                let put = target.and_then(|target| thread.put_inline(&[0; 8], target).map(drop));
                assert_eq!(put.expect_err("no such place").kind(), ErrorKind::Usage);
                let mut word = [0; 8];
                assert!(region.read(huge, &mut word).is_err() && region.write(huge, &word).is_err());
                let read = thread.mem_ref(8)?.read(huge, &mut word);
                assert_eq!(read.expect_err("no such place").kind(), ErrorKind::Usage);
            }
            assert!(RingConfig::record_bytes(usize::MAX) > isize::MAX as usize);
            Ok(())
        });
    });
}

#[test]
fn settings_of_a_node_are_taken_or_refused_by_name() {
    let multiples = SIZES.map(|size| size / 64 * 64);
    for block_bytes in SIZES.into_iter().chain(multiples) {
        let mesh = loco::fabric::Mesh::in_process(1).unwrap().remove(0);
        let fabric = loco::fabric::ShmFabric::new(mesh, loco::fabric::ShmConfig::default()).unwrap();
        let config = Config::default().block_bytes(block_bytes).deadline(Duration::MAX);
        match Manager::with_config(fabric, config) {
            Ok(manager) => {
                let thread = manager.thread().unwrap();
                match thread.mem_ref(1) {
                    Ok(_) => assert!(block_bytes < 1 << 40),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}"),
                }
                assert_eq!(manager.nodes(), [NodeId(0)]);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
                assert!(error.to_string().contains("block_bytes"), "{error}");
            }
        }
    }
}
