//! The cheapest additions after which the conditions hold, thread by thread.
//!
//! The pairs that Defs. 7 and 8 want in order depend on which threads access which locations and on which nodes the
//! threads connect. Additions change neither, because an added get is between locations of its thread alone. So each
//! thread can be mended for itself. A search in order of cost mends the pair whose later event comes first, by an
//! addition right before that event: a fence or poll further up would be between the events of fewer pairs that are still
//! open. A get further up can be reached by fewer polls, or by a remote fence that is there, so those places are tried too. The rest of
//! the search depends only on the polls, the added gets and the last fences so far. Of two sets that agree in these,
//! only the cheaper one is therefore kept. After [`SETS_MAX`] sets, the search takes the cheapest next addition each time.
//! `tests/it/mend_brute.rs` compares the cost with that of all sets, on small programs.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

use super::edit::{Addition, Applied, Bench, ChangeKind, Edits, Place, is_control, operation};
use super::{Costs, Mended, Minimal, Unmended};
use crate::event::{Event, Kind};
use crate::model::Model;
use crate::outcome::{Budget, Limit};
use crate::program::{Instr, Node, Program, WorkId};
use crate::robust::{Definition, Footprint, Network, Pair, Question, Reason, Traces, fenced, ldrf};

/// Most sets of additions to one thread that are searched in order of cost.
const SETS_MAX: usize = 3_000;

/// Most combinations of ways through the threads.
const COMBINATIONS_MAX: usize = 4_096;

pub(super) fn mend(
    program: &Program,
    question: &Question,
    costs: &Costs,
    budget: &Budget<'_>,
) -> Result<Mended, Unmended> {
    let bench = Bench::new(program, question.model.base() == Model::RdmaWait);
    let spec = question.spec();
    let definition = Definition::of(&spec);
    let traces = Traces::new(&bench.base, &definition, budget).map_err(Unmended::Limit)?;
    if let Some(limit) = traces.beyond {
        return Err(Unmended::Limit(limit));
    }
    if traces.pre_executions() == 0 {
        return Err(Unmended::Vacuous);
    }
    let groups = Groups::new(&bench.base, &definition, &traces);
    let mut all = Edits::default();
    let mut minimal = Minimal::Proved;
    for thread in 0..program.threads.len() {
        let mut stripped = bench.base.clone();
        let others = stripped.threads.iter_mut().enumerate();
        others
            .filter(|(t, _)| *t != thread)
            .for_each(|(_, t)| t.code.clear());
        let judge = Judge {
            bench: &bench,
            definition: &definition,
            networks: groups.networks(&bench.base, question, &definition, thread)?,
            of_trace: &groups.of_trace[thread],
            thread,
            costs,
            budget,
            stripped,
            bound: Cell::new(u64::MAX),
        };
        let (edits, proved) = judge.search()?;
        if !proved {
            minimal = Minimal::NotProved;
        }
        all = all.union(&edits);
    }
    Ok(Mended::new(bench, costs, all, minimal))
}

/// The traces of each thread in groups. Traces with one footprint, the part that other threads see, are one group.
struct Groups {
    footprints: Vec<Vec<Footprint>>,
    /// `of_trace[t][k]`: the group of trace `k` of thread `t`.
    of_trace: Vec<Vec<usize>>,
}

impl Groups {
    fn new(program: &Program, definition: &Definition, traces: &Traces) -> Groups {
        let mut groups = Groups {
            footprints: Vec::new(),
            of_trace: Vec::new(),
        };
        for traces in &traces.threads {
            let mut known: Vec<Footprint> = Vec::new();
            let mut of_trace = Vec::new();
            for trace in traces {
                let footprint = Footprint::of(program, &definition.spec, trace);
                let at = known.iter().position(|f| *f == footprint).unwrap_or_else(|| {
                    known.push(footprint);
                    known.len() - 1
                });
                of_trace.push(at);
            }
            groups.footprints.push(known);
            groups.of_trace.push(of_trace);
        }
        groups
    }

