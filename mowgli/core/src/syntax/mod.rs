//! The front end that all languages share: texts and places in them, diagnostics, tokens, conditions.
//!
//! Five languages are read with it: litmus tests of RDMA ([`crate::litmus`]), model files ([`crate::cat`]), herd7's tests for x86
//! ([`crate::star::x86`]), and, in crates of their own, tests of coreRMA and clients of libraries. A language is its lexical rules (a
//! `Language`) and a grammar: functions over a [`Parser`]. Comments are the same in all, [`Diagnostic`] is the one way to refuse a text,
//! conditions have one grammar (`condition`), and so have tests as tables (`table`) and expressions (`expr`).

mod comment;
mod condition;
mod diagnostic;
mod expr;
mod language;
mod lexer;
pub mod limits;
mod parser;
mod source;
mod suggest;
mod table;
mod tree;

pub use diagnostic::{Diagnostic, Kind, Located, ParseError, Severity};
pub use lexer::Token;
pub use parser::{Parser, Step};
pub use source::{Source, Span, char_boundary, position};
pub use suggest::nearest;
pub use table::{KEYWORDS, dialect, parse_dialect};
pub use tree::{Column, Expr, Formula, Init, Name, Number, Observed, Query, Row};

pub(crate) use comment::skip_comment;
pub(crate) use language::{Language, Limits};
pub(crate) use table::{header_line, is_test_name_char, read_on};
