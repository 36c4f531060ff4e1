//! Flattens programs for the interpreter: jumps replace nesting, and each point knows what the rest of its
//! thread may access.
//!
//! Relies on [`crate::program`]. Used by [`super::state`] to run threads and by [`super::reduce`] for the
//! accesses that the rest of a thread may make. Programs with references out of range are refused here, so
//! that nothing later can fail.

use super::access::Access;
use super::ops::futures;
pub(super) use super::ops::{Act, Count, Op, PostOp};
use crate::loops;
use crate::machine::{Addr, MessagePart, NODES_MAX};
use crate::program::{
    BinaryOp, Expr, Instr, Loc, Message, NOT_DONE, Program, PutSrc, Reg, Thread, Value, WorkId,
};

/// The reason why a program was refused.
pub(super) type Refusal = String;

/// The most points (instructions and jumps) of one thread.
const POINTS_MAX: usize = 1 << 16;

/// A thread's code. Positions are indices into `ops`; the last is [`Op::End`].
#[derive(Debug)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    /// The place of the instruction that each position belongs to, as events have it.
    pub(super) places: Vec<Vec<u16>>,
    /// Whether each position is in a loop that runs as often as it will, so that the thread may come back to it.
    pub(super) returns: Vec<bool>,
    /// The accesses that are still possible from each position on, once the thread itself moves.
    pub(super) future: Vec<Access>,
    /// The number of the program's registers, plus one counter for each loop that is counted.
    pub(super) registers: usize,
    pub(super) program_registers: usize,
}

/// The rule by which loops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loops {
    /// Up to their bounds.
    Bounded,
    /// As often as they will. No iteration is part of the state, so that a wait that changes nothing returns to the state in which it
    /// began. Where states have no end, the loop stops.
    Endless,
    /// As often as they will, and states may have no end.
    Free,
}

/// Flattens every thread.
pub(super) fn compile(program: &Program, loops: Loops) -> Result<Vec<Code>, Refusal> {
    if program.threads.len() > u16::MAX as usize {
        return Err(format!("{} threads", program.threads.len()));
    }
    (0..program.threads.len())
        .map(|t| compile_thread(program, t, loops))
        .collect()
}

fn compile_thread(program: &Program, index: usize, loops: Loops) -> Result<Code, Refusal> {
    let thread = &program.threads[index];
    let mut compiler = Compiler {
        program,
        thread,
        loops,
        ops: Vec::new(),
        places: Vec::new(),
        returns: Vec::new(),
        open: 0,
        place: Vec::new(),
        registers: thread.registers.len(),
        polled: Vec::new(),
        waited: Vec::new(),
    };
    visit(&thread.code, &mut |instr| match instr {
        Instr::Poll { node } => compiler.polled.push(u16::from(node.0)),
        Instr::Wait { work } => compiler.waited.push(*work),
        _ => {}
    });
    compiler.block(&thread.code)?;
    compiler.push(Op::End)?;
    let Compiler {
        ops,
        places,
        returns,
        registers,
        ..
    } = compiler;
    let future = futures(&ops, index as u16);
    Ok(Code {
        ops,
        places,
        returns,
        future,
        registers,
        program_registers: thread.registers.len(),
    })
}

fn visit(code: &[Instr], f: &mut impl FnMut(&Instr)) {
    for instr in code {
        f(instr);
        match instr {
            Instr::If { then, otherwise, .. } => {
                visit(then, f);
                visit(otherwise, f);
            }
            Instr::While { body, .. } => visit(body, f),
            Instr::Choose(blocks) => blocks.iter().for_each(|block| visit(block, f)),
            _ => {}
        }
    }
}

struct Compiler<'p> {
    program: &'p Program,
    thread: &'p Thread,
    loops: Loops,
    ops: Vec<Op>,
    places: Vec<Vec<u16>>,
    returns: Vec<bool>,
    /// The number of loops around the instruction that is being compiled.
    open: usize,
    /// The place of the instruction that is being compiled.
    place: Vec<u16>,
    registers: usize,
    polled: Vec<u16>,
    waited: Vec<WorkId>,
}

