//! The ring buffer (LOCO'26 5, LOCO'25 5.1.2): a queue from one writer to readers on any nodes. Each reader gets every
//! message, whole and in order.
//!
//! Every participant has one copy of the ring, which all readers of the node share. Positions count bytes
//! since the beginning. A record is a *header*, which is a word that tells the message's length, the message,
//! and zeros up to a whole word. It may wrap round the end of the ring. The writer puts everything but the
//! header, with a zero where the next header will be, and then the header, in strong order. So a reader that sees the header
//! sees the record, and no header after it that is left from an earlier time. A reader copies the record out, and then tells the writer its own position, its
//! *acknowledgement*. The writer never overwrites what the slowest reader has not acknowledged. The ring has one
//! word more than its capacity, for the zero after the last record.
//!
//! This is the implementation that LOCO'26 Fig. 14 proves correct, with five liberties. In the figure a counter
//! beside the ring, the *head*, tells how far records have been put. Here each record's header tells it. The header
//! lies in the cache line of the message, so that one line travels instead of two. The header at a position becomes
//! nonzero at the step at which Fig. 14 advances the head past this position. A record is one put, or two around
//! the end, instead of one for each word. A batch of messages is put like one long record, whose first header is put
//! last: readers see the same as if none of them had looked between the submits of the batch. The header is put inline
//! where the fabric can do that. Finally, a reader in the middle of many messages does not acknowledge each.
//! (Submitting may then fail although there is room, which the specification allows.)
//!
//! Readers poll the cache line of the next header. The writer therefore puts a record's words in that line last, and
//! the header immediately after them. Otherwise, over shared memory, a polling reader would take the line between the
//! two stores, and the writer would have to fetch it again.
//!
//! Wait(d_x) of Fig. 14 keeps a put of the head from sending the head of the next message. The hazard here is the zero
//! after the record: a put that is still reading this node's ring would send the next header in its place. That
//! needs a put that is not inline, and a next header that is stored in this node's ring, because a reader is here or
//! because headers are put from there. In these cases the writer first waits until the puts of earlier records have
//! read the ring.
//!
//! Fig. 14 is not sound where the writer's thread reads its own ring. The thread finds the head in its own
//! store buffer, so that for everybody else its submit does not happen before its receive, as Def. 5.2 (`so`
//! contains `rf`) demands. Either `so` must leave such pairs out (`rf_e`, as for shared variables), or there
//! must be a fence in between. Here there is a fence: where the writer's node has readers, submitting ends
//! with a full fence of the CPU, once for each batch. Def. 5.2 therefore holds as it stands, for the writer's
//! own readers too (`checkers/sim/tests/own_ring.rs`).
//!
//! LOCO'26 5.1 has two ring buffers. This is the strong one: a receive that finds nothing happens before the submit of
//! every message that it has missed. The client of Fig. 13 tells the two apart. `loco check --client LOCO-13` runs it on
//! this code: the outcome that only the weak one allows has no execution.

use std::sync::Arc;

use loco_fabric::{Fabric, Lock, NodeId};

use crate::channels::channel::check_bytes;
use crate::fabric::AnyFabric;
use crate::operations::platform::MutexOf;
use crate::{Channel, Error, Parent, Region, Result};

mod layout;
mod reader;
mod writer;

pub use reader::RingReader;
pub use writer::RingWriter;

use layout::WORD_BYTES;

/// The distance of two acknowledgements, which different nodes write. It is a pair of cache lines, because
/// processors prefetch pairs.
const ACK_STRIDE: usize = 128;

// A position fits, and no two of them are in one pair of lines.
const _: () = assert!(ACK_STRIDE >= WORD_BYTES && ACK_STRIDE.is_multiple_of(128));

/// The settings of a ring buffer. Capacity and readers must be the same on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingConfig {
    /// The bytes of the ring. It needs room for every message that some reader has not read yet. A message
    /// takes 8 bytes and its length rounded up to a multiple of 8.
    pub capacity_bytes: usize,
    /// The node of each reader. A node is listed as often as it has readers; it may be the writer's node too.
    /// `None` means one reader on each participant other than the writer.
    pub readers: Option<Vec<NodeId>>,
    /// The number of bytes after which a reader acknowledges. It also acknowledges whenever it has read all
    /// messages. The default is a quarter of the ring. 0 acknowledges each message, as in LOCO'26 Fig. 14.
    /// That costs more, and matters to a writer only if readers stop reading while there are messages. Each
    /// node may have its own value.
    pub acknowledge_every_bytes: usize,
    /// Sends data inline with the operation where they are small enough (default true). Otherwise every put is read from
    /// registered memory, as in LOCO'26 Fig. 14. Each node may have its own value.
    pub inline: bool,
    /// The longest message, in bytes, that is copied to gather records of one put (default 1024). A longer message is
    /// put directly from the caller's memory if the fabric can put its length inline. Otherwise its record is made in
    /// registered memory.
    /// Where the fabric is [synchronous](loco_fabric::Caps::synchronous), a message that is submitted alone is not
    /// copied either.
    pub gather_bytes_max: usize,
}

