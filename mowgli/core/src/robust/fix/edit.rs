//! Edits of a program: additions, their places, and the program that results.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Costs;
use super::work_ids::{fresh, in_order_of_use, work_of};
use crate::declarative::unfold::{self, End};
use crate::outcome::Budget;
use crate::program::{Instr, Loc, Location, Node, Program, WorkId, at};
use crate::robust::Question;

/// A place in a thread's code: before the instruction with this path. Paths are those of events: an index, and for each block that the
/// instruction is in the number of the block and an index.
pub type Place = Vec<u16>;

/// An instruction that can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Addition {
    /// A CPU memory fence.
    Mfence,
    /// A get into a private copy. It comes before a remote fence at the same place, which then orders it too.
    Get(Node),
    /// A remote fence.
    Rfence(Node),
    /// A poll.
    Poll(Node),
    /// A wait for a work identifier, under RDMA^WAIT.
    Wait(WorkId),
}

/// Additions to a program: for each thread and place the additions, in the order of [`Addition`], each with its count.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edits(pub(super) BTreeMap<(usize, Place, Addition), u32>);

impl Edits {
    /// Adds `count` of an addition.
    pub(super) fn add(&mut self, thread: usize, place: &[u16], what: Addition, count: u32) {
        *self.0.entry((thread, place.to_vec(), what)).or_insert(0) += count;
    }

    /// Returns the additions of both.
    pub(super) fn union(&self, other: &Edits) -> Edits {
        let mut all = self.clone();
        for ((thread, place, what), count) in &other.0 {
            all.add(*thread, place, *what, *count);
        }
        all
    }
}

/// A change of the program's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The thread.
    pub thread: usize,
    /// The place in the mended program; for a poll that was taken out, the place in the program before mending.
    pub place: Vec<u16>,
    /// Kind of the edit.
    pub kind: ChangeKind,
    /// The instruction, as it is printed.
    pub instr: String,
}

/// The kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// The instruction is new.
    Added,
    /// A later poll of the queue pair is made here.
    MovedHere,
    /// The poll that was here is made earlier.
    MovedAway,
    /// The operation, which had none, has a work identifier that an added wait names.
    Named,
}

/// A program in which the places of added gets exist.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    /// The program and a copy for each thread and peer, on both sides.
    pub(super) base: Program,
    /// For each thread and peer the local and the remote location of added gets.
    copies: BTreeMap<(usize, Node), (Loc, Loc)>,
    /// The locations of the program itself.
    own: usize,
    /// Under RDMA^WAIT, for each thread the identifier of operations that have none.
    pub(super) fresh: Option<Vec<WorkId>>,
}

/// A thread's code with additions.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) code: Vec<Instr>,
    /// For each instruction at the top what it is, or `None` for one that was there.
    pub(super) marks: Vec<Option<ChangeKind>>,
    /// Polls that were taken out: the place that each had, and the place in the new code where it would stand.
    pub(super) gone: Vec<(Place, Place)>,
    /// Operations that have got a work identifier, by their places in the new code.
    pub(super) named: Vec<Place>,
    /// Additions inside blocks, with their places in the new code.
    pub(super) inner: Vec<(Place, Instr)>,
    /// Places in the new code and before, of instructions that were there.
    pub(super) origin: BTreeMap<Place, Place>,
    /// The cost of the additions.
    pub(super) cost: u64,
}

