//! The form of a litmus test: a header, an init block, a table of threads with a row of cells for each step, a final part.
//!
//! Tests of RDMA, tests of coreRMA and clients of libraries have this form and differ in what stands in the cells; herd7's tests for x86
//! have header, cells and final part. The first word of the header names the dialect.

use super::comment::skip_blank;
use super::diagnostic::{Diagnostic, Kind};
use super::language::{Language, Limits};
use super::lexer::{self, Token};
use super::limits::{
    ERRORS_MAX, INSTRUCTIONS_MAX, NAME_BYTES_MAX, NESTING_MAX, SOURCE_BYTES_MAX, THREADS_MAX,
};
use super::parser::{Parser, Step};
use super::source::Span;
use super::tree::{Column, Init, Name, Row};

/// Names that mean something to the grammar and can name nothing else.
pub const KEYWORDS: [&str; 20] = [
    "mfence",
    "poll",
    "rfence",
    "wait",
    "assume",
    "cas",
    "rcas",
    "rfaa",
    "if",
    "else",
    "while",
    "bound",
    "choose",
    "or",
    "exists",
    "forall",
    "locations",
    "allowed",
    "forbidden",
    "required",
];

/// The lexical rules of tests.
pub(crate) static TESTS: Language = Language {
    symbols: &[
        "/\\", "\\/", ":=", "==", "!=", "<>", "<=", ">=", "&&", "||", "{", "}", "(", ")", "[", "]", ";", ",",
        "|", "^", "@", ":", "=", "<", ">", "+", "-", "*", "/", "~", "!", "&", ".", "?",
    ],
    keywords: &[&KEYWORDS],
    starts_name: |rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'),
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

/// Returns the first word of a text, which names its dialect. Comments and white space before it are skipped.
pub fn dialect(source: &str) -> Option<&str> {
    let start = header_start(source).ok()?;
    source[start..].split_whitespace().next()
}

fn header_start(source: &str) -> Step<usize> {
    skip_blank(&TESTS, source, lexer::start(source))
}

/// Returns the place of the first line, which names one of the dialects `wanted`; `example` is a test's name.
pub(crate) fn header_line(source: &str, wanted: &[&str], example: &str) -> Step<Span> {
    lexer::check_length(&TESTS, source)?;
    let start = header_start(source)?;
    let line_end = source[start..]
        .find(['\n', '\r'])
        .map_or(source.len(), |n| start + n);
    let line = source[start..line_end].trim_end();
    let wrong = |message: String| {
        let span = start..start + line.len().max(1).min(source.len() - start);
        let dialects = wanted.join("` or `");
        let last = wanted.last().unwrap_or(&"");
        Diagnostic::new(Kind::BadHeader, span, message).help(format!(
            "the first line is `{dialects}` and the test's name, as in `{last} {example}`"
        ))
    };
    let dialect = line.split(char::is_whitespace).next().unwrap_or_default();
    if !wanted.contains(&dialect) {
        let other = wrong(format!(
            "the test is for `{dialect}`, not for `{}`",
            wanted.join("` or `")
        ));
        return Err(match dialect {
            "" => wrong("the text is empty".to_owned()),
            "X86" | "X86_64" => other.help("`mowgli star` translates tests of herd7 for x86 to RDMA"),
            _ => other,
        });
    }
    if line.len() == dialect.len() {
        return Err(wrong("the test has no name".to_owned()));
    }
    Ok(start..start + line.len())
}

/// Reads the first line, `DIALECT NAME`. Returns the test's name, which may contain punctuation (`MP+poll-get`, `2+2W`) and is the last
/// thing in the line.
fn header(source: &str, dialect: &str) -> Step<Name> {
    let line = header_line(source, &[dialect], "MP+poll")?;
    let name = source[line.start + dialect.len()..line.end].trim_start();
    let span = line.end - name.len()..line.end;
    if let Some(bad) = name.chars().find(|&c| !is_test_name_char(c)) {
        return Err(Diagnostic::new(
            Kind::BadHeader,
            span,
            format!("the test's name contains {bad:?}; letters, digits and `+-_.'` are allowed"),
        ));
    }
    lexer::check_name(&TESTS, name, &span)?;
    let text = name.to_owned();
    Ok(Name { text, span })
}

/// Returns whether a test's name may contain the character.
pub(crate) fn is_test_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+-_.'".contains(c)
}

