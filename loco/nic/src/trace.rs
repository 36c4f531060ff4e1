//! A timeline of what the NIC did, as the viewers of Chrome's traces read it.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use loco_trace::chrome::{self, Event, Phase, Value};

use crate::events::lock;
use crate::settings::settings;

/// So many bytes are written at once.
const CHUNK: usize = 1 << 16;

static LINES: Mutex<String> = Mutex::new(String::new());

/// Notes an event of a queue pair.
pub(crate) fn event(name: &str, qpn: u32, seq: u64, addr: u64, len: u64) {
    if settings().trace.is_none() {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut lines = lock(&LINES);
    let event = Event {
        name,
        category: "",
        phase: Phase::Instant,
        nanos: now.as_nanos(),
        process: std::process::id(),
        thread: qpn.into(),
        arguments: &[
            ("seq", Value::Number(seq)),
            ("addr", Value::Number(addr)),
            ("len", Value::Number(len)),
        ],
    };
    chrome::write(&mut lines, &event);
    if lines.len() > CHUNK {
        write(&mut lines);
    }
}

/// Writes what is noted.
pub(crate) fn flush() {
    if settings().trace.is_some() {
        write(&mut lock(&LINES));
    }
}

fn write(lines: &mut String) {
    let Some(path) = &settings().trace else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(lines.as_bytes());
    }
    lines.clear();
}
