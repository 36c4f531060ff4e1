//! Conditions that make rare outcomes likelier: delays, traffic, full completion queues, placement, pinning and cache states
//! (RDMA-TSO'24 section 5 and Fig. 18).
//!
//! A [`Stress`] is one choice of all of these and holds for one batch of runs. None changes what a model allows: runs
//! that share queue pairs with others, or with traffic, are parts of a larger program, and an execution without the
//! rest of it is consistent if the whole is. Used by the node, which applies it, and by the search, which chooses it.

use std::fmt;
use std::str::FromStr;

use mowgli::generate::Random;
use serde::{Deserialize, Serialize};

use crate::shared::LINES_MAX;

/// Declares an enum whose variants have names for options and results.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident $all:ident { $($(#[$doc:meta])* $variant:ident $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* $variant),* }
        /// Every choice.
        pub const $all: [$name; [$($text),*].len()] = [$($name::$variant),*];
        impl $name {
            /// Returns the name that options and results use.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }
    };
}

choices! {
    /// When a thread of a test is delayed.
    Delay DELAYS {
        /// Never.
        #[default]
        None "none",
        /// Before it begins a run.
        Start "start",
        /// Before a run and before each of its instructions.
        Between "between",
    }
}
choices! {
    /// How the locations of a run lie to one another.
    Placement PLACEMENTS {
        /// On a cache line each.
        #[default]
        Line "line",
        /// On one cache line.
        Same "same",
        /// On a page each.
        Page "page",
        /// Each next to that of the next run, so that runs share cache lines.
        Packed "packed",
    }
}
choices! {
    /// Which processors run the threads of a test.
    Pin PINS {
        /// Those that the system chooses.
        #[default]
        Free "free",
        /// One processor for all threads of a host.
        Together "together",
        /// A processor of its own for each thread of a host.
        Apart "apart",
        /// Those of the first NUMA node, near the memory that this process first touches there. Equal to
        /// [`Pin::Free`] on hosts with one node.
        Near "near",
        /// Those of the last NUMA node. Equal to [`Pin::Free`] on hosts with one node.
        Far "far",
    }
}
choices! {
    /// The state of a run's words in the cache of the processor that is about to use them.
    Cache CACHES {
        /// The state that the last access left.
        #[default]
        Any "any",
        /// Loaded ahead.
        Shared "shared",
        /// Loaded ahead to be written.
        Owned "owned",
        /// In no cache (`clflush` on x86-64; elsewhere as [`Cache::Any`]).
        Flushed "flushed",
    }
}
choices! {
    /// Further work of the network card.
    Traffic TRAFFICS {
        /// Nothing.
        #[default]
        None "none",
        /// Operations of the queue pairs of other threads.
        Other "other",
        /// Operations of the test's queue pairs, before each run.
        Same "same",
        /// Operations of one of the test's queue pairs, before an operation of the run that is posted to it.
        Within "within",
    }
}
choices! {
    /// How threads begin their runs.
    Start STARTS {
        /// Together for each run, unless waiting for one another takes too long.
        #[default]
        Run "run",
        /// Together for each batch of runs only.
        Batch "batch",
    }
}
choices! {
    /// How a put of a constant is posted.
    Constant CONSTANTS {
        /// From registered memory, which the network card reads.
        #[default]
        Memory "memory",
        /// With the data in the work request.
        Inline "inline",
    }
}

/// How long the delays of a processor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Length {
    /// Up to `10^n` ns; short and long ones are equally likely.
    Decades(u8),
    /// Nothing, half of the measured round trip, or all of it (RDMA-TSO'24 section 5).
    RoundTrips,
}

impl Default for Length {
    fn default() -> Length {
        Length::Decades(0)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Decades(n) => n.fmt(f),
            Length::RoundTrips => f.write_str(ROUND_TRIPS),
        }
    }
}

/// The name of [`Length::RoundTrips`].
const ROUND_TRIPS: &str = "rtt";

choices! {
    /// How a strong get is posted that only flushes ([`Code::flushes`](crate::code::Code::flushes)).
    Flush FLUSHES {
        /// As a get.
        #[default]
        Get "get",
        /// By the call of that name.
        Call "call",
    }
}

