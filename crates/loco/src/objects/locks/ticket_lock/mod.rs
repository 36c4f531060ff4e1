//! The ticket lock (LOCO'25 5.4, after Mellor-Crummey and Scott 1991) over network memory.
//!
//! A node draws a ticket by remote fetch-and-add; tickets are served in order. In the textbook all waiters watch one
//! `now_serving` word. Here that word is spread: ticket `t` has a *slot* at the home, and who is second of the two,
//! the node that waits (*claims* its slot) and the node that is done (*serves* it), finds the other's mark there. If the
//! waiter was first, the one that is done tells it by a put into a word of the waiter's own memory, which is
//! all that a waiter ever looks at. So the home is not hammered, however many wait, and a release costs the same.
//!
//! A ticket cannot be given back, so a waiter that gives up marks its slot, and is passed over unless it comes back
//! before that.
//!
//! A node that is about to draw a ticket says so at the home, and then which it drew. Thus when a node is lost the
//! others can find out what it held (`recovery`).
//!
//! Threads of one node share one ticket at a time: they line up locally, and the one that is done hands the lock to
//! the next, up to a bound, before it leaves the node.

#[cfg(test)]
mod fairness;
mod recovery;
mod slot;

use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, FabricError, Lock, Memory, NodeId, Peers, Time, Wait, WordCell};

use crate::fabric::AnyFabric;
use crate::fence::{self, Scope};
use crate::objects::locks::guard::{LockConfig, LockGuard, Unlock};
use crate::objects::locks::loss::Poison;
use crate::objects::locks::turn::LocalTurn;
use crate::operations::operation::{Flags, Operation};
use crate::operations::peers::is_gone;
use crate::operations::platform::{AtomicU32Of, AtomicU64Of, MutexOf};
use crate::operations::words::{Pause, Words};
use crate::{Channel, Error, Parent, Region, Result, Thread};

use recovery::Settled;
use slot::{Says, Slot, Stage};

const WORD_BYTES: usize = 8;
/// Words of a cache line, so that what different nodes write lies apart.
const LINE_WORDS: usize = 8;
/// Word of the next ticket. The slots follow, in the same line if there is room: who touches one of them touches the
/// other. Then a line for each node, with what it says.
const NEXT: usize = 0;
/// Between two attempts to find out what a lost node held, while others are drawing tickets.
const RECOVERY_PAUSE: Duration = Duration::from_micros(50);
/// How long word that was sent by a node, lost or not, may be under way when some node is lost.
const LATE_WORD: Duration = Duration::from_millis(100);

/// A fair mutual exclusion lock among the threads of all participants.
///
/// ```
/// use loco::{Barrier, Manager, SharedRegion, TicketLock, fence::Scope, testing};
///
/// // Two nodes increment a word on node 0 by get and put, which only a lock makes atomic.
/// let total = testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let home = manager.nodes()[0];
///     let lock = TicketLock::new(&manager, "lock", home)?;
///     let word = SharedRegion::new(&manager, "word", 8)?;
///     let end = Barrier::new(&manager, "end")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     for _ in 0..100 {
///         let guard = lock.lock(&thread, Scope::Pair(home))?;
///         let buffer = thread.mem_ref(8)?.get(word.target(home, 0)?)?.wait()?;
///         buffer.set_word(0, buffer.word(0)? + 1)?;
///         buffer.put(word.target(home, 0)?)?.wait()?;
///         guard.release()?; // the fence places the put
///     }
///     end.wait(&thread)?;
///     let mut total = [0; 8];
///     word.read(0, &mut total)?;
///     Ok(u64::from_ne_bytes(total))
/// });
/// assert_eq!(total[0], 200);
/// ```
pub struct TicketLock<F: Fabric = AnyFabric> {
    channel: Channel<F>,
    config: LockConfig,
    words: Words<F>,
    /// First slot.
    slots: usize,
    /// What the first node says.
    says: usize,
    /// What this one says.
    mine_says: usize,
    /// Slots, a power of two, at least as many as there can be tickets drawn and not served: one a node.
    slot_count: u64,
    /// Where this node is told that its ticket is served.
    told: <F::Memory as Memory>::Cell<u64>,
    told_region: Region<F>,
    turn: LocalTurn<F>,
    mine: Mine<F>,
    poison: Poison<F>,
}

