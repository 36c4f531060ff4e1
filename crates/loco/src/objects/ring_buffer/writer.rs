//! The writing side of a ring buffer.

use std::sync::Arc;

use loco_fabric::{Fabric, Local, Memory, NodeId, Peers, Target, WordCell};
use smallvec::SmallVec;

use super::layout::{Place, WORD_BYTES, record_bytes};
use super::{ACK_STRIDE, Shared};
use crate::fabric::AnyFabric;
use crate::operations::operation::{Flags, Operation};
use crate::operations::published::Published;
use crate::{AckKey, Error, Result, Thread};

/// A position that no reader reaches: it has left.
pub(super) const LEFT: u64 = u64::MAX;

type Cell<F> = <<F as Fabric>::Memory as Memory>::Cell<u64>;

/// The writer of a ring buffer: [`try_submit`](RingWriter::try_submit) (Submit_RBL of LOCO'26 5.1) and
/// [`submit`](RingWriter::submit), which waits for room.
///
/// A message that was submitted reaches each reader's node after every put that the thread posted to that node before;
/// it is not waited for. [Fences](crate::fence) cover it as they do puts.
pub struct RingWriter<F: Fabric = AnyFabric> {
    shared: Arc<Shared<F>>,
    /// Where the next record begins.
    head: Place,
    /// What every reader has acknowledged, as of the last look.
    acknowledged: u64,
    /// Other nodes with readers.
    targets: Vec<Destination<F>>,
    readers: Vec<Acknowledgement<F>>,
    /// This node has readers, who read this node's memory.
    local_readers: bool,
    data: F::Memory,
    /// This node's head, and what puts of it are read from where they are not inline.
    head_cell: Cell<F>,
    /// The head as the readers' nodes see it. Which thread posts here also posts the records.
    published_head: Published<F>,
    /// The records under construction.
    records: Vec<u8>,
    inline_bytes_max: usize,
}

/// A node that records are put to.
struct Destination<F: Fabric> {
    node: NodeId,
    data: F::Remote,
}

/// Where a reader's position arrives.
struct Acknowledgement<F: Fabric> {
    node: NodeId,
    cell: Cell<F>,
}

impl<F: Fabric> RingWriter<F> {
    pub(super) fn new(shared: Arc<Shared<F>>) -> Result<RingWriter<F>> {
        let here = shared.channel.node();
        let acks = shared.acks.local()?;
        let readers = shared
            .readers
            .iter()
            .enumerate()
            .map(|(index, &node)| {
                let cell = acks.cell(index * ACK_STRIDE)?;
                Ok(Acknowledgement { node, cell })
            })
            .collect::<Result<_>>()?;
        let mut nodes = shared.readers.clone();
        nodes.dedup();
        let targets = nodes.iter().filter(|&&node| node != here).map(|&node| {
            let data = shared.data.remote(node)?.clone();
            Ok(Destination { node, data })
        });
        let targets: Vec<Destination<F>> = targets.collect::<Result<_>>()?;
        let others = targets.iter().map(|target| target.node).collect();
        Ok(RingWriter {
            head: Place::start(shared.config.capacity_bytes),
            acknowledged: 0,
            targets,
            readers,
            local_readers: nodes.contains(&here),
            data: shared.data.local()?.clone(),
            head_cell: shared.head.local()?.cell(0)?,
            published_head: Published::new(&shared.head, 0, WORD_BYTES, others),
            records: Vec::new(),
            inline_bytes_max: 0,
            shared,
        })
    }

