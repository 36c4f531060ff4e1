//! The engine of a node: everything that the provider knows, under one lock.
//!
//! Threads post under the lock, and waiting threads make progress under it. So does the node's own thread
//! (`progress`), because with most providers this process carries out a peer's operation on this node's memory, in
//! calls to the library. Such an operation is therefore either done or not begun whenever the lock is free. The
//! revocation of a lost peer's access relies on that. If the provider carries out others' operations in such calls, a
//! node's operations on its own memory are done at once under the lock.
//!
//! Relies on `port`, `piece`, `queue`, `order`. Used by `node`, `queue_pair` and `progress`.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use loco_fabric::{Completion, Control, FabricError, NodeId, Result};
use loco_host::arenas::Arena as _;
use loco_host::heap::Heap;
use loco_host::membership::Membership;
use loco_host::{bytes, word};

use crate::order::{Class, Mapping, Words};
use crate::piece::{NOBODY, Part, Pieces, cut};
use crate::port::{Event, PARTS_MAX, Port, Posting, Range, Registration, Verb};
use crate::queue::{Op, Queue};

/// The number of pieces of a queue pair under way from which on operations wait for others to share a piece with. The first
/// ones do not wait, because the thread may look at nothing for a while after it has posted them.
const AHEAD: u32 = 2;

/// The means to reach a peer's memory.
pub(crate) struct Peer {
    /// The number of its endpoint in the address vector.
    pub(crate) addr: u64,
    /// The address of its mapping, as its provider counts.
    pub(crate) base: u64,
    /// The key for this node.
    pub(crate) key: u64,
}

/// The engine of a node. Fields are dropped in order: registrations before the port, pieces and memory after it.
pub(crate) struct Engine {
    /// The registrations of this node's memory, one a node. `None` once its access was taken away.
    pub(crate) registrations: Vec<Option<Registration>>,
    pub(crate) port: Port,
    pieces: Pieces,
    pub(crate) heap: Heap,
    pub(crate) mapping: Mapping,
    pub(crate) peers: Vec<Peer>,
    /// The position of this node among the nodes.
    own: usize,
    piece_bytes: usize,
    queues: Vec<Option<Queue>>,
    free: Vec<u32>,
    /// The most operations that a piece carries.
    parts_max: usize,
    /// The queue pairs with operations that wait for others to share a piece with.
    gathering: Vec<u32>,
    /// The queue pairs that wait for room at the provider.
    waiting: VecDeque<u32>,
    reports: Vec<Completion>,
    events: Vec<Event>,
    departures_seen: u64,
    /// The error that broke the provider as a whole.
    broken: Option<FabricError>,
}

impl Engine {
    /// Returns an engine without peers and registrations.
    pub(crate) fn new(port: Port, heap: Heap, mapping: Mapping, own: usize, piece_bytes: usize) -> Engine {
        let under_way_max = port.offer.tx().size.clamp(16, 512);
        let parts_max = match mapping.gathers() {
            true => port.offer.tx().rma_iov_limit.clamp(1, PARTS_MAX),
            false => 1,
        };
        Engine {
            registrations: Vec::new(),
            port,
            pieces: Pieces::new(under_way_max, piece_bytes),
            heap,
            mapping,
            peers: Vec::new(),
            own,
            piece_bytes,
            queues: Vec::new(),
            free: Vec::new(),
            parts_max,
            gathering: Vec::new(),
            waiting: VecDeque::new(),
            reports: Vec::new(),
            events: Vec::new(),
            departures_seen: 0,
            broken: None,
        }
    }

    /// Adds a queue pair. Returns its number.
    pub(crate) fn add(&mut self, peer: NodeId, peer_index: usize) -> u32 {
        // The peer may have been lost meanwhile, so all peers are checked again.
        self.departures_seen = u64::MAX;
        let queue = Some(Queue::new(peer, peer_index));
        match self.free.pop() {
            Some(index) => {
                self.queues[index as usize] = queue;
                index
            }
            None => {
                self.queues.push(queue);
                u32::try_from(self.queues.len() - 1).unwrap_or(u32::MAX)
            }
        }
    }

