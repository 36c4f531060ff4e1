//! The thread of a node that makes progress while its other threads compute.
//!
//! With most providers this process carries out a peer's operation on this node's memory, in calls to the library.
//! The thread sleeps until the provider's descriptor is readable, and then makes these calls. If a provider has no
//! descriptor, the thread naps.
//!
//! Waking up takes longer than most operations. If each node can have a core, the thread therefore looks for more for
//! a while before it sleeps again. It stands back while waiting threads of the node make progress by themselves,
//! because it would only take the lock and the core from them.
//!
//! Relies on `shared`. Used by `node`.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loco_fabric::{FabricError, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::SmallVec;

use crate::shared::Shared;
use crate::waker::Waker;

/// The longest sleep where the provider has a descriptor. It bounds the harm if a provider forgets to make it readable.
const SLEEP: Duration = Duration::from_millis(50);
/// The first and the longest sleep while operations wait for room or for a connection, either of which makes the
/// descriptor readable when it comes. The sleeps grow because many nodes that meet on few cores would take the cores
/// from one another if they tried again and again.
const RETRY: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(10));
/// The naps if the provider has no descriptor: while this node's operations are under way, and otherwise.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(500)];

/// The time for which the thread looks for more after it has found something. It is many times what a sleep and its end
/// take, which follow each look.
const LOOK: Duration = Duration::from_micros(100);
/// The first and the longest nap of a thread that stands back. They bound the delay of a peer's operation once the
/// waiting threads have what they waited for.
const STAND_BACK: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(400));
/// The number of calls of waiting threads, in a look or a nap, that shows that these make progress. Waits that sleep
/// make fewer.
const HELPED: u64 = 8;

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
    let may_look = !shared.job.is_crowded();
    let mut found = false;
    let mut retry = RETRY.0;
    while !waker.stopped() {
        let (fd, limit) = {
            let mut engine = shared.engine();
            engine.progress(&shared.job);
            let fd = engine.port.may_wait();
            let limit = match fd {
                Some(_) if engine.is_waiting() => retry,
                Some(_) => SLEEP,
                // The provider has more to do already.
                None if engine.port.can_wait() => Duration::ZERO,
                None => NAPS[usize::from(engine.under_way() == 0 && !engine.is_waiting())],
            };
            retry = match engine.is_waiting() {
                true => (2 * retry).min(RETRY.1),
                false => RETRY.0,
            };
            (fd, limit)
        };
        // SAFETY: the descriptor belongs to the completion queue, which `shared` keeps open.
        #[allow(unsafe_code)]
        let fd = fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
        if limit.is_zero() {
            found = true;
            std::thread::yield_now();
            continue;
        }
        let ready = match found && may_look {
            // After a look, the provider must confirm again that waiting misses nothing.
            true => look_for_more(shared),
            false => sleep(waker, fd, limit),
        };
        found = ready.provider;
        if ready.waker {
            waker.clear();
        }
    }
}

/// Makes progress for the time of a look, or until woken, or as long as waiting threads leave it to this thread. Peers'
/// operations are carried out unseen, so the next sleep shows whether there is still something to do.
fn look_for_more(shared: &Shared) -> Ready {
    let (begin, helped) = (Instant::now(), shared.helped());
    while begin.elapsed() < LOOK && !shared.waker.is_woken() {
        if shared.helped() - helped >= HELPED {
            return stand_back(shared);
        }
        // The holder of the lock makes progress, or lets it go soon.
        if !shared.is_wanted()
            && let Some(mut engine) = shared.try_engine()
        {
            engine.progress(&shared.job);
        }
    }
    Ready::default()
}

/// Naps as long as waiting threads make progress, and nobody wakes. Does not look at the provider.
fn stand_back(shared: &Shared) -> Ready {
    let mut nap = STAND_BACK.0;
    loop {
        let helped = shared.helped();
        let ready = sleep(&shared.waker, None, nap);
        if ready.any() || shared.helped() - helped < HELPED {
            return ready;
        }
        nap = (2 * nap).min(STAND_BACK.1);
    }
}

/// The reason that a sleep ended, or neither if its time was up.
#[derive(Clone, Copy, Default)]
struct Ready {
    waker: bool,
    provider: bool,
}

impl Ready {
    fn any(self) -> bool {
        self.waker || self.provider
    }
}

/// Sleeps until `fd` is readable, until somebody wakes, or for `limit`.
fn sleep(waker: &Waker, fd: Option<BorrowedFd<'_>>, limit: Duration) -> Ready {
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let its = PollFd::from_borrowed_fd(waker.fd(), PollFlags::IN);
    let mut fds = SmallVec::<[PollFd<'_>; 2]>::from_iter([its]);
    fds.extend(fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    // An interruption ends the sleep as time does.
    let _interrupted = poll(&mut fds, Some(&limit));
    let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
    Ready {
        waker: is_ready(0),
        provider: is_ready(1),
    }
}
