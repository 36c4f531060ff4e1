//! The grammar of tests of RDMA: recursive descent from tokens to [`ast::File`](super::ast::File).
//!
//! [`crate::syntax`] reads all around the instructions. A mistake inside a cell is reported and the parser goes on with the next cell; a
//! mistake elsewhere ends it.

use super::ast::{CasArgs, File, Place, Rhs, Stmt, StmtKind};
use crate::syntax::{self, Diagnostic, Kind, Parser, Span, Step, Token, nearest};

/// Names that start an instruction or a right-hand side: what an unknown instruction is compared with.
const INSTRUCTIONS: [&str; 11] = [
    "mfence", "poll", "rfence", "wait", "assume", "cas", "rcas", "rfaa", "if", "while", "choose",
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
        let strong =
            matches!((self.peek(), self.peek_at(1)), (Token::Name(word), Token::Name(_)) if word == "strong");
        if strong {
            self.skip();
        }
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
                self.skip();
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
            span: self.span_from(&start),
        })
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
