//! A timeline of what the NIC did, as the viewers of Chrome's traces read it.
//!
//! A request is a span from its post to its completion, at the target one from its arrival to its execution, and its data one from
//! there to its placement. Spans of one track must not overlap, so that each kind of span of a queue pair has as many tracks as it
//! has spans at a time.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;

use rustix::time::{ClockId, clock_gettime};

use crate::events::lock;
use crate::settings::settings;

/// So many bytes are written at once.
const CHUNK: usize = 1 << 16;

/// What a span is of.
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

/// What is noted of a request.
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

/// Writes nanoseconds as the microseconds of the format.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
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
        let name: String = name
            .chars()
            .filter(|it| !matches!(it, '"' | '\\' | '\0'..='\x1f'))
            .collect();
        let process = std::process::id();
        // Writing to a string does not fail.
        let _ = writeln!(
            self.lines,
            "{{\"name\":\"{what}\",\"ph\":\"M\",\"ts\":0,\"pid\":{process},\"tid\":{track},\"args\":{{\"name\":\"{name}\"}}}},"
        );
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
        let (at, lasted) = (micros(begun), micros(ended - begun));
        self.event(
            name,
            &format!("\"ph\":\"X\",\"ts\":{at},\"dur\":{lasted}"),
            track,
            about,
        );
    }

    fn moment(&mut self, name: &str, at: u64, about: About) {
        // Moments of a queue pair share a track: they have no length.
        let track = self.track(about.qpn, Side::Moment, u64::MAX, 0);
        self.event(
            name,
            &format!("\"ph\":\"i\",\"s\":\"t\",\"ts\":{}", micros(at)),
            track,
            about,
        );
    }

    fn event(&mut self, name: &str, what: &str, track: u64, about: About) {
        let process = std::process::id();
        let About { seq, addr, len, .. } = about;
        // Writing to a string does not fail.
        let _ = writeln!(
            self.lines,
            "{{\"name\":\"{name}\",{what},\"pid\":{process},\"tid\":{track},\
             \"args\":{{\"seq\":{seq},\"addr\":\"{addr:#x}\",\"len\":{len}}}}},"
        );
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
