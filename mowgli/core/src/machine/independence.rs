//! Finds the steps that commute with everything else that their queue pair may do, now or later.
//!
//! A partial-order reduction takes such a step at once, provided that no other agent touches the word that the step reads or
//! writes. Relies on the rules of [`super::simplified`]. Used by explorers of object code.

use super::buffers::{LocalBack, Stage};
use super::{Machine, Pipeline, QpId, Rule, Step};

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
            // A write in `wb_R` delays the reads of gets that are ahead and have not been read.
            Rule::RemoteWrite | Rule::AtomicWrite => !qp
                .pipe
                .iter()
                .take(index as usize)
                .any(|e| matches!(e.stage, Stage::Get { .. })),
            // Later puts cannot read their source until a write in `wb_L` is placed.
            Rule::Respond => false,
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
