//! The reading side of a ring buffer.

use std::sync::Arc;

use loco_fabric::{Fabric, Memory, Peers, WordCell};

use super::layout::{NO_RECORD, Place, WORD_BYTES, message_bytes, record_bytes};
use super::writer::LEFT;
use super::{ACK_STRIDE, Shared};
use crate::fabric::AnyFabric;
use crate::operations::published::Published;
use crate::{Error, Result, Thread};

/// A reader of a ring buffer. It has [`try_receive`](RingReader::try_receive) (Receive_RBL of LOCO'26 5.1)
/// and [`receive`](RingReader::receive), which waits for a message.
///
/// A reader that stops reading blocks the writer once the ring is full. It must call
/// [`leave`](RingReader::leave) instead.
pub struct RingReader<F: Fabric = AnyFabric> {
    shared: Arc<Shared<F>>,
    next: Next<F>,
    acknowledgement: Acknowledgement<F>,
    /// The position that was acknowledged to the writer last.
    acknowledged: u64,
}

/// The next record, which may not be there yet.
struct Next<F: Fabric> {
    data: F::Memory,
    place: Place,
    /// The record's header, if it was there at the last look.
    header: u64,
}

impl<F: Fabric> Next<F> {
    /// Returns true if the record is there.
    #[inline]
    fn is_there(&mut self) -> bool {
        if self.header == NO_RECORD {
            // The place is a word of the ring, so loading it does not fail. The rest of the record is there when its
            // header is, because the header was put in strong order.
            self.header = self.data.load_word(self.place.offset).unwrap_or(NO_RECORD);
        }
        self.header != NO_RECORD
    }
}

/// The place that the position is written to.
enum Acknowledgement<F: Fabric> {
    /// The writer is on this node.
    Here(<F::Memory as Memory>::Cell<u64>),
    /// This node's copy, for puts that are not inline, and its published form, which the writer sees.
    There(<F::Memory as Memory>::Cell<u64>, Published<F>),
}

impl<F: Fabric> RingReader<F> {
    /// Makes reader number `index` of the ring.
    pub(super) fn new(shared: Arc<Shared<F>>, index: usize) -> Result<RingReader<F>> {
        let offset = index * ACK_STRIDE;
        let cell = shared.acks.local()?.cell(offset)?;
        let acknowledgement = if shared.channel.node() == shared.writer {
            Acknowledgement::Here(cell)
        } else {
            // The reader is made when its writer is connected.
            shared.acks.remote(shared.writer)?;
            let published = Published::new(&shared.acks, offset, WORD_BYTES, vec![shared.writer]);
            // The writer has room for more messages, most of the time.
            Acknowledgement::There(cell, published.lazily())
        };
        Ok(RingReader {
            next: Next {
                data: shared.data.local()?.clone(),
                place: Place::start(shared.ring_bytes()),
                header: NO_RECORD,
            },
            acknowledgement,
            acknowledged: 0,
            shared,
        })
    }

    /// Receives the next message into `message`, replacing its contents. Returns false, and leaves `message`
    /// as it is, if there is none yet.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if the ring has no record here, which happens only after
    /// [`exclude`](super::RingWriter::exclude). The loss of the writer is not an error, whether there are messages or
    /// not.
    pub fn try_receive(&mut self, thread: &Thread<F>, message: &mut Vec<u8>) -> Result<bool> {
        if !self.next.is_there() {
            // At the latest, the writer learns of it when there is time.
            self.acknowledge(thread);
            return Ok(false);
        }
        self.copy_out(message)?;
        let unacknowledged = self.next.place.position - self.acknowledged;
        if unacknowledged >= self.shared.config.acknowledge_every_bytes as u64 || !self.next.is_there() {
            self.acknowledge(thread);
        }
        Ok(true)
    }

    /// Receives the next message, waiting for it, for the thread's deadline at most.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if the writer is gone and all its messages are read, or
    /// [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// Nothing was received. Receive again.
    pub fn receive(&mut self, thread: &Thread<F>) -> Result<Vec<u8>> {
        let mut message = Vec::new();
        self.receive_into(thread, &mut message)?;
        Ok(message)
    }

