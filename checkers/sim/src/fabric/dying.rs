//! Stops the OS thread of the reaper where a panic would end the process: a panic in a destructor that runs while its
//! thread unwinds, or a lock that such a destructor can never get.
//!
//! Rust's runtime calls `abort` after such a panic, which raises `SIGABRT` in the OS thread. The handler that is installed here
//! stops that OS thread for good. In every other OS thread it does what the signal does without a handler. (The panic
//! hook, which runs earlier, is no place to stop: the hook would be in use for ever, and whoever replaces it, as Rust's test
//! harness does at its end, would wait for ever.)
//!
//! Used by [`super::coroutine`], whose panic hook asks here first, and by [`super::reaper`], which starts such OS threads.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Once, OnceLock};
use std::{mem, ptr};

use corosensei::stack::DefaultStack;

/// A value that one OS thread hands over to another.
pub(super) struct Handed<T>(pub(super) T);

// SAFETY: the worker that hands a value over waits until the other OS thread is done with it or has stopped for good, and
// touches it no more. Model threads share values only with one another, and all of them are handed over together with the
// world that keeps the rest. What they keep in the model's own thread-local variables is not looked at while they are taken apart.
unsafe impl<T> Send for Handed<T> {}

/// The message of such an OS thread after a job: the stacks that are free again, or `None` when it has stopped.
pub(super) type Freed = Option<Handed<VecDeque<DefaultStack>>>;

thread_local! {
    /// Sends the message that this OS thread stops. `None` in OS threads other than the reaper's.
    static STOPS: RefCell<Option<Sender<Freed>>> = const { RefCell::new(None) };
    /// Set while another panic would end the process.
    static UNWINDS: Cell<bool> = const { Cell::new(false) };
}

/// Lets this OS thread stop at a panic that would end the process; `tell` hears of it.
pub(super) fn may_stop(tell: Sender<Freed>) {
    STOPS.set(Some(tell));
}

/// Says that nothing unwinds on this OS thread.
pub(super) fn begin() {
    UNWINDS.set(false);
}

/// Runs `f`, during which any panic is one too many: a thread is being unwound.
pub(super) fn unwinding(f: impl FnOnce()) {
    let before = UNWINDS.replace(true);
    f();
    UNWINDS.set(before);
}

/// Sees every panic before it unwinds. If the panic is going to end the process from the reaper's OS thread,
/// prepares for the signal that comes with that.
pub(super) fn panics() {
    static HANDLER: Once = Once::new();
    let stops = STOPS.with_borrow(Option::is_some);
    if stops && UNWINDS.replace(true) {
        HANDLER.call_once(handle_abort);
    }
}

/// The handling of `SIGABRT` before [`handle_abort`].
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs [`aborts`]. If that fails, a panic as above ends the process.
fn handle_abort() {
    // SAFETY: the structures are of plain numbers, for which zero is a value: no flags, and an empty mask. Both calls are given
    // valid pointers. `aborts` runs where the runtime calls `abort`, in the middle of no other code of its OS thread, so it may do
    // whatever that code may.
    unsafe {
        let (mut handling, mut before): (libc::sigaction, libc::sigaction) = (mem::zeroed(), mem::zeroed());
        handling.sa_sigaction = aborts as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // The signal is not blocked in the handler, which raises it again.
        handling.sa_flags = libc::SA_NODEFER;
        if libc::sigaction(libc::SIGABRT, ptr::null(), &mut before) == 0 {
            let _ = BEFORE.set(before);
            libc::sigaction(libc::SIGABRT, &handling, ptr::null_mut());
        }
    }
}

/// Stops the OS thread of the reaper for good. Returns in any other OS thread.
pub(super) fn stop() {
    if let Some(tell) = STOPS.take() {
        let _ = tell.send(None);
        loop {
            std::thread::park();
        }
    }
}

/// Handles `SIGABRT`: does not return in the reaper's OS thread.
extern "C" fn aborts(signal: libc::c_int) {
    stop();
    if let Some(before) = BEFORE.get() {
        // SAFETY: the handling is one that the system has given us.
        unsafe {
            libc::sigaction(signal, before, ptr::null_mut());
            libc::raise(signal);
        }
    }
}
