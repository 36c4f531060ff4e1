//! Work requests that wait for their doorbell. Used by `queue_pair`.

use std::ptr;

use super::ffi::types::*;

/// The number of work requests that one doorbell can cover (see [`Work::more`](loco_fabric::Work::more)).
pub(super) const CHAIN_MAX: usize = 32;

/// Work requests that are linked together and wait for their doorbell.
pub(super) struct Chain {
    pub(super) wrs: Box<[SendWr]>,
    pub(super) sges: Box<[Sge]>,
    /// The data of waiting inline puts, `inline_bytes_max` for each.
    pub(super) data: Box<[u8]>,
    pub(super) inline_bytes_max: usize,
    /// A bit for each request: if bit `n` is set, `data` has the data of request `n`.
    pub(super) kept: u32,
    pub(super) len: usize,
}

const _: () = assert!(CHAIN_MAX <= u32::BITS as usize, "a bit a request");

impl Chain {
    pub(super) fn new(len_max: usize, inline_bytes_max: usize) -> Chain {
        Chain {
            wrs: vec![zeroed::<SendWr>(); len_max].into_boxed_slice(),
            sges: vec![zeroed::<Sge>(); len_max].into_boxed_slice(),
            data: vec![0; len_max * inline_bytes_max].into_boxed_slice(),
            inline_bytes_max,
            kept: 0,
            len: 0,
        }
    }

    /// Links the requests to one another and to their pieces of memory, and returns the first. The pointers
    /// are valid until the chain is moved or accessed again. They are therefore made here, for one doorbell,
    /// and not kept.
    #[inline]
    pub(super) fn link(&mut self) -> *mut SendWr {
        let wrs = self.wrs.as_mut_ptr();
        let sges = self.sges.as_mut_ptr();
        let data = self.data.as_ptr();
        for at in 0..self.len {
            // SAFETY: `len` is at most the length of both slices; kept data lie within `data`, `inline_bytes_max` each.
            unsafe {
                let (wr, sge) = (wrs.add(at), sges.add(at));
                (*wr).sg_list = sge;
                (*wr).next = if at + 1 < self.len {
                    wrs.add(at + 1)
                } else {
                    ptr::null_mut()
                };
                if self.kept & 1 << at != 0 {
                    (*sge).addr = data.add(at * self.inline_bytes_max).expose_provenance() as u64;
                }
            }
        }
        self.kept = 0;
        wrs
    }
}
