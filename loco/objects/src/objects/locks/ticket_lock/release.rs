//! The release of the lock: the next ticket is served, and the node that waits with it gets a grant.

use loco_fabric::{AtomicCell, Fabric, NodeId, WordCell};

use crate::fence::Scope;
use crate::objects::locks::guard::Unlock;
use crate::operations::operation::{Flags, Operation};
use crate::operations::peers::is_gone;
use crate::{Result, Thread};

use super::slot::{Slot, Stage};
use super::{NEXT, PLAIN, TicketLock};

impl<F: Fabric> TicketLock<F> {
    /// Serves the ticket after `ticket`, and skips tickets that were given up or lost.
    pub(super) fn serve_next(&self, thread: &Thread<F>, ticket: u64, recovered: bool) -> Result<()> {
        let follower = &self.mine.follower;
        let stage = if recovered {
            Stage::Recovered
        } else {
            Stage::Served
        };
        for next in ticket + 1.. {
            let skipped = Slot::new(next, Stage::Skipped);
            let served = Slot::new(next, stage);
            let guess = match follower.load().checked_sub(1) {
                Some(id) => Slot::new(next, Stage::Claimed(NodeId(id as u16))).to_word(),
                None => self.untouched(next),
            };
            let old = self.change::<PLAIN>(thread, next, guess, |old| match old.stage {
                _ if old.ticket < next => Some(served),
                Stage::Claimed(node) if is_gone(thread.fabric(), node) => Some(skipped),
                Stage::Claimed(_) => Some(served),
                Stage::Abandoned => Some(skipped),
                // Another node recovers at the same time.
                Stage::Served | Stage::Recovered | Stage::Skipped => None,
            })?;
            let waited = match old {
                Some(Slot {
                    ticket,
                    stage: Stage::Claimed(node),
                }) if ticket == next => u32::from(node.0) + 1,
                _ => 0,
            };
            follower.store(waited);
            match old {
                Some(old) if old.ticket == next => match old.stage {
                    Stage::Claimed(node) if is_gone(thread.fabric(), node) => {}
                    Stage::Claimed(node) => match self.send_grant(thread, node, next, recovered) {
                        Err(error) if error.lost_peer() == Some(node) => {}
                        outcome => return outcome,
                    },
                    Stage::Served | Stage::Recovered => return Ok(()),
                    Stage::Abandoned | Stage::Skipped => {}
                },
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn send_grant(&self, thread: &Thread<F>, node: NodeId, ticket: u64, recovered: bool) -> Result<()> {
        let word = ((ticket + 1) << 1) | u64::from(recovered);
        if node == self.channel.node() {
            self.grant.store(word);
            thread.ring();
            return Ok(());
        }
        let remote = self.grant_region.remote(node)?;
        let target = loco_fabric::Target { remote, offset: 0 };
        let put = Operation::PutInline(&word.to_ne_bytes(), target);
        thread.post_untracked(&put, Flags::default())
    }
}

impl<F: Fabric> Unlock<F> for TicketLock<F> {
    fn unlock(&self, thread: &Thread<F>, scope: Scope) -> Result<()> {
        let _call = thread.call(self.channel.name(), "release");
        // The word is fetched while the fence waits.
        self.words.prefetch(NEXT);
        let may_stay = self.turn.may_stay(self.config.local_hand_overs_max);
        let fenced = match may_stay {
            true => thread.to_the_end(|| scope.order(thread)),
            false => thread.to_the_end(|| scope.fence_before_rmw(thread)),
        };
        self.channel.shown().release();
        // A thread that waited may have given up during the fence. The lock then leaves the node after all.
        if may_stay && self.turn.hand_over() {
            return fenced.and(thread.still_in());
        }
        let mut failed = None;
        if let Some(ticket) = self.mine.held.load().checked_sub(1) {
            self.mine.held.store(0);
            failed = thread.to_the_end(|| self.serve_next(thread, ticket, false)).err();
        }
        self.turn.leave();
        // The result is looked at, not copied: see `PutOp`.
        fenced?;
        match failed {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn name(&self) -> &str {
        self.channel.name()
    }
}