impl Bench {
    /// Prepares a program. With `waits`, completions are awaited by work identifiers, and by polls otherwise.
    pub(super) fn new(program: &Program, waits: bool) -> Bench {
        let mut base = program.clone();
        let own = base.locations.len();
        let mut names: BTreeSet<String> = base.locations.iter().map(|l| l.name.clone()).collect();
        names.extend(base.threads.iter().flat_map(|t| t.registers.iter().cloned()));
        let mut copies = BTreeMap::new();
        for (thread, code) in program.threads.iter().enumerate() {
            let mut peers = BTreeSet::new();
            collect_peers(program, &code.code, &mut peers);
            for peer in peers {
                let mut place = |stem: &str, node: Node| {
                    let base_name = format!("{stem}{thread}_{peer}");
                    let more = (2..).map(|n| format!("{base_name}_{n}"));
                    let name = std::iter::once(base_name.clone())
                        .chain(more)
                        .find(|n| !names.contains(n));
                    let name = name.unwrap_or(base_name);
                    names.insert(name.clone());
                    base.locations.push(Location {
                        name,
                        node,
                        init: 0,
                        relaxed: false,
                    });
                    Loc((base.locations.len() - 1) as u16)
                };
                let local = place("done", code.node);
                let remote = place("probe", peer);
                copies.insert((thread, peer), (local, remote));
            }
        }
        let fresh = waits.then(|| base.threads.iter_mut().map(|t| fresh(t, &names)).collect());
        Bench {
            base,
            copies,
            own,
            fresh,
        }
    }

    /// Returns the addition that waits for an operation with this work identifier, or for the oldest operation towards the node.
    pub(super) fn completion(&self, thread: usize, peer: Node, work: Option<WorkId>) -> Addition {
        match &self.fresh {
            Some(fresh) => Addition::Wait(work.unwrap_or(fresh[thread])),
            None => Addition::Poll(peer),
        }
    }

    /// Applies the edits of one thread.
    pub(super) fn thread(&self, thread: usize, edits: &Edits, costs: &Costs) -> Applied {
        let code = &self.base.threads[thread].code;
        let fresh = self.fresh.as_ref().map(|fresh| fresh[thread]);
        let awaited = |fresh: &WorkId| {
            let mut own = edits.0.keys().filter(|(t, ..)| *t == thread);
            own.any(|(_, _, what)| *what == Addition::Wait(*fresh))
        };
        let mut work = Work {
            bench: self,
            thread,
            edits,
            name: fresh.filter(awaited),
            pending: BTreeMap::new(),
            in_loop: false,
            inner: Vec::new(),
            gone: Vec::new(),
            named: Vec::new(),
            origin: BTreeMap::new(),
        };
        let items = work.block(code, &[], &[]);
        let mut applied = Applied {
            code: Vec::new(),
            marks: Vec::new(),
            gone: work.gone,
            named: work.named,
            inner: work.inner,
            origin: work.origin,
            cost: 0,
        };
        for (instr, before) in items {
            applied.marks.push(before.is_none().then_some(ChangeKind::Added));
            applied.code.push(instr);
        }
        applied.mark_moves();
        applied.cost = applied.sum(costs);
        applied
    }

    /// Returns whether every way through the base program is still one through `program`: each added poll finds an
    /// operation.
    pub(super) fn lives(&self, program: &Program, question: &Question, budget: &Budget<'_>) -> bool {
        let spec = question.spec();
        (0..program.threads.len()).all(|thread| {
            if !self.base.threads[thread].code.iter().any(is_control) {
                return true;
            }
            let complete = |program: &Program| {
                let paths = unfold::paths(program, thread, &spec, budget).unwrap_or_default();
                paths.iter().filter(|path| path.end == End::Complete).count()
            };
            complete(program) == complete(&self.base)
        })
    }

    fn instr(&self, thread: usize, what: Addition) -> Instr {
        match what {
            Addition::Mfence => Instr::Mfence,
            Addition::Rfence(node) => Instr::Rfence { node },
            Addition::Poll(node) => Instr::Poll { node },
            Addition::Wait(work) => Instr::Wait { work },
            Addition::Get(node) => {
                // Gets are only added where the thread has operations towards the node.
                let copies = self.copies.get(&(thread, node));
                let (dst, src) = copies.copied().unwrap_or((Loc(0), Loc(0)));
                let work = self.fresh.as_ref().map(|fresh| fresh[thread]);
                Instr::Get { dst, src, work }
            }
        }
    }

    /// Applies all edits: the program with only the copies that it needs, and the cost.
    pub(super) fn program(&self, edits: &Edits, costs: &Costs) -> (Program, u64) {
        let mut program = self.base.clone();
        let mut cost = 0;
        for thread in 0..program.threads.len() {
            let applied = self.thread(thread, edits, costs);
            program.threads[thread].code = applied.code;
            cost += applied.cost;
        }
        self.drop_unused(&mut program);
        (program, cost)
    }

