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

mod recovery;
mod slot;

use std::sync::atomic::Ordering;
use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, FabricError, Lock, Memory, NodeId, Peers, Time, Wait, WordCell};

use crate::fence::Scope;
use crate::lock_guard::{LocalTurn, LockConfig, LockGuard, Unlock, is_gone};
use crate::platform::{AtomicU32Of, MutexOf};
use crate::thread::{Flags, Operation};
use crate::words::{Pause, Words};
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
pub struct TicketLock<F: Fabric> {
    channel: Channel<F>,
    config: LockConfig,
    words: Words<F>,
    /// First slot.
    slots: usize,
    /// What the first node says.
    says: usize,
    /// Slots, a power of two, at least as many as there can be tickets drawn and not served: one a node.
    slot_count: u64,
    /// Where this node is told that its ticket is served.
    told: <F::Memory as Memory>::Cell<u64>,
    told_region: Region<F>,
    turn: LocalTurn<F>,
    /// Touched only by the thread whose turn it is.
    mine: MutexOf<F, Mine>,
    /// A lost holder's id + 1, once known, for everybody who comes later.
    poisoned: AtomicU32Of<F>,
}

/// What this node has in the lock.
struct Mine {
    /// The ticket with which the node holds the lock.
    held: Option<u64>,
    /// A ticket given up that may not have been passed over yet.
    abandoned: Option<u64>,
    says: Says,
    /// Hand-overs between threads since the node got the lock.
    hand_overs: u32,
    /// Lost nodes that are known to hold nothing.
    settled: Vec<NodeId>,
    /// Who waited last time when this node was done: a guess who waits this time.
    follower: Option<NodeId>,
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
        Ok(TicketLock {
            words: Words::new(parent.manager().fabric(), channel.region("words")?, home)?,
            told: told_region.local()?.cell(0)?,
            told_region,
            channel,
            config,
            slots,
            says,
            slot_count: slot_count as u64,
            turn: LocalTurn::new(),
            mine: Lock::new(Mine {
                held: None,
                abandoned: None,
                says: Says::Nothing,
                hand_overs: 0,
                settled: Vec::new(),
                follower: None,
            }),
            poisoned: AtomicCell::new(0),
        })
    }

    /// Waits for the lock, for the thread's deadline at most. `scope` is the fence at release.
    ///
    /// # Errors
    /// `HolderLost`; `PeerLost` if the home is gone; `Timeout`. The caller does not hold the lock then.
    pub fn lock<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
    ) -> Result<LockGuard<'a, F, TicketLock<F>>> {
        self.lock_with(thread, scope, None)
    }

    /// Waits for the lock until `deadline`.
    ///
    /// # Errors
    /// See [`lock`](TicketLock::lock).
    pub fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
        deadline: Time,
    ) -> Result<LockGuard<'a, F, TicketLock<F>>> {
        self.lock_with(thread, scope, Some(deadline))
    }

    /// Without a deadline it is the thread's, worked out only if there is something to wait for.
    fn lock_with<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
        deadline: Option<Time>,
    ) -> Result<LockGuard<'a, F, TicketLock<F>>> {
        let deadline = deadline.or(thread.set_deadline_is());
        self.check_poison()?;
        self.turn.enter(thread, self.channel.name(), deadline)?;
        let mut mine = self.mine.lock();
        if mine.held.is_some() {
            return Ok(LockGuard::new(self, thread, scope, false));
        }
        match thread.to_the_end(|| self.acquire(thread, &mut mine, deadline)) {
            Ok(recovered) => Ok(LockGuard::new(self, thread, scope, recovered)),
            Err(error) => {
                self.turn.leave();
                Err(error)
            }
        }
    }

    /// Takes the lock if it is free; `None` if it is held or awaited, or others were quicker.
    ///
    /// # Errors
    /// See [`lock`](TicketLock::lock).
    pub fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, F, TicketLock<F>>>> {
        self.check_poison()?;
        if !self.turn.try_enter() {
            return Ok(None);
        }
        let outcome = thread.to_the_end(|| self.try_acquire(thread, &mut self.mine.lock()));
        if !matches!(outcome, Ok(Some(_))) {
            self.turn.leave();
        }
        Ok(outcome?.map(|recovered| LockGuard::new(self, thread, scope, recovered)))
    }

    /// The endpoint, to wait until this lock alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Says that the lock will be taken soon.
    pub(crate) fn prefetch(&self) {
        self.words.prefetch(NEXT);
    }

    /// Gets the lock to this node; true if a holder was lost.
    fn acquire(&self, thread: &Thread<F>, mine: &mut Mine, deadline: Option<Time>) -> Result<bool> {
        let resumed = match mine.abandoned.take() {
            Some(ticket) => self.resume(thread, ticket)?,
            None => None,
        };
        let (ticket, served) = match resumed {
            Some(ticket) => (ticket, None),
            None => self.draw(thread, mine)?,
        };
        let recovered = match served {
            Some(recovered) => recovered,
            None => self.wait_for_turn(thread, mine, ticket, deadline)?,
        };
        mine.held = Some(ticket);
        mine.hand_overs = 0;
        Ok(recovered)
    }

    /// Draws a ticket and claims it; the turn, if it has come already.
    fn draw(&self, thread: &Thread<F>, mine: &mut Mine) -> Result<(u64, Option<bool>)> {
        self.say(thread, Says::Taking)?;
        let ticket = self.words.fetch_add(thread, NEXT, 1)?;
        mine.says = Says::Has(ticket);
        self.say(thread, mine.says)?;
        let claim = Slot::new(ticket, Stage::Claimed(self.channel.node()));
        let guess = self.untouched(ticket);
        let old = self.change(thread, ticket, guess, |old| {
            (old.ticket < ticket).then_some(claim)
        })?;
        let served = old.filter(|old| old.ticket == ticket && old.is_served());
        Ok((ticket, served.map(|old| old.stage == Stage::Recovered)))
    }

    /// Claims a ticket that was given up, unless it has been passed over.
    fn resume(&self, thread: &Thread<F>, ticket: u64) -> Result<Option<u64>> {
        let claim = Slot::new(ticket, Stage::Claimed(self.channel.node()));
        let abandoned = Slot::new(ticket, Stage::Abandoned);
        let old = self
            .words
            .compare_swap(thread, self.slot(ticket), abandoned.to_word(), claim.to_word())?;
        Ok((old == abandoned.to_word()).then_some(ticket))
    }

    /// Waits until this node is told that its claimed ticket is served.
    fn wait_for_turn(
        &self,
        thread: &Thread<F>,
        mine: &mut Mine,
        ticket: u64,
        deadline: Option<Time>,
    ) -> Result<bool> {
        let deadline = deadline.unwrap_or_else(|| thread.node().default_deadline());
        let mut peers: Vec<NodeId> = Vec::new();
        let told = || {
            // Acquire: as all reads on TSO.
            let told = self.told.load(Ordering::Acquire);
            (told >> 1 == ticket + 1).then_some(told & 1 == 1)
        };
        loop {
            let peers = if mine.settled.is_empty() {
                self.channel.peers()
            } else {
                peers.clear();
                let others = self.channel.peers().iter();
                peers.extend(others.filter(|peer| !mine.settled.contains(peer)));
                &peers
            };
            let wait = Wait {
                what: self.channel.name(),
                peers: Peers::These(peers),
                deadline: Some(deadline),
            };
            let error: Error = match thread.fabric().wait(wait, told) {
                Ok(recovered) => return Ok(recovered),
                Err(FabricError::PeerLost(node)) if node != self.words.home() => {
                    // Whoever serves us may have been lost before it told us.
                    if let Some(recovered) = self.served(thread, ticket)? {
                        self.be_told(thread, ticket);
                        return Ok(recovered);
                    }
                    match self.settle(thread, mine) {
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
                mine.abandoned = Some(ticket);
                return Err(error);
            }
            // Served at the last moment.
            self.be_told(thread, ticket);
            return Ok(Slot::from_word(old).stage == Stage::Recovered);
        }
    }

    /// Waits for word of a ticket that the slot says is served: if it came later it could cover that of the next
    /// ticket, which another node sends. If it never comes, as its sender was lost, it covers nothing.
    fn be_told(&self, thread: &Thread<F>, ticket: u64) {
        // Acquire: as all reads on TSO.
        let told = || (self.told.load(Ordering::Acquire) >> 1 == ticket + 1).then_some(());
        let mut wait = Wait {
            what: self.channel.name(),
            peers: Peers::These(self.channel.peers()),
            deadline: None,
        };
        if thread.fabric().wait(wait, told).is_err() {
            wait.peers = Peers::None;
            wait.deadline = Some(thread.now().after(LATE_WORD));
            // Whether it came or not: see above.
            let _ = thread.fabric().wait(wait, told);
        }
    }

    fn served(&self, thread: &Thread<F>, ticket: u64) -> Result<Option<bool>> {
        let slot = Slot::from_word(self.words.peek(thread, self.slot(ticket))?);
        Ok((slot.ticket == ticket && slot.is_served()).then_some(slot.stage == Stage::Recovered))
    }

    fn try_acquire(&self, thread: &Thread<F>, mine: &mut Mine) -> Result<Option<bool>> {
        let next = self.words.peek(thread, NEXT)?;
        let Some(recovered) = self.served(thread, next)? else {
            return Ok(None);
        };
        self.say(thread, Says::Taking)?;
        let drawn = self.words.compare_swap(thread, NEXT, next, next + 1)? == next;
        if drawn {
            mine.says = Says::Has(next);
            // All tickets before it are over, one that this node gave up included.
            mine.abandoned = None;
            mine.held = Some(next);
            mine.hand_overs = 0;
        }
        self.say(thread, mine.says)?;
        Ok(drawn.then_some(recovered))
    }

    /// Serves the ticket after `ticket`, passing over those given up or lost.
    /// `follower` is a guess who has the next one, and becomes who had it.
    fn serve_next(
        &self,
        thread: &Thread<F>,
        ticket: u64,
        recovered: bool,
        follower: &mut Option<NodeId>,
    ) -> Result<()> {
        let stage = if recovered {
            Stage::Recovered
        } else {
            Stage::Served
        };
        for next in ticket + 1.. {
            let skipped = Slot::new(next, Stage::Skipped);
            let served = Slot::new(next, stage);
            let guess = match *follower {
                Some(node) => Slot::new(next, Stage::Claimed(node)).to_word(),
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
            *follower = match old {
                Some(Slot {
                    ticket,
                    stage: Stage::Claimed(node),
                }) if ticket == next => Some(node),
                _ => None,
            };
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
            // Release: as all stores on TSO.
            self.told.store(word, Ordering::Release);
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
        let nodes = self.channel.participants();
        let position = nodes.nodes().binary_search(&self.channel.node()).unwrap_or(0);
        self.words
            .post_write(thread, self.says + position * LINE_WORDS, says.to_word())
    }

    fn slot(&self, ticket: u64) -> usize {
        self.slots + (ticket & (self.slot_count - 1)) as usize
    }

    fn check_poison(&self) -> Result<()> {
        // Relaxed: says all there is to say itself.
        match self.poisoned.load(Ordering::Relaxed) {
            0 => Ok(()),
            id => Err(self.holder_lost(NodeId((id - 1) as u16))),
        }
    }

    fn holder_lost(&self, node: NodeId) -> Error {
        Error::HolderLost {
            lock: self.channel.name().to_owned(),
            node,
        }
    }
}

impl<F: Fabric> Unlock<F> for TicketLock<F> {
    fn unlock(&self, thread: &Thread<F>, scope: Scope) -> Result<()> {
        // On its way while the fence waits.
        self.words.prefetch(NEXT);
        let fenced = scope.fence(thread);
        let mut mine = self.mine.lock();
        let mut served = Ok(());
        if mine.hand_overs < self.config.local_hand_overs_max && self.turn.awaited() {
            mine.hand_overs += 1;
        } else if let Some(ticket) = mine.held.take() {
            let follower = &mut mine.follower;
            served = thread.to_the_end(|| self.serve_next(thread, ticket, false, follower));
        }
        drop(mine);
        self.turn.leave();
        fenced.and(served)
    }

    fn name(&self) -> &str {
        self.channel.name()
    }
}
