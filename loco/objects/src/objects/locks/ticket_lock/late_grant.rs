//! The grant that comes after its ticket was used.
//!
//! A waiter that gives up, or looks at its slot after a loss, may find its ticket served. It has the lock then, and does not wait for the
//! grant: the thread that sends it may have something else to do first. But a grant that came while the node waits with its next ticket would
//! cover the grant of that one, which another node sends. So the grant is *due*: the node draws no ticket until it has arrived, or never
//! will. Nobody waits for the node meanwhile, and its wait ends at its deadline as one in the line does.
//!
//! The *sender* of a grant that may not be posted yet is the live node that announces the ticket served before. Is there none, then the grant
//! is posted, or its sender was lost. If no participant is lost, it arrives. Otherwise it is waited for as long as a message may be under way.
//!
//! Used by the calls that take the lock (`mod`, `waiting`, `acquisition`).

use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, FabricError, NodeId, Peers, Time, Wait};

use super::slot::{Announcement, Slot, Stage};
use super::waiting::begin_and_deadline;
use super::{LINE_WORDS, TicketLock};
use crate::operations::counts::Count;
use crate::operations::peers::is_gone;
use crate::{Error, Parent as _, Result, Thread};

/// The time for which a grant may be under way that was posted before some node was lost.
const LATE_GRANT: Duration = Duration::from_millis(100);

impl<F: Fabric> TicketLock<F> {
    /// Takes note that this node uses `ticket`, which is served according to its slot, whether or not the grant has arrived.
    #[cold]
    pub(super) fn use_before_grant(&self, thread: &Thread<F>, ticket: u64) {
        if self.granted(ticket).is_some() {
            return;
        }
        // If the home cannot be read, nobody sends a grant of this lock any more.
        let sender = self.sender(thread, ticket).unwrap_or(None);
        self.mine
            .due_from
            .store(sender.map_or(0, |node| u32::from(node.0) + 1));
        self.mine.due.store(ticket + 1);
    }

    /// Returns true if no grant is due: it has arrived, or never will. Waits for a while if only that can tell.
    #[inline]
    pub(super) fn may_draw(&self, thread: &Thread<F>) -> bool {
        match self.mine.due.load().checked_sub(1) {
            None => true,
            Some(ticket) => self.may_draw_after(thread, ticket),
        }
    }

    #[cold]
    fn may_draw_after(&self, thread: &Thread<F>, ticket: u64) -> bool {
        if self.granted(ticket).is_none() {
            match self.due_sender() {
                // What a lost node had under way arrived before the loss is told, or never arrives.
                Some(sender) if is_gone(thread.fabric(), sender) => {}
                Some(_) => return false,
                None => {
                    let mut peers = self.channel.peers().iter();
                    if !peers.any(|&peer| is_gone(thread.fabric(), peer)) {
                        return false;
                    }
                    self.await_posted_grant(thread, ticket);
                }
            }
        }
        self.mine.due.store(0);
        true
    }

    /// Returns true if the grant that is due has arrived.
    pub(super) fn has_due_grant(&self) -> bool {
        let due = self.mine.due.load().checked_sub(1);
        due.is_none_or(|ticket| self.granted(ticket).is_some())
    }

    /// Calls `each` with the nodes whose loss may tell that the grant that is due never arrives, and with the home.
    pub(super) fn each_of_due(&self, mut each: impl FnMut(NodeId)) {
        match self.due_sender() {
            Some(sender) => {
                each(sender);
                if sender != self.words.home() {
                    each(self.words.home());
                }
            }
            None => self.channel.peers().iter().copied().for_each(each),
        }
    }

    /// Waits until this node may draw a ticket, for a call that has waited since `since`, if that is given.
    ///
    /// # Errors
    /// Returns `Timeout`, and the loss of the home.
    #[inline]
    pub(super) fn wait_to_draw(
        &self,
        thread: &Thread<F>,
        since: Option<Time>,
        deadline: Option<Time>,
    ) -> Result<()> {
        match self.may_draw(thread) {
            true => Ok(()),
            false => self.wait_for_due_grant(thread, since, deadline),
        }
    }

