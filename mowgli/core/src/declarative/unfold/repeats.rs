//! Iterations of loops that need not be unfolded.
//!
//! An *iteration without effect* reads and waits, but hands nothing to the rest of the program: the registers that the loop carries are the
//! same before and after it, it polls what it posts and nothing else, and it writes nothing but scratch locations of its thread, which are
//! written anew before they are read again. Without its events, an execution stays an execution: the orders of the others are restrictions
//! of what they were, so that they have no new cycle. It has the same outcome, since nobody reads from the iteration, and it writes
//! nothing last. So a wait is unfolded to its last iteration, whatever its bound: the iterations before it are failed reads.
//!
//! An iteration that puts or stores can be left out too if nobody reads what it writes and it writes nothing last. Where the reads of a
//! location are so many at most ([`Readers`]), one of more iterations that write it is such an iteration.
//!
//! Where a question is about cycles through any event and not about outcomes, a cycle has at most two events of a thread, so two such
//! iterations are kept beside the last one.

use std::sync::Arc;

use crate::event::{Event, Kind};
use crate::loops;
use crate::models::Spec;
use crate::outcome::{Budget, Endless, Limit};
use crate::program::{BinaryOp, Instr, Loc, Node, Program, PutSrc, Reg, WorkId};

use super::{End, Frame, Path, State, Sym, Unfolding, Unpolled, eval, fold_binary, paths_with, unfold};

/// The iterations that are unfolded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// All, up to the bounds of loops.
    All,
    /// For outcomes: those with an effect, and the last.
    Outcomes,
    /// For cycles through two events of each thread: two without effect as well.
    Cycles,
    /// For the order of two events of one thread, whatever the values: two of each sort that poll what they post.
    Pairs,
}

impl Repeats {
    /// Returns how many iterations of a sort are kept beside the last one.
    fn kept(self) -> usize {
        match self {
            Repeats::All | Repeats::Outcomes => 0,
            Repeats::Cycles | Repeats::Pairs => 2,
        }
    }
}

/// The most iterations with puts or stores that are unfolded because others may read from each.
const WRITING_MAX: usize = 6;

/// For each location, how many events at most read it that are not in a loop of one thread, the one that is unfolded; `None` if that is
/// not known.
pub(super) type Readers = Vec<Option<usize>>;

/// Counts the readers of each location for the loops of a thread. `paths` has the paths of all threads. A thread whose loops may go on
/// beyond their bounds must not read the location in a loop.
fn readers(program: &Program, thread: usize, paths: &[Vec<Path>]) -> Readers {
    let of_thread = |t: usize, loc: Loc| {
        let is_open = paths[t]
            .iter()
            .any(|path| matches!(path.end, End::LoopBound { .. }));
        if t == thread || is_open {
            return reads_in_text(&program.threads[t].code, loc, false);
        }
        let reads = |path: &Path| {
            let reads = path.events.iter().filter(|e| e.is_read() && e.loc == Some(loc));
            reads.count()
        };
        Some(paths[t].iter().map(reads).max().unwrap_or(0))
    };
    let count = |loc| (0..paths.len()).map(|t| of_thread(t, loc)).sum();
    (0..program.locations.len())
        .map(|l| count(Loc(l as u16)))
        .collect()
}

