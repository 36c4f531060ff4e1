//! Robustness: whether a program can behave under an RDMA model as no sequentially consistent memory would (Robust'25).
//!
//! There are two ways to an answer. The *conditions* are read off the program: local data-race freedom ([`ldrf`],
//! Def. 7) with *fenced* ([`fenced`], Def. 8) or with *tree-fenced* ([`tree`], Def. 9) implies robustness (Theorem 5,
//! Corollary 1). They take polynomial time for each pre-execution, and may miss a robust program. The search
//! [`exact`] looks for a consistent execution with a cycle in `po ∪ rf ∪ rb ∪ mo` (Def. 5), and misses none. The
//! conditions rest on guaranteed-before ([`gb`], Def. 6), which is data, as are the figure that reasons quote
//! ([`fig5`]) and the clauses of the conditions ([`clauses`]). Under a model file only the exact question has an
//! answer ([`by_file`]). `docs/robustness.md` is the introduction. Used by `mowgli robust` and by tests.
//!
//! Remote read-modify-writes and `wait` are not in the paper. The extension to them is ours: new rows and columns of the tables
//! (`docs/rmw.md`), and the atomic unit of a node as a location that all its read-modify-writes write.

pub mod clauses;
pub mod fenced;
pub mod fig5;
pub mod fix;
pub mod gb;
pub mod ldrf;
pub mod network;
pub mod reason;
pub mod text;
pub mod trace;
pub mod tree;

mod answer;
mod by_file;
mod exact;

use std::ops::ControlFlow;

use serde::Serialize;

pub use answer::{Answer, Verdict, ask};
pub use by_file::{ByFile, by_file};
pub use exact::{Exact, Weak, exact};
pub use gb::Definition;
pub use network::{Footprint, Network};
pub use reason::{EventRef, Pair, Reason};
pub use trace::{Trace, Traces};

use crate::model::{Model, RmwAtomicity};
use crate::models::Spec;
use crate::outcome::{Budget, Limit};
use crate::program::Program;

/// The models for which robustness is defined.
pub const MODELS: [Model; 3] = Model::ROBUSTNESS;

/// A question about a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The model, one of [`MODELS`].
    pub model: Model,
    /// Atomicity of remote read-modify-writes.
    pub rmw: RmwAtomicity,
    /// Whether an event counts as public only if it conflicts with another thread, one of the two being a write. The paper counts every
    /// access to a location that two threads access. The refinement is ours; Theorem 5 holds with both.
    pub refined: bool,
}

impl Question {
    /// Asks as the paper does, with the default atomicity.
    pub const fn of(model: Model) -> Question {
        Question {
            model,
            rmw: RmwAtomicity::Hca,
            refined: false,
        }
    }

    /// Returns the model's data.
    pub fn spec(&self) -> Spec {
        Spec::of(self.model, self.rmw)
    }

    fn refusal(&self) -> Option<Limit> {
        let text = || format!("robustness is not defined for {}", self.model);
        (!MODELS.contains(&self.model)).then(|| Limit::Undefined(text()))
    }
}

/// The conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Local data-race freedom, Def. 7.
    Ldrf,
    /// Fenced, Def. 8, under TSO Def. 13.
    Fenced,
    /// Tree-fenced, Def. 9, under TSO Def. 14.
    TreeFenced,
}

impl Condition {
    /// Every condition.
    pub const ALL: [Condition; 3] = [Condition::Ldrf, Condition::Fenced, Condition::TreeFenced];

    /// Returns the name that files, options and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Condition::Ldrf => "ldrf",
            Condition::Fenced => "fenced",
            Condition::TreeFenced => "tree-fenced",
        }
    }
}

/// The finding about one condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "because", rename_all = "kebab-case")]
pub enum Finding {
    /// Every pre-execution has it.
    Holds,
    /// Some pre-execution does not, for this reason.
    Fails(Box<Reason>),
    /// A limit was reached before every pre-execution was seen.
    Unknown(Limit),
}

impl Finding {
    /// Returns whether every pre-execution has the condition.
    pub fn holds(&self) -> bool {
        *self == Finding::Holds
    }

    /// Returns the reason for which it fails.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Finding::Fails(reason) => Some(reason),
            _ => None,
        }
    }
}

/// The findings about a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// Local data-race freedom.
    pub ldrf: Finding,
    /// Fenced.
    pub fenced: Finding,
    /// Tree-fenced.
    pub tree_fenced: Finding,
    /// The number of pre-executions, at most `u64::MAX`. If it is 0, every condition holds and says nothing: every way
    /// through the program polls what is not there or fails an assumption.
    pub pre_executions: u64,
}

/// The theorem by which conditions imply robustness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Theorem {
    /// Corollary 1 (under TSO Corollary 3): locally data-race free and tree-fenced.
    Corollary1,
    /// Theorem 5 (under TSO Theorem 17): locally data-race free and fenced.
    Theorem5,
}

impl Conditions {
    /// Returns what was found about one condition.
    pub fn get(&self, condition: Condition) -> &Finding {
        match condition {
            Condition::Ldrf => &self.ldrf,
            Condition::Fenced => &self.fenced,
            Condition::TreeFenced => &self.tree_fenced,
        }
    }

    /// Returns whether the program has no pre-execution at all.
    pub fn is_vacuous(&self) -> bool {
        self.pre_executions == 0 && self.ldrf.holds()
    }

