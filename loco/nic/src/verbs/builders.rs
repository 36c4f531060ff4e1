//! The functions of the extended interface to a send queue (`ibv_wr_start` and the rest): they build requests, which
//! `ibv_wr_complete` posts.

use std::ffi::{c_int, c_void};

use super::objects::{Built, QpObject, handle};
use super::posting::request;
use crate::engine::{nic, poke};
use crate::events::lock;
use crate::ffi::*;
use crate::log::unsupported;

/// Fills the table of functions.
pub(super) fn set_functions(qp: &mut QpEx) {
    qp.wr_atomic_cmp_swp = Some(atomic_cmp_swp);
    qp.wr_atomic_fetch_add = Some(atomic_fetch_add);
    qp.wr_bind_mw = Some(bind_mw);
    qp.wr_local_inv = Some(local_inv);
    qp.wr_rdma_read = Some(rdma_read);
    qp.wr_rdma_write = Some(rdma_write);
    qp.wr_rdma_write_imm = Some(rdma_write_imm);
    qp.wr_send = Some(send);
    qp.wr_send_imm = Some(send_imm);
    qp.wr_send_inv = Some(send_inv);
    qp.wr_send_tso = Some(send_tso);
    qp.wr_set_ud_addr = Some(set_ud_addr);
    qp.wr_set_xrc_srqn = Some(set_xrc_srqn);
    qp.wr_set_inline_data = Some(set_inline_data);
    qp.wr_set_inline_data_list = Some(set_inline_data_list);
    qp.wr_set_sge = Some(set_sge);
    qp.wr_set_sge_list = Some(set_sge_list);
    qp.wr_start = Some(start);
    qp.wr_complete = Some(complete);
    qp.wr_abort = Some(abort);
    qp.wr_atomic_write = Some(atomic_write);
}

/// Begins a request.
unsafe fn begin(qp: *mut QpEx, opcode: u32, fill: impl FnOnce(&mut SendWr)) {
    // SAFETY: the program's own queue pair.
    unsafe {
        let mut wr: SendWr = zeroed();
        wr.wr_id = (*qp).wr_id;
        wr.send_flags = (*qp).wr_flags;
        wr.opcode = opcode;
        fill(&mut wr);
        lock(&handle::<QpObject>(qp).built).push(Built {
            wr,
            elements: Vec::new(),
            inline: None,
        });
    }
}

/// Changes the last request.
unsafe fn change(qp: *mut QpEx, set: impl FnOnce(&mut Built)) {
    // SAFETY: the program's own queue pair.
    let object: &QpObject = unsafe { handle(qp) };
    if let Some(last) = lock(&object.built).last_mut() {
        set(last);
    }
}

fn rdma(remote_addr: u64, rkey: u32) -> impl FnOnce(&mut SendWr) {
    move |wr| {
        wr.remote_addr = remote_addr;
        wr.set_rdma_rkey(rkey);
    }
}

unsafe extern "C" fn atomic_cmp_swp(qp: *mut QpEx, rkey: u32, remote_addr: u64, compare: u64, swap: u64) {
    // SAFETY: as the caller's.
    unsafe {
        begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP, |wr| {
            wr.remote_addr = remote_addr;
            wr.rkey = Padded(rkey);
            wr.compare_add = compare;
            wr.swap = swap;
        });
    }
}

unsafe extern "C" fn atomic_fetch_add(qp: *mut QpEx, rkey: u32, remote_addr: u64, add: u64) {
    // SAFETY: as the caller's.
    unsafe {
        begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, |wr| {
            wr.remote_addr = remote_addr;
            wr.rkey = Padded(rkey);
            wr.compare_add = add;
        });
    }
}

unsafe extern "C" fn rdma_read(qp: *mut QpEx, rkey: u32, remote_addr: u64) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_RDMA_READ, rdma(remote_addr, rkey)) };
}

unsafe extern "C" fn rdma_write(qp: *mut QpEx, rkey: u32, remote_addr: u64) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_RDMA_WRITE, rdma(remote_addr, rkey)) };
}

unsafe extern "C" fn rdma_write_imm(qp: *mut QpEx, rkey: u32, remote_addr: u64, immediate: u32) {
    // SAFETY: as the caller's.
    unsafe {
        begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM, |wr| {
            rdma(remote_addr, rkey)(wr);
            wr.imm_data = immediate;
        });
    }
}

unsafe extern "C" fn send(qp: *mut QpEx) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_SEND, |_| {}) };
}

unsafe extern "C" fn send_imm(qp: *mut QpEx, immediate: u32) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_SEND_WITH_IMM, |wr| wr.imm_data = immediate) };
}

unsafe extern "C" fn send_inv(qp: *mut QpEx, key: u32) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_SEND_WITH_INV, |wr| wr.imm_data = key) };
}

