//! Infers the orderings of a fabric from the results of litmus tests.
//!
//! A rule is *contradicted* by an observed state that the rule alone forbids. The strongest model of the [`family`]
//! that fits has all other rules. If the remaining rules together still forbid an observed state, rules are removed
//! until they allow it: first those that nobody promises, then the least tested. At the end each removed rule is
//! restored if the observations permit it. No stronger member of the family therefore fits than the inferred one,
//! except for rules that nobody promises and no test can detect.
//!
//! A rule that was never contradicted is not proven: [`Evidence`] has the number of runs that could have contradicted
//! it.
//!
//! Relies on results and on `mowgli`'s model files. Used by the command.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use mowgli::cat::{self, ModelFile};
use mowgli::counted::counted;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Outcome};
use mowgli::program::Program;
use serde::Serialize;

use crate::code::as_run;
use crate::error::{Error, Result};
use crate::oracle::usual;
use crate::record::{Record, State};
use crate::stress::Constant;

pub mod family;
pub mod tier;

use family::Rule;
use tier::{Seen, TierSeen, tier_of};

/// The longest time for one question to a model.
const PATIENCE: Duration = Duration::from_secs(10);

/// The evidence for and against one rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// The rule's name.
    pub rule: String,
    /// The rule in words.
    pub summary: String,
    /// Whether the model `rdma-tso` promises it.
    pub promised: bool,
    /// Whether the inferred model has it.
    pub kept: bool,
    /// The number of runs whose state the rule alone forbids.
    pub contradicted: u64,
    /// A test that showed such a state, and the state.
    pub example: Option<(String, String)>,
    /// The number of tests that could have shown that the rule is missing: without it, the inferred model allows
    /// more.
    pub tests: usize,
    /// The number of runs of these tests.
    pub runs: u64,
}

impl Evidence {
    /// Returns an upper bound, with 95 % confidence, on the probability that a run of those tests contradicts the
    /// rule: 3 divided by the number of runs (the rule of three). `None` without a run, or if the rule was
    /// contradicted.
    pub fn bound(&self) -> Option<f64> {
        (self.kept && self.runs > 0).then(|| 3.0 / self.runs as f64)
    }
}

/// The strongest model that fits a fabric, with the evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Inferred {
    /// The fabrics in the results.
    pub fabrics: BTreeSet<String>,
    /// The tests that were used. A test whose constants were put in both ways counts twice.
    pub tests: usize,
    /// The runs of these tests.
    pub runs: u64,
    /// Tests that were not used: those that wait, and those that a model did not judge in time.
    pub left_out: usize,
    /// The tier of the network.
    pub tier: TierSeen,
    /// Each rule.
    pub evidence: Vec<Evidence>,
    /// States that no member of the family allows, or that were not explained: test and state.
    pub unexplained: Vec<(String, String)>,
    /// The model as a file.
    pub model: String,
    /// The rules of the model.
    #[serde(skip)]
    pub rules: Vec<Rule>,
}

/// The outcomes that a test showed.
struct ShownOutcomes {
    name: String,
    program: Program,
    runs: u64,
    /// The outcomes that were seen, and how often.
    outcomes: Vec<(Outcome, u64, String)>,
    /// The rules that can change its outcomes.
    rules: Vec<Rule>,
}

impl ShownOutcomes {
    fn seen(&self) -> Seen<'_> {
        Seen {
            name: &self.name,
            program: &self.program,
            runs: self.runs,
            outcomes: self
                .outcomes
                .iter()
                .map(|(outcome, ..)| outcome.clone())
                .collect(),
        }
    }

    fn allowed(&self, model: &ModelFile) -> Option<BTreeSet<Outcome>> {
        let budget = Budget {
            deadline: Some(Instant::now() + PATIENCE),
            ..Budget::default()
        };
        let search = cat::outcomes(&self.program, model, RmwAtomicity::Hca, &budget);
        search.is_complete().then_some(search.outcomes)
    }

    /// Returns false if the model forbids an observed outcome. A search that took too long forbids nothing.
    fn fits(&self, model: &ModelFile) -> bool {
        let seen = || self.outcomes.iter().map(|(outcome, ..)| outcome);
        self.allowed(model)
            .is_none_or(|allowed| seen().all(|outcome| allowed.contains(outcome)))
    }
}

