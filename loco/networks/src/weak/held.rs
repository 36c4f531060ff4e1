//! The operations of an endpoint that are held back, and the choice of the next step.
//!
//! An operation is held back until a step hands it on. The next step is chosen at random among the permitted ones. An
//! operation may be handed on when no operation is under way that it may not overtake ([`Orders::keep`]). Under way
//! means that the real provider has not reported its delivery. So nothing rests on the order that the real provider
//! keeps. A write that is not asked to be delivered may be reported before it is handed on. Other operations are
//! reported when they have ended, as libfabric says (`fi_cq`), though in any order.
//!
//! A provider over a network of a tier ([`Keeps::Tier`]) has one more step. A write is first *sent*, in an order that the
//! network permits. Then it is on the bus, may be reported unless its delivery was asked for, and is handed on in an order that
//! the bus permits. Where the bus keeps order, reads and atomics are handed on when nothing is on it.
//!
//! Steps are made within calls of the fabric, and an operation rests for a number of them, so that races do not depend
//! on the clock.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use loco_fabric::Tier;
use loco_ofi::Class;
use loco_ofi::ffi::types::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::message::{Message, Real};
use super::promises::{Keeps, Shape, bus_keeps, network_keeps};

/// The maximum number of operations under way.
const HELD_MAX: usize = 256;
/// The number of powers of two to choose from: a turn has 1, 2 or 4 steps.
const BURST_DOUBLINGS: u32 = 3;
/// The number of powers of two to choose from: an operation rests for 1 to 16 turns, before half of its steps.
const REST_DOUBLINGS: u32 = 5;
/// The number of reports of the real provider that are taken at once.
const BATCH: usize = 64;

/// The status of a call for which there is no room, and of one that finds nothing.
pub(super) const AGAIN: isize = -(FI_EAGAIN as isize);

/// The end of an operation: the context of its poster, and libfabric's number of the error, or 0.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) context: *mut c_void,
    pub(super) error: c_int,
}

/// The operations of an endpoint.
pub(super) struct Held {
    keeps: Keeps,
    /// Whether requests to report writes only when they are delivered are dropped.
    drops_delivery: bool,
    dice: SmallRng,
    /// The functions of the real provider, once the endpoint is open.
    pub(super) real: Option<Real>,
    pub(super) cq: *mut FidCq,
    pub(super) cq_ops: *const OpsCq,
    /// The number of turns so far.
    turn: u64,
    /// The number of writes that were sent so far.
    sent: u64,
    /// The operations under way, oldest first.
    operations: Vec<Operation>,
    /// The reports that the fabric has not read.
    ends: VecDeque<End>,
    /// Scratch space for the steps that may come next.
    next: Vec<(usize, Step)>,
}

// SAFETY: libfabric's objects may be used by any thread, one at a time, which a lock around this value sees to.
unsafe impl Send for Held {}

/// An operation under way.
struct Operation {
    message: Message,
    flags: u64,
    shape: Shape,
    /// The poster's context.
    context: *mut c_void,
    /// The real provider's room, whose address is the context there.
    room: Room,
    /// Whether the poster asked for a report of the delivery, or gets one anyway.
    delivered: bool,
    /// The turn in which the next step may come.
    rest: u64,
    /// The place among all writes that were sent, of one that was sent on a network of a tier.
    sent: Option<u64>,
    handed_on: bool,
    /// The error with which the real provider ended it, or 0.
    ended: Option<c_int>,
    /// Whether the poster has got a report.
    reported: bool,
}

impl Operation {
    fn is_write(&self) -> bool {
        self.shape.class == Class::Write
    }

    /// Returns whether both are towards the same peer.
    fn is_like(&self, other: &Operation) -> bool {
        self.message.to() == other.message.to()
    }
}

/// A step of an operation.
#[derive(Clone, Copy)]
enum Step {
    Send,
    HandOn,
    Report,
}

/// Memory that libfabric writes to while it has the operation.
struct Room(NonNull<Context2>);

impl Room {
    fn new() -> Room {
        let context = Context2 {
            internal: [ptr::null_mut(); 8],
        };
        Room(NonNull::from(Box::leak(Box::new(context))))
    }

