//! A candidate as a graph: events with labels, relations between them, and the drawing of both.

use std::collections::BTreeMap;

use mowgli::explain::{Drawing, Style};
use serde::Serialize;

use super::candidate::{Candidate, Claimed};
use super::{Case, ValueOf, Violation, Witness};
use crate::action::{Action, actions};
use crate::litmus::statement;
use crate::program::Program;
use crate::value::Value;
use crate::values::{Origin, Values};

/// An execution, or a candidate that breaks the rules, as a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Graph {
    /// Actions in the order of [`actions`], then the initial writes, in the order of the locations.
    pub events: Vec<Event>,
    /// Pairs of indices of events by relation: `po` and `mo` (the order WS of atomic writes) with their immediate pairs, and `rf`.
    pub relations: BTreeMap<&'static str, Vec<(usize, usize)>>,
}

/// An event of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Its index.
    pub id: usize,
    /// The process; nothing for an initial write.
    pub thread: Option<String>,
    /// Type, location and values, unique within the process: `ew(X,1)`.
    pub label: String,
    /// The statement as text; nothing for an initial write.
    pub statement: Option<String>,
    /// The type in the paper's words: `r`, `w`, `er`, `ew`, `erw`, `flush`; `init` for an initial write.
    pub kind: &'static str,
    /// The location.
    pub location: Option<String>,
    /// The value that it reads.
    pub reads: Option<Value>,
    /// The value that it writes.
    pub writes: Option<Value>,
}

impl Event {
    /// Returns the label with the process: `P0: ew(X,1)`.
    pub fn full(&self) -> String {
        match &self.thread {
            Some(thread) => format!("{thread}: {}", self.label),
            None => format!("init: {}", self.label),
        }
    }
}

impl Graph {
    /// Builds the graph of a candidate.
    pub fn new(program: &Program, candidate: &Candidate) -> Graph {
        let actions = actions(program);
        let claimed = Claimed {
            actions: &actions,
            candidate,
        };
        let mut values = Values::new(claimed, &program.locations);
        let mut events: Vec<Event> = Vec::new();
        for (at, action) in actions.iter().enumerate() {
            let process = &program.processes[usize::from(action.process)];
            let location = action.loc.map(|l| program.location(l).name.clone());
            let reads = action.reads().then(|| values.read(at));
            let writes = action.writes().then(|| values.written(at));
            let of = &process.code[usize::from(action.statement)];
            let mut event = Event {
                id: at,
                thread: Some(format!("P{}", action.process)),
                label: label(program, action, reads, writes),
                statement: Some(statement(program, process, of)),
                kind: action.kind.name(),
                location,
                reads,
                writes,
            };
            let same = |e: &&Event| {
                let first = e.label.split('#').next();
                e.thread == event.thread && first == Some(event.label.as_str())
            };
            let count = events.iter().filter(same).count();
            if count > 0 {
                event.label = format!("{}#{}", event.label, count + 1);
            }
            events.push(event);
        }
        let init = actions.len();
        for (at, location) in program.locations.iter().enumerate() {
            events.push(Event {
                id: init + at,
                thread: None,
                label: format!("w({},{})", location.name, location.init),
                statement: None,
                kind: "init",
                location: Some(location.name.clone()),
                reads: None,
                writes: Some(Value::Known(location.init)),
            });
        }
        let relations = BTreeMap::from([
            ("po", program_order(&actions)),
            ("rf", reads_from(&actions, candidate)),
            ("mo", write_order(&actions, candidate)),
        ]);
        Graph { events, relations }
    }

