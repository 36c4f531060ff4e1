//! One copy of the log: where records lie in it, and how a record shows that it is whole.
//!
//! A copy has a slot for each of the last `capacity` records. A slot is a *header*, a word in a region of its own, and a
//! *body*: a word that says who appended the record, and the bytes of the record. The header has the position of the record
//! and its length. It is written after the body, and others put it in strong order, so a record whose header is there is there
//! as a whole. The headers of other rounds of the slot have other positions. Headers lie apart from bodies, so no bytes of a record are
//! taken for a header, and one read gets the headers of a whole copy.

use loco_fabric::{Fabric, Local, Memory, NodeId, Target, WordCell};
use smallvec::SmallVec;

use crate::channels::channel::{check_bytes, region_bytes};
use crate::operations::operation::{Flags, Operation};
use crate::{Channel, Error, Region, Result, Thread};

pub(super) const WORD_BYTES: usize = 8;
/// The bits of the length in a header. The rest is the number of the record or request.
const LEN_BITS: u32 = 24;
/// The longest record.
pub(super) const RECORD_BYTES_MAX: usize = (1 << LEN_BITS) - 1;
/// The bits of the appending node in the first word of a body. The rest is the number of its request.
const AUTHOR_BITS: u32 = 16;

const _: () = assert!(AUTHOR_BITS == u16::BITS && LEN_BITS + AUTHOR_BITS < u64::BITS);

type Cell<F> = <<F as Fabric>::Memory as Memory>::Cell<u64>;

/// Returns the header of record or request number `number`, which counts from 1: the low bits of the number, and the length. Fresh memory
/// has the header of none.
pub(super) fn header(number: u64, len: usize) -> u64 {
    debug_assert!(len <= RECORD_BYTES_MAX, "a record of {len} bytes");
    (number << LEN_BITS) | len as u64
}

/// Returns the length if `header` is that of `number`.
pub(super) fn len_if(header: u64, number: u64) -> Option<usize> {
    let is_it = header >> LEN_BITS == (number << LEN_BITS) >> LEN_BITS;
    is_it.then_some((header & RECORD_BYTES_MAX as u64) as usize)
}

/// The author of a record: the position of its node among the participants, and which of the node's requests it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Author {
    pub(super) position: usize,
    pub(super) request: u64,
}

impl Author {
    fn to_word(self) -> u64 {
        debug_assert_eq!(
            self.request >> (u64::BITS - AUTHOR_BITS),
            0,
            "requests fit for ages"
        );
        self.request << AUTHOR_BITS | self.position as u64
    }

    fn from_word(word: u64) -> Author {
        Author {
            position: usize::from(word as u16),
            request: word >> AUTHOR_BITS,
        }
    }
}

/// This node's copy, and the means to reach those of others.
pub(super) struct Copy<F: Fabric> {
    headers: Region<F>,
    bodies: Region<F>,
    /// This node's headers, by slot.
    cells: Box<[Cell<F>]>,
    body_bytes_max: usize,
}

impl<F: Fabric> Copy<F> {
    /// Returns the bytes of the regions of headers and bodies for the log that is to be called `name`.
    ///
    /// # Errors
    /// Returns `TooLarge` if there are no such regions.
    pub(super) fn region_bytes(
        name: &str,
        capacity: usize,
        record_bytes_max: usize,
    ) -> Result<(usize, usize)> {
        let body = check_bytes(name, "records", record_bytes_max)?.saturating_add(2 * WORD_BYTES - 1);
        let body = body / WORD_BYTES * WORD_BYTES;
        Ok((
            region_bytes(name, capacity, WORD_BYTES)?,
            region_bytes(name, capacity, body)?,
        ))
    }

    /// Makes the copy in the regions `headers` and `bodies` of `channel`.
    pub(super) fn new(channel: &Channel<F>) -> Result<Copy<F>> {
        let (headers, bodies) = (
            channel.region("headers")?.clone(),
            channel.region("bodies")?.clone(),
        );
        let capacity = headers.len() / WORD_BYTES;
        let memory = headers.local()?;
        let cells = (0..capacity).map(|slot| memory.cell(slot * WORD_BYTES));
        Ok(Copy {
            cells: cells.collect::<std::result::Result<_, _>>()?,
            body_bytes_max: bodies.len() / capacity.max(1),
            headers,
            bodies,
        })
    }

    pub(super) fn capacity(&self) -> usize {
        self.cells.len()
    }

    fn slot(&self, position: u64) -> usize {
        (position % self.cells.len() as u64) as usize
    }

    fn body_offset(&self, position: u64) -> usize {
        self.slot(position) * self.body_bytes_max
    }

    /// Returns the length of the record at `position`, if this node has it.
    fn len_at(&self, position: u64) -> Option<usize> {
        len_if(self.cells[self.slot(position)].load(), position + 1)
    }

    /// Returns the length of the record at `position`, which this node must have.
    ///
    /// # Errors
    /// Returns `Config` if it has not: something else has written to the memory of the log.
    fn len_of(&self, position: u64) -> Result<usize> {
        self.len_at(position).ok_or_else(|| {
            Error::Config(format!(
                "`{}` has no record {position} where it must be: memory of the log was overwritten",
                self.headers.name()
            ))
        })
    }

    /// Returns the author of the record at `position`, which this node has.
    pub(super) fn author(&self, position: u64) -> Result<Author> {
        let word = self.bodies.local()?.load_word(self.body_offset(position))?;
        Ok(Author::from_word(word))
    }

