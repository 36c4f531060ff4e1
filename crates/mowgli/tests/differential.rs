//! Random programs on which the engines and the models must agree.
//!
//! Every program runs under the declarative engine and under four machines, and the models' inclusions are checked. A failure
//! prints the seed and the shrunk program in litmus form; programs that once failed are kept in `tests/regressions.rs`.
//!
//! `MOWGLI_DIFFERENTIAL=COUNT[,FIRST_SEED]` runs COUNT programs of each shape instead of the few of the test suite.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mowgli::declarative;
use mowgli::explore::{Options, outcomes_with};
use mowgli::generate::{self, Shape};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Outcome, Search};
use mowgli::program::{Instr, Program};

/// Programs of each shape in the test suite: `SHAPES.len()` times this many in all.
const COUNT: u64 = 320;

const SHAPES: [(&str, Shape); 9] = [
    ("cpu", Shape::CPU),
    (
        "cpu-3-nodes",
        Shape {
            nodes: 3,
            locations: 1,
            instructions: 8,
            ..Shape::CPU
        },
    ),
    (
        "remote",
        Shape {
            rmw: false,
            polls: false,
            ..Shape::SMALL
        },
    ),
    (
        "poll",
        Shape {
            rmw: false,
            ..Shape::SMALL
        },
    ),
    (
        "one-thread",
        Shape {
            threads: 1,
            rmw: false,
            instructions: 8,
            ..Shape::SMALL
        },
    ),
    (
        "wait",
        Shape {
            rmw: false,
            polls: false,
            waits: true,
            ..Shape::SMALL
        },
    ),
    (
        "rmw",
        Shape {
            instructions: 5,
            ..Shape::SMALL
        },
    ),
    (
        "rmw-wait",
        Shape {
            instructions: 5,
            polls: false,
            waits: true,
            ..Shape::SMALL
        },
    ),
    (
        "control",
        Shape {
            control: true,
            instructions: 5,
            ..Shape::SMALL
        },
    ),
];

/// What a program showed that it must not.
type Failure = String;

fn budget() -> Budget<'static> {
    Budget {
        deadline: Some(Instant::now() + Duration::from_secs(10)),
        ..Budget::default()
    }
}

/// The outcomes, or nothing if the search did not finish.
fn complete(search: Search) -> Option<BTreeSet<Outcome>> {
    search.is_complete().then_some(search.outcomes)
}

fn machine(program: &Program, options: Options) -> Option<BTreeSet<Outcome>> {
    complete(outcomes_with(program, &options, &budget()))
}

fn subset(what: &str, smaller: &BTreeSet<Outcome>, larger: &BTreeSet<Outcome>) -> Result<(), Failure> {
    match smaller.difference(larger).next() {
        None => Ok(()),
        Some(extra) => Err(format!("{what}: {extra:?} only in the first")),
    }
}

fn equal(what: &str, a: &BTreeSet<Outcome>, b: &BTreeSet<Outcome>) -> Result<(), Failure> {
    subset(what, a, b)?;
    subset(what, b, a).map_err(|failure| failure.replace("the first", "the second"))
}

/// Whether the program has an instruction that `wanted` accepts.
fn has(program: &Program, wanted: fn(&Instr) -> bool) -> bool {
    fn any(code: &[Instr], wanted: fn(&Instr) -> bool) -> bool {
        code.iter().any(|instr| {
            wanted(instr)
                || match instr {
                    Instr::If { then, otherwise, .. } => any(then, wanted) || any(otherwise, wanted),
                    Instr::While { body, .. } => any(body, wanted),
                    Instr::Choose(blocks) => blocks.iter().any(|b| any(b, wanted)),
                    _ => false,
                }
        })
    }
    program.threads.iter().any(|t| any(&t.code, wanted))
}

fn is_rmw(instr: &Instr) -> bool {
    matches!(instr, Instr::RemoteFaa { .. } | Instr::RemoteCas { .. })
}

fn is_remote(instr: &Instr) -> bool {
    is_rmw(instr)
        || matches!(
            instr,
            Instr::Put { .. }
                | Instr::Get { .. }
                | Instr::Poll { .. }
                | Instr::Wait { .. }
                | Instr::Rfence { .. }
        )
}

