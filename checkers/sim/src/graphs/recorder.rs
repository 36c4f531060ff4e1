//! Follows the moves of an execution and notes its events. For each read it notes the value and its origin,
//! and for each write the time at which it took effect.
//!
//! Relies on the simplified queue pair of `mowgli::machine`. Beside the machine's buffers, it keeps the event
//! that each entry belongs to.

use std::collections::VecDeque;

use mowgli::event::Kind;
use mowgli::machine::{Addr, QpId, Rule, Step};
use mowgli::model::RmwAtomicity;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::fabric::request::{NicOp, Request, Rmw};
use crate::state::faults::Fault;
use crate::state::{Common, Move, State};

/// An event of an execution.
pub(super) struct Recorded {
    /// The event's number. Numbers may have gaps, as events may be left out.
    pub(super) id: usize,
    pub(super) thread: u16,
    pub(super) kind: Kind,
    pub(super) word: Option<Addr>,
    pub(super) peer: Option<u16>,
    pub(super) rmw: bool,
    /// The number of the thread's request that the event belongs to.
    pub(super) instance: u32,
    /// The transfer of which the event moves a word, or 0. Nothing orders the words of a transfer.
    pub(super) transfer: u32,
    /// Whether the event's operation asked for strong order.
    pub(super) strong: bool,
    /// Whether the event is the local read of a put whose value travels in the work request.
    pub(super) inlined: bool,
    pub(super) read: Option<i64>,
    pub(super) written: Option<i64>,
    /// The write that the event read, or for a poll the completion that it took. `None` stands for the
    /// initial value.
    pub(super) source: Option<usize>,
    /// The time at which the event took effect. A buffered write takes effect when it reaches memory.
    pub(super) time: u64,
    /// Whether an event of a remote operation has taken effect.
    done: bool,
}

impl Recorded {
    /// Returns whether the events belong to different words of one transfer.
    pub(super) fn is_unordered(&self, other: &Recorded) -> bool {
        self.transfer != 0 && self.transfer == other.transfer && self.instance != other.instance
    }
}

/// A remote operation under way, as its events.
#[derive(Clone, Copy)]
struct Op {
    what: NicOp,
    /// The event that reads first (`nlR`, `nrR` or `nAR`), or the fence.
    first: usize,
    /// The event that writes at the end: `nrW` for a put, `nlW` for other operations.
    last: usize,
    /// The remote write of a read-modify-write, set once it is known to write.
    middle: usize,
    signaled: bool,
    tag: u64,
}

/// An entry of `wb_L`.
enum Back {
    Write(usize, Addr, u64),
    /// The notification of the operation that ended with this event.
    Notification(usize),
}

/// A queue pair's buffers, as events.
#[derive(Default)]
struct Queues {
    pipe: Vec<Op>,
    remote: VecDeque<(usize, Addr)>,
    local: Vec<Back>,
}

impl Queues {
    /// Takes the oldest operation out of the pipe, and notifies of its end if that was asked for.
    fn complete(&mut self) {
        if self.pipe.is_empty() {
            return;
        }
        let op = self.pipe.remove(0);
        if op.signaled {
            self.local.push(Back::Notification(op.last));
        }
    }
}

enum Buffered {
    Store(usize, Addr),
    Remote(u16, Op),
}

/// Notes the events of an execution.
pub(super) struct Recorder {
    events: Vec<Recorded>,
    left_out: FxHashSet<usize>,
    /// The newest write in memory, by word.
    memory: FxHashMap<Addr, usize>,
    buffers: FxHashMap<u16, VecDeque<Buffered>>,
    queues: FxHashMap<(u16, u16), Queues>,
    /// The number of events recorded when the evaluation of a thread's wait began.
    evaluations: FxHashMap<u16, usize>,
    instances: FxHashMap<u16, u32>,
    initial: Vec<i64>,
    clock: u64,
}

impl Recorder {
    pub(super) fn new(state: &State) -> Recorder {
        Recorder {
            events: Vec::new(),
            left_out: FxHashSet::default(),
            memory: FxHashMap::default(),
            buffers: FxHashMap::default(),
            queues: FxHashMap::default(),
            evaluations: FxHashMap::default(),
            instances: FxHashMap::default(),
            initial: state.machine.memory().to_vec(),
            clock: 0,
        }
    }

