//! The grammar of model files: from tokens to the syntax tree.
//!
//! Operators bind as in herd7, from loosest to tightest: `|`, `;`, `\`, `&`, `*` (product), `~`, postfix. A `*` is a product if an
//! operand can start after it, else the closure.

use std::sync::Arc;

use super::ast::{Binary, Binding, Check, Expr, ExprKind, File, Item, Test, Unary};
use super::diagnostic::{Diagnostic, Kind, Source};
use super::lexer::{Spanned, Token, tokens};
use super::limits::NESTING_MAX;
use crate::litmus::Span;
use crate::litmus::syntax::nearest;

/// Words that are no names.
pub(super) const KEYWORDS: [&str; 11] = [
    "let",
    "rec",
    "and",
    "as",
    "include",
    "show",
    "requires",
    "acyclic",
    "irreflexive",
    "empty",
    "in",
];

/// Keywords of herd7's language without a meaning here.
const FOREIGN: [&str; 21] = [
    "flag",
    "unshow",
    "procedure",
    "call",
    "match",
    "with",
    "from",
    "forall",
    "do",
    "end",
    "fun",
    "try",
    "if",
    "then",
    "else",
    "enum",
    "instructions",
    "default",
    "debug",
    "begin",
    "undefined_unless",
];

/// Parses a file. Stops at the first error.
pub(super) fn parse(source: &Arc<Source>) -> Result<File, Diagnostic> {
    let mut parser = Parser {
        source,
        tokens: tokens(source)?,
        at: 0,
        depth: 0,
    };
    parser.file()
}

