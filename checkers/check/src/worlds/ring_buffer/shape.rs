//! The ring of the worlds, its messages, and how the writer submits them.

use loco::fabric::{Lock, NodeId};
use loco::{
    Manager, Result, RingBuffer, RingConfig, RingReader, RingWriter, SharedRegion, SharedVar, Thread,
};
use loco_sim::{ModelMutex, call};

use crate::methods::did;
use crate::stage::{Fabric, must};

/// A handle that threads of a node use in turn. The mutex is the model's, so that the explorer sees which thread used
/// it.
pub(super) type Handle<T> = ModelMutex<Option<T>>;

pub(super) struct Objects {
    /// The ring that the handles come from, kept as long as they are.
    pub(super) _ring: RingBuffer<Fabric>,
    pub(super) writer: Handle<RingWriter<Fabric>>,
    pub(super) readers: Vec<Handle<RingReader<Fabric>>>,
    pub(super) baton: SharedVar<u64, Fabric>,
    pub(super) data: SharedRegion<Fabric>,
    pub(super) flag: SharedVar<u64, Fabric>,
}

/// A ring of `capacity` bytes with a reader on each of `readers`, written by node 0.
#[derive(Clone)]
pub(super) struct Shape {
    pub(super) capacity: usize,
    pub(super) readers: Vec<u16>,
    pub(super) inline: bool,
    /// The longest message that is gathered.
    pub(super) gather_bytes_max: usize,
    /// Lengths of the messages, in turn.
    pub(super) lengths: Vec<usize>,
}

impl Shape {
    pub(super) fn new(records: usize, readers: &[u16]) -> Shape {
        Shape {
            capacity: records * RingConfig::record_bytes(8),
            readers: readers.to_vec(),
            inline: true,
            gather_bytes_max: 1024,
            lengths: vec![8],
        }
    }

    pub(super) fn lengths(self, lengths: &[usize]) -> Shape {
        let lengths = lengths.to_vec();
        Shape { lengths, ..self }
    }

    pub(super) fn capacity(self, capacity: usize) -> Shape {
        Shape { capacity, ..self }
    }

    pub(super) fn without_inline(self) -> Shape {
        Shape {
            inline: false,
            ..self
        }
    }

    /// Sets the length above which messages are put from where they lie.
    pub(super) fn gather_bytes_max(self, gather_bytes_max: usize) -> Shape {
        Shape {
            gather_bytes_max,
            ..self
        }
    }

    pub(super) fn nodes(&self) -> u16 {
        self.readers.iter().max().map_or(1, |&last| last + 1)
    }

    /// Returns message `number`, from 1. Its first byte is the number, if it has one.
    pub(super) fn message(&self, number: u64) -> Vec<u8> {
        let len = self.lengths[(number - 1) as usize % self.lengths.len()];
        (0..len).map(|i| number as u8 + 16 * (i % 15) as u8).collect()
    }

    pub(super) fn make(&self) -> impl Fn(&Manager<Fabric>) -> Result<Objects> + Clone + Send + use<> {
        let shape = self.clone();
        move |manager| {
            let config = RingConfig::new(shape.capacity)
                .readers(shape.readers.iter().map(|&node| NodeId(node)))
                .inline(shape.inline)
                .gather_bytes_max(shape.gather_bytes_max);
            let ring = RingBuffer::with_config(manager, "ring", NodeId(0), &config)?;
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
pub(super) fn take<T: Send + 'static>(place: &Handle<T>) -> T {
    let taken = place.lock().take();
    match taken {
        Some(handle) => handle,
        None => panic!("this node has no such handle, or it was taken"),
    }
}

/// The way in which the writer submits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Submit {
    Wait,
    Try,
    Batch,
    TryBatch,
}

pub(super) fn submit(
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
