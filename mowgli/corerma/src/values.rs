//! The values of an execution: rules no-C, C and those parts of PG, GA, CAS-F and CAS-T that speak of values.
//!
//! [`Origins`] says where each read takes its value from. For an [`Execution`] the rules no-C and C decide this, for a
//! candidate of [`crate::explain`] the candidate does.

use mowgli::program::{BinaryOp, Expr, Loc, Location};
use smallvec::SmallVec;

use crate::action::{Action, Effect};
use crate::execution::{Execution, Source};
use crate::value::{UNDEFINED, Value};

/// The branch of a compare and swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// The values were equal (CAS-T).
    Succeeds,
    /// The values were different (CAS-F).
    Fails,
    /// One of the values is undefined.
    Unknown,
}

/// Source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The initial value.
    Init,
    /// A write.
    Write(u8),
    /// A conflict: the value is undefined.
    Undefined,
}

/// Sources of the values of reads and of the last values of locations.
pub trait Origins<'a> {
    /// Returns the actions.
    fn actions(&self) -> &'a [Action];

    /// Returns the origin of what an action reads.
    fn of_read(&self, at: usize) -> Origin;

    /// Returns the origin of the last value of a location.
    fn of_last(&self, loc: Loc) -> Origin;
}

impl<'a> Origins<'a> for Execution<'a> {
    fn actions(&self) -> &'a [Action] {
        self.problem.actions
    }

    fn of_read(&self, at: usize) -> Origin {
        let action = &self.problem.actions[at];
        let Some(loc) = action.loc else {
            return Origin::Undefined;
        };
        if self.conflicts(at) {
            return Origin::Undefined;
        }
        match self.sources[at] {
            Source::Init if action.atomic => Origin::Init,
            Source::Write(write) if action.atomic => self.seen(write),
            _ => self.only(&self.latest(loc, Some(at))),
        }
    }

    /// Returns the write that no other follows. If several are last, the value is undefined.
    fn of_last(&self, loc: Loc) -> Origin {
        self.only(&self.latest(loc, None))
    }
}

impl Execution<'_> {
    /// Returns the origin that a read of a write has: undefined if the write conflicts with another write.
    fn seen(&self, write: u8) -> Origin {
        match self.conflicts(usize::from(write)) {
            true => Origin::Undefined,
            false => Origin::Write(write),
        }
    }

    fn only(&self, latest: &[u8]) -> Origin {
        match latest {
            [] => Origin::Init,
            [write] => self.seen(*write),
            _ => Origin::Undefined,
        }
    }
}

/// Values read and written by each action. Computed on demand, each once.
#[derive(Debug)]
pub struct Values<'a, O> {
    origins: O,
    actions: &'a [Action],
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

impl<'a, O: Origins<'a>> Values<'a, O> {
    /// Prepares the values of an execution.
    pub fn new(origins: O, locations: &'a [Location]) -> Values<'a, O> {
        let actions = origins.actions();
        Values {
            origins,
            actions,
            locations,
            read: SmallVec::from_elem(Slot::Empty, actions.len()),
            written: SmallVec::from_elem(Slot::Empty, actions.len()),
        }
    }

    /// Returns the actions.
    pub fn actions(&self) -> &'a [Action] {
        self.actions
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
        match self.actions[at].loc {
            Some(loc) => self.of(self.origins.of_read(at), loc),
            None => UNDEFINED,
        }
    }

    /// Returns the value that an origin gives at a location.
    fn of(&mut self, origin: Origin, loc: Loc) -> Value {
        match origin {
            Origin::Init => Value::Known(self.locations[usize::from(loc.0)].init),
            Origin::Write(write) => self.written(usize::from(write)),
            Origin::Undefined => UNDEFINED,
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
        let actions = self.actions;
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
        let first = usize::from(self.actions[at].first);
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
                let actions = self.actions;
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

    /// Returns the last value of a location.
    pub fn last(&mut self, loc: Loc) -> Value {
        self.of(self.origins.of_last(loc), loc)
    }
}

/// Applies an operator. With an undefined operand the result is undefined.
fn apply(op: BinaryOp, a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Known(a), Value::Known(b)) => Value::Known(op.apply(a, b)),
        _ => UNDEFINED,
    }
}
