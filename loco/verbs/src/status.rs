//! Explains completion errors.

use super::ffi::types::*;
use loco_fabric::{FabricError, NodeId};

/// The kind of an operation, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Op {
    Put,
    Get,
    FetchAdd,
    CompareSwap,
    Flush,
}

impl Op {
    pub(super) const ALL: [Op; 5] = [Op::Put, Op::Get, Op::FetchAdd, Op::CompareSwap, Op::Flush];

    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Op::FetchAdd | Op::CompareSwap)
    }

    /// Returns true if the operation changes the peer's memory.
    pub(super) fn writes(self) -> bool {
        self == Op::Put || self.is_atomic()
    }

    /// Returns true if the caller gets a result.
    pub(super) fn has_result(self) -> bool {
        self == Op::Get || self.is_atomic()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Op::Put => "put",
            Op::Get => "get",
            Op::FetchAdd => "fetch_add",
            Op::CompareSwap => "compare_swap",
            Op::Flush => "flush",
        }
    }
}

/// Returns the error of a completion with `status`. `earlier` is the first failure of the queue pair, if it
/// is another.
pub(super) fn failure(
    op: Op,
    peer: NodeId,
    status: u32,
    vendor: u32,
    earlier: Option<&FabricError>,
) -> FabricError {
    let (name, cause) = explain(status);
    let cause = match earlier {
        Some(earlier) if status == IBV_WC_WR_FLUSH_ERR => {
            format!("not executed, because the queue pair had failed: {earlier}")
        }
        _ => cause.to_owned(),
    };
    let status = match vendor {
        0 => name.to_owned(),
        vendor => format!("{name} (status {status}, vendor error {vendor:#x})"),
    };
    FabricError::Operation {
        operation: op.name(),
        peer,
        status,
        cause,
    }
}

/// Returns the name and the likely cause of a completion status.
fn explain(status: u32) -> (&'static str, &'static str) {
    match status {
        IBV_WC_LOC_LEN_ERR => (
            "local length error",
            "the transfer is longer than the port's largest message: split it",
        ),
        IBV_WC_LOC_QP_OP_ERR => (
            "local queue pair operation error",
            "the device could not process the request: a length or an inline size beyond its limits, or a fault in \
             this library",
        ),
        IBV_WC_LOC_EEC_OP_ERR => (
            "local end-to-end context error",
            "does not occur on reliable connections",
        ),
        IBV_WC_LOC_PROT_ERR => (
            "local protection error",
            "the local buffer is not (or no longer) registered with this fabric: memory of another fabric, or \
             freed while in use",
        ),
        IBV_WC_WR_FLUSH_ERR => (
            "flushed",
            "the connection was closed, or the peer ended, before the operation was executed",
        ),
        IBV_WC_MW_BIND_ERR => ("memory window bind error", "does not occur: windows are not used"),
        IBV_WC_BAD_RESP_ERR => (
            "bad response",
            "the peer's device answered out of protocol: mixed firmware or a broken link",
        ),
        IBV_WC_LOC_ACCESS_ERR => (
            "local access error",
            "the local buffer is not registered for writing",
        ),
        IBV_WC_REM_INV_REQ_ERR => (
            "remote invalid request",
            "the peer's device refused the request: more reads outstanding than it can track, an atomic on a word \
             that is not aligned, or an operation it does not have",
        ),
        IBV_WC_REM_ACCESS_ERR => (
            "remote access error",
            "the peer does not, or no longer, have that memory registered: it freed it (a dropped channel), or the \
             region key is from another run",
        ),
        IBV_WC_REM_OP_ERR => (
            "remote operation error",
            "the peer's device could not complete the request: see its kernel log",
        ),
        IBV_WC_RETRY_EXC_ERR => (
            "transport retry counter exceeded",
            "the peer did not acknowledge: its process or host is down, the link is down or loses packets (PFC or \
             ECN not configured), or a firewall drops UDP port 4791; check `rdma link` and `ping` on both hosts",
        ),
        IBV_WC_RNR_RETRY_EXC_ERR => (
            "receiver-not-ready retry counter exceeded",
            "does not occur with one-sided operations: is the peer another program?",
        ),
        IBV_WC_LOC_RDD_VIOL_ERR => ("local RDD violation", "does not occur on reliable connections"),
        IBV_WC_REM_INV_RD_REQ_ERR => (
            "remote invalid RD request",
            "does not occur on reliable connections",
        ),
        IBV_WC_REM_ABORT_ERR => (
            "remote aborted",
            "the peer's device aborted the operation: see its kernel log",
        ),
        IBV_WC_INV_EECN_ERR => (
            "invalid end-to-end context",
            "does not occur on reliable connections",
        ),
        IBV_WC_INV_EEC_STATE_ERR => (
            "invalid end-to-end context state",
            "does not occur on reliable connections",
        ),
        IBV_WC_FATAL_ERR => (
            "fatal device error",
            "the device stopped: see this host's kernel log, reset it",
        ),
        IBV_WC_RESP_TIMEOUT_ERR => (
            "response timeout",
            "the peer's device does not answer: is its host down?",
        ),
        IBV_WC_GENERAL_ERR => (
            "general error",
            "the device does not say more: see this host's kernel log",
        ),
        IBV_WC_TM_ERR => ("tag matching error", "does not occur: tags are not used"),
        IBV_WC_TM_RNDV_INCOMPLETE => ("rendezvous incomplete", "does not occur: tags are not used"),
        _ => ("unknown status", "newer than this library: see ibv_poll_cq(3)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_own_name_and_a_cause() {
        let mut names: Vec<_> = (1..=IBV_WC_TM_RNDV_INCOMPLETE).map(explain).collect();
        assert!(
            names
                .iter()
                .all(|(name, cause)| *name != "unknown status" && !cause.is_empty())
        );
        names.sort_unstable();
        names.dedup_by_key(|(name, _)| *name);
        assert_eq!(names.len() as u32, IBV_WC_TM_RNDV_INCOMPLETE);
    }

    #[test]
    fn a_flushed_operation_names_the_one_that_failed() {
        let first = failure(Op::Put, NodeId(2), IBV_WC_REM_ACCESS_ERR, 0, None);
        let flushed = failure(Op::Get, NodeId(2), IBV_WC_WR_FLUSH_ERR, 0, Some(&first)).to_string();
        assert!(
            flushed.contains("get towards node 2 failed: flushed"),
            "{flushed}"
        );
        assert!(
            flushed.contains("put towards node 2 failed: remote access error"),
            "{flushed}"
        );
    }
}
