//! Runs model threads as coroutines. Needs `unsafe` because code deep inside object calls must reach the coroutine that
//! runs it.
//!
//! Relies on `corosensei`. Used by [`crate::world::run`], which resumes threads, and by the fabric's types,
//! which make requests through [`ask`].
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Once};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::fabric::request::{Reply, Request, VirtualWord};
use crate::fabric::{dying, place};

/// Bytes of stack of one model thread.
const STACK_BYTES: usize = 1024 * 1024;

/// The number of transfers of a thread after which their numbers begin again.
const TRANSFERS_MAX: u32 = 1 << 14;

/// The body of a model thread.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// The facts that the running code must know about its thread.
#[derive(Clone, Copy)]
struct Current {
    yielder: NonNull<Yielder<Reply, Request>>,
    thread: u16,
    node: u16,
}

thread_local! {
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
    /// Set while suspended threads are unwound: requests are no longer answered.
    static DISMANTLING: Cell<bool> = const { Cell::new(false) };
    /// Bodies of threads that running threads have asked for. A body is taken when the request is granted.
    static SPAWNED: RefCell<Vec<(u16, Body)>> = const { RefCell::new(Vec::new()) };
    /// The place of the last panic of a model thread.
    static PANIC_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    /// By thread. An OS thread runs the threads of one run at a time.
    static THREADS: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
    /// Threads that hold a lock of the model, once for each lock, in the order in which they took them.
    static HOLDERS: RefCell<Vec<u16>> = const { RefCell::new(Vec::new()) };
    /// The names of words.
    static LABELS: RefCell<Labels> = const { RefCell::new(Labels::new()) };
    static STACKS: RefCell<VecDeque<DefaultStack>> = const { RefCell::new(VecDeque::new()) };
    /// Shows the schedule that the threads of this OS thread follow; `None` in a set-up.
    static FOLLOWED: RefCell<Option<Shows>> = const { RefCell::new(None) };
    /// The name of the world that this OS thread runs.
    static WORLD: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
    /// Set while a model thread unwinds from a panic of its own.
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// The name of a thread, and the numbers that it has given out since it began.
#[derive(Clone, Default)]
struct Known {
    name: Arc<str>,
    /// The number of names.
    named: u64,
    /// The number of the last transfer.
    transfer: u32,
    /// Looks whether its waits are given up.
    given_up: Option<Looks>,
}

/// The number and the common name of words that were allocated together, by the first of them.
pub(crate) type Labels = BTreeMap<VirtualWord, (u64, Box<str>)>;

/// Looks at memory of the model.
type Looks = Arc<dyn Fn() -> bool>;

/// Makes a text that is hardly ever needed.
type Shows = Box<dyn Fn() -> String>;

type Thread = Coroutine<Reply, Request, Result<(), Arc<str>>, DefaultStack>;

/// A suspended or finished model thread.
pub(crate) struct Task {
    coroutine: Option<Thread>,
    current: Option<Current>,
}

impl Task {
    /// Makes a thread that has not started. Fails when no stack can be allocated.
    pub(crate) fn new(thread: u16, node: u16, name: Arc<str>, body: Body) -> std::io::Result<Task> {
        // One stack stays behind, so that the threads of the next run have others.
        let pooled = STACKS.with_borrow_mut(|stacks| match stacks.len() {
            0 | 1 => None,
            _ => stacks.pop_front(),
        });
        let stack = match pooled {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_BYTES)?,
        };
        install_panic_hook();
        THREADS.with_borrow_mut(|threads| {
            threads.resize(threads.len().max(usize::from(thread) + 1), Known::default());
            threads[usize::from(thread)] = Known {
                name,
                ..Known::default()
            };
        });
        let coroutine =
            Coroutine::with_stack(stack, move |yielder: &Yielder<Reply, Request>, _first: Reply| {
                CURRENT.set(Some(Current {
                    yielder: NonNull::from(yielder),
                    thread,
                    node,
                }));
                let ended = catch_unwind(AssertUnwindSafe(body));
                PANICS.set(false);
                ended.map_err(|panic| {
                    let text = panic
                        .downcast_ref::<&str>()
                        .map(|s| (*s).to_owned())
                        .or_else(|| panic.downcast_ref::<String>().cloned());
                    match text {
                        Some(text) => {
                            let place = PANIC_PLACE.take().map(|p| format!(" ({p})")).unwrap_or_default();
                            Arc::from(format!("{text}{place}"))
                        }
                        // The forced unwinding of a suspended coroutine must continue.
                        None if DISMANTLING.get() => std::panic::resume_unwind(panic),
                        None => {
                            let place = PANIC_PLACE.take().unwrap_or_default();
                            Arc::from(format!("panicked with a payload that is no text ({place})"))
                        }
                    }
                })
            });
        Ok(Task {
            coroutine: Some(coroutine),
            current: None,
        })
    }

    /// Resumes the thread with `reply` and returns its next request.
    pub(crate) fn resume(&mut self, reply: Reply) -> Request {
        let Some(coroutine) = self.coroutine.as_mut() else {
            return Request::End(Ok(()));
        };
        let running = Running::begin(&mut self.current);
        let result = coroutine.resume(reply);
        drop(running);
        match result {
            CoroutineResult::Yield(request) => request,
            CoroutineResult::Return(end) => {
                if let Some(done) = self.coroutine.take() {
                    STACKS.with_borrow_mut(|stacks| stacks.push_back(done.into_stack()));
                }
                Request::End(end)
            }
        }
    }
}

