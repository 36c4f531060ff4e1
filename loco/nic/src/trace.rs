//! A timeline of what the NIC did, as the viewers of Chrome's traces read it.
//!
//! A request is a span from its post to its completion, at the target one from its arrival to its execution, and its data one from
//! there to its placement. Spans of one track must not overlap, so that each kind of span of a queue pair has as many tracks as it
//! has spans at a time. What belongs to one request has its number in the name, on both sides. Viewers sort tracks by number, so that
//! those of a queue pair have numbers beside one another.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Mutex;

use loco_trace::chrome::{self, Event, Phase, Value};
use rustix::time::{ClockId, clock_gettime};

use crate::events::lock;
use crate::settings::settings;
use crate::world::LOCAL_BITS;

/// So many bytes are written at once.
const CHUNK: usize = 1 << 16;
/// The numbers of tracks that one side of a queue pair has.
const SIDE_TRACKS: u64 = 250;
/// Further tracks have numbers after those of all queue pairs that a process can have: a number of a queue pair is used again.
const FURTHER_TRACKS: u64 = (4 * SIDE_TRACKS) << LOCAL_BITS;

/// The side of a request that a span shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// A work request of this process.
    Request,
    /// Moments.
    Moment,
    /// A request of another process, or of another queue pair.
    Served,
    /// Data on its way to this process's memory.
    Placement,
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
    /// The queue pairs in the order in which they were first seen.
    queue_pairs: Vec<u32>,
    /// The tracks after all others.
    further: u64,
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
        let before = tracks.len() as u64;
        let place = self.queue_pairs.iter().position(|other| *other == qpn);
        let place = place.unwrap_or_else(|| {
            self.queue_pairs.push(qpn);
            self.queue_pairs.len() - 1
        });
        let number = if before < SIDE_TRACKS {
            // The number 0 is the process's own.
            1 + (4 * place as u64 + side as u64) * SIDE_TRACKS + before
        } else {
            self.further += 1;
            FURTHER_TRACKS + self.further
        };
        tracks.push(Track { number, ended });
        let count = match before {
            0 => String::new(),
            _ => format!(" ({})", before + 1),
        };
        self.name(
            "thread_name",
            number,
            &format!("queue pair {qpn:#x}: {}{count}", side.name()),
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
        let (name, addr) = (format!("{name} {seq}"), format!("{addr:#x}"));
        let facts = [("addr", Value::Text(&addr)), ("len", Value::Number(len))];
        // Moments are of a request whose span has them.
        let arguments = match phase {
            Phase::Span(_) => &facts[..],
            _ => &[],
        };
        let event = Event {
            name: &name,
            category: "",
            phase,
            nanos: at.into(),
            process: std::process::id(),
            thread: track,
            arguments,
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

    #[test]
    fn tracks_of_a_queue_pair_are_beside_one_another_and_all_differ() {
        let mut timeline = Timeline::default();
        let mut numbers = Vec::new();
        // As many queue pairs as a process has numbers for, of which the last two have more tracks than numbers of their own.
        let others = (1 << LOCAL_BITS) - 2;
        let mut all: Vec<u64> = (0..others)
            .map(|other| timeline.track(8 + other, Side::Placement, 1, 2))
            .collect();
        for qpn in [7, 5] {
            for side in [Side::Placement, Side::Served, Side::Moment, Side::Request] {
                // All at the same time, so that each has a track of its own.
                let tracks: Vec<_> = (0..300).map(|_| timeline.track(qpn, side, 1, 2)).collect();
                numbers.push((qpn, tracks));
            }
        }
        all.extend(numbers.iter().flat_map(|(_, tracks)| tracks));
        let mut different = all.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), all.len());
        let most = |wanted| {
            let of = numbers.iter().filter(move |(qpn, _)| *qpn == wanted);
            of.map(|(_, tracks)| tracks[0]).max().unwrap_or(0)
        };
        assert!(
            numbers
                .iter()
                .all(|(qpn, tracks)| *qpn == 7 || tracks[0] > most(7))
        );
        assert!(timeline.lines.contains("queue pair 0x7: requests\""));
        assert!(timeline.lines.contains("queue pair 0x7: requests (2)\""));
    }
}
