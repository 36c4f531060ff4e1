//! The library of this host, opened once, and the table of its functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::sync::OnceLock;

use super::types::{FabricAttr, FidFabric, Info};

/// The library's name for the loader.
pub(crate) const SONAME: &CStr = c"libfabric.so.1";

type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;

/// The functions of libfabric that are not inline.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    pub getinfo: GetInfo,
    pub freeinfo: unsafe extern "C" fn(*mut Info),
    pub dupinfo: unsafe extern "C" fn(*const Info) -> *mut Info,
    pub fabric: OpenFabric,
    pub strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    pub version: unsafe extern "C" fn() -> u32,
}

impl Api {
    /// Returns the system's error for a status of libfabric, which is negative.
    pub(crate) fn error(&self, status: i64) -> io::Error {
        let number = i32::try_from(status.unsigned_abs()).unwrap_or(i32::MAX);
        // Numbers from 256 on are libfabric's own (`fi_errno.h`).
        if number < 256 {
            return io::Error::from_raw_os_error(number);
        }
        // SAFETY: returns a C string that is never freed, for any number.
        let text = unsafe { CStr::from_ptr((self.strerror)(number)) };
        io::Error::other(text.to_string_lossy().into_owned())
    }

    /// Turns a status into a result.
    pub(crate) fn ok(&self, status: c_int) -> io::Result<()> {
        match status {
            0 => Ok(()),
            status => Err(self.error(i64::from(status))),
        }
    }
}

/// Returns the table of the host's library.
///
/// # Errors
/// Returns what is missing.
pub fn system() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Api, String> {
    // SAFETY: a C string; the initialisers of the library have no preconditions. It is never closed, because its
    // functions are kept for the life of the process.
    let handle = unsafe { libc::dlopen(SONAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: `dlerror` returns null or a C string that stays valid until this thread's next call of it.
        return Err(unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                "libfabric.so.1 cannot be opened".to_owned()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        });
    }
    let find = |symbol: &CStr| {
        // SAFETY: the handle is open, the symbol a C string. `dlsym` gives the default version, which is the one that a
        // program linked today would get.
        let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if address.is_null() {
            return Err(format!("{SONAME:?} has no `{symbol:?}`: it is too old"));
        }
        Ok(address)
    };
    /// Turns an address into the function of the field's type.
    macro_rules! function {
        ($symbol:literal: $function:ty) => {{
            let address = find($symbol)?;
            // SAFETY: the symbol is a function with the signature that the header gives it, which is this one.
            unsafe { std::mem::transmute::<*mut c_void, $function>(address) }
        }};
    }
    Ok(Api {
        getinfo: function!(c"fi_getinfo": GetInfo),
        freeinfo: function!(c"fi_freeinfo": unsafe extern "C" fn(*mut Info)),
        dupinfo: function!(c"fi_dupinfo": unsafe extern "C" fn(*const Info) -> *mut Info),
        fabric: function!(c"fi_fabric": OpenFabric),
        strerror: function!(c"fi_strerror": unsafe extern "C" fn(c_int) -> *const c_char),
        version: function!(c"fi_version": unsafe extern "C" fn() -> u32),
    })
}
