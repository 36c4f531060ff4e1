//! The syntax tree of a model file, before names have a meaning.

use crate::syntax::{Name, Span};

/// A parsed file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// The title at its head.
    pub(super) title: Option<String>,
    pub(super) items: Vec<Item>,
}

/// A statement.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// `let a = ... and b = ...`, or `let rec`.
    Let { recursive: bool, bindings: Vec<Binding> },
    /// `acyclic e as NAME` and its kin; `requires` states what programs the model is for.
    Check(Check),
    /// `include "FILE"`.
    Include { path: String, span: Span },
    /// `show a, b` or `show e as NAME`.
    Show { expr: Expr, name: String },
    /// `flag ~empty e as NAME`, which marks executions and rules none out.
    Flag { span: Span },
    /// `with co from generate_cos(e)`: the name stands for each coherence order that has the pairs of the relation.
    Coherence { name: Name, pairs: Expr },
    /// `call f(e)`.
    Call { span: Span },
}

/// One definition.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) span: Span,
    /// Parameters of a function; `None` for a value.
    pub(super) params: Option<Vec<Name>>,
    pub(super) body: Expr,
}

/// An axiom or a requirement.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) requires: bool,
    pub(super) negated: bool,
    pub(super) test: Test,
    pub(super) expr: Expr,
    pub(super) name: Option<String>,
    /// From the keyword to the end of the expression.
    pub(super) span: Span,
}

/// The property that an axiom states of its expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// The transitive closure is irreflexive.
    Acyclic,
    /// No event is related to itself.
    Irreflexive,
    /// Nothing is a member.
    Empty,
}

impl Test {
    /// Returns the keyword.
    pub const fn keyword(self) -> &'static str {
        match self {
            Test::Acyclic => "acyclic",
            Test::Irreflexive => "irreflexive",
            Test::Empty => "empty",
        }
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) kind: ExprKind,
    pub(super) span: Span,
}

#[derive(Clone, Debug)]
pub(super) enum ExprKind {
    Name(String),
    /// `0`, the empty relation.
    Zero,
    /// `{}`, the empty set.
    Nothing,
    /// `_`, the set of all events.
    Everything,
    /// Two or more operands of one operator, grouped from the left.
    Chain(Binary, Vec<Expr>),
    /// Postfix operators in their order, or `~`.
    Unary(Unary, Box<Expr>),
    /// `[S]`.
    Identity(Box<Expr>),
    /// `try a with b`: the first, or the second where the first has a name that nothing defines.
    Try(Box<Expr>, Box<Expr>),
    /// `let a = b in e`.
    Let(Vec<Binding>, Box<Expr>),
    /// A value that is neither a set of events nor a relation, with the word of herd7's language that makes it.
    Foreign(&'static str),
    /// `f(a, b)` or `f a`.
    Call {
        name: String,
        name_span: Span,
        args: Vec<Expr>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Union,
    Sequence,
    Difference,
    Intersection,
    Product,
}

impl Binary {
    /// The operators, the loosest first.
    pub(super) const LEVELS: [Binary; 4] = [
        Binary::Union,
        Binary::Sequence,
        Binary::Difference,
        Binary::Intersection,
    ];

    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Binary::Union => "|",
            Binary::Sequence => ";",
            Binary::Difference => "\\",
            Binary::Intersection => "&",
            Binary::Product => "*",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Complement,
    Inverse,
    Plus,
    Star,
    Optional,
}
