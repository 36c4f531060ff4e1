//! On which processor the NIC's thread sleeps: on that of the program that wakes it, if all it asks for is little.
//!
//! To wake a thread on another processor is to interrupt that processor, which takes long in a virtual machine. On its own, a sender
//! gives way to the target's thread for some 3 µs, and both programs keep their processors. Much data is better copied beside the
//! sender. Relies on what [`ring`](super::ring) says of who rang; used by the thread of a NIC that takes no liberties.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// After so many wakings from one processor, the thread goes there.
const OFTEN: u32 = 8;
/// One that moves so many bytes stays away from who asked for it.
const MUCH: usize = 16 << 10;

/// Where the thread is, and where it may be.
pub(super) struct Company {
    /// The processors that the process may use, if there are several.
    allowed: Option<CpuSet>,
    on: Option<usize>,
    /// The processor of the last wakings, and how many there were.
    called_from: Option<usize>,
    times: u32,
}

impl Company {
    /// Makes that of the calling thread.
    pub fn new() -> Company {
        let allowed = sched_getaffinity(None).ok();
        Company {
            allowed: allowed.filter(|allowed| allowed.count() > 1),
            on: None,
            called_from: None,
            times: 0,
        }
    }

    /// Takes note that the thread was woken from a processor and moved so many bytes. Moves the thread if that is better from now on.
    pub fn was_woken(&mut self, from: usize, bytes: usize) {
        let Some(allowed) = self.allowed else { return };
        // The number is what a neighbour says.
        if from >= CpuSet::MAX_CPU {
            return;
        }
        let Some(to) = self.better(from, bytes) else {
            return;
        };
        let set = match to {
            Some(processor) if allowed.is_set(processor) => {
                let mut set = CpuSet::new();
                set.set(processor);
                set
            }
            _ => allowed,
        };
        // If the system refuses, the thread stays where it is, which is no fault.
        let _ = sched_setaffinity(None, &set);
    }

    /// Returns where the thread is to be from now on, if that changes: on one processor, or on any.
    fn better(&mut self, from: usize, bytes: usize) -> Option<Option<usize>> {
        if bytes >= MUCH {
            (self.called_from, self.times) = (None, 0);
            return self.on.take().map(|_| None);
        }
        self.times = match self.called_from == Some(from) {
            true => self.times.saturating_add(1),
            false => 1,
        };
        self.called_from = Some(from);
        if self.times < OFTEN || self.on == Some(from) {
            return None;
        }
        self.on = Some(from);
        Some(self.on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(wakings: &[(usize, usize)]) -> Vec<Option<usize>> {
        let mut company = Company::new();
        let moves = wakings.iter().map(|&(from, bytes)| company.better(from, bytes));
        moves.flatten().collect()
    }

    #[test]
    fn the_thread_goes_to_who_calls_often_for_little() {
        assert_eq!(moves(&[(3, 8); 7]), []);
        assert_eq!(moves(&[(3, 8); 30]), [Some(3)]);
        assert_eq!(moves(&[[(3, 8); 9], [(1, 8); 9]].concat()), [Some(3), Some(1)]);
        // Two that call in turn leave it where it is.
        assert_eq!(moves(&[(3, 8), (1, 8)].repeat(20)), []);
    }

    #[test]
    fn the_thread_leaves_who_sends_much() {
        assert_eq!(moves(&[(3, MUCH); 30]), []);
        assert_eq!(
            moves(&[&[(3, 8); 9][..], &[(3, MUCH); 9]].concat()),
            [Some(3), None]
        );
    }

    #[test]
    fn a_processor_that_cannot_be_moves_nothing() {
        let mut company = Company::new();
        for from in [CpuSet::MAX_CPU, usize::MAX] {
            (0..30).for_each(|_| company.was_woken(from, 8));
            assert_eq!(company.on, None);
        }
    }
}
