//! The orders that a search has tried: the longest through each operation, for the report.

use super::Search;
use crate::Spec;

impl<S: Spec> Search<'_, S> {
    /// Notes the present order for each of its operations for which no longer order is known.
    pub(super) fn note(&mut self) {
        let length = self.frames.len() as u32;
        let Some(node) = self.frames.last().map(|frame| frame.node) else {
            return;
        };
        if length > self.longest.0 {
            self.longest = (length, node);
        }
        // `noted` does not grow towards the end of the order, so the first frame that is high enough ends the walk.
        for frame in self
            .frames
            .iter_mut()
            .rev()
            .take_while(|frame| frame.noted < length)
        {
            frame.noted = length;
            self.work += 1;
            let best = &mut self.best[frame.op as usize];
            *best = (*best).max((length, node));
        }
    }

    /// Returns the order that ends at `node`, as indices of the history.
    pub(super) fn order(&self, mut node: u32) -> Vec<usize> {
        let mut order = Vec::new();
        while node != 0 {
            let (op, parent) = self.tree[node as usize];
            order.push(self.operations[op as usize]);
            node = parent;
        }
        order.reverse();
        order
    }

    /// Returns the longest orders, as many as fit into `room` operations, which becomes smaller.
    pub(super) fn partials(&self, room: &mut usize) -> Vec<Vec<usize>> {
        let mut ends = self.best.clone();
        ends.push((self.furthest.1, self.furthest.2));
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends.dedup();
        let mut partials = Vec::new();
        for (length, node) in ends {
            if length == 0 || *room < length as usize {
                continue;
            }
            *room -= length as usize;
            partials.push(self.order(node));
        }
        partials
    }
}
