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
                self.push(format!("{who}: {}", rmw_on(rmw, &name)), None);
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
            ref other => self.push(format!("{who}: {}", Said(common, other)), None),
        }
    }

    fn push(&mut self, what: String, weak: Option<String>) {
        self.steps.push(TraceStep { what, weak });
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
