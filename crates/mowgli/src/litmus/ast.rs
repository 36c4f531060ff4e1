//! What the parser builds and the resolver reads: the text's structure, with names unresolved and a span on
//! everything that a message may have to point at.

use super::condition::{Quantifier, Relation, Verdict};
use super::diagnostic::Span;
use crate::program::{BinaryOp, UnaryOp, Value};

/// A name and its place.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) span: Span,
}

/// A number and its place.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) value: Value,
    pub(super) span: Span,
}

/// A whole file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) init: Vec<Init>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    pub(super) observed: Vec<Observed>,
    pub(super) queries: Vec<Query>,
}

/// One entry of the init block.
#[derive(Clone, Debug)]
pub(super) enum Init {
    /// `x@1=0`.
    Location {
        name: Name,
        node: Number,
        value: Option<Value>,
    },
    /// `0:r` or `0:r=0`.
    Register { thread: Number, name: Name },
}

/// `P0@1`.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: Name,
    pub(super) node: Number,
}

/// A row of cells; a cell may be empty.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<Option<Stmt>>,
}

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Stmt {
    pub(super) kind: StmtKind,
    pub(super) span: Span,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub(super) enum StmtKind {
    /// `dst := rhs`, `dst^n := rhs`, `dst :=[d] rhs`.
    Assign {
        dst: Place,
        work: Option<Name>,
        rhs: Rhs,
    },
    /// `cas(x, e1, e2)` without a destination.
    Cas(CasArgs),
    Mfence,
    Poll(Number),
    Rfence(Number),
    Wait(Name),
    Assume(Expr),
    If {
        cond: Expr,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    While {
        cond: Expr,
        bound: Number,
        body: Vec<Stmt>,
    },
    Choose(Vec<Vec<Stmt>>),
}

/// A name, perhaps with `^n`.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: Name,
    pub(super) node: Option<Number>,
}

/// Target, expected and new value of a compare-and-swap.
#[derive(Clone, Debug)]
pub(super) struct CasArgs {
    pub(super) target: Place,
    pub(super) expected: Expr,
    pub(super) new: Expr,
}

/// The right-hand side of `:=`.
#[derive(Clone, Debug)]
pub(super) enum Rhs {
    Expr(Expr),
    /// `y^n`.
    Remote(Place),
    Cas(CasArgs),
    Rcas(CasArgs),
    Rfaa {
        target: Place,
        add: Expr,
    },
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Const(Value),
    Name(Name),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
}

/// `x`, `[x]` or `0:r` in a condition or a `locations` list.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) thread: Option<Number>,
    pub(super) name: Name,
}

/// A formula.
#[derive(Clone, Debug)]
pub(super) enum Formula {
    Const(bool),
    Atom(Observed, Relation, Value),
    Not(Box<Formula>),
    And(Vec<Formula>),
    Or(Vec<Formula>),
}

/// A final condition and what it is expected to yield.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) quantifier: Quantifier,
    pub(super) formula: Formula,
    pub(super) expected: Vec<(Verdict, Name)>,
}
