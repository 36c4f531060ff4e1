//! A connection with a peer: it posts this node's operations, executes the peer's, and lands the answers.
//!
//! A link is used under a lock. What the peer asks for is executed in the order in which it comes, each request completely before
//! the next, and so are answers landed. Nothing here blocks.
//!
//! Relies on `stream`, `queue` and `frame`. Used by `shared`.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use loco_fabric::{Completion, FabricError, NodeId, Result};
use loco_host::heap::Arena;
use loco_host::span::Span;
use loco_host::word;

use crate::frame::{FRAME_BYTES_MAX, HEADER_BYTES, Header, Kind, Malformed, piece};
use crate::queue::{Op, Queue};
use crate::stream::{Came, Stream};

/// The bytes that may wait to be sent before operations wait unsent, with which the memory that they read stays theirs.
const OUT_BYTES_MAX: usize = 256 << 10;
/// The bytes that wait to be sent from which on a post sends although an answer is due.
const SENT_AT_ONCE_BYTES: usize = 32 << 10;
/// The bytes of answers that may be due before gets wait unsent. It bounds what the peer has to keep for this node.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The looks at the socket in a row before other peers have their turn.
const LOOKS: u32 = 4;
/// The time for which a broken connection may be the first sign of a peer's loss. After that its operations fail.
const BROKEN_PATIENCE: Duration = Duration::from_secs(10);

/// A connection with `peer`.
pub(crate) struct Link {
    peer: NodeId,
    stream: Stream,
    /// This node's memory.
    memory: Span<Arena>,
    queues: Vec<Option<Queue>>,
    free: Vec<u32>,
    /// The queue pairs that have something to send, and wait for room or for results.
    waiting: VecDeque<u32>,
    /// The queue pairs that may have operations to report.
    ended: Vec<u32>,
    /// The answers that are due, oldest first.
    due: VecDeque<Due>,
    due_bytes: usize,
    state: State,
    /// Set while the socket takes no more, although something waits to be sent.
    stuck: bool,
    /// Set while a peer's put may be in this processor's store buffer.
    unfenced: bool,
}

/// An answer that is due.
struct Due {
    queue: u32,
    number: u64,
    /// The first byte of the result that it brings.
    at: usize,
    len: usize,
}

/// What a post has left to a later look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Something has not been sent.
    pub(crate) unsent: bool,
    /// Operations may have ended.
    pub(crate) ended: bool,
}

enum State {
    Open,
    /// The connection has ended. Whether the peer is lost is not known.
    Broken {
        error: io::Error,
        since: Instant,
    },
    /// The operations are given up for this reason.
    Gone(FabricError),
}

impl Link {
    pub(crate) fn new(peer: NodeId, stream: Stream, memory: Span<Arena>) -> Link {
        Link {
            peer,
            stream,
            memory,
            queues: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            ended: Vec::new(),
            due: VecDeque::new(),
            due_bytes: 0,
            state: State::Open,
            stuck: false,
            unfenced: false,
        }
    }

