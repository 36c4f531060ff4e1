//! A program running on a machine: the states that the search visits, and the moves between them.
//!
//! Relies on [`super::code`] and [`crate::machine`]. Registers, jumps, assumptions and assignments are not
//! moves: a thread runs at once up to its next access of the machine or its next non-deterministic choice.

use smallvec::SmallVec;

use super::code::{Act, Code, Count, Op, PostOp, eval};
use crate::machine::{Action, Config, Issued, Machine, Post, RemoteOp, Step};
use crate::outcome::{Endless, Growth, Limit, Outcome};
use crate::program::{Program, Value};

/// A move of the whole system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// The thread carries out its next instruction.
    Act(u16),
    /// The thread takes this branch of a choice.
    Choose(u16, u16),
    /// The hardware takes a step.
    Hardware(Step),
}

/// The most iterations of loops that a thread runs without reaching the machine.
const SILENT_ITERATIONS_MAX: u32 = 1 << 16;

/// The most iterations of loops without bounds on one way through the states.
const ITERATIONS_MAX: u32 = 1 << 14;

/// The most stores and operations of a thread that a loop without bounds may leave under way.
const UNDER_WAY_MAX: usize = 64;

/// The result of running a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// The thread is at an access, a choice, or its end.
    Ready,
    /// An assumption failed, and the execution is to be discarded.
    Discard,
    /// A loop needs more iterations than its bound, or, without bounds, has no end.
    LoopBound { thread: u16, bound: u32, at: Endless },
    /// The thread goes round a loop for ever without reaching the machine, so the execution has no end.
    Endless,
}

impl Ran {
    /// Returns the limit, if a loop met one.
    pub(super) fn limit(self) -> Option<Limit> {
        match self {
            Ran::LoopBound { thread, bound, at } => Some(Limit::LoopBound {
                thread: thread.into(),
                bound,
                at: Some(at),
            }),
            Ran::Ready | Ran::Discard | Ran::Endless => None,
        }
    }
}

/// A thread's position and registers.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) at: u32,
    registers: SmallVec<[Value; 6]>,
    /// The iterations of loops without bounds on the way to this state. They tell states without an end, and are no part of the state.
    iterations: u32,
}

/// A state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) machine: Machine,
    pub(super) threads: SmallVec<[Cursor; 4]>,
}

impl State {
    /// Returns the initial state, with every thread at its first access.
    pub(super) fn new(program: &Program, codes: &[Code], config: Config) -> (State, Ran) {
        let mut machine = Machine::new(config);
        for location in &program.locations {
            let word = machine.add_location(location.init);
            if location.relaxed {
                machine.relax(word);
            }
        }
        for _ in codes {
            machine.add_thread();
        }
        let threads = codes
            .iter()
            .map(|code| Cursor {
                at: 0,
                registers: SmallVec::from_elem(0, code.registers),
                iterations: 0,
            })
            .collect();
        let mut state = State { machine, threads };
        for thread in 0..codes.len() as u16 {
            match state.run(thread, codes) {
                Ran::Ready => {}
                stop => return (state, stop),
            }
        }
        (state, Ran::Ready)
    }

    /// Returns the registers of a thread, with the counters of its loops behind them.
    pub(super) fn registers(&self, thread: usize) -> &[Value] {
        &self.threads[thread].registers
    }

