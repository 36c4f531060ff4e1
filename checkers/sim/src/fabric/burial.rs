//! Takes apart what is left of an execution that is followed no further.
//!
//! Its threads are suspended in the middle of calls. They are unwound, so that what they own is freed. A destructor that calls
//! the fabric then gets no answer, and may take that for a bug and panic. A panic in a destructor that runs while its thread
//! unwinds ends the process, whatever is around it. So the remains are taken apart on an OS thread of their own. When a
//! destructor panics there, that OS thread stops for good before the process ends ([`super::dying`]). Rust's runtime has then
//! written the line "thread caused non-unwinding panic. aborting." From then on, the worker gives stacks back without running
//! destructors: what its executions own is lost, and the exploration goes on.
//!
//! Relies on [`super::coroutine`] and [`super::dying`]. Used by [`crate::world::run`] when a run ends.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::coroutine::{Task, add_stacks, dismantle, take_stacks};
use super::dying::{self, Freed, Handed};

type Job = Box<dyn FnOnce() + Send>;

/// The OS thread that takes remains apart, as its worker sees it.
struct Undertaker {
    jobs: Sender<Job>,
    /// The stacks that a job has freed, or `None` when a destructor has panicked and the OS thread has stopped.
    done: Receiver<Freed>,
}

thread_local! {
    static UNDERTAKER: RefCell<Option<Undertaker>> = const { RefCell::new(None) };
    /// Set once a destructor has panicked: destructors of this worker's executions are run no more.
    static FORGETS: Cell<bool> = const { Cell::new(false) };
}

impl Undertaker {
    fn hire() -> std::io::Result<Undertaker> {
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
        Ok(Undertaker { jobs, done })
    }
}

/// Takes apart the threads of a run, in this order, and then what they leave.
pub(crate) fn bury(tasks: Vec<Task>, rest: impl Sized + 'static) {
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
        tasks.into_iter().for_each(drop);
        dismantle(|| drop(rest));
    });
    UNDERTAKER.with_borrow_mut(|undertaker| {
        if undertaker.is_none() {
            // Without another OS thread, the remains are taken apart here.
            *undertaker = Undertaker::hire().ok();
        }
        let Some(hired) = undertaker else {
            job();
            return;
        };
        // An undertaker that cannot be told has ended, which it does only with its worker.
        let freed = hired
            .jobs
            .send(job)
            .ok()
            .and_then(|()| hired.done.recv().ok())
            .flatten();
        match freed {
            Some(Handed(stacks)) => add_stacks(stacks),
            None => {
                FORGETS.set(true);
                *undertaker = None;
            }
        }
    });
}
