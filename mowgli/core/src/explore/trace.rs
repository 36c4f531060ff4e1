//! Finds a shortest way of the machine to an outcome, and describes it in words.
//!
//! Relies on [`super::state`] and [`super::reduce`]. The search is breadth first, on the persistent sets of
//! the search for outcomes. "Shortest" is therefore among the interleavings that the reduction keeps (every
//! outcome has one). Used by `mowgli explain` and, as moves, by [`super::Stepper`].

use std::collections::{HashSet, VecDeque};
use std::fmt;

use explorer::fingerprint;

use super::ENDLESS_STATES_MAX;
use super::code::{self, Act, Code, Loops, Op};
use super::reduce::Reducer;
use super::state::{Move, Ran, State};
use crate::machine::{Action, Addr, Config, Machine, Post, RemoteOp, Step};
use crate::outcome::{Budget, Limit, Outcome};
use crate::program::{Program, ThreadId};

/// The part that takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The thread itself.
    Cpu,
    /// The thread's store buffer.
    StoreBuffer,
    /// The thread's queue pair to this node.
    Nic(u16),
}

/// One step of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The thread that takes the step, or whose store buffer or queue pair does.
    pub thread: ThreadId,
    /// The part that takes it.
    pub actor: Actor,
    /// The description of the step, with names and values, and nodes written from 1: `P0->2: put to y reads x
    /// (=1)`.
    pub text: String,
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// A state that was reached, with the state and the move that it was reached from.
struct Reached {
    from: usize,
    by: Option<Move>,
}

/// Finds the moves of a shortest trace: of one in which loops stay within their bounds, and else of any, among the states that are visited
/// without bounds.
pub(super) fn find(
    program: &Program,
    config: Config,
    wanted: &dyn Fn(&Outcome) -> bool,
    budget: &Budget<'_>,
) -> Result<Option<Vec<Move>>, Limit> {
    let codes = |loops| code::compile(program, loops).map_err(Limit::TooLarge);
    match shortest(program, &codes(Loops::Bounded)?, config, wanted, budget) {
        Err(limit @ Limit::LoopBound { .. }) => {
            let most = budget.states_max.unwrap_or(ENDLESS_STATES_MAX);
            let budget = Budget {
                states_max: Some(most.min(ENDLESS_STATES_MAX)),
                ..*budget
            };
            match shortest(program, &codes(Loops::Endless)?, config, wanted, &budget) {
                Err(Limit::States(_)) => Err(limit),
                found => found,
            }
        }
        found => found,
    }
}

/// Finds the moves of a shortest trace of this code, breadth first.
fn shortest(
    program: &Program,
    codes: &[Code],
    config: Config,
    wanted: &dyn Fn(&Outcome) -> bool,
    budget: &Budget<'_>,
) -> Result<Option<Vec<Move>>, Limit> {
    let (first, ran) = State::new(program, codes, config);
    let mut bound = None;
    let mut note = |ran: Ran| {
        bound = ran.limit().or(bound.take());
        ran == Ran::Ready
    };
    let mut reached = vec![Reached { from: 0, by: None }];
    let mut open = VecDeque::new();
    if note(ran) {
        open.push_back((0, first));
    }
    let mut seen = HashSet::new();
    let (mut reducer, mut moves, mut key) = (Reducer::default(), Vec::new(), Vec::new());
    while let Some((at, state)) = open.pop_front() {
        if (reached.len() % 1024 == 0 || budget.states_max.is_some())
            && let Some(limit) = budget.exceeded(reached.len() as u64)
        {
            return Err(limit);
        }
        moves.clear();
        reducer.persistent(&state, codes, &mut moves);
        if moves.is_empty() && state.outcome(codes).is_some_and(|outcome| wanted(&outcome)) {
            return Ok(Some(way(&reached, at)));
        }
        for &mv in &moves {
            let mut next = state.clone();
            if !note(next.make(mv, codes)) {
                continue;
            }
            key.clear();
            next.encode(&mut key);
            if seen.insert(fingerprint(&key)) {
                reached.push(Reached {
                    from: at,
                    by: Some(mv),
                });
                open.push_back((reached.len() - 1, next));
            }
        }
    }
    bound.map_or(Ok(None), Err)
}

/// Returns the moves that led to state `at`.
fn way(reached: &[Reached], mut at: usize) -> Vec<Move> {
    let mut moves = Vec::new();
    while let Some(mv) = reached[at].by {
        moves.push(mv);
        at = reached[at].from;
    }
    moves.reverse();
    moves
}

