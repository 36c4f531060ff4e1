//! The ticket lock (LOCO'25 5.4, after Mellor-Crummey and Scott 1991) over network memory.
//!
//! A node draws a ticket by remote fetch-and-add, and tickets are served in order. In the textbook all
//! waiters watch one `now_serving` word. Here that word is spread: ticket `t` has a *slot* at the home. The
//! waiting node *claims* its slot, and the releasing node *serves* it. Waiter and releaser race on the slot
//! with compare-and-swap; whichever arrives second sees the other's mark. If the waiter was first, the
//! releaser sends it a *grant*: a put into a word of the waiter's own memory. A waiter polls only that word. The
//! home is therefore not hammered, however many nodes wait, and the cost of a release does not grow with
//! them.
//!
//! A ticket cannot be given back. A waiter that gives up therefore marks its slot, and is skipped unless it
//! comes back before that.
//!
//! Grants of different nodes arrive in any order. A waiter that finds in its slot that its ticket is served, when it gives up or after a loss,
//! uses it at once, and its grant may arrive only while the node waits with a later ticket. It then covers the grant of that one if this
//! has arrived before it. So whatever changes the word is a reason to look at the slot (`waiting`).
//!
//! A node that is about to draw a ticket announces this at the home, and afterwards announces the ticket that it drew. When
//! a node is lost, the others can therefore find out what it held (`recovery`).
//!
//! Threads of one node share one ticket at a time. They line up locally, and a thread that is done hands the
//! lock to the next, up to a bound, before the lock leaves the node.

mod acquisition;
mod doubt;
mod draw;
#[cfg(test)]
mod fairness;
#[cfg(test)]
mod grants;
mod recovery;
mod release;
mod several;
mod slot;
mod waiting;

use std::sync::OnceLock;

use loco_fabric::{AtomicCell, Fabric, Lock, Memory, NodeId, Time};

use crate::fabric::AnyFabric;
use crate::fence::{self, Scope};
use crate::objects::locks::guard::{LockConfig, LockGuard};
use crate::objects::locks::loss::Poison;
use crate::objects::locks::turn::LocalTurn;
use crate::operations::operation::Flags;
use crate::operations::peers::is_gone;
use crate::operations::platform::{AtomicU32Of, AtomicU64Of, MutexOf};
use crate::operations::shown::hold;
use crate::operations::words::Words;
use crate::{Channel, Parent, Region, Result, Thread};

pub(crate) use acquisition::{Acquisition, Progress};
pub(crate) use release::Release;
pub(crate) use several::Several;
use slot::{Announcement, Slot, Stage};

const WORD_BYTES: usize = 8;
/// The words of a cache line. Words that different nodes write are this far apart.
const LINE_WORDS: usize = 8;

const _: () = assert!(LINE_WORDS * WORD_BYTES == 64);

/// The word of the next ticket. The slots follow, in the same line if there is room, because an access to one is
/// followed by an access to the other. After them, each node has a line for its announcements.
const NEXT: usize = 0;
/// Says of a change of a slot that it comes after the announcement before it.
const STRONG: bool = true;
/// Says of a change of a slot that it needs no order: what it tells of is placed by then.
const PLAIN: bool = false;

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
///
/// # Strength
///
/// Robust: clients that touch data only while they hold the lock, and release with a scope that covers their puts, see
/// what a strong memory would show them (`loco check ticket-lock --robust`).
pub struct TicketLock<F: Fabric = AnyFabric> {
    channel: Channel<F>,
    config: LockConfig,
    words: Words<F>,
    /// The first slot.
    slots: usize,
    /// The announcement word of the first node.
    announcements: usize,
    /// The announcement word of this node.
    own_announcement: usize,
    /// The number of slots, a power of two. It is at least the number of tickets that can be drawn and not
    /// served: one for each node.
    slot_count: u64,
    /// The word of the *grant*, by which the releasing node says that this node's ticket is served.
    grant: <F::Memory as Memory>::Cell<u64>,
    grant_region: Region<F>,
    /// Set once all peers are known to be connected.
    connected: OnceLock<()>,
    turn: LocalTurn<F>,
    mine: Mine<F>,
    /// Set if each later holder is told of a lost one, and not the next alone.
    keeps_doubt: bool,
    poison: Poison<F>,
}

