//! A connection of a node with a peer, and the frames that wait to be sent on it.
//!
//! Any thread sends. What the socket does not take stays here until the thread of [`wire`](super::wire)
//! writes it. That thread alone reads, and closes the socket when it is of no more use.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loco_fabric::{NodeId, Platform, Std, Time};
use rustix::net::sockopt;

use super::noise::{Opener, Sealer};
use crate::timeouts::Timeouts;

/// The interval of heartbeats is multiplied by the number of nodes divided by this, if that is more than 1: all pairs
/// of nodes of a large job send heartbeats.
const FEW_NODES: u32 = 8;
/// The least number of heartbeats within the silence after which a peer is lost.
const HEARTBEATS: u32 = 10;

/// The time after which the system first asks that of a peer that is cut off whether it still has the connection.
const LOOK: Duration = Duration::from_secs(60);

/// A thing that the I/O thread is to take over.
pub(super) enum New {
    /// The connection with the peer at this index: its socket, and its receiving direction.
    Connection(usize, Arc<TcpStream>, Opener),
    /// The process of the peer at this index.
    Process(usize, OwnedFd),
}

/// The end of a connection.
pub(super) enum End {
    Left,
    Lost(String),
}

/// A connection with `node`.
pub(super) struct Connection {
    pub(super) node: NodeId,
    /// A peer that is silent for longer is lost.
    pub(super) silence: Duration,
    /// The time between signs of life, if nothing else is sent.
    pub(super) heartbeat_interval: Duration,
    outgoing: Mutex<Outgoing>,
    /// Signals that `outgoing` got shorter or was given up.
    pub(super) room: Condvar,
}

/// The frames that wait to be sent.
pub(super) struct Outgoing {
    /// The socket, unless it was closed.
    stream: Option<Arc<TcpStream>>,
    sealer: Sealer,
    /// Sealed frames; `written` bytes of the first are gone.
    queue: VecDeque<Vec<u8>>,
    written: usize,
    /// The number of bytes in `queue`.
    pub(super) bytes: usize,
    /// The time at which the socket last took something.
    pub(super) last: Time,
    /// Nothing more can be sent.
    pub(super) broken: bool,
}

