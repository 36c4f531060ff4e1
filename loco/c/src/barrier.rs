//! The barrier: `loco_barrier`.

use std::ffi::c_char;

use crate::border::{Need, New, free, run, text};
use crate::node::Node;
use crate::status::{Failure, Status};
use crate::thread::Thread;

/// A barrier, as C holds it.
pub struct Barrier(loco::Barrier);

/// Implements `loco_barrier_new` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_barrier_new(
    node: Option<&Node>,
    name: *const c_char,
    barrier: New<'_, Barrier>,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        make(node, name, barrier, |node, name| {
            loco::Barrier::new(&node.parent(), name)
        })
    }
}

/// Implements `loco_barrier_new_threads` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_barrier_new_threads(
    node: Option<&Node>,
    name: *const c_char,
    threads: usize,
    barrier: New<'_, Barrier>,
) -> Status {
    let new = |node: &Node, name: &str| loco::Barrier::with_threads(&node.parent(), name, threads);
    // SAFETY: the caller's promise.
    unsafe { make(node, name, barrier, new) }
}

/// Makes a barrier by `new`.
///
/// # Safety
/// `name` is NULL or a string.
unsafe fn make(
    node: Option<&Node>,
    name: *const c_char,
    barrier: New<'_, Barrier>,
    new: impl FnOnce(&Node, &str) -> loco::Result<loco::Barrier>,
) -> Status {
    run(|| {
        let (node, out) = (node.need("node")?, barrier.need("barrier")?);
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, "name") }?;
        out.write(Box::new(Barrier(new(node, name)?)));
        Ok(())
    })
}

/// Implements `loco_barrier_free` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_barrier_free(barrier: Option<Box<Barrier>>) -> Status {
    free(barrier)
}

/// Implements `loco_barrier_wait` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_barrier_wait(barrier: Option<&Barrier>, thread: Option<&Thread>) -> Status {
    wait(barrier, thread, loco::Barrier::wait)
}

/// Implements `loco_barrier_wait_fencing_all_threads` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_barrier_wait_fencing_all_threads(
    barrier: Option<&Barrier>,
    thread: Option<&Thread>,
) -> Status {
    wait(barrier, thread, loco::Barrier::wait_fencing_all_threads)
}

/// Implements `loco_barrier_wait_unfenced` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_barrier_wait_unfenced(barrier: Option<&Barrier>, thread: Option<&Thread>) -> Status {
    wait(barrier, thread, loco::Barrier::wait_unfenced)
}

fn wait(
    barrier: Option<&Barrier>,
    thread: Option<&Thread>,
    wait: impl FnOnce(&loco::Barrier, &loco::Thread) -> loco::Result<()>,
) -> Status {
    run(|| {
        let (barrier, access) = (barrier.need("barrier")?, thread.need("thread")?.enter()?);
        wait(&barrier.0, access.thread()).map_err(Failure::from)
    })
}
