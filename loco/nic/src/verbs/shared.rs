//! Shared receive queues.

use std::collections::VecDeque;
use std::ffi::c_int;

use super::device::{ELEMENTS_MAX, QUEUE_MAX};
use super::objects::{SrqObject, events_of, fails, give, handle, take_back};
use super::posting::elements;
use crate::engine::{Receive, SharedReceives, nic, poke};
use crate::events::Unacknowledged;
use crate::ffi::*;
use crate::log::{once, unsupported};

pub(crate) unsafe extern "C" fn create_srq(pd: *mut Pd, init: *mut SrqInitAttr) -> *mut Srq {
    // SAFETY: the program's own domain, and attributes.
    unsafe {
        let (domain, init) = (handle::<Pd>(pd), &*init);
        let attr = init.attr;
        if attr.max_wr == 0 || attr.max_wr > QUEUE_MAX || attr.max_sge > ELEMENTS_MAX {
            return fails(libc::EINVAL);
        }
        let mut nic = nic();
        let number = nic.add_srq(SharedReceives {
            pd: domain.handle,
            receives: VecDeque::new(),
            max_wr: attr.max_wr,
            max_sge: attr.max_sge.max(1),
            limit: 0,
            address: 0,
            events: events_of(domain.context),
        });
        let mut srq: Srq = zeroed();
        srq.context = domain.context;
        srq.srq_context = init.srq_context;
        srq.pd = pd;
        srq.handle = number;
        let made: *mut Srq = give(SrqObject {
            srq,
            number,
            unacknowledged_async: Unacknowledged::default(),
        });
        if let Some(shared) = nic.srqs.get_mut(&number) {
            shared.address = made.expose_provenance();
        }
        made
    }
}

pub(super) unsafe extern "C" fn create_srq_ex(context: *mut Context, init: *mut SrqInitAttrEx) -> *mut Srq {
    // SAFETY: the caller gives attributes, which begin as the plain ones do.
    unsafe {
        let given = &*init;
        let has_type = given.comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0;
        if has_type && given.srq_type != IBV_SRQT_BASIC {
            return fails(unsupported(
                "a shared receive queue of this type (XRC, tag matching)",
            ));
        }
        if given.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
            return fails(libc::EINVAL);
        }
        if (*given.pd).context != context {
            once("ibv_create_srq_ex: the domain is not of this opened device (EINVAL)");
            return fails(libc::EINVAL);
        }
        create_srq(given.pd, init.cast())
    }
}

pub(super) unsafe extern "C" fn get_srq_num(_srq: *mut Srq, _number: *mut u32) -> c_int {
    unsupported("ibv_get_srq_num")
}

pub(crate) unsafe extern "C" fn destroy_srq(srq: *mut Srq) -> c_int {
    // SAFETY: the program's own queue, which it gives back.
    unsafe {
        let object: &SrqObject = handle(srq);
        let mut nic = nic();
        if nic.any_qp(|qp| qp.srq == Some(object.number)) {
            return libc::EBUSY;
        }
        nic.remove_srq(object.number);
        // Unlocks the device first: the thread that acknowledges the events may use it meanwhile.
        drop(nic);
        object.unacknowledged_async.wait();
        drop(take_back::<SrqObject>(srq));
    }
    0
}

pub(crate) unsafe extern "C" fn modify_srq(srq: *mut Srq, attr: *mut SrqAttr, mask: c_int) -> c_int {
    let mask = mask.cast_unsigned();
    if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
        return libc::EINVAL;
    }
    // SAFETY: the program's own queue, and attributes.
    unsafe {
        let mut nic = nic();
        let Some(shared) = nic.srqs.get_mut(&handle::<SrqObject>(srq).number) else {
            return libc::EINVAL;
        };
        let given = &*attr;
        if mask & IBV_SRQ_MAX_WR != 0 {
            if given.max_wr > QUEUE_MAX || (given.max_wr as usize) < shared.receives.len() {
                return libc::EINVAL;
            }
            shared.max_wr = given.max_wr;
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            if given.srq_limit > shared.max_wr {
                return libc::EINVAL;
            }
            shared.limit = given.srq_limit;
        }
    }
    0
}

pub(crate) unsafe extern "C" fn query_srq(srq: *mut Srq, attr: *mut SrqAttr) -> c_int {
    // SAFETY: the program's own queue, and room for the attributes.
    unsafe {
        let nic = nic();
        let Some(shared) = nic.srqs.get(&handle::<SrqObject>(srq).number) else {
            return libc::EINVAL;
        };
        attr.write(SrqAttr {
            max_wr: shared.max_wr,
            max_sge: shared.max_sge,
            srq_limit: shared.limit,
        });
    }
    0
}

pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut Srq,
    first: *mut RecvWr,
    bad: *mut *mut RecvWr,
) -> c_int {
    // SAFETY: the program's own queue, and a list of requests.
    unsafe {
        let number = handle::<SrqObject>(srq).number;
        let mut nic = nic();
        let mut wr = first;
        while !wr.is_null() {
            let posted = match nic.srqs.get_mut(&number) {
                None => Err(libc::EINVAL),
                Some(shared) if shared.receives.len() >= shared.max_wr as usize => Err(libc::ENOMEM),
                Some(shared) => elements((*wr).sg_list, (*wr).num_sge, shared.max_sge).map(|elements| {
                    let wr_id = (*wr).wr_id;
                    shared.receives.push_back(Receive { wr_id, elements });
                }),
            };
            if let Err(error) = posted {
                if !bad.is_null() {
                    bad.write(wr);
                }
                return error;
            }
            wr = (*wr).next;
        }
        nic.receives_added(number);
        poke(nic);
    }
    0
}
