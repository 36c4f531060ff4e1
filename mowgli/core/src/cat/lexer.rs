//! Splits a model file into tokens with byte spans. Comments `(* ... *)`, which nest, and those from `#` or `//` to the end of the line are
//! dropped.

use std::sync::Arc;

use super::diagnostic::{Diagnostic, Kind, Source};
use super::limits::{NAME_BYTES_MAX, NESTING_MAX, SOURCE_BYTES_MAX};
use crate::litmus::Span;
use crate::litmus::comment::{self, BadComment, HOW_TO_CLOSE};

/// A token without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, keyword included.
    Name(String),
    /// A quoted text.
    Text(String),
    /// A symbol of the language, as written.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

impl Token {
    /// Returns the words for the token in a message.
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Name(n) => format!("`{n}`"),
            Token::Text(_) => "a quoted text".to_owned(),
            Token::Symbol(s) => format!("`{s}`"),
            Token::End => "the end of the file".to_owned(),
        }
    }
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Spanned {
    pub(super) token: Token,
    pub(super) span: Span,
}

/// Every symbol, longer ones before their prefixes.
const SYMBOLS: [&str; 24] = [
    "^-1", "^+", "^*", "^?", "++", "->", "|", "&", ";", "\\", "+", "*", "?", "~", "(", ")", "[", "]", "{",
    "}", ",", "=", "0", "_",
];

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.'".contains(c)
}

/// Splits a text. The last token is [`Token::End`].
pub(super) fn tokens(source: &Arc<Source>) -> Result<Vec<Spanned>, Diagnostic> {
    let text = source.text.as_str();
    if text.len() > SOURCE_BYTES_MAX {
        return Err(Diagnostic::new(
            Kind::LimitExceeded,
            source,
            0..0,
            format!(
                "the file has {} bytes; SOURCE_BYTES_MAX is {SOURCE_BYTES_MAX}",
                text.len()
            ),
        )
        .help("name the right file, or split this one with `include`"));
    }
    let mut out = Vec::new();
    // Some editors begin a text with a byte-order mark, which is no part of it.
    let mut at = text.len() - text.trim_start_matches('\u{feff}').len();
    loop {
        at = skip_blank(source, at)?;
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else {
            out.push(Spanned {
                token: Token::End,
                span: at..at,
            });
            return Ok(out);
        };
        // A lone underscore is the set of all events.
        let named = first == '_' && rest[1..].starts_with(is_name_char);
        let (token, len) = if first.is_ascii_alphabetic() || named {
            let len = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
            if len > NAME_BYTES_MAX {
                return Err(Diagnostic::new(
                    Kind::LimitExceeded,
                    source,
                    at..at + len,
                    format!("the name has {len} bytes; NAME_BYTES_MAX is {NAME_BYTES_MAX}"),
                ));
            }
            (Token::Name(rest[..len].to_owned()), len)
        } else if first == '"' {
            let Some(len) = rest[1..]
                .find(['"', '\n'])
                .filter(|&n| rest[1 + n..].starts_with('"'))
            else {
                return Err(Diagnostic::new(
                    Kind::BadToken,
                    source,
                    at..at + 1,
                    "this quoted text is not closed on its line",
                )
                .help("close it with `\"`"));
            };
            (Token::Text(rest[1..1 + len].to_owned()), len + 2)
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|s| rest.starts_with(s)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            return Err(unknown(source, at, first));
        };
        out.push(Spanned {
            token,
            span: at..at + len,
        });
        at += len;
    }
}

fn unknown(source: &Arc<Source>, at: usize, c: char) -> Diagnostic {
    let found = Diagnostic::new(
        Kind::BadToken,
        source,
        at..at + c.len_utf8(),
        format!("unexpected character {c:?}"),
    );
    match c {
        '∪' => found.help("union is written `|`"),
        '∩' => found.help("intersection is written `&`"),
        '×' => found.help("the product of two sets is written `*`"),
        '¬' => found.help("complement is written `~`"),
        '^' => found.help("inverse is written `^-1`, closures `^+`, `^*` and `^?`"),
        '/' | '%' => found.help("comments are written `(* ... *)`"),
        '-' => found.help("difference is written `\\`"),
        _ => found,
    }
}

/// Skips white space and comments from `at`.
fn skip_blank(source: &Arc<Source>, mut at: usize) -> Result<usize, Diagnostic> {
    loop {
        at = comment::skip_blank(&source.text, at, NESTING_MAX).map_err(|bad| {
            let message = bad.to_string();
            match bad {
                BadComment::TooDeep { span, .. } => {
                    Diagnostic::new(Kind::LimitExceeded, source, span, message)
                }
                BadComment::NeverClosed(span) => {
                    Diagnostic::new(Kind::BadToken, source, span, message).help(HOW_TO_CLOSE)
                }
            }
        })?;
        let rest = &source.text[at..];
        if !rest.starts_with('#') && !rest.starts_with("//") {
            return Ok(at);
        }
        at += rest.find('\n').unwrap_or(rest.len());
    }
}
