//! Completion queues, by both interfaces.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::device::COMPLETIONS_MAX;
use super::objects::{ChannelObject, CqObject, events_of, fails, give, handle, take_back};
use crate::completions::Completions;
use crate::engine::{expect, look_on, nic, work};
use crate::events::{Unacknowledged, lock};
use crate::ffi::*;
use crate::log::{once, unsupported};

unsafe fn create(
    context: *mut Context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: c_int,
) -> *mut CqEx {
    // SAFETY: the program's own context and channel.
    unsafe {
        let is_vector = (0..(*context).num_comp_vectors).contains(&vector);
        if !(1..=COMPLETIONS_MAX).contains(&cqe) || !is_vector {
            return fails(libc::EINVAL);
        }
        if !channel.is_null() && (*channel).context != context {
            once("ibv_create_cq: the channel is of another opened device (EINVAL)");
            return fails(libc::EINVAL);
        }
        let events = (!channel.is_null()).then(|| {
            let object: &ChannelObject = handle(channel);
            object.users.fetch_add(1, Ordering::AcqRel);
            Arc::clone(&object.events)
        });
        let mut cq: CqEx = zeroed();
        cq.context = context;
        cq.channel = channel;
        cq.cq_context = cq_context;
        cq.cqe = cqe;
        cq.start_poll = Some(start_poll);
        cq.next_poll = Some(next_poll);
        cq.end_poll = Some(end_poll);
        cq.read_opcode = Some(read_opcode);
        cq.read_vendor_err = Some(read_vendor_err);
        cq.read_byte_len = Some(read_byte_len);
        cq.read_imm_data = Some(read_imm_data);
        cq.read_qp_num = Some(read_qp_num);
        cq.read_src_qp = Some(read_src_qp);
        cq.read_wc_flags = Some(read_wc_flags);
        cq.read_slid = Some(read_slid);
        cq.read_sl = Some(read_sl);
        cq.read_dlid_path_bits = Some(read_sl);
        cq.read_completion_ts = Some(read_time);
        cq.read_completion_wallclock_ns = Some(read_time);
        let completions = Arc::new(Completions::new(cqe.unsigned_abs() as usize, events));
        let made: *mut CqEx = give(CqObject {
            cq,
            completions: Arc::clone(&completions),
            current: Mutex::new(None),
            unacknowledged: Unacknowledged::default(),
            events: events_of(context),
            unacknowledged_async: Unacknowledged::default(),
        });
        completions.set_address(made.expose_provenance());
        made
    }
}

pub(crate) unsafe extern "C" fn create_cq(
    context: *mut Context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: c_int,
) -> *mut Cq {
    // SAFETY: as the caller's. The extended structure begins with the plain one.
    unsafe { create(context, cqe, cq_context, channel, vector).cast() }
}

