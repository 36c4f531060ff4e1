//! Cutting connections: what happens to operations under way when one end is lost.
//!
//! Relies on [`super::buffers`]. Used by explorers of object code, whose nodes may be lost; litmus programs have none.

use super::buffers::{Delayed, LocalBack, Stage};
use super::{Machine, QpId, unit_bit};

impl Machine {
    /// Discards what the thread's CPU has issued and its store buffer still holds.
    pub fn discard_store_buffer(&mut self, thread: u16) {
        if let Some(state) = self.threads.get_mut(thread as usize) {
            state.store_buffer.clear();
        }
    }

    /// Discards every operation of the queue pair that has not completed: none of its later steps happens. Notifications
    /// stay, and so do results that have come back, except those of operations that will never complete: once such an operation is
    /// reported as failed, nothing writes its buffer. The effect of an RMW that has executed, whose result may have come back, stays:
    /// its write is placed at once. Appends the tags of the signaled operations that will never complete.
    pub fn cut(&mut self, id: QpId, tags: &mut Vec<u64>) {
        // The atomic unit is held until the write is placed, so there is one at most.
        let executed = self
            .queue_pair(id)
            .and_then(|qp| qp.wb_r.iter().find(|w| w.atomic).copied());
        if let Some(write) = executed
            && let Some(word) = self.memory.get_mut(write.dst.0 as usize)
        {
            *word = write.value;
        }
        let Some(state) = self.threads.get_mut(id.thread as usize) else {
            return;
        };
        if let Some(qp) = state.queue_pair_mut(id.peer) {
            let holds = qp.wb_r.iter().any(|w| w.atomic)
                || qp.pipe.iter().any(|e| matches!(e.stage, Stage::Executing { .. }));
            let before = tags.len();
            tags.extend(qp.pipe.iter().filter(|e| e.signaled).map(|e| e.tag));
            // All words of a transfer have its tag.
            let never = &tags[before..];
            qp.wb_l
                .retain(|back| !matches!(back, LocalBack::Write { tag, .. } if never.contains(tag)));
            qp.pipe.clear();
            qp.wb_r.clear();
            qp.bounds = Default::default();
            if holds {
                self.units &= !unit_bit(id.peer);
            }
        }
        state.store_buffer.retain(|delayed| match delayed {
            Delayed::Remote { peer, entry } if *peer == id.peer => {
                tags.extend(entry.signaled.then_some(entry.tag));
                false
            }
            _ => true,
        });
    }
}
