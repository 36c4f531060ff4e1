//! A client of the star: gets into private copies, puts, polls where results are used, remote fences after gets.
//!
//! Polls are first in, first out, so the result of a get is there only when every earlier operation has been polled too: the
//! translation counts them. Robust'25 5.3 says that polling puts is unnecessary, which is about order only.

use std::collections::{BTreeMap, VecDeque};

use crate::program::{Expr, Instr, Loc, Node, PutSrc, Reg, Thread};

use super::early::{Step, steps};
use super::{Copies, accesses, find, registers_of};

/// The server's node.
const SERVER: Node = Node(0);

/// Translates a thread to a client on `node`.
pub(super) fn thread(
    thread: &Thread,
    index: usize,
    node: Node,
    early: bool,
    copies: &mut Copies,
) -> Vec<Instr> {
    let mut client = Client {
        index,
        node,
        early,
        copies,
        gets: 0,
        state: State::default(),
    };
    let mut code = Vec::new();
    client.block(&thread.code, &mut code);
    // Final values of registers are part of the outcome.
    client.deliver_all(&mut code);
    code
}

/// An operation that has been posted and not polled.
#[derive(Clone)]
struct Pending {
    /// The copy that it writes, unless it is a put.
    copy: Option<Loc>,
    /// Whether a remote fence must come before the next operation: a get that nothing has fenced.
    open: bool,
}

#[derive(Clone, Default)]
struct State {
    /// Unpolled operations, the oldest first.
    pending: VecDeque<Pending>,
    /// Registers whose value is still in a copy.
    bound: BTreeMap<Reg, Loc>,
}

struct Client<'c> {
    index: usize,
    node: Node,
    early: bool,
    copies: &'c mut Copies,
    /// Number of gets in the text so far.
    gets: usize,
    state: State,
}

impl Client<'_> {
    fn block(&mut self, block: &[Instr], out: &mut Vec<Instr>) {
        let mut posted: BTreeMap<usize, Loc> = BTreeMap::new();
        for step in steps(block, self.early, &mut self.gets) {
            match step {
                Step::Post { id, loc } => {
                    let dst = self.copies.place(loc, self.index, self.node);
                    posted.insert(id, dst);
                    let (src, work) = (loc, None);
                    self.post(Instr::Get { dst, src, work }, Some(dst), out);
                }
                Step::Take { id, reg } => {
                    // A step takes what an earlier step of its block posted.
                    if let Some(&copy) = posted.get(&id) {
                        self.state.bound.insert(reg, copy);
                    }
                }
                Step::Store { loc, value } => {
                    self.need(value, out);
                    let put = Instr::Put {
                        dst: loc,
                        src: PutSrc::Value(value.clone()),
                        work: None,
                    };
                    self.post(put, None, out);
                }
                Step::Swap {
                    reg,
                    loc,
                    expected,
                    new,
                } => {
                    expected.into_iter().for_each(|e| self.need(e, out));
                    self.need(new, out);
                    let dst = self.copies.place(loc, self.index, self.node);
                    let (target, new, work) = (loc, new.clone(), None);
                    let swap = match expected.cloned() {
                        Some(expected) => Instr::RemoteCas {
                            dst,
                            target,
                            expected,
                            new,
                            work,
                        },
                        None => Instr::RemoteSwap {
                            dst,
                            target,
                            new,
                            work,
                        },
                    };
                    self.post(swap, Some(dst), out);
                    if let Some(reg) = reg {
                        self.state.bound.insert(reg, dst);
                    }
                }
                Step::Assign { reg, value } => {
                    self.need(value, out);
                    self.state.bound.remove(&reg);
                    let value = value.clone();
                    out.push(Instr::Assign { reg, value });
                }
                Step::Assume(value) => {
                    self.need(value, out);
                    out.push(Instr::Assume(value.clone()));
                }
                Step::Control(instr) => self.control(instr, out),
            }
        }
    }

    /// Posts an operation, behind a remote fence if a get before it has neither been polled nor fenced (Def. 9 (2)).
    fn post(&mut self, operation: Instr, copy: Option<Loc>, out: &mut Vec<Instr>) {
        if self.state.pending.iter().any(|p| p.open) {
            out.push(Instr::Rfence { node: SERVER });
            self.state.pending.iter_mut().for_each(|p| p.open = false);
        }
        out.push(operation);
        let open = copy.is_some();
        self.state.pending.push_back(Pending { copy, open });
    }

    /// Makes the registers of an expression ready.
    fn need(&mut self, expr: &Expr, out: &mut Vec<Instr>) {
        for reg in registers_of(expr) {
            self.deliver(reg, out);
        }
    }

    /// Polls up to the operation with the register's value and loads it.
    fn deliver(&mut self, reg: Reg, out: &mut Vec<Instr>) {
        let Some(loc) = self.state.bound.remove(&reg) else {
            return;
        };
        if let Some(at) = self.state.pending.iter().position(|p| p.copy == Some(loc)) {
            self.poll(at + 1, out);
        }
        out.push(Instr::Load { reg, loc });
    }

    fn poll(&mut self, count: usize, out: &mut Vec<Instr>) {
        self.state.pending.drain(..count);
        out.extend(std::iter::repeat_n(Instr::Poll { node: SERVER }, count));
    }

    fn deliver_all(&mut self, out: &mut Vec<Instr>) {
        let bound: Vec<Reg> = self.state.bound.keys().copied().collect();
        for reg in bound {
            self.deliver(reg, out);
        }
    }

    /// Polls everything and loads every result, so that paths that meet agree on what is pending.
    fn complete_pending(&mut self, out: &mut Vec<Instr>) {
        self.deliver_all(out);
        self.poll(self.state.pending.len(), out);
    }

    fn control(&mut self, instr: &Instr, out: &mut Vec<Instr>) {
        self.deliver_all(out);
        let posts = find(std::slice::from_ref(instr), &accesses).is_some();
        match instr {
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                let before = self.state.clone();
                let then = self.branch(then, posts);
                self.state = before;
                let otherwise = self.branch(otherwise, posts);
                let cond = cond.clone();
                out.push(Instr::If {
                    cond,
                    then,
                    otherwise,
                });
            }
            Instr::Choose(blocks) => {
                let before = self.state.clone();
                let mut branches = Vec::new();
                for block in blocks {
                    self.state = before.clone();
                    branches.push(self.branch(block, posts));
                }
                out.push(Instr::Choose(branches));
            }
            Instr::While { cond, body, bound } => {
                if posts {
                    self.complete_pending(out);
                }
                let body = self.branch(body, posts);
                let (cond, bound) = (cond.clone(), *bound);
                out.push(Instr::While { cond, body, bound });
            }
            _ => {}
        }
    }

    fn branch(&mut self, block: &[Instr], posts: bool) -> Vec<Instr> {
        let mut code = Vec::new();
        self.block(block, &mut code);
        match posts {
            true => self.complete_pending(&mut code),
            false => self.deliver_all(&mut code),
        }
        code
    }
}