/// This node's state in the lock. Only the thread whose turn it is touches it: entering and leaving the turn
/// order the accesses.
struct Mine<F: Fabric> {
    /// 1 + the ticket with which the node holds the lock, or 0.
    held: AtomicU64Of<F>,
    /// 1 + a ticket given up that may not have been passed over yet, or of which nobody knows whether it was given up, or 0.
    abandoned: AtomicU64Of<F>,
    /// Not 0 if that ticket was [kept](TicketLock::keep): what this node has announced may be of the time before its draw.
    kept: AtomicU32Of<F>,
    /// 1 + the last ticket that the node drew, or 0.
    drawn: AtomicU64Of<F>,
    /// The grant word as the node has looked at it last.
    grant_seen: AtomicU64Of<F>,
    /// How many draws did not give the ticket after the node's former one, since other nodes drew between.
    misses: AtomicU32Of<F>,
    /// 1 + the node that waited last time when this one was done, or 0. It is a guess which node waits this
    /// time.
    follower: AtomicU32Of<F>,
    /// The number of nodes in `recovered`.
    recovered_count: AtomicU32Of<F>,
    /// The lost nodes that are known to hold nothing.
    recovered: MutexOf<F, Vec<NodeId>>,
    /// Not 0 if what the lock protects is in doubt (`doubt`).
    doubt: AtomicU32Of<F>,
}

impl<F: Fabric> TicketLock<F> {
    /// Makes this node's endpoint of the lock called `name`. Its words are on `home`.
    ///
    /// # Errors
    /// Returns the errors of [`with_config`](TicketLock::with_config).
    pub fn new(parent: &impl Parent<F>, name: &str, home: NodeId) -> Result<Self> {
        TicketLock::with_config(parent, name, home, LockConfig::default())
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
        let participants = parent.participants();
        participants.require(name, home)?;
        let nodes = participants.nodes().len();
        let slot_count = (nodes + 1).next_power_of_two();
        let slots = if slot_count < LINE_WORDS {
            NEXT + 1
        } else {
            LINE_WORDS
        };
        let announcements = (slots + slot_count).next_multiple_of(LINE_WORDS);
        assert!(
            slot_count > nodes && slots > NEXT && announcements >= slots + slot_count,
            "every node and the holder have a slot, behind the next ticket and before the announcements"
        );
        let channel = Channel::builder(parent, name)
            .kind(format!("ticket_lock on {home}, {:?}", config.on_loss))
            .region("words", (announcements + nodes * LINE_WORDS) * WORD_BYTES)
            .region("grant", WORD_BYTES)
            .join()?;
        let grant_region = channel.region("grant")?.clone();
        let position = participants.nodes().binary_search(&channel.node());
        Ok(TicketLock {
            words: Words::new(parent.manager().fabric(), channel.region("words")?, home)?,
            grant: grant_region.local()?.cell(0)?,
            grant_region,
            connected: OnceLock::new(),
            channel,
            config,
            slots,
            announcements,
            // The node is a participant, or the channel could not have been joined.
            own_announcement: announcements + position.unwrap_or(0) * LINE_WORDS,
            slot_count: slot_count as u64,
            turn: LocalTurn::new(parent.manager().network().bell().cloned()),
            mine: Mine {
                held: AtomicCell::new(0),
                abandoned: AtomicCell::new(0),
                kept: AtomicCell::new(0),
                drawn: AtomicCell::new(0),
                grant_seen: AtomicCell::new(0),
                misses: AtomicCell::new(0),
                follower: AtomicCell::new(0),
                recovered_count: AtomicCell::new(0),
                recovered: Lock::new(Vec::new()),
                doubt: AtomicCell::new(0),
            },
            keeps_doubt: false,
            poison: Poison::new(),
        })
    }

