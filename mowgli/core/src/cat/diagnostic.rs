//! Errors and warnings about a model file, with the file and byte span of each.
//!
//! A model file may include others, so a diagnostic carries its source. The parser and the resolver make them; `mowgli-cli` draws them
//! as it draws those of litmus tests.

use std::fmt;
use std::sync::Arc;

use crate::litmus::{Severity, Span};

/// The text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path or name by which the file was found.
    pub name: String,
    /// The text.
    pub text: String,
}

/// The kind of a diagnostic; [`Kind::code`] is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A character with which no token starts, or the end of the text inside a token.
    BadToken,
    /// A token that the grammar does not allow here.
    Syntax,
    /// A construct of herd7's language that this one leaves out.
    Unsupported,
    /// A name that nothing defines.
    UndefinedName,
    /// A set where a relation is needed, the reverse, or a function where a value is needed.
    WrongType,
    /// A function with too few or too many arguments.
    WrongArity,
    /// A name defined twice in one file, or two parameters of one name.
    Duplicate,
    /// A recursive definition below `~` or on the right of `\`.
    NotMonotone,
    /// A file that includes itself, directly or through others.
    CyclicInclude,
    /// An included file that cannot be read.
    MissingInclude,
    /// A requirement that depends on reads-from or on a chosen order.
    DynamicRequirement,
    /// The text exceeds a named bound of [`limits`](super::limits).
    LimitExceeded,
    /// Warning: a definition that nothing uses.
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
            Kind::Unsupported => "unsupported",
            Kind::UndefinedName => "undefined-name",
            Kind::WrongType => "wrong-type",
            Kind::WrongArity => "wrong-arity",
            Kind::Duplicate => "duplicate",
            Kind::NotMonotone => "not-monotone",
            Kind::CyclicInclude => "cyclic-include",
            Kind::MissingInclude => "missing-include",
            Kind::DynamicRequirement => "dynamic-requirement",
            Kind::LimitExceeded => "limit-exceeded",
            Kind::Unused => "unused",
            Kind::NoAxiom => "no-axiom",
        }
    }

    /// Returns whether this kind refuses the file.
    pub const fn severity(self) -> Severity {
        match self {
            Kind::Unused | Kind::NoAxiom => Severity::Warning,
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
    /// The file.
    pub source: Arc<Source>,
    /// The place in the file.
    pub span: Span,
    /// A few words under the marked text; may be empty.
    pub label: String,
    /// Other places of the same file that matter, each with a few words.
    pub related: Vec<(Span, String)>,
    /// The remedy.
    pub help: Option<Box<str>>,
}

impl Diagnostic {
    /// Returns a diagnostic without label, related places or help.
    pub fn new(kind: Kind, source: &Arc<Source>, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            kind,
            message: message.into(),
            source: source.clone(),
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

    /// Adds another place of the same file.
    pub fn related(mut self, span: Span, words: impl Into<String>) -> Diagnostic {
        self.related.push((span, words.into()));
        self
    }

    /// Adds the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into().into_boxed_str());
        self
    }

    /// Returns whether it is an error or a warning.
    pub fn severity(&self) -> Severity {
        self.kind.severity()
    }

    /// Returns the line and column at which the span starts. Both count from 1, columns in characters.
    pub fn position(&self) -> (usize, usize) {
        position(&self.source.text, self.span.start)
    }
}

/// Returns the line and column of a byte in a text. Both count from 1, columns in characters.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1;
    (line, column)
}

impl fmt::Display for Diagnostic {
    /// Writes file, line, column, kind, message and remedy on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity() {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let (line, column) = self.position();
        let (name, code) = (&self.source.name, self.kind.code());
        write!(f, "{name}:{line}:{column}: {severity}[{code}]: {}", self.message)?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}
