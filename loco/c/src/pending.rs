//! A put or get under way: `loco_pending`.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use loco::fabric::{AnyRemote, Target};
use loco::raw::Flags;
use loco::{AckKey, MemRef};

use crate::border::{Need, Out, bytes_mut, run};
use crate::status::{Failure, Status};
use crate::thread::Access;

/// The longest data that goes with the operation itself rather than through a buffer, if the fabric would take more.
/// Up to this length a second copy costs less than a buffer.
const INLINE_BYTES_MAX: usize = 256;

/// Returns true if `len` bytes are copied when the operation is posted.
pub(crate) fn fits_inline(thread: &loco::Thread, len: usize) -> bool {
    use loco::fabric::Fabric as _;
    len <= thread.fabric().caps().inline_bytes_max.min(INLINE_BYTES_MAX)
}

/// An operation under way, as C holds it, for the thread that began it.
pub struct Pending {
    state: RefCell<State>,
    /// The thread that the buffer in `state` borrows. Dropped after it, as fields are in their order.
    access: Arc<Access>,
}

/// The progress of the operation.
enum State {
    /// A put of data that was copied at the call.
    Inline(AckKey),
    /// Something that uses a buffer. Not really `'static`: see `Pending::thread`.
    Buffered {
        operation: loco::Pending<'static>,
        /// Set if the operation is a get, which has a result.
        gets: bool,
    },
    /// A put that is over.
    Put,
    /// A get that is over, with its result.
    Got(MemRef<'static>),
    Failed(loco::Error),
}

impl Pending {
    /// Begins a put of `data`, which is copied.
    pub(crate) fn put(
        access: Arc<Access>,
        data: &[u8],
        target: Target<'_, AnyRemote>,
    ) -> loco::Result<Pending> {
        let thread = Pending::thread(&access);
        let state = if fits_inline(thread, data.len()) {
            State::Inline(thread.put_inline_with(data, target, Flags::STRONG)?)
        } else {
            let buffer = thread.mem_ref(data.len())?;
            buffer.write(0, data)?;
            let (operation, gets) = (buffer.put_with(target, Flags::STRONG)?, false);
            State::Buffered { operation, gets }
        };
        let state = RefCell::new(state);
        Ok(Pending { state, access })
    }

    /// Begins a get of `len` bytes.
    pub(crate) fn get(
        access: Arc<Access>,
        len: usize,
        target: Target<'_, AnyRemote>,
    ) -> loco::Result<Pending> {
        let (operation, gets) = (
            Pending::thread(&access)
                .mem_ref(len)?
                .get_with(target, Flags::STRONG)?,
            true,
        );
        let state = RefCell::new(State::Buffered { operation, gets });
        Ok(Pending { state, access })
    }

    /// Returns the thread, for a buffer that is kept together with `access`.
    fn thread(access: &Arc<Access>) -> &'static loco::Thread {
        let thread: *const loco::Thread = access.thread();
        // SAFETY: a thread does not move within its `Arc`. Every buffer made from the result is either dropped before the
        // function that asked returns, or in the `state` of a `Pending` that owns the `Arc` and drops it last. No buffer
        // leaves that state.
        unsafe { &*thread }
    }

    /// Waits for the end until the thread's deadline, or does not wait.
    fn finish(&self, wait: bool) -> Result<(), Failure> {
        let thread = self.access.thread();
        let mut state = self.state.borrow_mut();
        let key = match &*state {
            State::Inline(key) => key.clone(),
            State::Buffered { operation, .. } => operation.key(),
            State::Put | State::Got(_) => return Ok(()),
            State::Failed(error) => return Err(error.clone().into()),
        };
        // It polls once even if no time is left.
        let deadline = if wait { thread.deadline() } else { thread.now() };
        match key.wait_until(thread, Some(deadline)) {
            Ok(()) => {}
            Err(error) if error.is_timeout() => return Err(error.into()),
            Err(error) => {
                *state = State::Failed(error.clone());
                return Err(error.into());
            }
        }
        *state = match std::mem::replace(&mut *state, State::Put) {
            State::Buffered {
                operation,
                gets: true,
            } => State::Got(operation.wait()?), // it is over
            _ => State::Put,
        };
        Ok(())
    }
}

/// Implements `loco_pending_wait` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_pending_wait(pending: Option<&Pending>) -> Status {
    run(|| {
        let pending = pending.need("pending")?;
        pending.access.enter()?;
        pending.finish(true)
    })
}

/// Implements `loco_pending_test` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_pending_test(pending: Option<&Pending>, done: Out<'_, c_int>) -> Status {
    run(|| {
        let (pending, out) = (pending.need("pending")?, done.need("done")?);
        pending.access.enter()?;
        match pending.finish(false) {
            Err(failure) if failure.status == crate::status::TIMEOUT => out.write(0),
            // A wait reports the failure.
            _ => out.write(1),
        };
        Ok(())
    })
}

/// Implements `loco_pending_read` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_pending_read(
    pending: Option<&Pending>,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> Status {
    run(|| {
        let pending = pending.need("pending")?;
        pending.access.enter()?;
        // SAFETY: the caller's promise.
        let data = unsafe { bytes_mut(data, len, "data") }?;
        match &*pending.state.borrow() {
            State::Got(buffer) if offset.checked_add(len).is_some_and(|end| end <= buffer.len()) => {
                Ok(buffer.read(offset, data)?)
            }
            State::Got(buffer) => Err(Failure::usage(format!(
                "{len} bytes from {offset} on are not within the {} bytes of this get",
                buffer.len()
            ))),
            _ => Err(Failure::usage(
                "there is nothing to read: wait with `loco_pending_wait` for a get to succeed",
            )),
        }
    })
}

/// Implements `loco_pending_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_pending_free(pending: Option<Box<Pending>>) -> Status {
    run(|| {
        let Some(pending) = pending else { return Ok(()) };
        if let Err(wrong_thread) = pending.access.check() {
            // Still the caller's.
            let _ = Box::into_raw(pending);
            return Err(wrong_thread);
        }
        Ok(())
    })
}
