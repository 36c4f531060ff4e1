//! The release of the lock: the next ticket is served, and the node that waits with it gets a grant.
//!
//! The exchange that serves the next ticket is in strong order, so it takes effect after everything that the thread put to the home is
//! placed: the announcement of its ticket (`draw`), and the holder's own puts, for which no fence is needed then. A thread that hands the
//! lock to another thread of its node makes no exchange, and waits until they are placed.

use loco_fabric::{AtomicCell, Fabric, NodeId, WordCell};

use crate::fence::Scope;
use crate::objects::locks::guard::Unlock;
use crate::operations::mem_ref::MemRef;
use crate::operations::operation::{Flags, Operation};
use crate::operations::peers::is_gone;
use crate::operations::words::Begun;
use crate::{Result, Thread};

use super::slot::{Slot, Stage};
use super::{NEXT, PLAIN, STRONG, TicketLock};

/// The service of the ticket after `ticket`, which is under way.
pub(super) struct Service<'t, F: Fabric> {
    ticket: u64,
    /// Whether the next holder is told that a former one was lost.
    recovered: bool,
    /// The content of the next ticket's slot that the exchange expects.
    guess: u64,
    /// The exchange, if the expected content is one that is changed.
    begun: Option<Result<Begun<'t, F>>>,
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
        self.serve_next_from::<AFTER_WRITES>(thread, ticket, recovered, None)
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

    /// Serves as [`serve_next`](TicketLock::serve_next) does. `first` is the former content of the first slot, if that was changed
    /// already.
    fn serve_next_from<const AFTER_WRITES: bool>(
        &self,
        thread: &Thread<F>,
        ticket: u64,
        recovered: bool,
        mut first: Option<Slot>,
    ) -> Result<()> {
        let follower = &self.mine.follower;
        for next in ticket + 1.. {
            let old = match first.take() {
                Some(old) => Some(old),
                None => {
                    let service = TicketLock::service(thread, next, recovered);
                    self.change::<AFTER_WRITES>(thread, next, self.guess(next), service)?
                }
            };
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

    /// Returns true if a release to another node by this thread, which has put to `nodes` alone, needs no fence: its exchange at the
    /// home places the puts.
    pub(super) fn places(&self, nodes: &[NodeId]) -> bool {
        match self.words.by_network() {
            Some(home) => nodes.iter().all(|&node| node == home),
            None => false,
        }
    }

    /// Returns true if a release may hand the lock to another thread of this node.
    pub(super) fn may_stay(&self) -> bool {
        self.turn.may_stay(self.config.local_hand_overs_max)
    }

    /// Begins to release the lock, so that the releases of several overlap. The caller has placed what it wrote, or the exchange
    /// [places](TicketLock::places) it; then the lock does not stay on this node (`leaves`). `buffer` is for the result of the
    /// exchange. Returns `None` if another thread of this node has the lock now.
    pub(super) fn begin_release<'t>(
        &self,
        thread: &'t Thread<F>,
        buffer: MemRef<'t, F>,
        leaves: bool,
    ) -> Option<Service<'t, F>> {
        if !leaves && self.may_stay() {
            // If the home is lost, nobody looks at the announcement any more.
            let _ = self.place_announcement(thread);
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
        let recovered = self.is_in_doubt();
        let next = ticket + 1;
        let guess = self.guess(next);
        let serve = TicketLock::service(thread, next, recovered)(Slot::from_word(guess));
        let begun = serve.map(|serve| {
            let exchange = (guess, serve.to_word());
            let index = self.slot(next);
            // Strong: the announcement is placed, and what the caller put to the home.
            self.words
                .begin_compare_swap(thread, buffer, index, exchange, Flags::STRONG)
        });
        Some(Service {
            ticket,
            recovered,
            guess,
            begun,
        })
    }

    /// Finishes a release.
    pub(super) fn finish_release<'t>(
        &self,
        thread: &'t Thread<F>,
        service: Option<Service<'t, F>>,
    ) -> Result<()> {
        let Some(service) = service else {
            return thread.still_in();
        };
        let Service {
            ticket,
            recovered,
            guess,
            begun,
        } = service;
        let first = begun.map(|begun| match begun?.finish()? {
            (found, _) if found == guess => Ok(Some(Slot::from_word(guess))),
            (found, _) => {
                let service = TicketLock::service(thread, ticket + 1, recovered);
                self.change::<PLAIN>(thread, ticket + 1, found, service)
            }
        });
        let first = first.unwrap_or(Ok(None));
        let served = first.and_then(|first| self.serve_next_from::<PLAIN>(thread, ticket, recovered, first));
        self.turn.leave();
        served
    }

    /// Waits until the announcement of the ticket is placed, if this thread has drawn it. Another thread of the node may announce the
    /// next one, on another queue pair.
    fn place_announcement(&self, thread: &Thread<F>) -> Result<()> {
        match self.words.by_network() {
            Some(home) => Scope::Pair(home).order(thread),
            None => Ok(()),
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
