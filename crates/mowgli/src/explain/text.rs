//! Explanations as text.

use std::fmt::Write;

use super::Reason;
use super::cycle::{Cycle, Edge, Side};
use super::relax::Change;
use crate::event::{Event, Execution, Kind};
use crate::model::Model;
use crate::models::tables::{Cell, Order};
use crate::models::{Part, Spec};
use crate::program::Program;
use crate::relation::Relation;

/// An execution: its events by thread, then its relations.
pub(super) fn execution(program: &Program, execution: &Execution) -> String {
    let names = Names { program, execution };
    let mut text = String::new();
    for (thread, t) in program.threads.iter().enumerate() {
        let _ = writeln!(text, "{} on node {}:", t.name, t.node.0 + 1);
        for e in 0..execution.len() {
            let event = &execution.events[e];
            if event.thread.is_some_and(|id| usize::from(id.0) == thread) {
                let _ = writeln!(text, "  {}", names.local(e));
            }
        }
    }
    let relations = [
        ("rf", &execution.rf),
        ("mo", &immediate(&execution.mo)),
        ("pf", &execution.pf),
        ("nfo", &execution.nfo),
        ("rao", &immediate(&execution.rao)),
    ];
    for (name, relation) in relations {
        for (a, b) in relation.pairs() {
            let _ = writeln!(text, "{name}: {} -> {}", names.full(a), names.full(b));
        }
    }
    text
}

/// The reason why an outcome is forbidden.
pub(super) fn reason(program: &Program, spec: &Spec, reason: &Reason) -> String {
    let mut text = String::new();
    let Some((execution, cycle)) = &reason.smallest else {
        let _ = match &reason.limit {
            None => writeln!(
                text,
                "No execution has these values: no choice of sources for the reads gives them."
            ),
            Some(limit) => writeln!(text, "No cycle was found within the limits: {limit}."),
        };
        return text;
    };
    let names = Names { program, execution };
    let who = match (&reason.limit, reason.candidates) {
        (None, 1) => "The one candidate execution with this outcome has a cycle".to_owned(),
        (None, n) => format!("Each of the {n} candidate executions with this outcome has a cycle"),
        (Some(limit), n) => {
            format!("Each of the first {n} candidate executions with this outcome has a cycle ({limit})")
        }
    };
    let which = if reason.candidates == 1 {
        "Under"
    } else {
        "The smallest, under"
    };
    let _ = writeln!(text, "{who}. {which} {}:\n", spec.source);
    write_cycle(&mut text, &names, spec, cycle);
    let others = reason.cases.len().saturating_sub(1);
    if others > 0 {
        let _ = writeln!(
            text,
            "\n{others} other cycle{} cover{} the remaining candidates.",
            if others == 1 { "" } else { "s" },
            if others == 1 { "s" } else { "" },
        );
    }
    if reason.relaxations.is_empty() {
        text.push_str("\nNo single change tried would allow it.\n");
    } else {
        text.push_str("\nIt would be allowed\n");
        for relaxation in &reason.relaxations {
            let _ = writeln!(text, "  {}", change(program, spec, &relaxation.change));
        }
    }
    text
}

fn write_cycle(text: &mut String, names: &Names<'_>, spec: &Spec, cycle: &Cycle) {
    for (i, edge) in cycle.edges.iter().enumerate() {
        let _ = writeln!(text, "  {}", names.full(edge.from));
        let _ = writeln!(text, "    -> {}", edge_reason(names.execution, spec, edge));
        let next = &cycle.edges[(i + 1) % cycle.edges.len()];
        if (edge.side, next.side) == (Side::Issue, Side::Observe)
            && !spec.is_instantaneous(&names.execution.events[edge.to])
        {
            let _ = writeln!(text, "  {}", names.full(edge.to));
            let _ = writeln!(text, "    -> itself: issued before it is observed");
        }
    }
    if let Some(first) = cycle.edges.first() {
        let _ = writeln!(text, "  {}", names.full(first.from));
    }
}

