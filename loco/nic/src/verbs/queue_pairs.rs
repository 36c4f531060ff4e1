//! Queue pairs: making them, changing their state, asking for their attributes.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use super::builders::set_functions;
use super::device::{ELEMENTS_MAX, INLINE_MAX, QUEUE_MAX, READS_MAX};
use super::objects::{CqObject, QpObject, SrqObject, events_of, fails, give, handle, identity_of, take_back};
use super::transitions::attributes;
use crate::devices::Identity;
use crate::engine::{Making, QueuePair, nic, poke};
use crate::events::Unacknowledged;
use crate::ffi::*;
use crate::log::{once, unsupported};

unsafe fn make(pd: *mut Pd, init: &mut QpInitAttr) -> Result<*mut QpObject, i32> {
    if !matches!(init.qp_type, IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_UD) {
        return Err(unsupported(match init.qp_type {
            9 | 10 => "IBV_QPT_XRC",
            8 => "IBV_QPT_RAW_PACKET",
            _ => "a queue pair of this type",
        }));
    }
    let cap = &mut init.cap;
    if cap.max_send_wr > QUEUE_MAX
        || cap.max_recv_wr > QUEUE_MAX
        || cap.max_send_sge > ELEMENTS_MAX
        || cap.max_recv_sge > ELEMENTS_MAX
        || cap.max_inline_data > INLINE_MAX
        || init.send_cq.is_null()
        || init.recv_cq.is_null()
    {
        return Err(libc::EINVAL);
    }
    // SAFETY: the program's own domain and queues.
    unsafe {
        let context = (*pd).context;
        let is_foreign = (*init.send_cq).context != context
            || (*init.recv_cq).context != context
            || !init.srq.is_null() && (*init.srq).context != context;
        if is_foreign {
            once("ibv_create_qp: the domain and the queues are not of one opened device (EINVAL)");
            return Err(libc::EINVAL);
        }
    }
    if !init.srq.is_null() {
        cap.max_recv_wr = 0;
        cap.max_recv_sge = 0;
    }
    // SAFETY: the program's own domain and queues.
    unsafe {
        let domain: &Pd = handle(pd);
        let completions = |cq: *mut Cq| Arc::clone(&handle::<CqObject>(cq).completions);
        let events = events_of(domain.context);
        let making = Making {
            device: identity_of(domain.context),
            kind: init.qp_type,
            pd: domain.handle,
            cap: init.cap,
            signal_all: init.sq_sig_all != 0,
            send_cq: completions(init.send_cq),
            recv_cq: completions(init.recv_cq),
            srq: (!init.srq.is_null()).then(|| handle::<SrqObject>(init.srq).number),
            events,
        };
        let mut nic = nic();
        let qpn = nic.make_qp(making).ok_or(libc::ENOMEM)?;
        let mut qp: QpEx = zeroed();
        let base = &mut qp.base;
        base.context = domain.context;
        base.qp_context = init.qp_context;
        base.pd = pd;
        base.send_cq = init.send_cq;
        base.recv_cq = init.recv_cq;
        base.srq = init.srq;
        base.handle = qpn;
        base.qp_num = qpn;
        base.qp_type = init.qp_type;
        base.state = IBV_QPS_RESET;
        set_functions(&mut qp);
        let object: *mut QpObject = give(QpObject {
            qp,
            init: *init,
            built: Mutex::new(Vec::new()),
            unacknowledged_async: Unacknowledged::default(),
        });
        if let Some(qp) = nic.qp_mut(qpn) {
            qp.address = object.expose_provenance();
        }
        Ok(object)
    }
}

pub(crate) unsafe extern "C" fn create_qp(pd: *mut Pd, init: *mut QpInitAttr) -> *mut Qp {
    // SAFETY: as the caller's.
    match unsafe { make(pd, &mut *init) } {
        Ok(object) => object.cast(),
        Err(error) => fails(error),
    }
}

