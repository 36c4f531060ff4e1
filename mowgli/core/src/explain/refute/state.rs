//! The state of a refutation: what it has decided so far, and what follows.

use std::sync::Arc;

use crate::declarative::order::PartialOrder;
use crate::declarative::problem::{INIT, Problem};
use crate::declarative::sym::Sym;
use crate::event::Kind;
use crate::explain::cycle::Side;
use crate::litmus::{Formula, Operand, Relation};
use crate::models::Part;
use crate::program::Value;

use super::links::{Levels, Link, both, end_of_rmw, link};

/// Something that every execution decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The source of a read.
    Source(usize),
    /// The last write of a location.
    Last(usize),
    /// The modification order of two writes.
    Mo(usize, usize),
    /// The order of two read-modify-writes at a node, by their atomic reads.
    Rao(usize, usize),
    /// The flush order of a NIC read and a NIC write.
    Nfo(usize, usize),
}

/// One side of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alternative {
    /// This write, or [`INIT`].
    Write(u16),
    /// The two events in the order of the decision.
    Forward,
    /// The two events in the other order.
    Backward,
}

impl Alternative {
    /// Returns the two events of a decision in the order that the alternative gives them.
    fn ordered(self, a: usize, b: usize) -> (usize, usize) {
        match self {
            Alternative::Forward => (a, b),
            _ => (b, a),
        }
    }
}

/// Stands for a source that has not been decided.
const UNDECIDED: u16 = u16::MAX - 1;

/// The decisions of a branch, and what follows from them.
#[derive(Clone)]
pub(super) struct State {
    pub(super) order: PartialOrder<8>,
    /// The links that decisions added.
    pub(super) links: Vec<Link>,
    /// The source of each read, with the decision.
    rf: Vec<(u16, Levels)>,
    /// The value of each read, once it follows.
    pub(super) value: Vec<Option<Value>>,
    /// The reads whose value matters.
    needed: Vec<bool>,
    /// The reads on which the way of a thread depends.
    steering: Vec<bool>,
    /// The last write of each location that is asked about.
    last: Vec<Option<(u16, Levels)>>,
    asked: Vec<bool>,
    /// Pairs in modification order, in `rao` and in `nfo`, the earlier event first.
    mo: Vec<(usize, usize, Levels)>,
    rao: Vec<(usize, usize, Levels)>,
    nfo: Vec<(usize, usize, Levels)>,
}

impl State {
    /// Returns the state in which nothing is decided; `None` if no execution takes these paths.
    pub(super) fn new(p: &Problem<'_>, wanted: &Formula, fixed: &[Link]) -> Option<State> {
        let mut order = PartialOrder::new(p.points);
        for link in fixed {
            let (a, b) = link.ends();
            order.add(a, b).then_some(())?;
        }
        let n = p.len();
        let mut state = State {
            order,
            links: Vec::new(),
            rf: vec![(UNDECIDED, Levels::default()); n],
            value: vec![None; n],
            needed: vec![false; n],
            steering: vec![false; n],
            last: vec![None; p.writes.len()],
            asked: vec![false; p.writes.len()],
            mo: Vec::new(),
            rao: Vec::new(),
            nfo: Vec::new(),
        };
        for condition in &p.conditions {
            let first = p.first[condition.thread];
            condition.sym.each_read(&mut |i| {
                state.needed[first + i] = true;
                state.steering[first + i] = true;
            });
        }
        for operand in wanted.operands() {
            match operand {
                Operand::Reg(thread, reg) => {
                    let thread = usize::from(thread.0);
                    let sym = &p.paths[thread].registers[usize::from(reg.0)];
                    sym.each_read(&mut |i| state.needed[p.first[thread] + i] = true);
                }
                Operand::Loc(loc) => {
                    let loc = usize::from(loc.0);
                    state.asked[loc] = true;
                    if p.writes[loc].is_empty() {
                        state.last[loc] = Some((INIT, Levels::default()));
                    }
                }
            }
        }
        state.evaluate(p);
        Some(state)
    }

    /// Returns the state with the decisions of `levels` only.
    pub(super) fn only(
        &self,
        p: &Problem<'_>,
        wanted: &Formula,
        fixed: &[Link],
        levels: Levels,
    ) -> Option<State> {
        let mut state = State::new(p, wanted, fixed)?;
        for (read, &(source, level)) in self.rf.iter().enumerate() {
            if source != UNDECIDED && level.is_within(levels) {
                state.set_source(p, read, source, level);
            }
        }
        for (loc, last) in self.last.iter().enumerate() {
            if let Some((write, level)) = last.filter(|(_, level)| level.is_within(levels)) {
                state.set_last(p, loc, write, level);
            }
        }
        let kept = |pairs: &[(usize, usize, Levels)]| {
            let kept = pairs.iter().filter(|(.., level)| level.is_within(levels));
            kept.copied().collect()
        };
        (state.mo, state.rao, state.nfo) = (kept(&self.mo), kept(&self.rao), kept(&self.nfo));
        for link in self.links.iter().filter(|link| link.needs.is_within(levels)) {
            let (a, b) = link.ends();
            state.order.add(a, b).then_some(())?;
        }
        Some(state)
    }