/// A scope in which a thread runs. When the scope ends, also by unwinding, [`CURRENT`] is cleared. It would
/// otherwise lead to a stack that may be gone.
struct Running<'a> {
    current: &'a mut Option<Current>,
}

impl Running<'_> {
    fn begin(current: &mut Option<Current>) -> Running<'_> {
        CURRENT.set(*current);
        Running { current }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.current = CURRENT.take();
    }
}

impl Task {
    /// Gives the stack of a suspended thread back without running the destructors of what is on it. That is forgotten.
    pub(super) fn forget(mut self) {
        let Some(mut coroutine) = self.coroutine.take() else {
            return;
        };
        if coroutine.started() && !coroutine.done() {
            // SAFETY: nothing outside refers to values on the stack: a thread shares its values with others only by
            // reference counts, whose values are forgotten with the counts that the stack holds.
            unsafe { coroutine.force_reset() };
        }
        STACKS.with_borrow_mut(|stacks| stacks.push_back(coroutine.into_stack()));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let Some(mut coroutine) = self.coroutine.take() else {
            return;
        };
        CURRENT.set(None);
        if coroutine.started() && !coroutine.done() {
            dismantle(|| dying::unwinding(|| coroutine.force_unwind()));
        }
        if coroutine.done() {
            STACKS.with_borrow_mut(|stacks| stacks.push_back(coroutine.into_stack()));
        }
    }
}

/// Asks the scheduler on behalf of the running thread. Outside a model thread, and while an execution is dismantled,
/// the answer is [`Reply::Dismantled`].
pub(crate) fn ask(request: Request) -> Reply {
    let Some(current) = CURRENT.get() else {
        return Reply::Dismantled;
    };
    if DISMANTLING.get() || std::thread::panicking() {
        return Reply::Dismantled;
    }
    // A panic that was caught on the way here is over.
    PANICS.set(false);
    place::asks(current.thread);
    // SAFETY: `CURRENT` is set only while the coroutine that owns this yielder is running on this OS thread:
    // `resume` clears it when the coroutine suspends or ends. The yielder lives as long as the coroutine's
    // stack, so it is alive, and this code runs on that stack.
    let reply = unsafe { current.yielder.as_ref() }.suspend(request);
    CURRENT.set(Some(current));
    reply
}

/// Takes the stacks that are kept to be used again.
pub(super) fn take_stacks() -> VecDeque<DefaultStack> {
    STACKS.take()
}

/// Keeps stacks to be used again.
pub(super) fn add_stacks(stacks: VecDeque<DefaultStack>) {
    STACKS.with_borrow_mut(|all| all.extend(stacks));
}

/// Returns the number and the node of the running model thread.
pub(crate) fn current() -> Option<(u16, u16)> {
    CURRENT.get().map(|c| (c.thread, c.node))
}

/// Returns the first of `count` names that nobody else has. Names depend on the thread and its past, not on
/// the schedule. Outside a model thread, and while an execution is dismantled, the name is always 2^63, and
/// nobody looks at what it names. It lies beyond the names of all threads and far below the largest number,
/// since the words of a memory are counted up from its name.
pub(crate) fn fresh_names(count: u64) -> u64 {
    let Some((thread, _)) = current() else {
        return 1 << 63;
    };
    THREADS.with_borrow_mut(|threads| {
        let given = &mut threads[usize::from(thread)].named;
        let first = VirtualWord::base(thread) + *given;
        *given += count;
        first
    })
}

/// Returns a number for a transfer of several words. Threads number their transfers apart, and the number depends on the
/// thread's past alone. A number is given again after [`TRANSFERS_MAX`] transfers: fewer must be under way at a time.
pub(crate) fn fresh_transfer() -> u32 {
    let Some((thread, _)) = current() else {
        return 0;
    };
    THREADS.with_borrow_mut(|threads| {
        let last = &mut threads[usize::from(thread)].transfer;
        *last = *last % TRANSFERS_MAX + 1;
        u32::from(thread) * TRANSFERS_MAX + *last
    })
}

