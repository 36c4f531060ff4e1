//! The timeline of the nodes of this process: each thread records into a buffer of its own, and a thread writes the buffers into a
//! file for each node, a hundred times a second.
//!
//! While the timeline is off, what is recorded costs one relaxed load. While it is on, memory and files are bounded. When a buffer
//! is half full, only what lasted 100 µs or longer is recorded, and what is left out is counted. The same holds for a file that has
//! half of its greatest size. So a loop of short calls does not push out the long waits that one looks for.
//!
//! A file has one event a line. A process that is killed leaves what was written until then, without the line that says that the
//! file is complete ([`COMPLETE`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use loco_fabric::NodeId;
use rustix::time::ClockId;

use crate::chrome::{self, Event, Phase, Value};
use crate::clock::{nanos, now};

/// The name of the last line of a complete file. Its argument `left_out` is the number of events that are not in it.
pub const COMPLETE: &str = "complete";
/// The name of the first line of a file. Its arguments are `node`; `clock`, which is the same on nodes with one clock; and
/// `realtime_ns`, the wall-clock time at which that clock had zero.
pub const BEGIN: &str = "loco";
/// The name of an event that says how many events were left out before it.
pub const LEFT_OUT: &str = "left out";

/// The most events of a thread between two rounds of writing.
const EVENTS_MAX: usize = 1024;
/// The most bytes of a file.
const BYTES_MAX: u64 = 256 << 20;
/// The time between two rounds of writing.
const ROUND: Duration = Duration::from_millis(10);
/// The shortest span that is recorded when half of a bound is reached, in nanoseconds.
const LONG: u64 = 100_000;

/// Set while the timeline is on. Relaxed: nothing else is published by it.
static ON: AtomicBool = AtomicBool::new(false);
static TIMELINE: Mutex<Option<Timeline>> = Mutex::new(None);

thread_local! {
    static MINE: RefCell<Option<Arc<Mutex<Buffer>>>> = const { RefCell::new(None) };
}

/// The files, and the buffers of all threads.
struct Timeline {
    folder: PathBuf,
    nodes: BTreeMap<u16, NodeFile>,
    buffers: Vec<Arc<Mutex<Buffer>>>,
}

struct NodeFile {
    file: File,
    bytes: u64,
    left_out: u64,
    /// The threads whose names are in the file.
    named: Vec<u64>,
}

/// The events that a thread has recorded since the last round.
struct Buffer {
    thread: u64,
    name: String,
    records: Vec<Record>,
    left_out: u64,
}

/// One event.
struct Record {
    kind: Kind,
    node: NodeId,
    begin: u64,
    /// The length of a span, or 0.
    nanos: u64,
    object: Box<str>,
    verb: &'static str,
    nodes: Vec<u16>,
    bytes: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    Wait,
    Post,
    Completion,
    Loss,
}

impl Kind {
    fn category(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Wait => "wait",
            Kind::Post => "post",
            Kind::Completion => "completion",
            Kind::Loss => "loss",
        }
    }

    fn is_span(self) -> bool {
        matches!(self, Kind::Call | Kind::Wait)
    }
}

/// Something that lasts until this is dropped.
#[derive(Default)]
#[must_use = "it ends when it is dropped"]
pub struct Span(Option<Box<Record>>);

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            close(*record);
        }
    }
}

/// Returns whether the timeline is on.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Begins a call of `method` on `object` by a thread of `node`.
#[inline]
pub fn call(node: NodeId, object: &str, method: &'static str) -> Span {
    match is_on() {
        true => open(Kind::Call, node, object, method, &[]),
        false => Span(None),
    }
}

/// Begins a wait of a thread of `node` for `what`, which `nodes` change.
#[cold]
#[inline(never)]
pub fn wait(node: NodeId, what: &str, nodes: &[NodeId]) -> Span {
    open(Kind::Wait, node, what, "waits for", nodes)
}

/// Records that `node` posted `operation` towards `peer`.
#[cold]
#[inline(never)]
pub fn posted(node: NodeId, operation: &'static str, peer: NodeId, bytes: usize) {
    instant(Kind::Post, node, operation, peer, Some(bytes as u64));
}

/// Records that `node` polled the completion of an operation towards `peer`. `how` says how it ended.
#[cold]
#[inline(never)]
pub fn completed(node: NodeId, how: &'static str, peer: NodeId) {
    instant(Kind::Completion, node, how, peer, None);
}

