//! The writing side of a ring buffer.

use std::sync::Arc;

use loco_fabric::{Fabric, Local, Memory, NodeId, Peers, Target, WordCell};
use smallvec::SmallVec;

use super::layout::{NO_RECORD, Place, WORD_BYTES, header, record_bytes};
use super::{ACK_STRIDE, Shared};
use crate::error::have;
use crate::fabric::AnyFabric;
use crate::operations::operation::{Flags, Operation};
use crate::operations::published::Poster;
use crate::operations::timing::late_since;
use crate::{AckKey, Error, Result, Thread};

/// A position beyond every reader's. It says that the reader has left.
pub(super) const LEFT: u64 = u64::MAX;

/// The parts of a record other than its header have no order, and its header follows at once.
const RECORD: Flags = Flags {
    fenced: false,
    strong: false,
    more: true,
    lazy: false,
};

/// A header is placed after its record, and after the zero that an earlier put left in its place.
const HEADER: Flags = Flags {
    fenced: false,
    strong: true,
    more: false,
    lazy: false,
};

type Cell<F> = <<F as Fabric>::Memory as Memory>::Cell<u64>;

/// The writer of a ring buffer. It has [`try_submit`](RingWriter::try_submit) (Submit_RBL of LOCO'26 5.1) and
/// [`submit`](RingWriter::submit), which waits for room.
///
/// A submitted message reaches each reader's node after every put that the thread posted to that node before.
/// The call does not wait for that. [Fences](crate::fence) cover messages as they do puts.
pub struct RingWriter<F: Fabric = AnyFabric> {
    shared: Arc<Shared<F>>,
    /// The place of the next record.
    head: Place,
    /// The position that every reader had acknowledged at the last look.
    acknowledged: u64,
    /// The other nodes with readers.
    targets: Vec<Destination<F>>,
    readers: Vec<Acknowledgement<F>>,
    /// Set if this node has readers, who read this node's memory.
    local_readers: bool,
    data: F::Memory,
    poster: Poster<F>,
    /// The puts of records that read this node's ring, as far as their end must be known.
    reading: AckKey<F>,
    /// The records under construction, and the zero after them.
    records: Vec<u8>,
    /// The longest data that are put inline; 0 if none are.
    inline_bytes_max: usize,
    /// Set if a put copies its data before it returns.
    copies: bool,
}

/// A node that records are put to.
struct Destination<F: Fabric> {
    node: NodeId,
    data: F::Remote,
}

