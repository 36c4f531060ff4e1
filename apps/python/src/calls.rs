//! Calls of objects from threads of Python.
//!
//! A call releases the lock of the interpreter, so that other threads of Python run while it waits. It uses the
//! [`loco::Thread`] of the calling thread, which is made at the first call and dropped with the thread. While the call waits, the main
//! thread lets Python run handlers of signals: if one raises, the call ends, and what it raised is raised. Other threads, for which
//! Python runs no handlers, do without the interpreter until the call ends: one that waits while the process ends stops nothing.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use loco::fabric::NodeId;
use loco::{Among, Manager, Parent as _, Thread};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

use crate::errors::{self, Kind};

/// A node, as its objects hold it.
pub(crate) struct Base {
    manager: Manager,
    number: u64,
    /// Set when the node has left its job.
    has_left: AtomicBool,
}

/// The parent of objects: a node, and the nodes among which objects are made.
pub(crate) struct Parent {
    pub(crate) base: Arc<Base>,
    pub(crate) participants: Vec<NodeId>,
}

/// One thread's access to a node.
struct Access {
    base: Arc<Base>,
    thread: Rc<Thread>,
}

thread_local! {
    /// The accesses of this thread. A process is a node once, so there is one in most programs.
    static ACCESSES: RefCell<Vec<Access>> = const { RefCell::new(Vec::new()) };
    /// Set while this thread is in a call.
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
    /// Set in the thread in which Python runs handlers of signals, once it has been asked for.
    static IS_MAIN: OnceCell<bool> = const { OnceCell::new() };
    /// The exception that a handler of a signal has raised during the call.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

impl Base {
    pub(crate) fn new(manager: Manager) -> Arc<Base> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Arc::new(Base {
            manager,
            // Relaxed: the numbers need only differ.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            has_left: AtomicBool::new(false),
        })
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Refuses calls from now on. Returns true if it did before.
    pub(crate) fn leave(&self) -> bool {
        // Relaxed: a call that has begun goes on, and fails when the node is gone.
        self.has_left.swap(true, Ordering::Relaxed)
    }

    /// Fails if the node has left its job.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if !self.has_left.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(errors::new(
            py,
            Kind::Closed,
            &format!(
                "{} has left its job: make calls before `close`, or inside of `with loco.start() as node`",
                self.manager.node()
            ),
        ))
    }

    /// Runs `steps` with this thread's access. `limit` is the time for all of its waits, in place of the node's.
    pub(crate) fn call<T: Send>(
        self: &Arc<Self>,
        py: Python<'_>,
        limit: Option<Duration>,
        steps: impl FnOnce(&Thread) -> loco::Result<T> + Send,
    ) -> PyResult<T> {
        self.call_anyhow(py, limit, |thread| Ok(steps(thread)?))
    }

    /// Runs `steps` as [`call`](Base::call) does, for steps with errors of their own.
    pub(crate) fn call_anyhow<T: Send>(
        self: &Arc<Self>,
        py: Python<'_>,
        limit: Option<Duration>,
        steps: impl FnOnce(&Thread) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.check(py)?;
        waiting(py, || {
            let thread = self.thread()?;
            match limit {
                Some(limit) => thread.within(limit, || steps(&thread)),
                None => steps(&thread),
            }
        })
    }

    /// Returns this thread's access to the node.
    fn thread(self: &Arc<Self>) -> loco::Result<Rc<Thread>> {
        ACCESSES.with_borrow_mut(|accesses| {
            accesses.retain(|access| !access.base.has_left.load(Ordering::Relaxed));
            if let Some(access) = accesses.iter().find(|access| access.base.number == self.number) {
                return Ok(access.thread.clone());
            }
            let thread = Rc::new(self.manager.thread()?);
            accesses.push(Access {
                base: self.clone(),
                thread: thread.clone(),
            });
            Ok(thread)
        })
    }
}

impl Parent {
    /// Returns the parent as objects take it.
    pub(crate) fn among(&self) -> Among<'_, Manager> {
        self.base.manager.among(self.participants.iter().copied())
    }

    /// Makes an object of this parent.
    pub(crate) fn make<T>(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&Among<'_, Manager>) -> loco::Result<T>,
    ) -> PyResult<T> {
        self.base.check(py)?;
        make(&self.among()).map_err(|error| errors::raise(py, &error))
    }
}

