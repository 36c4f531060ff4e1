//! The state that all threads of a node share: its links, the reports of operations that have ended, and how threads sleep.
//!
//! Of the threads that sleep by the doorbell, one sleeps by the sockets and takes in what arrives. The others sleep on the
//! doorbell's word, which is odd while a sleep is announced and changes when anything has come. While no thread waits, the
//! service thread has the sockets. A waiting thread that finds it there asks it to stand back, and it returns when no thread
//! has waited for a while (`service`).
//!
//! Relies on `link`. Used by `service`, `node` and `fabric`.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use loco_fabric::{Armed, Completion, Control, Doorbell, FabricError, NodeId, PeerState, Result};
use loco_host::heap::Arena;
use loco_host::membership::Membership;
use loco_host::span::Span;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::futex;

use crate::link::{Left, Link};
use crate::stream::Stream;

/// The bit of the doorbell's word that says that a sleep is announced.
const ARMED: u32 = 1;
/// The longest sleep of a thread that waits for the service thread to stand back.
const CHANGE_OF_GUARD: Duration = Duration::from_micros(200);
/// The sockets that one look takes from the kernel's list.
const EVENTS: usize = 64;

/// The most looks at the last words of a peer that has left.
const LAST_LOOKS: u32 = 1000;
/// The bit of the service thread's word that says that it is to end.
const STOPPED: u32 = 1;
/// Nobody sleeps by the sockets.
const NOBODY: u32 = 0;
/// A thread of the program does.
const WAITER: u32 = 1;
/// The service thread does.
const SERVICE: u32 = 2;

/// A peer and the connection with it.
struct Peer {
    node: NodeId,
    link: Mutex<Link>,
    /// Set when the link has something to send or to report, besides what the socket says.
    dirty: AtomicBool,
    /// What the kernel watches the socket for.
    watched: AtomicU32,
}

/// The state that the threads of a node share.
pub(crate) struct Shared {
    pub(crate) job: Membership,
    /// The process of the node. A process that was forked from it has its sockets, too, and must leave them alone.
    process: u32,
    /// This node's memory.
    pub(crate) memory: Span<Arena>,
    /// The peers in the order of the mesh's nodes. There is none at this node's own place.
    peers: Box<[Option<Peer>]>,
    /// The place of the only peer, if there is only one.
    only: Option<usize>,
    sockets: OwnedFd,
    /// Ends the sleep of whoever sleeps by the sockets.
    wake: OwnedFd,
    /// The doorbell's word.
    bell: AtomicU32,
    /// The one who sleeps by the sockets.
    watcher: AtomicU32,
    /// The threads of the program that sleep on the doorbell's word.
    followers: AtomicU32,
    reports: Mutex<Vec<Completion>>,
    /// The number of `reports`, for a look without the lock.
    reported: AtomicUsize,
    departures_seen: AtomicU64,
    /// Set when something is posted lazily. The next look clears it.
    kept: AtomicBool,
    /// The threads of the program that wait.
    waiting: AtomicU32,
    /// The waits that have begun.
    pub(crate) waits: AtomicU32,
    /// The polls.
    polls: AtomicU64,
    /// The word by which the service thread naps: [`STOPPED`], and the number of times that it was woken.
    service: AtomicU32,
    /// Set while the service thread naps until it is woken.
    naps: AtomicBool,
}

/// A wait of a thread of the program.
pub(crate) struct Attendance<'a>(&'a Shared);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        if shared.waiting.fetch_sub(1, Ordering::SeqCst) == 1 && shared.naps.load(Ordering::SeqCst) {
            shared.wake_service();
        }
    }
}

