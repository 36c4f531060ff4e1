//! Recursive descent from tokens to [`ast::File`](super::ast::File).
//!
//! A mistake inside a cell is reported and the parser goes on with the next cell; a mistake elsewhere ends it.

use super::ast::{CasArgs, Column, File, Formula, Init, Observed, Place, Query, Rhs, Row, Stmt, StmtKind};
use super::diagnostic::{Diagnostic, Kind, Span};
use super::lexer::{self, Spanned, Token};
use super::limits::{ERRORS_MAX, INSTRUCTIONS_MAX, SOURCE_BYTES_MAX, THREADS_MAX};
use super::suggest::nearest;

/// Result of one step.
pub type Step<T> = Result<T, Diagnostic>;

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

/// Names that start an instruction or a right-hand side: what an unknown instruction is compared with.
const INSTRUCTIONS: [&str; 11] = [
    "mfence", "poll", "rfence", "wait", "assume", "cas", "rcas", "rfaa", "if", "while", "choose",
];

/// Parses a litmus test. Errors found in cells are all returned.
pub(super) fn parse(source: &str) -> Result<File, Vec<Diagnostic>> {
    parse_with(source, Parser::file)
}

/// Parses a text whose first line is `RDMA NAME`. `file` reads all that follows and is given the name.
///
/// # Errors
///
/// Returns every mistake found: those that [`Parser::row`] put aside, then the one that ended the reading.
pub fn parse_with<T>(
    source: &str,
    file: impl FnOnce(&mut Parser, String) -> Step<T>,
) -> Result<T, Vec<Diagnostic>> {
    parse_dialect(source, "RDMA", file)
}

/// Parses a text whose first line is `DIALECT NAME`, otherwise like [`parse_with`].
///
/// # Errors
///
/// Returns the errors of [`parse_with`].
pub fn parse_dialect<T>(
    source: &str,
    dialect: &str,
    file: impl FnOnce(&mut Parser, String) -> Step<T>,
) -> Result<T, Vec<Diagnostic>> {
    if source.len() > SOURCE_BYTES_MAX {
        // The message does not say how long the text is: whoever reads a file stops at the limit.
        let message = format!("the text is longer than SOURCE_BYTES_MAX, which is {SOURCE_BYTES_MAX} bytes");
        return Err(vec![Diagnostic::new(Kind::LimitExceeded, 0..0, message)]);
    }
    let (name, _, start) = lexer::header(source, dialect).map_err(|d| vec![d])?;
    let tokens = lexer::tokens(source, start).map_err(|d| vec![d])?;
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        instructions: 0,
        errors: Vec::new(),
    };
    match file(&mut parser, name) {
        Ok(file) if parser.errors.is_empty() => Ok(file),
        Ok(_) => Err(parser.errors),
        Err(last) => {
            parser.errors.push(last);
            Err(parser.errors)
        }
    }
}

/// The part of a text after its rows.
#[derive(Clone, Debug)]
pub struct FinalPart {
    /// The locations and registers that `locations [..]` lists.
    pub observed: Vec<Observed>,
    /// The formula after `filter`, to which the conditions are restricted.
    pub filter: Option<Formula>,
    /// The conditions.
    pub queries: Vec<Query>,
}

/// Reads the part after the rows of a text in another language. It starts at byte `start`.
///
/// # Errors
///
/// Returns the first mistake.
pub fn parse_final_part(source: &str, start: usize) -> Step<FinalPart> {
    let mut parser = Parser {
        tokens: lexer::tokens(source, start)?,
        at: 0,
        depth: 0,
        instructions: 0,
        errors: Vec::new(),
    };
    let found = FinalPart {
        observed: parser.observed_list()?,
        filter: parser.filter()?,
        queries: parser.queries(Parser::signed_value)?,
    };
    match parser.peek() {
        Token::End => Ok(found),
        _ => Err(parser.unexpected("the end of the text")),
    }
}

/// Position in the tokens, and the errors that did not stop it.
#[derive(Debug)]
pub struct Parser {
    pub(super) tokens: Vec<Spanned>,
    pub(super) at: usize,
    pub(super) depth: usize,
    instructions: usize,
    errors: Vec<Diagnostic>,
}

