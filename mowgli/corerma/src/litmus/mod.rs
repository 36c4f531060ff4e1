//! The coreRMA dialect of the litmus language: text to a [`Litmus`] and back.
//!
//! `docs/corerma.md` is its manual. Header, init block, columns and conditions are those of [`mowgli::litmus`], whose parser
//! reads them; `parse` adds the statements, and `resolve` checks names. [`Litmus::print`] goes back. Used by the command, by the
//! catalogue and by the generator.

mod condition;
mod parse;
mod print;
mod resolve;

use serde::{Deserialize, Serialize};

pub use condition::{Condition, Expected, Formula, Query};
pub use parse::{DIALECT, WORDS, is_dialect};
pub use print::{program as program_text, statement};

use crate::program::Program;
use mowgli::litmus::Operand;
use mowgli::syntax::{self, Diagnostic, ParseError};

/// A litmus test of coreRMA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Litmus {
    /// The name in the header line.
    pub name: String,
    /// The text after the name: where the test comes from and what it shows.
    pub description: Option<String>,
    /// The program.
    pub program: Program,
    /// Operands to show in states besides those of the conditions.
    pub observed: Vec<Operand>,
    /// Final conditions, at least one. The n-th is called `NAME#n`, the first `NAME`.
    pub queries: Vec<Query>,
}

impl Litmus {
    /// Returns the name of query `index` in reports.
    pub fn query_name(&self, index: usize) -> String {
        match index {
            0 => self.name.clone(),
            n => format!("{}#{}", self.name, n + 1),
        }
    }

    /// Returns the test with `exists (formula)` as its only condition.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the formula.
    pub fn asking(&self, formula: &str) -> Result<Litmus, ParseError> {
        let bare = Litmus {
            queries: Vec::new(),
            ..self.clone()
        };
        parse(&format!("{}\nexists ({formula})\n", bare.print())).map(|parsed| parsed.litmus)
    }

    /// Lists the operands that a state of query `index` shows: those of its formula, then the `locations` list.
    pub fn shown(&self, index: usize) -> Vec<Operand> {
        let formula = self.queries.get(index).map(|q| &q.condition.formula);
        let mut out = formula.map(Formula::operands).unwrap_or_default();
        out.extend(&self.observed);
        out.sort_unstable();
        out.dedup();
        out
    }
}

/// A text that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The test.
    pub litmus: Litmus,
    /// Warnings, in the order of the text.
    pub warnings: Vec<Diagnostic>,
}

/// Parses and checks a test.
///
/// # Errors
///
/// Returns every mistake found, each with its place and remedy. The bounds of [`mowgli::litmus::limits`] hold.
pub fn parse(source: &str) -> Result<Parsed, ParseError> {
    let file = syntax::parse_dialect(source, DIALECT, parse::file).map_err(ParseError::of)?;
    let (litmus, diagnostics) = resolve::resolve(&file);
    let Some(litmus) = litmus else {
        return Err(ParseError::of(diagnostics));
    };
    let warnings = ParseError::warnings(diagnostics)?;
    Ok(Parsed { litmus, warnings })
}
