//! Extracts the features of a program that decide whether a change of the model can matter to it.
//!
//! A change of a cell matters only if it changes which events of a thread are ordered. [`Features::keep_order`] compares the transitive
//! closures of the fixed edges, those of program order and polls-from, of every path of every thread. If they are equal, the executions
//! that are consistent are the same: all other edges do not depend on the tables.

use mowgli::declarative::unfold::{self, Path};
use mowgli::event::{Event, Kind};
use mowgli::models::{Part, Spec};
use mowgli::outcome::Budget;
use mowgli::program::Program;

use super::{Change, Side};

/// The paths of a program's threads.
pub struct Features {
    /// The paths; `None` if there are too many.
    paths: Option<Vec<Path>>,
}

/// Most events of a path whose closure is computed, two points each.
const EVENTS_MAX: usize = 32;

impl Features {
    /// Unfolds a program as the model does.
    pub fn of(program: &Program, spec: &Spec, budget: &Budget<'_>) -> Features {
        let threads = 0..program.threads.len();
        let paths: Result<Vec<Vec<Path>>, _> =
            threads.map(|t| unfold::paths(program, t, spec, budget)).collect();
        let paths = paths.ok().map(|threads| threads.concat());
        Features {
            paths: paths.filter(|all| all.iter().all(|p| p.events.len() <= EVENTS_MAX)),
        }
    }

    /// Returns whether some event is of this kind.
    fn has(&self, kind: Kind) -> bool {
        let paths = self.paths.as_ref();
        paths.is_none_or(|all| all.iter().any(|p| p.events.iter().any(|e| e.kind == kind)))
    }

    /// Returns false if the change surely leaves the outcomes as they are.
    pub fn concern(&self, change: &Change, spec: &Spec, changed: &Spec) -> bool {
        match change {
            Change::Cell { cell, .. } => {
                self.has(cell.earlier) && self.has(cell.later) && !self.keep_order(spec, changed)
            }
            Change::Term { part, side } => match part {
                Part::Pf => self.has(Kind::Poll),
                Part::PfGet => self.has(Kind::Poll) && self.has(Kind::NicLocalWrite),
                Part::PfPut => self.has(Kind::Poll) && self.has(Kind::NicRemoteWrite),
                Part::Nfo => self.has(Kind::NicLocalRead) || self.has(Kind::NicRemoteRead),
                Part::Rao => self.has(Kind::NicAtomicRead),
                Part::Ippo | Part::Iso if *side == Side::Issue => !self.keep_order(spec, changed),
                Part::Oppo if *side == Side::Observe => !self.keep_order(spec, changed),
                _ => true,
            },
            Change::Strong => !self.keep_order(spec, changed),
            Change::Joint => true,
        }
    }

    /// Returns whether both models order the events of every thread alike.
    fn keep_order(&self, one: &Spec, other: &Spec) -> bool {
        let paths = self.paths.as_ref();
        paths.is_some_and(|all| all.iter().all(|path| closure(path, one) == closure(path, other)))
    }
}

/// Returns the transitive closure of the fixed edges of a path. Points `2 i` and `2 i + 1` are the issue and the observation of event `i`;
/// where these coincide there are edges both ways.
fn closure(path: &Path, spec: &Spec) -> Vec<u64> {
    let events = &path.events;
    let mut rows = vec![0u64; 2 * events.len()];
    let mut edge = |a: usize, b: usize| rows[a] |= 1 << b;
    for (i, event) in events.iter().enumerate() {
        if spec.joint {
            edge(2 * i, 2 * i + 1);
            if spec.is_instantaneous(event) {
                edge(2 * i + 1, 2 * i);
            }
        }
        for (j, later) in events.iter().enumerate().skip(i + 1) {
            if spec
                .ib
                .iter()
                .any(|p| spec.preserves(p, event, later) || p == Part::Iso && spec.iso_issue(event, later))
            {
                edge(2 * i, 2 * j);
            }
            if spec
                .ob
                .iter()
                .any(|p| spec.preserves(p, event, later) || p == Part::Iso && spec.iso_observe(event, later))
            {
                edge(2 * i + 1, 2 * j + 1);
            }
        }
    }
    for &(write, poll) in &path.pf {
        let part = completion(&events[write]);
        if spec.ib.contains(Part::Pf) || spec.ib.contains(part) {
            edge(2 * write, 2 * poll);
        }
        if spec.ob.contains(Part::Pf) || spec.ob.contains(part) {
            edge(2 * write + 1, 2 * poll + 1);
        }
    }
    for k in 0..rows.len() {
        let via = rows[k];
        for row in &mut rows {
            if *row >> k & 1 == 1 {
                *row |= via;
            }
        }
    }
    rows
}

fn completion(write: &Event) -> Part {
    match write.kind {
        Kind::NicLocalWrite => Part::PfGet,
        _ => Part::PfPut,
    }
}
