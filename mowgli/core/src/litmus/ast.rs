//! The syntax tree of tests of RDMA, which the parser builds and the resolver reads. What other languages share is in
//! [`crate::syntax`].

use super::property::Property;
use crate::syntax::{Column, Expr, Init, Name, Number, Observed, Query, Row, Span};

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

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Stmt {
    pub(super) kind: StmtKind,
    /// Whether `strong` stands before it.
    pub(super) strong: bool,
    /// Whether `unsignaled` stands before it.
    pub(super) unsignaled: bool,
    /// The immediate data, if `imm` stands before it.
    pub(super) immediate: Option<Expr>,
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
    /// `swap(x, e)` without a destination.
    Swap(SwapArgs),
    /// `send(n)`, `send(n, data)`.
    Send {
        node: Number,
        data: Option<Rhs>,
    },
    /// `recv(P)`, `recv(P, x)`.
    Recv {
        from: Name,
        buffer: Option<Name>,
    },
    /// `pollrecv(P)` without a destination.
    PollRecv(Name),
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
    /// `x, y^n := a, b`: a put of several words, as one put for each. The last is the one that completes.
    Words(Vec<Stmt>),
}

impl Stmt {
    /// Returns the statements, of one instruction each, that this one stands for.
    pub(super) fn each(&self) -> &[Stmt] {
        match &self.kind {
            StmtKind::Words(words) => words,
            _ => std::slice::from_ref(self),
        }
    }
}

/// Appends the place and the span of each statement of a block, and of the blocks inside.
pub(super) fn spans<'s>(
    block: impl IntoIterator<Item = &'s Stmt>,
    place: &mut Vec<u16>,
    out: &mut Vec<(Vec<u16>, Span)>,
) {
    for (at, stmt) in block.into_iter().flat_map(Stmt::each).enumerate() {
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

/// Target and new value of an exchange.
#[derive(Clone, Debug)]
pub(super) struct SwapArgs {
    pub(super) target: Place,
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
    Swap(SwapArgs),
    /// `pollrecv(P)`.
    PollRecv(Name),
    Rcas(CasArgs),
    Rfaa {
        target: Place,
        add: Expr,
    },
    Rswap(SwapArgs),
}

/// A statement about robustness, of one model.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) property: Property,
    pub(super) holds: bool,
    pub(super) setting: Name,
}
