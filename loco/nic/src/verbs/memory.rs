//! Memory regions.

use std::ffi::{c_int, c_uint, c_void};

use super::objects::{fails, give, handle, take_back};
use crate::engine::nic;
use crate::ffi::*;
use crate::log::unsupported;
use crate::memory::is_mapped;

/// The flags of access that mean something here.
const KNOWN: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_HUGETLB;
/// Flags that a device may ignore.
const OPTIONAL: u32 = 0x3ff << 20;

/// Returns the error of a set of flags.
fn checked(access: u32) -> Result<(), i32> {
    if access & IBV_ACCESS_ON_DEMAND != 0 {
        return Err(unsupported("IBV_ACCESS_ON_DEMAND"));
    }
    let writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    let lacks_local = access & writes != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0;
    if access & !(KNOWN | OPTIONAL) != 0 || lacks_local {
        return Err(libc::EINVAL);
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn reg_mr_iova2(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut Mr {
    if let Err(error) = checked(access) {
        return fails(error);
    }
    let at = addr.expose_provenance();
    if length > 0 && !is_mapped(at, length) {
        return fails(libc::EFAULT);
    }
    // SAFETY: the program's own domain.
    let domain = unsafe { handle::<Pd>(pd) };
    let iova = if access & IBV_ACCESS_ZERO_BASED == 0 {
        iova
    } else {
        0
    };
    let key = nic()
        .memory
        .register(at, iova, length as u64, access, domain.handle);
    give(Mr {
        context: domain.context,
        pd,
        addr,
        length,
        handle: key,
        lkey: key,
        rkey: key,
    })
}

pub(crate) unsafe extern "C" fn reg_mr(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut Mr {
    // SAFETY: as the caller's.
    unsafe { reg_mr_iova2(pd, addr, length, addr.addr() as u64, access.cast_unsigned()) }
}

pub(crate) unsafe extern "C" fn reg_mr_iova(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut Mr {
    // SAFETY: as the caller's.
    unsafe { reg_mr_iova2(pd, addr, length, iova, access.cast_unsigned()) }
}

pub(crate) unsafe extern "C" fn reg_dmabuf_mr(
    _pd: *mut Pd,
    _offset: u64,
    _length: usize,
    _iova: u64,
    _fd: c_int,
    _access: c_int,
) -> *mut Mr {
    fails(unsupported("ibv_reg_dmabuf_mr"))
}

pub(crate) unsafe extern "C" fn rereg_mr(
    mr: *mut Mr,
    flags: c_int,
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    const INVALID: c_int = -1;
    let access = (flags & 4 != 0).then_some(access.cast_unsigned());
    let place = (flags & 1 != 0).then(|| (addr.expose_provenance(), length as u64));
    if flags & !7 != 0 || flags == 0 || access.is_some_and(|access| checked(access).is_err()) {
        return INVALID;
    }
    if place.is_some_and(|(at, _)| length > 0 && !is_mapped(at, length)) {
        return INVALID;
    }
    // SAFETY: the program's own region, and the domain if it is to be changed.
    unsafe {
        if flags & 2 != 0 && (*pd).context != (*mr).context {
            return INVALID;
        }
        let domain = (flags & 2 != 0).then(|| handle::<Pd>(pd).handle);
        let mut nic = nic();
        nic.settle();
        if !nic.memory.change((*mr).lkey, place, access, domain) {
            return INVALID;
        }
        if place.is_some() {
            (*mr).addr = addr;
            (*mr).length = length;
        }
        if domain.is_some() {
            (*mr).pd = pd;
        }
    }
    0
}

pub(crate) unsafe extern "C" fn dereg_mr(mr: *mut Mr) -> c_int {
    // SAFETY: the program's own region, which it gives back.
    let key = unsafe { handle::<Mr>(mr) }.lkey;
    let mut nic = nic();
    nic.settle();
    if !nic.memory.forget(key) {
        return libc::EINVAL;
    }
    // SAFETY: as above.
    drop(unsafe { take_back::<Mr>(mr) });
    0
}