    /// Adds a queue pair and returns its number.
    pub(crate) fn add(&mut self) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.queues[index as usize] = Some(Queue::default());
                index
            }
            None => {
                self.queues.push(Some(Queue::default()));
                u32::try_from(self.queues.len() - 1).unwrap_or(u32::MAX)
            }
        }
    }

    /// Lets a queue pair go once its operations have ended.
    pub(crate) fn retire(&mut self, index: u32) {
        if let Some(queue) = &mut self.queues[index as usize] {
            queue.retired = true;
            mark_ended(&mut self.ended, queue, index);
        }
    }

    /// Returns true while requests of the peer are executed.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Returns true while the socket takes no more.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Posts an operation, `data` being those of an inline put, and sends it, unless `later` says that something
    /// else will, or an answer is due, with which it will be sent. Returns what is left to a later [`look`](Link::look).
    ///
    /// # Errors
    /// Returns [`FabricError::QueueFull`], and the error for which the peer's operations were given up.
    pub(crate) fn post(
        &mut self,
        index: u32,
        op: Op,
        data: &[u8],
        later: bool,
        depth: usize,
    ) -> Result<Left> {
        if let State::Gone(error) = &self.state {
            return Err(error.clone());
        }
        let answer_is_due = !self.due.is_empty();
        let Some(queue) = &mut self.queues[index as usize] else {
            return Err(FabricError::UnknownPeer(self.peer)); // not reached: its owner has it
        };
        queue.drop_unsignaled();
        if queue.len() >= depth {
            return Err(FabricError::QueueFull(self.peer));
        }
        let open = matches!(self.state, State::Open);
        let begins = open && queue.is_sent() && !(op.fenced && queue.lacks_results());
        if begins && op.local.is_none() && op.kind == Kind::Put && self.stream.unsent() < OUT_BYTES_MAX {
            // Most puts are short: they need no copy besides the one that is sent.
            put(self.stream.out(), op.place, data);
            let signaled = op.signaled;
            queue.push(Op { is_sent: true, ..op });
            match signaled {
                true => mark_ended(&mut self.ended, queue, index),
                false => queue.drop_unsignaled(),
            }
        } else {
            queue.push(Op {
                data: data.into(),
                ..op
            });
            if !queue.listed {
                queue.listed = true;
                self.waiting.push_back(index);
            }
            self.feed_waiting();
        }
        if !later && (!answer_is_due || self.stream.unsent() >= SENT_AT_ONCE_BYTES) {
            self.pump();
        }
        Ok(Left {
            unsent: self.stream.unsent() > 0,
            ended: !self.ended.is_empty(),
        })
    }

    /// Sends whatever can be sent.
    pub(crate) fn pump(&mut self) {
        while self.is_open() {
            self.feed_waiting();
            if self.stream.unsent() == 0 {
                self.stuck = false;
                return;
            }
            match self.stream.send() {
                Ok(all) => self.stuck = !all,
                Err(error) => self.break_off(error),
            }
            if self.stuck || self.waiting.is_empty() {
                return;
            }
        }
    }

    fn feed_waiting(&mut self) {
        if !self.is_open() {
            return;
        }
        for _ in 0..self.waiting.len() {
            if let Some(index) = self.waiting.pop_front() {
                self.feed(index);
            }
        }
    }

    /// Turns the operations of a queue pair into requests, as far as there is room and they need not wait for results.
    fn feed(&mut self, index: u32) {
        let Some(queue) = &mut self.queues[index as usize] else {
            return;
        };
        queue.listed = false;
        loop {
            let lacks_results = queue.lacks_results();
            let Some((number, op)) = queue.next() else { break };
            let waits_for_results = op.fenced && op.sent == 0 && lacks_results;
            if waits_for_results || self.stream.unsent() >= OUT_BYTES_MAX {
                queue.listed = true;
                break;
            }
            let out = self.stream.out();
            let place = op.place + op.sent as u64;
            let len = match op.kind {
                Kind::Put | Kind::Get => piece(place, op.len - op.sent),
                _ => op.len,
            };
            if op.kind == Kind::Get && self.due_bytes > 0 && self.due_bytes + len > ANSWER_BYTES_MAX {
                queue.listed = true;
                break;
            }
            let (at, kind) = (op.sent, op.kind);
            op.sent += len;
            let is_sent = op.sent == op.len;
            let awaits = match kind {
                Kind::Put | Kind::Get if len == 0 => false,
                Kind::Put => {
                    put_op(out, op, at, len, place);
                    false
                }
                _ => {
                    Header { kind, len, place }.encode(out);
                    for operand in &op.operands {
                        out.extend_from_slice(&operand.to_le_bytes());
                    }
                    true
                }
            };
            if awaits {
                self.due.push_back(Due {
                    queue: index,
                    number,
                    at,
                    len,
                });
                self.due_bytes += len;
                queue.awaits(number);
            }
            if is_sent {
                queue.sent();
                mark_ended(&mut self.ended, queue, index);
            }
        }
        if queue.listed {
            self.waiting.push_back(index);
        }
    }

    /// Takes in what has come, executes and answers it, and sends what waits. Appends the reports of operations that have
    /// ended. Returns true if anything has come or ended.
    pub(crate) fn look(&mut self, reports: &mut Vec<Completion>) -> bool {
        let mut came = false;
        for _ in 0..LOOKS {
            if !self.is_open() {
                break;
            }
            let looked = self.stream.receive();
            if matches!(looked, Ok(Came::Full | Came::All)) {
                came = true;
                if self.take_in() == Err(Malformed) {
                    self.break_off(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the peer sent what no node of this version sends",
                    ));
                }
            }
            match looked {
                Ok(Came::Full) => {}
                Ok(_) => break,
                Err(error) => self.break_off(error),
            }
        }
        self.pump();
        if let State::Broken { error, since } = &self.state
            && since.elapsed() > BROKEN_PATIENCE
        {
            let error = FabricError::Operation {
                operation: "operation",
                peer: self.peer,
                status: error.to_string(),
                cause: "the data connection broke, and the peer is still there: look for a firewall or a failing network \
                        between the hosts, and start the job again"
                    .to_owned(),
            };
            self.give_up(&error, reports);
        }
        let before = reports.len();
        self.report(reports);
        came || reports.len() > before
    }

    /// Executes the requests that have come completely, and lands the answers.
    fn take_in(&mut self) -> Result<(), Malformed> {
        let (incoming, range) = self.stream.lend();
        let mut at = range.start;
        let taken = loop {
            let Some((header, rest)) = incoming[at..range.end].split_first_chunk::<HEADER_BYTES>() else {
                break Ok(());
            };
            let header = match Header::decode(header) {
                Ok(header) => header,
                Err(malformed) => break Err(malformed),
            };
            let Some(body) = rest.get(..header.body_bytes()) else {
                break Ok(());
            };
            if self.execute(header, body).is_none() {
                break Err(Malformed);
            }
            at += HEADER_BYTES + body.len();
        };
        self.stream.give_back(incoming, at);
        taken
    }

    /// Executes a request or lands an answer. Returns `None` for one that no node sends: outside of memory, or unasked for.
    fn execute(&mut self, header: Header, body: &[u8]) -> Option<()> {
        let place = usize::try_from(header.place).ok()?;
        let word = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
        if header.kind != Kind::Put && std::mem::take(&mut self.unfenced) {
            // Earlier puts are seen by everyone before anything is read or answered.
            word::full_fence();
        }
        let old = match header.kind {
            Kind::Put => {
                self.unfenced = true;
                return self.memory.write(place, body).ok();
            }
            Kind::Answer => return self.land(body),
            Kind::Get => {
                self.memory.check(place, header.len).ok()?;
                let out = self.answer(header.len);
                let start = out.len();
                out.resize(start + header.len, 0);
                return self.memory.read(place, &mut self.stream.out()[start..]).ok();
            }
            Kind::Flush => {
                self.answer(0);
                return Some(());
            }
            Kind::FetchAdd => self.memory.fetch_add(place, word(0)?).ok()?,
            Kind::CompareSwap => self.memory.compare_swap(place, word(0)?, word(8)?).ok()?,
        };
        self.answer(8).extend_from_slice(&old.to_le_bytes());
        Some(())
    }

    fn answer(&mut self, len: usize) -> &mut Vec<u8> {
        let out = self.stream.out();
        let kind = Kind::Answer;
        Header { kind, len, place: 0 }.encode(out);
        out
    }

    fn land(&mut self, body: &[u8]) -> Option<()> {
        let due = self.due.pop_front()?;
        if body.len() != due.len {
            return None;
        }
        self.due_bytes -= due.len;
        let queue = self.queues.get_mut(due.queue as usize)?.as_mut()?;
        let op = queue.answered(due.number)?;
        if let Some((memory, offset)) = &op.local {
            memory.span().write(offset + due.at, body).ok()?;
        }
        mark_ended(&mut self.ended, queue, due.queue);
        Some(())
    }

    /// Appends the reports of operations that have ended, and lets retired queue pairs go.
    fn report(&mut self, reports: &mut Vec<Completion>) {
        for index in self.ended.drain(..) {
            let place = &mut self.queues[index as usize];
            let Some(queue) = place else { continue };
            queue.marked = false;
            queue.take_ended(self.peer, reports);
            if queue.retired && queue.len() == 0 {
                *place = None;
                self.free.push(index);
            }
        }
    }

    /// Ends the connection. The operations wait until it is known whether the peer is lost.
    fn break_off(&mut self, error: io::Error) {
        if self.is_open() {
            tracing::debug!("the data connection with {} ended: {error}", self.peer);
            self.stream.shut();
            self.stuck = false;
            self.state = State::Broken {
                error,
                since: Instant::now(),
            };
        }
    }

    /// Shuts the peer out: nothing that it has sent is executed any more.
    pub(crate) fn shut_out(&mut self) {
        self.break_off(io::Error::other("this node has shut the peer out"));
    }

    /// Gives up all operations, because of `error`, and appends their reports.
    pub(crate) fn give_up(&mut self, error: &FabricError, reports: &mut Vec<Completion>) {
        if matches!(self.state, State::Gone(_)) {
            return;
        }
        self.stream.shut();
        self.stuck = false;
        self.state = State::Gone(error.clone());
        self.due.clear();
        self.due_bytes = 0;
        self.waiting.clear();
        for (index, queue) in (0..).zip(&mut self.queues) {
            if let Some(queue) = queue {
                queue.listed = false;
                queue.give_up(self.peer, error, reports);
                mark_ended(&mut self.ended, queue, index);
            }
        }
        self.report(reports);
    }

    /// Returns true if something that was posted has not been sent.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_open() && (self.stream.unsent() > 0 || !self.waiting.is_empty())
    }
}

