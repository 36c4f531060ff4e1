//! Merges the timelines that the nodes of a job have written into one file, on one clock: for `loco run --trace` and `loco trace`.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use loco::fabric::NodeId;
use loco_app::complain;
use loco_trace::chrome::{self, Event, Phase, Value};
use loco_trace::timeline::{BEGIN, COMPLETE, file_name};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::error::CliError;

/// Merge the timelines that nodes wrote with LOCO_TRACE=FOLDER into FILE, for Perfetto and chrome://tracing.
///
/// The files of nodes on several hosts (node-0.json and so on) are put into one folder first. Nodes of one host share a clock.
/// Those of other hosts are aligned by the hosts' wall clocks, and FILE says so.
#[derive(clap::Args)]
pub struct Args {
    /// The folder with the files of the nodes.
    folder: PathBuf,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Merges the timelines of a folder.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let files = node_files(&args.folder).map_err(|source| CliError::File {
        what: format!("reading {}", args.folder.display()),
        source,
    })?;
    if files.is_empty() {
        return Err(CliError::Usage(format!(
            "{} has no timelines of nodes, such as {}",
            args.folder.display(),
            file_name(NodeId(0))
        )));
    }
    let mut out = create(&args.out)?;
    for note in merge(&files, &[], &mut out).map_err(CliError::os("merging the timelines"))? {
        complain(format_args!("loco: {note}"));
    }
    Ok(0)
}

/// Makes the file for a merged timeline.
pub fn create(path: &Path) -> Result<File, CliError> {
    File::create(path).map_err(|source| CliError::File {
        what: format!("making the timeline {}", path.display()),
        source,
    })
}

/// Merges what the nodes of a job wrote into `folder`, and says what is missing.
pub fn merge_job(folder: &Path, nodes: &[NodeId], out: &mut File) -> Result<(), CliError> {
    // Without a folder no node has begun.
    let files = node_files(folder).unwrap_or_default();
    let notes = merge(&files, nodes, out).map_err(CliError::os("merging the timelines of the nodes"))?;
    for note in notes {
        complain(format_args!("loco: {note}"));
    }
    Ok(())
}

/// Lists the files of nodes in a folder, by node.
fn node_files(folder: &Path) -> io::Result<Vec<(NodeId, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_prefix("node-")?.strip_suffix(".json")?.parse().ok());
        if let Some(id) = id {
            files.push((NodeId(id), entry.path()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The first line of a node's file.
#[derive(Deserialize)]
struct Begin {
    args: Clock,
}

/// The clock of a node, and its wall-clock time at zero.
#[derive(Deserialize)]
struct Clock {
    clock: String,
    realtime_ns: i128,
}

/// The parts of a line that a merge looks at.
#[derive(Deserialize)]
struct Line {
    name: String,
    ph: String,
}

/// Merges the files of nodes. Returns what the reader should know of the result, which also stands in it. `expected` are nodes
/// that should have a file.
fn merge(files: &[(NodeId, PathBuf)], expected: &[NodeId], out: &mut impl Write) -> io::Result<Vec<String>> {
    let mut out = BufWriter::new(out);
    let mut notes = Vec::new();
    notes.extend(missing(files, expected));
    let mut alignment = Alignment::default();
    out.write_all(b"{\"traceEvents\":[\n")?;
    for (node, path) in files {
        let copied = copy_events(path, &mut alignment, &mut out)?;
        notes.extend(copied.notes(*node));
        if let Some(label) = copied.label() {
            out.write_all(process_label(*node, label).as_bytes())?;
        }
    }
    if alignment.is_by_wall_clock {
        notes.push(
            "nodes of different hosts are aligned by the hosts' wall clocks, and no better than these agree"
                .to_owned(),
        );
    }
    // The last event has no comma.
    let end = serde_json::json!({"name": "end", "ph": "M", "pid": 0, "tid": 0, "args": {}});
    let about =
        serde_json::json!({"made by": "loco", "clock": "CLOCK_MONOTONIC of the first node", "notes": notes});
    writeln!(out, "{end}\n],\"displayTimeUnit\":\"ns\",\"otherData\":{about}}}")?;
    out.flush()?;
    Ok(notes)
}

/// Returns the note about expected nodes that have no file.
fn missing(files: &[(NodeId, PathBuf)], expected: &[NodeId]) -> Option<String> {
    let is_there = |node: &NodeId| files.iter().any(|(of, _)| of == node);
    let missing: Vec<_> = expected.iter().copied().filter(|node| !is_there(node)).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "no timeline of {}: the program does not use LOCO, or ended before it was a node",
            NodeId::list(missing)
        )
    })
}

/// The clock to which the times of all nodes are moved: that of the first node.
#[derive(Default)]
struct Alignment {
    reference: Option<Clock>,
    is_by_wall_clock: bool,
}

impl Alignment {
    /// Returns the offset in nanoseconds of a node whose file begins so, if its clock is another than the first node's.
    fn offset(&mut self, own: &Clock) -> Option<i128> {
        let first = self.reference.get_or_insert(Clock {
            clock: own.clock.clone(),
            realtime_ns: own.realtime_ns,
        });
        (first.clock != own.clock).then(|| {
            self.is_by_wall_clock = true;
            own.realtime_ns - first.realtime_ns
        })
    }
}

/// Tells what the copy of a node's file has found besides events.
#[derive(Default)]
struct Copied {
    is_complete: bool,
    /// The number of events that the node has left out.
    left_out: u64,
}

