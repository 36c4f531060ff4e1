//! Several locks under way at a time, for one thread.
//!
//! The thread draws a ticket of each lock, and its steps for all of them overlap. It never waits for one lock while it holds another:
//! [`Several::wait`] returns as soon as there is one that it holds, and it uses and releases that before it waits again. So each of the
//! locks is held only for steps that need no other lock, and threads that want the same locks cannot wait for each other, whatever the
//! order of their tickets.
//!
//! Relies on the state machine of one lock (`acquisition`). Used by the key-value store to insert many keys.

use loco_fabric::{Fabric, FabricError, NodeId, Peers, Time, Wait};
use smallvec::SmallVec;

use super::TicketLock;
use super::acquisition::{Acquisition, Progress};
use super::release::Release;
use crate::fence::Scope;
use crate::objects::locks::guard::LockGuard;
use crate::{Error, Result, Thread};

/// The number of locks for which there is room on the stack.
const USUAL: usize = 16;

/// Locks that a thread takes, each as soon as it can.
pub(crate) struct Several<'a, F: Fabric> {
    thread: &'a Thread<F>,
    entries: SmallVec<[Entry<'a, F>; USUAL]>,
}

struct Entry<'a, F: Fabric> {
    lock: &'a TicketLock<F>,
    stage: Stage<'a, F>,
}

/// How far a thread is with one of several locks.
enum Stage<'a, F: Fabric> {
    /// It takes or releases the lock.
    UnderWay(Acquisition<F>),
    /// It holds the lock.
    Holds(LockGuard<'a, TicketLock<F>, F>, Acquisition<F>),
    /// It does not get the lock.
    Failed(Error),
    /// It has used the lock and released it with this outcome.
    Released(Result<()>),
    /// The outcome has been told.
    Over,
}

impl<'a, F: Fabric> Several<'a, F> {
    /// Draws a ticket of each of `locks`, after what the thread has under way.
    ///
    /// # Errors
    /// Returns `Timeout` if that does not end by the thread's deadline.
    pub(crate) fn draw(
        thread: &'a Thread<F>,
        locks: impl Iterator<Item = &'a TicketLock<F>>,
    ) -> Result<Several<'a, F>> {
        // The thread may have asked for one of these locks already, and nothing of it goes on while it waits for one.
        thread.settle(None)?;
        // Others wait for the end of what is begun here.
        Ok(thread.to_the_end(|| {
            let entries = locks.map(|lock| Entry::begin(thread, lock)).collect();
            let mut several = Several { thread, entries };
            // Those that are free are held at the same time then.
            several.end_steps();
            several
        }))
    }

    /// Waits until no lock has operations of a step under way.
    fn end_steps(&mut self) {
        let thread = self.thread;
        while self.entries.iter().any(Entry::is_in_step) {
            for entry in &mut self.entries {
                if let Stage::UnderWay(acquisition) = &entry.stage
                    && acquisition.is_in_step()
                    && let Err(error) = acquisition.wait_for_step(thread)
                {
                    entry.abandon(thread, error);
                }
                entry.go_on(thread);
            }
        }
    }

    /// Returns the positions of the locks that are held now.
    pub(crate) fn held(&self) -> SmallVec<[usize; USUAL]> {
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| matches!(entry.stage, Stage::Holds(..)))
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
    /// it gives up the tickets that still wait. Returns false if no lock is waited for.
    ///
    /// The caller holds none of the locks.
    pub(crate) fn wait(&mut self, begin: Time, deadline: Time) -> bool {
        debug_assert!(self.held().is_empty(), "who holds a lock waits for no other");
        let thread = self.thread;
        thread.to_the_end(|| self.wait_for_one(begin, deadline))
    }

    fn wait_for_one(&mut self, begin: Time, deadline: Time) -> bool {
        let thread = self.thread;
        // A lock may be held after any of the steps, also after those that follow the turn among the threads of the node.
        while !self.entries.iter().any(Entry::is_to_be_told) {
            let mut living: SmallVec<[NodeId; USUAL]> = SmallVec::new();
            let mut waiting: SmallVec<[&mut Entry<'a, F>; USUAL]> = SmallVec::new();
            for entry in &mut self.entries {
                let add = |node| {
                    if !living.contains(&node) {
                        living.push(node);
                    }
                };
                if matches!(&entry.stage, Stage::UnderWay(acquisition) if acquisition.waits(entry.lock, add))
                {
                    waiting.push(entry);
                }
            }
            let Some(first) = waiting.first() else {
                drop(waiting);
                debug_assert!(!self.entries.iter().any(Entry::is_under_way), "all are told");
                return false;
            };
            let wait = Wait {
                what: first.lock.channel.name(),
                peers: Peers::These(&living),
                deadline: Some(deadline),
            };
            let granted = || waiting.iter().any(|entry| entry.has_ended()).then_some(());
            let waited = thread.fabric().wait_for_arrival(wait, granted);
            let mut changed = false;
            for entry in &mut waiting {
                changed |= entry.go_on(thread);
            }
            if !changed && let Err(error) = &waited {
                // A loss that others must tell of first ends each wait at once.
                let late = thread.given_up() || deadline <= thread.now();
                for entry in &mut waiting {
                    entry.after_failed_wait(thread, error, (begin, deadline));
                    if late {
                        entry.give_up(thread, (begin, deadline));
                    }
                    if matches!(entry.stage, Stage::Holds(..)) {
                        // The others go on when this lock is released.
                        break;
                    }
                }
            }
            drop(waiting);
            // Those to which a thread of the node has left its turn draw now.
            self.end_steps();
        }
        true
    }

    /// Returns the guards of the locks at `held`, which this thread holds.
    pub(crate) fn guards(&self, held: &[usize]) -> SmallVec<[&LockGuard<'a, TicketLock<F>, F>; USUAL]> {
        let guard = |&i: &usize| match &self.entries[i].stage {
            Stage::Holds(guard, _) => Some(guard),
            _ => None,
        };
        held.iter().filter_map(guard).collect()
    }

    /// Releases the locks at `held`, which this thread holds, all at once. The caller has placed what it wrote. Returns the outcome of each,
    /// in their order: `Closed` for one that is not held.
    pub(crate) fn release(&mut self, held: &[usize]) -> SmallVec<[Result<()>; USUAL]> {
        let thread = self.thread;
        thread.to_the_end(|| {
            for &i in held {
                self.entries[i].release(thread);
            }
            self.end_steps();
        });
        held.iter().map(|&i| self.entries[i].outcome()).collect()
    }
}

