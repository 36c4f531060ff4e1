//! The weak provider: it gets the fabric's operations before the real provider, and uses all the freedom of its
//! attributes.
//!
//! An operation is held back until a step hands it on. The next step is chosen at random among the permitted ones. An
//! operation may be handed on when no operation is under way that it may not overtake ([`Orders::keep`]). Under way
//! means that the real provider has not reported its delivery. So nothing rests on the order that the real provider
//! keeps. A write that is not asked to be delivered may be reported before it is handed on. Other operations are
//! reported when they have ended, as libfabric says (`fi_cq`), though in any order.
//!
//! Steps are made within calls of the fabric, and an operation rests for a number of them, so that races do not depend
//! on the clock. Relies on `port` and `promises`. Used by `engine`.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use loco_fabric::{NodeId, Result};
use loco_host::arenas::Block;
use loco_host::bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::config::OfiConfig;
use crate::ffi::types::{Context2, zeroed};
use crate::heap::{Arena, Heap};
use crate::order::{Class, Words};
use crate::port::{Event, Port, Posting, Verb};
use crate::promises::{Orders, Shape};

/// The maximum number of operations under way.
const HELD_MAX: usize = 256;
/// The number of powers of two to choose from: a turn has 1, 2 or 4 steps.
const BURST_DOUBLINGS: u32 = 3;
/// The number of powers of two to choose from: an operation rests for 1 to 16 turns, before half of its steps.
const REST_DOUBLINGS: u32 = 5;

/// The weak provider before a node's port.
pub(crate) struct Weak {
    keeps: Orders,
    dice: SmallRng,
    /// The number of turns so far.
    turn: u64,
    /// The operations under way, oldest first.
    held: Vec<Held>,
    /// The reports that the fabric has not read.
    ends: Vec<Event>,
    /// Scratch space for the steps that may come next.
    next: Vec<(usize, Step)>,
}

// SAFETY: the addresses belong to the engine's pieces and to libfabric, which may be used by any thread, one at a time.
unsafe impl Send for Weak {}

/// An operation under way.
struct Held {
    /// The operation as the real provider gets it.
    posting: Posting,
    shape: Shape,
    /// The fabric's context.
    context: *mut c_void,
    /// The real provider's room, whose address is the context there.
    room: Room,
    /// The data of a write. The fabric may use its own buffer again when the write is reported.
    _data: Option<Block<Arena>>,
    /// Whether the fabric asked for a report of the delivery, or gets one anyway.
    delivered: bool,
    /// The turn in which the next step may come.
    rest: u64,
    handed_on: bool,
    /// The end that the real provider reported.
    ended: Option<io::Result<()>>,
    /// Whether the fabric has got a report.
    reported: bool,
}

/// A step of an operation.
#[derive(Clone, Copy)]
enum Step {
    HandOn,
    Report,
}

/// Memory that libfabric writes to while it has the operation.
struct Room(NonNull<Context2>);

impl Room {
    fn new() -> Room {
        Room(NonNull::from(Box::leak(Box::new(zeroed()))))
    }

