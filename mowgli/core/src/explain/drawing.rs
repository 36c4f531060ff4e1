//! An execution graph laid out on a grid: threads as columns, nodes as groups of columns, program order downwards.
//!
//! [`Drawing::svg`] and [`Drawing::dot`] print it; neither needs a drawing tool.

use serde::Serialize;

use super::cycle::{Cycle, Edge};
use crate::event::Execution;
use crate::models::Part;
use crate::program::Program;
use crate::relation::Relation;

/// A graph to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drawing {
    /// Columns from left to right; those of one node are next to each other.
    pub columns: Vec<Place>,
    /// Events.
    pub boxes: Vec<NodeBox>,
    /// Relations.
    pub arrows: Vec<Arrow>,
}

/// A column: a thread, or the initial memory of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Node number, from 0.
    pub node: u8,
    /// The title above the column.
    pub title: String,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeBox {
    /// Index of the event in the execution.
    pub event: usize,
    /// Column.
    pub column: usize,
    /// Row, from 0 at the top.
    pub row: usize,
    /// The event in the papers' notation.
    pub label: String,
    /// True if it is on the cycle shown.
    pub marked: bool,
}

/// One or more relations between two events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arrow {
    /// Index of the box it leaves.
    pub from: usize,
    /// Index of the box it enters.
    pub to: usize,
    /// Names of the relations.
    pub label: String,
    /// The arrow's look.
    pub style: Style,
}

/// Looks of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Style {
    /// Program order.
    ProgramOrder,
    /// Reads-from.
    ReadsFrom,
    /// Modification order.
    ModificationOrder,
    /// Polls-from.
    PollsFrom,
    /// NIC flush order.
    FlushOrder,
    /// Order of atomics.
    Atomics,
    /// A relation that the model file asks to show.
    Shown,
    /// On the cycle shown.
    Cycle,
}

/// An edge to mark in a drawing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// Earlier event, an index into the execution's events.
    pub from: usize,
    /// Later event.
    pub to: usize,
    /// Words at the arrow.
    pub label: String,
}

impl Style {
    /// Every style that a legend lists, with its name.
    pub const LEGEND: [(Style, &'static str); 8] = [
        (Style::ProgramOrder, "po"),
        (Style::ReadsFrom, "rf"),
        (Style::ModificationOrder, "mo"),
        (Style::PollsFrom, "pf"),
        (Style::FlushOrder, "nfo"),
        (Style::Atomics, "rao"),
        (Style::Shown, "show"),
        (Style::Cycle, "cycle"),
    ];

    /// Returns the name in the legend, by which the parts of an SVG of this look are marked.
    pub fn name(self) -> &'static str {
        let known = Style::LEGEND.iter().find(|(style, _)| *style == self);
        known.map_or("", |(_, name)| name)
    }

    /// Returns the colour as `#rrggbb`.
    pub const fn colour(self) -> &'static str {
        match self {
            Style::ProgramOrder => "#9a9a9a",
            Style::ReadsFrom => "#1a8a3a",
            Style::ModificationOrder => "#1f5fbf",
            Style::PollsFrom => "#8a3ab0",
            Style::FlushOrder => "#a06a10",
            Style::Atomics => "#0f8a8a",
            Style::Shown => "#4a4a8a",
            Style::Cycle => "#d01c1c",
        }
    }
}

impl Drawing {
    /// Lays out an execution. With a cycle, only the cycle's edges, program order and reads-from are drawn.
    pub fn new(program: &Program, execution: &Execution, cycle: Option<&Cycle>) -> Drawing {
        let mark = |edge: &Edge| Mark {
            from: edge.from,
            to: edge.to,
            label: match &edge.cell {
                Some(cell) => format!("{} {}", edge.part.name(), cell.name),
                None => edge.part.name().to_owned(),
            },
        };
        let marks: Option<Vec<Mark>> = cycle.map(|c| c.edges.iter().map(mark).collect());
        Drawing::marked(program, execution, marks.as_deref(), &[])
    }

