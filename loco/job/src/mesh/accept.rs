//! Accepting connections: a process that connects is heard, and refused unless it is one that is waited for.
//!
//! Used by a node for its peers and by the rendezvous.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use loco_fabric::{FabricError, Platform, Result, Std};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::handshake::{self, Claim, Credentials, HANDSHAKE_PATIENCE, HandshakeError, Refusal};
use super::session::Session;
use super::system::spawn;

/// The number of handshakes that may be under way at once. A process that comes later is refused and tries
/// again.
const HANDSHAKES_MAX: usize = 64;

/// Takes connections and shakes hands with each in a thread of its own, so that a stranger who says nothing keeps
/// nobody waiting. Stops when dropped.
pub(super) struct Acceptor {
    stop: Arc<OwnedFd>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Acceptor {
    /// Starts taking connections. Those that `judge` lets in go to `welcome`; the others are logged.
    pub(super) fn start(
        listener: TcpListener,
        credentials: Credentials,
        judge: impl Fn(&Claim) -> Result<(), Refusal> + Send + Sync + 'static,
        welcome: impl Fn(Claim, Session) + Send + Sync + 'static,
    ) -> Result<Acceptor> {
        let failed = |e: &io::Error| FabricError::os("preparing to accept connections".to_owned(), e);
        listener.set_nonblocking(true).map_err(|e| failed(&e))?;
        let stop =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| failed(&e.into()))?;
        let stop = Arc::new(stop);
        let stopped = Arc::clone(&stop);
        let receive = Arc::new(
            move |stream: TcpStream, from| match hear(stream, &credentials, &judge) {
                Ok((claim, session)) => welcome(claim, session),
                Err(HandshakeError::Refused(why)) => tracing::warn!(%from, %why, "refused a connection"),
                Err(error) => tracing::warn!(%from, %error, "refused a connection"),
            },
        );
        let thread = spawn("loco-acceptor", move || {
            let busy = Arc::new(AtomicUsize::new(0));
            while wait_for_connection(&listener, &stopped) {
                let Ok((stream, from)) = listener.accept() else {
                    continue;
                };
                // Relaxed: a bound, not an order; only this thread adds.
                if busy.load(Ordering::Relaxed) >= HANDSHAKES_MAX {
                    tracing::warn!(%from, "refused a connection: too many handshakes are under way");
                    continue;
                }
                busy.fetch_add(1, Ordering::Relaxed);
                let (busy, receive) = (Arc::clone(&busy), Arc::clone(&receive));
                let spawned = spawn("loco-handshake", move || {
                    receive(stream, from);
                    busy.fetch_sub(1, Ordering::Relaxed);
                });
                if let Err(error) = spawned {
                    tracing::warn!(%from, %error, "refused a connection");
                }
            }
        })?;
        Ok(Acceptor {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // An eventfd at zero takes a one.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for a connection. Returns true when there is one, false when it is time to stop.
fn wait_for_connection(listener: &TcpListener, stop: &OwnedFd) -> bool {
    let mut fds = [
        PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
    ];
    match poll(&mut fds, None) {
        Ok(_) => !fds[1].revents().contains(PollFlags::IN),
        Err(rustix::io::Errno::INTR) => true,
        Err(error) => {
            tracing::warn!(%error, "can no longer accept connections");
            false
        }
    }
}

fn hear(
    stream: TcpStream,
    credentials: &Credentials,
    judge: impl Fn(&Claim) -> Result<(), Refusal>,
) -> Result<(Claim, Session), HandshakeError> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    handshake::accept(stream, credentials, Std.now().after(HANDSHAKE_PATIENCE), judge)
}
