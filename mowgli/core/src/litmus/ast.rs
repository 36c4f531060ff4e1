//! The syntax tree, which the parser builds and the resolver reads. Names are unresolved, and everything that a message may
//! have to point at has a span.

use super::condition::{Quantifier, Verdict};
use super::diagnostic::Span;
use super::property::Property;
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

/// A whole file.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) init: Vec<Init>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row<Stmt>>,
    pub(super) observed: Vec<Observed>,
    pub(super) queries: Vec<Query>,
    pub(super) statements: Vec<Statement>,
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

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Stmt {
    pub(super) kind: StmtKind,
    /// Whether `strong` stands before it.
    pub(super) strong: bool,
    pub(super) span: Span,
}

/// The kinds of statements.
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

/// Appends the place and the span of each statement of a block, and of the blocks inside.
pub(super) fn spans<'s>(
    block: impl IntoIterator<Item = &'s Stmt>,
    place: &mut Vec<u16>,
    out: &mut Vec<(Vec<u16>, Span)>,
) {
    for (at, stmt) in block.into_iter().enumerate() {
        place.push(at as u16);
        out.push((place.clone(), stmt.span.clone()));
        let blocks: Vec<&Vec<Stmt>> = match &stmt.kind {
            StmtKind::If { then, otherwise, .. } => vec![then, otherwise],
            StmtKind::While { body, .. } => vec![body],
            StmtKind::Choose(blocks) => blocks.iter().collect(),
            _ => Vec::new(),
        };
        for (number, inner) in blocks.into_iter().enumerate() {
            place.push(number as u16);
            spans(inner, place, out);
            place.pop();
        }
        place.pop();
    }
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
    /// `inline(e)`.
    Inline(Expr),
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
pub type Formula<V = Value> = super::condition::Formula<Observed, V>;

/// A statement about robustness, of one model.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) property: Property,
    pub(super) holds: bool,
    pub(super) setting: Name,
}

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
