//! Checks one test under one model.
//!
//! [`applicable`] says whether the model has a meaning for the program, [`run`] asks an engine for the program's outcomes, [`judge`]
//! decides a condition from them, and [`report`](crate::report) writes the result down. Relies on both engines. Used by the command
//! and by the catalogue's golden test.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::litmus::{Condition, Dialect, Litmus, Quantifier, Query, Setting, Verdict};
use crate::model::{Model, RmwAtomicity, Tier, UnknownName};
use crate::models::Spec;
use crate::outcome::{Budget, Completeness, Limit, Outcome, Search};
use crate::program::{Instr, Program};
use crate::{declarative, explore};

/// The engine that answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Candidate executions filtered by the model's axioms.
    #[default]
    Declarative,
    /// States of the model's machine.
    Operational,
    /// States of the concrete machine, whose queue pairs have the six buffers of RDMA-TSO'24 Fig. 7.
    Concrete,
    /// The first two, compared.
    Both,
}

impl Engine {
    /// Every choice.
    pub const ALL: [Engine; 4] = [
        Engine::Declarative,
        Engine::Operational,
        Engine::Concrete,
        Engine::Both,
    ];

    /// Returns the name that options and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Declarative => "declarative",
            Engine::Operational => "operational",
            Engine::Concrete => "concrete",
            Engine::Both => "both",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Engine, UnknownName> {
        Engine::ALL
            .into_iter()
            .find(|e| e.name() == s)
            .ok_or_else(|| UnknownName {
                kind: "engine",
                found: s.to_owned(),
                expected: Engine::ALL.map(Engine::name).join(", "),
            })
    }
}

/// The features of a program that decide which models apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Puts, gets, remote fences or remote read-modify-writes.
    pub remote: bool,
    /// Remote read-modify-writes.
    pub rmw: bool,
    /// `poll`.
    pub poll: bool,
    /// `wait`.
    pub wait: bool,
}

impl Features {
    /// Finds the features of a program.
    pub fn of(program: &Program) -> Features {
        let mut features = Features::default();
        program.threads.iter().for_each(|t| features.block(&t.code));
        features
    }

    fn block(&mut self, block: &[Instr]) {
        for instr in block {
            match instr {
                Instr::Put { .. } | Instr::Get { .. } | Instr::Rfence { .. } | Instr::Message(_) => {
                    self.remote = true;
                }
                Instr::RemoteFaa { .. } | Instr::RemoteCas { .. } | Instr::RemoteSwap { .. } => {
                    self.remote = true;
                    self.rmw = true;
                }
                Instr::Strong(operation) | Instr::Unsignaled(operation) => {
                    self.block(std::slice::from_ref(operation));
                }
                Instr::Poll { .. } => self.poll = true,
                Instr::Wait { .. } => self.wait = true,
                Instr::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
                Instr::While { body, .. } => self.block(body),
                Instr::Choose(blocks) => blocks.iter().for_each(|b| self.block(b)),
                Instr::Store { .. } | Instr::Load { .. } | Instr::Assign { .. } | Instr::Cas { .. } => {}
                Instr::Swap { .. } | Instr::Mfence | Instr::Assume(_) => {}
                Instr::Recv { .. } | Instr::PollRecv { .. } => {}
            }
        }
    }
}

/// Says that a model has no meaning for a program, and why. This is not a verdict.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{model} does not apply: {reason}")]
pub struct NotApplicable {
    /// The model.
    pub model: Model,
    /// The reason: the operation that the model lacks.
    pub reason: &'static str,
}

crate::debug_as_display!(NotApplicable);

/// Checks that the model has a meaning for the program.
///
/// `sc` runs every instruction in program order and applies to every program (Robust'25 Def. 5). `tso` has no remote operations.
/// RDMA-TSO'24 and Robust'25 have `poll` and no `wait`, LOCO'26 has `wait` and no `poll`. Regions of relaxed ordering have a meaning on
/// the tier `pcie-relaxed` only, and under `sc`.
///
/// # Errors
///
/// Returns what the model lacks.
pub fn applicable(program: &Program, model: Model) -> Result<(), NotApplicable> {
    let features = Features::of(program);
    let regions = program.has_relaxed_regions() && !model.tier().has_relaxed_regions();
    let lacking = match model.base() {
        Model::Sc => None,
        _ if regions && model.is_remote() => Some(
            "it has no regions of relaxed ordering: leave `relaxed` out of the test, or use rdma-sc+pcie-relaxed, \
             rdma-tso+pcie-relaxed or rdma-wait+pcie-relaxed",
        ),
        _ if program.has_several_messages() && model.tier().takes_receives_in_any_order() => Some(
            "its network takes receives in any order: let one message of each queue pair take a receive, or use another tier",
        ),
        Model::Tso if features.remote || features.poll || features.wait => {
            Some("it has no remote operations")
        }
        Model::RdmaWait if features.poll => Some("it has no poll"),
        Model::RdmaSc | Model::RdmaTso | Model::RdmaTsoNoPcie if features.wait => Some("it has no wait"),
        _ => None,
    };
    lacking.map_or(Ok(()), |reason| Err(NotApplicable { model, reason }))
}

