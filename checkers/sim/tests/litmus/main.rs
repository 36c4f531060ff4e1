//! Compares the fabric and the reduction with Mowgli. Litmus programs that run as object code on the model
//! fabric have exactly the outcomes that the operational machine gives them.
//!
//! The contract cannot express all programs. It takes completions by node, not by thread and peer, so
//! programs in which two threads of one node poll are left out. So are polls that can never succeed: on a
//! fabric the thread would hang.

#![allow(clippy::unwrap_used)]

mod interpreter;

use std::collections::BTreeSet;

use mowgli::catalogue;
use mowgli::generate::{self, Shape};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::{Instr, Program};

/// Lists the instructions in order, those of blocks included.
fn instructions(code: &[Instr]) -> Vec<&Instr> {
    code.iter()
        .flat_map(|instr| {
            let inner = match instr {
                Instr::If { then, otherwise, .. } => [instructions(then), instructions(otherwise)].concat(),
                Instr::While { body, .. } => instructions(body),
                Instr::Choose(blocks) => blocks.iter().flat_map(|b| instructions(b)).collect(),
                _ => Vec::new(),
            };
            std::iter::once(instr.request().0).chain(inner)
        })
        .collect()
}

/// Returns whether the contract can express the program, for straight-line code.
fn is_expressible(program: &Program) -> bool {
    let mut pollers = BTreeSet::new();
    program.threads.iter().all(|thread| {
        let mut unpolled = vec![0; usize::from(program.nodes)];
        let mut waits = false;
        for instr in instructions(&thread.code) {
            let node_of =
                |loc: mowgli::program::Loc| usize::from(program.locations[usize::from(loc.0)].node.0);
            match instr {
                Instr::Put { dst, .. } => unpolled[node_of(*dst)] += 1,
                Instr::Get { src, .. } => unpolled[node_of(*src)] += 1,
                Instr::RemoteFaa { target, .. } | Instr::RemoteCas { target, .. } => {
                    unpolled[node_of(*target)] += 1;
                }
                Instr::Poll { node } => {
                    waits = true;
                    if unpolled[usize::from(node.0)] == 0 {
                        return false;
                    }
                    unpolled[usize::from(node.0)] -= 1;
                }
                Instr::Wait { .. } => waits = true,
                Instr::Choose(_) => return false,
                _ => {}
            }
        }
        !waits || pollers.insert(thread.node)
    })
}

/// Checks that the program has exactly the model's outcomes. For a program with a `wait` it checks that it
/// has no others. Completions of one queue pair arrive in the order of its operations, as they do on
/// hardware, while `wait` of RDMA^WAIT may see a put complete before an earlier get.
fn agrees(name: &str, program: &Program) {
    explored_agrees(name, program, 1, true);
}

/// Checks [`agrees`] with so many workers, with the reduction or without.
fn explored_agrees(name: &str, program: &Program, workers: usize, reduction: bool) {
    let expected = mowgli::explore::outcomes(program, Model::RdmaTso, RmwAtomicity::Hca, &Budget::default());
    assert!(expected.is_complete(), "{name}");
    let found = interpreter::outcomes(program, workers, reduction);
    let waits = program.threads.iter().any(|t| {
        instructions(&t.code)
            .iter()
            .any(|i| matches!(i, Instr::Wait { .. }))
    });
    if found != expected.outcomes && !(waits && found.is_subset(&expected.outcomes)) {
        let missing: Vec<_> = expected.outcomes.difference(&found).collect();
        let extra: Vec<_> = found.difference(&expected.outcomes).collect();
        panic!("{name}\nmissing on the fabric: {missing:?}\nnot of the model: {extra:?}\n{program:#?}");
    }
}

/// Checks the first `count` expressible programs of a shape. Seeds count from `first`.
fn programs_agree(shape: Shape, first: u64, count: usize) {
    let programs: Vec<(u64, Program)> = (first..)
        .map(|seed| (seed, generate::program(seed, &shape)))
        .filter(|(_, program)| is_expressible(program))
        .take(count)
        .collect();
    // Two at a time: each exploration has one explorer.
    std::thread::scope(|scope| {
        for half in programs.chunks(count.div_ceil(2)) {
            scope.spawn(move || {
                for (seed, program) in half {
                    agrees(&format!("seed {seed} of {shape:?}"), program);
                }
            });
        }
    });
}

#[test]
fn appendix_a_of_the_paper() {
    let entries = catalogue::entries().iter().filter(|e| e.folder == "rdma-tso24");
    let mut compared = 0;
    for entry in entries {
        let program = entry.parse().unwrap().program;
        assert!(is_expressible(&program), "{}", entry.name);
        agrees(entry.name, &program);
        compared += 1;
    }
    assert!(compared >= 44, "all of appendix A: {compared}");
}

#[test]
fn remote_read_modify_writes_and_waits_of_the_catalogue() {
    let entries = catalogue::entries().iter().filter(|e| e.folder != "rdma-tso24");
    let mut compared = 0;
    for entry in entries {
        let program = entry.parse().unwrap().program;
        if is_expressible(&program) {
            agrees(entry.name, &program);
            compared += 1;
        }
    }
    println!("{compared} tests agree");
    assert!(compared >= 20, "{compared}");
}

#[test]
fn random_programs_of_puts_and_gets() {
    let shape = Shape {
        rmw: false,
        ..Shape::SMALL
    };
    programs_agree(shape, 1, 300);
}

#[test]
fn random_programs_with_remote_read_modify_writes() {
    programs_agree(Shape::SMALL, 10_000, 200);
}

#[test]
fn random_programs_that_wait() {
    let shape = Shape {
        polls: false,
        waits: true,
        ..Shape::SMALL
    };
    programs_agree(shape, 20_000, 100);
}

/// One worker may not see what another has seen: conflicts that no worker knows alone must not be lost.
#[test]
fn several_workers_together_miss_nothing() {
    let entries = catalogue::entries().iter();
    let from_catalogue = entries.filter_map(|e| Some((e.name.to_owned(), e.parse().ok()?.program)));
    let shape = Shape {
        rmw: false,
        ..Shape::SMALL
    };
    let random = (30_000..30_150).map(|seed| (format!("seed {seed}"), generate::program(seed, &shape)));
    let programs = from_catalogue.chain(random);
    for (number, (name, program)) in programs.filter(|(_, p)| is_expressible(p)).enumerate() {
        explored_agrees(&name, &program, 2 + number % 3, true);
    }
}

#[test]
fn without_the_reduction_there_is_nothing_more() {
    let shape = Shape {
        instructions: 4,
        ..Shape::SMALL
    };
    let programs = (40_000..).map(|seed| (seed, generate::program(seed, &shape)));
    for (seed, program) in programs.filter(|(_, p)| is_expressible(p)).take(60) {
        explored_agrees(&format!("seed {seed}"), &program, 1, false);
    }
    let program = catalogue::entries()
        .iter()
        .find_map(|e| Some(e.parse().ok()?.program).filter(is_expressible))
        .unwrap();
    explored_agrees("with several workers", &program, 3, false);
}
