//! Draws executions of clients: a column for each thread, a box for each subevent, arrows for program order and `so`.
//!
//! Relies on the drawings of `mowgli`. [`crate::explain`] and [`crate::refine`] have executions to draw, for
//! `mowgli explain --svg` and `mowgli refine --svg`.

use mowgli::explain::{Drawing, Style};

use crate::execution::{Edge, Graph};

/// Draws an execution. With a cycle, only its edges and program order are drawn; its last edge need not be in `so`.
pub fn drawing(g: &Graph<'_>, so: &[Edge], cycle: Option<&[Edge]>) -> Drawing {
    let mut out = Drawing::default();
    let mut threads: Vec<usize> = (0..g.client.threads.len()).collect();
    threads.sort_by_key(|&t| g.client.threads[t].node);
    let labels: Vec<String> = (0..g.subevents.len()).map(|s| label(g, s)).collect();
    let mut at = vec![None; g.subevents.len()];
    for t in threads {
        let own: Vec<usize> = (0..g.subevents.len())
            .filter(|&s| usize::from(g.events[g.subevents[s].event].thread) == t)
            .collect();
        let node = g.client.threads[t].node.0;
        out.add_column(node, &format!("P{t}"), &own, &labels, &mut at);
        // Subevents of one event are in no program order.
        for pair in own.windows(2).filter(|pair| g.po_sub(pair[0], pair[1])) {
            arrow(&mut out, &at, pair[0], pair[1], "po", Style::ProgramOrder);
        }
    }
    match cycle {
        Some(cycle) => {
            for edge in cycle {
                arrow(&mut out, &at, edge.from, edge.to, edge.why, Style::Cycle);
            }
        }
        None => {
            // What follows from `ib` would hide the rest.
            for edge in so.iter().filter(|edge| edge.why != "ib") {
                arrow(&mut out, &at, edge.from, edge.to, edge.why, style(edge.why));
            }
        }
    }
    out
}

fn arrow(out: &mut Drawing, at: &[Option<usize>], from: usize, to: usize, label: &str, style: Style) {
    if let (Some(from), Some(to)) = (at[from], at[to]) {
        out.add_arrow(from, to, label, style);
    }
}

/// Names the call and the stamp of a subevent. Its column tells the thread.
fn label(g: &Graph<'_>, subevent: usize) -> String {
    let text = g.display(subevent);
    text.split_once(": ")
        .map_or(text.clone(), |(_, call)| call.to_owned())
}

/// Returns the look of a term of `so`.
fn style(why: &str) -> Style {
    match why {
        "rf" => Style::ReadsFrom,
        "mo" => Style::ModificationOrder,
        "pf" | "pfg" => Style::PollsFrom,
        "nfo" => Style::FlushOrder,
        "rao" => Style::Atomics,
        _ => Style::Shown,
    }
}
