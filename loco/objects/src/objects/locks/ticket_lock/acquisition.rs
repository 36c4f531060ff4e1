//! The acquisition of a lock as a state machine: none of its usual steps waits for another node.
//!
//! It has the turn among the threads of the node, a ticket, and at last the lock, and releases it in the same way. Its caller takes the steps
//! ([`Acquisition::go_on`]) whenever one of them has ended ([`Acquisition::has_ended`]). So a thread has many acquisitions under way.
//! Only what is rare waits within a step, and for the network alone: the claim of a ticket that was given up, what follows a loss or a
//! deadline, and the placement of the announcement before a hand-over to another thread of the node whose holder has not
//! [placed](Release::Placed) it. After a loss it also pauses for some microseconds, while a live node is drawing a ticket.
//!
//! The results of all steps go to one block, which is taken first. So no step that others wait for fails for want of memory.
//!
//! Relies on the steps of one lock (`draw`, `waiting`, `release`). Used by `several`, and by the store for what it has under way.

use loco_fabric::{AtomicCell, Fabric, FabricError, NodeId, Time};

use super::TicketLock;
use super::draw::{DRAW_BYTES, Draw};
use super::release::{Release, Service};
use super::slot::Slot;
use super::waiting::AfterLoss;
use crate::objects::locks::turn::late;
use crate::operations::block::Block;
use crate::operations::counts::Count;
use crate::operations::operation::Flags;
use crate::operations::shown::hold;
use crate::{Error, Result, Thread};

/// What the acquisition of a lock has come to.
pub(crate) enum Progress {
    /// It goes on when [`Acquisition::has_ended`] says so.
    UnderWay,
    /// The thread holds the lock. True if what the lock protects is in doubt.
    Holds(bool),
    /// It does not get the lock, or has released it.
    Over(Result<()>),
}

/// The acquisition of one lock by one thread, up to its release. The caller passes the same lock and thread to each call.
pub(crate) struct Acquisition<F: Fabric> {
    stage: Stage<F>,
    block: Block<F>,
}

enum Stage<F: Fabric> {
    /// It waits in the line of the node's threads with this number.
    Lines(u64),
    /// It has the turn among the threads of the node, and the draw of a ticket is under way.
    Draws(Draw<F>),
    /// The claim of this ticket is under way. The second word is the content of the slot that the claim expects.
    Claims(u64, u64),
    /// It waits with this ticket.
    Waits(u64),
    /// It looks whether this ticket is served, since the grant of another one may cover its grant.
    Looks(u64),
    /// It holds the lock.
    Holds,
    /// The release is under way.
    Releases(Service),
}

impl<F: Fabric> Acquisition<F> {
    /// Begins to take the lock. It may have come to its end already.
    ///
    /// # Errors
    /// Returns the errors of a lock that is poisoned, and of preparing the steps.
    pub(crate) fn begin(lock: &TicketLock<F>, thread: &Thread<F>) -> Result<(Acquisition<F>, Progress)> {
        lock.poison.check(lock.channel.name())?;
        lock.prepare(thread)?;
        let block = Block::take(thread, DRAW_BYTES)?;
        let mut acquisition = Acquisition {
            stage: Stage::Holds,
            block,
        };
        let progress = match lock.turn.try_enter() {
            true => acquisition.enter(lock, thread),
            false => match lock.turn.join_line() {
                None => acquisition.enter(lock, thread),
                Some(number) => {
                    thread.counts().add(Count::LockWaits, 1);
                    acquisition.stage = Stage::Lines(number);
                    Progress::UnderWay
                }
            },
        };
        Ok((acquisition, progress))
    }

    /// Gives the block back, when the acquisition is over.
    pub(crate) fn end(self, thread: &Thread<F>) {
        self.block.give_back(thread);
    }

