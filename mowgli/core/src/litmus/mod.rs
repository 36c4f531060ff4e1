//! The litmus language: turns text into a [`Litmus`] and back.
//!
//! `docs/litmus.md` is the language's manual. [`parse`] goes from text to a syntax tree (`parser`, on top of [`crate::syntax`]), to a
//! checked program (`resolve`, `resolve_code`), and adds warnings (`lint`). [`Litmus::print`] goes back ([`layout`]). The types of
//! conditions (`condition`) and the bounds ([`crate::syntax::limits`]) are shared by all dialects and re-exported here. The module is
//! pure: the command reads files and draws diagnostics.

mod ast;
pub mod layout;
mod lint;
mod parser;
mod print;
mod property;
mod resolve;
mod resolve_code;
mod statement;
mod symbols;

use serde::{Deserialize, Serialize};

pub use crate::condition::{
    Condition, Expected, Formula, Names, Operand, Quantifier, Query, Relation, Setting, State, Verdict,
};
pub(crate) use print::instruction;
pub use print::{fingerprint, fingerprint_of};
pub use property::Property;
pub use statement::Statement;

pub use crate::syntax::{Diagnostic, KEYWORDS, Kind, ParseError, Severity, Span, limits};

use crate::program::Program;

/// A litmus test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Litmus {
    /// The name in the header line.
    pub name: String,
    /// The text after the name: where the test comes from and what it shows.
    pub description: Option<String>,
    /// The program.
    pub program: Program,
    /// Operands to show in states besides those of the conditions (`locations [..]`).
    pub observed: Vec<Operand>,
    /// Final conditions, at least one. The first is the test's own; the n-th is called `NAME#n`.
    pub queries: Vec<Query>,
    /// The statements of the test about the robustness of its program, sorted.
    pub stated: Vec<Statement>,
}

impl Litmus {
    /// Returns the name of query `index` in reports: `NAME` for the first, `NAME#2` for the second.
    pub fn query_name(&self, index: usize) -> String {
        match index {
            0 => self.name.clone(),
            n => format!("{}#{}", self.name, n + 1),
        }
    }

    /// Returns the test with `exists (formula)` as its only condition.
    ///
    /// # Errors
    /// Returns everything that is wrong with the formula. Spans are those of a text that the caller does not have.
    pub fn asking(&self, formula: &str) -> Result<Litmus, ParseError> {
        let bare = Litmus {
            queries: Vec::new(),
            stated: Vec::new(),
            ..self.clone()
        };
        parse(&format!("{}\nexists ({formula})\n", bare.print())).map(|p| p.litmus)
    }

    /// Lists the operands that a state of query `index` shows: those of its formula, then the `locations` list.
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

/// The result of parsing a text that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The test.
    pub litmus: Litmus,
    /// Warnings, in the order of the text.
    pub warnings: Vec<Diagnostic>,
    /// Positions of the instructions in the text: for each thread the places in its code, as [`crate::event::Event::path`], with their spans.
    /// A block's instructions come after the instruction that has the block.
    pub instructions: Vec<Vec<(Vec<u16>, Span)>>,
}

/// Parses and checks a litmus test.
///
/// # Errors
///
/// Returns every mistake found, with its place and the remedy. A text beyond a bound of [`limits`] is refused with the bound's name.
pub fn parse(source: &str) -> Result<Parsed, ParseError> {
    let file = parser::parse(source).map_err(ParseError::of)?;
    let (litmus, diagnostics) = resolve::resolve(&file).map_err(ParseError::of)?;
    let instructions = (0..file.columns.len())
        .map(|thread| {
            let cells = file
                .rows
                .iter()
                .filter_map(|row| row.cells.get(thread).and_then(Option::as_ref));
            let mut spans = Vec::new();
            ast::spans(cells, &mut Vec::new(), &mut spans);
            spans
        })
        .collect();
    Ok(Parsed {
        litmus,
        warnings: ParseError::warnings(diagnostics)?,
        instructions,
    })
}