/// Counts the instructions of a block that read a location; `None` if one of them is in a loop.
fn reads_in_text(code: &[Instr], loc: Loc, in_loop: bool) -> Option<usize> {
    let mut count = 0;
    for instr in code {
        let reads = match instr.request().0 {
            Instr::Load { loc: from, .. } | Instr::Cas { loc: from, .. } | Instr::Swap { loc: from, .. } => {
                *from == loc
            }
            Instr::PollRecv { done, .. } => *done == loc,
            Instr::Message(message) => {
                let source =
                    |put: &Instr| matches!(put, Instr::Put { src: PutSrc::Loc(from), .. } if *from == loc);
                message.entry == loc || message.put.as_ref().is_some_and(source)
            }
            Instr::Put { src, .. } => matches!(src, PutSrc::Loc(from) if *from == loc),
            Instr::Get { src, .. } => *src == loc,
            Instr::RemoteFaa { target, .. }
            | Instr::RemoteCas { target, .. }
            | Instr::RemoteSwap { target, .. } => *target == loc,
            _ => false,
        };
        if reads && in_loop {
            return None;
        }
        count += usize::from(reads);
        let in_loop = in_loop || matches!(instr, Instr::While { .. });
        for block in instr.blocks() {
            count += reads_in_text(block, loc, in_loop)?;
        }
    }
    Some(count)
}

/// Unfolds the paths of all threads that a question needs.
///
/// # Errors
/// Returns the limit that the unfolding exceeded.
pub(crate) fn all(
    program: &Program,
    spec: &Spec,
    repeats: Repeats,
    budget: &Budget<'_>,
) -> Result<Vec<Vec<Path>>, Limit> {
    let is_open = |paths: &[Path]| paths.iter().any(|path| matches!(path.end, End::LoopBound { .. }));
    let count = program.threads.len();
    let mut threads = (0..count)
        .map(|thread| paths_with(program, thread, spec, repeats, budget))
        .collect::<Result<Vec<_>, _>>()?;
    if repeats != Repeats::Outcomes {
        return Ok(threads);
    }
    // The readers of what the loops of one thread write may be known only when the loops of another have come to an end.
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for thread in 0..count {
            if !is_open(&threads[thread]) {
                continue;
            }
            let readers = readers(program, thread, &threads);
            let again = unfold(program, thread, spec, budget, (repeats, readers), false);
            if let Some(paths) = again.ok().filter(|paths| !is_open(paths)) {
                threads[thread] = paths;
                changed = true;
            }
        }
    }
    Ok(threads)
}

/// The facts about a thread on which the analysis relies.
pub(super) struct Scratch {
    /// For each location, whether only loads, stores, gets and read-modify-writes of this thread access it, as the place of results.
    locations: Vec<bool>,
    /// The nodes whose operations the thread polls.
    polled: Vec<Node>,
    readers: Readers,
}

impl Scratch {
    pub(super) fn of(program: &Program, thread: usize, readers: Readers) -> Scratch {
        let mut scratch = Scratch {
            locations: vec![true; program.locations.len()],
            polled: Vec::new(),
            readers,
        };
        for (t, other) in program.threads.iter().enumerate() {
            scratch.block(&other.code, t == thread);
        }
        scratch
    }

    fn block(&mut self, code: &[Instr], is_own: bool) {
        for instr in code {
            let mut shared = |loc: &Loc| self.locations[usize::from(loc.0)] = false;
            let private: Option<&Loc> = match instr.request().0 {
                Instr::Store { loc, .. } | Instr::Load { loc, .. } => Some(loc),
                Instr::Get { dst, src, .. } => {
                    shared(src);
                    Some(dst)
                }
                Instr::RemoteFaa { dst, target, .. }
                | Instr::RemoteCas { dst, target, .. }
                | Instr::RemoteSwap { dst, target, .. } => {
                    shared(target);
                    Some(dst)
                }
                Instr::Put { dst, src, .. } => {
                    shared(dst);
                    if let PutSrc::Loc(src) = src {
                        shared(src);
                    }
                    None
                }
                Instr::Cas { loc, .. } | Instr::Swap { loc, .. } => {
                    shared(loc);
                    None
                }
                Instr::Message(message) => {
                    shared(&message.entry);
                    shared(&message.done);
                    if let Some(Instr::Put { dst, src, .. }) = &message.put {
                        shared(dst);
                        if let PutSrc::Loc(src) = src {
                            shared(src);
                        }
                    }
                    None
                }
                Instr::Recv { entry: word, .. } | Instr::PollRecv { done: word, .. } => {
                    shared(word);
                    None
                }
                _ => None,
            };
            if let (Some(loc), false) = (private, is_own) {
                shared(loc);
            }
            if let (Instr::Poll { node }, true) = (instr, is_own) {
                self.polled.push(*node);
            }
            for block in instr.blocks() {
                self.block(block, is_own);
            }
        }
    }

