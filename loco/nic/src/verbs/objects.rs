//! What stands behind a program's pointers: each object begins with the structure that the program sees.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use crate::completions::{Completions, CqAddress};
use crate::devices::Identity;
use crate::events::{Events, Unacknowledged};
use crate::ffi::*;

/// A device of the list.
#[repr(C)]
pub(super) struct DeviceObject {
    pub device: Device,
    pub identity: &'static Identity,
}

/// An opened device.
#[repr(C)]
pub(super) struct ContextObject {
    pub verbs: VerbsContext,
    pub identity: &'static Identity,
    pub events: Arc<Events<AsyncEvent>>,
}

/// A completion channel.
#[repr(C)]
pub(super) struct ChannelObject {
    pub channel: CompChannel,
    pub events: Arc<Events<CqAddress>>,
    /// The number of completion queues that use it.
    pub users: AtomicU32,
}

/// A completion queue.
#[repr(C)]
pub(super) struct CqObject {
    pub cq: CqEx,
    pub completions: Arc<Completions>,
    /// The completion that the extended interface is at.
    pub current: Mutex<Option<Wc>>,
    /// Events of completion that the program has taken and not acknowledged.
    pub unacknowledged: Unacknowledged,
    /// Where its asynchronous events go, and those that the program has taken and not acknowledged.
    pub events: Arc<Events<AsyncEvent>>,
    pub unacknowledged_async: Unacknowledged,
}

/// A queue pair.
#[repr(C)]
pub(super) struct QpObject {
    pub qp: QpEx,
    pub init: QpInitAttr,
    /// Requests that the extended interface builds.
    pub built: Mutex<Vec<Built>>,
    /// Asynchronous events that the program has taken and not acknowledged.
    pub unacknowledged_async: Unacknowledged,
}

/// A request that the extended interface builds.
pub(super) struct Built {
    pub wr: SendWr,
    pub elements: Vec<Sge>,
    pub inline: Option<Vec<u8>>,
}

/// A shared receive queue.
#[repr(C)]
pub(super) struct SrqObject {
    pub srq: Srq,
    pub number: u32,
    /// Asynchronous events that the program has taken and not acknowledged.
    pub unacknowledged_async: Unacknowledged,
}

/// An address handle.
#[repr(C)]
pub(super) struct AhObject {
    pub ah: Ah,
    pub attr: AhAttr,
}

/// Returns the object behind a pointer.
///
/// # Safety
/// `pointer` is one that this library returned for an object of this type, and the object is not destroyed.
pub(crate) unsafe fn handle<'a, Object>(pointer: *const impl Sized) -> &'a Object {
    // SAFETY: every object begins with the structure to which the program has the pointer.
    unsafe { &*pointer.cast() }
}

/// Returns the object of an opened device.
///
/// # Safety
/// `context` is one of `ibv_open_device`, and not closed.
pub(super) unsafe fn opened(context: *mut Context) -> *mut ContextObject {
    let before = std::mem::offset_of!(VerbsContext, context);
    // SAFETY: the program's pointer is to the last field of the structure that the object begins with.
    unsafe { context.byte_sub(before).cast() }
}

/// Returns what an opened device is known by.
///
/// # Safety
/// As [`opened`].
pub(crate) unsafe fn identity_of(context: *mut Context) -> &'static Identity {
    // SAFETY: as this function's.
    unsafe { (*opened(context)).identity }
}

/// Returns the events of an opened device.
///
/// # Safety
/// As [`opened`].
pub(super) unsafe fn events_of(context: *mut Context) -> Arc<Events<AsyncEvent>> {
    // SAFETY: as this function's.
    unsafe { Arc::clone(&(*opened(context)).events) }
}

/// Sets `errno`.
pub(crate) fn set_errno(error: i32) {
    // SAFETY: the location is this thread's own.
    unsafe { *libc::__errno_location() = error };
}

/// Sets `errno` and returns null.
pub(crate) fn fails<T>(error: i32) -> *mut T {
    set_errno(error);
    std::ptr::null_mut()
}

/// Makes a program's pointer of an object.
pub(super) fn give<Object, Seen>(object: Object) -> *mut Seen {
    Box::into_raw(Box::new(object)).cast()
}

/// Takes an object back from the program, to be dropped.
///
/// # Safety
/// As [`handle`], and nobody uses the pointer again.
pub(super) unsafe fn take_back<Object>(pointer: *mut impl Sized) -> Box<Object> {
    // SAFETY: `give` made it of such a box.
    unsafe { Box::from_raw(pointer.cast()) }
}
