//! Describes the steps of an execution: what each move did, and where memory was weak.
//!
//! Relies on `mowgli::machine`'s descriptions for the machine's steps. Used by [`crate::exploring::shorten`] for
//! the trace of a failure, and by [`crate::graphs::film`].

use std::fmt;

use mowgli::machine::{Addr, QpId, Rule, Step};
use serde::Serialize;

use crate::fabric::request::{LockMode, NicOp, Note, Request, Rmw, VirtualWord};
use crate::state::{Common, Move, State};

/// A step of an execution in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceStep {
    /// The description of the step.
    pub what: String,
    /// The place in the program where a thread makes a call, a record or a wait, or posts an operation: a function, its file and line as
    /// far as the program has line tables. `None` for other steps.
    pub at: Option<String>,
    /// The reason why this step is weak: the writes that it would have seen if memory were sequentially
    /// consistent.
    pub weak: Option<String>,
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if let Some(at) = &self.at {
            write!(f, " (at {at})")?;
        }
        match &self.weak {
            Some(weak) => write!(f, "   <- weak: {weak}"),
            None => Ok(()),
        }
    }
}

/// The part of the machine that will carry out a write that has been issued.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Buffer(u16),
    Nic(QpId),
}

/// A write issued and not yet in memory.
struct Delayed {
    writer: Writer,
    word: Addr,
    what: String,
    /// The remote operation, unless it is a store of a CPU.
    remote: Option<Remote>,
}

/// The effect of a remote operation at the peer.
struct Remote {
    /// The operation in words.
    what: String,
    /// The word that it reads there, if it does.
    reads: Option<Addr>,
    /// Whether it writes there, as a put does.
    puts: bool,
    /// The transfer of which it moves a word, or 0. No request orders the words of a transfer.
    transfer: u32,
}

/// An operation that a thread posts.
struct Posted {
    /// The operation in words.
    text: String,
    /// The word that it writes, if it does.
    writes: Option<Addr>,
    /// The word that it reads at the peer, if it does.
    reads: Option<Addr>,
}

impl Posted {
    /// Describes an operation, with the words that it reads and writes.
    fn of(common: &Common, state: &mut State, op: NicOp) -> Posted {
        let mut named = |word| named(common, state, word);
        let (text, writes, reads) = match op {
            NicOp::Put { dst, src } => {
                let (src, (addr, dst)) = (named(src).1, named(dst));
                (format!("put {dst} := {src}"), Some(addr), None)
            }
            NicOp::PutInline { dst, value } => {
                let (addr, dst) = named(dst);
                (format!("put {dst} := {value}"), Some(addr), None)
            }
            NicOp::Get { dst, src } => {
                let ((from, src), (addr, dst)) = (named(src), named(dst));
                (format!("get {dst} := {src}"), Some(addr), Some(from))
            }
            NicOp::FetchAdd { dst, target, add } => {
                let ((from, target), (addr, dst)) = (named(target), named(dst));
                let text = format!("fetch-and-add {target} += {add}, old value to {dst}");
                (text, Some(addr), Some(from))
            }
            NicOp::CompareSwap {
                dst,
                target,
                expected,
                new,
            } => {
                let ((from, target), (addr, dst)) = (named(target), named(dst));
                let text = format!("compare-and-swap {target} {expected} -> {new}, old value to {dst}");
                (text, Some(addr), Some(from))
            }
            NicOp::Fence => ("remote fence".to_owned(), None, None),
        };
        Posted { text, writes, reads }
    }
}

/// Returns the address of a word, and its name.
fn named(common: &Common, state: &mut State, word: VirtualWord) -> (Addr, String) {
    let addr = state.addr(common, word);
    (addr, name_of(common, addr))
}

/// Follows an execution and describes its moves.
#[derive(Default)]
pub(crate) struct Tracer {
    delayed: Vec<Delayed>,
    /// The place of the move that comes next.
    pub(crate) place: Option<String>,
    pub(crate) steps: Vec<TraceStep>,
}

impl Tracer {
    /// Describes the operations that have been issued and have not taken effect.
    pub(crate) fn outstanding(&self) -> Vec<String> {
        self.delayed.iter().map(|d| d.what.clone()).collect()
    }

    /// Describes a move that is about to be taken in `state`.
    pub(crate) fn see(&mut self, common: &Common, state: &mut State, what: Move) {
        match what {
            Move::Machine(step) => {
                // Nodes are numbered as the fabric counts them, from 0.
                let text = state
                    .machine
                    .describe_from(0, step, &|addr| name_of(common, addr));
                let weak = self.overtaken(state, step);
                self.push(text, weak);
                let writer = match step {
                    Step::Drain { thread } => Writer::Buffer(thread),
                    Step::Nic { qp, .. } => Writer::Nic(qp),
                };
                if let Some(word) = state.machine.footprint(step).writes {
                    let done = self
                        .delayed
                        .iter()
                        .position(|d| d.writer == writer && d.word == word);
                    if let Some(done) = done {
                        self.delayed.remove(done);
                    }
                }
            }
            Move::Fault(fault) => {
                self.delayed.retain(|delayed| match delayed.writer {
                    Writer::Buffer(thread) => !fault.empties_buffer(state, thread),
                    Writer::Nic(qp) => !fault.cuts(state, qp),
                });
                self.push(fault.describe(state), None);
            }
            Move::Thread(thread) => {
                if let Some(request) = state.request(common, thread) {
                    self.see_request(common, state, thread, request);
                }
            }
        }
        self.place = None;
    }