    /// Returns the access or choice that the thread is at.
    pub(super) fn op<'c>(&self, thread: u16, codes: &'c [Code]) -> &'c Op {
        &codes[thread as usize].ops[self.threads[thread as usize].at as usize]
    }

    /// Returns the thread's next action on the machine, with its operands evaluated.
    pub(super) fn action(&self, thread: u16, act: &Act) -> Action {
        let registers = &self.threads[thread as usize].registers;
        let eval = |expr| eval(expr, registers);
        match *act {
            Act::Store { loc, ref value } => Action::Store {
                loc,
                value: eval(value),
            },
            Act::Load { loc, .. } => Action::Load { loc },
            Act::Cas {
                loc,
                ref expected,
                ref new,
                ..
            } => Action::Cas {
                loc,
                expected: eval(expected),
                new: eval(new),
            },
            Act::Swap { loc, ref new, .. } => Action::Swap { loc, new: eval(new) },
            Act::Mfence => Action::Mfence,
            Act::Poll { peer } => Action::Poll { peer },
            Act::Wait { tag } => Action::Wait { tag },
            Act::Post {
                peer,
                tag,
                signaled,
                strong,
                ref op,
                message,
            } => {
                let op = match *op {
                    PostOp::Put { dst, src } => RemoteOp::Put { dst, src },
                    PostOp::PutValue {
                        dst,
                        ref value,
                        inline,
                    } => {
                        let value = eval(value);
                        match inline {
                            true => RemoteOp::PutInline { dst, value },
                            false => RemoteOp::PutValue { dst, value },
                        }
                    }
                    PostOp::Get { dst, src } => RemoteOp::Get { dst, src },
                    PostOp::FetchAdd { dst, target, ref add } => RemoteOp::FetchAdd {
                        dst,
                        target,
                        add: eval(add),
                    },
                    PostOp::CompareSwap {
                        dst,
                        target,
                        ref expected,
                        ref new,
                    } => RemoteOp::CompareSwap {
                        dst,
                        target,
                        expected: eval(expected),
                        new: eval(new),
                    },
                    PostOp::Swap { dst, target, ref new } => RemoteOp::Swap {
                        dst,
                        target,
                        new: eval(new),
                    },
                    PostOp::Fence => RemoteOp::Fence,
                };
                Action::Post(Post {
                    peer,
                    op,
                    tag,
                    signaled,
                    transfer: 0,
                    strong,
                    message,
                })
            }
        }
    }

    /// Makes an enabled move.
    pub(super) fn make(&mut self, mv: Move, codes: &[Code]) -> Ran {
        match mv {
            Move::Hardware(step) => {
                let taken = self.machine.apply(step);
                debug_assert!(taken.is_ok(), "the search makes enabled moves only");
                Ran::Ready
            }
            Move::Choose(thread, branch) => {
                if let Op::Choose(starts) = self.op(thread, codes) {
                    self.threads[thread as usize].at = starts[branch as usize] as u32;
                }
                self.run(thread, codes)
            }
            Move::Act(thread) => {
                let Op::Act(act) = self.op(thread, codes) else {
                    return Ran::Ready;
                };
                let action = self.action(thread, act);
                let issued = self.machine.issue(thread, action);
                debug_assert!(issued.is_ok(), "the search makes enabled moves only");
                let cursor = &mut self.threads[thread as usize];
                if let (
                    Ok(Issued::Value(v)),
                    Act::Load { reg, .. }
                    | Act::Cas { reg: Some(reg), .. }
                    | Act::Swap { reg: Some(reg), .. },
                ) = (issued, act)
                {
                    cursor.registers[*reg] = v;
                }
                cursor.at += 1;
                self.run(thread, codes)
            }
        }
    }

    /// Runs the thread up to its next access, choice or end.
    fn run(&mut self, thread: u16, codes: &[Code]) -> Ran {
        let cursor = &mut self.threads[thread as usize];
        let ops = &codes[thread as usize].ops;
        let mut silent = Silent::default();
        loop {
            let at = cursor.at as usize;
            let next = match &ops[at] {
                Op::Act(_) | Op::Choose(_) | Op::End => return Ran::Ready,
                Op::Assign { reg, value } => {
                    cursor.registers[*reg] = eval(value, &cursor.registers);
                    at + 1
                }
                Op::Branch { cond, otherwise } => match eval(cond, &cursor.registers) {
                    0 => *otherwise,
                    _ => at + 1,
                },
                Op::Jump(to) => *to,
                Op::Loop { cond, count, exit } => {
                    let Count {
                        counter,
                        is_watched,
                        bound,
                        growth,
                    } = *count;
                    let stop = |growth| Ran::LoopBound {
                        thread,
                        bound,
                        at: Endless {
                            instruction: codes[thread as usize].places[at][0].into(),
                            growth,
                        },
                    };
                    if eval(cond, &cursor.registers) == 0 {
                        if let Some(counter) = counter {
                            cursor.registers[counter] = 0;
                        }
                        *exit
                    } else {
                        match silent.goes_on(at, &cursor.registers) {
                            Round::Same if counter.is_none() => return Ran::Endless,
                            Round::TooMany => return stop(Growth::Registers),
                            Round::Same | Round::Other => {}
                        }
                        if let Some(counter) = counter {
                            if cursor.registers[counter] >= bound.into() {
                                return stop(growth);
                            }
                            cursor.registers[counter] += 1;
                        } else if is_watched {
                            cursor.iterations += 1;
                            if self.machine.under_way(thread) > UNDER_WAY_MAX {
                                return stop(Growth::Operations);
                            }
                            if cursor.iterations > ITERATIONS_MAX {
                                return stop(match growth {
                                    Growth::Operations => Growth::States,
                                    other => other,
                                });
                            }
                        }
                        at + 1
                    }
                }
                Op::Assume(cond) => match eval(cond, &cursor.registers) {
                    0 => return Ran::Discard,
                    _ => at + 1,
                },
            };
            cursor.at = next as u32;
        }
    }

    /// Appends every enabled move.
    pub(super) fn moves(&self, codes: &[Code], steps: &mut Vec<Step>, out: &mut Vec<Move>) {
        for thread in 0..self.threads.len() as u16 {
            match self.op(thread, codes) {
                Op::Act(act) if self.machine.is_enabled(thread, &self.action(thread, act)) => {
                    out.push(Move::Act(thread));
                }
                Op::Choose(starts) => {
                    out.extend((0..starts.len() as u16).map(|branch| Move::Choose(thread, branch)));
                }
                _ => {}
            }
        }
        steps.clear();
        self.machine.steps(steps);
        out.extend(steps.iter().map(|&step| Move::Hardware(step)));
    }

    /// Returns the outcome, if every thread has ended and every buffer has drained.
    pub(super) fn outcome(&self, codes: &[Code]) -> Option<Outcome> {
        let ended = (0..self.threads.len() as u16).all(|t| matches!(self.op(t, codes), Op::End));
        (ended && self.machine.is_quiescent()).then(|| Outcome {
            registers: self
                .threads
                .iter()
                .zip(codes)
                .map(|(cursor, code)| cursor.registers[..code.program_registers].to_vec())
                .collect(),
            memory: self.machine.memory().to_vec(),
        })
    }

    /// Appends a canonical encoding. States have equal encodings exactly if they are equal.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for cursor in &self.threads {
            crate::machine::number(out, cursor.at.into());
            for &v in &cursor.registers {
                crate::machine::value(out, v);
            }
        }
        self.machine.encode(out);
    }
}

