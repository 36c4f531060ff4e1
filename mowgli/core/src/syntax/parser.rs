//! The cursor over the tokens of a text: looks at the next token, takes it, and says what should stand there.
//!
//! A language's grammar is functions over a [`Parser`]. What the grammars share is in the modules beside this one.

use super::diagnostic::{Diagnostic, Kind};
use super::language::Language;
use super::lexer::{self, Spanned, Token};
use super::source::Span;
use super::tree::{Name, Number};
use crate::program::Value;

/// Result of one step.
pub type Step<T> = Result<T, Diagnostic>;

/// Position in the tokens of a text, and the mistakes that did not stop the reading.
#[derive(Debug)]
pub struct Parser {
    language: &'static Language,
    /// Ends with [`Token::End`].
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
    /// Number of instructions so far.
    pub(super) instructions: usize,
    /// Mistakes put aside.
    pub(super) errors: Vec<Diagnostic>,
}

impl Parser {
    /// Splits a text from byte `start` on.
    pub(super) fn new(language: &'static Language, text: &str, start: usize) -> Step<Parser> {
        lexer::check_length(language, text)?;
        Ok(Parser {
            language,
            tokens: lexer::tokens(language, text, start)?,
            at: 0,
            depth: 0,
            instructions: 0,
            errors: Vec::new(),
        })
    }

    /// Reads a whole text of a language without header.
    ///
    /// # Errors
    ///
    /// The first mistake.
    pub(crate) fn read<T>(
        language: &'static Language,
        text: &str,
        grammar: impl FnOnce(&mut Parser) -> Step<T>,
    ) -> Step<T> {
        grammar(&mut Parser::new(language, text, lexer::start(text))?)
    }

    /// Goes on behind the next token.
    pub(crate) fn skip(&mut self) {
        self.at += 1;
    }

    /// Returns whether the word is no name in the language.
    pub(crate) fn is_keyword(&self, word: &str) -> bool {
        self.language.keywords.iter().any(|list| list.contains(&word))
    }

    /// Returns whether the next token is the keyword or name.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if found == word)
    }

    /// Forgets the nesting so far, where a new cell begins.
    pub(super) fn begin_nesting(&mut self) {
        self.depth = 0;
    }

    /// Reads `word ( inner )`.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn call<T>(&mut self, inner: impl FnOnce(&mut Parser) -> Step<T>) -> Step<T> {
        let word = self.peek().describe();
        self.skip();
        self.expect("(", &format!("{word} takes its operand in parentheses"))?;
        let value = inner(self)?;
        self.expect(")", "close the parenthesis")?;
        Ok(value)
    }

    /// Counts one more level of nesting.
    ///
    /// # Errors
    ///
    /// Fails when there are too many.
    pub fn enter(&mut self) -> Step<()> {
        self.depth += 1;
        let max = self.language.limits.nesting;
        if self.depth > max {
            let message = format!("nested deeper than NESTING_MAX ({max})");
            return Err(Diagnostic::new(Kind::LimitExceeded, self.span(), message));
        }
        Ok(())
    }

    /// Undoes [`Parser::enter`].
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Reads a name that is not a keyword.
    ///
    /// # Errors
    ///
    /// Fails when something else stands here.
    pub fn new_name(&mut self, what: &str) -> Step<Name> {
        let name = self.name(what)?;
        if self.is_keyword(&name.text) {
            let message = format!("expected {what}, found the keyword `{}`", name.text);
            return Err(Diagnostic::new(Kind::Syntax, name.span, message).help("choose another name"));
        }
        Ok(name)
    }

    /// Reads a name, which may be a keyword. `what` says what it is the name of.
    ///
    /// # Errors
    ///
    /// Fails when something else stands here.
    pub fn name(&mut self, what: &str) -> Step<Name> {
        match self.peek().clone() {
            Token::Name(text) => {
                let span = self.span();
                self.at += 1;
                Ok(Name { text, span })
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// Reads a number without a sign.
    ///
    /// # Errors
    ///
    /// Fails when something else stands here.
    pub fn number(&mut self) -> Step<Number> {
        match self.peek() {
            Token::Number(_) => self.signed(),
            _ => Err(self.unexpected("a number")),
        }
    }

    /// Reads a number, perhaps with a sign.
    ///
    /// # Errors
    ///
    /// Fails when something else stands here, or the number does not fit in 64 bits.
    pub fn signed(&mut self) -> Step<Number> {
        let start = self.span().start;
        let sign = if self.eat("-") { "-" } else { "" };
        let Token::Number(digits) = self.peek() else {
            return Err(self.unexpected("a number"));
        };
        let text = format!("{sign}{digits}");
        let span = start..self.span().end;
        self.at += 1;
        match value_of(&text) {
            Some(value) => Ok(Number { value, span }),
            None => Err(Diagnostic::new(
                Kind::OutOfRange,
                span,
                format!("`{text}` does not fit in 64 bits"),
            )),
        }
    }

    /// Reads a number, perhaps with a sign, and returns its value, as litmus tests have them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Parser::signed`].
    pub fn signed_value(&mut self) -> Step<Value> {
        Ok(self.signed()?.value)
    }

    /// Returns the place of all that was read since the token that began at `start`.
    pub fn span_from(&self, start: &Span) -> Span {
        start.start..self.tokens[self.at.saturating_sub(1)].span.end.max(start.start)
    }

    /// Returns whether the symbol is next.
    pub fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(s) if *s == symbol)
    }

    /// Takes the symbol if it is next.
    pub fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    /// Takes the word if it is next.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    /// Takes the symbol; `help` says what would be right.
    ///
    /// # Errors
    ///
    /// Fails when something else stands here.
    pub fn expect(&mut self, symbol: &str, help: &str) -> Step<()> {
        self.expect_or(symbol, || help.to_owned())
    }

    /// Does what [`expect`](Self::expect) does, with a help that is only made if the symbol is missing.
    ///
    /// # Errors
    ///
    /// Fails if another token stands here.
    pub fn expect_or(&mut self, symbol: &str, help: impl FnOnce() -> String) -> Step<()> {
        if self.eat(symbol) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{symbol}`")).help(help()))
    }

    /// Returns the diagnostic for a token that is not what was `wanted`.
    pub fn unexpected(&self, wanted: &str) -> Diagnostic {
        let message = format!("expected {wanted}, found {}", self.peek().describe());
        Diagnostic::new(Kind::Syntax, self.span(), message)
    }

    /// Returns the next token.
    pub fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// Returns the token `ahead` of the current one; the last one is [`Token::End`] and is never passed.
    pub fn peek_at(&self, ahead: usize) -> &Token {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)].token
    }

    /// Returns the place of the next token.
    pub fn span(&self) -> Span {
        self.tokens[self.at.min(self.tokens.len() - 1)].span.clone()
    }
}

/// Reads a number, perhaps with a sign: decimal, or hexadecimal after `0x`. Hexadecimal digits may fill all 64 bits, the sign included.
/// Returns nothing for a text that is no number of 64 bits.
fn value_of(text: &str) -> Option<Value> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let Some(hexadecimal) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) else {
        return text.parse().ok();
    };
    let is_digits = hexadecimal.bytes().all(|b| b.is_ascii_hexdigit());
    let value = is_digits.then(|| u64::from_str_radix(hexadecimal, 16).ok())??;
    Some(value.cast_signed().wrapping_mul(sign))
}