    /// Removes a queue pair, at once or when its operations have ended.
    pub(crate) fn retire(&mut self, index: u32) {
        if let Some(queue) = &mut self.queues[index as usize] {
            queue.retired = true;
            self.collect(index);
        }
    }

    fn collect(&mut self, index: u32) {
        let place = &mut self.queues[index as usize];
        if place
            .as_ref()
            .is_some_and(|queue| queue.retired && queue.len() == 0 && !queue.listed)
        {
            *place = None;
            self.free.push(index);
        }
    }

    /// Posts an operation on a queue pair that may have `depth` operations under way.
    pub(crate) fn post(&mut self, index: u32, op: Op, depth: usize) -> Result<()> {
        let Some(queue) = &mut self.queues[index as usize] else {
            return Err(FabricError::Unsupported("a queue pair that is gone".to_owned()));
        };
        if let Some(error) = self.broken.as_ref().or(queue.failure.as_ref()) {
            return Err(error.clone());
        }
        if queue.len() >= depth {
            return Err(FabricError::QueueFull(queue.peer));
        }
        // A short operation waits for others to share a piece with: for one that follows at once, or while pieces are under
        // way, the ends of which lead to progress.
        let is_short = op.len <= self.piece_bytes / self.parts_max;
        let may_wait = is_short && (op.more || queue.under_way() >= AHEAD);
        queue.push(op);
        match queue.unissued() {
            waiting if waiting >= self.parts_max || !may_wait => self.issue(index),
            1 => self.gathering.push(index),
            _ => {}
        }
        Ok(())
    }

    /// Returns true if operations of this node on its own memory are [carried out](Engine::carry_out) here.
    pub(crate) fn carries_out(&self, peer_index: usize) -> bool {
        peer_index == self.own && self.mapping.own_by_calls()
    }