pub(super) unsafe extern "C" fn create_cq_ex(context: *mut Context, attr: *mut CqInitAttrEx) -> *mut CqEx {
    // SAFETY: the caller gives attributes.
    let attr = unsafe { *attr };
    let known =
        0x7f | u64::from(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    if attr.wc_flags & !known != 0 {
        return fails(unsupported("ibv_create_cq_ex with these wc_flags"));
    }
    if attr.comp_mask & !1 != 0 {
        return fails(unsupported("ibv_create_cq_ex with a parent domain"));
    }
    let (Ok(cqe), Ok(vector)) = (c_int::try_from(attr.cqe), c_int::try_from(attr.comp_vector)) else {
        return fails(libc::EINVAL);
    };
    // SAFETY: as the caller's.
    unsafe { create(context, cqe, attr.cq_context, attr.channel, vector) }
}

pub(crate) unsafe extern "C" fn destroy_cq(cq: *mut Cq) -> c_int {
    // SAFETY: the program's own queue, which it gives back.
    unsafe {
        let object: &CqObject = handle(cq);
        let is_used = nic().any_qp(|qp| {
            Arc::ptr_eq(&qp.send_cq, &object.completions) || Arc::ptr_eq(&qp.recv_cq, &object.completions)
        });
        if is_used {
            return libc::EBUSY;
        }
        object.completions.forget_events();
        // No queue pair uses it that could raise another.
        let address = object.completions.address();
        object.events.retain(|event| event.element != address);
        object.unacknowledged.wait();
        object.unacknowledged_async.wait();
        let channel = object.cq.channel;
        if !channel.is_null() {
            handle::<ChannelObject>(channel)
                .users
                .fetch_sub(1, Ordering::AcqRel);
        }
        drop(take_back::<CqObject>(cq));
    }
    0
}

pub(crate) unsafe extern "C" fn resize_cq(cq: *mut Cq, cqe: c_int) -> c_int {
    if !(1..=COMPLETIONS_MAX).contains(&cqe) {
        return libc::EINVAL;
    }
    // SAFETY: the program's own queue.
    unsafe {
        if !handle::<CqObject>(cq)
            .completions
            .resize(cqe.unsigned_abs() as usize)
        {
            return libc::EINVAL;
        }
        (*cq).cqe = cqe;
    }
    0
}

/// Returns whether a completion is of a work request in a send queue.
fn is_of_send(wc: &Wc) -> bool {
    c_uint::from(wc.opcode) & IBV_WC_RECV == 0
}

pub(super) unsafe extern "C" fn poll_cq(cq: *mut Cq, most: c_int, wc: *mut Wc) -> c_int {
    // SAFETY: the program's own queue, and room for `most` completions.
    unsafe {
        let completions = &handle::<CqObject>(cq).completions;
        let mut has_ended = false;
        let mut take = || {
            let mut count = 0;
            while count < most
                && let Some(taken) = completions.take()
            {
                has_ended |= is_of_send(&taken);
                wc.offset(count as isize).write(taken);
                count += 1;
            }
            count
        };
        let mut count = take();
        if count == 0 {
            let worked = work();
            count = take();
            look_on(worked, has_ended);
        }
        count
    }
}

pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut Cq, solicited_only: c_int) -> c_int {
    // SAFETY: the program's own queue.
    unsafe { handle::<CqObject>(cq) }
        .completions
        .arm(solicited_only != 0);
    expect();
    0
}

/// Takes the next completion for the extended interface.
unsafe fn step(cq: *mut CqEx) -> c_int {
    // SAFETY: the program's own queue.
    unsafe {
        let object: &CqObject = handle(cq);
        let taken = object.completions.take();
        *lock(&object.current) = taken;
        match taken {
            Some(wc) => {
                (*cq).wr_id = wc.wr_id;
                (*cq).status = wc.status;
                0
            }
            None => libc::ENOENT,
        }
    }
}

unsafe extern "C" fn start_poll(cq: *mut CqEx, _attr: *mut c_void) -> c_int {
    // SAFETY: as the caller's.
    unsafe {
        if step(cq) == 0 {
            return 0;
        }
        let worked = work();
        let found = step(cq);
        look_on(worked, found == 0 && is_of_send(&current(cq)));
        found
    }
}

unsafe extern "C" fn next_poll(cq: *mut CqEx) -> c_int {
    // SAFETY: as the caller's.
    unsafe { step(cq) }
}

unsafe extern "C" fn end_poll(_cq: *mut CqEx) {}

/// Returns the completion that the extended interface is at.
unsafe fn current(cq: *mut CqEx) -> Wc {
    // SAFETY: the program's own queue.
    let object: &CqObject = unsafe { handle(cq) };
    lock(&object.current).unwrap_or_else(zeroed)
}

macro_rules! readers {
    ($($name:ident: $ty:ty = $field:ident,)*) => {
        $(unsafe extern "C" fn $name(cq: *mut CqEx) -> $ty {
            // SAFETY: as the caller's.
            unsafe { current(cq) }.$field.into()
        })*
    };
}

readers! {
    read_opcode: c_uint = opcode,
    read_vendor_err: u32 = vendor_err,
    read_byte_len: u32 = byte_len,
    read_imm_data: u32 = imm_data,
    read_qp_num: u32 = qp_num,
    read_src_qp: u32 = src_qp,
    read_wc_flags: c_uint = wc_flags,
    read_slid: u32 = slid,
    read_sl: u8 = sl,
}

unsafe extern "C" fn read_time(_cq: *mut CqEx) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