pub(super) unsafe extern "C" fn create_qp_ex(context: *mut Context, init: *mut QpInitAttrEx) -> *mut Qp {
    // SAFETY: the caller gives attributes.
    let given = unsafe { &mut *init };
    let known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if given.comp_mask & !known != 0 {
        return fails(unsupported("ibv_create_qp_ex with these attributes"));
    }
    if given.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
        return fails(libc::EINVAL);
    }
    // SAFETY: the program's own domain.
    if unsafe { (*given.pd).context } != context {
        once("ibv_create_qp_ex: the domain is not of this opened device (EINVAL)");
        return fails(libc::EINVAL);
    }
    if given.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 && given.create_flags != 0 {
        return fails(unsupported("ibv_create_qp_ex with create_flags"));
    }
    // Writes, sends, reads, atomics and sends that invalidate.
    let operations = 0x7f | 1 << 9;
    if given.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0 && given.send_ops_flags & !operations != 0 {
        return fails(unsupported("ibv_create_qp_ex with these send_ops_flags"));
    }
    let mut plain: QpInitAttr = zeroed();
    plain.qp_context = given.qp_context;
    plain.send_cq = given.send_cq;
    plain.recv_cq = given.recv_cq;
    plain.srq = given.srq;
    plain.cap = given.cap;
    plain.qp_type = given.qp_type;
    plain.sq_sig_all = given.sq_sig_all;
    // SAFETY: as the caller's.
    match unsafe { make(given.pd, &mut plain) } {
        Ok(object) => {
            given.cap = plain.cap;
            object.cast()
        }
        Err(error) => fails(error),
    }
}

pub(crate) unsafe extern "C" fn qp_to_qp_ex(qp: *mut Qp) -> *mut QpEx {
    qp.cast()
}

pub(crate) unsafe extern "C" fn destroy_qp(qp: *mut Qp) -> c_int {
    // SAFETY: the program's own queue pair, which it gives back.
    unsafe {
        let mut nic = nic();
        // Events that were not taken go, too.
        nic.remove_qp((*qp).qp_num);
        // Unlocks the device: the thread that acknowledges the other events may use it meanwhile.
        poke(nic);
        handle::<QpObject>(qp).unacknowledged_async.wait();
        drop(take_back::<QpObject>(qp));
    }
    0
}

pub(crate) unsafe extern "C" fn query_qp(
    qp: *mut Qp,
    attr: *mut QpAttr,
    _mask: c_int,
    init: *mut QpInitAttr,
) -> c_int {
    // SAFETY: the program's own queue pair, and room for both structures.
    unsafe {
        let nic = nic();
        let Some(found) = nic.qp((*qp).qp_num) else {
            return libc::EINVAL;
        };
        let mut current = found.attr;
        current.cap = found.cap;
        current.cur_qp_state = current.qp_state;
        current.sq_draining = u8::from(found.is_draining());
        (*qp).state = current.qp_state;
        attr.write(current);
        init.write(handle::<QpObject>(qp).init);
        (*init).cap = found.cap;
    }
    0
}

pub(crate) unsafe extern "C" fn modify_qp(qp: *mut Qp, attr: *mut QpAttr, mask: c_int) -> c_int {
    // SAFETY: the program's own queue pair, and attributes.
    unsafe {
        let given = &*attr;
        let mask = mask.cast_unsigned();
        let mut nic = nic();
        let Some(found) = nic.qp_mut((*qp).qp_num) else {
            return libc::EINVAL;
        };
        let from = match mask & IBV_QP_CUR_STATE {
            0 => found.state(),
            _ => given.cur_qp_state,
        };
        let to = match mask & IBV_QP_STATE {
            0 => from,
            _ => given.qp_state,
        };
        if let Err(why) = check(found, (from, to), mask, given) {
            once(format_args!("ibv_modify_qp: {why} (EINVAL)"));
            return libc::EINVAL;
        }
        merge(&mut found.attr, given, mask);
        if mask & IBV_QP_EN_SQD_ASYNC_NOTIFY != 0 {
            found.tells_drained = given.en_sqd_async_notify != 0;
        }
        let qpn = found.qpn;
        if mask & IBV_QP_STATE != 0 {
            nic.change_state(qpn, to);
            (*qp).state = to;
        }
        poke(nic);
    }
    0
}

