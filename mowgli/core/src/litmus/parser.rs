//! The grammar of tests of RDMA: recursive descent from tokens to [`ast::File`](super::ast::File).
//!
//! [`crate::syntax`] reads all around the instructions. A mistake inside a cell is reported and the parser goes on with the next cell; a
//! mistake elsewhere ends it.

use super::ast::{CasArgs, File, Place, Rhs, Stmt, StmtKind, SwapArgs};
use crate::syntax::{self, Diagnostic, Expr, Kind, Name, Parser, Span, Step, Token, nearest};

/// Names that start an instruction or a right-hand side: what an unknown instruction is compared with.
const INSTRUCTIONS: [&str; 16] = [
    "mfence", "poll", "rfence", "wait", "assume", "cas", "swap", "rcas", "rfaa", "rswap", "send", "recv",
    "pollrecv", "if", "while", "choose",
];

/// Parses a litmus test. Errors found in cells are all returned.
pub(super) fn parse(source: &str) -> Result<File, Vec<Diagnostic>> {
    syntax::parse_dialect(source, "RDMA", Parser::file)
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

    fn stmt(&mut self) -> Step<Stmt> {
        let start = self.span();
        self.count_instruction()?;
        // Names may be called so, too.
        let mut request = |asked: &str| {
            let is_next = matches!((self.peek(), self.peek_at(1)), (Token::Name(word), Token::Name(_)) if word == asked);
            if is_next {
                self.skip();
            }
            is_next
        };
        let strong = request("strong");
        let unsignaled = request("unsignaled");
        let immediate = self.immediate()?;
        let Token::Name(word) = self.peek().clone() else {
            return Err(self.unexpected("an instruction"));
        };
        let kind = match (word.as_str(), self.peek_at(1)) {
            ("mfence", _) => {
                self.skip();
                StmtKind::Mfence
            }
            ("poll", _) => StmtKind::Poll(self.call(Parser::number)?),
            ("rfence", _) => StmtKind::Rfence(self.call(Parser::number)?),
            ("wait", _) => StmtKind::Wait(self.call(|p| p.new_name("a work identifier"))?),
            ("assume", _) => StmtKind::Assume(self.call(Parser::expr)?),
            ("swap", Token::Symbol("(")) => StmtKind::Swap(self.call(Parser::swap_args)?),
            ("send", Token::Symbol("(")) => self.call(|p| {
                let node = p.number()?;
                let data = if p.eat(",") { Some(p.right_side()?) } else { None };
                Ok(StmtKind::Send { node, data })
            })?,
            ("recv", Token::Symbol("(")) => self.call(|p| {
                let from = p.new_name("the thread that sends")?;
                let buffer = if p.eat(",") {
                    Some(p.new_name("a location")?)
                } else {
                    None
                };
                Ok(StmtKind::Recv { from, buffer })
            })?,
            ("pollrecv", Token::Symbol("(")) => {
                StmtKind::PollRecv(self.call(|p| p.new_name("the thread that sends"))?)
            }
            ("cas", Token::Symbol("(")) => StmtKind::Cas(self.call(Parser::cas_args)?),
            ("rcas" | "rfaa" | "rswap", Token::Symbol("(")) => {
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
                self.skip();
                let mut blocks = vec![self.block(Parser::stmt)?];
                while self.eat_word("or") {
                    blocks.push(self.block(Parser::stmt)?);
                }
                StmtKind::Choose(blocks)
            }
            (_, Token::Symbol(":=" | "^")) => self.assign()?,
            (_, Token::Symbol(",")) => self.words(&start, strong, unsignaled, immediate.clone())?,
            _ => return Err(unknown_instruction(&word, start)),
        };
        Ok(Stmt {
            kind,
            strong,
            unsignaled,
            immediate,
            span: self.span_from(&start),
        })
    }

    /// Reads `imm` or `imm(e)` before a put or a send.
    fn immediate(&mut self) -> Step<Option<Expr>> {
        match (self.peek(), self.peek_at(1)) {
            (Token::Name(word), Token::Name(_)) if word == "imm" => {
                self.skip();
                Ok(Some(Expr::Const(0)))
            }
            (Token::Name(word), Token::Symbol("(")) if word == "imm" => Ok(Some(self.call(Parser::expr)?)),
            _ => Ok(None),
        }
    }

    /// Reads a put of several words. Each word is an instruction, and all but the last have no completion.
    fn words(
        &mut self,
        start: &Span,
        strong: bool,
        unsignaled: bool,
        immediate: Option<Expr>,
    ) -> Step<StmtKind> {
        let mut names = vec![self.new_name("a location")?];
        while self.eat(",") {
            names.push(self.new_name("a location")?);
        }
        self.expect("^", "a put of several words names one node: `x, y^2 := a, b`")?;
        let node = self.number()?;
        self.expect(":=", "a put of several words is `x, y^2 := a, b`")?;
        let work = self.work_identifier()?;
        let mut data = Vec::new();
        while data.is_empty() || self.eat(",") {
            data.push(self.right_side()?);
        }
        if strong {
            let message = "`strong` is for a put of one word";
            return Err(
                Diagnostic::new(Kind::WrongOperand, self.span_from(start), message)
                    .help("write a put for each word, and `strong` before those that ask for it"),
            );
        }
        if names.len() != data.len() {
            let message = format!("{} words are put into {} locations", data.len(), names.len());
            return Err(
                Diagnostic::new(Kind::WrongOperand, self.span_from(start), message)
                    .help("write as many sources as destinations"),
            );
        }
        let last = names.len() - 1;
        let mut words = Vec::with_capacity(names.len());
        for (at, (name, rhs)) in names.into_iter().zip(data).enumerate() {
            if at > 0 {
                self.count_instruction()?;
            }
            let dst = Place {
                name,
                node: Some(node.clone()),
            };
            let work = work.clone();
            words.push(Stmt {
                kind: StmtKind::Assign { dst, work, rhs },
                strong: false,
                unsignaled: unsignaled || at < last,
                immediate: immediate.clone().filter(|_| at == last),
                span: self.span_from(start),
            });
        }
        Ok(StmtKind::Words(words))
    }

    fn assign(&mut self) -> Step<StmtKind> {
        let dst = self.place()?;
        self.expect(":=", "an assignment is `dst := src`")?;
        let work = self.work_identifier()?;
        let rhs = self.right_side()?;
        Ok(StmtKind::Assign { dst, work, rhs })
    }

    fn work_identifier(&mut self) -> Step<Option<Name>> {
        if !self.eat("[") {
            return Ok(None);
        }
        let work = self.new_name("a work identifier")?;
        self.expect("]", "a work identifier stands in brackets: `x^2 :=[d] y`")?;
        Ok(Some(work))
    }

    fn right_side(&mut self) -> Step<Rhs> {
        Ok(match (self.peek().clone(), self.peek_at(1)) {
            (Token::Name(_), Token::Symbol("^")) => Rhs::Remote(self.place()?),
            (Token::Name(word), Token::Symbol("(")) => match word.as_str() {
                "inline" => Rhs::Inline(self.call(Parser::expr)?),
                "cas" => Rhs::Cas(self.call(Parser::cas_args)?),
                "swap" => Rhs::Swap(self.call(Parser::swap_args)?),
                "pollrecv" => Rhs::PollRecv(self.call(|p| p.new_name("the thread that sends"))?),
                "rcas" => Rhs::Rcas(self.call(Parser::cas_args)?),
                "rswap" => Rhs::Rswap(self.call(Parser::swap_args)?),
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
        })
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

    fn swap_args(&mut self) -> Step<SwapArgs> {
        let target = self.place()?;
        self.expect(",", "an exchange takes a location and the new value")?;
        Ok(SwapArgs {
            target,
            new: self.expr()?,
        })
    }

    fn place(&mut self) -> Step<Place> {
        let name = self.new_name("a location")?;
        let node = if self.eat("^") { Some(self.number()?) } else { None };
        Ok(Place { name, node })
    }
}

fn unknown_instruction(word: &str, span: Span) -> Diagnostic {
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