/// Makes the running thread ask `looks` in each of its waits whether to give up.
pub(crate) fn give_up_when(looks: Looks) {
    if let Some((thread, _)) = current() {
        THREADS.with_borrow_mut(|threads| threads[usize::from(thread)].given_up = Some(looks));
    }
}

/// Returns whether the running thread gives its waits up. A look is a step of the thread.
pub(crate) fn given_up() -> bool {
    let looks = current()
        .and_then(|(thread, _)| THREADS.with_borrow(|threads| threads[usize::from(thread)].given_up.clone()));
    looks.is_some_and(|looks| looks())
}

/// Names words that were allocated together, for reports. A later name replaces an earlier one.
pub(crate) fn label(first: VirtualWord, words: u64, name: &str) {
    LABELS.with_borrow_mut(|labels| labels.insert(first, (words, name.into())));
}

/// Takes the names that were given since they were last taken.
pub(crate) fn take_labels() -> Labels {
    LABELS.take()
}

/// Notes that a thread has taken a lock.
pub(crate) fn holds(thread: Option<u16>) {
    if let Some(thread) = thread {
        HOLDERS.with_borrow_mut(|holders| holders.push(thread));
    }
}

/// Notes that a thread has released a lock.
pub(crate) fn lets_go(thread: Option<u16>) {
    HOLDERS.with_borrow_mut(|holders| {
        if let Some(at) = holders.iter().rposition(|&h| Some(h) == thread) {
            holders.remove(at);
        }
    });
}

/// Notes that a thread is gone and holds no lock any more.
pub(crate) fn lets_go_of_all(thread: u16) {
    HOLDERS.with_borrow_mut(|holders| holders.retain(|&h| h != thread));
}

/// Returns the thread that took a lock last, among those that hold one.
pub(crate) fn last_holder() -> Option<u16> {
    HOLDERS.with_borrow(|holders| holders.last().copied())
}

/// Hands over the body of the thread that the running thread is about to ask for.
pub(crate) fn hand_over(body: Body) {
    if let Some((thread, _)) = current() {
        SPAWNED.with_borrow_mut(|bodies| bodies.push((thread, body)));
    }
}

/// Takes the body that `thread` has handed over.
pub(crate) fn take_over(thread: u16) -> Option<Body> {
    SPAWNED.with_borrow_mut(|bodies| {
        let at = bodies.iter().position(|(owner, _)| *owner == thread)?;
        Some(bodies.swap_remove(at).1)
    })
}

/// Returns the bodies whose threads never started, to be dropped.
pub(crate) fn forget_handed_over() -> Vec<(u16, Body)> {
    SPAWNED.take()
}

/// Returns true while the remains of an execution are dropped.
pub(crate) fn dismantling() -> bool {
    DISMANTLING.get()
}

/// Runs `f` while requests get no answer: to drop the remains of an execution, or to run a check outside threads.
pub(crate) fn dismantle<T>(f: impl FnOnce() -> T) -> T {
    let _dismantling = Dismantling::begin();
    f()
}

/// A scope in which requests get no answer. It also ends when the code inside it unwinds.
struct Dismantling {
    before: bool,
}

impl Dismantling {
    fn begin() -> Dismantling {
        Dismantling {
            before: DISMANTLING.replace(true),
        }
    }
}

impl Drop for Dismantling {
    fn drop(&mut self) {
        DISMANTLING.set(self.before);
    }
}

/// Sets what shows the schedule that the threads follow from now on.
pub(crate) fn follows(schedule: Option<Shows>) {
    FOLLOWED.set(schedule);
}

/// Sets the name of the world that this OS thread runs from now on.
pub(crate) fn set_world(name: Option<Arc<str>>) {
    WORLD.set(name);
}

/// Ends the process: the running thread unwinds from a panic, and a destructor takes a lock that a suspended thread holds.
pub(crate) fn abort_by_lock() -> ! {
    let what = "takes a lock that a suspended thread holds";
    match CURRENT.get() {
        Some(current) => eprintln!("{}", last_words(current, what)),
        None => eprintln!("loco-sim: a destructor {what}"),
    }
    std::process::abort();
}

/// Says which thread panics in a destructor while it unwinds, or cannot go on there, and how it came to that.
fn last_words(current: Current, destructor: impl std::fmt::Display) -> String {
    let world = WORLD.with_borrow(|name| {
        name.as_ref()
            .map_or("the world".to_owned(), |n| format!("world {n}"))
    });
    let first = PANIC_PLACE.with_borrow(|place| place.clone().unwrap_or_default());
    let schedule = FOLLOWED.with_borrow(|shows| shows.as_ref().map(|shows| shows()));
    let how = schedule.map_or("in the set-up".to_owned(), |schedule| {
        format!("replay: {schedule}")
    });
    let Current { thread, node, .. } = current;
    let name = THREADS.with_borrow(|threads| threads[usize::from(thread)].name.clone());
    format!(
        "{world}: thread P{thread} ({name}) on node {node} panicked at {first}, and while it unwound a destructor {destructor}\n\
         That ends the process.\n{how}"
    )
}

