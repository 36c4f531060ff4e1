//! Memory on every node: `loco_region`.

use std::ffi::{c_int, c_void};

use loco::SharedRegion;
use loco::fabric::{NodeId, WordCell as _};
use loco::raw::Flags;

use crate::border::{Need, New, Out, bytes, bytes_mut, handle, run};
use crate::pending::{self, Pending};
use crate::status::{Failure, Status};
use crate::thread::{Access, Thread};

/// A region, as C holds it.
pub struct Region(pub(crate) SharedRegion);

/// The value of `LOCO_EQUAL`: a comparison of `loco_region_wait_until`.
pub(crate) const EQUAL: c_int = 0;
/// Not equal.
pub(crate) const NOT_EQUAL: c_int = 1;
/// Less, unsigned.
pub(crate) const LESS: c_int = 2;
/// Less or equal.
pub(crate) const LESS_EQUAL: c_int = 3;
/// Greater.
pub(crate) const GREATER: c_int = 4;
/// Greater or equal.
pub(crate) const GREATER_EQUAL: c_int = 5;

/// Returns the comparison with this number.
pub(crate) fn compare(comparison: c_int) -> Result<fn(&u64, &u64) -> bool, Failure> {
    Ok(match comparison {
        EQUAL => u64::eq,
        NOT_EQUAL => u64::ne,
        LESS => u64::lt,
        LESS_EQUAL => u64::le,
        GREATER => u64::gt,
        GREATER_EQUAL => u64::ge,
        _ => {
            return Err(Failure::usage(format!(
                "no comparison {comparison}: there are LOCO_EQUAL to LOCO_GREATER_EQUAL"
            )));
        }
    })
}

handle! {
    new loco_region_new(len: usize) -> region: Region = |parent, name| Region(SharedRegion::new(parent, name, len)?);
    free loco_region_free;
}

/// Implements `loco_region_len` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_len(region: Option<&Region>) -> usize {
    region.map_or(0, |region| region.0.len())
}

/// Implements `loco_region_read` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_region_read(
    region: Option<&Region>,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> Status {
    run(|| {
        // SAFETY: the caller's promise.
        let data = unsafe { bytes_mut(data, len, "data") }?;
        Ok(region.need("region")?.0.read(offset, data)?)
    })
}

/// Implements `loco_region_write` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_region_write(
    region: Option<&Region>,
    offset: usize,
    data: *const c_void,
    len: usize,
) -> Status {
    run(|| {
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, len, "data") }?;
        Ok(region.need("region")?.0.write(offset, data)?)
    })
}

/// Implements `loco_region_load` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_load(region: Option<&Region>, offset: usize, value: Out<'_, u64>) -> Status {
    run(|| {
        let out = value.need("value")?;
        out.write(region.need("region")?.0.word(offset)?.load());
        Ok(())
    })
}

/// Implements `loco_region_store` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_store(region: Option<&Region>, offset: usize, value: u64) -> Status {
    run(|| {
        region.need("region")?.0.word(offset)?.store(value);
        Ok(())
    })
}

/// Implements `loco_region_wait_until` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_wait_until(
    region: Option<&Region>,
    thread: Option<&Thread>,
    offset: usize,
    comparison: c_int,
    value: u64,
    seen: Out<'_, u64>,
) -> Status {
    run(|| {
        let (region, access) = (region.need("region")?, thread.need("thread")?.enter()?);
        let holds = compare(comparison)?;
        let word = region.0.word(offset)?;
        let found = region.0.channel().wait_until(access.thread(), || {
            let found = word.load();
            holds(&found, &value).then_some(found)
        })?;
        if let Some(seen) = seen {
            seen.write(found);
        }
        Ok(())
    })
}

/// Implements `loco_region_put` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_region_put(
    region: Option<&Region>,
    thread: Option<&Thread>,
    node: u16,
    offset: usize,
    data: *const c_void,
    len: usize,
) -> Status {
    run(|| {
        let (region, access) = (region.need("region")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, len, "data") }?;
        put(region, access, node, offset, data)
    })
}

