//! A timeline of what the NIC did, as the viewers of Chrome's traces read it.
//!
//! A request is a span from its post to its completion, at the target one from its arrival to its execution, and its data one from
//! there to its placement. Spans of one track must not overlap, so that each kind of span of a queue pair has as many tracks as it
//! has spans at a time.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Mutex;

use loco_trace::chrome::{self, Event, Phase, Value};
use rustix::time::{ClockId, clock_gettime};

use crate::events::lock;
use crate::settings::settings;

/// So many bytes are written at once.
const CHUNK: usize = 1 << 16;

/// The side of a request that a span shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// A work request of this process.
    Request,
    /// A request of another process, or of another queue pair.
    Served,
    /// Data on its way to this process's memory.
    Placement,
    /// Moments.
    Moment,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Request => "requests",
            Side::Served => "serves",
            Side::Placement => "placements",
            Side::Moment => "moments",
        }
    }
}

/// The facts of a request that the trace shows.
#[derive(Clone, Copy, Default)]
pub(crate) struct About {
    pub qpn: u32,
    /// The number of the request within the queue pair that posted it.
    pub seq: u64,
    pub addr: u64,
    pub len: u64,
}

struct Track {
    number: u64,
    /// When its last span ended.
    ended: u64,
}

#[derive(Default)]
struct Timeline {
    lines: String,
    tracks: HashMap<(u32, Side), Vec<Track>>,
    last: u64,
}

static TIMELINE: Mutex<Option<Timeline>> = Mutex::new(None);

/// Returns the time, which is the same for all processes of a host, in nanoseconds; 0 if there is no trace.
pub(crate) fn clock() -> u64 {
    if settings().trace.is_none() {
        return 0;
    }
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Notes a span from `begun`, which is of [`clock`], to now.
pub(crate) fn span(name: &str, side: Side, begun: u64, about: About) {
    let now = clock();
    if now > 0 {
        // Viewers do not show what has no length.
        note(|timeline| timeline.span(name, side, (begun, now.max(begun + 1)), about));
    }
}

/// Notes a moment.
pub(crate) fn moment(name: &str, about: About) {
    let now = clock();
    if now > 0 {
        note(|timeline| timeline.moment(name, now, about));
    }
}

fn note(what: impl FnOnce(&mut Timeline)) {
    let mut timeline = lock(&TIMELINE);
    let timeline = timeline.get_or_insert_with(Timeline::begin);
    what(timeline);
    if timeline.lines.len() > CHUNK {
        timeline.write();
    }
}

/// Writes what is noted.
pub(crate) fn flush() {
    if let Some(timeline) = &mut *lock(&TIMELINE) {
        timeline.write();
    }
}

impl Timeline {
    fn begin() -> Timeline {
        let mut timeline = Timeline::default();
        let program = std::env::current_exe().unwrap_or_default();
        let program = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        timeline.name("process_name", 0, &program);
        timeline
    }

    /// Names this process or a track.
    fn name(&mut self, what: &str, track: u64, name: &str) {
        let event = Event {
            name: what,
            category: "",
            phase: Phase::Metadata,
            nanos: 0,
            process: std::process::id(),
            thread: track,
            arguments: &[("name", Value::Text(name))],
        };
        chrome::write(&mut self.lines, &event);
    }

    /// Returns the number of a track of a queue pair that is free since `begun`, and takes it until `ended`.
    fn track(&mut self, qpn: u32, side: Side, begun: u64, ended: u64) -> u64 {
        let tracks = self.tracks.entry((qpn, side)).or_default();
        if let Some(track) = tracks.iter_mut().find(|track| track.ended < begun) {
            track.ended = ended;
            return track.number;
        }
        self.last += 1;
        let number = self.last;
        tracks.push(Track { number, ended });
        let count = tracks.len();
        self.name(
            "thread_name",
            number,
            &format!("queue pair {qpn}: {} {count}", side.name()),
        );
        number
    }

    fn span(&mut self, name: &str, side: Side, (begun, ended): (u64, u64), about: About) {
        let track = self.track(about.qpn, side, begun, ended);
        self.event(name, Phase::Span(ended - begun), begun, track, about);
    }

    fn moment(&mut self, name: &str, at: u64, about: About) {
        // Moments of a queue pair share a track: they have no length.
        let track = self.track(about.qpn, Side::Moment, u64::MAX, 0);
        self.event(name, Phase::Instant, at, track, about);
    }

    fn event(&mut self, name: &str, phase: Phase, at: u64, track: u64, about: About) {
        let About { seq, addr, len, .. } = about;
        let event = Event {
            name,
            category: "",
            phase,
            nanos: at.into(),
            process: std::process::id(),
            thread: track,
            arguments: &[
                ("seq", Value::Number(seq)),
                ("addr", Value::Text(&format!("{addr:#x}"))),
                ("len", Value::Number(len)),
            ],
        };
        chrome::write(&mut self.lines, &event);
    }

    fn write(&mut self) {
        let Some(path) = &settings().trace else { return };
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        if let Ok(mut file) = file {
            let _ = file.write_all(self.lines.as_bytes());
        }
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_a_track_do_not_overlap() {
        let mut timeline = Timeline::default();
        let mut taken: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
        // Spans are noted when they end. Lengths come from a small generator.
        let mut state = 7_u64;
        for ended in 1000..3000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let begun = ended - 1 - (state >> 33) % 50;
            let track = timeline.track(5, Side::Request, begun, ended);
            taken.entry(track).or_default().push((begun, ended));
        }
        assert!(taken.len() > 10 && taken.len() <= 51, "{}", taken.len());
        for spans in taken.values() {
            assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
        let moment = timeline.track(5, Side::Moment, u64::MAX, 0);
        assert_eq!(timeline.track(5, Side::Moment, u64::MAX, 0), moment);
        assert!(!taken.contains_key(&moment));
    }
}
