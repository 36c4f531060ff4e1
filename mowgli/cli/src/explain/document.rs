//! The JSON document of `mowgli explain --json`, as `docs/json.md` describes it.

use std::collections::BTreeMap;

use mowgli::event::Execution;
use mowgli::explain::{Case, Change, Edge, Side, change_text, edge_reason};
use mowgli::litmus::{Litmus, Setting};
use mowgli::outcome::Limit;
use mowgli::program::Program;
use mowgli::relation::Relation;
use serde::Serialize;

use super::Answer;

/// The question and the verdict, with which every document begins.
#[derive(Serialize)]
pub(super) struct Head {
    version: u32,
    test: String,
    setting: String,
    formula: String,
    /// The verdict: allowed, forbidden, or nothing if unknown or vacuous.
    pub(super) verdict: Option<&'static str>,
    /// Whether no execution reaches the end.
    pub(super) vacuous: bool,
    /// Whether no limit left anything open.
    pub(super) complete: bool,
    /// The limit that was reached, and the remedy.
    pub(super) limit: Option<String>,
}

impl Head {
    /// Returns the head of a document whose verdict is not known.
    pub(super) fn new(test: &str, setting: &impl ToString, formula: &str) -> Head {
        Head {
            version: 1,
            test: test.to_owned(),
            setting: setting.to_string(),
            formula: formula.to_owned(),
            verdict: None,
            vacuous: false,
            complete: false,
            limit: None,
        }
    }

    /// Says that the test has no execution.
    pub(super) fn set_vacuous(&mut self) {
        self.vacuous = true;
        self.complete = true;
    }
}

/// The document. Fields that do not belong to the verdict are left out.
#[derive(Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    head: Head,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness: Option<Graph>,
    /// The machine's steps to the outcome; nothing if the machine does not reach it or a limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cycles: Option<Vec<Cycle>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relaxations: Option<Vec<ChangeEntry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undecided: Option<Vec<ChangeEntry>>,
}

/// An execution.
#[derive(Serialize)]
pub(super) struct Graph {
    events: Vec<EventEntry>,
    /// Pairs of event numbers, by the relation's name. Orders have their immediate pairs only.
    relations: BTreeMap<&'static str, Vec<(usize, usize)>>,
}

#[derive(Serialize)]
struct EventEntry {
    /// Position in `events`.
    id: usize,
    /// The thread's name; nothing for an initial write.
    thread: Option<String>,
    /// The papers' notation, unique within the thread.
    label: String,
    /// Event type, as in the label.
    kind: &'static str,
    location: Option<String>,
    reads: Option<i64>,
    writes: Option<i64>,
}

#[derive(Serialize)]
struct Cycle {
    /// Candidate executions that this cycle explains.
    candidates: u64,
    edges: Vec<EdgeEntry>,
    execution: Graph,
}

#[derive(Serialize)]
struct EdgeEntry {
    from: usize,
    to: usize,
    /// issue (`ib`) or observe (`ob`, `hb`).
    order: &'static str,
    /// The term of the order.
    part: &'static str,
    /// The table cell, by the figure's name.
    cell: Option<String>,
    /// The edge in words, with its source.
    reason: String,
    /// For `nfo`: the edges that force the direction.
    forced_by: Vec<EdgeEntry>,
}

#[derive(Serialize)]
pub(super) struct ChangeEntry {
    /// remove, cell, term, rule or model.
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl Document {
    pub(super) fn new(litmus: &Litmus, setting: Setting, formula: &str, answer: &Answer) -> Document {
        let program = &litmus.program;
        let mut document = Document {
            head: Head::new(&litmus.name, &setting, formula),
            witness: None,
            steps: None,
            candidates: None,
            cycles: None,
            relaxations: None,
            undecided: None,
        };
        match answer {
            Answer::Unknown(limit) => document.head.limit = Some(limit.advice()),
            Answer::Vacuous => document.head.set_vacuous(),
            Answer::Allowed { witness, steps } => {
                document.head.verdict = Some("allowed");
                document.head.complete = steps.is_ok();
                document.head.limit = steps.as_ref().err().map(Limit::advice);
                document.witness = Some(graph(program, &witness.execution));
                document.steps = steps.as_ref().ok().cloned().flatten();
            }
            Answer::Forbidden(reason) => {
                let cycle = |case: &Case| Cycle {
                    candidates: case.candidates,
                    edges: edges(program, setting, &case.execution, &case.cycle.edges),
                    execution: graph(program, &case.execution),
                };
                let change = |change: &Change| change_entry(program, setting, change);
                document.head.verdict = Some("forbidden");
                document.head.complete = reason.is_complete();
                document.head.limit = reason.limit.as_ref().map(Limit::advice);
                document.candidates = Some(reason.candidates);
                document.cycles = Some(reason.cases.iter().map(cycle).collect());
                let relaxations = reason.relaxations.iter().map(|r| change(&r.change));
                document.relaxations = Some(relaxations.collect());
                document.undecided = Some(reason.undecided.iter().map(change).collect());
            }
        }
        document
    }
}

fn edges(program: &Program, setting: Setting, execution: &Execution, edges: &[Edge]) -> Vec<EdgeEntry> {
    let entry = |edge: &Edge| EdgeEntry {
        from: edge.from,
        to: edge.to,
        order: match edge.side {
            Side::Issue => "issue",
            Side::Observe => "observe",
        },
        part: edge.part.name(),
        cell: edge.cell.as_ref().map(|c| c.name.clone()),
        reason: edge_reason(program, setting, execution, edge),
        forced_by: self::edges(program, setting, execution, &edge.forced_by),
    };
    edges.iter().map(entry).collect()
}

fn change_entry(program: &Program, setting: Setting, change: &Change) -> ChangeEntry {
    ChangeEntry {
        kind: match change {
            Change::Remove { .. } => "remove",
            Change::Cell { .. } => "cell",
            Change::Part { .. } => "term",
            Change::Model(_) => "model",
        },
        text: change_text(program, setting, change),
    }
}

/// Describes an execution.
pub(super) fn graph(program: &Program, execution: &Execution) -> Graph {
    let immediate = |r: &Relation| r.minus(&r.then(r));
    let pairs = |r: &Relation| r.pairs().collect();
    let labels = execution.labels(program);
    let events = labels.into_iter().enumerate().map(|(id, label)| {
        let event = &execution.events[id];
        EventEntry {
            id,
            thread: event
                .thread
                .map(|t| program.threads[usize::from(t.0)].name.clone()),
            label,
            kind: event.kind.label(),
            location: event
                .loc
                .map(|l| program.locations[usize::from(l.0)].name.clone()),
            reads: execution.reads[id],
            writes: execution.writes[id],
        }
    });
    Graph {
        events: events.collect(),
        relations: BTreeMap::from([
            ("po", pairs(&immediate(&execution.po))),
            ("rf", pairs(&execution.rf)),
            ("mo", pairs(&immediate(&execution.mo))),
            ("pf", pairs(&execution.pf)),
            ("nfo", pairs(&execution.nfo)),
            ("rao", pairs(&immediate(&execution.rao))),
        ]),
    }
}
