//! What an OS thread that takes remains of executions apart must know of panics: a panic in a destructor that runs while its thread
//! unwinds would end the process, so it stops the OS thread instead.
//!
//! Used by [`super::coroutine`], whose panic hook asks here first, and by [`super::burial`], which starts such OS threads.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::mpsc::Sender;

use corosensei::stack::DefaultStack;

/// A value that is used by one OS thread after another.
pub(super) struct Handed<T>(pub(super) T);

// SAFETY: the worker that hands a value over waits until the other OS thread is done with it or has stopped for good, and
// touches it no more. Model threads share values only with one another, and all of them are handed over together with the
// world that keeps the rest. What they keep in the model's own thread-local variables is not looked at while they are taken apart.
unsafe impl<T> Send for Handed<T> {}

/// What such an OS thread tells after a job: the stacks that are free again, or `None` when it has stopped.
pub(super) type Freed = Option<Handed<Vec<DefaultStack>>>;

thread_local! {
    /// Where such an OS thread tells that it stops.
    static STOPS: RefCell<Option<Sender<Freed>>> = const { RefCell::new(None) };
    /// Set while a panic would be the second at a time.
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

/// Called for every panic before it unwinds. Does not return to an undertaker whose panic would end the process.
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
