//! Which single change would allow a forbidden outcome: an instruction removed, a cell of a table crossed out, another model.

use serde::Serialize;

use super::RELAXATION_STATES_MAX;
use super::cycle::{CellRef, Cycle, Side};
use crate::declarative;
use crate::event::Execution;
use crate::litmus::{Formula, Operand, Setting, instruction};
use crate::model::{Model, RmwAtomicity};
use crate::models::tables::{Cell, Order};
use crate::models::{Part, Spec};
use crate::outcome::Budget;
use crate::program::{Instr, Program, ThreadId};

/// A single change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Change {
    /// An instruction taken out of the program.
    Remove {
        /// Thread index.
        thread: usize,
        /// Where it is: position in the thread's code, then in nested blocks.
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
        /// Whether it is a term of `ib`.
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

/// Every single change that allows `wanted`, among: removal of an instruction that synchronises or moves no value of the
/// test itself; the cells and terms of the given cycles; the other models.
pub(super) fn relaxations(
    program: &Program,
    setting: Setting,
    wanted: &Formula,
    cases: &[(Execution, Cycle, u64)],
    budget: &Budget<'_>,
) -> Vec<Relaxation> {
    let spec = Spec::of(setting.model, setting.rmw);
    let capped = Budget {
        states_max: Some(RELAXATION_STATES_MAX),
        ..*budget
    };
    let operands = wanted.operands();
    let allows = |program: &Program, spec: &Spec| {
        let search = declarative::outcomes_of(program, spec, &operands, &capped);
        search.outcomes.iter().any(|o| wanted.holds(o))
    };
    let mut found = Vec::new();
    for (change, changed) in removals(program, &operands) {
        if allows(&changed, &spec) {
            found.push(Relaxation { change });
        }
    }
    for (change, changed) in weakenings(&spec, cases) {
        if allows(program, &changed) {
            found.push(Relaxation { change });
        }
    }
    for model in Model::ALL {
        for rmw in RmwAtomicity::ALL {
            let other = Setting { model, rmw };
            let differs = model != setting.model || (rmw != setting.rmw && has_rmw(program));
            let comparable = rmw == setting.rmw || (model == setting.model && differs);
            if differs && comparable && allows(program, &Spec::of(model, rmw)) {
                let change = Change::Model(other);
                found.push(Relaxation { change });
            }
        }
    }
    found
}

/// The program without one instruction, for each instruction that orders or synchronises. Taking out a load, a store, a put,
/// or whatever else gives an operand of the test its value, only changes what the test asks.
fn removals(program: &Program, operands: &[Operand]) -> Vec<(Change, Program)> {
    let mut all = Vec::new();
    for (thread, t) in program.threads.iter().enumerate() {
        let asked = |operand: Operand| operands.contains(&operand);
        let removable = |instr: &Instr| match instr {
            Instr::Mfence
            | Instr::Poll { .. }
            | Instr::Rfence { .. }
            | Instr::Wait { .. }
            | Instr::Assume(_) => true,
            Instr::Cas { reg, loc, .. } => {
                let shown = reg.is_some_and(|r| asked(Operand::Reg(ThreadId(thread as u8), r)));
                !shown && !asked(Operand::Loc(*loc))
            }
            Instr::Get { dst, .. } => !asked(Operand::Loc(*dst)),
            Instr::RemoteFaa { dst, target, .. } | Instr::RemoteCas { dst, target, .. } => {
                !asked(Operand::Loc(*dst)) && !asked(Operand::Loc(*target))
            }
            _ => false,
        };
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

/// The model with one cell or term of the cycles taken out.
fn weakenings(spec: &Spec, cases: &[(Execution, Cycle, u64)]) -> Vec<(Change, Spec)> {
    let mut all: Vec<(Change, Spec)> = Vec::new();
    for (execution, cycle, _) in cases {
        for edge in &cycle.edges {
            let issue = edge.side == Side::Issue;
            let mut changed = spec.clone();
            let change = match &edge.cell {
                Some(cell) => {
                    let at = Cell {
                        earlier: execution.events[edge.from].kind,
                        later: execution.events[edge.to].kind,
                    };
                    changed.ippo = changed.ippo.with(at, Order::No);
                    changed.oppo = changed.oppo.with(at, Order::No);
                    Change::Cell { cell: cell.clone() }
                }
                None => {
                    let parts = if issue { &mut changed.ib } else { &mut changed.ob };
                    *parts = parts.without(edge.part);
                    Change::Part {
                        issue,
                        part: edge.part,
                    }
                }
            };
            // Program order of `sc` is not a term one can do without, nor are reads-from and modification order.
            let essential = matches!(
                edge.part,
                Part::Po | Part::Rf | Part::RfExternal | Part::Rb | Part::Mo
            );
            if !essential && !all.iter().any(|(known, _)| *known == change) {
                all.push((change, changed));
            }
        }
    }
    all
}

fn has_rmw(program: &Program) -> bool {
    fn any(code: &[Instr]) -> bool {
        code.iter().any(|instr| match instr {
            Instr::RemoteFaa { .. } | Instr::RemoteCas { .. } => true,
            Instr::If { then, otherwise, .. } => any(then) || any(otherwise),
            Instr::While { body, .. } => any(body),
            Instr::Choose(blocks) => blocks.iter().any(|b| any(b)),
            _ => false,
        })
    }
    program.threads.iter().any(|t| any(&t.code))
}
