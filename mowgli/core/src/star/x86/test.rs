//! The grammar of a test: header, init block, line of threads, rows of cells, final part.
//!
//! [`crate::syntax`] reads header, rows and final part; [`super::cell`] the cells. Between header and init block stands what generators
//! of tests note there, in no language.

use super::Form;
use super::cell::{Cell, at_final_part, cell, register};
use super::width::Width;
use crate::litmus::limits::{NAME_BYTES_MAX, NESTING_MAX, SOURCE_BYTES_MAX};
use crate::program::Value;
use crate::syntax::{
    self, Diagnostic, Formula, KEYWORDS, Kind, Language, Limits, Name, Observed, Parser, Query, Span, Step,
    Token,
};

/// A test in pieces.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) form: Form,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) init: Vec<Entry>,
    /// Number of threads.
    pub(super) threads: usize,
    /// The instructions with their threads, row by row.
    pub(super) code: Vec<(usize, Cell)>,
    /// What `locations [..]` lists.
    pub(super) observed: Vec<Observed>,
    /// The formula after `filter`, to which the conditions are restricted.
    pub(super) filter: Option<Formula>,
    pub(super) queries: Vec<Query>,
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

/// The lexical rules of herd7's tests for x86. The `%` of a register belongs to its name.
static X86: Language = Language {
    symbols: &[
        "/\\", "\\/", "!=", "<>", "{", "}", "(", ")", "[", "]", ";", ",", "|", ":", "=", "<", ">", "+", "-",
        "*", "/", "~", "&", ".", "$", "#", "@",
    ],
    keywords: &[&KEYWORDS],
    starts_name: |rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || "_%".contains(c)),
    is_name_char: |c| c.is_ascii_alphanumeric() || c == '_' || c == '\'',
    numbers: true,
    long_quotes: true,
    line_comments: &[],
    remedy: |_| None,
    limits: Limits {
        source_bytes: SOURCE_BYTES_MAX,
        name_bytes: NAME_BYTES_MAX,
        nesting: NESTING_MAX,
    },
};

/// Words for the size of a location, with that size. That of `int` is whatever the accesses have.
const TYPES: [(&str, Option<Width>); 6] = [
    ("int", None),
    ("long", Some(Width::Quad)),
    ("int32_t", Some(Width::Long)),
    ("uint32_t", Some(Width::Long)),
    ("int64_t", Some(Width::Quad)),
    ("uint64_t", Some(Width::Quad)),
];

/// Returns the form that the header announces.
pub(super) fn form(source: &str) -> Option<Form> {
    match syntax::dialect(source)? {
        "X86" => Some(Form::Intel),
        "X86_64" => Some(Form::Att),
        _ => None,
    }
}

/// Reads a test.
///
/// # Errors
///
/// Every mistake found in the rows, and the one that ended the reading.
pub(super) fn test(source: &str) -> Result<Test, Vec<Diagnostic>> {
    let header = syntax::header(source, &["X86", "X86_64"], "SB").map_err(|d| vec![d])?;
    let form = match header.dialect.as_str() {
        "X86" => Form::Intel,
        _ => Form::Att,
    };
    let open = init_block(source, &header.line).map_err(|d| vec![d])?;
    let description = quoted(&source[header.line.end..open]);
    syntax::read_on(&X86, source, open, |p| {
        let init = entries(p, form)?;
        let threads = columns(p)?;
        let mut code = Vec::new();
        while !at_final_part(p) {
            let row = p.row(threads, |p| cell(p, form, source))?;
            let cells = row.cells.into_iter().enumerate();
            code.extend(cells.filter_map(|(thread, cell)| Some((thread, cell?))));
        }
        let observed = p.observed_list()?;
        let filter = p.filter()?;
        let queries = p.queries(Parser::signed_value)?;
        Ok(Test {
            form,
            name: header.name,
            description,
            init,
            threads,
            code,
            observed,
            filter,
            queries,
        })
    })
}