/// Records that `node` found `peer` missing. `how` says in which way.
#[cold]
#[inline(never)]
pub fn missed(node: NodeId, how: &'static str, peer: NodeId) {
    if is_on() {
        instant(Kind::Loss, node, how, peer, None);
    }
}

fn instant(kind: Kind, node: NodeId, verb: &'static str, peer: NodeId, bytes: Option<u64>) {
    note(Record {
        kind,
        node,
        begin: now(),
        nanos: 0,
        object: "".into(),
        verb,
        nodes: vec![peer.0],
        bytes,
    });
}

#[cold]
#[inline(never)]
fn open(kind: Kind, node: NodeId, object: &str, verb: &'static str, nodes: &[NodeId]) -> Span {
    Span(Some(Box::new(Record {
        kind,
        node,
        begin: now(),
        nanos: 0,
        object: object.into(),
        verb,
        nodes: nodes.iter().filter(|&&of| of != node).map(|of| of.0).collect(),
        bytes: None,
    })))
}

#[cold]
#[inline(never)]
fn close(record: Record) {
    note(Record {
        nanos: now().saturating_sub(record.begin),
        ..record
    });
}

/// Adds a record to the buffer of this thread.
fn note(record: Record) {
    // A thread that is ending records nothing.
    let _ = MINE.try_with(|mine| {
        let mut mine = mine.borrow_mut();
        let mut buffer = lock(mine.get_or_insert_with(new_buffer));
        if keeps(&record, buffer.records.len(), EVENTS_MAX) {
            buffer.records.push(record);
        } else {
            buffer.left_out += 1;
        }
    });
}

/// Returns whether a record still has a place, if `used` of `max` places are taken.
fn keeps(record: &Record, used: usize, max: usize) -> bool {
    used < max / 2 || (used < max && (record.nanos >= LONG || record.kind == Kind::Loss))
}

#[cold]
fn new_buffer() -> Arc<Mutex<Buffer>> {
    // The number that `loco top` and the system have. Viewers take a thread with the number of its process, here that of its node,
    // for the main thread.
    let thread = rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
        .into();
    let name = thread::current().name().map(str::to_owned);
    // Threads of other languages have the name that the system gives them.
    let name = name.or_else(|| fs::read_to_string("/proc/thread-self/comm").ok());
    let buffer = Arc::new(Mutex::new(Buffer {
        thread,
        name: name.map_or_else(|| format!("thread {thread}"), |name| name.trim_end().to_owned()),
        records: Vec::new(),
        left_out: 0,
    }));
    if let Some(timeline) = lock(&TIMELINE).as_mut() {
        timeline.buffers.push(buffer.clone());
    }
    buffer
}

