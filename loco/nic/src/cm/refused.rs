//! Refuses what this connection manager does not support: multicast, sockets over RDMA, extended options.

use std::ffi::c_int;

use super::pairs::answer;
use crate::ffi::*;
use crate::log::unsupported;

pub(crate) unsafe extern "C" fn multicast(_id: *mut CmId) -> c_int {
    answer(Err(unsupported("rdma_join_multicast")))
}

pub(crate) unsafe extern "C" fn sockets() -> c_int {
    answer(Err(unsupported("rsocket")))
}

pub(crate) unsafe extern "C" fn options(_id: *mut CmId) -> c_int {
    answer(Err(unsupported("extended connection options (ECE)")))
}

pub(crate) unsafe extern "C" fn shared_queue(_id: *mut CmId) -> c_int {
    answer(Err(unsupported("rdma_create_srq")))
}
