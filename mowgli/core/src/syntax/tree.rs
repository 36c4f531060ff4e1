//! The parts of syntax trees that several languages share. Names are unresolved, and everything that a message may have to point at has
//! a span.

use super::source::Span;
use crate::condition::{self, Quantifier, Verdict};
use crate::program::{BinaryOp, UnaryOp, Value};

/// A name and its place.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name.
    pub text: String,
    /// The place in the text.
    pub span: Span,
}

/// A number and its place.
#[derive(Clone, Debug)]
pub struct Number {
    /// The number.
    pub value: Value,
    /// The place in the text.
    pub span: Span,
}

/// One entry of the init block.
#[derive(Clone, Debug)]
pub enum Init {
    /// `x@1=0`.
    Location {
        /// The location.
        name: Name,
        /// Its node, counted from 1.
        node: Number,
        /// Its initial value, if stated.
        value: Option<Value>,
        /// Whether it is in a region of relaxed ordering.
        relaxed: bool,
    },
    /// `0:r` or `0:r=0`.
    Register {
        /// The thread.
        thread: Number,
        /// The register.
        name: Name,
    },
}

/// `P0@1`.
#[derive(Clone, Debug)]
pub struct Column {
    /// The thread.
    pub name: Name,
    /// Its node, counted from 1.
    pub node: Number,
}

/// A row of cells; a cell may be empty.
#[derive(Clone, Debug)]
pub struct Row<S> {
    /// One cell for each thread.
    pub cells: Vec<Option<S>>,
}

/// An expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A number.
    Const(Value),
    /// A register.
    Name(Name),
    /// A unary operator.
    Unary(UnaryOp, Box<Expr>),
    /// A binary operator.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
}

/// `x`, `[x]` or `0:r` in a condition or a `locations` list.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The thread, of a register.
    pub thread: Option<Number>,
    /// The location or register.
    pub name: Name,
}

/// A formula over values of type `V`, whose operands are names as they stand in the text.
pub type Formula<V = Value> = condition::Formula<Observed, V>;

/// A final condition with its expected verdicts.
#[derive(Clone, Debug)]
pub struct Query<V = Value> {
    /// The quantifier.
    pub quantifier: Quantifier,
    /// The outcomes that it asks about.
    pub formula: Formula<V>,
    /// Expected verdicts, each of a named model.
    pub expected: Vec<(Verdict, Name)>,
}
