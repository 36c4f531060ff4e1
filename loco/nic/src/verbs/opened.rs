//! Opened devices and protection domains.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::completion::{create_cq_ex, poll_cq, req_notify_cq};
use super::device::{query_clock, query_device_ex, query_port_ex, start};
use super::objects::{ContextObject, DeviceObject, fails, give, handle, opened, take_back};
use super::posting::{post_recv, post_send};
use super::queue_pairs::create_qp_ex;
use super::shared::{create_srq_ex, get_srq_num, post_srq_recv};
use crate::engine::nic;
use crate::events::Events;
use crate::ffi::*;
use crate::log::unsupported;

/// The number of completion vectors.
const VECTORS: c_int = 4;

pub(crate) unsafe extern "C" fn open_device(device: *mut Device) -> *mut Context {
    if let Err(error) = start() {
        return fails(error);
    }
    let Ok(events) = Events::new() else {
        return fails(libc::EMFILE);
    };
    let mut verbs: VerbsContext = zeroed();
    verbs.query_port = Some(query_port_ex);
    verbs.query_device_ex = Some(query_device_ex);
    verbs.query_rt_values = Some(query_clock);
    verbs.create_cq_ex = Some(create_cq_ex);
    verbs.create_qp_ex = Some(create_qp_ex);
    verbs.create_srq_ex = Some(create_srq_ex);
    verbs.get_srq_num = Some(get_srq_num);
    refuse_the_rest(&mut verbs);
    verbs.sz = size_of::<VerbsContext>();
    let context = &mut verbs.context;
    context.device = device;
    context.async_fd = events.fd();
    context.cmd_fd = -1;
    context.num_comp_vectors = VECTORS;
    // What says that the extended part is there.
    context.abi_compat = std::ptr::without_provenance_mut(usize::MAX);
    context.ops.poll_cq = Some(poll_cq);
    context.ops.req_notify_cq = Some(req_notify_cq);
    context.ops.post_send = Some(post_send);
    context.ops.post_recv = Some(post_recv);
    context.ops.post_srq_recv = Some(post_srq_recv);
    context.ops.bind_mw = Some(bind_mw);
    context.ops.dealloc_mw = Some(dealloc_mw);
    context.ops.alloc_mw = Some(alloc_mw);
    // SAFETY: the device is one of the list.
    let identity = unsafe { handle::<DeviceObject>(device) }.identity;
    let object: *mut ContextObject = give(ContextObject {
        verbs,
        identity,
        events: Arc::new(events),
    });
    // SAFETY: the object was made just now.
    unsafe { &raw mut (*object).verbs.context }
}

/// Fills in the operations that are refused. A null one would be refused, too, but without a line that names it.
fn refuse_the_rest(verbs: &mut VerbsContext) {
    macro_rules! refuse {
        ($($field:ident: $ty:ty = $name:literal, $answer:ident;)*) => {
            $({
                unsafe extern "C" fn refuse() -> $ty {
                    $answer(unsupported($name))
                }
                verbs.$field = Some(refuse);
            })*
        };
    }
    use std::convert::identity;
    refuse! {
        advise_mr: c_int = "ibv_advise_mr", identity;
        alloc_null_mr: *mut c_void = "ibv_alloc_null_mr", fails;
        create_counters: *mut c_void = "ibv_create_counters", fails;
        alloc_dm: *mut c_void = "ibv_alloc_dm", fails;
        create_flow_action_esp: *mut c_void = "ibv_create_flow_action_esp", fails;
        modify_qp_rate_limit: c_int = "ibv_modify_qp_rate_limit", identity;
        alloc_parent_domain: *mut c_void = "ibv_alloc_parent_domain", fails;
        alloc_td: *mut c_void = "ibv_alloc_td", fails;
        modify_cq: c_int = "ibv_modify_cq", identity;
        post_srq_ops: c_int = "ibv_post_srq_ops", identity;
        create_rwq_ind_table: *mut c_void = "ibv_create_rwq_ind_table", fails;
        create_wq: *mut c_void = "ibv_create_wq", fails;
        create_flow: *mut c_void = "ibv_create_flow", fails;
        open_qp: *mut c_void = "ibv_open_qp", fails;
        open_xrcd: *mut c_void = "ibv_open_xrcd", fails;
    }
}

unsafe extern "C" fn alloc_mw(_pd: *mut Pd, _kind: u32) -> *mut c_void {
    fails(unsupported("ibv_alloc_mw"))
}

unsafe extern "C" fn bind_mw(_qp: *mut Qp, _mw: *mut c_void, _bind: *mut c_void) -> c_int {
    unsupported("ibv_bind_mw")
}

unsafe extern "C" fn dealloc_mw(_mw: *mut c_void) -> c_int {
    unsupported("ibv_dealloc_mw")
}

pub(crate) unsafe extern "C" fn close_device(context: *mut Context) -> c_int {
    // SAFETY: the program closes what it opened, once.
    drop(unsafe { take_back::<ContextObject>(opened(context)) });
    0
}

pub(crate) unsafe extern "C" fn alloc_pd(context: *mut Context) -> *mut Pd {
    static DOMAINS: AtomicU32 = AtomicU32::new(1);
    let handle = DOMAINS.fetch_add(1, Ordering::Relaxed);
    give(Pd { context, handle })
}

pub(crate) unsafe extern "C" fn dealloc_pd(pd: *mut Pd) -> c_int {
    // SAFETY: the program's own domain.
    let number = unsafe { handle::<Pd>(pd) }.handle;
    let nic = nic();
    let is_used = nic.memory.of_domain(number) > 0
        || nic.any_qp(|qp| qp.pd == number)
        || nic.srqs.values().any(|srq| srq.pd == number);
    if is_used {
        return libc::EBUSY;
    }
    // SAFETY: nothing uses it any more.
    drop(unsafe { take_back::<Pd>(pd) });
    0
}