/// Copies the events of a node's file, with their times moved to the common clock.
fn copy_events(path: &Path, alignment: &mut Alignment, out: &mut impl Write) -> io::Result<Copied> {
    let mut copied = Copied::default();
    let mut offset = None;
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        let line = line.trim_end_matches(',');
        // A line that is not whole is the last of a node that was killed.
        let Ok(Line { name, ph }) = serde_json::from_str(line) else {
            continue;
        };
        match (name.as_str(), ph.as_str()) {
            (BEGIN, "M") => {
                if let Ok(Begin { args: own }) = serde_json::from_str(line) {
                    offset = alignment.offset(&own).or(offset);
                }
            }
            (COMPLETE, "M") => {
                copied.is_complete = true;
                let facts: Json = serde_json::from_str(line)?;
                copied.left_out = facts["args"]["left_out"].as_u64().unwrap_or(0);
            }
            (_, "M") => writeln!(out, "{line},")?,
            _ => match offset {
                None => writeln!(out, "{line},")?,
                Some(offset) => writeln!(out, "{},", moved(line, offset)?)?,
            },
        }
    }
    Ok(copied)
}

impl Copied {
    /// Returns what a reader of the merged file must know of the node's part.
    fn notes(&self, node: NodeId) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.is_complete {
            notes.push(format!(
                "the timeline of {node} lacks the end: {node} ended without leaving the job, and what it did last may be missing"
            ));
        }
        if self.left_out > 0 {
            notes.push(format!(
                "the timeline of {node} lacks {} events that were too many: waits and calls of 100 µs or longer had precedence",
                self.left_out
            ));
        }
        notes
    }

    /// Returns the label of the node's process, if its part is not whole.
    fn label(&self) -> Option<&'static str> {
        match (self.is_complete, self.left_out) {
            (true, 0) => None,
            (true, _) => Some("some left out"),
            (false, _) => Some("lacks the end"),
        }
    }
}

/// Returns the event that gives a node's process a label.
fn process_label(node: NodeId, label: &str) -> String {
    let mut text = String::new();
    chrome::write(
        &mut text,
        &Event {
            name: "process_labels",
            category: "",
            phase: Phase::Metadata,
            nanos: 0,
            process: node.0.into(),
            thread: 0,
            arguments: &[("labels", Value::Text(label))],
        },
    );
    text
}

/// Returns a line with its time moved by so many nanoseconds.
fn moved(line: &str, offset: i128) -> io::Result<Json> {
    let mut event: Json = serde_json::from_str(line)?;
    if let Some(time) = event["ts"].as_f64() {
        event["ts"] = Json::from(time + offset as f64 / 1000.0);
    }
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(files: &[(u16, &str)]) -> (Json, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        for (node, text) in files {
            fs::write(folder.path().join(file_name(NodeId(*node))), text).expect("written");
        }
        fs::write(folder.path().join("node-x.json"), "no file of a node").expect("written");
        let mut out = Vec::new();
        let notes = merge(&node_files(folder.path()).expect("files"), &[], &mut out).expect("merged");
        (serde_json::from_slice(&out).expect("JSON"), notes)
    }

    fn begin(clock: &str, realtime: u64) -> String {
        format!(
            "[\n{{\"name\":\"loco\",\"ph\":\"M\",\"args\":{{\"node\":0,\"clock\":\"{clock}\",\"realtime_ns\":{realtime}}}}},\n"
        )
    }

    const EVENT: &str = "{\"name\":\"x\",\"ph\":\"i\",\"ts\":5.000,\"pid\":0,\"tid\":1},\n";
    const COMPLETED: &str = "{\"name\":\"complete\",\"ph\":\"M\",\"pid\":0,\"args\":{\"left_out\":0}},\n";

    #[test]
    fn nodes_of_one_clock_keep_their_times_and_others_are_moved_by_their_wall_clocks() {
        let here = format!("{}{EVENT}{COMPLETED}", begin("a", 1_000_000));
        let there = format!("{}{EVENT}{COMPLETED}", begin("b", 3_000_000));
        let (file, notes) = merged(&[(0, &here), (2, &there), (1, &here)]);
        let times = |file: &Json| {
            let events = file["traceEvents"].as_array().expect("events").clone();
            events
                .iter()
                .filter_map(|event| event["ts"].as_f64())
                .collect::<Vec<_>>()
        };
        assert_eq!(times(&file), [5.0, 5.0, 2005.0]);
        assert!(notes.len() == 1 && notes[0].contains("wall clocks"), "{notes:?}");
        let (file, notes) = merged(&[(0, &here), (1, &here)]);
        assert_eq!((times(&file), notes), (vec![5.0, 5.0], Vec::new()));
    }

    #[test]
    fn a_file_that_stops_in_a_line_is_merged_and_said_to_lack_the_end() {
        let whole = format!("{}{EVENT}{COMPLETED}", begin("a", 1));
        let cut = format!("{}{EVENT}{}", begin("a", 1), &EVENT[..20]);
        let (file, notes) = merged(&[(0, &whole), (1, &cut), (2, "")]);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("node 1 lacks the end"), "{notes:?}");
        let events = file["traceEvents"].as_array().expect("events");
        assert_eq!(events.iter().filter(|event| event["name"] == "x").count(), 2);
        assert_eq!(file["otherData"]["notes"].as_array().map(Vec::len), Some(2));
    }
}