struct Parser<'s> {
    source: &'s Arc<Source>,
    /// Ends with [`Token::End`].
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn file(&mut self) -> Result<File, Diagnostic> {
        let mut file = File::default();
        // herd7 allows names, a quoted text, or both.
        if let Token::Name(name) = self.peek()
            && !is_reserved(name)
        {
            // A slip in the first keyword is more likely than a title that looks like it.
            if let (Some(near), false) = (nearest(name, KEYWORDS), self.next_is_item(1)) {
                let near = near.to_owned();
                return Err(self
                    .expected("a statement")
                    .help(format!("did you mean `{near}`?")));
            }
            let mut title = name.clone();
            self.at += 1;
            while let Token::Name(name) = self.peek()
                && !is_reserved(name)
            {
                title.push(' ');
                title.push_str(name);
                self.at += 1;
            }
            file.title = Some(title);
        }
        if let Token::Text(text) = self.peek() {
            file.title = Some(text.clone());
            self.at += 1;
        }
        while *self.peek() != Token::End {
            self.item(&mut file.items)?;
        }
        Ok(file)
    }

    /// Returns whether a statement or a title starts after so many tokens, or the file ends there.
    fn next_is_item(&self, ahead: usize) -> bool {
        match self.tokens.get(self.at + ahead).map(|t| &t.token) {
            Some(Token::Name(name)) => KEYWORDS.contains(&name.as_str()),
            Some(Token::Text(_) | Token::End) | None => true,
            Some(Token::Symbol(_)) => false,
        }
    }

    fn item(&mut self, items: &mut Vec<Item>) -> Result<(), Diagnostic> {
        if self.starts_negated_test(0) {
            let check = self.check()?;
            items.push(Item::Check(check));
            return Ok(());
        }
        let Token::Name(word) = self.peek().clone() else {
            return Err(self.expected("a statement").help(STATEMENTS));
        };
        match word.as_str() {
            "let" => {
                self.at += 1;
                let recursive = self.accept_word("rec");
                let mut bindings = vec![self.binding()?];
                while self.accept_word("and") {
                    bindings.push(self.binding()?);
                }
                if self.is_word("in") {
                    return Err(self.unsupported("in"));
                }
                items.push(Item::Let { recursive, bindings });
            }
            "include" => {
                self.at += 1;
                let span = self.span();
                let Token::Text(path) = self.peek().clone() else {
                    return Err(self
                        .expected("a quoted file name")
                        .help("as in `include \"rdma-tso.cat\"`"));
                };
                self.at += 1;
                items.push(Item::Include { path, span });
            }
            "show" => {
                self.at += 1;
                loop {
                    let expr = self.expr()?;
                    let name = match (&expr.kind, self.accept_word("as")) {
                        (_, true) => self.name("a name")?.0,
                        (ExprKind::Name(name), false) => name.clone(),
                        _ => return Err(self.expected("`as` and a name")),
                    };
                    items.push(Item::Show { expr, name });
                    if !self.accept(",") {
                        break;
                    }
                }
            }
            "requires" | "acyclic" | "irreflexive" | "empty" => {
                let check = self.check()?;
                items.push(Item::Check(check));
            }
            word if FOREIGN.contains(&word) => return Err(self.unsupported(word)),
            word => {
                let found = self.expected("a statement");
                return Err(match nearest(word, KEYWORDS) {
                    Some(near) => found.help(format!("did you mean `{near}`?")),
                    None => found.help(STATEMENTS),
                });
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Check, Diagnostic> {
        let start = self.span().start;
        let requires = self.accept_word("requires");
        let negated = self.accept("~");
        let test = [Test::Acyclic, Test::Irreflexive, Test::Empty]
            .into_iter()
            .find(|t| self.is_word(t.keyword()));
        let Some(test) = test else {
            return Err(self.expected("`acyclic`, `irreflexive` or `empty`"));
        };
        self.at += 1;
        let expr = self.expr()?;
        let span = start..expr.span.end;
        let name = match self.accept_word("as") {
            true => Some(self.name("the axiom's name")?.0),
            false => None,
        };
        Ok(Check {
            requires,
            negated,
            test,
            expr,
            name,
            span,
        })
    }

    fn binding(&mut self) -> Result<Binding, Diagnostic> {
        let (name, span) = self.name("a name to define")?;
        let params = if self.accept("(") {
            let mut params = Vec::new();
            while !self.accept(")") {
                if !params.is_empty() {
                    self.expect(",")?;
                }
                params.push(self.name("a parameter")?);
            }
            Some(params)
        } else if matches!(self.peek(), Token::Name(_)) {
            Some(vec![self.name("a parameter")?])
        } else {
            None
        };
        self.expect("=")?;
        let body = self.expr()?;
        Ok(Binding {
            name,
            span,
            params,
            body,
        })
    }

    fn expr(&mut self) -> Result<Expr, Diagnostic> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            let message = format!("expressions nest deeper than NESTING_MAX ({NESTING_MAX})");
            return Err(Diagnostic::new(
                Kind::LimitExceeded,
                self.source,
                self.span(),
                message,
            ));
        }
        let expr = self.level(0);
        self.depth -= 1;
        expr
    }

    /// Parses operands of the operators from this level of [`Binary::LEVELS`] on.
    fn level(&mut self, level: usize) -> Result<Expr, Diagnostic> {
        let Some(&op) = Binary::LEVELS.get(level) else {
            return self.product();
        };
        let mut operands = vec![self.level(level + 1)?];
        while self.accept(op.symbol()) {
            operands.push(self.level(level + 1)?);
        }
        if *self.peek() == Token::Symbol("++") {
            return Err(self.unsupported("++"));
        }
        Ok(chain(op, operands))
    }

    fn product(&mut self) -> Result<Expr, Diagnostic> {
        let mut operands = vec![self.prefix()?];
        while *self.peek() == Token::Symbol("*") {
            self.at += 1;
            operands.push(self.prefix()?);
        }
        Ok(chain(Binary::Product, operands))
    }

    fn prefix(&mut self) -> Result<Expr, Diagnostic> {
        let start = self.span().start;
        if !self.accept("~") {
            return self.postfix();
        }
        self.depth += 1;
        if self.depth > NESTING_MAX {
            let message = format!("expressions nest deeper than NESTING_MAX ({NESTING_MAX})");
            return Err(Diagnostic::new(
                Kind::LimitExceeded,
                self.source,
                self.span(),
                message,
            ));
        }
        let inner = self.prefix()?;
        self.depth -= 1;
        Ok(Expr {
            span: start..inner.span.end,
            kind: ExprKind::Unary(Unary::Complement, Box::new(inner)),
        })
    }

    fn postfix(&mut self) -> Result<Expr, Diagnostic> {
        let mut expr = self.primary()?;
        let mut count = 0;
        loop {
            let op = match self.peek() {
                Token::Symbol("+" | "^+") => Unary::Plus,
                Token::Symbol("?" | "^?") => Unary::Optional,
                Token::Symbol("^-1") => Unary::Inverse,
                Token::Symbol("^*") => Unary::Star,
                Token::Symbol("*") if !self.starts_operand(1) => Unary::Star,
                _ => return Ok(expr),
            };
            count += 1;
            if count > NESTING_MAX {
                let message = format!("more than NESTING_MAX ({NESTING_MAX}) postfix operators");
                return Err(Diagnostic::new(
                    Kind::LimitExceeded,
                    self.source,
                    self.span(),
                    message,
                ));
            }
            let end = self.span().end;
            self.at += 1;
            expr = Expr {
                span: expr.span.start..end,
                kind: ExprKind::Unary(op, Box::new(expr)),
            };
        }
    }

    fn primary(&mut self) -> Result<Expr, Diagnostic> {
        let span = self.span();
        let simple = |kind| Expr {
            kind,
            span: span.clone(),
        };
        match self.peek().clone() {
            Token::Name(name) if !is_reserved(&name) => {
                self.at += 1;
                if !self.starts_simple() {
                    return Ok(simple(ExprKind::Name(name)));
                }
                let args = self.arguments()?;
                Ok(Expr {
                    span: span.start..self.tokens[self.at - 1].span.end,
                    kind: ExprKind::Call {
                        name,
                        name_span: span,
                        args,
                    },
                })
            }
            Token::Name(name) if FOREIGN.contains(&name.as_str()) => Err(self.unsupported(&name)),
            Token::Symbol("0") => {
                self.at += 1;
                Ok(simple(ExprKind::Zero))
            }
            Token::Symbol("_") => {
                self.at += 1;
                Ok(simple(ExprKind::Everything))
            }
            Token::Symbol("{") => {
                self.at += 1;
                self.expect("}")?;
                Ok(Expr {
                    kind: ExprKind::Nothing,
                    span: span.start..self.tokens[self.at - 1].span.end,
                })
            }
            Token::Symbol(open @ ("(" | "[")) => {
                self.at += 1;
                let inner = self.expr()?;
                self.expect(if open == "(" { ")" } else { "]" })?;
                let span = span.start..self.tokens[self.at - 1].span.end;
                Ok(match open {
                    "(" => Expr {
                        span,
                        kind: inner.kind,
                    },
                    _ => Expr {
                        span,
                        kind: ExprKind::Identity(Box::new(inner)),
                    },
                })
            }
            _ => Err(self.expected("a set or a relation")),
        }
    }

    /// Parses `(a, b)` or one simple operand.
    fn arguments(&mut self) -> Result<Vec<Expr>, Diagnostic> {
        if !self.accept("(") {
            let span = self.span();
            if let Token::Name(name) = self.peek().clone() {
                self.at += 1;
                return Ok(vec![Expr {
                    kind: ExprKind::Name(name),
                    span,
                }]);
            }
            return Ok(vec![self.primary()?]);
        }
        let mut args = Vec::new();
        while !self.accept(")") {
            if !args.is_empty() {
                self.expect(",")?;
            }
            args.push(self.expr()?);
        }
        Ok(args)
    }

    /// Returns whether an operand without prefix starts here.
    fn starts_simple(&self) -> bool {
        match self.peek() {
            Token::Name(name) => !is_reserved(name),
            Token::Symbol(s) => matches!(*s, "(" | "[" | "{" | "_" | "0"),
            _ => false,
        }
    }

    /// Returns whether an operand starts after so many tokens.
    fn starts_operand(&self, ahead: usize) -> bool {
        match self.tokens.get(self.at + ahead).map(|t| &t.token) {
            Some(Token::Name(name)) => !is_reserved(name),
            Some(Token::Symbol("~")) => !self.starts_negated_test(ahead),
            Some(Token::Symbol(s)) => matches!(*s, "(" | "[" | "{" | "_" | "0"),
            _ => false,
        }
    }

    /// Returns whether an axiom such as `~empty r` starts after so many tokens.
    fn starts_negated_test(&self, ahead: usize) -> bool {
        let token = |at: usize| self.tokens.get(self.at + at).map(|t| &t.token);
        let is_test = |word: &str| {
            [Test::Acyclic, Test::Irreflexive, Test::Empty]
                .iter()
                .any(|t| t.keyword() == word)
        };
        token(ahead) == Some(&Token::Symbol("~"))
            && matches!(token(ahead + 1), Some(Token::Name(word)) if is_test(word))
    }

    fn name(&mut self, what: &str) -> Result<(String, Span), Diagnostic> {
        match self.peek() {
            Token::Name(name) if !is_reserved(name) => {
                let found = (name.clone(), self.span());
                self.at += 1;
                Ok(found)
            }
            Token::Name(name) => {
                let help = format!("`{name}` is a keyword");
                Err(self.expected(what).help(help))
            }
            _ => Err(self.expected(what)),
        }
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span.clone()
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(s) if *s == symbol);
        self.at += usize::from(found);
        found
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(w) if w == word)
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Diagnostic> {
        match self.accept(symbol) {
            true => Ok(()),
            false => Err(self.expected(&format!("`{symbol}`"))),
        }
    }

    fn expected(&self, what: &str) -> Diagnostic {
        let found = self.peek().describe();
        let message = format!("expected {what}, found {found}");
        Diagnostic::new(Kind::Syntax, self.source, self.span(), message)
    }

    fn unsupported(&self, word: &str) -> Diagnostic {
        let message = format!("`{word}` is part of herd7's language and not of this one");
        let help = match word {
            "flag" => {
                "a flag rules no execution out: remove the statement, or drop the word if it is to be an axiom"
            }
            "undefined_unless" => "`requires` limits a model to programs with a property",
            "in" => "define the name in a `let` of its own",
            "with" | "from" => "`co` and the other orders are predefined here",
            "procedure" | "call" => "state the axioms one by one",
            "++" => "there are no sets of sets here",
            _ => "docs/models.md lists the statements",
        };
        Diagnostic::new(Kind::Unsupported, self.source, self.span(), message).help(help)
    }
}

const STATEMENTS: &str =
    "statements are `let`, `acyclic`, `irreflexive`, `empty`, `requires`, `include` and `show`";

fn is_reserved(name: &str) -> bool {
    KEYWORDS.contains(&name) || FOREIGN.contains(&name)
}

/// Groups operands; one operand stays itself.
fn chain(op: Binary, mut operands: Vec<Expr>) -> Expr {
    match (operands.len(), operands.pop()) {
        (1, Some(only)) => only,
        (_, Some(last)) => {
            operands.push(last);
            let span = operands[0].span.start..operands[operands.len() - 1].span.end;
            Expr {
                kind: ExprKind::Chain(op, operands),
                span,
            }
        }
        (_, None) => unreachable!("a level has an operand"),
    }
}