    /// Says whether this is the writer of the ring buffer whose endpoint has `shared`.
    pub(super) fn is_of(&self, shared: &Arc<Shared<F>>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Submits a message to every reader if there is room; false if there is not, as some reader has not read enough.
    ///
    /// # Errors
    /// `TooLarge` for a message that never fits; `PeerLost` if a reader's node is gone: nothing was submitted, and
    /// [`exclude`](RingWriter::exclude) goes on without it; `Timeout` if there is no room in the send queue of a reader's
    /// node; see [`Thread::put_inline`].
    ///
    /// # After a timeout
    /// Nothing was submitted; submit again, this message or another one.
    #[inline]
    pub fn try_submit(&mut self, thread: &Thread<F>, message: &[u8]) -> Result<bool> {
        Ok(self.try_submit_batch(thread, &[message])? == 1)
    }

    /// Submits a message to every reader, waiting for room, for the thread's deadline at most.
    ///
    /// # Errors
    /// See [`try_submit`](RingWriter::try_submit); `PeerLost` if a reader that is waited for is gone; `Timeout` if there is
    /// no room.
    ///
    /// # After a timeout
    /// Nothing was submitted; submit again.
    #[inline]
    pub fn submit(&mut self, thread: &Thread<F>, message: &[u8]) -> Result<()> {
        self.submit_batch(thread, &[message])
    }

    /// Submits the first of `messages`, in order, with one put of them all and one of the head; returns how many. They
    /// are those that there is room for, up to a quarter of the ring at a time, so that the readers are not idle
    /// while the next are gathered: 0 means that there is no room for the first (or that there are no messages).
    ///
    /// Readers see no difference to as many calls of [`try_submit`](RingWriter::try_submit).
    ///
    /// # Errors
    /// See [`try_submit`](RingWriter::try_submit), for the batch as for one message. A message that never fits is
    /// reported when it is the first.
    pub fn try_submit_batch(&mut self, thread: &Thread<F>, messages: &[impl AsRef<[u8]>]) -> Result<usize> {
        let Some(first) = messages.first() else {
            return Ok(0);
        };
        let first = self.check(first.as_ref().len())?;
        if !self.has_room(first) {
            return Ok(0);
        }
        self.published_head.enter(thread)?;
        if self.shared.config.inline {
            self.inline_bytes_max = thread.fabric().caps().inline_bytes_max;
        }
        if WORD_BYTES > self.inline_bytes_max {
            // Wait_sv(d_x): an earlier put that has not read the head yet must not read the next one, which it could take
            // past this record on its way.
            self.published_head.wait_until_read(thread)?;
        }
        let count = self.gather(messages, first);
        self.put_records(thread)?;
        self.head = self.head.plus(self.records.len());
        // Half of the readers' nodes having heard of it would be neither submitted nor not. Posting waits for room in the
        // queue at most, which comes or the peer is lost.
        thread.to_the_end(|| self.publish(thread))?;
        Ok(count)
    }

    /// Submits all of `messages`, in order, waiting for room, for the thread's deadline at most each time.
    ///
    /// # Errors
    /// See [`submit`](RingWriter::submit). Messages before the one that it failed at have been submitted; those
    /// who must know how many use [`try_submit_batch`](RingWriter::try_submit_batch).
    ///
    /// # After a timeout
    /// The first of the messages may have been submitted, each as a whole and in order; the rest was not.
    pub fn submit_batch(&mut self, thread: &Thread<F>, messages: &[impl AsRef<[u8]>]) -> Result<()> {
        let mut left = messages;
        while let Some(next) = left.first() {
            let count = self.try_submit_batch(thread, left)?;
            left = &left[count..];
            if count == 0 {
                let bytes = record_bytes(next.as_ref().len());
                self.wait_acknowledged(thread, self.head.position + bytes as u64 - self.capacity())?;
            }
        }
        Ok(())
    }

    /// Waits until every reader has read every message, for the thread's deadline at most.
    ///
    /// # Errors
    /// `PeerLost` if a reader that is waited for is gone; `Timeout`.
    ///
    /// # After a timeout
    /// Nothing has changed; wait again.
    pub fn wait_until_read(&mut self, thread: &Thread<F>) -> Result<()> {
        self.wait_acknowledged(thread, self.head.position)
    }

    /// Bytes of the ring in use: submitted and not acknowledged by every reader.
    pub fn unread_bytes(&mut self) -> u64 {
        self.look();
        self.head.position - self.acknowledged
    }

    /// Goes on without the readers of `node`, which has been lost or is too slow: sends it nothing more and waits for
    /// no acknowledgement from it. Its readers get what was submitted before, as long as it is not overwritten: they
    /// must stop reading.
    pub fn exclude(&mut self, node: NodeId) {
        self.targets.retain(|target| target.node != node);
        self.readers.retain(|reader| reader.node != node);
        self.published_head.exclude(node);
        self.local_readers &= node != self.shared.channel.node();
    }

    /// The longest message that fits, in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.shared.message_bytes_max()
    }

    /// Bytes of the record of a message of `len` bytes.
    #[inline]
    fn check(&self, len: usize) -> Result<usize> {
        let max = self.shared.message_bytes_max();
        if len > max {
            return Err(Error::TooLarge {
                what: format!("a message for ring buffer `{}`", self.shared.name()),
                len,
                max,
            });
        }
        Ok(record_bytes(len))
    }

    fn capacity(&self) -> u64 {
        self.shared.config.capacity_bytes as u64
    }

    /// True if `bytes` more do not reach what some reader has not acknowledged.
    #[inline]
    fn has_room(&mut self, bytes: usize) -> bool {
        self.room(bytes) >= bytes
    }

