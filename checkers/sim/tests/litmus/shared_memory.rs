//! Compares the fabric with the capabilities of shared memory with x86-TSO: a program as object code on the one has exactly the
//! outcomes on the other of the loads, stores and locked instructions that its operations consist of.

use std::collections::BTreeSet;

use loco_sim::{Config, FabricKind, Tier};
use mowgli::catalogue;
use mowgli::generate::tiers::Waiting;
use mowgli::generate::{self, Shape};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Outcome};
use mowgli::program::{BinaryOp, Expr, Instr, Loc, Node, Program, PutSrc, Reg};

use super::{interpreter, is_expressible};

/// Registers of a thread that hold values between the steps of an operation.
#[derive(Clone, Copy)]
struct Scratch {
    value: Reg,
    found: Reg,
}

/// Returns the program of one node whose threads carry out the operations themselves.
fn carried_out(program: &Program) -> Program {
    let mut program = program.clone();
    program.nodes = 1;
    for location in &mut program.locations {
        location.node = Node(0);
    }
    for thread in &mut program.threads {
        let first = thread.registers.len() as u8;
        thread.registers.extend(["value".into(), "found".into()]);
        thread.node = Node(0);
        let scratch = Scratch {
            value: Reg(first.into()),
            found: Reg((first + 1).into()),
        };
        thread.code = steps(&thread.code, scratch);
    }
    program
}

fn steps(code: &[Instr], scratch: Scratch) -> Vec<Instr> {
    code.iter()
        .flat_map(|instr| step(instr.request().0, scratch))
        .collect()
}

/// Returns the steps of an instruction.
fn step(instr: &Instr, scratch: Scratch) -> Vec<Instr> {
    let Scratch { value: reg, found } = scratch;
    let value = Expr::Reg(reg);
    let load = |loc: &Loc| Instr::Load { reg, loc: *loc };
    let store = |loc: &Loc, value: &Expr| Instr::Store {
        loc: *loc,
        value: value.clone(),
    };
    match instr {
        Instr::Put {
            dst,
            src: PutSrc::Loc(src),
            ..
        }
        | Instr::Get { dst, src, .. } => vec![Instr::Mfence, load(src), store(dst, &value)],
        Instr::Put {
            dst,
            src: PutSrc::Value(data),
            ..
        } => vec![Instr::Mfence, store(dst, data)],
        Instr::Put {
            dst,
            src: PutSrc::Inline(data),
            ..
        } => vec![store(dst, data)],
        Instr::RemoteFaa { dst, target, add, .. } => {
            let sum = Expr::Binary(BinaryOp::Add, value.clone().into(), add.clone().into());
            let same = Expr::Binary(BinaryOp::Eq, value.clone().into(), Expr::Reg(found).into());
            let exchange = Instr::Cas {
                reg: Some(found),
                loc: *target,
                expected: value.clone(),
                new: sum,
            };
            // The exchange that finds what was loaded is the addition. Executions in which it does not are discarded.
            vec![load(target), exchange, Instr::Assume(same), store(dst, &value)]
        }
        Instr::RemoteCas {
            dst,
            target,
            expected,
            new,
            ..
        } => {
            let exchange = Instr::Cas {
                reg: Some(reg),
                loc: *target,
                expected: expected.clone(),
                new: new.clone(),
            };
            vec![exchange, store(dst, &value)]
        }
        // Everything that could be waited for is done.
        Instr::Poll { .. } | Instr::Wait { .. } | Instr::Rfence { .. } => Vec::new(),
        Instr::If {
            cond,
            then,
            otherwise,
        } => vec![Instr::If {
            cond: cond.clone(),
            then: steps(then, scratch),
            otherwise: steps(otherwise, scratch),
        }],
        Instr::While { cond, body, bound } => vec![Instr::While {
            cond: cond.clone(),
            body: steps(body, scratch),
            bound: *bound,
        }],
        other => vec![other.clone()],
    }
}

/// Returns the outcomes on x86-TSO, in the registers that the program itself has.
fn on_tso(name: &str, program: &Program) -> BTreeSet<Outcome> {
    let steps = carried_out(program);
    let found = mowgli::explore::outcomes(&steps, Model::RdmaTso, RmwAtomicity::Hca, &Budget::default());
    assert!(found.is_complete(), "{name}");
    let of_program = |mut outcome: Outcome| {
        for (registers, thread) in outcome.registers.iter_mut().zip(&program.threads) {
            registers.truncate(thread.registers.len());
        }
        outcome
    };
    found.outcomes.into_iter().map(of_program).collect()
}

fn agrees(name: &str, program: &Program, reduction: bool) {
    let expected = on_tso(name, program);
    let found = interpreter::outcomes(
        program,
        &Config {
            fabric: FabricKind::Shm,
            // There is no network that could have this order.
            tier: Tier::Unordered,
            workers: 1,
            reduction,
            ..Config::default()
        },
    );
    let missing: Vec<_> = expected.difference(&found).collect();
    let extra: Vec<_> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "{name}\nmissing on the fabric: {missing:?}\nnot of x86-TSO: {extra:?}\n{program:#?}"
    );
}

#[test]
fn the_catalogue_is_carried_out_on_tso() {
    let mut compared = 0;
    for entry in catalogue::entries() {
        let program = entry.parse().unwrap().program;
        if is_expressible(&program) {
            agrees(entry.name, &program, true);
            agrees(entry.name, &program.inlined(), true);
            compared += 1;
        }
    }
    assert!(compared >= 100, "{compared}");
}

#[test]
fn random_programs_are_carried_out_on_tso() {
    let inlined = |seed: u64, program: Program| match seed % 2 {
        0 => program,
        _ => program.inlined(),
    };
    let waits = Shape {
        polls: false,
        waits: true,
        ..Shape::SMALL
    };
    let programs = (70_000..).map(|seed| {
        let program = match seed / 2 % 3 {
            0 => generate::program(seed, &Shape::SMALL),
            1 => generate::program(seed, &waits),
            _ => generate::tiers::program(seed, Waiting::Polls),
        };
        (seed, inlined(seed, program))
    });
    for (seed, program) in programs.filter(|(_, program)| is_expressible(program)).take(300) {
        agrees(&format!("seed {seed}"), &program, seed % 5 != 0);
    }
}
