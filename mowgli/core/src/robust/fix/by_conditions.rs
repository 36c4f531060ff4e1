//! The cheapest additions after which the conditions hold, thread by thread.
//!
//! The pairs that Defs. 7 and 8 want in order depend on which threads access which locations and on which nodes the
//! threads connect. Additions change neither, because an added get is between locations of its thread alone. So each
//! thread can be mended for itself. A search in order of cost mends the pair whose later event comes first, by an
//! addition right before that event: a fence or poll further up would be between the events of fewer pairs that are still
//! open. A get further up can be reached by fewer polls, or by a remote fence that is there, so those places are tried too. The rest of
//! the search depends only on the polls, the added gets and the last fences so far. Of two sets that agree in these,
//! only the cheaper one is therefore kept. Branch and bound: taking the cheapest next addition each time gives a first answer, and
//! sets are given up that cannot cost less, counting the polls that they lack at least. A search that does [`WORK_MAX`] work ends with
//! the best answer so far and does not call it the least. `tests/it/mend_brute.rs` compares the cost with that of all sets, on small
//! programs.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::edit::{Addition, Applied, Bench, ChangeKind, Edits, Place, is_control, operation};
use super::{Costs, Mended, Minimal, Unmended};
use crate::event::{Event, Kind};
use crate::model::Model;
use crate::outcome::{Budget, Limit};
use crate::program::{Instr, Node, Program, WorkId};
use crate::robust::trace::Trace;
use crate::robust::{Definition, Footprint, Network, Question, Traces, fenced, ldrf};

