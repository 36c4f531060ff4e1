//! The litmus language: turns text into a [`Litmus`] and back.
//!
//! `docs/litmus.md` is the language's manual. [`parse`] goes from text to a syntax tree (`parser`, on top of [`crate::syntax`]), to a
//! checked program (`resolve`, `resolve_code`), and adds warnings (`lint`). [`Litmus::print`] goes back ([`layout`]). Tests, what they are called and what
//! they show are the same in all dialects ([`Dialect`]). The types of
//! conditions (`condition`) and the bounds ([`crate::syntax::limits`]) are shared by all dialects and re-exported here. The module is
//! pure: the command reads files and draws diagnostics.

mod ast;
mod dialect;
pub mod layout;
mod lint;
mod messages;
mod parser;
mod print;
mod property;
mod receive_queues;
mod resolve;
mod resolve_code;
mod statement;
mod symbols;

use serde::{Deserialize, Serialize};

pub use crate::condition::{
    Condition, Expected, Formula, Names, Operand, Quantifier, Query, Relation, Setting, State, Verdict,
};
pub use dialect::{Dialect, QueryOf};
pub(crate) use print::instruction;
pub use print::{fingerprint, fingerprint_of};
pub use property::Property;
pub use statement::Statement;

pub use crate::syntax::{Diagnostic, KEYWORDS, Kind, ParseError, Severity, Span, limits};

use crate::outcome::Outcome;
use crate::program::{Program, Value};

/// A litmus test, of RDMA unless its dialect is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "P: Serialize, P::Value: Serialize, P::Setting: Serialize",
    deserialize = "P: Deserialize<'de>, P::Value: Deserialize<'de>, P::Setting: Deserialize<'de>"
))]
pub struct Litmus<P: Dialect = Program> {
    /// The name in the header line.
    pub name: String,
    /// The text after the name: where the test comes from and what it shows.
    pub description: Option<String>,
    /// The program.
    pub program: P,
    /// Operands to show in states besides those of the conditions (`locations [..]`).
    pub observed: Vec<Operand>,
    /// Final conditions, at least one. The first is the test's own; the n-th is called `NAME#n`.
    pub queries: Vec<Query<Operand, P::Value, P::Setting>>,
    /// The statements of the test about the robustness of its program, sorted. Tests of other dialects have none.
    pub stated: Vec<Statement>,
}

impl Dialect for Program {
    type Value = Value;
    type Outcome = Outcome;
    type Setting = Setting;

    const WORD: &'static str = "RDMA";

    fn parse(source: &str) -> Result<Litmus, ParseError> {
        parse(source).map(|parsed| parsed.litmus)
    }

    fn text(&self) -> String {
        print::print_program(self, &|_, _| None)
    }

    fn registers(&self) -> Vec<usize> {
        self.threads.iter().map(|t| t.registers.len()).collect()
    }

    fn locations(&self) -> usize {
        self.locations.len()
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
