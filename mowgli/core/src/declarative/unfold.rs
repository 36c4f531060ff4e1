//! Unfolds the code of a thread to its *paths*: straight lines of events with symbolic values.
//!
//! Every branch, loop iteration, non-deterministic choice and success or failure of a compare-and-swap is a fork. A path
//! carries the conditions that its forks put on the values read. (RDMA-TSO'24 app. C.2 unfolds with concrete values, for all
//! values at once.) The search looks for executions that satisfy these conditions. Iterations of loops without effect are not unfolded
//! ([`Repeats`]).

mod marks;
mod repeats;
mod requests;

use std::sync::Arc;

use crate::event::{Event, Kind};
use crate::loops;
use crate::models::Spec;
use crate::outcome::{Budget, Endless, Limit};
use crate::program::{BinaryOp, Expr, Instr, Loc, Node, Program, Reg, ThreadId, WorkId};

use super::sym::{Sym, fold_binary, fold_unary};
use repeats::{Iterations, Readers, Scratch};

pub use repeats::Repeats;
pub(crate) use repeats::all;

/// Most paths of one thread.
pub const PATHS_MAX: usize = 1 << 16;

/// Most events on one path.
pub const EVENTS_MAX: usize = 500;

/// The end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The thread finished.
    Complete,
    /// The thread comes no further: an assumption failed, a poll has nothing to poll, or a loop waits for what has not happened. Such a
    /// path is part of no outcome. It matters only when the engine decides whether another thread can exceed a loop bound.
    Stuck,
    /// A loop needs one more iteration than its bound.
    LoopBound {
        /// The bound.
        bound: u32,
        /// The loop.
        at: Endless,
    },
}

impl End {
    /// Returns the limit that a path with this end of a thread has met, if it has.
    pub(crate) fn limit(self, thread: usize) -> Option<Limit> {
        match self {
            End::LoopBound { bound, at } => Some(Limit::LoopBound {
                thread,
                bound,
                at: Some(at),
            }),
            End::Complete | End::Stuck => None,
        }
    }
}

/// One way through a thread.
#[derive(Clone, Debug)]
pub struct Path {
    /// Events in program order.
    pub events: Vec<Event>,
    /// The value that each writing event writes, and the value that the source of a constant put reads.
    pub values: Vec<Option<Arc<Sym>>>,
    /// `(write, poll)` pairs of polls-from.
    pub pf: Vec<(usize, usize)>,
    /// Values that must be non-zero (`true`) or zero (`false`).
    pub conditions: Vec<(Arc<Sym>, bool)>,
    /// Final registers.
    pub registers: Vec<Arc<Sym>>,
    /// The end of the path.
    pub end: End,
}

/// Unfolds every path of a thread, with loops up to their bounds.
///
/// # Errors
/// Returns the limit that the unfolding exceeded.
pub fn paths(program: &Program, thread: usize, spec: &Spec, budget: &Budget<'_>) -> Result<Vec<Path>, Limit> {
    paths_with(program, thread, spec, Repeats::All, budget)
}

/// Unfolds the paths of a thread that a question needs. Paths with further iterations of loops ask the same.
///
/// # Errors
/// Returns the limit that the unfolding exceeded.
pub fn paths_with(
    program: &Program,
    thread: usize,
    spec: &Spec,
    repeats: Repeats,
    budget: &Budget<'_>,
) -> Result<Vec<Path>, Limit> {
    let readers = vec![None; program.locations.len()];
    unfold(program, thread, spec, budget, (repeats, readers), false)
}

/// Lists the events of a thread's text as one path: each instruction once, in every branch, and a compare-and-swap both as one that fails
/// and as one that succeeds. It says what a program has, not what it does: a poll may have nothing to poll.
pub(crate) fn outline(program: &Program, thread: usize, spec: &Spec) -> Result<Path, Limit> {
    let mut paths = unfold(
        program,
        thread,
        spec,
        &Budget::default(),
        (Repeats::All, Vec::new()),
        true,
    )?;
    Ok(paths.remove(0))
}

