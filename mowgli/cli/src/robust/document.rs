//! Rows of `mowgli robust`, their totals, the table and the JSON document (`docs/json.md`).

use std::fmt::Write;

use mowgli::counted::counted;
use mowgli::litmus::Setting;
use mowgli::model::Model;
use mowgli::program::Program;
use mowgli::robust::{Answer, ByFile, Condition, Exact, Finding, Reason, Theorem, Verdict, Weak, text};
use serde::Serialize;

use crate::Exit;
use crate::budget::Stop;
use crate::diagnostics::Report;
use crate::shard::Numbered;
use crate::source::Test;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shard: Option<String>,
    /// The fingerprint of what was asked, in a share only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    pub(super) refined: bool,
    pub(super) rows: Vec<Numbered<'a, Row>>,
    pub(super) refused: &'a [Report],
    pub(super) warnings: &'a [Report],
    pub(super) totals: &'a Totals,
}

/// A test under a setting.
#[derive(Serialize)]
pub(super) struct Row {
    name: String,
    path: String,
    setting: String,
    /// robust, not-robust, not-shown, vacuous or unknown.
    verdict: &'static str,
    /// Names the proof of robustness: corollary-1, theorem-5 or search.
    by: Option<&'static str>,
    /// The limit because of which the verdict is unknown, and the remedy.
    limit: Option<String>,
    /// Absent under a model file, as are the conditions.
    pre_executions: Option<u64>,
    conditions: Vec<Entry>,
    /// The cycle of an execution that is not sequentially consistent.
    cycle: Option<Vec<Step>>,
    /// Statements of the test that are wrong, as it writes them.
    pub(super) differs: Vec<String>,
    /// Statements that were checked, and are right.
    as_stated: usize,
    /// Statements that a limit left unchecked.
    unchecked: usize,
    time_s: f64,
    /// The mended form, with --fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<super::fix::Fix>,
    #[serde(skip)]
    shown: String,
}

/// A condition.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    holds: Option<bool>,
    clause: Option<&'static str>,
    reason: Option<String>,
    pair: Option<PairEntry>,
}

/// Two events that may be reordered.
#[derive(Serialize)]
struct PairEntry {
    thread: String,
    earlier: String,
    later: String,
    /// Places of the two instructions in the thread's code, outermost block first, from 0.
    earlier_at: Vec<u16>,
    later_at: Vec<u16>,
    cell: String,
    need: String,
}

/// An edge of a cycle.
#[derive(Serialize)]
struct Step {
    from: String,
    to: String,
    relation: &'static str,
}

impl Row {
    pub(super) fn new(test: &Test, setting: Setting, answer: &Answer, time_s: f64) -> Row {
        let program = &test.litmus.program;
        let verdict = answer.verdict();
        let mut row = Row {
            pre_executions: Some(answer.conditions.pre_executions),
            conditions: Condition::ALL
                .map(|c| Entry::new(program, answer, setting.model, c))
                .into(),
            ..Row::bare(test, setting.to_string(), &verdict, answer.exact.as_ref(), time_s)
        };
        for statement in test.litmus.stated.iter().filter(|s| s.setting == setting) {
            match answer.has(statement.property) {
                Some(holds) if holds == statement.holds => row.as_stated += 1,
                Some(_) => {
                    let not = if statement.holds { "" } else { "~" };
                    row.differs.push(format!("{not}{}", statement.property));
                }
                None => row.unchecked += 1,
            }
        }
        row
    }

    /// Makes the row of a model file, under which no test states anything.
    pub(super) fn by_file(test: &Test, setting: String, found: &ByFile, time_s: f64) -> Row {
        Row::bare(test, setting, &found.verdict(), Some(&found.exact), time_s)
    }

    /// Makes a row without conditions and statements.
    fn bare(test: &Test, setting: String, verdict: &Verdict, exact: Option<&Exact>, time_s: f64) -> Row {
        let (word, by) = match verdict {
            Verdict::Robust(Theorem::Corollary1) => ("robust", Some("corollary-1")),
            Verdict::Robust(Theorem::Theorem5) => ("robust", Some("theorem-5")),
            Verdict::Exhaustively => ("robust", Some("search")),
            Verdict::NotRobust => ("not-robust", None),
            Verdict::NotShown => ("not-shown", None),
            Verdict::Unknown(_) => ("unknown", None),
            Verdict::Vacuous => ("vacuous", None),
        };
        Row {
            name: test.litmus.name.clone(),
            path: test.path.clone(),
            setting,
            verdict: word,
            by,
            limit: match verdict {
                Verdict::Unknown(limit) => Some(limit.advice()),
                _ => None,
            },
            pre_executions: None,
            conditions: Vec::new(),
            cycle: match exact {
                Some(Exact::NotRobust(weak)) => Some(steps(&test.litmus.program, weak)),
                _ => None,
            },
            differs: Vec::new(),
            as_stated: 0,
            unchecked: 0,
            time_s,
            fix: None,
            shown: verdict.to_string(),
        }
    }
}

