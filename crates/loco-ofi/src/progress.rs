//! The thread of a node that makes progress while its other threads compute.
//!
//! With most providers a peer's operation on this node's memory is carried out by calls of this process to the library. The
//! thread sleeps until the provider's descriptor is readable, and then makes them. Where a provider has no descriptor, the
//! thread naps.
//!
//! Relies on `shared`. Used by `node`.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use loco_fabric::{FabricError, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::shared::Shared;
use crate::waker::Waker;

/// The longest sleep where the provider has a descriptor. It bounds the harm if a provider forgets to make it readable.
const SLEEP: Duration = Duration::from_millis(50);
/// The sleep while operations wait for room, or for a connection.
const SHORT: Duration = Duration::from_micros(200);
/// The nap where the provider has no descriptor, while this node's operations are under way, and else.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(500)];

/// The running thread, which ends when this is dropped.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the thread.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Progress> {
        let its = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name("loco-ofi".to_owned())
            .spawn(move || run(&its))
            .map_err(|e| FabricError::os("starting the thread that makes progress", &e))?;
        Ok(Progress {
            shared: Arc::clone(shared),
            thread: Some(thread),
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.waker.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that makes progress panicked");
        }
    }
}

fn run(shared: &Shared) {
    let waker = &shared.waker;
    while !waker.stopped() {
        let (fd, limit) = {
            let mut engine = shared.engine();
            engine.progress(&shared.job);
            let fd = engine.port.may_wait();
            let limit = match fd {
                _ if engine.is_waiting() => SHORT,
                Some(_) => SLEEP,
                // The provider has more to do already.
                None if engine.port.can_wait() => Duration::ZERO,
                None => NAPS[usize::from(engine.under_way() == 0)],
            };
            (fd, limit)
        };
        // SAFETY: the descriptor belongs to the completion queue, which `shared` keeps open.
        #[allow(unsafe_code)]
        let fd = fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
        sleep(waker, fd, limit);
        waker.clear();
    }
}

/// Sleeps until `fd` is readable, until somebody wakes, or for `limit`.
fn sleep(waker: &Waker, fd: Option<BorrowedFd<'_>>, limit: Duration) {
    if limit.is_zero() {
        return std::thread::yield_now();
    }
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut fds = vec![PollFd::from_borrowed_fd(waker.fd(), PollFlags::IN)];
    fds.extend(fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let _interrupted = poll(&mut fds, Some(&limit));
}