/// Notes that a queue pair may have operations to report.
fn mark_ended(ended: &mut Vec<u32>, queue: &mut Queue, index: u32) {
    if !std::mem::replace(&mut queue.marked, true) {
        ended.push(index);
    }
}

/// Appends the requests of a put of `data`.
fn put(out: &mut Vec<u8>, mut place: u64, mut data: &[u8]) {
    while !data.is_empty() {
        let len = piece(place, data.len());
        let kind = Kind::Put;
        Header { kind, len, place }.encode(out);
        let (now, later) = data.split_at(len);
        out.extend_from_slice(now);
        place += len as u64;
        data = later;
    }
}

/// Appends the request of a piece of a put: `len` bytes from `at`.
fn put_op(out: &mut Vec<u8>, op: &Op, at: usize, len: usize, place: u64) {
    let kind = Kind::Put;
    Header { kind, len, place }.encode(out);
    let start = out.len();
    match &op.local {
        None => out.extend_from_slice(&op.data[at..at + len]),
        Some((memory, offset)) => {
            out.resize(start + len, 0);
            // The range was checked when the operation was posted.
            let read = memory.span().read(offset + at, &mut out[start..]);
            debug_assert_eq!(read, Ok(()));
        }
    }
}

const _: () = assert!(FRAME_BYTES_MAX <= OUT_BYTES_MAX);
