//! The records that threads made of an execution, for checks at the end and for reports.

use std::fmt;

use mowgli::machine::Addr;

use crate::fabric::ModelMemory;
use crate::fabric::request::{Note, Reply};
use crate::state::{Common, State};

/// The end of a complete execution: every worker has returned or has stopped with its node, and nothing is buffered
/// any more.
pub struct End<'a> {
    pub(crate) common: &'a Common,
    pub(crate) state: &'a State,
    /// The thread whose records stand in the place of each thread's, where symmetric threads have changed places.
    pub(crate) places: Option<&'a [u16]>,
}

/// The records of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadHistory {
    /// Number of the thread, as in schedules and in `finished_before`.
    pub thread: u16,
    /// Name of the thread.
    pub name: String,
    /// The thread's node.
    pub node: u16,
    /// The thread's records, oldest first.
    pub events: Vec<Event>,
}

/// A record of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A line from [`note`](crate::note).
    Note(String),
    /// An object call from [`call`](crate::call).
    Call {
        /// The text of the call.
        call: String,
        /// The text of its result; `None` if the call has not returned.
        result: Option<String>,
        /// The number of calls of each thread of the world that had returned when this one began.
        finished_before: Vec<u16>,
    },
}

impl End<'_> {
    /// Returns the final value of the 8-byte word of `memory` that holds byte `offset`.
    pub fn word(&self, memory: &ModelMemory, offset: usize) -> u64 {
        let addr = Addr(self.common.words.index(memory.word(offset).0));
        self.common.check(addr);
        self.state
            .machine
            .memory()
            .get(addr.0 as usize)
            .map_or(0, |&v| v as u64)
    }

    /// Returns the histories of all threads that recorded anything.
    pub fn histories(&self) -> Vec<ThreadHistory> {
        histories_in(self.common, self.state, self.places)
    }

    /// Returns every line that was recorded by [`note`](crate::note), thread after thread.
    pub fn notes(&self) -> Vec<String> {
        self.histories()
            .into_iter()
            .flat_map(|h| h.events)
            .filter_map(|e| match e {
                Event::Note(line) => Some(line),
                Event::Call { .. } => None,
            })
            .collect()
    }
}

/// Returns the histories up to `state`.
pub(crate) fn histories(common: &Common, state: &State) -> Vec<ThreadHistory> {
    histories_in(common, state, None)
}

fn histories_in(common: &Common, state: &State, places: Option<&[u16]>) -> Vec<ThreadHistory> {
    (0..state.threads.len())
        .map(|index| {
            let t = &state.threads[places.map_or(index, |places| usize::from(places[index]))];
            let info = state.info(index as u16);
            let mut events = Vec::new();
            for (note, reply) in common.behaviour.notes(t.past) {
                match note {
                    Note::Mark(line) => events.push(Event::Note(line.to_string())),
                    Note::Call(call) => {
                        let finished_before = match reply {
                            Reply::Finished(counts) => counts.to_vec(),
                            _ => Vec::new(),
                        };
                        events.push(Event::Call {
                            call: call.to_string(),
                            result: None,
                            finished_before,
                        });
                    }
                    Note::Return(text) => {
                        let open = events.iter_mut().rev().find_map(|event| match event {
                            Event::Call { result, .. } if result.is_none() => Some(result),
                            _ => None,
                        });
                        if let Some(result) = open {
                            *result = Some(text.to_string());
                        }
                    }
                }
            }
            ThreadHistory {
                thread: index as u16,
                name: info.name.to_string(),
                node: info.node,
                events,
            }
        })
        .filter(|h| !h.events.is_empty())
        .collect()
}

impl fmt::Display for ThreadHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on node {}:", self.name, self.node)?;
        for event in &self.events {
            match event {
                Event::Note(line) => writeln!(f, "  {line}")?,
                Event::Call {
                    call,
                    result: Some(result),
                    ..
                } => writeln!(f, "  {call} -> {result}")?,
                Event::Call {
                    call, result: None, ..
                } => writeln!(f, "  {call} -> (has not returned)")?,
            }
        }
        Ok(())
    }
}
