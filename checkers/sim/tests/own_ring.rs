//! Checks a ring buffer whose writer reads its own ring (LOCO'26 Def. 5.2, where `so` contains `rf` and
//! `fb`). A submit that its own thread has received must have happened for everybody else too. LOCO'26 Fig.
//! 14 does not give that: the writer can take the head from its own store buffer.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use loco::fabric::{AtomicCell, Fabric, NodeId, Platform};
use loco::{Manager, Result, RingBuffer, RingConfig, RingReader, RingWriter, Thread};
use loco_sim::{Completeness, Config, ModelFabric, World, explore, note};

type Word = <<ModelFabric as Fabric>::Platform as Platform>::AtomicU64;
type Reader = (RingReader<ModelFabric>, Thread<ModelFabric>);

/// A node with a ring that both of its threads read, and a word.
struct Site {
    writer: Mutex<Option<RingWriter<ModelFabric>>>,
    readers: Mutex<Vec<Reader>>,
    word: Word,
    _ring: RingBuffer<ModelFabric>,
}

impl Site {
    fn new(fabric: ModelFabric) -> Result<Site> {
        let here = fabric.node();
        let manager = Manager::new(fabric)?;
        let config = RingConfig::new(32).readers([NodeId(0), NodeId(0)]);
        let ring = RingBuffer::with_config(&manager, "ring", here, &config)?;
        manager.wait_for_ready()?;
        let readers = (0..2).map(|_| Ok((ring.reader()?, manager.thread()?)));
        Ok(Site {
            writer: Mutex::new(Some(ring.writer()?)),
            readers: Mutex::new(readers.collect::<Result<_>>()?),
            word: AtomicCell::<u64>::new(0),
            _ring: ring,
        })
    }

    fn reader(&self) -> Reader {
        self.readers.lock().unwrap().pop().unwrap()
    }
}

/// Adds the smallest client that shows the difference. One thread submits a message, receives it, and reads a
/// word as 0. The other thread changes the word from 0, and receives nothing.
fn client(world: &mut World) {
    let node = world.node(|fabric| Site::new(fabric).unwrap());
    world.thread(&node, "writer", |site: &Site| {
        let (mut reader, thread) = site.reader();
        let mut writer = site.writer.lock().unwrap().take().unwrap();
        let mut message = Vec::new();
        assert!(writer.try_submit(&thread, &[1; 8]).unwrap());
        assert!(reader.try_receive(&thread, &mut message).unwrap(), "its own");
        if AtomicCell::<u64>::load(&site.word) == 0 {
            note("before the change");
        }
    });
    world.thread(&node, "other", |site: &Site| {
        let (mut reader, thread) = site.reader();
        let mut message = Vec::new();
        assert_eq!(AtomicCell::<u64>::compare_exchange(&site.word, 0, 1), Ok(0));
        if !reader.try_receive(&thread, &mut message).unwrap() {
            note("nothing received");
        }
    });
    world.finally(|end| {
        let notes = end.notes();
        assert!(
            notes.len() < 2,
            "submitted before the change, not received after it"
        );
    });
}

#[test]
fn what_the_writer_has_received_is_submitted_for_all() {
    let report = explore(&Config::default(), client).unwrap();
    if let Some(failure) = report.failure {
        panic!("{failure}");
    }
    assert_eq!(report.completeness, Completeness::Complete);
}
