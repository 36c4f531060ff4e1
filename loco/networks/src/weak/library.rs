//! The functions of the library: they offer what a [`WeakProvider`](super::WeakProvider) says, and open the real provider.
//!
//! The functions get nothing by which to tell one weak provider from another except names. A weak provider is therefore known
//! by the last layer of its name: `verbs;weak3`. An offer of it leads to the real offer by the pointer to an open fabric, which
//! offers of new fabrics leave out.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use loco_ofi::ffi::types::*;
use loco_ofi::ffi::{Api, system};

use super::held::Held;
use super::object::Domain;
use super::promises::{Keeps, Orders};
use super::table;

/// The real provider.
const BEFORE: &CStr = c"tcp";
/// The last layer of names, before its number.
const LAYER: &str = ";weak";
/// The status of a call with a name that nobody has.
const NO_DATA: c_int = -libc::ENODATA;

/// A weak provider.
pub(super) struct Promises {
    pub(super) seed: u64,
    pub(super) name: String,
    pub(super) says: Orders,
    pub(super) keeps: Keeps,
    pub(super) drops_delivery: bool,
}

/// The weak providers of this process. The list never shrinks.
static PROVIDERS: Mutex<Vec<&'static Promises>> = Mutex::new(Vec::new());

/// Adds a provider. Returns the name by which the library knows it.
pub(super) fn add(promises: Promises) -> String {
    let mut providers = PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("{}{LAYER}{}", promises.name, providers.len());
    providers.push(Box::leak(Box::new(promises)));
    name
}

/// Returns the provider of this name.
///
/// # Safety
/// Null, or a C string.
unsafe fn named(name: *const c_char) -> Option<&'static Promises> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_str().ok()?;
    let (_, number) = name.rsplit_once(LAYER)?;
    let providers = PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner);
    providers.get(number.parse::<usize>().ok()?).copied()
}

/// Returns the table of functions of every weak provider.
pub(super) fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| Api {
        getinfo,
        freeinfo,
        dupinfo,
        fabric: open_fabric,
        strerror,
        version,
    })
}

/// Returns the table of the real library.
///
/// # Errors
/// Returns the status of a call that finds nothing, where the library is missing.
fn real() -> Result<&'static Api, c_int> {
    system().map_err(|_| NO_DATA)
}

unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    out: *mut *mut Info,
) -> c_int {
    let real = match real() {
        Ok(real) => real,
        Err(status) => return status,
    };
    // SAFETY: a call of libfabric's manual, with whole hints; the copy of them is ours, and so is the list until it is returned.
    unsafe {
        let name = (*(*hints).fabric_attr).prov_name;
        let Some(promises) = named(name) else {
            return NO_DATA;
        };
        let asked = (real.dupinfo)(hints);
        if asked.is_null() {
            return -libc::ENOMEM;
        }
        rename(asked, BEFORE);
        // Data of held writes are in memory that is not registered.
        (*(*asked).domain_attr).mr_mode &= !FI_MR_LOCAL;
        let status = (real.getinfo)(version, node, service, flags, asked, out);
        (real.freeinfo)(asked);
        if status == 0 {
            let Ok(name) = CStr::from_ptr(name).to_owned().into_string().map(CString::new) else {
                return NO_DATA;
            };
            let name = name.unwrap_or_default();
            let mut at = *out;
            while !at.is_null() {
                disguise(at, (real.dupinfo)(at), &name, promises);
                at = (*at).next;
            }
        }
        status
    }
}

/// Lets an offer say what the weak provider says. It leads to `original`.
///
/// # Safety
/// Both are whole offers.
unsafe fn disguise(offer: *mut Info, original: *mut Info, name: &CStr, promises: &Promises) {
    let order = promises.says.bits();
    // SAFETY: by the caller's promise.
    unsafe {
        rename(offer, name);
        (*(*offer).fabric_attr).fabric = original.cast();
        (*(*offer).tx_attr).msg_order = order;
        (*(*offer).rx_attr).msg_order = order;
        // An operation is one piece.
        (*(*offer).tx_attr).rma_iov_limit = 1;
        (*(*offer).ep_attr).max_order_raw_size = promises.says.raw.bytes_max;
        (*(*offer).ep_attr).max_order_war_size = promises.says.war.bytes_max;
        (*(*offer).ep_attr).max_order_waw_size = promises.says.waw.bytes_max;
    }
}

