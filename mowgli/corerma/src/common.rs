//! The language that coreRMA and the models of RDMA have in common, and the translation of its programs.
//!
//! | RDMA | coreRMA | why |
//! |---|---|---|
//! | CPU store and load | atomic local write and read | both touch one word of the own node |
//! | put of a location | atomic put | the card reads the source and writes the target |
//! | get | atomic get | the card reads the target and writes the destination |
//! | polls that leave no operation towards a node unpolled | flush of the node | both wait for all that was sent there |
//!
//! All else is in one of the two only: coreRMA adds and compares with what it reads from memory, RDMA with what its registers
//! hold; coreRMA has no fence of the CPU or of the network, no work identifiers and no branches, and waits for all operations towards a
//! node at once; RDMA has no accesses that are not atomic, since its words are. Every node has one thread.
//!
//! Programs that correspond need not have the same outcomes under the models: the translation serves to find out
//! whether they do.

use std::collections::BTreeSet;

use mowgli::outcome::{Budget, Outcome};
use mowgli::program::{self as rdma, Instr, PutSrc};

use crate::outcome;
use crate::program::{Access, Process, Program, Statement};
use crate::switches::Switches;

/// Operations that each node has been sent and that no poll has waited for.
type Unpolled = Vec<usize>;

/// Translates a program of RDMA. Returns `None` if it has an instruction that coreRMA lacks, two threads on one node,
/// or a poll after which another operation towards its node is unpolled.
pub fn from_rdma(program: &rdma::Program) -> Option<Program> {
    let mut taken = BTreeSet::new();
    let mut processes = Vec::new();
    for thread in &program.threads {
        if !taken.insert(thread.node) {
            return None;
        }
        let mut unpolled: Unpolled = vec![0; usize::from(program.nodes)];
        let mut code = Vec::new();
        let mut instrs = thread.code.iter().peekable();
        while let Some(instr) = instrs.next() {
            let home = |loc: &rdma::Loc| program.locations[usize::from(loc.0)].node;
            code.push(match instr {
                Instr::Store { loc, value } => Statement::Write {
                    to: Access::atomic(*loc),
                    value: value.clone(),
                },
                Instr::Load { reg, loc } => Statement::Read {
                    reg: *reg,
                    from: Access::atomic(*loc),
                },
                Instr::Put {
                    dst,
                    src: PutSrc::Loc(src),
                    work: None,
                } => {
                    unpolled[usize::from(home(dst).0)] += 1;
                    Statement::Put {
                        to: Access::atomic(*dst),
                        from: Access::atomic(*src),
                    }
                }
                Instr::Get { dst, src, work: None } => {
                    unpolled[usize::from(home(src).0)] += 1;
                    Statement::Get {
                        to: Access::atomic(*dst),
                        from: Access::atomic(*src),
                    }
                }
                Instr::Poll { node } => {
                    let left = &mut unpolled[usize::from(node.0)];
                    if *left == 0 {
                        return None;
                    }
                    *left -= 1;
                    while *left > 0 {
                        instrs.next_if(|next| **next == Instr::Poll { node: *node })?;
                        *left -= 1;
                    }
                    Statement::Flush { node: *node }
                }
                _ => return None,
            });
        }
        processes.push(Process {
            node: thread.node,
            registers: thread.registers.clone(),
            code,
        });
    }
    Some(Program {
        nodes: program.nodes,
        locations: program.locations.clone(),
        processes,
    })
}

/// Translates a program of coreRMA. Returns `None` if it has a statement that RDMA lacks. A flush with nothing to wait
/// for is left out: it orders only what precedes it locally, which is ordered without it.
pub fn to_rdma(program: &Program) -> Option<rdma::Program> {
    let home = |access: &Access| program.location(access.loc).node;
    let mut threads = Vec::new();
    for (index, process) in program.processes.iter().enumerate() {
        let mut unpolled: Unpolled = vec![0; usize::from(program.nodes)];
        let mut code = Vec::new();
        for statement in &process.code {
            match statement {
                Statement::Read { reg, from } if from.atomic => code.push(Instr::Load {
                    reg: *reg,
                    loc: from.loc,
                }),
                Statement::Write { to, value } if to.atomic => code.push(Instr::Store {
                    loc: to.loc,
                    value: value.clone(),
                }),
                Statement::Put { to, from } if to.atomic && from.atomic => {
                    unpolled[usize::from(home(to).0)] += 1;
                    code.push(Instr::Put {
                        dst: to.loc,
                        src: PutSrc::Loc(from.loc),
                        work: None,
                    });
                }
                Statement::Get { to, from } if to.atomic && from.atomic => {
                    unpolled[usize::from(home(from).0)] += 1;
                    code.push(Instr::Get {
                        dst: to.loc,
                        src: from.loc,
                        work: None,
                    });
                }
                Statement::Flush { node } => {
                    let left = std::mem::take(&mut unpolled[usize::from(node.0)]);
                    code.extend(std::iter::repeat_n(Instr::Poll { node: *node }, left));
                }
                _ => return None,
            }
        }
        threads.push(rdma::Thread {
            name: format!("P{index}"),
            node: process.node,
            registers: process.registers.clone(),
            work_ids: Vec::new(),
            code,
        });
    }
    Some(rdma::Program {
        nodes: program.nodes,
        locations: program.locations.clone(),
        threads,
    })
}

/// Finds the outcomes of a program of the common language, in the form of the outcomes of RDMA's models. Returns
/// `None` if a value is undefined, which only accesses that are not atomic can cause, or if the program is too large.
pub fn outcomes(program: &Program, switches: &Switches) -> Option<BTreeSet<Outcome>> {
    let search = outcome::outcomes(program, switches, &Budget::default());
    if !search.is_complete() {
        return None;
    }
    search.outcomes.iter().map(outcome::Outcome::known).collect()
}
