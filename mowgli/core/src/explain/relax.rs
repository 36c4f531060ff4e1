//! Finds the single changes that would allow a forbidden outcome: an instruction removed, a cell of a table
//! crossed out, or another model.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Case;
use super::RELAXATION_STATES_MAX;
use super::cycle::CellRef;
use crate::check::{Features, applicable};
use crate::declarative;
use crate::event::Event;
use crate::litmus::{Formula, Operand, Setting, instruction};
use crate::model::{Model, RmwAtomicity, Tier};
use crate::models::tables::{Cell, Order};
use crate::models::{Part, Spec};
use crate::outcome::Budget;
use crate::program::{Instr, Program, ThreadId, at_mut};

/// A single change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Change {
    /// An instruction taken out of the program.
    Remove {
        /// Thread index.
        thread: usize,
        /// The position in the thread's code, then in nested blocks.
        path: Vec<u16>,
        /// The instruction as text.
        text: String,
    },
    /// A cell changed to a cross, in both tables.
    Cell {
        /// The cell.
        cell: CellRef,
    },
    /// A term of `ib` or `ob` left out.
    Part {
        /// True for a term of `ib`.
        issue: bool,
        /// The term.
        part: Part,
    },
    /// Another model.
    Model(Setting),
}

/// A change that allows the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Relaxation {
    /// The change.
    pub change: Change,
}

/// Finds the single changes that allow `wanted`, and those that a limit left undecided. Tries to remove each instruction that
/// synchronises or moves no value that the test asks for, to cross out each table cell that orders two events of the candidates, to
/// leave out each term of `ib` and `ob`, and the other models.
pub(super) fn relaxations(
    program: &Program,
    setting: Setting,
    wanted: &Formula,
    cases: &[Case],
    budget: &Budget<'_>,
) -> (Vec<Relaxation>, Vec<Change>) {
    let spec = Spec::of(setting.model, setting.rmw);
    let capped = Budget {
        states_max: Some(RELAXATION_STATES_MAX),
        ..*budget
    };
    let operands = wanted.operands();
    let (mut found, mut undecided) = (Vec::new(), Vec::new());
    let mut attempt = |change: Change, program: &Program, spec: &Spec| {
        let search = declarative::outcomes_of(program, spec, &operands, &capped);
        if search.outcomes.iter().any(|o| wanted.holds(o)) {
            found.push(Relaxation { change });
        } else if !search.is_complete() {
            undecided.push(change);
        }
    };
    for (change, changed) in removals(program, &operands) {
        attempt(change, &changed, &spec);
    }
    for (change, changed) in weakenings(&spec, cases) {
        attempt(change, program, &changed);
    }
    // The tiers are named to those who ask about one.
    let tiered = Model::TIERED.into_iter();
    let others = tiered.filter(|m| setting.model.tier() != Tier::Ibta && m.base() == setting.model.base());
    for model in Model::ALL.into_iter().chain(others) {
        for rmw in RmwAtomicity::ALL {
            let other = Setting { model, rmw };
            let differs = model != setting.model || (rmw != setting.rmw && Features::of(program).rmw);
            let comparable = rmw == setting.rmw || (model == setting.model && differs);
            if differs && comparable && applicable(program, model).is_ok() {
                attempt(Change::Model(other), program, &Spec::of(model, rmw));
            }
        }
    }
    (found, undecided)
}

/// Returns the program without one instruction, for each instruction that orders or synchronises. Taking out a load, a store, a put,
/// or whatever else gives an operand of the test its value, only changes what the test asks.
fn removals(program: &Program, operands: &[Operand]) -> Vec<(Change, Program)> {
    let mut all = Vec::new();
    for (thread, t) in program.threads.iter().enumerate() {
        let asked = |operand: Operand| operands.contains(&operand);
        let removable = |instr: &Instr| match instr.request().0 {
            Instr::Mfence
            | Instr::Poll { .. }
            | Instr::Rfence { .. }
            | Instr::Wait { .. }
            | Instr::Assume(_) => true,
            Instr::PollRecv { reg, .. } => {
                reg.is_none_or(|r| !asked(Operand::Reg(ThreadId(thread as u8), r)))
            }
            Instr::Cas { reg, loc, .. } | Instr::Swap { reg, loc, .. } => {
                let shown = reg.is_some_and(|r| asked(Operand::Reg(ThreadId(thread as u8), r)));
                !shown && !asked(Operand::Loc(*loc))
            }
            Instr::Get { dst, .. } => !asked(Operand::Loc(*dst)),
            Instr::RemoteFaa { dst, target, .. }
            | Instr::RemoteCas { dst, target, .. }
            | Instr::RemoteSwap { dst, target, .. } => {
                !asked(Operand::Loc(*dst)) && !asked(Operand::Loc(*target))
            }
            _ => false,
        };
        for path in places(&t.code, &[], &|instr| matches!(instr, Instr::Strong(_))) {
            let mut changed = program.clone();
            if let Some(instr) = at_mut(&mut changed.threads[thread].code, &path)
                && let Instr::Strong(operation) = instr
            {
                *instr = (**operation).clone();
                let text = "strong".to_owned();
                all.push((Change::Remove { thread, path, text }, changed));
            }
        }
        for path in places(&t.code, &[], &removable) {
            let mut changed = program.clone();
            let Some(removed) = remove(&mut changed.threads[thread].code, &path) else {
                continue;
            };
            let text = instruction(program, t, &removed);
            all.push((Change::Remove { thread, path, text }, changed));
        }
    }
    all
}

