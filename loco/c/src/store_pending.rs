//! An operation of a store under way: `loco_store_pending`.
//!
//! A started operation of the Rust library borrows its store and its thread. C has a handle that owns both.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use loco::{Bytes, PendingUpdate};

use crate::border::{Need, New, Out, call, run};
use crate::status::{Failure, NOT_FOUND, OK, Status};
use crate::store::{Map, Store, owned};
use crate::thread::{Access, Started, Thread};

/// An operation under way, as C holds it, for the thread that started it.
pub struct StorePending {
    state: RefCell<State>,
    /// The thread and the store that the operation in `state` borrows. Dropped after it, as fields are in their order.
    access: Arc<Access>,
    _store: Arc<Map>,
}

/// The progress of the operation.
enum State {
    /// Not really `'static`: see `StorePending::start`. Its thread is not freed meanwhile.
    UnderWay(PendingUpdate<'static, Bytes, Bytes>, Started),
    /// It was waited for, with this outcome.
    Over(loco::Result<bool>),
}

impl StorePending {
    /// Starts an update.
    fn start(store: Arc<Map>, access: Arc<Access>, key: &Bytes, value: &Bytes) -> loco::Result<StorePending> {
        let (map, thread): (*const Map, *const loco::Thread) = (&raw const *store, access.thread());
        // SAFETY: neither moves within its `Arc`. The update made from both is in the `state` of a `StorePending` that owns the two
        // `Arc`s and drops them last. It leaves that state only into the call of `finish` that ends it.
        let (map, thread) = unsafe { (&*map, &*thread) };
        let update = map.update_start(thread, key, value)?;
        let state = RefCell::new(State::UnderWay(update, Started::new(access.clone())));
        Ok(StorePending {
            state,
            access,
            _store: store,
        })
    }

    /// Waits for the end. Returns whether the key was there.
    fn finish(&self) -> loco::Result<bool> {
        let mut state = self.state.borrow_mut();
        // The state that stays if the wait panics.
        let closed = State::Over(Err(loco::Error::Closed));
        let outcome = match std::mem::replace(&mut *state, closed) {
            State::UnderWay(update, _started) => update.wait(),
            State::Over(outcome) => outcome,
        };
        *state = State::Over(outcome.clone());
        outcome
    }

    /// Moves the thread's operations on. Returns true if this one is over.
    fn query(&self) -> bool {
        match &*self.state.borrow() {
            State::UnderWay(update, _) => update.query(),
            State::Over(_) => true,
        }
    }
}

/// Implements `loco_store_update_start` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_store_update_start(
    store: Option<&Store>,
    thread: Option<&Thread>,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    pending: New<'_, StorePending>,
) -> Status {
    run(|| {
        let (store, access) = (store.need("store")?, thread.need("thread")?.share()?);
        let out = pending.need("pending")?;
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (owned(key, key_len, "key")?, owned(value, value_len, "value")?) };
        let started = StorePending::start(store.share(), access, &key, &value)?;
        out.write(Box::new(started));
        Ok(())
    })
}

/// Implements `loco_store_pending_wait` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_store_pending_wait(pending: Option<&StorePending>) -> Status {
    call(|| {
        let pending = pending.need("pending")?;
        pending.access.enter()?;
        let found = pending.finish()?;
        Ok(if found { OK } else { NOT_FOUND })
    })
}

/// Implements `loco_store_pending_test` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_store_pending_test(pending: Option<&StorePending>, done: Out<'_, c_int>) -> Status {
    run(|| {
        let (pending, out) = (pending.need("pending")?, done.need("done")?);
        pending.access.enter()?;
        out.write(c_int::from(pending.query()));
        Ok(())
    })
}

/// Implements `loco_store_pending_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_store_pending_free(pending: Option<Box<StorePending>>) -> Status {
    run(|| {
        let Some(pending) = pending else { return Ok(()) };
        if let Err(wrong_thread) = pending.access.check() {
            // Still the caller's.
            let _ = Box::into_raw(pending);
            return Err::<(), Failure>(wrong_thread);
        }
        Ok(())
    })
}
