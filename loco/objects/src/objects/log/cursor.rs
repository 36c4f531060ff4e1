//! How far this node has read, and what it knows of the records before: the last request of each node that was appended.
//!
//! A thread that appends does not read meanwhile. If the ring is full of what its node has not read, nobody's append could go on, its
//! own among them. It then sets the unread records aside, in memory of this node, from where later reads take them. So that they do
//! not become more and more, a thread that only appends waits for its node's reader. The reader itself may wait for its turn to append
//! behind such a thread, so the wait comes before that turn, and a thread that reads between its appends never waits so.

use std::collections::VecDeque;

use loco_fabric::{AtomicCell, Fabric, Peers};
use smallvec::SmallVec;

use super::{Log, Shared};
use crate::{Parent, Result, Thread};

/// A request that was appended: its number, which counts from 1, and the position of its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Appended {
    pub(super) request: u64,
    pub(super) position: u64,
}

/// The progress of this node through the committed records.
pub(super) struct Cursor {
    /// The position of the record that leaves the ring next.
    next: u64,
    /// The records before that which the program has not read, with their positions.
    aside: VecDeque<(u64, Vec<u8>)>,
    /// The position that was announced to the others last. They may overwrite what is before it.
    released: u64,
    /// The position after the last record whose author is known, at least `next`.
    examined: u64,
    /// The last request of each node among the records before `examined`, by the node's position.
    last: Box<[Appended]>,
    /// The threads that have begun appends, by the names of their windows, with how many since they last read, or since few records
    /// were unread.
    begun: SmallVec<[(u64, usize); 4]>,
    /// Set if a thread waits for this node's reader.
    is_awaited: bool,
}

impl Cursor {
    pub(super) fn new(nodes: usize) -> Cursor {
        Cursor {
            next: 0,
            aside: VecDeque::new(),
            released: 0,
            examined: 0,
            last: vec![Appended::default(); nodes].into(),
            begun: SmallVec::new(),
            is_awaited: false,
        }
    }

    /// Returns the number of records before `committed` that the program has not read.
    pub(super) fn unread(&self, committed: u64) -> u64 {
        committed - self.next + self.aside.len() as u64
    }

    /// Notes that a thread begins an append, and returns true. Returns false if it must wait for its node's reader: as many records
    /// before `committed` are unread as two rings hold, and the thread has begun a ring of appends since it last read.
    fn begins(&mut self, thread: u64, committed: u64, capacity: usize) -> bool {
        let at = self.begun.iter().position(|&(name, _)| name == thread);
        let at = at.unwrap_or_else(|| {
            self.begun.push((thread, 0));
            self.begun.len() - 1
        });
        let may = self.begun[at].1 < capacity || self.unread(committed) < 2 * capacity as u64;
        match may {
            true => self.begun[at].1 += 1,
            false => self.is_awaited = true,
        }
        may
    }

    /// Notes that a thread has read. Returns true if a thread that waits for its node's reader may go on.
    fn has_read(&mut self, thread: u64, committed: u64, capacity: usize) -> bool {
        if self.unread(committed) < 2 * capacity as u64 {
            self.begun.clear();
            return std::mem::take(&mut self.is_awaited);
        }
        self.begun.retain(|&mut (name, _)| name != thread);
        false
    }

    /// Returns the last request of each node among the committed records, as far as they are examined.
    pub(super) fn last(&self) -> &[Appended] {
        &self.last
    }
}

impl<F: Fabric> Log<F> {
    /// Reads the next record, and waits for it, for the thread's deadline at most. The threads of a node share its place in the log:
    /// each record is read once on each node.
    ///
    /// # Errors
    /// Returns [`Timeout`](crate::ErrorKind::Timeout), and on a node without a service thread the errors of
    /// [`lead`](Log::lead). The loss of others is not an error.
    ///
    /// # After a timeout
    /// Nothing was read. Read again.
    pub fn read(&self, thread: &Thread<F>) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        self.read_into(thread, &mut record)?;
        Ok(record)
    }

    /// Reads the next record into `record`, replacing its contents. Returns the record's position, which counts from 0.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Log::read).
    ///
    /// # After a timeout
    /// Nothing was read. Read again.
    pub fn read_into(&self, thread: &Thread<F>, record: &mut Vec<u8>) -> Result<u64> {
        let shared = &self.shared;
        let _call = thread.call(shared.channel.name(), "read");
        let mut timing = thread.timing_from_now();
        let read = thread.until(timing.deadline, || {
            loop {
                if let Some(position) = shared.try_read(thread, record)? {
                    return Ok(position);
                }
                shared.wait_for_record(thread)?;
            }
        });
        timing.of_call(thread, read)
    }

    /// Reads the next record into `record`, replacing its contents, if this node knows one to be committed. Returns its position. Does not
    /// lead.
    ///
    /// # Errors
    /// Returns [`Timeout`](crate::ErrorKind::Timeout) if other threads of this node read all the time.
    ///
    /// # After a timeout
    /// Nothing was read. Read again.
    pub fn try_read(&self, thread: &Thread<F>, record: &mut Vec<u8>) -> Result<Option<u64>> {
        self.shared.try_read(thread, record)
    }
}