/// Sets the provider's name of an offer or of hints.
///
/// # Safety
/// The structure is whole, and its strings are from C's allocator.
unsafe fn rename(info: *mut Info, name: &CStr) {
    // SAFETY: by the caller's promise.
    unsafe {
        let place = &raw mut (*(*info).fabric_attr).prov_name;
        libc::free((*place).cast());
        *place = libc::strdup(name.as_ptr());
    }
}

unsafe extern "C" fn freeinfo(info: *mut Info) {
    if let Ok(real) = real() {
        // SAFETY: a call of libfabric's manual.
        unsafe { (real.freeinfo)(info) };
    }
}

unsafe extern "C" fn dupinfo(info: *const Info) -> *mut Info {
    let Ok(real) = real() else { return ptr::null_mut() };
    // SAFETY: a call of libfabric's manual.
    unsafe {
        let copy = (real.dupinfo)(info);
        if !info.is_null() && !copy.is_null() {
            (*(*copy).fabric_attr).fabric = (*(*info).fabric_attr).fabric;
        }
        copy
    }
}

unsafe extern "C" fn strerror(number: c_int) -> *const c_char {
    match real() {
        // SAFETY: a call of libfabric's manual.
        Ok(real) => unsafe { (real.strerror)(number) },
        Err(_) => c"libfabric is missing".as_ptr(),
    }
}

unsafe extern "C" fn version() -> u32 {
    // SAFETY: no preconditions.
    real().map_or(0, |real| unsafe { (real.version)() })
}

/// A fabric.
struct Fabric {
    promises: &'static Promises,
    /// The fabric's own functions.
    ops: *const OpsFabric,
    /// The offer with which it was opened, as the real provider made it.
    offer: *mut Info,
}

// SAFETY: the tables of a provider do not change, nor does a kept offer.
unsafe impl Sync for Fabric {}

unsafe extern "C" fn open_fabric(
    attr: *mut FabricAttr,
    out: *mut *mut FidFabric,
    context: *mut c_void,
) -> c_int {
    let real = match real() {
        Ok(real) => real,
        Err(status) => return status,
    };
    // SAFETY: a call of libfabric's manual, with a part of an offer of `getinfo`.
    unsafe {
        let offer = (*attr).fabric.cast::<Info>();
        let Some(promises) = named((*attr).prov_name) else {
            return NO_DATA;
        };
        let status = (real.fabric)((*offer).fabric_attr, out, context);
        if status == 0 {
            let fabric = *out;
            let own: &'static Fabric = Box::leak(Box::new(Fabric {
                promises,
                ops: (*fabric).ops,
                offer,
            }));
            let ops = table::copy::<OpsFabric, Fabric>((*fabric).ops, own);
            (*ops).domain = open_domain;
            (*fabric).ops = ops;
        }
        status
    }
}

unsafe extern "C" fn open_domain(
    fabric: *mut FidFabric,
    _offer: *mut Info,
    out: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    /// The number of domains so far. Nodes that share a seed still make different choices.
    static DOMAINS: AtomicU64 = AtomicU64::new(0);
    // SAFETY: a call of libfabric's manual, to the object whose functions these are.
    unsafe {
        let own: &Fabric = table::own((*fabric).ops);
        let status = ((*own.ops).domain)(fabric, own.offer, out, context);
        if status == 0 {
            let number = DOMAINS.fetch_add(1, Ordering::Relaxed);
            let Promises {
                keeps,
                drops_delivery,
                seed,
                ..
            } = *own.promises;
            let held = Held::new(keeps, drops_delivery, seed ^ number.rotate_left(32));
            Domain::wrap(*out, own.offer, held);
        }
        status
    }
}
