//! Reads the statements of the dialect; the parser of [`mowgli::litmus`] reads all around them.

use mowgli::litmus::Dialect;
use mowgli::syntax::{
    self, Column, Diagnostic, Expr, Init, Kind, Name, Number, Observed, Parser, Row, Span, Step, Token,
};

use crate::program::Program;
use crate::value::{UNDEFINED, Value};

/// Words with a meaning in the dialect, besides the keywords of the litmus language.
pub const WORDS: [&str; 5] = ["get", "put", "rga", "flush", "T"];

/// The words that begin a statement or a right-hand side.
const STATEMENTS: [&str; 5] = ["get", "put", "rga", "cas", "flush"];

/// Returns whether a text is a test of coreRMA, by its first word.
pub fn is_dialect(source: &str) -> bool {
    syntax::dialect(source) == Some(Program::WORD)
}

/// A whole text.
pub(super) struct File {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) init: Vec<Init>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row<Stmt>>,
    pub(super) observed: Vec<Observed>,
    pub(super) queries: Vec<syntax::Query<Value>>,
}

/// A statement.
pub(super) enum Stmt {
    /// `dst := rhs`.
    Assign { dst: Place, rhs: Rhs },
    /// `put(z^n, x)`.
    Put { to: Place, from: Place },
    /// `flush(n)`.
    Flush(Number),
}

/// The right side of an assignment.
pub(super) enum Rhs {
    /// An expression; a lone name may be a location.
    Expr(Expr),
    /// A location with an atomicity or a node.
    Place(Place),
    /// `get(z^n)`.
    Get(Place),
    /// `rga(z^n, y)`.
    Rga(Place, Place),
    /// `cas(z^n, y, w)`.
    Cas(Place, Place, Place),
}

/// A name, perhaps with a node and an atomicity: `x`, `x.n`, `x^2`, `x^2.n`.
pub(super) struct Place {
    pub(super) name: Name,
    pub(super) node: Option<Number>,
    /// The atomicity, if stated.
    pub(super) atomic: Option<bool>,
    pub(super) span: Span,
}

/// Reads a whole text after its first line, which has the name.
pub(super) fn file(p: &mut Parser, name: String) -> Step<File> {
    let description = p.description();
    let init = p.init()?;
    let columns = p.columns()?;
    let mut rows = Vec::new();
    while !p.at_final_part() {
        rows.push(p.row(columns.len(), stmt)?);
    }
    Ok(File {
        name,
        description,
        init,
        columns,
        rows,
        observed: p.observed_list()?,
        queries: p.queries(value)?,
    })
}

fn stmt(p: &mut Parser) -> Step<Stmt> {
    p.count_instruction()?;
    let Token::Name(word) = p.peek().clone() else {
        return Err(p.unexpected("a statement"));
    };
    match (word.as_str(), p.peek_at(1)) {
        ("put", Token::Symbol("(")) => p.call(|p| {
            let to = place(p)?;
            p.expect(
                ",",
                "`put(x^2, y)` takes a location at the target and a local one",
            )?;
            let from = place(p)?;
            Ok(Stmt::Put { to, from })
        }),
        ("flush", Token::Symbol("(")) => Ok(Stmt::Flush(p.call(Parser::number)?)),
        ("get" | "rga" | "cas", Token::Symbol("(")) => {
            let message = format!("`{word}` needs a local location for what it reads");
            Err(Diagnostic::new(Kind::WrongOperand, p.span(), message)
                .help(format!("write `x := {word}(..)` with `x` in the init block")))
        }
        (_, Token::Symbol(":=" | "." | "^")) => {
            let dst = place(p)?;
            p.expect(":=", "an assignment is `dst := src`")?;
            Ok(Stmt::Assign { dst, rhs: rhs(p)? })
        }
        _ => Err(unknown(&word, p.span())),
    }
}

fn rhs(p: &mut Parser) -> Step<Rhs> {
    let two = "`rga(x^2, y)` takes a location at the target and a local one";
    let three = "`cas(x^2, y, z)` takes a location at the target, and the local ones of the expected and the new value";
    let span = p.span();
    match (p.peek().clone(), p.peek_at(1)) {
        (Token::Name(word), Token::Symbol("(")) => match word.as_str() {
            "get" => Ok(Rhs::Get(p.call(place)?)),
            "rga" => p.call(|p| {
                let target = place(p)?;
                p.expect(",", two)?;
                Ok(Rhs::Rga(target, place(p)?))
            }),
            "cas" => p.call(|p| {
                let target = place(p)?;
                p.expect(",", three)?;
                let expected = place(p)?;
                p.expect(",", three)?;
                Ok(Rhs::Cas(target, expected, place(p)?))
            }),
            "put" => Err(Diagnostic::new(Kind::WrongOperand, span, "`put` returns nothing")
                .help("write `put(x^2, y)` alone")),
            _ => Err(unknown(&word, span)),
        },
        (Token::Name(_), Token::Symbol("." | "^")) => Ok(Rhs::Place(place(p)?)),
        _ => Ok(Rhs::Expr(p.expr()?)),
    }
}

fn place(p: &mut Parser) -> Step<Place> {
    let start = p.span();
    if let Token::Name(word) = p.peek()
        && WORDS.contains(&word.as_str())
    {
        let message = format!("expected a location, found the word `{word}` of the language");
        return Err(Diagnostic::new(Kind::Syntax, start, message).help("choose another name"));
    }
    let name = p.new_name("a location or a register")?;
    let node = if p.eat("^") { Some(p.number()?) } else { None };
    let atomic = if p.eat(".") {
        let help = "`x.n` is an access that is not atomic; `x` and `x.a` are atomic";
        let word = p.name("`a` or `n`").map_err(|d| d.help(help))?;
        match word.text.as_str() {
            "a" => Some(true),
            "n" => Some(false),
            other => {
                let message = format!("expected `a` or `n`, found `{other}`");
                return Err(Diagnostic::new(Kind::Syntax, word.span, message).help(help));
            }
        }
    } else {
        None
    };
    Ok(Place {
        name,
        node,
        atomic,
        span: p.span_from(&start),
    })
}

/// Reads the right side of an atom in a condition.
fn value(p: &mut Parser) -> Step<Value> {
    if p.eat_word("T") {
        return Ok(UNDEFINED);
    }
    match p.peek() {
        Token::Number(_) | Token::Symbol("-") => p.signed_value().map(Value::Known),
        _ => Err(p.unexpected("a value (a number, or `T` for undefined)")),
    }
}

fn unknown(word: &str, span: Span) -> Diagnostic {
    let message = format!("unknown statement `{word}`");
    let diagnostic = Diagnostic::new(Kind::UnknownInstruction, span, message);
    match syntax::nearest(word, STATEMENTS) {
        Some(known) => diagnostic.help(format!("did you mean `{known}`?")),
        None => diagnostic.help(format!(
            "statements are assignments and {}",
            STATEMENTS.join(", ")
        )),
    }
}
