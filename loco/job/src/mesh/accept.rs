//! Accepting connections: a process that connects goes through the handshake, and is refused unless this node waits for it.
//!
//! Used by a node for its peers and by the rendezvous.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use loco_fabric::{FabricError, Platform, Result, Std};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::handshake::{self, Claim, Credentials, HANDSHAKE_PATIENCE, HandshakeError, Refusal};
use super::session::Session;
use super::system::spawn;

/// The number of handshakes that may be under way at once. A process that comes later is refused and tries
/// again.
const HANDSHAKES_MAX: usize = 64;

/// The pause after an attempt to accept for which the system has no descriptor or no memory.
const ACCEPT_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

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
            let mut complained = false;
            while wait_for_connection(&listener, &stopped) {
                let (stream, from) = match listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if is_of_one_connection(&error) => continue,
                    Err(error) => {
                        if !std::mem::replace(&mut complained, true) {
                            tracing::warn!(
                                %error,
                                "cannot accept connections for now (`ulimit -n` limits the descriptors of a process)"
                            );
                        }
                        // The connection still waits, so that without a pause the loop would spin.
                        if pause(&stopped) {
                            continue;
                        }
                        break;
                    }
                };
                complained = false;
                let Some(place) = Place::take(&busy) else {
                    tracing::warn!(%from, "refused a connection: too many handshakes are under way");
                    continue;
                };
                let receive = Arc::clone(&receive);
                let spawned = spawn("loco-handshake", move || {
                    let _place = place;
                    receive(stream, from);
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

/// A handshake's place among those that are under way. It becomes free when dropped, also when the thread of the handshake
/// panics or does not start.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(busy: &Arc<AtomicUsize>) -> Option<Place> {
        // Relaxed: a bound, not an order; only one thread adds.
        if busy.load(Ordering::Relaxed) >= HANDSHAKES_MAX {
            return None;
        }
        busy.fetch_add(1, Ordering::Relaxed);
        Some(Place(Arc::clone(busy)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns true if an attempt to accept failed for the one connection only, or for none.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | WouldBlock
    )
}

/// Waits a while. Returns false when it is time to stop.
fn pause(stop: &OwnedFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
    !matches!(poll(&mut fds, Some(&ACCEPT_PAUSE)), Ok(n) if n > 0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_handshake_ends_or_never_begins() {
        let busy = Arc::new(AtomicUsize::new(0));
        let mut places: Vec<_> = (0..HANDSHAKES_MAX).map(|_| Place::take(&busy)).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(Place::take(&busy).is_none());
        // What a thread that cannot be started would have run is dropped.
        let place = places.pop();
        let body = move || drop(place);
        drop(body);
        assert!(Place::take(&busy).is_some());
    }
}