    /// Returns the earlier put of the same queue pair that an operation passes by taking effect, if they have to do with the same word or
    /// both are puts, and says that the operation could have asked not to.
    fn overtaken(&self, state: &State, step: Step) -> Option<String> {
        let Step::Nic { qp, rule, .. } = step else {
            return None;
        };
        let touched = state.machine.footprint(step);
        let own = || self.delayed.iter().filter(|d| d.writer == Writer::Nic(qp));
        let (at, passing, among) = match rule {
            Rule::PlaceRemote => {
                let word = touched.writes?;
                let at = own().position(|d| d.word == word)?;
                (at, own().nth(at)?, None)
            }
            Rule::RemoteRead | Rule::AtomicRead => {
                let word = touched.reads?;
                let reads = |d: &Delayed| d.remote.as_ref().is_some_and(|r| r.reads == Some(word));
                let at = own().position(reads)?;
                (at, own().nth(at)?, Some(word))
            }
            _ => return None,
        };
        let passing = passing.remote.as_ref()?;
        let earlier = |d: &&Delayed| {
            let other = d.remote.as_ref();
            let passed = other.is_some_and(|r| r.puts && (r.transfer == 0 || r.transfer != passing.transfer));
            passed && among.is_none_or(|word| d.word == word)
        };
        let first = own().take(at).find(earlier)?.remote.as_ref()?;
        Some(format!(
            "{} passes {}; strong order on it would keep it behind",
            passing.what, first.what
        ))
    }

    /// Describes a request that is about to be granted to a thread.
    fn see_request(&mut self, common: &Common, state: &mut State, thread: u16, request: &Request) {
        let who = format!("P{thread} ({})", state.info(thread).name);
        let said = match *request {
            Request::Load { word } => return self.see_load(common, state, thread, word),
            Request::Store { word, value } => return self.see_store(common, state, thread, word, value),
            Request::Direct { peer, word, access } => match state.post_refusal(thread, peer) {
                Some(lost) => format!(
                    "is refused access to {}: node {lost} is lost",
                    named(common, state, word).1
                ),
                None => return self.see_request(common, state, thread, &access.to(word)),
            },
            Request::Post { .. } => return self.see_post(common, state, thread, request),
            Request::Rmw { word, rmw } => rmw_on(rmw, &named(common, state, word).1),
            Request::Fence => "mfence".to_owned(),
            Request::Poll => "polls".to_owned(),
            Request::WaitBegin { ref what, .. } => format!("waits for {what}"),
            Request::WaitEnd => "has what it waited for".to_owned(),
            Request::Park => "parks".to_owned(),
            Request::Note(Note::Call(ref text)) => format!("calls {text}"),
            Request::Note(Note::Return(ref text)) => format!("returns {text}"),
            Request::Note(Note::Mark(ref text)) => format!("notes {text}"),
            Request::End(Ok(())) => "ends".to_owned(),
            Request::End(Err(ref message)) => format!("panics: {message}"),
            Request::Lock { .. } | Request::TryLock { .. } | Request::Unlock { .. } => return,
            ref other => Said(common, other).to_string(),
        };
        self.push(format!("{who}: {said}"), None);
    }

    /// Describes a load. It is weak if another thread or a queue pair has a write to the word that is not in memory yet.
    fn see_load(&mut self, common: &Common, state: &mut State, thread: u16, word: VirtualWord) {
        let who = format!("P{thread} ({})", state.info(thread).name);
        let (addr, name) = named(common, state, word);
        let value = state.machine.load(thread, addr).unwrap_or_default() as u64;
        let is_late = |d: &&Delayed| d.word == addr && d.writer != Writer::Buffer(thread);
        let weak = self.delayed.iter().rev().find(is_late).map(|d| d.what.clone());
        self.push(format!("{who}: loads {name} (={value})"), weak);
    }

    /// Describes a store, which is delayed until it leaves the thread's store buffer.
    fn see_store(&mut self, common: &Common, state: &mut State, thread: u16, word: VirtualWord, value: u64) {
        let who = format!("P{thread} ({})", state.info(thread).name);
        let (addr, name) = named(common, state, word);
        self.delayed.push(Delayed {
            writer: Writer::Buffer(thread),
            word: addr,
            what: format!("{who}'s store {name} := {value} is still in its store buffer"),
            remote: None,
        });
        self.push(format!("{who}: stores {name} := {value}"), None);
    }