/// Parses a text whose first line is `DIALECT NAME`. `grammar` reads all that follows and is given the name.
///
/// # Errors
///
/// Returns every mistake found: those that [`Parser::row`] put aside, then the one that ended the reading.
pub fn parse_dialect<T>(
    source: &str,
    dialect: &str,
    grammar: impl FnOnce(&mut Parser, String) -> Step<T>,
) -> Result<T, Vec<Diagnostic>> {
    let name = header(source, dialect).map_err(|d| vec![d])?;
    read_on(&TESTS, source, name.span.end, |p| grammar(p, name.text))
}

/// Reads a test from byte `start` on.
///
/// # Errors
///
/// Returns every mistake found: those that [`Parser::row`] put aside, then the one that ended the reading.
pub(crate) fn read_on<T>(
    language: &'static Language,
    source: &str,
    start: usize,
    grammar: impl FnOnce(&mut Parser) -> Step<T>,
) -> Result<T, Vec<Diagnostic>> {
    let mut parser = Parser::new(language, source, start).map_err(|d| vec![d])?;
    let found = grammar(&mut parser);
    let mut errors = parser.errors;
    match found {
        Ok(found) if errors.is_empty() => Ok(found),
        Ok(_) => Err(errors),
        Err(last) => {
            errors.push(last);
            Err(errors)
        }
    }
}

impl Parser {
    /// Returns the quoted text after the header, if there is one.
    pub fn description(&mut self) -> Option<String> {
        let Token::Text(text) = self.peek() else {
            return None;
        };
        let text = text.clone();
        self.skip();
        Some(text)
    }