    /// Returns whether the way of a thread depends on the read.
    pub(super) fn steers(&self, read: usize) -> bool {
        self.steering[read]
    }

    /// Returns the source of a read, if it was decided.
    pub(super) fn source(&self, read: usize) -> Option<u16> {
        Some(self.rf[read].0).filter(|&source| source != UNDECIDED)
    }

    /// Returns whether modification order, `rao` or `nfo` has the pair.
    pub(super) fn orders(&self, part: Part, a: usize, b: usize) -> bool {
        self.pairs(part).iter().any(|&(x, y, _)| (x, y) == (a, b))
    }

    fn pairs(&self, part: Part) -> &Vec<(usize, usize, Levels)> {
        match part {
            Part::Rao => &self.rao,
            Part::Nfo => &self.nfo,
            _ => &self.mo,
        }
    }

    fn level(&self, part: Part, a: usize, b: usize) -> Option<Levels> {
        let pair = self.pairs(part).iter().find(|&&(x, y, _)| (x, y) == (a, b));
        pair.map(|&(.., level)| level)
    }

    fn is_open(&self, part: Part, a: usize, b: usize) -> bool {
        !self.orders(part, a, b) && !self.orders(part, b, a)
    }

    /// Returns every decision on which the sources so far or the outcome may depend.
    pub(super) fn open(&self, p: &Problem<'_>) -> Vec<Decision> {
        let mut open = Vec::new();
        let undecided = |e: usize| self.needed[e] && self.rf[e].0 == UNDECIDED && p.is_sourced_read(e);
        open.extend((0..p.len()).filter(|&e| undecided(e)).map(Decision::Source));
        let last = (0..p.writes.len()).filter(|&loc| self.asked[loc] && self.last[loc].is_none());
        open.extend(last.map(Decision::Last));
        for writes in &p.writes {
            for (i, &a) in writes.iter().enumerate() {
                for &b in &writes[i + 1..] {
                    let read = |w: u16| self.rf.iter().any(|&(source, _)| source == w);
                    let (x, y) = (usize::from(a), usize::from(b));
                    if (read(a) || read(b)) && self.is_open(Part::Mo, x, y) {
                        open.push(Decision::Mo(x, y));
                    }
                }
            }
        }
        for a in 0..p.len() {
            for b in 0..p.len() {
                let (x, y) = (p.event(a), p.event(b));
                let atomics = (x.kind, y.kind) == (Kind::NicAtomicRead, Kind::NicAtomicRead);
                if p.spec.orders_atomics()
                    && a < b
                    && atomics
                    && x.peer == y.peer
                    && self.is_open(Part::Rao, a, b)
                {
                    open.push(Decision::Rao(a, b));
                }
                if p.spec.flush_pair(x, y) && self.is_open(Part::Nfo, a, b) {
                    open.push(Decision::Nfo(a, b));
                }
            }
        }
        open
    }

    /// Returns the alternatives of a decision.
    pub(super) fn alternatives(&self, p: &Problem<'_>, decision: Decision) -> Vec<Alternative> {
        match decision {
            Decision::Source(read) => sources(p, read).map(Alternative::Write).collect(),
            Decision::Last(loc) => p.writes[loc].iter().map(|&w| Alternative::Write(w)).collect(),
            _ => vec![Alternative::Forward, Alternative::Backward],
        }
    }

