//! The wait for the turn of a claimed ticket: for its grant, for what its slot says after a loss, and at last for nothing, when the
//! ticket is given up.
//!
//! A waiter watches the grant word for a change. If it has changed to the grant of another ticket, that may cover the grant of its own, and
//! the waiter looks at its slot. No change is missed: the word that was looked at last was there before the ticket was claimed, or before a
//! look at the slot that found the ticket not served. The grant of the ticket arrives later in either case, no grant arrives twice, and the grants
//! of one node differ. A slot is served before its grant is posted, so the look after a grant that covers another finds that.
//!
//! Relies on `recovery` to pass over the tickets of lost nodes. Used by the calls that take the lock.

use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, FabricError, Lock, NodeId, Peers, Time, Wait, WordCell};

use super::recovery::Recovery;
use super::slot::{Slot, Stage};
use super::{NEXT, TicketLock};
use crate::operations::block::Block;
use crate::operations::counts::Count;
use crate::operations::operation::Flags;
use crate::operations::words::Pause;
use crate::{Error, Result, Thread};

/// The time between two attempts to find out what a lost node held, while others are drawing tickets.
const RECOVERY_PAUSE: Duration = Duration::from_micros(50);

/// What a waiter does after the loss of another node.
pub(super) enum AfterLoss {
    /// It has the lock. True if a holder was lost.
    Served(bool),
    /// It waits on.
    WaitOn,
    /// It gives its ticket up.
    Failed(Error),
}

impl<F: Fabric> TicketLock<F> {
    /// Waits for the turn of this node's claimed ticket. Returns true if a holder was lost. The call has waited since `since`, if that is
    /// given. At the deadline, or after an error, it gives the ticket up.
    pub(super) fn wait_for_turn(
        &self,
        thread: &Thread<F>,
        ticket: u64,
        since: Option<Time>,
        deadline: Option<Time>,
    ) -> Result<bool> {
        let (begin, deadline) = begin_and_deadline(thread, since, deadline);
        thread.counts().add(Count::LockWaits, 1);
        let mut living = Vec::new();
        loop {
            let error = match self.wait_for_grant(thread, deadline, &mut living) {
                Ok(()) => match self.after_grant(thread, ticket) {
                    Ok(Some(recovered)) => {
                        // The grant may have arrived before the others gave this node up.
                        thread.still_in()?;
                        // For the release: the node that served us no longer uses these words, unless it is
                        // drawing again.
                        self.words.prefetch(NEXT);
                        return Ok(recovered);
                    }
                    Ok(None) => continue,
                    Err(error) => error,
                },
                Err(FabricError::PeerLost(node)) if node != self.words.home() => {
                    match self.after_loss(thread, ticket, deadline) {
                        AfterLoss::Served(recovered) => return Ok(recovered),
                        AfterLoss::WaitOn => continue,
                        AfterLoss::Failed(error) => error,
                    }
                }
                Err(error) => error.into(),
            };
            if error.lost_peer() == Some(self.words.home()) {
                return Err(error);
            }
            return self.give_up(thread, ticket, error, (begin, deadline));
        }
    }

    /// Waits for a grant, as long as all participants live that are not known to hold nothing. `living` is room for their list.
    #[inline]
    fn wait_for_grant(
        &self,
        thread: &Thread<F>,
        deadline: Time,
        living: &mut Vec<NodeId>,
    ) -> std::result::Result<(), FabricError> {
        let peers = if self.mine.recovered_count.load() == 0 {
            self.channel.peers()
        } else {
            living.clear();
            self.each_living(|peer| living.push(peer));
            living.as_slice()
        };
        let wait = Wait {
            what: self.channel.name(),
            peers: Peers::These(peers),
            deadline: Some(deadline),
        };
        thread
            .fabric()
            .wait_for_arrival(wait, || self.has_grant().then_some(()))
    }

    /// Returns true if a grant has arrived since the node looked at the word.
    #[inline]
    pub(super) fn has_grant(&self) -> bool {
        self.grant.load() != self.mine.grant_seen.load()
    }

    /// Looks at the grant that has arrived last. Returns whether a holder was lost, if it is that of `ticket`. If not, it may cover that one,
    /// and the slot of the ticket tells.
    #[inline]
    pub(super) fn see_grant(&self, ticket: u64) -> Option<bool> {
        let grant = self.grant.load();
        self.mine.grant_seen.store(grant);
        (grant >> 1 == ticket + 1).then_some(grant & 1 == 1)
    }

