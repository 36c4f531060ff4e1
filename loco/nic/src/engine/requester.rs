//! The side of a queue pair that sends requests and ends them.

use std::sync::Arc;

use loco_fabric::Tier;

use super::bus::Load;
use super::core::{Nic, patience};
use super::order::answers_in_order;
use super::queue::{QueuePair, Request, Sending, Stage, completion_opcode, operation};
use crate::completions::Completion;
use crate::counts::{Count, count};
use crate::dice::Step;
use crate::ffi::*;
use crate::memory::{first, gather};
use crate::trace::{self, About, Side};
use crate::wire::{Header, MESSAGE_MAX, Message, flag, kind};
use crate::world::LOCAL_BITS;

/// The longest datagram.
const DATAGRAM_MAX: u64 = 4096;

impl Nic {
    /// Takes a work request into a send queue.
    ///
    /// # Errors
    /// Returns the number of the error of `ibv_post_send`.
    pub fn post(&mut self, qpn: u32, request: Request) -> Result<(), i32> {
        let now = self.now();
        let delay = self.dice.delay(now, (qpn, Step::Source));
        let qp = self.qps.get_mut(&qpn).ok_or(libc::EINVAL)?;
        if !matches!(qp.state(), IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE | IBV_QPS_ERR) {
            return Err(libc::EINVAL);
        }
        if !QueuePair::take_place(&qp.sends_used, qp.cap.max_send_wr) {
            return Err(libc::ENOMEM);
        }
        let stage = match qp.state() {
            IBV_QPS_ERR | IBV_QPS_SQE => Stage::Ended(IBV_WC_WR_FLUSH_ERR, 0, now),
            _ => Stage::Waiting(now + delay),
        };
        if delay > 0 && request.inline.is_none() {
            count(Count::LateSources);
        }
        qp.sends.push_back(Sending {
            request,
            seq: qp.next_seq,
            stage,
            fails_at: None,
            early: None,
            begun: trace::clock(),
        });
        qp.next_seq += 1;
        self.active.insert(qpn);
        Ok(())
    }

    /// Sends what may be sent. Returns when there is more to do, if time alone decides.
    pub(super) fn transmit(&mut self, qp: &mut QueuePair, now: u64) -> Option<u64> {
        if qp.state() != IBV_QPS_RTS {
            return None;
        }
        let mut due: Option<u64> = None;
        let any_order = self.tier == Tier::Unordered && !self.dice.is_plain();
        let mut at = qp.sent;
        while at < qp.sends.len() {
            let Stage::Waiting(ready_at) = qp.sends[at].stage else {
                at += 1;
                continue;
            };
            if self.is_held(qp, at) {
                self.has_news |= !self.wants_answers;
                self.wants_answers = true;
                break;
            }
            if ready_at > now {
                due = Some(due.map_or(ready_at, |due| due.min(ready_at)));
                if any_order {
                    at += 1;
                    continue;
                }
                break;
            }
            let Some(stage) = self.send_request(qp, at, now) else {
                // The link takes no more; when it does, the queue pair has its turn.
                break;
            };
            qp.sends[at].stage = stage;
            if matches!(stage, Stage::Ended(status, ..) if status != IBV_WC_SUCCESS) {
                break;
            }
            at += 1;
        }
        while qp
            .sends
            .get(qp.sent)
            .is_some_and(|sending| !matches!(sending.stage, Stage::Waiting(_)))
        {
            qp.sent += 1;
        }
        due
    }

    /// Returns whether a request waits for results of earlier ones: it has the fence flag, or as many are under way as may be.
    fn is_held(&self, qp: &QueuePair, at: usize) -> bool {
        let request = &qp.sends[at].request;
        let fenced = request.flags & IBV_SEND_FENCE != 0;
        if !fenced && !request.has_result() {
            return false;
        }
        let under_way = qp
            .sends
            .iter()
            .take(at)
            .filter(|earlier| earlier.request.has_result() && !matches!(earlier.stage, Stage::Ended(..)));
        let under_way = under_way.count();
        let most = usize::from(qp.attr.max_rd_atomic.max(1));
        fenced && under_way > 0 || request.has_result() && under_way >= most
    }