/// Turns the timeline on, if it is off, and begins the file of `node` in `folder`, which is made if need be. All nodes of a process
/// have the folder of the first.
///
/// # Errors
/// Returns the error of making the folder or the file, or of starting the thread that writes.
pub fn start(folder: &Path, node: NodeId) -> io::Result<()> {
    let mut timeline = lock(&TIMELINE);
    if timeline.is_none() {
        fs::create_dir_all(folder)?;
        thread::Builder::new().name("loco-trace".to_owned()).spawn(|| {
            loop {
                thread::sleep(ROUND);
                write_round(None);
            }
        })?;
    }
    let timeline = timeline.get_or_insert_with(|| Timeline {
        folder: folder.to_owned(),
        nodes: BTreeMap::new(),
        buffers: Vec::new(),
    });
    let mut file = File::create(timeline.folder.join(file_name(node)))?;
    let mut lines = "[\n".to_owned();
    let clock = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let fact = |name, arguments| Event {
        name,
        category: "",
        phase: Phase::Metadata,
        nanos: 0,
        process: node.0.into(),
        thread: 0,
        arguments,
    };
    let begin = [
        ("node", Value::Number(node.0.into())),
        ("clock", Value::Text(clock.trim())),
        (
            "realtime_ns",
            Value::Number(nanos(ClockId::Realtime).saturating_sub(now())),
        ),
    ];
    chrome::write(&mut lines, &fact(BEGIN, &begin));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = format!("{node} on {host} (process {})", std::process::id());
    let named = [("name", Value::Text(&name))];
    chrome::write(&mut lines, &fact("process_name", &named));
    let order = [("sort_index", Value::Number(node.0.into()))];
    chrome::write(&mut lines, &fact("process_sort_index", &order));
    file.write_all(lines.as_bytes())?;
    timeline.nodes.insert(
        node.0,
        NodeFile {
            file,
            bytes: lines.len() as u64,
            left_out: 0,
            named: Vec::new(),
        },
    );
    ON.store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns the name of the file of `node`.
pub fn file_name(node: NodeId) -> String {
    format!("node-{}.json", node.0)
}

/// Ends the file of `node`, which leaves its job. Does nothing if it has none.
pub fn end(node: NodeId) {
    if is_on() {
        write_round(Some(node));
    }
}

/// Writes what was recorded. The file of the node `ends` is complete then.
fn write_round(ends: Option<NodeId>) {
    let mut timeline = lock(&TIMELINE);
    let Some(Timeline { nodes, buffers, .. }) = timeline.as_mut() else {
        return;
    };
    let mut texts: Texts = BTreeMap::new();
    buffers.retain(|shared| {
        // Two: the thread has not ended.
        let lives = Arc::strong_count(shared) > 1;
        let taken = lock(shared).take();
        let last = taken.write(nodes, &mut texts);
        taken.write_left_out(last, nodes, &mut texts);
        lives
    });
    if let Some(node) = ends.map(|node| node.0)
        && let Some(file) = nodes.get(&node)
    {
        write_complete(texts.entry(node).or_default(), node, file.left_out);
    }
    for (node, text) in texts {
        if let Some(file) = nodes.get_mut(&node) {
            file.append(&text);
        }
    }
    if let Some(node) = ends {
        nodes.remove(&node.0);
    }
}

/// What a round appends to the file of each node.
type Texts = BTreeMap<u16, String>;

/// Writes the last line of a node's file, without which a reader knows that the end is missing.
fn write_complete(text: &mut String, node: u16, left_out: u64) {
    chrome::write(
        text,
        &Event {
            name: COMPLETE,
            category: "",
            phase: Phase::Metadata,
            nanos: 0,
            process: node.into(),
            thread: 0,
            arguments: &[("left_out", Value::Number(left_out))],
        },
    );
}

impl NodeFile {
    /// Writes the name of a thread, once in each file.
    fn name_thread(&mut self, text: &mut String, node: NodeId, thread: u64, name: &str) {
        if self.named.contains(&thread) {
            return;
        }
        self.named.push(thread);
        chrome::write(
            text,
            &Event {
                name: "thread_name",
                category: "",
                phase: Phase::Metadata,
                nanos: 0,
                process: node.0.into(),
                thread,
                arguments: &[("name", Value::Text(name))],
            },
        );
    }

    /// Appends a text. A file system that is full must not end the job: the file then lacks its last line.
    fn append(&mut self, text: &str) {
        if self.file.write_all(text.as_bytes()).is_ok() {
            self.bytes += text.len() as u64;
        }
    }
}

impl Buffer {
    /// Takes what was recorded since the last round.
    fn take(&mut self) -> Buffer {
        Buffer {
            thread: self.thread,
            name: self.name.clone(),
            records: std::mem::take(&mut self.records),
            left_out: std::mem::take(&mut self.left_out),
        }
    }

    /// Writes the events for which the files of their nodes have room. Returns the node of the last one.
    fn write(&self, nodes: &mut BTreeMap<u16, NodeFile>, texts: &mut Texts) -> Option<u16> {
        let mut last = None;
        for record in &self.records {
            let Some(file) = nodes.get_mut(&record.node.0) else {
                continue;
            };
            let text = texts.entry(record.node.0).or_default();
            let used = usize::try_from(file.bytes + text.len() as u64).unwrap_or(usize::MAX);
            if !keeps(record, used, BYTES_MAX as usize) {
                file.left_out += 1;
                continue;
            }
            file.name_thread(text, record.node, self.thread, &self.name);
            record.write(text, self.thread);
            last = Some(record.node.0);
        }
        last
    }

    /// Writes how many events the thread had no room for, into the file of its last event's node, or of any node without one.
    fn write_left_out(&self, last: Option<u16>, nodes: &mut BTreeMap<u16, NodeFile>, texts: &mut Texts) {
        let of = last.or_else(|| nodes.keys().next().copied());
        if let (true, Some(node)) = (self.left_out > 0, of)
            && let Some(file) = nodes.get_mut(&node)
        {
            file.left_out += self.left_out;
            chrome::write(
                texts.entry(node).or_default(),
                &Event {
                    name: LEFT_OUT,
                    category: LEFT_OUT,
                    phase: Phase::Instant,
                    nanos: now().into(),
                    process: node.into(),
                    thread: self.thread,
                    arguments: &[("events", Value::Number(self.left_out))],
                },
            );
        }
    }
}

impl Record {
    fn write(&self, lines: &mut String, thread: u64) {
        let nodes = Value::Nodes(&self.nodes);
        let object = Value::Text(&self.object);
        let (name, arguments) = match self.kind {
            Kind::Call => (
                format!("{} {}", self.object, self.verb),
                vec![("object", object), ("method", Value::Text(self.verb))],
            ),
            Kind::Wait => (
                format!("{} {}", self.verb, self.object),
                vec![("for", object), ("nodes", nodes)],
            ),
            Kind::Post | Kind::Completion | Kind::Loss => {
                let bytes = self.bytes.map(|bytes| ("bytes", Value::Number(bytes)));
                (
                    self.verb.to_owned(),
                    [("nodes", nodes)].into_iter().chain(bytes).collect(),
                )
            }
        };
        chrome::write(
            lines,
            &Event {
                name: &name,
                category: self.kind.category(),
                phase: match self.kind.is_span() {
                    true => Phase::Span(self.nanos),
                    false => Phase::Instant,
                },
                nanos: self.begin.into(),
                process: self.node.0.into(),
                thread,
                arguments: &arguments,
            },
        );
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &Path, node: NodeId) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(folder.join(file_name(node))).expect("a file");
        let lines = text.lines().skip(1).map(|line| line.trim_end_matches(','));
        lines
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }

    // One test, since the timeline is one for the process.
    #[test]
    fn each_node_has_a_file_with_nested_spans_and_counts_what_it_leaves_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (NodeId(0), NodeId(7));
        assert!(call(first, "bar", "wait").0.is_none(), "it is off");
        start(folder.path(), first).expect("started");
        start(folder.path(), second).expect("started");
        {
            let _call = call(first, "bar", "wait");
            posted(first, "put", second, 8);
            let _wait = wait(first, "bar", &[first, second]);
        }
        missed(second, "lost", first);
        let short = || drop(call(second, "x", "read"));
        (0..EVENTS_MAX * 100).for_each(|_| short());
        end(first);
        end(second);
        end(second);
        let (of_first, of_second) = (lines(folder.path(), first), lines(folder.path(), second));
        let find = |name: &str| of_first.iter().find(|line| line["name"] == name).expect(name);
        let (outer, inner) = (find("bar wait"), find("waits for bar"));
        let time = |line: &serde_json::Value, name: &str| line[name].as_f64().expect(name);
        assert!(time(outer, "ts") <= time(inner, "ts"));
        // Microseconds with three digits, in a number of 53 bits.
        let ends = |line| time(line, "ts") + time(line, "dur");
        assert!(ends(inner) <= ends(outer) + 0.01, "{inner} {outer}");
        assert_eq!(inner["args"]["nodes"], serde_json::json!([7]), "not itself");
        assert_eq!((&inner["pid"], &inner["tid"]), (&outer["pid"], &outer["tid"]));
        assert_eq!(find("put")["args"], serde_json::json!({"nodes": [7], "bytes": 8}));
        assert_eq!(of_first[0]["name"], BEGIN);
        assert!(
            of_second
                .iter()
                .any(|line| line["name"] == "lost" && line["args"]["nodes"][0] == 0)
        );
        let last = of_second.last().expect("lines");
        assert_eq!(last["name"], COMPLETE);
        let kept = of_second.iter().filter(|line| line["name"] == "x read").count();
        let left_out = last["args"]["left_out"].as_u64().expect("a number");
        assert!(
            left_out > 0 && kept as u64 + left_out >= (EVENTS_MAX * 100) as u64,
            "{kept} {left_out}"
        );
    }

    #[test]
    fn what_lasted_long_has_a_place_when_short_calls_have_none() {
        let record = |nanos| Record {
            kind: Kind::Wait,
            node: NodeId(0),
            begin: 0,
            nanos,
            object: "".into(),
            verb: "",
            nodes: Vec::new(),
            bytes: None,
        };
        assert!(keeps(&record(1), 4, 10) && !keeps(&record(1), 5, 10));
        assert!(keeps(&record(LONG), 9, 10) && !keeps(&record(LONG), 10, 10));
    }
}
