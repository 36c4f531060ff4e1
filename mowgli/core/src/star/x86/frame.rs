//! Splits a test into header, init block, cells and final part. Spans are byte ranges of the text as it was given.

use super::Form;
use super::cell::{is_name, register};
use super::width::Width;
use crate::litmus::comment::skip_comment;
use crate::litmus::syntax::{Name, value_of};
use crate::litmus::{Diagnostic, Kind, Span};
use crate::program::Value;

/// A test in pieces.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) form: Form,
    pub(super) name: String,
    /// The header line.
    pub(super) header: Span,
    pub(super) description: Option<String>,
    pub(super) init: Vec<Entry>,
    /// Number of threads.
    pub(super) threads: usize,
    /// Rows of as many cells as there are threads.
    pub(super) rows: Vec<Vec<Piece>>,
    /// Byte at which the final part starts.
    pub(super) rest: usize,
}

/// A piece of the text.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) start: usize,
}

impl Piece {
    fn span(&self) -> Span {
        self.start..self.start + self.text.len()
    }

    fn trimmed(&self) -> Piece {
        let text = self.text.trim_start();
        Piece {
            start: self.start + self.text.len() - text.len(),
            text: text.trim_end().to_owned(),
        }
    }

    /// Splits at every `at`, which is in no piece.
    fn split(&self, at: char) -> Vec<Piece> {
        let mut start = self.start;
        let mut pieces = Vec::new();
        for text in self.text.split(at) {
            pieces.push(Piece {
                text: text.to_owned(),
                start,
            });
            start += text.len() + at.len_utf8();
        }
        pieces
    }

    fn name(&self) -> Name {
        Name {
            text: self.text.clone(),
            span: self.span(),
        }
    }
}

/// An entry of the init block.
#[derive(Debug)]
pub(super) enum Entry {
    /// `x=1`, `[x]=1`, `uint64_t x=1`, or without a value.
    Location {
        name: Name,
        value: Option<Value>,
        width: Option<Width>,
    },
    /// `0:EAX=1`, or without a value.
    Register {
        thread: usize,
        name: Name,
        value: Option<Value>,
        width: Option<Width>,
    },
    /// `0:rsi=x`.
    Address { thread: usize, name: Name, target: Name },
}

/// Returns the form that the header announces.
pub(super) fn form(source: &str) -> Option<Form> {
    let blanked = without_comments(source).ok()?;
    match blanked.trim_start_matches('\u{feff}').split_whitespace().next() {
        Some("X86") => Some(Form::Intel),
        Some("X86_64") => Some(Form::Att),
        _ => None,
    }
}

/// Splits a test.
pub(super) fn split(source: &str) -> Result<Frame, Diagnostic> {
    let text = without_comments(source)?;
    let header = header(&text)?;
    let (name, form) = (header.1, header.2);
    let brace = outside_quotes(&text[header.0.end..], '{').map(|at| at + header.0.end);
    let Some(open) = brace else {
        return Err(Diagnostic::new(Kind::Syntax, header.0, "there is no init block")
            .help("the init block follows the header: `{ x=0; y=0; }`"));
    };
    let Some(close) = text[open..].find('}').map(|at| at + open) else {
        return Err(
            Diagnostic::new(Kind::Syntax, open..open + 1, "the init block is never closed")
                .help("close it with `}`"),
        );
    };
    let block = Piece {
        text: text[open + 1..close].to_owned(),
        start: open + 1,
    };
    let init = entries(form, &block)?;
    let rest = final_part(&text, close + 1);
    let body = Piece {
        text: text[close + 1..rest].to_owned(),
        start: close + 1,
    };
    let mut rows = body.split(';');
    let unfinished = rows.pop().map(|p| p.trimmed()).filter(|p| !p.text.is_empty());
    if let Some(piece) = unfinished {
        return Err(Diagnostic::new(Kind::Syntax, piece.span(), "a row ends with `;`")
            .help("end the row with `;`; conditions start with `exists`, `~exists` or `forall`"));
    }
    let mut rows = rows.into_iter();
    let threads = rows.next().map_or(Ok(0), |row| columns(&row))?;
    if threads == 0 {
        return Err(
            Diagnostic::new(Kind::Syntax, close..close + 1, "there are no threads")
                .help("after the init block stands the line of threads: `P0 | P1 ;`"),
        );
    }
    let rows = rows
        .map(|row| cells(&row, threads))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Frame {
        form,
        name,
        description: quoted(&text[header.0.end..open]),
        header: header.0,
        init,
        threads,
        rows,
        rest,
    })
}

/// Finds a character that stands in no quoted text.
fn outside_quotes(text: &str, wanted: char) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == wanted && !quoted).then_some(at)
    })
}