    /// Sends a request. Returns its stage after that, or `None` if it must wait for the link.
    fn send_request(&mut self, qp: &mut QueuePair, at: usize, now: u64) -> Option<Stage> {
        let failed = |status| Some(Stage::Ended(status, 0, now));
        let sending = &qp.sends[at];
        let request = &sending.request;
        if request.has_result() && qp.attr.max_rd_atomic == 0 {
            return failed(IBV_WC_LOC_QP_OP_ERR);
        }
        let mut header = match head(qp, request, sending.seq) {
            Ok(header) => header,
            Err(status) => return failed(status),
        };
        let len = length(request);
        let limit = match qp.kind {
            IBV_QPT_UD => DATAGRAM_MAX,
            _ => MESSAGE_MAX,
        };
        if len > limit {
            return failed(IBV_WC_LOC_LEN_ERR);
        }
        let destination = header.to;
        // A target takes nothing behind a request that is missing.
        let way = match qp.has_lost {
            true => None,
            false => self.way_to(destination),
        };
        if way.is_some_and(|way| self.links.get(&way).is_some_and(|link| link.is_crowded())) {
            // Before anything is drawn: a request that waits is asked for again and again.
            return None;
        }
        if self.breaks_qp() {
            // As a card reports an error of its own: an event, and nothing of the request is sent.
            qp.event(IBV_EVENT_QP_FATAL);
            qp.failed = true;
            return failed(IBV_WC_WR_FLUSH_ERR);
        }
        if let Some((gid, ..)) = request.datagram {
            header.gid = qp.device.gid_beside(&gid);
        }
        self.may_lose_link(destination >> LOCAL_BITS);
        let Some(way) = way.filter(|way| self.links.contains_key(way)) else {
            return Some(self.unreachable(qp, at, now));
        };
        let mut data = Vec::new();
        let request = &qp.sends[at].request;
        if request.has_result() {
            header.wanted = u32::try_from(len).unwrap_or(u32::MAX);
            if self
                .memory
                .resolve_all(&request.elements, qp.pd, IBV_ACCESS_LOCAL_WRITE)
                .is_err()
            {
                return failed(IBV_WC_LOC_PROT_ERR);
            }
        } else if let Some(inline) = &request.inline {
            data.clone_from(inline);
        } else {
            match self.memory.resolve_all(&request.elements, qp.pd, 0) {
                Ok(pieces) => gather(&pieces, &mut data),
                Err(_) => return failed(IBV_WC_LOC_PROT_ERR),
            }
        }
        if self.dice.is_plain() && !request.has_result() {
            header.flags |= flag::UNHURRIED;
        }
        count(Count::Sent);
        trace::moment("sent", about(qp.qpn, header.seq, header.addr, len));
        let unreliable = header.has(flag::UNRELIABLE);
        let sent = unreliable && self.loses() || self.send(way, &header, &data);
        match (sent, unreliable) {
            (_, true) => {
                let len = u32::try_from(len).unwrap_or(u32::MAX);
                let delay = self.dice.delay(now, (qp.qpn, Step::Completion));
                Some(Stage::Ended(IBV_WC_SUCCESS, len, now + delay))
            }
            (true, false) => Some(Stage::Sent),
            (false, false) => Some(self.unreachable(qp, at, now)),
        }
    }

    /// Returns the stage of a request whose target is gone: it fails when the queue pair's patience is over.
    fn unreachable(&mut self, qp: &mut QueuePair, at: usize, now: u64) -> Stage {
        if qp.kind != IBV_QPT_RC {
            return Stage::Ended(IBV_WC_SUCCESS, 0, now);
        }
        qp.has_lost = true;
        let patience = patience(&qp.attr);
        if patience > 0 {
            // The others went over the same link.
            for (other, sending) in qp.sends.iter_mut().enumerate() {
                if other == at || sending.stage == Stage::Sent {
                    sending.fails_at.get_or_insert(now + patience);
                }
            }
        }
        Stage::Sent
    }

    /// Takes the answer to a request.
    pub(super) fn answered(&mut self, message: Message) {
        let now = self.now();
        let header = message.header;
        let Some(mut qp) = self.qps.remove(&header.to) else {
            return;
        };
        let front = qp.sends.front().map_or(0, |sending| sending.seq);
        let at = usize::try_from(header.seq.wrapping_sub(front)).unwrap_or(usize::MAX);
        let is_expected =
            header.from == qp.attr.dest_qp_num && qp.sends.get(at).is_some_and(|it| it.stage == Stage::Sent);
        if is_expected && self.comes_early(&qp, at, &message) {
            qp.sends[at].early = Some(message);
        } else if is_expected {
            self.take_answer(&mut qp, at, message, now);
            while let Some((at, message)) = self.no_longer_early(&mut qp) {
                self.take_answer(&mut qp, at, message, now);
            }
        }
        self.active.insert(qp.qpn);
        self.qps.insert(qp.qpn, qp);
    }