    /// Notes an alternative as decided. Returns the links that it adds.
    ///
    /// # Errors
    /// Returns the decisions that it contradicts.
    pub(super) fn take(
        &mut self,
        p: &Problem<'_>,
        decision: Decision,
        alternative: Alternative,
        me: Levels,
    ) -> Result<Vec<Link>, Levels> {
        let mut links = Vec::new();
        match (decision, alternative) {
            (Decision::Source(read), Alternative::Write(write)) => {
                self.set_source(p, read, write, me);
                links.extend(rf_links(p, write, read, me));
                let loc = p.event(read).loc.map_or(0, |l| usize::from(l.0));
                for &later in &p.writes[loc] {
                    let later = usize::from(later);
                    let level = match write {
                        INIT => Some(Levels::default()),
                        w => self.level(Part::Mo, usize::from(w), later),
                    };
                    if let Some(level) = level {
                        links.extend(rb_links(p, read, later, me.and(level)));
                    }
                }
            }
            (Decision::Last(loc), Alternative::Write(last)) => {
                self.set_last(p, loc, last, me);
                for &other in p.writes[loc].iter().filter(|&&w| w != last) {
                    let (other, last) = (usize::from(other), usize::from(last));
                    if let Some(level) = self.level(Part::Mo, last, other) {
                        return Err(level);
                    }
                    if !self.orders(Part::Mo, other, last) {
                        self.order_writes(p, other, last, me, &mut links);
                    }
                }
            }
            (Decision::Mo(a, b), side) => {
                let (a, b) = side.ordered(a, b);
                self.order_writes(p, a, b, me, &mut links);
            }
            (Decision::Rao(a, b), side) => {
                let (a, b) = side.ordered(a, b);
                self.rao.push((a, b, me));
                links.extend(both(p, (end_of_rmw(p, a), b), Part::Rao, me));
                links.extend(both(p, (a, b), Part::Rao, me));
            }
            (Decision::Nfo(a, b), side) => {
                let (a, b) = side.ordered(a, b);
                self.nfo.push((a, b, me));
                links.extend(both(p, (a, b), Part::Nfo, me));
            }
            (Decision::Source(_) | Decision::Last(_), _) => {}
        }
        Ok(links)
    }

    fn order_writes(&mut self, p: &Problem<'_>, a: usize, b: usize, me: Levels, links: &mut Vec<Link>) {
        self.mo.push((a, b, me));
        links.extend(both(p, (a, b), Part::Mo, me));
        for read in 0..p.len() {
            let (source, level) = self.rf[read];
            if usize::from(source) == a && source != UNDECIDED && source != INIT {
                links.extend(rb_links(p, read, b, me.and(level)));
            }
        }
    }

    /// Gives a read its source, without links.
    pub(super) fn set_source(&mut self, p: &Problem<'_>, read: usize, write: u16, me: Levels) {
        self.rf[read] = (write, me);
        self.need_value(p, write);
    }

    /// Gives a location its last write, without links.
    pub(super) fn set_last(&mut self, p: &Problem<'_>, loc: usize, write: u16, me: Levels) {
        self.last[loc] = Some((write, me));
        self.need_value(p, write);
    }

    /// Places a write before another in modification order, without links.
    pub(super) fn place(&mut self, a: usize, b: usize) {
        self.mo.push((a, b, Levels::default()));
    }

    /// Notes that the value of a write matters.
    fn need_value(&mut self, p: &Problem<'_>, write: u16) {
        if write != INIT {
            let write = usize::from(write);
            let first = p.first[p.thread[write]];
            if let Some(sym) = p.sym(write) {
                sym.each_read(&mut |i| self.needed[first + i] = true);
            }
        }
        self.evaluate(p);
    }

    /// Follows reads-from until nothing more becomes known.
    fn evaluate(&mut self, p: &Problem<'_>) {
        loop {
            let mut changed = false;
            for e in 0..p.len() {
                if self.value[e].is_some() || !p.event(e).is_read() {
                    continue;
                }
                let value = match (p.event(e).loc, self.rf[e].0) {
                    (None, _) => self.written(p, e),
                    (Some(_), UNDECIDED) => None,
                    (Some(loc), INIT) => Some(p.program.locations[usize::from(loc.0)].init),
                    (Some(_), write) => self.written(p, usize::from(write)),
                };
                changed |= value.is_some();
                self.value[e] = value;
            }
            if !changed {
                return;
            }
        }
    }

    fn written(&self, p: &Problem<'_>, e: usize) -> Option<Value> {
        let first = p.first[p.thread[e]];
        p.sym(e)?.eval(&|i| self.value[first + i])
    }

    /// Returns the decisions which together contradict a condition of a path or the outcome, if they do.
    pub(super) fn contradiction(&self, p: &Problem<'_>, wanted: &Formula) -> Option<Levels> {
        for condition in &p.conditions {
            let first = p.first[condition.thread];
            let value = condition.sym.eval(&|i| self.value[first + i]);
            if value.is_some_and(|value| !condition.wanted.admits(value)) {
                return Some(self.behind(p, condition.thread, &condition.sym));
            }
        }
        if self.holds(p, wanted) != Some(false) {
            return None;
        }
        let of = |operand: Operand| match operand {
            Operand::Reg(thread, reg) => {
                let thread = usize::from(thread.0);
                self.behind(p, thread, &p.paths[thread].registers[usize::from(reg.0)])
            }
            Operand::Loc(loc) => match self.last[usize::from(loc.0)] {
                None | Some((INIT, _)) => Levels::default(),
                Some((write, level)) => {
                    let write = usize::from(write);
                    let sym = p.sym(write);
                    level.and(sym.map_or(Levels::default(), |sym| self.behind(p, p.thread[write], sym)))
                }
            },
        };
        Some(
            wanted
                .operands()
                .into_iter()
                .map(of)
                .fold(Levels::default(), Levels::and),
        )
    }