impl<F: Fabric> Shared<F> {
    /// Examines the records that were committed since the last call, and returns the position after them.
    pub(super) fn examine(&self, cursor: &mut Cursor) -> Result<u64> {
        let committed = self.committed();
        while cursor.examined < committed {
            let position = cursor.examined;
            let author = self.copy.author(position)?;
            if let Some(last) = cursor.last.get_mut(author.position) {
                debug_assert!(
                    author.request > last.request,
                    "a request is appended once: {author:?}"
                );
                *last = Appended {
                    request: author.request,
                    position,
                };
            }
            cursor.examined += 1;
        }
        Ok(committed)
    }

    fn try_read(&self, thread: &Thread<F>, record: &mut Vec<u8>) -> Result<Option<u64>> {
        let mut cursor = self.cursor.enter(thread, self.channel.name())?;
        self.examine(&mut cursor)?;
        let read = match cursor.aside.pop_front() {
            Some((position, aside)) => {
                *record = aside;
                Some(position)
            }
            None => self.take(&mut cursor, record)?,
        };
        if cursor.has_read(thread.window().name(), self.committed(), self.copy.capacity()) {
            self.waited_reads.store(self.waited_reads.load() + 1);
            if let Some(bell) = self.channel.manager().network().bell() {
                bell.ring();
            }
        }
        self.release(thread, &mut cursor);
        Ok(read)
    }

    /// Takes the next record out of the ring, if it is committed.
    fn take(&self, cursor: &mut Cursor, record: &mut Vec<u8>) -> Result<Option<u64>> {
        let position = cursor.next;
        if position == cursor.examined {
            return Ok(None);
        }
        self.copy.read(position, record)?;
        cursor.next += 1;
        Ok(Some(position))
    }

    /// Waits until a thread may begin an append: where there is much to read, until its node's reader has read most of it. A node
    /// without a service thread leads meanwhile.
    pub(super) fn wait_for_reader(&self, thread: &Thread<F>) -> Result<()> {
        let (name, capacity) = (self.channel.name(), self.copy.capacity());
        loop {
            let reads = {
                let mut cursor = self.cursor.enter(thread, name)?;
                if cursor.begins(thread.window().name(), self.committed(), capacity) {
                    return Ok(());
                }
                self.waited_reads.load()
            };
            let has_read = || self.waited_reads.load() != reads;
            match self.config.service {
                true => thread.wait_for(true, name, Peers::None, || has_read().then_some(()))?,
                false => self.lead_or_wait(thread, has_read)?,
            }
        }
    }

    /// Sets all unread records aside if, as far as the others know, they fill the ring.
    pub(super) fn set_aside(&self, thread: &Thread<F>, cursor: &mut Cursor) -> Result<()> {
        if cursor.examined - cursor.released < self.copy.capacity() as u64 {
            return Ok(());
        }
        let mut record = Vec::new();
        while let Some(position) = self.take(cursor, &mut record)? {
            cursor.aside.push_back((position, std::mem::take(&mut record)));
        }
        self.release(thread, cursor);
        Ok(())
    }

    /// Tells the others how far this node has read, when it is time to: often enough that a node that has read everything keeps nobody
    /// waiting.
    fn release(&self, thread: &Thread<F>, cursor: &mut Cursor) {
        let every = (self.copy.capacity() as u64 / 4).max(1);
        if cursor.next - cursor.released < every {
            return;
        }
        // The record was copied before: the CPU's steps come before what is posted later.
        match self.announce(thread, &self.reads, cursor.next) {
            Ok(()) => cursor.released = cursor.next,
            // The record is read all the same. The next read tells them.
            Err(error) => {
                tracing::debug!(log = self.channel.name(), %error, "telling how far this node has read")
            }
        }
    }

    /// Waits until there may be a record to read. A node without a service thread leads meanwhile.
    fn wait_for_record(&self, thread: &Thread<F>) -> Result<()> {
        let next = {
            let cursor = self.cursor.enter(thread, self.channel.name())?;
            if !cursor.aside.is_empty() {
                return Ok(());
            }
            // Another thread may have examined what is after it.
            cursor.next
        };
        if self.config.service {
            let more = || (self.committed() > next).then_some(());
            return thread.wait_for(true, self.channel.name(), Peers::None, more);
        }
        self.lead_or_wait(thread, || self.committed() > next)
    }
}
