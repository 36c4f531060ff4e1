//! Specifies objects over recorded histories, for checks at the end of every explored execution.
//!
//! Threads record object calls with [`call`](crate::call). [`operations`] turns the record of an execution
//! into calls with times. One call precedes another exactly if it had returned before the other began. Each
//! function here states the promise of one object of LOCO. Linearizable objects are checked by `loco-history`,
//! which takes the same times.

mod linearizable;
mod log;
mod objects;

use std::fmt;

pub use linearizable::{atomic_variable, key_value_store, linearizable, lock, shared_queue};
pub use log::log;
pub use objects::{
    barrier, mixed_size_writes, mutual_exclusion, ring_buffer, shared_variable, single_writer,
};

use crate::world::history::{Event, ThreadHistory};

/// An object call of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The thread, by name.
    pub thread: String,
    /// The thread's number in the world.
    pub number: u16,
    /// The thread's node.
    pub node: u16,
    /// The name of the call: its first recorded word.
    pub name: String,
    /// The rest of the call.
    pub argument: String,
    /// The result of the call; `None` if it has not returned.
    pub result: Option<String>,
    /// The time at which the call began.
    pub invoked: u64,
    /// The time at which the call had returned; `None` if it has not.
    pub responded: Option<u64>,
}

impl Operation {
    /// Returns whether this call had returned before `other` began.
    pub fn precedes(&self, other: &Operation) -> bool {
        self.responded.is_some_and(|at| at < other.invoked)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.thread, self.name, self.argument)?;
        match &self.result {
            Some(result) => write!(f, " -> {result}"),
            None => write!(f, " (has not returned)"),
        }
    }
}

/// A history that the object's specification forbids.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {}", calls.join("; "))]
pub struct Violation {
    /// The promise of the object.
    pub what: &'static str,
    /// The calls that break it.
    pub calls: Vec<String>,
}

loco_fabric::debug_as_display!(Violation);

impl Violation {
    fn new<'a>(what: &'static str, calls: impl IntoIterator<Item = &'a Operation>) -> Violation {
        Violation {
            what,
            calls: calls.into_iter().map(ToString::to_string).collect(),
        }
    }
}

/// Returns the object calls of an execution by thread, and in the order of each thread.
///
/// A call that begins when `n` calls had returned is invoked at `2n + 1`. The response of a call is just
/// before the first call that began after it.
pub fn operations(histories: &[ThreadHistory]) -> Vec<Operation> {
    let beginnings: Vec<(u64, &[u16])> = histories
        .iter()
        .flat_map(|h| &h.events)
        .filter_map(|event| match event {
            Event::Call { finished_before, .. } => {
                let finished = finished_before.iter().map(|&n| u64::from(n)).sum();
                Some((finished, finished_before.as_slice()))
            }
            Event::Note(_) => None,
        })
        .collect();
    let last = 2 * beginnings.len() as u64 + 2;
    let mut operations = Vec::new();
    for history in histories {
        let calls = history.events.iter().filter_map(|event| match event {
            Event::Call {
                call,
                result,
                finished_before,
            } => Some((call, result, finished_before)),
            Event::Note(_) => None,
        });
        for (index, (call, result, finished_before)) in calls.enumerate() {
            let after = beginnings.iter().filter(|(_, finished)| {
                let seen = finished.get(usize::from(history.thread)).copied().unwrap_or(0);
                usize::from(seen) > index
            });
            let responded = after.map(|(n, _)| 2 * n).min().unwrap_or(last);
            let (name, argument) = call.split_once(' ').unwrap_or((call, ""));
            operations.push(Operation {
                thread: history.name.clone(),
                number: history.thread,
                node: history.node,
                name: name.to_owned(),
                argument: argument.to_owned(),
                result: result.clone(),
                invoked: 2 * finished_before.iter().map(|&n| u64::from(n)).sum::<u64>() + 1,
                responded: result.is_some().then_some(responded),
            });
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::Operation;

    /// Makes a call of thread `number`, which runs on the node of that number: `call` is its name and argument.
    pub(super) fn operation(
        number: u16,
        call: &str,
        result: &str,
        invoked: u64,
        responded: u64,
    ) -> Operation {
        let (name, argument) = call.split_once(' ').unwrap_or((call, ""));
        Operation {
            thread: format!("t{number}"),
            number,
            node: number,
            name: name.to_owned(),
            argument: argument.to_owned(),
            result: Some(result.to_owned()),
            invoked,
            responded: Some(responded),
        }
    }
}