    fn address(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: made from a box in `new`, dropped once, when libfabric has reported the operation or is closed.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Weak {
    /// Returns the weak provider of `node`, if the configuration has one.
    pub(crate) fn new(config: &OfiConfig, node: NodeId) -> Option<Weak> {
        let provider = config.weak.as_ref()?;
        Some(Weak {
            keeps: provider.keeps,
            // Nodes that share a seed still make different choices.
            dice: SmallRng::seed_from_u64(provider.seed ^ u64::from(node.0).rotate_left(32)),
            turn: 0,
            held: Vec::new(),
            ends: Vec::new(),
            next: Vec::new(),
        })
    }

    /// Takes a piece. Returns false if there is no room now.
    ///
    /// # Safety
    /// As for [`Port::post`]: `local` is memory that nobody else accesses until the event of `context` has come.
    pub(crate) unsafe fn post(&mut self, port: &Port, heap: &Heap, posting: &Posting) -> io::Result<bool> {
        if self.held.len() >= HELD_MAX {
            return Ok(false);
        }
        let class = match posting.verb {
            Verb::Write => Class::Write,
            Verb::Read => Class::Read,
            Verb::FetchAdd | Verb::CompareSwap => Class::Rmw,
        };
        let room = Room::new();
        let mut handed_on = Posting {
            context: room.address(),
            delivered: class == Class::Write,
            ..posting.clone()
        };
        let mut data = None;
        if class == Class::Write {
            let phase = posting.local.addr() % 8;
            let block = heap.allocate(phase + posting.len).map_err(io::Error::other)?;
            // SAFETY: the block has room for the phase and the data.
            handed_on.local = unsafe { block.start().as_ptr().add(phase) };
            // SAFETY: as above, and the caller's data are mapped and nobody writes to them.
            unsafe { bytes::copy(handed_on.local, posting.local, posting.len) };
            data = Some(block);
        }
        let rest = self.rest();
        self.held.push(Held {
            posting: handed_on,
            shape: Shape {
                class,
                atomic: class == Class::Rmw || posting.words == Words::Atomic,
                bytes: posting.len,
            },
            context: posting.context,
            room,
            _data: data,
            delivered: posting.delivered || class != Class::Write,
            rest,
            handed_on: false,
            ended: None,
            reported: false,
        });
        if self.coin() {
            self.turn(port);
        }
        Ok(true)
    }

    /// Makes progress, and appends the ends of pieces to `events`. Returns true if there may be more.
    pub(crate) fn read(&mut self, port: &Port, events: &mut Vec<Event>) -> Result<bool> {
        self.turn(port);
        let mut ended = Vec::new();
        let more = port.read(&mut ended)?;
        for event in ended {
            let held = self.held.iter();
            let Some(at) = held
                .map(|held| held.room.address())
                .position(|room| room == event.context)
            else {
                tracing::error!(
                    "the end of an operation that was never handed on: {:?}",
                    event.status
                );
                continue;
            };
            if self.held[at].reported {
                // A write that fails after its report fails unheard, as with every provider.
                self.held.remove(at);
                continue;
            }
            let rest = self.rest();
            let held = &mut self.held[at];
            held.rest = rest;
            held.ended = Some(event.status);
        }
        events.append(&mut self.ends);
        Ok(more)
    }

    /// Returns true if there is something to do although the real provider has nothing to say.
    pub(crate) fn holds_back(&self) -> bool {
        !self.ends.is_empty() || !self.held.is_empty()
    }

    /// Makes some of the steps that may come.
    fn turn(&mut self, port: &Port) {
        self.turn += 1;
        for _ in 0..1 << self.dice.random_range(0..BURST_DOUBLINGS) {
            if !self.step(port) {
                return;
            }
        }
    }

    /// Makes one of the steps that may come, chosen at random. Returns false if there is none.
    fn step(&mut self, port: &Port) -> bool {
        let mut next = std::mem::take(&mut self.next);
        next.clear();
        for (at, held) in self
            .held
            .iter()
            .enumerate()
            .filter(|(_, held)| held.rest <= self.turn)
        {
            if !held.reported && (held.ended.is_some() || !held.delivered) {
                next.push((at, Step::Report));
            }
            if !held.handed_on
                && !self.held[..at]
                    .iter()
                    .any(|earlier| self.is_before(earlier, held))
            {
                next.push((at, Step::HandOn));
            }
        }
        let chosen = match next.len() {
            0 => None,
            n => Some(next[self.dice.random_range(0..n)]),
        };
        self.next = next;
        match chosen {
            None => false,
            Some((at, Step::Report)) => {
                self.report(at);
                true
            }
            Some((at, Step::HandOn)) => self.hand_on(port, at),
        }
    }

    fn is_before(&self, earlier: &Held, later: &Held) -> bool {
        earlier.ended.is_none()
            && earlier.posting.to == later.posting.to
            && self.keeps.keep(earlier.shape, later.shape)
    }

    /// Reports an operation. An operation that has ended is removed.
    fn report(&mut self, at: usize) {
        let rest = self.rest();
        let held = &mut self.held[at];
        let context = held.context;
        let status = match held.ended.take() {
            Some(status) => {
                self.held.remove(at);
                status
            }
            None => {
                held.reported = true;
                held.rest = rest;
                Ok(())
            }
        };
        self.ends.push(Event { context, status });
    }

    /// Hands an operation to the real provider. Returns false if that has no room.
    fn hand_on(&mut self, port: &Port, at: usize) -> bool {
        let rest = self.rest();
        let held = &mut self.held[at];
        held.rest = rest;
        // SAFETY: the data of a write are in a block that lives until the event of `room`; for others, the fabric's promise
        // holds until the event of its context, which comes after the event of `room`.
        match unsafe { port.post(&held.posting) } {
            Ok(handed_on) => {
                held.handed_on = handed_on;
                handed_on
            }
            Err(error) if held.reported => {
                tracing::debug!("a write that was reported failed: {error}");
                self.held.remove(at);
                true
            }
            Err(error) => {
                held.handed_on = true;
                held.ended = Some(Err(error));
                true
            }
        }
    }

    /// Returns the turn at the end of a rest that begins now.
    fn rest(&mut self) -> u64 {
        match self.coin() {
            true => self.turn,
            false => self.turn + (1 << self.dice.random_range(0..REST_DOUBLINGS)),
        }
    }

    fn coin(&mut self) -> bool {
        self.dice.random_bool(0.5)
    }
}
