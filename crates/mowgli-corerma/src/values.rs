//! The values of an execution: rules no-C, C and those parts of PG, GA, CAS-F and CAS-T that speak of values.

use mowgli::program::{BinaryOp, Expr, Loc, Location};
use smallvec::SmallVec;

use crate::action::Effect;
use crate::execution::{Execution, Source};
use crate::value::{UNDEFINED, Value};

/// The branch of a compare and swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// The values were equal (CAS-T).
    Succeeds,
    /// They were not (CAS-F).
    Fails,
    /// One of them is undefined.
    Unknown,
}

/// Values read and written by each action. Computed on demand, each once.
#[derive(Debug)]
pub struct Values<'a> {
    execution: Execution<'a>,
    locations: &'a [Location],
    read: SmallVec<[Slot; 16]>,
    written: SmallVec<[Slot; 16]>,
}

/// A value that may not be known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Empty,
    /// Being computed: to ask for it again is a circle of values.
    Open,
    Full(Value),
}

impl<'a> Values<'a> {
    /// Prepares the values of an execution.
    pub fn new(execution: Execution<'a>, locations: &'a [Location]) -> Values<'a> {
        let count = execution.problem.actions.len();
        Values {
            execution,
            locations,
            read: SmallVec::from_elem(Slot::Empty, count),
            written: SmallVec::from_elem(Slot::Empty, count),
        }
    }

    /// Returns what the action reads. A circle of values, which only a left-out rule makes possible, is undefined.
    pub fn read(&mut self, at: usize) -> Value {
        match self.read[at] {
            Slot::Full(value) => return value,
            Slot::Open => return UNDEFINED,
            Slot::Empty => {}
        }
        self.read[at] = Slot::Open;
        let value = self.find_read(at);
        self.read[at] = Slot::Full(value);
        value
    }

    fn find_read(&mut self, at: usize) -> Value {
        let action = &self.execution.problem.actions[at];
        let Some(loc) = action.loc else { return UNDEFINED };
        if self.execution.conflicts(at, false) {
            return UNDEFINED;
        }
        if action.atomic {
            match self.execution.sources[at] {
                Source::Init => return self.initial(loc),
                Source::Write(write) => return self.write_seen(usize::from(write)),
                Source::Plain => {}
            }
        }
        match self.execution.latest(loc, Some(at)).as_slice() {
            [] => self.initial(loc),
            [write] => self.write_seen(usize::from(*write)),
            _ => UNDEFINED,
        }
    }

    fn initial(&self, loc: Loc) -> Value {
        Value::Known(self.locations[usize::from(loc.0)].init)
    }

    /// Returns what a read finds of a write: nothing defined if the write has a conflict with another write.
    fn write_seen(&mut self, write: usize) -> Value {
        if self.execution.conflicts(write, false) {
            UNDEFINED
        } else {
            self.written(write)
        }
    }

    /// Returns what the action writes.
    pub fn written(&mut self, at: usize) -> Value {
        match self.written[at] {
            Slot::Full(value) => return value,
            Slot::Open => return UNDEFINED,
            Slot::Empty => {}
        }
        self.written[at] = Slot::Open;
        let actions = self.execution.problem.actions;
        let action = &actions[at];
        let first = usize::from(action.first);
        let value = match &action.effect {
            Effect::WriteExpr(expr) => self.expr(expr, at),
            Effect::WriteOf(of) => self.read(first + usize::from(*of)),
            Effect::Accumulate => apply(BinaryOp::Add, self.read(first), self.read(at)),
            Effect::CompareAndSwap => match self.branch(at) {
                Branch::Succeeds => self.read(first + 1),
                Branch::Fails => self.read(at),
                Branch::Unknown => UNDEFINED,
            },
            Effect::Read | Effect::ReadInto(_) | Effect::None => UNDEFINED,
        };
        self.written[at] = Slot::Full(value);
        value
    }

    /// Returns the branch of the compare and swap whose read-write is action `at`.
    pub fn branch(&mut self, at: usize) -> Branch {
        let first = usize::from(self.execution.problem.actions[at].first);
        match (self.read(first), self.read(at)) {
            (Value::Known(a), Value::Known(b)) if a == b => Branch::Succeeds,
            (Value::Known(_), Value::Known(_)) => Branch::Fails,
            _ => Branch::Unknown,
        }
    }

    /// Returns the value of an expression of action `at` over its process's registers.
    fn expr(&mut self, expr: &Expr, at: usize) -> Value {
        match expr {
            Expr::Const(n) => Value::Known(*n),
            Expr::Reg(reg) => {
                let actions = self.execution.problem.actions;
                let process = actions[at].process;
                let assigned = actions[..at]
                    .iter()
                    .rposition(|a| a.process == process && a.effect == Effect::ReadInto(*reg));
                assigned.map_or(Value::Known(0), |read| self.read(read))
            }
            Expr::Unary(op, e) => match self.expr(e, at) {
                Value::Known(n) => Value::Known(op.apply(n)),
                undefined => undefined,
            },
            Expr::Binary(op, a, b) => apply(*op, self.expr(a, at), self.expr(b, at)),
        }
    }

    /// Returns the last value of a location: that of the write which no other follows in happens-before.
    pub fn last(&mut self, loc: Loc) -> Value {
        match self.execution.latest(loc, None).as_slice() {
            [] => self.initial(loc),
            [write] => self.write_seen(usize::from(*write)),
            _ => UNDEFINED,
        }
    }
}

/// Applies an operator. With an undefined operand the result is undefined.
fn apply(op: BinaryOp, a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Known(a), Value::Known(b)) => Value::Known(op.apply(a, b)),
        _ => UNDEFINED,
    }
}
