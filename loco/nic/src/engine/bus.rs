//! The bus between a NIC and memory: what is on its way to memory, and what must come after it.
//!
//! Data is placed in runs of whole words. Where words have an order (`ibta`, and `pcie-relaxed` in regions without that flag), runs are
//! placed from low to high; elsewhere, in any order. A completion of a receive waits for the data before it, as the card's own write of it does.

use std::collections::VecDeque;
use std::sync::Arc;

use loco_fabric::Tier;

use crate::completions::{Completion, Completions};
use crate::counts::{Count, count};
use crate::dice::{Dice, Step};
use crate::memory::{Piece, store, store_late};
use crate::trace::{self, About, Side};

/// The size of a word, which never tears.
pub(super) const WORD: usize = 8;
/// Data of up to so many words is cut at any word; longer data into so many runs at most.
const RUNS_MAX: usize = 16;

/// Bytes that are placed, or read, at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The address.
    pub at: usize,
    /// Where the bytes are in the message.
    pub start: usize,
    pub len: usize,
}

/// Something on the bus.
pub(super) struct Item {
    ready_at: u64,
    what: What,
}

enum What {
    Data(Data),
    /// A completion of a receive.
    Complete(Arc<Completions>, Box<Completion>),
}

struct Data {
    bytes: Vec<u8>,
    /// What is not placed, the next at the end.
    runs: Vec<Run>,
    relaxed: bool,
    /// The result of a request of this side, which ends when it is placed.
    ends: Option<u64>,
    /// True if it is the write of an atomic, which keeps the atomics unit until it is placed.
    atomic: bool,
    /// True if the data waits here, while the program goes on.
    late: bool,
    begun: bool,
    /// The request that the trace names, and the time at which it was put here.
    about: About,
    put: u64,
}

impl Data {
    /// Places a run.
    fn place(&self, run: Run) {
        let bytes = &self.bytes[run.start..run.start + run.len];
        match self.late || self.begun {
            true => store_late(run.at, bytes),
            false => store(run.at, bytes),
        }
    }
}

/// Data that is put on the bus.
pub(super) struct Load<'l> {
    pub pieces: &'l [Piece],
    pub bytes: Vec<u8>,
    /// The request of this side whose result it is.
    pub ends: Option<u64>,
    /// True if it is the write of an atomic.
    pub atomic: bool,
    /// The request that the trace names.
    pub about: About,
}

/// What has become visible.
#[derive(Default)]
pub(super) struct Placed {
    /// Requests whose results are placed.
    pub ended: Vec<u64>,
    /// True if the write of an atomic is placed.
    pub atomic: bool,
    /// A completion queue was full.
    pub overrun: Vec<Arc<Completions>>,
}

/// What is on its way to memory for one side of a queue pair.
#[derive(Default)]
pub(super) struct Bus {
    items: VecDeque<Item>,
}

impl Bus {
    /// Returns true if nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Puts data on the bus.
    pub fn write(&mut self, load: Load<'_>, now: u64, tier: Tier, dice: &mut Dice) {
        let delay = dice.delay(now, (load.about.qpn, Step::Placement));
        if delay > 0 {
            count(if load.atomic {
                Count::SplitAtomics
            } else {
                Count::LatePlacements
            });
        }
        let mut runs = runs(load.pieces, tier, dice);
        runs.reverse();
        self.items.push_back(Item {
            ready_at: now + delay,
            what: What::Data(Data {
                bytes: load.bytes,
                runs,
                relaxed: load.pieces.iter().any(|piece| piece.relaxed),
                ends: load.ends,
                atomic: load.atomic,
                late: delay > 0,
                begun: false,
                about: load.about,
                put: trace::clock(),
            }),
        });
    }

    /// Puts a completion behind what is on the bus.
    pub fn complete(&mut self, queue: &Arc<Completions>, completion: Completion, now: u64, dice: &mut Dice) {
        let delay = dice.delay(now, (completion.wc.qp_num, Step::Completion));
        if delay > 0 {
            count(Count::LateCompletions);
        }
        self.items.push_back(Item {
            ready_at: now + delay,
            what: What::Complete(Arc::clone(queue), Box::new(completion)),
        });
    }