/// The reason that a call failed.
pub(crate) enum Failure {
    /// An error of the library.
    Loco(loco::Error),
    /// A mistake that this interface has found.
    Found(Kind, String),
}

impl From<loco::Error> for Failure {
    fn from(error: loco::Error) -> Failure {
        Failure::Loco(error)
    }
}

impl Failure {
    /// Returns the failure of a call that does not fit its object.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::Found(Kind::Usage, message.into())
    }

    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Loco(error) => errors::raise(py, error),
            Failure::Found(kind, message) => errors::new(py, *kind, message),
        }
    }
}

/// Runs `steps` without the lock of the interpreter, and lets handlers of signals end them.
pub(crate) fn waiting<T: Send>(
    py: Python<'_>,
    steps: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    /// Ends the call, also when it panics.
    struct Calling;
    impl Drop for Calling {
        fn drop(&mut self) {
            IS_CALLING.set(false);
        }
    }
    if IS_CALLING.replace(true) {
        return Err(errors::new(
            py,
            Kind::Usage,
            "this thread is in the middle of a call: a handler of a signal sets a flag or raises, and leaves objects alone",
        ));
    }
    let _calling = Calling;
    RAISED.take();
    let hears = hears_signals(py)?;
    let outcome = py.detach(|| match hears {
        true => loco::interruptible(is_signalled, steps),
        false => steps(),
    });
    match RAISED.take() {
        Some(raised) => Err(raised),
        None => outcome.map_err(|failure| failure.raise(py)),
    }
}

/// Returns whether Python runs handlers of signals in this thread: it is the main thread.
fn hears_signals(py: Python<'_>) -> PyResult<bool> {
    if let Some(is_main) = IS_MAIN.with(|is_main| is_main.get().copied()) {
        return Ok(is_main);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let is_main = threading.call_method0("get_ident")?.eq(main)?;
    // Importing and asking have run code of Python, which may have asked, too.
    Ok(IS_MAIN.with(|known| *known.get_or_init(|| is_main)))
}

/// Lets Python run handlers of signals. Returns true if one has raised.
fn is_signalled() -> bool {
    let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    let ends = raised.is_some();
    if ends {
        RAISED.set(raised);
    }
    ends
}

/// Returns true if a handler of a signal has ended the running call. Nobody gets the result of the call then.
pub(crate) fn is_interrupted() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// Waits for what another thread does. The main thread asks for signals meanwhile. `look` returns what the other thread has done,
/// after a short time at most. `end` is called once if a handler of a signal has raised.
pub(crate) fn polling<T: Send>(
    py: Python<'_>,
    mut look: impl FnMut() -> Option<T> + Send,
    end: impl FnOnce(),
) -> PyResult<T> {
    if !hears_signals(py)? {
        return Ok(py.detach(|| {
            loop {
                if let Some(done) = look() {
                    return done;
                }
            }
        }));
    }
    loop {
        if let Some(done) = py.detach(&mut look) {
            return Ok(done);
        }
        if let Err(raised) = py.check_signals() {
            end();
            return Err(raised);
        }
    }
}

/// Reads a time in seconds. `math.inf` is any time.
pub(crate) fn limit(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    match timeout {
        None => Ok(None),
        Some(f64::INFINITY) => Ok(Some(Duration::MAX)),
        Some(seconds) => match Duration::try_from_secs_f64(seconds) {
            Ok(limit) => Ok(Some(limit)),
            Err(_) => Err(PyValueError::new_err(format!(
                "timeout={seconds} is no time in seconds: give a number from 0 on, math.inf for any time, or None for the \
                 node's"
            ))),
        },
    }
}

/// Copies the bytes of an object that has some: `bytes`, `bytearray`, `memoryview`, an array of NumPy.
pub(crate) fn bytes(data: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if data.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "keys, values and messages are bytes, and this is a str: encode it, as in \"key\".encode()",
        ));
    }
    let copied = PyMemoryView::from(data)?.call_method0("tobytes")?;
    Ok(copied.cast::<PyBytes>()?.as_bytes().to_vec())
}