fn check(qp: &QueuePair, (from, to): (u32, u32), mask: u32, given: &QpAttr) -> Result<(), String> {
    let names = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
    let name = |state: u32| names.get(state as usize).copied().unwrap_or("an unknown state");
    if from != qp.state() {
        let (said, is) = (name(from), name(qp.state()));
        return Err(format!("the current state is said to be {said} and is {is}"));
    }
    let change = format!("{} to {}", name(from), name(to));
    let Some(attributes) = attributes(qp.kind, from, to) else {
        return Err(format!("there is no change from {change}"));
    };
    let missing = attributes.must & !mask;
    if missing != 0 {
        return Err(format!("{change} lacks attributes, of mask {missing:#x}"));
    }
    let foreign = mask & !(attributes.must | attributes.may | IBV_QP_STATE | IBV_QP_CUR_STATE);
    if foreign != 0 {
        return Err(format!("{change} takes no attributes of mask {foreign:#x}"));
    }
    if mask & IBV_QP_PORT != 0 && given.port_num != 1 {
        return Err(format!("there is no port {}", given.port_num));
    }
    if mask & IBV_QP_PKEY_INDEX != 0 && given.pkey_index != 0 {
        return Err(format!("there is no P_Key {}", given.pkey_index));
    }
    if mask & IBV_QP_AV != 0 {
        check_address(&given.ah_attr, qp.device)?;
    }
    if mask & IBV_QP_PATH_MTU != 0 && !(1..=IBV_MTU_4096).contains(&given.path_mtu) {
        return Err(format!("there is no MTU {}", given.path_mtu));
    }
    let reads = [
        (IBV_QP_MAX_QP_RD_ATOMIC, given.max_rd_atomic),
        (IBV_QP_MAX_DEST_RD_ATOMIC, given.max_dest_rd_atomic),
    ];
    for (bit, count) in reads {
        if mask & bit != 0 && count > READS_MAX {
            return Err(format!("{count} reads at once are more than {READS_MAX}"));
        }
    }
    Ok(())
}

/// Says what is wrong with an address.
pub(super) fn check_address(address: &AhAttr, device: &Identity) -> Result<(), String> {
    if address.is_global == 0 {
        return Err(
            "an address on Ethernet needs a GID (is_global; give the program a GID index)".to_owned(),
        );
    }
    if usize::from(address.grh.sgid_index) >= device.gids.len() {
        return Err(format!("there is no GID {}", address.grh.sgid_index));
    }
    if address.port_num != 1 {
        return Err(format!("there is no port {}", address.port_num));
    }
    Ok(())
}

fn merge(to: &mut QpAttr, from: &QpAttr, mask: u32) {
    macro_rules! take {
        ($($bit:ident: $($field:ident),*;)*) => {
            $(if mask & $bit != 0 { $(to.$field = from.$field;)* })*
        };
    }
    take! {
        IBV_QP_ACCESS_FLAGS: qp_access_flags;
        IBV_QP_PKEY_INDEX: pkey_index;
        IBV_QP_PORT: port_num;
        IBV_QP_QKEY: qkey;
        IBV_QP_AV: ah_attr;
        IBV_QP_PATH_MTU: path_mtu;
        IBV_QP_TIMEOUT: timeout;
        IBV_QP_RETRY_CNT: retry_cnt;
        IBV_QP_RNR_RETRY: rnr_retry;
        IBV_QP_RQ_PSN: rq_psn;
        IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic;
        IBV_QP_ALT_PATH: alt_ah_attr, alt_pkey_index, alt_port_num, alt_timeout;
        IBV_QP_MIN_RNR_TIMER: min_rnr_timer;
        IBV_QP_SQ_PSN: sq_psn;
        IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
        IBV_QP_PATH_MIG_STATE: path_mig_state;
        IBV_QP_DEST_QPN: dest_qp_num;
        IBV_QP_RATE_LIMIT: rate_limit;
    }
}
