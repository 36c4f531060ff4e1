//! Skips white space and comments. Every language has comments `(* ... *)`, which nest, as in herd7's languages; some have comments that
//! end with their line.

use super::diagnostic::{Diagnostic, Kind};
use super::language::Language;

/// Skips white space and comments from `at`.
pub(super) fn skip_blank(language: &Language, text: &str, mut at: usize) -> Result<usize, Diagnostic> {
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        let rest = &text[at..];
        if rest.starts_with("(*") {
            at = skip_comment(language, text, at)?;
        } else if language.line_comments.iter().any(|mark| rest.starts_with(mark)) {
            at += rest.find('\n').unwrap_or(rest.len());
        } else {
            return Ok(at);
        }
    }
}

/// Skips the comment `(* ... *)` that starts at `open`, nested ones included.
pub(crate) fn skip_comment(language: &Language, text: &str, open: usize) -> Result<usize, Diagnostic> {
    let max = language.limits.nesting;
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = open;
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"(*") => {
                depth += 1;
                at += 2;
                if depth > max {
                    let message = format!("comments nest deeper than NESTING_MAX ({max})");
                    return Err(Diagnostic::new(Kind::LimitExceeded, open..at, message));
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
    let message = "this comment is never closed";
    Err(Diagnostic::new(Kind::BadToken, open..open + 2, message).help("close it with `*)`; comments nest"))
}