    /// Bytes that may be written, of which the caller would be content with `enough`.
    #[inline]
    fn room(&mut self, enough: usize) -> usize {
        let room = |writer: &Self| {
            let unacknowledged = writer.head.position - writer.acknowledged;
            let unacknowledged = usize::try_from(unacknowledged).unwrap_or(usize::MAX);
            writer.shared.config.capacity_bytes.saturating_sub(unacknowledged)
        };
        // Looking costs a cache miss for each reader: only when the last look does not do.
        if room(self) < enough {
            self.look();
        }
        room(self)
    }

    /// Sees how far the readers are.
    fn look(&mut self) {
        // The reader's copying out comes before its acknowledgement, and our overwriting after.
        let positions = self.readers.iter().map(|reader| reader.cell.load());
        let least = positions.min().unwrap_or(LEFT);
        // Monotonic: an acknowledgement that arrives late does not count.
        self.acknowledged = self.acknowledged.max(least.min(self.head.position));
    }

    fn wait_acknowledged(&mut self, thread: &Thread<F>, position: u64) -> Result<()> {
        self.look();
        let shared = Arc::clone(&self.shared);
        while self.acknowledged < position {
            let slow = self.behind(position);
            let waited = thread.wait_until(shared.name(), Peers::These(&slow), || {
                self.look();
                (self.acknowledged >= position).then_some(())
            });
            match waited {
                // It had read everything, and left while others were still awaited.
                Err(error)
                    if error
                        .lost_peer()
                        .is_some_and(|node| !self.behind(position).contains(&node)) => {}
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// Nodes of readers that have not acknowledged everything up to `position`.
    fn behind(&self, position: u64) -> SmallVec<[NodeId; 16]> {
        let behind = |reader: &&Acknowledgement<F>| reader.cell.load() < position;
        let mut nodes: SmallVec<_> = self
            .readers
            .iter()
            .filter(behind)
            .map(|reader| reader.node)
            .collect();
        nodes.dedup();
        nodes
    }

    /// Makes the records of the first of `messages`, of which the very first has `first` bytes and has room; returns
    /// how many.
    fn gather(&mut self, messages: &[impl AsRef<[u8]>], first: usize) -> usize {
        // A single message asks nothing.
        let batch_max = if messages.len() == 1 {
            first
        } else {
            let quarter = self.shared.config.capacity_bytes / 4;
            quarter.min(self.room(quarter)).max(first)
        };
        self.records.clear();
        for (count, message) in messages.iter().enumerate() {
            let message = message.as_ref();
            let end = self.records.len() + record_bytes(message.len());
            if end > batch_max {
                return count;
            }
            self.records
                .extend_from_slice(&(message.len() as u64).to_ne_bytes());
            self.records.extend_from_slice(message);
            self.records.resize(end, 0);
        }
        messages.len()
    }

    /// Puts the records that were gathered at the head. The readers do not look there yet.
    fn put_records(&mut self, thread: &Thread<F>) -> Result<()> {
        let bytes = self.records.len();
        let begin = self.head.offset;
        let first = self.head.before_end(bytes);
        let pieces = [(begin, &self.records[..first]), (0, &self.records[first..])];
        let inline = bytes <= self.inline_bytes_max;
        if self.local_readers || !inline {
            for (offset, piece) in pieces {
                self.data.write(offset, piece)?;
            }
        }
        for target in &self.targets {
            for (offset, piece) in pieces.into_iter().filter(|(_, piece)| !piece.is_empty()) {
                let dst = Target {
                    remote: &target.data,
                    offset,
                };
                let put = if inline {
                    Operation::PutInline(piece, dst)
                } else {
                    // This memory is written again only when every reader has acknowledged the record.
                    let src = Local {
                        memory: &self.data,
                        offset,
                        len: piece.len(),
                    };
                    Operation::Put(src, dst)
                };
                thread.post_untracked(
                    &put,
                    Flags {
                        fenced: false,
                        more: true,
                    },
                )?;
            }
        }
        Ok(())
    }

    /// Tells everybody where the head is now.
    fn publish(&mut self, thread: &Thread<F>) -> Result<()> {
        let position = self.head.position;
        let inline = WORD_BYTES <= self.inline_bytes_max;
        if self.local_readers {
            // After the record (TSO), and before what this thread does next: see the module head.
            self.head_cell.store_fence(position);
        } else if !inline {
            self.head_cell.store(position);
        }
        let posted = if inline {
            self.published_head
                .post_inline_untracked(thread, &position.to_ne_bytes())
        } else {
            self.published_head.post_copy(thread, &mut AckKey::done())
        };
        match posted {
            // It is submitted to the others; the next call says that this one is gone.
            Err(error) if error.lost_peer().is_none() => Err(error),
            _ => Ok(()),
        }
    }
}
