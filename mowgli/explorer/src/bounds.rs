//! Bounds on preemptions and delays, for exploring all of the executions that need few of them.
//!
//! Eager moves ([`crate::System::eager`]) do not count: they are taken at once, whoever moved last.
//!
//! * A *preemption* (Musuvathi and Qadeer, PLDI 2007) is a move of another mover than the last while the last
//!   mover could go on.
//! * A *delay* (Emmi, Qadeer and Rakamaric, POPL 2011) is a deviation from one fixed schedule, in which the
//!   last mover goes on while it can, and then the next one in a circle. Each step that is possible and is skipped
//!   costs one delay.
//!
//! A step may have a choice, such as the order in which words arrive that no order binds. Its moves
//! ([`crate::System::choice`]) are one step: which of them is made is no matter of schedule, like a choice of data in the
//! paper on delays. So skipping the step costs one delay, and each of its moves costs the same.
//!
//! A reduction by persistent sets may leave only an equivalent execution that costs more, so a bounded search
//! uses none. (Coons, Musuvathi and McKinley, OOPSLA 2013, say what it would take.)

use std::fmt;

use serde::Serialize;

/// The deviations up to which a bounded search follows executions. `None` allows any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// The most preemptions of an execution: moves of another mover than the last one, while the last mover
    /// could go on.
    pub preemptions: Option<u32>,
    /// The most delays of an execution: possible steps skipped, where each mover in turn would go on as long
    /// as it can. Moves that are choices of one step count as one.
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

/// An owner of moves, such as a thread. Delays go round the circle in the order of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mover(pub u32);

/// The preemptions and delays that an execution has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    preemptions: u32,
    delays: u32,
    last: Mover,
}

impl Spent {
    /// Appends the moves that the bounds allow, each with the amount spent after it. Returns true if some
    /// were left out. The most costly moves come first, so that a search that takes them from the end begins
    /// with the fixed schedule. Before them come the moves for which `mover` returns `None`: they cost
    /// nothing and are not part of a schedule. `choice` returns the step of its mover that a move is a choice of, or `None`
    /// for a step without a choice.
    pub(crate) fn within<M: Copy>(
        self,
        bounds: Bounds,
        moves: &[M],
        mover: impl Fn(M) -> Option<Mover>,
        choice: impl Fn(M) -> Option<u32>,
        out: &mut Vec<(M, Spent)>,
    ) -> bool {
        let mut order: Vec<(Mover, M)> = moves.iter().filter_map(|&m| Some((mover(m)?, m))).collect();
        let goes_on = order.iter().any(|&(mover, _)| mover == self.last);
        // The sort is stable: moves of one mover keep their order.
        order.sort_by_key(|&(mover, _)| (mover < self.last, mover));
        let start = out.len();
        // The steps so far that have a choice, with the number of steps before each.
        let mut choices: Vec<(Mover, u32, u32)> = Vec::new();
        let mut steps = 0;
        for &(mover, what) in &order {
            let choice = choice(what);
            let known = choices
                .iter()
                .find(|&&(of, step, _)| of == mover && Some(step) == choice);
            let passed = match known {
                Some(&(_, _, passed)) => passed,
                None => {
                    choices.extend(choice.map(|step| (mover, step, steps)));
                    steps += 1;
                    steps - 1
                }
            };
            let after = Spent {
                preemptions: self.preemptions + u32::from(goes_on && mover != self.last),
                delays: self.delays + passed,
                last: mover,
            };
            if bounds.preemptions.is_none_or(|max| after.preemptions <= max)
                && bounds.delays.is_none_or(|max| after.delays <= max)
            {
                out.push((what, after));
            }
        }
        let left_out = out.len() - start < order.len();
        let free = moves.iter().filter(|&&m| mover(m).is_none());
        out.extend(free.map(|&m| (m, self)));
        out[start..].reverse();
        left_out
    }

    /// Appends the part that the future depends on, for the fingerprint of a visited state.
    pub(crate) fn encode(self, bounds: Bounds, out: &mut Vec<u8>) {
        if bounds.preemptions.is_some() {
            out.extend_from_slice(&self.preemptions.to_le_bytes());
        }
        if bounds.delays.is_some() {
            out.extend_from_slice(&self.delays.to_le_bytes());
        }
        out.extend_from_slice(&self.last.0.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(spent: Spent, bounds: Bounds, moves: &[u32]) -> (Vec<(u32, Spent)>, bool) {
        let mut out = Vec::new();
        let cut = spent.within(
            bounds,
            moves,
            |m| (m < 100).then_some(Mover(m)),
            |_| None,
            &mut out,
        );
        out.reverse();
        (out, cut)
    }

    fn after(last: u32) -> Spent {
        Spent {
            last: Mover(last),
            ..Spent::default()
        }
    }

    #[test]
    fn who_goes_on_is_not_preempted() {
        let none = Bounds {
            preemptions: Some(0),
            delays: None,
        };
        let (moves, cut) = allowed(after(1), none, &[0, 1, 2]);
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[0].0, 1);
        assert!(cut);
        // The last mover cannot go on, so any mover may go on at no cost.
        let (moves, cut) = allowed(after(1), none, &[0, 2]);
        assert_eq!(moves.len(), 2);
        assert!(!cut && moves.iter().all(|(_, spent)| spent.preemptions == 0));
    }

    #[test]
    fn choices_of_one_step_cost_as_much_as_the_step() {
        let one = Bounds {
            preemptions: None,
            delays: Some(1),
        };
        // The tens of a move are its mover. Odd moves are choices of one step of their mover.
        let mut out = Vec::new();
        let moves = [11, 13, 20, 15, 21, 23];
        let mover = |m| Some(Mover(m / 10));
        let choice = |m| (m % 2 == 1).then_some(0);
        let cut = after(1).within(one, &moves, mover, choice, &mut out);
        out.reverse();
        let order: Vec<(u32, u32)> = out.iter().map(|(m, spent)| (*m, spent.delays)).collect();
        assert_eq!(order, [(11, 0), (13, 0), (15, 0), (20, 1)]);
        assert!(cut);
    }

    #[test]
    fn a_delay_for_each_step_passed_over() {
        let one = Bounds {
            preemptions: None,
            delays: Some(1),
        };
        let (moves, cut) = allowed(after(1), one, &[0, 1, 2]);
        let order: Vec<(u32, u32)> = moves.iter().map(|(m, spent)| (*m, spent.delays)).collect();
        // In the circle, 0 comes after 2.
        assert_eq!(order, [(1, 0), (2, 1)]);
        assert!(cut);
    }

    #[test]
    fn moves_that_do_not_count_cost_nothing() {
        let none = Bounds {
            preemptions: Some(0),
            delays: Some(0),
        };
        let (moves, cut) = allowed(after(1), none, &[1, 100]);
        // The fixed schedule comes first.
        assert_eq!(moves, [(1, after(1)), (100, after(1))]);
        assert!(!cut);
    }
}