    #[cold]
    fn wait_for_due_grant(
        &self,
        thread: &Thread<F>,
        since: Option<Time>,
        deadline: Option<Time>,
    ) -> Result<()> {
        let (begin, deadline) = begin_and_deadline(thread, since, deadline);
        thread.counts().add(Count::LockWaits, 1);
        while !self.may_draw(thread) {
            let mut peers = Vec::new();
            self.each_of_due(|peer| peers.push(peer));
            let wait = Wait {
                what: self.channel.name(),
                peers: Peers::These(&peers),
                deadline: Some(deadline),
            };
            let arrived = || self.has_due_grant().then_some(());
            match thread.fabric().wait_for_arrival(wait, arrived) {
                Ok(()) => {}
                Err(FabricError::PeerLost(node)) if node != self.words.home() => {}
                Err(FabricError::Timeout { .. }) => return Err(self.grant_late(thread, (begin, deadline))),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the error of a call that began and ends at these times, and waited for the grant that is due.
    #[cold]
    pub(super) fn grant_late(&self, thread: &Thread<F>, (begin, deadline): (Time, Time)) -> Error {
        let error = Error::timeout(self.channel.name(), begin, deadline, thread.now());
        match self.due_sender() {
            Some(sender) => error.because(
                &[sender],
                format!(
                    "{sender} has served lock {} to this node and not said so; its thread must ask for its updates",
                    self.channel.name()
                ),
            ),
            None => error,
        }
    }

    fn due_sender(&self) -> Option<NodeId> {
        let from = self.mine.due_from.load().checked_sub(1);
        from.map(|id| NodeId(id as u16))
    }

    /// Returns the live node that has served `ticket` and may not have posted its grant.
    ///
    /// # Errors
    /// Returns the errors of looks at the home.
    fn sender(&self, thread: &Thread<F>, ticket: u64) -> Result<Option<NodeId>> {
        let mut before = ticket;
        loop {
            let Some(former) = before.checked_sub(1) else {
                return Ok(None);
            };
            before = former;
            let slot = Slot::from_word(self.words.read(thread, self.slot(before))?);
            // The slot is used again: so many have drawn since that its former owner is among them, unless most had given up.
            if slot.ticket != before {
                return Ok(None);
            }
            if slot.stage != Stage::Skipped {
                break;
            }
        }
        // The announcement was placed before the slot of `ticket` was changed. Who has left the turn announces something else.
        let participants = self.channel.participants();
        let nodes = participants.nodes();
        let mut lines = vec![0; nodes.len() * LINE_WORDS];
        self.words.read_many(thread, self.announcements, &mut lines)?;
        let announced = lines.iter().step_by(LINE_WORDS);
        let mut said = nodes
            .iter()
            .zip(announced.map(|&word| Announcement::from_word(word)));
        let sender = said.find(|&(_, said)| said == Announcement::Drew(before));
        Ok(sender
            .map(|(&node, _)| node)
            .filter(|&node| !is_gone(thread.fabric(), node)))
    }

    /// Waits for a grant that was posted, or whose sender was lost before it posted it. A grant that never arrives covers nothing.
    fn await_posted_grant(&self, thread: &Thread<F>, ticket: u64) {
        let late = thread.now().after(LATE_GRANT);
        let wait = Wait {
            what: self.channel.name(),
            peers: Peers::None,
            deadline: Some(late),
        };
        let granted = || self.granted(ticket).map(drop);
        // A call that was given up waits as long.
        while thread.fabric().wait(wait, granted).is_err() && thread.given_up() && thread.now() < late {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{AnyConfig, AnyFabric, FabricChoice};
    use crate::fence::Scope;
    use crate::objects::locks::ticket_lock::{Acquisition, Progress, Release};
    use crate::{Barrier, Manager, testing};

    /// Takes steps of `acquisition` until the lock is held, or the acquisition is over.
    fn finish(
        lock: &TicketLock<AnyFabric>,
        thread: &Thread,
        acquisition: &mut Acquisition<AnyFabric>,
        mut progress: Progress,
    ) -> Progress {
        while matches!(progress, Progress::UnderWay) {
            progress = match acquisition.is_in_step() {
                true => acquisition.wait_for_step(thread).map_or_else(
                    |error| Progress::Over(Err(error)),
                    |()| acquisition.go_on(lock, thread),
                ),
                false => acquisition.go_on(lock, thread),
            };
        }
        progress
    }

    /// Gives up at once, though a step may be under way.
    fn give_up(
        lock: &TicketLock<AnyFabric>,
        thread: &Thread,
        acquisition: &mut Acquisition<AnyFabric>,
    ) -> Progress {
        let now = thread.now();
        acquisition.give_up(lock, thread, (now, now))
    }

    /// Node 0 serves the ticket of node 1, and sends the grant only after node 1 has used the lock and asked for it again.
    #[test]
    fn a_waiter_uses_its_turn_before_the_grant_and_draws_after_it() {
        // Over shared memory a release is over at once.
        let config = AnyConfig::default().choice(FabricChoice::Tcp);
        let bring_up = |mesh| AnyFabric::new(mesh, config.clone());
        testing::run_on(2, bring_up, |fabric| {
            let manager = Manager::new(fabric)?;
            // What node 0 does there has ended only when its thread has waited.
            let lock = TicketLock::new(&manager, "lock", manager.nodes()[1])?;
            let bar = Barrier::new(&manager, "bar")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            for _ in 0..10 {
                if manager.node().0 == 0 {
                    let (mut mine, begun) = Acquisition::begin(&lock, &thread)?;
                    assert!(matches!(
                        finish(&lock, &thread, &mut mine, begun),
                        Progress::Holds(_)
                    ));
                    bar.wait(&thread)?;
                    bar.wait(&thread)?; // node 1 has claimed the next ticket
                    let next = AtomicCell::load(&lock.mine.held);
                    let mut released = mine.release(&lock, &thread, Release::Placed { announced: false });
                    loop {
                        assert!(
                            matches!(released, Progress::UnderWay),
                            "the exchange is under way"
                        );
                        mine.wait_for_step(&thread)?;
                        let slot = Slot::from_word(lock.words.read(&thread, lock.slot(next))?);
                        if slot.turn_of(next).is_some() {
                            break;
                        }
                        // It has expected that nobody waits.
                        released = mine.go_on(&lock, &thread);
                    }
                    bar.wait(&thread)?;
                    bar.wait(&thread)?; // node 1 has used the lock
                    let released = finish(&lock, &thread, &mut mine, Progress::UnderWay);
                    assert!(matches!(released, Progress::Over(Ok(()))));
                    mine.end(&thread);
                } else {
                    bar.wait(&thread)?;
                    let (mut mine, begun) = Acquisition::begin(&lock, &thread)?;
                    assert!(matches!(begun, Progress::UnderWay), "node 0 holds it");
                    while mine.is_in_step() {
                        mine.wait_for_step(&thread)?;
                        assert!(matches!(mine.go_on(&lock, &thread), Progress::UnderWay));
                    }
                    bar.wait(&thread)?;
                    bar.wait(&thread)?; // the ticket is served
                    assert!(!mine.has_ended(&lock), "the grant is not sent");
                    assert!(matches!(
                        give_up(&lock, &thread, &mut mine),
                        Progress::Holds(false)
                    ));
                    let begun = mine.release(&lock, &thread, Release::Placed { announced: false });
                    let released = finish(&lock, &thread, &mut mine, begun);
                    assert!(matches!(released, Progress::Over(Ok(()))));
                    mine.end(&thread);

                    let (mut again, begun) = Acquisition::begin(&lock, &thread)?;
                    assert!(matches!(begun, Progress::UnderWay), "a grant is due");
                    assert!(!again.is_in_step(), "it draws no ticket");
                    let Progress::Over(Err(late)) = give_up(&lock, &thread, &mut again) else {
                        panic!("it waits for node 0");
                    };
                    assert!(late.is_timeout(), "{late}");
                    assert!(late.to_string().contains("node 0"), "{late}");
                    again.end(&thread);
                    let late = lock.lock_until(&thread, Scope::Nothing, thread.now());
                    assert!(late.is_err_and(|late| late.is_timeout()));
                    bar.wait(&thread)?;
                }
                // Also node 1, which waits for the grant first.
                for _ in 0..3 {
                    lock.lock(&thread, Scope::Nothing)?.release()?;
                }
                bar.wait(&thread)?;
            }
            Ok(())
        });
    }
}