/// Returns the settings over the papers' network under which verdicts can differ: every applicable model, with both
/// atomicities if the program has remote read-modify-writes.
pub fn settings(program: &Program) -> Vec<Setting> {
    settings_among(program, &Model::ALL)
}

/// Returns the settings of other tiers under which verdicts can differ, in the order of [`Model::TIERED`].
pub fn tiered_settings(program: &Program) -> Vec<Setting> {
    settings_among(program, &Model::TIERED)
}

fn settings_among(program: &Program, models: &[Model]) -> Vec<Setting> {
    let atomicities: &[RmwAtomicity] = if Features::of(program).rmw {
        &RmwAtomicity::ALL
    } else {
        &[RmwAtomicity::Hca]
    };
    let models = models.iter().filter(|&&m| applicable(program, m).is_ok());
    models
        .flat_map(|&model| atomicities.iter().map(move |&rmw| Setting { model, rmw }))
        .collect()
}

/// The answer of an engine, or of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The outcomes. If two engines ran, these are the outcomes of the one that was complete; if neither was, the outcomes
    /// that either found.
    pub search: Search,
    /// Outcomes by which the two engines contradict each other.
    pub disagreement: Option<Disagreement>,
}

/// Outcomes that one engine reached although the other was complete and did not reach them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Only the declarative engine allows these.
    pub declarative_only: BTreeSet<Outcome>,
    /// Only the machine reaches these.
    pub operational_only: BTreeSet<Outcome>,
}

/// Runs an engine, or both, on a program and returns all outcomes. A loop that the declarative engine does not decide is left to the machine.
///
/// # Errors
///
/// Fails when the model has no meaning for the program, or the engine has no machine of the model.
pub fn run(
    program: &Program,
    setting: Setting,
    engine: Engine,
    budget: &Budget<'_>,
) -> Result<Answer, NotApplicable> {
    applicable(program, setting.model)?;
    let declarative = || declarative::outcomes(program, setting.model, setting.rmw, budget);
    let operational = || explore::outcomes(program, setting.model, setting.rmw, budget);
    Ok(match engine {
        Engine::Declarative => Answer {
            search: with_loops(program, setting, declarative(), budget),
            disagreement: None,
        },
        Engine::Operational => Answer {
            search: operational(),
            disagreement: None,
        },
        Engine::Concrete if setting.model.tier() != Tier::Ibta => {
            return Err(NotApplicable {
                model: setting.model,
                reason: "the concrete machine has the papers' network: use the engine `operational`",
            });
        }
        Engine::Concrete => {
            let mut options = explore::Options::new(setting.model, setting.rmw);
            options.machine = options.machine.concrete();
            Answer {
                search: explore::outcomes_with(program, &options, budget),
                disagreement: None,
            }
        }
        Engine::Both => compare(declarative(), operational()),
    })
}

/// Asks the machine about a program with loops that the declarative engine has not decided. If its states have an end, they decide the
/// program; otherwise the search stays as it is and names the loop.
pub(crate) fn with_loops(program: &Program, setting: Setting, found: Search, budget: &Budget<'_>) -> Search {
    let Some(Limit::LoopBound { .. } | Limit::TooLarge(_)) = found.completeness.limit() else {
        return found;
    };
    if !program.has_loops() {
        return found;
    }
    let options = explore::Options::new(setting.model, setting.rmw);
    let whole = explore::outcomes_without_bounds(program, &options, budget);
    let states = found.states + whole.states;
    let mut search = match whole.completeness {
        Completeness::Complete => whole,
        Completeness::Incomplete(Limit::LoopBound { .. }) => Search {
            outcomes: found.outcomes.into_iter().chain(whole.outcomes).collect(),
            ..whole
        },
        Completeness::Incomplete(_) => found,
    };
    search.states = states;
    search
}