    /// Waits for the lock, for the thread's deadline at most. `scope` is the fence at release.
    ///
    /// # Errors
    /// Returns [`HolderLost`](crate::Error::HolderLost), [`PeerLost`](crate::ErrorKind::PeerLost) if the home is gone,
    /// or [`Timeout`](crate::ErrorKind::Timeout). The caller then does not hold the lock.
    ///
    /// After any other error, such as that of a queue pair which the device has given up, nobody knows whether the home has carried the
    /// operation out, and all nodes may wait for this one: end the process. Its loss lets the others go on.
    ///
    /// # After a timeout
    /// The caller does not hold the lock. Its node keeps its place in the line until it is skipped, so a
    /// later call may be ahead of others. Lock again.
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
    /// Returns the errors of [`lock`](TicketLock::lock).
    ///
    /// # After a timeout
    /// See [`lock`](TicketLock::lock).
    #[inline]
    pub fn lock_until<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
        deadline: Time,
    ) -> Result<LockGuard<'a, TicketLock<F>, F>> {
        self.lock_with(thread, scope, Some(deadline))
    }

    /// Locks until `deadline`. Without one it is the thread's deadline, computed only if there is something to wait
    /// for.
    // The guard is made in the caller's frame. If it were moved, its small fields would be read back wider than they
    // were written, and that would wait until every earlier store has left the processor.
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

    /// Gets the lock for this thread. Returns true if a holder was lost.
    fn enter(&self, thread: &Thread<F>, deadline: Option<Time>) -> Result<bool> {
        let _call = thread.call(self.channel.name(), "lock");
        // The thread may have asked for this lock already.
        let deadline = deadline.or(thread.explicit_deadline());
        thread.settle(deadline)?;
        self.poison.check(self.channel.name())?;
        let since = self.turn.enter(thread, self.channel.name(), deadline)?;
        let recovered = match self.mine.held.load() {
            0 => thread.to_the_end(|| self.acquire(thread, since, deadline)),
            // This needed no remote step, so the loss of this node's membership may have gone unnoticed.
            _ => thread.still_in().map(|()| self.is_in_doubt()),
        };
        match recovered {
            Ok(_) => hold(self.channel.shown()),
            Err(_) => self.turn.leave(),
        }
        recovered
    }

    /// Takes the lock if it is free. Returns `None` if it is held or awaited, or if others were quicker.
    ///
    /// # Errors
    /// Returns the errors of [`lock`](TicketLock::lock) except [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// There is none: the call waits for no holder, and completes its operations on the home whatever the deadline.
    pub fn try_lock<'a>(
        &'a self,
        thread: &'a Thread<F>,
        scope: Scope,
    ) -> Result<Option<LockGuard<'a, TicketLock<F>, F>>> {
        let _call = thread.call(self.channel.name(), "try_lock");
        // The holder may wait for a lock that this thread has asked for, and the caller may try until it has this one.
        thread.move_on();
        self.poison.check(self.channel.name())?;
        if !self.turn.try_enter() {
            return Ok(None);
        }
        let outcome = thread.to_the_end(|| self.try_acquire(thread));
        match outcome {
            Ok(Some(_)) => hold(self.channel.shown()),
            _ => self.turn.leave(),
        }
        Ok(outcome?.map(|recovered| LockGuard::new(self, thread, scope, recovered)))
    }

    /// Returns the endpoint, to wait until this lock alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Hints that the lock will be taken soon: its words are fetched while the caller does something else. It
    /// takes and orders nothing.
    #[inline]
    pub fn prefetch(&self) {
        self.words.prefetch(NEXT);
    }

    /// Gets the lock for this node. Returns true if a holder was lost. The call has waited since `since`, if that is given.
    fn acquire(&self, thread: &Thread<F>, since: Option<Time>, deadline: Option<Time>) -> Result<bool> {
        self.prepare(thread)?;
        let (ticket, served) = match self.resume(thread)? {
            Some(resumed) => resumed,
            None => self.draw(thread)?,
        };
        let recovered = match served {
            Some(recovered) => recovered,
            None => self.wait_for_turn(thread, ticket, since, deadline)?,
        };
        self.got(ticket, recovered);
        Ok(recovered)
    }

    /// Gets what the steps after the draw of a ticket need, up to its service and the grant to the next one's owner.
    #[inline]
    fn prepare(&self, thread: &Thread<F>) -> Result<()> {
        let peers = self.channel.peers();
        // Peers get their grants in words of their memory, which must be connected.
        if self.connected.get().is_none() {
            self.look_for_connections(thread)?;
        }
        self.words.prepare(thread)?;
        thread.prepare(peers)
    }

    /// Fails unless every peer is connected. A peer that was lost before need not be.
    #[cold]
    fn look_for_connections(&self, thread: &Thread<F>) -> Result<()> {
        let mut all = true;
        for &peer in self.channel.peers() {
            match self.grant_region.remote(peer) {
                Ok(_) => {}
                Err(_) if is_gone(thread.fabric(), peer) => all = false,
                Err(error) => return Err(error),
            }
        }
        if all {
            let _ = self.connected.set(());
        }
        Ok(())
    }

    /// Notes that the node holds the lock with `ticket`, and whether a holder was lost.
    fn got(&self, ticket: u64, recovered: bool) {
        self.mine.held.store(ticket + 1);
        self.turn.begin();
        self.keep_doubt(recovered);
    }

    /// Keeps a ticket for the next call that takes the lock. For one whose claim, or whose end, has failed: nobody knows what its slot says.
    #[cold]
    fn keep(&self, ticket: u64) {
        self.mine.abandoned.store(ticket + 1);
        self.mine.kept.store(1);
    }

    /// Announces the draw of `ticket` once more if it was [kept](TicketLock::keep), since that announcement may have failed. Others could
    /// recover no lock while they take this node for one that draws.
    fn announce_kept(&self, thread: &Thread<F>, ticket: u64) -> Result<()> {
        if self.mine.kept.load() == 0 {
            return Ok(());
        }
        self.drew(thread, ticket)?;
        // As in `try_acquire`: no strong read-modify-write may follow.
        fence::pair(thread, self.words.home())?;
        self.mine.kept.store(0);
        Ok(())
    }

    /// Claims the ticket that was given up or [kept](TicketLock::keep), if there is one and it has not been skipped. Returns it, and the
    /// turn if it has come already.
    #[inline]
    fn resume(&self, thread: &Thread<F>) -> Result<Option<(u64, Option<bool>)>> {
        match self.mine.abandoned.load().checked_sub(1) {
            None => Ok(None),
            Some(ticket) => self.resume_with(thread, ticket),
        }
    }

    #[cold]
    fn resume_with(&self, thread: &Thread<F>, ticket: u64) -> Result<Option<(u64, Option<bool>)>> {
        let claim = Slot::new(ticket, Stage::Claimed(self.channel.node()));
        let abandoned = Slot::new(ticket, Stage::Abandoned);
        let is_open = |old: Slot| old == abandoned || old.ticket < ticket;
        let change = |old| is_open(old).then_some(claim);
        // After an error the ticket stays for the next call.
        let old = self.change::<PLAIN>(thread, ticket, abandoned.to_word(), change)?;
        self.announce_kept(thread, ticket)?;
        self.mine.abandoned.store(0);
        let waits = |&old: &Slot| is_open(old) || old == claim || old.turn_of(ticket).is_some();
        Ok(old.filter(waits).map(|old| (ticket, old.turn_of(ticket))))
    }

    fn served(&self, thread: &Thread<F>, ticket: u64) -> Result<Option<bool>> {
        let slot = Slot::from_word(self.words.peek(thread, self.slot(ticket))?);
        Ok(slot.turn_of(ticket))
    }

    fn try_acquire(&self, thread: &Thread<F>) -> Result<Option<bool>> {
        let next = self.words.peek(thread, NEXT)?;
        let Some(recovered) = self.served(thread, next)? else {
            return self.try_kept(thread);
        };
        self.prepare(thread)?;
        self.announce(thread, Announcement::Drawing)?;
        // Strong: as in `draw`.
        let drawn = self.words.compare_swap_strong(thread, NEXT, next, next + 1)? == next;
        if drawn {
            self.mine.drawn.store(next + 1);
            // All tickets before it are over, even one that this node gave up.
            self.mine.abandoned.store(0);
            self.mine.kept.store(0);
        }
        let last = self.mine.drawn.load().checked_sub(1);
        self.announce(thread, last.map_or(Announcement::Nothing, Announcement::Drew))?;
        // No read-modify-write follows that would place this announcement. The node's next one may use another queue
        // pair, and this one must not arrive after it.
        fence::pair(thread, self.words.home())?;
        if drawn {
            self.got(next, recovered);
        }
        Ok(drawn.then_some(recovered))
    }

    /// Takes the lock if it is the turn of a ticket that was [kept](TicketLock::keep).
    fn try_kept(&self, thread: &Thread<F>) -> Result<Option<bool>> {
        if self.mine.kept.load() == 0 {
            return Ok(None);
        }
        let Some(ticket) = self.mine.abandoned.load().checked_sub(1) else {
            return Ok(None);
        };
        let Some(recovered) = self.served(thread, ticket)? else {
            return Ok(None);
        };
        self.prepare(thread)?;
        self.announce_kept(thread, ticket)?;
        self.mine.abandoned.store(0);
        self.got(ticket, recovered);
        Ok(Some(recovered))
    }

    /// Changes the slot of `ticket` to what `to` returns for its content, or leaves it if `to` returns `None`.
    /// Returns the former content. `guess` is a likely content. With `AFTER_WRITES` the change comes after this thread's earlier
    /// writes at the home.
    fn change<const AFTER_WRITES: bool>(
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
            debug_assert!(new.ticket == ticket, "the slot of ticket {ticket} is for {new:?}");
            debug_assert!(slot.ticket <= ticket, "a slot goes back from {slot:?} to {new:?}");
            let (index, new) = (self.slot(ticket), new.to_word());
            let found = match AFTER_WRITES {
                true => self.words.compare_swap_strong(thread, index, old, new)?,
                false => self.words.compare_swap(thread, index, old, new)?,
            };
            if found == old {
                return Ok(Some(slot));
            }
            old = found;
        }
    }

    /// Returns the usual content of the slot of `ticket` when nobody has touched it for this ticket.
    fn untouched(&self, ticket: u64) -> u64 {
        let before = ticket.checked_sub(self.slot_count);
        before.map_or(0, |before| Slot::new(before, Stage::Served).to_word())
    }

    fn announce(&self, thread: &Thread<F>, announcement: Announcement) -> Result<()> {
        let flags = match announcement {
            // The draw follows at once.
            Announcement::Drawing => Flags::MORE,
            Announcement::Nothing | Announcement::Drew(_) => Flags::default(),
        };
        self.words
            .post_write(thread, self.own_announcement, announcement.to_word(), flags)
    }

    fn slot(&self, ticket: u64) -> usize {
        debug_assert!(self.slot_count.is_power_of_two(), "a mask finds the slot");
        self.slots + (ticket & (self.slot_count - 1)) as usize
    }
}
