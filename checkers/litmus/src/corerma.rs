//! Tests of coreRMA on fabrics: the program that is run for one, and what coreRMA allows it to show.
//!
//! A test is run as the program of RDMA that [`mowgli_corerma::common`] makes of it. That translation has neither get accumulate nor
//! compare and swap, whose operands coreRMA's network reads from memory. Here the thread reads them just before it posts the operation,
//! as programs for networks do, so a fabric may show less for it and never more. The registers for the operands are
//! 0 again afterwards, so that outcomes of both languages differ in nothing but these zeros. Used by [`crate::test`] and
//! [`crate::oracle`].

use std::collections::BTreeSet;

use mowgli::outcome::{Budget, Outcome};
use mowgli::program::{self as rdma, Expr, Instr, Reg};
use mowgli_corerma::common;
use mowgli_corerma::litmus::Litmus;
use mowgli_corerma::outcome;
use mowgli_corerma::program::{Access, Process, Program, Statement};
use mowgli_corerma::switches::Model;

use crate::allowed::Allowed;

/// The program of a test of coreRMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreRma {
    program: Program,
}

impl CoreRma {
    /// Takes the program of a test, with the program of RDMA that is run for it.
    ///
    /// # Errors
    /// Returns why no fabric can run it.
    pub fn translate(litmus: &Litmus) -> Result<(CoreRma, rdma::Program), &'static str> {
        let program = &litmus.program;
        if accesses(program).any(|access| !access.atomic) {
            return Err("it has accesses that are not atomic, and the words of a fabric are");
        }
        // The common language has puts and gets only. A get stands for each read-modify-write until the program is translated.
        let mut common = program.clone();
        for process in &mut common.processes {
            for statement in &mut process.code {
                if let Statement::Rga { to, target, .. } | Statement::Cas { to, target, .. } = statement {
                    *statement = Statement::Get {
                        to: *to,
                        from: *target,
                    };
                }
            }
        }
        let mut run = common::to_rdma(&common).ok_or("the models of RDMA lack one of its statements")?;
        for (thread, process) in run.threads.iter_mut().zip(&program.processes) {
            put_back(thread, process, &program.locations);
        }
        let program = program.clone();
        Ok((CoreRma { program }, run))
    }

    /// Returns the outcomes that a variant of coreRMA allows to the program that is run. If one of them has an
    /// undefined value, the answer is not complete, since that value may be any.
    pub fn allowed(&self, model: Model, budget: &Budget<'_>) -> Allowed {
        let search = outcome::outcomes(&self.program, &model.switches(), budget);
        let known = |outcome: &outcome::Outcome| Some(self.as_run(outcome.known()?));
        let outcomes: Option<BTreeSet<Outcome>> = search.outcomes.iter().map(known).collect();
        Allowed {
            model: model.to_string(),
            complete: search.is_complete() && outcomes.is_some(),
            outcomes: outcomes.unwrap_or_default(),
        }
    }

    /// Adds the registers for operands, which are 0 in the end.
    fn as_run(&self, mut outcome: Outcome) -> Outcome {
        for (registers, process) in outcome.registers.iter_mut().zip(&self.program.processes) {
            registers.resize(registers.len() + operands_max(process), 0);
        }
        outcome
    }
}

/// Returns the accesses of a program.
fn accesses(program: &Program) -> impl Iterator<Item = Access> {
    let statements = program.processes.iter().flat_map(|p| &p.code);
    statements.flat_map(|statement| match statement {
        Statement::Read { from, .. } => vec![*from],
        Statement::Write { to, .. } => vec![*to],
        Statement::Get { to, from } | Statement::Put { to, from } => vec![*to, *from],
        Statement::Rga { to, target, addend } => vec![*to, *target, *addend],
        Statement::Cas {
            to,
            target,
            expected,
            new,
        } => vec![*to, *target, *expected, *new],
        Statement::Flush { .. } => Vec::new(),
    })
}

/// Returns the most operands that a read-modify-write of a process has.
fn operands_max(process: &Process) -> usize {
    let operands = |statement: &Statement| match statement {
        Statement::Rga { .. } => 1,
        Statement::Cas { .. } => 2,
        _ => 0,
    };
    process.code.iter().map(operands).max().unwrap_or(0)
}

/// Puts the read-modify-writes of a process back in the place of the gets that stood for them.
fn put_back(thread: &mut rdma::Thread, process: &Process, locations: &[rdma::Location]) {
    let first = thread.registers.len();
    for _ in 0..operands_max(process) {
        let taken = |name: &str| {
            thread.registers.iter().any(|r| r == name) || locations.iter().any(|l| l.name == name)
        };
        let mut name = String::from("operand");
        while taken(&name) {
            name.push('\'');
        }
        thread.registers.push(name);
    }
    // A thread has at most `REGISTERS_MAX` registers, far below `u16::MAX`.
    let operand = |index: usize| Reg((first + index) as u16);
    let mut gets = process.code.iter().filter(|statement| {
        matches!(
            statement,
            Statement::Get { .. } | Statement::Rga { .. } | Statement::Cas { .. }
        )
    });
    let mut code = Vec::new();
    for instr in thread.code.drain(..) {
        let stands_for = match instr {
            Instr::Get { .. } => gets.next(),
            _ => None,
        };
        let (operands, instr) = match stands_for {
            Some(Statement::Rga { to, target, addend }) => (
                vec![*addend],
                Instr::RemoteFaa {
                    dst: to.loc,
                    target: target.loc,
                    add: Expr::Reg(operand(0)),
                    work: None,
                },
            ),
            Some(Statement::Cas {
                to,
                target,
                expected,
                new,
            }) => (
                vec![*expected, *new],
                Instr::RemoteCas {
                    dst: to.loc,
                    target: target.loc,
                    expected: Expr::Reg(operand(0)),
                    new: Expr::Reg(operand(1)),
                    work: None,
                },
            ),
            _ => (Vec::new(), instr),
        };
        let loads = operands.iter().enumerate().map(|(index, access)| Instr::Load {
            reg: operand(index),
            loc: access.loc,
        });
        code.extend(loads);
        code.push(instr);
        code.extend((0..operands.len()).map(|index| Instr::Assign {
            reg: operand(index),
            value: Expr::Const(0),
        }));
    }
    thread.code = code;
}
