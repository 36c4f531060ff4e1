//! Says in words why a condition fails, with the instructions of the program, and draws the pair in its program.

use crate::event::{Event, Execution, Kind};
use crate::explain::{Cycle, Drawing, Edge, Side};
use crate::litmus::instruction;
use crate::models::Part;
use crate::outcome::Outcome;
use crate::program::{Program, at};
use crate::relation::Relation;

use super::reason::{EventRef, Pair, Reason};
use super::trace::{Trace, Traces};

/// Says in one or two sentences why a condition fails.
pub fn reason(program: &Program, reason: &Reason) -> String {
    match reason {
        Reason::Race { pair } => format!(
            "{} and race within their thread; needed: {}",
            reordered(program, pair),
            pair.need
        ),
        Reason::Unfenced {
            pair,
            sees_later,
            way,
            sees_earlier,
        } => {
            let steps: Vec<String> = way
                .iter()
                .map(|l| format!("to node {} by {}", l.to, program.threads[l.thread].name))
                .collect();
            let way = match steps.is_empty() {
                true => "both are on one node".to_owned(),
                false => format!("the way leads {}", steps.join(", then ")),
            };
            format!(
                "{}, and other threads could see it: {} the later location, {} the earlier one, and {way}; needed: {}",
                reordered(program, pair),
                reach(program, sees_later),
                reach(program, sees_earlier),
                pair.need
            )
        }
        Reason::NotPrivate { event, others } => format!(
            "{} uses a local location that {} too; needed: a location of its own",
            named(program, event),
            reach(program, others)
        ),
        Reason::Overtaken { pair } => format!("{}; needed: {}", reordered(program, pair), pair.need),
        Reason::StoreBuffer { pair } => format!("{}; needed: {}", reordered(program, pair), pair.need),
        Reason::Circle { nodes } => {
            let mut names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            names.extend(names.first().cloned());
            format!("queue pairs connect nodes {} in a circle", names.join(" - "))
        }
        Reason::BothWays { threads: (a, b) } if a == b => {
            let thread = &program.threads[*a];
            format!("{} has a queue pair towards its own node", thread.name)
        }
        Reason::BothWays { threads: (a, b) } => format!(
            "{} and {} have queue pairs towards each other's node",
            program.threads[*a].name, program.threads[*b].name
        ),
        Reason::TwoQueuePairs {
            threads: (a, b),
            peer,
        } => format!(
            "{} and {} on one node both have a queue pair towards node {peer}",
            program.threads[*a].name, program.threads[*b].name
        ),
    }
}

fn reordered(program: &Program, pair: &Pair) -> String {
    let thread = &program.threads[pair.earlier.thread].name;
    let events = (&pair.earlier.event, &pair.later.event);
    let labels = (label(program, events.0), label(program, events.1));
    let own = if pair.cell.is_ours() { " as extended" } else { "" };
    let place = format!(
        "{} before {}: cell {} of Fig. 5{own}",
        labels.0, labels.1, pair.cell
    );
    match events.0.same_instruction(events.1) {
        true => format!(
            "{thread} may reorder the halves of {} ({place})",
            code(program, events.0)
        ),
        false => format!(
            "{thread} may reorder {} and {} ({place})",
            code(program, events.0),
            code(program, events.1)
        ),
    }
}

fn reach(program: &Program, threads: &[usize]) -> String {
    let names: Vec<&str> = threads
        .iter()
        .map(|&t| program.threads[t].name.as_str())
        .collect();
    match names.as_slice() {
        [one] => format!("{one} reaches"),
        many => format!("{} reach", many.join(" and ")),
    }
}

fn named(program: &Program, event: &EventRef) -> String {
    let thread = &program.threads[event.thread].name;
    format!(
        "{thread}: {} ({})",
        code(program, &event.event),
        label(program, &event.event)
    )
}

/// Returns an event in the papers' notation, without values.
pub fn label(program: &Program, event: &Event) -> String {
    match event.loc {
        Some(loc) => format!("{}({})", event.kind, program.locations[usize::from(loc.0)].name),
        None => event.kind.to_string(),
    }
}

fn code(program: &Program, event: &Event) -> String {
    let text = event.thread.and_then(|t| {
        let thread = program.threads.get(usize::from(t.0))?;
        let instr = at(&thread.code, &event.path)?;
        Some(format!("`{}`", instruction(program, thread, instr)))
    });
    text.unwrap_or_else(|| label(program, event))
}

/// Draws a pre-execution that has the pair, with the pair marked. `None` if the reason is about no pair, or no trace has it.
pub fn drawing(program: &Program, traces: &Traces, reason: &Reason) -> Option<Drawing> {
    let pair = reason.pair()?;
    let has = |trace: &&Trace| {
        let event = |e: &EventRef| trace.events.get(e.index) == Some(&e.event);
        event(&pair.earlier) && event(&pair.later)
    };
    let chosen: Vec<&Trace> = traces
        .threads
        .iter()
        .enumerate()
        .map(|(t, all)| match t == pair.earlier.thread {
            true => all.iter().find(has),
            false => all.first(),
        })
        .collect::<Option<_>>()?;
    let execution = bare(program, &chosen);
    let first: usize = chosen[..pair.earlier.thread].iter().map(|t| t.events.len()).sum();
    let first = first + program.locations.len();
    let edge = Edge {
        from: first + pair.earlier.index,
        to: first + pair.later.index,
        side: Side::Observe,
        part: Part::Po,
        cell: None,
        forced_by: Vec::new(),
    };
    Some(Drawing::new(
        program,
        &execution,
        Some(&Cycle { edges: vec![edge] }),
    ))
}

/// Makes the pre-execution an execution without values and memory order.
fn bare(program: &Program, traces: &[&Trace]) -> Execution {
    let initial = (0..program.locations.len()).map(|loc| Event {
        thread: None,
        kind: Kind::LocalWrite,
        loc: Some(crate::program::Loc(loc as u16)),
        peer: None,
        work: None,
        rmw: false,
        inlined: false,
        announces: false,
        strong: false,
        relaxed: false,
        writes: true,
        instance: 0,
        path: Vec::new(),
    });
    let base = program.locations.len();
    let mut events: Vec<Event> = initial.collect();
    let mut pf = Vec::new();
    for trace in traces {
        let first = events.len();
        events.extend(trace.events.iter().cloned());
        pf.extend(trace.pf.iter().map(|&(w, p)| (first + w, first + p)));
    }
    let n = events.len();
    let po = Relation::from_fn(n, |a, b| {
        a < b && b >= base && (a < base || events[a].same_thread(&events[b]))
    });
    Execution {
        reads: vec![None; n],
        writes: vec![None; n],
        po,
        rf: Relation::empty(n),
        mo: Relation::empty(n),
        pf: Relation::from_pairs(n, pf),
        nfo: Relation::empty(n),
        rao: Relation::empty(n),
        outcome: Outcome {
            registers: Vec::new(),
            memory: Vec::new(),
        },
        events,
    }
}
