//! Splits a text of any [`Language`] into tokens with byte spans. White space and comments are dropped.

use super::comment::skip_blank;
use super::diagnostic::{Diagnostic, Kind};
use super::language::Language;
use super::source::Span;

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

/// Refuses a text that is too long for the language.
pub(super) fn check_length(language: &Language, text: &str) -> Result<(), Diagnostic> {
    let max = language.limits.source_bytes;
    if text.len() <= max {
        return Ok(());
    }
    // The message does not say how long the text is: whoever reads a file stops at the limit.
    let message = format!("the text is longer than SOURCE_BYTES_MAX, which is {max} bytes");
    Err(Diagnostic::new(Kind::LimitExceeded, 0..0, message).help("name the right file, or split this one"))
}

/// Returns where a text starts: some editors begin it with a byte-order mark, which is no part of it.
pub(super) fn start(text: &str) -> usize {
    text.len() - text.trim_start_matches('\u{feff}').len()
}

/// Refuses a name that is too long.
pub(super) fn check_name(language: &Language, name: &str, span: &Span) -> Result<(), Diagnostic> {
    let (bytes, max) = (name.len(), language.limits.name_bytes);
    if bytes <= max {
        return Ok(());
    }
    let message = format!("the name has {bytes} bytes; NAME_BYTES_MAX is {max}");
    Err(Diagnostic::new(Kind::LimitExceeded, span.clone(), message))
}

/// Splits the text from byte `start` on. The last token is [`Token::End`].
pub(super) fn tokens(language: &Language, text: &str, start: usize) -> Result<Vec<Spanned>, Diagnostic> {
    let mut out = Vec::new();
    let mut at = start;
    loop {
        at = skip_blank(language, text, at)?;
        let (token, len) = token(language, &text[at..], at)?;
        let span = at..at + len;
        let over = token == Token::End;
        out.push(Spanned { token, span });
        if over {
            return Ok(out);
        }
        at += len;
    }
}

/// Reads the token at the start of `rest`, which is at byte `at`. Also returns its length.
fn token(language: &Language, rest: &str, at: usize) -> Result<(Token, usize), Diagnostic> {
    let Some(first) = rest.chars().next() else {
        return Ok((Token::End, 0));
    };
    if (language.starts_name)(rest) {
        let more = rest.char_indices().skip(1);
        let end = more.clone().find(|&(_, c)| !(language.is_name_char)(c));
        let name = &rest[..end.map_or(rest.len(), |(end, _)| end)];
        check_name(language, name, &(at..at + name.len()))?;
        return Ok((Token::Name(name.to_owned()), name.len()));
    }
    if language.numbers && first.is_ascii_digit() {
        let len = number_len(rest);
        return Ok((Token::Number(rest[..len].to_owned()), len));
    }
    if first == '"' {
        return match language.long_quotes {
            true => long_quote(rest, at),
            false => short_quote(rest, at),
        };
    }
    if let Some(symbol) = language.symbols.iter().find(|s| rest.starts_with(**s)) {
        return Ok((Token::Symbol(symbol), symbol.len()));
    }
    let span = at..at + first.len_utf8();
    let unknown = Diagnostic::new(Kind::BadToken, span, format!("unexpected character {first:?}"));
    Err(match (language.remedy)(first) {
        Some(remedy) => unknown.help(remedy),
        None => unknown,
    })
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

/// Reads the quoted text at the start of `rest`, which may span lines, and resolves `\"` and `\\`. Also returns its length in the source.
fn long_quote(rest: &str, at: usize) -> Result<(Token, usize), Diagnostic> {
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
    Err(never_closed(at, "this quoted text is never closed"))
}

/// Reads the quoted text at the start of `rest`, which ends on its line. Also returns its length in the source.
fn short_quote(rest: &str, at: usize) -> Result<(Token, usize), Diagnostic> {
    let inner = &rest[1..];
    match inner
        .find(['"', '\n'])
        .filter(|&end| inner[end..].starts_with('"'))
    {
        Some(end) => Ok((Token::Text(inner[..end].to_owned()), end + 2)),
        None => Err(never_closed(at, "this quoted text is not closed on its line")),
    }
}

fn never_closed(at: usize, message: &str) -> Diagnostic {
    Diagnostic::new(Kind::BadToken, at..at + 1, message).help("close it with `\"`")
}