    /// Lists the changes that the edits make, as they stand in `program`.
    pub(super) fn changes(&self, program: &Program, edits: &Edits, costs: &Costs) -> Vec<Change> {
        let mut changes = Vec::new();
        for (thread, code) in program.threads.iter().enumerate() {
            let applied = self.thread(thread, edits, costs);
            let text = |instr: &Instr| crate::litmus::instruction(program, code, instr);
            let mut change = |place: Place, kind, instr| {
                changes.push(Change {
                    thread,
                    place,
                    kind,
                    instr,
                });
            };
            for (index, mark) in applied.marks.iter().enumerate() {
                if let Some(kind) = mark {
                    change(vec![index as u16], *kind, text(&code.code[index]));
                }
            }
            for (place, _) in &applied.inner {
                let instr = at(&code.code, place).map_or_else(String::new, text);
                change(place.clone(), ChangeKind::Added, instr);
            }
            for place in &applied.named {
                let instr = at(&code.code, place).map_or_else(String::new, text);
                change(place.clone(), ChangeKind::Named, instr);
            }
            for (place, _) in &applied.gone {
                let instr = at(&self.base.threads[thread].code, place).map_or_else(String::new, text);
                change(place.clone(), ChangeKind::MovedAway, instr);
            }
        }
        changes
    }

    /// Removes the copies that no instruction uses. Copies follow the program's own locations.
    fn drop_unused(&self, program: &mut Program) {
        let mut used = BTreeSet::new();
        for thread in &program.threads {
            collect_copies(&thread.code, self.own, &mut used);
        }
        let renumbered: BTreeMap<Loc, Loc> = used
            .iter()
            .enumerate()
            .map(|(i, &loc)| (loc, Loc((self.own + i) as u16)))
            .collect();
        let locations = (0..self.own).chain(used.iter().map(|l| usize::from(l.0)));
        program.locations = locations.map(|l| self.base.locations[l].clone()).collect();
        for thread in &mut program.threads {
            renumber(&mut thread.code, &renumbered);
            if self.fresh.is_some() {
                in_order_of_use(thread);
            }
        }
    }
}

impl Applied {
    /// For each poll that was taken out, marks the nearest added poll of its queue pair before it. Outside branches
    /// only.
    fn mark_moves(&mut self) {
        for (_, now) in self.gone.iter().rev().filter(|(_, now)| now.len() == 1) {
            let nearest = (0..usize::from(now[0])).rev().find(|&i| {
                self.marks[i] == Some(ChangeKind::Added) && matches!(self.code[i], Instr::Poll { .. })
            });
            if let Some(i) = nearest {
                self.marks[i] = Some(ChangeKind::MovedHere);
            }
        }
    }

    fn sum(&self, costs: &Costs) -> u64 {
        let of = |instr: &Instr, mark: ChangeKind| match (instr, mark) {
            (Instr::Poll { .. }, ChangeKind::MovedHere) => costs.moved,
            (Instr::Poll { .. } | Instr::Wait { .. }, _) => costs.poll,
            (Instr::Mfence, _) => costs.mfence,
            (Instr::Rfence { .. }, _) => costs.rfence,
            (Instr::Get { .. }, _) => costs.get,
            _ => 0,
        };
        let top = self.code.iter().zip(&self.marks);
        let top: u64 = top.filter_map(|(i, m)| m.map(|m| of(i, m))).sum();
        let inner = self.inner.iter().map(|(_, i)| of(i, ChangeKind::Added));
        top + inner.sum::<u64>()
    }
}

/// An instruction with its place in the code before, or `None` if it is new.
type Item = (Instr, Option<Place>);

