//! Stops an OS thread that takes remains of executions apart at the panic that would end the process: one in a destructor that
//! runs while its thread unwinds.
//!
//! Used by [`super::coroutine`], whose panic hook asks here first, and by [`super::burial`], which starts such OS threads.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::mpsc::Sender;

use corosensei::stack::DefaultStack;

/// A value that one OS thread hands over to another.
pub(super) struct Handed<T>(pub(super) T);

// SAFETY: the worker that hands a value over waits until the other OS thread is done with it or has stopped for good, and
// touches it no more. Model threads share values only with one another, and all of them are handed over together with the
// world that keeps the rest. What they keep in the model's own thread-local variables is not looked at while they are taken apart.
unsafe impl<T> Send for Handed<T> {}

/// The message of such an OS thread after a job: the stacks that are free again, or `None` when it has stopped.
pub(super) type Freed = Option<Handed<Vec<DefaultStack>>>;

thread_local! {
    /// Sends the message that this OS thread stops. `None` in OS threads that do not take remains apart.
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

/// Sees every panic before it unwinds. Does not return in an OS thread that takes remains apart if the panic would end the
/// process.
pub(super) fn panics() {
    let stops = STOPS.with_borrow(Clone::clone);
    let Some(tell) = stops else { return };
    if !UNWINDS.replace(true) {
        return;
    }
    let _ = tell.send(None);
    loop {
        std::thread::park();
    }
}