/// Installs a panic hook that is silent for model threads. Their panics are findings, printed once with their
/// schedule; the default hook would print them in each of many executions.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            dying::panics();
            if CURRENT.get().is_some() || DISMANTLING.get() {
                let place = info.location().map(ToString::to_string);
                // A destructor that panics while its thread unwinds ends the process, as it does anywhere.
                if let Some(current) = CURRENT.get()
                    && PANICS.replace(true)
                {
                    eprintln!("{}", last_words(current, info));
                }
                PANIC_PLACE.with_borrow_mut(|p| *p = place);
            } else {
                default(info);
            }
        }));
    });
}

/// Runs a check outside model threads. Returns the message of its panic as the error.
pub(crate) fn catch(check: impl FnOnce()) -> Result<(), String> {
    install_panic_hook();
    let result = dismantle(|| catch_unwind(AssertUnwindSafe(check)));
    result.map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "the check panicked".into());
        match PANIC_PLACE.take() {
            Some(place) => format!("{text} ({place})"),
            None => text,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;
    use std::sync::Mutex;

    use super::*;

    fn task(body: impl FnOnce() + Send + 'static) -> Task {
        Task::new(0, 0, "thread".into(), Box::new(body)).expect("there is memory for a stack")
    }

    /// Checks that no thread counts as running and that none is being unwound.
    fn nobody_runs() {
        assert_eq!(current(), None);
        assert!(!DISMANTLING.get());
        assert_eq!(ask(Request::Fence), Reply::Dismantled);
    }

    /// Checks that a thread made now runs as ever, on a stack that the one before may have left.
    fn the_next_one_runs() {
        let mut next = task(|| assert_eq!(ask(Request::Fence), Reply::Value(3)));
        assert_eq!(next.resume(Reply::Unit), Request::Fence);
        assert_eq!(next.resume(Reply::Value(3)), Request::End(Ok(())));
        nobody_runs();
    }

    /// Asks when it is dropped, and keeps the answer.
    struct Asks(Arc<Mutex<Vec<Reply>>>);

    impl Drop for Asks {
        fn drop(&mut self) {
            let reply = ask(Request::Fence);
            self.0.lock().expect("not poisoned").push(reply);
        }
    }

    #[test]
    fn a_panic_of_the_body_is_the_end_of_the_thread() {
        for (text, has_text) in [("ouch", true), ("no text", false)] {
            let mut panics = task(move || {
                ask(Request::Fence);
                match has_text {
                    true => panic!("ouch"),
                    false => panic_any(5),
                }
            });
            assert_eq!(panics.resume(Reply::Unit), Request::Fence);
            nobody_runs();
            let end = panics.resume(Reply::Unit);
            let Request::End(Err(message)) = end else {
                panic!("{end:?}")
            };
            assert!(
                message.contains(text) && message.contains("coroutine.rs"),
                "{message}"
            );
            nobody_runs();
            assert_eq!(panics.resume(Reply::Unit), Request::End(Ok(())), "it is over");
            the_next_one_runs();
        }
    }

    #[test]
    fn a_suspended_thread_is_unwound_with_what_holds_it() {
        let replies = Arc::new(Mutex::new(Vec::new()));
        let asks = Asks(replies.clone());
        let outside = catch_unwind(AssertUnwindSafe(|| {
            let mut suspended = task(move || {
                let _asks = asks;
                ask(Request::Fence);
                unreachable!("nobody answers");
            });
            assert_eq!(suspended.resume(Reply::Unit), Request::Fence);
            // Without the hook, which would print it.
            std::panic::resume_unwind(Box::new("outside"));
        }));
        let payload = outside.expect_err("it panicked");
        assert_eq!(payload.downcast_ref(), Some(&"outside"));
        assert_eq!(*replies.lock().expect("not poisoned"), [Reply::Dismantled]);
        nobody_runs();
        the_next_one_runs();
    }

    /// The one way in which a resumed thread unwinds into whoever resumes it: a payload that is no text, while threads are
    /// being unwound.
    #[test]
    fn a_resume_that_unwinds_leaves_nobody_running() {
        let mut unwinds = task(|| panic_any(5));
        let outside = catch_unwind(AssertUnwindSafe(|| dismantle(|| unwinds.resume(Reply::Unit))));
        let payload = outside.expect_err("it unwound");
        assert_eq!(payload.downcast_ref(), Some(&5));
        nobody_runs();
        drop(unwinds);
        the_next_one_runs();
    }
}