/// Why an edge is there, with its source.
pub(super) fn edge_reason(execution: &Execution, spec: &Spec, edge: &Edge) -> String {
    let (a, b) = (&execution.events[edge.from], &execution.events[edge.to]);
    let order = match (edge.side, spec.model) {
        (Side::Issue, _) => "ib",
        (Side::Observe, Model::RdmaWait) => "hb",
        (Side::Observe, _) => "ob",
    };
    let words = match (&edge.cell, edge.part) {
        (Some(cell), _) => {
            let at = Cell {
                earlier: a.kind,
                later: b.kind,
            };
            let table = if edge.part == Part::Ippo {
                &spec.ippo
            } else {
                &spec.oppo
            };
            let together = match table.get(at) {
                Order::SameQueuePair => ", same queue pair",
                _ => "",
            };
            let ours = a.kind == Kind::NicAtomicRead || b.kind == Kind::NicAtomicRead;
            let (earlier, later) = (a.kind.prose(), b.kind.prose());
            let source = if ours { "docs/rmw.md" } else { spec.figure };
            let table = edge.part.name();
            return format!(
                "{table} {}: {earlier} before {later}{together} ({source})",
                cell.name
            );
        }
        (None, part) => part_reason(part, a, b),
    };
    format!(
        "{} in {order}: {words} ({})",
        edge.part.name(),
        source(spec, edge.part)
    )
}

fn part_reason(part: Part, a: &Event, b: &Event) -> &'static str {
    match part {
        Part::Po => "program order",
        Part::Ippo | Part::Oppo => "program order that the table preserves",
        Part::Iso => "subevents of one operation in their order",
        Part::Rf => "the later event reads what the earlier one wrote",
        Part::RfExternal => "read from memory, so the write had reached it",
        Part::Rb => "read an older value, so the write had not reached memory",
        Part::RbBuffer => "read past the buffer that the write is in, so the write was issued later",
        Part::Mo => "overwritten in memory by the later write",
        Part::Pf | Part::PfPut if a.kind == Kind::NicRemoteWrite => {
            "completion of the put, which says that its remote write was sent"
        }
        Part::Pf | Part::PfGet | Part::PfPut => "completion of the get, whose local write is in memory",
        Part::Nfo if b.is_write() => "the NIC read came first on this queue pair",
        Part::Nfo => "the NIC read flushes the earlier NIC write of its queue pair (PCIe)",
        Part::Rao => "atomics at one node do not overlap",
    }
}

fn source(spec: &Spec, part: Part) -> &'static str {
    match part {
        Part::Rao => "docs/rmw.md, rao",
        _ => spec.source,
    }
}

fn change(program: &Program, spec: &Spec, change: &Change) -> String {
    match change {
        Change::Remove { thread, path, text } => {
            let name = &program.threads[*thread].name;
            let line = path.first().map_or(0, |i| i + 1);
            format!("without `{text}` (instruction {line} of {name})")
        }
        Change::Cell { cell } => format!(
            "if cell {} ordered nothing: {} before {} ({})",
            cell.name, cell.earlier, cell.later, spec.figure
        ),
        Change::Part { issue, part } => {
            let order = if *issue { "ib" } else { "ob" };
            format!("if {order} did not contain {}", part.name())
        }
        Change::Model(setting) => format!("under {setting}"),
    }
}

/// The pairs of an order that no third event separates.
fn immediate(order: &Relation) -> Relation {
    order.minus(&order.then(order))
}

struct Names<'a> {
    program: &'a Program,
    execution: &'a Execution,
}

impl Names<'_> {
    /// `nrW(y,1)`.
    fn local(&self, e: usize) -> String {
        self.execution.label(e, self.program)
    }

    /// `P0: nrW(y,1)`.
    fn full(&self, e: usize) -> String {
        match self.execution.events[e].thread {
            None => format!("init: {}", self.local(e)),
            Some(t) => {
                let thread = &self.program.threads[usize::from(t.0)];
                format!("{}: {}", thread.name, self.local(e))
            }
        }
    }
}
