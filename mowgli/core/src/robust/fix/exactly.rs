//! The cheapest additions after which the program is robust by the exact search.
//!
//! Additions only add order, so if a set does not make the program robust, no subset does. A depth-first search
//! decides on one addition after the other, the expensive ones first. It turns back where even all additions that are
//! left would not be enough, or where the set costs as much as the best known one. Additions that alone cost as much
//! are never considered. (With branches, a set may have polls that find nothing. Such a set counts as not enough, and
//! the search leaves out its subsets too, and the minimum is then not proved.)

use std::collections::BTreeMap;

use super::edit::{Addition, Bench, Edits, each_place, is_control, operation};
use super::{Costs, Mended, Minimal, Unmended};
use crate::model::Model;
use crate::outcome::Budget;
use crate::program::{Instr, Node, WorkId};
use crate::robust::{Exact, Question, exact};

/// Most sets of additions whose robustness is asked.
const SETS_MAX: u32 = 2_000;

pub(super) fn mend(
    known: Mended,
    question: &Question,
    costs: &Costs,
    budget: &Budget<'_>,
) -> Result<Mended, Unmended> {
    let mut search = Search {
        bench: &known.bench,
        question,
        costs,
        budget,
        best: known.edits.clone(),
        cost: known.cost,
        asked: 0,
        known: BTreeMap::new(),
        open: false,
    };
    search.reduce();
    let mut items = candidates(&known.bench, search.cost, costs, question);
    items.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    let items: Vec<Edits> = items.into_iter().map(|(_, edits)| edits).collect();
    search.decide(&Edits::default(), &items);
    // With branches, sets are left out that a poll without an operation makes useless; and not every place is tried.
    let branches = known
        .bench
        .base
        .threads
        .iter()
        .any(|t| t.code.iter().any(is_control));
    let minimal = match search.open || branches && search.cost > 0 {
        true => Minimal::NotProved,
        false => Minimal::Proved,
    };
    let best = search.best;
    Ok(Mended::new(known.bench, costs, best, minimal))
}

struct Search<'a> {
    bench: &'a Bench,
    question: &'a Question,
    costs: &'a Costs,
    budget: &'a Budget<'a>,
    best: Edits,
    cost: u64,
    asked: u32,
    /// Answers by set.
    known: BTreeMap<Edits, Option<bool>>,
    /// Whether a limit left something undecided.
    open: bool,
}

impl Search<'_> {
    /// Returns whether the program with these additions is robust; `None` beyond a limit.
    fn robust(&mut self, edits: &Edits) -> Option<bool> {
        if let Some(&answer) = self.known.get(edits) {
            return answer;
        }
        if self.asked == SETS_MAX || self.budget.exceeded(0).is_some() {
            return None;
        }
        self.asked += 1;
        let (program, _) = self.bench.program(edits, self.costs);
        if !self.bench.lives(&program, self.question, self.budget) {
            // A poll that finds nothing would make the program robust by ending it.
            self.known.insert(edits.clone(), Some(false));
            return Some(false);
        }
        let answer = match exact(&program, self.question.model, self.question.rmw, self.budget) {
            Exact::Robust => Some(true),
            Exact::NotRobust(_) => Some(false),
            Exact::Unknown(_) => None,
        };
        self.known.insert(edits.clone(), answer);
        answer
    }

    /// Removes the parts of the best known set that are not needed, trying the most expensive ones first.
    fn reduce(&mut self) {
        let mut parts: Vec<(u64, Edits)> = split(self.bench, &self.best)
            .into_iter()
            .map(|part| (self.bench.program(&part, self.costs).1, part))
            .collect();
        parts.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        let mut kept = vec![true; parts.len()];
        for at in 0..parts.len() {
            kept[at] = false;
            let rest = parts.iter().zip(&kept).filter(|(_, kept)| **kept);
            let rest = rest.fold(Edits::default(), |all, ((_, part), _)| all.union(part));
            let cost = self.bench.program(&rest, self.costs).1;
            if cost <= self.cost && self.robust(&rest) == Some(true) {
                (self.best, self.cost) = (rest, cost);
            } else {
                kept[at] = true;
            }
        }
    }

    /// Decides whether to take the first of `items`, once `taken` has been taken, and then decides on the rest.
    fn decide(&mut self, taken: &Edits, items: &[Edits]) {
        let cost = self.bench.program(taken, self.costs).1;
        if cost >= self.cost {
            return;
        }
        match self.robust(taken) {
            Some(true) => {
                (self.best, self.cost) = (taken.clone(), cost);
                return;
            }
            Some(false) => {}
            None => self.open = true,
        }
        let Some((first, rest)) = items.split_first() else {
            return;
        };
        let everything = items.iter().fold(taken.clone(), |all, item| all.union(item));
        match self.robust(&everything) {
            Some(false) => return,
            Some(true) => {}
            None => {
                self.open = true;
                // Beyond the limit nothing more is asked.
                if self.asked == SETS_MAX || self.budget.exceeded(0).is_some() {
                    return;
                }
            }
        }
        self.decide(taken, rest);
        self.decide(&taken.union(first), rest);
    }
}

