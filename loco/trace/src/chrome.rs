//! The lines of the trace event format of Chrome (its JSON array form), which Perfetto reads, too.
//!
//! Each event is one line with a comma behind it. Readers of the format do without the end of the array, so a file that stops
//! between two lines is whole.

use std::fmt::Write as _;

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The text that viewers show.
    pub name: &'a str,
    /// The category, by which viewers filter; may be empty.
    pub category: &'a str,
    /// The kind of event.
    pub phase: Phase,
    /// The time, or the beginning of a span, in nanoseconds of any clock.
    pub nanos: u128,
    /// The process: a group of tracks.
    pub process: u32,
    /// The thread: a track.
    pub thread: u64,
    /// The facts that viewers show beside an event that is chosen.
    pub arguments: &'a [(&'a str, Value<'a>)],
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Something that lasted so many nanoseconds.
    Span(u64),
    /// Something that lasts no time.
    Instant,
    /// A fact about a process or thread, such as its name (`process_name`, `thread_name`).
    Metadata,
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'a str),
    /// Numbers of nodes.
    Nodes(&'a [u16]),
}

/// Adds the line of `event` to `lines`.
pub fn write(lines: &mut String, event: &Event<'_>) {
    lines.push_str("{\"name\":");
    quote(lines, event.name);
    if !event.category.is_empty() {
        lines.push_str(",\"cat\":");
        quote(lines, event.category);
    }
    match event.phase {
        Phase::Span(nanos) => {
            lines.push_str(",\"ph\":\"X\",\"dur\":");
            micros(lines, nanos.into());
        }
        Phase::Instant => lines.push_str(",\"ph\":\"i\",\"s\":\"t\""),
        Phase::Metadata => lines.push_str(",\"ph\":\"M\""),
    }
    if event.phase != Phase::Metadata {
        lines.push_str(",\"ts\":");
        micros(lines, event.nanos);
    }
    // Writing to a string does not fail, here and below.
    let _ = write!(lines, ",\"pid\":{},\"tid\":{}", event.process, event.thread);
    if !event.arguments.is_empty() {
        lines.push_str(",\"args\":{");
        for (index, (name, value)) in event.arguments.iter().enumerate() {
            if index > 0 {
                lines.push(',');
            }
            quote(lines, name);
            lines.push(':');
            value.write(lines);
        }
        lines.push('}');
    }
    lines.push_str("},\n");
}

impl Value<'_> {
    fn write(&self, lines: &mut String) {
        match self {
            Value::Number(number) => {
                let _ = write!(lines, "{number}");
            }
            Value::Text(text) => quote(lines, text),
            Value::Nodes(nodes) => {
                lines.push('[');
                for (index, node) in nodes.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    let _ = write!(lines, "{comma}{node}");
                }
                lines.push(']');
            }
        }
    }
}

/// Writes nanoseconds as microseconds, the unit of the format.
fn micros(lines: &mut String, nanos: u128) {
    let _ = write!(lines, "{}.{:03}", nanos / 1000, nanos % 1000);
}

fn quote(lines: &mut String, text: &str) {
    lines.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                lines.push('\\');
                lines.push(letter);
            }
            letter if letter < ' ' => {
                let _ = write!(lines, "\\u{:04x}", u32::from(letter));
            }
            letter => lines.push(letter),
        }
    }
    lines.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_whatever_the_names() {
        let mut lines = String::new();
        let event = Event {
            name: "a \"quoted\"\\\n\u{1} näme",
            category: "call",
            phase: Phase::Span(1_234_567),
            nanos: 5_000_001,
            process: 3,
            thread: 7,
            arguments: &[
                ("bytes", Value::Number(8)),
                ("object", Value::Text("x/y")),
                ("nodes", Value::Nodes(&[0, 12])),
            ],
        };
        write(&mut lines, &event);
        let line = lines.strip_suffix(",\n").expect("a line with a comma");
        let read: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(
            read,
            serde_json::json!({
                "name": "a \"quoted\"\\\n\u{1} näme", "cat": "call", "ph": "X", "ts": 5000.001, "dur": 1234.567,
                "pid": 3, "tid": 7, "args": {"bytes": 8, "object": "x/y", "nodes": [0, 12]}
            })
        );
    }
}
