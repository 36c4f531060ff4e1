//! The coreRMA dialect of the litmus language: text to a [`Litmus`] and back.
//!
//! `docs/corerma.md` is its manual. Header, init block, columns and conditions are those of [`mowgli::litmus`], whose parser
//! reads them; `parse` adds the statements, and `resolve` checks names. `print` goes back. Used by the command, by the catalogue and by
//! the generator.

mod condition;
mod parse;
mod print;
mod resolve;

pub use condition::{Condition, Expected, Formula, Query};
pub use parse::{WORDS, is_dialect};
pub use print::{program as program_text, statement};

use crate::outcome::Outcome;
use crate::program::Program;
use crate::switches::Model;
use crate::value::Value;
use mowgli::litmus::Dialect;
use mowgli::syntax::{self, Diagnostic, ParseError};

/// A litmus test of coreRMA.
pub type Litmus = mowgli::litmus::Litmus<Program>;

impl Dialect for Program {
    type Value = Value;
    type Outcome = Outcome;
    type Setting = Model;

    const WORD: &'static str = "coreRMA";

    fn parse(source: &str) -> Result<Litmus, ParseError> {
        parse(source).map(|parsed| parsed.litmus)
    }

    fn text(&self) -> String {
        print::program(self)
    }

    fn registers(&self) -> Vec<usize> {
        self.processes.iter().map(|p| p.registers.len()).collect()
    }

    fn locations(&self) -> usize {
        self.locations.len()
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
    let file = syntax::parse_dialect(source, Program::WORD, parse::file).map_err(ParseError::of)?;
    let (litmus, diagnostics) = resolve::resolve(&file);
    let Some(litmus) = litmus else {
        return Err(ParseError::of(diagnostics));
    };
    let warnings = ParseError::warnings(diagnostics)?;
    Ok(Parsed { litmus, warnings })
}