    /// Returns the networks of every combination, by the group of `thread`.
    fn networks<'p>(
        &self,
        program: &'p Program,
        question: &Question,
        definition: &'p Definition,
        thread: usize,
    ) -> Result<Vec<Vec<Network<'p>>>, Unmended> {
        let counts = self.footprints.iter().map(Vec::len);
        let combinations = counts.fold(1usize, usize::saturating_mul);
        if combinations > COMBINATIONS_MAX {
            let text = format!(
                "{combinations} combinations of ways through the threads, at most {COMBINATIONS_MAX}"
            );
            return Err(Unmended::Limit(Limit::TooLarge(text)));
        }
        let mut networks: Vec<Vec<Network<'p>>> =
            self.footprints[thread].iter().map(|_| Vec::new()).collect();
        for number in 0..combinations {
            let mut rest = number;
            let mut chosen = Vec::new();
            let mut own = 0;
            for (t, footprints) in self.footprints.iter().enumerate() {
                let at = rest % footprints.len();
                rest /= footprints.len();
                own = if t == thread { at } else { own };
                chosen.push(&footprints[at]);
            }
            networks[own].push(Network::new(
                program,
                &definition.spec,
                question.refined,
                definition.clauses,
                &chosen,
            ));
        }
        Ok(networks)
    }
}

/// A pair that is not in order: its events, and the places of their instructions in the program before mending. Ordered by the
/// later one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    later: Place,
    earlier: Place,
    kinds: (Kind, Kind),
    peer: Option<Node>,
    /// Whether both events are of one instruction, and not of two rounds of a loop.
    halves: bool,
}

struct Judge<'a> {
    bench: &'a Bench,
    definition: &'a Definition,
    networks: Vec<Vec<Network<'a>>>,
    of_trace: &'a [usize],
    thread: usize,
    costs: &'a Costs,
    budget: &'a Budget<'a>,
    /// The program without the code of other threads.
    stripped: Program,
    /// The cost of a set that does. Sets that cost more are not tested.
    bound: Cell<u64>,
}

/// A set of additions under test.
struct Set {
    edits: Edits,
    applied: Applied,
    /// Pairs that are not in order, no two alike.
    open: Vec<Open>,
}

