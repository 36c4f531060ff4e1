//! Skips white space and comments `(* ... *)`, which nest, as in herd7's languages.
//!
//! Relies on the diagnostics. Used by the lexers of litmus tests, of model files and of herd7's tests.

use super::diagnostic::{Diagnostic, Kind, Span};

/// The remedy for a comment that is never closed.
pub(crate) const HOW_TO_CLOSE: &str = "close it with `*)`; comments nest";

/// The reason why a comment cannot be skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadComment {
    /// The comment nests deeper than the language admits.
    #[error("comments nest deeper than NESTING_MAX ({max})")]
    TooDeep {
        /// From the outermost comment's start to the start that is too deep.
        span: Span,
        /// The deepest nesting that the language admits.
        max: usize,
    },
    /// The text ends inside the comment that starts here.
    #[error("this comment is never closed")]
    NeverClosed(Span),
}

impl From<BadComment> for Diagnostic {
    fn from(bad: BadComment) -> Diagnostic {
        let message = bad.to_string();
        match bad {
            BadComment::TooDeep { span, .. } => Diagnostic::new(Kind::LimitExceeded, span, message),
            BadComment::NeverClosed(span) => {
                Diagnostic::new(Kind::BadToken, span, message).help(HOW_TO_CLOSE)
            }
        }
    }
}

/// Skips white space and comments from `at`.
pub(crate) fn skip_blank(text: &str, mut at: usize, nesting_max: usize) -> Result<usize, BadComment> {
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        if !text[at..].starts_with("(*") {
            return Ok(at);
        }
        at = skip_comment(text, at, nesting_max)?;
    }
}

/// Skips the comment that starts at `open`, nested ones included.
pub(crate) fn skip_comment(text: &str, open: usize, nesting_max: usize) -> Result<usize, BadComment> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = open;
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"(*") => {
                depth += 1;
                at += 2;
                if depth > nesting_max {
                    return Err(BadComment::TooDeep {
                        span: open..at,
                        max: nesting_max,
                    });
                }
            }
            Some(b"*)") => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Ok(at);
                }
            }
            _ => at += 1,
        }
    }
    Err(BadComment::NeverClosed(open..open + 2))
}