/// Replaces comments `(* .. *)` by spaces, byte for byte.
fn without_comments(source: &str) -> Result<String, Diagnostic> {
    let mut out = source.as_bytes().to_vec();
    let mut at = 0;
    while let Some(open) = source[at..].find("(*").map(|found| at + found) {
        at = skip_comment(source, open, usize::MAX)?;
        let blank = out[open..at].iter_mut().filter(|b| **b != b'\n');
        blank.for_each(|b| *b = b' ');
    }
    // Comments are replaced whole, so no character is cut.
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Reads the first line that is not blank: `X86 NAME` or `X86_64 NAME`.
fn header(text: &str) -> Result<(Span, String, Form), Diagnostic> {
    let body = text.trim_start_matches('\u{feff}').trim_start();
    let start = text.len() - body.len();
    let line = body.lines().next().unwrap_or_default().trim_end();
    let span = start..start + line.len();
    let wrong = |message: &str| {
        Diagnostic::new(Kind::BadHeader, span.clone(), message.to_owned())
            .help("the first line is `X86` or `X86_64` and the test's name, as in `X86_64 SB`")
    };
    let (arch, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let form = match arch {
        "X86" => Form::Intel,
        "X86_64" => Form::Att,
        _ => return Err(wrong("the test is not for x86")),
    };
    let name: String = name.trim().to_owned();
    if name.is_empty() {
        return Err(wrong("the test has no name"));
    }
    if let Some(bad) = name
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && !"+-_.'".contains(*c))
    {
        return Err(wrong(&format!("the test's name contains {bad:?}")));
    }
    Ok((span, name, form))
}

/// Returns the quoted text between header and init block. Lines such as `Com=Fr Fr`, which generators add, are not kept.
fn quoted(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('"')?;
    let (quoted, _) = rest.split_once('"')?;
    Some(quoted.replace('\n', " "))
}

/// Returns where the final part starts: at the first of its words that stands at the start of a row.
fn final_part(text: &str, from: usize) -> usize {
    let words = ["exists", "forall", "locations", "filter", "not", "~"];
    let mut at = from;
    loop {
        let row = text[at..].trim_start();
        let start = text.len() - row.len();
        if row.is_empty() || words.iter().any(|w| row.starts_with(w)) {
            return start;
        }
        match row.find(';') {
            Some(end) => at = start + end + 1,
            None => {
                // The last row has no end, so its words are looked for too.
                let found = words[..4].iter().filter_map(|w| row.find(w)).min();
                return found.map_or(text.len(), |f| start + f);
            }
        }
    }
}

fn columns(row: &Piece) -> Result<usize, Diagnostic> {
    let names = row.split('|');
    for (index, name) in names.iter().map(Piece::trimmed).enumerate() {
        if name.text != format!("P{index}") {
            let message = format!("expected thread `P{index}`, found `{}`", name.text);
            return Err(Diagnostic::new(Kind::Syntax, name.span(), message)
                .help("threads are named P0, P1, .. from left to right"));
        }
    }
    Ok(names.len())
}

fn cells(row: &Piece, threads: usize) -> Result<Vec<Piece>, Diagnostic> {
    let cells = row.split('|');
    if cells.len() == threads {
        return Ok(cells);
    }
    let message = format!("this row has {} cells for {threads} threads", cells.len());
    Err(Diagnostic::new(Kind::RowLength, row.trimmed().span(), message)
        .help("separate cells with `|`; an empty cell stands for no instruction"))
}

fn entries(form: Form, block: &Piece) -> Result<Vec<Entry>, Diagnostic> {
    let pieces = block.split(';').into_iter().map(|p| p.trimmed());
    let entries = pieces.filter(|p| !p.text.is_empty());
    entries.map(|p| entry(form, &p)).collect()
}

fn entry(form: Form, piece: &Piece) -> Result<Entry, Diagnostic> {
    let wrong = |message: String| {
        Diagnostic::new(Kind::Syntax, piece.span(), message)
            .help("entries are `x=1`, `0:EAX=1` and `0:ESI=x`")
    };
    let mut sides = piece.split('=').into_iter().map(|p| p.trimmed());
    let (Some(left), right, None) = (sides.next(), sides.next(), sides.next()) else {
        return Err(wrong(format!("`{}` is no entry of an init block", piece.text)));
    };
    let (left, width) = untyped(&left);
    let value = right.as_ref().and_then(|r| value_of(&r.text));
    if let Some((thread, _)) = left.text.split_once(':') {
        let thread = thread.trim();
        let number = thread.strip_prefix('P').unwrap_or(thread).parse::<usize>();
        let mut parts = left.split(':').into_iter().skip(1);
        let (Ok(thread), Some(name), None) = (number, parts.next(), parts.next()) else {
            return Err(wrong(format!("`{}` is no register", left.text)));
        };
        let name = name.trimmed().name();
        return match (value, right) {
            (None, Some(target)) if is_name(&target.text) => Ok(Entry::Address {
                thread,
                name,
                target: target.name(),
            }),
            (None, Some(_)) => Err(wrong(format!(
                "`{}` is neither a number nor a location",
                piece.text
            ))),
            (value, _) => Ok(Entry::Register {
                thread,
                name,
                value,
                width,
            }),
        };
    }
    let inner = left.text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let name = Name {
        text: inner.unwrap_or(&left.text).trim().to_owned(),
        span: left.span(),
    };
    if register(form, &name.text).is_some() {
        return Err(wrong(format!("`{}` is a register of no thread", name.text)));
    }
    match (is_name(&name.text), value.is_some() == right.is_some()) {
        (true, true) => Ok(Entry::Location { name, value, width }),
        (false, _) => Err(wrong(format!("`{}` is no location", left.text))),
        (true, false) => Err(wrong(format!("`{}` does not start at a number", name.text))),
    }
}

/// Drops the C type before a name, as in `uint64_t x`, and returns its size. That of `int` is whatever the accesses have.
fn untyped(piece: &Piece) -> (Piece, Option<Width>) {
    const TYPES: [(&str, Option<Width>); 6] = [
        ("int", None),
        ("long", Some(Width::Quad)),
        ("int32_t", Some(Width::Long)),
        ("uint32_t", Some(Width::Long)),
        ("int64_t", Some(Width::Quad)),
        ("uint64_t", Some(Width::Quad)),
    ];
    let split = piece.text.split_once(char::is_whitespace);
    let typed = split.and_then(|(first, rest)| {
        let (_, width) = TYPES.iter().find(|(name, _)| *name == first)?;
        Some((first.len() + 1, rest, *width))
    });
    match typed {
        Some((offset, rest, width)) => {
            let start = piece.start + offset;
            let text = rest.to_owned();
            (Piece { start, text }.trimmed(), width)
        }
        None => (piece.clone(), None),
    }
}
