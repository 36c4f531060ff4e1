//! Several locks under way at a time, for one thread.
//!
//! The thread draws a ticket of each lock, and its steps for all of them overlap. It never waits for one lock while it holds another:
//! [`Several::wait`] returns as soon as there is one that it holds, and it uses and releases that before it waits again. So each of the
//! locks is held only for steps that need no other lock, and threads that want the same locks cannot wait for each other, whatever the
//! order of their tickets.
//!
//! Each lock has a buffer for the results of its steps, which the thread takes before it announces a draw. So no step that others wait
//! for fails for want of memory.
//!
//! Relies on the steps of one lock (`draw`, `waiting`, `release`). Used by the key-value store to insert and update many keys.

use loco_fabric::{AtomicCell, Fabric, FabricError, NodeId, Peers, Time, Wait};
use smallvec::SmallVec;

use super::draw::{DRAW_BYTES, Draw};
use super::release::Service;
use super::slot::Slot;
use super::waiting::AfterLoss;
use super::{STRONG, TicketLock};
use crate::fence::Scope;
use crate::objects::locks::guard::LockGuard;
use crate::operations::counts::Count;
use crate::operations::mem_ref::MemRef;
use crate::operations::operation::Flags;
use crate::operations::shown::hold;
use crate::operations::words::Begun;
use crate::{Error, Result, Thread};

/// The number of locks for which there is room on the stack.
const USUAL: usize = 16;

/// Locks that a thread takes, each as soon as it can.
pub(crate) struct Several<'a, F: Fabric> {
    thread: &'a Thread<F>,
    entries: SmallVec<[Entry<'a, F>; USUAL]>,
}

/// Releases that were begun.
pub(crate) struct Releases<'a, F: Fabric>(SmallVec<[Release<'a, F>; USUAL]>);

/// A release that was begun: the lock, and the service of the next ticket.
type Release<'a, F> = (&'a TicketLock<F>, Option<Service<'a, F>>);

struct Entry<'a, F: Fabric> {
    lock: &'a TicketLock<F>,
    stage: Stage<'a, F>,
}

