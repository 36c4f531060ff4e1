//! Errors and warnings about a source text, with byte spans.
//!
//! The parser makes them. They are pure data: `mowgli-cli` draws them under the source line, and other programs can use the spans.

use std::fmt;
use std::ops::Range;

/// A byte range in the source text.
pub type Span = Range<usize>;

/// Tells an error, which stops the test from being used, from a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The test is accepted, but probably does not say what its author meant.
    Warning,
    /// The test is refused.
    Error,
}

/// The kind of a diagnostic; [`Kind::code`] is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A character with which no token starts, or the end of the text inside a token.
    BadToken,
    /// A token that the grammar does not allow here.
    Syntax,
    /// The first line is not `RDMA NAME`.
    BadHeader,
    /// An instruction that does not exist.
    UnknownInstruction,
    /// A row with too few or too many cells.
    RowLength,
    /// A location that the init block does not place.
    UnknownLocation,
    /// A register that its thread never assigns.
    UnknownRegister,
    /// A location used on a node that does not hold it.
    WrongNode,
    /// An operand of the wrong sort: a register where a location is needed, or the reverse.
    WrongOperand,
    /// A name given twice.
    Duplicate,
    /// A thread number, node number or value out of its range.
    OutOfRange,
    /// A model that does not exist.
    UnknownModel,
    /// A model with two different verdicts, or a verdict without a condition.
    BadExpectation,
    /// The text exceeds a named bound of [`limits`](super::limits).
    LimitExceeded,
    /// Warning: a location without an initial value.
    UninitialisedLocation,
    /// Warning: one register name in two threads.
    SharedRegister,
    /// Warning: a poll that finds no operation to poll.
    PollNeverSucceeds,
    /// Warning: a wait for an identifier that no earlier operation carries.
    WaitForNothing,
    /// Warning: a location that nothing uses.
    UnusedLocation,
    /// Warning: `poll` and `wait` in one test, which no model but `sc` has.
    PollAndWait,
}

impl Kind {
    /// Returns the short name, which does not change between versions.
    pub const fn code(self) -> &'static str {
        match self {
            Kind::BadToken => "bad-token",
            Kind::Syntax => "syntax",
            Kind::BadHeader => "bad-header",
            Kind::UnknownInstruction => "unknown-instruction",
            Kind::RowLength => "row-length",
            Kind::UnknownLocation => "unknown-location",
            Kind::UnknownRegister => "unknown-register",
            Kind::WrongNode => "wrong-node",
            Kind::WrongOperand => "wrong-operand",
            Kind::Duplicate => "duplicate",
            Kind::OutOfRange => "out-of-range",
            Kind::UnknownModel => "unknown-model",
            Kind::BadExpectation => "bad-expectation",
            Kind::LimitExceeded => "limit-exceeded",
            Kind::UninitialisedLocation => "uninitialised-location",
            Kind::SharedRegister => "shared-register",
            Kind::PollNeverSucceeds => "poll-never-succeeds",
            Kind::WaitForNothing => "wait-for-nothing",
            Kind::UnusedLocation => "unused-location",
            Kind::PollAndWait => "poll-and-wait",
        }
    }

    /// Returns whether this kind refuses the test.
    pub const fn severity(self) -> Severity {
        match self {
            Kind::UninitialisedLocation
            | Kind::SharedRegister
            | Kind::PollNeverSucceeds
            | Kind::WaitForNothing
            | Kind::UnusedLocation
            | Kind::PollAndWait => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind.
    pub kind: Kind,
    /// One sentence: what was found and why it is wrong.
    pub message: String,
    /// The place.
    pub span: Span,
    /// A few words under the marked text; may be empty.
    pub label: String,
    /// Other places that matter, each with a few words.
    pub related: Vec<(Span, String)>,
    /// The remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Returns a diagnostic without label, related places or help.
    pub fn new(kind: Kind, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            kind,
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            help: None,
        }
    }

    /// Adds the words under the marked text.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds another place.
    pub fn related(mut self, span: Span, words: impl Into<String>) -> Diagnostic {
        self.related.push((span, words.into()));
        self
    }

    /// Adds the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Returns whether it is an error or a warning.
    pub fn severity(&self) -> Severity {
        self.kind.severity()
    }

    /// Returns the line and column at which the span starts in `source`. Both count from 1, columns in characters.
    pub fn position(&self, source: &str) -> (usize, usize) {
        let start = floor_char_boundary(source, self.span.start);
        let before = &source[..start];
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1;
        (line, column)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity() {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}[{}]: {}", self.kind.code(), self.message)?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

/// The diagnostics of a text that was refused; at least one is an error.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.first_error())]
pub struct ParseError {
    /// Errors and warnings in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

crate::debug_as_display!(ParseError);

impl ParseError {
    /// Returns the error of a text with these diagnostics, and puts them in the order of the text.
    pub fn of(mut diagnostics: Vec<Diagnostic>) -> ParseError {
        diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
        ParseError { diagnostics }
    }

    /// Returns the warnings of a text that is accepted, in the order of the text.
    ///
    /// # Errors
    /// Returns all diagnostics as an error if one of them is an error.
    pub fn warnings(diagnostics: Vec<Diagnostic>) -> Result<Vec<Diagnostic>, ParseError> {
        let found = ParseError::of(diagnostics);
        match found.diagnostics.iter().any(|d| d.severity() == Severity::Error) {
            true => Err(found),
            false => Ok(found.diagnostics),
        }
    }

    fn first_error(&self) -> String {
        let mut errors = self
            .diagnostics
            .iter()
            .filter(|d| d.severity() == Severity::Error);
        let first = errors
            .next()
            .map_or_else(|| "refused".to_owned(), Diagnostic::to_string);
        match errors.count() {
            0 => first,
            n => format!("{first} (and {n} more)"),
        }
    }
}

/// Returns the nearest character boundary at or before `at`.
fn floor_char_boundary(source: &str, at: usize) -> usize {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    at
}