impl Parser {
    fn file(&mut self, name: String) -> Step<File> {
        let description = self.description();
        let init = self.init_with(true)?;
        let columns = self.columns()?;
        let mut rows = Vec::new();
        while !self.at_final_part() {
            rows.push(self.row(columns.len(), Parser::stmt)?);
        }
        let observed = self.observed_list()?;
        let over = |p: &Parser| *p.peek() == Token::End || p.at_statement();
        let queries = self.queries_until(Parser::signed_value, over)?;
        let statements = self.statements()?;
        Ok(File {
            name,
            description,
            init,
            columns,
            rows,
            observed,
            queries,
            statements,
        })
    }

    /// Returns the quoted text after the header, if there is one.
    pub fn description(&mut self) -> Option<String> {
        let Token::Text(text) = self.peek() else {
            return None;
        };
        let text = text.clone();
        self.at += 1;
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
    fn init_with(&mut self, regions: bool) -> Step<Vec<Init>> {
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
                self.at += usize::from(relaxed);
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
            let name = self.name("a thread, as in `P0@1`")?;
            let index = columns.len();
            if name.text.strip_prefix('P') != Some(index.to_string().as_str()) {
                let message = format!("expected thread `P{index}`, found `{}`", name.text);
                return Err(Diagnostic::new(Kind::Syntax, name.span, message)
                    .help("threads are named P0, P1, .. from left to right"));
            }
            self.expect_or("@", || {
                format!("say on which node `{0}` runs: `{0}@1`", name.text)
            })?;
            let node = self.number()?;
            if columns.len() == THREADS_MAX {
                let message = format!("more threads than THREADS_MAX ({THREADS_MAX})");
                return Err(Diagnostic::new(Kind::LimitExceeded, name.span, message));
            }
            columns.push(Column { name, node });
            if !self.eat("|") {
                self.expect(";", "the line of threads ends with `;`")?;
                return Ok(columns);
            }
        }
    }