/// Places of the removable instructions.
fn places(code: &[Instr], prefix: &[u16], removable: &dyn Fn(&Instr) -> bool) -> Vec<Vec<u16>> {
    let mut all = Vec::new();
    for (i, instr) in code.iter().enumerate() {
        let here = [prefix, &[i as u16]].concat();
        let inside =
            |block: &[Instr], branch: u16| places(block, &[here.as_slice(), &[branch]].concat(), removable);
        match instr {
            Instr::If { then, otherwise, .. } => {
                all.extend(inside(then, 0));
                all.extend(inside(otherwise, 1));
            }
            Instr::While { body, .. } => all.extend(inside(body, 0)),
            Instr::Choose(blocks) => {
                for (branch, block) in blocks.iter().enumerate() {
                    all.extend(inside(block, branch as u16));
                }
            }
            _ if removable(instr) => all.push(here),
            _ => {}
        }
    }
    all
}

fn remove(code: &mut Vec<Instr>, path: &[u16]) -> Option<Instr> {
    let (&at, rest) = path.split_first()?;
    let at = usize::from(at);
    let Some((&branch, rest)) = rest.split_first() else {
        return (at < code.len()).then(|| code.remove(at));
    };
    match code.get_mut(at)? {
        Instr::If { then, .. } if branch == 0 => remove(then, rest),
        Instr::If { otherwise, .. } => remove(otherwise, rest),
        Instr::While { body, .. } => remove(body, rest),
        Instr::Choose(blocks) => remove(blocks.get_mut(usize::from(branch))?, rest),
        _ => None,
    }
}

/// Returns the model with one cell crossed out, for each cell that orders two events of a candidate, and the model with one term left out.
fn weakenings(spec: &Spec, cases: &[Case]) -> Vec<(Change, Spec)> {
    let uses = |part: Part| spec.ib.contains(part) || spec.ob.contains(part);
    let orders = |part: Part, a: &Event, b: &Event| uses(part) && spec.preserves(part, a, b);
    let mut cells = BTreeSet::new();
    let mut all = Vec::new();
    for Case { execution, .. } in cases {
        for (a, b) in execution.po.pairs() {
            let (earlier, later) = (&execution.events[a], &execution.events[b]);
            let kinds = Cell {
                earlier: earlier.kind,
                later: later.kind,
            };
            let ordered = orders(Part::Ippo, earlier, later) || orders(Part::Oppo, earlier, later);
            if earlier.thread.is_some() && ordered && cells.insert(kinds) {
                let changed = Spec {
                    ippo: spec.ippo.with(kinds, Order::No),
                    oppo: spec.oppo.with(kinds, Order::No),
                    ..spec.clone()
                };
                let cell = CellRef::new(spec, kinds);
                all.push((Change::Cell { cell }, changed));
            }
        }
    }
    // Without program order, reads-from and modification order there is no model left.
    let optional =
        |part: &Part| matches!(part, Part::Iso | Part::RbBuffer | Part::Nfo | Part::Rao) || is_poll(*part);
    for part in spec.ib.iter().filter(optional) {
        let changed = Spec {
            ib: spec.ib.without(part),
            ..spec.clone()
        };
        all.push((Change::Part { issue: true, part }, changed));
    }
    for part in spec.ob.iter().filter(optional) {
        let changed = Spec {
            ob: spec.ob.without(part),
            ..spec.clone()
        };
        all.push((Change::Part { issue: false, part }, changed));
    }
    all
}

fn is_poll(part: Part) -> bool {
    matches!(part, Part::Pf | Part::PfGet | Part::PfPut)
}