    fn has(&self, event: &Event) -> bool {
        event.loc.is_some_and(|loc| self.locations[usize::from(loc.0)])
    }
}

/// The beginning of an iteration.
#[derive(Clone)]
pub(super) struct Entry {
    /// The number of events before it.
    events: usize,
    /// The values of the registers that the loop carries.
    carried: Vec<Arc<Sym>>,
    /// The operations that are under way towards nodes that the thread polls.
    unpolled: Vec<Unpolled>,
}

impl Entry {
    pub(super) fn new(state: &State<'_>, scratch: &Scratch, carried: &[Reg]) -> Entry {
        let value = |reg: &Reg| state.path.registers[usize::from(reg.0)].clone();
        let polled = |op: &&Unpolled| scratch.polled.contains(&op.peer);
        Entry {
            events: state.path.events.len(),
            carried: carried.iter().map(value).collect(),
            unpolled: state.unpolled.iter().filter(polled).copied().collect(),
        }
    }

    /// Returns the condition that the carried registers differ; `None` if they are the same.
    fn differs(&self, later: &Entry) -> Option<Arc<Sym>> {
        let mut any: Option<Arc<Sym>> = None;
        for (a, b) in self.carried.iter().zip(&later.carried).filter(|(a, b)| a != b) {
            let differ = fold_binary(BinaryOp::Ne, a.clone(), b.clone());
            match *differ {
                Sym::Const(0) => {}
                Sym::Const(_) => return Some(differ),
                _ => any = Some(any.map_or(differ.clone(), |any| fold_binary(BinaryOp::Or, any, differ))),
            }
        }
        any
    }
}

/// The parts of an iteration's event that other threads can tell apart.
type Sort = (Kind, Option<Loc>, Option<Node>, Option<WorkId>);

/// The iterations of a loop that is being unfolded.
#[derive(Clone, Default)]
pub(super) struct Iterations {
    entries: Vec<Entry>,
    /// Iterations that were made and count towards the bound of the loop.
    counted: u32,
    /// Whether the last iteration may turn out to be without effect, once it is known what comes after it.
    is_pending: bool,
    /// The sorts of the iterations that are kept though they have no effect.
    kept: Vec<Vec<Sort>>,
}

/// The decision at the head of a loop.
pub(super) enum Head {
    /// Go on, where these conditions hold.
    Unfold(Vec<Arc<Sym>>),
    /// End the path: every execution of it is one of a path with fewer iterations, in what is asked for.
    Repeats,
    /// End the path, for the loop is at its bound. These conditions hold.
    Bound(Vec<Arc<Sym>>),
}