/// The place where a reader's position arrives.
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
        Ok(RingWriter {
            head: Place::start(shared.ring_bytes()),
            acknowledged: 0,
            targets,
            readers,
            local_readers: nodes.contains(&here),
            data: shared.data.local()?.clone(),
            poster: Poster::new(),
            reading: AckKey::done(),
            records: Vec::new(),
            inline_bytes_max: if shared.config.inline {
                shared.channel.caps().inline_bytes_max
            } else {
                0
            },
            copies: shared.channel.caps().synchronous,
            shared,
        })
    }

    /// Returns whether this is the writer of the ring buffer whose endpoint has `shared`.
    pub(super) fn is_of(&self, shared: &Arc<Shared<F>>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Submits a message to every reader if there is room. Returns false if there is none because some reader
    /// has not read enough.
    ///
    /// # Errors
    /// Returns [`TooLarge`](crate::Error::TooLarge) for a message that never fits. Returns
    /// [`PeerLost`](crate::ErrorKind::PeerLost) if a reader's node is gone: nothing was submitted, and
    /// [`exclude`](RingWriter::exclude) goes on without it. Returns [`Timeout`](crate::ErrorKind::Timeout) if there is
    /// no room in the send queue of a reader's node, and the errors of [`Thread::put_inline`].
    ///
    /// # After a timeout
    /// Nothing was submitted. Submit again, this message or another one.
    #[inline]
    pub fn try_submit(&mut self, thread: &Thread<F>, message: &[u8]) -> Result<bool> {
        Ok(self.try_submit_batch(thread, &[message])? == 1)
    }

    /// Submits a message to every reader, waiting for room, for the thread's deadline at most.
    ///
    /// # Errors
    /// Returns the errors of [`try_submit`](RingWriter::try_submit), [`PeerLost`](crate::ErrorKind::PeerLost) if a
    /// reader that is waited for is gone, or [`Timeout`](crate::ErrorKind::Timeout) if there is no room.
    ///
    /// # After a timeout
    /// Nothing was submitted. Submit again.
    #[inline]
    pub fn submit(&mut self, thread: &Thread<F>, message: &[u8]) -> Result<()> {
        self.submit_batch(thread, &[message])
    }

    /// Submits the first of `messages`, in order, with one put of them all and one put of the first header. Returns
    /// how many messages were submitted: as many as there is room for, up to a quarter of the ring, so that the
    /// readers are not idle while the next messages are gathered. A message that is longer than
    /// [`gather_bytes_max`](super::RingConfig::gather_bytes_max) goes alone. 0 means that there is no room for the
    /// first message (or that there are no messages).
    ///
    /// For readers this is the same as so many calls of [`try_submit`](RingWriter::try_submit).
    ///
    /// # Errors
    /// Returns the errors of [`try_submit`](RingWriter::try_submit), for the batch as for one message. A
    /// message that never fits is reported when it is the first.
    ///
    /// # After a timeout
    /// Nothing was submitted. Submit again, these messages or others.
    pub fn try_submit_batch(&mut self, thread: &Thread<F>, messages: &[impl AsRef<[u8]>]) -> Result<usize> {
        let Some(next) = messages.first() else {
            return Ok(0);
        };
        let next = next.as_ref();
        let first = self.check(next.len())?;
        if !self.has_room(first) {
            return Ok(0);
        }
        let targets = &self.targets;
        self.poster.enter(thread, || -> SmallVec<[NodeId; 16]> {
            targets.iter().map(|target| target.node).collect()
        })?;
        if self.stores_headers() {
            // This is Wait_sv(d_x). An earlier put that has not read the zero after its record yet must not read
            // the header that is stored there next.
            self.reading.wait_until_read(thread)?;
        }
        // Where a put copies, gathering a single message would only copy it once more.
        let alone = messages.len() == 1 && self.copies;
        let whole = Some(next).filter(|message| alone || self.is_long(message));
        let (count, bytes) = match whole {
            Some(_) => (1, first),
            None => self.gather(messages, first),
        };
        let header = header(next.len());
        let published = match self.put_records(thread, whole, bytes, header)? {
            true => Ok(()),
            // If half of the readers' nodes had heard of the message, it would be neither submitted nor not.
            // Posting waits at most for room in the queue, which comes unless the peer is lost.
            false => thread.to_the_end(|| self.publish(thread, header)),
        };
        self.head = self.head.plus(bytes);
        debug_assert!(
            count >= 1 && count <= messages.len(),
            "{count} of {}",
            messages.len()
        );
        debug_assert!(
            self.head.position - self.acknowledged <= self.capacity(),
            "a record overwrites what some reader has not acknowledged"
        );
        published.map(|()| count)
    }

    /// Submits all of `messages`, in order, waiting for room, for the thread's deadline at most each time.
    ///
    /// # Errors
    /// Returns the errors of [`submit`](RingWriter::submit). Messages before the one that failed have been
    /// submitted. Use [`try_submit_batch`](RingWriter::try_submit_batch) to know how many.
    ///
    /// # After a timeout
    /// The first of the messages may have been submitted, each as a whole and in order. The rest was not.
    pub fn submit_batch(&mut self, thread: &Thread<F>, messages: &[impl AsRef<[u8]>]) -> Result<()> {
        let _call = thread.call(self.shared.channel.name(), "submit");
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
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if a reader that is waited for is gone, or
    /// [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// Nothing has changed. Wait again.
    pub fn wait_until_read(&mut self, thread: &Thread<F>) -> Result<()> {
        let _call = thread.call(self.shared.channel.name(), "wait_until_read");
        self.wait_acknowledged(thread, self.head.position)
    }

    /// Returns the bytes of the ring in use, which were submitted and not acknowledged by every reader.
    pub fn unread_bytes(&mut self) -> u64 {
        self.look();
        self.head.position - self.acknowledged
    }

    /// Excludes the readers of `node`, which has been lost or is too slow. The writer sends it nothing more, and waits
    /// for no acknowledgement from it. The readers there must stop reading: they can still receive earlier messages, but
    /// only until these are overwritten.
    pub fn exclude(&mut self, node: NodeId) {
        self.targets.retain(|target| target.node != node);
        self.readers.retain(|reader| reader.node != node);
        self.local_readers &= node != self.shared.channel.node();
    }

    /// Returns the longest message that fits, in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.shared.message_bytes_max()
    }

    /// Returns the bytes of the record of a message of `len` bytes. Fails if it never fits.
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

    /// Returns true if `bytes` more do not reach what some reader has not acknowledged.
    #[inline]
    fn has_room(&mut self, bytes: usize) -> bool {
        self.room(bytes) >= bytes
    }

    /// Returns the bytes that may be written. The caller needs only `enough`.
    #[inline]
    fn room(&mut self, enough: usize) -> usize {
        let room = |writer: &Self| {
            let unacknowledged = writer.head.position - writer.acknowledged;
            let unacknowledged = usize::try_from(unacknowledged).unwrap_or(usize::MAX);
            writer.shared.config.capacity_bytes.saturating_sub(unacknowledged)
        };
        // A look costs a cache miss for each reader, so it is taken only when the last look is not enough.
        if room(self) < enough {
            self.look();
        }
        room(self)
    }

    /// Finds out how far the readers are.
    fn look(&mut self) {
        // The reader's copying out comes before its acknowledgement, and our overwriting after.
        let positions = self.readers.iter().map(|reader| reader.cell.load());
        let least = positions.min().unwrap_or(LEFT);
        // The position never decreases: an acknowledgement that arrives late does not count.
        self.acknowledged = self.acknowledged.max(least.min(self.head.position));
        debug_assert!(
            self.acknowledged <= self.head.position,
            "nobody reads ahead of the writer"
        );
    }

    fn wait_acknowledged(&mut self, thread: &Thread<F>, position: u64) -> Result<()> {
        self.look();
        let (shared, mut timing) = (Arc::clone(&self.shared), None);
        while self.acknowledged < position {
            let slow = self.behind(position);
            // A reader of this node may acknowledge by a store; others put.
            let put = !slow.contains(&thread.node_id());
            let waited = thread.wait_for(put, shared.name(), Peers::These(&slow), || {
                self.look();
                (self.acknowledged >= position).then_some(())
            });
            match waited {
                // The reader had read everything, and left while others were still awaited.
                Err(error)
                    if error
                        .lost_peer()
                        .is_some_and(|node| !self.behind(position).contains(&node)) =>
                {
                    timing.get_or_insert_with(|| thread.timing());
                }
                Err(error) if error.is_timeout() => {
                    let slow = self.behind(position);
                    let who = have(&slow);
                    let what = format!(
                        "{who} not acknowledged messages of ring buffer {}; each reader must receive",
                        shared.name()
                    );
                    let error = late_since(timing, thread, error);
                    return Err(error.because(&slow, what));
                }
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// Returns the nodes of readers that have not acknowledged everything up to `position`.
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

    /// Returns true if the message is put from where it lies.
    #[inline]
    fn is_long(&self, message: &[u8]) -> bool {
        message.len() > self.shared.config.gather_bytes_max
    }

    /// Makes the records of as many of the first `messages` as one batch takes. Returns the number of records and their
    /// bytes. The very first record has `first` bytes, for which there is room. Its message is not long.
    fn gather(&mut self, messages: &[impl AsRef<[u8]>], first: usize) -> (usize, usize) {
        // For a single message, nothing needs to be computed.
        let batch_max = if messages.len() == 1 {
            first
        } else {
            let quarter = self.shared.config.capacity_bytes / 4;
            quarter.min(self.room(quarter)).max(first)
        };
        if self.records.len() < batch_max + WORD_BYTES {
            self.records.resize(batch_max + WORD_BYTES, 0);
        }
        let (mut count, mut begin) = (0, 0);
        for message in messages {
            let message = message.as_ref();
            let end = begin + record_bytes(message.len());
            if end > batch_max || self.is_long(message) {
                break;
            }
            let record = &mut self.records[begin..end];
            // The last word may have zeros after the message.
            if let Some(last) = record.last_chunk_mut::<WORD_BYTES>() {
                *last = [0; WORD_BYTES];
            }
            record[..WORD_BYTES].copy_from_slice(&header(message.len()).to_ne_bytes());
            record[WORD_BYTES..][..message.len()].copy_from_slice(message);
            begin = end;
            count += 1;
        }
        debug_assert!(count >= 1 && begin <= batch_max, "the first message fits");
        self.records[begin..][..WORD_BYTES].copy_from_slice(&NO_RECORD.to_ne_bytes());
        (count, begin)
    }

    /// Puts the record of the message `whole`, or the records that were gathered, at the head, and a zero after them. Returns
    /// true if that includes the first header. Without it the readers do not look there yet.
    #[inline(always)] // Short messages, one by one, are instructions and little else.
    fn put_records(
        &mut self,
        thread: &Thread<F>,
        whole: Option<&[u8]>,
        bytes: usize,
        header: u64,
    ) -> Result<bool> {
        let header = header.to_ne_bytes();
        let Some(message) = whole else {
            return self.put_gathered(thread, bytes, &header);
        };
        let begin = self.head.plus(WORD_BYTES);
        if !message.len().is_multiple_of(WORD_BYTES) || begin.before_end(message.len()) < message.len() {
            return self.put_parts(thread, message, bytes, &header);
        }
        let zero = self.zero_after(bytes);
        let (front, header) = ((begin.offset, message), (self.head.offset, &header[..]));
        // The front comes last but for the header: see the module head.
        self.put_pieces(thread, &[zero, front, header], bytes)
    }

    /// Returns the piece after the `bytes` of a record: the zero that says that no record is there yet.
    #[inline(always)]
    fn zero_after(&self, bytes: usize) -> (usize, &'static [u8]) {
        let zero = const { &NO_RECORD.to_ne_bytes() };
        (self.head.plus(bytes).offset, zero)
    }

    /// Puts the records that were gathered, as [`put_records`](RingWriter::put_records) does.
    #[inline(never)]
    fn put_gathered(&mut self, thread: &Thread<F>, bytes: usize, header: &[u8]) -> Result<bool> {
        let records = std::mem::take(&mut self.records);
        let [front, rest] = self.head.plus(WORD_BYTES).cut(&records[WORD_BYTES..][..bytes]);
        let header = (self.head.offset, header);
        let put = self.put_pieces(thread, &[rest, front, header], bytes);
        self.records = records;
        put
    }

    /// Puts a message that ends within a word, or goes past the end of the ring, as
    /// [`put_records`](RingWriter::put_records) does.
    #[inline(never)]
    fn put_parts(&mut self, thread: &Thread<F>, message: &[u8], bytes: usize, header: &[u8]) -> Result<bool> {
        let begin = self.head.plus(WORD_BYTES);
        let (words, odd) = message.split_at(message.len() / WORD_BYTES * WORD_BYTES);
        // A record has whole words, and so has the ring: only the message goes past its end.
        let [front, rest] = begin.cut(words);
        let zero = self.zero_after(bytes);
        let mut last = [0; WORD_BYTES];
        last[..odd.len()].copy_from_slice(odd);
        let last = &last[..odd.len().next_multiple_of(WORD_BYTES)];
        let last = (begin.plus(words.len()).offset, last);
        let header = (self.head.offset, header);
        // The front comes last but for the header: see the module head.
        self.put_pieces(thread, &[zero, last, rest, front, header], bytes)
    }

    /// Puts `pieces`, each at its offset. The last piece is the first header. The others together are the `bytes` that
    /// begin one word after the head. Returns true if the header was put, too.
    #[inline(always)]
    fn put_pieces(&mut self, thread: &Thread<F>, pieces: &[(usize, &[u8])], bytes: usize) -> Result<bool> {
        debug_assert_eq!(
            pieces.iter().map(|(_, piece)| piece.len()).sum::<usize>(),
            bytes + WORD_BYTES,
            "the records, the zero after them, and the first header"
        );
        let inline = bytes <= self.inline_bytes_max;
        if let ([target], true, false) = (&self.targets[..], inline, self.local_readers) {
            // Where a single node is to hear of the message, nothing depends on the header once it is posted.
            thread.put_each_untracked(pieces, &target.data, HEADER)?;
            return Ok(true);
        }
        self.put_to_all(thread, pieces, bytes, inline)?;
        Ok(false)
    }

    /// Puts `pieces` except the last, which is the first header, to all other nodes with readers. Also writes them into
    /// this node's ring if readers or puts read them there.
    #[inline(never)] // A message for a single node is not to pay for it.
    fn put_to_all(
        &mut self,
        thread: &Thread<F>,
        pieces: &[(usize, &[u8])],
        bytes: usize,
        inline: bool,
    ) -> Result<()> {
        let records = &pieces[..pieces.len() - 1];
        if self.local_readers || !inline {
            for &(offset, piece) in records {
                self.data.write(offset, piece)?;
            }
        }
        if inline {
            for target in &self.targets {
                thread.put_each_untracked(records, &target.data, RECORD)?;
            }
            return Ok(());
        }
        let begin = self.head.plus(WORD_BYTES);
        let first = begin.before_end(bytes);
        let parts = [(begin.offset, first), (0, bytes - first)];
        let tracked = self.stores_headers();
        for target in &self.targets {
            for (offset, len) in parts.into_iter().filter(|&(_, len)| len > 0) {
                // This memory is written again only when every reader has acknowledged the record, but for the word after
                // it, where the next header may be stored.
                let src = Local {
                    memory: &self.data,
                    offset,
                    len,
                };
                let there = Target {
                    remote: &target.data,
                    offset,
                };
                let put = Operation::Put(src, there);
                match tracked {
                    true => thread.post_into(&put, RECORD, &mut self.reading)?,
                    false => thread.post_untracked(&put, RECORD)?,
                }
            }
        }
        Ok(())
    }

    /// Returns true if headers are stored in this node's ring.
    #[inline]
    fn stores_headers(&self) -> bool {
        self.local_readers || WORD_BYTES > self.inline_bytes_max
    }

    /// Writes the header of the record at the head, on this node and on all readers' nodes.
    fn publish(&self, thread: &Thread<F>, header: u64) -> Result<()> {
        let offset = self.head.offset;
        if self.local_readers {
            // The store comes after the record (TSO), and before the thread's next steps: see the module
            // head.
            self.data.cell(offset)?.store_fence(header);
        } else if self.stores_headers() {
            self.data.cell(offset)?.store(header);
        }
        let bytes = header.to_ne_bytes();
        let mut failed = Ok(());
        for target in &self.targets {
            let there = Target {
                remote: &target.data,
                offset,
            };
            let put = if WORD_BYTES <= self.inline_bytes_max {
                Operation::PutInline(&bytes, there)
            } else {
                // This word is written again only when every reader has acknowledged the record.
                let src = Local {
                    memory: &self.data,
                    offset,
                    len: WORD_BYTES,
                };
                Operation::Put(src, there)
            };
            match thread.post_untracked(&put, HEADER) {
                // The message is submitted to the others. The next call says that this node is gone.
                Err(error) if error.lost_peer().is_none() => failed = Err(error),
                _ => {}
            }
        }
        failed
    }
}