/// Infers the rules of the fabric on which these results were found.
///
/// # Errors
/// Fails if a result's text is no test.
pub fn infer(records: &[Record]) -> Result<Inferred> {
    let all = Rule::all();
    let parts: Vec<Vec<ShownOutcomes>> = records
        .iter()
        .map(|record| shown(record, &all))
        .collect::<Result<_>>()?;
    let tests: Vec<Seen<'_>> = parts.iter().flatten().map(ShownOutcomes::seen).collect();
    let tier = tier_of(&tests);
    let mut tally = Tally::new(all);
    for test in parts.into_iter().flatten() {
        tally.add(test);
    }
    let rules = tally.strongest_fit();
    tally.note_misfits(&family::model(&rules));
    let fabrics: BTreeSet<String> = records.iter().map(|record| record.fabric.clone()).collect();
    let names: Vec<_> = fabrics.iter().map(String::as_str).collect();
    let title = format!(
        "Inferred from {} litmus tests on {}",
        tally.seen.len(),
        names.join(", ")
    );
    Ok(Inferred {
        model: family::text(&title, &rules),
        tests: tally.seen.len(),
        runs: tally.seen.iter().map(|test| test.runs).sum(),
        evidence: tally.evidence(&rules),
        left_out: tally.left_out,
        fabrics,
        tier,
        unexplained: tally.unexplained,
        rules,
    })
}

/// The observations of tests, counted for and against each rule of the family.
struct Tally {
    rules: Vec<RuleTally>,
    /// The member of the family without any rule.
    base: ModelFile,
    /// The tests that are used, with the outcomes that some member of the family allows.
    seen: Vec<ShownOutcomes>,
    left_out: usize,
    unexplained: Vec<(String, String)>,
}

/// The observations about one rule.
struct RuleTally {
    rule: Rule,
    /// The member of the family that has this rule alone.
    alone: ModelFile,
    /// The runs of tests that show more without any rule than with this one.
    weight: u64,
    contradicted: u64,
    example: Option<(String, String)>,
}

impl Tally {
    fn new(rules: Vec<Rule>) -> Tally {
        let rule = |rule| RuleTally {
            rule,
            alone: family::model(&[rule]),
            weight: 0,
            contradicted: 0,
            example: None,
        };
        Tally {
            rules: rules.into_iter().map(rule).collect(),
            base: family::model(&[]),
            seen: Vec::new(),
            left_out: 0,
            unexplained: Vec::new(),
        }
    }

    /// Adds a test. Sets aside the outcomes that no member of the family allows, and counts the others against each rule that
    /// alone forbids them.
    fn add(&mut self, mut test: ShownOutcomes) {
        let allowed = match usual(&test.program) {
            Model::RdmaTso => test.allowed(&self.base),
            _ => None,
        };
        let Some(allowed) = allowed else {
            self.left_out += 1;
            return;
        };
        test.outcomes.retain(|(outcome, _, state)| {
            let fits = allowed.contains(outcome);
            if !fits {
                self.unexplained.push((test.name.clone(), state.clone()));
            }
            fits
        });
        for rule in &mut self.rules {
            if test.rules.contains(&rule.rule) {
                rule.add(&test, &allowed);
            }
        }
        self.seen.push(test);
    }

    /// Returns the rules of the strongest member of the family that fits the observations.
    fn strongest_fit(&self) -> Vec<Rule> {
        let free = || {
            self.rules
                .iter()
                .filter(|rule| rule.contradicted == 0)
                .map(|rule| rule.rule)
        };
        let mut rules: Vec<Rule> = free().collect();
        let weight = |rule: Rule| {
            let tally = self.rules.iter().find(|tally| tally.rule == rule);
            tally.map_or(0, |tally| tally.weight)
        };
        reconcile(&self.seen, &mut rules, &weight);
        // A rule that nobody promises and no test can detect is left out of the model.
        let promised: Vec<Rule> = rules.iter().copied().filter(|rule| rule.is_promised()).collect();
        rules.retain(|&rule| rule.is_promised() || tried(&self.seen, &promised, rule).0 > 0);
        strengthen(&self.seen, &mut rules, free());
        rules
    }

    /// Notes the tests that show what the inferred model forbids.
    fn note_misfits(&mut self, model: &ModelFile) {
        for test in self.seen.iter().filter(|test| !test.fits(model)) {
            self.unexplained.push((
                test.name.clone(),
                "forbidden by what is left of the family".into(),
            ));
        }
    }