impl Shared {
    /// Takes over the connections with the peers, in the order of the mesh's nodes.
    pub(crate) fn new(job: Membership, memory: Span<Arena>, streams: Vec<Option<Stream>>) -> Result<Shared> {
        let os = |what: &str, error: rustix::io::Errno| FabricError::os(what.to_owned(), &error.into());
        let sockets = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| os("preparing to wait for sockets", error))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| os("making an eventfd", error))?;
        let mut peers = Vec::new();
        for (index, (&node, stream)) in job.mesh.nodes().iter().zip(streams).enumerate() {
            let Some(stream) = stream else {
                peers.push(None);
                continue;
            };
            let data = EventData::new_u64(index as u64);
            epoll::add(&sockets, stream.socket(), data, EventFlags::IN)
                .map_err(|error| os("preparing to wait for a socket", error))?;
            peers.push(Some(Peer {
                node,
                link: Mutex::new(Link::new(node, stream, memory.clone())),
                dirty: AtomicBool::new(false),
                watched: AtomicU32::new(EventFlags::IN.bits()),
            }));
        }
        let mut present = (0..peers.len()).filter(|&index| peers[index].is_some());
        let only = match (present.next(), present.next()) {
            (Some(index), None) => Some(index),
            _ => None,
        };
        Ok(Shared {
            job,
            process: std::process::id(),
            memory,
            peers: peers.into(),
            only,
            sockets,
            wake,
            bell: AtomicU32::new(0),
            watcher: AtomicU32::new(NOBODY),
            followers: AtomicU32::new(0),
            reports: Mutex::default(),
            reported: AtomicUsize::new(0),
            departures_seen: AtomicU64::new(0),
            kept: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            polls: AtomicU64::new(0),
            service: AtomicU32::new(0),
            naps: AtomicBool::new(false),
        })
    }

    /// Uses the link with the peer at `index`. `None` for this node itself.
    pub(crate) fn with_link<T>(&self, index: usize, body: impl FnOnce(&mut Link) -> T) -> Option<T> {
        let peer = self.peers.get(index)?.as_ref()?;
        let mut link = peer.link.lock().unwrap_or_else(PoisonError::into_inner);
        let value = body(&mut link);
        self.watch(index, peer, &link);
        Some(value)
    }

    /// Posts on the link with the peer at `index`.
    ///
    /// A lazy operation is kept for the next look or post. While a thread sleeps by the sockets, no look may come, so the operation is
    /// sent at once.
    pub(crate) fn post(
        &self,
        index: usize,
        lazily: bool,
        body: impl FnOnce(&mut Link) -> Result<Left>,
    ) -> Result<()> {
        let posted = self.with_link(index, |link| {
            let left = body(link)?;
            if (left.unsent || left.ended)
                && let Some(peer) = &self.peers[index]
            {
                // Relaxed: the lock orders it.
                peer.dirty.store(true, Ordering::Relaxed);
            }
            if lazily && left.unsent {
                // Either a thread that goes to sleep finds this bit, or this thread finds it asleep.
                self.kept.store(true, Ordering::SeqCst);
                if self.watcher.load(Ordering::SeqCst) != NOBODY {
                    link.pump();
                }
            }
            Ok(left.ended)
        });
        if posted.transpose()? == Some(true) {
            // Somebody may sleep until an operation ends.
            self.ring();
        }
        Ok(())
    }

    /// Takes in what has come from every peer, and sends what waits. Returns true if anything has come or ended; the doorbell
    /// has rung then.
    pub(crate) fn look(&self) -> bool {
        self.look_for_departures();
        // Relaxed: only a set bit is worth the exchange, which then shows what was set before it.
        if self.kept.load(Ordering::Relaxed) {
            self.kept.swap(false, Ordering::SeqCst);
        }
        let mut came = false;
        if let Some(index) = self.only {
            came |= self.look_at(index);
        } else if self.peers.len() > 1 {
            let none = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let mut events = [MaybeUninit::<Event>::uninit(); EVENTS];
            if let Ok((ready, _)) = epoll::wait(&self.sockets, &mut events[..], Some(&none)) {
                for event in ready {
                    came |= self.look_at(usize::try_from(event.data.u64()).unwrap_or(usize::MAX));
                }
            }
            for (index, peer) in self.peers.iter().enumerate() {
                if peer
                    .as_ref()
                    .is_some_and(|peer| peer.dirty.load(Ordering::Relaxed))
                {
                    came |= self.look_at(index);
                }
            }
        }
        if came {
            self.ring();
        }
        came
    }

    /// Looks at one peer, unless another thread uses its link, which then looks or lets it go soon.
    fn look_at(&self, index: usize) -> bool {
        let Some(Some(peer)) = self.peers.get(index) else {
            return false;
        };
        let mut link = match peer.link.try_lock() {
            Ok(link) => link,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // The thread that has the link may let it go without sending what waits there.
                if peer.dirty.load(Ordering::Relaxed) {
                    self.kept.store(true, Ordering::SeqCst);
                    // A thread that has gone to sleep in between did not find the bit.
                    if self.watcher.load(Ordering::SeqCst) != NOBODY {
                        self.wake_watcher();
                    }
                }
                return false;
            }
        };
        peer.dirty.store(false, Ordering::Relaxed);
        let mut reports = Vec::new();
        let came = link.look(&mut reports);
        self.watch(index, peer, &link);
        self.add_reports(reports);
        came
    }

    fn add_reports(&self, mut new: Vec<Completion>) {
        if new.is_empty() {
            return;
        }
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.append(&mut new);
        self.reported.store(reports.len(), Ordering::SeqCst);
    }

    /// Appends the reports that have come since the last call, and returns their number.
    pub(crate) fn take_reports(&self, completions: &mut Vec<Completion>) -> usize {
        if self.reported.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        self.reported.store(0, Ordering::SeqCst);
        let count = reports.len();
        completions.append(&mut reports);
        count
    }

    /// Lets the kernel watch the socket of a link for what the link waits for.
    fn watch(&self, index: usize, peer: &Peer, link: &Link) {
        let wanted = match (link.is_open(), link.is_stuck()) {
            (false, _) => EventFlags::empty(),
            (true, false) => EventFlags::IN,
            (true, true) => EventFlags::IN | EventFlags::OUT,
        };
        // Changed under the link's lock only.
        let before = peer.watched.load(Ordering::Relaxed);
        if wanted.bits() == before {
            return;
        }
        peer.watched.store(wanted.bits(), Ordering::Relaxed);
        let socket = link.stream().socket();
        let watched = match wanted.is_empty() {
            true => epoll::delete(&self.sockets, socket),
            false => epoll::modify(&self.sockets, socket, EventData::new_u64(index as u64), wanted),
        };
        if let Err(error) = watched {
            tracing::error!("watching the connection with {}: {error}", peer.node);
        }
    }

    /// Gives up the operations towards peers that are gone.
    fn look_for_departures(&self) {
        let departures = self.job.mesh.departures();
        if departures == self.departures_seen.load(Ordering::SeqCst) {
            return;
        }
        for (index, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            let Err(error) = self.job.mesh.check_alive(peer.node) else {
                continue;
            };
            let mut reports = Vec::new();
            let left = self.job.mesh.peer_state(peer.node) == PeerState::Left;
            self.with_link(index, |link| {
                // What a peer has sent before its goodbye takes effect.
                for _ in 0..LAST_LOOKS {
                    if !left || !link.look(&mut reports) {
                        break;
                    }
                }
                link.give_up(&error, &mut reports);
            });
            self.add_reports(reports);
        }
        // Another thread that looks at the same time finds the same.
        self.departures_seen.store(departures, Ordering::SeqCst);
        self.ring();
    }

    /// Returns true in a process that was forked from that of the node.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Shuts the peer at `index` out, for good.
    pub(crate) fn shut_out(&self, index: usize) {
        self.with_link(index, Link::shut_out);
    }

    /// Returns true if something that was posted has not been sent.
    pub(crate) fn is_busy(&self) -> bool {
        (0..self.peers.len()).any(|index| self.with_link(index, |link| link.is_busy()) == Some(true))
    }

    /// Notes that a thread of the program waits, until the value is dropped.
    pub(crate) fn attend(&self) -> Attendance<'_> {
        // Relaxed: a hint.
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.attend_on()
    }

    /// Notes the same in the middle of a wait.
    fn attend_on(&self) -> Attendance<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Attendance(self)
    }

    /// Sleeps by the sockets, as the service thread, for `limit` at most. Returns at once when a thread of the program does.
    pub(crate) fn serve(&self, limit: Duration) {
        if self.take_watch(SERVICE) {
            if self.waiting.load(Ordering::SeqCst) == 0 && !self.is_stopped() && !self.keeps() {
                self.sleep_by_sockets(limit);
            }
            self.leave_watch();
            // Waiting threads look by themselves.
            if self.waiting.load(Ordering::SeqCst) == 0 {
                self.look();
            } else {
                self.ring();
            }
        }
    }

    /// Returns a number that changes when a thread of the program begins a wait, or polls.
    pub(crate) fn activity(&self) -> u64 {
        // Relaxed: a hint.
        u64::from(self.waits.load(Ordering::Relaxed)).wrapping_add(self.polls.load(Ordering::Relaxed))
    }

    /// Returns true if something was posted lazily since the last look.
    fn keeps(&self) -> bool {
        self.kept.load(Ordering::SeqCst)
    }

    fn take_watch(&self, who: u32) -> bool {
        let taken = self
            .watcher
            .compare_exchange(NOBODY, who, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok()
    }

    fn leave_watch(&self) {
        self.watcher.store(NOBODY, Ordering::SeqCst);
    }

    /// Sleeps until a socket is readable, somebody wakes, or for `limit`.
    fn sleep_by_sockets(&self, limit: Duration) {
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut fds =
            [&self.sockets, &self.wake].map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        // An interruption ends the sleep as time does.
        let _interrupted = poll(&mut fds, Some(&limit));
        if !fds[1].revents().is_empty() {
            let _ = rustix::io::read(&self.wake, &mut [0u8; 8][..]);
        }
    }

    /// Ends the sleep of whoever sleeps by the sockets.
    fn wake_watcher(&self) {
        // The write fails only when the counter is full, and then it wakes.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Returns true if a thread of the program waits, or sleeps by the sockets.
    pub(crate) fn is_attended(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 || self.watcher.load(Ordering::SeqCst) == WAITER
    }

    /// Naps as the service thread for `limit` at most, until it is woken.
    pub(crate) fn nap(&self, limit: Duration) {
        self.nap_since(self.service.load(Ordering::SeqCst), limit);
    }

    /// Naps as the service thread until no thread of the program waits any more, for `limit` at most.
    pub(crate) fn nap_while_attended(&self, limit: Duration) {
        let seen = self.service.load(Ordering::SeqCst);
        self.naps.store(true, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.nap_since(seen, limit);
        }
        self.naps.store(false, Ordering::SeqCst);
    }

    fn nap_since(&self, seen: u32, limit: Duration) {
        if seen & STOPPED == 0 {
            let limit = limit.try_into().ok();
            let _ = futex::wait(&self.service, futex::Flags::PRIVATE, seen, limit.as_ref());
        }
    }

    fn wake_service(&self) {
        self.service.fetch_add(2 * STOPPED, Ordering::SeqCst);
        let _ = futex::wake(&self.service, futex::Flags::PRIVATE, 1);
    }

    /// Returns true once the service thread is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.service.load(Ordering::SeqCst) & STOPPED != 0
    }

    /// Lets the service thread end.
    pub(crate) fn stop(&self) {
        self.service.fetch_or(STOPPED, Ordering::SeqCst);
        self.wake_service();
        self.wake_watcher();
    }
}