    /// Lays the graph out. With marked pairs, only these, program order and reads-from are drawn.
    fn drawing(&self, program: &Program, marks: Option<&[(usize, usize, &'static str)]>) -> Drawing {
        let styles = [
            ("po", Style::ProgramOrder),
            ("rf", Style::ReadsFrom),
            ("mo", Style::ModificationOrder),
        ];
        let shown = |name: &str| marks.is_none() || name != "mo";
        let mut arrows: Vec<(usize, usize, &'static str, Style)> = Vec::new();
        for (name, style) in styles.into_iter().filter(|(name, _)| shown(name)) {
            let pairs = self.relations.get(name).into_iter().flatten();
            arrows.extend(pairs.map(|&(from, to)| (from, to, name, style)));
        }
        let marked = marks.unwrap_or_default().iter();
        arrows.extend(marked.map(|&(from, to, name)| (from, to, name, Style::Cycle)));
        let used = |e: usize| arrows.iter().any(|a| a.0 == e || a.1 == e);
        let labels: Vec<String> = self.events.iter().map(|e| e.label.clone()).collect();
        let first_init = self.events.len() - program.locations.len();
        let mut drawing = Drawing::default();
        let mut at = vec![None; self.events.len()];
        for node in 0..program.nodes {
            let here = |l: &usize| program.locations[*l].node.0 == node;
            let initial = (0..program.locations.len()).filter(here).map(|l| first_init + l);
            let initial: Vec<usize> = initial.filter(|&e| used(e)).collect();
            if !initial.is_empty() {
                drawing.add_column(node, "memory", &initial, &labels, &mut at);
            }
            for (p, _) in program
                .processes
                .iter()
                .enumerate()
                .filter(|(_, p)| p.node.0 == node)
            {
                let name = format!("P{p}");
                let own = self.events.iter().filter(|e| e.thread.as_ref() == Some(&name));
                let own: Vec<usize> = own.map(|e| e.id).collect();
                drawing.add_column(node, &name, &own, &labels, &mut at);
            }
        }
        for (from, to, name, style) in arrows {
            if let (Some(from), Some(to)) = (at[from], at[to]) {
                drawing.add_arrow(from, to, name, style);
            }
        }
        drawing
    }
}

impl Witness {
    /// Returns the execution's graph.
    pub fn graph(&self, program: &Program) -> Graph {
        Graph::new(program, &self.candidate)
    }

    /// Lays the execution out.
    pub fn drawing(&self, program: &Program) -> Drawing {
        self.graph(program).drawing(program, None)
    }
}

impl Case {
    /// Returns the candidate's graph.
    pub fn graph(&self, program: &Program) -> Graph {
        Graph::new(program, &self.candidate)
    }

    /// Lays the candidate out, with what it breaks marked.
    pub fn drawing(&self, program: &Program) -> Drawing {
        let graph = self.graph(program);
        let first_init = graph.events.len() - program.locations.len();
        let marks: Vec<(usize, usize, &'static str)> = match &self.violation {
            Violation::Cycle(pairs) => pairs
                .iter()
                .map(|o| (usize::from(o.from), usize::from(o.to), o.rule.name()))
                .collect(),
            Violation::Value {
                of: ValueOf::Read(read),
                claimed,
                conflict,
                ..
            } => {
                let read = usize::from(*read);
                let loc = graph.events[read].location.clone();
                let init = program
                    .locations
                    .iter()
                    .position(|l| Some(&l.name) == loc.as_ref());
                let from = match (conflict, claimed) {
                    (Some(other), _) => Some(usize::from(*other)),
                    (None, Origin::Write(write)) => Some(usize::from(*write)),
                    (None, _) => init.map(|l| first_init + l),
                };
                let rule = self.violation.rules().first().map_or("", |rule| rule.name());
                from.map(|from| (from, read, rule)).into_iter().collect()
            }
            Violation::Value { .. } => Vec::new(),
        };
        graph.drawing(program, Some(&marks))
    }
}

fn label(program: &Program, action: &Action, reads: Option<Value>, writes: Option<Value>) -> String {
    let mut inside: Vec<String> = Vec::new();
    match (action.loc, action.target) {
        (Some(loc), _) => inside.push(program.location(loc).name.clone()),
        (None, Some(node)) => inside.push(node.to_string()),
        (None, None) => {}
    }
    match (reads, writes) {
        (Some(r), Some(w)) => inside.push(format!("{r}->{w}")),
        (Some(v), None) | (None, Some(v)) => inside.push(v.to_string()),
        (None, None) => {}
    }
    let plain = match action.loc.is_some() && !action.atomic {
        true => ".n",
        false => "",
    };
    format!("{}{plain}({})", action.kind.name(), inside.join(","))
}

fn program_order(actions: &[Action]) -> Vec<(usize, usize)> {
    let next = |at: &usize| actions[*at].process == actions[at + 1].process;
    let last = actions.len().saturating_sub(1);
    (0..last).filter(next).map(|at| (at, at + 1)).collect()
}

fn reads_from(actions: &[Action], candidate: &Candidate) -> Vec<(usize, usize)> {
    let source = |(at, action): (usize, &Action)| {
        let loc = action.loc.filter(|_| action.reads())?;
        let from = match candidate.reads[at] {
            Origin::Init => actions.len() + usize::from(loc.0),
            Origin::Write(write) => usize::from(write),
            Origin::Undefined => return None,
        };
        Some((from, at))
    };
    actions.iter().enumerate().filter_map(source).collect()
}

fn write_order(actions: &[Action], candidate: &Candidate) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    for (loc, writes) in candidate.orders.iter().enumerate() {
        let mut before = actions.len() + loc;
        for &write in writes {
            out.push((before, usize::from(write)));
            before = usize::from(write);
        }
    }
    out
}