    /// Goes on as far as it can without a wait.
    pub(crate) fn go_on(&mut self, lock: &TicketLock<F>, thread: &Thread<F>) -> Progress {
        if !self.has_ended(lock) {
            return Progress::UnderWay;
        }
        match &mut self.stage {
            Stage::Lines(_) => self.enter(lock, thread),
            Stage::Draws(draw) => match lock.drawn(thread, draw, &self.block) {
                None => Progress::UnderWay,
                Some(drawn) => self.after_draw(lock, thread, drawn),
            },
            &mut Stage::Claims(ticket, expected) => self.after_claim(lock, thread, ticket, expected),
            &mut Stage::Waits(ticket) => match lock.see_grant(ticket) {
                None => self.look(lock, thread, ticket),
                // The grant may have arrived before the others gave this node up.
                Some(recovered) => {
                    let still_in = thread.still_in();
                    self.end_wait(lock, ticket, still_in.map(|()| recovered))
                }
            },
            &mut Stage::Looks(ticket) => self.after_look(lock, thread, ticket),
            Stage::Holds => Progress::UnderWay,
            Stage::Releases(service) => match lock.go_on_releasing(thread, &mut self.block, service) {
                None => Progress::UnderWay,
                Some(released) => {
                    lock.turn.leave();
                    Progress::Over(released)
                }
            },
        }
    }

    /// Returns true if [`go_on`](Acquisition::go_on) has something to do. Looks at memory alone, so that a wait may ask.
    pub(crate) fn has_ended(&self, lock: &TicketLock<F>) -> bool {
        match self.stage {
            Stage::Lines(number) => lock.turn.is_called(number),
            Stage::Draws(_) | Stage::Claims(..) | Stage::Looks(_) | Stage::Releases(_) => self.block.query(),
            Stage::Waits(_) => lock.has_grant(),
            Stage::Holds => false,
        }
    }

    /// Returns true if it waits for a former holder of the lock, and may give up. Calls `living` with the nodes that all must live
    /// meanwhile.
    pub(crate) fn waits(&self, lock: &TicketLock<F>, living: impl FnMut(NodeId)) -> bool {
        match self.stage {
            Stage::Lines(_) => true,
            Stage::Waits(_) => {
                lock.each_living(living);
                true
            }
            _ => false,
        }
    }

    /// Returns true if the operations of one of its steps are under way.
    pub(crate) fn is_in_step(&self) -> bool {
        matches!(
            self.stage,
            Stage::Draws(_) | Stage::Claims(..) | Stage::Looks(_) | Stage::Releases(_)
        )
    }

    /// Waits for the operations of the present step.
    ///
    /// # Errors
    /// Returns the errors of a fabric that is broken.
    pub(crate) fn wait_for_step(&self, thread: &Thread<F>) -> Result<()> {
        self.block.wait(thread)
    }

    /// Goes on after a wait of this and other acquisitions has failed, but not at its deadline. The loss of a node may concern others alone;
    /// after another error it waits for nothing any more.
    pub(crate) fn after_loss(
        &mut self,
        lock: &TicketLock<F>,
        thread: &Thread<F>,
        error: &FabricError,
        times: (Time, Time),
    ) -> Progress {
        let ticket = match (&self.stage, error) {
            (&Stage::Waits(ticket), _) => ticket,
            (Stage::Lines(_), FabricError::PeerLost(_)) => return Progress::UnderWay,
            (&Stage::Lines(number), error) => {
                return self.leave_line(lock, thread, number, error.clone().into());
            }
            _ => return Progress::UnderWay,
        };
        let error: Error = match error {
            FabricError::PeerLost(node) if *node != lock.words.home() => {
                if lock.has_recovered(*node) {
                    return Progress::UnderWay;
                }
                match lock.after_loss(thread, ticket, times.1) {
                    AfterLoss::Served(recovered) => return self.end_wait(lock, ticket, Ok(recovered)),
                    AfterLoss::WaitOn => return Progress::UnderWay,
                    AfterLoss::Failed(error) => error,
                }
            }
            error => error.clone().into(),
        };
        if error.lost_peer() == Some(lock.words.home()) {
            return self.end_wait(lock, ticket, Err(error));
        }
        let given_up = lock.give_up(thread, ticket, error, times);
        self.end_wait(lock, ticket, given_up)
    }