impl<'a, F: Fabric> Entry<'a, F> {
    fn begin(thread: &'a Thread<F>, lock: &'a TicketLock<F>) -> Entry<'a, F> {
        let stage = Stage::Over;
        let mut entry = Entry { lock, stage };
        match Acquisition::begin(lock, thread) {
            Ok((acquisition, progress)) => entry.note(thread, acquisition, progress),
            Err(error) => entry.stage = Stage::Failed(error),
        }
        entry
    }

    /// Returns true if the lock is held, or has failed and the caller has not been told.
    fn is_to_be_told(&self) -> bool {
        matches!(self.stage, Stage::Holds(..) | Stage::Failed(_))
    }

    fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::UnderWay(_))
    }

    fn is_in_step(&self) -> bool {
        matches!(&self.stage, Stage::UnderWay(acquisition) if acquisition.is_in_step())
    }

    fn has_ended(&self) -> bool {
        matches!(&self.stage, Stage::UnderWay(acquisition) if acquisition.has_ended(self.lock))
    }

    /// Goes on with a lock that is under way. Returns true if it is now held, or over.
    fn go_on(&mut self, thread: &'a Thread<F>) -> bool {
        self.take_step(thread, |acquisition, lock| acquisition.go_on(lock, thread))
    }

    /// Goes on after a wait has failed. Returns true if the lock is now held, or over.
    fn after_failed_wait(&mut self, thread: &'a Thread<F>, error: &FabricError, times: (Time, Time)) -> bool {
        self.take_step(thread, |acquisition, lock| match error {
            FabricError::Timeout { .. } => acquisition.give_up(lock, thread, times),
            error => acquisition.after_loss(lock, thread, error, times),
        })
    }

    /// Gives up if it waits for a former holder. Returns true if the lock is now held, or over.
    fn give_up(&mut self, thread: &'a Thread<F>, times: (Time, Time)) -> bool {
        self.take_step(thread, |acquisition, lock| {
            acquisition.give_up(lock, thread, times)
        })
    }

    /// Gives up in the midst of a step whose end the fabric cannot tell any more.
    #[cold]
    fn abandon(&mut self, thread: &'a Thread<F>, error: Error) {
        self.take_step(thread, |acquisition, lock| {
            acquisition.abandon(lock);
            Progress::Over(Err(error))
        });
    }

    fn take_step(
        &mut self,
        thread: &'a Thread<F>,
        step: impl FnOnce(&mut Acquisition<F>, &TicketLock<F>) -> Progress,
    ) -> bool {
        let mut acquisition = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::UnderWay(acquisition) => acquisition,
            other => {
                self.stage = other;
                return false;
            }
        };
        let progress = step(&mut acquisition, self.lock);
        self.note(thread, acquisition, progress);
        !matches!(self.stage, Stage::UnderWay(_))
    }

    fn note(&mut self, thread: &'a Thread<F>, acquisition: Acquisition<F>, progress: Progress) {
        self.stage = match progress {
            Progress::UnderWay => Stage::UnderWay(acquisition),
            Progress::Holds(recovered) => {
                // The scope is for a caller that panics. Others release by `Several::release`.
                let guard = LockGuard::new(self.lock, thread, Scope::Thread, recovered);
                Stage::Holds(guard, acquisition)
            }
            Progress::Over(outcome) => {
                acquisition.end(thread);
                match outcome {
                    Err(error) => Stage::Failed(error),
                    released => Stage::Released(released),
                }
            }
        };
    }

    fn release(&mut self, thread: &'a Thread<F>) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Holds(guard, mut acquisition) => {
                guard.keep();
                let progress = acquisition.release(self.lock, thread, Release::Placed { announced: false });
                self.note(thread, acquisition, progress);
            }
            other => self.stage = other,
        }
    }

    /// Takes the outcome of the release.
    fn outcome(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Released(outcome) => outcome,
            Stage::Failed(error) => Err(error),
            // It was not held.
            other => {
                self.stage = other;
                Err(Error::Closed)
            }
        }
    }
}

