//! Exact robustness under a model file (`docs/models.md`): every execution that satisfies its axioms is sequentially consistent.
//!
//! The conditions are theorems about the models of Robust'25 and say nothing about a file, so only the exact question is asked. The
//! search is [`cat::weak_execution`]. Built-in models outside [`super::MODELS`] are asked about by their files.

use super::{Exact, Verdict, Weak};
use crate::cat::{self, ModelFile, NotApplicable};
use crate::explain;
use crate::model::RmwAtomicity;
use crate::outcome::Budget;
use crate::program::Program;

/// The answer about a program under a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByFile {
    /// The exact answer.
    pub exact: Exact,
    /// Whether no execution at all satisfies the axioms, so that the answer says nothing.
    pub is_vacuous: bool,
}

impl ByFile {
    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        match &self.exact {
            Exact::Robust if self.is_vacuous => Verdict::Vacuous,
            Exact::Robust => Verdict::Exhaustively,
            Exact::NotRobust(_) => Verdict::NotRobust,
            Exact::Unknown(limit) => Verdict::Unknown(limit.clone()),
        }
    }
}

/// Decides robustness under a model file.
///
/// # Errors
/// Fails if the program does not meet a requirement of the file.
pub fn by_file(
    program: &Program,
    model: &ModelFile,
    rmw: RmwAtomicity,
    budget: &Budget<'_>,
) -> Result<ByFile, NotApplicable> {
    let found = cat::weak_execution(program, model, rmw, budget)?;
    let (exact, is_vacuous) = match found {
        Err(limit) => (Exact::Unknown(limit), false),
        Ok(Some(execution)) => {
            let Some(cycle) = explain::shortest_cycle(&execution, &cat::strong(model, rmw)) else {
                unreachable!("the search returns executions with a cycle");
            };
            (Exact::NotRobust(Box::new(Weak { execution, cycle })), false)
        }
        Ok(None) => match cat::witness(program, model, rmw, &|_| true, budget)? {
            Ok(witness) => (Exact::Robust, witness.is_none()),
            // The search for a weak execution was complete, so a limit leaves open only whether there is any execution.
            Err(limit) => (Exact::Unknown(limit), false),
        },
    };
    Ok(ByFile { exact, is_vacuous })
}
