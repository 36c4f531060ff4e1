//! The grammar of a test: header, init block, line of threads, rows of cells, final part.
//!
//! [`crate::syntax`] reads rows and final part; [`super::cell`] the cells. Between the name and the init block stands what generators
//! of tests note there, in no language; so do aliases of the name, as in `X86 n4 (LitmusNFour) "Litmus test"`. At the end may stand notes
//! to other programs, `<< .. >>`.

use super::Form;
use super::cell::{Cell, at_final_part, cell};
use super::registers::register;
use super::width::Width;
use crate::condition::Verdict;
use crate::litmus::limits::{NAME_BYTES_MAX, NESTING_MAX, SOURCE_BYTES_MAX};
use crate::model::Model;
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
    /// The instructions of each thread.
    pub(super) code: Vec<Vec<Cell>>,
    /// What `locations [..]` lists.
    pub(super) observed: Vec<Observed>,
    /// The formula after `filter`, to which the conditions are restricted.
    pub(super) filter: Option<Formula>,
    pub(super) questions: Vec<Question>,
}

/// A condition, and the verdicts that the test states for models of ours.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) query: Query,
    pub(super) stated: Vec<(Model, Verdict)>,
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
        "*", "/", "~", "&", ".", "$", "@",
    ],
    keywords: &[&KEYWORDS],
    starts_name: |rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || "_%".contains(c)),
    is_name_char: |c| c.is_ascii_alphanumeric() || c == '_',
    numbers: true,
    long_quotes: true,
    line_comments: &["#"],
    remedy: |_| None,
    limits: Limits {
        source_bytes: SOURCE_BYTES_MAX,
        name_bytes: NAME_BYTES_MAX,
        nesting: NESTING_MAX,
    },
};

/// Words for the size of a location, with that size. That of `int` is whatever the accesses have.
const TYPES: [(&str, Option<Width>); 12] = [
    ("int", None),
    ("char", Some(Width::Byte)),
    ("short", Some(Width::Word)),
    ("long", Some(Width::Quad)),
    ("int8_t", Some(Width::Byte)),
    ("uint8_t", Some(Width::Byte)),
    ("int16_t", Some(Width::Word)),
    ("uint16_t", Some(Width::Word)),
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
    let header = header(source).map_err(|d| vec![d])?;
    let form = header.form;
    let source = &source[..notes(source, &header.name.span)];
    let open = init_block(source, &header.name.span).map_err(|d| vec![d])?;
    let description = quoted(&source[header.name.span.end..open]);
    syntax::read_on(&X86, source, open, |p| {
        let init = entries(p, form)?;
        p.eat(";");
        let threads = columns(p)?;
        let mut code = vec![Vec::new(); threads];
        while !at_final_part(p) {
            let row = p.row(threads, |p| cell(p, form, source))?;
            for (thread, cell) in code.iter_mut().zip(row.cells) {
                thread.extend(cell);
            }
        }
        let observed = p.observed_list()?;
        let filter = p.filter()?;
        let questions = questions(p)?;
        Ok(Test {
            form,
            name: test_name(&header.name.text),
            description,
            init,
            threads,
            code,
            observed,
            filter,
            questions,
        })
    })
}

/// The first words of a test.
struct Header {
    form: Form,
    name: Name,
}

