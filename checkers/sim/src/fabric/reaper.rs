//! The reaper: destroys the threads and the data of an execution that is followed no further.
//!
//! The threads of the execution are suspended in the middle of calls. The reaper unwinds them, so that what they own is
//! freed. A destructor that calls the fabric then gets no answer, and may panic because of it. A panic in a destructor that
//! runs while its thread unwinds ends the process, and no `catch_unwind` prevents that. The reaper therefore works on an OS
//! thread of its own. When a destructor panics there, that OS thread stops for good before the process ends
//! ([`super::dying`]). Rust's runtime has then written the line "thread caused non-unwinding panic. aborting." From then on, the worker frees stacks without running
//! destructors: what its executions own is leaked, and the exploration goes on.
//!
//! A destructor may also take a lock that another suspended thread holds. That thread is then unwound first
//! ([`make_way`]).
//!
//! Relies on [`super::coroutine`] and [`super::dying`]. Used by [`crate::world::run`] when a run ends.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::coroutine::{self, Task, add_stacks, dismantle, take_stacks};
use super::dying::{self, Freed, Handed};

type Job = Box<dyn FnOnce() + Send>;

/// The OS thread that destroys executions, as its worker sees it.
struct Reaper {
    jobs: Sender<Job>,
    /// The stacks that a job has freed, or `None` when a destructor has panicked and the OS thread has stopped.
    done: Receiver<Freed>,
}

thread_local! {
    static REAPER: RefCell<Option<Reaper>> = const { RefCell::new(None) };
    /// Set once a destructor has panicked: from then on, destructors of this worker's executions are not run.
    static FORGETS: Cell<bool> = const { Cell::new(false) };
    /// The suspended threads of the execution that this OS thread runs or destroys.
    static SUSPENDED: RefCell<Vec<Option<Task>>> = const { RefCell::new(Vec::new()) };
}

/// Unwinds the last of the suspended threads. Returns false if there is none.
fn unwind_last() -> bool {
    let task = SUSPENDED.with_borrow_mut(|tasks| {
        while let Some(None) = tasks.last() {
            tasks.pop();
        }
        tasks.pop()
    });
    let is_there = task.is_some();
    drop(task);
    is_there
}

/// Runs a thread of an execution, whose other threads are `tasks`. Its destructors may take locks that those hold if it panics: they
/// are unwound then, and gone from `tasks`.
pub(crate) fn beside<T>(tasks: &mut Vec<Option<Task>>, run: impl FnOnce() -> T) -> T {
    SUSPENDED.set(std::mem::take(tasks));
    let value = run();
    *tasks = SUSPENDED.take();
    value
}

/// Brings a destructor further that finds a lock held by a suspended thread. Returns when another thread of the execution has been
/// unwound. If none is left, two destructors need each other's locks, and both are left alone: the OS thread of the reaper stops for good.
/// In an execution that goes on, that ends the process; the last words say what has panicked, and how it came to that.
pub(super) fn make_way() {
    if !unwind_last() {
        dying::stop();
        coroutine::abort_by_lock();
    }
}

impl Reaper {
    fn start() -> std::io::Result<Reaper> {
        let (jobs, todo) = channel::<Job>();
        let (tell, done) = channel();
        std::thread::Builder::new()
            .name("loco-sim remains".into())
            .spawn(move || {
                dying::may_stop(tell.clone());
                while let Ok(job) = todo.recv() {
                    dying::begin();
                    // A single panic in a destructor only ends that destructor.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                    if tell.send(Some(Handed(take_stacks()))).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Reaper { jobs, done })
    }
}

/// Destroys the threads of a run, in this order, and then `rest`, the data that they shared.
pub(crate) fn reap(tasks: Vec<Task>, rest: impl Sized + 'static) {
    if FORGETS.get() {
        tasks.into_iter().for_each(Task::forget);
        std::mem::forget(rest);
        return;
    }
    let remains = Handed((tasks, rest));
    let job: Job = Box::new(move || {
        // The whole value is moved, not its parts.
        let remains = remains;
        let Handed((tasks, rest)) = remains;
        SUSPENDED.set(tasks.into_iter().rev().map(Some).collect());
        while unwind_last() {}
        dismantle(|| drop(rest));
    });
    REAPER.with_borrow_mut(|reaper| {
        if reaper.is_none() {
            // If no OS thread can be started, this one destroys the execution.
            *reaper = Reaper::start().ok();
        }
        let Some(started) = reaper else {
            job();
            return;
        };
        // The channel is closed only if the OS thread has ended, which it does only with its worker.
        let freed = started
            .jobs
            .send(job)
            .ok()
            .and_then(|()| started.done.recv().ok())
            .flatten();
        match freed {
            Some(Handed(stacks)) => add_stacks(stacks),
            None => {
                FORGETS.set(true);
                *reaper = None;
            }
        }
    });
}