    /// Returns whether a result has come before an earlier one, which a network that answers in order does not let happen: a later
    /// atomic may be carried out first, but its result lands second.
    fn comes_early(&self, qp: &QueuePair, at: usize, message: &Message) -> bool {
        let succeeds = u32::from(message.header.status) == IBV_WC_SUCCESS;
        answers_in_order(self.tier) && succeeds && qp.sends[at].request.has_result() && {
            let mut earlier = qp.sends.iter().take(at);
            earlier.any(|earlier| earlier.request.has_result() && earlier.stage == Stage::Sent)
        }
    }

    /// Takes the oldest result that has come early and may land now.
    fn no_longer_early(&self, qp: &mut QueuePair) -> Option<(usize, Message)> {
        let oldest = |sending: &Sending| sending.request.has_result() && sending.stage == Stage::Sent;
        let at = qp.sends.iter().position(oldest)?;
        qp.sends[at].early.take().map(|message| (at, message))
    }

    /// Takes the answer to a request that is under way.
    fn take_answer(&mut self, qp: &mut QueuePair, at: usize, message: Message, now: u64) {
        let header = message.header;
        let delay = self.dice.delay(now, (qp.qpn, Step::Completion));
        let request = &qp.sends[at].request;
        let len = u32::try_from(length(request)).unwrap_or(u32::MAX);
        let mut status = u32::from(header.status);
        if status == IBV_WC_SUCCESS && request.has_result() {
            let elements = &request.elements;
            let pieces = self.memory.resolve_all(elements, qp.pd, IBV_ACCESS_LOCAL_WRITE);
            match pieces.ok().and_then(|pieces| first(&pieces, message.data.len())) {
                Some(pieces) if message.data.len() as u64 == u64::from(len) => {
                    qp.sends[at].stage = Stage::Landing;
                    let load = Load {
                        pieces: &pieces,
                        bytes: message.data,
                        ends: Some(header.seq),
                        atomic: false,
                        about: about(qp.qpn, header.seq, 0, u64::from(len)),
                    };
                    qp.local.write(load, now, self.tier, &mut self.dice);
                }
                _ => status = IBV_WC_LOC_PROT_ERR,
            }
        }
        if qp.sends[at].stage != Stage::Landing {
            if delay > 0 {
                count(Count::LateCompletions);
            }
            qp.sends[at].stage = Stage::Ended(status, len, now + delay);
        }
        trace::moment("answered", about(qp.qpn, header.seq, 0, u64::from(len)));
    }

    /// Reports the requests that have ended, in their order. Returns when there is more to do, if time alone decides.
    pub(super) fn complete(&mut self, qp: &mut QueuePair, now: u64) -> Option<u64> {
        let mut due: Option<u64> = None;
        for sending in &mut qp.sends {
            match (sending.stage, sending.fails_at) {
                (Stage::Sent, Some(at)) if at <= now => {
                    sending.stage = Stage::Ended(IBV_WC_RETRY_EXC_ERR, 0, now);
                }
                (Stage::Sent, Some(at)) => due = Some(due.map_or(at, |due| due.min(at))),
                (Stage::Sent | Stage::Landing | Stage::Ended(..), _) => {}
                (Stage::Waiting(_), _) => break,
            }
        }
        while let Some(sending) = qp.sends.front() {
            let Stage::Ended(status, len, ready_at) = sending.stage else {
                break;
            };
            if ready_at > now {
                due = Some(due.map_or(ready_at, |due| due.min(ready_at)));
                break;
            }
            let Some(sending) = qp.sends.pop_front() else {
                break;
            };
            qp.sent = qp.sent.saturating_sub(1);
            qp.uncovered += 1;
            let request = &sending.request;
            let about = about(qp.qpn, sending.seq, request.remote_addr, u64::from(len));
            trace::span(operation(request.opcode), Side::Request, sending.begun, about);
            let failed = status != IBV_WC_SUCCESS;
            if failed && !qp.failed && qp.state() != IBV_QPS_ERR {
                count(Count::Errors);
                qp.failed = true;
            }
            if failed || qp.signal_all || sending.request.flags & IBV_SEND_SIGNALED != 0 {
                self.report(qp, &sending.request, status, len);
            }
            if failed {
                // The first failure stops the queue: what comes after it is flushed, also what has ended already.
                for later in &mut qp.sends {
                    later.stage = Stage::Ended(IBV_WC_WR_FLUSH_ERR, 0, now);
                }
            }
            if qp.failed && qp.state() != IBV_QPS_ERR {
                self.fail(qp);
            }
        }
        qp.tell_drained();
        due
    }

