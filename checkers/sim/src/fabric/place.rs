//! Where in the program a model thread makes a request: for the trace of a failure, and for the name of a loop that polls.
//!
//! A place is that of a call of [`crate::call`] or [`crate::note`], which know their callers, or else the innermost function on the
//! thread's stack that belongs neither to the model nor to the library under it. Programs that run on other fabrics pay nothing for it.
//! A place has a line only where the program has line tables, as tests have; else it is a function.
//!
//! Used by [`super::coroutine`], which announces each request, and by walkers.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::Location;

thread_local! {
    /// Set while every request leaves its place.
    static TRACES: Cell<bool> = const { Cell::new(false) };
    /// The thread whose next request leaves its place.
    static WATCHED: Cell<Option<u16>> = const { Cell::new(None) };
    /// The place of the record that the running thread is about to make.
    static RECORD: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
    /// The place of the last request of each thread that has left one.
    static PLACES: RefCell<Vec<Option<Place>>> = const { RefCell::new(Vec::new()) };
}

enum Place {
    Line(&'static Location<'static>),
    Stack(Backtrace),
}

/// Notes that a thread makes a request.
pub(super) fn asks(thread: u16) {
    let is_watched = WATCHED.get() == Some(thread);
    if !is_watched && !TRACES.get() {
        return;
    }
    if is_watched {
        WATCHED.set(None);
    }
    let place = match RECORD.take() {
        Some(line) => Place::Line(line),
        None => Place::Stack(Backtrace::force_capture()),
    };
    PLACES.with_borrow_mut(|places| {
        let number = usize::from(thread);
        places.resize_with(places.len().max(number + 1), || None);
        places[number] = Some(place);
    });
}

/// Notes where the running thread makes a record.
pub(crate) fn records_at(line: &'static Location<'static>) {
    if TRACES.get() || WATCHED.get().is_some() {
        RECORD.set(Some(line));
    }
}

/// Makes the next request of a thread leave its place.
pub(crate) fn watch(thread: u16) {
    PLACES.take();
    WATCHED.set(Some(thread));
}

/// Returns the place of the watched thread's request; `None` if it has made none, or if it has no place outside the library.
pub(crate) fn watched(thread: u16) -> Option<String> {
    WATCHED.set(None);
    of(thread)
}

/// Makes every request leave its place, until the scope ends.
pub(crate) fn trace() -> Traces {
    PLACES.take();
    TRACES.set(true);
    Traces
}

/// A scope in which every request leaves its place.
pub(crate) struct Traces;

impl Drop for Traces {
    fn drop(&mut self) {
        TRACES.set(false);
        RECORD.set(None);
        PLACES.take();
    }
}

/// Returns the place of the last request of the thread, if it has left one outside the library.
pub(crate) fn of(thread: u16) -> Option<String> {
    PLACES.with_borrow(|places| match places.get(usize::from(thread))?.as_ref()? {
        Place::Line(line) => Some(format!("{}:{}", line.file(), line.line())),
        Place::Stack(trace) => in_program(&trace.to_string()),
    })
}

/// Returns the innermost function of a stack that belongs neither to the model nor to the library under it.
fn in_program(trace: &str) -> Option<String> {
    let mut lines = trace.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some((number, function)) = line.split_once(": ") else {
            continue;
        };
        let path = function.trim_start_matches(['<', '&']);
        // The thread begins here. What follows resumes it.
        if path.starts_with(BOTTOM) {
            return None;
        }
        let is_below = BELOW.iter().any(|below| path.starts_with(below));
        if number.parse::<u32>().is_err() || is_below {
            continue;
        }
        let at = lines.peek().and_then(|next| next.strip_prefix("at "));
        return Some(at.map_or_else(|| function.to_owned(), |at| format!("{function} ({at})")));
    }
    None
}

/// The function at the bottom of the stack of a thread.
const BOTTOM: &str = "stack_init_trampoline";

/// The crates whose functions do not say where a program makes a request.
const BELOW: [&str; 9] = [
    "loco_sim::",
    "loco_any::",
    "loco::",
    "loco_fabric::",
    "std::",
    "core::",
    "alloc::",
    "corosensei::",
    "__",
];
