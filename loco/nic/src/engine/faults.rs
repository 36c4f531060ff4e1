//! What is broken on request (`--drop`, `--kill-qp`, `--lose-link`), so that a program's handling of errors can be tried.

use super::core::Nic;
use crate::counts::{Count, count};
use crate::log;

impl Nic {
    /// Returns whether a message that may be lost is lost now.
    pub(super) fn loses(&mut self) -> bool {
        let lost = self.dice.one_in(self.faults.drop);
        if lost {
            count(Count::Dropped);
        }
        lost
    }

    /// Returns whether the queue pair of a request breaks now.
    pub(super) fn breaks_qp(&mut self) -> bool {
        let breaks = self.dice.one_in(self.faults.kill_qp);
        if breaks {
            count(Count::KilledQps);
        }
        breaks
    }

    /// Loses the link to a process for good, at random: neither process reaches the other after that. What this process has not read
    /// does not arrive. What it has sent may still be carried out at the other, and its answer does not come. Reliable
    /// requests fail when their queue pair's patience is over; others are lost.
    pub(super) fn may_lose_link(&mut self, process: u32) {
        if self.lost.contains(&process) || !self.dice.one_in(self.faults.lose_link) {
            return;
        }
        count(Count::LostLinks);
        log::say(format_args!(
            "the link to process {process} is lost, as --lose-link asks"
        ));
        self.lost.insert(process);
        let links = self.links.iter().filter(|(_, link)| link.peer == Some(process));
        let links: Vec<u64> = links.map(|(id, _)| *id).collect();
        for id in links {
            self.drop_link(id);
        }
    }
}