/// Runs an engine, or both, on a test and returns enough outcomes to [`judge`] and report its conditions.
///
/// The declarative engine enumerates only the operands that the conditions show, which can be a thousandth of the work of
/// [`run`]. The machine visits all its states in any case. Two engines are compared on all outcomes.
///
/// # Errors
///
/// Fails when the model has no meaning for the program, or the engine has no machine of the model.
pub fn decide(
    litmus: &Litmus,
    setting: Setting,
    engine: Engine,
    budget: &Budget<'_>,
) -> Result<Answer, NotApplicable> {
    let program = &litmus.program;
    if engine != Engine::Declarative || litmus.queries.is_empty() {
        return run(program, setting, engine, budget);
    }
    applicable(program, setting.model)?;
    let operands = litmus.all_shown();
    let spec = Spec::of(setting.model, setting.rmw);
    let found = declarative::outcomes_of(program, &spec, &operands, budget);
    Ok(Answer {
        search: with_loops(program, setting, found, budget),
        disagreement: None,
    })
}

/// Makes one answer from the answers of two engines.
fn compare(declarative: Search, operational: Search) -> Answer {
    let beyond = |one: &Search, complete: &Search| match complete.is_complete() {
        true => one.outcomes.difference(&complete.outcomes).cloned().collect(),
        false => BTreeSet::new(),
    };
    let declarative_only = beyond(&declarative, &operational);
    let operational_only = beyond(&operational, &declarative);
    let disagree = !declarative_only.is_empty() || !operational_only.is_empty();
    let states = declarative.states + operational.states;
    let (mut search, other) = if declarative.is_complete() {
        (declarative, operational)
    } else {
        (operational, declarative)
    };
    if !search.is_complete() {
        search.outcomes.extend(other.outcomes);
    }
    search.states = states;
    Answer {
        search,
        disagreement: disagree.then_some(Disagreement {
            declarative_only,
            operational_only,
        }),
    }
}

/// The share of the outcomes that satisfy a formula, in herd7's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Observation {
    /// No outcome does (or there is none).
    Never,
    /// Some outcomes do.
    Sometimes,
    /// All outcomes do.
    Always,
}

/// The counts that decide a formula. They count *states*, which are outcomes restricted to the operands shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// States that satisfy the formula.
    pub positive: usize,
    /// States that violate it.
    pub negative: usize,
    /// The limit that stopped the search, if one did. There may then be further states.
    pub limit: Option<Limit>,
}

/// Counts the states that satisfy query `index` of a test, and those that do not. The states are those that the report shows.
pub fn judge<P: Dialect>(litmus: &Litmus<P>, index: usize, search: &Search<P::Outcome>) -> Judgement {
    let shown = litmus.shown(index);
    let formula = litmus.queries.get(index).map(|q| &q.condition.formula);
    let mut states: [BTreeSet<Vec<P::Value>>; 2] = Default::default();
    for outcome in &search.outcomes {
        let holds = formula.is_some_and(|f| f.holds(outcome));
        states[usize::from(holds)].insert(shown.iter().map(|o| o.value(outcome)).collect());
    }
    let limit = search.completeness.limit().cloned();
    Judgement {
        positive: states[1].len(),
        negative: states[0].len(),
        limit,
    }
}

impl Judgement {
    /// Returns whether no execution reaches the end, as with an `assume` that never holds or a poll that never succeeds. Such a
    /// test asks nothing: there is no state that could satisfy or violate a formula.
    pub fn is_vacuous(&self) -> bool {
        self.positive + self.negative == 0 && self.limit.is_none()
    }

    /// Returns how many of the states seen satisfy the formula.
    pub fn observation(&self) -> Observation {
        match (self.positive, self.negative) {
            (0, _) => Observation::Never,
            (_, 0) => Observation::Always,
            _ => Observation::Sometimes,
        }
    }

    /// Returns whether the verdict is right, or `None` when the search stopped too early to tell. No verdict is right for a
    /// [vacuous](Self::is_vacuous) test.
    pub fn meets(&self, verdict: Verdict) -> Option<bool> {
        let complete = self.limit.is_none();
        if self.is_vacuous() {
            return Some(false);
        }
        match verdict {
            Verdict::Allowed if self.positive > 0 => Some(true),
            Verdict::Forbidden if self.positive > 0 => Some(false),
            Verdict::Required if self.negative > 0 => Some(false),
            Verdict::Allowed => complete.then_some(false),
            Verdict::Forbidden | Verdict::Required => complete.then_some(true),
        }
    }

    /// Returns whether the condition with its quantifier holds, or `None` when the search stopped too early to tell.
    pub fn validates<O, V>(&self, condition: &Condition<O, V>) -> Option<bool> {
        self.meets(match condition.quantifier {
            Quantifier::Exists => Verdict::Allowed,
            Quantifier::NotExists => Verdict::Forbidden,
            Quantifier::Forall => Verdict::Required,
        })
    }

