//! Asks whether every instruction of a forbidden test is needed.
//!
//! A test is *minimal* if its condition stays forbidden in no *variant*: the program with an instruction dropped or weakened. What a
//! variant asks is the condition without the values that it can no longer have in any execution, whatever the model:
//! if the store of 1 is dropped, no register can be 1, and asking for it would forbid the test for a reason that is not
//! the model's.
//!
//! An instruction is dropped together with the poll or wait that then has nothing to wait for. Each of the following is
//! weakened: a compare-and-swap to its load and to its store; a put of a location to a put of a constant; a remote
//! read-modify-write to a get and to a put; a work identifier that several operations share, by taking it from one of
//! them; an operation that asks for strong order, by taking the request from it. Where two models are compared, a location of a relaxed
//! region leaves it. Where one model is asked, a location that a network card writes goes into one, if the model knows regions. Relies on the declarative engine for what is possible at all. Used by [`crate::suite`] and
//! [`crate::distinguish`]. Programs are straight lines.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use mowgli::outcome::{Budget, Limit, Outcome};
use mowgli::program::{Expr, Instr, Loc, Node, Program, PutSrc, Value, WorkId};

use crate::condition::Condition;
use crate::theory::{Theory, candidates};

/// The variants of a program, with their outcomes under a model as far as they have been asked for.
pub struct Variants<'a> {
    theory: &'a dyn Theory,
    /// A model that must allow what a variant asks, so that the variant says as much.
    other: Option<&'a dyn Theory>,
    budget: &'a Budget<'a>,
    variants: Vec<Variant>,
}

struct Variant {
    program: Program,
    answer: OnceCell<Answer>,
}

struct Answer {
    /// Outcomes that the model allows.
    allowed: BTreeSet<Outcome>,
    /// Outcomes of all executions.
    possible: BTreeSet<Outcome>,
    /// Outcomes that the other model allows, if there is one.
    other: Option<BTreeSet<Outcome>>,
}

impl<'a> Variants<'a> {
    /// Prepares the variants of a program. A variant counts if `theory` forbids what it asks and `other`, if given, allows it.
    pub fn new(
        theory: &'a dyn Theory,
        other: Option<&'a dyn Theory>,
        program: &Program,
        budget: &'a Budget<'a>,
    ) -> Variants<'a> {
        let applies = |p: &Program| theory.applies(p) && other.is_none_or(|other| other.applies(p));
        let mut programs = programs(program);
        // With two models, the test is smaller without the region; with one, the model that forbids is weaker with it.
        match other {
            Some(_) => programs.extend(regions(program, false)),
            None if theory.knows_regions() => programs.extend(regions(program, true)),
            None => {}
        }
        let programs = programs.into_iter().filter(applies);
        Variants {
            theory,
            other,
            budget,
            variants: programs
                .map(|program| Variant {
                    program,
                    answer: OnceCell::new(),
                })
                .collect(),
        }
    }

    /// Returns whether every instruction is needed for the condition to be forbidden: no variant counts.
    ///
    /// # Errors
    /// Returns the limit that stopped a search.
    pub fn none_forbids(&self, condition: &Condition) -> Result<bool, Limit> {
        for variant in &self.variants {
            let answer = self.answer(variant)?;
            let possible = |&(operand, value): &(_, Value)| {
                let operand: mowgli::litmus::Operand = operand;
                answer.possible.iter().any(|o| operand.value(o) == value)
            };
            let asked = Condition {
                atoms: condition.atoms.iter().copied().filter(possible).collect(),
            };
            let has_meaning = answer.possible.iter().any(|o| asked.holds(o));
            let allows = |outcomes: &BTreeSet<Outcome>| outcomes.iter().any(|o| asked.holds(o));
            let separates = answer.other.as_ref().is_none_or(allows);
            if has_meaning && separates && !allows(&answer.allowed) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn answer<'v>(&self, variant: &'v Variant) -> Result<&'v Answer, Limit> {
        if let Some(answer) = variant.answer.get() {
            return Ok(answer);
        }
        let answer = Answer {
            allowed: self.theory.outcomes(&variant.program, self.budget)?,
            possible: candidates(&variant.program, self.budget)?,
            other: match self.other {
                Some(other) => Some(other.outcomes(&variant.program, self.budget)?),
                None => None,
            },
        };
        Ok(variant.answer.get_or_init(|| answer))
    }
}

/// Returns every program with one instruction dropped or weakened.
pub fn programs(program: &Program) -> Vec<Program> {
    let mut out = Vec::new();
    for (t, thread) in program.threads.iter().enumerate() {
        for at in 0..thread.code.len() {
            out.push(dropped(program, t, at));
            for instr in weaker(&thread.code[at], &thread.code) {
                let mut variant = program.clone();
                variant.threads[t].code[at] = instr;
                out.push(variant);
            }
        }
    }
    out
}

