//! Collective operations on words: `loco_collective`.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Mutex;

use loco::Parent;
use loco::fabric::NodeId;

use crate::border::{Need, Out, handle, hold, run, words_mut};
use crate::status::{Failure, Status};
use crate::thread::Thread;

/// The sum, with wrap-around.
pub(crate) const SUM: c_int = 0;
/// The least value, unsigned.
pub(crate) const MIN: c_int = 1;
/// The greatest value, unsigned.
pub(crate) const MAX: c_int = 2;
/// Bitwise and.
pub(crate) const AND: c_int = 3;
/// Bitwise or.
pub(crate) const OR: c_int = 4;
/// Bitwise exclusive or.
pub(crate) const XOR: c_int = 5;

/// Collective operations, as C holds them.
pub struct Collective(Mutex<loco::Collective<u64>>);

/// Returns the operation with this number.
fn operation(number: c_int) -> Result<fn(u64, u64) -> u64, Failure> {
    Ok(match number {
        SUM => u64::wrapping_add,
        MIN => u64::min,
        MAX => u64::max,
        AND => |a, b| a & b,
        OR => |a, b| a | b,
        XOR => |a, b| a ^ b,
        _ => {
            return Err(Failure::usage(format!(
                "no operation {number}: there are LOCO_SUM to LOCO_XOR"
            )));
        }
    })
}

handle! {
    new loco_collective_new() -> collective: Collective
        = |parent, name| Collective(Mutex::new(loco::Collective::new(parent, name)?));
    free loco_collective_free;
}

/// Runs one collective operation.
fn collect<T>(
    collective: Option<&Collective>,
    thread: Option<&Thread>,
    operate: impl FnOnce(&mut loco::Collective<u64>, &loco::Thread) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (collective, access) = (collective.need("collective")?, thread.need("thread")?.enter()?);
    operate(&mut *hold(&collective.0)?, access.thread())
}

/// Implements `loco_collective_broadcast` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_collective_broadcast(
    collective: Option<&Collective>,
    thread: Option<&Thread>,
    root: u16,
    value: *mut u64,
) -> Status {
    run(|| {
        // SAFETY: the caller's promise.
        let value = unsafe { words_mut(value, 1, "value") }?;
        let [value] = value else {
            return Err(Failure::usage("not reached: one word was asked for"));
        };
        *value = collect(collective, thread, |collective, thread| {
            Ok(collective.broadcast(thread, NodeId(root), *value)?)
        })?;
        Ok(())
    })
}

/// Implements `loco_collective_gather` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_collective_gather(
    collective: Option<&Collective>,
    thread: Option<&Thread>,
    root: u16,
    value: u64,
    values: *mut u64,
    capacity: usize,
) -> Status {
    run(|| {
        collect(collective, thread, |collective, thread| {
            let is_root = collective.channel().node() == NodeId(root);
            let to = match is_root {
                // SAFETY: the caller's promise.
                true => Some(unsafe { room(collective, values, capacity) }?),
                false => None,
            };
            let gathered = collective.gather(thread, NodeId(root), value)?;
            if let (Some(to), Some(values)) = (to, gathered) {
                to.copy_from_slice(&values);
            }
            Ok(())
        })
    })
}

/// Implements `loco_collective_all_gather` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_collective_all_gather(
    collective: Option<&Collective>,
    thread: Option<&Thread>,
    value: u64,
    values: *mut u64,
    capacity: usize,
) -> Status {
    run(|| {
        collect(collective, thread, |collective, thread| {
            // SAFETY: the caller's promise.
            let to = unsafe { room(collective, values, capacity) }?;
            to.copy_from_slice(&collective.all_gather(thread, value)?);
            Ok(())
        })
    })
}

/// Implements `loco_collective_reduce` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_collective_reduce(
    collective: Option<&Collective>,
    thread: Option<&Thread>,
    root: u16,
    value: u64,
    operation: c_int,
    result: Out<'_, u64>,
) -> Status {
    run(|| {
        let combine = self::operation(operation)?;
        collect(collective, thread, |collective, thread| {
            let is_root = collective.channel().node() == NodeId(root);
            let out = if is_root {
                Some(result.need("result")?)
            } else {
                None
            };
            let combined = collective.reduce(thread, NodeId(root), value, combine)?;
            if let (Some(out), Some(combined)) = (out, combined) {
                out.write(combined);
            }
            Ok(())
        })
    })
}

/// Implements `loco_collective_all_reduce` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_collective_all_reduce(
    collective: Option<&Collective>,
    thread: Option<&Thread>,
    value: u64,
    operation: c_int,
    result: Out<'_, u64>,
) -> Status {
    run(|| {
        let (combine, out): (_, &mut MaybeUninit<u64>) =
            (self::operation(operation)?, result.need("result")?);
        out.write(collect(collective, thread, |collective, thread| {
            Ok(collective.all_reduce(thread, value, combine)?)
        })?);
        Ok(())
    })
}

/// Returns the room for a value of each participant. If there is too little, nothing was begun.
///
/// # Safety
/// See [`words_mut`].
unsafe fn room<'a>(
    collective: &loco::Collective<u64>,
    values: *mut u64,
    capacity: usize,
) -> Result<&'a mut [u64], Failure> {
    let needed = collective.channel().participants().nodes().len();
    if capacity < needed {
        return Err(Failure::usage(format!(
            "there is room for {capacity} values, and there are {needed} participants"
        )));
    }
    // SAFETY: the caller's promise.
    unsafe { words_mut(values, needed, "values") }
}
