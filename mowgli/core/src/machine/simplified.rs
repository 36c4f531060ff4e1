//! The simplified queue pair: RDMA-TSO'24 Fig. 19, and `docs/rmw.md` for read-modify-writes.
//!
//! Relies on [`super::buffers`]. The entries ahead of a pipe entry (the `β` of the figure) and the write-back buffers decide which rules
//! are enabled for it. The effects of the rules are in [`super::Machine::apply`].

use super::buffers::{QueuePair, Stage};
use super::{Config, Rule};

/// Calls `push` with every enabled rule of the pipe and the index of its entry.
pub(super) fn enabled(qp: &QueuePair, config: Config, unit_free: bool, push: &mut impl FnMut(Rule, usize)) {
    // The kinds of entries in `β`, the entries ahead of the present one.
    let (mut unread_put, mut unwritten_put, mut rmw) = (false, false, false);
    let read_flushed = !config.pcie || qp.wb_r.is_empty();
    for (i, entry) in qp.pipe.iter().enumerate() {
        match entry.stage {
            Stage::Fence => {
                if i == 0 {
                    push(Rule::Fence, 0);
                }
                // No rule allows a fence in β.
                break;
            }
            Stage::Put { .. } => {
                if !unread_put && (!config.pcie || !qp.has_local_write()) {
                    push(Rule::LocalRead, i);
                }
                unread_put = true;
            }
            Stage::PutValue { .. } => {
                if !unread_put && !unwritten_put && !rmw {
                    push(Rule::RemoteWrite, i);
                }
                unwritten_put = true;
            }
            Stage::Ack | Stage::Done => {
                if i == 0 {
                    push(Rule::Complete, 0);
                }
            }
            Stage::Get { .. } => {
                if !unread_put && !unwritten_put && !rmw && read_flushed {
                    push(Rule::RemoteRead, i);
                }
            }
            Stage::Value { .. } => {
                // The write of an RMW is placed before its result is written.
                if i == 0 && (!config.in_order || qp.wb_r.is_empty()) {
                    push(Rule::Respond, 0);
                }
            }
            Stage::Rmw { .. } => {
                // An RMW reads memory itself, so this queue pair's earlier writes are flushed with or without the PCIe guarantee.
                if !unread_put && !unwritten_put && !rmw && qp.wb_r.is_empty() && unit_free {
                    push(Rule::AtomicRead, i);
                }
                rmw = true;
            }
            Stage::Executing { .. } => {
                push(Rule::AtomicWrite, i);
                rmw = true;
            }
        }
    }
}