impl Iterations {
    /// Looks back when an iteration has ended, before the condition of the loop is decided.
    pub(super) fn ended(&mut self, repeats: Repeats, scratch: &Scratch, path: &Path, now: &Entry) -> Head {
        let Some((last, earlier)) = self.entries.split_last() else {
            return Head::Unfold(Vec::new());
        };
        let mut conditions = Vec::new();
        // The iterations before the last one are followed by it, which may have written scratch locations anew.
        let before: &[Entry] = match repeats {
            Repeats::All => &[],
            Repeats::Outcomes => earlier,
            Repeats::Cycles | Repeats::Pairs => &earlier[earlier.len().saturating_sub(1)..],
        };
        let mut kept = None;
        for entry in before {
            let Some(effect) = effect(repeats, scratch, path, entry, last) else {
                continue;
            };
            let is_covered = |&loc: &Loc| is_covered(path, loc, last.events, now.events);
            if !effect.scratch.iter().all(is_covered) {
                continue;
            }
            let has_no_reader = effect.read.is_empty();
            match (repeats, entry.differs(last)) {
                (Repeats::Outcomes, None) if has_no_reader => return Head::Repeats,
                // Without scratch locations this was asked when the iteration began.
                (Repeats::Outcomes, Some(differs)) if has_no_reader && !effect.scratch.is_empty() => {
                    conditions.push(differs);
                }
                (_, None) if std::ptr::eq(entry, &earlier[earlier.len() - 1]) => {
                    kept = Some(repeats.kept() + effect.readers(scratch));
                }
                _ => {}
            }
        }
        if let Some(kept) = kept {
            let entry = &earlier[earlier.len() - 1];
            let events = &path.events[entry.events..last.events];
            let sort: Vec<Sort> = events.iter().map(|e| (e.kind, e.loc, e.peer, e.work)).collect();
            self.kept.push(sort);
            let of_a_sort = |sort: &Vec<Sort>| self.kept.iter().filter(|k| *k == sort).count();
            if self.kept.last().is_some_and(|sort| of_a_sort(sort) > kept) {
                return Head::Repeats;
            }
        } else {
            self.counted += u32::from(self.is_pending);
        }
        self.is_pending = repeats != Repeats::All
            && last.differs(now).is_none()
            && effect(repeats, scratch, path, last, now).is_some();
        self.counted += u32::from(!self.is_pending);
        Head::Unfold(conditions)
    }

    /// Begins an iteration, once the condition of the loop holds.
    pub(super) fn begin(
        &mut self,
        repeats: Repeats,
        scratch: &Scratch,
        path: &Path,
        now: Entry,
        bound: u32,
    ) -> Head {
        let mut conditions = Vec::new();
        if repeats == Repeats::Outcomes {
            for entry in &self.entries {
                if effect(repeats, scratch, path, entry, &now).is_some_and(|effect| effect.is_none()) {
                    match entry.differs(&now) {
                        None => return Head::Repeats,
                        Some(differs) => conditions.push(differs),
                    }
                }
            }
        }
        if self.counted >= bound {
            return Head::Bound(conditions);
        }
        self.entries.push(now);
        Head::Unfold(conditions)
    }
}

impl<'p> Unfolding<'p> {
    /// Comes to the head of the innermost loop.
    pub(super) fn iterate(&mut self, state: &mut State<'p>) -> Option<End> {
        let Some(Frame::Loop {
            cond,
            body,
            bound,
            carried,
            place,
            ..
        }) = state.frames.last()
        else {
            unreachable!("called on a loop");
        };
        let (cond, body, bound, place) = (*cond, *body, *bound, place.clone());
        let now = Entry::new(state, &self.scratch, carried);
        let head = self.look(state, |iterations, repeats, scratch, path| {
            iterations.ended(repeats, scratch, path, &now)
        });
        if !Self::goes_on(state, &head) {
            return Some(End::Stuck);
        }
        let cond = eval(cond, &state.path);
        if !self.decide(state, cond, |s| drop(s.frames.pop())) {
            return None;
        }
        let head = self.look(state, |iterations, repeats, scratch, path| {
            iterations.begin(repeats, scratch, path, now, bound)
        });
        if !Self::goes_on(state, &head) {
            return Some(End::Stuck);
        }
        if matches!(head, Head::Bound(_)) {
            return Some(End::LoopBound {
                bound,
                at: Endless {
                    instruction: place[0].into(),
                    growth: loops::growth(body),
                },
            });
        }
        state.frames.push(Frame::Block {
            code: body,
            next: 0,
            place,
        });
        None
    }