/// Returns where the init block opens: at the first brace behind the header that stands in no comment and no quoted text.
fn init_block(source: &str, header: &Span) -> Step<usize> {
    let mut at = header.end;
    let mut in_quotes = false;
    while let Some(c) = source[at..].chars().next() {
        match c {
            '{' if !in_quotes => return Ok(at),
            '(' if !in_quotes && source[at..].starts_with("(*") => {
                at = syntax::skip_comment(&X86, source, at)?;
                continue;
            }
            '"' => in_quotes = !in_quotes,
            _ => {}
        }
        at += c.len_utf8();
    }
    Err(
        Diagnostic::new(Kind::Syntax, header.clone(), "there is no init block")
            .help("the init block follows the header: `{ x=0; y=0; }`"),
    )
}

/// Returns the quoted text between header and init block. Lines such as `Com=Fr Fr`, which generators add, are not kept.
fn quoted(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('"')?;
    let (quoted, _) = rest.split_once('"')?;
    Some(quoted.replace('\n', " "))
}

/// Reads the line of threads, and returns their number.
fn columns(p: &mut Parser) -> Step<usize> {
    let mut threads = 0;
    loop {
        p.thread(threads, "the line of threads, `P0 | P1 ;`")?;
        threads += 1;
        if !p.eat("|") {
            p.expect(";", "the line of threads ends with `;`")?;
            return Ok(threads);
        }
    }
}

/// The remedy for what is no entry of the init block.
const ENTRIES: &str = "entries are `x=1`, `0:EAX=1` and `0:ESI=x`, and `;` stands between them";

/// Reads the init block.
fn entries(p: &mut Parser, form: Form) -> Step<Vec<Entry>> {
    let open = p.span();
    p.expect("{", "the init block stands in braces: `{ x=0; y=0; }`")?;
    let mut rest = (0..).map(|ahead| p.peek_at(ahead));
    if rest.find(|t| matches!(t, Token::Symbol("}") | Token::End)) == Some(&Token::End) {
        return Err(
            Diagnostic::new(Kind::Syntax, open, "the init block is never closed").help("close it with `}`"),
        );
    }
    let mut entries = Vec::new();
    while !p.eat("}") {
        if p.eat(";") {
            continue;
        }
        entries.push(entry(p, form)?);
        if !p.is("}") {
            p.expect(";", ENTRIES)?;
        }
    }
    Ok(entries)
}

/// Reads the number at which a location or register starts.
fn initial(p: &mut Parser) -> Step<Value> {
    let number = p.signed().map_err(|wrong| wrong.help(ENTRIES))?;
    Ok(number.value)
}

fn entry(p: &mut Parser, form: Form) -> Step<Entry> {
    let width = size(p);
    if let Some(thread) = p.thread_prefix()? {
        let thread = usize::try_from(thread.value).unwrap_or(usize::MAX);
        let name = p.name("a register")?;
        let value = match (p.eat("="), p.peek()) {
            (true, Token::Name(_)) => {
                let target = p.name("a location")?;
                return Ok(Entry::Address { thread, name, target });
            }
            (true, _) => Some(initial(p)?),
            (false, _) => None,
        };
        return Ok(Entry::Register {
            thread,
            name,
            value,
            width,
        });
    }
    let in_brackets = p.eat("[");
    let name = p.name("a location (`x=1`) or a register (`0:EAX=1`)")?;
    if in_brackets {
        p.expect("]", "a location may stand in brackets: `[x]=1`")?;
    }
    if register(form, &name.text).is_some() {
        let message = format!("`{}` is a register of no thread", name.text);
        let help = format!("name its thread: `0:{}`", name.text);
        return Err(Diagnostic::new(Kind::Syntax, name.span, message).help(help));
    }
    let value = match p.eat("=") {
        true => Some(initial(p)?),
        false => None,
    };
    Ok(Entry::Location { name, value, width })
}

/// Takes the C type before a name, as in `uint64_t x`, and returns its size. A location may be called as a type is.
fn size(p: &mut Parser) -> Option<Width> {
    let Token::Name(word) = p.peek() else {
        return None;
    };
    let (_, width) = TYPES.iter().find(|(name, _)| name == word)?;
    if let Token::Symbol("=" | ";" | "}") | Token::End = p.peek_at(1) {
        return None;
    }
    p.skip();
    *width
}
