//! Event channels and identifiers: making them, giving them addresses, and taking them back.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::sync::Arc;

use super::addresses::{of, read, write};
use super::delivery::{drop_event, finish};
use super::listeners::{free_port, take_port, unlisten};
use super::pairs::{answer, bind_device, contexts, destroy_qp, opened};
use super::state::{IdObject, Shared, What, drop_channel, events_of, make_channel, make_id, shared_of};
use crate::devices::{device_at, host_address};
use crate::events::{Events, lock};
use crate::ffi::*;
use crate::log::unsupported;
use crate::settings::abroad;
use crate::verbs::fails;

pub(crate) unsafe extern "C" fn create_event_channel() -> *mut EventChannel {
    match Events::new() {
        Ok(events) => make_channel(events),
        Err(_) => fails(libc::EMFILE),
    }
}

pub(crate) unsafe extern "C" fn destroy_event_channel(channel: *mut EventChannel) {
    // SAFETY: the program's own channel, which it gives back.
    unsafe { drop_channel(channel) };
}

pub(crate) unsafe extern "C" fn create_id(
    channel: *mut EventChannel,
    id: *mut *mut CmId,
    context: *mut c_void,
    space: u32,
) -> c_int {
    if space != RDMA_PS_TCP && space != RDMA_PS_UDP {
        return answer(Err(unsupported("a port space other than TCP and UDP")));
    }
    // SAFETY: the program's own channel or none, and room for a pointer.
    unsafe {
        let waits = channel.is_null();
        let channel = if waits { create_event_channel() } else { channel };
        if channel.is_null() {
            return -1;
        }
        let Some(events) = events_of(channel) else {
            return answer(Err(libc::EBADF));
        };
        let made = make_id(Shared::new(events, waits, space == RDMA_PS_UDP), channel, space);
        (*made).context = context;
        id.write(made);
    }
    0
}

pub(crate) unsafe extern "C" fn destroy_id(id: *mut CmId) -> c_int {
    // SAFETY: the program's own identifier, which it gives back.
    unsafe {
        let shared = shared_of(id);
        unlisten(&shared);
        let (events, waits) = {
            let inner = lock(&shared.inner);
            (Arc::clone(&inner.events), inner.waits)
        };
        shared.destroy();
        // A listener that goes refuses the connections that were asked of it.
        let mut gone = vec![Arc::clone(&shared)];
        events.retain(|arrived| {
            let is_own = Arc::ptr_eq(&arrived.shared, &shared);
            if let (true, What::Request(_, child)) = (is_own, &arrived.what) {
                gone.push(Arc::clone(child));
            }
            !is_own
        });
        for child in &gone[1..] {
            child.destroy();
        }
        events.retain(|arrived| !gone.iter().any(|gone| Arc::ptr_eq(&arrived.shared, gone)));
        drop_event(id);
        // Threads that handle an event may use the identifier and what belongs to it.
        shared.unacknowledged.wait();
        if waits {
            destroy_event_channel((*id).channel);
        }
        drop(Box::from_raw(id.cast::<IdObject>()));
    }
    0
}

pub(crate) unsafe extern "C" fn bind_addr(id: *mut CmId, address: *const c_void) -> c_int {
    // SAFETY: the program's own identifier, and an address.
    unsafe {
        let Some(mut address) = read(address) else {
            return answer(Err(libc::EINVAL));
        };
        // Without an address it is of no device until somebody connects.
        let bound = match address.ip().is_unspecified() {
            true => opened(0).map(drop),
            false => bind_device(id, address.ip()),
        };
        if let Err(error) = bound {
            return answer(Err(error));
        }
        if address.port() == 0 {
            match take_port(&shared_of(id), (*id).ps) {
                Ok(port) => address.set_port(port),
                Err(error) => return answer(Err(error.raw_os_error().unwrap_or(libc::EIO))),
            }
        }
        write(&mut (*id).src_addr, address);
    }
    0
}