    /// Returns the evidence for and against each rule, where the inferred model has these `rules`.
    fn evidence(&self, rules: &[Rule]) -> Vec<Evidence> {
        let evidence = self.rules.iter().map(|tally| {
            let rule = tally.rule;
            let (tests, runs) = tried(&self.seen, rules, rule);
            Evidence {
                rule: rule.to_string(),
                summary: rule.summary(),
                promised: rule.is_promised(),
                kept: rules.contains(&rule),
                contradicted: tally.contradicted,
                example: tally.example.clone(),
                tests,
                runs,
            }
        });
        evidence.collect()
    }
}

impl RuleTally {
    /// Adds a test, to which the family without any rule allows the outcomes `allowed`.
    fn add(&mut self, test: &ShownOutcomes, allowed: &BTreeSet<Outcome>) {
        let Some(with) = test.allowed(&self.alone) else {
            return;
        };
        if with.len() < allowed.len() {
            self.weight += test.runs;
        }
        for (outcome, count, state) in &test.outcomes {
            if !with.contains(outcome) {
                self.contradicted += count;
                self.example
                    .get_or_insert_with(|| (test.name.clone(), state.clone()));
            }
        }
    }
}

/// Returns what a test showed, for each way in which its constants were put: the runs with inlined constants are runs of
/// another program.
fn shown(record: &Record, all: &[Rule]) -> Result<Vec<ShownOutcomes>> {
    let litmus = record
        .litmus()
        .map_err(|error| Error::Input(format!("{}: {error}", record.test)))?;
    let part = |constant: Constant, runs: u64, count: &dyn Fn(&State) -> u64| {
        let program = as_run(&litmus.program, constant);
        let seen = record.states.iter().filter(|state| count(state) > 0);
        let outcomes = seen.map(|s| (Record::outcome(&program, s), count(s), s.state.clone()));
        ShownOutcomes {
            name: record.test.clone(),
            runs,
            outcomes: outcomes.collect(),
            rules: all
                .iter()
                .copied()
                .filter(|rule| rule.concerns(&program))
                .collect(),
            program,
        }
    };
    let inlined: u64 = record.states.iter().map(|state| state.inlined).sum();
    let seen: u64 = record.states.iter().map(|state| state.count).sum();
    let mut parts = Vec::new();
    if inlined < seen || inlined == 0 {
        let runs = record.runs.saturating_sub(inlined);
        parts.push(part(Constant::Memory, runs, &|state| {
            state.count - state.inlined.min(state.count)
        }));
    }
    if inlined > 0 {
        parts.push(part(Constant::Inline, inlined, &|state| state.inlined));
    }
    Ok(parts)
}

/// Removes rules, one or two at a time, until the observations are allowed. Among the sets of rules that help, it
/// prefers those without a promised rule, then the least tried (`weight`), then those without which most tests fit.
fn reconcile(seen: &[ShownOutcomes], rules: &mut Vec<Rule>, weight: &dyn Fn(Rule) -> u64) {
    loop {
        let model = family::model(rules);
        let conflicts: Vec<&ShownOutcomes> = seen.iter().filter(|test| !test.fits(&model)).collect();
        if conflicts.is_empty() {
            return;
        }
        let any = |rule: &&Rule| conflicts.iter().any(|test| test.rules.contains(rule));
        let concerned: Vec<Rule> = rules.iter().filter(any).copied().collect();
        let singles = concerned.iter().map(|&rule| vec![rule]);
        let pairs = concerned.iter().enumerate().flat_map(|(at, &a)| {
            let rest = concerned[at + 1..].iter();
            rest.map(move |&b| vec![a, b])
        });
        let cost = |gone: &[Rule]| {
            let promised = gone.iter().any(|rule| rule.is_promised());
            (promised, gone.iter().map(|&rule| weight(rule)).sum::<u64>())
        };
        let mut choices: Vec<_> = singles.chain(pairs).map(|gone| (cost(&gone), gone)).collect();
        choices.sort_by_key(|(cost, gone)| (*cost, gone.len()));
        let mut best: Option<((bool, u64), usize, Vec<Rule>)> = None;
        for (cost, gone) in choices {
            if best.as_ref().is_some_and(|(least, ..)| cost > *least) {
                break;
            }
            let left: Vec<Rule> = rules
                .iter()
                .copied()
                .filter(|rule| !gone.contains(rule))
                .collect();
            let model = family::model(&left);
            let fits = conflicts.iter().filter(|test| test.fits(&model)).count();
            if fits > best.as_ref().map_or(0, |(_, most, _)| *most) {
                best = Some((cost, fits, left));
            }
        }
        match best {
            Some((.., left)) => *rules = left,
            None => return,
        }
    }
}

