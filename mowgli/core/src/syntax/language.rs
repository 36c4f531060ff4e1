//! What a language states about its texts, apart from its grammar: lexical rules and bounds.

/// The lexical rules of a language.
#[derive(Debug)]
pub(crate) struct Language {
    /// Every symbol, longer ones before their prefixes.
    pub(crate) symbols: &'static [&'static str],
    /// Lists of words that are no names.
    pub(crate) keywords: &'static [&'static [&'static str]],
    /// Returns whether a name starts at the start of the text.
    pub(crate) starts_name: fn(&str) -> bool,
    /// Returns whether a name goes on with the character.
    pub(crate) is_name_char: fn(char) -> bool,
    /// Whether there are numbers; otherwise a digit may be a symbol.
    pub(crate) numbers: bool,
    /// Whether a quoted text may span lines and escapes `\"` and `\\`.
    pub(crate) long_quotes: bool,
    /// What comments start with that end with their line, besides comments `(* ... *)`.
    pub(crate) line_comments: &'static [&'static str],
    /// Returns what to write in place of a character with which no token starts.
    pub(crate) remedy: fn(char) -> Option<&'static str>,
    pub(crate) limits: Limits,
}

/// The bounds of a language. Refusals give them the names of its module `limits`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `SOURCE_BYTES_MAX`.
    pub(crate) source_bytes: usize,
    /// `NAME_BYTES_MAX`.
    pub(crate) name_bytes: usize,
    /// `NESTING_MAX`.
    pub(crate) nesting: usize,
}
