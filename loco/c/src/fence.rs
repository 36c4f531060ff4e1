//! Fences: `loco_fence`, `loco_fence_pair`, `loco_fence_towards`.

use std::ffi::c_int;

use loco::fabric::NodeId;
use loco::fence::{self, Scope};

use crate::border::{Need, node_ids, run};
use crate::status::{Failure, Status};
use crate::thread::Thread;

/// The value of `LOCO_FENCE_NOTHING`.
pub(crate) const NOTHING: c_int = 0;
/// The value of `LOCO_FENCE_THREAD`.
pub(crate) const THREAD: c_int = 1;
/// The value of `LOCO_FENCE_ALL_THREADS`.
pub(crate) const ALL_THREADS: c_int = 2;

/// Returns the scope with this number.
pub(crate) fn scope(scope: c_int) -> Result<Scope, Failure> {
    match scope {
        NOTHING => Ok(Scope::Nothing),
        THREAD => Ok(Scope::Thread),
        ALL_THREADS => Ok(Scope::AllThreads),
        _ => Err(Failure::usage(format!(
            "no scope {scope}: there are LOCO_FENCE_NOTHING, LOCO_FENCE_THREAD and LOCO_FENCE_ALL_THREADS"
        ))),
    }
}

/// Implements `loco_fence` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_fence(thread: Option<&Thread>, scope: c_int) -> Status {
    run(|| {
        let access = thread.need("thread")?.enter()?;
        Ok(self::scope(scope)?.fence(access.thread())?)
    })
}

/// Implements `loco_fence_pair` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_fence_pair(thread: Option<&Thread>, peer: u16) -> Status {
    run(|| {
        let access = thread.need("thread")?.enter()?;
        Ok(fence::pair(access.thread(), NodeId(peer))?)
    })
}

/// Implements `loco_fence_towards` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_fence_towards(
    thread: Option<&Thread>,
    nodes: *const u16,
    count: usize,
) -> Status {
    run(|| {
        let access = thread.need("thread")?.enter()?;
        // SAFETY: the caller's promise.
        let nodes = unsafe { node_ids(nodes, count, "nodes") }?;
        Ok(fence::towards(access.thread(), &nodes)?)
    })
}
