//! A thread's access to the network: `loco_thread`, bound to the thread of the operating system that made it.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use loco::fabric::Time;

use crate::border::{Need, New, run};
use crate::node::Node;
use crate::status::{Failure, Status, WRONG_THREAD};

/// The value of `LOCO_FOREVER`.
pub(crate) const FOREVER: u64 = u64::MAX;
/// The value of `LOCO_DEFAULT_TIMEOUT`.
pub(crate) const DEFAULT_TIMEOUT: u64 = u64::MAX - 1;

/// A thread's access, as C holds it.
#[derive(Debug)]
pub struct Thread {
    shared: Arc<Access>,
}

/// The access itself. Buffers in use keep it alive.
#[derive(Debug)]
pub(crate) struct Access {
    /// The thread of the operating system that made it. All other fields except the two counts are for that thread.
    owner: u64,
    /// Names it as the holder of locks; never 0.
    id: u64,
    thread: loco::Thread,
    /// The timeout, from the beginning of each call that needs the clock.
    timeout: Cell<Option<Duration>>,
    /// The number of locks that it holds.
    locks: AtomicU32,
    /// The number of started store operations that were neither waited for nor freed.
    started: AtomicU32,
}

/// The source of numbers, from 1.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

fn number() -> u64 {
    // Relaxed: the numbers need only differ.
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// Returns the number of the calling thread of the operating system. Numbers are not used again, unlike those of the
/// system.
fn caller() -> u64 {
    thread_local! {
        static CALLER: u64 = number();
    }
    // Needs no destructor, so it is there as long as the thread.
    CALLER.with(|&number| number)
}

impl Thread {
    /// Begins a call of the thread that this belongs to.
    ///
    /// # Errors
    /// Returns `WRONG_THREAD` for any other thread.
    pub(crate) fn enter(&self) -> Result<&Access, Failure> {
        self.shared.enter()?;
        Ok(&self.shared)
    }

    /// Begins a call as `enter` does, and returns a handle that can be kept.
    pub(crate) fn share(&self) -> Result<Arc<Access>, Failure> {
        self.shared.enter()?;
        Ok(self.shared.clone())
    }
}

impl Access {
    /// Begins a call. The thread's timeout runs from here on.
    pub(crate) fn enter(&self) -> Result<(), Failure> {
        self.check()?;
        if let Some(timeout) = self.timeout.get() {
            self.thread.set_deadline(Some(self.thread.now().after(timeout)));
        }
        Ok(())
    }

    /// Fails for other threads than the owner.
    ///
    /// # Errors
    /// Returns `WRONG_THREAD` unless the caller is the thread that this belongs to.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.owner == caller() {
            return Ok(());
        }
        Err(Failure::new(
            WRONG_THREAD,
            "this `loco_thread` was made by another thread: each thread makes its own, with `loco_thread_new`",
        ))
    }

    /// Returns the thread of the Rust library. The caller must have checked.
    pub(crate) fn thread(&self) -> &loco::Thread {
        &self.thread
    }

    /// Returns the thread's name as the holder of locks.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Counts a lock that the thread has got.
    pub(crate) fn locked(&self) {
        // Relaxed: only this thread writes it, and a thread that frees it elsewhere has heard from this thread.
        self.locks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a lock that the thread has released.
    pub(crate) fn unlocked(&self) {
        self.locks.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts an operation of a store as started by its thread, until dropped.
pub(crate) struct Started(Arc<Access>);

impl Started {
    /// Counts an operation that `access` starts.
    pub(crate) fn new(access: Arc<Access>) -> Started {
        // Relaxed: as for the locks.
        access.started.fetch_add(1, Ordering::Relaxed);
        Started(access)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.started.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Implements `loco_thread_new` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_thread_new(node: Option<&Node>, thread: New<'_, Thread>) -> Status {
    run(|| {
        let (node, out) = (node.need("node")?, thread.need("thread")?);
        // Bound to its thread by `owner`: not `Sync`, and not used as if it were.
        #[allow(clippy::arc_with_non_send_sync)]
        let shared = Arc::new(Access {
            owner: caller(),
            id: number(),
            thread: node.manager().thread()?,
            timeout: Cell::new(None),
            locks: AtomicU32::new(0),
            started: AtomicU32::new(0),
        });
        out.write(Box::new(Thread { shared }));
        Ok(())
    })
}

/// Implements `loco_thread_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_thread_free(thread: Option<Box<Thread>>) -> Status {
    run(|| {
        let Some(thread) = thread else { return Ok(()) };
        let held = thread.shared.locks.load(Ordering::Relaxed);
        let started = thread.shared.started.load(Ordering::Relaxed);
        let in_use = match (held, started) {
            (0, 0) => return Ok(()),
            (0, _) => format!(
                "this `loco_thread` has {started} operations of stores under way: wait for them, or free them, first"
            ),
            _ => format!("this `loco_thread` holds {held} locks: release them first"),
        };
        // Still the caller's.
        let _ = Box::into_raw(thread);
        Err(Failure::usage(in_use))
    })
}

/// Implements `loco_thread_set_timeout` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_thread_set_timeout(thread: Option<&Thread>, timeout_ns: u64) -> Status {
    run(|| {
        let access = thread.need("thread")?.enter()?;
        let (each_call, deadline) = match timeout_ns {
            FOREVER => (None, Some(Time::NEVER)),
            DEFAULT_TIMEOUT => (None, None),
            ns => (Some(Duration::from_nanos(ns)), None),
        };
        access.timeout.set(each_call);
        access.thread.set_deadline(deadline);
        Ok(())
    })
}