    /// Returns the events, thread after thread in program order, and the initial values of words.
    pub(super) fn finish(mut self) -> (Vec<Recorded>, Vec<i64>) {
        // The users of a word: threads, for their CPUs, and `None` for network cards.
        let mut users: FxHashMap<Addr, FxHashSet<Option<u16>>> = FxHashMap::default();
        for event in &self.events {
            if let Some(word) = event.word {
                let user = event.kind.is_cpu().then_some(event.thread);
                users.entry(word).or_default().insert(user);
            }
        }
        let private = |word: &Addr| {
            users
                .get(word)
                .is_some_and(|users| users.len() == 1 && !users.contains(&None))
        };
        self.events
            .retain(|e| !self.left_out.contains(&e.id) && !e.word.as_ref().is_some_and(private));
        // The sort is stable: within a thread, events were asked for in program order.
        self.events.sort_by_key(|e| e.thread);
        (self.events, self.initial)
    }

    /// Notes a move that is about to be taken.
    pub(super) fn see(&mut self, common: &Common, state: &mut State, what: Move) {
        match what {
            Move::Machine(step) => self.see_step(state, step),
            Move::Fault(fault) => self.see_fault(state, fault),
            Move::Thread(thread) => {
                if let Some(request) = state.request(common, thread) {
                    self.see_request(common, state, thread, request);
                }
            }
        }
    }

    /// Discards the events that a loss discards. Operations that had not read or written by then are left out. The
    /// write of a read-modify-write that has executed is placed.
    fn see_fault(&mut self, state: &State, fault: Fault) {
        for thread in 0..state.threads.len() as u16 {
            let buffers = fault.empties_buffer(state, thread);
            let cut = |peer: u16| fault.cuts(state, QpId { thread, peer });
            if let Some(buffer) = self.buffers.get_mut(&thread) {
                buffer.retain(|entry| match entry {
                    Buffered::Store(event, _) => {
                        if buffers {
                            self.left_out.insert(*event);
                        }
                        !buffers
                    }
                    Buffered::Remote(peer, op) => {
                        let gone = buffers || cut(*peer);
                        if gone {
                            self.left_out.extend([op.first, op.middle, op.last]);
                        }
                        !gone
                    }
                });
            }
            for peer in (0..state.node_count() as u16).filter(|&peer| cut(peer)) {
                let Some(queues) = self.queues.get_mut(&(thread, peer)) else {
                    continue;
                };
                let mut remote = std::mem::take(&mut queues.remote);
                let pipe = std::mem::take(&mut queues.pipe);
                let never = |tag| pipe.iter().any(|op| op.signaled && op.tag == tag);
                let left_out = &mut self.left_out;
                queues.local.retain(|back| match back {
                    Back::Write(event, _, tag) if never(*tag) => {
                        left_out.insert(*event);
                        false
                    }
                    _ => true,
                });
                let executed = remote.iter().position(|(event, _)| self.events[*event].rmw);
                if let Some((event, word)) = executed.and_then(|at| remote.remove(at)) {
                    self.place(event, word);
                }
                let of_pipe = pipe.iter().flat_map(|op| [op.first, op.middle, op.last]);
                self.left_out
                    .extend(of_pipe.filter(|&event| !self.events[event].done));
                self.left_out.extend(remote.into_iter().map(|(event, _)| event));
            }
        }
    }

    fn see_request(&mut self, common: &Common, state: &mut State, thread: u16, request: &Request) {
        if let Request::Direct { peer, word, access } = *request {
            if state.post_refusal(thread, peer).is_none() {
                self.see_request(common, state, thread, &access.to(word));
            }
            return;
        }
        self.clock += 1;
        let instance = self.instances.entry(thread).or_default();
        *instance += 1;
        match *request {
            Request::Load { word } => {
                let word = state.addr(common, word);
                let value = state.machine.load(thread, word);
                let buffered = self.buffers.get(&thread).and_then(|buffer| {
                    buffer.iter().rev().find_map(|entry| match *entry {
                        Buffered::Store(event, at) if at == word => Some(event),
                        _ => None,
                    })
                });
                let source = buffered.or_else(|| self.memory.get(&word).copied());
                let event = self.add(thread, Kind::LocalRead, Some(word), None);
                (self.events[event].read, self.events[event].source) = (value, source);
            }
            Request::Store { word, value } => {
                let word = state.addr(common, word);
                let event = self.add(thread, Kind::LocalWrite, Some(word), None);
                self.events[event].written = Some(value as i64);
                let buffer = self.buffers.entry(thread).or_default();
                buffer.push_back(Buffered::Store(event, word));
            }
            Request::Rmw { word, rmw } => {
                let word = state.addr(common, word);
                let old = state.machine.load(thread, word).unwrap_or_default();
                self.locked(thread, word, old, rmw);
            }
            Request::Fence => {
                self.add(thread, Kind::Fence, None, None);
            }
            Request::Post { peer, .. } if state.post_refusal(thread, peer).is_some() => {}
            Request::Post {
                owner,
                peer,
                op,
                tag,
                signaled,
                strong,
                transfer,
                ..
            } => {
                let op = Op {
                    signaled,
                    tag,
                    ..self.post(common, state, owner, peer, op)
                };
                for event in [op.first, op.middle, op.last] {
                    self.events[event].transfer = transfer;
                    self.events[event].strong = strong;
                }
                if let NicOp::PutInline { .. } = op.what {
                    // Its local read was made by the CPU that posted it.
                    self.read(state, op);
                    let first = &mut self.events[op.first];
                    // It has an effect once the put has.
                    (first.inlined, first.done) = (true, false);
                }
                let buffer = self.buffers.entry(owner).or_default();
                buffer.push_back(Buffered::Remote(peer, op));
            }
            Request::Poll => self.poll(state, thread),
            Request::WaitBegin { .. } => {
                self.evaluations.insert(thread, self.events.len());
            }
            Request::Park => {
                // The reads say only that the condition did not hold.
                let from = self.evaluations.insert(thread, self.events.len()).unwrap_or(0);
                let reads = self.events[from..]
                    .iter()
                    .filter(|e| e.thread == thread && e.kind == Kind::LocalRead);
                self.left_out.extend(reads.map(|e| e.id));
            }
            _ => {}
        }
    }