impl Connection {
    pub(super) fn new(
        node: NodeId,
        stream: Arc<TcpStream>,
        sealer: Sealer,
        timeouts: &Timeouts,
        nodes: usize,
    ) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        // The system knows no address of a peer that has reset the connection already. The I/O thread finds the reset.
        let same_host = match (stream.local_addr(), stream.peer_addr()) {
            (Ok(own), Ok(its)) => own.ip().to_canonical() == its.ip().to_canonical(),
            _ => false,
        };
        let silence = match same_host {
            true => timeouts.silence_same_host,
            false => timeouts.silence,
        };
        Ok(Connection {
            node,
            silence,
            heartbeat_interval: heartbeat_interval(timeouts.heartbeat_interval, silence, nodes),
            outgoing: Mutex::new(Outgoing {
                stream: Some(stream),
                sealer,
                queue: VecDeque::new(),
                written: 0,
                bytes: 0,
                last: Std.now(),
                broken: false,
            }),
            room: Condvar::new(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Writes what the socket takes. Returns true if something is left. A broken connection is given up here
    /// and judged by the I/O thread, which reads the peer's last words first.
    pub(super) fn flush(&self, outgoing: &mut Outgoing) -> bool {
        let before = outgoing.bytes;
        while let (Some(stream), Some(first)) = (outgoing.stream.as_deref(), outgoing.queue.front()) {
            let mut stream: &TcpStream = stream;
            match stream.write(&first[outgoing.written..]) {
                Ok(n) => outgoing.wrote(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    outgoing.give_up();
                    break;
                }
            }
        }
        if outgoing.bytes < before {
            self.room.notify_all();
        }
        !outgoing.queue.is_empty()
    }

    /// Sends what is queued, if the socket takes it, and nothing more: the peer, if it lives, reads that it is lost. From now on the system
    /// asks that of the peer at times whether it still has the connection, and ends it when no answer comes: the peer's host may stop
    /// without a word.
    pub(super) fn finish(&self) {
        let mut outgoing = self.lock();
        self.flush(&mut outgoing);
        outgoing.give_up();
        outgoing.shutdown(Shutdown::Write);
        if let Some(stream) = &outgoing.stream {
            // Without it the connection stays until this node ends.
            let _ = sockopt::set_socket_keepalive(stream, true);
            let _ = sockopt::set_tcp_keepidle(stream, LOOK);
        }
        drop(outgoing);
        self.room.notify_all();
    }

    pub(super) fn shut(&self) {
        let mut outgoing = self.lock();
        outgoing.give_up();
        outgoing.shutdown(Shutdown::Both);
        drop(outgoing);
        self.room.notify_all();
    }

    /// Gives the socket up, and drops what is queued. Its descriptor is closed once the I/O thread has dropped it, too.
    pub(super) fn close(&self) {
        let mut outgoing = self.lock();
        outgoing.give_up();
        outgoing.stream = None;
        drop(outgoing);
        self.room.notify_all();
    }

    /// Returns the addresses of this node's and of the peer's end, while the socket is open and connected.
    pub(super) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let outgoing = self.lock();
        let stream = outgoing.stream.as_ref()?;
        Some((stream.local_addr().ok()?, stream.peer_addr().ok()?))
    }
}

impl Outgoing {
    /// Queues an encoded frame. Frames are sealed in the order in which they are queued, as records are
    /// numbered by their order.
    pub(super) fn push(&mut self, frame: &[u8]) {
        if self.broken {
            return;
        }
        match self.sealer.seal(frame) {
            Ok(sealed) => {
                self.bytes += sealed.len();
                self.queue.push_back(sealed);
            }
            Err(error) => {
                tracing::error!(%error, "cannot encrypt");
                self.give_up();
            }
        }
    }

    /// Says that nothing more is sent, or neither sent nor read.
    pub(super) fn shutdown(&self, how: Shutdown) {
        // Fails when the peer was faster.
        let _ = self.stream.as_ref().map(|stream| stream.shutdown(how));
    }

    /// Returns true if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn wrote(&mut self, n: usize) {
        self.last = Std.now();
        self.written += n;
        if let Some(first) = self.queue.front().filter(|first| first.len() == self.written) {
            self.bytes -= first.len();
            self.written = 0;
            self.queue.pop_front();
        }
    }

    fn give_up(&mut self) {
        self.broken = true;
        self.queue.clear();
        self.written = 0;
        self.bytes = 0;
    }
}

/// Returns the time between signs of life in a job of so many nodes. In a large job it is longer than the configured
/// time, but at most a tenth of `silence`, unless the configured time is more.
pub(super) fn heartbeat_interval(shortest: Duration, silence: Duration, nodes: usize) -> Duration {
    let slower = u32::try_from(nodes).unwrap_or(u32::MAX) / FEW_NODES;
    shortest.max(shortest.saturating_mul(slower).min(silence / HEARTBEATS))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::noise::Handshake;
    use super::*;
    use crate::Secret;

    /// Returns a connection whose other end says nothing, and that end.
    fn connection() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        let secret = Secret::new(*b"a shared secret").unwrap();
        let mut ours = Handshake::connecting(&secret, b"").unwrap();
        let mut theirs = Handshake::accepting(&secret, b"").unwrap();
        theirs.hear(&ours.say().unwrap()).unwrap();
        ours.hear(&theirs.say().unwrap()).unwrap();
        let (sealer, _) = ours.finish().unwrap();
        let connection = Connection::new(NodeId(1), Arc::new(stream), sealer, &Timeouts::default(), 2);
        (connection.unwrap(), other)
    }

    /// A host that stops after its system has taken the last word is not waited for without end.
    #[test]
    fn the_system_watches_the_connection_of_a_peer_that_is_cut_off() {
        let (connection, _other) = connection();
        let is_watched = || sockopt::socket_keepalive(connection.lock().stream.as_ref().unwrap()).unwrap();
        assert!(!is_watched());
        connection.finish();
        assert!(is_watched());
        let idle = sockopt::tcp_keepidle(connection.lock().stream.as_ref().unwrap());
        assert_eq!(idle.unwrap(), LOOK);
    }

    #[test]
    fn heartbeats_of_a_large_job_are_fewer_and_never_too_few() {
        let timeouts = Timeouts::default();
        let interval =
            |silence, nodes| heartbeat_interval(timeouts.heartbeat_interval, silence, nodes).as_millis();
        for nodes in [2, 8, 64, 10_000] {
            assert_eq!(interval(timeouts.silence, nodes), 100);
        }
        let here = |nodes| interval(timeouts.silence_same_host, nodes);
        assert_eq!([here(2), here(15), here(64), here(10_000)], [100, 100, 800, 1000]);
    }
}