    /// Describes a post. What the operation writes is delayed until it is placed. A post towards a lost node is refused.
    fn see_post(&mut self, common: &Common, state: &mut State, thread: u16, request: &Request) {
        let who = format!("P{thread} ({})", state.info(thread).name);
        let Request::Post {
            owner,
            peer,
            op,
            tag,
            strong,
            transfer,
            ..
        } = *request
        else {
            return;
        };
        let posted = Posted::of(common, state, op);
        let text = match strong {
            true => format!("strong {}", posted.text),
            false => posted.text,
        };
        if let Some(lost) = state.post_refusal(thread, peer) {
            let why = format!("node {lost} is lost");
            return self.push(
                format!("{who}: is refused to post {text} to node {peer}: {why}"),
                None,
            );
        }
        if let Some(word) = posted.writes {
            self.delayed.push(Delayed {
                writer: Writer::Nic(QpId { thread: owner, peer }),
                word,
                what: format!("P{owner}'s {text} is not yet placed"),
                remote: Some(Remote {
                    what: text.clone(),
                    reads: posted.reads,
                    puts: posted.reads.is_none(),
                    transfer,
                }),
            });
        }
        self.push(format!("{who}: posts {text} to node {peer} as #{tag:x}"), None);
    }

    fn push(&mut self, what: String, weak: Option<String>) {
        let at = self.place.take();
        self.steps.push(TraceStep { what, at, weak });
    }
}

/// Describes a read-modify-write of a processor.
fn rmw_on(rmw: Rmw, name: &str) -> String {
    match rmw {
        Rmw::Swap(new) => format!("swaps {name} for {new}"),
        Rmw::Add { add, mask } if add == mask => format!("subtracts 1 from {name}"),
        Rmw::Add { add, .. } => format!("adds {add} to {name}"),
        Rmw::Or(bits) => format!("sets bits {bits:#x} of {name}"),
        Rmw::And(bits) => format!("keeps bits {bits:#x} of {name}"),
        Rmw::CompareExchange { current, new } => {
            format!("exchanges {name} from {current} to {new}, if it can")
        }
    }
}

/// A request in words, as the third person has it: "takes a lock".
pub(crate) struct Said<'a>(pub(crate) &'a Common, pub(crate) &'a Request);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Said(common, request) = *self;
        let name = |word: VirtualWord| name_of(common, Addr(common.words.index(word.0)));
        match *request {
            Request::Load { word } => write!(f, "loads {}", name(word)),
            Request::Store { word, value } => write!(f, "stores {} := {value}", name(word)),
            Request::Rmw { word, rmw } => f.write_str(&rmw_on(rmw, &name(word))),
            Request::Fence => f.write_str("executes mfence"),
            Request::Direct { word, access, .. } => Said(common, &access.to(word)).fmt(f),
            Request::Post { peer, .. } => write!(f, "posts an operation to node {peer}"),
            Request::Poll => f.write_str("polls"),
            Request::WaitBegin { ref what, .. } => write!(f, "begins to wait for {what}"),
            Request::WaitEnd => f.write_str("has what it waited for"),
            Request::Park => f.write_str("parks"),
            Request::Now => f.write_str("reads its clock"),
            Request::Lost => f.write_str("asks which nodes are lost"),
            Request::Reach { peer } => write!(f, "asks whether node {peer} can be reached"),
            Request::Lock { mode, .. } => write!(f, "takes a lock{}", mode_of(mode)),
            Request::TryLock { .. } => f.write_str("tries to take a lock"),
            Request::Unlock { mode, .. } => write!(f, "releases a lock{}", mode_of(mode)),
            Request::Spawn { ref name, .. } => write!(f, "starts the thread {name}"),
            Request::Join { thread } => write!(f, "waits for the end of P{thread}"),
            Request::Send { to, .. } => write!(f, "sends a set-up message to node {}", to.0),
            Request::Receive => f.write_str("receives a set-up message"),
            Request::Close => f.write_str("ends its set-up messages"),
            Request::Note(Note::Call(ref text)) => write!(f, "calls {text}"),
            Request::Note(Note::Return(ref text)) => write!(f, "returns {text}"),
            Request::Note(Note::Mark(ref text)) => write!(f, "notes {text}"),
            Request::Faulted => f.write_str("asks whether a fault has happened"),
            Request::HasHappened(_) => f.write_str("asks whether what its error blames has happened"),
            Request::Leave => f.write_str("ends the process of its node"),
            Request::End(Ok(())) => f.write_str("ends"),
            Request::End(Err(ref message)) => write!(f, "panics: {message}"),
        }
    }
}

fn mode_of(mode: LockMode) -> &'static str {
    match mode {
        LockMode::Exclusive => "",
        LockMode::Shared => " together with others",
    }
}

/// Returns the name of a word. A word of memory that the set-up named has the number of its node, that name, and its place in
/// words: `n1:bar/sst.rows[2]`. Other words have the number of the thread that allocated them and their place there: `n0[3]` has
/// the fourth name that thread 0, the set-up of node 0, gave out. Locks have names of their own in this order.
pub(crate) fn name_of(common: &Common, addr: Addr) -> String {
    let Some(word) = common.words.name(addr.0).map(VirtualWord) else {
        return format!("w{}", addr.0);
    };
    let owner = word.owner();
    match common.label(word) {
        Some((name, place)) => format!("n{owner}:{name}[{place}]"),
        None => format!("n{owner}[{}]", word.0 - VirtualWord::base(owner)),
    }
}