    /// Gives up, if it waits for a former holder, for a call that began and ends at `times`. It may get the lock at the last moment.
    pub(crate) fn give_up(
        &mut self,
        lock: &TicketLock<F>,
        thread: &Thread<F>,
        times: (Time, Time),
    ) -> Progress {
        let (begin, deadline) = times;
        let error = Error::timeout(lock.channel.name(), begin, deadline, thread.now());
        match self.stage {
            Stage::Lines(number) => {
                let error = late(thread, lock.channel.name(), error, times);
                self.leave_line(lock, thread, number, error)
            }
            Stage::Waits(ticket) => {
                let given_up = lock.give_up(thread, ticket, error, times);
                self.end_wait(lock, ticket, given_up)
            }
            _ => Progress::UnderWay,
        }
    }

    /// Returns the error of a call that began and ends at `times`, while others of the thread wait for the lock still.
    #[cold]
    pub(crate) fn late(&self, lock: &TicketLock<F>, thread: &Thread<F>, times: (Time, Time)) -> Error {
        let error = Error::timeout(lock.channel.name(), times.0, times.1, thread.now());
        match self.stage {
            Stage::Lines(_) => late(thread, lock.channel.name(), error, times),
            _ => lock.name_holder(thread, error),
        }
    }

    /// Gives up in whatever stage, where no step can succeed any more.
    #[cold]
    pub(crate) fn abandon(&self, lock: &TicketLock<F>) {
        match self.stage {
            Stage::Lines(number) if lock.turn.leave_line(number) => {}
            _ => lock.turn.leave(),
        }
    }

    /// Begins to release the lock, which the thread holds.
    pub(crate) fn release(&mut self, lock: &TicketLock<F>, thread: &Thread<F>, how: Release) -> Progress {
        match lock.begin_release(thread, &mut self.block, how) {
            None => Progress::Over(thread.still_in()),
            Some(Err(error)) => self.fail(lock, error),
            Some(Ok(service)) => {
                self.stage = Stage::Releases(service);
                self.go_on(lock, thread)
            }
        }
    }

    /// Goes on with the turn among the threads of the node.
    fn enter(&mut self, lock: &TicketLock<F>, thread: &Thread<F>) -> Progress {
        if lock.mine.held.load() != 0 {
            // This needed no remote step, so the loss of this node's membership may have gone unnoticed.
            return match thread.still_in() {
                Ok(()) => self.hold(lock, lock.is_in_doubt()),
                Err(error) => self.fail(lock, error),
            };
        }
        let resumed = match lock.mine.abandoned.load() {
            0 => Ok(None),
            _ => lock.resume(thread),
        };
        match resumed {
            Ok(None) => {}
            Ok(Some((ticket, None))) => return self.wait(lock, thread, ticket),
            Ok(Some((ticket, Some(recovered)))) => return self.got(lock, ticket, recovered),
            Err(error) => return self.fail(lock, error),
        }
        match lock.begin_draw(thread, &mut self.block) {
            Ok(draw) => {
                self.stage = Stage::Draws(draw);
                self.go_on(lock, thread)
            }
            Err(error) => self.fail(lock, error),
        }
    }

    fn after_draw(
        &mut self,
        lock: &TicketLock<F>,
        thread: &Thread<F>,
        drawn: Result<(u64, Option<Slot>)>,
    ) -> Progress {
        let (ticket, slot) = match drawn {
            Ok(drawn) => drawn,
            Err(error) => return self.fail(lock, error),
        };
        if let Err(error) = lock.drew(thread, ticket) {
            return self.fail_with(lock, ticket, error);
        }
        if let Some(recovered) = slot.and_then(|slot| slot.turn_of(ticket)) {
            return self.got(lock, ticket, recovered);
        }
        let expected = slot.map_or_else(|| lock.untouched(ticket), Slot::to_word);
        self.claim(lock, thread, ticket, expected)
    }