    /// Returns the decisions that gave a value.
    fn behind(&self, p: &Problem<'_>, thread: usize, sym: &Arc<Sym>) -> Levels {
        let mut levels = Levels::default();
        let mut seen = vec![false; p.len()];
        let mut reads = Vec::new();
        sym.each_read(&mut |i| reads.push(p.first[thread] + i));
        while let Some(read) = reads.pop() {
            if std::mem::replace(&mut seen[read], true) {
                continue;
            }
            let (source, level) = self.rf[read];
            levels = levels.and(level);
            let write = match source {
                _ if p.event(read).loc.is_none() => read,
                INIT | UNDECIDED => continue,
                write => usize::from(write),
            };
            if let Some(sym) = p.sym(write) {
                let first = p.first[p.thread[write]];
                sym.each_read(&mut |i| reads.push(first + i));
            }
        }
        levels
    }

    /// Returns all decisions about sources and last writes.
    pub(super) fn all_levels(&self) -> Levels {
        let sources = self.rf.iter().map(|&(_, level)| level);
        let last = self.last.iter().flatten().map(|&(_, level)| level);
        sources.chain(last).fold(Levels::default(), Levels::and)
    }

    /// Returns whether every value that matters is known.
    pub(super) fn is_known(&self, p: &Problem<'_>) -> bool {
        (0..p.len()).all(|e| !self.needed[e] || self.value[e].is_some())
    }

    /// Evaluates a formula as far as values are known.
    pub(super) fn holds(&self, p: &Problem<'_>, formula: &Formula) -> Option<bool> {
        match formula {
            Formula::Const(value) => Some(*value),
            Formula::Atom(operand, relation, value) => {
                let is = self.operand(p, *operand)?;
                Some((is == *value) == (*relation == Relation::Eq))
            }
            Formula::Not(inner) => self.holds(p, inner).map(|holds| !holds),
            Formula::And(all) => self.first(p, all, false),
            Formula::Or(any) => self.first(p, any, true),
        }
    }

    /// Returns `decisive` if one of the formulas has this value, its contrary if all have that, and nothing otherwise.
    fn first(&self, p: &Problem<'_>, formulas: &[Formula], decisive: bool) -> Option<bool> {
        let values: Vec<_> = formulas.iter().map(|f| self.holds(p, f)).collect();
        if values.contains(&Some(decisive)) {
            return Some(decisive);
        }
        (!values.contains(&None)).then_some(!decisive)
    }

    fn operand(&self, p: &Problem<'_>, operand: Operand) -> Option<Value> {
        match operand {
            Operand::Reg(thread, reg) => {
                let thread = usize::from(thread.0);
                let sym = &p.paths[thread].registers[usize::from(reg.0)];
                sym.eval(&|i| self.value[p.first[thread] + i])
            }
            Operand::Loc(loc) => match self.last[usize::from(loc.0)]? {
                (INIT, _) => Some(p.program.locations[usize::from(loc.0)].init),
                (write, _) => self.written(p, usize::from(write)),
            },
        }
    }
}

/// Returns the writes that a read could read from, the initial one last.
pub(super) fn sources<'p>(p: &'p Problem<'_>, read: usize) -> impl Iterator<Item = u16> + 'p {
    let loc = p.event(read).loc.map_or(0, |l| usize::from(l.0));
    let writes = p.writes[loc].iter().copied();
    writes.filter(move |&w| usize::from(w) != read).chain([INIT])
}

/// Returns the links of a read with its source.
fn rf_links(p: &Problem<'_>, write: u16, read: usize, me: Levels) -> Vec<Link> {
    if write == INIT {
        return Vec::new();
    }
    let write = usize::from(write);
    let mut links = both(p, (write, read), Part::Rf, me);
    if p.spec.ob.contains(Part::RfExternal) && !p.spec.forwards(p.event(write), p.event(read)) {
        links.push(link(p, (write, read), Part::RfExternal, Side::Observe, me));
    }
    links
}

/// Returns the links of a read with a write that overwrites what it read.
fn rb_links(p: &Problem<'_>, read: usize, write: usize, needs: Levels) -> Vec<Link> {
    if read == write {
        return Vec::new();
    }
    let mut links = both(p, (read, write), Part::Rb, needs);
    if p.spec.ib.contains(Part::RbBuffer) && p.spec.forwards(p.event(write), p.event(read)) {
        links.push(link(p, (read, write), Part::RbBuffer, Side::Issue, needs));
    }
    links
}