/// The conditions of a batch of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stress {
    /// Delays of the processor.
    pub delay: Delay,
    /// The length of these delays.
    pub delay_length: Length,
    /// Placement of words.
    pub placement: Placement,
    /// Placement of threads.
    pub pin: Pin,
    /// State of caches.
    pub cache: Cache,
    /// Traffic beside the test.
    pub traffic: Traffic,
    /// An operation of the traffic moves `8 << traffic_size` bytes.
    pub traffic_size: u8,
    /// The number of operations of the traffic that are under way at once.
    pub traffic_depth: u8,
    /// Says more of the traffic. [`Traffic::Other`] has `2^traffic_detail` queue pairs towards each node. [`Traffic::Within`] comes before
    /// the operation of this number of each thread, from 1; 0 draws another for each run. Other traffic ignores it.
    pub traffic_detail: u8,
    /// Beginning of runs.
    pub start: Start,
    /// Puts of constants.
    pub constant: Constant,
    /// Each thread keeps `2^completions` operations of its own beside the test, whose completions nobody has polled; 0 keeps none.
    pub completions: u8,
    /// Gets that flush.
    pub flush: Flush,
}

/// The most decades of [`Length::Decades`]: 10^5 ns.
pub const DECADES_MAX: u8 = 5;
/// The largest [`Stress::traffic_size`]: 64 KiB.
pub const SIZE_MAX: u8 = 13;
/// The largest [`Stress::traffic_depth`].
pub const DEPTH_MAX: u8 = 15;
/// The largest [`Stress::traffic_detail`]: 128 queue pairs, as RDMA-TSO'24 used for GFP2.
pub const DETAIL_MAX: u8 = 7;
/// The largest [`Stress::traffic_detail`] that is drawn, since queue pairs are kept for all tests.
const DETAIL_DRAWN: u8 = 3;
/// The largest [`Stress::completions`]: 256 operations. A queue pair may have room for fewer.
pub const COMPLETIONS_MAX: u8 = 8;
/// The largest [`Stress::completions`] that is drawn, since each poll of the test polls them all.
const COMPLETIONS_DRAWN: u8 = 5;
/// The largest operation before which [`Traffic::Within`] comes when it is drawn for each run.
pub const WITHIN_DRAWN: usize = 4;

/// The number of fields. [`Stress::with_random`] knows each by its number.
const FIELDS: usize = 13;

impl Stress {
    /// Draws every field.
    pub fn random(random: &mut Random) -> Stress {
        (0..FIELDS).fold(Stress::default(), |stress, field| {
            stress.with_random(field, random)
        })
    }

    /// Draws one field again: a step of local search.
    #[must_use]
    pub fn neighbour(self, random: &mut Random) -> Stress {
        let field = random.below(FIELDS);
        self.with_random(field, random)
    }

    fn with_random(mut self, field: usize, random: &mut Random) -> Stress {
        fn one<T: Copy>(of: &[T], random: &mut Random) -> T {
            of[random.below(of.len())]
        }
        let mut below = |bound: u8| random.below(usize::from(bound) + 1) as u8;
        match field {
            0 => {
                self.delay_length = match below(DECADES_MAX + 1) {
                    n if n > DECADES_MAX => Length::RoundTrips,
                    n => Length::Decades(n),
                }
            }
            1 => self.traffic_size = below(SIZE_MAX),
            2 => self.traffic_depth = below(DEPTH_MAX),
            3 => self.delay = one(&DELAYS, random),
            4 => self.placement = one(&PLACEMENTS, random),
            5 => self.pin = one(&PINS, random),
            6 => self.cache = one(&CACHES, random),
            7 => self.traffic = one(&TRAFFICS, random),
            8 => self.start = one(&STARTS, random),
            9 => self.traffic_detail = below(DETAIL_DRAWN),
            10 => self.constant = one(&CONSTANTS, random),
            11 => self.flush = one(&FLUSHES, random),
            // Every other draw is none, as it is the cheaper one.
            _ => self.completions = below(1) * below(COMPLETIONS_DRAWN),
        }
        self
    }

