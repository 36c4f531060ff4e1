//! The locks: `loco_lock`.
//!
//! A guard of the Rust library borrows its lock and its thread; C has a handle that says which thread of this node holds
//! the lock. Locking takes a guard and forgets it, and unlocking does what the guard's drop would have done.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{LockConfig, LockGuard, OnLoss, TasLock, TicketLock, Unlock};

use crate::border::{Need, Out, call, handle, run};
use crate::fence;
use crate::status::{AGAIN, Failure, OK, Status};
use crate::thread::{Access, Thread};

/// The value of `LOCO_LOCK_TICKET`.
pub(crate) const TICKET: c_int = 0;
/// The value of `LOCO_LOCK_TAS`.
pub(crate) const TAS: c_int = 1;
/// The value of `LOCO_ON_LOSS_POISON`.
pub(crate) const POISON: c_int = 0;
/// The value of `LOCO_ON_LOSS_RECOVER`.
pub(crate) const RECOVER: c_int = 1;

/// No thread of this node holds the lock.
const NOBODY: u64 = 0;

/// A lock, as C holds it.
pub struct Lock {
    lock: LockOfKind,
    /// The thread of this node that holds it, by its id.
    holder: AtomicU64,
}

/// A lock of either kind.
enum LockOfKind {
    Ticket(TicketLock),
    Tas(TasLock),
}

/// Expands an expression for each kind of lock.
macro_rules! each {
    ($kind:expr, $lock:ident => $body:expr) => {
        match $kind {
            LockOfKind::Ticket($lock) => $body,
            LockOfKind::Tas($lock) => $body,
        }
    };
}

impl Lock {
    /// Fails if the calling thread holds the lock.
    ///
    /// # Errors
    /// Returns `USAGE` if this thread holds the lock already: it would wait for itself.
    fn check_free(&self, access: &Access) -> Result<(), Failure> {
        // Relaxed: if it is this thread's id, this thread has written it.
        if self.holder.load(Ordering::Relaxed) == access.id() {
            return Err(Failure::usage(format!(
                "this thread holds lock `{}` already: unlock it first",
                each!(&self.lock, lock => lock.name())
            )));
        }
        Ok(())
    }

    /// Notes that this thread has got the lock.
    fn got(&self, access: &Access, recovered: bool, out: Out<'_, c_int>) {
        self.holder.store(access.id(), Ordering::Relaxed);
        access.locked();
        if let Some(out) = out {
            out.write(c_int::from(recovered));
        }
    }

    /// Releases the lock after a fence.
    fn unlock(&self, access: &Access, scope: Scope) -> Result<(), Failure> {
        // Before it is released, as the next holder writes its own id. Relaxed: the lock orders them.
        let ours = self
            .holder
            .compare_exchange(access.id(), NOBODY, Ordering::Relaxed, Ordering::Relaxed);
        if ours.is_err() {
            return Err(Failure::usage(format!(
                "this thread does not hold lock `{}`",
                each!(&self.lock, lock => lock.name())
            )));
        }
        access.unlocked();
        Ok(each!(&self.lock, lock => lock.unlock(access.thread(), scope))?)
    }
}

/// Takes the guard's duty to release the lock. Returns whether the lock was recovered from a lost holder.
fn take_over<L: Unlock>(guard: LockGuard<'_, L>) -> bool {
    let recovered = guard.recovered();
    std::mem::forget(guard);
    recovered
}

handle! {
    new loco_lock_new(kind: c_int, home: u16, on_loss: c_int) -> lock: Lock = |parent, name| {
        let (home, config) = (NodeId(home), config(on_loss)?);
        let lock = match kind {
            TICKET => LockOfKind::Ticket(TicketLock::with_config(parent, name, home, config)?),
            TAS => LockOfKind::Tas(TasLock::with_config(parent, name, home, config)?),
            _ => {
                return Err(Failure::usage(format!(
                    "no kind of lock {kind}: there are LOCO_LOCK_TICKET and LOCO_LOCK_TAS"
                )));
            }
        };
        let holder = AtomicU64::new(NOBODY);
        Lock { lock, holder }
    };
}

/// Returns the settings with this policy.
fn config(on_loss: c_int) -> Result<LockConfig, Failure> {
    let policy = match on_loss {
        POISON => OnLoss::Poison,
        RECOVER => OnLoss::Recover,
        _ => {
            return Err(Failure::usage(format!(
                "no policy {on_loss}: there are LOCO_ON_LOSS_POISON and LOCO_ON_LOSS_RECOVER"
            )));
        }
    };
    Ok(LockConfig::default().on_loss(policy))
}

/// Implements `loco_lock_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_lock_free(lock: Option<Box<Lock>>) -> Status {
    run(|| {
        let Some(lock) = lock else { return Ok(()) };
        if lock.holder.load(Ordering::Relaxed) != NOBODY {
            let name = each!(&lock.lock, lock => lock.name().to_owned());
            // Still the caller's.
            let _ = Box::into_raw(lock);
            return Err(Failure::usage(format!(
                "a thread of this node holds lock `{name}`: release it first"
            )));
        }
        Ok(())
    })
}

/// Implements `loco_lock_lock` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_lock_lock(
    lock: Option<&Lock>,
    thread: Option<&Thread>,
    recovered: Out<'_, c_int>,
) -> Status {
    run(|| {
        let (lock, access) = (lock.need("lock")?, thread.need("thread")?.enter()?);
        lock.check_free(access)?;
        // The scope is chosen when unlocking.
        let got = each!(&lock.lock, lock => lock.lock(access.thread(), Scope::Nothing).map(take_over))?;
        lock.got(access, got, recovered);
        Ok(())
    })
}

/// Implements `loco_lock_try_lock` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_lock_try_lock(
    lock: Option<&Lock>,
    thread: Option<&Thread>,
    recovered: Out<'_, c_int>,
) -> Status {
    call(|| {
        let (lock, access) = (lock.need("lock")?, thread.need("thread")?.enter()?);
        lock.check_free(access)?;
        let got = each!(&lock.lock, lock => {
            lock.try_lock(access.thread(), Scope::Nothing)?.map(take_over)
        });
        let Some(got) = got else { return Ok(AGAIN) };
        lock.got(access, got, recovered);
        Ok(OK)
    })
}

/// Implements `loco_lock_unlock` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_lock_unlock(lock: Option<&Lock>, thread: Option<&Thread>, scope: c_int) -> Status {
    run(|| {
        let (lock, access) = (lock.need("lock")?, thread.need("thread")?.enter()?);
        lock.unlock(access, fence::scope(scope)?)
    })
}

/// Implements `loco_lock_unlock_pair` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_lock_unlock_pair(lock: Option<&Lock>, thread: Option<&Thread>, peer: u16) -> Status {
    run(|| {
        let (lock, access) = (lock.need("lock")?, thread.need("thread")?.enter()?);
        lock.unlock(access, Scope::Pair(NodeId(peer)))
    })
}