pub(crate) unsafe extern "C" fn resolve_addr(
    id: *mut CmId,
    source: *const c_void,
    target: *const c_void,
    _timeout: c_int,
) -> c_int {
    // SAFETY: the program's own identifier, and addresses.
    unsafe {
        let Some(target) = read(target) else {
            return answer(Err(libc::EINVAL));
        };
        // An address to which the identifier is bound stays, as in the kernel.
        let is_known = |source: &SocketAddr| !source.ip().is_unspecified();
        let bound = of(&(*id).src_addr).filter(is_known);
        let source = bound.or_else(|| read(source).filter(is_known));
        let mut source = source.unwrap_or_else(|| {
            let own = host_address();
            let is_far = abroad().is_some_and(|abroad| abroad.host_at(target.ip()).is_some());
            let ip = match target.ip() {
                _ if is_far => own,
                ip if (ip.is_loopback() || ip.is_ipv4() != own.is_ipv4()) && device_at(ip).is_some() => ip,
                _ => own,
            };
            SocketAddr::new(ip, of(&(*id).src_addr).map_or(0, |bound| bound.port()))
        });
        if let Err(error) = bind_device(id, source.ip()) {
            return answer(Err(error));
        }
        if source.port() == 0 {
            source.set_port(free_port((*id).ps));
        }
        write(&mut (*id).src_addr, source);
        write(&mut (*id).dst_addr, target);
        shared_of(id).happens(What::Event(RDMA_CM_EVENT_ADDR_RESOLVED, 0));
        finish(id)
    }
}

pub(crate) unsafe extern "C" fn resolve_route(id: *mut CmId, _timeout: c_int) -> c_int {
    // SAFETY: the program's own identifier.
    unsafe {
        if (*id).verbs.is_null() {
            return answer(Err(libc::EINVAL));
        }
        shared_of(id).happens(What::Event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0));
        finish(id)
    }
}

pub(crate) unsafe extern "C" fn migrate_id(id: *mut CmId, channel: *mut EventChannel) -> c_int {
    if channel.is_null() {
        return answer(Err(unsupported("rdma_migrate_id without a channel")));
    }
    let Some(new) = events_of(channel) else {
        return answer(Err(libc::EBADF));
    };
    // SAFETY: the program's own identifier.
    unsafe {
        let shared = shared_of(id);
        let mut inner = lock(&shared.inner);
        let old = std::mem::replace(&mut inner.events, Arc::clone(&new));
        inner.waits = false;
        drop(inner);
        old.move_to(&new, |arrived| Arc::ptr_eq(&arrived.shared, &shared));
        (*id).channel = channel;
    }
    0
}

pub(crate) unsafe extern "C" fn set_option(
    id: *mut CmId,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    match (level, name) {
        // Service types, and addresses that may be used again, make no difference here.
        (0, 0..=2) => 0,
        (0, 3) if len == 1 => {
            // SAFETY: the program's own identifier, and a value of one byte.
            unsafe { lock(&shared_of(id).inner).ack_timeout = Some(value.cast::<u8>().read()) };
            0
        }
        _ => answer(Err(unsupported("rdma_set_option with this option"))),
    }
}

pub(crate) unsafe extern "C" fn get_devices(count: *mut c_int) -> *mut *mut Context {
    let contexts = match contexts() {
        Ok(contexts) => contexts,
        Err(error) => return fails(error),
    };
    // SAFETY: the count may be null. The list is of libc's memory, and `free_devices` frees it.
    unsafe {
        let list: *mut *mut Context = libc::calloc(contexts.len() + 1, size_of::<*mut Context>()).cast();
        if list.is_null() {
            return fails(libc::ENOMEM);
        }
        for (at, context) in contexts.iter().enumerate() {
            *list.add(at) = *context;
        }
        if !count.is_null() {
            *count = c_int::try_from(contexts.len()).unwrap_or(0);
        }
        list
    }
}

pub(crate) unsafe extern "C" fn free_devices(list: *mut *mut Context) {
    // SAFETY: `get_devices` made it.
    unsafe { libc::free(list.cast()) };
}

pub(crate) unsafe extern "C" fn destroy_ep(id: *mut CmId) {
    // SAFETY: the program's own identifier, which it gives back.
    unsafe {
        destroy_qp(id);
        destroy_id(id);
    }
}