impl Judge<'_> {
    /// Tests a set of additions; `None` if it costs more than one that does, or if with it some way through the thread polls what is not
    /// there.
    fn test(&self, edits: Edits) -> Result<Option<Set>, Unmended> {
        let applied = self.bench.thread(self.thread, &edits, self.costs);
        if applied.cost > self.bound.get() {
            return Ok(None);
        }
        let mut program = self.stripped.clone();
        program.threads[self.thread].code.clone_from(&applied.code);
        let mut traces = Traces::new(&program, self.definition, self.budget).map_err(Unmended::Limit)?;
        let traces = std::mem::take(&mut traces.threads[self.thread]);
        if traces.len() != self.of_trace.len() {
            return Ok(None);
        }
        let mut open = Vec::new();
        for (trace, &group) in traces.iter().zip(self.of_trace) {
            let races = ldrf::violations(&self.definition.spec, self.definition.clauses, trace);
            let unfenced = self.networks[group]
                .iter()
                .flat_map(|n| fenced::violations(n, trace));
            for reason in races.chain(unfenced) {
                if let Some(pair) = pair_of(&reason) {
                    let place = |event: &Event| applied.origin.get(&event.path).cloned();
                    let (Some(earlier), Some(later)) = (place(&pair.earlier.event), place(&pair.later.event))
                    else {
                        // A pair with an added get is in order wherever one is added.
                        return Ok(None);
                    };
                    open.push(Open {
                        later,
                        earlier,
                        kinds: (pair.earlier.event.kind, pair.later.event.kind),
                        peer: pair.earlier.event.peer,
                        halves: pair.earlier.event.same_instruction(&pair.later.event),
                    });
                }
            }
        }
        open.sort_unstable();
        open.dedup();
        Ok(Some(Set { edits, applied, open }))
    }

    /// Searches in order of cost. Returns the additions, and whether no cheaper ones do.
    fn search(&self) -> Result<(Edits, bool), Unmended> {
        let Some(start) = self.test(Edits::default())? else {
            return Err(Unmended::Vacuous);
        };
        let known = self.finish(&start).ok();
        if let Some(edits) = &known {
            let applied = self.bench.thread(self.thread, edits, self.costs);
            self.bound.set(applied.cost);
        }
        let mut stuck: Option<Open> = None;
        let mut seen = HashSet::new();
        let mut sets = vec![start];
        let mut queue = BinaryHeap::from([Reverse((0u64, 0usize))]);
        while let Some(Reverse((_, number))) = queue.pop() {
            let Some(first) = sets[number].open.first().cloned() else {
                let edits = sets[number].edits.clone();
                // Inside and around branches not every place is tried.
                let proved = edits == Edits::default() || !self.has_branches();
                return Ok((edits, proved));
            };
            if !seen.insert(self.prospect(&sets[number], &first)) {
                continue;
            }
            if seen.len() > SETS_MAX {
                let edits = self.finish(&sets[number]);
                return Ok((edits.or_else(|error| known.ok_or(error))?, false));
            }
            let next = self.next(&sets[number], &first)?;
            if next.is_empty() {
                stuck.get_or_insert(first);
            }
            for set in next {
                queue.push(Reverse((set.applied.cost, sets.len())));
                sets.push(set);
            }
        }
        match known {
            Some(edits) => Ok((edits, false)),
            None => Err(self.stuck(stuck.as_ref())),
        }
    }

    fn stuck(&self, open: Option<&Open>) -> Unmended {
        let thread = self.bench.base.threads[self.thread].name.clone();
        if let Some(open) = open.filter(|o| o.halves) {
            let place = open.later.clone();
            return Unmended::Halves { thread, place };
        }
        Unmended::Stuck {
            thread,
            earlier: open.map(|o| o.earlier.clone()).unwrap_or_default(),
            later: open.map(|o| o.later.clone()).unwrap_or_default(),
        }
    }

    /// Takes the cheapest next addition after which all that is open comes later, until nothing is open.
    fn finish(&self, set: &Set) -> Result<Edits, Unmended> {
        let mut edits = set.edits.clone();
        let mut first = set.open.first().cloned();
        while let Some(open) = first {
            let Some(set) = self.test(edits)? else {
                return Err(self.stuck(Some(&open)));
            };
            let next = self.next(&set, &open)?;
            // A get may take a poll and open a pair anew.
            let later = next
                .into_iter()
                .filter(|s| s.open.first().is_none_or(|first| *first > open));
            let cheapest = later.min_by_key(|s| s.applied.cost);
            let Some(cheapest) = cheapest else {
                return Err(self.stuck(Some(&open)));
            };
            first = cheapest.open.first().cloned();
            edits = cheapest.edits;
        }
        Ok(edits)
    }

    /// Returns the facts on which the rest of the search depends: for each peer, the number of polls before the first
    /// open pair's later event, the last fences and all added gets there. With branches it depends on the whole set.
    fn prospect(&self, set: &Set, first: &Open) -> (Place, Vec<u64>, Option<Edits>) {
        if set.applied.code.iter().any(is_control) {
            return (first.later.clone(), Vec::new(), Some(set.edits.clone()));
        }
        let mut facts: BTreeMap<(u8, u16), u64> = BTreeMap::new();
        let mut gets: Vec<u64> = Vec::new();
        let mut before = 0;
        for (index, instr) in set.applied.code.iter().enumerate() {
            if let Some(place) = set.applied.origin.get(&vec![index as u16]) {
                if *place >= first.later {
                    break;
                }
                before = u64::from(place[0]) + 1;
            }
            match instr {
                Instr::Poll { node } => *facts.entry((0, u16::from(node.0))).or_insert(0) += 1,
                Instr::Rfence { node } => *facts.entry((1, u16::from(node.0))).or_insert(0) = before,
                Instr::Mfence => *facts.entry((2, 0)).or_insert(0) = before,
                Instr::Wait { work } => *facts.entry((4, work.0)).or_insert(0) = before,
                Instr::Get { .. } if set.applied.marks[index] == Some(ChangeKind::Added) => {
                    let peer = operation(&self.bench.base, instr).map_or(0, |n| u64::from(n.0));
                    gets.extend([peer, before]);
                }
                _ => {}
            }
        }
        let facts = facts.into_iter();
        let facts = facts.flat_map(|((kind, node), value)| [u64::from(kind), u64::from(node), value]);
        (first.later.clone(), facts.chain(gets).collect(), None)
    }

    /// Returns the sets with one more addition each that close the pair.
    fn next(&self, set: &Set, open: &Open) -> Result<Vec<Set>, Unmended> {
        let mut out = Vec::new();
        for place in self.places(open) {
            let here = |what| (place.as_slice(), what, 1);
            if open.peer.is_none() {
                out.extend(self.try_one(set, open, &[here(Addition::Mfence)])?);
            }
            // What an operation and its completion order is in order for the CPU too, so a completion can close a pair of the CPU.
            let peers = open.peer.map_or_else(|| self.peers(), |peer| vec![peer]);
            for peer in peers {
                let fence = here(Addition::Rfence(peer));
                if open.peer.is_some() {
                    out.extend(self.try_one(set, open, &[fence])?);
                }
                for work in self.works() {
                    out.extend(self.completed(set, open, peer, work, &[], &place)?);
                }
                for at in self.get_places(open, peer, &place) {
                    let get = (at.as_slice(), Addition::Get(peer), 1);
                    if open.peer.is_some() {
                        out.extend(self.try_one(set, open, &[get])?);
                        out.extend(self.try_one(set, open, &[get, fence])?);
                    }
                    out.extend(self.completed(set, open, peer, None, &[get], &place)?);
                }
            }
        }
        Ok(out)
    }

    /// Adds as few polls, or one wait, as close the pair together with `more`.
    fn completed(
        &self,
        set: &Set,
        open: &Open,
        peer: Node,
        work: Option<WorkId>,
        more: &[(&[u16], Addition, u32)],
        place: &[u16],
    ) -> Result<Option<Set>, Unmended> {
        let completion = self.bench.completion(self.thread, peer, work);
        // Waits are for every operation of a name, polls for one.
        let most = match self.bench.fresh {
            Some(_) => 1,
            None => self.operations(peer) + set.gets(self.thread, peer) + 1,
        };
        for count in 1..=most {
            let what = [more, &[(place, completion, count)]].concat();
            let closed = self.try_one(set, open, &what)?;
            if closed.is_some() {
                return Ok(closed);
            }
        }
        Ok(None)
    }

    /// Returns the work identifiers for which may be waited. Waiting for a later operation of a queue pair can order an earlier one.
    fn works(&self) -> Vec<Option<WorkId>> {
        let ids = self.bench.base.threads[self.thread].work_ids.len();
        match &self.bench.fresh {
            Some(_) => (0..ids).map(|id| Some(WorkId(id as u16))).collect(),
            None => vec![None],
        }
    }

    /// Returns the peers of the thread's operations.
    fn peers(&self) -> Vec<Node> {
        let nodes = (0..self.bench.base.nodes).map(Node);
        nodes.filter(|&node| self.operations(node) > 0).collect()
    }

    /// Returns the places for a get that is to close the pair: before the addition at `place`, and further up. There it is reached by fewer
    /// polls, and by a remote fence that is there already.
    fn get_places(&self, open: &Open, peer: Node, place: &[u16]) -> Vec<Place> {
        let code = &self.bench.base.threads[self.thread].code;
        let mut places = vec![place.to_vec()];
        if let ([earlier], [place]) = (open.earlier.as_slice(), place) {
            let follows = |at: u16| {
                let before = &code[usize::from(at) - 1];
                operation(&self.bench.base, before) == Some(peer)
                    || code.get(usize::from(at)) == Some(&Instr::Rfence { node: peer })
            };
            places.extend((earlier + 1..*place).filter(|&at| follows(at)).map(|at| vec![at]));
        }
        places
    }

    /// Returns the places for an addition: right before the later event. With branches also before the whole statement in which
    /// it is, and right after the earlier event.
    fn places(&self, open: &Open) -> Vec<Place> {
        let mut places = vec![open.later.clone()];
        if self.has_branches() {
            places.push(open.later[..1].to_vec());
            let mut after = open.earlier.clone();
            if let Some(last) = after.last_mut() {
                *last += 1;
            }
            places.push(after);
            places.sort();
            places.dedup();
        }
        places
    }

    fn has_branches(&self) -> bool {
        self.bench.base.threads[self.thread].code.iter().any(is_control)
    }

    /// Counts the instructions of the thread that post to a node.
    fn operations(&self, peer: Node) -> u32 {
        let mut count = 0;
        let code = &self.bench.base.threads[self.thread].code;
        super::edit::each_place(code, &[], &mut |instr, _| {
            count += u32::from(operation(&self.bench.base, instr) == Some(peer));
        });
        count
    }

    /// Adds something at each of some places, so many times each; `None` if the pair is still open then.
    fn try_one(
        &self,
        set: &Set,
        open: &Open,
        what: &[(&[u16], Addition, u32)],
    ) -> Result<Option<Set>, Unmended> {
        let mut edits = set.edits.clone();
        for &(place, what, count) in what {
            edits.add(self.thread, place, what, count);
        }
        let tested = self.test(edits)?;
        Ok(tested.filter(|set| !set.open.contains(open)))
    }
}

impl Set {
    /// Counts the added gets towards a node.
    fn gets(&self, thread: usize, peer: Node) -> u32 {
        let added = self.edits.0.iter();
        let of = added.filter(|((t, _, what), _)| (*t, *what) == (thread, Addition::Get(peer)));
        of.map(|(_, count)| count).sum()
    }
}

fn pair_of(reason: &Reason) -> Option<&Pair> {
    match reason {
        Reason::Race { pair } | Reason::Unfenced { pair, .. } => Some(pair),
        _ => None,
    }
}
