//! Splits source text into tokens with byte spans. Comments `(* ... *)` nest and are dropped.
//!
//! [`header`] reads the first line (`RDMA NAME`), because a test's name may contain punctuation (`MP+poll-get`, `2+2W`).
//! The first word names the dialect: `RDMA`, or that of another language of this form.

use super::comment;
use super::diagnostic::{Diagnostic, Kind, Span};
use super::limits::{NAME_BYTES_MAX, NESTING_MAX};

/// A token without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A name, keyword included.
    Name(String),
    /// Digits, unsigned; hexadecimal ones after `0x`.
    Number(String),
    /// A quoted text, unescaped.
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
            Token::Number(n) => format!("`{n}`"),
            Token::Text(_) => "a quoted text".to_owned(),
            Token::Symbol(s) => format!("`{s}`"),
            Token::End => "the end of the text".to_owned(),
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
const SYMBOLS: [&str; 34] = [
    "/\\", "\\/", ":=", "==", "!=", "<>", "<=", ">=", "&&", "||", "{", "}", "(", ")", "[", "]", ";", ",",
    "|", "^", "@", ":", "=", "<", ">", "+", "-", "*", "/", "~", "!", "&", ".", "?",
];

/// Returns the first word of a text, which names its dialect. Comments and white space before it are skipped.
pub fn dialect(source: &str) -> Option<&str> {
    let start = header_start(source).ok()?;
    source[start..].split_whitespace().next()
}

fn header_start(source: &str) -> Result<usize, Diagnostic> {
    // Some editors begin a text with a byte-order mark, which is no part of it.
    skip_blank(source, source.len() - source.trim_start_matches('\u{feff}').len())
}

/// Reads the header line: the dialect, which must be `wanted`, the test's name with its span, and where the rest starts.
pub(super) fn header(source: &str, wanted: &str) -> Result<(String, Span, usize), Diagnostic> {
    let start = header_start(source)?;
    let line_end = source[start..]
        .find(['\n', '\r'])
        .map_or(source.len(), |n| start + n);
    let line = source[start..line_end].trim_end();
    let wrong = |message: String| {
        Diagnostic::new(
            Kind::BadHeader,
            start..start + line.len().max(1).min(source.len() - start),
            message,
        )
        .help(format!(
            "the first line is `{wanted}` and the test's name, as in `{wanted} MP+poll`"
        ))
    };
    let arch_len = line.find(char::is_whitespace).unwrap_or(line.len());
    let (arch, name) = (&line[..arch_len], line[arch_len..].trim());
    if arch != wanted {
        return Err(match arch {
            "" => wrong("the text is empty".to_owned()),
            "X86" | "X86_64" => wrong(format!("the test is for `{arch}`, not for `{wanted}`"))
                .help("`mowgli star` translates tests of herd7 for x86 to RDMA"),
            _ => wrong(format!("the test is for `{arch}`, not for `{wanted}`")),
        });
    }
    if name.is_empty() {
        return Err(wrong("the test has no name".to_owned()));
    }
    let name_start = start + line.len() - line[arch_len..].trim_start().len();
    let span = name_start..name_start + name.len();
    if let Some(bad) = name.chars().find(|&c| !is_test_name_char(c)) {
        return Err(Diagnostic::new(
            Kind::BadHeader,
            span,
            format!("the test's name contains {bad:?}; letters, digits and `+-_.'` are allowed"),
        ));
    }
    check_name(name, &span)?;
    Ok((name.to_owned(), span, line_end))
}

/// Returns whether a test's name may contain the character.
pub(super) fn is_test_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+-_.'".contains(c)
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '\''
}

fn check_name(name: &str, span: &Span) -> Result<(), Diagnostic> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Diagnostic::new(
            Kind::LimitExceeded,
            span.clone(),
            format!(
                "the name has {} bytes; NAME_BYTES_MAX is {NAME_BYTES_MAX}",
                name.len()
            ),
        ));
    }
    Ok(())
}

/// Skips white space and comments from `at`.
fn skip_blank(source: &str, at: usize) -> Result<usize, Diagnostic> {
    comment::skip_blank(source, at, NESTING_MAX).map_err(Diagnostic::from)
}

/// Splits the text from byte `start` on. The last token is [`Token::End`].
pub(super) fn tokens(source: &str, start: usize) -> Result<Vec<Spanned>, Diagnostic> {
    let mut out = Vec::new();
    let mut at = start;
    loop {
        at = skip_blank(source, at)?;
        let rest = &source[at..];
        let Some(first) = rest.chars().next() else {
            out.push(Spanned {
                token: Token::End,
                span: at..at,
            });
            return Ok(out);
        };
        let (token, len) = if is_name_start(first) {
            let len = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
            check_name(&rest[..len], &(at..at + len))?;
            (Token::Name(rest[..len].to_owned()), len)
        } else if first.is_ascii_digit() {
            let len = number_len(rest);
            (Token::Number(rest[..len].to_owned()), len)
        } else if first == '"' {
            text(rest, at)?
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|s| rest.starts_with(s)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            let span = at..at + first.len_utf8();
            return Err(Diagnostic::new(
                Kind::BadToken,
                span,
                format!("unexpected character {first:?}"),
            ));
        };
        out.push(Spanned {
            token,
            span: at..at + len,
        });
        at += len;
    }
}

/// Returns the length of the number at the start of `rest`, which is decimal, or hexadecimal after `0x`.
fn number_len(rest: &str) -> usize {
    let end = |text: &str, is_digit: fn(&char) -> bool| text.chars().take_while(is_digit).count();
    let prefixed = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    match prefixed.map_or(0, |digits| end(digits, char::is_ascii_hexdigit)) {
        0 => end(rest, char::is_ascii_digit),
        digits => "0x".len() + digits,
    }
}

/// Reads the quoted text at the start of `rest` and resolves `\"` and `\\`. Also returns its length in the source.
fn text(rest: &str, at: usize) -> Result<(Token, usize), Diagnostic> {
    let mut out = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Ok((Token::Text(out), i + 1)),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => out.push(escaped),
                Some((_, other)) => {
                    out.push('\\');
                    out.push(other);
                }
                None => break,
            },
            _ => out.push(c),
        }
    }
    Err(
        Diagnostic::new(Kind::BadToken, at..at + 1, "this quoted text is never closed")
            .help("close it with `\"`"),
    )
}