    /// Reads a row, whose cells `stmt` reads. A mistake in a cell is kept for later and the next cell is read.
    ///
    /// # Errors
    ///
    /// Returns a mistake outside the cells, or one too many inside them.
    pub fn row<S>(&mut self, columns: usize, stmt: fn(&mut Parser) -> Step<S>) -> Step<Row<S>> {
        let start = self.span().start;
        let mut cells = Vec::new();
        let mut broken = false;
        loop {
            if self.is("|") || self.is(";") {
                cells.push(None);
            } else {
                match self.cell(stmt) {
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
        let span = start..self.tokens[self.at.saturating_sub(1)].span.end.max(start);
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
    fn cell<S>(&mut self, stmt: fn(&mut Parser) -> Step<S>) -> Step<S> {
        self.depth = 0;
        let stmt = stmt(self)?;
        if self.is("|") || self.is(";") {
            return Ok(stmt);
        }
        Err(self.unexpected("`|` or `;` after the instruction"))
    }

    /// Skips to the end of the cell.
    fn recover(&mut self) {
        self.depth = 0;
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
            self.at += 1;
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
        self.depth -= 1;
        Ok(block)
    }

    fn stmt(&mut self) -> Step<Stmt> {
        let start = self.span();
        self.count_instruction()?;
        let strong =
            matches!((self.peek(), self.peek_at(1)), (Token::Name(word), Token::Name(_)) if word == "strong");
        self.at += usize::from(strong);
        let Token::Name(word) = self.peek().clone() else {
            return Err(self.unexpected("an instruction"));
        };
        let kind = match (word.as_str(), self.peek_at(1)) {
            ("mfence", _) => {
                self.at += 1;
                StmtKind::Mfence
            }
            ("poll", _) => StmtKind::Poll(self.call(Parser::number)?),
            ("rfence", _) => StmtKind::Rfence(self.call(Parser::number)?),
            ("wait", _) => StmtKind::Wait(self.call(|p| p.new_name("a work identifier"))?),
            ("assume", _) => StmtKind::Assume(self.call(Parser::expr)?),
            ("cas", Token::Symbol("(")) => StmtKind::Cas(self.call(Parser::cas_args)?),
            ("rcas" | "rfaa", Token::Symbol("(")) => {
                let message = format!("`{word}` needs a local location for the old value");
                return Err(Diagnostic::new(Kind::WrongOperand, start, message)
                    .help(format!("write `v := {word}(x^2, ..)` with `v` in the init block")));
            }
            ("if", _) => {
                let cond = self.call(Parser::expr)?;
                let then = self.block(Parser::stmt)?;
                let otherwise = if self.eat_word("else") {
                    self.block(Parser::stmt)?
                } else {
                    Vec::new()
                };
                StmtKind::If {
                    cond,
                    then,
                    otherwise,
                }
            }
            ("while", _) => {
                let cond = self.call(Parser::expr)?;
                if !self.eat_word("bound") {
                    return Err(self.unexpected("`bound`").help(
                        "a loop states its largest number of iterations: `while (r == 0) bound 3 { .. }`",
                    ));
                }
                let bound = self.number()?;
                StmtKind::While {
                    cond,
                    bound,
                    body: self.block(Parser::stmt)?,
                }
            }
            ("choose", _) => {
                self.at += 1;
                let mut blocks = vec![self.block(Parser::stmt)?];
                while self.eat_word("or") {
                    blocks.push(self.block(Parser::stmt)?);
                }
                StmtKind::Choose(blocks)
            }
            (_, Token::Symbol(":=" | "^")) => self.assign()?,
            _ => return Err(unknown_instruction(&word, start)),
        };
        Ok(Stmt {
            kind,
            strong,
            span: start.start..self.tokens[self.at - 1].span.end,
        })
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

    fn assign(&mut self) -> Step<StmtKind> {
        let dst = self.place()?;
        self.expect(":=", "an assignment is `dst := src`")?;
        let work = if self.eat("[") {
            let work = self.new_name("a work identifier")?;
            self.expect("]", "a work identifier stands in brackets: `x^2 :=[d] y`")?;
            Some(work)
        } else {
            None
        };
        let rhs = match (self.peek().clone(), self.peek_at(1)) {
            (Token::Name(_), Token::Symbol("^")) => Rhs::Remote(self.place()?),
            (Token::Name(word), Token::Symbol("(")) => match word.as_str() {
                "inline" => Rhs::Inline(self.call(Parser::expr)?),
                "cas" => Rhs::Cas(self.call(Parser::cas_args)?),
                "rcas" => Rhs::Rcas(self.call(Parser::cas_args)?),
                "rfaa" => {
                    let (target, add) = self.call(|p| {
                        let target = p.place()?;
                        p.expect(",", "`rfaa(x^2, e)` takes a remote location and an addend")?;
                        Ok((target, p.expr()?))
                    })?;
                    Rhs::Rfaa { target, add }
                }
                _ => return Err(unknown_instruction(&word, self.span())),
            },
            _ => Rhs::Expr(self.expr()?),
        };
        Ok(StmtKind::Assign { dst, work, rhs })
    }

    fn cas_args(&mut self) -> Step<CasArgs> {
        let usage = "a compare-and-swap takes a location, the expected and the new value";
        let target = self.place()?;
        self.expect(",", usage)?;
        let expected = self.expr()?;
        self.expect(",", usage)?;
        Ok(CasArgs {
            target,
            expected,
            new: self.expr()?,
        })
    }

    fn place(&mut self) -> Step<Place> {
        let name = self.new_name("a location")?;
        let node = if self.eat("^") { Some(self.number()?) } else { None };
        Ok(Place { name, node })
    }
}

pub(super) fn unknown_instruction(word: &str, span: Span) -> Diagnostic {
    let diagnostic = Diagnostic::new(
        Kind::UnknownInstruction,
        span,
        format!("unknown instruction `{word}`"),
    );
    match nearest(word, INSTRUCTIONS) {
        Some(known) => diagnostic.help(format!("did you mean `{known}`?")),
        None => diagnostic.help(format!(
            "instructions are assignments and {}",
            INSTRUCTIONS.join(", ")
        )),
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
