//! Decides robustness exactly (Robust'25 Defs. 5 and 11): whether every consistent execution is sequentially
//! consistent. If not, it gives one that is not.
//!
//! The search is [`crate::declarative::weak_execution`], which looks for cycles and not for outcomes. Executions are compared, not
//! outcomes: about half of the programs that are not robust have exactly the outcomes of sequential consistency.

use serde::Serialize;

use crate::declarative;
use crate::event::Execution;
use crate::explain::{self, Cycle};
use crate::model::{Model, RmwAtomicity};
use crate::models::Spec;
use crate::outcome::{Budget, Limit};
use crate::program::Program;

use super::Question;

/// The exact answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "because", rename_all = "kebab-case")]
pub enum Exact {
    /// Every consistent execution is sequentially consistent.
    Robust,
    /// This one is not.
    NotRobust(Box<Weak>),
    /// A limit was reached first.
    Unknown(Limit),
}

/// A consistent execution that is not sequentially consistent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Weak {
    /// The execution, which the model accepts.
    pub execution: Execution,
    /// A shortest cycle of `po ∪ rf ∪ rb ∪ mo` (and `rao`, for remote read-modify-writes).
    pub cycle: Cycle,
}

/// Decides robustness under a model of [`super::MODELS`], over a network of any tier.
pub fn exact(program: &Program, model: Model, rmw: RmwAtomicity, budget: &Budget<'_>) -> Exact {
    let question = Question {
        rmw,
        ..Question::of(model)
    };
    let base = Question::of(model.base());
    if let Some(limit) = base.refusal() {
        return Exact::Unknown(limit);
    }
    match declarative::weak_execution(program, &question.spec(), budget) {
        Err(limit) => Exact::Unknown(limit),
        Ok(None) => Exact::Robust,
        Ok(Some(execution)) => {
            let sc = Spec::of(Model::Sc, rmw);
            let Some(cycle) = explain::shortest_cycle(&execution, &sc) else {
                unreachable!("the search returns executions with a cycle");
            };
            Exact::NotRobust(Box::new(Weak { execution, cycle }))
        }
    }
}