/// How far a thread is with one of several locks.
enum Stage<'a, F: Fabric> {
    /// It has begun nothing: another thread of the node uses the lock, or the node has a ticket that it had given up.
    Left,
    /// It has the turn among the threads of the node, and the draw of a ticket is under way.
    Draws(Draw<'a, F>),
    /// The claim of this ticket is under way. The second word is the content of the slot that the claim expects.
    Claims(u64, u64, Begun<'a, F>),
    /// It waits with this ticket.
    Waits(u64, MemRef<'a, F>),
    /// It holds the lock.
    Holds(LockGuard<'a, TicketLock<F>, F>, MemRef<'a, F>),
    /// It does not get the lock.
    Failed(Error),
    /// It has used and released the lock, or the failure has been told.
    Over,
}

impl<'a, F: Fabric> Several<'a, F> {
    /// Draws a ticket of each of `locks`, unless another thread of this node uses it.
    pub(crate) fn draw(
        thread: &'a Thread<F>,
        locks: impl Iterator<Item = &'a TicketLock<F>>,
    ) -> Several<'a, F> {
        let entries = locks.map(|lock| Entry {
            lock,
            stage: Stage::Left,
        });
        let mut several = Several {
            thread,
            entries: entries.collect(),
        };
        // Others wait for the end of what is begun here.
        thread.to_the_end(|| {
            let entries = &mut several.entries;
            entries.iter_mut().for_each(|entry| entry.begin_draw(thread));
            entries.iter_mut().for_each(|entry| entry.begin_claim(thread));
            entries.iter_mut().for_each(|entry| entry.finish_claim(thread));
        });
        several
    }

    /// Returns the positions of the locks that are held now.
    pub(crate) fn held(&self) -> SmallVec<[usize; USUAL]> {
        self.positions(|stage| matches!(stage, Stage::Holds(..)))
    }

    /// Returns the positions of the locks of which nothing was begun.
    pub(crate) fn left(&self) -> SmallVec<[usize; USUAL]> {
        self.positions(|stage| matches!(stage, Stage::Left))
    }

    fn positions(&self, which: impl Fn(&Stage<'_, F>) -> bool) -> SmallVec<[usize; USUAL]> {
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| which(&entry.stage))
            .map(|(i, _)| i)
            .collect()
    }

    /// Returns the first error of a lock that could not be taken. Each is returned once.
    ///
    /// # Errors
    /// Returns the errors of [`TicketLock::lock`].
    pub(crate) fn failure(&mut self) -> Result<()> {
        for entry in &mut self.entries {
            if let Stage::Failed(_) = entry.stage
                && let Stage::Failed(error) = std::mem::replace(&mut entry.stage, Stage::Over)
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits until one of the locks is [held](Several::held), or has [failed](Several::failure), until `deadline` at most. At the deadline
    /// it gives up the tickets that still wait. Returns false if no ticket waits.
    ///
    /// The caller holds none of the locks.
    pub(crate) fn wait(&mut self, begin: Time, deadline: Time) -> bool {
        debug_assert!(self.held().is_empty(), "who holds a lock waits for no other");
        let thread = self.thread;
        thread.to_the_end(|| self.wait_for_one(begin, deadline))
    }

    fn wait_for_one(&mut self, begin: Time, deadline: Time) -> bool {
        let thread = self.thread;
        loop {
            let mut waiting: SmallVec<[&mut Entry<'a, F>; USUAL]> = self
                .entries
                .iter_mut()
                .filter(|entry| matches!(entry.stage, Stage::Waits(..)))
                .collect();
            let Some(first) = waiting.first() else {
                return false;
            };
            thread.counts().add(Count::LockWaits, 1);
            let living = living(&waiting);
            let wait = Wait {
                what: first.lock.channel.name(),
                peers: Peers::These(&living),
                deadline: Some(deadline),
            };
            let granted = || {
                waiting
                    .iter()
                    .any(|entry| entry.granted().is_some())
                    .then_some(())
            };
            let waited = thread.fabric().wait_for_arrival(wait, granted);
            let mut changed = false;
            for entry in &mut waiting {
                changed |= entry.take_grant(thread);
            }
            if changed {
                return true;
            }
            for entry in &mut waiting {
                changed |= entry.go_on(thread, &waited, (begin, deadline));
                if matches!(entry.stage, Stage::Holds(..)) {
                    // The others go on when this lock is released.
                    break;
                }
            }
            if changed {
                return true;
            }
        }
    }

    /// Returns true if the release of the lock at `i`, which this thread holds, needs no fence for what it put under the lock, which is
    /// to `nodes` alone ([`TicketLock::places`]), and no other thread of this node waits for the lock.
    pub(crate) fn places(&self, i: usize, nodes: &[NodeId]) -> bool {
        let lock = self.entries[i].lock;
        lock.places(nodes) && !lock.may_stay()
    }

    /// Returns the guards of the locks at `held`, which this thread holds.
    pub(crate) fn guards(&self, held: &[usize]) -> SmallVec<[&LockGuard<'a, TicketLock<F>, F>; USUAL]> {
        let guard = |&i: &usize| match &self.entries[i].stage {
            Stage::Holds(guard, _) => Some(guard),
            _ => None,
        };
        held.iter().filter_map(guard).collect()
    }

    /// Begins to release the locks at `held`, which this thread holds. The caller has placed what it wrote, or the releases
    /// [place](Several::places) it; then no lock stays on this node (`leave`).
    pub(crate) fn begin_release(&mut self, held: &[usize], leave: bool) -> Releases<'a, F> {
        let thread = self.thread;
        thread.to_the_end(|| {
            let mut releases = SmallVec::new();
            for &i in held {
                let entry = &mut self.entries[i];
                if let Stage::Holds(guard, buffer) = std::mem::replace(&mut entry.stage, Stage::Over) {
                    guard.keep();
                    releases.push((entry.lock, entry.lock.begin_release(thread, buffer, leave)));
                }
            }
            Releases(releases)
        })
    }

    /// Finishes releases. Returns the outcome of each, in their order.
    pub(crate) fn finish_release(&self, releases: Releases<'a, F>) -> SmallVec<[Result<()>; USUAL]> {
        let thread = self.thread;
        let releases = releases.0.into_iter();
        thread.to_the_end(|| {
            releases
                .map(|(lock, service)| lock.finish_release(thread, service))
                .collect()
        })
    }
}

/// Returns the nodes that all must live while the locks are waited for: those that some lock does not know to hold nothing.
fn living<F: Fabric>(waiting: &[&mut Entry<'_, F>]) -> SmallVec<[NodeId; USUAL]> {
    let mut living: SmallVec<[NodeId; USUAL]> = SmallVec::new();
    for entry in waiting {
        entry.lock.each_living(|node| {
            if !living.contains(&node) {
                living.push(node);
            }
        });
    }
    living
}

impl<'a, F: Fabric> Entry<'a, F> {
    /// Takes the turn among the threads of this node and begins the draw of a ticket.
    fn begin_draw(&mut self, thread: &'a Thread<F>) {
        let lock = self.lock;
        if let Err(error) = lock.poison.check(lock.channel.name()) {
            self.stage = Stage::Failed(error);
            return;
        }
        if !lock.turn.try_enter() {
            return;
        }
        if lock.mine.abandoned.load() != 0 || lock.mine.held.load() != 0 {
            lock.turn.leave();
            return;
        }
        let begin = || {
            lock.prepare(thread)?;
            let buffer = thread.mem_ref(DRAW_BYTES)?;
            lock.begin_draw(thread, buffer)
        };
        match begin() {
            Ok(begun) => self.stage = Stage::Draws(begun),
            Err(error) => self.fail(error),
        }
    }

    /// Finishes the draw. The thread holds the lock, or begins the claim of the ticket.
    fn begin_claim(&mut self, thread: &'a Thread<F>) {
        let draw = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Draws(draw) => draw,
            other => {
                self.stage = other;
                return;
            }
        };
        let lock = self.lock;
        let drawn = lock.finish_draw(draw).and_then(|drawn| {
            lock.drew(thread, drawn.0)?;
            Ok(drawn)
        });
        let (ticket, slot, buffer) = match drawn {
            Ok(drawn) => drawn,
            Err(error) => return self.fail(error),
        };
        if let Some(recovered) = slot.and_then(|slot| slot.turn_of(ticket)) {
            return self.hold(thread, ticket, recovered, buffer);
        }
        let guess = slot.map_or_else(|| lock.untouched(ticket), Slot::to_word);
        let Some(claim) = lock.claim(ticket)(Slot::from_word(guess)) else {
            // Passed over by those who take this node for lost.
            self.stage = Stage::Claims(ticket, guess, Begun::Done(guess, buffer));
            return;
        };
        let exchange = (guess, claim.to_word());
        let index = lock.slot(ticket);
        // Strong: as in `TicketLock::draw`.
        let begun = lock
            .words
            .begin_compare_swap(thread, buffer, index, exchange, Flags::STRONG);
        match begun {
            Ok(begun) => self.stage = Stage::Claims(ticket, guess, begun),
            Err(error) => self.fail(error),
        }
    }

    /// Finishes the claim. The ticket waits then, or the thread holds the lock.
    fn finish_claim(&mut self, thread: &'a Thread<F>) {
        let (ticket, guess, begun) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Claims(ticket, guess, begun) => (ticket, guess, begun),
            other => {
                self.stage = other;
                return;
            }
        };
        let lock = self.lock;
        let served = begun.finish().and_then(|(found, buffer)| {
            let old = match found == guess {
                true => Some(Slot::from_word(found)),
                false => lock.change::<STRONG>(thread, ticket, found, lock.claim(ticket))?,
            };
            Ok((old.and_then(|old| old.turn_of(ticket)), buffer))
        });
        match served {
            Ok((Some(recovered), buffer)) => self.hold(thread, ticket, recovered, buffer),
            Ok((None, buffer)) => self.stage = Stage::Waits(ticket, buffer),
            Err(error) => self.fail(error),
        }
    }

    /// Returns what the grant says, if the ticket waits and it has come.
    fn granted(&self) -> Option<bool> {
        match self.stage {
            Stage::Waits(ticket, _) => self.lock.granted(ticket),
            _ => None,
        }
    }

    /// Takes the lock if the grant has come. Returns true if the ticket does not wait any more.
    fn take_grant(&mut self, thread: &'a Thread<F>) -> bool {
        let Some(recovered) = self.granted() else {
            return false;
        };
        // The grant may have arrived before the others gave this node up.
        self.end_wait(thread, thread.still_in().map(|()| recovered))
    }

    /// Goes on with a ticket that waits, after a wait for all of them has ended with `waited`. Returns true if it does not wait any more.
    fn go_on(
        &mut self,
        thread: &'a Thread<F>,
        waited: &std::result::Result<(), FabricError>,
        times: (Time, Time),
    ) -> bool {
        let Stage::Waits(ticket, _) = self.stage else {
            return false;
        };
        let lock = self.lock;
        let error: Error = match waited {
            Ok(()) => return false,
            Err(FabricError::PeerLost(node)) if *node != lock.words.home() => {
                if lock.has_recovered(*node) {
                    return false;
                }
                match lock.after_loss(thread, ticket, times.1) {
                    Ok(AfterLoss::Served(recovered)) => return self.end_wait(thread, Ok(recovered)),
                    Ok(AfterLoss::WaitOn) => return false,
                    Ok(AfterLoss::Failed(error)) => error,
                    Err(error) => return self.end_wait(thread, Err(error)),
                }
            }
            // The wait was for all locks, and names another.
            Err(FabricError::Timeout { after, .. }) => FabricError::Timeout {
                what: lock.channel.name().to_owned(),
                after: *after,
            }
            .into(),
            Err(error) => error.clone().into(),
        };
        let outcome = match error.lost_peer() == Some(lock.words.home()) {
            true => Err(error),
            false => lock.give_up(thread, ticket, error, times),
        };
        self.end_wait(thread, outcome)
    }

    /// Ends the wait of a ticket: the thread holds the lock, or does not get it. Returns true.
    fn end_wait(&mut self, thread: &'a Thread<F>, outcome: Result<bool>) -> bool {
        if let Stage::Waits(ticket, buffer) = std::mem::replace(&mut self.stage, Stage::Over) {
            match outcome {
                Ok(recovered) => self.hold(thread, ticket, recovered, buffer),
                Err(error) => self.fail(error),
            }
        }
        true
    }

    fn hold(&mut self, thread: &'a Thread<F>, ticket: u64, recovered: bool, buffer: MemRef<'a, F>) {
        self.lock.got(ticket, recovered);
        hold(self.lock.channel.shown());
        // The scope is for a caller that panics. Others release by `Several::begin_release`.
        let guard = LockGuard::new(self.lock, thread, Scope::Thread, recovered);
        self.stage = Stage::Holds(guard, buffer);
    }

    fn fail(&mut self, error: Error) {
        self.lock.turn.leave();
        self.stage = Stage::Failed(error);
    }
}

impl<F: Fabric> Drop for Several<'_, F> {
    /// Gives up the tickets that wait, if the caller panics. The guards release the locks that are held; `draw` leaves nothing else.
    fn drop(&mut self) {
        let thread = self.thread;
        thread.to_the_end(|| {
            let now = thread.now();
            for entry in &mut self.entries {
                if let Stage::Waits(ticket, _) = entry.stage {
                    let given_up = entry.lock.give_up(thread, ticket, Error::Closed, (now, now));
                    entry.end_wait(thread, given_up);
                }
            }
        });
    }
}