/// Every check of one program.
fn check(program: &Program) -> Result<(), Failure> {
    let remote = has(program, is_remote);
    let atomicities: &[RmwAtomicity] = if has(program, is_rmw) {
        &RmwAtomicity::ALL
    } else {
        &[RmwAtomicity::Hca]
    };
    let mut of_atomicity = Vec::new();
    for &rmw in atomicities {
        let mut of_model = Vec::new();
        for model in Model::ALL {
            if model == Model::Tso && remote {
                of_model.push(None);
                continue;
            }
            let options = Options {
                workers: 1,
                ..Options::new(model, rmw)
            };
            let simplified = machine(program, options);
            let concrete = machine(
                program,
                Options {
                    machine: options.machine.concrete(),
                    ..options
                },
            );
            let declared = complete(declarative::outcomes(program, model, rmw, &budget()));
            if let (Some(simplified), Some(concrete)) = (&simplified, &concrete) {
                equal(
                    &format!("{model}/{rmw}: simplified, concrete"),
                    simplified,
                    concrete,
                )?;
            }
            if let (Some(simplified), Some(declared)) = (&simplified, &declared) {
                equal(
                    &format!("{model}/{rmw}: operational, declarative"),
                    simplified,
                    declared,
                )?;
            }
            of_model.push(simplified);
        }
        let [sc, tso, rdma_sc, rdma_tso, no_pcie, wait] = &of_model[..] else {
            unreachable!("six models")
        };
        let within = |what: &str, a: &Option<BTreeSet<Outcome>>, b: &Option<BTreeSet<Outcome>>| match (a, b) {
            (Some(a), Some(b)) => subset(&format!("{rmw}: {what}"), a, b),
            _ => Ok(()),
        };
        within("sc within rdma-sc", sc, rdma_sc)?;
        within("rdma-sc within rdma-tso", rdma_sc, rdma_tso)?;
        within("rdma-tso within rdma-tso-nopcie", rdma_tso, no_pcie)?;
        within("rdma-tso within rdma-wait", rdma_tso, wait)?;
        if !remote {
            within("Thm. 4.6: tso within rdma-tso", tso, rdma_tso)?;
            within("Thm. 4.6: rdma-tso within tso", rdma_tso, tso)?;
            within("rdma-sc is sc without remote operations", rdma_sc, sc)?;
        }
        of_atomicity.push(of_model);
    }
    if let [hca, glob] = &of_atomicity[..] {
        for (model, (hca, glob)) in Model::ALL.iter().zip(hca.iter().zip(glob)) {
            if let (Some(hca), Some(glob)) = (hca, glob) {
                subset(&format!("{model}: glob within hca"), glob, hca)?;
            }
        }
    }
    Ok(())
}

/// Checks programs of a shape; panics on the first failure with the shrunk program.
fn run(name: &str, shape: &Shape) {
    let plan = std::env::var("MOWGLI_DIFFERENTIAL").unwrap_or_default();
    let mut numbers = plan.split(',').filter_map(|n| n.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(COUNT), numbers.next().unwrap_or(0));
    for seed in first..first + count {
        let program = generate::program(seed, shape);
        if let Err(failure) = check(&program) {
            let small = generate::shrink(&program, &mut |p| check(p).is_err());
            panic!(
                "shape {name}, seed {seed}: {failure}\nshrunk: {}\n{small:#?}",
                check(&small).unwrap_err()
            );
        }
    }
}

#[test]
fn cpu_programs() {
    run(SHAPES[0].0, &SHAPES[0].1);
    run(SHAPES[1].0, &SHAPES[1].1);
}

#[test]
fn puts_and_gets() {
    run(SHAPES[2].0, &SHAPES[2].1);
}

#[test]
fn polls() {
    run(SHAPES[3].0, &SHAPES[3].1);
    run(SHAPES[4].0, &SHAPES[4].1);
}

#[test]
fn waits() {
    run(SHAPES[5].0, &SHAPES[5].1);
}

#[test]
fn read_modify_writes() {
    run(SHAPES[6].0, &SHAPES[6].1);
}

#[test]
fn read_modify_writes_with_waits() {
    run(SHAPES[7].0, &SHAPES[7].1);
}

#[test]
fn control_flow() {
    run(SHAPES[8].0, &SHAPES[8].1);
}
