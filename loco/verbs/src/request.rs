//! A work request before it is written for the device. Used by `queue_pair`, `line` and `node`.

use super::ffi::types::*;
use super::status::Op;

/// The way to force earlier puts to be placed.
#[derive(Clone, Copy)]
pub(super) struct Flush {
    /// The peer's word that is read.
    pub(super) remote: (u64, u32),
    /// The word of ours that results go to.
    pub(super) local: (u64, u32),
    /// Set if both devices support reads of length zero.
    pub(super) zero_length: bool,
}

impl Flush {
    /// Returns the word of ours that results go to.
    pub(super) fn result(self) -> Sge {
        let (addr, lkey) = self.local;
        Sge {
            addr,
            length: 8,
            lkey,
        }
    }
}

/// The parts in which work requests differ.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) op: Op,
    pub(super) opcode: u32,
    /// The piece of local memory; `None` for a read of length zero.
    pub(super) local: Option<Sge>,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    pub(super) operands: Option<(u64, u64)>,
    pub(super) flags: u32,
}

impl Request {
    /// Returns a fetch-and-add of zero, which relaxed writes do not bypass.
    pub(super) fn barrier(flush: Flush) -> Request {
        let (remote_addr, rkey) = flush.remote;
        Request {
            op: Op::Flush,
            opcode: IBV_WR_ATOMIC_FETCH_AND_ADD,
            local: Some(flush.result()),
            remote_addr,
            rkey,
            operands: Some((0, 0)),
            flags: 0,
        }
    }

    /// Returns a read that moves no data the caller sees.
    pub(super) fn read(flush: Flush) -> Request {
        let (remote_addr, rkey) = flush.remote;
        Request {
            op: Op::Flush,
            opcode: IBV_WR_RDMA_READ,
            local: (!flush.zero_length).then(|| flush.result()),
            remote_addr,
            rkey,
            operands: None,
            flags: 0,
        }
    }

    /// Writes everything except the piece of local memory. `flags` come on top of the request's own.
    #[inline]
    pub(super) fn write(&self, wr: &mut SendWr, wr_id: u64, flags: u32) {
        wr.wr_id = wr_id;
        wr.opcode = self.opcode;
        wr.send_flags = self.flags | flags;
        wr.remote_addr = self.remote_addr;
        match self.operands {
            None => wr.set_rdma_rkey(self.rkey),
            Some((first, second)) => {
                (wr.compare_add, wr.swap) = (first, second);
                wr.rkey = Padded(self.rkey);
            }
        }
        wr.num_sge = i32::from(self.local.is_some());
    }
}