    /// Receives the next message into `message`, replacing its contents.
    ///
    /// # Errors
    /// Returns the errors of [`receive`](RingReader::receive).
    ///
    /// # After a timeout
    /// Nothing was received, and `message` is unchanged. Receive again.
    pub fn receive_into(&mut self, thread: &Thread<F>, message: &mut Vec<u8>) -> Result<()> {
        let _call = thread.call(self.shared.channel.name(), "receive");
        while !self.try_receive(thread, message)? {
            let (shared, next) = (&self.shared, &mut self.next);
            // A writer of this node stores into the ring; others put.
            let put = shared.writer != thread.node_id();
            let arrived = thread.wait_for(put, shared.name(), Peers::One(shared.writer), || {
                next.is_there().then_some(())
            });
            arrived.map_err(|error| {
                let (writer, name) = (shared.writer, shared.name());
                error.because(
                    &[writer],
                    format!(
                        "{writer} has submitted no message to ring buffer {name}; a writer submits what readers receive"
                    ),
                )
            })?;
        }
        Ok(())
    }

    /// Leaves: the writer no longer waits for this reader. The loss of the writer is no error.
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`] except [`PeerLost`](crate::ErrorKind::PeerLost) and
    /// [`Timeout`](crate::ErrorKind::Timeout). The writer then still waits for this reader.
    ///
    /// # After a timeout
    /// There is none: the call posts its put whatever the deadline, as the writer would wait for this reader for
    /// ever.
    pub fn leave(mut self, thread: &Thread<F>) -> Result<()> {
        match thread.to_the_end(|| self.tell(thread, LEFT)) {
            Err(error) if error.lost_peer().is_some() => Ok(()),
            other => other,
        }
    }

    /// Returns true if there is a message.
    #[inline]
    pub(crate) fn has_next(&mut self) -> bool {
        self.next.is_there()
    }

    /// Copies the next message out, and moves past it.
    fn copy_out(&mut self, message: &mut Vec<u8>) -> Result<()> {
        let next = &mut self.next;
        debug_assert_ne!(next.header, NO_RECORD, "the caller has looked");
        let len = message_bytes(next.header);
        if len > self.shared.message_bytes_max() {
            return Err(Error::Config(format!(
                "ring buffer `{}`: no record at {}; has this reader been excluded?",
                self.shared.name(),
                next.place.position
            )));
        }
        let from = next.place.plus(WORD_BYTES);
        let first = from.before_end(len);
        message.resize(len, 0);
        let (front, rest) = message.split_at_mut(first);
        next.data.read(from.offset, front)?;
        if !rest.is_empty() {
            next.data.read(0, rest)?;
        }
        next.place = next.place.plus(record_bytes(len));
        next.header = NO_RECORD;
        Ok(())
    }

    /// Tells the writer how far this reader is. If that fails, the next call tries again: received messages
    /// stay received, and a writer that is gone needs no acknowledgement.
    fn acknowledge(&mut self, thread: &Thread<F>) {
        let position = self.next.place.position;
        debug_assert!(
            self.acknowledged <= position && position < LEFT,
            "positions only grow"
        );
        if self.acknowledged == position {
            return;
        }
        match self.tell(thread, position) {
            Ok(()) => self.acknowledged = position,
            Err(error) => tracing::debug!(ring = self.shared.name(), %error, "acknowledging"),
        }
    }

    fn tell(&mut self, thread: &Thread<F>, position: u64) -> Result<()> {
        let (cell, published) = match &self.acknowledgement {
            // The store comes after the copying out (TSO).
            Acknowledgement::Here(cell) => {
                cell.store(position);
                return Ok(());
            }
            Acknowledgement::There(cell, published) => (cell, published),
        };
        if self.shared.config.inline && WORD_BYTES <= thread.fabric().caps().inline_bytes_max {
            return published.post_inline_untracked(thread, &position.to_ne_bytes());
        }
        // It is correct if a put reads a later position than the one that it was posted with, so there is no
        // need to wait for it.
        cell.store(position);
        published.post_latest_untracked(thread)
    }
}
