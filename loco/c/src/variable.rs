//! The shared variable: `loco_variable`.

use std::ffi::c_int;

use loco::SharedVar;

use crate::border::{Need, Out, handle, node_ids, run};
use crate::region::compare;
use crate::status::Status;
use crate::thread::Thread;

/// A shared variable, as C holds it.
pub struct Variable(SharedVar<u64>);

handle! {
    new loco_variable_new() -> variable: Variable = |parent, name| Variable(SharedVar::new(parent, name)?);
    free loco_variable_free;
}

/// Implements `loco_variable_read` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_variable_read(variable: Option<&Variable>, value: Out<'_, u64>) -> Status {
    run(|| {
        let out = value.need("value")?;
        out.write(variable.need("variable")?.0.read());
        Ok(())
    })
}

/// Implements `loco_variable_write` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_variable_write(variable: Option<&Variable>, value: u64) -> Status {
    run(|| {
        variable.need("variable")?.0.write(value);
        Ok(())
    })
}

/// Implements `loco_variable_broadcast` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_variable_broadcast(variable: Option<&Variable>, thread: Option<&Thread>) -> Status {
    run(|| {
        let (variable, access) = (variable.need("variable")?, thread.need("thread")?.enter()?);
        let thread = access.thread();
        Ok(variable.0.broadcast(thread)?.wait(thread)?)
    })
}

/// Implements `loco_variable_broadcast_to` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_variable_broadcast_to(
    variable: Option<&Variable>,
    thread: Option<&Thread>,
    nodes: *const u16,
    count: usize,
) -> Status {
    run(|| {
        let (variable, access) = (variable.need("variable")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let nodes = unsafe { node_ids(nodes, count, "nodes") }?;
        let thread = access.thread();
        Ok(variable.0.broadcast_to(thread, &nodes)?.wait(thread)?)
    })
}

/// Implements `loco_variable_wait_until` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_variable_wait_until(
    variable: Option<&Variable>,
    thread: Option<&Thread>,
    comparison: c_int,
    value: u64,
    seen: Out<'_, u64>,
) -> Status {
    run(|| {
        let (variable, access) = (variable.need("variable")?, thread.need("thread")?.enter()?);
        let holds = compare(comparison)?;
        let found = variable
            .0
            .wait_until(access.thread(), |found| holds(&found, &value))?;
        if let Some(seen) = seen {
            seen.write(found);
        }
        Ok(())
    })
}