loco_fabric::setters!(RingConfig {
    capacity_bytes: usize,
    acknowledge_every_bytes: usize,
    inline: bool,
    gather_bytes_max: usize,
});

impl RingConfig {
    /// Returns the settings of a ring of this size, a multiple of 8, with defaults for the rest.
    pub fn new(capacity_bytes: usize) -> RingConfig {
        RingConfig {
            capacity_bytes,
            readers: None,
            acknowledge_every_bytes: capacity_bytes / 4,
            inline: true,
            gather_bytes_max: 1024,
        }
    }

    /// Returns these settings with other readers.
    #[must_use]
    pub fn readers(self, readers: impl IntoIterator<Item = NodeId>) -> RingConfig {
        RingConfig {
            readers: Some(readers.into_iter().collect()),
            ..self
        }
    }

    /// Returns the bytes of the ring that a message of `len` bytes takes. For a message beyond all memory it is a number that
    /// no ring has.
    pub const fn record_bytes(len: usize) -> usize {
        layout::record_bytes(len)
    }
}

/// One node's endpoint of a ring buffer, from which its [writer](RingBuffer::writer) or its
/// [readers](RingBuffer::reader) are taken.
///
/// ```
/// use loco::{Manager, RingBuffer, testing};
///
/// let heard = testing::run(3, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let speaker = manager.nodes()[0];
///     let news = RingBuffer::new(&manager, "news", speaker, 64)?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///
///     if manager.node() == speaker {
///         let mut writer = news.writer()?;
///         for headline in ["first", "second", "and many more than the ring can hold"] {
///             writer.submit(&thread, headline.as_bytes())?; // waits for room
///         }
///         writer.wait_until_read(&thread)?;
///         return Ok(Vec::new());
///     }
///     let mut reader = news.reader()?;
///     (0..3).map(|_| reader.receive(&thread)).collect()
/// });
/// assert_eq!(heard[1][2], b"and many more than the ring can hold");
/// assert_eq!(heard[1], heard[2]);
/// ```
///
/// # Strength
///
/// Weak on purpose. A reader receives the messages in order, but a submit is no fence: a message may arrive after its writer has gone
/// on. Two nodes that each submit to a ring of their own and then look for the other's message may both miss it. They do not if both
/// fence in between ([`fence::thread`](crate::fence::thread); `loco check ring-buffer --robust`; LOCO'26 5.1, Fig. 13:
/// `loco check --client LOCO-13`).
pub struct RingBuffer<F: Fabric = AnyFabric> {
    shared: Arc<Shared<F>>,
    taken: MutexOf<F, Taken<F>>,
}

/// The state that the endpoint, its writer and its readers share.
struct Shared<F: Fabric> {
    channel: Channel<F>,
    config: RingConfig,
    writer: NodeId,
    /// The node of each reader, in ascending order.
    readers: Vec<NodeId>,
    data: Region<F>,
    acks: Region<F>,
}

/// The handles that were given out.
struct Taken<F: Fabric> {
    writer: WriterPlace<F>,
    readers: usize,
}

/// The place of the writer.
enum WriterPlace<F: Fabric> {
    NotMade,
    GivenOut,
    Returned(Box<RingWriter<F>>),
}

impl<F: Fabric> RingBuffer<F> {
    /// Makes this node's endpoint of the ring buffer called `name`, of `capacity_bytes` (a multiple of 8), from `writer` to
    /// one reader on each other participant.
    ///
    /// # Errors
    /// Returns the errors of [`with_config`](RingBuffer::with_config).
    pub fn new(
        parent: &impl Parent<F>,
        name: &str,
        writer: NodeId,
        capacity_bytes: usize,
    ) -> Result<RingBuffer<F>> {
        RingBuffer::with_config(parent, name, writer, &RingConfig::new(capacity_bytes))
    }

