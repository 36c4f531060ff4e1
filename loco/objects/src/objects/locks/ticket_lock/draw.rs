//! The draw of a ticket: its announcement, the look at its slot, and the claim.
//!
//! A node looks at the slots in the batch of the draw. If the lock is free, the slot of the drawn ticket says that it is served, and the
//! node holds the lock after one round trip. Otherwise it claims the slot, which tells the holder who waits.
//!
//! The look asks for no order. A slot says that a ticket is served only once that ticket has the turn, and nobody takes the turn away
//! from whoever draws that ticket, before or after the look. What the former holder put is placed before the slot says so. A look
//! that comes too early, or misses the exchange of another queue pair, finds the slot not served; then the claim tells.
//!
//! The announcement of the drawn ticket must be placed before the node's next one, which may use another queue pair. The claim places it,
//! and otherwise the release does, or the hand-over to another thread of the node (`release`).
//!
//! Used by the calls that take the lock (`mod`, `acquisition`).

use std::ops::Range;

use loco_fabric::{AtomicCell, Fabric};

use super::slot::{Announcement, Slot, Stage};
use super::{LINE_WORDS, NEXT, STRONG, TicketLock, WORD_BYTES};
use crate::operations::block::Block;
use crate::operations::words::AddAndLook;
use crate::{Error, Result, Thread};

/// The bytes of a block for a draw: the ticket, and the slots that are looked at.
pub(super) const DRAW_BYTES: usize = (1 + LINE_WORDS) * WORD_BYTES;

/// A draw that was begun on a block. The block gets the ticket, and behind it the slots that are looked at.
pub(super) struct Draw<F: Fabric> {
    /// The numbers of the slots.
    looked: Range<usize>,
    /// What is under way; `None` if the draw was done at once.
    under_way: Option<AddAndLook<F>>,
}

impl<F: Fabric> TicketLock<F> {
    /// Draws a ticket and claims it. Returns the ticket, and the turn if it has come already.
    pub(super) fn draw(&self, thread: &Thread<F>) -> Result<(u64, Option<bool>)> {
        let (ticket, slot) = match self.words.at_once(thread) {
            true => {
                self.announce_draw(thread)?;
                let (ticket, slot) = self.draw_at_once(thread)?;
                (ticket, Some(slot))
            }
            false => {
                // Before the announcement: memory may be short.
                let mut block = Block::take(thread, DRAW_BYTES)?;
                let drawn = self.draw_by(thread, &mut block);
                block.give_back(thread);
                drawn?
            }
        };
        let claimed = self.announce_and_claim(thread, ticket, slot);
        if claimed.is_err() {
            self.keep(ticket);
        }
        Ok((ticket, claimed?))
    }

    /// Announces a ticket that was drawn, and claims it unless its slot says that it has the turn. Returns the turn if it has come.
    #[inline]
    fn announce_and_claim(
        &self,
        thread: &Thread<F>,
        ticket: u64,
        slot: Option<Slot>,
    ) -> Result<Option<bool>> {
        self.drew(thread, ticket)?;
        if let Some(recovered) = slot.and_then(|slot| slot.turn_of(ticket)) {
            return Ok(Some(recovered));
        }
        let guess = slot.map_or_else(|| self.untouched(ticket), Slot::to_word);
        // Strong: the announcement is placed when the claim is, so the node's next one, perhaps on another queue pair, comes
        // after it.
        let old = self.change::<STRONG>(thread, ticket, guess, self.claim(ticket))?;
        Ok(old.and_then(|old| old.turn_of(ticket)))
    }

    /// Draws a ticket and looks at the slots, in one batch. Returns the ticket, and the content of its slot if that was looked at.
    fn draw_by(&self, thread: &Thread<F>, block: &mut Block<F>) -> Result<(u64, Option<Slot>)> {
        let draw = self.begin_draw(thread, block)?;
        block.wait(thread)?;
        // It has ended.
        self.drawn(thread, &draw, block).unwrap_or(Err(Error::Closed))
    }

