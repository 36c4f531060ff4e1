//! Candidate executions: every choice of orders and sources, whether or not the rules allow it.
//!
//! A candidate says where each read takes its value from, so that it has a final state before any rule is asked. [`each`] lists them all;
//! [`super::violation`] says what is wrong with one. Used by [`super::forbidden`].

use std::ops::ControlFlow;

use mowgli::program::Loc;

use crate::action::Action;
use crate::execution::{Problem, Source};
use crate::rules::Rule;
use crate::values::{Origin, Origins};

/// A candidate execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The order of the atomic writes of each location (WS); without WS all of them, in program order.
    pub orders: Vec<Vec<u8>>,
    /// The source of each action that is an atomic read.
    pub sources: Vec<Source>,
    /// Source of the value of each action that reads.
    pub reads: Vec<Origin>,
    /// Source of the last value of each location.
    pub last: Vec<Origin>,
}

/// A candidate with its actions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed<'a> {
    pub(super) actions: &'a [Action],
    pub(super) candidate: &'a Candidate,
}

impl<'a> Origins<'a> for Claimed<'a> {
    fn actions(&self) -> &'a [Action] {
        self.actions
    }

    fn of_read(&self, at: usize) -> Origin {
        self.candidate.reads[at]
    }

    fn of_last(&self, loc: Loc) -> Origin {
        self.candidate.last[usize::from(loc.0)]
    }
}

/// Visits every candidate until `visit` breaks. `locations` is the number of locations.
pub(super) fn each<B>(
    problem: &Problem<'_>,
    locations: usize,
    visit: &mut dyn FnMut(&Candidate) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let actions = problem.actions;
    let mut choice = Choice {
        actions,
        is_ordered: problem.switches().has(Rule::Ws),
        candidate: Candidate {
            orders: vec![Vec::new(); locations],
            sources: vec![Source::Init; actions.len()],
            reads: vec![Origin::Init; actions.len()],
            last: vec![Origin::Init; locations],
        },
        visit,
    };
    choice.order(0)
}

struct Choice<'a, 'v, B> {
    actions: &'a [Action],
    /// Whether the atomic writes of a location have an order (WS).
    is_ordered: bool,
    candidate: Candidate,
    visit: &'v mut dyn FnMut(&Candidate) -> ControlFlow<B>,
}

impl<B> Choice<'_, '_, B> {
    fn writes(&self, loc: usize) -> Vec<(u8, bool)> {
        let of = |a: &Action| a.writes() && a.loc.is_some_and(|l| usize::from(l.0) == loc);
        let all = self.actions.iter().enumerate();
        // ACTIONS_MAX is 64.
        all.filter(|(_, a)| of(a))
            .map(|(at, a)| (at as u8, a.atomic))
            .collect()
    }

    /// Orders the atomic writes of location `loc` and of those after it.
    fn order(&mut self, loc: usize) -> ControlFlow<B> {
        if loc == self.candidate.orders.len() {
            return self.read(0);
        }
        let writes = self.writes(loc);
        let atomic = writes.iter().filter(|w| w.1).count();
        if !self.is_ordered {
            self.candidate.orders[loc] = writes.iter().filter(|w| w.1).map(|w| w.0).collect();
        }
        if self.candidate.orders[loc].len() == atomic {
            return self.last(loc, &writes);
        }
        for &(write, _) in writes.iter().filter(|w| w.1) {
            if !self.candidate.orders[loc].contains(&write) {
                self.candidate.orders[loc].push(write);
                self.order(loc)?;
                self.candidate.orders[loc].pop();
            }
        }
        ControlFlow::Continue(())
    }

    /// Chooses the last value of location `loc`. The order of atomic writes fixes it if there are no others.
    fn last(&mut self, loc: usize, writes: &[(u8, bool)]) -> ControlFlow<B> {
        let ends: Vec<Origin> = match self.candidate.orders[loc].last() {
            _ if writes.is_empty() => vec![Origin::Init],
            Some(&last) if self.is_ordered && writes.iter().all(|w| w.1) => vec![Origin::Write(last)],
            _ => writes
                .iter()
                .map(|w| Origin::Write(w.0))
                .chain([Origin::Undefined])
                .collect(),
        };
        for end in ends {
            self.candidate.last[loc] = end;
            self.order(loc + 1)?;
        }
        ControlFlow::Continue(())
    }

    /// Chooses the source of the reads from action `at` on.
    fn read(&mut self, at: usize) -> ControlFlow<B> {
        let Some(action) = self.actions.get(at) else {
            return (self.visit)(&self.candidate);
        };
        let (true, Some(loc)) = (action.reads(), action.loc) else {
            return self.read(at + 1);
        };
        let writes = self.writes(usize::from(loc.0));
        let others = || writes.iter().filter(|w| usize::from(w.0) != at);
        // A conflict needs an access that is not atomic.
        let may_conflict = (!action.atomic && others().count() > 0) || writes.iter().any(|w| !w.1);
        let mut sources = vec![(Source::Init, Origin::Init)];
        sources.extend(others().map(|&(write, atomic)| match atomic {
            true => (Source::Write(write), Origin::Write(write)),
            false => (Source::Plain, Origin::Write(write)),
        }));
        for (source, origin) in sources {
            self.candidate.sources[at] = source;
            self.candidate.reads[at] = origin;
            self.read(at + 1)?;
            // An atomic source orders the read even if a conflict leaves its value undefined.
            let is_first_plain =
                source != Source::Plain || !others().any(|w| !w.1 && Origin::Write(w.0) < origin);
            if may_conflict && action.atomic && is_first_plain {
                self.candidate.sources[at] = source;
                self.candidate.reads[at] = Origin::Undefined;
                self.read(at + 1)?;
            }
        }
        if may_conflict && !action.atomic {
            self.candidate.sources[at] = Source::Init;
            self.candidate.reads[at] = Origin::Undefined;
            self.read(at + 1)?;
        }
        ControlFlow::Continue(())
    }
}
