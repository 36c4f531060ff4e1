//! The barrier: `loco_barrier`.

use crate::border::{Need, handle, run};
use crate::status::{Failure, Status};
use crate::thread::Thread;

/// A barrier, as C holds it.
pub struct Barrier(loco::Barrier);

handle! {
    new loco_barrier_new() -> barrier: Barrier = |parent, name| Barrier(loco::Barrier::new(parent, name)?);
    new loco_barrier_new_threads(threads: usize) -> barrier: Barrier
        = |parent, name| Barrier(loco::Barrier::with_threads(parent, name, threads)?);
    free loco_barrier_free;
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