    /// Begins to draw a ticket and to look at the slots, in one batch, for which the block has [`DRAW_BYTES`].
    pub(super) fn begin_draw(&self, thread: &Thread<F>, block: &mut Block<F>) -> Result<Draw<F>> {
        self.announce_draw(thread)?;
        if self.words.at_once(thread) {
            let (ticket, slot) = self.draw_at_once(thread)?;
            block.set_word(0, ticket)?;
            block.set_word(WORD_BYTES, slot.to_word())?;
            let number = self.slot(ticket) - self.slots;
            let (looked, under_way) = (number..number + 1, None);
            return Ok(Draw { looked, under_way });
        }
        let looked = self.looked();
        let words = self.slots + looked.start..self.slots + looked.end;
        // Strong: whoever sees that the ticket is drawn finds the announcement.
        let drawn = self
            .words
            .begin_fetch_add_strong_and_look(thread, block, (NEXT, 1), words)?;
        let under_way = Some(drawn);
        Ok(Draw { looked, under_way })
    }

    /// Returns `None` while the draw is under way. After that, returns the ticket, and the content of its slot if that was looked at. A
    /// ticket that is drawn is returned though the look has failed: it must be claimed, or nobody would ever serve those behind it.
    pub(super) fn drawn(
        &self,
        thread: &Thread<F>,
        draw: &Draw<F>,
        block: &Block<F>,
    ) -> Option<Result<(u64, Option<Slot>)>> {
        let seen = match &draw.under_way {
            None => Ok(true),
            Some(drawn) => drawn.ended(thread, block)?,
        };
        Some(seen.and_then(|seen| self.read_draw(&draw.looked, block, seen)))
    }

    /// Reads what a draw has left in its block. `seen` says whether the look has succeeded.
    fn read_draw(&self, looked: &Range<usize>, block: &Block<F>, seen: bool) -> Result<(u64, Option<Slot>)> {
        let ticket = block.word(0)?;
        let number = self.slot(ticket) - self.slots;
        if !looked.contains(&number) {
            self.mine.misses.store(self.mine.misses.load().saturating_add(1));
        }
        let slot = match seen && looked.contains(&number) {
            true => Some(Slot::from_word(
                block.word((1 + number - looked.start) * WORD_BYTES)?,
            )),
            false => None,
        };
        Ok((ticket, slot))
    }

    /// Draws a ticket where operations are done within the call. Returns it, and the content of its slot.
    #[inline(never)] // so that what it calls is inlined
    fn draw_at_once(&self, thread: &Thread<F>) -> Result<(u64, Slot)> {
        // Whoever sees that the ticket is drawn finds the announcement, as what is done at once is in order.
        let ticket = self.words.fetch_add(thread, NEXT, 1)?;
        let slot = self.words.glance(thread, self.slot(ticket))?;
        Ok((ticket, Slot::from_word(slot)))
    }

    /// Returns the numbers of the slots to look at. Among them is that of the next ticket if no other node has drawn one since this node
    /// did. It is the only one until other nodes have been found to draw between twice, and then there are as many as fill a line: a
    /// read of a line takes no longer than a read of a word, but has many more outcomes under the model.
    fn looked(&self) -> Range<usize> {
        let most = match self.mine.misses.load() {
            0 | 1 => 1,
            _ => (self.slot_count as usize).min(LINE_WORDS),
        };
        let expected = self.slot(self.mine.drawn.load()) - self.slots;
        let first = expected / most * most;
        first..first + most
    }

    /// Announces that this node is about to draw a ticket.
    fn announce_draw(&self, thread: &Thread<F>) -> Result<()> {
        self.announce(thread, Announcement::Drawing)
    }

    /// Notes and announces that this node drew `ticket`.
    pub(super) fn drew(&self, thread: &Thread<F>, ticket: u64) -> Result<()> {
        self.mine.drawn.store(ticket + 1);
        self.announce(thread, Announcement::Drew(ticket))
    }

    /// Returns the change of the slot of `ticket` by which this node claims it: nobody has touched it for this ticket.
    pub(super) fn claim(&self, ticket: u64) -> impl Fn(Slot) -> Option<Slot> {
        let claim = Slot::new(ticket, Stage::Claimed(self.channel.node()));
        move |old| (old.ticket < ticket).then_some(claim)
    }
}
