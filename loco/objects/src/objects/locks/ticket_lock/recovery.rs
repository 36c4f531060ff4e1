//! Finds the tickets that a lost node held, on behalf of the nodes that wait.
//!
//! A node announces `Drawing` at the home before it draws a ticket, and afterwards the ticket that it drew. Each of these is
//! placed before its next read-modify-write. If a ticket has been drawn and not been served to the end, its owner is
//! therefore a node whose announcement is `Drawing` or that ticket. If no live node has announced either, a lost node owns
//! it.
//!
//! This needs a read order: first the next ticket, then the announcements, then the slots. A live node that has
//! changed its announcement since was done with the ticket before the slots were read, so they show that a later ticket is
//! served.

use loco_fabric::{AtomicCell, Fabric, Lock, NodeId};

use crate::objects::locks::guard::holds;
use crate::operations::peers::is_gone;
use crate::{Error, Parent, Result, Thread};

use super::slot::{Announcement, Slot, Stage};
use super::{LINE_WORDS, NEXT, PLAIN, TicketLock};

/// The progress of the recovery of the tickets that lost nodes held.
pub(super) enum Recovery {
    /// Every ticket of the lost nodes is skipped or passed on.
    Done,
    /// A live node is drawing or serving a ticket. These words of the lock, with the contents of the last look, will
    /// change when it is done.
    NotYet { index: usize, seen: Vec<u64> },
}

impl<F: Fabric> TicketLock<F> {
    /// Names the node that holds the lock in a timeout, if the home shows it. The words may change meanwhile, and then
    /// show nobody.
    #[cold]
    pub(super) fn name_holder(&self, thread: &Thread<F>, late: Error) -> Error {
        let nodes = self.channel.participants();
        let mut words = vec![0; self.announcements + nodes.nodes().len() * LINE_WORDS];
        // The first look makes sure that the second has this node's own changes.
        let looks = self.words.peek(thread, NEXT);
        if looks
            .and_then(|_| self.words.read_many(thread, 0, &mut words))
            .is_err()
        {
            return late;
        }
        let slots = &words[self.slots..][..self.slot_count as usize];
        let serving = self.serving(words[NEXT], slots);
        let announced = words[self.announcements..].iter().step_by(LINE_WORDS);
        let mut announcements = nodes
            .nodes()
            .iter()
            .zip(announced.map(|&word| Announcement::from_word(word)));
        let holder =
            serving.and_then(|serving| announcements.find(|&(_, said)| said == Announcement::Drew(serving)));
        match holder {
            Some((&holder, _)) => late.because(&[holder], holds(holder, self.channel.name())),
            None => late,
        }
    }

    /// Returns the last ticket that `slots`, the words of all slots, show as served, when `next` is drawn next.
    fn serving(&self, next: u64, slots: &[u64]) -> Option<u64> {
        let first = (next + 1).saturating_sub(self.slot_count);
        (first..=next).rev().find(|&ticket| {
            let slot = Slot::from_word(slots[(ticket & (self.slot_count - 1)) as usize]);
            slot.ticket == ticket && slot.is_served()
        })
    }

    /// Skips the tickets of lost nodes. If one of them held the lock, passes it on or poisons it.
    ///
    /// # Errors
    /// Returns `HolderLost`, or `PeerLost` if the home is gone.
    pub(super) fn recover(&self, thread: &Thread<F>) -> Result<Recovery> {
        let participants = self.channel.participants();
        let nodes = participants.nodes();
        let gone: Vec<NodeId> = nodes
            .iter()
            .copied()
            .filter(|&node| is_gone(thread.fabric(), node))
            .collect();

        // From here on, looks have this node's own changes.
        let next = self.words.peek(thread, NEXT)?;
        // Each node has a line, whose first word counts.
        let mut lines = vec![0; nodes.len() * LINE_WORDS];
        self.words.read_many(thread, self.announcements, &mut lines)?;
        let announced = lines.iter().step_by(LINE_WORDS);
        let mut slots = vec![0; self.slot_count as usize];
        self.words.read_many(thread, self.slots, &mut slots)?;

        let announcements = nodes
            .iter()
            .zip(announced.map(|&word| Announcement::from_word(word)));
        let (lost, live): (Vec<_>, Vec<_>) = announcements.partition(|(node, _)| gone.contains(node));
        if live.iter().any(|&(_, said)| said == Announcement::Drawing) {
            return Ok(Recovery::NotYet {
                index: self.announcements,
                seen: lines,
            });
        }
        let lives = |ticket| live.iter().any(|&(_, said)| said == Announcement::Drew(ticket));
        let Some(serving) = self.serving(next, &slots) else {
            return Ok(Recovery::NotYet {
                index: self.slots,
                seen: slots,
            });
        };
        // Tickets of lost waiters come first, so that the lock is not passed to them.
        for ticket in serving + 1..next {
            if !lives(ticket) {
                let skipped = Slot::new(ticket, Stage::Skipped);
                let old = self.change::<PLAIN>(thread, ticket, self.untouched(ticket), |old| {
                    let waits = old.ticket < ticket || matches!(old.stage, Stage::Claimed(_));
                    waits.then_some(skipped)
                })?;
                // A live holder was done in between and served the ticket. That ticket is then the one to be passed
                // on.
                if old.is_some_and(|old| old.ticket == ticket && old.is_served()) {
                    return Ok(Recovery::NotYet {
                        index: self.slots,
                        seen: slots,
                    });
                }
            }
        }
        if serving < next && !lives(serving) {
            let holder = lost
                .iter()
                .find(|&&(_, said)| said == Announcement::Drew(serving))
                .or_else(|| lost.iter().find(|&&(_, said)| said == Announcement::Drawing));
            if let Some(&(&holder, _)) = holder {
                self.poison
                    .lose(self.channel.name(), holder, self.config.on_loss)?;
                self.serve_next::<PLAIN>(thread, serving, true)?;
            }
        }
        // Only the thread whose turn it is writes this, like all of `mine`.
        self.mine.recovered_count.store(gone.len() as u32);
        *self.mine.recovered.lock() = gone;
        Ok(Recovery::Done)
    }
}
