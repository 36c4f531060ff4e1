//! Posting of requests by the operation tables.

use std::ffi::c_int;

use super::objects::{AhObject, handle};
use crate::engine::{Receive, Request, nic, poke};
use crate::ffi::*;
use crate::log::{once, unsupported};

/// Returns the elements of a request.
///
/// # Safety
/// `count` elements are at `list`.
pub(super) unsafe fn elements(list: *const Sge, count: c_int, most: u32) -> Result<Vec<Sge>, i32> {
    let count = u32::try_from(count).map_err(|_| libc::EINVAL)?;
    if count > most {
        return Err(libc::EINVAL);
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: as the caller's.
    Ok(unsafe { std::slice::from_raw_parts(list, count as usize) }.to_vec())
}

/// Copies the data of an inline request.
///
/// # Safety
/// The elements are of memory that the program may read.
unsafe fn copied(elements: &[Sge], most: u32) -> Result<Vec<u8>, i32> {
    let len: u64 = elements.iter().map(|element| u64::from(element.length)).sum();
    if len > u64::from(most) {
        return Err(libc::EINVAL);
    }
    let mut data = Vec::new();
    for element in elements.iter().filter(|element| element.length > 0) {
        let at = usize::try_from(element.addr).map_err(|_| libc::EFAULT)?;
        let at: *const u8 = std::ptr::with_exposed_provenance(at);
        // SAFETY: as the caller's.
        data.extend_from_slice(unsafe { std::slice::from_raw_parts(at, element.length as usize) });
    }
    Ok(data)
}

/// Makes the NIC's request of one of a program's to a queue pair.
///
/// # Safety
/// `wr` is as `ibv_post_send` has it; `elements` and `inline` stand for its own data.
pub(super) unsafe fn request(
    wr: &SendWr,
    qp: &Qp,
    elements: Vec<Sge>,
    inline: Option<Vec<u8>>,
) -> Result<Request, i32> {
    match wr.opcode {
        IBV_WR_LOCAL_INV => return Err(unsupported("IBV_WR_LOCAL_INV")),
        IBV_WR_BIND_MW => return Err(unsupported("IBV_WR_BIND_MW")),
        IBV_WR_TSO => return Err(unsupported("IBV_WR_TSO")),
        IBV_WR_ATOMIC_WRITE => return Err(unsupported("IBV_WR_ATOMIC_WRITE")),
        opcode if opcode > IBV_WR_SEND_WITH_INV => return Err(libc::EINVAL),
        _ => {}
    }
    let is_atomic = matches!(wr.opcode, IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD);
    let datagram = if qp.qp_type == IBV_QPT_UD {
        let (ah, qpn, qkey) = wr.ud();
        if ah.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the program's own address handle.
        let object = unsafe { handle::<AhObject>(ah) };
        if object.ah.context != qp.context {
            once("ibv_post_send: the address handle is of another opened device (EINVAL)");
            return Err(libc::EINVAL);
        }
        Some((object.attr.gid(), qpn, qkey))
    } else {
        None
    };
    Ok(Request {
        wr_id: wr.wr_id,
        opcode: wr.opcode,
        flags: wr.send_flags,
        immediate: wr.imm_data,
        elements,
        inline,
        remote_addr: wr.remote_addr,
        rkey: if is_atomic { wr.rkey.0 } else { wr.rdma_rkey() },
        operands: (wr.compare_add, wr.swap),
        datagram,
    })
}

unsafe fn post_one(qp: &Qp, wr: &SendWr) -> Result<(), i32> {
    // SAFETY: as the caller's of `post_send`.
    unsafe {
        let mut nic = nic();
        let cap = nic.qp(qp.qp_num).ok_or(libc::EINVAL)?.cap;
        let elements = elements(wr.sg_list, wr.num_sge, cap.max_send_sge.max(1))?;
        let inline = match wr.send_flags & IBV_SEND_INLINE {
            0 => None,
            _ => Some(copied(&elements, cap.max_inline_data)?),
        };
        let request = request(wr, qp, elements, inline)?;
        nic.post(qp.qp_num, request)
    }
}

pub(crate) unsafe extern "C" fn post_send(qp: *mut Qp, first: *mut SendWr, bad: *mut *mut SendWr) -> c_int {
    // SAFETY: the program's own queue pair, and a list of requests.
    unsafe {
        let mut wr = first;
        let mut answer = 0;
        while !wr.is_null() {
            if let Err(error) = post_one(&*qp, &*wr) {
                if !bad.is_null() {
                    bad.write(wr);
                }
                answer = error;
                break;
            }
            wr = (*wr).next;
        }
        poke(nic());
        answer
    }
}

pub(crate) unsafe extern "C" fn post_recv(qp: *mut Qp, first: *mut RecvWr, bad: *mut *mut RecvWr) -> c_int {
    // SAFETY: the program's own queue pair, and a list of requests.
    unsafe {
        let qpn = (*qp).qp_num;
        let mut wr = first;
        let mut nic = nic();
        let most = nic.qp(qpn).map_or(0, |qp| qp.cap.max_recv_sge.max(1));
        while !wr.is_null() {
            let elements = elements((*wr).sg_list, (*wr).num_sge, most);
            let posted = elements.and_then(|elements| {
                let wr_id = (*wr).wr_id;
                nic.post_receive(qpn, Receive { wr_id, elements })
            });
            if let Err(error) = posted {
                if !bad.is_null() {
                    bad.write(wr);
                }
                return error;
            }
            wr = (*wr).next;
        }
        poke(nic);
    }
    0
}