    /// Returns the verdict on the formula: forbidden if no state satisfies it, required if all do, else allowed. Returns `None` when the
    /// search stopped too early to tell, or when the test is [vacuous](Self::is_vacuous).
    pub fn verdict(&self) -> Option<Verdict> {
        match (self.positive, self.negative, self.limit.is_none()) {
            (0, 0, true) => None,
            (0, _, true) => Some(Verdict::Forbidden),
            (0, _, false) => None,
            (_, 0, true) => Some(Verdict::Required),
            _ => Some(Verdict::Allowed),
        }
    }
}

/// Returns the verdict that a query states for a setting. In a program without remote read-modify-writes the atomicity does
/// not matter, so a verdict stated for one atomicity counts for the other too.
pub fn expected(program: &Program, query: &Query, setting: Setting) -> Option<Verdict> {
    let stated = query.expected.get(&setting).copied();
    if stated.is_some() || Features::of(program).rmw {
        return stated;
    }
    RmwAtomicity::ALL
        .into_iter()
        .find_map(|rmw| query.expected.get(&Setting { rmw, ..setting }).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::litmus::parse;

    fn outcome(x: i64) -> Outcome {
        Outcome {
            registers: vec![vec![]],
            memory: vec![x],
        }
    }

    fn search(values: &[i64], complete: bool) -> Search {
        Search {
            outcomes: values.iter().map(|&v| outcome(v)).collect(),
            completeness: if complete {
                Completeness::Complete
            } else {
                Completeness::Incomplete(Limit::Time)
            },
            states: 1,
        }
    }

    #[test]
    fn complete_engines_must_find_the_same() {
        assert_eq!(
            compare(search(&[0, 1], true), search(&[0, 1], true)).disagreement,
            None
        );
        let found = compare(search(&[0, 1], true), search(&[0, 2], true))
            .disagreement
            .unwrap();
        assert_eq!(found.declarative_only, BTreeSet::from([outcome(1)]));
        assert_eq!(found.operational_only, BTreeSet::from([outcome(2)]));
    }

    #[test]
    fn an_incomplete_engine_may_find_less_but_not_more() {
        assert_eq!(
            compare(search(&[0, 1], true), search(&[0], false)).disagreement,
            None
        );
        assert!(
            compare(search(&[0], true), search(&[0, 1], false))
                .disagreement
                .is_some()
        );
        let neither = compare(search(&[0], false), search(&[1], false));
        assert_eq!(neither.disagreement, None);
        assert_eq!(neither.search.outcomes, BTreeSet::from([outcome(0), outcome(1)]));
        assert!(!neither.search.is_complete());
        assert!(
            compare(search(&[0], false), search(&[0, 1], true))
                .search
                .is_complete()
        );
    }

    #[test]
    fn an_incomplete_search_judges_only_what_it_has_seen() {
        let litmus = parse("RDMA t\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)")
            .unwrap()
            .litmus;
        let judge = |values: &[i64], complete| judge(&litmus, 0, &search(values, complete));
        assert_eq!(judge(&[1], true).verdict(), Some(Verdict::Required));
        assert_eq!(judge(&[1], false).verdict(), Some(Verdict::Allowed));
        assert_eq!(judge(&[0], true).verdict(), Some(Verdict::Forbidden));
        assert_eq!(judge(&[0], false).verdict(), None);
        assert_eq!(judge(&[1], false).meets(Verdict::Required), None);
        assert_eq!(judge(&[0, 1], false).meets(Verdict::Required), Some(false));
        assert_eq!(judge(&[0, 1], false).meets(Verdict::Forbidden), Some(false));
        assert_eq!(judge(&[0], false).meets(Verdict::Allowed), None);
    }

    #[test]
    fn a_test_without_states_meets_no_verdict() {
        let litmus = parse("RDMA t\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nexists (x=1)")
            .unwrap()
            .litmus;
        let none = judge(&litmus, 0, &search(&[], true));
        assert!(none.is_vacuous());
        assert_eq!(none.verdict(), None);
        for verdict in [Verdict::Allowed, Verdict::Forbidden, Verdict::Required] {
            assert_eq!(none.meets(verdict), Some(false));
        }
        let stopped = judge(&litmus, 0, &search(&[], false));
        assert!(!stopped.is_vacuous());
        assert_eq!(stopped.meets(Verdict::Forbidden), None);
    }
}
