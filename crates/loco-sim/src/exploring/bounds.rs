//! Bounds on preemptions and delays: exploring all of the executions that need few of them.
//!
//! A *mover* is whatever makes moves of its own: a thread, its store buffer, a queue pair. Moves that commute with
//! everything (see [`crate::exploring::walk`]) count for neither bound: they are taken at once, whoever moved last.
//!
//! * A *preemption* (Musuvathi and Qadeer, PLDI 2007) is a move of another mover than the last while that one could go on.
//! * A *delay* (Emmi, Qadeer and Rakamaric, POPL 2011) is a deviation from one fixed schedule: the last mover goes on while it
//!   can, then the next one in a circle, in which a thread is followed by its store buffer and its queue pairs. Passing
//!   over one possible move costs one delay. So without delays memory is strong: what a thread has issued takes
//!   effect before another thread moves.
//!
//! Leaving moves out by persistent sets may leave only an equivalent execution that costs more, so a bounded search does
//! without (Coons, Musuvathi and McKinley, OOPSLA 2013, say what it would take).

use std::fmt;

use mowgli::machine::Step;
use serde::Serialize;

use crate::state::Move;
use crate::state::faults::Fault;

/// How far executions may deviate for a bounded search to follow them. `None`: as far as they like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// Most preemptions of an execution: moves of another thread, store buffer or queue pair than the last one to move,
    /// while that one could go on.
    pub preemptions: Option<u32>,
    /// Most delays of an execution: possible moves passed over, where in turn each thread, then its store buffer, then its
    /// queue pairs would go on as long as they can.
    pub delays: Option<u32>,
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |n: Option<u32>, what: &str| {
            let plural = if n == Some(1) { "" } else { "s" };
            n.map(|n| format!("{n} {what}{plural}"))
        };
        let parts = [part(self.preemptions, "preemption"), part(self.delays, "delay")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.is_empty() {
            true => write!(f, "no bound"),
            false => write!(f, "{}", parts.join(" and ")),
        }
    }
}

/// Something with moves of its own. In the order of delays: a thread, its store buffer, its queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mover {
    thread: u16,
    /// 0 the program, 1 the store buffer, 2 and up the queue pairs by peer.
    part: u16,
}

impl Mover {
    pub(crate) fn of(what: Move) -> Mover {
        let (thread, part) = match what {
            Move::Thread(thread) => (thread, 0),
            Move::Machine(Step::Drain { thread }) => (thread, 1),
            Move::Machine(Step::Nic { qp, .. }) => (qp.thread, 2 + qp.peer),
            Move::Fault(Fault::Expire(thread) | Fault::Idle(thread)) => (thread, 0),
            // After all threads.
            Move::Fault(Fault::Crash(node) | Fault::Suspect(node) | Fault::Revoke(node)) => (u16::MAX, node),
            Move::Fault(Fault::Learn { node, .. }) => (u16::MAX, node),
        };
        Mover { thread, part }
    }
}

/// What the execution so far has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    preemptions: u32,
    delays: u32,
    last: Mover,
}

impl Spent {
    /// Leaves the moves that the bounds allow, each with what is spent after it; true if some were left out. Those that
    /// cost most come first, so that a search that takes them from the end begins with the fixed schedule.
    pub(crate) fn within(self, bounds: Bounds, moves: &[Move], out: &mut Vec<(Move, Spent)>) -> bool {
        // Faults have bounds of their own and cost nothing here.
        let (faults, mut order): (Vec<Move>, Vec<Move>) =
            moves.iter().partition(|m| matches!(m, Move::Fault(_)));
        let goes_on = order.iter().any(|&m| Mover::of(m) == self.last);
        // Stable: moves of one mover keep their order, oldest entry first.
        order.sort_by_key(|&m| (Mover::of(m) < self.last, Mover::of(m)));
        for (passed, &what) in order.iter().enumerate() {
            let mover = Mover::of(what);
            let after = Spent {
                preemptions: self.preemptions + u32::from(goes_on && mover != self.last),
                delays: self.delays + passed as u32,
                last: mover,
            };
            if bounds.preemptions.is_none_or(|max| after.preemptions <= max)
                && bounds.delays.is_none_or(|max| after.delays <= max)
            {
                out.push((what, after));
            }
        }
        let left_out = out.len() < order.len();
        out.extend(faults.into_iter().map(|fault| (fault, self)));
        out.reverse();
        left_out
    }

    /// Appends what the future depends on, for the key of a visited state.
    pub(crate) fn encode(self, bounds: Bounds, out: &mut Vec<u8>) {
        if bounds.preemptions.is_some() {
            out.extend_from_slice(&self.preemptions.to_le_bytes());
        }
        if bounds.delays.is_some() {
            out.extend_from_slice(&self.delays.to_le_bytes());
        }
        out.extend_from_slice(&self.last.thread.to_le_bytes());
        out.extend_from_slice(&self.last.part.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(numbers: &[u16]) -> Vec<Move> {
        numbers.iter().map(|&t| Move::Thread(t)).collect()
    }

    fn allowed(spent: Spent, bounds: Bounds, moves: &[Move]) -> (Vec<(Move, Spent)>, bool) {
        let mut out = Vec::new();
        let cut = spent.within(bounds, moves, &mut out);
        out.reverse();
        (out, cut)
    }

    #[test]
    fn who_goes_on_is_not_preempted() {
        let none = Bounds {
            preemptions: Some(0),
            delays: None,
        };
        let start = Spent {
            last: Mover { thread: 1, part: 0 },
            ..Spent::default()
        };
        let (moves, cut) = allowed(start, none, &threads(&[0, 1, 2]));
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[0].0, Move::Thread(1));
        assert!(cut);
        // It cannot go on: anybody may, at no cost.
        let (moves, cut) = allowed(start, none, &threads(&[0, 2]));
        assert_eq!(moves.len(), 2);
        assert!(!cut && moves.iter().all(|(_, spent)| spent.preemptions == 0));
    }

    #[test]
    fn a_delay_for_each_move_passed_over() {
        let one = Bounds {
            preemptions: None,
            delays: Some(1),
        };
        let start = Spent {
            last: Mover { thread: 1, part: 0 },
            ..Spent::default()
        };
        let drain = Move::Machine(Step::Drain { thread: 1 });
        let mut enabled = threads(&[0, 1]);
        enabled.push(drain);
        let (moves, cut) = allowed(start, one, &enabled);
        let order: Vec<(Move, u32)> = moves.iter().map(|(m, spent)| (*m, spent.delays)).collect();
        // Thread 0 comes after thread 1's store buffer, as the circle goes.
        assert_eq!(order, [(Move::Thread(1), 0), (drain, 1)]);
        assert!(cut);
    }
}