impl<F: Fabric> Drop for Several<'_, F> {
    /// Gives up the tickets that wait, if the caller panics, and ends the steps under way. The guards release the locks that are held.
    fn drop(&mut self) {
        let thread = self.thread;
        thread.to_the_end(|| {
            let now = thread.now();
            // Whoever is called at the last moment has the turn, draws a ticket and claims it before it can give that up.
            while self.entries.iter().any(Entry::is_under_way) {
                for entry in &mut self.entries {
                    entry.give_up(thread, (now, now));
                }
                self.end_steps();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{AnyConfig, AnyFabric, FabricChoice};
    use crate::{Barrier, LockConfig, Manager, testing};

    /// Runs `wait` with locks of which a thread has joined the line, when the thread before it has left its turn, and not the lock: who is
    /// next has to draw a ticket. The lock must be free afterwards.
    fn after_the_line(wait: impl Fn(Several<'_, AnyFabric>, &Thread) -> Result<()> + Sync) {
        // Over shared memory the draw is done at once.
        let config = AnyConfig::default().choice(FabricChoice::Tcp);
        let bring_up = |mesh| AnyFabric::new(mesh, config.clone());
        testing::run_on(2, bring_up, |fabric| {
            let manager = Manager::new(fabric)?;
            let config = LockConfig::default().local_hand_overs_max(0);
            let lock = TicketLock::with_config(&manager, "lock", manager.nodes()[0], config)?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let (before, next) = (manager.thread()?, manager.thread()?);
            for _ in 0..10 {
                let guard = lock.lock(&before, Scope::Nothing)?;
                let several = Several::draw(&next, std::iter::once(&lock))?;
                assert!(several.held().is_empty(), "another thread holds it");
                guard.release()?;
                wait(several, &next)?;
            }
            end.wait(&before)
        });
    }

    #[test]
    fn who_draws_after_the_line_holds_the_lock_after_the_wait() {
        after_the_line(|mut several, thread| {
            while several.held().is_empty() {
                assert!(
                    several.wait(thread.now(), thread.deadline()),
                    "the lock is waited for"
                );
                several.failure()?;
            }
            several.release(&[0]).into_iter().collect()
        });
    }

    #[test]
    fn what_is_not_held_is_not_released() {
        after_the_line(|mut several, thread| {
            assert_eq!(several.release(&[0]).as_slice(), [Err(Error::Closed)], "it waits");
            while several.held().is_empty() {
                assert!(
                    several.wait(thread.now(), thread.deadline()),
                    "it is waited for all the same"
                );
                several.failure()?;
            }
            assert_eq!(several.release(&[0]).as_slice(), [Ok(())]);
            assert_eq!(several.release(&[0]).as_slice(), [Err(Error::Closed)], "once");
            Ok(())
        });
    }

    /// As when the caller panics under another lock.
    #[test]
    fn who_has_the_turn_when_it_gives_up_leaves_the_lock_free() {
        after_the_line(|several, _| {
            drop(several);
            Ok(())
        });
    }
}