/// Most work of the search for one thread: for each set that is tested, the pairs of events of its traces.
const WORK_MAX: u64 = 100_000;

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
    let local = definition.with_strong_cpu();
    let mut all = Edits::default();
    let mut minimal = Minimal::Proved;
    for thread in 0..program.threads.len() {
        let judge = Judge {
            bench: &bench,
            definition: &definition,
            local: &local,
            networks: groups.networks(&bench.base, question, &definition, thread)?,
            of_trace: &groups.of_trace[thread],
            thread,
            costs,
            budget,
            program: RefCell::new(bench.base.clone()),
            bound: Cell::new(u64::MAX),
            work: Cell::new(0),
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
    /// The definition with a strong CPU.
    local: &'a Definition,
    networks: Vec<Vec<Network<'a>>>,
    of_trace: &'a [usize],
    thread: usize,
    costs: &'a Costs,
    budget: &'a Budget<'a>,
    /// The program in which the thread's code is that of the set under test.
    program: RefCell<Program>,
    /// The cost of the cheapest set so far that does. Sets that cost as much are not tested.
    bound: Cell<u64>,
    /// The work so far, as in [`WORK_MAX`].
    work: Cell<u64>,
}

/// A set of additions under test.
struct Set {
    edits: Edits,
    applied: Applied,
    /// Pairs that are not in order, no two alike.
    open: Vec<Open>,
    /// The cost of the set and of what it lacks at least.
    least: u64,
}

impl Judge<'_> {
    /// Tests a set of additions; `None` if no set that contains it costs less than one that does, or if with it some way through the
    /// thread polls what is not there.
    fn test(&self, edits: Edits) -> Result<Option<Set>, Unmended> {
        let applied = self.bench.thread(self.thread, &edits, self.costs);
        if applied.cost >= self.bound.get() {
            return Ok(None);
        }
        let mut program = self.program.borrow_mut();
        program.threads[self.thread].code.clone_from(&applied.code);
        let traces = Traces::of_thread(&program, self.thread, self.definition, self.local, self.budget);
        let (traces, _) = traces.map_err(Unmended::Limit)?;
        let pairs = |trace: &Trace| (trace.events.len() * trace.events.len()) as u64;
        self.work
            .set(self.work.get() + traces.iter().map(pairs).sum::<u64>());
        if traces.len() != self.of_trace.len() {
            return Ok(None);
        }
        let mut open = Vec::new();
        let mut lacking = BTreeMap::new();
        for (trace, &group) in traces.iter().zip(self.of_trace) {
            let races = ldrf::pairs(self.definition.clauses, trace);
            let unfenced = self.networks[group].iter().flat_map(|n| fenced::pairs(n, trace));
            for (a, b) in races.chain(unfenced) {
                let (earlier, later) = (&trace.events[a], &trace.events[b]);
                let place = |event: &Event| applied.origin.get(&event.path).cloned();
                let (Some(earlier_at), Some(later_at)) = (place(earlier), place(later)) else {
                    // A pair with an added get is in order wherever one is added.
                    return Ok(None);
                };
                if let Some(peer) = earlier.peer.filter(|_| !earlier.same_queue_pair(later)) {
                    let polls = lacking.entry(peer).or_insert(0);
                    *polls = self.lacking_polls(trace, a, b).max(*polls);
                }
                open.push(Open {
                    later: later_at,
                    earlier: earlier_at,
                    kinds: (earlier.kind, later.kind),
                    peer: earlier.peer,
                    halves: earlier.same_instruction(later),
                });
            }
        }
        open.sort_unstable();
        open.dedup();
        // One wait may be for operations of several queue pairs.
        let lacking = match self.bench.fresh {
            Some(_) => self.costs.poll * lacking.values().max().unwrap_or(&0),
            None => self.costs.poll.min(self.costs.moved) * lacking.values().sum::<u64>(),
        };
        let least = applied.cost + lacking;
        Ok((least < self.bound.get()).then_some(Set {
            edits,
            applied,
            open,
            least,
        }))
    }

    /// Returns how many polls have to be added at least before the event `later` of a trace, so that `earlier`, of a queue pair to which
    /// `later` does not belong, is in order (Fig. 5, columns 1 to 5): those that reach the operation, and for the remote write of a
    /// put an operation after it. Added gets make it no less.
    fn lacking_polls(&self, trace: &Trace, earlier: usize, later: usize) -> u64 {
        if self.has_branches() {
            return 0;
        }
        // The polls of RDMA^WAIT are waits, one of which is for every operation of a name.
        if self.bench.fresh.is_some() {
            return 1;
        }
        let event = &trace.events[earlier];
        let before = &trace.events[..later];
        let there = |kind: Kind| {
            before
                .iter()
                .filter(move |e| e.kind == kind && e.peer == event.peer)
        };
        let polls = there(Kind::Poll).count();
        let posts = before.iter().filter(|e| {
            let is_operation = !e.kind.is_cpu() && e.kind != Kind::NicFence;
            is_operation && e.peer == event.peer && e.instance <= event.instance
        });
        let mut operations: Vec<u32> = posts.map(|e| e.instance).collect();
        operations.dedup();
        let after = event.kind == Kind::NicRemoteWrite && !event.rmw;
        (operations.len() + usize::from(after)).saturating_sub(polls) as u64
    }

    /// Searches in order of the least cost. Returns the additions, and whether no cheaper ones do.
    fn search(&self) -> Result<(Edits, bool), Unmended> {
        let Some(start) = self.test(Edits::default())? else {
            return Err(Unmended::Vacuous);
        };
        if start.open.is_empty() {
            return Ok((start.edits, true));
        }
        let mut known = self.finish(&start);
        if let Ok(edits) = &known {
            self.bound
                .set(self.bench.thread(self.thread, edits, self.costs).cost);
        }
        let mut stuck: Option<Open> = None;
        // The prospects that were seen, each with the least cost of a set that has it.
        let mut seen = HashMap::new();
        let mut queue = BinaryHeap::from([Reverse((start.least, 0usize))]);
        let mut sets = vec![Some(start)];
        while let Some(Reverse((least, number))) = queue.pop() {
            if least >= self.bound.get() {
                break;
            }
            let Some(set) = sets[number].take() else { continue };
            let Some(first) = set.open.first() else { continue };
            let cost = seen.entry(self.prospect(&set, first)).or_insert(u64::MAX);
            if *cost <= set.applied.cost {
                continue;
            }
            *cost = set.applied.cost;
            if self.work.get() > WORK_MAX {
                return Ok((self.finish(&set).or(known)?, false));
            }
            let next = self.next(&set, first, true)?;
            if next.is_empty() {
                stuck.get_or_insert_with(|| first.clone());
            }
            for set in next {
                if set.open.is_empty() && set.applied.cost < self.bound.get() {
                    self.bound.set(set.applied.cost);
                    known = Ok(set.edits);
                } else if !set.open.is_empty() {
                    queue.push(Reverse((set.least, sets.len())));
                    sets.push(Some(set));
                }
            }
        }
        // Inside and around branches not every place is tried.
        let proved = !self.has_branches();
        let error = self.stuck(stuck.as_ref());
        known.map(|edits| (edits, proved)).map_err(|_| error)
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
            let next = self.next(&set, &open, false)?;
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

    /// Returns the sets with one more addition each that close the pair. Gets are tried further up too if `all` is set.
    fn next(&self, set: &Set, open: &Open, all: bool) -> Result<Vec<Set>, Unmended> {
        let mut out = Vec::new();
        for place in self.places(open) {
            let here = |what| (place.as_slice(), what, 1);
            if open.peer.is_none() {
                out.extend(self.try_one(set, open, &[here(Addition::Mfence)])?);
            }
            // An operation and its completion order accesses of the CPU too, so a completion can close a pair of the CPU.
            let peers = open.peer.map_or_else(|| self.peers(), |peer| vec![peer]);
            for peer in peers {
                let fence = here(Addition::Rfence(peer));
                if open.peer.is_some() {
                    out.extend(self.try_one(set, open, &[fence])?);
                }
                for work in self.works() {
                    out.extend(self.completed(set, open, peer, work, &[], &place)?);
                }
                let near = if all { usize::MAX } else { 1 };
                for at in self.get_places(open, peer, &place).into_iter().take(near) {
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