    fn address(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: made from a box in `new`, dropped once, when libfabric has reported the operation.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Held {
    /// Returns the operations of an endpoint that is yet to be opened.
    pub(super) fn new(keeps: Keeps, drops_delivery: bool, seed: u64) -> Held {
        Held {
            keeps,
            drops_delivery,
            dice: SmallRng::seed_from_u64(seed),
            real: None,
            cq: ptr::null_mut(),
            cq_ops: ptr::null(),
            turn: 0,
            sent: 0,
            operations: Vec::new(),
            ends: VecDeque::new(),
            next: Vec::new(),
        }
    }

    /// Takes an operation, with the context and the flags of its poster. Returns libfabric's status.
    ///
    /// # Safety
    /// As for a call of libfabric: the memory of the operation is mapped, and nobody else accesses it, until it is reported.
    pub(super) unsafe fn post(&mut self, mut message: Message, context: *mut c_void, flags: u64) -> isize {
        if self.operations.len() >= HELD_MAX {
            return AGAIN;
        }
        let shape = message.shape();
        let is_write = shape.class == Class::Write;
        let asked = flags & FI_DELIVERY_COMPLETE != 0 && !self.drops_delivery;
        if is_write {
            // SAFETY: the caller's promise.
            unsafe { message.take_data() };
        }
        let rest = self.rest();
        self.operations.push(Operation {
            message,
            flags: if is_write {
                flags | FI_DELIVERY_COMPLETE
            } else {
                flags
            },
            shape,
            context,
            room: Room::new(),
            delivered: asked || !is_write,
            rest,
            sent: None,
            handed_on: false,
            ended: None,
            reported: false,
        });
        if self.coin() {
            self.turn();
        }
        0
    }

    /// Makes progress. Returns the status of the real completion queue if it is broken, else 0.
    pub(super) fn progress(&mut self) -> isize {
        self.turn();
        let mut contexts = [ptr::null_mut::<c_void>(); BATCH];
        loop {
            // SAFETY: the queue is open, and its entries are pointers, as loco-ofi asks for.
            let n = unsafe { ((*self.cq_ops).read)(self.cq, contexts.as_mut_ptr().cast(), BATCH) };
            if let Ok(n) = usize::try_from(n) {
                for context in contexts.iter().take(n) {
                    self.end(*context, 0);
                }
                if n < BATCH {
                    return 0;
                }
            } else if n == -(FI_EAVAIL as isize) {
                let mut entry = empty_entry();
                // SAFETY: as above; an empty entry asks for no further data.
                if unsafe { ((*self.cq_ops).readerr)(self.cq, &raw mut entry, 0) } == 1 {
                    self.end(entry.op_context, entry.err);
                }
            } else {
                return if n == AGAIN { 0 } else { n };
            }
        }
    }

    /// Returns the next report, of a success or of an error, if there is one.
    pub(super) fn report_next(&mut self, is_error: bool) -> Option<End> {
        match self.ends.front() {
            Some(end) if (end.error != 0) == is_error => self.ends.pop_front(),
            _ => None,
        }
    }

    /// Returns true if the next report is that of an error.
    pub(super) fn fails_next(&self) -> bool {
        self.ends.front().is_some_and(|end| end.error != 0)
    }

    /// Returns true if there is something to do although the real provider has nothing to say.
    pub(super) fn holds_back(&self) -> bool {
        !self.ends.is_empty() || !self.operations.is_empty()
    }

    /// Notes that the real provider has ended an operation.
    fn end(&mut self, room: *mut c_void, error: c_int) {
        let at = self
            .operations
            .iter()
            .position(|operation| operation.room.address() == room);
        // When peers go, the real provider also reports ends of its own operations.
        let Some(at) = at else { return };
        if self.operations[at].reported {
            // A write that fails after its report fails unheard, as with every provider.
            self.operations.remove(at);
            return;
        }
        let rest = self.rest();
        let operation = &mut self.operations[at];
        operation.rest = rest;
        operation.ended = Some(error);
    }

    /// Makes some of the steps that may come.
    fn turn(&mut self) {
        self.turn += 1;
        for _ in 0..1 << self.dice.random_range(0..BURST_DOUBLINGS) {
            if !self.step() {
                return;
            }
        }
    }

    /// Makes one of the steps that may come, chosen at random. Returns false if there is none.
    fn step(&mut self) -> bool {
        let mut next = std::mem::take(&mut self.next);
        next.clear();
        for (at, operation) in self.operations.iter().enumerate() {
            if operation.rest > self.turn {
                continue;
            }
            if self.may_be_reported(operation) {
                next.push((at, Step::Report));
            }
            if self.may_be_sent(at) {
                next.push((at, Step::Send));
            }
            if self.may_be_handed_on(at) {
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
            Some((at, Step::Send)) => {
                self.operations[at].sent = Some(self.sent);
                self.operations[at].rest = self.rest();
                self.sent += 1;
                true
            }
            Some((at, Step::HandOn)) => self.hand_on(at),
        }
    }

    fn may_be_reported(&self, operation: &Operation) -> bool {
        let has_left = match self.keeps {
            Keeps::Orders(_) => true,
            Keeps::Tier(_) => operation.sent.is_some(),
        };
        !operation.reported && (operation.ended.is_some() || !operation.delivered && has_left)
    }

    fn may_be_sent(&self, at: usize) -> bool {
        let operation = &self.operations[at];
        let Keeps::Tier(tier) = self.keeps else {
            return false;
        };
        operation.is_write() && operation.sent.is_none() && self.network_permits(tier, at)
    }

    fn may_be_handed_on(&self, at: usize) -> bool {
        let operation = &self.operations[at];
        if operation.handed_on {
            return false;
        }
        let tier = match self.keeps {
            Keeps::Orders(orders) => {
                let waits_for = |earlier: &Operation| {
                    earlier.ended.is_none() && orders.keep(earlier.shape, operation.shape)
                };
                return !self.earlier(at).any(waits_for);
            }
            Keeps::Tier(tier) => tier,
        };
        let on_bus = |before: u64| {
            let is_on_bus = |other: &Operation| {
                other.ended.is_none()
                    && other.sent.is_some_and(|sent| sent < before)
                    && other.is_like(operation)
            };
            bus_keeps(tier) && self.operations.iter().any(is_on_bus)
        };
        match (operation.is_write(), operation.sent) {
            (true, None) => false,
            (true, Some(sent)) => !on_bus(sent),
            (false, _) => self.network_permits(tier, at) && !on_bus(u64::MAX),
        }
    }

    /// Returns whether the network of a tier lets an operation go: everything that it keeps before it is gone.
    fn network_permits(&self, tier: Tier, at: usize) -> bool {
        let later = self.operations[at].shape.class;
        !self.earlier(at).any(|earlier| {
            let is_gone = earlier.sent.is_some() || earlier.ended.is_some();
            !is_gone && network_keeps(tier, earlier.shape.class, later)
        })
    }

    /// Returns the earlier operations towards the same peer.
    fn earlier(&self, at: usize) -> impl Iterator<Item = &Operation> {
        let operation = &self.operations[at];
        let earlier = self.operations[..at].iter();
        earlier.filter(|earlier| earlier.is_like(operation))
    }

    /// Reports an operation. An operation that has ended is removed.
    fn report(&mut self, at: usize) {
        let rest = self.rest();
        let operation = &mut self.operations[at];
        let context = operation.context;
        let error = match operation.ended.take() {
            Some(error) => {
                self.operations.remove(at);
                error
            }
            None => {
                operation.reported = true;
                operation.rest = rest;
                0
            }
        };
        self.ends.push_back(End { context, error });
    }

    /// Hands an operation to the real provider. Returns false if that has no room.
    fn hand_on(&mut self, at: usize) -> bool {
        let rest = self.rest();
        let Some(real) = self.real else { return false };
        let operation = &mut self.operations[at];
        operation.rest = rest;
        let room = operation.room.address();
        // SAFETY: the endpoint is open; the data of a write are the message's own; for others the poster's promise holds
        // until its report, which comes after the end of `room`.
        let status = unsafe { operation.message.post(&real, room, operation.flags) };
        match status {
            0 => operation.handed_on = true,
            AGAIN => return false,
            // It fails unheard, see `end`.
            _ if operation.reported => drop(self.operations.remove(at)),
            status => {
                operation.handed_on = true;
                operation.ended = Some(c_int::try_from(-status).unwrap_or(c_int::MAX));
            }
        }
        true
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

/// Returns a report without contents.
fn empty_entry() -> CqErrEntry {
    CqErrEntry {
        op_context: ptr::null_mut(),
        flags: 0,
        len: 0,
        buf: ptr::null_mut(),
        data: 0,
        tag: 0,
        olen: 0,
        err: 0,
        prov_errno: 0,
        err_data: ptr::null_mut(),
        err_data_size: 0,
    }
}