    /// Begins to claim the ticket, whose slot is expected to have this content.
    fn claim(&mut self, lock: &TicketLock<F>, thread: &Thread<F>, ticket: u64, expected: u64) -> Progress {
        let claimed = match lock.claim(ticket)(Slot::from_word(expected)) {
            // The ticket was served in between, or passed over by those who take this node for lost.
            None => self.block.set_word(0, expected),
            Some(claim) => {
                let exchange = (expected, claim.to_word());
                let index = lock.slot(ticket);
                // Strong: as in `TicketLock::draw`.
                lock.words
                    .begin_compare_swap(thread, &mut self.block, index, exchange, Flags::STRONG)
            }
        };
        match claimed {
            Ok(()) => {
                self.stage = Stage::Claims(ticket, expected);
                self.go_on(lock, thread)
            }
            Err(error) => self.fail_with(lock, ticket, error),
        }
    }

    fn after_claim(
        &mut self,
        lock: &TicketLock<F>,
        thread: &Thread<F>,
        ticket: u64,
        expected: u64,
    ) -> Progress {
        let Some(found) = self.block.result(thread) else {
            return Progress::UnderWay;
        };
        match found {
            Ok(found) if found != expected => self.claim(lock, thread, ticket, found),
            Ok(found) => match Slot::from_word(found).turn_of(ticket) {
                Some(recovered) => self.got(lock, ticket, recovered),
                None => self.wait(lock, thread, ticket),
            },
            Err(error) => self.fail_with(lock, ticket, error),
        }
    }

    /// Begins to wait with this ticket.
    fn wait(&mut self, lock: &TicketLock<F>, thread: &Thread<F>, ticket: u64) -> Progress {
        thread.counts().add(Count::LockWaits, 1);
        self.stage = Stage::Waits(ticket);
        self.go_on(lock, thread)
    }

    /// Begins to look at the slot of the ticket.
    #[cold]
    fn look(&mut self, lock: &TicketLock<F>, thread: &Thread<F>, ticket: u64) -> Progress {
        match lock.begin_look(thread, &mut self.block, ticket) {
            Ok(()) => {
                self.stage = Stage::Looks(ticket);
                self.go_on(lock, thread)
            }
            Err(error) => self.fail_with(lock, ticket, error),
        }
    }

    fn after_look(&mut self, lock: &TicketLock<F>, thread: &Thread<F>, ticket: u64) -> Progress {
        let Some(found) = self.block.result(thread) else {
            return Progress::UnderWay;
        };
        match found.map(|found| Slot::from_word(found).turn_of(ticket)) {
            Ok(Some(recovered)) => self.got(lock, ticket, recovered),
            Ok(None) => {
                self.stage = Stage::Waits(ticket);
                self.go_on(lock, thread)
            }
            Err(error) => self.fail_with(lock, ticket, error),
        }
    }

    /// Ends a wait with a ticket, which has got the lock or not.
    fn end_wait(&mut self, lock: &TicketLock<F>, ticket: u64, outcome: Result<bool>) -> Progress {
        match outcome {
            Ok(recovered) => self.got(lock, ticket, recovered),
            Err(error) => self.fail(lock, error),
        }
    }

    /// Notes that the node holds the lock with this ticket.
    fn got(&mut self, lock: &TicketLock<F>, ticket: u64, recovered: bool) -> Progress {
        lock.got(ticket, recovered);
        self.hold(lock, recovered)
    }

    fn hold(&mut self, lock: &TicketLock<F>, recovered: bool) -> Progress {
        hold(lock.channel.shown());
        self.stage = Stage::Holds;
        Progress::Holds(recovered)
    }

    /// Leaves the line for `error`. Goes on if it was called at the last moment.
    fn leave_line(
        &mut self,
        lock: &TicketLock<F>,
        thread: &Thread<F>,
        number: u64,
        error: Error,
    ) -> Progress {
        match lock.turn.leave_line(number) {
            true => Progress::Over(Err(error)),
            false => self.enter(lock, thread),
        }
    }

    /// Leaves the turn among the threads of the node, after an error that leaves open what the slot of the ticket says.
    #[cold]
    fn fail_with(&mut self, lock: &TicketLock<F>, ticket: u64, error: Error) -> Progress {
        lock.keep(ticket);
        self.fail(lock, error)
    }

    /// Leaves the turn among the threads of the node.
    fn fail(&mut self, lock: &TicketLock<F>, error: Error) -> Progress {
        lock.turn.leave();
        Progress::Over(Err(error))
    }
}
