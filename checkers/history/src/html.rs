//! Makes the document of a history: what it draws, as data for [`film::of_history`]. Used by [`Report::html`].

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::report::{Partition, Report, Verdict, show_states};
use crate::{Spec, ThreadId};

/// Orders drawn for one partition at most; the report itself has more.
const ORDERS_MAX: usize = 256;
/// Partitions drawn at most.
const PARTITIONS_MAX: usize = 64;

impl<S: Spec> Report<'_, S> {
    /// Makes a page that draws the history as a timeline with one row for each thread, in the look of films of
    /// `loco check --html`. It shows every partition that is not ok, or all partitions if all are ok. The page needs nothing
    /// but a browser. A click on an operation shows the longest order found that contains it, with the states on the
    /// way.
    pub fn html(&self) -> String {
        page(self)
    }
}

fn page<S: Spec>(report: &Report<'_, S>) -> String {
    let bad = report.bad_partitions();
    let drawn: Vec<_> = if bad.is_empty() {
        report.partitions.iter().collect()
    } else {
        bad
    };
    let partitions: Vec<Value> = drawn
        .iter()
        .take(PARTITIONS_MAX)
        .map(|part| partition(report, part))
        .collect();
    let summary = report.text();
    let data = json!({
        "omitted": drawn.len().saturating_sub(PARTITIONS_MAX),
        "partitions": partitions,
    });
    let heading = film::Heading {
        title: "History of calls",
        note: summary.lines().next().unwrap_or_default(),
        verdict: match report.verdict() {
            Verdict::Ok => film::Verdict::Ok,
            Verdict::Violation => film::Verdict::Violation,
            Verdict::Unknown => film::Verdict::Unknown,
        },
    };
    // JSON that is already a value can always be written.
    film::of_history(heading, &data).unwrap_or_default()
}

fn partition<S: Spec>(report: &Report<'_, S>, part: &Partition<S::Key>) -> Value {
    use crate::Outcome;
    let all = &report.history.operations;
    let origin = report.origin();
    let mut threads: Vec<ThreadId> = part.operations.iter().map(|&i| all[i].thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let place: FxHashMap<usize, usize> = part
        .operations
        .iter()
        .enumerate()
        .map(|(at, &i)| (i, at))
        .collect();
    let operations: Vec<Value> = part
        .operations
        .iter()
        .map(|&i| {
            let operation = &all[i];
            json!({
                "index": i,
                // Threads of the operations are all in the list.
                "row": threads.binary_search(&operation.thread).unwrap_or(0),
                "from": operation.invoked.saturating_sub(origin),
                "to": operation.response.as_ref().map(|r| r.at.max(operation.invoked).saturating_sub(origin)),
                "text": report.spec.describe(&operation.call, operation.result()),
            })
        })
        .collect();
    let mut orders: Vec<&[usize]> = Vec::new();
    match &part.outcome {
        Outcome::Ok { witness } => orders.push(witness),
        Outcome::Violation { longest, blocked } | Outcome::Unknown { longest, blocked, .. } => {
            orders.extend(blocked.as_ref().map(|blocked| blocked.explained.as_slice()));
            orders.push(longest);
        }
    }
    orders.extend(part.partials.iter().take(ORDERS_MAX).map(Vec::as_slice));
    let orders: Vec<Value> = orders
        .into_iter()
        .map(|order| {
            let states = report.states(&part.key, order);
            json!({
                "operations": order.iter().map(|i| place[i]).collect::<Vec<_>>(),
                "states": states.iter().map(|states| show_states(states)).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "name": part.key.to_string(),
        "verdict": match part.verdict() {
            Verdict::Ok => "ok",
            Verdict::Violation => "violation",
            Verdict::Unknown => "unknown",
        },
        "threads": threads.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "operations": operations,
        "orders": orders,
        "blocked": part.blocked().map(|blocked| place[&blocked.operation]),
    })
}