fn unfold(
    program: &Program,
    thread: usize,
    spec: &Spec,
    budget: &Budget<'_>,
    (repeats, readers): (Repeats, Readers),
    outline: bool,
) -> Result<Vec<Path>, Limit> {
    let t = &program.threads[thread];
    let zero = Arc::new(Sym::Const(0));
    let start = State {
        path: Path {
            events: Vec::new(),
            values: Vec::new(),
            pf: Vec::new(),
            conditions: Vec::new(),
            registers: vec![zero; t.registers.len()],
            end: End::Complete,
        },
        frames: vec![Frame::Block {
            code: &t.code,
            next: 0,
            place: Vec::new(),
        }],
        instances: 0,
        strong: false,
        signaled: true,
        unpolled: Vec::new(),
    };
    let mut unfolding = Unfolding {
        program,
        thread: ThreadId(thread as u8),
        spec,
        budget,
        repeats,
        scratch: Scratch::of(program, thread, readers),
        outline,
        waiting: vec![start],
        done: Vec::new(),
    };
    unfolding.run()?;
    Ok(unfolding.done)
}

/// A path under construction.
#[derive(Clone)]
struct State<'p> {
    path: Path,
    frames: Vec<Frame<'p>>,
    instances: u32,
    /// True while the events of an operation with a request for strong order are added.
    strong: bool,
    /// False while the events of an operation without a completion of its own are added.
    signaled: bool,
    /// Operations not yet polled or covered by a poll, oldest first.
    unpolled: Vec<Unpolled>,
}

/// An operation that no poll has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unpolled {
    peer: Node,
    /// The event that completes it.
    write: usize,
    signaled: bool,
}

#[derive(Clone)]
enum Frame<'p> {
    Block {
        code: &'p [Instr],
        next: usize,
        place: Vec<u16>,
    },
    Loop {
        cond: &'p Expr,
        body: &'p [Instr],
        bound: u32,
        /// The registers that an iteration hands to the next.
        carried: Arc<[Reg]>,
        iterations: Iterations,
        place: Vec<u16>,
    },
}

struct Unfolding<'p> {
    program: &'p Program,
    thread: ThreadId,
    spec: &'p Spec,
    budget: &'p Budget<'p>,
    repeats: Repeats,
    scratch: Scratch,
    /// True if the events are listed for [`outline`].
    outline: bool,
    waiting: Vec<State<'p>>,
    done: Vec<Path>,
}

impl<'p> Unfolding<'p> {
    fn run(&mut self) -> Result<(), Limit> {
        let mut steps = 0u64;
        while let Some(mut state) = self.waiting.pop() {
            while let Some(frame) = state.frames.last_mut() {
                steps += 1;
                if steps.is_multiple_of(1024)
                    && let Some(limit) = self.budget.exceeded(0)
                {
                    return Err(limit);
                }
                let stop = match frame {
                    Frame::Block { code, next, place } => match code.get(*next) {
                        None => {
                            state.frames.pop();
                            None
                        }
                        Some(instr) => {
                            let mut place = place.clone();
                            place.push(*next as u16);
                            *next += 1;
                            self.step(&mut state, instr, place)
                        }
                    },
                    Frame::Loop { .. } => self.iterate(&mut state),
                };
                if let Some(end) = stop {
                    state.path.end = end;
                    break;
                }
                if state.path.events.len() > EVENTS_MAX {
                    return Err(Limit::TooLarge(format!(
                        "thread {} has a path of more than {EVENTS_MAX} events",
                        self.thread.0
                    )));
                }
            }
            self.mark_relaxed(&mut state.path);
            self.done.push(state.path);
            if self.done.len() + self.waiting.len() > PATHS_MAX {
                return Err(Limit::TooLarge(format!(
                    "thread {} has more than {PATHS_MAX} paths",
                    self.thread.0
                )));
            }
        }
        // The depth-first walk took the last fork first.
        self.done.reverse();
        Ok(())
    }

