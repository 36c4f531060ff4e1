//! The records that nodes ask the leader to append: each node has a row in the memory of every other one.
//!
//! A row holds one request: a header of the [same form](super::copy) as that of a record, with the number of the node's request,
//! and the bytes. A node writes its row in its own memory, from where it is put to the leader, and to the next leader if that
//! one is lost. It asks for the next record only when the one before is committed, so nobody writes a row that is being read.

use loco_fabric::{Fabric, Local, Memory, NodeId, Target, WordCell};
use smallvec::SmallVec;

use super::copy::{WORD_BYTES, header, len_if};
use crate::channels::channel::region_bytes;
use crate::operations::operation::{Flags, Operation};
use crate::{AckKey, Channel, Region, Result, Thread};

type Cell<F> = <<F as Fabric>::Memory as Memory>::Cell<u64>;

/// The distance of two rows is a multiple of this: two cache lines, as different nodes write them.
const ROW_ALIGN: usize = 128;

/// The rows of all participants in this node's memory, and the means to write this node's row in that of others.
pub(super) struct Requests<F: Fabric> {
    region: Region<F>,
    row_bytes: usize,
    /// The headers, by position of the asking node.
    cells: Box<[Cell<F>]>,
}

impl<F: Fabric> Requests<F> {
    /// Returns the bytes of the region of requests for the log that is to be called `name`.
    ///
    /// # Errors
    /// Returns `TooLarge` if there is no such region.
    pub(super) fn region_bytes(name: &str, nodes: usize, record_bytes_max: usize) -> Result<usize> {
        let row = record_bytes_max.saturating_add(WORD_BYTES + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
        region_bytes(name, nodes, row)
    }

    /// Makes the rows of `nodes` nodes in the region `requests` of `channel`.
    pub(super) fn new(channel: &Channel<F>, nodes: usize) -> Result<Requests<F>> {
        let region = channel.region("requests")?.clone();
        let row_bytes = region.len() / nodes.max(1);
        let memory = region.local()?;
        let cells = (0..nodes).map(|position| memory.cell(position * row_bytes));
        Ok(Requests {
            cells: cells.collect::<std::result::Result<_, _>>()?,
            row_bytes,
            region,
        })
    }

    /// Returns the headers of all rows, to find out later whether one has changed.
    pub(super) fn headers(&self) -> SmallVec<[u64; 16]> {
        self.cells.iter().map(WordCell::load).collect()
    }

    /// Returns true if a row has changed since its headers were `seen`.
    pub(super) fn changed_since(&self, seen: &[u64]) -> bool {
        self.cells
            .iter()
            .zip(seen)
            .any(|(cell, &seen)| cell.load() != seen)
    }

    /// Copies request `number` of the node at `position` to `out`, if it is there.
    pub(super) fn take(&self, position: usize, number: u64, out: &mut Vec<u8>) -> Result<bool> {
        let Some(len) = len_if(self.cells[position].load(), number) else {
            return Ok(false);
        };
        out.resize(len, 0);
        let offset = position * self.row_bytes + WORD_BYTES;
        self.region.local()?.read(offset, out)?;
        Ok(true)
    }

    /// Writes request `number` of this node, which is at `position`, into its row in its own memory. No put may still read that.
    pub(super) fn write(&self, position: usize, number: u64, record: &[u8]) -> Result<()> {
        let offset = position * self.row_bytes + WORD_BYTES;
        self.region.local()?.write(offset, record)?;
        // TSO keeps the header after the record.
        self.cells[position].store(header(number, record.len()));
        Ok(())
    }

    /// Puts this node's row, with a request of `len` bytes, into the memory of `leader`. Adds the put that reads the row to
    /// `reading`.
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`].
    pub(super) fn send(
        &self,
        thread: &Thread<F>,
        (position, len): (usize, usize),
        leader: NodeId,
        reading: &mut AckKey<F>,
    ) -> Result<()> {
        let remote = self.region.remote(leader)?;
        let (local, row) = (self.region.local()?, position * self.row_bytes);
        let dst = Target {
            remote,
            offset: row + WORD_BYTES,
        };
        if len > 0 && len <= thread.fabric().caps().inline_bytes_max {
            let mut record: SmallVec<[u8; 64]> = SmallVec::from_elem(0, len);
            local.read(dst.offset, &mut record)?;
            // Asks for no order: the leader has read the request before.
            thread.post_untracked(&Operation::PutInline(&record, dst), Flags::default())?;
        } else if len > 0 {
            let src = Local {
                memory: local,
                offset: dst.offset,
                len,
            };
            thread.post_into(&Operation::Put(src, dst), Flags::default(), reading)?;
        }
        let dst = Target { remote, offset: row };
        let header = self.cells[position].load().to_ne_bytes();
        // In strong order: whoever finds the header finds the record.
        thread.post_untracked(&Operation::PutInline(&header, dst), Flags::STRONG)
    }
}
