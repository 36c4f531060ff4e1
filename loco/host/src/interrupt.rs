//! Interruptions: a thread whose wait lasts asks its program whether to go on.
//!
//! In some languages the handler of a signal does not run while a call of a library waits: Python runs it between two of its own
//! instructions. [`interruptible`] lets the calls of such a program ask meanwhile. A wait that is interrupted ends as if its
//! deadline had come, so what the call leaves behind is what the documentation of the call says of a timeout. Waits without
//! an end, in which steps are completed on which other nodes depend, do not ask.
//!
//! Relies on nothing. Used by [`membership`](crate::membership), by `loco`, and by the Python interface.

use std::cell::Cell;
use std::time::Duration;

use loco_fabric::Time;

/// The least time between two questions.
pub const EVERY: Duration = Duration::from_millis(20);

/// The program of a thread, as its waits see it.
#[derive(Clone, Copy)]
struct Asked {
    /// Returns true if the call is to end.
    ask: fn() -> bool,
    /// The time of the next question, from the first look at the clock on.
    next: Option<Time>,
    interrupted: bool,
}

thread_local! {
    static ASKED: Cell<Option<Asked>> = const { Cell::new(None) };
}

/// Runs `steps`. While they wait, the thread calls `ask` some fifty times a second. Once `ask` has returned true, all waits of
/// `steps` that have a deadline end at once as if it had come.
///
/// `ask` is called where the thread waits, so it must not use objects of the job.
pub fn interruptible<T>(ask: fn() -> bool, steps: impl FnOnce() -> T) -> T {
    /// Restores what was there before, also when the steps panic.
    struct Restore(Option<Asked>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ASKED.set(self.0);
        }
    }
    let asked = Asked {
        ask,
        next: None,
        interrupted: false,
    };
    let _restore = Restore(ASKED.replace(Some(asked)));
    steps()
}

/// Returns true if the running call is to end. Code that repeats short waits checks this to learn whether to go on.
#[inline]
pub fn requested() -> bool {
    ASKED.get().is_some_and(|asked| asked.interrupted)
}

/// Asks the program, if it wants to be asked and the time has come. Returns true if the wait is to end.
pub(crate) fn look(now: Time) -> bool {
    let Some(mut asked) = ASKED.get() else {
        return false;
    };
    match asked.next {
        Some(next) if now >= next && !asked.interrupted => {
            asked.next = Some(now.after(EVERY));
            ASKED.set(Some(asked));
            asked.interrupted = (asked.ask)();
        }
        Some(_) => return asked.interrupted,
        None => asked.next = Some(now.after(EVERY)),
    }
    ASKED.set(Some(asked));
    asked.interrupted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time(0).after(Duration::from_millis(millis))
    }

    thread_local! {
        static QUESTIONS: Cell<u32> = const { Cell::new(0) };
    }

    /// Counts the questions, and ends the call at the second.
    fn second() -> bool {
        QUESTIONS.set(QUESTIONS.get() + 1);
        QUESTIONS.get() == 2
    }

    #[test]
    fn a_program_is_asked_from_time_to_time_until_it_ends_the_call() {
        let every = u64::try_from(EVERY.as_millis()).expect("a short time");
        interruptible(second, || {
            assert!(!look(at(0)) && !look(at(1)) && !look(at(every - 1)));
            assert_eq!(QUESTIONS.get(), 0);
            assert!(!look(at(every)) && !look(at(every + 1)));
            assert_eq!((QUESTIONS.get(), requested()), (1, false));
            assert!(look(at(3 * every)) && requested());
            assert!(look(at(9 * every)));
            assert_eq!(QUESTIONS.get(), 2, "it has answered");
        });
        assert!(!requested() && !look(at(100 * every)));
    }

    #[test]
    fn a_call_within_a_call_leaves_the_outer_one_as_it_was() {
        interruptible(
            || false,
            || {
                interruptible(
                    || true,
                    || {
                        assert!(!look(at(0)) && look(at(1000)));
                        assert!(requested());
                    },
                );
                assert!(!requested() && !look(at(2000)) && !look(at(3000)));
            },
        );
    }
}
