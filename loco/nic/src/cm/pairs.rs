//! The queue pair of an identifier: making it, and bringing it through its states.

use std::ffi::{c_int, c_void};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use super::state::{Inner, Shared, shared_of};
use crate::devices::{ADDRESS_GID, device_at, devices};
use crate::events::lock;
use crate::ffi::*;
use crate::verbs::{channels, completion, device, identity_of, opened, queue_pairs, set_errno};

/// The encoding of the time that a peer may take to answer: 67 ms.
const ACK_TIMEOUT: u8 = 14;

struct Opened(*mut Context, *mut Pd);
// SAFETY: the pointers are made once and read after that; what they point to is never destroyed.
unsafe impl Send for Opened {}

static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// Returns the contexts of all devices, which all identifiers use.
///
/// # Errors
/// As [`opened`].
pub(super) fn contexts() -> Result<Vec<*mut Context>, i32> {
    (0..devices().len()).map(|index| Ok(opened(index)?.0)).collect()
}

/// Returns the context of a device, and its protection domain for identifiers that have none of their own. Both stay for good.
///
/// # Errors
/// Fails with `ENODEV` when the device cannot be opened.
pub(super) fn opened(index: usize) -> Result<(*mut Context, *mut Pd), i32> {
    let mut all = lock(&OPENED);
    while all.len() <= index {
        // SAFETY: the device is one of the list.
        let context = unsafe { opened::open_device(device::device(all.len())) };
        if context.is_null() {
            return Err(libc::ENODEV);
        }
        // SAFETY: the context was opened just now.
        all.push(Opened(context, unsafe { opened::alloc_pd(context) }));
    }
    Ok((all[index].0, all[index].1))
}

/// Gives an identifier the device that has an address, which is the first one if none has. The device's protection domain goes with it,
/// unless the identifier has one of that device.
///
/// # Errors
/// As [`opened`].
///
/// # Safety
/// `id` is the program's own.
pub(super) unsafe fn bind_device(id: *mut CmId, address: IpAddr) -> Result<(), i32> {
    let index = device_at(address).unwrap_or(0);
    let (context, pd) = opened(index)?;
    // SAFETY: as the caller's.
    unsafe {
        (*id).verbs = context;
        if (*id).pd.is_null() || (*(*id).pd).context != context {
            (*id).pd = pd;
        }
        (*id).port_num = 1;
        (*id).pkey = Padded(0xffff);
        (*id).sgid = gid_halves(own_gid(id));
    }
    Ok(())
}

/// Returns the GID that the connections of an identifier use: that with its device's address.
///
/// # Safety
/// `id` is the program's own, and has a device.
pub(super) unsafe fn own_gid(id: *mut CmId) -> RawGid {
    // SAFETY: as the caller's.
    unsafe { identity_of((*id).verbs) }.gids[usize::from(ADDRESS_GID)]
}

pub(crate) unsafe extern "C" fn create_qp(id: *mut CmId, pd: *mut Pd, init: *mut QpInitAttr) -> c_int {
    // SAFETY: the program's own identifier and domain, and attributes.
    let made = unsafe { make(id, pd, &mut *init) };
    answer(made)
}

pub(crate) unsafe extern "C" fn create_qp_ex(id: *mut CmId, init: *mut QpInitAttrEx) -> c_int {
    // SAFETY: the program's own identifier, and attributes, which begin as the plain ones do.
    unsafe {
        let given = &mut *init;
        let known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        if given.comp_mask & !known != 0 {
            return answer(Err(crate::log::unsupported(
                "rdma_create_qp_ex with these attributes",
            )));
        }
        let pd = if given.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
            std::ptr::null_mut()
        } else {
            given.pd
        };
        create_qp(id, pd, init.cast())
    }
}

