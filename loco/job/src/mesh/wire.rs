//! The connections of a mesh over TCP, and the one thread that serves them. They come one after the other while the mesh is
//! brought up, and are watched from then on.
//!
//! A sender writes to the socket itself when nothing waits before it; what the socket does not take is queued,
//! within bounds, and the I/O thread writes it later. That thread alone reads: it delivers parcels to the
//! [`State`], sends heartbeats, and decides who is gone:
//!
//! * a closed or broken connection is a loss at once, unless the peer said goodbye;
//! * so is the end of a peer's process, where that is on this host and known: a child that it has forked holds the
//!   connection open;
//! * a peer that is silent for too long is lost. Time in which this thread itself did not run does not count, so that
//!   a node that was starved or stopped does not blame its peers;
//! * a peer from which a record comes that it did not send next, or that sends what is not a frame, is cut off, and lost.
//!
//! Records are numbered by their order, so a frame is sealed with the lock of its connection held. Only a record that opens
//! counts as a sign of life.
//!
//! A peer whose parcels nobody takes (see `State::has_room`) is not read from until there is room again. While a loss is being
//! agreed on, all peers are read: the words that this node waits for come behind parcels.
//!
//! What follows from all that is decided by the node's [`Agreement`](super::agreement::Agreement), which this module drives.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use loco_fabric::{FabricError, PeerState, Platform, Result, Std, Time};
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, eventfd};

use super::agreement::{Action, Agreement, Word};
use super::connection::{Connection, End, New};
use super::frame::{Decoded, Frame, decode};
use super::noise::{Forged, Opener};
use super::parcel::PAYLOAD_BYTES_MAX;
use super::state::State;
use super::system::{spawn, time_left};
use super::watch::Watch;
use crate::timeouts::Timeouts;

/// Bytes that may wait to be written to one peer before senders wait.
pub(super) const QUEUED_BYTES_MAX: usize = 2 * PAYLOAD_BYTES_MAX;
/// The time for which a sender waits for a peer that takes nothing.
const SEND_PATIENCE: Duration = Duration::from_secs(10);
/// The time for which a leaving node waits for its goodbye to be read. Peers that get no processor time for longer take
/// its end for a loss.
const LINGER: Duration = Duration::from_secs(5);
/// Bytes read from one peer before the others have their turn.
const READ_BYTES: usize = 256 << 10;

const RUNNING: u8 = 0;
const LEAVING: u8 = 1;
pub(super) const CUT: u8 = 2;

/// All connections of a node.
pub(super) struct Wire {
    pub(super) state: Arc<State>,
    /// The connections by index of the peer. Each is set once it is made; the one at the own index never is.
    pub(super) connections: Box<[OnceLock<Connection>]>,
    /// What the I/O thread has not taken over yet.
    pub(super) new: Mutex<Vec<New>>,
    pub(super) timeouts: Timeouts,
    /// Wakes the I/O thread.
    wake: OwnedFd,
    /// `RUNNING`, `LEAVING` or `CUT`; only grows.
    pub(super) phase: AtomicU8,
    /// Set while some peer is not being read from because its parcels are not taken.
    paused: AtomicBool,
}

/// The state that the I/O thread keeps for a connection.
pub(super) struct Incoming {
    /// None where there is no connection, or its socket was closed.
    pub(super) stream: Option<Arc<TcpStream>>,
    /// The process of the peer, where it is on this host, known, and has not ended.
    pub(super) process: Option<OwnedFd>,
    /// The process of the peer has ended.
    pub(super) is_deserted: bool,
    /// None where there is no connection.
    opener: Option<Opener>,
    /// The opened bytes that came and are not yet delivered; they begin with a frame.
    buffer: Vec<u8>,
    heard: Time,
    pub(super) open: bool,
    pub(super) ended: bool,
    /// The bytes that came after the end and were dropped.
    pub(super) dropped: usize,
}

