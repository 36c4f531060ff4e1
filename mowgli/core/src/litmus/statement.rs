//! Statements about robustness, which stand at the end of a file: `robust [rdma-sc;]`, `~ldrf [rdma-tso;]`.
//!
//! A statement is about the program and not about a condition. `mowgli robust` and the catalogue's tests compare it with what
//! [`crate::robust`] finds.

use serde::{Deserialize, Serialize};

use super::ast;
use super::property::Property;
use crate::condition::Setting;
use crate::model::Model;
use crate::syntax::{Diagnostic, Kind, Parser, Span, Step, Token};

/// A statement of a test: whether its program has a property under a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Statement {
    /// The property.
    pub property: Property,
    /// The model.
    pub setting: Setting,
    /// True if the program has it; written `~` if not.
    pub holds: bool,
}

/// Prints statements, one line for each property and answer.
pub(super) fn print(statements: &[Statement]) -> String {
    let mut out = String::new();
    for property in Property::ALL {
        for holds in [true, false] {
            let settings: Vec<String> = statements
                .iter()
                .filter(|s| (s.property, s.holds) == (property, holds))
                .map(|s| format!("{};", s.setting))
                .collect();
            if !settings.is_empty() {
                let not = if holds { "" } else { "~" };
                out.push_str(&format!("{not}{property} [{}]\n", settings.join(" ")));
            }
        }
    }
    match out.is_empty() {
        true => out,
        false => format!("\n{out}"),
    }
}

impl Parser {
    /// Returns whether a statement is next.
    pub(super) fn at_statement(&self) -> bool {
        let word = match self.peek() {
            Token::Symbol("~") => self.peek_at(1),
            token => token,
        };
        matches!(word, Token::Name(w) if ["robust", "ldrf", "fenced", "tree"].contains(&w.as_str()))
    }

    /// Reads the statements up to the end of the text.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub(super) fn statements(&mut self) -> Step<Vec<ast::Statement>> {
        let mut statements = Vec::new();
        while *self.peek() != Token::End {
            let holds = !self.eat("~");
            let property = self.property()?;
            self.expect(
                "[",
                &format!("models stand in brackets: `{property} [rdma-tso;]`"),
            )?;
            while !self.eat("]") {
                let setting = self.setting()?;
                statements.push(ast::Statement {
                    property,
                    holds,
                    setting,
                });
                if !self.is("]") {
                    self.expect(";", "entries of the list end with `;`")?;
                }
            }
        }
        Ok(statements)
    }

    fn property(&mut self) -> Step<Property> {
        // `tree-fenced` is three tokens.
        if self.eat_word("tree") {
            let help = "the property is called `tree-fenced`";
            self.expect("-", help)?;
            return match self.eat_word("fenced") {
                true => Ok(Property::TreeFenced),
                false => Err(self.unexpected("`fenced`").help(help)),
            };
        }
        let words = [Property::Robust, Property::Ldrf, Property::Fenced];
        let found = words.into_iter().find(|p| self.eat_word(p.keyword()));
        found.ok_or_else(|| {
            self.unexpected("`robust`, `ldrf`, `fenced` or `tree-fenced`")
                .help("statements about robustness come last, after every condition")
        })
    }
}

/// Checks that the statements speak of models that have them, and do not contradict each other. Returns them sorted.
pub(super) fn checked(
    statements: Vec<(Statement, Span)>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Statement> {
    let mut out: Vec<Statement> = Vec::new();
    for (statement, span) in statements {
        let Statement {
            property, setting, ..
        } = statement;
        // The conditions are about the papers' network; whether a program is robust can be asked of any.
        let asked = match property {
            Property::Robust => setting.model.base(),
            _ => setting.model,
        };
        if !Model::ROBUSTNESS.contains(&asked) {
            let message = format!("robustness is not defined for `{setting}`");
            let models = Model::ROBUSTNESS.map(|m| m.name()).join("`, `");
            diagnostics.push(
                Diagnostic::new(Kind::BadExpectation, span, message).help(format!("it is for `{models}`")),
            );
            continue;
        }
        let known = out
            .iter()
            .find(|s| (s.property, s.setting) == (property, setting));
        match known {
            Some(known) if known.holds != statement.holds => {
                let message = format!("`{property}` is stated and denied for `{setting}`");
                diagnostics.push(Diagnostic::new(Kind::BadExpectation, span, message));
            }
            Some(_) => {}
            None => out.push(statement),
        }
    }
    out.sort_unstable();
    out
}
