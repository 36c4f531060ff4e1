//! Fibers: code that waits, run so that one thread of the system can wait for many fibers.
//!
//! A fiber has a stack of its own. Where code in it would wait,
//! [`Membership::wait`](crate::membership::Membership::wait) suspends the fiber and returns to the caller that
//! resumed it, which may resume others meanwhile. The code therefore needs no second form: a fiber runs the calls
//! that threads run, which the model checker has explored.
//!
//! A fiber stays on the thread that made it. Code in it must not suspend while it holds a lock of the thread
//! (`std::sync::Mutex`), which objects never do: such locks are for bounded work only.
//!
//! Relies on `corosensei` for stacks and switching. Used by the asynchronous forms of `loco`'s objects, and only built with
//! the feature `fibers`.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use loco_fabric::{FabricError, Result, Time};

/// The bytes of a fiber's stack. The system provides pages of it as they are touched: two or three for most calls.
const STACK_BYTES: usize = 256 * 1024;
/// The number of stacks that a thread keeps for later fibers.
const STACKS_KEPT: usize = 64;

/// The instruction to a fiber that is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Look again whether the wait is over.
    GoOn,
    /// Nobody wants the outcome any more: waits that have a deadline end as if it had come.
    GiveUp,
}

/// The reason that a fiber returned to its caller.
#[derive(Debug)]
pub enum Paused {
    /// The fiber waits.
    Waits {
        /// Set if a wait has ended since the fiber was resumed, and it now is in another one.
        advanced: bool,
        /// The time before which resuming the fiber is useless, unless the node's doorbell rings. `None` if
        /// something else may end its wait.
        rung_or_at: Option<Time>,
    },
    /// The fiber has ended: normally, or with this panic.
    Ended(std::thread::Result<()>),
}

type Pauses = Yielder<Resume, Option<Time>>;

/// The fiber that runs on this thread.
#[derive(Clone, Copy)]
struct Current {
    yielder: NonNull<Pauses>,
    resumed_with: Resume,
    /// Set if a wait has ended since it was resumed.
    advanced: bool,
}

thread_local! {
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
    /// Set while a suspended fiber is dropped.
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// The result of a fiber's body: its panic, if it has panicked.
type End = std::result::Result<(), Box<dyn Any + Send>>;

/// Code that is suspended where it waits, or has not begun.
pub struct Fiber {
    /// `Some` until it has ended.
    coroutine: Option<Coroutine<Resume, Option<Time>, End, DefaultStack>>,
    yielder: Option<NonNull<Pauses>>,
}

impl Fiber {
    /// Makes a fiber that will run `body` on the calling thread.
    ///
    /// # Errors
    /// Returns [`FabricError::Os`] when the system has no memory for a stack.
    pub fn new(body: impl FnOnce() + 'static) -> Result<Fiber> {
        let stack = match STACKS.with_borrow_mut(Vec::pop) {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_BYTES)
                .map_err(|error| FabricError::os("allocating the stack of an asynchronous call", &error))?,
        };
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Pauses, first: Resume| {
            CURRENT.set(Some(Current {
                yielder: NonNull::from(yielder),
                resumed_with: first,
                advanced: false,
            }));
            match catch_unwind(AssertUnwindSafe(body)) {
                // The fiber is being dropped: the panic that unwinds its stack must leave it.
                Err(unwinding) if DROPPING.get() => resume_unwind(unwinding),
                end => end,
            }
        });
        Ok(Fiber {
            coroutine: Some(coroutine),
            yielder: None,
        })
    }

    /// Runs the fiber until it waits or ends. A fiber that has ended stays ended.
    ///
    /// A call from within another fiber also runs this one to its next pause.
    pub fn resume(&mut self, with: Resume) -> Paused {
        let Some(coroutine) = self.coroutine.as_mut() else {
            return Paused::Ended(Ok(()));
        };
        let outer = CURRENT.replace(self.yielder.map(|yielder| Current {
            yielder,
            resumed_with: with,
            advanced: false,
        }));
        let paused = coroutine.resume(with);
        let current = CURRENT.replace(outer);
        match paused {
            CoroutineResult::Yield(rung_or_at) => {
                self.yielder = current.map(|current| current.yielder);
                Paused::Waits {
                    advanced: current.is_some_and(|current| current.advanced),
                    rung_or_at,
                }
            }
            CoroutineResult::Return(end) => {
                if let Some(ended) = self.coroutine.take() {
                    STACKS.with_borrow_mut(|stacks| {
                        if stacks.len() < STACKS_KEPT {
                            stacks.push(ended.into_stack());
                        }
                    });
                }
                Paused::Ended(end)
            }
        }
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        let before = DROPPING.replace(true);
        let outer = CURRENT.take();
        drop(self.coroutine.take());
        CURRENT.set(outer);
        DROPPING.set(before);
    }
}

