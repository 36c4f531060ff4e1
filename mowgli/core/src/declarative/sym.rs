//! Symbolic values. The values that a path writes, tests and leaves in registers are expressions over the values that its events
//! read.

use std::sync::Arc;

use crate::program::{BinaryOp, UnaryOp, Value};

/// A value that depends on values read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sym {
    /// Known.
    Const(Value),
    /// The value that this event of the path reads.
    Read(usize),
    /// Unary operation.
    Unary(UnaryOp, Arc<Sym>),
    /// Binary operation.
    Binary(BinaryOp, Arc<Sym>, Arc<Sym>),
}

impl Sym {
    /// Evaluates the value; `None` until `read` knows every read that it depends on.
    pub fn eval(&self, read: &impl Fn(usize) -> Option<Value>) -> Option<Value> {
        Some(match self {
            Sym::Const(v) => *v,
            Sym::Read(event) => read(*event)?,
            Sym::Unary(op, a) => op.apply(a.eval(read)?),
            Sym::Binary(op, a, b) => op.apply(a.eval(read)?, b.eval(read)?),
        })
    }

    /// Calls `f` on every read that the value depends on.
    pub fn each_read(&self, f: &mut impl FnMut(usize)) {
        match self {
            Sym::Const(_) => {}
            Sym::Read(event) => f(*event),
            Sym::Unary(_, a) => a.each_read(f),
            Sym::Binary(_, a, b) => {
                a.each_read(f);
                b.each_read(f);
            }
        }
    }
}

/// Makes a binary operation, or its value if both operands are known.
pub(super) fn fold_binary(op: BinaryOp, a: Arc<Sym>, b: Arc<Sym>) -> Arc<Sym> {
    match (&*a, &*b) {
        (Sym::Const(x), Sym::Const(y)) => Arc::new(Sym::Const(op.apply(*x, *y))),
        _ => Arc::new(Sym::Binary(op, a, b)),
    }
}

/// Makes a unary operation, or its value if the operand is known.
pub(super) fn fold_unary(op: UnaryOp, a: Arc<Sym>) -> Arc<Sym> {
    match *a {
        Sym::Const(x) => Arc::new(Sym::Const(op.apply(x))),
        _ => Arc::new(Sym::Unary(op, a)),
    }
}