    /// Reads the init block.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn init(&mut self) -> Step<Vec<Init>> {
        self.init_with(false)
    }

    /// Reads the init block of a dialect that has regions of relaxed ordering, or has none.
    pub(crate) fn init_with(&mut self, regions: bool) -> Step<Vec<Init>> {
        self.expect("{", "the init block places the locations: `{ x@1=0; y@2=0; }`")?;
        let mut init = Vec::new();
        while !self.eat("}") {
            if self.eat(";") {
                continue;
            }
            if let Token::Number(_) = self.peek() {
                let thread = self.number()?;
                self.expect(":", "a register of thread 0 is declared as `0:r`")?;
                let name = self.name("a register")?;
                if self.eat("=") && self.signed()?.value != 0 {
                    let message = format!("register `{}` cannot start at another value than 0", name.text);
                    return Err(Diagnostic::new(Kind::OutOfRange, name.span, message)
                        .help("assign it in the thread's first row"));
                }
                init.push(Init::Register { thread, name });
            } else {
                let relaxed = matches!((self.peek(), self.peek_at(1)), (Token::Name(word), Token::Name(_)) if word == "relaxed");
                if relaxed && !regions {
                    let message = "only tests of RDMA have regions of relaxed ordering";
                    return Err(
                        Diagnostic::new(Kind::Syntax, self.span(), message).help("leave `relaxed` out")
                    );
                }
                if relaxed {
                    self.skip();
                }
                let name = self.new_name("a location")?;
                let placed = || format!("say on which node `{0}` lives: `{0}@1=0;`", name.text);
                self.expect_or("@", placed)?;
                let node = self.number()?;
                let value = if self.eat("=") {
                    Some(self.signed()?.value)
                } else {
                    None
                };
                init.push(Init::Location {
                    name,
                    node,
                    value,
                    relaxed,
                });
            }
            if !self.is("}") {
                self.expect(";", "entries of the init block end with `;`")?;
            }
        }
        Ok(init)
    }

    /// Reads the line that places the threads.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn columns(&mut self) -> Step<Vec<Column>> {
        let mut columns = Vec::new();
        loop {
            let name = self.thread(columns.len(), "a thread, as in `P0@1`")?;
            self.expect_or("@", || {
                format!("say on which node `{0}` runs: `{0}@1`", name.text)
            })?;
            let node = self.number()?;
            columns.push(Column { name, node });
            if !self.eat("|") {
                self.expect(";", "the line of threads ends with `;`")?;
                return Ok(columns);
            }
        }
    }

    /// Reads the name of thread `index` in the line of threads.
    pub(crate) fn thread(&mut self, index: usize, what: &str) -> Step<Name> {
        let name = self.name(what)?;
        if name.text.strip_prefix('P') != Some(index.to_string().as_str()) {
            let message = format!("expected thread `P{index}`, found `{}`", name.text);
            return Err(Diagnostic::new(Kind::Syntax, name.span, message)
                .help("threads are named P0, P1, .. from left to right"));
        }
        if index >= THREADS_MAX {
            let message = format!("more threads than THREADS_MAX ({THREADS_MAX})");
            return Err(Diagnostic::new(Kind::LimitExceeded, name.span, message));
        }
        Ok(name)
    }

    /// Reads a row, whose cells `stmt` reads. A mistake in a cell is kept for later and the next cell is read.
    ///
    /// # Errors
    ///
    /// Returns a mistake outside the cells, or one too many inside them.
    pub fn row<S>(&mut self, columns: usize, mut stmt: impl FnMut(&mut Parser) -> Step<S>) -> Step<Row<S>> {
        let start = self.span();
        let mut cells = Vec::new();
        let mut broken = false;
        loop {
            if self.is("|") || self.is(";") {
                cells.push(None);
            } else {
                match self.cell(&mut stmt) {
                    Ok(stmt) => cells.push(Some(stmt)),
                    Err(diagnostic) => {
                        if self.errors.len() + 1 >= ERRORS_MAX || diagnostic.kind == Kind::LimitExceeded {
                            return Err(diagnostic);
                        }
                        self.errors.push(diagnostic);
                        self.recover();
                        cells.push(None);
                        broken = true;
                    }
                }
            }
            if !self.eat("|") {
                break;
            }
        }
        let span = self.span_from(&start);
        if broken && self.at_final_part() {
            return Ok(Row { cells }); // The missing end is part of what was reported.
        }
        self.expect(";", "a row ends with `;`")?;
        if cells.len() != columns && !broken {
            let message = format!(
                "this row has {}, but there {}",
                cells_of(cells.len()),
                threads_of(columns)
            );
            self.errors.push(
                Diagnostic::new(Kind::RowLength, span, message)
                    .help("separate cells with `|`; an empty cell stands for no instruction"),
            );
        }
        Ok(Row { cells })
    }

    /// Reads a statement that must be followed by `|` or `;`.
    fn cell<S>(&mut self, stmt: &mut impl FnMut(&mut Parser) -> Step<S>) -> Step<S> {
        self.begin_nesting();
        let stmt = stmt(self)?;
        if self.is("|") || self.is(";") {
            return Ok(stmt);
        }
        Err(self.unexpected("`|` or `;` after the instruction"))
    }

    /// Skips to the end of the cell.
    fn recover(&mut self) {
        self.begin_nesting();
        let mut braces = 0usize;
        loop {
            match self.peek() {
                Token::End => return,
                Token::Symbol("{") => braces += 1,
                Token::Symbol("}") => braces = braces.saturating_sub(1),
                Token::Symbol("|" | ";") if braces == 0 => return,
                _ if braces == 0 && self.at_final_part() => return,
                _ => {}
            }
            self.skip();
        }
    }

    /// Reads a block in braces, whose statements `stmt` reads.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn block<S>(&mut self, stmt: fn(&mut Parser) -> Step<S>) -> Step<Vec<S>> {
        self.expect("{", "a block stands in braces: `{ a := x; b := y }`")?;
        self.enter()?;
        let mut block = Vec::new();
        while !self.eat("}") {
            if self.eat(";") {
                continue;
            }
            block.push(stmt(self)?);
            if !self.is("}") {
                self.expect(";", "instructions in a block are separated by `;`")?;
            }
        }
        self.leave();
        Ok(block)
    }

    /// Counts one more instruction of the text.
    ///
    /// # Errors
    ///
    /// Fails when there are too many.
    pub fn count_instruction(&mut self) -> Step<()> {
        self.instructions += 1;
        if self.instructions > INSTRUCTIONS_MAX {
            let message = format!("more instructions than INSTRUCTIONS_MAX ({INSTRUCTIONS_MAX})");
            return Err(Diagnostic::new(Kind::LimitExceeded, self.span(), message));
        }
        Ok(())
    }
}

fn cells_of(n: usize) -> String {
    if n == 1 {
        "1 cell".to_owned()
    } else {
        format!("{n} cells")
    }
}

fn threads_of(n: usize) -> String {
    if n == 1 {
        "is 1 thread".to_owned()
    } else {
        format!("are {n} threads")
    }
}
