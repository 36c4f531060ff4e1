//! Carries out a work request: a copy, or a read-modify-write, between registered memory.

use std::ptr;
use std::sync::atomic::Ordering;

use loco_host::{bytes, word};
use loco_verbs::ffi::types::*;

use super::shared::Shared;

/// Executes a work request. The error is the status of its completion.
pub(super) fn execute(shared: &Shared, wr: &SendWr, inline_max: u32) -> Result<(), u32> {
    let len = if wr.num_sge == 0 {
        0
    } else {
        // SAFETY: a work request with elements points to them.
        unsafe { (*wr.sg_list).length as usize }
    };
    // The guard lives to the end of this function, and keeps what it resolves mapped.
    let registered = shared.registered();
    // Returns the place of the local bytes. (Inline data are private memory of the caller.)
    let local = |access: u32| -> Result<*mut u8, u32> {
        // SAFETY: as above.
        let sge = unsafe { &*wr.sg_list };
        registered
            .resolve(sge.lkey, sge.addr, len, access)
            .ok_or(IBV_WC_LOC_PROT_ERR)
    };
    // SAFETY (all blocks below): both ranges were resolved within registered, hence mapped, memory, which `registered`
    // keeps so.
    match wr.opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_READ if len == 0 => {
            let refused = wr.opcode == IBV_WR_RDMA_READ && !shared.limits.zero_length_reads;
            if refused {
                Err(IBV_WC_REM_INV_REQ_ERR)
            } else {
                Ok(())
            }
        }
        IBV_WR_RDMA_WRITE => {
            let inline = wr.send_flags & IBV_SEND_INLINE != 0;
            if inline && len > inline_max as usize {
                return Err(IBV_WC_LOC_LEN_ERR);
            }
            let to = registered
                .resolve(wr.rdma_rkey(), wr.remote_addr, len, IBV_ACCESS_REMOTE_WRITE)
                .ok_or(IBV_WC_REM_ACCESS_ERR)?;
            if inline {
                // SAFETY: inline data are `len` readable bytes, by the meaning of the flag; `to` was resolved.
                unsafe {
                    let data = ptr::with_exposed_provenance::<u8>((*wr.sg_list).addr as usize);
                    bytes::write(to, std::slice::from_raw_parts(data, len));
                }
            } else {
                let from = local(0)?;
                // SAFETY: see above.
                unsafe { bytes::copy(to, from, len) };
            }
            Ok(())
        }
        IBV_WR_RDMA_READ => {
            let from = registered
                .resolve(wr.rdma_rkey(), wr.remote_addr, len, IBV_ACCESS_REMOTE_READ)
                .ok_or(IBV_WC_REM_ACCESS_ERR)?;
            let to = local(IBV_ACCESS_LOCAL_WRITE)?;
            // SAFETY: see above.
            unsafe { bytes::copy(to, from, len) };
            Ok(())
        }
        IBV_WR_ATOMIC_FETCH_AND_ADD | IBV_WR_ATOMIC_CMP_AND_SWP => {
            let at = registered
                .resolve(wr.rkey.0, wr.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC)
                .ok_or(IBV_WC_REM_ACCESS_ERR)?;
            let to = local(IBV_ACCESS_LOCAL_WRITE)?;
            if len != 8 || !at.addr().is_multiple_of(8) || !to.addr().is_multiple_of(8) {
                return Err(IBV_WC_REM_INV_REQ_ERR);
            }
            // SAFETY: see above; both are aligned.
            unsafe {
                let found = if wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD {
                    word::fetch_add(at, wr.compare_add)
                } else {
                    let (Ok(found) | Err(found)) = word::compare_exchange(at, wr.compare_add, wr.swap);
                    found
                };
                word::store(to, found, Ordering::Release);
            }
            Ok(())
        }
        _ => Err(IBV_WC_LOC_QP_OP_ERR),
    }
}
