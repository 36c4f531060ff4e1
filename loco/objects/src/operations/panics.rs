//! Catches the panics of closures and destructors that belong to the program and run on a thread or under a lock of this crate.
//!
//! Such a panic is the affair of whoever gave the closure or the value. It must not end a service thread, nor reach another caller.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

use loco_fabric::Platform;

use crate::Error;

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Runs `closure`. Returns the payload of its panic, if it panics.
pub(crate) fn catch<T>(platform: &impl Platform, closure: impl FnOnce() -> T) -> Result<T, Payload> {
    // The state that the closure can leave half done is the program's own.
    catch_unwind(AssertUnwindSafe(closure)).map_err(|payload| match platform.unwinds() {
        true => resume_unwind(payload),
        false => payload,
    })
}

/// Runs `closure`, in which values of the program may be dropped that nobody waits for any more. A panic of theirs has no owner
/// that could be told: it is logged.
pub(crate) fn contain(platform: &impl Platform, closure: impl FnOnce()) {
    if let Err(payload) = catch(platform, closure) {
        tracing::error!(
            "a value that nobody waits for panicked when it was dropped: {}",
            message(&*payload)
        );
    }
}

/// Calls a waker. Its panic is logged, because no caller could handle it.
pub(crate) fn wake(platform: &impl Platform, waker: Waker) {
    if let Err(payload) = catch(platform, || waker.wake()) {
        tracing::error!("the waker of a task panicked: {}", message(&*payload));
    }
}

/// Returns the error that tells the owner of a closure of its panic.
pub(crate) fn error(whose: String, payload: &(dyn Any + Send)) -> Error {
    let message = message(payload);
    tracing::error!("{whose} panicked: {message}");
    Error::Panicked { whose, message }
}

/// Returns the message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it carried no text".to_owned())
}