    fn locked(&mut self, thread: u16, word: Addr, old: i64, rmw: Rmw) {
        let source = self.memory.get(&word).copied();
        match rmw.apply(old as u64) {
            Some(new) => {
                let event = self.add(thread, Kind::Cas, Some(word), None);
                let noted = &mut self.events[event];
                (noted.read, noted.written, noted.source) = (Some(old), Some(new as i64), source);
                self.memory.insert(word, event);
            }
            None => {
                self.add(thread, Kind::Fence, None, None);
                let event = self.add(thread, Kind::LocalRead, Some(word), None);
                (self.events[event].read, self.events[event].source) = (Some(old), source);
            }
        }
    }

    fn post(&mut self, common: &Common, state: &mut State, thread: u16, peer: u16, what: NicOp) -> Op {
        let mut addr = |word| Some(state.addr(common, word));
        let (first, middle, last) = match what {
            NicOp::Put { dst, src } => (
                (Kind::NicLocalRead, addr(src)),
                None,
                Some((Kind::NicRemoteWrite, addr(dst))),
            ),
            NicOp::PutInline { dst, .. } => (
                (Kind::NicLocalRead, None),
                None,
                Some((Kind::NicRemoteWrite, addr(dst))),
            ),
            NicOp::Get { dst, src } => (
                (Kind::NicRemoteRead, addr(src)),
                None,
                Some((Kind::NicLocalWrite, addr(dst))),
            ),
            NicOp::FetchAdd { dst, target, .. } | NicOp::CompareSwap { dst, target, .. } => (
                (Kind::NicAtomicRead, addr(target)),
                Some((Kind::NicRemoteWrite, addr(target))),
                Some((Kind::NicLocalWrite, addr(dst))),
            ),
            NicOp::Fence => ((Kind::NicFence, None), None, None),
        };
        let mut add = |(kind, word)| self.add(thread, kind, word, Some(peer));
        let first = add(first);
        let middle_event = middle.map_or(first, &mut add);
        let last = last.map_or(first, &mut add);
        if middle.is_some() {
            for event in [first, middle_event, last] {
                self.events[event].rmw = true;
            }
        }
        Op {
            what,
            first,
            middle: middle_event,
            last,
            signaled: false,
            tag: 0,
        }
    }

    /// Takes every notification that is at the head of a queue pair of the node, as a poll does in [`State`].
    fn poll(&mut self, state: &State, poller: u16) {
        let node = state.info(poller).node;
        for thread in (0..state.threads.len() as u16).filter(|&t| state.info(t).node == node) {
            for peer in 0..state.node_count() as u16 {
                while let Some(queues) = self.queues.get_mut(&(thread, peer))
                    && let Some(&Back::Notification(of)) = queues.local.first()
                {
                    queues.local.remove(0);
                    let event = self.add(poller, Kind::Poll, None, Some(peer));
                    self.events[event].source = Some(of);
                }
            }
        }
    }

    /// Notes a step of the machine that is about to be taken.
    pub(super) fn see_step(&mut self, state: &State, step: Step) {
        self.clock += 1;
        match step {
            Step::Drain { thread } => {
                let head = self.buffers.get_mut(&thread).and_then(VecDeque::pop_front);
                match head {
                    Some(Buffered::Store(event, word)) => self.place(event, word),
                    Some(Buffered::Remote(peer, op)) => {
                        self.queues.entry((thread, peer)).or_default().pipe.push(op);
                    }
                    None => {}
                }
            }
            Step::Nic { qp, rule, index } => self.see_nic(state, qp, rule, usize::from(index)),
        }
    }