    /// Returns the bytes of an operation of the traffic.
    pub fn traffic_bytes(&self) -> usize {
        8 << self.traffic_size
    }

    /// Returns the number of queue pairs of [`Traffic::Other`] towards each of so many nodes, as far as a worker may have them.
    pub fn queue_pairs(&self, peers: usize) -> usize {
        (1 << self.traffic_detail).min(LINES_MAX / peers.max(1)).max(1)
    }

    /// Returns the number of operations that each thread keeps in the completion queue.
    pub fn unpolled(&self) -> u64 {
        match self.completions {
            0 => 0,
            n => 1 << n,
        }
    }

    /// Packs the fields into a word, four bits each, for messages between nodes.
    pub fn to_bits(self) -> u64 {
        let fields = [
            self.delay as u64,
            match self.delay_length {
                Length::Decades(n) => u64::from(n),
                Length::RoundTrips => 15,
            },
            self.placement as u64,
            self.pin as u64,
            self.cache as u64,
            self.traffic as u64,
            u64::from(self.traffic_size),
            u64::from(self.traffic_depth),
            self.start as u64,
            self.constant as u64,
            u64::from(self.traffic_detail),
            self.flush as u64,
            u64::from(self.completions),
        ];
        fields.iter().rev().fold(0, |bits, field| bits << 4 | field & 15)
    }

    /// Unpacks [`Self::to_bits`]. Fields out of range get their defaults.
    pub fn from_bits(bits: u64) -> Stress {
        fn at<T: Copy + Default>(of: &[T], field: u64) -> T {
            of.get(field as usize).copied().unwrap_or_default()
        }
        let field = |index: u32| bits >> (4 * index) & 15;
        Stress {
            delay: at(&DELAYS, field(0)),
            delay_length: match field(1) as u8 {
                15 => Length::RoundTrips,
                n => Length::Decades(n),
            },
            placement: at(&PLACEMENTS, field(2)),
            pin: at(&PINS, field(3)),
            cache: at(&CACHES, field(4)),
            traffic: at(&TRAFFICS, field(5)),
            traffic_size: field(6) as u8,
            traffic_depth: field(7) as u8,
            start: at(&STARTS, field(8)),
            constant: at(&CONSTANTS, field(9)),
            traffic_detail: field(10) as u8,
            flush: at(&FLUSHES, field(11)),
            completions: field(12) as u8,
        }
    }
}

/// Writes `delay=start:3,place=line,..`, which [`Stress::from_str`] reads.
impl fmt::Display for Stress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "delay={}:{},place={},pin={},cache={},traffic={}:{}:{}:{},start={},constant={},flush={},completions={}",
            self.delay.name(),
            self.delay_length,
            self.placement.name(),
            self.pin.name(),
            self.cache.name(),
            self.traffic.name(),
            self.traffic_size,
            self.traffic_depth,
            self.traffic_detail,
            self.start.name(),
            self.constant.name(),
            self.flush.name(),
            self.completions,
        )
    }
}

/// The reason that the text of a stress is malformed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadStress(String);

loco_fabric::debug_as_display!(BadStress);

impl FromStr for Stress {
    type Err = BadStress;

