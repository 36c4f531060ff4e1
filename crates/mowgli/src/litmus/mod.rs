//! The litmus language: text to [`Litmus`] and back.
//!
//! `docs/litmus.md` is the language's manual. [`parse`] goes from text to tokens (`lexer`), to a syntax tree
//! (`parser`, `final_part`), to a checked program (`resolve`, `resolve_code`), and adds warnings (`lint`);
//! [`Litmus::print`] goes back. Pure: reading files and drawing diagnostics is the command's work.

mod ast;
mod condition;
mod cursor;
mod diagnostic;
mod expr_parser;
mod final_part;
mod lexer;
mod lint;
mod parser;
mod print;
mod resolve;
mod resolve_code;
mod suggest;

use serde::{Deserialize, Serialize};

pub use condition::{Condition, Expected, Formula, Operand, Quantifier, Relation, Setting, Verdict};
pub use diagnostic::{Diagnostic, Kind, ParseError, Severity, Span};
pub use parser::KEYWORDS;
pub use print::fingerprint;
pub(crate) use print::instruction;

use crate::program::Program;

pub mod limits;

/// What the reader of another language in this form needs: the cursor over tokens, and the parts of texts that the
/// languages share. The clients of `mowgli-libraries` are read with it.
pub mod syntax {
    pub use super::ast::{Column, Expr, Formula, Init, Name, Number, Observed, Query, Row};
    pub use super::lexer::Token;
    pub use super::parser::{Parser, Step, parse_with};
    pub use super::suggest::nearest;
}

/// A litmus test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Litmus {
    /// Name, from the header line.
    pub name: String,
    /// Where the test comes from and what it shows.
    pub description: Option<String>,
    /// What runs.
    pub program: Program,
    /// Operands to show in states besides those of the conditions (`locations [..]`).
    pub observed: Vec<Operand>,
    /// Final conditions, at least one. The first is the test's own; the n-th is called `NAME#n`.
    pub queries: Vec<Query>,
}

/// A final condition with what the models are expected to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// The condition.
    pub condition: Condition,
    /// Expected verdicts on its formula.
    pub expected: Expected,
}

impl Litmus {
    /// What the report calls query `index`: `NAME` for the first, `NAME#2` for the second.
    pub fn query_name(&self, index: usize) -> String {
        match index {
            0 => self.name.clone(),
            n => format!("{}#{}", self.name, n + 1),
        }
    }

    /// The operands that a state of query `index` shows: those of its formula, then the `locations` list.
    pub fn shown(&self, index: usize) -> Vec<Operand> {
        let mut out = self
            .queries
            .get(index)
            .map(|q| q.condition.formula.operands())
            .unwrap_or_default();
        for &operand in &self.observed {
            if !out.contains(&operand) {
                out.push(operand);
            }
        }
        out.sort_unstable();
        out
    }
}

/// An accepted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The test.
    pub litmus: Litmus,
    /// Warnings, in the order of the text.
    pub warnings: Vec<Diagnostic>,
}

/// Parses and checks a litmus test.
///
/// # Errors
///
/// Every mistake found, each with its place and what would be right. Texts beyond the bounds of [`limits`] are
/// refused with the bound's name.
pub fn parse(source: &str) -> Result<Parsed, ParseError> {
    let refused = |mut diagnostics: Vec<Diagnostic>| {
        diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
        ParseError { diagnostics }
    };
    let file = parser::parse(source).map_err(refused)?;
    let (litmus, mut warnings) = resolve::resolve(&file).map_err(refused)?;
    warnings.sort_by_key(|d| (d.span.start, d.span.end));
    Ok(Parsed { litmus, warnings })
}
