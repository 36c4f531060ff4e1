//! Mending: the cheapest fences and polls that make a program robust.
//!
//! [`mend`] asks for the conditions: it finds the pairs of events that Defs. 7 and 8 want in guaranteed-before and adds what puts them
//! there, thread by thread (`by_conditions`). [`mend_exactly`] searches sets of additions in order of cost for one that makes the
//! program robust by [`exact`] (`exactly`), beginning with the answer of the conditions. [`mend_on_tier`] adds what a network that orders
//! less needs. `edit` says what can be added and
//! applies it, `mark` prints the result. Used by `mowgli robust --fix` and by tests.
//!
//! Polls complete operations in order, so one more poll makes every later poll of the queue pair complete a later operation, and can
//! leave the last one with nothing. A poll that then finds nothing on any way through its thread is taken out again: the poll has moved up.
//! Every operation is then polled where it was or earlier. A get without polls of its own takes an existing poll, which can remove order;
//! [`mend`] adds one where the conditions hold nevertheless, [`mend_exactly`] adds none.
//! RDMA^WAIT has no polls: operations without a work identifier get one, and waits for it are added. Waits take nothing from each other.

mod by_conditions;
mod cost;
mod edit;
mod exactly;
mod mark;
mod requests;
mod work_ids;

use serde::Serialize;

pub use cost::{BadCost, Costs};
pub use edit::{Addition, Change, ChangeKind, Edits, Place};
pub use mark::{litmus, print};
pub use requests::{Requested, mend_on_tier};

use edit::Bench;

use super::{Conditions, Exact, MODELS, Question, conditions, exact};
use crate::model::Model;
use crate::outcome::{Budget, Limit};
use crate::program::Program;

/// A mended program.
#[derive(Clone, Debug)]
pub struct Mended {
    /// The program with its additions.
    pub program: Program,
    /// Additions and moves, in the order of the program.
    pub changes: Vec<Change>,
    /// The sum of the costs of the changes.
    pub cost: u64,
    /// Whether the cost was proved minimal.
    pub minimal: Minimal,
    bench: Bench,
    costs: Costs,
    edits: Edits,
}

impl Mended {
    fn new(bench: Bench, costs: &Costs, edits: Edits, minimal: Minimal) -> Mended {
        let (program, cost) = bench.program(&edits, costs);
        Mended {
            changes: bench.changes(&program, &edits, costs),
            program,
            cost,
            minimal,
            bench,
            costs: *costs,
            edits,
        }
    }
}

/// Whether the cost of a mended program was proved minimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Minimal {
    /// No cheaper set of fences, polls and gets before instructions meets the conditions. For [`mend_exactly`]: no cheaper set makes the
    /// program robust in which each get is followed by the polls that reach it.
    Proved,
    /// A limit ended the search, or a mended thread has branches, of which not every place is tried. A cheaper set may exist.
    NotProved,
}

/// Why a program could not be mended.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmended {
    /// The conditions are about other models.
    #[error("mending is for rdma-sc, rdma-tso and rdma-wait, not for {0}")]
    Model(Model),
    /// Requests for strong order are not enough on the tier.
    #[error(
        "not robust under {0} although every operation asks for strong order: wait for the completion of gets before what depends on \
         their order"
    )]
    Tier(Model),
    /// A limit was reached first.
    #[error("{0}")]
    Limit(Limit),
    /// No addition puts these two in order.
    #[error(
        "nothing that can be added to {thread} puts the instructions at {earlier:?} and {later:?} in order"
    )]
    Stuck {
        /// The thread's name.
        thread: String,
        /// The place of the earlier instruction.
        earlier: Vec<u16>,
        /// The place of the later instruction.
        later: Vec<u16>,
    },
    /// Two parts of one instruction can be seen out of order: the writes of a remote read-modify-write whose destination is public.
    #[error(
        "the instruction at {place:?} of {thread} can be seen half done: let no other thread access where its result goes"
    )]
    Halves {
        /// The thread's name.
        thread: String,
        /// The place of the instruction.
        place: Vec<u16>,
    },
    /// The program has no execution, so there is nothing to put in order.
    #[error(
        "the program has no execution: every way through it polls what is not there or fails an assumption"
    )]
    Vacuous,
}

crate::debug_as_display!(Unmended);

/// Adds the cheapest set of fences and polls after which the program meets local data-race freedom and *fenced* (Theorem 5). Takes
/// polynomial time for threads without branches that need few gets. Tree-fenced programs are fenced, so nothing cheaper would do for Corollary 1.
///
/// # Errors
/// Returns why the program cannot be mended.
pub fn mend(
    program: &Program,
    question: &Question,
    costs: &Costs,
    budget: &Budget<'_>,
) -> Result<Mended, Unmended> {
    check(program, question)?;
    by_conditions::mend(program, question, costs, budget)
}

/// Adds the cheapest set after which every consistent execution is sequentially consistent. Starts from the answer of [`mend`], and
/// returns that if the search ends at a limit.
///
/// # Errors
/// Returns why the program cannot be mended.
pub fn mend_exactly(
    program: &Program,
    question: &Question,
    costs: &Costs,
    budget: &Budget<'_>,
) -> Result<Mended, Unmended> {
    check(program, question)?;
    let known = by_conditions::mend(program, question, costs, budget)?;
    exactly::mend(known, question, costs, budget)
}

fn check(program: &Program, question: &Question) -> Result<(), Unmended> {
    if let Some(limit) = super::without_messages(program) {
        return Err(Unmended::Limit(limit));
    }
    match MODELS.contains(&question.model) {
        true => Ok(()),
        false => Err(Unmended::Model(question.model)),
    }
}

/// Answers of the two tests about a mended program.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The conditions.
    pub conditions: Conditions,
    /// The exact answer, unless a limit ended it.
    pub exact: Exact,
}

impl Mended {
    /// Asks again whether the mended program is robust.
    pub fn verify(&self, question: &Question, budget: &Budget<'_>) -> Verified {
        Verified {
            conditions: conditions(&self.program, question, budget),
            exact: exact(&self.program, question.model, question.rmw, budget),
        }
    }
}

impl Verified {
    /// Returns whether one of the two says that the program is robust and neither says that it is not.
    pub fn is_robust(&self) -> bool {
        match &self.exact {
            Exact::Robust => true,
            Exact::NotRobust(_) => false,
            Exact::Unknown(_) => self.conditions.theorem().is_some(),
        }
    }
}
