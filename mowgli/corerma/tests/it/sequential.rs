//! Sequential consistency of coreRMA by its definition: processes take turns, one access at a time. It must find what the rules find, and
//! what the model `sc` of RDMA finds for programs that both languages have.

use std::collections::BTreeSet;

use mowgli::check::{self, Engine};
use mowgli::litmus::Setting;
use mowgli::model::{Model as Rdma, RmwAtomicity};
use mowgli::outcome::Budget;
use mowgli::program::{BinaryOp, Expr, Loc};
use mowgli_corerma::common::{outcomes as common_outcomes, to_rdma};
use mowgli_corerma::litmus::program_text;
use mowgli_corerma::outcome::{Outcome, outcomes};
use mowgli_corerma::program::{Program, Statement};
use mowgli_corerma::switches::Model;
use mowgli_corerma::value::Value;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::differential::{number, program};

/// A process under way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    /// The statement that comes next, or is under way.
    statement: usize,
    registers: Vec<i64>,
    /// The values that the statement under way has read, one for each access that it has made.
    read: Vec<i64>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    memory: Vec<i64>,
    processes: Vec<Process>,
}

fn value(expr: &Expr, registers: &[i64]) -> i64 {
    match expr {
        Expr::Const(n) => *n,
        Expr::Reg(r) => registers[usize::from(r.0)],
        Expr::Binary(BinaryOp::Add, a, b) => value(a, registers).wrapping_add(value(b, registers)),
        _ => panic!("the random programs have no other operators"),
    }
}

impl State {
    /// Makes the next access of a process. Returns whether there was one.
    fn step(&mut self, program: &Program, p: usize) -> bool {
        let process = &mut self.processes[p];
        let Some(statement) = program.processes[p].code.get(process.statement) else {
            return false;
        };
        let at = |loc: Loc| usize::from(loc.0);
        let memory = &mut self.memory;
        let done = process.read.len();
        let last = match statement {
            Statement::Read { reg, from } => {
                process.registers[usize::from(reg.0)] = memory[at(from.loc)];
                true
            }
            Statement::Write { to, value: expr } => {
                memory[at(to.loc)] = value(expr, &process.registers);
                true
            }
            Statement::Flush { .. } => true,
            Statement::Get { to, from } | Statement::Put { to, from } => match done {
                0 => {
                    process.read.push(memory[at(from.loc)]);
                    false
                }
                _ => {
                    memory[at(to.loc)] = process.read[0];
                    true
                }
            },
            Statement::Rga { to, target, addend } => match done {
                0 => {
                    process.read.push(memory[at(addend.loc)]);
                    false
                }
                1 => {
                    let old = memory[at(target.loc)];
                    memory[at(target.loc)] = process.read[0].wrapping_add(old);
                    process.read.push(old);
                    false
                }
                _ => {
                    memory[at(to.loc)] = process.read[1];
                    true
                }
            },
            Statement::Cas {
                to,
                target,
                expected,
                new,
            } => match done {
                0 => {
                    process.read.push(memory[at(expected.loc)]);
                    false
                }
                1 => {
                    process.read.push(memory[at(new.loc)]);
                    false
                }
                2 => {
                    let old = memory[at(target.loc)];
                    if old == process.read[0] {
                        memory[at(target.loc)] = process.read[1];
                    }
                    process.read.push(old);
                    false
                }
                _ => {
                    memory[at(to.loc)] = process.read[2];
                    true
                }
            },
        };
        if last {
            process.read.clear();
            process.statement += 1;
        }
        true
    }

    fn outcome(&self) -> Outcome {
        let known = |values: &[i64]| values.iter().map(|&n| Value::Known(n)).collect();
        Outcome {
            registers: self.processes.iter().map(|p| known(&p.registers)).collect(),
            memory: known(&self.memory),
        }
    }
}

/// Finds the outcomes of every order in which the processes can take turns.
fn interleaved(program: &Program) -> BTreeSet<Outcome> {
    let process = |p: &mowgli_corerma::program::Process| Process {
        statement: 0,
        registers: vec![0; p.registers.len()],
        read: Vec::new(),
    };
    let first = State {
        memory: program.locations.iter().map(|l| l.init).collect(),
        processes: program.processes.iter().map(process).collect(),
    };
    let (mut seen, mut open, mut out) = (BTreeSet::from([first.clone()]), vec![first], BTreeSet::new());
    while let Some(state) = open.pop() {
        let mut is_over = true;
        for p in 0..program.processes.len() {
            let mut next = state.clone();
            if next.step(program, p) {
                is_over = false;
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        if is_over {
            out.insert(state.outcome());
        }
    }
    out
}

#[test]
fn taking_turns_has_the_outcomes_of_the_rules() {
    let mut rng = StdRng::seed_from_u64(number("MOWGLI_FUZZ_SEED", 3));
    let (mut several, mut weaker, mut shared) = (0, 0, 0);
    let count = number("MOWGLI_CORERMA_PROGRAMS", 2000);
    for done in 0..count {
        let program = program(&mut rng);
        let text = || format!("program {done}:\n{}", program_text(&program));
        let found = outcomes(&program, &Model::SC.switches(), &Budget::default());
        assert!(found.is_complete());
        assert_eq!(found.outcomes, interleaved(&program), "{}", text());
        several += u64::from(found.outcomes.len() > 1);
        let stock = outcomes(&program, &Model::STOCK.switches(), &Budget::default());
        weaker += u64::from(stock.outcomes != found.outcomes);
        let Some(rdma) = to_rdma(&program) else { continue };
        let setting = Setting {
            model: Rdma::Sc,
            rmw: RmwAtomicity::Hca,
        };
        let of_rdma = check::run(&rdma, setting, Engine::Both, &Budget::default()).unwrap();
        assert_eq!(of_rdma.disagreement, None);
        let of_core = common_outcomes(&program, &Model::SC.switches());
        assert_eq!(of_core, Some(of_rdma.search.outcomes), "{}", text());
        shared += 1;
    }
    println!(
        "{count} programs: {several} with several outcomes, {weaker} weaker under corerma, {shared} shared"
    );
    assert!(several * 10 > count && weaker * 10 > count && shared * 10 > count);
}
