//! Queue pairs and shared receive queues as the NIC sees them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::bus::{Bus, Run};
use crate::completions::{Completion, Completions};
use crate::devices::Identity;
use crate::events::Events;
use crate::ffi::*;
use crate::wire::Message;

/// A work request of a send queue.
pub(crate) struct Request {
    pub wr_id: u64,
    pub opcode: u32,
    pub flags: u32,
    /// The immediate value, or the key to invalidate.
    pub immediate: u32,
    pub elements: Vec<Sge>,
    /// The data of an inline request, which are copied when it is posted.
    pub inline: Option<Vec<u8>>,
    pub remote_addr: u64,
    pub rkey: u32,
    /// The operands of an atomic.
    pub operands: (u64, u64),
    /// Where a datagram goes: GID, number and key of the queue pair.
    pub datagram: Option<(RawGid, u32, u32)>,
}

impl Request {
    /// Returns true for operations that bring a value back.
    pub fn has_result(&self) -> bool {
        matches!(
            self.opcode,
            IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD
        )
    }
}

/// How far a work request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is sent at this time or later.
    Waiting(u64),
    /// It is on its way, or its answer is.
    Sent,
    /// Its result has come, and is on its way to memory.
    Landing,
    /// It has ended with this status and number of bytes, which is reported at this time or later.
    Ended(u32, u32, u64),
}

/// A work request in a send queue.
pub(super) struct Sending {
    pub request: Request,
    pub seq: u64,
    pub stage: Stage,
    /// When it fails because its peer does not answer, once that is known.
    pub fails_at: Option<u64>,
    /// Its result, if that has come before an earlier one and must land after it.
    pub early: Option<Message>,
    /// When it was posted, for the trace.
    pub begun: u64,
}

/// A receive request.
pub(crate) struct Receive {
    pub wr_id: u64,
    pub elements: Vec<Sge>,
}

/// A request that another NIC has sent.
pub(super) struct Incoming {
    pub message: Message,
    /// The link that its answer takes.
    pub link: u64,
    /// It is carried out at this time or later.
    pub ready_at: u64,
    /// Until when it waits for a receive, once there was none.
    pub waits_until: Option<u64>,
    /// What of a read is not read, the next at the end.
    pub gathering: Option<Vec<Run>>,
    /// When it came, for the trace.
    pub begun: u64,
}

/// A shared receive queue.
pub(crate) struct SharedReceives {
    pub pd: u32,
    pub receives: VecDeque<Receive>,
    pub max_wr: u32,
    pub max_sge: u32,
    pub limit: u32,
    /// The program's object, for events.
    pub address: usize,
    pub events: Arc<Events<AsyncEvent>>,
}

impl SharedReceives {
    /// Takes the oldest receive, and reports when fewer are left than the program wants to know of.
    pub(super) fn take(&mut self) -> Option<Receive> {
        let receive = self.receives.pop_front();
        if self.receives.len() < self.limit as usize {
            self.limit = 0;
            self.events.push(AsyncEvent {
                element: self.address,
                event_type: IBV_EVENT_SRQ_LIMIT_REACHED,
            });
        }
        receive
    }
}

/// A queue pair.
pub(crate) struct QueuePair {
    pub qpn: u32,
    /// The device that it is of.
    pub device: &'static Identity,
    pub kind: u32,
    pub pd: u32,
    pub attr: QpAttr,
    pub cap: QpCap,
    pub signal_all: bool,
    pub send_cq: Arc<Completions>,
    pub recv_cq: Arc<Completions>,
    pub srq: Option<u32>,
    /// The program's object, for events.
    pub address: usize,
    pub events: Arc<Events<AsyncEvent>>,
    pub(super) sends: VecDeque<Sending>,
    /// The number of requests at the front of `sends` that are not waiting.
    pub(super) sent: usize,
    pub(super) next_seq: u64,
    /// The places of the send queue that are taken, and of the receive queue.
    pub sends_used: Arc<AtomicU32>,
    pub receives_used: Arc<AtomicU32>,
    /// Requests without a completion since the last one with.
    pub(super) uncovered: u32,
    pub(super) receives: VecDeque<Receive>,
    pub(super) inbox: VecDeque<Incoming>,
    /// Data of others, on its way to this process's memory.
    pub(super) remote: Bus,
    /// Results of own requests.
    pub(super) local: Bus,
    /// True if a failure was seen and the queues are to be flushed.
    pub(super) failed: bool,
    /// True if a request was lost with its link. What is behind it is not sent, though another link may come about.
    pub(super) has_lost: bool,
    /// True if the program was told that a peer has spoken before this side was brought to `RTS`.
    pub(super) told_established: bool,
    /// True if the program asked for an event when the send queue is drained.
    pub tells_drained: bool,
}