    /// Lays out an execution with further relations. With marked edges, only these, program order, reads-from and the further
    /// relations are drawn.
    pub fn marked(
        program: &Program,
        execution: &Execution,
        marks: Option<&[Mark]>,
        shown: &[(String, Relation)],
    ) -> Drawing {
        let mut drawing = Drawing::default();
        let relations = relations(execution, marks.is_some(), shown);
        let labels = execution.labels(program);
        let used = |e: usize| {
            relations
                .iter()
                .any(|(_, _, r)| r.pairs().any(|(a, b)| a == e || b == e))
        };
        let mut at = vec![None; execution.len()];
        for node in 0..program.nodes {
            let here = |e: &usize| {
                let event = &execution.events[*e];
                let loc = event.loc.map(|l| program.locations[usize::from(l.0)].node.0);
                event.thread.is_none() && loc == Some(node)
            };
            let initial: Vec<usize> = (0..execution.len()).filter(here).filter(|&e| used(e)).collect();
            if !initial.is_empty() {
                drawing.add_column(node, "memory", &initial, &labels, &mut at);
            }
            for (t, thread) in program.threads.iter().enumerate() {
                let of_thread =
                    |e: &usize| execution.events[*e].thread.is_some_and(|x| usize::from(x.0) == t);
                if thread.node.0 == node {
                    let events: Vec<usize> = (0..execution.len()).filter(of_thread).collect();
                    drawing.add_column(node, &thread.name, &events, &labels, &mut at);
                }
            }
        }
        for (style, name, relation) in &relations {
            for (a, b) in relation.pairs() {
                if let (Some(from), Some(to)) = (at[a], at[b]) {
                    drawing.add_arrow(from, to, name, *style);
                }
            }
        }
        for Mark { from, to, label } in marks.unwrap_or_default() {
            if let (Some(from), Some(to)) = (at[*from], at[*to]) {
                drawing.add_arrow(from, to, label, Style::Cycle);
            }
        }
        drawing
    }

    /// Adds a column on the right, with one box for each of `events`. `labels` has the words of every event, and `at` gets the index of the
    /// box of each event of the column.
    pub fn add_column(
        &mut self,
        node: u8,
        title: &str,
        events: &[usize],
        labels: &[String],
        at: &mut [Option<usize>],
    ) {
        let column = self.columns.len();
        self.columns.push(Place {
            node,
            title: title.to_owned(),
        });
        for (row, &event) in events.iter().enumerate() {
            at[event] = Some(self.boxes.len());
            self.boxes.push(NodeBox {
                event,
                column,
                row,
                label: labels[event].clone(),
                marked: false,
            });
        }
    }

    /// Adds an arrow between two boxes, or its name to one that is already there. An arrow of the cycle marks both boxes.
    pub fn add_arrow(&mut self, from: usize, to: usize, label: &str, style: Style) {
        if style == Style::Cycle {
            self.boxes[from].marked = true;
            self.boxes[to].marked = true;
        }
        // Program order keeps its own line, unless the cycle runs along it.
        let joins = |a: &Arrow| {
            style == Style::Cycle || (a.style == Style::ProgramOrder) == (style == Style::ProgramOrder)
        };
        let known = self
            .arrows
            .iter_mut()
            .find(|a| (a.from, a.to) == (from, to) && joins(a));
        match known {
            Some(arrow) => {
                if style == Style::Cycle && arrow.style == Style::ProgramOrder {
                    arrow.label = label.to_owned();
                } else if !arrow.label.split(", ").any(|l| l == label) {
                    arrow.label = format!("{}, {label}", arrow.label);
                }
                if style == Style::Cycle {
                    arrow.style = style;
                }
            }
            None => self.arrows.push(Arrow {
                from,
                to,
                label: label.to_owned(),
                style,
            }),
        }
    }
}

/// Returns the relations to draw, immediate pairs only where they are orders.
fn relations<'s>(
    execution: &Execution,
    marked: bool,
    shown: &'s [(String, Relation)],
) -> Vec<(Style, &'s str, Relation)> {
    let immediate = |r: &Relation| r.minus(&r.then(r));
    let n = execution.len();
    // Initial writes come before everything, so no arrow says so.
    let in_thread = |r: Relation| {
        let inside = |&(a, _): &(usize, usize)| execution.events[a].thread.is_some();
        Relation::from_pairs(n, r.pairs().filter(inside))
    };
    let mut all = vec![
        (Style::ProgramOrder, "po", in_thread(immediate(&execution.po))),
        (Style::ReadsFrom, "rf", execution.rf.clone()),
    ];
    if !marked {
        all.extend([
            (Style::ModificationOrder, "mo", immediate(&execution.mo)),
            (Style::PollsFrom, "pf", execution.pf.clone()),
            (Style::FlushOrder, Part::Nfo.name(), execution.nfo.clone()),
            (Style::Atomics, Part::Rao.name(), immediate(&execution.rao)),
        ]);
    }
    let named = |(name, relation): &'s (String, Relation)| {
        (Style::Shown, name.as_str(), in_thread(immediate(relation)))
    };
    all.extend(shown.iter().map(named));
    all
}