/// Puts data and waits until the put is over. The put sends a copy, so that no timeout leaves the caller's memory in
/// use.
fn put(region: &Region, access: &Access, node: u16, offset: usize, data: &[u8]) -> Result<(), Failure> {
    let (thread, target) = (access.thread(), region.0.target(NodeId(node), offset)?);
    if pending::fits_inline(thread, data.len()) {
        let put = thread.put_inline_with(data, target, Flags::STRONG);
        region.0.placed(put)?.wait(thread)?;
        return Ok(());
    }
    let buffer = thread.mem_ref(data.len())?;
    buffer.write(0, data)?;
    region.0.placed(buffer.put_with(target, Flags::STRONG))?.wait()?;
    Ok(())
}

/// Implements `loco_region_get` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_region_get(
    region: Option<&Region>,
    thread: Option<&Thread>,
    node: u16,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> Status {
    run(|| {
        let (region, access) = (region.need("region")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let data = unsafe { bytes_mut(data, len, "data") }?;
        let target = region.0.target(NodeId(node), offset)?;
        // The result goes to a buffer of the library first, so that no timeout leaves the caller's memory in use.
        let get = access.thread().mem_ref(len)?.get_with(target, Flags::STRONG);
        Ok(region.0.placed(get)?.wait()?.read(0, data)?)
    })
}

/// Implements `loco_region_put_start` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_region_put_start(
    region: Option<&Region>,
    thread: Option<&Thread>,
    node: u16,
    offset: usize,
    data: *const c_void,
    len: usize,
    pending: New<'_, Pending>,
) -> Status {
    run(|| {
        let out = pending.need("pending")?;
        let (region, access) = (region.need("region")?, thread.need("thread")?.share()?);
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, len, "data") }?;
        let target = region.0.target(NodeId(node), offset)?;
        out.write(Box::new(region.0.placed(Pending::put(access, data, target))?));
        Ok(())
    })
}

/// Implements `loco_region_get_start` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_get_start(
    region: Option<&Region>,
    thread: Option<&Thread>,
    node: u16,
    offset: usize,
    len: usize,
    pending: New<'_, Pending>,
) -> Status {
    run(|| {
        let out = pending.need("pending")?;
        let (region, access) = (region.need("region")?, thread.need("thread")?.share()?);
        let target = region.0.target(NodeId(node), offset)?;
        out.write(Box::new(region.0.placed(Pending::get(access, len, target))?));
        Ok(())
    })
}

/// Implements `loco_region_get_word` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_get_word(
    region: Option<&Region>,
    thread: Option<&Thread>,
    node: u16,
    offset: usize,
    value: Out<'_, u64>,
) -> Status {
    run(|| {
        let out = value.need("value")?;
        let (region, access) = (region.need("region")?, thread.need("thread")?.enter()?);
        let target = region.0.target(NodeId(node), offset)?;
        out.write(region.0.placed(access.thread().read_word_strong(target))?);
        Ok(())
    })
}

/// Implements `loco_region_put_word` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_put_word(
    region: Option<&Region>,
    thread: Option<&Thread>,
    node: u16,
    offset: usize,
    value: u64,
) -> Status {
    run(|| {
        let (region, access) = (region.need("region")?, thread.need("thread")?.enter()?);
        put(region, access, node, offset, &value.to_ne_bytes())
    })
}

/// Implements `loco_region_fetch_add` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_fetch_add(
    region: Option<&Region>,
    thread: Option<&Thread>,
    node: u16,
    offset: usize,
    add: u64,
    old: Out<'_, u64>,
) -> Status {
    run(|| {
        let (region, access) = (region.need("region")?, thread.need("thread")?.enter()?);
        let target = region.0.target(NodeId(node), offset)?;
        let before = region
            .0
            .placed(access.thread().fetch_add_word_strong(target, add))?;
        if let Some(old) = old {
            old.write(before);
        }
        Ok(())
    })
}

/// Implements `loco_region_compare_swap` of `loco.h`.
#[unsafe(no_mangle)]
pub extern "C" fn loco_region_compare_swap(
    region: Option<&Region>,
    thread: Option<&Thread>,
    node: u16,
    offset: usize,
    expected: u64,
    desired: u64,
    old: Out<'_, u64>,
) -> Status {
    run(|| {
        let (region, access) = (region.need("region")?, thread.need("thread")?.enter()?);
        let target = region.0.target(NodeId(node), offset)?;
        let swap = access
            .thread()
            .compare_swap_word_strong(target, expected, desired);
        let before = region.0.placed(swap)?;
        if let Some(old) = old {
            old.write(before);
        }
        Ok(())
    })
}
