//! Connections: asking for them, accepting and rejecting them, and ending them.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::sync::Arc;

use super::addresses::{bytes, of};
use super::delivery::{finish, get_cm_event};
use super::frames::{Letter, PRIVATE_MAX, kind};
use super::identifiers::{bind_addr, create_id, destroy_id, resolve_addr, resolve_route};
use super::listeners;
use super::pairs::{answer, create_qp, make_ready, own_gid, to_state};
use super::state::{Phase, Wanted, shared_of};
use crate::events::lock;
use crate::ffi::*;

/// What a program asks for when it gives no parameters.
const DEFAULT: Wanted = Wanted {
    responder_resources: 16,
    initiator_depth: 16,
    retry_count: 7,
    rnr_retry_count: 7,
    qpn: 0,
};

unsafe fn wanted(param: *const ConnParam) -> (Wanted, Vec<u8>) {
    // SAFETY: the caller gives parameters, or none.
    unsafe {
        let Some(param) = param.as_ref() else {
            return (DEFAULT, Vec::new());
        };
        // What is as large as the type stands for as much as there may be.
        let wanted = Wanted {
            responder_resources: param.responder_resources.min(16),
            initiator_depth: param.initiator_depth.min(16),
            retry_count: param.retry_count,
            rnr_retry_count: param.rnr_retry_count,
            qpn: param.qp_num,
        };
        (wanted, private(param.private_data, param.private_data_len))
    }
}

unsafe fn private(data: *const c_void, len: u8) -> Vec<u8> {
    if data.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: the caller gives as many bytes.
    unsafe { std::slice::from_raw_parts(data.cast(), usize::from(len).min(PRIVATE_MAX)) }.to_vec()
}

/// Returns a message that says what this side is and wants.
unsafe fn introduced(id: *mut CmId, kind: u8, own: &Wanted, private: Vec<u8>) -> Letter {
    let mut letter = Letter::new(kind);
    letter.private = private;
    let frame = &mut letter.frame;
    frame.responder_resources = own.responder_resources;
    frame.initiator_depth = own.initiator_depth;
    frame.retry_count = own.retry_count;
    frame.rnr_retry_count = own.rnr_retry_count;
    // SAFETY: as the caller's.
    unsafe {
        frame.gid = own_gid(id);
        frame.qpn = if (*id).qp.is_null() {
            own.qpn
        } else {
            (*(*id).qp).qp_num
        };
        frame.space = u16::try_from((*id).ps).unwrap_or(0);
    }
    letter
}

pub(crate) unsafe extern "C" fn connect(id: *mut CmId, param: *const ConnParam) -> c_int {
    // SAFETY: the program's own identifier, and parameters or none.
    unsafe {
        let (Some(source), Some(target)) = (of(&(*id).src_addr), of(&(*id).dst_addr)) else {
            return answer(Err(libc::EINVAL));
        };
        let (own, private) = wanted(param);
        let shared = shared_of(id);
        {
            let mut inner = lock(&shared.inner);
            inner.own = own;
            inner.phase = Phase::Asked;
        }
        let mut letter = introduced(id, kind::REQUEST, &own, private);
        letter.frame.source = bytes(source);
        letter.frame.target = bytes(target);
        match listeners::connect(&shared, target, (*id).ps, &letter) {
            Ok(()) => finish(id),
            Err(error) => answer(Err(error.raw_os_error().unwrap_or(libc::EAGAIN))),
        }
    }
}

pub(crate) unsafe extern "C" fn listen(id: *mut CmId, _backlog: c_int) -> c_int {
    // SAFETY: the program's own identifier.
    unsafe {
        if of(&(*id).src_addr).is_none() {
            let any = bytes(SocketAddr::from(([0, 0, 0, 0], 0)));
            if bind_addr(id, any.as_ptr().cast()) != 0 {
                return -1;
            }
        }
        let Some(address) = of(&(*id).src_addr) else {
            return answer(Err(libc::EINVAL));
        };
        let begun = listeners::listen(&shared_of(id), address, (*id).ps);
        answer(begun.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)))
    }
}

pub(crate) unsafe extern "C" fn get_request(listening: *mut CmId, id: *mut *mut CmId) -> c_int {
    // SAFETY: the program's own identifier, and room for a pointer.
    unsafe {
        if !lock(&shared_of(listening).inner).waits {
            return answer(Err(libc::EINVAL));
        }
        let mut event = std::ptr::null_mut();
        if get_cm_event((*listening).channel, &raw mut event) != 0 {
            return -1;
        }
        if (*event).event != RDMA_CM_EVENT_CONNECT_REQUEST {
            return answer(Err(libc::EINVAL));
        }
        let child = (*event).id;
        // It gets a channel of its own, on which its calls wait.
        let mut own = std::ptr::null_mut();
        if create_id(
            std::ptr::null_mut(),
            &raw mut own,
            std::ptr::null_mut(),
            (*child).ps,
        ) != 0
        {
            return -1;
        }
        let (own_shared, child_shared) = (shared_of(own), shared_of(child));
        let events = Arc::clone(&lock(&own_shared.inner).events);
        {
            let mut inner = lock(&child_shared.inner);
            inner.events = events;
            inner.waits = true;
        }
        (*child).channel = (*own).channel;
        // The channel stays with the child.
        lock(&own_shared.inner).waits = false;
        destroy_id(own);
        (*child).event = event;
        id.write(child);
    }
    0
}

