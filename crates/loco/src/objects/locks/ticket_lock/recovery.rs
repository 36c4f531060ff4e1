//! What a lost node held, found out by those that wait.
//!
//! A node says `Taking` at the home before it draws a ticket, and afterwards which one it drew; each is placed before its
//! next read-modify-write. So of a ticket that has been drawn and not been served to the end, the owner is a node that
//! says `Taking` or says that ticket. If no live node does, a lost one owns it. (The next ticket is read first, then
//! what the nodes say, then the slots: a live node that says something else by then was done with the ticket
//! before the slots were read, which then show a later one served.)

use loco_fabric::{AtomicCell, Fabric, Lock, NodeId};

use crate::operations::peers::is_gone;
use crate::{Parent, Result, Thread};

use super::slot::{Says, Slot, Stage};
use super::{LINE_WORDS, NEXT, TicketLock};

/// Whether it is known what the lost nodes held.
pub(super) enum Settled {
    Yes,
    /// A live node is drawing a ticket, or serving one: these words of the lock, which the last look found so, will tell.
    NotYet {
        index: usize,
        seen: Vec<u64>,
    },
}

impl<F: Fabric> TicketLock<F> {
    /// Passes over the tickets of lost nodes, and passes on or poisons the lock if one of them held it.
    ///
    /// # Errors
    /// `HolderLost`; `PeerLost` if the home is gone.
    pub(super) fn settle(&self, thread: &Thread<F>) -> Result<Settled> {
        let participants = self.channel.participants();
        let nodes = participants.nodes();
        let gone: Vec<NodeId> = nodes
            .iter()
            .copied()
            .filter(|&node| is_gone(thread.fabric(), node))
            .collect();

        let next = self.words.peek(thread, NEXT)?;
        // A line each, of which the first word counts.
        let mut lines = vec![0; nodes.len() * LINE_WORDS];
        self.words.read_many(thread, self.says, &mut lines)?;
        let said = lines.iter().step_by(LINE_WORDS);
        let mut slots = vec![0; self.slot_count as usize];
        self.words.read_many(thread, self.slots, &mut slots)?;

        let says = nodes.iter().zip(said.map(|&word| Says::from_word(word)));
        let (lost, live): (Vec<_>, Vec<_>) = says.partition(|(node, _)| gone.contains(node));
        if live.iter().any(|&(_, says)| says == Says::Taking) {
            return Ok(Settled::NotYet {
                index: self.says,
                seen: lines,
            });
        }
        let lives = |ticket| live.iter().any(|&(_, says)| says == Says::Has(ticket));
        let slot_of = |ticket: u64| {
            let slot = Slot::from_word(slots[(ticket & (self.slot_count - 1)) as usize]);
            (slot.ticket == ticket).then_some(slot)
        };
        let first = (next + 1).saturating_sub(self.slot_count);
        let serving = (first..=next)
            .rev()
            .find(|&ticket| slot_of(ticket).is_some_and(Slot::is_served));
        let Some(serving) = serving else {
            return Ok(Settled::NotYet {
                index: self.slots,
                seen: slots,
            });
        };
        // First those that wait in vain, so that the lock is not passed to them.
        for ticket in serving + 1..next {
            if !lives(ticket) {
                let skipped = Slot::new(ticket, Stage::Skipped);
                let old = self.change(thread, ticket, self.untouched(ticket), |old| {
                    let waits = old.ticket < ticket || matches!(old.stage, Stage::Claimed(_));
                    waits.then_some(skipped)
                })?;
                // A live holder was done in between and served it: so it is what has to be passed on.
                if old.is_some_and(|old| old.ticket == ticket && old.is_served()) {
                    return Ok(Settled::NotYet {
                        index: self.slots,
                        seen: slots,
                    });
                }
            }
        }
        if serving < next && !lives(serving) {
            let holder = lost
                .iter()
                .find(|&&(_, says)| says == Says::Has(serving))
                .or_else(|| lost.iter().find(|&&(_, says)| says == Says::Taking));
            if let Some(&(&holder, _)) = holder {
                self.poison
                    .lose(self.channel.name(), holder, self.config.on_loss)?;
                self.serve_next(thread, serving, true)?;
            }
        }
        // Only for the thread whose turn it is, as all of `mine`.
        self.mine.settled_count.store(gone.len() as u32);
        *self.mine.settled.lock() = gone;
        Ok(Settled::Yes)
    }
}