/// The iterations that a thread makes at once, without reaching the machine.
#[derive(Default)]
struct Silent {
    count: u32,
    /// A loop and the registers at one of its iterations, kept until as many more have been made as were before it (Brent's method).
    kept: Option<(usize, SmallVec<[Value; 6]>)>,
    keep_until: u32,
}

/// The knowledge with which a silent iteration begins.
enum Round {
    /// It begins as an earlier one did.
    Same,
    Other,
    /// There were too many to go on.
    TooMany,
}

impl Silent {
    /// Begins an iteration of the loop at a position.
    fn goes_on(&mut self, at: usize, registers: &[Value]) -> Round {
        self.count += 1;
        if self.count > SILENT_ITERATIONS_MAX {
            return Round::TooMany;
        }
        if let Some((loop_at, then)) = &self.kept
            && (*loop_at, &then[..]) == (at, registers)
        {
            return Round::Same;
        }
        if self.count >= self.keep_until {
            self.kept = Some((at, SmallVec::from_slice(registers)));
            self.keep_until = 2 * self.count;
        }
        Round::Other
    }
}

impl Clone for Cursor {
    fn clone(&self) -> Cursor {
        Cursor {
            at: self.at,
            registers: SmallVec::from_slice(&self.registers),
            iterations: self.iterations,
        }
    }

    fn clone_from(&mut self, source: &Cursor) {
        (self.at, self.iterations) = (source.at, source.iterations);
        self.registers.clear();
        self.registers.extend_from_slice(&source.registers);
    }
}

impl Clone for State {
    fn clone(&self) -> State {
        State {
            machine: self.machine.clone(),
            threads: self.threads.clone(),
        }
    }

    fn clone_from(&mut self, source: &State) {
        self.machine.clone_from(&source.machine);
        self.threads.truncate(source.threads.len());
        for (mine, theirs) in self.threads.iter_mut().zip(&source.threads) {
            mine.clone_from(theirs);
        }
        let have = self.threads.len();
        self.threads.extend(source.threads[have..].iter().cloned());
    }
}