    fn see_nic(&mut self, state: &State, qp: QpId, rule: Rule, index: usize) {
        // The queues are taken out while they are worked on, and put back below.
        let mut queues = self.queues.remove(&(qp.thread, qp.peer)).unwrap_or_default();
        match rule {
            Rule::LocalRead | Rule::RemoteRead | Rule::AtomicRead => {
                if let Some(&op) = queues.pipe.get(index) {
                    self.read(state, op);
                }
            }
            Rule::RemoteWrite => {
                if let Some(op) = queues.pipe.get(index) {
                    self.events[op.first].done = true;
                    queues
                        .remote
                        .extend(self.events[op.last].word.map(|w| (op.last, w)));
                }
            }
            Rule::AtomicWrite => {
                if let Some(op) = queues.pipe.get(index) {
                    queues
                        .remote
                        .extend(self.events[op.middle].word.map(|w| (op.middle, w)));
                }
            }
            Rule::PlaceRemote => {
                if let Some((event, word)) = queues.remote.remove(index) {
                    self.place(event, word);
                }
            }
            Rule::PlaceLocal => {
                let writes = queues.local.iter().enumerate();
                let mut writes = writes.filter(|(_, back)| matches!(back, Back::Write(..)));
                let at = writes.nth(index).map(|(at, _)| at);
                if let Some(Back::Write(event, word, _)) = at.map(|at| queues.local.remove(at)) {
                    self.place(event, word);
                }
            }
            Rule::Respond => {
                if let Some(&op) = queues.pipe.get(index) {
                    let back = self.events[op.last].word.map(|w| Back::Write(op.last, w, op.tag));
                    queues.local.extend(back);
                    // Where data comes back in any order, the operation completes by another step.
                    if !state.machine.config().tier.reorders_network() {
                        queues.complete();
                    }
                }
            }
            Rule::Complete => queues.complete(),
            Rule::Fence => {
                if index < queues.pipe.len() {
                    let fence = queues.pipe.remove(index);
                    self.events[fence.first].time = self.clock;
                }
            }
            Rule::Forward => {}
        }
        self.queues.insert((qp.thread, qp.peer), queues);
    }

    /// Notes the first half of an operation. With the guarantee of PCIe it reads memory itself, not a write-back
    /// buffer.
    fn read(&mut self, state: &State, op: Op) {
        let glob = state.machine.config().atomicity == RmwAtomicity::Glob;
        let word = self.events[op.first].word;
        let value = match (op.what, word) {
            (NicOp::PutInline { value, .. }, _) => value as i64,
            (_, Some(word)) => state
                .machine
                .memory()
                .get(word.0 as usize)
                .copied()
                .unwrap_or_default(),
            _ => 0,
        };
        let clock = self.clock;
        let source = word.and_then(|word| self.memory.get(&word).copied());
        let first = &mut self.events[op.first];
        (first.read, first.source, first.time) = (Some(value), source, clock);
        first.done = true;
        self.events[op.last].written = Some(value);
        if op.middle == op.first {
            return;
        }
        let new = match op.what {
            NicOp::FetchAdd { add, .. } => Some(value.wrapping_add(add as i64)),
            NicOp::CompareSwap { expected, new, .. } => (value == expected as i64).then_some(new as i64),
            _ => None,
        };
        match (new, word) {
            (Some(new), Some(word)) if glob => {
                self.events[op.first].written = Some(new);
                self.left_out.insert(op.middle);
                self.memory.insert(word, op.first);
            }
            (Some(new), _) => self.events[op.middle].written = Some(new),
            (None, _) => {
                self.left_out.insert(op.middle);
            }
        }
    }

    /// Notes that a write reaches memory.
    fn place(&mut self, event: usize, word: Addr) {
        self.events[event].time = self.clock;
        self.events[event].done = true;
        self.memory.insert(word, event);
    }

    fn add(&mut self, thread: u16, kind: Kind, word: Option<Addr>, peer: Option<u16>) -> usize {
        let id = self.events.len();
        self.events.push(Recorded {
            id,
            thread,
            kind,
            word,
            peer,
            rmw: false,
            instance: self.instances.get(&thread).copied().unwrap_or(0),
            transfer: 0,
            strong: false,
            inlined: false,
            read: None,
            written: None,
            source: None,
            time: self.clock,
            done: false,
        });
        id
    }
}
