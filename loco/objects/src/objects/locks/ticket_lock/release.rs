//! The release of the lock: the next ticket is served, and the node that waits with it gets a grant.
//!
//! The exchange that serves the next ticket is in strong order, so it takes effect after everything that the thread put to the home is
//! placed: the announcement of its ticket (`draw`), and the holder's own puts, for which no fence is needed then. A thread that hands the
//! lock to another thread of its node makes no exchange, and waits until they are placed.

use loco_fabric::{AtomicCell, Fabric, NodeId, WordCell};

use crate::fence::{self, Scope};
use crate::objects::locks::guard::Unlock;
use crate::operations::block::Block;
use crate::operations::operation::{Flags, Operation};
use crate::operations::peers::is_gone;
use crate::{Result, Thread};

use super::slot::{Slot, Stage};
use super::{NEXT, STRONG, TicketLock};

/// What is placed when a release begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// Its exchange [places](TicketLock::places_and_leaves) what the holder wrote, so the lock does not stay on this node.
    Places,
    /// The holder has placed what it wrote, and, if `announced`, the announcement of its ticket.
    Placed { announced: bool },
}

/// The service of the ticket after that of this node, which is under way on a block.
pub(super) struct Service {
    /// The ticket to be served.
    next: u64,
    /// Whether the next holder is told that a former one was lost.
    recovered: bool,
    /// The content of its slot that the exchange expects.
    expected: u64,
}

impl<F: Fabric> TicketLock<F> {
    /// Serves the ticket after `ticket`, and skips tickets that were given up or lost. With `AFTER_WRITES` it is served after this
    /// thread's earlier writes at the home.
    pub(super) fn serve_next<const AFTER_WRITES: bool>(
        &self,
        thread: &Thread<F>,
        ticket: u64,
        recovered: bool,
    ) -> Result<()> {
        for next in ticket + 1.. {
            let service = TicketLock::service(thread, next, recovered);
            let old = self.change::<AFTER_WRITES>(thread, next, self.guess(next), service)?;
            if let Some(outcome) = self.served_one(thread, next, old, recovered) {
                return outcome;
            }
        }
        Ok(())
    }

    /// Returns the likely content of the slot of `next`, the ticket to be served.
    pub(super) fn guess(&self, next: u64) -> u64 {
        match self.mine.follower.load().checked_sub(1) {
            Some(id) => Slot::new(next, Stage::Claimed(NodeId(id as u16))).to_word(),
            None => self.untouched(next),
        }
    }