/// Returns true in code that a fiber runs and that may be suspended. Unwinding code must not be suspended, because
/// the standard library records a panic for the thread.
#[inline]
pub fn running() -> bool {
    CURRENT.get().is_some() && !std::thread::panicking()
}

/// Returns true in a fiber whose outcome nobody wants any more. Waits that have a deadline end at once then. Code
/// that repeats short waits checks this to learn whether to go on.
#[inline]
pub fn given_up() -> bool {
    CURRENT
        .get()
        .is_some_and(|current| current.resumed_with == Resume::GiveUp)
}

/// Suspends the fiber that runs; see [`Paused::Waits`] for `rung_or_at`. Returns the instruction with which it was
/// resumed. Outside a fiber it returns at once, with [`Resume::GoOn`].
pub(crate) fn suspend(rung_or_at: Option<Time>) -> Resume {
    let Some(current) = CURRENT.get() else {
        return Resume::GoOn;
    };
    // SAFETY: `CURRENT` names a yielder only while the fiber that owns it runs on this thread: `resume` takes it away
    // when the fiber suspends or ends. The yielder lives as long as the fiber's stack, on which this code runs.
    unsafe { current.yielder.as_ref() }.suspend(rung_or_at);
    // `resume` has set it to its present argument.
    CURRENT.get().map_or(Resume::GoOn, |current| current.resumed_with)
}

/// Notes that a wait of the running fiber is over.
pub(crate) fn note_progress() {
    if let Some(current) = CURRENT.get() {
        CURRENT.set(Some(Current {
            advanced: true,
            ..current
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Makes a fiber that notes what it is resumed with, `times` times.
    fn listener(times: usize) -> (Fiber, Rc<RefCell<Vec<Resume>>>) {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let notes = heard.clone();
        let body = move || {
            for _ in 0..times {
                let with = suspend(None);
                assert_eq!(given_up(), with == Resume::GiveUp);
                notes.borrow_mut().push(with);
            }
        };
        (Fiber::new(body).expect("a stack"), heard)
    }

    #[test]
    fn fibers_take_turns_and_get_what_they_are_resumed_with() {
        let (mut a, heard_a) = listener(2);
        let (mut b, heard_b) = listener(1);
        assert!(matches!(
            a.resume(Resume::GoOn),
            Paused::Waits { advanced: false, .. }
        ));
        assert!(matches!(
            b.resume(Resume::GoOn),
            Paused::Waits { advanced: false, .. }
        ));
        assert!(matches!(
            a.resume(Resume::GoOn),
            Paused::Waits { advanced: false, .. }
        ));
        assert!(matches!(b.resume(Resume::GiveUp), Paused::Ended(Ok(()))));
        assert!(matches!(a.resume(Resume::GiveUp), Paused::Ended(Ok(()))));
        assert!(
            matches!(a.resume(Resume::GoOn), Paused::Ended(Ok(()))),
            "it stays so"
        );
        assert_eq!(*heard_a.borrow(), [Resume::GoOn, Resume::GiveUp]);
        assert_eq!(*heard_b.borrow(), [Resume::GiveUp]);
        assert!(!running());
    }

    #[test]
    fn a_panic_ends_its_fiber_only() {
        let (mut other, _) = listener(1);
        assert!(matches!(
            other.resume(Resume::GoOn),
            Paused::Waits { advanced: false, .. }
        ));
        let mut bad = Fiber::new(|| {
            suspend(None);
            panic!("on purpose");
        })
        .expect("a stack");
        assert!(matches!(
            bad.resume(Resume::GoOn),
            Paused::Waits { advanced: false, .. }
        ));
        let Paused::Ended(Err(panic)) = bad.resume(Resume::GoOn) else {
            panic!("it goes on");
        };
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
        assert!(matches!(other.resume(Resume::GoOn), Paused::Ended(Ok(()))));
    }

    #[test]
    fn a_fiber_that_is_dropped_drops_what_it_has() {
        let held = Rc::new(());
        let its = held.clone();
        let mut fiber = Fiber::new(move || {
            suspend(None);
            drop(its);
        })
        .expect("a stack");
        assert!(matches!(
            fiber.resume(Resume::GoOn),
            Paused::Waits { advanced: false, .. }
        ));
        drop(fiber);
        assert_eq!(Rc::strong_count(&held), 1);
        assert!(!running());
    }

    #[test]
    fn outside_a_fiber_nothing_is_suspended() {
        assert!(!running() && !given_up());
        assert_eq!(suspend(None), Resume::GoOn);
    }
}