impl Compiler<'_> {
    fn push(&mut self, op: Op) -> Result<usize, Refusal> {
        if self.ops.len() >= POINTS_MAX {
            return Err(format!(
                "thread {} has more than {POINTS_MAX} instructions",
                self.thread.name
            ));
        }
        self.ops.push(op);
        self.places.push(self.place.clone());
        self.returns.push(self.open > 0 && self.loops != Loops::Bounded);
        Ok(self.ops.len() - 1)
    }

    fn block(&mut self, code: &[Instr]) -> Result<(), Refusal> {
        for (at, instr) in code.iter().enumerate() {
            // More instructions than a place can count are refused by `push`.
            self.place.push(at as u16);
            self.instr(instr)?;
            self.place.pop();
        }
        Ok(())
    }

    /// Compiles a block of an instruction: `number` counts the instruction's blocks.
    fn inner(&mut self, number: usize, code: &[Instr]) -> Result<(), Refusal> {
        self.place.push(number as u16);
        self.block(code)?;
        self.place.pop();
        Ok(())
    }

    fn instr(&mut self, instr: &Instr) -> Result<(), Refusal> {
        let asks = (instr.request().1, !instr.is_unsignaled());
        let instr = instr.request().0;
        if let Some((op, remote, work)) = self.remote(instr)? {
            return self.post(remote, work, asks, op, None);
        }
        match instr {
            Instr::Message(message) => return self.message(message, asks),
            Instr::PollRecv { reg, done, .. } => return self.poll_receive(*reg, *done),
            _ => {}
        }
        if let Some(op) = self.plain(instr)? {
            return self.push(op).map(drop);
        }
        self.nested(instr)
    }

    /// Compiles a remote operation. Returns it with its remote location and its name.
    #[allow(clippy::type_complexity)] // The parts of a post.
    fn remote(&mut self, instr: &Instr) -> Result<Option<(PostOp, Loc, Option<WorkId>)>, Refusal> {
        Ok(Some(match instr {
            Instr::Put { dst, src, work } => {
                let dst_addr = self.loc(*dst)?;
                let op = match src {
                    PutSrc::Loc(src) => PostOp::Put {
                        dst: dst_addr,
                        src: self.loc(*src)?,
                    },
                    PutSrc::Value(value) | PutSrc::Inline(value) => PostOp::PutValue {
                        dst: dst_addr,
                        value: self.expr(value)?,
                        inline: matches!(src, PutSrc::Inline(_)),
                    },
                };
                (op, *dst, *work)
            }
            Instr::Get { dst, src, work } => {
                let op = PostOp::Get {
                    dst: self.loc(*dst)?,
                    src: self.loc(*src)?,
                };
                (op, *src, *work)
            }
            Instr::RemoteFaa {
                dst,
                target,
                add,
                work,
            } => {
                let op = PostOp::FetchAdd {
                    dst: self.loc(*dst)?,
                    target: self.loc(*target)?,
                    add: self.expr(add)?,
                };
                (op, *target, *work)
            }
            Instr::RemoteCas {
                dst,
                target,
                expected,
                new,
                work,
            } => {
                let op = PostOp::CompareSwap {
                    dst: self.loc(*dst)?,
                    target: self.loc(*target)?,
                    expected: self.expr(expected)?,
                    new: self.expr(new)?,
                };
                (op, *target, *work)
            }
            Instr::RemoteSwap {
                dst,
                target,
                new,
                work,
            } => {
                let op = PostOp::Swap {
                    dst: self.loc(*dst)?,
                    target: self.loc(*target)?,
                    new: self.expr(new)?,
                };
                (op, *target, *work)
            }
            _ => return Ok(None),
        }))
    }

    /// Compiles an instruction that is one operation of the thread itself.
    fn plain(&mut self, instr: &Instr) -> Result<Option<Op>, Refusal> {
        let act = match instr {
            Instr::Store { loc, value } => Act::Store {
                loc: self.loc(*loc)?,
                value: self.expr(value)?,
            },
            Instr::Load { reg, loc } => Act::Load {
                reg: self.reg(*reg)?,
                loc: self.loc(*loc)?,
            },
            Instr::Cas {
                reg,
                loc,
                expected,
                new,
            } => Act::Cas {
                reg: reg.map(|r| self.reg(r)).transpose()?,
                loc: self.loc(*loc)?,
                expected: self.expr(expected)?,
                new: self.expr(new)?,
            },
            Instr::Swap { reg, loc, new } => Act::Swap {
                reg: reg.map(|r| self.reg(r)).transpose()?,
                loc: self.loc(*loc)?,
                new: self.expr(new)?,
            },
            Instr::Recv { entry, .. } => Act::Store {
                loc: self.loc(*entry)?,
                value: Expr::Const(1),
            },
            Instr::Mfence => Act::Mfence,
            Instr::Poll { node } => Act::Poll { peer: node.0.into() },
            Instr::Wait { work } => Act::Wait { tag: tag(*work) },
            Instr::Rfence { node } => Act::Post {
                peer: peer(node.0)?,
                tag: 0,
                signaled: false,
                strong: false,
                op: PostOp::Fence,
                message: None,
            },
            Instr::Assign { reg, value } => {
                let (reg, value) = (self.reg(*reg)?, self.expr(value)?);
                return Ok(Some(Op::Assign { reg, value }));
            }
            Instr::Assume(cond) => return Ok(Some(Op::Assume(self.expr(cond)?))),
            _ => return Ok(None),
        };
        Ok(Some(Op::Act(act)))
    }

    /// Compiles an instruction that has blocks.
    fn nested(&mut self, instr: &Instr) -> Result<(), Refusal> {
        match instr {
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.expr(cond)?;
                let branch = self.push(Op::Branch { cond, otherwise: 0 })?;
                self.inner(0, then)?;
                let jump = self.push(Op::Jump(0))?;
                self.patch(branch, self.ops.len());
                self.inner(1, otherwise)?;
                self.patch(jump, self.ops.len());
            }
            Instr::While { cond, body, bound } => {
                let cond = self.expr(cond)?;
                let counter = (self.loops == Loops::Bounded).then_some(self.registers);
                self.registers += usize::from(counter.is_some());
                let count = Count {
                    counter,
                    is_watched: self.loops == Loops::Endless,
                    bound: *bound,
                    growth: loops::growth(body),
                };
                let start = self.push(Op::Loop { cond, count, exit: 0 })?;
                self.open += 1;
                self.inner(0, body)?;
                self.open -= 1;
                self.push(Op::Jump(start))?;
                self.patch(start, self.ops.len());
            }
            Instr::Choose(blocks) => {
                let choose = self.push(Op::Choose(Vec::new()))?;
                let mut starts = Vec::new();
                let mut jumps = Vec::new();
                for (number, block) in blocks.iter().enumerate() {
                    starts.push(self.ops.len());
                    self.inner(number, block)?;
                    jumps.push(self.push(Op::Jump(0))?);
                }
                let end = self.ops.len();
                jumps.into_iter().for_each(|jump| self.patch(jump, end));
                self.ops[choose] = Op::Choose(starts);
            }
            _ => unreachable!("the other instructions have no blocks"),
        }
        Ok(())
    }

    fn post(
        &mut self,
        remote: Loc,
        work: Option<WorkId>,
        (strong, signaled): (bool, bool),
        op: PostOp,
        message: Option<MessagePart>,
    ) -> Result<(), Refusal> {
        let peer = peer(self.program.locations[remote.0 as usize].node.0)?;
        // Names and notifications that nobody asks for would only multiply states.
        let tag = work.filter(|w| self.waited.contains(w)).map_or(0, tag);
        let signaled = signaled && self.polled.contains(&peer);
        self.push(Op::Act(Act::Post {
            peer,
            tag,
            signaled,
            strong,
            op,
            message,
        }))
        .map(|_| ())
    }

    /// Compiles a message: its data take the receive, and an inlined put behind them writes the completion.
    fn message(&mut self, message: &Message, (strong, signaled): (bool, bool)) -> Result<(), Refusal> {
        let (entry, done) = (self.loc(message.entry)?, self.loc(message.done)?);
        let put = match &message.put {
            Some(put) => self.remote(put)?,
            None => None,
        };
        let work = put.as_ref().and_then(|(_, _, work)| *work);
        let has_data = put.is_some();
        if let Some((op, remote, work)) = put {
            let part = MessagePart::Data { entry, done };
            self.post(remote, work, (strong, false), op, Some(part))?;
        }
        let part = MessagePart::Completion {
            entry: (!has_data).then_some(entry),
        };
        let op = PostOp::PutValue {
            dst: done,
            value: self.expr(&message.immediate)?,
            inline: true,
        };
        self.post(message.done, work, (strong, signaled), op, Some(part))
    }

    /// Compiles a poll of a receive, which goes on in the runs in which the completion is there.
    fn poll_receive(&mut self, reg: Option<Reg>, done: Loc) -> Result<(), Refusal> {
        let reg = match reg {
            Some(reg) => self.reg(reg)?,
            None => {
                self.registers += 1;
                self.registers - 1
            }
        };
        let loc = self.loc(done)?;
        self.push(Op::Act(Act::Load { reg, loc }))?;
        let is_done = Expr::Binary(
            BinaryOp::Ne,
            // Bounded by POINTS_MAX.
            Box::new(Expr::Reg(Reg(reg as u16))),
            Box::new(Expr::Const(NOT_DONE)),
        );
        self.push(Op::Assume(is_done)).map(drop)
    }

    fn patch(&mut self, at: usize, to: usize) {
        match &mut self.ops[at] {
            Op::Branch { otherwise, .. } => *otherwise = to,
            Op::Loop { exit, .. } => *exit = to,
            Op::Jump(target) => *target = to,
            _ => {}
        }
    }

    fn loc(&self, loc: Loc) -> Result<Addr, Refusal> {
        match self.program.locations.get(loc.0 as usize) {
            Some(_) => Ok(Addr(loc.0.into())),
            None => Err(format!(
                "thread {} uses location {} of {}",
                self.thread.name,
                loc.0,
                self.program.locations.len()
            )),
        }
    }

    fn reg(&self, reg: Reg) -> Result<usize, Refusal> {
        let registers = self.thread.registers.len();
        match (reg.0 as usize) < registers {
            true => Ok(reg.0 as usize),
            false => Err(format!(
                "thread {} uses register {} of {registers}",
                self.thread.name, reg.0
            )),
        }
    }

    fn expr(&self, expr: &Expr) -> Result<Expr, Refusal> {
        self.check(expr)?;
        Ok(expr.clone())
    }

    fn check(&self, expr: &Expr) -> Result<(), Refusal> {
        match expr {
            Expr::Const(_) => Ok(()),
            Expr::Reg(reg) => self.reg(*reg).map(|_| ()),
            Expr::Unary(_, e) => self.check(e),
            Expr::Binary(_, l, r) => self.check(l).and_then(|()| self.check(r)),
        }
    }
}