    /// Returns the change of the slot of `next` by which it is served, or skipped if it was given up or lost.
    #[inline]
    pub(super) fn service<'a>(
        thread: &'a Thread<F>,
        next: u64,
        recovered: bool,
    ) -> impl Fn(Slot) -> Option<Slot> + use<'a, F> {
        let stage = if recovered {
            Stage::Recovered
        } else {
            Stage::Served
        };
        let (served, skipped) = (Slot::new(next, stage), Slot::new(next, Stage::Skipped));
        move |old| match old.stage {
            _ if old.ticket < next => Some(served),
            Stage::Claimed(node) if is_gone(thread.fabric(), node) => Some(skipped),
            Stage::Claimed(_) => Some(served),
            Stage::Abandoned => Some(skipped),
            // Another node recovers at the same time.
            Stage::Served | Stage::Recovered | Stage::Skipped => None,
        }
    }

    /// Ends the service of `next`, whose slot had the content `old` before it was changed. Returns `None` if the ticket was passed over,
    /// and the one after it is to be served.
    #[inline(always)] // a few instructions, where nobody waits
    fn served_one(
        &self,
        thread: &Thread<F>,
        next: u64,
        old: Option<Slot>,
        recovered: bool,
    ) -> Option<Result<()>> {
        let waited = match old {
            Some(Slot {
                ticket,
                stage: Stage::Claimed(node),
            }) if ticket == next => u32::from(node.0) + 1,
            _ => 0,
        };
        self.mine.follower.store(waited);
        match old {
            Some(old) if old.ticket == next => match old.stage {
                Stage::Claimed(node) if is_gone(thread.fabric(), node) => {}
                Stage::Claimed(node) => match self.send_grant(thread, node, next, recovered) {
                    Err(error) if error.lost_peer() == Some(node) => {}
                    outcome => return Some(outcome),
                },
                Stage::Served | Stage::Recovered => return Some(Ok(())),
                Stage::Abandoned | Stage::Skipped => {}
            },
            _ => return Some(Ok(())),
        }
        None
    }

    /// Returns true if a release to another node by this thread, which has put to `nodes` alone, needs no fence: its exchange at the
    /// home places the puts.
    pub(super) fn places(&self, nodes: &[NodeId]) -> bool {
        match self.words.by_network() {
            Some(home) => nodes.iter().all(|&node| node == home),
            None => false,
        }
    }

    /// Returns true if a release by this thread, which has put to `nodes` alone, [places](TicketLock::places) the puts and gives the lock to
    /// no other thread of this node.
    pub(crate) fn places_and_leaves(&self, nodes: &[NodeId]) -> bool {
        self.places(nodes) && !self.may_stay()
    }

    /// Returns true if a release may hand the lock to another thread of this node.
    pub(super) fn may_stay(&self) -> bool {
        self.turn.may_stay(self.config.local_hand_overs_max)
    }

    /// Returns the node at which the announcement of the ticket must be placed before a release, since that may hand the lock to another
    /// thread of this node.
    pub(crate) fn announced_at(&self) -> Option<NodeId> {
        self.words.by_network().filter(|_| self.may_stay())
    }

    /// Begins to release the lock, so that other steps of the thread overlap. `block` is for the result of the exchange. Returns `None` if
    /// another thread of this node has the lock now.
    pub(super) fn begin_release(
        &self,
        thread: &Thread<F>,
        block: &mut Block<F>,
        how: Release,
    ) -> Option<Result<Service>> {
        if how != Release::Places && self.may_stay() {
            // Rare: the other thread has come since the fences began.
            if how != (Release::Placed { announced: true }) {
                self.place_only_announcement(thread);
            }
            self.channel.shown().release();
            if self.turn.hand_over() {
                return None;
            }
        } else {
            self.channel.shown().release();
        }
        // Whoever holds the lock and did not get it from a thread of this node has a ticket.
        let ticket = self.mine.held.load().saturating_sub(1);
        self.mine.held.store(0);
        let next = ticket + 1;
        let service = Service {
            next,
            recovered: self.is_in_doubt(),
            expected: self.guess(next),
        };
        // Strong: the announcement is placed, and what the caller put to the home.
        let begun = self.begin_service(thread, block, &service, Flags::STRONG);
        Some(begun.map(|()| service))
    }

    /// Begins to change the slot of the ticket to be served from what is expected there. If that is to stay, the exchange is over at once.
    fn begin_service(
        &self,
        thread: &Thread<F>,
        block: &mut Block<F>,
        service: &Service,
        flags: Flags,
    ) -> Result<()> {
        let expected = service.expected;
        let serve = TicketLock::service(thread, service.next, service.recovered);
        match serve(Slot::from_word(expected)) {
            None => block.set_word(0, expected),
            Some(slot) => {
                let index = self.slot(service.next);
                self.words
                    .begin_compare_swap(thread, block, index, (expected, slot.to_word()), flags)
            }
        }
    }

    /// Goes on with a release as far as it can without a wait. Returns `None` if it is under way still.
    pub(super) fn go_on_releasing(
        &self,
        thread: &Thread<F>,
        block: &mut Block<F>,
        service: &mut Service,
    ) -> Option<Result<()>> {
        loop {
            let found = match block.result(thread)? {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            if found != service.expected {
                service.expected = found;
            } else {
                let old = Some(Slot::from_word(found));
                let served = self.served_one(thread, service.next, old, service.recovered);
                if served.is_some() {
                    return served;
                }
                service.next += 1;
                service.expected = self.guess(service.next);
            }
            // Plain: the first exchange has placed what had to be.
            if let Err(error) = self.begin_service(thread, block, service, Flags::default()) {
                return Some(Err(error));
            }
        }
    }

    /// Waits until the announcement of the ticket is placed, if this thread has drawn it. Another thread of the node may announce the
    /// next one, on another queue pair.
    fn place_announcement(&self, thread: &Thread<F>) -> Result<()> {
        match self.words.by_network() {
            Some(home) => Scope::Pair(home).order(thread),
            None => Ok(()),
        }
    }

    /// Waits as [`place_announcement`](TicketLock::place_announcement) does, and leaves a failure for the thread's next fence. If the home is
    /// lost, nobody looks at the announcement any more.
    fn place_only_announcement(&self, thread: &Thread<F>) {
        if let Some(home) = self.words.by_network()
            && let Ok(fence) = fence::begin(thread, home)
            && fence.wait(thread).is_err()
        {
            fence::leave_failure(thread, home, &fence);
        }
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
        let may_stay = self.may_stay();
        let fenced = match may_stay {
            true => thread.to_the_end(|| scope.order(thread).and(self.place_announcement(thread))),
            // The exchange follows, which places what was put to the home.
            false => thread.to_the_end(|| scope.fence_before_rmw(thread, self.words.by_network())),
        };
        self.channel.shown().release();
        // A thread that waited may have given up during the fence. The lock then leaves the node after all.
        if may_stay && self.turn.hand_over() {
            return fenced.and(thread.still_in());
        }
        let mut failed = None;
        if let Some(ticket) = self.mine.held.load().checked_sub(1) {
            self.mine.held.store(0);
            let recovered = self.is_in_doubt();
            // Strong: the announcement is placed, and what the holder put to the home.
            failed = thread
                .to_the_end(|| self.serve_next::<STRONG>(thread, ticket, recovered))
                .err();
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