/// What this node has in the lock. Touched only by the thread whose turn it is, and entering and
/// leaving the turn order the accesses.
struct Mine<F: Fabric> {
    /// 1 + the ticket with which the node holds the lock, or 0.
    held: AtomicU64Of<F>,
    /// 1 + a ticket given up that may not have been passed over yet, or 0.
    abandoned: AtomicU64Of<F>,
    /// 1 + the last ticket that the node drew, or 0.
    drawn: AtomicU64Of<F>,
    /// 1 + the node that waited last time when this one was done, or 0: a guess who waits this time.
    follower: AtomicU32Of<F>,
    /// Number of `settled`.
    settled_count: AtomicU32Of<F>,
    /// Lost nodes that are known to hold nothing.
    settled: MutexOf<F, Vec<NodeId>>,
}

impl<F: Fabric> TicketLock<F> {
    /// Makes this node's endpoint of the lock called `name`, whose words live on `home`.
    ///
    /// # Errors
    /// See [`with_config`](TicketLock::with_config).
    pub fn new(parent: &impl Parent<F>, name: &str, home: NodeId) -> Result<Self> {
        TicketLock::with_config(parent, name, home, LockConfig::default())
    }

    /// The same with settings.
    ///
    /// # Errors
    /// `Unsupported` where the fabric has no atomics; `NotParticipant` for a home outside; see
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn with_config(
        parent: &impl Parent<F>,
        name: &str,
        home: NodeId,
        config: LockConfig,
    ) -> Result<Self> {
        let participants = parent.participants();
        participants.require(name, home)?;
        let nodes = participants.nodes().len();
        let slot_count = (nodes + 1).next_power_of_two();
        let slots = if slot_count < LINE_WORDS {
            NEXT + 1
        } else {
            LINE_WORDS
        };
        let says = (slots + slot_count).next_multiple_of(LINE_WORDS);
        let channel = Channel::builder(parent, name)
            .kind(format!("ticket_lock on {home}, {:?}", config.on_loss))
            .region("words", (says + nodes * LINE_WORDS) * WORD_BYTES)
            .region("told", WORD_BYTES)
            .join()?;
        let told_region = channel.region("told")?.clone();
        let position = participants.nodes().binary_search(&channel.node());
        Ok(TicketLock {
            words: Words::new(parent.manager().fabric(), channel.region("words")?, home)?,
            told: told_region.local()?.cell(0)?,
            told_region,
            channel,
            config,
            slots,
            says,
            // A participant, or the channel could not have been joined.
            mine_says: says + position.unwrap_or(0) * LINE_WORDS,
            slot_count: slot_count as u64,
            turn: LocalTurn::new(),
            mine: Mine {
                held: AtomicCell::new(0),
                abandoned: AtomicCell::new(0),
                drawn: AtomicCell::new(0),
                follower: AtomicCell::new(0),
                settled_count: AtomicCell::new(0),
                settled: Lock::new(Vec::new()),
            },
            poison: Poison::new(),
        })
    }

