//! Texts with names, and places in them: byte spans, lines, columns.

use std::ops::Range;

/// A byte range of a text.
pub type Span = Range<usize>;

/// The text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path or name by which the file was found.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// Returns the line and column of a byte of the text, as [`position`] does.
    pub fn position(&self, at: usize) -> (usize, usize) {
        position(&self.text, at)
    }
}

/// Returns the line and column of a byte of a text. Both count from 1, columns in characters. A byte inside a character counts as its
/// first, one behind the text as its end.
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..char_boundary(text, at)];
    let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1;
    (line, column)
}

/// Returns the last character boundary at or before a byte of a text, or the text's end.
pub fn char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