struct Work<'w> {
    bench: &'w Bench,
    thread: usize,
    edits: &'w Edits,
    /// The identifier that operations without one get.
    name: Option<WorkId>,
    /// Most operations towards each node that can be without a poll.
    pending: BTreeMap<Node, u32>,
    in_loop: bool,
    inner: Vec<(Place, Instr)>,
    gone: Vec<(Place, Place)>,
    named: Vec<Place>,
    origin: BTreeMap<Place, Place>,
}

impl Work<'_> {
    /// Applies the edits to the block at `before`, which is at `now` in the new code. Leaves out polls that find nothing on any way
    /// through the thread; in loops all stay.
    fn block(&mut self, block: &[Instr], before: &[u16], now: &[u16]) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        // One place more than there are instructions: the end of the block.
        for index in 0..=block.len() {
            let here = [before, &[index as u16]].concat();
            let (thread, edits) = (self.thread, self.edits);
            let of_place = edits.0.range((thread, here.clone(), Addition::Mfence)..);
            let of_place = of_place.take_while(|((t, p, _), _)| *t == thread && *p == here);
            for ((_, _, what), &count) in of_place {
                for _ in 0..count {
                    let instr = self.bench.instr(thread, *what);
                    if !self.pass(&instr) {
                        continue;
                    }
                    if !before.is_empty() {
                        let place = [now, &[items.len() as u16]].concat();
                        self.inner.push((place, instr.clone()));
                    }
                    items.push((instr, None));
                }
            }
            if let Some(instr) = block.get(index) {
                let place = [now, &[items.len() as u16]].concat();
                if !self.pass(instr) {
                    self.gone.push((here, place));
                    continue;
                }
                let instr = self.nested(instr, &here, &place);
                self.origin.insert(place, here.clone());
                items.push((instr, Some(here)));
            }
        }
        items
    }

    /// Counts what an instruction leaves to be polled. Returns false for a poll that finds nothing.
    fn pass(&mut self, instr: &Instr) -> bool {
        let finds = flow(
            &self.bench.base,
            std::slice::from_ref(instr),
            &mut self.pending,
            false,
        );
        finds || self.in_loop
    }

    fn inside(&mut self, block: &[Instr], before: &[u16], now: &[u16], number: usize) -> Vec<Instr> {
        let number = &[number as u16];
        let (before, now) = ([before, number].concat(), [now, number].concat());
        self.block(block, &before, &now)
            .into_iter()
            .map(|(i, _)| i)
            .collect()
    }

    fn nested(&mut self, instr: &Instr, before: &[u16], now: &[u16]) -> Instr {
        match instr {
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                let mut blocks = self.branches(&[then, otherwise], before, now).into_iter();
                Instr::If {
                    cond: cond.clone(),
                    then: blocks.next().unwrap_or_default(),
                    otherwise: blocks.next().unwrap_or_default(),
                }
            }
            Instr::While { cond, body, bound } => {
                let (outer, entry) = (self.in_loop, self.pending.clone());
                self.in_loop = true;
                let body = self.inside(body, before, now, 0);
                self.in_loop = outer;
                self.pending = entry;
                let instr = Instr::While {
                    cond: cond.clone(),
                    body,
                    bound: *bound,
                };
                flow(
                    &self.bench.base,
                    std::slice::from_ref(&instr),
                    &mut self.pending,
                    true,
                );
                instr
            }
            Instr::Choose(blocks) => {
                let blocks: Vec<&Vec<Instr>> = blocks.iter().collect();
                Instr::Choose(self.branches(&blocks, before, now))
            }
            other => self.with_name(other, now),
        }
    }

    /// Applies the edits to alternatives.
    fn branches(&mut self, blocks: &[&Vec<Instr>], before: &[u16], now: &[u16]) -> Vec<Vec<Instr>> {
        let entry = self.pending.clone();
        let mut after = BTreeMap::new();
        let mut out = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            self.pending.clone_from(&entry);
            out.push(self.inside(block, before, now, number));
            join(&mut after, &self.pending);
        }
        self.pending = after;
        out
    }

    /// Names an operation without a work identifier, if an added wait is for those.
    fn with_name(&mut self, instr: &Instr, now: &[u16]) -> Instr {
        let mut instr = instr.clone();
        if let (Some(name), Some(slot @ None)) = (self.name, work_of(&mut instr)) {
            *slot = Some(name);
            self.named.push(now.to_vec());
        }
        instr
    }
}

