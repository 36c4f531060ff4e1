//! Describes the steps of an execution: what each move did, and where memory was weak.
//!
//! Relies on `mowgli::machine`'s descriptions for the machine's steps. Used by [`crate::exploring::shorten`] for
//! the trace of a failure, and by [`crate::graphs::film`].

use std::fmt;

use mowgli::machine::{Addr, QpId, Rule, Step};
use serde::Serialize;

use crate::fabric::request::{NicOp, Note, Request, VirtualWord};
use crate::state::{Common, Move, State};

/// A step of an execution in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceStep {
    /// The description of the step.
    pub what: String,
    /// The reason why this step is weak: the writes that it would have seen if memory were sequentially
    /// consistent.
    pub weak: Option<String>,
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
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

/// Follows an execution and describes its moves.
#[derive(Default)]
pub(crate) struct Tracer {
    delayed: Vec<Delayed>,
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
                let text = state.machine.describe(step, &|addr| name_of(common, addr));
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

    fn see_request(&mut self, common: &Common, state: &mut State, thread: u16, request: &Request) {
        let who = format!("P{thread} ({})", state.info(thread).name);
        let named = |state: &mut State, word: VirtualWord| {
            let addr = state.addr(common, word);
            (addr, name_of(common, addr))
        };
        match *request {
            Request::Load { word } => {
                let (addr, name) = named(state, word);
                let value = state.machine.load(thread, addr).unwrap_or_default() as u64;
                let late = self
                    .delayed
                    .iter()
                    .rev()
                    .find(|d| d.word == addr && d.writer != Writer::Buffer(thread));
                let weak = late.map(|d| d.what.clone());
                self.push(format!("{who}: loads {name} (={value})"), weak);
            }
            Request::Store { word, value } => {
                let (addr, name) = named(state, word);
                self.delayed.push(Delayed {
                    writer: Writer::Buffer(thread),
                    word: addr,
                    what: format!("{who}'s store {name} := {value} is still in its store buffer"),
                    remote: None,
                });
                self.push(format!("{who}: stores {name} := {value}"), None);
            }
            Request::Rmw { word, rmw } => {
                let (_, name) = named(state, word);
                self.push(format!("{who}: {rmw:?} on {name}"), None);
            }
            Request::Fence => self.push(format!("{who}: mfence"), None),
            Request::Direct { peer, word, access } => match state.post_refusal(thread, peer) {
                Some(lost) => {
                    let (name, why) = (named(state, word).1, format!("node {lost} is lost"));
                    self.push(format!("{who}: is refused access to {name}: {why}"), None);
                }
                None => self.see_request(common, state, thread, &access.to(word)),
            },
            Request::Post {
                owner,
                peer,
                op,
                tag,
                strong,
                transfer,
                ..
            } => {
                let writer = Writer::Nic(QpId { thread: owner, peer });
                let (text, written) = match op {
                    NicOp::Put { dst, src } => {
                        let (src, (addr, dst)) = (named(state, src).1, named(state, dst));
                        (format!("put {dst} := {src}"), Some(addr))
                    }
                    NicOp::PutInline { dst, value } => {
                        let (addr, dst) = named(state, dst);
                        (format!("put {dst} := {value}"), Some(addr))
                    }
                    NicOp::Get { dst, src } => {
                        let (src, (addr, dst)) = (named(state, src).1, named(state, dst));
                        (format!("get {dst} := {src}"), Some(addr))
                    }
                    NicOp::FetchAdd { dst, target, add } => {
                        let (target, (addr, dst)) = (named(state, target).1, named(state, dst));
                        (
                            format!("fetch-and-add {target} += {add}, old value to {dst}"),
                            Some(addr),
                        )
                    }
                    NicOp::CompareSwap {
                        dst,
                        target,
                        expected,
                        new,
                    } => {
                        let (target, (addr, dst)) = (named(state, target).1, named(state, dst));
                        let text =
                            format!("compare-and-swap {target} {expected} -> {new}, old value to {dst}");
                        (text, Some(addr))
                    }
                    NicOp::Fence => ("remote fence".to_owned(), None),
                };
                let text = if strong { format!("strong {text}") } else { text };
                if let Some(lost) = state.post_refusal(thread, peer) {
                    let why = format!("node {lost} is lost");
                    return self.push(
                        format!("{who}: is refused to post {text} to node {peer}: {why}"),
                        None,
                    );
                }
                let reads = match op {
                    NicOp::Get { src, .. } => Some(named(state, src).0),
                    NicOp::FetchAdd { target, .. } | NicOp::CompareSwap { target, .. } => {
                        Some(named(state, target).0)
                    }
                    _ => None,
                };
                if let Some(addr) = written {
                    self.delayed.push(Delayed {
                        writer,
                        word: addr,
                        what: format!("P{owner}'s {text} is not yet placed"),
                        remote: Some(Remote {
                            what: text.clone(),
                            reads,
                            puts: reads.is_none(),
                            transfer,
                        }),
                    });
                }
                self.push(format!("{who}: posts {text} to node {peer} as #{tag:x}"), None);
            }
            Request::Poll => self.push(format!("{who}: polls"), None),
            Request::WaitBegin { ref what, .. } => self.push(format!("{who}: waits for {what}"), None),
            Request::WaitEnd => self.push(format!("{who}: has what it waited for"), None),
            Request::Park => self.push(format!("{who}: parks"), None),
            Request::Note(Note::Call(ref text)) => self.push(format!("{who}: calls {text}"), None),
            Request::Note(Note::Return(ref text)) => self.push(format!("{who}: returns {text}"), None),
            Request::Note(Note::Mark(ref text)) => self.push(format!("{who}: notes {text}"), None),
            Request::End(Ok(())) => self.push(format!("{who}: ends"), None),
            Request::End(Err(ref message)) => self.push(format!("{who}: panics: {message}"), None),
            Request::Lock { .. } | Request::TryLock { .. } | Request::Unlock { .. } => {}
            ref other => self.push(format!("{who}: {other:?}"), None),
        }
    }

    fn push(&mut self, what: String, weak: Option<String>) {
        self.steps.push(TraceStep { what, weak });
    }
}

/// Returns the name of a word, made of the number of the thread that allocated it and of its place there: `n0[3]` has
/// the fourth name that thread 0, the set-up of node 0, gave out. Locks have names of their own in this order.
pub(crate) fn name_of(common: &Common, addr: Addr) -> String {
    match common.words.name(addr.0) {
        Some(name) => {
            let owner = name / VirtualWord::base(1);
            format!("n{owner}[{}]", name % VirtualWord::base(1))
        }
        None => format!("w{}", addr.0),
    }
}
