//! The ends of connections: the goodbye of this node, the loss or the goodbye of a peer, and what becomes of the descriptors.
//!
//! A socket is not closed as soon as nothing more is said on it. A suspect that lives is to read that it is lost, and closing with
//! unread bytes would reset the connection under that word. In a job that grows the descriptors must go at some time, as nodes come
//! and go without end: once the peer has closed its end, its process has ended, it goes on sending, or the system has given the
//! connection up, which asks the peer's system at times whether there is still a connection. A peer that is stopped keeps its
//! descriptors open for as long as that lasts. In a job of a fixed number of nodes those of connections stay until this node ends.
//!
//! Relies on [`wire`](super::wire) and [`connection`](super::connection). Used by the I/O thread alone.

use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loco_fabric::PeerState;
use rustix::event::epoll::EventFlags;

use super::agreement::Word;
use super::connection::{Connection, End};
use super::watch::Watch;
use super::wire::{CUT, Incoming, QUEUED_BYTES_MAX, Wire};

/// Bytes that are read and dropped from a peer that was cut off: what it may have queued, and as much again in the buffers of sockets,
/// before it reads that it is lost. One that sends more is none that reads.
pub(super) const DROPPED_BYTES_MAX: usize = 2 * QUEUED_BYTES_MAX;

impl Wire {
    /// Ends the connection with a peer whose process has ended, unless that has said goodbye. Reads first what the peer sent
    /// before its end.
    pub(super) fn end_of_process(
        self: &Arc<Self>,
        index: usize,
        incoming: &mut Incoming,
        watch: &mut Watch,
        scratch: &mut [u8],
    ) {
        let (Some(connection), Some(process)) = (self.connections[index].get(), incoming.process.take())
        else {
            return;
        };
        watch.listen(self.connections.len() + index, &process, EventFlags::empty());
        incoming.is_deserted = true;
        if incoming.open {
            let end = self.read(index, incoming, true, scratch);
            let end = end.unwrap_or_else(|| End::Lost("its process has ended".to_owned()));
            self.end(index, connection, incoming, &end);
            self.listen(watch, index, incoming, None);
        }
        self.hang_up(index, connection, incoming, watch, scratch);
    }

    /// Takes note of the end of the connection with a peer.
    pub(super) fn end(
        self: &Arc<Self>,
        index: usize,
        connection: &Connection,
        incoming: &mut Incoming,
        end: &End,
    ) {
        incoming.open = false;
        // Acquire: see `leave`.
        if self.phase.load(Ordering::Acquire) == CUT {
            incoming.ended = true;
            return;
        }
        let (node, peer) = (self.state.node(), connection.node);
        match end {
            End::Left => {
                tracing::debug!(%node, %peer, "peer left");
                self.agree(|agreement, actions| agreement.hear(index, Word::Goodbye, actions));
            }
            End::Lost(why) => {
                // A peer that has read our goodbye closes, maybe before this thread knows that we leave.
                if !self.state.has_left() {
                    tracing::warn!(%node, %peer, %why, "peer lost");
                }
                self.agree(|agreement, actions| agreement.lose(index, actions));
            }
        }
        // First the state, then the socket: senders that fail find the peer gone.
        self.close_if_over(index, connection, incoming);
    }

    /// Closes the connection with a peer that is not read any more, unless something is still to be said to it.
    pub(super) fn close_if_over(&self, index: usize, connection: &Connection, incoming: &mut Incoming) {
        if incoming.ended || !self.state.is_over(index) {
            return;
        }
        incoming.ended = true;
        match self.state.peer_state(connection.node) {
            PeerState::Left => connection.shut(),
            _ => connection.finish(),
        }
    }

    /// Writes what is queued, the goodbye last, and waits for the peer to close, as this node leaves. Bytes
    /// that come are of no use, but must be read: closing with unread bytes would reset the connection under
    /// the goodbye.
    pub(super) fn see_off(
        &self,
        connection: &Connection,
        incoming: &mut Incoming,
        ready: EventFlags,
        scratch: &mut [u8],
    ) {
        if incoming.ended {
            return;
        }
        let mut outgoing = connection.lock();
        connection.flush(&mut outgoing);
        if outgoing.is_empty() {
            outgoing.shutdown(Shutdown::Write);
        }
        drop(outgoing);
        if ready.is_empty() {
            return;
        }
        incoming.ended = incoming.is_at_end(scratch);
    }

    /// Closes the descriptors of a connection that has ended, in a job that grows, when the other side has no more use for it either.
    /// What still comes is read and dropped, up to a bound.
    pub(super) fn hang_up(
        &self,
        index: usize,
        connection: &Connection,
        incoming: &mut Incoming,
        watch: &mut Watch,
        scratch: &mut [u8],
    ) {
        if !incoming.ended || !self.state.grows() {
            return;
        }
        // A child that the peer's process has forked may hold its end open for ever.
        if !incoming.is_deserted && !incoming.is_at_end(scratch) && incoming.dropped <= DROPPED_BYTES_MAX {
            return;
        }
        let Incoming { stream, process, .. } = std::mem::replace(incoming, Incoming::none());
        if let Some(stream) = stream {
            watch.listen(index, &stream, EventFlags::empty());
        }
        if let Some(process) = process {
            watch.listen(self.connections.len() + index, &process, EventFlags::empty());
        }
        connection.close();
    }
}

impl Incoming {
    /// Reads once, drops what came, and returns true if nothing more will come.
    fn is_at_end(&mut self, scratch: &mut [u8]) -> bool {
        let Some(mut stream) = self.stream.as_deref() else {
            return true;
        };
        match Read::read(&mut stream, scratch) {
            Ok(n) => {
                self.dropped += n;
                n == 0
            }
            Err(e) => !matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }
}
