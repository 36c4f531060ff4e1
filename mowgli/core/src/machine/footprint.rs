//! Computes the footprints of steps from the state before them.
//!
//! Explorers decide by footprints which steps may be exchanged with what others do.

use super::buffers::{Delayed, Source, Stage};
use super::{Footprint, Machine, Rule, Step};
use crate::model::RmwAtomicity;

impl Machine {
    /// Returns the footprint that the step would have in this state. It is empty if the step is not enabled.
    pub fn footprint(&self, step: Step) -> Footprint {
        let mut touch = Footprint::default();
        match step {
            Step::Drain { thread } => {
                let thread = self.threads.get(thread as usize);
                if let Some(Delayed::Store { loc, .. }) = thread.and_then(|t| t.store_buffer.first()) {
                    touch.writes = Some(*loc);
                }
            }
            Step::Nic { qp: id, rule, index } => {
                let Some(qp) = self.queue_pair(id) else {
                    return touch;
                };
                let stage = qp.pipe.get(index as usize).map(|e| e.stage);
                match (rule, stage) {
                    (Rule::PlaceRemote, _) => {
                        let write = qp.wb_r.get(index as usize);
                        touch.writes = write.map(|w| w.dst);
                        touch.unit = write.filter(|w| w.atomic).map(|_| id.peer);
                    }
                    (Rule::PlaceLocal, _) => touch.writes = qp.local_destination(index as usize),
                    (
                        Rule::LocalRead,
                        Some(Stage::Put {
                            src: Source::Word(src),
                            ..
                        }),
                    ) => touch.reads = Some(src),
                    (Rule::RemoteRead, Some(Stage::Get { src, .. })) => touch.reads = Some(src),
                    (Rule::RemoteWrite, _) => {
                        touch.reads = qp.pipe.get(index as usize).and_then(|e| e.receive());
                    }
                    (Rule::AtomicRead, Some(Stage::Rmw { target, .. })) => {
                        touch.reads = Some(target);
                        touch.unit = Some(id.peer);
                        touch.writes = (self.config.atomicity == RmwAtomicity::Glob).then_some(target);
                    }
                    _ => {}
                }
            }
        }
        touch
    }
}