    fn report(&mut self, qp: &mut QueuePair, request: &Request, status: u32, len: u32) {
        let mut wc: Wc = zeroed();
        wc.wr_id = request.wr_id;
        wc.status = status;
        wc.opcode = completion_opcode(request.opcode);
        wc.byte_len = len;
        wc.qp_num = qp.qpn;
        let completion = Completion {
            wc,
            frees: Some((Arc::clone(&qp.sends_used), std::mem::take(&mut qp.uncovered))),
            solicited: false,
        };
        let queue = Arc::clone(&qp.send_cq);
        if !queue.push(completion) {
            self.overrun(qp, &queue);
        }
    }

    /// Brings a queue pair into the error state and flushes its queues.
    pub(super) fn fail(&mut self, qp: &mut QueuePair) {
        let now = self.now();
        qp.attr.qp_state = IBV_QPS_ERR;
        qp.failed = false;
        for sending in &mut qp.sends {
            if !matches!(sending.stage, Stage::Ended(..)) {
                sending.stage = Stage::Ended(IBV_WC_WR_FLUSH_ERR, 0, now);
            }
        }
        qp.sent = qp.sends.len();
        self.flush_receives(qp);
        self.abandon_inbox(qp);
        self.active.insert(qp.qpn);
    }
}

/// Names a request, for the trace.
pub(super) fn about(qpn: u32, seq: u64, addr: u64, len: u64) -> About {
    About { qpn, seq, addr, len }
}

/// Returns the number of bytes of a request.
fn length(request: &Request) -> u64 {
    match &request.inline {
        Some(inline) => inline.len() as u64,
        None => request
            .elements
            .iter()
            .map(|element| u64::from(element.length))
            .sum(),
    }
}

/// Returns the header of a request, or the status with which it fails here.
fn head(qp: &QueuePair, request: &Request, seq: u64) -> Result<Header, u32> {
    let kind = match request.opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => kind::WRITE,
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV => kind::SEND,
        IBV_WR_RDMA_READ => kind::READ,
        IBV_WR_ATOMIC_CMP_AND_SWP => kind::SWAP,
        IBV_WR_ATOMIC_FETCH_AND_ADD => kind::ADD,
        _ => return Err(IBV_WC_LOC_QP_OP_ERR),
    };
    let allowed = match qp.kind {
        IBV_QPT_RC => true,
        IBV_QPT_UC => !request.has_result(),
        _ => kind == kind::SEND && request.datagram.is_some(),
    };
    if !allowed {
        return Err(IBV_WC_LOC_QP_OP_ERR);
    }
    let mut header = Header::new(kind, qp.qpn, qp.attr.dest_qp_num, seq);
    header.addr = request.remote_addr;
    header.key = request.rkey;
    (header.first, header.second) = request.operands;
    header.immediate = request.immediate;
    header.rnr_retry = qp.attr.rnr_retry;
    header.patience = u32::try_from(patience(&qp.attr) / 1000).unwrap_or(u32::MAX);
    if matches!(request.opcode, IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_SEND_WITH_IMM) {
        header.flags |= flag::IMMEDIATE;
    }
    if request.opcode == IBV_WR_SEND_WITH_INV {
        header.flags |= flag::INVALIDATE;
    }
    if request.flags & IBV_SEND_SOLICITED != 0 {
        header.flags |= flag::SOLICITED;
    }
    if qp.kind != IBV_QPT_RC {
        header.flags |= flag::UNRELIABLE;
    }
    if let Some((_, qpn, qkey)) = request.datagram {
        header.flags |= flag::DATAGRAM;
        header.to = qpn;
        // A key with its highest bit set stands for the queue pair's own.
        header.first = u64::from(if qkey & 1 << 31 == 0 { qkey } else { qp.attr.qkey });
    }
    Ok(header)
}
