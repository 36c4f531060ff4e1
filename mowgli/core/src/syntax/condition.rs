//! Conditions, and what stands around them at the end of a test: `locations [..]`, `filter`, verdicts. One grammar for every dialect of
//! litmus tests and for herd7's.

use super::diagnostic::{Diagnostic, Kind};
use super::lexer::Token;
use super::limits::{ATOMS_MAX, QUERIES_MAX};
use super::parser::{Parser, Step};
use super::tree::{Formula, Name, Number, Observed, Query};
use crate::condition::{Quantifier, Relation, Verdict};

impl Parser {
    /// Returns whether the rows are over.
    pub fn at_final_part(&self) -> bool {
        match self.peek() {
            Token::End | Token::Symbol("~") => true,
            Token::Name(w) if w == "not" => *self.peek_at(1) == Token::Name("exists".to_owned()),
            Token::Name(w) => {
                matches!(
                    w.as_str(),
                    "exists" | "forall" | "locations" | "allowed" | "forbidden" | "required"
                )
            }
            _ => false,
        }
    }

    /// Reads `locations [x; 0:r;]`, if present.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn observed_list(&mut self) -> Step<Vec<Observed>> {
        let mut out = Vec::new();
        if !self.eat_word("locations") {
            return Ok(out);
        }
        self.expect("[", "the list stands in brackets: `locations [x; 0:r;]`")?;
        while !self.eat("]") {
            out.push(self.observed()?);
            if !self.is("]") {
                self.expect(";", "entries of the list end with `;`")?;
            }
        }
        Ok(out)
    }

    /// Reads conditions, each followed by its expected verdicts.
    ///
    /// `value` reads the right-hand side of an atom, [`Parser::signed_value`] in litmus tests.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn queries<V>(&mut self, value: fn(&mut Parser) -> Step<V>) -> Step<Vec<Query<V>>> {
        self.queries_until(value, |p| *p.peek() == Token::End)
    }

    /// Reads conditions as [`Parser::queries`] does, until `over` after one of them.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub(crate) fn queries_until<V>(
        &mut self,
        value: fn(&mut Parser) -> Step<V>,
        over: fn(&Parser) -> bool,
    ) -> Step<Vec<Query<V>>> {
        let mut queries = Vec::new();
        loop {
            if over(self) && !queries.is_empty() {
                return Ok(queries);
            }
            let span = self.span();
            let negated = self.eat_not();
            let quantifier = match (negated, self.eat_word("exists")) {
                (false, true) => Quantifier::Exists,
                (true, true) => Quantifier::NotExists,
                (true, false) => return Err(self.unexpected("`exists` after `~`")),
                (false, false) if self.eat_word("forall") => Quantifier::Forall,
                (false, false) => {
                    let diagnostic = self.unexpected("a final condition (`exists`, `~exists` or `forall`)");
                    return Err(match self.peek() {
                        Token::Name(w) if ["allowed", "forbidden", "required"].contains(&w.as_str()) => {
                            Diagnostic {
                                kind: Kind::BadExpectation,
                                ..diagnostic
                            }
                            .help("a verdict follows the condition that it speaks of")
                        }
                        _ => diagnostic.help("`exists (true)` lists every state"),
                    });
                }
            };
            if queries.len() == QUERIES_MAX {
                let message = format!("more final conditions than QUERIES_MAX ({QUERIES_MAX})");
                return Err(Diagnostic::new(Kind::LimitExceeded, span, message));
            }
            let mut atoms = 0;
            let formula = self.or(&mut atoms, value)?;
            let mut expected = Vec::new();
            while let Some(verdict) = Verdict::ALL.into_iter().find(|v| self.eat_word(v.keyword())) {
                self.expect("[", &format!("models stand in brackets: `{verdict} [rdma-tso;]`"))?;
                while !self.eat("]") {
                    expected.push((verdict, self.setting()?));
                    if !self.is("]") {
                        self.expect(";", "entries of the list end with `;`")?;
                    }
                }
            }
            queries.push(Query {
                quantifier,
                formula,
                expected,
            });
        }
    }

    /// Reads a model's name, which is tokens without space between them: `rdma-tso+ooo-rw/glob`.
    pub(crate) fn setting(&mut self) -> Step<Name> {
        let mut name = self.name("a model")?;
        while self.span().start == name.span.end
            && let Some(symbol) = ["-", "/", "+"].into_iter().find(|symbol| self.is(symbol))
        {
            self.expect(symbol, "")?;
            name.text.push_str(symbol);
            if self.span().start != name.span.end + 1 {
                return Err(self.unexpected("the rest of the model's name"));
            }
            let rest = self.name("the rest of the model's name")?;
            name.text.push_str(&rest.text);
            name.span.end = rest.span.end;
        }
        Ok(name)
    }

    fn or<V>(&mut self, atoms: &mut usize, value: fn(&mut Parser) -> Step<V>) -> Step<Formula<V>> {
        let mut parts = vec![self.and(atoms, value)?];
        while self.eat("\\/") {
            parts.push(self.and(atoms, value)?);
        }
        Ok(single_or(parts, Formula::Or))
    }

    fn and<V>(&mut self, atoms: &mut usize, value: fn(&mut Parser) -> Step<V>) -> Step<Formula<V>> {
        let mut parts = vec![self.not(atoms, value)?];
        while self.eat("/\\") {
            parts.push(self.not(atoms, value)?);
        }
        Ok(single_or(parts, Formula::And))
    }

    /// Reads a formula that is meant as `exists`.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub(crate) fn exists_formula(&mut self) -> Step<Query> {
        Ok(Query {
            quantifier: Quantifier::Exists,
            formula: self.or(&mut 0, Parser::signed_value)?,
            expected: Vec::new(),
        })
    }

    /// Reads `filter`, a formula to which a test of herd7 restricts its question, if present.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn filter(&mut self) -> Step<Option<Formula>> {
        match self.eat_word("filter") {
            true => self.or(&mut 0, Parser::signed_value).map(Some),
            false => Ok(None),
        }
    }

    /// Takes `~`, or `not` as herd7 also writes it. A location may be called `not`.
    fn eat_not(&mut self) -> bool {
        let compares = |t: &Token| matches!(t, Token::Symbol("=" | "!=" | "<>"));
        self.eat("~") || !compares(self.peek_at(1)) && self.eat_word("not")
    }

    fn not<V>(&mut self, atoms: &mut usize, value: fn(&mut Parser) -> Step<V>) -> Step<Formula<V>> {
        self.enter()?;
        let formula = if self.eat_not() {
            Formula::Not(Box::new(self.not(atoms, value)?))
        } else if self.eat("(") {
            let inner = self.or(atoms, value)?;
            self.expect(
                ")",
                "close the parenthesis; conditions combine with `/\\`, `\\/` and `~`",
            )?;
            inner
        } else if self.eat_word("true") {
            Formula::Const(true)
        } else if self.eat_word("false") {
            Formula::Const(false)
        } else {
            *atoms += 1;
            if *atoms > ATOMS_MAX {
                let message = format!("more atoms in a condition than ATOMS_MAX ({ATOMS_MAX})");
                return Err(Diagnostic::new(Kind::LimitExceeded, self.span(), message));
            }
            let operand = self.observed()?;
            let relation = if self.eat("=") {
                Relation::Eq
            } else if self.eat("!=") || self.eat("<>") {
                Relation::Ne
            } else {
                return Err(self.unexpected("`=` or `!=`").help("an atom is `0:r=1` or `x=1`"));
            };
            Formula::Atom(operand, relation, value(self)?)
        };
        self.leave();
        Ok(formula)
    }

    /// Reads the thread before a register, `0:` or `P0:`, if it stands here.
    pub(crate) fn thread_prefix(&mut self) -> Step<Option<Number>> {
        let thread = match self.peek() {
            Token::Number(_) => self.number()?,
            Token::Name(word) if *self.peek_at(1) == Token::Symbol(":") => {
                let digits = word.strip_prefix('P');
                let Some(value) = digits.and_then(|digits| digits.parse().ok()) else {
                    return Ok(None);
                };
                let span = self.span();
                self.skip();
                Number { value, span }
            }
            _ => return Ok(None),
        };
        self.expect(":", "a register of thread 0 is written `0:r`")?;
        Ok(Some(thread))
    }

    /// Reads `x`, `[x]`, `0:r` or `P0:r`.
    fn observed(&mut self) -> Step<Observed> {
        if self.eat("[") {
            let name = self.new_name("a location")?;
            self.expect("]", "a location may stand in brackets: `[x]=1`")?;
            return Ok(Observed { thread: None, name });
        }
        let thread = self.thread_prefix()?;
        if thread.is_none() && !matches!(self.peek(), Token::Name(_)) {
            return Err(self.unexpected("a location or a register (`x` or `0:r`)"));
        }
        Ok(Observed {
            thread,
            name: self.new_name("a location or a register")?,
        })
    }
}

fn single_or<V>(mut parts: Vec<Formula<V>>, many: fn(Vec<Formula<V>>) -> Formula<V>) -> Formula<V> {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            many(parts)
        }
    }
}