impl Entry {
    fn new(program: &Program, answer: &Answer, model: Model, condition: Condition) -> Entry {
        let finding = answer.conditions.get(condition);
        let reason = finding.reason();
        Entry {
            name: condition.name(),
            holds: match finding {
                Finding::Holds => Some(true),
                Finding::Fails(_) => Some(false),
                Finding::Unknown(_) => None,
            },
            clause: reason.map(|r| r.clause_under(model)),
            reason: reason.map(|r| text::reason(program, r)),
            pair: reason.and_then(Reason::pair).map(|pair| PairEntry {
                thread: program.threads[pair.earlier.thread].name.clone(),
                earlier: text::label(program, &pair.earlier.event),
                later: text::label(program, &pair.later.event),
                earlier_at: pair.earlier.event.path.clone(),
                later_at: pair.later.event.path.clone(),
                cell: pair.cell.to_string(),
                need: pair.need.to_string(),
            }),
        }
    }
}

fn steps(program: &Program, weak: &Weak) -> Vec<Step> {
    let labels = weak.execution.labels(program);
    let name = |e: usize| match weak.execution.events[e].thread {
        Some(t) => format!("{}:{}", program.threads[usize::from(t.0)].name, labels[e]),
        None => labels[e].clone(),
    };
    let edges = weak.cycle.edges.iter();
    edges
        .map(|edge| Step {
            from: name(edge.from),
            to: name(edge.to),
            relation: edge.part.name(),
        })
        .collect()
}

/// Writes a cycle on one line.
pub(super) fn cycle(program: &Program, weak: &Weak) -> String {
    let steps = steps(program, weak);
    let mut out = steps.first().map(|s| s.from.clone()).unwrap_or_default();
    for step in &steps {
        let _ = write!(out, " -{}-> {}", step.relation, step.to);
    }
    out
}

/// Counts over all rows.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Totals {
    /// Rows.
    tests: usize,
    robust: usize,
    not_robust: usize,
    /// Rows in which the conditions fail and no search was asked for.
    not_shown: usize,
    unknown: usize,
    vacuous: usize,
    /// Statements that are right.
    as_stated: usize,
    /// Statements that are wrong.
    differ: usize,
    /// Statements that a limit left unchecked.
    unchecked: usize,
    refused: usize,
    /// Pairs of a test and a model asked for that has no meaning for it.
    not_applicable: usize,
    stopped: Option<String>,
    not_begun: usize,
    time_s: f64,
}

impl Totals {
    pub(super) fn new(
        rows: &[Row],
        refused: usize,
        not_applicable: usize,
        stopped: Option<Stop>,
        not_begun: usize,
    ) -> Totals {
        let verdict = |word: &str| rows.iter().filter(|r| r.verdict == word).count();
        Totals {
            tests: rows.len(),
            robust: verdict("robust"),
            not_robust: verdict("not-robust"),
            not_shown: verdict("not-shown"),
            unknown: verdict("unknown"),
            vacuous: verdict("vacuous"),
            as_stated: rows.iter().map(|r| r.as_stated).sum(),
            differ: rows.iter().map(|r| r.differs.len()).sum(),
            unchecked: rows.iter().map(|r| r.unchecked).sum(),
            refused,
            not_applicable,
            stopped: stopped.map(|s| s.to_string()),
            not_begun,
            // The sum of no numbers is -0.
            time_s: rows.iter().map(|r| r.time_s).sum::<f64>() + 0.0,
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match self {
            t if t.differ + t.vacuous > 0 => Exit::Differs,
            t if t.refused > 0 => Exit::Refused,
            t if t.unknown + t.unchecked > 0 || t.stopped.is_some() => Exit::Unknown,
            _ => Exit::AsStated,
        }
    }
}

/// Writes the table, one line for each row, and the totals.
pub(super) fn table(rows: &[Row], totals: &Totals) -> String {
    let width = |f: fn(&Row) -> usize| rows.iter().map(f).max().unwrap_or(0).max(7);
    let (names, settings) = (width(|r| r.name.len()), width(|r| r.setting.len()));
    let mut out = format!(
        "{:names$}  {:settings$}  {:20}  ldrf  fenced  tree-fenced\n",
        "Test", "Model", "Verdict"
    );
    for row in rows {
        let mark = |i: usize| match row.conditions.get(i).map(|c| c.holds) {
            Some(Some(true)) => "yes",
            Some(Some(false)) => "no",
            Some(None) => "?",
            None => "-",
        };
        let stated = match (row.differs.is_empty(), row.as_stated) {
            (false, _) => format!("  ! {}", row.differs.join(" ")),
            (true, 0) => String::new(),
            (true, _) => "  =".to_owned(),
        };
        let line = format!(
            "{:names$}  {:settings$}  {:20}  {:4}  {:6}  {:11}{stated}",
            row.name,
            row.setting,
            row.shown,
            mark(0),
            mark(1),
            mark(2)
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let t = totals;
    let _ = writeln!(
        out,
        "(= as stated; ! differs from the test's statement)\n{}: {} robust, {} not robust, {} not shown (--exact decides), \
         {} unknown, {} vacuous; {} right, {} wrong, {} unchecked; {} refused; {:.2} s",
        counted(t.tests, "row"),
        t.robust,
        t.not_robust,
        t.not_shown,
        t.unknown,
        t.vacuous,
        counted(t.as_stated, "statement"),
        t.differ,
        t.unchecked,
        counted(t.refused, "test"),
        t.time_s
    );
    if t.not_applicable > 0 {
        let _ = writeln!(
            out,
            "Not asked, because the model or the conditions have no meaning for the test: {}",
            t.not_applicable
        );
    }
    if let Some(reason) = &t.stopped {
        let _ = writeln!(
            out,
            "The run stopped early ({reason}): {} were not begun.",
            t.not_begun
        );
    }
    out
}