/// What a queue pair is made with.
pub(crate) struct Making {
    pub device: &'static Identity,
    pub kind: u32,
    pub pd: u32,
    pub cap: QpCap,
    pub signal_all: bool,
    pub send_cq: Arc<Completions>,
    pub recv_cq: Arc<Completions>,
    pub srq: Option<u32>,
    pub events: Arc<Events<AsyncEvent>>,
}

impl QueuePair {
    /// Makes a queue pair in the state `RESET`.
    pub(super) fn new(qpn: u32, making: Making) -> QueuePair {
        QueuePair {
            qpn,
            device: making.device,
            kind: making.kind,
            pd: making.pd,
            attr: zeroed(),
            cap: making.cap,
            signal_all: making.signal_all,
            send_cq: making.send_cq,
            recv_cq: making.recv_cq,
            srq: making.srq,
            address: 0,
            events: making.events,
            sends: VecDeque::new(),
            sent: 0,
            next_seq: 0,
            sends_used: Arc::new(AtomicU32::new(0)),
            receives_used: Arc::new(AtomicU32::new(0)),
            uncovered: 0,
            receives: VecDeque::new(),
            inbox: VecDeque::new(),
            remote: Bus::default(),
            local: Bus::default(),
            failed: false,
            has_lost: false,
            told_established: false,
            tells_drained: false,
        }
    }

    /// Returns the state.
    pub fn state(&self) -> u32 {
        self.attr.qp_state
    }

    /// Returns true if it takes messages.
    pub(super) fn receives_messages(&self) -> bool {
        matches!(
            self.state(),
            IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE
        )
    }

    /// Returns true in the state `SQD` until what was sent has ended.
    pub fn is_draining(&self) -> bool {
        let under_way = |sending: &Sending| matches!(sending.stage, Stage::Sent | Stage::Landing);
        self.state() == IBV_QPS_SQD && self.sends.iter().any(under_way)
    }

    /// Reports that the send queue is drained, if that was asked for and is so.
    pub(super) fn tell_drained(&mut self) {
        if self.tells_drained && !self.is_draining() {
            self.tells_drained = false;
            if self.state() == IBV_QPS_SQD {
                self.event(IBV_EVENT_SQ_DRAINED);
            }
        }
    }

    /// Reports an event of this queue pair.
    pub(super) fn event(&self, event_type: u32) {
        self.events.push(AsyncEvent {
            element: self.address,
            event_type,
        });
    }

    /// Empties all queues, as `RESET` does.
    pub(super) fn reset(&mut self) {
        self.sends.clear();
        self.receives.clear();
        self.inbox.clear();
        self.remote.clear();
        self.local.clear();
        self.sent = 0;
        self.uncovered = 0;
        self.failed = false;
        self.has_lost = false;
        self.told_established = false;
        self.tells_drained = false;
        self.sends_used = Arc::new(AtomicU32::new(0));
        self.receives_used = Arc::new(AtomicU32::new(0));
        self.send_cq.forget(self.qpn);
        self.recv_cq.forget(self.qpn);
    }

    /// Makes the completion of a receive.
    pub(super) fn received(&self, receive: &Receive, status: u32) -> Completion {
        let mut wc: Wc = zeroed();
        wc.wr_id = receive.wr_id;
        wc.status = status;
        wc.opcode = IBV_WC_RECV;
        wc.qp_num = self.qpn;
        Completion {
            wc,
            frees: self.srq.is_none().then(|| (Arc::clone(&self.receives_used), 1)),
            solicited: false,
        }
    }

    /// Takes a place of a queue. Returns false if there is none.
    pub(super) fn take_place(used: &AtomicU32, places: u32) -> bool {
        used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            (used < places).then_some(used + 1)
        })
        .is_ok()
    }
}

/// Returns the name of an operation, for the trace.
pub(super) fn operation(opcode: u32) -> &'static str {
    match opcode {
        IBV_WR_RDMA_WRITE => "write",
        IBV_WR_RDMA_WRITE_WITH_IMM => "write with immediate",
        IBV_WR_RDMA_READ => "read",
        IBV_WR_ATOMIC_CMP_AND_SWP => "compare and swap",
        IBV_WR_ATOMIC_FETCH_AND_ADD => "fetch and add",
        _ => "send",
    }
}

/// Returns what a card reports as the opcode of a request's completion.
pub(super) fn completion_opcode(opcode: u32) -> u32 {
    match opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => IBV_WC_RDMA_WRITE,
        IBV_WR_RDMA_READ => IBV_WC_RDMA_READ,
        IBV_WR_ATOMIC_CMP_AND_SWP => IBV_WC_COMP_SWAP,
        IBV_WR_ATOMIC_FETCH_AND_ADD => IBV_WC_FETCH_ADD,
        _ => IBV_WC_SEND,
    }
}