/// Finds the most operations towards each node that can be without a poll after some code. Looks into blocks only with
/// `deep`. Returns whether every poll at the top finds an operation on at least one way.
fn flow(program: &Program, code: &[Instr], pending: &mut BTreeMap<Node, u32>, deep: bool) -> bool {
    let mut finds = true;
    for instr in code {
        if let Some(peer) = operation(program, instr) {
            *pending.entry(peer).or_insert(0) += 1;
        }
        match instr {
            Instr::Poll { node } => {
                let left = pending.entry(*node).or_insert(0);
                finds &= *left > 0;
                *left = left.saturating_sub(1);
            }
            Instr::While { body, bound, .. } if deep => {
                let mut round = pending.clone();
                for _ in 0..*bound {
                    flow(program, body, &mut round, true);
                    join(pending, &round);
                }
            }
            Instr::If { .. } | Instr::Choose(_) if deep => {
                let mut after = BTreeMap::new();
                for block in instr.blocks() {
                    let mut one = pending.clone();
                    flow(program, block, &mut one, true);
                    join(&mut after, &one);
                }
                *pending = after;
            }
            _ => {}
        }
    }
    finds
}

/// Takes the larger of both numbers for each node.
fn join(into: &mut BTreeMap<Node, u32>, other: &BTreeMap<Node, u32>) {
    for (&node, &count) in other {
        let most = into.entry(node).or_insert(0);
        *most = count.max(*most);
    }
}

/// Returns whether the instruction has blocks.
pub(super) fn is_control(instr: &Instr) -> bool {
    matches!(instr, Instr::If { .. } | Instr::While { .. } | Instr::Choose(_))
}

/// Returns the node to which an instruction posts an operation.
pub(super) fn operation(program: &Program, instr: &Instr) -> Option<Node> {
    let loc = match instr.request().0 {
        Instr::Put { dst, .. } => dst,
        Instr::Get { src, .. } => src,
        Instr::RemoteFaa { target, .. }
        | Instr::RemoteCas { target, .. }
        | Instr::RemoteSwap { target, .. } => target,
        _ => return None,
    };
    Some(program.locations[usize::from(loc.0)].node)
}

/// Calls `visit` with every instruction of a block and its place, nested ones included.
pub(super) fn each_place(block: &[Instr], place: &[u16], visit: &mut dyn FnMut(&Instr, &[u16])) {
    for (index, instr) in block.iter().enumerate() {
        let here = [place, &[index as u16]].concat();
        visit(instr, &here);
        for (number, inner) in instr.blocks().into_iter().enumerate() {
            each_place(inner, &[here.as_slice(), &[number as u16]].concat(), visit);
        }
    }
}

fn collect_peers(program: &Program, block: &[Instr], peers: &mut BTreeSet<Node>) {
    each_place(block, &[], &mut |instr, _| {
        peers.extend(operation(program, instr))
    });
}

fn collect_copies(block: &[Instr], own: usize, used: &mut BTreeSet<Loc>) {
    each_place(block, &[], &mut |instr, _| {
        if let Instr::Get { dst, src, .. } = instr {
            used.extend([*dst, *src].into_iter().filter(|l| usize::from(l.0) >= own));
        }
    });
}

fn renumber(block: &mut [Instr], to: &BTreeMap<Loc, Loc>) {
    for instr in block {
        match instr {
            Instr::Get { dst, src, .. } => {
                *dst = to.get(dst).copied().unwrap_or(*dst);
                *src = to.get(src).copied().unwrap_or(*src);
            }
            Instr::If { then, otherwise, .. } => {
                renumber(then, to);
                renumber(otherwise, to);
            }
            Instr::While { body, .. } => renumber(body, to),
            Instr::Choose(blocks) => blocks.iter_mut().for_each(|b| renumber(b, to)),
            _ => {}
        }
    }
}
