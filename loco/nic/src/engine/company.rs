//! On which processor the NIC's thread sleeps: on that of the program that wakes it, if all it asks for is little.
//!
//! To wake a thread on another processor is to interrupt that processor, which takes long in a virtual machine. On its own, a sender
//! gives way to the target's thread for some 3 µs, and both programs keep their processors. Much data is better copied beside the
//! sender. The thread stays within the processors that somebody else gives it (`taskset`, a set of processors of the system's). Relies on
//! what [`ring`](super::ring) says of who rang; used by the thread of a NIC that takes no liberties.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// After so many wakings from one processor, the thread goes there.
const OFTEN: u32 = 8;
/// One that moves so many bytes stays away from who asked for it.
const MUCH: usize = 16 << 10;

/// Where the thread is, and where it may be.
pub(super) struct Company {
    /// The processors that the thread may use.
    allowed: CpuSet,
    /// Those that it was last given here, if it was.
    given: Option<CpuSet>,
    on: Option<usize>,
    /// The processor of the last wakings, and how many there were.
    called_from: Option<usize>,
    times: u32,
}

impl Company {
    /// Makes that of a thread that may use these processors.
    pub fn new(allowed: CpuSet) -> Company {
        Company {
            allowed,
            given: None,
            on: None,
            called_from: None,
            times: 0,
        }
    }

    /// Takes note that the calling thread was woken from a processor and moved so many bytes. Moves it if that is better from now on.
    pub fn was_woken(&mut self, from: usize, bytes: usize) {
        if !self.may_move(from, bytes) {
            return;
        }
        let Ok(current) = sched_getaffinity(None) else {
            return;
        };
        if let Some(set) = self.moves(from, bytes, current) {
            // If the system refuses, the thread stays where it is, which is no fault.
            let _ = sched_setaffinity(None, &set);
        }
    }

    /// Returns whether the thread may be better elsewhere, without asking the system for anything.
    fn may_move(&mut self, from: usize, bytes: usize) -> bool {
        if bytes >= MUCH {
            (self.called_from, self.times) = (None, 0);
            return self.on.is_some();
        }
        self.times = match self.called_from == Some(from) {
            true => self.times.saturating_add(1),
            false => 1,
        };
        self.called_from = Some(from);
        // The number is what a neighbour says.
        self.times >= OFTEN && self.on != Some(from) && from < CpuSet::MAX_CPU
    }

    /// Returns the processors that the thread is to have from now on, if that changes. `current` are those that it has: if they are not
    /// what it was given here, somebody else has set them, and it stays within them.
    fn moves(&mut self, from: usize, bytes: usize, current: CpuSet) -> Option<CpuSet> {
        if self.given.unwrap_or(self.allowed) != current {
            (self.allowed, self.given, self.on) = (current, None, None);
        }
        let to = (bytes < MUCH).then_some(from);
        if to == self.on {
            return None;
        }
        self.on = to;
        if self.allowed.count() < 2 {
            return None;
        }
        let mut set = self.allowed;
        if let Some(processor) = to.filter(|processor| self.allowed.is_set(*processor)) {
            set.clear();
            set.set(processor);
        }
        let is_new = set != current;
        self.given = Some(set);
        is_new.then_some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(processors: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        set
    }

    /// Wakes a thread, and returns the processors that it has after each move. `current` are those that it has before.
    fn moves(company: &mut Company, current: &mut CpuSet, wakings: &[(usize, usize)]) -> Vec<CpuSet> {
        let mut moves = Vec::new();
        for &(from, bytes) in wakings {
            let moved = company
                .may_move(from, bytes)
                .then(|| company.moves(from, bytes, *current));
            if let Some(to) = moved.flatten() {
                *current = to;
                moves.push(to);
            }
        }
        moves
    }

    /// Wakes a new thread, which may use four processors.
    fn moves_of_four(wakings: &[(usize, usize)]) -> Vec<CpuSet> {
        let mut all = set(&[0, 1, 2, 3]);
        moves(&mut Company::new(all), &mut all, wakings)
    }

    #[test]
    fn the_thread_goes_to_who_calls_often_for_little() {
        assert_eq!(moves_of_four(&[(3, 8); 7]), []);
        assert_eq!(moves_of_four(&[(3, 8); 30]), [set(&[3])]);
        assert_eq!(
            moves_of_four(&[[(3, 8); 9], [(1, 8); 9]].concat()),
            [set(&[3]), set(&[1])]
        );
        // Two that call in turn leave it where it is, and so does one from where it may not be.
        assert_eq!(moves_of_four(&[(3, 8), (1, 8)].repeat(20)), []);
        assert_eq!(moves_of_four(&[(9, 8); 30]), []);
    }

    #[test]
    fn the_thread_leaves_who_sends_much() {
        assert_eq!(moves_of_four(&[(3, MUCH); 30]), []);
        assert_eq!(
            moves_of_four(&[&[(3, 8); 9][..], &[(3, MUCH); 9]].concat()),
            [set(&[3]), set(&[0, 1, 2, 3])]
        );
    }

    #[test]
    fn the_thread_stays_where_somebody_else_puts_it() {
        let mut current = set(&[0, 1, 2, 3]);
        let mut company = Company::new(current);
        assert_eq!(moves(&mut company, &mut current, &[(3, 8); 9]), [set(&[3])]);
        // To one processor, and to two, of which one calls.
        current = set(&[0]);
        assert_eq!(moves(&mut company, &mut current, &[(2, 8); 30]), []);
        assert_eq!(moves(&mut company, &mut current, &[(3, MUCH); 30]), []);
        current = set(&[0, 1]);
        assert_eq!(moves(&mut company, &mut current, &[(2, 8); 30]), []);
        assert_eq!(moves(&mut company, &mut current, &[(1, 8); 30]), [set(&[1])]);
        assert_eq!(moves(&mut company, &mut current, &[(1, MUCH); 9]), [set(&[0, 1])]);
    }

    #[test]
    fn a_processor_that_cannot_be_moves_nothing() {
        for from in [CpuSet::MAX_CPU, usize::MAX] {
            assert_eq!(moves_of_four(&[(from, 8); 30]), []);
        }
    }
}