    fn from_str(text: &str) -> Result<Stress, BadStress> {
        let mut stress = Stress::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| BadStress(format!("`{part}` is not `SWITCH=VALUE`")))?;
            let mut words = value.split(':').peekable();
            let first = words.next().unwrap_or_default();
            let number = |words: &mut dyn Iterator<Item = &str>, max: u8, default: u8| match words.next() {
                None => Ok(default),
                Some(word) => word.parse().ok().filter(|&n| n <= max).ok_or_else(|| {
                    BadStress(format!("`{word}` in `{part}`: a number up to {max} is expected"))
                }),
            };
            match key {
                "delay" => {
                    stress.delay = pick(&DELAYS, Delay::name, first, part)?;
                    stress.delay_length = match words.next_if_eq(&ROUND_TRIPS) {
                        Some(_) => Length::RoundTrips,
                        None => Length::Decades(number(&mut words, DECADES_MAX, 3)?),
                    };
                }
                "place" => stress.placement = pick(&PLACEMENTS, Placement::name, first, part)?,
                "pin" => stress.pin = pick(&PINS, Pin::name, first, part)?,
                "cache" => stress.cache = pick(&CACHES, Cache::name, first, part)?,
                "traffic" => {
                    stress.traffic = pick(&TRAFFICS, Traffic::name, first, part)?;
                    stress.traffic_size = number(&mut words, SIZE_MAX, 0)?;
                    stress.traffic_depth = number(&mut words, DEPTH_MAX, 4)?;
                    stress.traffic_detail = number(&mut words, DETAIL_MAX, 0)?;
                }
                "start" => stress.start = pick(&STARTS, Start::name, first, part)?,
                "constant" => stress.constant = pick(&CONSTANTS, Constant::name, first, part)?,
                "flush" => stress.flush = pick(&FLUSHES, Flush::name, first, part)?,
                "completions" => {
                    stress.completions = number(&mut std::iter::once(first), COMPLETIONS_MAX, 0)?;
                }
                _ => {
                    return Err(BadStress(format!(
                        "no switch `{key}`: there are delay, place, pin, cache, traffic, start, constant, flush and \
                         completions"
                    )));
                }
            }
            if words.next().is_some() {
                return Err(BadStress(format!("`{part}` has too many numbers")));
            }
        }
        Ok(stress)
    }
}

fn pick<T: Copy>(of: &[T], name: fn(T) -> &'static str, text: &str, part: &str) -> Result<T, BadStress> {
    of.iter()
        .copied()
        .find(|&choice| name(choice) == text)
        .ok_or_else(|| {
            let names: Vec<_> = of.iter().map(|&choice| name(choice)).collect();
            BadStress(format!(
                "`{text}` in `{part}`: expected one of {}",
                names.join(", ")
            ))
        })
}

impl Serialize for Stress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Stress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Stress, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stresses_survive_words_and_texts() {
        let mut random = Random::new(15);
        for _ in 0..1000 {
            let stress = Stress::random(&mut random);
            assert_eq!(Stress::from_bits(stress.to_bits()), stress);
            assert_eq!(stress.to_string().parse(), Ok(stress));
        }
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Stress>().map_err(|e| e.to_string());
        assert_eq!(
            error("pin=nowhere").unwrap_err(),
            "`nowhere` in `pin=nowhere`: expected one of free, together, apart, near, far"
        );
        assert!(error("delay=start:9").unwrap_err().contains("up to 5"));
        assert!(error("delay=start:rtt:1").unwrap_err().contains("too many"));
        assert!(error("traffic=other:6:8:8").unwrap_err().contains("up to 7"));
        assert!(error("completions=9").unwrap_err().contains("up to 8"));
        assert!(error("completions=full").unwrap_err().contains("`full`"));
        assert!(error("completions=6:2").unwrap_err().contains("too many"));
        assert!(error("heat=1").unwrap_err().contains("no switch `heat`"));
        assert_eq!(error(""), Ok(Stress::default()));
    }

    /// The stress of the paper: 128 queue pairs beside the test, a flood before the second operation, delays by the round trip.
    #[test]
    fn the_switches_of_section_5_are_read() {
        let read = |text: &str| text.parse::<Stress>().unwrap();
        let beside = read("traffic=other:6:8:7");
        assert_eq!((beside.traffic, beside.queue_pairs(1)), (Traffic::Other, 128));
        assert_eq!(
            (beside.queue_pairs(63), read("traffic=other:6:8").queue_pairs(1)),
            (2, 1)
        );
        let within = read("traffic=within:0:3:2,delay=between:rtt");
        assert_eq!((within.traffic, within.traffic_detail), (Traffic::Within, 2));
        assert_eq!(within.delay_length, Length::RoundTrips);
        assert_eq!(read("delay=start").delay_length, Length::Decades(3));
        let unpolled = ["completions=6", "completions=0", ""].map(|text| read(text).unpolled());
        assert_eq!(unpolled, [64, 0, 0]);
    }
}