/// Splits a set into what can be left out on its own: fences, single polls, and gets with the polls beside them.
fn split(bench: &Bench, edits: &Edits) -> Vec<Edits> {
    let mut parts = Vec::new();
    for ((thread, place, what), &count) in &edits.0 {
        let here = |what: Addition| edits.0.get(&(*thread, place.clone(), what)).copied();
        // A wait for added gets is for operations without a name of their own.
        let awaits_get = |work: WorkId| {
            let is_fresh = bench.fresh.as_ref().is_some_and(|fresh| fresh[*thread] == work);
            let mut nodes = (0..bench.base.nodes).map(Node);
            is_fresh && nodes.any(|node| here(Addition::Get(node)).is_some())
        };
        let mut part = Edits::default();
        match what {
            Addition::Poll(node) if here(Addition::Get(*node)).is_some() => continue,
            Addition::Wait(work) if awaits_get(*work) => continue,
            Addition::Get(node) => {
                part.add(*thread, place, *what, count);
                let completion = bench.completion(*thread, *node, None);
                if let Some(count) = here(completion) {
                    part.add(*thread, place, completion, count);
                }
                parts.push(part);
            }
            Addition::Poll(_) => {
                part.add(*thread, place, *what, 1);
                parts.extend(std::iter::repeat_n(part, count as usize));
            }
            _ => {
                part.add(*thread, place, *what, count);
                parts.push(part);
            }
        }
    }
    parts
}

/// Operations towards each node whose completion can still be awaited, the oldest first: their work identifiers.
#[derive(Default)]
struct Pending(BTreeMap<Node, Vec<Option<WorkId>>>);

impl Pending {
    fn pass(&mut self, instr: &Instr, peer: Option<Node>, waits: bool) {
        match instr {
            Instr::Poll { node } => {
                let operations = self.0.entry(*node).or_default();
                operations.drain(..operations.len().min(1));
            }
            Instr::Wait { work } => {
                self.0
                    .values_mut()
                    .for_each(|all| all.retain(|w| *w != Some(*work)));
            }
            _ => {}
        }
        let work = match instr.request().0 {
            Instr::Put { work, .. }
            | Instr::Get { work, .. }
            | Instr::RemoteFaa { work, .. }
            | Instr::RemoteCas { work, .. }
            | Instr::RemoteSwap { work, .. } => *work,
            _ => None,
        };
        if let Some(node) = peer {
            let operations = self.0.entry(node).or_default();
            // One wait is for all operations of a name, so each name counts once.
            if !waits || !operations.contains(&work) {
                operations.push(work);
            }
        }
    }
}

/// Lists the additions that alone cost less than `below`, each at the last place with its effect: remote fences before operations that
/// follow one of their queue pair, memory fences before loads that follow a store, polls, and gets with polls, before accesses.
fn candidates(bench: &Bench, below: u64, costs: &Costs, question: &Question) -> Vec<(u64, Edits)> {
    let mut found = Vec::new();
    for (thread, code) in bench.base.threads.iter().enumerate() {
        let mut pending = Pending::default();
        let mut stored = false;
        each_place(&code.code, &[], &mut |instr, place| {
            let mut add = |what: &[(Addition, u32)]| {
                let mut edits = Edits::default();
                for &(what, count) in what {
                    edits.add(thread, place, what, count);
                }
                found.push(edits);
            };
            let peer = operation(&bench.base, instr);
            let accesses = peer.is_some()
                || matches!(
                    instr,
                    Instr::Load { .. } | Instr::Store { .. } | Instr::Cas { .. } | Instr::Swap { .. }
                );
            if stored && matches!(instr, Instr::Load { .. }) && question.model.base() != Model::RdmaSc {
                add(&[(Addition::Mfence, 1)]);
            }
            if accesses {
                for (&node, operations) in &pending.0 {
                    if peer == Some(node) {
                        add(&[(Addition::Rfence(node), 1)]);
                    }
                    let completions = operations
                        .iter()
                        .map(|&work| bench.completion(thread, node, work));
                    completions.for_each(|completion| add(&[(completion, 1)]));
                    // A wait is for every operation of a name.
                    let count = if bench.fresh.is_some() {
                        0
                    } else {
                        operations.len() as u32
                    };
                    let completion = bench.completion(thread, node, None);
                    add(&[(Addition::Get(node), 1), (completion, count + 1)]);
                }
            }
            match instr {
                Instr::Store { .. } => stored = true,
                Instr::Mfence | Instr::Cas { .. } | Instr::Swap { .. } => stored = false,
                _ => {}
            }
            pending.pass(instr, peer, bench.fresh.is_some());
        });
    }
    let priced = found
        .into_iter()
        .map(|edits| (bench.program(&edits, costs).1, edits));
    priced.filter(|(cost, _)| (1..below).contains(cost)).collect()
}
