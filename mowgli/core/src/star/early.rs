//! The code of a client before polls and fences are placed: a load is split into the post of its get and the use of its result.
//!
//! With the option `early` posts move up to the operation of the same queue pair before them (Robust'25 5.3: "after previous RDMA
//! operations"; a copy is used once, so no earlier read of it exists). They do not leave their block: a get on a path that the source
//! does not take would be work for nothing.

use crate::program::{Expr, Instr, Loc, Reg};

use super::accesses;

/// A step of a client.
pub(super) enum Step<'p> {
    /// Posts the get of `loc` whose result step `Take` with the same number uses.
    Post { id: usize, loc: Loc },
    /// From here on the register has the result of that get.
    Take { id: usize, reg: Reg },
    /// `loc := value`.
    Store { loc: Loc, value: &'p Expr },
    /// A compare-and-swap, or an exchange, which expects nothing.
    Swap {
        reg: Option<Reg>,
        loc: Loc,
        expected: Option<&'p Expr>,
        new: &'p Expr,
    },
    /// `reg := value`.
    Assign { reg: Reg, value: &'p Expr },
    /// `assume(value)`.
    Assume(&'p Expr),
    /// A branch, a loop or a choice.
    Control(&'p Instr),
}

/// Splits a block into steps. `next` numbers the gets of the thread.
pub(super) fn steps<'p>(block: &'p [Instr], early: bool, next: &mut usize) -> Vec<Step<'p>> {
    let mut steps: Vec<Step<'p>> = Vec::new();
    // Where the next get may be posted at the earliest.
    let mut earliest = 0;
    for instr in block {
        match instr {
            Instr::Load { reg, loc } => {
                let id = *next;
                *next += 1;
                let at = if early { earliest } else { steps.len() };
                steps.insert(at, Step::Post { id, loc: *loc });
                earliest = at + 1;
                steps.push(Step::Take { id, reg: *reg });
            }
            Instr::Store { loc, value } => steps.push(Step::Store { loc: *loc, value }),
            Instr::Cas {
                reg,
                loc,
                expected,
                new,
            } => steps.push(Step::Swap {
                reg: *reg,
                loc: *loc,
                expected: Some(expected),
                new,
            }),
            Instr::Swap { reg, loc, new } => steps.push(Step::Swap {
                reg: *reg,
                loc: *loc,
                expected: None,
                new,
            }),
            Instr::Assign { reg, value } => steps.push(Step::Assign { reg: *reg, value }),
            Instr::Assume(value) => steps.push(Step::Assume(value)),
            Instr::If { .. } | Instr::While { .. } | Instr::Choose(_) => steps.push(Step::Control(instr)),
            // One queue pair keeps a client's operations in order; the translation refuses remote operations.
            _ => {}
        }
        let is_operation = accesses(instr) && !matches!(instr, Instr::Load { .. });
        if is_operation || matches!(steps.last(), Some(Step::Control(_))) {
            earliest = steps.len();
        }
    }
    steps
}