impl Doorbell for Shared {
    fn arm(&self) -> Option<Armed> {
        // The read-modify-write is a full fence: whoever rings after the caller's look finds the bit.
        Some(Armed(self.bell.fetch_or(ARMED, Ordering::SeqCst) | ARMED))
    }

    fn sleep(&self, Armed(seen): Armed, limit: Duration) {
        // A sleep does not count as a wait of its own: `Background` would take the sleeping thread for another one that looks.
        let _attendance = self.attend_on();
        if !self.take_watch(WAITER) {
            let limit = match self.watcher.load(Ordering::SeqCst) {
                SERVICE => {
                    self.wake_watcher();
                    limit.min(CHANGE_OF_GUARD)
                }
                _ => limit,
            };
            let limit = limit.try_into().ok();
            self.followers.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wait(&self.bell, futex::Flags::PRIVATE, seen, limit.as_ref());
            self.followers.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        if self.bell.load(Ordering::SeqCst) == seen && !self.keeps() {
            self.sleep_by_sockets(limit);
        }
        self.leave_watch();
        // Whatever has come wakes the others. Else this thread may not come back, and another one must take its place.
        if !self.look() && self.followers.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(&self.bell, futex::Flags::PRIVATE, 1);
        }
    }

    fn ring(&self) {
        // The change that the caller has made comes before the load.
        std::sync::atomic::fence(Ordering::SeqCst);
        let word = self.bell.load(Ordering::SeqCst);
        if word & ARMED == 0 {
            return;
        }
        // If another thread was faster, it wakes them.
        let rung = word.wrapping_add(1);
        if self
            .bell
            .compare_exchange(word, rung, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
        {
            // One who begins to sleep now finds the word changed.
            if self.followers.load(Ordering::SeqCst) > 0 {
                let _ = futex::wake(&self.bell, futex::Flags::PRIVATE, u32::MAX >> 1);
            }
            if self.watcher.load(Ordering::SeqCst) == WAITER {
                self.wake_watcher();
            }
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("node", &self.job.mesh.node())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns a condition that asks `ready`, looks, and asks again. If `ready` polls, it has looked by itself, and is not asked
    /// again.
    pub(crate) fn looking<T>(&self, mut ready: impl FnMut() -> Option<T>) -> impl FnMut() -> Option<T> {
        move || {
            // Relaxed: another thread's poll does as well.
            let polls = self.polls.load(Ordering::Relaxed);
            ready().or_else(|| {
                if self.polls.load(Ordering::Relaxed) != polls {
                    return None;
                }
                self.look();
                ready()
            })
        }
    }

    /// Implements [`Fabric::poll`](loco_fabric::Fabric::poll).
    pub(crate) fn poll(&self, completions: &mut Vec<Completion>) -> usize {
        self.polls.fetch_add(1, Ordering::Relaxed);
        match self.take_reports(completions) {
            0 => {
                self.look();
                self.take_reports(completions)
            }
            count => count,
        }
    }
}
