//! The locks: `loco.TicketLock`, `loco.TasLock`, and the guard that holds one.
//!
//! A guard of the Rust library borrows its lock and its thread. Here the lock knows which thread of this node holds it. Locking takes
//! a guard and forgets it, and unlocking does what the guard's drop would have done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{LockConfig, LockGuard as Guard, OnLoss, Thread, Unlock};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::calls::{Base, Failure, is_interrupted, limit};
use crate::node::{Node, scope_of};

/// No thread of this node holds the lock.
const NOBODY: u64 = 0;

/// A lock of either kind, with the thread of this node that holds it.
struct Held {
    base: Arc<Base>,
    lock: AnyLock,
    /// The holder, by its number.
    holder: AtomicU64,
}

/// The kinds of locks.
enum AnyLock {
    Ticket(loco::TicketLock),
    Tas(loco::TasLock),
}

/// Expands an expression for each kind of lock.
macro_rules! each {
    ($kind:expr, $lock:ident => $body:expr) => {
        match $kind {
            AnyLock::Ticket($lock) => $body,
            AnyLock::Tas($lock) => $body,
        }
    };
}

/// Returns the number of the calling thread. Numbers are not used again.
fn caller() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(NOBODY + 1);
    thread_local! {
        // Relaxed: the numbers need only differ.
        static CALLER: u64 = NUMBERS.fetch_add(1, Ordering::Relaxed);
    }
    CALLER.with(|&number| number)
}

/// Takes the guard's duty to release the lock. Returns whether the lock was recovered from a lost holder.
fn take_over<L: Unlock>(guard: Guard<'_, L>) -> bool {
    let recovered = guard.recovered();
    std::mem::forget(guard);
    recovered
}

impl Held {
    fn name(&self) -> &str {
        each!(&self.lock, lock => lock.name())
    }

    /// Gets the lock, or returns `None` if `waits` is false and it is held.
    fn lock(
        self: &Arc<Self>,
        py: Python<'_>,
        limit: Option<Duration>,
        waits: bool,
    ) -> PyResult<Option<LockGuard>> {
        let got = self.base.call_anyhow(py, limit, |thread| {
            // Relaxed: if it is this thread's number, this thread has written it.
            if self.holder.load(Ordering::Relaxed) == caller() {
                return Err(Failure::usage(format!(
                    "this thread of {} holds lock `{}` already: release its guard first",
                    thread.node_id(),
                    self.name()
                )));
            }
            // The scope is chosen at release.
            let got = each!(&self.lock, lock => match waits {
                true => Some(lock.lock(thread, Scope::Nothing)?),
                false => lock.try_lock(thread, Scope::Nothing)?,
            }
            .map(take_over));
            if got.is_some() {
                self.holder.store(caller(), Ordering::Relaxed);
                if is_interrupted() {
                    // Nobody will get the guard.
                    self.unlock(thread, Scope::Nothing)?;
                }
            }
            Ok(got)
        })?;
        Ok(got.map(|recovered| LockGuard {
            held: self.clone(),
            recovered,
        }))
    }

    /// Releases the lock after a fence.
    fn unlock(&self, thread: &Thread, scope: Scope) -> Result<(), Failure> {
        // Before it is released, as the next holder writes its own number. Relaxed: the lock orders them.
        let ours = self
            .holder
            .compare_exchange(caller(), NOBODY, Ordering::Relaxed, Ordering::Relaxed);
        if ours.is_err() {
            return Err(Failure::usage(format!(
                "this thread of {} does not hold lock `{}`: the thread that took it releases it, once",
                thread.node_id(),
                self.name()
            )));
        }
        Ok(each!(&self.lock, lock => lock.unlock(thread, scope))?)
    }

    fn release(&self, py: Python<'_>, scope: Scope) -> PyResult<()> {
        self.base
            .call_anyhow(py, None, |thread| self.unlock(thread, scope))
    }
}

/// Holds a lock until `release`, or to the end of a `with` statement. It is for the thread that took the lock. A guard that is
/// forgotten holds the lock on.
#[pyclass(frozen, module = "loco")]
pub(crate) struct LockGuard {
    held: Arc<Held>,
    recovered: bool,
}

#[pymethods]
impl LockGuard {
    /// True if a former holder was lost while it held the lock, and nobody has held it since. What the lock protects may then
    /// be half done. This happens only with `on_loss="recover"`.
    #[getter]
    fn recovered(&self) -> bool {
        self.recovered
    }

    /// Releases the lock after a fence: "thread" for what this thread has put, "all_threads" for what the node's threads have, or
    /// "nothing".
    #[pyo3(signature = (scope = "thread"))]
    fn release(&self, py: Python<'_>, scope: &str) -> PyResult<()> {
        self.held.release(py, scope_of(scope)?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _raised: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        // A block may have released it already.
        if self.held.holder.load(Ordering::Relaxed) == caller() {
            self.held.release(py, Scope::Thread)?;
        }
        Ok(false)
    }
}

fn config(on_loss: &str) -> PyResult<LockConfig> {
    let policy = match on_loss {
        "poison" => OnLoss::Poison,
        "recover" => OnLoss::Recover,
        _ => {
            return Err(PyValueError::new_err(format!(
                "no policy \"{on_loss}\": there are \"poison\" and \"recover\""
            )));
        }
    };
    Ok(LockConfig::default().on_loss(policy))
}

/// Defines a class for one kind of lock.
macro_rules! lock {
    ($(#[$docs:meta])* $name:ident, $kind:ident) => {
        $(#[$docs])*
        #[pyclass(frozen, module = "loco")]
        pub(crate) struct $name(Arc<Held>);

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (node, name, home, *, on_loss = "poison"))]
            fn new(py: Python<'_>, node: &Node, name: &str, home: u16, on_loss: &str) -> PyResult<$name> {
                let (parent, config) = (node.parent(), config(on_loss)?);
                let lock = parent.make(py, |among| loco::$name::with_config(among, name, NodeId(home), config))?;
                Ok($name(Arc::new(Held {
                    base: parent.base.clone(),
                    lock: AnyLock::$kind(lock),
                    holder: AtomicU64::new(NOBODY),
                })))
            }

            /// Waits for the lock, and returns a guard that holds it.
            #[pyo3(signature = (timeout = None))]
            fn lock(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<LockGuard>> {
                self.0.lock(py, limit(timeout)?, true)
            }

            /// Returns a guard, or None if the lock is held.
            fn try_lock(&self, py: Python<'_>) -> PyResult<Option<LockGuard>> {
                self.0.lock(py, None, false)
            }

            fn __enter__(&self, py: Python<'_>) -> PyResult<Option<LockGuard>> {
                self.0.lock(py, None, true)
            }

            fn __exit__(
                &self,
                py: Python<'_>,
                _raised: &Bound<'_, PyAny>,
                _value: &Bound<'_, PyAny>,
                _traceback: &Bound<'_, PyAny>,
            ) -> PyResult<bool> {
                // A block may have released it already.
                if self.0.holder.load(Ordering::Relaxed) == caller() {
                    self.0.release(py, Scope::Thread)?;
                }
                Ok(false)
            }
        }
    };
}

lock! {
    /// A fair lock, whose waiters get it in the order in which they came. Node `home` has its words.
    TicketLock, Ticket
}
lock! {
    /// A lock that is cheap while nobody else wants it. Node `home` has its words.
    TasLock, Tas
}
