//! The whole answer about a program: the conditions, the exact search where they fail, and the verdict that follows.

use std::fmt;

use serde::Serialize;

use super::{Conditions, Exact, Finding, Question, Theorem, conditions, exact};
use crate::litmus::Property;
use crate::outcome::{Budget, Limit};
use crate::program::Program;

/// Result of the analysis of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The conditions.
    pub conditions: Conditions,
    /// The exact answer, if it was asked for and the conditions do not already imply robustness.
    pub exact: Option<Exact>,
}

/// The verdict about a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Robust, because the conditions hold.
    Robust(Theorem),
    /// Robust: every consistent execution was accounted for. The conditions alone do not show it.
    Exhaustively,
    /// Not robust.
    NotRobust,
    /// The conditions fail and the exact search was not asked for.
    NotShown,
    /// A limit was reached.
    Unknown(Limit),
    /// No way through the program reaches its end, so there is nothing to ask.
    Vacuous,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Robust(Theorem::Corollary1) => "robust by Cor. 1",
            Verdict::Robust(Theorem::Theorem5) => "robust by Thm. 5",
            Verdict::Exhaustively => "robust, exhaustively",
            Verdict::NotRobust => "not robust",
            Verdict::NotShown => "not shown",
            Verdict::Unknown(_) => "unknown",
            Verdict::Vacuous => "vacuous",
        })
    }
}

/// Decides the conditions and, if `exactly` and they do not imply robustness, searches.
pub fn ask(program: &Program, question: &Question, exactly: bool, budget: &Budget<'_>) -> Answer {
    let conditions = conditions(program, question, budget);
    let search = exactly && conditions.theorem().is_none() && !conditions.is_vacuous();
    Answer {
        exact: search.then(|| exact(program, question.model, question.rmw, budget)),
        conditions,
    }
}

impl Answer {
    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        if self.conditions.is_vacuous() {
            return Verdict::Vacuous;
        }
        if let Some(theorem) = self.conditions.theorem() {
            return Verdict::Robust(theorem);
        }
        match &self.exact {
            Some(Exact::Robust) => Verdict::Exhaustively,
            Some(Exact::NotRobust(_)) => Verdict::NotRobust,
            Some(Exact::Unknown(limit)) => Verdict::Unknown(limit.clone()),
            None => {
                let Conditions {
                    ldrf,
                    fenced,
                    tree_fenced,
                    ..
                } = &self.conditions;
                // A limit leaves the verdict open only if no condition that a theorem needs is known to fail.
                match (ldrf, fenced, tree_fenced) {
                    (Finding::Fails(_), ..) | (_, Finding::Fails(_), Finding::Fails(_)) => Verdict::NotShown,
                    (Finding::Unknown(limit), ..)
                    | (_, Finding::Unknown(limit), _)
                    | (_, _, Finding::Unknown(limit)) => Verdict::Unknown(limit.clone()),
                    _ => Verdict::NotShown,
                }
            }
        }
    }

    /// Returns whether the program has a property. Returns `None` if that was not found out, or if the program has no
    /// pre-execution: then no statement about it is right.
    pub fn has(&self, property: Property) -> Option<bool> {
        if self.conditions.is_vacuous() {
            return None;
        }
        let finding = match property {
            Property::Robust => {
                return match self.verdict() {
                    Verdict::Robust(_) | Verdict::Exhaustively => Some(true),
                    Verdict::NotRobust => Some(false),
                    Verdict::NotShown | Verdict::Unknown(_) | Verdict::Vacuous => None,
                };
            }
            Property::Ldrf => &self.conditions.ldrf,
            Property::Fenced => &self.conditions.fenced,
            Property::TreeFenced => &self.conditions.tree_fenced,
        };
        match finding {
            Finding::Holds => Some(true),
            Finding::Fails(_) => Some(false),
            Finding::Unknown(_) => None,
        }
    }
}
