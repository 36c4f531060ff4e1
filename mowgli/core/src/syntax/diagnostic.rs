//! Errors and warnings about a text of any of the languages, with byte spans.
//!
//! Parsers and resolvers make them. They are pure data: `mowgli-cli` draws them under the source line, and other programs can use the
//! spans.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::source::{Source, Span, position};

/// Tells an error, which stops the test from being used, from a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The text is accepted, but probably does not say what its author meant.
    Warning,
    /// The text is refused.
    Error,
}

impl Severity {
    /// Returns the word that reports use.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// The kind of a diagnostic; [`Kind::code`] is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A character with which no token starts, or the end of the text inside a token.
    BadToken,
    /// A token that the grammar does not allow here.
    Syntax,
    /// The first line does not name the language and the test.
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
    /// A name given twice where one is allowed.
    Duplicate,
    /// A thread number, node number or value out of its range.
    OutOfRange,
    /// A model that does not exist.
    UnknownModel,
    /// A model with two different verdicts, or a verdict without a condition.
    BadExpectation,
    /// The text exceeds a named bound of its language: those of tests are in [`crate::syntax::limits`], those of models in
    /// [`crate::cat::limits`].
    LimitExceeded,
    /// A construct of herd7's language of models that ours leaves out.
    Unsupported,
    /// A name that nothing in a model file defines.
    UndefinedName,
    /// A set where a relation is needed, the reverse, or a function where a value is needed.
    WrongType,
    /// A function with too few or too many arguments.
    WrongArity,
    /// A recursive definition below `~` or on the right of `\`.
    NotMonotone,
    /// A file that includes itself, directly or through others.
    CyclicInclude,
    /// An included file that cannot be read.
    MissingInclude,
    /// A requirement on programs that depends on reads-from or on a chosen order.
    DynamicRequirement,
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
    /// Warning: a definition of a model file that nothing uses.
    Unused,
    /// Warning: a model without axioms, which accepts every execution.
    NoAxiom,
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
            Kind::Unsupported => "unsupported",
            Kind::UndefinedName => "undefined-name",
            Kind::WrongType => "wrong-type",
            Kind::WrongArity => "wrong-arity",
            Kind::NotMonotone => "not-monotone",
            Kind::CyclicInclude => "cyclic-include",
            Kind::MissingInclude => "missing-include",
            Kind::DynamicRequirement => "dynamic-requirement",
            Kind::UninitialisedLocation => "uninitialised-location",
            Kind::SharedRegister => "shared-register",
            Kind::PollNeverSucceeds => "poll-never-succeeds",
            Kind::WaitForNothing => "wait-for-nothing",
            Kind::UnusedLocation => "unused-location",
            Kind::PollAndWait => "poll-and-wait",
            Kind::Unused => "unused",
            Kind::NoAxiom => "no-axiom",
        }
    }

    /// Returns whether this kind refuses the text.
    pub const fn severity(self) -> Severity {
        match self {
            Kind::UninitialisedLocation
            | Kind::SharedRegister
            | Kind::PollNeverSucceeds
            | Kind::WaitForNothing
            | Kind::UnusedLocation
            | Kind::PollAndWait
            | Kind::Unused
            | Kind::NoAxiom => Severity::Warning,
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

    /// Returns the line and column at which the span starts in the text, as [`position`] counts them.
    pub fn position(&self, text: &str) -> (usize, usize) {
        position(text, self.span.start)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}[{}]: {}",
            self.severity().word(),
            self.kind.code(),
            self.message
        )?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

/// A diagnostic of one of several files: a model may include others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The file.
    pub source: Arc<Source>,
    /// What was found in it.
    pub diagnostic: Diagnostic,
}

impl Located {
    /// Returns the line and column at which the span starts in its file.
    pub fn position(&self) -> (usize, usize) {
        self.diagnostic.position(&self.source.text)
    }
}

impl Deref for Located {
    type Target = Diagnostic;

    fn deref(&self) -> &Diagnostic {
        &self.diagnostic
    }
}

impl fmt::Display for Located {
    /// Writes file, line, column, kind, message and remedy on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.position();
        write!(f, "{}:{line}:{column}: {}", self.source.name, self.diagnostic)
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
