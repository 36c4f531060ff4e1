//! The cost of a null device itself, for the measurement of the code above it.

use std::ptr;

use loco_verbs::ffi::types::*;

use super::device::AlteredDevice;
use super::requests::{poll_cq, post_send};
use super::state::{Limits, zeroed};
use super::table;

/// Posts to and polls a queue pair of a null device by hand, without the fabric.
pub struct NullLoop {
    qp: *mut Qp,
    cq: *mut Cq,
    pd: *mut Pd,
}

impl NullLoop {
    /// Makes a loop with a null device of its own.
    ///
    /// # Panics
    /// Panics if this process has a NIC that does not carry requests out at once, or if the NIC refuses a queue pair.
    pub fn new() -> NullLoop {
        let device = AlteredDevice::new(Limits {
            null: true,
            ..Limits::default()
        });
        let (api, context) = (table::api(), device.0.context());
        // SAFETY: the device lives as long as the process; what is made here is destroyed in reverse order.
        unsafe {
            let pd = (api.alloc_pd)(context);
            let cq = (api.create_cq)(context, 256, ptr::null_mut(), ptr::null_mut(), 0);
            let mut attr = QpInitAttr {
                send_cq: cq,
                recv_cq: cq,
                cap: QpCap {
                    max_send_wr: 256,
                    ..zeroed()
                },
                qp_type: IBV_QPT_RC,
                ..zeroed()
            };
            let qp = (api.create_qp)(pd, &raw mut attr);
            assert!(!qp.is_null(), "the NIC refused a queue pair");
            NullLoop { qp, cq, pd }
        }
    }

    /// Posts `n` signaled writes one by one and polls their completions.
    pub fn post_and_poll(&mut self, n: u64) {
        let mut wr: SendWr = zeroed();
        wr.send_flags = IBV_SEND_SIGNALED;
        let mut wcs = [zeroed::<Wc>(); 32];
        let mut bad = ptr::null_mut();
        // SAFETY: queue pair and completion queue are live; a request without pieces, one at a time.
        unsafe {
            for id in 0..n {
                wr.wr_id = id;
                post_send(self.qp, &raw mut wr, &raw mut bad);
            }
            let mut left = n;
            while left > 0 {
                left -= u64::from(poll_cq(self.cq, 32, wcs.as_mut_ptr()).unsigned_abs());
            }
        }
    }
}

impl Default for NullLoop {
    fn default() -> NullLoop {
        NullLoop::new()
    }
}

impl Drop for NullLoop {
    fn drop(&mut self) {
        let api = table::api();
        // SAFETY: made by `new`, destroyed once, in reverse order.
        unsafe {
            (api.destroy_qp)(self.qp);
            (api.destroy_cq)(self.cq);
            (api.dealloc_pd)(self.pd);
        }
    }
}