/// Returns the tag of a work identifier. Tag 0 means that nobody waits for the operation.
fn tag(work: WorkId) -> u64 {
    u64::from(work.0) + 1
}

fn peer(node: u8) -> Result<u16, Refusal> {
    match u16::from(node) < NODES_MAX {
        true => Ok(node.into()),
        false => Err(format!("node {node}: at most {NODES_MAX} nodes")),
    }
}

/// Evaluates an expression. Registers are in range: `compile` checked.
pub(super) fn eval(expr: &Expr, registers: &[Value]) -> Value {
    use crate::program::{BinaryOp as B, UnaryOp as U};
    match expr {
        Expr::Const(v) => *v,
        Expr::Reg(r) => registers[r.0 as usize],
        Expr::Unary(U::Neg, e) => eval(e, registers).wrapping_neg(),
        Expr::Unary(U::Not, e) => (eval(e, registers) == 0).into(),
        Expr::Binary(op, l, r) => {
            let (l, r) = (eval(l, registers), eval(r, registers));
            match op {
                B::Add => l.wrapping_add(r),
                B::Sub => l.wrapping_sub(r),
                B::Mul => l.wrapping_mul(r),
                B::Eq => (l == r).into(),
                B::Ne => (l != r).into(),
                B::Lt => (l < r).into(),
                B::Le => (l <= r).into(),
                B::Gt => (l > r).into(),
                B::Ge => (l >= r).into(),
                B::And => (l != 0 && r != 0).into(),
                B::Or => (l != 0 || r != 0).into(),
            }
        }
    }
}
