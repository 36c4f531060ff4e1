//! Finds the steps that commute with everything else that their queue pair may do, now or later.
//!
//! A partial-order reduction takes such a step at once, provided that no other agent touches the word that the step reads or
//! writes, and that the queue pair itself makes no access to it that may come [in either order](Machine::races). Relies on the rules
//! of [`super::simplified`] and [`super::tiered`]. Used by explorers of object code.

use super::buffers::{Delayed, LocalBack, Stage};
use super::{Addr, Machine, Pipeline, QpId, Rule, Step};
use crate::model::Tier;

/// The effect of a step on the rest of its queue pair and on the threads that poll it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commutes {
    /// Taking the step now disables no other step of the queue pair, present or future, and changes none of
    /// their effects except through the word in its [`Footprint`](super::Footprint).
    pub in_queue_pair: bool,
    /// The step may give a poll a notification to find.
    pub notifies: bool,
}

impl Machine {
    /// Classifies the step. The answer is conservative for the concrete pipeline and without the PCIe guarantee.
    pub fn commutes(&self, step: Step) -> Commutes {
        let Step::Nic { qp: id, rule, index } = step else {
            // A drain appends to a pipe or writes memory.
            return Commutes {
                in_queue_pair: true,
                notifies: false,
            };
        };
        let Some(qp) = self.queue_pair(id) else {
            return Commutes {
                in_queue_pair: false,
                notifies: true,
            };
        };
        if self.config.pipeline == Pipeline::Concrete || !self.config.pcie {
            return Commutes {
                in_queue_pair: false,
                notifies: true,
            };
        }
        let in_queue_pair = match rule {
            Rule::RemoteWrite | Rule::AtomicWrite => match self.config.tier {
                // `wb_R` is a set, for which only strong operations wait. These wait until the write is in it anyway.
                Tier::Unordered => true,
                // `wb_R` is a queue, which other writes may enter before this one.
                Tier::OooRw | Tier::OooAll => false,
                // A write in `wb_R` delays the reads of gets that are ahead and have not been read.
                Tier::Ibta | Tier::PcieRelaxed => !qp
                    .pipe
                    .iter()
                    .take(index as usize)
                    .any(|e| matches!(e.stage, Stage::Get { .. })),
            },
            // Later puts cannot read their source until a write in `wb_L` is placed, except on the weakest tier. There a write that
            // gets ahead of the notification of an earlier operation hides it.
            Rule::Respond => self.config.tier == Tier::Unordered && index == 0,
            Rule::LocalRead
            | Rule::RemoteRead
            | Rule::AtomicRead
            | Rule::PlaceRemote
            | Rule::PlaceLocal
            | Rule::Fence
            | Rule::Complete => true,
            Rule::Forward => false,
        };
        let notifies = match rule {
            Rule::Complete => qp.pipe.first().is_some_and(|e| e.signaled),
            Rule::PlaceLocal => qp
                .wb_l
                .iter()
                .any(|e| matches!(e, LocalBack::Notification { .. })),
            _ => false,
        };
        Commutes {
            in_queue_pair,
            notifies,
        }
    }

    /// Returns whether the step places a write, and another write of the same queue pair to the same word may still come before or after it:
    /// one that has been posted. Always false where the bus keeps the order of writes.
    pub fn races(&self, step: Step) -> bool {
        let Step::Nic { qp: id, rule, index } = step else {
            return false;
        };
        let Some(qp) = self.queue_pair(id) else {
            return false;
        };
        let at = usize::from(index);
        let reorders = |word| self.config.tier == Tier::Unordered || self.is_relaxed(word);
        match rule {
            Rule::PlaceRemote => {
                let Some(write) = qp.wb_r.get(at).filter(|w| reorders(w.dst)) else {
                    return false;
                };
                let (word, epoch) = (write.dst, write.epoch);
                // A strong operation of a later epoch waits for this write.
                let unplaced = qp.wb_r.iter().enumerate();
                let mut unplaced = unplaced.filter(|&(i, w)| i != at && w.dst == word);
                let mut queued = qp.pipe.iter().filter(|e| e.stage.writes_remotely(word));
                let mut delayed = self.delayed(id).filter(|e| e.stage.writes_remotely(word));
                unplaced.any(|(_, w)| !(w.strong && w.epoch > epoch))
                    || queued.any(|e| !(e.order.0 && e.order.1 > epoch))
                    || delayed.any(|e| !e.order.0)
            }
            Rule::PlaceLocal => {
                let Some(word) = qp.local_destination(at).filter(|&word| reorders(word)) else {
                    return false;
                };
                let unplaced = qp.wb_l.iter();
                let unplaced = unplaced.filter(|e| matches!(e, LocalBack::Write { dst, .. } if *dst == word));
                unplaced.count() > 1
                    || qp.pipe.iter().any(|e| e.stage.writes_locally(word))
                    || self.delayed(id).any(|e| e.stage.writes_locally(word))
            }
            _ => false,
        }
    }

    /// Returns a write of `wb_R` that must be placed before the one at this place may be. `None` if nothing keeps that one back.
    pub fn placed_before(&self, id: QpId, at: usize) -> Option<usize> {
        let qp = self.queue_pair(id)?;
        match self.config.tier {
            Tier::Ibta => (at >= qp.placeable()).then_some(0),
            tier => super::tiered::kept_back_by(qp, tier, &|word| self.is_relaxed(word), at),
        }
    }

    /// Returns the operations of the queue pair that the store buffer holds.
    fn delayed(&self, id: QpId) -> impl Iterator<Item = &super::buffers::Entry> + '_ {
        self.store_buffer(id.thread)
            .iter()
            .filter_map(move |delayed| match delayed {
                Delayed::Remote { peer, entry } if *peer == id.peer => Some(entry),
                _ => None,
            })
    }

    /// Returns whether an RMW of any queue pair towards the node is between its read and the arrival of its write.
    #[inline]
    pub fn unit_is_held(&self, node: u16) -> bool {
        self.is_unit_held(node)
    }

    /// Returns whether an RMW of this queue pair is between its read and the arrival of its write.
    pub fn holds_unit(&self, qp: QpId) -> bool {
        self.is_unit_held(qp.peer)
            && self.queue_pair(qp).is_some_and(|qp| {
                qp.wb_r.iter().any(|w| w.atomic)
                    || qp.pipe.iter().any(|e| matches!(e.stage, Stage::Executing { .. }))
            })
    }
}

impl Stage {
    /// Returns whether the operation has yet to issue a write of the remote word.
    fn writes_remotely(&self, word: Addr) -> bool {
        match *self {
            Stage::Put { dst, .. } | Stage::PutValue { dst, .. } => dst == word,
            Stage::Rmw { target, .. } | Stage::Executing { target, .. } => target == word,
            _ => false,
        }
    }

    /// Returns whether the operation has yet to issue a write of the local word.
    fn writes_locally(&self, word: Addr) -> bool {
        match *self {
            Stage::Get { dst, .. }
            | Stage::Value { dst, .. }
            | Stage::Rmw { dst, .. }
            | Stage::Executing { dst, .. } => dst == word,
            _ => false,
        }
    }
}