    /// Looks at a grant that has arrived. Returns whether a holder was lost, if the ticket has the turn.
    #[inline]
    fn after_grant(&self, thread: &Thread<F>, ticket: u64) -> Result<Option<bool>> {
        match self.see_grant(ticket) {
            Some(recovered) => Ok(Some(recovered)),
            None => self.after_other_grant(thread, ticket),
        }
    }

    #[cold]
    fn after_other_grant(&self, thread: &Thread<F>, ticket: u64) -> Result<Option<bool>> {
        // Not a `peek`: the exchange that has served the ticket has ended, and may not be placed.
        let slot = self.words.read(thread, self.slot(ticket))?;
        Ok(Slot::from_word(slot).turn_of(ticket))
    }

    /// Begins to look at the slot of a claimed ticket, after the grant of another one, so that other steps of the thread overlap. The
    /// first word of `block` gets its content.
    #[cold]
    pub(super) fn begin_look(&self, thread: &Thread<F>, block: &mut Block<F>, ticket: u64) -> Result<()> {
        let claim = Slot::new(ticket, Stage::Claimed(self.channel.node())).to_word();
        // An exchange that changes nothing, since a get could miss the one that has served the ticket.
        self.words
            .begin_compare_swap(thread, block, self.slot(ticket), (claim, claim), Flags::default())
    }

    /// Returns true if `node` is lost and known to hold nothing.
    pub(super) fn has_recovered(&self, node: NodeId) -> bool {
        self.mine.recovered.lock().contains(&node)
    }

    /// Calls `each` with every participant that is not known to hold nothing.
    pub(super) fn each_living(&self, mut each: impl FnMut(NodeId)) {
        let recovered = self.mine.recovered.lock();
        let peers = self.channel.peers().iter().copied();
        peers.filter(|peer| !recovered.contains(peer)).for_each(&mut each);
    }

    /// Looks at the slot after the loss of another node than the home, and passes over the tickets of lost nodes.
    #[cold]
    pub(super) fn after_loss(&self, thread: &Thread<F>, ticket: u64, deadline: Time) -> AfterLoss {
        // The node that served us may have been lost before it sent the grant.
        match self.served(thread, ticket) {
            Ok(Some(recovered)) => return AfterLoss::Served(recovered),
            Ok(None) => {}
            Err(error) => return AfterLoss::Failed(error),
        }
        let outcome = match self.recover(thread) {
            Ok(Recovery::Done) => Ok(()),
            Ok(Recovery::NotYet { index, seen }) => {
                let pause = Pause {
                    what: self.channel.name(),
                    on: self.words.home(),
                    time: RECOVERY_PAUSE,
                    deadline,
                };
                self.words.pause(thread, pause, index, &seen)
            }
            Err(error) => Err(error),
        };
        outcome.map_or_else(AfterLoss::Failed, |()| AfterLoss::WaitOn)
    }

    /// Gives the ticket up for `error`, which it returns, unless the ticket was served at the last moment. If that fails too, as it does in
    /// an outage, the node [keeps](TicketLock::keep) the ticket.
    #[cold]
    pub(super) fn give_up(
        &self,
        thread: &Thread<F>,
        ticket: u64,
        error: Error,
        (begin, deadline): (Time, Time),
    ) -> Result<bool> {
        let abandoned = Slot::new(ticket, Stage::Abandoned);
        let claim = Slot::new(ticket, Stage::Claimed(self.channel.node()));
        let exchanged =
            self.words
                .compare_swap(thread, self.slot(ticket), claim.to_word(), abandoned.to_word());
        if exchanged.is_err() {
            self.keep(ticket);
        }
        let old = exchanged?;
        if old == claim.to_word() {
            self.mine.abandoned.store(ticket + 1);
            let error = error.since(begin, deadline, thread.now());
            return Err(match error.is_timeout() {
                true => self.name_holder(thread, error),
                false => error,
            });
        }
        let old = Slot::from_word(old);
        if old.ticket != ticket || !old.is_served() {
            // The ticket was skipped: to the others this node was lost.
            return Err(error);
        }
        // The ticket was served at the last moment. Its grant comes later.
        Ok(old.stage == Stage::Recovered)
    }
}

/// Returns the beginning of a call and its deadline. Reads the clock only if one of the two is not given.
#[inline]
fn begin_and_deadline<F: Fabric>(
    thread: &Thread<F>,
    since: Option<Time>,
    deadline: Option<Time>,
) -> (Time, Time) {
    if let (Some(begin), Some(deadline)) = (since, deadline) {
        return (begin, deadline);
    }
    let now = thread.now();
    let patience = thread.network().default_patience();
    (
        since.unwrap_or(now),
        deadline.unwrap_or_else(|| now.after(patience)),
    )
}
