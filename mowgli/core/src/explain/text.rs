//! Explanations as text.

use std::fmt::Write;
use std::ops::Range;

use super::Reason;
use super::cycle::{CellRef, Cycle, Edge, Side};
use super::relax::Change;
use crate::counted::counted;
use crate::event::{Event, Execution, Kind};
use crate::litmus::instruction;
use crate::model::{Model, Tier};
use crate::models::tables::{Cell, Order};
use crate::models::{Part, Spec};
use crate::outcome::Limit;
use crate::program::{Program, at};
use crate::relation::Relation;

/// Returns an execution: its events by thread, then its relations.
pub(super) fn execution(program: &Program, execution: &Execution) -> String {
    let names = Names::new(program, execution);
    let mut text = String::new();
    for (thread, t) in program.threads.iter().enumerate() {
        let _ = writeln!(text, "{} on node {}:", t.name, t.node.0 + 1);
        for e in 0..execution.len() {
            let event = &execution.events[e];
            if event.thread.is_some_and(|id| usize::from(id.0) == thread) {
                let _ = writeln!(text, "  {}", names.labels[e]);
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

/// Returns the first line of a reason: that each candidate `fails`, as in "has a cycle", or that there is no case. A search that
/// stopped may have missed what was `sought`.
pub fn opening(cases: usize, candidates: u64, limit: Option<&Limit>, fails: &str, sought: &str) -> String {
    let mut line = match (cases, limit, candidates) {
        (0, None, _) => {
            "No execution has these values: no choice of sources for the reads gives them.".to_owned()
        }
        (0, Some(limit), _) => format!("No {sought} was found: {limit}."),
        (_, None, 1) => format!("The one candidate execution with this outcome {fails}."),
        (_, None, n) => format!("Each of the {n} candidate executions with this outcome {fails}."),
        (_, Some(limit), n) => {
            format!("Each of the first {n} candidate executions with this outcome {fails} ({limit}).")
        }
    };
    line.push('\n');
    line
}

/// Returns the first line of a reason that consists of cycles.
fn first_line(cycles: usize, limit: Option<&Limit>, source: &str) -> String {
    let these = match cycles {
        1 => "this cycle".to_owned(),
        n => format!("one of these {n} cycles"),
    };
    match (cycles, limit) {
        (0, _) => opening(0, 0, limit, "", "cycle"),
        (_, None) => format!("Every execution with this outcome has {these} under {source}.\n"),
        (_, Some(limit)) => format!(
            "Every execution with this outcome that was looked at has {these} under {source} ({limit}).\n"
        ),
    }
}

/// Returns the heading of case `index`, after an empty line. There is none if it is the only one of all `cases`.
pub fn heading(what: &str, index: usize, cases: usize, candidates: u64) -> String {
    match cases {
        1 => String::new(),
        _ => format!(
            "\n{what} {} of {cases}, of {}:\n",
            index + 1,
            counted(candidates, "candidate")
        ),
    }
}

/// Returns the reason why an outcome is forbidden, with the cycles of the cases in `shown`.
pub(super) fn reason(program: &Program, spec: &Spec, reason: &Reason, shown: Range<usize>) -> String {
    let count = reason.cases.len();
    let mut text = first_line(count, reason.limit.as_ref(), spec.source);
    for (index, case) in reason.cases.iter().enumerate() {
        if !shown.contains(&index) {
            continue;
        }
        text.push_str(&heading("Cycle", index, count, case.candidates));
        text.push('\n');
        text.push_str(&cycle(program, spec, &case.execution, &case.cycle));
        if let Some((a, b)) = case.cycle.contest(&case.execution) {
            text.push_str(&contest(program, &case.execution, a, b));
        }
    }
    if shown.len() < count {
        text.push_str("\n--all shows every cycle, --cycle N one of them.\n");
    }
    if !reason.relaxations.is_empty() {
        text.push_str("\nIt would be allowed\n");
        for relaxation in &reason.relaxations {
            let _ = writeln!(text, "  {}", change(program, spec, &relaxation.change));
        }
    } else if reason.undecided.is_empty() {
        text.push_str("\nNo single change tried would allow it.\n");
    }
    if !reason.undecided.is_empty() {
        text.push_str("\nA limit stopped the search before it could tell whether it would be allowed\n");
        for undecided in &reason.undecided {
            let _ = writeln!(text, "  {}", change(program, spec, undecided));
        }
    }
    text
}

/// Returns a cycle, event by event.
pub(super) fn cycle(program: &Program, spec: &Spec, execution: &Execution, cycle: &Cycle) -> String {
    let names = Names::new(program, execution);
    let mut text = String::new();
    write_cycle(&mut text, &names, spec, cycle);
    text
}

/// Names two read-modify-writes that would read the same write.
fn contest(program: &Program, execution: &Execution, a: usize, b: usize) -> String {
    let name = |e: usize| {
        let event = &execution.events[e];
        let thread = event.thread.map(|t| &program.threads[usize::from(t.0)])?;
        let code = at(&thread.code, &event.path)?;
        Some(format!(
            "`{}` of {}",
            instruction(program, thread, code),
            thread.name
        ))
    };
    let (Some(a), Some(b)) = (name(a), name(b)) else {
        return String::new();
    };
    format!("\n  {a} and\n  {b}\n  would read the same write, and each would come before the other.\n")
}

fn write_cycle(text: &mut String, names: &Names<'_>, spec: &Spec, cycle: &Cycle) {
    for (i, edge) in cycle.edges.iter().enumerate() {
        let _ = writeln!(text, "  {}", names.full(edge.from));
        let words = edge_reason(names.program, names.execution, spec, edge);
        let _ = writeln!(text, "    -> {words}");
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

/// Says why an edge is there, with its source.
pub(super) fn edge_reason(program: &Program, execution: &Execution, spec: &Spec, edge: &Edge) -> String {
    let (a, b) = (&execution.events[edge.from], &execution.events[edge.to]);
    if edge.cell.is_some() && [a.kind, b.kind].contains(&Kind::NicReceive) {
        return format!(
            "{}: the order in which messages are posted, sent and delivered ({MESSAGES})",
            edge.part.name()
        );
    }
    if edge.cell.is_some() && b.announces && !b.strong && spec.is_asked(edge.part, a, b) {
        return format!(
            "{}: a receive completes after the earlier writes of its queue pair are placed ({MESSAGES})",
            edge.part.name()
        );
    }
    if edge.cell.is_some() && spec.is_asked(edge.part, a, b) {
        return format!(
            "{}: the later operation asks for strong order, which places it after the earlier writes of its queue pair ({})",
            edge.part.name(),
            TIERS
        );
    }
    if let Some(cell) = &edge.cell {
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
        return format!(
            "{} {}: {} before {}{together} ({})",
            edge.part.name(),
            cell.name,
            a.kind.prose(),
            b.kind.prose(),
            figure(spec, cell)
        );
    }
    let order = match (edge.side, spec.model.base()) {
        (Side::Issue, _) => "ib",
        (Side::Observe, Model::RdmaWait) => "hb",
        (Side::Observe, _) => "ob",
    };
    format!(
        "{} in {order}: {}{} ({})",
        edge.part.name(),
        part_reason(edge.part, a, b),
        direction(program, execution, &edge.forced_by),
        source(spec, edge.part)
    )
}

/// Says what forces the direction of an `nfo` edge: the instructions that the path goes through, and its cells.
fn direction(program: &Program, execution: &Execution, forced_by: &[Edge]) -> String {
    let Some((_, through)) = forced_by.split_last() else {
        return String::new();
    };
    let instructions: Vec<String> = through
        .iter()
        .map(|edge| synchronisation(program, execution, edge.to))
        .collect();
    let edge_name = |edge: &Edge| match &edge.cell {
        Some(cell) => format!("{} {}", edge.part.name(), cell.name),
        None => edge.part.name().to_owned(),
    };
    let edges: Vec<String> = forced_by.iter().map(edge_name).collect();
    match instructions.is_empty() {
        true => format!("; this way round because of {}", edges.join(", ")),
        false => format!(
            "; this way round because of {}: {}",
            instructions.join(", "),
            edges.join(", ")
        ),
    }
}

/// Returns the instruction of a fence, a poll or a wait; the label of any other event.
fn synchronisation(program: &Program, execution: &Execution, event: usize) -> String {
    let e = &execution.events[event];
    match (e.kind, e.peer) {
        (Kind::NicFence, Some(peer)) => format!("rfence({})", peer.0 + 1),
        (Kind::Poll, Some(peer)) if e.work.is_none() => format!("poll({})", peer.0 + 1),
        _ => execution.labels(program)[event].clone(),
    }
}

/// Returns the place that defines a cell of a table. The cells of the atomic read are our extension.
fn figure<'a>(spec: &'a Spec, cell: &CellRef) -> &'a str {
    let ours = Kind::NicAtomicRead.label();
    match cell.earlier == ours || cell.later == ours {
        _ if is_of_tier(spec, cell) => TIERS,
        true => "docs/rmw.md",
        false => spec.figure,
    }
}

/// The page that says what messages are.
const MESSAGES: &str = "docs/litmus.md";

/// The page with the tables of the tiers.
const TIERS: &str = "docs/ordering-models.md";

/// Returns whether the table of the model's tier has the cell: a cell of two events of the NIC.
fn is_of_tier(spec: &Spec, cell: &CellRef) -> bool {
    let nic = |label: &str| Kind::ALL.iter().any(|k| !k.is_cpu() && k.label() == label);
    spec.tier() != Tier::Ibta && nic(cell.earlier) && nic(cell.later)
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
        Part::Nfo if a.is_write() && b.is_write() => {
            "the NIC handed the writes to the bus in this order, and the bus keeps it"
        }
        Part::Nfo if b.is_write() => "the NIC read came first on this queue pair",
        Part::Nfo => "the NIC read flushes the earlier NIC write of its queue pair (PCIe)",
        Part::Rao => "atomics at one node do not overlap",
    }
}

fn source(spec: &Spec, part: Part) -> &'static str {
    match part {
        Part::Rao => "docs/rmw.md, rao",
        Part::Nfo if spec.tier() != Tier::Ibta => TIERS,
        _ => spec.source,
    }
}

/// Returns a change, as the end of "it would be allowed".
pub(super) fn change(program: &Program, spec: &Spec, change: &Change) -> String {
    match change {
        Change::Remove { thread, path, text } => {
            let name = &program.threads[*thread].name;
            let line = path.first().map_or(0, |i| i + 1);
            format!("without `{text}` (instruction {line} of {name})")
        }
        Change::Cell { cell } => format!(
            "if cell {} ordered nothing: {} before {} ({})",
            cell.name,
            cell.earlier,
            cell.later,
            figure(spec, cell)
        ),
        Change::Part { issue, part } => {
            let order = if *issue { "ib" } else { "ob" };
            format!("if {order} did not contain {}", part.name())
        }
        Change::Model(setting) => format!("under {setting}"),
    }
}

/// Returns the pairs of an order that no third event separates.
fn immediate(order: &Relation) -> Relation {
    order.minus(&order.then(order))
}

/// The names of an execution's events.
struct Names<'a> {
    program: &'a Program,
    execution: &'a Execution,
    labels: Vec<String>,
}

impl<'a> Names<'a> {
    fn new(program: &'a Program, execution: &'a Execution) -> Names<'a> {
        Names {
            program,
            execution,
            labels: execution.labels(program),
        }
    }

    /// Returns the label with the thread: `P0: nrW(y,1)`.
    fn full(&self, e: usize) -> String {
        let label = &self.labels[e];
        match self.execution.events[e].thread {
            None => format!("init: {label}"),
            Some(t) => format!("{}: {label}", self.program.threads[usize::from(t.0)].name),
        }
    }
}
