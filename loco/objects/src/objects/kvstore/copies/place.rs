//! Reads and writes of one copy of a value.

use loco_fabric::{Fabric, Memory, Target, WordCell};

use super::slot::{Backup, Presence, Write, first, presence};
use super::views::View;
use super::{Copies, Holder, Holders};
use crate::fence;
use crate::{Result, Thread};

use super::super::Shared;
use super::super::slot::{Location, WORD_BYTES, meta};
use super::super::value::Encode;

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Returns the nodes that have or get copies of the value at `at` in `view`, and whether the first of them says that the key is
    /// present. Returns `None` if all copies are lost: no such node is left, or the first has not got its copy.
    pub(super) fn left(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        view: View,
        at: Location,
    ) -> Result<Option<(Holders, bool)>> {
        let holders = copies.holders(at, view);
        let Some(&first) = holders.first() else {
            return Ok(None);
        };
        Ok(match self.presence(copies, thread, first, at)? {
            Presence::Present => Some((holders, true)),
            Presence::Absent | Presence::Over => Some((holders, false)),
            Presence::Unknown => None,
        })
    }

    /// Returns what this copy says of the key at `at`.
    pub(super) fn presence(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        holder: Holder,
        at: Location,
    ) -> Result<Presence> {
        if holder.copy == 0 {
            return Ok(match self.is_valid(thread, at)? {
                true => Presence::Present,
                false => Presence::Absent,
            });
        }
        let word = if holder.node == self.channel.node() {
            copies
                .backups
                .local()?
                .load_word(copies.offset(at, holder.copy))?
        } else {
            thread.read_word(copies.target(at, holder, 0)?)?
        };
        Ok(presence(word, at.counter))
    }

    /// Sets counter and valid bit of this copy. They are placed when it returns.
    pub(super) fn mark_copy(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        (holder, at): (Holder, Location),
        valid: bool,
    ) -> Result<()> {
        if holder.copy == 0 {
            self.set_meta(thread, at, valid)?;
        } else {
            copies.begin_mark(thread, holder, at, valid)?;
            copies.place(thread, holder)?;
        }
        // A write that found this node shut out has failed above. This finds it where nothing was posted.
        thread.still_in()
    }

    /// Writes the first value of this copy in a new use of the slot, whose key is not present yet. It is placed when it returns.
    pub(super) fn write_first(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        (holder, at): (Holder, Location),
        value: &[u8],
    ) -> Result<()> {
        copies.begin_write(thread, holder, at, &first(value, at.counter))?;
        // So that who goes on after a loss tells a key that was not inserted from one whose copy has not been made.
        copies.begin_mark(thread, holder, at, false)?;
        copies.place(thread, holder)
    }

    /// Writes the next value of this copy, of a key that is present. It is placed when it returns.
    pub(super) fn write_copy(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        (holder, at): (Holder, Location),
        value: &[u8],
    ) -> Result<()> {
        let slot = copies.read(thread, holder, at)?;
        let backup = Backup::new(&slot, at.counter);
        copies.begin_write(thread, holder, at, &backup.next(value))?;
        copies.place(thread, holder)?;
        match holder.copy {
            // The spare has no valid bit of its own.
            0 => self.write_slot(thread, at, value),
            // A lost writer was about to delete the key, or this node has not got its copy yet. This write comes after that, and finds
            // the key present.
            _ if backup.presence() != Presence::Present => self.mark_copy(copies, thread, (holder, at), true),
            _ => Ok(()),
        }
    }

    /// Gives this copy of a key that is present the `value` of the first one, unless it has it. It is placed when it returns. Returns true if
    /// the node had no copy.
    pub(super) fn make_copy(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        (holder, at): (Holder, Location),
        value: &[u8],
    ) -> Result<bool> {
        let slot = copies.read(thread, holder, at)?;
        let backup = Backup::new(&slot, at.counter);
        let presence = backup.presence();
        // A lost writer, which had not come to the first copy, may have left a newer value here, or half a delete.
        if presence != Presence::Present || backup.value() != Some(value) {
            self.write_copy(copies, thread, (holder, at), value)?;
        }
        Ok(presence == Presence::Unknown)
    }

    /// Writes a value, which the spare has, to the slot that the key was inserted in. It is placed when it returns.
    pub(super) fn write_slot(&self, thread: &Thread<F>, at: Location, value: &[u8]) -> Result<()> {
        self.write_body(thread, at, value)?;
        // Also where this node has the slot: the write may have been a put.
        fence::pair(thread, at.node)
    }
}

impl<F: Fabric> Copies<F> {
    /// Returns a copy of the whole backup slot of the value at `at`; of the spare, for copy 0.
    pub(super) fn read(&self, thread: &Thread<F>, holder: Holder, at: Location) -> Result<Vec<u8>> {
        let mut slot = vec![0; self.slot_bytes];
        if holder.node == thread.node_id() {
            self.backups
                .local()?
                .read(self.offset(at, holder.copy), &mut slot)?;
        } else {
            let buffer = thread.mem_ref(self.slot_bytes)?;
            let buffer = buffer.get(self.target(at, holder, 0)?)?.wait()?;
            buffer.read(0, &mut slot)?;
        }
        Ok(slot)
    }

    /// Begins a write of a half of the backup slot, or of the spare. [`place`](Copies::place) places it.
    pub(super) fn begin_write(
        &self,
        thread: &Thread<F>,
        holder: Holder,
        at: Location,
        write: &Write,
    ) -> Result<()> {
        if holder.node == thread.node_id() {
            let offset = self.offset(at, holder.copy) + write.offset;
            return Ok(self.backups.local()?.write(offset, &write.bytes)?);
        }
        let target = self.target(at, holder, write.offset)?;
        if write.bytes.len() <= thread.fabric().caps().inline_bytes_max {
            return thread.put_inline_untracked(&write.bytes, target);
        }
        let buffer = thread.mem_ref(write.bytes.len())?;
        buffer.write(0, &write.bytes)?;
        buffer.put(target)?.wait().map(drop)
    }

    fn begin_mark(&self, thread: &Thread<F>, holder: Holder, at: Location, valid: bool) -> Result<()> {
        let word = meta(at.counter, valid);
        if holder.node == thread.node_id() {
            let cell = self.backups.local()?.cell::<u64>(self.offset(at, holder.copy))?;
            cell.store(word);
            return Ok(());
        }
        thread.put_inline_untracked(&word.to_ne_bytes(), self.target(at, holder, 0)?)
    }

    /// Places what this thread has written to the backup slots on the node of `holder`.
    fn place(&self, thread: &Thread<F>, holder: Holder) -> Result<()> {
        if holder.node == thread.node_id() {
            thread.fabric().cpu_fence();
            return thread.still_in();
        }
        fence::pair(thread, holder.node)
    }

    fn target(&self, at: Location, holder: Holder, offset: usize) -> Result<Target<'_, F::Remote>> {
        debug_assert!(
            offset.is_multiple_of(WORD_BYTES),
            "parts of a slot are whole words"
        );
        Ok(Target {
            remote: self.backups.remote(holder.node)?,
            offset: self.offset(at, holder.copy) + offset,
        })
    }
}