/// Turns a result into what functions of the connection manager return.
pub(super) fn answer(result: Result<(), i32>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

unsafe fn make(id: *mut CmId, pd: *mut Pd, init: &mut QpInitAttr) -> Result<(), i32> {
    // SAFETY: as the caller's.
    unsafe {
        if (*id).verbs.is_null() || !(*id).qp.is_null() {
            return Err(libc::EINVAL);
        }
        if !pd.is_null() {
            if (*pd).context != (*id).verbs {
                return Err(libc::EINVAL);
            }
            (*id).pd = pd;
        }
        if init.send_cq.is_null() {
            (*id).send_cq_channel = channels::create_comp_channel((*id).verbs);
            (*id).send_cq = own_queue(id, init.cap.max_send_wr, (*id).send_cq_channel)?;
            init.send_cq = (*id).send_cq;
        }
        if init.recv_cq.is_null() {
            (*id).recv_cq_channel = channels::create_comp_channel((*id).verbs);
            (*id).recv_cq = own_queue(id, init.cap.max_recv_wr, (*id).recv_cq_channel)?;
            init.recv_cq = (*id).recv_cq;
        }
        let qp = queue_pairs::create_qp((*id).pd, init);
        if qp.is_null() {
            return Err(*libc::__errno_location());
        }
        (*id).qp = qp;
        (*id).qp_type = init.qp_type;
        if init.qp_type == IBV_QPT_UD {
            to_state(id, IBV_QPS_INIT)?;
            to_state(id, IBV_QPS_RTR)?;
            to_state(id, IBV_QPS_RTS)
        } else {
            to_state(id, IBV_QPS_INIT)
        }
    }
}

unsafe fn own_queue(id: *mut CmId, depth: u32, channel: *mut CompChannel) -> Result<*mut Cq, i32> {
    let depth = c_int::try_from(depth.max(1)).map_err(|_| libc::EINVAL)?;
    // SAFETY: as the caller's.
    let queue = unsafe { completion::create_cq((*id).verbs, depth, id.cast::<c_void>(), channel, 0) };
    if queue.is_null() {
        Err(libc::ENOMEM)
    } else {
        Ok(queue)
    }
}

pub(crate) unsafe extern "C" fn destroy_qp(id: *mut CmId) {
    // SAFETY: the program's own identifier.
    unsafe {
        if (*id).qp.is_null() {
            return;
        }
        queue_pairs::destroy_qp((*id).qp);
        (*id).qp = std::ptr::null_mut();
        for (queue, channel) in [
            (&raw mut (*id).send_cq, &raw mut (*id).send_cq_channel),
            (&raw mut (*id).recv_cq, &raw mut (*id).recv_cq_channel),
        ] {
            if !(*queue).is_null() {
                completion::destroy_cq(*queue);
                *queue = std::ptr::null_mut();
            }
            if !(*channel).is_null() {
                channels::destroy_comp_channel(*channel);
                *channel = std::ptr::null_mut();
            }
        }
    }
}

/// Returns the attributes of a change of state, and their mask.
fn attributes(inner: &Inner, kind: u32, state: u32) -> Option<(QpAttr, u32)> {
    let mut attr: QpAttr = zeroed();
    attr.qp_state = state;
    let mask = match state {
        IBV_QPS_INIT => {
            attr.port_num = 1;
            attr.qkey = RDMA_UDP_QKEY;
            attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
            if inner.own.responder_resources > 0 {
                attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
            }
            let last = if kind == IBV_QPT_UD {
                IBV_QP_QKEY
            } else {
                IBV_QP_ACCESS_FLAGS
            };
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | last
        }
        IBV_QPS_RTR if kind == IBV_QPT_UD => 0,
        IBV_QPS_RTR => {
            let peer = inner.peer?;
            attr.ah_attr = address(peer.gid);
            attr.path_mtu = IBV_MTU_4096;
            attr.dest_qp_num = peer.qpn;
            attr.max_dest_rd_atomic = inner.own.responder_resources.min(16);
            let reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
            let connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            connected | if kind == IBV_QPT_RC { reliable } else { 0 }
        }
        IBV_QPS_RTS if kind == IBV_QPT_UD => IBV_QP_SQ_PSN,
        IBV_QPS_RTS => {
            attr.timeout = inner.ack_timeout.unwrap_or(ACK_TIMEOUT);
            attr.retry_cnt = inner.own.retry_count & 7;
            attr.rnr_retry = inner.own.rnr_retry_count & 7;
            attr.max_rd_atomic = inner.own.initiator_depth.min(16);
            let reliable = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
            IBV_QP_SQ_PSN | if kind == IBV_QPT_RC { reliable } else { 0 }
        }
        IBV_QPS_ERR => 0,
        _ => return None,
    };
    Some((attr, mask | IBV_QP_STATE))
}

/// Returns the address of a peer.
pub(super) fn address(gid: RawGid) -> AhAttr {
    let mut attr: AhAttr = zeroed();
    attr.grh.dgid = gid_halves(gid);
    attr.grh.sgid_index = ADDRESS_GID;
    attr.grh.hop_limit = 64;
    attr.is_global = 1;
    attr.port_num = 1;
    attr
}

pub(crate) unsafe extern "C" fn init_qp_attr(id: *mut CmId, attr: *mut QpAttr, mask: *mut c_int) -> c_int {
    // SAFETY: the program's own identifier, and room for attributes whose state is set.
    unsafe {
        let shared = shared_of(id);
        let inner = lock(&shared.inner);
        match attributes(&inner, (*id).qp_type, (*attr).qp_state) {
            Some((found, of)) => {
                attr.write(found);
                mask.write(of.cast_signed());
                0
            }
            None => answer(Err(libc::EINVAL)),
        }
    }
}

/// Brings the queue pair of an identifier into a state.
///
/// # Safety
/// `id` is the program's own, and has a queue pair.
pub(super) unsafe fn to_state(id: *mut CmId, state: u32) -> Result<(), i32> {
    // SAFETY: as the caller's.
    unsafe {
        let shared: Arc<Shared> = shared_of(id);
        let found = attributes(&lock(&shared.inner), (*id).qp_type, state);
        let (mut attr, mask) = found.ok_or(libc::EINVAL)?;
        match queue_pairs::modify_qp((*id).qp, &raw mut attr, mask.cast_signed()) {
            0 => Ok(()),
            error => Err(error),
        }
    }
}

/// Makes the queue pair ready for a peer that is known. The first state is set again, as what peers may do is known only now.
///
/// # Safety
/// As [`to_state`].
pub(super) unsafe fn make_ready(id: *mut CmId) -> Result<(), i32> {
    // SAFETY: as the caller's.
    unsafe {
        if (*id).qp_type == IBV_QPT_UD {
            return Ok(());
        }
        to_state(id, IBV_QPS_INIT)?;
        to_state(id, IBV_QPS_RTR)?;
        to_state(id, IBV_QPS_RTS)
    }
}