    /// Makes this node's endpoint of the ring buffer, with settings.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) for a capacity that is not a positive multiple of 8,
    /// [`TooLarge`](crate::Error::TooLarge) for one beyond all addresses,
    /// [`NotParticipant`](crate::Error::NotParticipant) for a writer or reader outside, and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join). If capacity or readers differ between nodes, waiting
    /// until the ring buffer is ready fails with [`Mismatch`](crate::Error::Mismatch) on each of them.
    pub fn with_config(
        parent: &impl Parent<F>,
        name: &str,
        writer: NodeId,
        config: &RingConfig,
    ) -> Result<RingBuffer<F>> {
        let participants = parent.participants();
        let capacity = config.capacity_bytes;
        if capacity == 0 || !capacity.is_multiple_of(WORD_BYTES) {
            return Err(Error::Config(format!(
                "ring buffer `{name}`: {capacity} bytes; take a positive multiple of {WORD_BYTES}"
            )));
        }
        let bytes = check_bytes(
            name,
            "a ring of `capacity_bytes`",
            capacity.saturating_add(WORD_BYTES),
        )?;
        let mut readers = config.readers.clone().unwrap_or_else(|| {
            let others = participants.nodes().iter();
            others.copied().filter(|&node| node != writer).collect()
        });
        readers.sort_unstable();
        for &node in readers.iter().chain([&writer]) {
            if !participants.contains(node) {
                return Err(Error::NotParticipant {
                    channel: name.to_owned(),
                    node,
                });
            }
        }
        let ids: Vec<u16> = readers.iter().map(|node| node.0).collect();
        let others = participants.nodes().iter().filter(|&&node| node != writer);
        // All endpoints say the usual readers alike, and in few words.
        let who = match readers.iter().eq(others) {
            true => "on the other nodes".to_owned(),
            false => format!("on nodes {ids:?}"),
        };
        let channel = Channel::builder(parent, name)
            .kind(format!("ring_buffer of {writer}, readers {who}"))
            .published("data", bytes)
            .published("acks", (readers.len() * ACK_STRIDE).max(WORD_BYTES))
            .join()?;
        Ok(RingBuffer {
            shared: Arc::new(Shared {
                data: channel.published("data")?.clone(),
                acks: channel.published("acks")?.clone(),
                channel,
                config: config.clone(),
                writer,
                readers,
            }),
            taken: Lock::new(Taken {
                writer: WriterPlace::NotMade,
                readers: 0,
            }),
        })
    }

    /// Takes the writer. There is one, on the writing node. It may be moved between threads. After
    /// [`return_writer`](RingBuffer::return_writer), any thread may take it. Messages stay in the order in
    /// which they were submitted.
    ///
    /// # Errors
    /// Returns [`NotOwner`](crate::Error::NotOwner) on another node, [`NotConnected`](crate::Error::NotConnected)
    /// before the channel is ready, and [`Config`](crate::Error::Config) if the writer was taken and not returned.
    pub fn writer(&self) -> Result<RingWriter<F>> {
        let shared = &self.shared;
        shared.channel.check_owner(shared.writer, "take the writer")?;
        let mut taken = self.taken.lock();
        match std::mem::replace(&mut taken.writer, WriterPlace::GivenOut) {
            WriterPlace::Returned(writer) => Ok(*writer),
            WriterPlace::NotMade => RingWriter::new(shared.clone()).inspect_err(|_| {
                taken.writer = WriterPlace::NotMade;
            }),
            WriterPlace::GivenOut => Err(Error::Config(format!(
                "the writer of ring buffer `{}` is taken, and there is only one: give it back with `return_writer`",
                shared.channel.name()
            ))),
        }
    }

    /// Gives the writer back, so that another thread can take it.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) for the writer of another ring buffer, which is dropped.
    pub fn return_writer(&self, writer: RingWriter<F>) -> Result<()> {
        if !writer.is_of(&self.shared) {
            return Err(Error::Config(format!(
                "ring buffer `{}` was given back a writer that is not its own",
                self.shared.channel.name()
            )));
        }
        self.taken.lock().writer = WriterPlace::Returned(Box::new(writer));
        Ok(())
    }

    /// Returns the next reader of this node.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected) before the channel is ready, and
    /// [`Config`](crate::Error::Config) if all of this node's readers were taken before or it has none.
    pub fn reader(&self) -> Result<RingReader<F>> {
        let shared = &self.shared;
        let here = shared.channel.node();
        let mut taken = self.taken.lock();
        let mine = shared
            .readers
            .iter()
            .enumerate()
            .filter(|&(_, &node)| node == here);
        let Some((index, _)) = mine.clone().nth(taken.readers) else {
            return Err(Error::Config(format!(
                "ring buffer `{}` has {} readers on {here}, and they are taken: declare more with `RingConfig::readers`",
                shared.channel.name(),
                mine.count()
            )));
        };
        let reader = RingReader::new(shared.clone(), index)?;
        taken.readers += 1;
        Ok(reader)
    }

    /// Returns the longest message that fits, in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.shared.message_bytes_max()
    }
}

impl<F: Fabric> Shared<F> {
    fn message_bytes_max(&self) -> usize {
        self.config.capacity_bytes - WORD_BYTES
    }

    /// Returns the bytes of memory that the ring takes.
    fn ring_bytes(&self) -> usize {
        self.config.capacity_bytes + WORD_BYTES
    }

    fn name(&self) -> &str {
        self.channel.name()
    }
}