    /// Returns the theorem by which the program is robust: the corollary where it applies, because its conditions are the stricter
    /// ones. `None` if the conditions do not imply robustness.
    pub fn theorem(&self) -> Option<Theorem> {
        match (self.ldrf.holds(), self.tree_fenced.holds(), self.fenced.holds()) {
            (true, true, _) => Some(Theorem::Corollary1),
            (true, false, true) => Some(Theorem::Theorem5),
            _ => None,
        }
    }
}

/// Decides the conditions, each for every pre-execution.
pub fn conditions(program: &Program, question: &Question, budget: &Budget<'_>) -> Conditions {
    if let Some(limit) = question.refusal() {
        return undecided(limit);
    }
    if let Some(limit) = without_messages(program) {
        return undecided(limit);
    }
    conditions_by(program, question, &Definition::of(&question.spec()), budget)
}

/// Refuses a program with messages, for which the conditions are not defined.
pub(crate) fn without_messages(program: &Program) -> Option<Limit> {
    let text = "the conditions for robustness are not defined for messages and receives";
    program.has_messages().then(|| Limit::Undefined(text.to_owned()))
}

/// Decides the conditions by definitions that may have been changed.
pub fn conditions_by(
    program: &Program,
    question: &Question,
    definition: &Definition,
    budget: &Budget<'_>,
) -> Conditions {
    let traces = match Traces::new(program, definition, budget) {
        Ok(traces) => traces,
        Err(limit) => return undecided(limit),
    };
    let mut found: [Option<Reason>; 3] = [None, None, None];
    let result = each_violation(
        program,
        question,
        definition,
        &traces,
        budget,
        |condition, reason| {
            let slot = &mut found[condition as usize];
            slot.get_or_insert(reason);
            match found.iter().all(Option::is_some) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        },
    );
    let rest = match (result, &traces.beyond) {
        (Err(limit), _) => Finding::Unknown(limit),
        (Ok(()), Some(limit)) => Finding::Unknown(limit.clone()),
        (Ok(()), None) => Finding::Holds,
    };
    let [ldrf, fenced, tree_fenced] = found.map(|reason| match reason {
        Some(reason) => Finding::Fails(Box::new(reason)),
        None => rest.clone(),
    });
    Conditions {
        ldrf,
        fenced,
        tree_fenced,
        pre_executions: traces.pre_executions(),
    }
}

fn undecided(limit: Limit) -> Conditions {
    let unknown = Finding::Unknown(limit);
    Conditions {
        ldrf: unknown.clone(),
        fenced: unknown.clone(),
        tree_fenced: unknown,
        pre_executions: 0,
    }
}

/// Calls `found` with every violation of a condition in every pre-execution until it breaks. Violations that several pre-executions share
/// are found once for each combination of [`Footprint`]s.
///
/// # Errors
/// Returns the limit at which the enumeration stopped.
pub fn each_violation(
    program: &Program,
    question: &Question,
    definition: &Definition,
    traces: &Traces,
    budget: &Budget<'_>,
    mut found: impl FnMut(Condition, Reason) -> ControlFlow<()>,
) -> Result<(), Limit> {
    // A program without a pre-execution has nothing to violate.
    if traces.pre_executions() == 0 {
        return Ok(());
    }
    let spec = &definition.spec;
    for trace in traces.threads.iter().flatten() {
        for reason in ldrf::violations(spec, definition.clauses, trace) {
            if found(Condition::Ldrf, reason).is_break() {
                return Ok(());
            }
        }
    }
    let groups: Vec<Vec<(Footprint, Vec<&Trace>)>> = traces
        .threads
        .iter()
        .map(|traces| grouped(program, spec, traces))
        .collect();
    let mut choice = vec![0; groups.len()];
    let mut states = 0;
    loop {
        states += 1;
        if let Some(limit) = budget.exceeded(states) {
            return Err(limit);
        }
        let chosen: Vec<&(Footprint, Vec<&Trace>)> =
            choice.iter().zip(&groups).map(|(&i, group)| &group[i]).collect();
        let footprints: Vec<&Footprint> = chosen.iter().map(|(footprint, _)| footprint).collect();
        let network = Network::new(program, spec, question.refined, definition.clauses, &footprints);
        let shape = tree::shape(&network)
            .into_iter()
            .map(|r| (Condition::TreeFenced, r));
        let each = chosen.iter().flat_map(|(_, traces)| traces).flat_map(|trace| {
            let fenced = fenced::violations(&network, trace);
            let tree = tree::violations(&network, trace);
            let fenced = fenced.into_iter().map(|r| (Condition::Fenced, r));
            fenced.chain(tree.into_iter().map(|r| (Condition::TreeFenced, r)))
        });
        for (condition, reason) in each.chain(shape) {
            if found(condition, reason).is_break() {
                return Ok(());
            }
        }
        let advanced = choice.iter_mut().zip(&groups).any(|(i, group)| {
            *i = (*i + 1) % group.len();
            *i != 0
        });
        if !advanced {
            return Ok(());
        }
    }
}

/// Groups the traces of a thread by footprint.
fn grouped<'t>(program: &Program, spec: &Spec, traces: &'t [Trace]) -> Vec<(Footprint, Vec<&'t Trace>)> {
    let mut groups: Vec<(Footprint, Vec<&Trace>)> = Vec::new();
    for trace in traces {
        let footprint = Footprint::of(program, spec, trace);
        match groups.iter_mut().find(|(known, _)| *known == footprint) {
            Some((_, members)) => members.push(trace),
            None => groups.push((footprint, vec![trace])),
        }
    }
    groups
}