// What is not supported is refused by name when it is posted.

unsafe extern "C" fn bind_mw(qp: *mut QpEx, _mw: *mut c_void, _rkey: u32, _info: *const c_void) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_BIND_MW, |_| {}) };
}

unsafe extern "C" fn local_inv(qp: *mut QpEx, _key: u32) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_LOCAL_INV, |_| {}) };
}

unsafe extern "C" fn send_tso(qp: *mut QpEx, _header: *mut c_void, _size: u16, _mss: u16) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_TSO, |_| {}) };
}

unsafe extern "C" fn atomic_write(qp: *mut QpEx, _rkey: u32, _addr: u64, _data: *const c_void) {
    // SAFETY: as the caller's.
    unsafe { begin(qp, IBV_WR_ATOMIC_WRITE, |_| {}) };
}

unsafe extern "C" fn set_xrc_srqn(_qp: *mut QpEx, _number: u32) {
    unsupported("ibv_wr_set_xrc_srqn");
}

unsafe extern "C" fn set_ud_addr(qp: *mut QpEx, ah: *mut Ah, qpn: u32, qkey: u32) {
    // SAFETY: as the caller's.
    unsafe { change(qp, |built| built.wr.set_ud(ah.cast(), qpn, qkey)) };
}

unsafe extern "C" fn set_inline_data(qp: *mut QpEx, addr: *mut c_void, len: usize) {
    let buffer = DataBuf { addr, length: len };
    // SAFETY: as the caller's.
    unsafe { set_inline_data_list(qp, 1, &raw const buffer) };
}

unsafe extern "C" fn set_inline_data_list(qp: *mut QpEx, count: usize, list: *const DataBuf) {
    // SAFETY: the caller gives `count` buffers, which may be read.
    unsafe {
        let mut data = Vec::new();
        for at in 0..count {
            let buffer = *list.add(at);
            if buffer.length > 0 {
                data.extend_from_slice(std::slice::from_raw_parts(buffer.addr.cast(), buffer.length));
            }
        }
        change(qp, |built| built.inline = Some(data));
    }
}

unsafe extern "C" fn set_sge(qp: *mut QpEx, lkey: u32, addr: u64, length: u32) {
    // SAFETY: as the caller's.
    unsafe {
        change(qp, |built| {
            built.elements = vec![Sge { addr, length, lkey }];
        });
    }
}

unsafe extern "C" fn set_sge_list(qp: *mut QpEx, count: usize, list: *const Sge) {
    // SAFETY: the caller gives `count` elements.
    unsafe {
        let given = match count {
            0 => Vec::new(),
            _ => std::slice::from_raw_parts(list, count).to_vec(),
        };
        change(qp, |built| built.elements = given);
    }
}

unsafe extern "C" fn start(qp: *mut QpEx) {
    // SAFETY: the program's own queue pair. The lock is zeroed, which is how it begins. Who starts a batch also ends it, and nobody
    // else may build between.
    unsafe {
        libc::pthread_mutex_lock(&raw mut (*qp).base.mutex);
        lock(&handle::<QpObject>(qp).built).clear();
    }
}

unsafe extern "C" fn complete(qp: *mut QpEx) -> c_int {
    // SAFETY: as in `start`.
    unsafe {
        let built = std::mem::take(&mut *lock(&handle::<QpObject>(qp).built));
        let answer = post(&(*qp).base, built);
        libc::pthread_mutex_unlock(&raw mut (*qp).base.mutex);
        answer
    }
}

unsafe fn post(qp: &Qp, built: Vec<Built>) -> c_int {
    let mut nic = nic();
    let Some(cap) = nic.qp(qp.qp_num).map(|found| found.cap) else {
        return libc::EINVAL;
    };
    // All or nothing: every request is looked at before the first is posted.
    let mut requests = Vec::new();
    for one in built {
        let too_long = one
            .inline
            .as_ref()
            .is_some_and(|data| data.len() > cap.max_inline_data as usize);
        if too_long || one.elements.len() > cap.max_send_sge.max(1) as usize {
            return libc::EINVAL;
        }
        // SAFETY: as the caller's.
        match unsafe { request(&one.wr, qp, one.elements, one.inline) } {
            Ok(request) => requests.push(request),
            Err(error) => return error,
        }
    }
    for request in requests {
        if let Err(error) = nic.post(qp.qp_num, request) {
            return error;
        }
    }
    poke(nic);
    0
}

unsafe extern "C" fn abort(qp: *mut QpEx) {
    // SAFETY: as in `start`.
    unsafe {
        lock(&handle::<QpObject>(qp).built).clear();
        libc::pthread_mutex_unlock(&raw mut (*qp).base.mutex);
    }
}
