//! The test-and-set lock: one word, compare-and-swap, back-off. It is unfair, and cheap where no other node
//! wants it.
//!
//! The word names the holder, so that reading it finds a lost holder. Waiters back off for longer and longer.
//! A release is announced to them by a put into their own memory, which ends a back-off early.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, FabricError, Lock, Memory, NodeId, Peers, Time, Wait, WordCell};
use loco_trace::waits::Waiting;

use crate::fabric::AnyFabric;
use crate::fence::Scope;
use crate::objects::locks::guard::{LockConfig, LockGuard, Unlock, holds};
use crate::objects::locks::loss::Poison;
use crate::objects::locks::turn::LocalTurn;
use crate::operations::counts::Count;
use crate::operations::panics::{self, Payload};
use crate::operations::peers::is_gone;
use crate::operations::platform::{AtomicU32Of, AtomicU64Of, MutexOf};
use crate::operations::published::Published;
use crate::operations::shown::{hold, wait_of_several};
use crate::operations::words::Words;
use crate::{Channel, Error, Parent, Result, Thread};

const WORD_BYTES: usize = 8;
const WORD: usize = 0;
const FREE: u64 = 0;
/// The shortest back-off.
const BACK_OFF_MIN: Duration = Duration::from_micros(2);
/// The longest back-off. A release ends it, so it may be long; each attempt after it is an atomic over the network.
const BACK_OFF_MAX: Duration = Duration::from_millis(64);

/// A critical section, which any thread of the node that has the lock may run.
type Job<F> = Box<dyn FnOnce(&Thread<F>) + Send>;

/// A mutual exclusion lock among the threads of all participants, without fairness between nodes.
///
/// ```
/// use loco::{Barrier, Manager, TasLock, fence::Scope, testing};
///
/// testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let lock = TasLock::new(&manager, "lock", manager.nodes()[0])?;
///     let end = Barrier::new(&manager, "end")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     let guard = lock.lock(&thread, Scope::Thread)?;
///     guard.release()?;
///     end.wait(&thread)
/// });
/// ```
///
/// # Strength
///
/// Robust: clients that touch data only while they hold the lock, and release with a scope that covers their puts, see
/// what a strong memory would show them (`loco check tas-lock --robust`).
pub struct TasLock<F: Fabric = AnyFabric> {
    channel: Channel<F>,
    config: LockConfig,
    words: Words<F>,
    /// A word that changes when another node releases the lock.
    hint: <F::Memory as Memory>::Cell<u64>,
    /// The place by which this node announces its releases of the lock to the others.
    announcement: Published<F>,
    turn: LocalTurn<F>,
    mine: Mine<F>,
    jobs: MutexOf<F, Vec<Job<F>>>,
    poison: Poison<F>,
}

/// This node's state in the lock. Only the thread whose turn it is touches it: entering and leaving the turn
/// order the accesses.
struct Mine<F: Fabric> {
    /// 1 while the node holds the lock.
    held: AtomicU32Of<F>,
    /// The number of times that the node has released the lock.
    releases: AtomicU64Of<F>,
}

impl<F: Fabric> TasLock<F> {
    /// Makes this node's endpoint of the lock called `name`. Its word is on `home`.
    ///
    /// # Errors
    /// Returns the errors of [`with_config`](TasLock::with_config).
    pub fn new(parent: &impl Parent<F>, name: &str, home: NodeId) -> Result<Self> {
        TasLock::with_config(parent, name, home, LockConfig::default())
    }