impl Wire {
    /// Returns a wire without connections; [`run`](Wire::run) must be started, with the list that comes back.
    pub(super) fn new(state: Arc<State>, timeouts: &Timeouts) -> Result<(Wire, Watch)> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| FabricError::os("creating an eventfd".to_owned(), &e.into()))?;
        let nodes = state.nodes().len();
        // The processes come after the connections.
        let watch = Watch::new(2 * nodes, &wake)
            .map_err(|e| FabricError::os("preparing to wait for connections".to_owned(), &e))?;
        let wire = Wire {
            connections: (0..nodes).map(|_| OnceLock::new()).collect(),
            new: Mutex::default(),
            timeouts: *timeouts,
            wake,
            phase: AtomicU8::new(RUNNING),
            paused: AtomicBool::new(false),
            state,
        };
        Ok((wire, watch))
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter_map(OnceLock::get)
    }

    /// Sends a frame, waiting for room until `deadline`, or for a default time if there is none.
    pub(super) fn send(&self, index: usize, frame: &Frame<'_>, deadline: Option<Time>) -> Result<()> {
        let Some(connection) = self.connections[index].get() else {
            return Err(FabricError::UnknownPeer(self.state.nodes()[index]));
        };
        let start = Std.now();
        let deadline = deadline.unwrap_or_else(|| start.after(SEND_PATIENCE));
        let bytes = frame.encode();
        let mut outgoing = connection.lock();
        while outgoing.bytes >= QUEUED_BYTES_MAX && !outgoing.broken {
            let timeout = || FabricError::Timeout {
                what: format!("{} to take what is sent to it", connection.node),
                after: Std.now().since(start),
            };
            let left = time_left(Some(deadline)).ok_or_else(timeout)?;
            let woken = connection.room.wait_timeout(outgoing, left);
            outgoing = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        if outgoing.broken {
            return Err(FabricError::PeerLost(connection.node));
        }
        outgoing.push(&bytes);
        if connection.flush(&mut outgoing) {
            drop(outgoing);
            self.wake();
        }
        Ok(())
    }

    /// Leaves, with a goodbye or as if the process had been killed.
    pub(super) fn leave(self: &Arc<Self>, how: PeerState) {
        if how == PeerState::Left {
            self.agree(Agreement::leave);
            // AcqRel: the I/O thread sees the goodbyes queued before.
            self.phase.fetch_max(LEAVING, Ordering::AcqRel);
        } else {
            // The I/O thread knows this before it finds the first connection shut: it must not take that for the loss of a peer,
            // and tell the others of it while their connections still stand.
            self.phase.fetch_max(CUT, Ordering::AcqRel);
            self.state.lose_all_peers();
            for connection in self.connections() {
                connection.shut();
            }
        }
        self.wake();
    }

    /// Lets the agreement take in what happened, and does what follows: sends words, and revokes access in threads of its own, as
    /// that may block.
    pub(super) fn agree(self: &Arc<Self>, event: impl FnOnce(&mut Agreement, &mut Vec<Action>)) {
        let agreed = self.state.agree(event, |to, word| self.say(to, word));
        for victim in agreed.revoke {
            let wire = Arc::clone(self);
            let spawned = spawn("loco-revoke", move || wire.revoke(victim));
            if let Err(error) = spawned {
                tracing::warn!(%error, "revoking in the thread of the mesh");
                self.revoke(victim);
            }
        }
        // Not for every word: a turn of all connections follows, and there are as many words about a loss as nodes.
        if agreed.is_news {
            self.wake();
        }
    }

    /// Makes the peer at `victim` harmless.
    fn revoke(self: &Arc<Self>, victim: usize) {
        let outcome = self.state.revoke(self.state.nodes()[victim]);
        self.agree(|agreement, actions| agreement.revoked(victim, outcome, actions));
    }

    /// Tells the I/O thread that parcels were taken.
    pub(super) fn parcels_taken(&self) {
        // Relaxed: a missed pause is looked at again at the next heartbeat.
        if self.paused.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        // Fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Runs the I/O thread: serves until this node has left and its peers have read its goodbye, or for a limited time.
    pub(super) fn run(self: &Arc<Self>, mut watch: Watch) {
        let _guard = LoseAllOnPanic(&self.state);
        let start = Std.now();
        let nodes = self.state.nodes().len();
        let mut incoming: Vec<_> = (0..nodes).map(|_| Incoming::none()).collect();
        let mut scratch = vec![0; READ_BYTES];
        let mut last_pass = start;
        let mut last_round = start;
        let mut leave_by = None;
        let mut turns = Vec::new();
        let mut expected = BTreeMap::new();
        loop {
            let mut begins_to_leave = false;
            self.take_over_new(&mut incoming, &mut watch, leave_by);
            match self.phase.load(Ordering::Acquire) {
                RUNNING => {}
                LEAVING => {
                    begins_to_leave = leave_by.is_none();
                    let by = *leave_by.get_or_insert_with(|| Std.now().after(LINGER));
                    if incoming.iter().all(|i| i.ended) || by.since(Std.now()).is_zero() {
                        break;
                    }
                }
                _ => break,
            }
            // The first pass of a leaving node sees off every peer.
            let woken = begins_to_leave || self.sleep(&mut watch, leave_by);
            let now = Std.now();
            forgive_own_absence(
                &mut incoming,
                &mut expected,
                now.since(last_pass),
                self.timeouts.heartbeat_interval,
            );
            last_pass = now;
            // While frames come, a pass serves the connections that they come on. Every connection has its turn often
            // enough for heartbeats, and when another thread asks. With a turn of all for every frame, a job's start would
            // take time in proportion to the cube of its nodes.
            let is_round = woken || now.since(last_round) >= self.timeouts.heartbeat_interval / 2;
            turns.clear();
            if is_round {
                last_round = now;
                turns.extend(0..incoming.len());
                if self.state.grows() && leave_by.is_none() {
                    self.lose_late_newcomers(&mut expected, now);
                }
            } else {
                let ready = watch.ready_descriptors().iter();
                turns.extend(ready.copied().filter(|&index| index < nodes));
            }
            if leave_by.is_none() {
                let ready = watch.ready_descriptors().iter();
                // Allocates nothing as long as no process has ended.
                let ended: Vec<_> = ready.filter_map(|index| index.checked_sub(nodes)).collect();
                for peer in ended {
                    self.end_of_process(peer, &mut incoming[peer], &mut watch, &mut scratch);
                }
            }
            for &index in &turns {
                let Some(connection) = self.connections[index].get() else {
                    continue;
                };
                if incoming[index].stream.is_none() {
                    continue;
                }
                let (incoming, ready) = (&mut incoming[index], watch.ready(index));
                // Others may have said that it is lost.
                let is_read = incoming.open && (leave_by.is_some() || !self.state.is_shunned(index));
                incoming.open = is_read;
                match leave_by {
                    None if is_read => self.serve(index, connection, incoming, ready, &mut scratch, now),
                    None => {
                        self.close_if_over(index, connection, incoming);
                        if !incoming.ended {
                            // Its access is being revoked, which may take long. A suspect that lives is not to find this node silent
                            // and accuse it first.
                            Wire::show_life(connection, now);
                        }
                    }
                    Some(_) if is_read => self.see_off(connection, incoming, ready, &mut scratch),
                    // A suspect hears no goodbye.
                    Some(_) => {
                        incoming.ended = true;
                        connection.finish();
                    }
                }
                if leave_by.is_none() && (incoming.is_deserted || !ready.is_empty()) {
                    self.hang_up(index, connection, incoming, &mut watch, &mut scratch);
                }
                self.listen(&mut watch, index, incoming, leave_by);
            }
        }
        // One that is being attached is not this thread's: what it is to hear may not be queued yet.
        for (connection, incoming) in self.connections.iter().zip(&incoming) {
            if let Some(connection) = connection.get().filter(|_| incoming.stream.is_some()) {
                connection.shut();
            }
        }
    }

    /// Says what to wait for on a connection, after its turn.
    pub(super) fn listen(
        &self,
        watch: &mut Watch,
        index: usize,
        incoming: &Incoming,
        leave_by: Option<Time>,
    ) {
        let (Some(connection), Some(stream)) = (self.connections[index].get(), &incoming.stream) else {
            return;
        };
        let is_leaving = leave_by.is_some();
        let mut wanted = EventFlags::empty();
        if !incoming.ended && (incoming.open || is_leaving) {
            wanted |= EventFlags::RDHUP;
            wanted.set(EventFlags::IN, is_leaving || self.state.has_room(index));
            wanted.set(EventFlags::OUT, connection.has_queued());
        } else if incoming.ended && !is_leaving && self.state.grows() {
            wanted |= EventFlags::RDHUP | EventFlags::IN;
        }
        watch.listen(index, stream, wanted);
    }

    /// Waits for something to do, at most a heartbeat interval. Returns true if another thread woke this one.
    fn sleep(&self, watch: &mut Watch, leave_by: Option<Time>) -> bool {
        // Relaxed: see `parcels_taken`.
        self.paused.store(watch.is_paused(), Ordering::Relaxed);
        let time = match leave_by {
            Some(by) => by.since(Std.now()).min(self.timeouts.heartbeat_interval),
            None => self.timeouts.heartbeat_interval,
        };
        let woken = watch.wait(time).unwrap_or_else(|error| {
            // Out of memory: the connections stay as they are; try again after a pause.
            tracing::warn!(%error, "waiting for connections failed");
            std::thread::sleep(self.timeouts.heartbeat_interval);
            false
        });
        if woken {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.wake, &mut count);
        }
        woken
    }

    /// Gives one connection its turn.
    fn serve(
        self: &Arc<Self>,
        index: usize,
        connection: &Connection,
        incoming: &mut Incoming,
        ready: EventFlags,
        scratch: &mut [u8],
        now: Time,
    ) {
        let closing = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        // The socket's buffer bounds what a closing peer has sent: it is taken in whether there is room or
        // not.
        let is_closing = ready.intersects(closing);
        let has_room = self.state.has_room(index) || is_closing;
        let mut end = None;
        if has_room && ready.intersects(EventFlags::IN | closing) {
            end = self.read(index, incoming, is_closing, scratch);
        } else if has_room && !incoming.buffer.is_empty() {
            end = self.deliver(index, incoming, false);
        }
        if !has_room {
            // We do not listen, so silence is ours.
            incoming.heard = now;
        }
        if end.is_none() && now.since(incoming.heard) > connection.silence {
            end = Some(End::Lost(format!("silent for {:?}", now.since(incoming.heard))));
        }
        if let Some(end) = end {
            self.end(index, connection, incoming, &end);
            return;
        }
        Wire::show_life(connection, now);
    }

    /// Sends what is queued, or a heartbeat if nothing is and nothing was sent for long.
    fn show_life(connection: &Connection, now: Time) {
        let mut outgoing = connection.lock();
        if outgoing.is_empty() && now.since(outgoing.last) >= connection.heartbeat_interval {
            outgoing.push(&Frame::Heartbeat.encode());
        }
        connection.flush(&mut outgoing);
    }

    /// Reads what is there, up to a bound. Returns the end of the connection when it is over.
    pub(super) fn read(
        self: &Arc<Self>,
        index: usize,
        incoming: &mut Incoming,
        to_the_end: bool,
        scratch: &mut [u8],
    ) -> Option<End> {
        loop {
            let mut stream = incoming.stream.as_deref()?;
            match Read::read(&mut stream, scratch) {
                Ok(0) => {
                    let end = self.deliver(index, incoming, true);
                    return end
                        .or_else(|| Some(End::Lost("its connection closed without a goodbye".to_owned())));
                }
                Ok(n) => {
                    let opened = incoming.open(&scratch[..n]);
                    // Frames that were whole before a record that does not open are still what the peer sent.
                    let end = self.deliver(index, incoming, to_the_end || opened.is_err());
                    let end = end.or_else(|| opened.err().map(|e| End::Lost(format!("{e}; it is cut off"))));
                    if end.is_some() || !to_the_end {
                        return end;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let end = self.deliver(index, incoming, true);
                    return end.or_else(|| Some(End::Lost(format!("its connection broke: {e}"))));
                }
            }
        }
    }

    /// Takes whole frames off the buffer while there is room for them.
    fn deliver(self: &Arc<Self>, index: usize, incoming: &mut Incoming, regardless: bool) -> Option<End> {
        let mut taken = 0;
        let end = loop {
            if !regardless && !self.state.has_room(index) {
                break None;
            }
            match decode(&incoming.buffer[taken..]) {
                Decoded::Incomplete => break None,
                Decoded::Malformed(why) => break Some(End::Lost(format!("{why}; it is cut off"))),
                Decoded::Frame(Frame::Goodbye, _) => break Some(End::Left),
                Decoded::Frame(Frame::Heartbeat, len) => taken += len,
                Decoded::Frame(Frame::Lost(victim), len) => {
                    self.hear(index, victim, Word::Lost);
                    taken += len;
                }
                Decoded::Frame(Frame::Revoked(victim), len) => {
                    self.hear(index, victim, Word::Revoked);
                    taken += len;
                }
                Decoded::Frame(Frame::Left(peer), len) => {
                    self.hear(index, peer, Word::Left);
                    taken += len;
                }
                Decoded::Frame(Frame::WasIn(peer), len) => {
                    self.hear(index, peer, Word::WasIn);
                    taken += len;
                }
                Decoded::Frame(
                    Frame::Join {
                        node,
                        key,
                        members,
                        view,
                    },
                    len,
                ) => {
                    self.hear_of_join(index, (node, key), &members, view);
                    taken += len;
                }
                Decoded::Frame(Frame::View { view, members }, len) => {
                    self.hear_of_view(index, view, &members);
                    taken += len;
                }
                Decoded::Frame(Frame::Leaving, len) => {
                    self.agree(|agreement, actions| agreement.hear(index, Word::Leaving, actions));
                    taken += len;
                }
                Decoded::Frame(Frame::Parcel(parcel), len) => {
                    self.state.deliver(index, parcel);
                    taken += len;
                }
            }
        };
        incoming.buffer.drain(..taken);
        end
    }
}

impl Incoming {
    /// Returns the state where there is no connection.
    pub(super) fn none() -> Incoming {
        Incoming {
            stream: None,
            process: None,
            is_deserted: false,
            opener: None,
            buffer: Vec::new(),
            heard: Std.now(),
            open: false,
            ended: true,
            dropped: 0,
        }
    }

    /// Returns the state of a connection that begins now.
    pub(super) fn new(stream: Arc<TcpStream>, opener: Opener) -> Incoming {
        Incoming {
            stream: Some(stream),
            opener: Some(opener),
            open: true,
            ended: false,
            ..Incoming::none()
        }
    }

    /// Takes bytes as they come.
    fn open(&mut self, bytes: &[u8]) -> std::result::Result<(), Forged> {
        let opener = self.opener.as_mut().ok_or(Forged)?;
        if opener.open(bytes, &mut self.buffer)? {
            self.heard = Std.now();
        }
        Ok(())
    }
}

/// A guard that declares all peers lost when the thread panics: a thread that died cannot tell who is alive.
struct LoseAllOnPanic<'a>(&'a State);

impl Drop for LoseAllOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lose_all_peers();
        }
    }
}

/// Forgives the peers the time in which the I/O thread was not running: a pass takes little more than a
/// heartbeat interval, and what it took longer does not count as their silence, nor as the time in which newcomers that are `expected`
/// have not connected.
pub(super) fn forgive_own_absence(
    incoming: &mut [Incoming],
    expected: &mut BTreeMap<(usize, u64), Time>,
    pass: Duration,
    interval: Duration,
) {
    let absent = pass.saturating_sub(interval.saturating_mul(2));
    if absent.is_zero() {
        return;
    }
    for i in incoming {
        i.heard = i.heard.after(absent);
    }
    for since in expected.values_mut() {
        *since = since.after(absent);
    }
}