pub(crate) unsafe extern "C" fn accept(id: *mut CmId, param: *const ConnParam) -> c_int {
    // SAFETY: the program's own identifier, and parameters or none.
    unsafe {
        let (mut own, private) = wanted(param);
        let shared = shared_of(id);
        let stream = {
            let mut inner = lock(&shared.inner);
            let Some(peer) = inner.peer else {
                return answer(Err(libc::EINVAL));
            };
            if param.is_null() {
                own.initiator_depth = peer.responder_resources;
                own.responder_resources = peer.initiator_depth;
            }
            own.retry_count = peer.retry_count;
            own.rnr_retry_count = if param.is_null() {
                peer.rnr_retry_count
            } else {
                own.rnr_retry_count
            };
            inner.own = own;
            inner.stream.clone()
        };
        if !(*id).qp.is_null()
            && let Err(error) = make_ready(id)
        {
            return answer(Err(error));
        }
        let letter = introduced(id, kind::REPLY, &own, private);
        let Some(stream) = stream else {
            return answer(Err(libc::EINVAL));
        };
        // A peer that is gone is not heard of here: its silence is an event.
        let _ = letter.send(&stream);
        // A datagram service waits for nothing more.
        if (*id).ps == RDMA_PS_UDP {
            lock(&shared.inner).phase = Phase::None;
            return 0;
        }
        finish(id)
    }
}

pub(crate) unsafe extern "C" fn reject(id: *mut CmId, data: *const c_void, len: u8) -> c_int {
    // SAFETY: the program's own identifier, and as many bytes.
    unsafe {
        let shared = shared_of(id);
        let stream = {
            let mut inner = lock(&shared.inner);
            inner.phase = Phase::None;
            inner.stream.take()
        };
        let Some(stream) = stream else {
            return answer(Err(libc::EINVAL));
        };
        let letter = introduced(id, kind::REJECT, &Wanted::default(), private(data, len));
        let _ = letter.send(&stream);
    }
    0
}

pub(crate) unsafe extern "C" fn reject_ece(id: *mut CmId, data: *const c_void, len: u8) -> c_int {
    // SAFETY: as the caller's.
    unsafe { reject(id, data, len) }
}

pub(crate) unsafe extern "C" fn establish(id: *mut CmId) -> c_int {
    // SAFETY: the program's own identifier.
    unsafe {
        let shared = shared_of(id);
        let mut inner = lock(&shared.inner);
        let Some(stream) = inner.stream.clone() else {
            return answer(Err(libc::EINVAL));
        };
        inner.phase = Phase::Connected;
        drop(inner);
        if !(*id).qp.is_null() {
            return answer(Err(libc::EINVAL));
        }
        answer(
            Letter::new(kind::READY)
                .send(&stream)
                .map_err(|_| libc::ECONNRESET),
        )
    }
}

/// Says that a message of the peer has come, which is as good as the manager's own.
pub(crate) unsafe extern "C" fn notify(id: *mut CmId, _event: c_int) -> c_int {
    // SAFETY: the program's own identifier.
    lock(&unsafe { shared_of(id) }.inner).phase = Phase::Connected;
    0
}

pub(crate) unsafe extern "C" fn disconnect(id: *mut CmId) -> c_int {
    // SAFETY: the program's own identifier.
    unsafe {
        if !(*id).qp.is_null() && (*id).qp_type != IBV_QPT_UD {
            let _ = to_state(id, IBV_QPS_ERR);
        }
        let shared = shared_of(id);
        let inner = lock(&shared.inner);
        let Some(stream) = inner.stream.clone() else {
            return answer(Err(libc::EINVAL));
        };
        let is_connected = inner.phase == Phase::Connected;
        drop(inner);
        if !is_connected {
            // The other side was first.
            return 0;
        }
        if Letter::new(kind::DISCONNECT).send(&stream).is_err() {
            return 0;
        }
        finish(id)
    }
}

pub(crate) unsafe extern "C" fn create_ep(
    id: *mut *mut CmId,
    info: *const AddrInfo,
    pd: *mut Pd,
    init: *mut QpInitAttr,
) -> c_int {
    // SAFETY: the caller gives an address, attributes or none, and room for a pointer.
    unsafe {
        let info = &*info;
        let space = info.ai_port_space.cast_unsigned();
        let mut made = std::ptr::null_mut();
        if create_id(std::ptr::null_mut(), &raw mut made, std::ptr::null_mut(), space) != 0 {
            return -1;
        }
        let passive = info.ai_flags.cast_unsigned() & RAI_PASSIVE != 0;
        let ok = if passive {
            bind_addr(made, info.ai_src_addr) == 0
        } else {
            resolve_addr(made, info.ai_src_addr, info.ai_dst_addr, 2000) == 0
                && resolve_route(made, 2000) == 0
                && (init.is_null() || create_qp(made, pd, init) == 0)
        };
        if !ok {
            destroy_id(made);
            return -1;
        }
        if passive && !pd.is_null() {
            (*made).pd = pd;
        }
        (*made).qp_type = info.ai_qp_type.cast_unsigned();
        id.write(made);
    }
    0
}