    /// Makes this node's endpoint of the lock, with settings.
    ///
    /// # Errors
    /// Returns [`Unsupported`](crate::fabric::FabricError::Unsupported) where the fabric has no atomics,
    /// [`NotParticipant`](crate::Error::NotParticipant) for a home outside, and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn with_config(
        parent: &impl Parent<F>,
        name: &str,
        home: NodeId,
        config: LockConfig,
    ) -> Result<Self> {
        parent.participants().require(name, home)?;
        let channel = Channel::builder(parent, name)
            .kind(format!("tas_lock on {home}, {:?}", config.on_loss))
            .region("word", WORD_BYTES)
            .published("hint", WORD_BYTES)
            .join()?;
        let hint = channel.published("hint")?;
        Ok(TasLock {
            words: Words::new(parent.manager().fabric(), channel.region("word")?, home)?,
            hint: hint.local()?.cell(0)?,
            // A waiter that sees any change tries again. Nobody needs the last value.
            announcement: Published::new(hint, 0, WORD_BYTES, channel.peers().to_vec()).in_any_order(),
            channel,
            config,
            turn: LocalTurn::new(parent.manager().network().bell().cloned()),
            mine: Mine {
                held: AtomicCell::new(0),
                releases: AtomicCell::new(0),
            },
            jobs: Lock::new(Vec::new()),
            poison: Poison::new(),
        })
    }

    /// Waits for the lock, for the thread's deadline at most. `scope` is the fence at release.
    ///
    /// # Errors
    /// Returns [`HolderLost`](crate::Error::HolderLost), [`PeerLost`](crate::ErrorKind::PeerLost) if the home is gone,
    /// or [`Timeout`](crate::ErrorKind::Timeout). The caller then does not hold the lock.
    ///
    /// # After a timeout
    /// The caller does not hold the lock, and has lost its place in the line. Lock again.
    pub fn lock<'a>(&'a self, thread: &'a Thread<F>, scope: Scope) -> Result<LockGuard<'a, TasLock<F>, F>> {
        self.lock_until(thread, scope, thread.deadline())
    }

    /// Waits for the lock until `deadline`.
    ///
    /// # Errors
    /// Returns the errors of [`lock`](TasLock::lock).
    ///
    /// # After a timeout
    /// See [`lock`](TasLock::lock).
    pub fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
        deadline: Time,
    ) -> Result<LockGuard<'a, TasLock<F>, F>> {
        let _call = thread.call(self.channel.name(), "lock");
        // The holder may wait for a lock that this thread has asked for.
        thread.settle(Some(deadline))?;
        let since = self.turn.enter(thread, self.channel.name(), Some(deadline))?;
        let recovered = match self.mine.held.load() {
            0 => thread
                .to_the_end(|| self.acquire(thread, since, deadline))
                .inspect(|_| self.got()),
            // This needed no remote step, so the loss of this node's membership may have gone unnoticed.
            _ => thread.still_in().map(|()| false),
        };
        match recovered {
            Ok(_) => hold(self.channel.shown()),
            Err(_) => self.turn.leave(),
        }
        Ok(LockGuard::new(self, thread, scope, recovered?))
    }

    /// Takes the lock if it is free. Returns `None` if it is held.
    ///
    /// # Errors
    /// Returns the errors of [`lock`](TasLock::lock) except [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// There is none: the call waits for no holder, and completes its operations on the home whatever the deadline.
    pub fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, TasLock<F>, F>>> {
        let _call = thread.call(self.channel.name(), "try_lock");
        // The holder may wait for a lock that this thread has asked for, and the caller may try until it has this one.
        thread.move_on();
        if !self.turn.try_enter() {
            return Ok(None);
        }
        let outcome = thread.to_the_end(|| self.first_attempt(thread));
        match outcome {
            Ok(Attempt::Got { recovered }) => {
                self.got();
                hold(self.channel.shown());
                Ok(Some(LockGuard::new(self, thread, scope, recovered)))
            }
            other => {
                self.turn.leave();
                other.map(|_| None)
            }
        }
    }

    /// Runs `section` under the lock, on a thread of this node that has it. Threads that want the lock at the same
    /// time leave their sections to the first of them, which runs them all for one acquisition (flat combining,
    /// Hendler et al. 2010). The runner executes one fence of its `scope` for all sections of a round.
    ///
    /// `section` uses the thread that it is given, and must not block on this lock. Between two sections of a round there is no
    /// fence: a section sees what an earlier one has put by reads in strong order
    /// ([`read_word_strong`](Thread::read_word_strong)).
    ///
    /// # Errors
    /// Returns the errors of [`lock`](TasLock::lock); the section then has not run, and will not. The thread that ran
    /// the sections also returns the fence's error at release; its section then has run.
    ///
    /// # Panics
    /// Panics if `section` panics, with its message and wherever it ran, once the lock is released or another thread has
    /// it. The other sections run all the same.
    ///
    /// # After a timeout
    /// The section has not run, and will not: combine again. Once another thread has begun to run the
    /// section, the call waits for its end, whatever the deadline.
    pub fn combine<T: Send + 'static>(
        &self,
        thread: &Thread<F>,
        scope: Scope,
        section: impl FnOnce(&Thread<F>) -> T + Send + 'static,
    ) -> Result<T> {
        let _call = thread.call(self.channel.name(), "combine");
        /// A runner has taken the section, or its owner has withdrawn it.
        const TAKEN: u64 = 1;
        /// The runner has left the result.
        const DONE: u64 = 2;
        /// The place of the result, or of the section's panic, and how far the section has come: 0, `TAKEN` or `DONE`.
        struct Outcome<F: Fabric, T: Send + 'static> {
            stage: AtomicU64Of<F>,
            value: MutexOf<F, Option<Result<T, Payload>>>,
        }
        /// Returns the result to the section's owner, or raises its panic there.
        fn raise<T>(value: Result<T, Payload>) -> T {
            value.unwrap_or_else(|payload| resume_unwind(payload))
        }
        let outcome = Arc::new(Outcome::<F, T> {
            stage: AtomicCell::new(0),
            value: Lock::new(None),
        });
        let left = outcome.clone();
        self.jobs.lock().push(Box::new(move |thread: &Thread<F>| {
            // The swap decides between the runner and the owner that gives up.
            if left.stage.swap(TAKEN) == 0 {
                let value = panics::catch(thread.fabric().platform(), || section(thread));
                *left.value.lock() = Some(value);
                left.stage.store(DONE);
            }
        }));
        let guard = match self.lock(thread, scope) {
            Ok(guard) => guard,
            Err(error) => {
                if outcome.stage.compare_exchange(0, TAKEN).is_ok() {
                    return Err(error);
                }
                // A runner has taken the section. It holds the lock, and is running the section or has finished it.
                let done = || (outcome.stage.load() == DONE).then_some(());
                thread.to_the_end(|| thread.wait_until(self.channel.name(), Peers::None, done))?;
                let value = outcome.value.lock().take();
                return value.map(raise).ok_or(Error::Closed);
            }
        };
        // An earlier holder may already have run this section. Run any others that wait.
        let jobs = std::mem::take(&mut *self.jobs.lock());
        for job in jobs {
            // What a section has captured or returned may be dropped here, if its owner has gone.
            panics::contain(thread.fabric().platform(), || job(thread));
        }
        let released = guard.release();
        let value = outcome.value.lock().take();
        match (value, released) {
            (Some(Err(payload)), _) => resume_unwind(payload),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(error)) => Err(error),
            // Not reached: this thread or an earlier holder has run the job.
            (None, Ok(())) => Err(Error::Closed),
        }
    }

    /// Returns the endpoint, to wait until this lock alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Notes that the node holds the lock.
    fn got(&self) {
        self.mine.held.store(1);
        self.turn.begin();
    }

    /// Gets the lock for this node. The call has waited since `since`, if that is given.
    fn acquire(&self, thread: &Thread<F>, since: Option<Time>, deadline: Time) -> Result<bool> {
        let begin = since.unwrap_or_else(|| thread.now());
        let mut back_off = BACK_OFF_MIN;
        let (mut waits, mut shown) = (false, Waiting::default());
        // Its release, on which others wait, needs the same.
        self.words.prepare(thread)?;
        loop {
            // The hint is read before the attempt, so that no release after a failed attempt is missed.
            let hint = self.hint.load();
            let holder = match self.attempt(thread)? {
                Attempt::Got { recovered } => return Ok(recovered),
                Attempt::Held(holder) => holder,
            };
            let counted = match waits {
                false => Count::LockWaits,
                true => Count::LocksAgain,
            };
            thread.counts().add(counted, 1);
            waits = true;
            let now = thread.now();
            if now >= deadline || thread.given_up() {
                let name = self.channel.name();
                let late = Error::timeout(name, begin, deadline, now);
                return Err(late.because(&[holder], holds(holder, name)));
            }
            let (who, times) = ((self.channel.node(), self.channel.name()), (begin, now, deadline));
            wait_of_several(&mut shown, who, &[holder], times);
            let wait = Wait {
                what: self.channel.name(),
                peers: Peers::These(&[holder, self.words.home()]),
                deadline: Some(now.after(back_off).min(deadline)),
            };
            let released = || (self.hint.load() != hint).then_some(());
            match thread.fabric().wait_for_arrival(wait, released) {
                Ok(()) => {}
                Err(FabricError::Timeout { .. }) => back_off = (back_off * 2).min(BACK_OFF_MAX),
                // The next attempt examines the loss.
                Err(FabricError::PeerLost(node)) if node != self.words.home() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tries to take the lock, in a call that has not prepared yet.
    fn first_attempt(&self, thread: &Thread<F>) -> Result<Attempt> {
        self.words.prepare(thread)?;
        self.attempt(thread)
    }

    fn attempt(&self, thread: &Thread<F>) -> Result<Attempt> {
        self.poison.check(self.channel.name())?;
        let me = name_of(self.channel.node());
        let mut recovered = false;
        let mut expected = FREE;
        loop {
            let old = self.words.compare_swap(thread, WORD, expected, me)?;
            if old == expected {
                return Ok(Attempt::Got { recovered });
            }
            if old == FREE {
                (expected, recovered) = (FREE, false);
                continue;
            }
            debug_assert!(
                old <= name_of(NodeId(u16::MAX)),
                "the word of a lock names a node: {old}"
            );
            let holder = NodeId((old - 1) as u16);
            if !is_gone(thread.fabric(), holder) {
                return Ok(Attempt::Held(holder));
            }
            self.poison
                .lose(self.channel.name(), holder, self.config.on_loss)?;
            (expected, recovered) = (old, true);
        }
    }

    /// Tells the others that the lock is free. Each announcement is a new value, so that none is missed.
    fn announce_release(&self, thread: &Thread<F>, releases: u64) -> Result<()> {
        let value = (name_of(self.channel.node()) << 44) | releases;
        match self
            .announcement
            .post_inline_untracked(thread, &value.to_ne_bytes())
        {
            Err(error) if error.lost_peer().is_some() => Ok(()),
            outcome => outcome,
        }
    }
}

impl<F: Fabric> Unlock<F> for TasLock<F> {
    fn unlock(&self, thread: &Thread<F>, scope: Scope) -> Result<()> {
        let _call = thread.call(self.channel.name(), "release");
        let fenced = thread.to_the_end(|| scope.order(thread));
        self.channel.shown().release();
        // The waiting thread may just have given up. The lock then leaves the node after all.
        if self.turn.may_stay(self.config.local_hand_overs_max) && self.turn.hand_over() {
            return fenced.and(thread.still_in());
        }
        self.mine.held.store(0);
        let releases = self.mine.releases.load() + 1;
        self.mine.releases.store(releases);
        // The word is freed by compare-and-swap, because a put is not atomic against the others' attempts.
        let me = name_of(self.channel.node());
        let freed = thread.to_the_end(|| {
            self.words.compare_swap(thread, WORD, me, FREE)?;
            self.announce_release(thread, releases)
        });
        self.turn.leave();
        fenced.and(freed)
    }

    fn name(&self) -> &str {
        self.channel.name()
    }
}

/// The result of an attempt.
enum Attempt {
    Got { recovered: bool },
    Held(NodeId),
}

/// Returns the word that says that `node` holds the lock.
fn name_of(node: NodeId) -> u64 {
    u64::from(node.0) + 1
}
