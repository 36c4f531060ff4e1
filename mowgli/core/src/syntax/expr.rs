//! Expressions over registers.

use super::diagnostic::{Diagnostic, Kind};
use super::lexer::Token;
use super::parser::{Parser, Step};
use super::tree::Expr;
use crate::program::{BinaryOp, UnaryOp};

impl Parser {
    /// Reads an expression. The operators bind from loose to tight: `||`, `&&`, comparisons, `+ -`, `*`, unary.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn expr(&mut self) -> Step<Expr> {
        self.binary(0)
    }

    fn binary(&mut self, level: usize) -> Step<Expr> {
        const LEVELS: [&[(&str, BinaryOp)]; 5] = [
            &[("||", BinaryOp::Or)],
            &[("&&", BinaryOp::And)],
            &[
                ("==", BinaryOp::Eq),
                ("!=", BinaryOp::Ne),
                ("<=", BinaryOp::Le),
                (">=", BinaryOp::Ge),
                ("<", BinaryOp::Lt),
                (">", BinaryOp::Gt),
            ],
            &[("+", BinaryOp::Add), ("-", BinaryOp::Sub)],
            &[("*", BinaryOp::Mul)],
        ];
        let Some(ops) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut levels = 0;
        let mut left = self.binary(level + 1)?;
        loop {
            if level == 2 && self.is("=") {
                return Err(self
                    .unexpected("an operator")
                    .help("equality in expressions is `==`"));
            }
            let Some(&(symbol, op)) = ops.iter().find(|(symbol, _)| self.is(symbol)) else {
                (0..levels).for_each(|_| self.leave());
                return Ok(left);
            };
            self.expect(symbol, "")?;
            self.enter()?;
            levels += 1;
            left = Expr::Binary(op, Box::new(left), Box::new(self.binary(level + 1)?));
        }
    }

    fn unary(&mut self) -> Step<Expr> {
        self.enter()?;
        let expr = match (self.peek().clone(), self.peek_at(1)) {
            (Token::Symbol("-"), Token::Number(_)) | (Token::Number(_), _) => {
                Expr::Const(self.signed()?.value)
            }
            (Token::Symbol("-"), _) => {
                self.expect("-", "")?;
                Expr::Unary(UnaryOp::Neg, Box::new(self.unary()?))
            }
            (Token::Symbol("!"), _) => {
                self.expect("!", "")?;
                Expr::Unary(UnaryOp::Not, Box::new(self.unary()?))
            }
            (Token::Symbol("("), _) => {
                self.expect("(", "")?;
                let inner = self.expr()?;
                self.expect(")", "close the parenthesis")?;
                inner
            }
            (Token::Name(_), Token::Symbol("^")) => {
                return Err(Diagnostic::new(
                    Kind::WrongOperand,
                    self.span(),
                    "a remote location cannot stand inside an expression",
                )
                .help("get it into a local location first: `v := x^2`"));
            }
            (Token::Name(word), Token::Symbol("(")) => {
                let message = format!("`{word}(..)` cannot stand inside an expression");
                return Err(Diagnostic::new(Kind::Syntax, self.span(), message)
                    .help("assign its result in the row before, and use that here"));
            }
            (Token::Name(_), _) => Expr::Name(self.new_name("a register")?),
            _ => return Err(self.unexpected("an expression")),
        };
        self.leave();
        Ok(expr)
    }
}