    /// Copies the record at `position`, which this node has, to `out`, replacing its contents.
    pub(super) fn read(&self, position: u64, out: &mut Vec<u8>) -> Result<()> {
        out.resize(self.len_of(position)?, 0);
        let offset = self.body_offset(position) + WORD_BYTES;
        Ok(self.bodies.local()?.read(offset, out)?)
    }

    /// Writes a record of `author` into this node's copy.
    pub(super) fn write(&self, position: u64, author: Author, record: &[u8]) -> Result<()> {
        let (memory, offset) = (self.bodies.local()?, self.body_offset(position));
        memory.write(offset, &author.to_word().to_ne_bytes())?;
        memory.write(offset + WORD_BYTES, record)?;
        // TSO keeps the header after the body.
        self.cells[self.slot(position)].store(header(position + 1, record.len()));
        Ok(())
    }

    /// Puts the record at `position`, which this node has, into the copy of `peer`.
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`].
    pub(super) fn place(&self, thread: &Thread<F>, position: u64, peer: NodeId) -> Result<()> {
        let len = self.len_of(position)?;
        let (local, offset) = (self.bodies.local()?, self.body_offset(position));
        let bytes = WORD_BYTES + len;
        let dst = Target {
            remote: self.bodies.remote(peer)?,
            offset,
        };
        // Asks for no order: the body is placed after what an earlier fence has placed there, and its words have none.
        if bytes <= thread.fabric().caps().inline_bytes_max {
            let mut body: SmallVec<[u8; 64]> = SmallVec::from_elem(0, bytes);
            local.read(offset, &mut body)?;
            thread.post_untracked(&Operation::PutInline(&body, dst), Flags::default())?;
        } else {
            // The slot is written again only after a fence.
            let src = Local {
                memory: local,
                offset,
                len: bytes,
            };
            thread.post_untracked(&Operation::Put(src, dst), Flags::default())?;
        }
        let dst = Target {
            remote: self.headers.remote(peer)?,
            offset: self.slot(position) * WORD_BYTES,
        };
        let header = header(position + 1, len).to_ne_bytes();
        // In strong order: a header is placed after its body, and after the headers before it. So a copy has no gap.
        thread.post_untracked(&Operation::PutInline(&header, dst), Flags::STRONG)
    }

    /// Returns the position after the last record of this node's copy, which has every record from `from` on without a gap.
    pub(super) fn end(&self, from: u64) -> u64 {
        self.end_of(from, |slot| self.cells[slot].load())
    }

    /// Returns the position after the last record of a copy with these headers, as [`end`](Copy::end) does.
    pub(super) fn end_of(&self, from: u64, header: impl Fn(usize) -> u64) -> u64 {
        let most = from + self.cells.len() as u64;
        let has = |position: u64| len_if(header(self.slot(position)), position + 1).is_some();
        (from..most).find(|&position| !has(position)).unwrap_or(most)
    }

    /// Returns the headers of the copy of `peer`, by slot.
    ///
    /// # Errors
    /// Returns the errors of [`MemRef::get`](crate::MemRef::get) and of the wait for it.
    pub(super) fn headers_of(&self, thread: &Thread<F>, peer: NodeId) -> Result<Vec<u64>> {
        let buffer = thread.mem_ref(self.headers.len())?;
        let src = Target {
            remote: self.headers.remote(peer)?,
            offset: 0,
        };
        // Asks for no order: whoever wrote this copy is shut out, and what it wrote is placed or never will be.
        let buffer = buffer.get(src)?.wait()?;
        (0..self.cells.len())
            .map(|slot| buffer.word(slot * WORD_BYTES))
            .collect()
    }

    /// Copies the records from `begin` to `end` from the copy of `peer`, which has these headers.
    ///
    /// # Errors
    /// Returns the errors of [`headers_of`](Copy::headers_of).
    pub(super) fn fetch(
        &self,
        thread: &Thread<F>,
        (begin, end): (u64, u64),
        peer: NodeId,
        headers: &[u64],
    ) -> Result<()> {
        let mut record = Vec::new();
        for position in begin..end {
            let Some(len) = len_if(headers[self.slot(position)], position + 1) else {
                debug_assert!(false, "the copy ends at {end}");
                break;
            };
            let buffer = thread.mem_ref(WORD_BYTES + len)?;
            let src = Target {
                remote: self.bodies.remote(peer)?,
                offset: self.body_offset(position),
            };
            // Asks for no order: the header was found, so the body is placed.
            let buffer = buffer.get(src)?.wait()?;
            record.resize(len, 0);
            buffer.read(WORD_BYTES, &mut record)?;
            self.write(position, Author::from_word(buffer.word(0)?), &record)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_numbers_and_lengths_apart() {
        for number in [1, 2, 1 << 39, (1 << 40) + 5, u64::MAX >> 1] {
            for len in [0, 1, 8, RECORD_BYTES_MAX] {
                let word = header(number, len);
                assert_eq!(len_if(word, number), Some(len));
                assert_eq!(len_if(word, number + 1), None);
                assert_eq!(len_if(word, number - 1), None);
            }
        }
        assert_eq!(len_if(0, 1), None, "fresh memory has no record");
    }

    #[test]
    fn authors_round_trip() {
        for (position, request) in [(0, 0), (0, 1), (65535, 1), (7, 1 << 47)] {
            let author = Author { position, request };
            assert_eq!(Author::from_word(author.to_word()), author);
        }
    }
}