/// Reads the form and the name, which is one word. What follows the name is no part of it.
fn header(source: &str) -> Step<Header> {
    let line = syntax::header_line(source, &["X86", "X86_64"], "SB")?;
    let text = &source[line.clone()];
    let (dialect, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let form = match dialect {
        "X86" => Form::Intel,
        _ => Form::Att,
    };
    let name = rest.split_whitespace().next().unwrap_or_default();
    if name.is_empty() {
        let message = "the test has no name";
        return Err(Diagnostic::new(Kind::BadHeader, line, message).help("write it after the first word"));
    }
    let start = line.start + text.len() - rest.trim_start().len();
    let span = start..start + name.len();
    if name.len() > NAME_BYTES_MAX {
        let message = format!(
            "the name has {} bytes; NAME_BYTES_MAX is {NAME_BYTES_MAX}",
            name.len()
        );
        return Err(Diagnostic::new(Kind::LimitExceeded, span, message));
    }
    let text = name.to_owned();
    Ok(Header {
        form,
        name: Name { text, span },
    })
}

/// Returns the name with `_` for what no name of a test in our language has, such as the `/` of `iwp2.2/amd2`.
fn test_name(name: &str) -> String {
    let keep = |c: char| if syntax::is_test_name_char(c) { c } else { '_' };
    name.chars().map(keep).collect()
}

/// Returns where the notes to other programs begin, which end a text: at the first line outside comments that starts with `<<`.
fn notes(source: &str, header: &Span) -> usize {
    let mut at = header.end;
    let mut begins_line = false;
    while let Some(c) = source[at..].chars().next() {
        if begins_line && source[at..].starts_with("<<") {
            return at;
        }
        // A comment that never ends is reported with the tokens.
        if source[at..].starts_with("(*")
            && let Ok(behind) = syntax::skip_comment(&X86, source, at)
        {
            at = behind;
            continue;
        }
        begins_line = c == '\n' || begins_line && c.is_whitespace();
        at += c.len_utf8();
    }
    source.len()
}

/// Reads the conditions, and the verdicts that stand behind `with`.
fn questions(p: &mut Parser) -> Step<Vec<Question>> {
    let end = |p: &Parser| matches!(p.peek(), Token::End | Token::Symbol(";"));
    let is_final = p.is_word("final");
    let mut queries = match p.eat_word("final") {
        true => vec![p.exists_formula()?],
        false => p.queries_until(Parser::signed_value, end)?,
    };
    let stated = queries.iter_mut().flat_map(|q| q.expected.drain(..)).next();
    if let Some((_, setting)) = stated {
        let message = "tests of herd7 state verdicts in files of their own";
        return Err(Diagnostic::new(Kind::BadExpectation, setting.span, message).help("remove the verdicts"));
    }
    p.eat(";");
    let stated = match is_final && p.eat_word("with") {
        true => kinds(p)?,
        false => Vec::new(),
    };
    if *p.peek() != Token::End {
        return Err(p.unexpected("the end of the test"));
    }
    let question = |query| Question {
        query,
        stated: stated.clone(),
    };
    Ok(queries.into_iter().map(question).collect())
}

/// Reads the verdicts behind `with`: `tso: ~exists; cc: exists;`. Those of models that are not ours mean nothing here.
fn kinds(p: &mut Parser) -> Step<Vec<(Model, Verdict)>> {
    let mut kinds = Vec::new();
    while let Token::Name(_) = p.peek() {
        let model = p.setting()?;
        p.expect(":", "a model's verdict is written `tso: ~exists;`")?;
        let negated = p.eat("~");
        let word = p.name("`exists`, `~exists` or `forall`")?;
        let verdict = match (word.text.as_str(), negated) {
            ("exists", false) => Verdict::Allowed,
            ("exists", true) => Verdict::Forbidden,
            ("forall", false) => Verdict::Required,
            _ => {
                let message = format!("`{}` is no verdict", word.text);
                return Err(Diagnostic::new(Kind::BadExpectation, word.span, message)
                    .help("verdicts are `exists`, `~exists` and `forall`"));
            }
        };
        kinds.extend(model.text.parse().ok().map(|model: Model| (model, verdict)));
        if !p.eat(";") {
            break;
        }
    }
    Ok(kinds)
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
    (!quoted.trim().is_empty()).then(|| quoted.replace('\n', " "))
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
    } else if p.is("[") {
        let message = format!("`{}` is an array", name.text);
        return Err(Diagnostic::new(Kind::Syntax, name.span, message)
            .help("locations hold one number: give each element a name of its own"));
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