    /// Waits for the lock, for the thread's deadline at most. `scope` is the fence at release.
    ///
    /// # Errors
    /// `HolderLost`; `PeerLost` if the home is gone; `Timeout`. The caller does not hold the lock then.
    ///
    /// # After a timeout
    /// The caller does not hold the lock. Its node keeps its place in the line until it is passed over, so that a later
    /// call may find itself ahead of others; lock again.
    #[inline]
    pub fn lock<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
    ) -> Result<LockGuard<'a, TicketLock<F>, F>> {
        self.lock_with(thread, scope, None)
    }

    /// Waits for the lock until `deadline`.
    ///
    /// # Errors
    /// See [`lock`](TicketLock::lock).
    ///
    /// # After a timeout
    /// As after [`lock`](TicketLock::lock).
    #[inline]
    pub fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
        deadline: Time,
    ) -> Result<LockGuard<'a, TicketLock<F>, F>> {
        self.lock_with(thread, scope, Some(deadline))
    }

    /// Without a deadline it is the thread's, worked out only if there is something to wait for.
    // The guard is made in the caller's frame: moved, its small fields are read back wider than they were written, which
    // waits until every store before has left the processor.
    #[inline(always)]
    fn lock_with<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
        deadline: Option<Time>,
    ) -> Result<LockGuard<'a, TicketLock<F>, F>> {
        match self.enter(thread, deadline) {
            Ok(recovered) => Ok(LockGuard::new(self, thread, scope, recovered)),
            Err(error) => Err(error),
        }
    }

    /// Gets the lock to this thread; true if a holder was lost.
    fn enter(&self, thread: &Thread<F>, deadline: Option<Time>) -> Result<bool> {
        let deadline = deadline.or(thread.set_deadline_is());
        self.poison.check(self.channel.name())?;
        self.turn.enter(thread, self.channel.name(), deadline)?;
        if self.mine.held.load() != 0 {
            return Ok(false);
        }
        let recovered = thread.to_the_end(|| self.acquire(thread, deadline));
        if recovered.is_err() {
            self.turn.leave();
        }
        recovered
    }

    /// Takes the lock if it is free; `None` if it is held or awaited, or others were quicker.
    ///
    /// # Errors
    /// See [`lock`](TicketLock::lock).
    pub fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, TicketLock<F>, F>>> {
        self.poison.check(self.channel.name())?;
        if !self.turn.try_enter() {
            return Ok(None);
        }
        let outcome = thread.to_the_end(|| self.try_acquire(thread));
        if !matches!(outcome, Ok(Some(_))) {
            self.turn.leave();
        }
        Ok(outcome?.map(|recovered| LockGuard::new(self, thread, scope, recovered)))
    }

    /// The endpoint, to wait until this lock alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// A hint that the lock will be taken soon: has its words fetched while the caller does something else. Means nothing:
    /// takes and orders nothing.
    #[inline]
    pub fn prefetch(&self) {
        self.words.prefetch(NEXT);
    }

    /// Gets the lock to this node; true if a holder was lost.
    fn acquire(&self, thread: &Thread<F>, deadline: Option<Time>) -> Result<bool> {
        let (ticket, served) = match self.resume(thread)? {
            Some(ticket) => (ticket, None),
            None => self.draw(thread)?,
        };
        let recovered = match served {
            Some(recovered) => recovered,
            None => self.wait_for_turn(thread, ticket, deadline)?,
        };
        self.got(ticket);
        Ok(recovered)
    }

    /// The node holds the lock with `ticket`.
    fn got(&self, ticket: u64) {
        self.mine.held.store(ticket + 1);
        self.turn.begin();
    }

    /// Draws a ticket and claims it; the turn, if it has come already.
    fn draw(&self, thread: &Thread<F>) -> Result<(u64, Option<bool>)> {
        self.say(thread, Says::Taking)?;
        let ticket = self.words.fetch_add(thread, NEXT, 1)?;
        self.mine.drawn.store(ticket + 1);
        self.say(thread, Says::Has(ticket))?;
        let claim = Slot::new(ticket, Stage::Claimed(self.channel.node()));
        let guess = self.untouched(ticket);
        let old = self.change(thread, ticket, guess, |old| {
            (old.ticket < ticket).then_some(claim)
        })?;
        let served = old.filter(|old| old.ticket == ticket && old.is_served());
        Ok((ticket, served.map(|old| old.stage == Stage::Recovered)))
    }

    /// Claims the ticket that was given up, if there is one, unless it has been passed over.
    fn resume(&self, thread: &Thread<F>) -> Result<Option<u64>> {
        let Some(ticket) = self.mine.abandoned.load().checked_sub(1) else {
            return Ok(None);
        };
        self.mine.abandoned.store(0);
        let claim = Slot::new(ticket, Stage::Claimed(self.channel.node()));
        let abandoned = Slot::new(ticket, Stage::Abandoned);
        let old = self
            .words
            .compare_swap(thread, self.slot(ticket), abandoned.to_word(), claim.to_word())?;
        Ok((old == abandoned.to_word()).then_some(ticket))
    }

    /// Waits until this node is told that its claimed ticket is served.
    fn wait_for_turn(&self, thread: &Thread<F>, ticket: u64, deadline: Option<Time>) -> Result<bool> {
        let deadline = deadline.unwrap_or_else(|| thread.network().default_deadline());
        let mut peers: Vec<NodeId> = Vec::new();
        let told = || {
            let told = self.told.load();
            (told >> 1 == ticket + 1).then_some(told & 1 == 1)
        };
        loop {
            let peers = if self.mine.settled_count.load() == 0 {
                self.channel.peers()
            } else {
                let settled = self.mine.settled.lock();
                peers.clear();
                let others = self.channel.peers().iter();
                peers.extend(others.filter(|peer| !settled.contains(peer)));
                &peers
            };
            let wait = Wait {
                what: self.channel.name(),
                peers: Peers::These(peers),
                deadline: Some(deadline),
            };
            let error: Error = match thread.fabric().wait(wait, told) {
                Ok(recovered) => {
                    // For the release: who served us has left these words by now, unless it is drawing again.
                    self.words.prefetch(NEXT);
                    return Ok(recovered);
                }
                Err(FabricError::PeerLost(node)) if node != self.words.home() => {
                    // Whoever serves us may have been lost before it told us.
                    if let Some(recovered) = self.served(thread, ticket)? {
                        self.be_told(thread, ticket);
                        return Ok(recovered);
                    }
                    match self.settle(thread) {
                        Ok(Settled::Yes) => continue,
                        Ok(Settled::NotYet { index, seen }) => {
                            let pause = Pause {
                                what: self.channel.name(),
                                on: self.words.home(),
                                time: RECOVERY_PAUSE,
                                deadline,
                            };
                            match self.words.pause(thread, pause, index, &seen) {
                                Ok(()) => continue,
                                Err(error) => error,
                            }
                        }
                        Err(error) => error,
                    }
                }
                Err(error) => error.into(),
            };
            if error.lost_peer() == Some(self.words.home()) {
                return Err(error);
            }
            let abandoned = Slot::new(ticket, Stage::Abandoned);
            let claim = Slot::new(ticket, Stage::Claimed(self.channel.node()));
            let old =
                self.words
                    .compare_swap(thread, self.slot(ticket), claim.to_word(), abandoned.to_word())?;
            if old == claim.to_word() {
                self.mine.abandoned.store(ticket + 1);
                return Err(error);
            }
            let old = Slot::from_word(old);
            if old.ticket != ticket || !old.is_served() {
                // Passed over: to the others this node was lost.
                return Err(error);
            }
            // Served at the last moment.
            self.be_told(thread, ticket);
            return Ok(old.stage == Stage::Recovered);
        }
    }

    /// Waits for word of a ticket that the slot says is served: if it came later it could cover that of the next
    /// ticket, which another node sends. If it never comes, as its sender was lost, it covers nothing.
    fn be_told(&self, thread: &Thread<F>, ticket: u64) {
        let told = || (self.told.load() >> 1 == ticket + 1).then_some(());
        let mut wait = Wait {
            what: self.channel.name(),
            peers: Peers::These(self.channel.peers()),
            deadline: None,
        };
        if thread.fabric().wait(wait, told).is_err() {
            wait.peers = Peers::None;
            let late = thread.now().after(LATE_WORD);
            wait.deadline = Some(late);
            // Whether it came or not: see above. A call that was given up waits as long.
            while thread.fabric().wait(wait, told).is_err() && thread.given_up() && thread.now() < late {}
        }
    }

    fn served(&self, thread: &Thread<F>, ticket: u64) -> Result<Option<bool>> {
        let slot = Slot::from_word(self.words.peek(thread, self.slot(ticket))?);
        Ok((slot.ticket == ticket && slot.is_served()).then_some(slot.stage == Stage::Recovered))
    }

    fn try_acquire(&self, thread: &Thread<F>) -> Result<Option<bool>> {
        let next = self.words.peek(thread, NEXT)?;
        let Some(recovered) = self.served(thread, next)? else {
            return Ok(None);
        };
        self.say(thread, Says::Taking)?;
        let drawn = self.words.compare_swap(thread, NEXT, next, next + 1)? == next;
        if drawn {
            self.mine.drawn.store(next + 1);
            // All tickets before it are over, one that this node gave up included.
            self.mine.abandoned.store(0);
        }
        let last = self.mine.drawn.load().checked_sub(1);
        self.say(thread, last.map_or(Says::Nothing, Says::Has))?;
        // No read-modify-write follows that would place it, and whoever speaks for this node next may do so by another
        // queue pair, whose word it must not cover.
        fence::pair(thread, self.words.home())?;
        if drawn {
            self.got(next);
        }
        Ok(drawn.then_some(recovered))
    }

    /// Serves the ticket after `ticket`, passing over those given up or lost.
    fn serve_next(&self, thread: &Thread<F>, ticket: u64, recovered: bool) -> Result<()> {
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
            let old = self.change(thread, next, guess, |old| match old.stage {
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
                    Stage::Claimed(node) => match self.tell(thread, node, next, recovered) {
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

    fn tell(&self, thread: &Thread<F>, node: NodeId, ticket: u64, recovered: bool) -> Result<()> {
        let word = ((ticket + 1) << 1) | u64::from(recovered);
        if node == self.channel.node() {
            self.told.store(word);
            return Ok(());
        }
        let remote = self.told_region.remote(node)?;
        let target = loco_fabric::Target { remote, offset: 0 };
        let put = Operation::PutInline(&word.to_ne_bytes(), target);
        thread.post_untracked(&put, Flags::default())
    }

    /// Changes the slot of `ticket` as `to` says, given what is there, if it says so; what was there. `guess` is what may
    /// be there.
    fn change(
        &self,
        thread: &Thread<F>,
        ticket: u64,
        guess: u64,
        to: impl Fn(Slot) -> Option<Slot>,
    ) -> Result<Option<Slot>> {
        let mut old = guess;
        loop {
            let slot = Slot::from_word(old);
            let Some(new) = to(slot) else {
                return Ok(Some(slot));
            };
            let found = self
                .words
                .compare_swap(thread, self.slot(ticket), old, new.to_word())?;
            if found == old {
                return Ok(Some(slot));
            }
            old = found;
        }
    }

    /// What the slot of `ticket` holds when nobody has touched it for this ticket, usually.
    fn untouched(&self, ticket: u64) -> u64 {
        let before = ticket.checked_sub(self.slot_count);
        before.map_or(0, |before| Slot::new(before, Stage::Served).to_word())
    }

    fn say(&self, thread: &Thread<F>, says: Says) -> Result<()> {
        self.words.post_write(thread, self.mine_says, says.to_word())
    }

    fn slot(&self, ticket: u64) -> usize {
        self.slots + (ticket & (self.slot_count - 1)) as usize
    }
}

impl<F: Fabric> Unlock<F> for TicketLock<F> {
    fn unlock(&self, thread: &Thread<F>, scope: Scope) -> Result<()> {
        // On its way while the fence waits.
        self.words.prefetch(NEXT);
        let may_stay = self.turn.may_stay(self.config.local_hand_overs_max);
        let fenced = match may_stay {
            true => thread.to_the_end(|| scope.fence(thread)),
            false => thread.to_the_end(|| scope.fence_before_rmw(thread)),
        };
        // A thread that waited may have given up during the fence. Then the lock leaves the node after all.
        if may_stay && self.turn.hand_over() {
            return fenced;
        }
        let mut failed = None;
        if let Some(ticket) = self.mine.held.load().checked_sub(1) {
            self.mine.held.store(0);
            failed = thread.to_the_end(|| self.serve_next(thread, ticket, false)).err();
        }
        self.turn.leave();
        // Looked at, not copied: see `PutOp`.
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
