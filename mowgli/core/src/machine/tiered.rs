//! The simplified queue pair over the networks that order less than InfiniBand ([`crate::models::tiers`], `docs/ordering-models.md`).
//!
//! Relies on [`super::buffers`]. Two things differ from [`super::simplified`]. Where the network reorders, an operation in the pipe waits
//! only for the earlier entries that its tier's table orders before it, and data comes back in any order. Where the bus reorders,
//! `wb_R` and `wb_L` are sets, of which every write may be placed next. An operation that asks for strong order waits in both.
//!
//! Completions stay in the order of the operations on every tier. So a poll waits for the operation that it counts, as the axioms say,
//! and for nothing that they do not order.

use super::buffers::{Entry, LocalBack, QueuePair, RemoteWrite, Stage};
use super::ops::Addr;
use super::{Machine, Rule};
use crate::model::Tier;

impl Machine {
    /// Puts a word into a region of relaxed ordering, which matters on [`Tier::PcieRelaxed`] only.
    pub fn relax(&mut self, word: Addr) {
        if !self.config.tier.has_relaxed_regions() {
            return;
        }
        let (at, bit) = (word.0 as usize / 64, word.0 % 64);
        if self.relaxed.len() <= at {
            self.relaxed.resize(at + 1, 0);
        }
        self.relaxed[at] |= 1 << bit;
    }

    /// Returns whether the bus may reorder writes of one queue pair.
    pub fn reorders_writes(&self) -> bool {
        matches!(self.config.tier, Tier::PcieRelaxed | Tier::Unordered)
    }

    /// Returns whether the bus may reorder writes to the word.
    pub(super) fn is_relaxed(&self, word: Addr) -> bool {
        let bits = self.relaxed.get(word.0 as usize / 64);
        bits.is_some_and(|bits| bits >> (word.0 % 64) & 1 == 1)
    }
}

/// Calls `push` with every enabled rule and the index of its entry: in the pipe, in `wb_R`, or among the writes of `wb_L`.
pub(super) fn enabled(
    qp: &QueuePair,
    tier: Tier,
    relaxed: &dyn Fn(Addr) -> bool,
    unit_free: bool,
    push: &mut impl FnMut(Rule, usize),
) {
    let bus = Bus { tier, relaxed };
    let mut ahead = Ahead::default();
    for (i, entry) in qp.pipe.iter().enumerate() {
        if !pipe_rule(qp, &bus, entry, i, ahead, unit_free, push) {
            break;
        }
        ahead.add(entry);
    }
    for i in 0..qp.wb_r.len() {
        if kept_back_by(qp, tier, relaxed, i).is_none() {
            push(Rule::PlaceRemote, i);
        }
    }
    let mut earlier: smallvec::SmallVec<[Addr; 4]> = smallvec::SmallVec::new();
    for back in qp.wb_l.iter() {
        if let LocalBack::Write { dst, .. } = *back {
            if earlier.iter().all(|&e| bus.passes(e, dst)) {
                push(Rule::PlaceLocal, earlier.len());
            }
            earlier.push(dst);
        }
    }
}

/// Returns a write of `wb_R` that must be placed before the one at this place: one that the bus does not let it pass, or one that it
/// asked to come after.
pub(super) fn kept_back_by(
    qp: &QueuePair,
    tier: Tier,
    relaxed: &dyn Fn(Addr) -> bool,
    at: usize,
) -> Option<usize> {
    let bus = Bus { tier, relaxed };
    let write = qp.wb_r.get(at)?;
    let blocks = |(i, w): (usize, &RemoteWrite)| {
        (i < at && !bus.passes(w.dst, write.dst))
            || (write.strong && w.epoch < write.epoch)
            || w.before == Some(write.dst)
    };
    qp.wb_r.iter().enumerate().position(blocks)
}

/// The bus between a NIC and memory.
struct Bus<'r> {
    tier: Tier,
    relaxed: &'r dyn Fn(Addr) -> bool,
}