/// Returns every program with one location put into a region of relaxed ordering, if a network card writes it, or taken out of one.
fn regions(program: &Program, relaxed: bool) -> Vec<Program> {
    let written = |loc: usize| {
        let mut code = program.threads.iter().flat_map(|t| &t.code);
        code.any(|instr| match *instr.request().0 {
            Instr::Put { dst, .. } | Instr::Get { dst, .. } => usize::from(dst.0) == loc,
            Instr::RemoteFaa { dst, target, .. }
            | Instr::RemoteCas { dst, target, .. }
            | Instr::RemoteSwap { dst, target, .. } => {
                usize::from(dst.0) == loc || usize::from(target.0) == loc
            }
            _ => false,
        })
    };
    let changes = |&loc: &usize| program.locations[loc].relaxed != relaxed && written(loc);
    let moved = (0..program.locations.len()).filter(changes).map(|loc| {
        let mut variant = program.clone();
        variant.locations[loc].relaxed = relaxed;
        variant
    });
    moved.collect()
}

/// Returns the node of a location.
fn node_of(program: &Program, loc: Loc) -> Node {
    program.locations[usize::from(loc.0)].node
}

/// Returns the node towards which an operation goes that can be polled.
fn peer(program: &Program, instr: &Instr) -> Option<Node> {
    match instr.request().0 {
        Instr::Put { dst: far, .. }
        | Instr::Get { src: far, .. }
        | Instr::RemoteFaa { target: far, .. }
        | Instr::RemoteCas { target: far, .. }
        | Instr::RemoteSwap { target: far, .. } => Some(node_of(program, *far)),
        _ => None,
    }
}

/// Returns the work identifier of a remote operation.
fn work(instr: &Instr) -> Option<WorkId> {
    match instr.request().0 {
        Instr::Put { work, .. }
        | Instr::Get { work, .. }
        | Instr::RemoteFaa { work, .. }
        | Instr::RemoteCas { work, .. }
        | Instr::RemoteSwap { work, .. } => *work,
        _ => None,
    }
}

/// Drops an instruction, and the poll or the waits that it leaves without an operation.
fn dropped(program: &Program, thread: usize, at: usize) -> Program {
    let code = &program.threads[thread].code;
    let mut drop = vec![at];
    if let Some(node) = peer(program, &code[at]) {
        let before = code[..at]
            .iter()
            .filter(|i| peer(program, i) == Some(node))
            .count();
        let is_poll = |i: &usize| code[*i] == Instr::Poll { node };
        drop.extend((0..code.len()).filter(is_poll).nth(before));
    }
    if let Some(id) = work(&code[at]) {
        let mut left = false;
        for (i, instr) in code.iter().enumerate() {
            if i != at && work(instr) == Some(id) {
                left = true;
            }
            if *instr == (Instr::Wait { work: id }) && !left {
                drop.push(i);
            }
        }
    }
    let mut variant = program.clone();
    let kept = code.iter().enumerate().filter(|(i, _)| !drop.contains(i));
    variant.threads[thread].code = kept.map(|(_, instr)| instr.clone()).collect();
    variant
}

/// Returns the weaker forms of an instruction.
fn weaker(instr: &Instr, code: &[Instr]) -> Vec<Instr> {
    if let (operation, true) = instr.request() {
        let asking = |weaker: Instr| match weaker.can_be_strong() {
            true => Instr::Strong(Box::new(weaker)),
            false => weaker,
        };
        let weaker = weaker(operation, code).into_iter().map(asking);
        return weaker.chain([operation.clone()]).collect();
    }
    let mut out = match instr {
        Instr::Cas { reg, loc, new, .. } => {
            let load = reg.map(|reg| Instr::Load { reg, loc: *loc });
            let store = Instr::Store {
                loc: *loc,
                value: new.clone(),
            };
            load.into_iter().chain([store]).collect()
        }
        Instr::Put {
            dst,
            src: PutSrc::Loc(_),
            work,
        } => vec![Instr::Put {
            dst: *dst,
            src: PutSrc::Value(Expr::Const(OTHER)),
            work: *work,
        }],
        Instr::RemoteFaa {
            dst,
            target,
            add: new,
            work,
        }
        | Instr::RemoteSwap {
            dst,
            target,
            new,
            work,
        }
        | Instr::RemoteCas {
            dst,
            target,
            new,
            work,
            ..
        } => vec![
            Instr::Get {
                dst: *dst,
                src: *target,
                work: *work,
            },
            Instr::Put {
                dst: *target,
                src: PutSrc::Value(new.clone()),
                work: *work,
            },
        ],
        _ => Vec::new(),
    };
    let shared = work(instr).is_some_and(|id| code.iter().filter(|i| work(i) == Some(id)).count() > 1);
    if shared {
        let mut anonymous = instr.clone();
        if let Instr::Put { work, .. }
        | Instr::Get { work, .. }
        | Instr::RemoteFaa { work, .. }
        | Instr::RemoteCas { work, .. }
        | Instr::RemoteSwap { work, .. } = &mut anonymous
        {
            *work = None;
        }
        out.push(anonymous);
    }
    out
}

/// A value that generated programs do not write otherwise.
const OTHER: Value = 999_999;
