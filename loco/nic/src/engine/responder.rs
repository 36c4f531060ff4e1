//! The side of a queue pair that carries out what others ask for.

use std::sync::Arc;

use super::bus::{Load, Placed, runs};
use super::core::Nic;
use super::link::Link;
use super::order::{Kind, passes, pushes_relaxed, reads_push};
use super::queue::{Incoming, QueuePair, Receive, SharedReceives};
use super::requester::about;
use crate::counts::{Count, count};
use crate::dice::Step;
use crate::ffi::*;
use crate::memory::{Piece, exchange, load};
use crate::trace::{self, About, Side};
use crate::wire::{Header, Message, flag, kind};

/// The room for the header before a datagram.
const GRH: usize = size_of::<Grh>();
/// The kind of header that a datagram's completion names: RoCE v2 over IPv4 or IPv6, with the bits of the most used cards.
const ROCE_IPV4: u8 = 8 | 2;
const ROCE_IPV6: u8 = 8 | 1;
/// So many requests are looked at for one that may overtake.
const WINDOW: usize = 32;
/// What `min_rnr_timer` stands for, in tens of microseconds.
const RNR_TIMERS: [u64; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// What became of a request that was tried.
enum Tried {
    /// It is over.
    Done,
    /// It has to be tried again, at this time or when something happens.
    Later(u64),
}

impl Nic {
    /// Takes a request from another NIC.
    pub(super) fn requested(&mut self, link: u64, message: Message) {
        let now = self.now();
        let delay = self.dice.delay(now, (message.header.to, Step::Execution));
        let incoming = Incoming {
            message,
            link,
            ready_at: now + delay,
            waits_until: None,
            gathering: None,
            begun: trace::clock(),
        };
        let header = &incoming.message.header;
        let is_datagram = header.has(flag::DATAGRAM);
        let Some(qp) = self.qps.get_mut(&header.to) else {
            return self.keep_in_limbo(incoming);
        };
        let is_for_it = if is_datagram {
            qp.kind == IBV_QPT_UD && header.first == u64::from(qp.attr.qkey)
        } else {
            qp.kind != IBV_QPT_UD
                && qp.attr.dest_qp_num == header.from
                && header.has(flag::UNRELIABLE) == (qp.kind == IBV_QPT_UC)
        };
        // On a network, it comes to the device that has the GID, which has no queue pair of this number.
        let is_for_it = is_for_it && qp.device.gids.contains(&header.to_gid);
        if !is_for_it || !qp.receives_messages() {
            return self.keep_in_limbo(incoming);
        }
        if qp.state() == IBV_QPS_RTR && !is_datagram && !qp.told_established {
            qp.told_established = true;
            qp.event(IBV_EVENT_COMM_EST);
        }
        qp.inbox.push_back(incoming);
        self.active.insert(qp.qpn);
    }

    /// Keeps a request that nobody takes until its sender's patience is over. One that is unreliable is lost.
    fn keep_in_limbo(&mut self, incoming: Incoming) {
        let header = &incoming.message.header;
        if header.has(flag::UNRELIABLE) {
            return;
        }
        let until = match header.patience {
            0 => u64::MAX,
            patience => self.now() + u64::from(patience) * 1000,
        };
        self.limbo.push((until, incoming));
    }

    /// Puts what a queue pair did not carry out into limbo.
    pub(super) fn abandon_inbox(&mut self, qp: &mut QueuePair) {
        for incoming in std::mem::take(&mut qp.inbox) {
            self.keep_in_limbo(incoming);
        }
    }

    /// Delivers what waits for a queue pair that takes messages now.
    pub(super) fn deliver_limbo(&mut self, qpn: u32) {
        let mut waiting = Vec::new();
        let mut at = 0;
        while at < self.limbo.len() {
            if self.limbo[at].1.message.header.to == qpn {
                waiting.push(self.limbo.remove(at).1);
            } else {
                at += 1;
            }
        }
        for incoming in waiting {
            self.requested(incoming.link, incoming.message);
        }
    }

    /// Answers the requests whose sender's patience is over. Returns when that is for the next.
    pub(super) fn expire_limbo(&mut self, now: u64) -> Option<u64> {
        let mut at = 0;
        while at < self.limbo.len() {
            if self.limbo[at].0 <= now {
                let (_, incoming) = self.limbo.remove(at);
                self.answer(&incoming, IBV_WC_RETRY_EXC_ERR, &[]);
            } else {
                at += 1;
            }
        }
        self.limbo.iter().map(|(until, _)| *until).min()
    }

    /// Carries out what may be carried out. Returns when there is more to do, if time alone decides.
    pub(super) fn serve(&mut self, qp: &mut QueuePair, now: u64) -> Option<u64> {
        let mut due: Option<u64> = None;
        let mut later: Option<u64> = None;
        let mut tried = Vec::new();
        while qp.receives_messages() && !qp.failed {
            let mut ready = Vec::new();
            due = None;
            let window = if self.dice.is_plain() { 1 } else { WINDOW };
            for at in 0..qp.inbox.len().min(window) {
                if tried.contains(&qp.inbox[at].message.header.seq) || !self.may_overtake(qp, at) {
                    continue;
                }
                let ready_at = qp.inbox[at].ready_at;
                if ready_at <= now {
                    ready.push(at);
                } else {
                    due = Some(due.map_or(ready_at, |due| due.min(ready_at)));
                }
            }
            if ready.is_empty() {
                break;
            }
            let since: Vec<u64> = ready.iter().map(|&at| qp.inbox[at].ready_at).collect();
            let at = ready[self.dice.choose(&since)];
            let Some(mut incoming) = qp.inbox.remove(at) else {
                break;
            };
            match self.carry_out(qp, &mut incoming, now) {
                Tried::Done => {
                    if at > 0 {
                        count(Count::Overtaken);
                        trace::moment("overtakes", about(qp.qpn, incoming.message.header.seq, 0, 0));
                    }
                }
                Tried::Later(at_time) => {
                    // It stays ready when it was: what has changed may let it go.
                    if incoming.gathering.is_some() {
                        incoming.ready_at = at_time;
                    }
                    tried.push(incoming.message.header.seq);
                    later = Some(later.map_or(at_time, |later| later.min(at_time)));
                    qp.inbox.insert(at, incoming);
                    if self.dice.is_plain() {
                        break;
                    }
                }
            }
        }
        [due, later].into_iter().flatten().min()
    }

    fn may_overtake(&self, qp: &QueuePair, at: usize) -> bool {
        let later = Kind::of(&qp.inbox[at].message.header);
        qp.inbox.iter().take(at).all(|earlier| {
            // Datagrams of different senders have nothing in common.
            earlier.message.header.from != qp.inbox[at].message.header.from
                || passes(self.tier, later, Kind::of(&earlier.message.header))
        })
    }

    fn carry_out(&mut self, qp: &mut QueuePair, incoming: &mut Incoming, now: u64) -> Tried {
        let header = incoming.message.header;
        match header.kind {
            kind::WRITE => self.write(qp, incoming, now),
            kind::SEND => self.receive(qp, incoming, now),
            kind::READ => self.read(qp, incoming, now),
            _ => self.atomic(qp, incoming, now),
        }
    }

    /// Answers a request.
    fn answer(&mut self, incoming: &Incoming, status: u32, data: &[u8]) {
        let asked = &incoming.message.header;
        if asked.has(flag::UNRELIABLE) {
            return;
        }
        let mut header = Header::new(kind::ANSWER, asked.to, asked.from, asked.seq);
        header.status = u8::try_from(status).unwrap_or(u8::MAX);
        if status == IBV_WC_SUCCESS {
            header.flags = asked.flags & flag::UNHURRIED;
        }
        self.moved += data.len();
        self.send(incoming.link, &header, data);
    }

    /// Refuses a request, which breaks both queue pairs. An unreliable one is lost instead.
    fn refuse(&mut self, qp: &mut QueuePair, incoming: &Incoming, status: u32) -> Tried {
        if !incoming.message.header.has(flag::UNRELIABLE) {
            self.answer(incoming, status, &[]);
            count(Count::Errors);
            qp.event(match status {
                IBV_WC_REM_ACCESS_ERR => IBV_EVENT_QP_ACCESS_ERR,
                _ => IBV_EVENT_QP_REQ_ERR,
            });
            qp.failed = true;
        }
        Tried::Done
    }

    /// Returns the memory that a request is about, if the queue pair and the region allow it.
    fn target(&self, qp: &QueuePair, header: &Header, len: u64, access: u32) -> Option<Vec<Piece>> {
        if qp.attr.qp_access_flags & access == 0 {
            return None;
        }
        if len == 0 {
            return Some(Vec::new());
        }
        let piece = self.memory.resolve(header.key, qp.pd, header.addr, len, access);
        piece.ok().map(|piece| vec![piece])
    }

    fn write(&mut self, qp: &mut QueuePair, incoming: &mut Incoming, now: u64) -> Tried {
        let header = incoming.message.header;
        let len = incoming.message.data.len() as u64;
        let Some(pieces) = self.target(qp, &header, len, IBV_ACCESS_REMOTE_WRITE) else {
            return self.refuse(qp, incoming, IBV_WC_REM_ACCESS_ERR);
        };
        let receive = if header.has(flag::IMMEDIATE) {
            match self.take_receive(qp, incoming, now) {
                Ok(receive) => Some(receive),
                Err(tried) => return tried,
            }
        } else {
            None
        };
        let data = std::mem::take(&mut incoming.message.data);
        let about = about(qp.qpn, header.seq, header.addr, len);
        trace::span("write", Side::Served, incoming.begun, about);
        self.onto_bus(qp, &pieces, (data, about), false, now);
        if let Some(receive) = receive {
            let mut completion = qp.received(&receive, IBV_WC_SUCCESS);
            completion.wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
            completion.wc.byte_len = u32::try_from(len).unwrap_or(u32::MAX);
            completion.wc.imm_data = header.immediate;
            completion.wc.wc_flags = IBV_WC_WITH_IMM;
            completion.solicited = header.has(flag::SOLICITED);
            let queue = Arc::clone(&qp.recv_cq);
            qp.remote.complete(&queue, completion, now, &mut self.dice);
        }
        self.answer(incoming, IBV_WC_SUCCESS, &[]);
        Tried::Done
    }

    fn onto_bus(
        &mut self,
        qp: &mut QueuePair,
        pieces: &[Piece],
        (data, about): (Vec<u8>, About),
        atomic: bool,
        now: u64,
    ) {
        if !data.is_empty() {
            let load = Load {
                pieces,
                bytes: data,
                ends: None,
                atomic,
                about,
            };
            qp.remote.write(load, now, self.tier, &mut self.dice);
        }
    }

    /// Takes the receive of a message. If there is none, the message waits, or is over.
    fn take_receive(
        &mut self,
        qp: &mut QueuePair,
        incoming: &mut Incoming,
        now: u64,
    ) -> Result<Receive, Tried> {
        let receive = match qp.srq {
            None => qp.receives.pop_front(),
            Some(number) => self.srqs.get_mut(&number).and_then(SharedReceives::take),
        };
        if let Some(receive) = receive {
            return Ok(receive);
        }
        let header = &incoming.message.header;
        if header.has(flag::UNRELIABLE) {
            return Err(Tried::Done);
        }
        if header.rnr_retry >= 7 {
            return Err(Tried::Later(u64::MAX));
        }
        let timer = RNR_TIMERS[usize::from(qp.attr.min_rnr_timer & 31)] * 10_000;
        let until = *incoming
            .waits_until
            .get_or_insert(now + timer * u64::from(header.rnr_retry));
        if until > now {
            return Err(Tried::Later(until));
        }
        self.answer(incoming, IBV_WC_RNR_RETRY_EXC_ERR, &[]);
        Err(Tried::Done)
    }

    fn receive(&mut self, qp: &mut QueuePair, incoming: &mut Incoming, now: u64) -> Tried {
        let receive = match self.take_receive(qp, incoming, now) {
            Ok(receive) => receive,
            Err(tried) => return tried,
        };
        let header = incoming.message.header;
        let is_datagram = header.has(flag::DATAGRAM);
        let mut data = std::mem::take(&mut incoming.message.data);
        let mut grh_is_of_ipv4 = false;
        if is_datagram {
            let grh = grh(&header, qp.device.gid_beside(&header.gid), data.len());
            grh_is_of_ipv4 = grh[0] == 0;
            data.splice(0..0, grh);
        }
        let len = data.len();
        let (status, pieces) = match beginning(&receive.elements, len as u64) {
            None => (IBV_WC_LOC_LEN_ERR, Vec::new()),
            // As on a card, nobody looks at the keys of what no byte goes to.
            Some(elements) => {
                let domain = self.receive_domain(qp);
                match self.memory.resolve_all(&elements, domain, IBV_ACCESS_LOCAL_WRITE) {
                    Ok(pieces) => (IBV_WC_SUCCESS, pieces),
                    Err(_) => (IBV_WC_LOC_PROT_ERR, Vec::new()),
                }
            }
        };
        let failure = match status {
            IBV_WC_SUCCESS => None,
            IBV_WC_LOC_LEN_ERR => Some((status, IBV_WC_REM_INV_REQ_ERR)),
            _ => Some((status, IBV_WC_REM_OP_ERR)),
        };
        let queue = Arc::clone(&qp.recv_cq);
        if let Some((here, there)) = failure {
            if is_datagram {
                // A datagram that does not fit is lost, and its receive with it is reported.
                qp.failed = true;
            }
            let completion = qp.received(&receive, here);
            qp.remote.complete(&queue, completion, now, &mut self.dice);
            let mut placed = Placed::default();
            qp.remote.push(true, &mut placed);
            self.placed(qp, placed, now);
            return self.refuse(qp, incoming, there);
        }
        let about = about(qp.qpn, header.seq, 0, len as u64);
        trace::span("receive", Side::Served, incoming.begun, about);
        self.onto_bus(qp, &pieces, (data, about), false, now);
        let mut completion = qp.received(&receive, IBV_WC_SUCCESS);
        completion.wc.byte_len = u32::try_from(len).unwrap_or(u32::MAX);
        completion.wc.src_qp = header.from;
        if header.has(flag::IMMEDIATE) {
            completion.wc.imm_data = header.immediate;
            completion.wc.wc_flags |= IBV_WC_WITH_IMM;
        }
        if header.has(flag::INVALIDATE) {
            completion.wc.imm_data = header.immediate;
            completion.wc.wc_flags |= IBV_WC_WITH_INV;
        }
        if is_datagram {
            completion.wc.wc_flags |= IBV_WC_GRH;
            // On RoCE there is no service level, and cards say here which header it is.
            completion.wc.sl = if grh_is_of_ipv4 { ROCE_IPV4 } else { ROCE_IPV6 };
        }
        completion.solicited = header.has(flag::SOLICITED);
        qp.remote.complete(&queue, completion, now, &mut self.dice);
        self.answer(incoming, IBV_WC_SUCCESS, &[]);
        Tried::Done
    }

    /// Returns the protection domain to which the memory of receives belongs.
    fn receive_domain(&self, qp: &QueuePair) -> u32 {
        let srq = qp.srq.and_then(|number| self.srqs.get(&number));
        srq.map_or(qp.pd, |srq| srq.pd)
    }

    /// Places what the bus keeps before a read, or before the read of an atomic.
    fn push_before(&mut self, kind: Kind, qp: &mut QueuePair, now: u64) {
        if reads_push(self.tier) {
            let mut placed = Placed::default();
            let also_relaxed = pushes_relaxed(self.tier, kind, self.atomics_push);
            qp.remote.push(also_relaxed, &mut placed);
            self.placed(qp, placed, now);
        }
    }

    fn read(&mut self, qp: &mut QueuePair, incoming: &mut Incoming, now: u64) -> Tried {
        let header = incoming.message.header;
        let len = u64::from(header.wanted);
        let Some(pieces) = self.target(qp, &header, len, IBV_ACCESS_REMOTE_READ) else {
            return self.refuse(qp, incoming, IBV_WC_REM_ACCESS_ERR);
        };
        if incoming.gathering.is_none() {
            // One that does not take its answers, as it is stopped maybe, gets no more memory for them.
            if self.links.get(&incoming.link).is_some_and(Link::is_crowded) {
                return Tried::Later(u64::MAX);
            }
            self.push_before(Kind::Read, qp, now);
            let mut left = runs(&pieces, self.tier, &mut self.dice);
            left.reverse();
            incoming.message.data = vec![0; usize::try_from(len).unwrap_or(0)];
            incoming.gathering = Some(left);
        }
        while let Some(run) = incoming.gathering.as_mut().and_then(Vec::pop) {
            load(run.at, &mut incoming.message.data[run.start..run.start + run.len]);
            let is_last = incoming.gathering.as_ref().is_none_or(Vec::is_empty);
            if !is_last {
                let pause = self.dice.pause(now, (qp.qpn, Step::Execution), 20);
                if pause > 0 {
                    count(Count::GatheredReads);
                    return Tried::Later(now + pause);
                }
            }
        }
        let about = about(qp.qpn, header.seq, header.addr, len);
        trace::span("read", Side::Served, incoming.begun, about);
        let data = std::mem::take(&mut incoming.message.data);
        self.answer(incoming, IBV_WC_SUCCESS, &data);
        Tried::Done
    }

    fn atomic(&mut self, qp: &mut QueuePair, incoming: &mut Incoming, now: u64) -> Tried {
        let header = incoming.message.header;
        if !header.addr.is_multiple_of(8) || header.wanted != 8 {
            return self.refuse(qp, incoming, IBV_WC_REM_INV_REQ_ERR);
        }
        let Some(pieces) = self.target(qp, &header, 8, IBV_ACCESS_REMOTE_ATOMIC) else {
            return self.refuse(qp, incoming, IBV_WC_REM_ACCESS_ERR);
        };
        if self.unit_taken {
            return Tried::Later(u64::MAX);
        }
        self.push_before(Kind::Atomic, qp, now);
        let piece = pieces[0];
        let change = |old: u64| match header.kind {
            kind::ADD => Some(old.wrapping_add(header.first)),
            _ => (old == header.first).then_some(header.second),
        };
        let about = about(qp.qpn, header.seq, header.addr, 8);
        trace::span("atomic", Side::Served, incoming.begun, about);
        let old = if self.dice.is_plain() && piece.at.is_multiple_of(8) {
            exchange(piece.at, change)
        } else {
            let mut word = [0; 8];
            load(piece.at, &mut word);
            let old = u64::from_ne_bytes(word);
            if let Some(new) = change(old) {
                self.unit_taken = true;
                let piece = Piece {
                    relaxed: false,
                    ..piece
                };
                self.onto_bus(qp, &[piece], (new.to_ne_bytes().to_vec(), about), true, now);
            }
            old
        };
        self.answer(incoming, IBV_WC_SUCCESS, &old.to_ne_bytes());
        Tried::Done
    }

    /// Ends the receives of a queue pair that has failed.
    pub(super) fn flush_receives(&mut self, qp: &mut QueuePair) {
        let mut placed = Placed::default();
        qp.remote.push(true, &mut placed);
        let now = self.now();
        self.placed(qp, placed, now);
        let queue = Arc::clone(&qp.recv_cq);
        for receive in std::mem::take(&mut qp.receives) {
            let completion = qp.received(&receive, IBV_WC_WR_FLUSH_ERR);
            if !queue.push(completion) {
                self.overrun(qp, &queue);
                qp.failed = false;
            }
        }
        if qp.srq.is_some() {
            qp.event(IBV_EVENT_QP_LAST_WQE_REACHED);
        }
    }
}

/// Returns the beginning of scatter/gather elements that has so many bytes, or `None` if they have fewer.
fn beginning(elements: &[Sge], len: u64) -> Option<Vec<Sge>> {
    let mut left = len;
    let mut taken = Vec::new();
    for element in elements {
        let part = left.min(u64::from(element.length));
        if part > 0 {
            let length = u32::try_from(part).unwrap_or(u32::MAX);
            taken.push(Sge { length, ..*element });
        }
        left -= part;
    }
    (left == 0).then_some(taken)
}

/// Returns the header that a datagram has in its receive buffer. With addresses of IPv4, as they are mapped into GIDs, it is a header
/// of IPv4 in the last 20 bytes, as RoCE v2 has it.
fn grh(header: &Header, own: RawGid, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; GRH];
    let mapped = |gid: &RawGid| gid[..10] == [0; 10] && gid[10..12] == [0xff; 2];
    let total = u16::try_from(len).unwrap_or(u16::MAX);
    if mapped(&header.gid) && mapped(&own) {
        let ip = &mut bytes[20..];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&total.saturating_add(20 + 8 + 12 + 8 + 4).to_be_bytes());
        ip[8] = 64;
        ip[9] = 17;
        ip[12..16].copy_from_slice(&header.gid[12..]);
        ip[16..20].copy_from_slice(&own[12..]);
    } else {
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&total.to_be_bytes());
        bytes[6] = 0x1b;
        bytes[7] = 64;
        bytes[8..24].copy_from_slice(&header.gid);
        bytes[24..40].copy_from_slice(&own);
    }
    bytes
}