/// Restores every removed rule that the observations still permit, promised rules first. A rule may have been removed
/// together with another rule that is gone for a different reason (nobody promises it and it went later, or no test
/// can detect it); it was then removed needlessly.
fn strengthen(seen: &[ShownOutcomes], rules: &mut Vec<Rule>, free: impl Iterator<Item = Rule>) {
    let mut gone: Vec<Rule> = free.filter(|rule| !rules.contains(rule)).collect();
    gone.sort_by_key(|rule| !rule.is_promised());
    for rule in gone {
        let with = [rules, &[rule][..]].concat();
        let model = family::model(&with);
        let concerned = || seen.iter().filter(|test| test.rules.contains(&rule));
        let is_told = rule.is_promised() || tried(seen, rules, rule).0 > 0;
        // A state that does not fit with or without a rule is no reason to drop the rule.
        let before = family::model(rules);
        if is_told && concerned().all(|test| test.fits(&model) || !test.fits(&before)) {
            *rules = with;
        }
    }
}

/// Returns how many tests, and runs of these, show more outcomes without the rule than with it, with the other rules
/// as inferred.
fn tried(seen: &[ShownOutcomes], rules: &[Rule], rule: Rule) -> (usize, u64) {
    let mut with: Vec<Rule> = rules.iter().copied().filter(|&other| other != rule).collect();
    let without = family::model(&with);
    with.push(rule);
    let with = family::model(&with);
    let concerned = seen.iter().filter(|test| test.rules.contains(&rule));
    let telling = concerned.filter(|test| test.allowed(&without) != test.allowed(&with));
    telling.fold((0, 0), |(tests, runs), test| (tests + 1, runs + test.runs))
}

impl fmt::Display for Inferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fabrics: Vec<_> = self.fabrics.iter().map(String::as_str).collect();
        writeln!(
            f,
            "{}: {}, {}; {} left out (they wait, or the model took too long)",
            fabrics.join(", "),
            counted(self.tests, "test"),
            counted(self.runs, "run"),
            counted(self.left_out, "test")
        )?;
        write!(f, "\n{}", self.tier)?;
        let mut section = |title: &str, wanted: &dyn Fn(&Evidence) -> bool| {
            let mut text = String::new();
            for e in self.evidence.iter().filter(|e| wanted(e)) {
                let _ = write!(text, "  {:<15} {}", e.rule, e.summary);
                match (&e.example, e.bound()) {
                    (Some((test, state)), _) => {
                        let _ = write!(
                            text,
                            "; {} against it, as {test}: {state}",
                            counted(e.contradicted, "run")
                        );
                    }
                    (None, Some(bound)) => {
                        let _ = write!(
                            text,
                            "; {} of {} could have shown otherwise: below {bound:.1e} a run (95%)",
                            counted(e.runs, "run"),
                            counted(e.tests, "test")
                        );
                    }
                    _ => {}
                }
                text.push('\n');
            }
            if text.is_empty() {
                Ok(())
            } else {
                write!(f, "\n{title}\n{text}")
            }
        };
        section("Promised by rdma-tso, and contradicted:", &|e| {
            e.promised && !e.kept
        })?;
        section("Promised by rdma-tso, and never contradicted:", &|e| {
            e.promised && e.kept && e.tests > 0
        })?;
        section(
            "Promised by rdma-tso, and no test could tell (others imply it, or it was not tried):",
            &|e| e.promised && e.kept && e.tests == 0,
        )?;
        section("Not promised, and never contradicted:", &|e| {
            !e.promised && e.kept && e.tests > 0
        })?;
        section("Not promised, and contradicted or not tried:", &|e| {
            !e.promised && !e.kept
        })?;
        for (test, state) in &self.unexplained {
            writeln!(f, "\nNo model of the family explains {test}: {state}")?;
        }
        Ok(())
    }
}