    /// Places what may be placed now. Returns when the next thing is due, if one is on the bus.
    pub fn step(&mut self, now: u64, tier: Tier, dice: &mut Dice, placed: &mut Placed) -> Option<u64> {
        loop {
            let mut due = u64::MAX;
            let mut ready = Vec::new();
            for at in 0..self.items.len() {
                if !self.may_go(at, tier) {
                    continue;
                }
                due = due.min(self.items[at].ready_at);
                if self.items[at].ready_at <= now {
                    ready.push(at);
                    if dice.is_plain() {
                        break;
                    }
                }
            }
            if ready.is_empty() {
                return (due < u64::MAX).then_some(due);
            }
            let since: Vec<u64> = ready.iter().map(|&at| self.items[at].ready_at).collect();
            self.go(ready[dice.choose(&since)], now, dice, placed);
        }
    }

    /// Places everything, or all that the bus keeps in order: a read pushes it to memory.
    pub fn push(&mut self, also_relaxed: bool, placed: &mut Placed) {
        let mut at = 0;
        while at < self.items.len() {
            let stays = match &self.items[at].what {
                What::Data(data) => data.relaxed && !also_relaxed,
                What::Complete(..) => at > 0,
            };
            if stays {
                at += 1;
            } else {
                self.finish(at, placed);
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Returns whether nothing before an item keeps it back.
    fn may_go(&self, at: usize, tier: Tier) -> bool {
        let reorders = matches!(tier, Tier::PcieRelaxed | Tier::Unordered);
        let item = &self.items[at].what;
        self.items
            .iter()
            .take(at)
            .all(|earlier| match (&earlier.what, item) {
                // A completion comes after all data before it; on an unordered network, after the last data, which is its own.
                (What::Data(_), What::Complete(..)) => {
                    tier == Tier::Unordered && !self.is_just_before(earlier, at)
                }
                (What::Complete(..), What::Complete(..)) => false,
                (What::Complete(..), What::Data(_)) => reorders,
                (What::Data(one), What::Data(other)) => {
                    tier == Tier::Unordered || tier == Tier::PcieRelaxed && (one.relaxed || other.relaxed)
                }
            })
    }

    fn is_just_before(&self, earlier: &Item, at: usize) -> bool {
        at > 0 && std::ptr::eq(earlier, &raw const self.items[at - 1])
    }

    /// Places a run of an item, or all of it.
    fn go(&mut self, at: usize, now: u64, dice: &mut Dice, placed: &mut Placed) {
        if let What::Data(data) = &mut self.items[at].what
            && data.runs.len() > 1
            && !dice.is_plain()
        {
            if let Some(run) = data.runs.pop() {
                data.place(run);
            }
            let pause = dice.pause(now, (data.about.qpn, Step::Placement), 40);
            if pause > 0 {
                if !data.begun {
                    count(Count::Torn);
                }
                data.begun = true;
                self.items[at].ready_at = now + pause;
            }
            return;
        }
        self.finish(at, placed);
    }

    fn finish(&mut self, at: usize, placed: &mut Placed) {
        let Some(item) = self.items.remove(at) else { return };
        match item.what {
            What::Data(data) => {
                data.runs.iter().rev().for_each(|&run| data.place(run));
                let name = if data.ends.is_some() {
                    "result"
                } else {
                    "placement"
                };
                trace::span(name, Side::Placement, data.put, data.about);
                placed.ended.extend(data.ends);
                placed.atomic |= data.atomic;
            }
            What::Complete(queue, completion) => {
                if !queue.push(*completion) {
                    placed.overrun.push(queue);
                }
            }
        }
    }
}

/// Cuts memory into runs in the order in which they are accessed.
pub(super) fn runs(pieces: &[Piece], tier: Tier, dice: &mut Dice) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut start = 0;
    for piece in pieces {
        if dice.is_plain() || piece.len <= WORD {
            push_words(&mut runs, piece.at, start, piece.len);
        } else {
            cut(&mut runs, piece, start, dice);
        }
        start += piece.len;
    }
    let in_order = match tier {
        Tier::Ibta => true,
        Tier::PcieRelaxed => !pieces.iter().any(|piece| piece.relaxed),
        Tier::OooRw | Tier::OooAll | Tier::Unordered => false,
    };
    if !in_order {
        dice.shuffle(&mut runs);
    }
    runs
}

fn push_words(runs: &mut Vec<Run>, at: usize, start: usize, len: usize) {
    runs.push(Run { at, start, len });
}

/// Cuts a piece at words, chosen at random.
fn cut(runs: &mut Vec<Run>, piece: &Piece, start: usize, dice: &mut Dice) {
    let words = piece.len / WORD + 1;
    let step = (words / RUNS_MAX).max(1);
    let end = piece.at + piece.len;
    let mut at = piece.at;
    while at < end {
        let words = if step == 1 { 1 } else { 1 + dice.below(2 * step) };
        let next = ((at / WORD + words) * WORD).min(end);
        push_words(runs, at, start + (at - piece.at), next - at);
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Schedule, Stress};

    fn piece(memory: &[u8]) -> Piece {
        Piece {
            at: memory.as_ptr().expose_provenance(),
            len: memory.len(),
            relaxed: false,
        }
    }

    #[test]
    fn runs_cover_the_data_once_and_cut_at_words() {
        let mut dice = Dice::new(7, 1, Stress::Default, Schedule::Random);
        let memory = vec![0_u8; 5000];
        for (from, len) in [(0, 5000), (3, 20), (8, 8), (1, 1), (16, 64)] {
            for tier in Tier::ALL {
                let piece = piece(&memory[from..from + len]);
                let mut cut = runs(&[piece], tier, &mut dice);
                cut.sort_by_key(|run| run.start);
                let mut next = 0;
                for run in &cut {
                    assert_eq!(run.start, next);
                    assert_eq!(run.at, piece.at + next);
                    assert!(run.start == 0 || run.at.is_multiple_of(WORD));
                    next += run.len;
                }
                assert_eq!(next, len);
            }
        }
    }

    #[test]
    fn words_are_placed_from_low_to_high_where_a_tier_says_so() {
        let mut dice = Dice::new(7, 1, Stress::Default, Schedule::Random);
        let memory = vec![0_u8; 128];
        for tier in Tier::ALL {
            for relaxed in [false, true] {
                let piece = Piece {
                    relaxed,
                    ..piece(&memory)
                };
                let mut is_low_to_high = true;
                for _ in 0..20 {
                    is_low_to_high &= runs(&[piece], tier, &mut dice).is_sorted_by_key(|run| run.at);
                }
                let is_kept = tier == Tier::Ibta || tier == Tier::PcieRelaxed && !relaxed;
                assert_eq!(is_low_to_high, is_kept, "{tier}, relaxed: {relaxed}");
            }
        }
    }

    #[test]
    fn a_bus_places_everything_and_on_ibta_in_order() {
        for seed in 0..50 {
            let mut dice = Dice::new(seed, 1, Stress::Default, Schedule::Random);
            let words = [0_u64; 16];
            let at = words.as_ptr().expose_provenance();
            let mut bus = Bus::default();
            for word in 0..16 {
                let piece = Piece {
                    at: at + word * WORD,
                    len: WORD,
                    relaxed: true,
                };
                let data = (word as u64 + 1).to_ne_bytes().to_vec();
                let load = Load {
                    pieces: &[piece],
                    bytes: data,
                    ends: Some(word as u64),
                    atomic: false,
                    about: About::default(),
                };
                bus.write(load, 0, Tier::Ibta, &mut dice);
            }
            let mut placed = Placed::default();
            let mut now = 0;
            while let Some(due) = bus.step(now, Tier::Ibta, &mut dice, &mut placed) {
                now = now.max(due);
            }
            assert_eq!(placed.ended, (0..16).collect::<Vec<u64>>());
        }
    }
}