    /// Looks at the iterations of the innermost loop.
    fn look(
        &self,
        state: &mut State<'p>,
        at: impl FnOnce(&mut Iterations, Repeats, &Scratch, &Path) -> Head,
    ) -> Head {
        let Some(Frame::Loop { iterations, .. }) = state.frames.last_mut() else {
            unreachable!("called on a loop");
        };
        at(iterations, self.repeats, &self.scratch, &state.path)
    }

    /// Adds the conditions under which a path goes on at the head of a loop. Returns false if it does not.
    fn goes_on(state: &mut State<'p>, head: &Head) -> bool {
        let (Head::Unfold(conditions) | Head::Bound(conditions)) = head else {
            return false;
        };
        for condition in conditions {
            match **condition {
                Sym::Const(0) => return false,
                Sym::Const(_) => {}
                _ => state.path.conditions.push((condition.clone(), true)),
            }
        }
        true
    }
}

/// The locations that one iteration writes, between two heads of a loop.
#[derive(Default)]
struct Effect {
    /// Scratch locations.
    scratch: Vec<Loc>,
    /// Locations that have readers, which are known.
    read: Vec<Loc>,
}

impl Effect {
    fn is_none(&self) -> bool {
        self.scratch.is_empty() && self.read.is_empty()
    }

    /// Returns how many iterations with this effect may be read from, or write a location last.
    fn readers(&self, scratch: &Scratch) -> usize {
        let mut locations = self.read.clone();
        locations.sort_unstable();
        locations.dedup();
        let readers = locations
            .iter()
            .filter_map(|loc| scratch.readers[usize::from(loc.0)]);
        readers.map(|readers| readers + 1).sum()
    }
}

/// Returns what is written between two heads of a loop; `None` if it may have effects without number. What the loop carries in registers
/// is not looked at.
fn effect(repeats: Repeats, scratch: &Scratch, path: &Path, from: &Entry, to: &Entry) -> Option<Effect> {
    let range = from.events..to.events;
    let polls = |&&(_, poll): &&(usize, usize)| range.contains(&poll) && path.events[poll].work.is_none();
    let polls_own = path
        .pf
        .iter()
        .filter(polls)
        .all(|(write, _)| range.contains(write));
    if !polls_own || from.unpolled != to.unpolled {
        return None;
    }
    if repeats == Repeats::Pairs {
        return Some(Effect::default());
    }
    let mut effect = Effect::default();
    for e in range.clone() {
        let event = &path.events[e];
        let is_complete = || {
            path.pf
                .iter()
                .any(|&(write, poll)| write == e && range.contains(&poll))
        };
        let has_readers = event
            .loc
            .is_some_and(|loc| scratch.readers[usize::from(loc.0)].is_some());
        match event.kind {
            Kind::LocalWrite if scratch.has(event) => effect.scratch.extend(event.loc),
            Kind::NicLocalWrite if scratch.has(event) && is_complete() => effect.scratch.extend(event.loc),
            Kind::LocalWrite | Kind::NicRemoteWrite
                if repeats == Repeats::Outcomes && has_readers && !event.rmw =>
            {
                effect.read.extend(event.loc);
            }
            _ if event.writes => return None,
            _ => {}
        }
    }
    (effect.readers(scratch) <= WRITING_MAX).then_some(effect)
}

/// Returns whether the events of a range write a scratch location, and complete this, before they or later ones read it.
fn is_covered(path: &Path, loc: Loc, from: usize, to: usize) -> bool {
    let of = |e: &usize| path.events[*e].loc == Some(loc);
    let Some(first) = (from..to).find(of) else {
        return false;
    };
    match path.events[first].kind {
        Kind::LocalWrite => true,
        Kind::NicLocalWrite => {
            let polled = path.pf.iter().find(|&&(write, poll)| write == first && poll < to);
            polled.is_some_and(|&(_, poll)| {
                let reads = |e: usize| path.events[e].kind == Kind::LocalRead && of(&e);
                !(first..poll).any(reads)
            })
        }
        _ => false,
    }
}