    /// Decides a condition. If its value is not known, forks a state in which it is false and goes on with true.
    fn decide(
        &mut self,
        state: &mut State<'p>,
        cond: Arc<Sym>,
        when_false: impl FnOnce(&mut State<'p>),
    ) -> bool {
        if let Sym::Const(v) = *cond {
            if v == 0 {
                when_false(state);
            }
            return v != 0;
        }
        // The same value may have been decided before (a loop that does not reload).
        if let Some(&(_, known)) = state.path.conditions.iter().find(|(c, _)| *c == cond) {
            if !known {
                when_false(state);
            }
            return known;
        }
        let mut other = state.clone();
        other.path.conditions.push((cond.clone(), false));
        when_false(&mut other);
        self.waiting.push(other);
        state.path.conditions.push((cond, true));
        true
    }

    fn step(&mut self, state: &mut State<'p>, instr: &'p Instr, place: Vec<u16>) -> Option<End> {
        let at = Site {
            thread: self.thread,
            instance: state.instances,
            place,
        };
        state.instances += 1;
        if self.outline && self.outlined(state, instr, &at) {
            return None;
        }
        state.signaled = !instr.is_unsignaled();
        let (instr, strong) = instr.request();
        state.strong = strong;
        match instr {
            Instr::Store { .. }
            | Instr::Load { .. }
            | Instr::Assign { .. }
            | Instr::Cas { .. }
            | Instr::Swap { .. }
            | Instr::Recv { .. }
            | Instr::Mfence => self.on_cpu(state, instr, &at),
            Instr::Put { dst, src, work } => self.put(state, &at, *dst, src, *work),
            Instr::Get { dst, src, work } => self.get(state, &at, *dst, *src, *work),
            Instr::RemoteFaa { .. } | Instr::RemoteCas { .. } | Instr::RemoteSwap { .. } => {
                self.on_card(state, instr, at);
            }
            Instr::Message(message) => self.message(state, &at, message),
            Instr::PollRecv { reg, done, .. } => self.poll_receive(state, &at, *reg, *done),
            Instr::Poll { node } => return requests::poll(state, &at, *node),
            Instr::Wait { work } => {
                let wait = state.push(at.event(Kind::Poll).named(Some(*work)), None);
                let named = |e: &Event| e.is_completion() && e.work == Some(*work);
                let earlier = (0..wait).filter(|&e| named(&state.path.events[e]));
                state.path.pf.extend(earlier.map(|write| (write, wait)));
            }
            Instr::Rfence { node } => {
                state.push(at.event(Kind::NicFence).to(*node), None);
            }
            Instr::Assume(cond) => return self.assume(state, cond),
            Instr::If { .. } | Instr::While { .. } | Instr::Choose(_) => self.enter(state, instr, &at),
            Instr::Strong(_) | Instr::Unsignaled(_) => unreachable!("the request was taken off"),
        }
        None
    }

    /// Executes an instruction of the CPU on its own memory and registers.
    fn on_cpu(&mut self, state: &mut State<'p>, instr: &Instr, at: &Site) {
        match instr {
            Instr::Store { loc, value } => {
                let value = eval(value, &state.path);
                state.push(at.event(Kind::LocalWrite).on(*loc), Some(value));
            }
            Instr::Load { reg, loc } => {
                let read = state.push(at.event(Kind::LocalRead).on(*loc), None);
                state.path.registers[usize::from(reg.0)] = Arc::new(Sym::Read(read));
            }
            Instr::Assign { reg, value } => {
                state.path.registers[usize::from(reg.0)] = eval(value, &state.path);
            }
            Instr::Cas {
                reg,
                loc,
                expected,
                new,
            } => {
                let (expected, new) = (eval(expected, &state.path), eval(new, &state.path));
                let fences = self.spec.failed_cas_fences;
                self.compare_and_swap(
                    state,
                    expected,
                    |s| {
                        if fences {
                            s.push(at.event(Kind::Fence), None);
                        }
                        s.push(at.event(Kind::LocalRead).on(*loc), None)
                    },
                    |s| s.push(at.event(Kind::Cas).on(*loc).writing(), Some(new.clone())),
                    |s, read| {
                        if let Some(reg) = reg {
                            s.path.registers[usize::from(reg.0)] = Arc::new(Sym::Read(read));
                        }
                    },
                );
            }
            Instr::Swap { reg, loc, new } => {
                let new = eval(new, &state.path);
                let swap = state.push(at.event(Kind::Cas).on(*loc).writing(), Some(new));
                if let Some(reg) = reg {
                    state.path.registers[usize::from(reg.0)] = Arc::new(Sym::Read(swap));
                }
            }
            Instr::Recv { entry, .. } => {
                let posted = Arc::new(Sym::Const(1));
                state.push(at.event(Kind::LocalWrite).on(*entry), Some(posted));
            }
            Instr::Mfence => {
                state.push(at.event(Kind::Fence), None);
            }
            _ => unreachable!("called on an instruction of the CPU"),
        }
    }

    /// Goes on where the condition holds.
    fn assume(&mut self, state: &mut State<'p>, cond: &Expr) -> Option<End> {
        let cond = eval(cond, &state.path);
        let mut stuck = false;
        let holds = self.decide(state, cond, |s| {
            s.frames.clear();
            s.path.end = End::Stuck;
            stuck = true;
        });
        debug_assert!(holds || stuck);
        (!holds).then_some(End::Stuck)
    }

    /// Enters the blocks of an instruction, each on a path of its own.
    fn enter(&mut self, state: &mut State<'p>, instr: &'p Instr, at: &Site) {
        let block = |code: &'p [Instr], number: usize| Frame::Block {
            code,
            next: 0,
            place: [at.place.as_slice(), &[number as u16]].concat(),
        };
        match instr {
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = eval(cond, &state.path);
                if self.decide(state, cond, |s| s.frames.push(block(otherwise, 1))) {
                    state.frames.push(block(then, 0));
                }
            }
            Instr::While { cond, body, bound } => state.frames.push(Frame::Loop {
                cond,
                body,
                bound: *bound,
                carried: loops::carried(body).into(),
                iterations: Iterations::default(),
                place: [at.place.as_slice(), &[0]].concat(),
            }),
            Instr::Choose(blocks) => {
                for (number, code) in blocks.iter().enumerate().skip(1) {
                    let mut other = state.clone();
                    other.frames.push(block(code, number));
                    self.waiting.push(other);
                }
                if let Some(first) = blocks.first() {
                    state.frames.push(block(first, 0));
                }
            }
            _ => unreachable!("called on an instruction with blocks"),
        }
    }

    /// Forks a compare-and-swap: if the value read equals `expected`, `success` happens, else `failure`. Both return the event
    /// that reads.
    fn compare_and_swap(
        &mut self,
        state: &mut State<'p>,
        expected: Arc<Sym>,
        failure: impl Fn(&mut State<'p>) -> usize,
        success: impl Fn(&mut State<'p>) -> usize,
        after: impl Fn(&mut State<'p>, usize),
    ) {
        if self.outline {
            failure(state);
            let read = success(state);
            return after(state, read);
        }
        let mut other = state.clone();
        for (s, holds) in [(&mut other, false), (&mut *state, true)] {
            let read = if holds { success(s) } else { failure(s) };
            let equal = fold_binary(BinaryOp::Eq, Arc::new(Sym::Read(read)), expected.clone());
            s.path.conditions.push((equal, holds));
            after(s, read);
        }
        self.waiting.push(other);
    }

    fn node_of(&self, loc: Loc) -> Node {
        self.program.locations[usize::from(loc.0)].node
    }
}

impl State<'_> {
    fn push(&mut self, mut event: Event, value: Option<Arc<Sym>>) -> usize {
        event.strong = self.strong && !event.kind.is_cpu();
        self.path.events.push(event);
        self.path.values.push(value);
        self.path.events.len() - 1
    }
}

/// The instruction that an event comes from.
struct Site {
    thread: ThreadId,
    instance: u32,
    place: Vec<u16>,
}

impl Site {
    fn event(&self, kind: Kind) -> Event {
        Event {
            thread: Some(self.thread),
            kind,
            loc: None,
            peer: None,
            work: None,
            rmw: false,
            inlined: false,
            strong: false,
            relaxed: false,
            announces: false,
            writes: matches!(
                kind,
                Kind::LocalWrite | Kind::Cas | Kind::NicRemoteWrite | Kind::NicLocalWrite
            ),
            instance: self.instance,
            path: self.place.clone(),
        }
    }
}

impl Event {
    fn on(mut self, loc: Loc) -> Event {
        self.loc = Some(loc);
        self
    }

    fn to(mut self, peer: Node) -> Event {
        self.peer = Some(peer);
        self
    }

    fn named(mut self, work: Option<WorkId>) -> Event {
        self.work = work;
        self
    }

    fn writing(mut self) -> Event {
        self.writes = true;
        self
    }
}

/// Translates an expression over the current registers, with constants folded.
fn eval(expr: &Expr, path: &Path) -> Arc<Sym> {
    match expr {
        Expr::Const(v) => Arc::new(Sym::Const(*v)),
        Expr::Reg(reg) => path.registers[usize::from(reg.0)].clone(),
        Expr::Unary(op, a) => fold_unary(*op, eval(a, path)),
        Expr::Binary(op, a, b) => fold_binary(*op, eval(a, path), eval(b, path)),
    }
}