    /// Carries out an operation on this node's own memory.
    pub(crate) fn carry_out(&mut self, op: &Op) -> Result<()> {
        let place = usize::try_from(op.place).unwrap_or(usize::MAX);
        let at = self.heap.arena().start().as_ptr().wrapping_add(place);
        let local = match &op.local {
            Some((memory, offset)) => Some(memory.span().address(*offset, op.len)?),
            None => None,
        };
        // SAFETY: the place was checked against the exported region when the operation was made, the local side just
        // now; read-modify-writes are on aligned words.
        unsafe {
            match (op.verb, local) {
                (Verb::Write, Some(source)) => bytes::copy(at, source, op.len),
                (Verb::Write, None) => bytes::write(at, &op.data),
                (Verb::Read, Some(to)) => bytes::copy(to, at, op.len),
                // The operation is a flush.
                (Verb::Read, None) => word::full_fence(),
                (Verb::FetchAdd | Verb::CompareSwap, to) => {
                    let (operand, comparison) = op.operands;
                    let old = match op.verb {
                        Verb::FetchAdd => word::fetch_add(at, operand),
                        _ => word::compare_exchange(at, comparison, operand).unwrap_or_else(|old| old),
                    };
                    if let Some(to) = to {
                        word::store(to, old, Ordering::Release);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the ended operations of a queue pair, and issues those that may be issued. Results land first, because a
    /// fenced operation may wait for them.
    fn issue(&mut self, index: u32) {
        self.take_ended(index);
        loop {
            let Some(queue) = &mut self.queues[index as usize] else {
                return;
            };
            let Some(sequence) = queue.next(&self.mapping) else {
                break;
            };
            let Some(op) = queue.op(sequence) else { break };
            if op.is_issued() {
                queue.skip(); // It has no bytes.
                continue;
            }
            match self.issue_piece(index, sequence) {
                Ok(true) => {}
                Ok(false) => {
                    let Some(queue) = &mut self.queues[index as usize] else {
                        return;
                    };
                    if !queue.listed {
                        queue.listed = true;
                        self.waiting.push_back(index);
                    }
                    break;
                }
                Err(error) => {
                    if let Some(queue) = &mut self.queues[index as usize] {
                        if let Some(op) = queue.op(sequence) {
                            op.failed = Some(error.clone());
                        }
                        queue.break_off(&error);
                    }
                    break;
                }
            }
        }
        self.take_ended(index);
    }

    /// Issues the next piece of operation `sequence`. Returns false if there is no room.
    fn issue_piece(&mut self, index: u32, sequence: u64) -> Result<bool> {
        let Some(piece_index) = self.pieces.take(&self.heap)? else {
            return Ok(false);
        };
        let posted = self.post_piece(index, sequence, piece_index);
        if !matches!(posted, Ok(true)) {
            self.pieces.give(piece_index);
        }
        posted
    }

    fn post_piece(&mut self, index: u32, sequence: u64, piece_index: u32) -> Result<bool> {
        let Some(queue) = &mut self.queues[index as usize] else {
            return Ok(true);
        };
        let (peer, peer_index) = (queue.peer, queue.peer_index);
        let Some(op) = queue.op(sequence) else {
            return Ok(true);
        };
        let (place, left) = (op.place + op.issued as u64, op.len - op.issued);
        let (verb, name, class) = (op.verb, op.name, op.class());
        let (len, word_bytes) = match self.mapping.words {
            _ if class == Class::Rmw => (8, 8),
            Words::Atomic => cut(place, left, self.piece_bytes),
            Words::Rma => (left.min(self.piece_bytes), 1),
        };
        let piece = self.pieces.get(piece_index);
        piece.begin(index, class, place);
        piece.add(sequence, op, len)?;
        let mut joins = len == left && word_bytes == 8;
        while joins && piece.parts.len() < self.parts_max {
            let next = sequence + piece.parts.len() as u64;
            let room = self.piece_bytes - piece.len();
            let Some(op) = queue.op(next) else { break };
            // A part that would have to wait for earlier ones begins a piece of its own.
            joins = op.joins(verb, room) && !(op.strong && self.mapping.buys(class));
            if joins {
                piece.add(next, op, op.len)?;
            }
        }
        let own = self.registrations.get(self.own).and_then(Option::as_ref);
        let to = &self.peers[peer_index];
        let remote = |part: &Part| Range {
            start: to.base + part.place,
            len: part.len,
        };
        let posting = Posting {
            verb,
            words: self.mapping.words,
            to: to.addr,
            remote: piece.parts.iter().map(remote).collect(),
            key: to.key,
            local: piece.data(),
            desc: own.map_or(std::ptr::null_mut(), Registration::desc),
            len: piece.len(),
            word_bytes,
            context: self.pieces.context(piece_index),
            delivered: match class {
                Class::Write => self.mapping.writes_need_delivery(),
                Class::Read | Class::Rmw => false,
            },
        };
        // SAFETY: the buffer is registered memory that belongs to the piece, and the piece to the provider from now on.
        let posted = unsafe { self.port.post(&posting) };
        match posted {
            Ok(true) => {
                for part in &self.pieces.get(piece_index).parts {
                    queue.issued(part.len);
                }
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => Err(failure(name, peer, &error)),
        }
    }

    /// Makes progress: takes ended pieces from the provider, and issues the operations that they allow.
    pub(crate) fn progress(&mut self, job: &Membership) {
        self.look_for_departures(job);
        let mut gathering = std::mem::take(&mut self.gathering);
        for index in gathering.drain(..) {
            self.issue(index);
        }
        self.gathering = gathering;
        let mut events = std::mem::take(&mut self.events);
        loop {
            let more = match self.port.read(&mut events) {
                Ok(more) => more,
                Err(error) => {
                    self.broken.get_or_insert(error);
                    false
                }
            };
            for event in events.drain(..) {
                self.end(event, job);
            }
            if !more {
                break;
            }
        }
        self.events = events;
        for _ in 0..self.waiting.len() {
            let Some(index) = self.waiting.pop_front() else {
                break;
            };
            if let Some(queue) = &mut self.queues[index as usize] {
                queue.listed = false;
                self.issue(index);
                self.collect(index);
            }
        }
    }

    /// Returns true if operations wait for room at the provider, or for a connection.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns true if operations have been posted that have not ended.
    pub(crate) fn is_busy(&self) -> bool {
        self.queues.iter().flatten().any(|queue| queue.len() > 0)
    }

    /// Returns the number of pieces that the provider has.
    pub(crate) fn under_way(&self) -> usize {
        self.pieces.under_way()
    }

    fn end(&mut self, event: Event, job: &Membership) {
        let Some(piece_index) = self.pieces.of_context(event.context) else {
            tracing::error!("the end of an operation that was never begun: {:?}", event.status);
            return;
        };
        let piece = self.pieces.get(piece_index);
        let index = std::mem::replace(&mut piece.queue, NOBODY);
        let queue = match self.queues.get_mut(index as usize) {
            Some(Some(queue)) => queue,
            _ => return self.pieces.give(piece_index), // It was given up.
        };
        let peer = queue.peer;
        let mut broken = None;
        for part in &piece.parts {
            queue.ended(part.sequence);
            let failure_before = queue.failure.clone();
            let Some(op) = queue.op(part.sequence) else {
                continue;
            };
            match &event.status {
                Ok(()) if op.class() == Class::Write => {}
                Ok(()) => {
                    op.arrived.push(piece_index);
                    piece.landing += 1;
                }
                Err(error) => {
                    let error = match job.mesh.check_alive(peer) {
                        Err(gone) => gone,
                        Ok(()) => failure_before.unwrap_or_else(|| failure(op.name, peer, error)),
                    };
                    op.failed.get_or_insert_with(|| error.clone());
                    broken.get_or_insert(error);
                }
            }
        }
        if piece.landing == 0 {
            self.pieces.give(piece_index);
        }
        if let Some(error) = broken {
            queue.break_off(&error);
        }
        self.issue(index);
        self.collect(index);
    }

    /// Takes the operations of a queue pair that have ended, oldest first.
    fn take_ended(&mut self, index: u32) {
        let Some(queue) = &mut self.queues[index as usize] else {
            return;
        };
        loop {
            let arrived = queue.arrived();
            let sequence = queue.oldest();
            if let Some(op) = queue.op(sequence) {
                for &piece in &arrived {
                    self.pieces.get(piece).land(sequence, op);
                    self.pieces.landed(piece);
                }
            }
            match queue.take_ended() {
                Some(report) => self.reports.extend(report),
                None => break,
            }
        }
    }

    /// Gives up the operations towards peers that are gone.
    fn look_for_departures(&mut self, job: &Membership) {
        let departures = job.mesh.departures();
        if departures == self.departures_seen {
            return;
        }
        self.departures_seen = departures;
        for index in 0..self.queues.len() {
            let Some(queue) = &mut self.queues[index] else {
                continue;
            };
            let Err(error) = job.mesh.check_alive(queue.peer) else {
                continue;
            };
            let (reports, pieces) = queue.give_up(&error);
            self.reports.extend(reports);
            for piece in pieces {
                self.pieces.landed(piece);
            }
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            self.pieces.abandon(number);
            self.collect(number);
        }
    }

    /// Appends the reports that have come since the last call, and returns their number.
    pub(crate) fn reports(&mut self, completions: &mut Vec<Completion>) -> Result<usize> {
        let n = self.reports.len();
        completions.append(&mut self.reports);
        match &self.broken {
            Some(error) if n == 0 => Err(error.clone()),
            _ => Ok(n),
        }
    }

    /// Takes away the access of the node at this position to this node's memory, for good.
    pub(crate) fn revoke(&mut self, node: usize) {
        if node != self.own
            && let Some(registration) = self.registrations.get_mut(node)
        {
            *registration = None;
        }
    }
}

/// Returns the error of an operation that the provider refused or that failed.
fn failure(operation: &'static str, peer: NodeId, error: &std::io::Error) -> FabricError {
    FabricError::Operation {
        operation,
        peer,
        status: error.to_string(),
        cause: "the peer ended, freed that memory or took this node's access away, or the network between the hosts \
                failed; `FI_LOG_LEVEL=warn` lets libfabric say more"
            .to_owned(),
    }
}