/// Repeats moves from the initial state, and describes each.
pub(super) fn replay(program: &Program, codes: &[Code], config: Config, moves: &[Move]) -> Vec<TraceStep> {
    let (mut state, _) = State::new(program, codes, config);
    let mut steps = Vec::new();
    for &mv in moves {
        steps.extend(describe(program, codes, &state, mv));
        state.make(mv, codes);
    }
    steps
}

/// Describes a move in the state before it.
pub(super) fn describe(program: &Program, codes: &[Code], state: &State, mv: Move) -> Option<TraceStep> {
    let name = |addr: Addr| {
        program
            .locations
            .get(addr.0 as usize)
            .map_or_else(|| format!("{addr:?}"), |l| l.name.clone())
    };
    let step = |thread: u16, actor, text| {
        Some(TraceStep {
            thread: ThreadId(thread as u8),
            actor,
            text,
        })
    };
    match mv {
        Move::Hardware(hardware) => {
            let (thread, actor) = match hardware {
                Step::Drain { thread } => (thread, Actor::StoreBuffer),
                Step::Nic { qp, .. } => (qp.thread, Actor::Nic(qp.peer)),
            };
            step(thread, actor, state.machine.describe(hardware, &name))
        }
        Move::Choose(thread, branch) => step(thread, Actor::Cpu, format!("P{thread}: takes branch {branch}")),
        Move::Act(thread) => {
            let Op::Act(act) = state.op(thread, codes) else {
                return None;
            };
            let action = state.action(thread, act);
            let register = match act {
                Act::Load { reg, .. } | Act::Cas { reg: Some(reg), .. } => program.threads[thread as usize]
                    .registers
                    .get(*reg)
                    .map(String::as_str),
                _ => None,
            };
            let text = describe_action(&state.machine, thread, action, register.unwrap_or("_"), &name);
            step(thread, Actor::Cpu, format!("P{thread}: {text}"))
        }
    }
}

fn describe_action(
    machine: &Machine,
    thread: u16,
    action: Action,
    register: &str,
    name: &dyn Fn(Addr) -> String,
) -> String {
    let buffered = if machine.config().cpu == crate::machine::Cpu::Tso {
        " (buffered)"
    } else {
        ""
    };
    match action {
        Action::Store { loc, value } => format!("{} := {value}{buffered}", name(loc)),
        Action::Load { loc } => {
            let value = machine.load(thread, loc).unwrap_or_default();
            format!("{register} := {} (={value})", name(loc))
        }
        Action::Cas { loc, expected, new } => {
            let old = machine.load(thread, loc).unwrap_or_default();
            let then = if old == expected { "succeeds" } else { "fails" };
            format!(
                "{register} := CAS({}, {expected}, {new}) reads {old}, {then}",
                name(loc)
            )
        }
        Action::Swap { loc, new } => {
            let old = machine.load(thread, loc).unwrap_or_default();
            format!("{register} := SWAP({}, {new}) reads {old}", name(loc))
        }
        Action::Mfence => "mfence".to_owned(),
        Action::Poll { peer } => format!("poll({})", peer + 1),
        Action::Wait { .. } => "wait".to_owned(),
        Action::Post(Post { peer, op, .. }) => {
            let peer = peer + 1;
            match op {
                RemoteOp::Put { dst, src } => format!("posts put {}^{peer} := {}", name(dst), name(src)),
                RemoteOp::PutValue { dst, value } => format!("posts put {}^{peer} := {value}", name(dst)),
                RemoteOp::PutInline { dst, value } => {
                    format!("posts put {}^{peer} := inline({value})", name(dst))
                }
                RemoteOp::Get { dst, src } => format!("posts get {} := {}^{peer}", name(dst), name(src)),
                RemoteOp::FetchAdd { dst, target, add } => {
                    format!("posts {} := RFAA({}^{peer}, {add})", name(dst), name(target))
                }
                RemoteOp::CompareSwap {
                    dst,
                    target,
                    expected,
                    new,
                } => {
                    format!(
                        "posts {} := RCAS({}^{peer}, {expected}, {new})",
                        name(dst),
                        name(target)
                    )
                }
                RemoteOp::Swap { dst, target, new } => {
                    format!("posts {} := RSWAP({}^{peer}, {new})", name(dst), name(target))
                }
                RemoteOp::Fence => format!("posts rfence({peer})"),
            }
        }
    }
}