impl Bus<'_> {
    /// Returns whether the bus may reorder writes to the word.
    fn reorders(&self, word: Addr) -> bool {
        self.tier == Tier::Unordered || (self.relaxed)(word)
    }

    /// Returns whether the bus may place a later write before an earlier one.
    fn passes(&self, earlier: Addr, later: Addr) -> bool {
        self.reorders(earlier) || self.reorders(later)
    }
}

/// The kinds of entries ahead of one in the pipe.
#[derive(Clone, Copy, Default)]
struct Ahead {
    /// Puts that have not read their source.
    unread_put: bool,
    /// Puts whose remote write is not issued.
    unwritten_put: bool,
    /// Read-modify-writes that have not read, or whose write is not issued.
    rmw: bool,
    /// Gets and read-modify-writes whose result is not on its way to memory.
    unanswered: bool,
}

impl Ahead {
    fn add(&mut self, entry: &Entry) {
        match entry.stage {
            Stage::Put { .. } => {
                self.unread_put = true;
                self.unwritten_put = true;
            }
            Stage::PutValue { .. } => self.unwritten_put = true,
            Stage::Rmw { .. } | Stage::Executing { .. } => {
                self.rmw = true;
                self.unanswered = true;
            }
            Stage::Get { .. } | Stage::Value { .. } => self.unanswered = true,
            Stage::Ack | Stage::Done | Stage::Fence => {}
        }
    }
}

/// Pushes the rule of a pipe entry if it is enabled. Returns false if no entry behind it may move.
fn pipe_rule(
    qp: &QueuePair,
    bus: &Bus<'_>,
    entry: &Entry,
    i: usize,
    ahead: Ahead,
    unit_free: bool,
    push: &mut impl FnMut(Rule, usize),
) -> bool {
    let tier = bus.tier;
    let (strong, epoch) = entry.order;
    // Row F: sources are read in order, except on the weakest tier.
    let unread = ahead.unread_put && tier != Tier::Unordered;
    let network_in_order = !tier.reorders_network();
    // Row F of the table, then rows G and K towards writes and reads.
    let mut arrives = !unread;
    if network_in_order || strong {
        arrives &= !ahead.unread_put && !ahead.unwritten_put && !ahead.rmw;
    }
    // The writes that a read flushes, because the bus keeps their order or because the operation asks.
    let flushed = |asked: bool| {
        let waits = |w: &RemoteWrite| !bus.reorders(w.dst) || (asked && w.epoch < epoch);
        !qp.wb_r.iter().any(waits)
    };
    match entry.stage {
        Stage::Fence => {
            // The fence waits for reads and atomics and, where the network keeps its order, for writes.
            let passes = match tier {
                Tier::PcieRelaxed => i == 0,
                _ => !ahead.unanswered && !unread,
            };
            if passes {
                push(Rule::Fence, i);
            }
            // Nothing passes a fence.
            return false;
        }
        Stage::Put { .. } => {
            let local = |e: &LocalBack| matches!(e, LocalBack::Write { dst, .. } if !bus.reorders(*dst));
            if !unread && !qp.wb_l.iter().any(local) {
                push(Rule::LocalRead, i);
            }
        }
        Stage::PutValue { dst, .. } => {
            // The completion of a message comes after its data.
            let is_data = |e: &Entry| e.completed_by() == Some(dst);
            if arrives && !qp.pipe[..i].iter().any(is_data) {
                push(Rule::RemoteWrite, i);
            }
        }
        Stage::Get { .. } => {
            if arrives && flushed(strong) {
                push(Rule::RemoteRead, i);
            }
        }
        Stage::Rmw { .. } => {
            if tier == Tier::OooRw {
                arrives &= !ahead.unwritten_put && !ahead.rmw;
            }
            if arrives && flushed(strong) && unit_free {
                push(Rule::AtomicRead, i);
            }
        }
        Stage::Executing { .. } => push(Rule::AtomicWrite, i),
        Stage::Value { .. } => {
            if i == 0 || !network_in_order {
                push(Rule::Respond, i);
            }
        }
        Stage::Ack | Stage::Done => {
            if i == 0 {
                push(Rule::Complete, 0);
            }
        }
    }
    true
}
