//! Execution graphs as the page shows them: a picture, and which part of the text each event comes from.

use std::collections::BTreeMap;

use mowgli::event::Execution;
use mowgli::explain::Drawing;
use mowgli::litmus::Parsed;
use serde::Serialize;

use crate::text::{Places, Range};

/// A picture with its events.
#[derive(Serialize)]
pub(crate) struct Graph {
    svg: String,
    events: Vec<EventEntry>,
}

#[derive(Default, Serialize)]
struct EventEntry {
    /// The thread's name; null for an initial write.
    thread: Option<String>,
    label: String,
    /// The event in words.
    kind: &'static str,
    /// The instruction in the text.
    instruction: Option<Range>,
}

/// Where the text has the instruction of a thread at a place.
pub(crate) struct Instructions {
    spans: BTreeMap<(usize, Vec<u16>), Range>,
}

impl Instructions {
    pub(crate) fn of(text: &str, parsed: &Parsed) -> Instructions {
        let places = Places::of(text);
        let mut spans = BTreeMap::new();
        for (thread, instructions) in parsed.instructions.iter().enumerate() {
            for (place, span) in instructions {
                spans.insert((thread, place.clone()), places.range(span));
            }
        }
        Instructions { spans }
    }

    pub(crate) fn find(&self, thread: usize, place: &[u16]) -> Option<Range> {
        self.spans.get(&(thread, place.to_vec())).copied()
    }
}

impl Graph {
    /// Returns a drawing whose events have no place in the text.
    pub(crate) fn of_drawing(drawing: &Drawing, title: &str) -> Graph {
        let count = drawing.boxes.iter().map(|b| b.event + 1).max().unwrap_or(0);
        let mut events: Vec<EventEntry> = (0..count).map(|_| EventEntry::default()).collect();
        for shown in &drawing.boxes {
            events[shown.event] = EventEntry {
                thread: drawing
                    .columns
                    .get(shown.column)
                    .map(|column| column.title.clone()),
                label: shown.label.clone(),
                ..EventEntry::default()
            };
        }
        Graph {
            svg: drawing.svg(title),
            events,
        }
    }

    pub(crate) fn new(
        parsed: &Parsed,
        instructions: &Instructions,
        execution: &Execution,
        drawing: &Drawing,
        title: &str,
    ) -> Graph {
        let program = &parsed.litmus.program;
        let entry = |(event, label): (&mowgli::event::Event, String)| EventEntry {
            thread: event
                .thread
                .map(|t| program.threads[usize::from(t.0)].name.clone()),
            label,
            kind: match event.thread {
                Some(_) => event.kind.prose(),
                None => "initial value",
            },
            instruction: event
                .thread
                .and_then(|t| instructions.find(usize::from(t.0), &event.path)),
        };
        Graph {
            svg: drawing.svg(title),
            events: execution
                .events
                .iter()
                .zip(execution.labels(program))
                .map(entry)
                .collect(),
        }
    }
}
