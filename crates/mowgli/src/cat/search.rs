//! Searches for executions of one path for every thread that satisfy the axioms of a model file.
//!
//! The search adds one decision at a time: the source of a read, the order of two writes, of a NIC read and a NIC write (`nfo`), of two
//! atomics (`rao`). After each it evaluates the axioms that can prune. Three ideas keep it small. *Forced choices*: where a decision would
//! put an edge into a closure against its order, the other side is taken without branching; which decisions put an edge there is read off
//! the expression once for each choice of paths. *Values first*: reads whose value matters to the outcome and the last writes are
//! decided first. *One execution for each outcome*: once an outcome is known, branches that lead to it again stop there.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::ModelFile;
use super::graph::{NodeId, Op};
use super::matrix::{Given, Row, Slots, chosen, each, has, insert};
use super::plan::Step;
use super::predefined::Rel;
use crate::declarative::graph;
use crate::declarative::problem::{INIT, Problem};
use crate::event::{Event, Execution, Kind};
use crate::litmus::Operand;
use crate::outcome::{Budget, Limit, Outcome};
use crate::program::{Loc, Reg, ThreadId, Value};

/// Stands for a source that has not been decided.
const UNDECIDED: u16 = u16::MAX - 1;

/// What is looked for.
pub(super) enum Goal<'g> {
    /// Every outcome, or one outcome for each combination of values of some operands.
    Outcomes(&'g mut Known),
    /// An execution whose outcome satisfies a predicate.
    Execution(&'g dyn Fn(&Outcome) -> bool),
    /// Any execution.
    Any,
}

/// The outcomes found so far.
#[derive(Default)]
pub(super) struct Known {
    pub(super) operands: Option<Vec<Operand>>,
    pub(super) seen: FxHashSet<Vec<Value>>,
    pub(super) outcomes: BTreeSet<Outcome>,
}

/// Runs the search. Returns an execution if the goal is one and there is one.
pub(super) fn solve<const W: usize>(
    model: &ModelFile,
    problem: &Problem<'_>,
    goal: Goal<'_>,
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Option<Execution>, Stop> {
    let base = problem.program.locations.len();
    let n = base + problem.len();
    let events: Vec<Event> = (0..base)
        .map(graph::initial)
        .chain((0..problem.len()).map(|e| problem.event(e).clone()))
        .collect();
    let mut po = vec![[0; W]; n];
    let mut pf = vec![[0; W]; n];
    for a in 0..n {
        let later = (a + 1).max(base)..n;
        for b in later {
            if a < base || problem.thread[a - base] == problem.thread[b - base] {
                insert(&mut po[a], b);
            }
        }
    }
    for (path, first) in problem.paths.iter().zip(&problem.first) {
        for &(write, poll) in &path.pf {
            insert(&mut pf[base + first + write], base + first + poll);
        }
    }
    let mut search = Search {
        model,
        problem,
        goal,
        budget,
        states,
        base,
        slots: Slots::new(&model.plan.is_set, n),
        rb: vec![[0; W]; n],
        guards: Vec::new(),
        events,
        po,
        pf,
        pool: Vec::new(),
        found: None,
    };
    search.start()?;
    Ok(search.found)
}

/// The reason why a search stops early.
#[derive(Debug)]
pub(super) enum Stop {
    /// A limit was reached.
    Limit(Limit),
    /// The program does not meet this requirement of the model.
    Unmet(usize),
}

/// A closure that must stay irreflexive, and for each chosen relation the pairs that it takes over.
struct Guard<const W: usize> {
    closure: usize,
    masks: [Vec<Row<W>>; 5],
}

/// Two events of which one comes first in a relation.
#[derive(Clone, Copy, Debug)]
struct Choice {
    rel: Rel,
    a: usize,
    b: usize,
}

/// A partial execution. Events are numbered as in [`Execution`], initial writes first; `source` and `value` without those.
#[derive(Clone)]
struct Partial<const W: usize> {
    source: Vec<u16>,
    value: Vec<Option<Value>>,
    rf: Vec<Row<W>>,
    mo: Vec<Row<W>>,
    nfo: Vec<Row<W>>,
    rao: Vec<Row<W>>,
    open: Vec<Choice>,
    /// Last write of each location.
    last: Vec<u16>,
    needed: Row<W>,
}

impl<const W: usize> Partial<W> {
    fn copy_from(&mut self, other: &Partial<W>) {
        self.source.clone_from(&other.source);
        self.value.clone_from(&other.value);
        self.rf.clone_from(&other.rf);
        self.mo.clone_from(&other.mo);
        self.nfo.clone_from(&other.nfo);
        self.rao.clone_from(&other.rao);
        self.open.clone_from(&other.open);
        self.last.clone_from(&other.last);
        self.needed = other.needed;
    }

    fn rows(&mut self, rel: Rel) -> &mut Vec<Row<W>> {
        match rel {
            Rel::Mo => &mut self.mo,
            Rel::Nfo => &mut self.nfo,
            _ => &mut self.rao,
        }
    }

    /// Orders `a` before `b`, in a transitive relation with all that follows. Returns false if they have the other order.
    fn order(&mut self, rel: Rel, a: usize, b: usize) -> bool {
        let rows = self.rows(rel);
        if has(&rows[b], a) {
            return false;
        }
        if has(&rows[a], b) {
            return true;
        }
        if rel == Rel::Nfo {
            insert(&mut rows[a], b);
            return true;
        }
        let mut after = rows[b];
        insert(&mut after, b);
        for (e, row) in rows.iter_mut().enumerate() {
            if e == a || has(row, a) {
                for w in 0..W {
                    row[w] |= after[w];
                }
            }
        }
        true
    }
}

struct Search<'s, 'a, const W: usize> {
    model: &'s ModelFile,
    problem: &'s Problem<'a>,
    goal: Goal<'s>,
    budget: &'s Budget<'s>,
    states: &'s mut u64,
    /// Number of initial writes.
    base: usize,
    slots: Slots<W>,
    rb: Vec<Row<W>>,
    guards: Vec<Guard<W>>,
    events: Vec<Event>,
    po: Vec<Row<W>>,
    pf: Vec<Row<W>>,
    /// One node for each depth; their memory is reused.
    pool: Vec<Partial<W>>,
    found: Option<Execution>,
}

impl<const W: usize> Search<'_, '_, W> {
    fn start(&mut self) -> Result<(), Stop> {
        let root = self.root();
        self.pool.push(root);
        let model = self.model;
        let plan = &model.plan;
        self.run(&plan.fixed, 0);
        let unmet = plan.requirements.iter().find(|r| !self.slots.satisfies(r));
        if let Some(unmet) = unmet {
            return Err(Stop::Unmet(unmet.axiom));
        }
        for guard in &plan.guards {
            let none = || vec![[0; W]; self.events.len()];
            let mut masks = [none(), none(), none(), none(), none()];
            let mut all = [0; W];
            (0..self.events.len()).for_each(|e| insert(&mut all, e));
            self.taken_over(guard.expr, vec![all; self.events.len()], &mut masks);
            let closure = guard.closure;
            self.guards.push(Guard { closure, masks });
        }
        self.explore(0)
    }

    /// Runs steps on the partial execution at `depth`.
    fn run(&mut self, steps: &[Step], depth: usize) {
        let node = &self.pool[depth];
        let given = Given {
            events: &self.events,
            po: &self.po,
            pf: &self.pf,
            chosen: [&node.rf, &node.mo, &self.rb, &node.nfo, &node.rao],
        };
        self.slots.run(steps, &given);
    }

    /// Finds the pairs of chosen relations that are pairs of an expression by themselves, and adds them to the masks.
    fn taken_over(&self, id: NodeId, allowed: Vec<Row<W>>, masks: &mut [Vec<Row<W>>; 5]) {
        let graph = &self.model.graph;
        let fixed = |id: NodeId| self.model.flags.fixed[id.index()];
        let rows = |id: NodeId| self.slots.rows(id.index());
        let restricted = |other: &[Row<W>], keep: bool| {
            let mut out = allowed.clone();
            for (row, other) in out.iter_mut().zip(other) {
                for w in 0..W {
                    row[w] &= if keep { other[w] } else { !other[w] };
                }
            }
            out
        };
        if fixed(id) || allowed.iter().all(|row| *row == [0; W]) {
            return;
        }
        match graph.ops[id.index()] {
            Op::Rel(rel) => {
                if let Some(at) = chosen(rel) {
                    for (mask, row) in masks[at].iter_mut().zip(&allowed) {
                        for w in 0..W {
                            mask[w] |= row[w];
                        }
                    }
                }
            }
            Op::Union(a, b) => {
                self.taken_over(a, allowed.clone(), masks);
                self.taken_over(b, allowed, masks);
            }
            Op::Intersection(a, b) if fixed(b) => self.taken_over(a, restricted(rows(b), true), masks),
            Op::Intersection(a, b) if fixed(a) => self.taken_over(b, restricted(rows(a), true), masks),
            Op::Difference(a, b) => {
                if let [minus] = graph.subtrahends(a, b)[..]
                    && fixed(minus)
                {
                    self.taken_over(a, restricted(rows(minus), false), masks);
                }
            }
            Op::Sequence(a, b) => match (graph.ops[a.index()], graph.ops[b.index()]) {
                (Op::Identity(set), _) if fixed(set) => {
                    let members = rows(set)[0];
                    let none = |e: usize| if has(&members, e) { [!0; W] } else { [0; W] };
                    let from: Vec<Row<W>> = (0..allowed.len()).map(none).collect();
                    self.taken_over(b, restricted(&from, true), masks);
                }
                (_, Op::Identity(set)) if fixed(set) => {
                    let into = vec![rows(set)[0]; allowed.len()];
                    self.taken_over(a, restricted(&into, true), masks);
                }
                _ => {}
            },
            Op::Plus(a) | Op::Star(a) | Op::Optional(a) => self.taken_over(a, allowed, masks),
            _ => {}
        }
    }

    /// Returns the execution in which nothing is decided.
    fn root(&self) -> Partial<W> {
        let p = self.problem;
        let n = self.events.len();
        let none = || vec![[0; W]; n];
        let mut root = Partial {
            source: vec![UNDECIDED; p.len()],
            value: vec![None; p.len()],
            rf: none(),
            mo: none(),
            nfo: none(),
            rao: none(),
            open: Vec::new(),
            last: vec![UNDECIDED; p.writes.len()],
            needed: [0; W],
        };
        for condition in &p.conditions {
            let first = p.first[condition.thread];
            condition
                .sym
                .each_read(&mut |i| insert(&mut root.needed, first + i));
        }
        for (t, path) in p.paths.iter().enumerate() {
            for (r, sym) in path.registers.iter().enumerate() {
                let asked = Operand::Reg(ThreadId(t as u8), Reg(r as u16));
                if self.asks(asked) {
                    sym.each_read(&mut |i| insert(&mut root.needed, p.first[t] + i));
                }
            }
        }
        for (loc, writes) in p.writes.iter().enumerate() {
            let asked = self.asks(Operand::Loc(Loc(loc as u16)));
            if writes.is_empty() || !asked {
                root.last[loc] = INIT;
            }
            for (i, &a) in writes.iter().enumerate() {
                let a = self.base + usize::from(a);
                insert(&mut root.mo[loc], a);
                for &b in &writes[i + 1..] {
                    let b = self.base + usize::from(b);
                    root.open.push(Choice { rel: Rel::Mo, a, b });
                }
            }
        }
        for a in self.base..n {
            for b in self.base..n {
                let (x, y) = (&self.events[a], &self.events[b]);
                if p.spec.flush_pair(x, y) {
                    let (a, b) = (a.min(b), a.max(b));
                    root.open.push(Choice { rel: Rel::Nfo, a, b });
                }
                let atomics = (x.kind, y.kind) == (Kind::NicAtomicRead, Kind::NicAtomicRead);
                if p.spec.orders_atomics() && atomics && a < b && x.peer == y.peer {
                    root.open.push(Choice { rel: Rel::Rao, a, b });
                }
            }
        }
        root
    }

    fn asks(&self, operand: Operand) -> bool {
        match &self.goal {
            Goal::Outcomes(known) => known.operands.as_ref().is_none_or(|all| all.contains(&operand)),
            Goal::Execution(_) => true,
            Goal::Any => false,
        }
    }

    /// Propagates values and forced choices and evaluates the axioms that prune, until nothing changes. Returns false if the partial
    /// execution cannot be completed.
    fn settle(&mut self, depth: usize) -> Result<bool, Stop> {
        loop {
            self.tick()?;
            if !self.evaluate_values(depth) {
                return Ok(false);
            }
            self.read_before(depth);
            let model = self.model;
            let plan = &model.plan;
            self.run(&plan.moving, depth);
            if !plan.pruning.iter().all(|c| self.slots.satisfies(c)) {
                return Ok(false);
            }
            match self.force(depth) {
                None => return Ok(false),
                Some(true) => {}
                Some(false) => return Ok(true),
            }
        }
    }

    /// Computes reads-before of the decided reads.
    fn read_before(&mut self, depth: usize) {
        let node = &self.pool[depth];
        for (e, &source) in node.source.iter().enumerate() {
            let read = self.base + e;
            self.rb[read] = [0; W];
            if source != UNDECIDED && self.problem.is_sourced_read(e) {
                let mut after = node.mo[self.source_event(e, source)];
                after[read / 64] &= !(1 << (read % 64));
                self.rb[read] = after;
            }
        }
    }

    /// Returns the event of a source: a write, or the initial write of the location that `read` reads.
    fn source_event(&self, read: usize, source: u16) -> usize {
        match source {
            INIT => self.problem.event(read).loc.map_or(0, |l| usize::from(l.0)),
            w => self.base + usize::from(w),
        }
    }

    /// Takes every choice that has one side left. Returns whether there was one; `None` if a choice has no side left.
    fn force(&mut self, depth: usize) -> Option<bool> {
        let mut changed = false;
        let mut at = 0;
        while at < self.pool[depth].open.len() {
            let Choice { rel, a, b } = self.pool[depth].open[at];
            let rows = self.pool[depth].rows(rel);
            if has(&rows[a], b) || has(&rows[b], a) {
                self.pool[depth].open.swap_remove(at);
                continue;
            }
            let (forth, back) = (
                self.is_possible(depth, rel, a, b),
                self.is_possible(depth, rel, b, a),
            );
            match (forth, back) {
                (false, false) => return None,
                (true, true) => at += 1,
                (forth, _) => {
                    let (first, second) = if forth { (a, b) } else { (b, a) };
                    self.pool[depth].open.swap_remove(at);
                    if !self.pool[depth].order(rel, first, second) {
                        return None;
                    }
                    changed = true;
                }
            }
        }
        if changed {
            return Some(true);
        }
        for e in 0..self.problem.len() {
            let node = &self.pool[depth];
            if node.source[e] != UNDECIDED || !has(&node.needed, e) || !self.problem.is_sourced_read(e) {
                continue;
            }
            match self.sources(depth, e)[..] {
                [] => return None,
                [only] => {
                    self.assign(depth, e, only);
                    changed = true;
                }
                _ => {}
            }
        }
        Some(changed)
    }

    /// Returns whether no guard rules out `a` before `b`, as far as can be told at once.
    fn is_possible(&self, depth: usize, rel: Rel, a: usize, b: usize) -> bool {
        let Some(at) = chosen(rel) else {
            return true;
        };
        let against = |at: usize, x: usize, y: usize| {
            let ruled_out = |g: &Guard<W>| has(&g.masks[at][x], y) && has(&self.slots.rows(g.closure)[y], x);
            self.guards.iter().any(ruled_out)
        };
        if against(at, a, b) {
            return false;
        }
        let mut possible = true;
        if rel == Rel::Mo {
            // Reads of `a` come before `b` then.
            each(&self.pool[depth].rf[a], |read| {
                possible &= read == b || !against(2, read, b);
            });
        }
        possible
    }

    /// Lists the writes that a read could still read from.
    fn sources(&self, depth: usize, read: usize) -> Vec<u16> {
        let node = &self.pool[depth];
        let loc = self.problem.event(read).loc.map_or(0, |l| usize::from(l.0));
        let writes = self.problem.writes[loc].iter().copied();
        let to = self.base + read;
        let possible = |&source: &u16| {
            let from = self.source_event(read, source);
            from != to
                && self.guards.iter().all(|g| {
                    let closure = self.slots.rows(g.closure);
                    let direct = has(&g.masks[0][from], to) && has(&closure[to], from);
                    let mut possible = !direct;
                    // The read comes before the writes that overwrite its source.
                    each(&node.mo[from], |after| {
                        possible &= after == to || !has(&g.masks[2][to], after) || !has(&closure[after], to);
                    });
                    possible
                })
        };
        writes.chain([INIT]).filter(possible).collect()
    }

    fn assign(&mut self, depth: usize, read: usize, source: u16) {
        let from = self.source_event(read, source);
        let problem = self.problem;
        let node = &mut self.pool[depth];
        node.source[read] = source;
        insert(&mut node.rf[from], self.base + read);
        if source != INIT {
            let write = usize::from(source);
            // A read that nobody asks for stays so, whatever it reads.
            if let (Some(sym), true) = (problem.sym(write), has(&node.needed, read)) {
                let first = problem.first[problem.thread[write]];
                sym.each_read(&mut |i| insert(&mut node.needed, first + i));
            }
        }
    }

    fn explore(&mut self, depth: usize) -> Result<(), Stop> {
        if !self.settle(depth)? {
            return Ok(());
        }
        if let Some((read, sources)) = self.next_read(depth, true) {
            for source in sources {
                self.push(depth);
                self.assign(depth + 1, read, source);
                self.explore(depth + 1)?;
                if self.found.is_some() {
                    return Ok(());
                }
            }
            return Ok(());
        }
        if let Some(loc) = self.pool[depth].last.iter().position(|&w| w == UNDECIDED) {
            for &last in self.problem.writes[loc].iter().rev() {
                self.push(depth);
                if self.finish_with(depth + 1, loc, last) {
                    self.explore(depth + 1)?;
                }
                if self.found.is_some() {
                    return Ok(());
                }
            }
            return Ok(());
        }
        self.conclude(depth)
    }

    /// Returns the undecided read with the fewest sources, among those that matter or among all.
    fn next_read(&self, depth: usize, needed: bool) -> Option<(usize, Vec<u16>)> {
        let node = &self.pool[depth];
        let open = |&e: &usize| {
            let matters = !needed || has(&node.needed, e);
            matters && node.source[e] == UNDECIDED && self.problem.is_sourced_read(e)
        };
        let reads = (0..self.problem.len()).filter(open);
        reads
            .map(|e| (e, self.sources(depth, e)))
            .min_by_key(|(_, s)| s.len())
    }

    /// Decides that `last` is the last write of the location. Returns false if another is.
    fn finish_with(&mut self, depth: usize, loc: usize, last: u16) -> bool {
        let problem = self.problem;
        let (base, write) = (self.base, usize::from(last));
        let node = &mut self.pool[depth];
        node.last[loc] = last;
        if let Some(sym) = problem.sym(write) {
            let first = problem.first[problem.thread[write]];
            sym.each_read(&mut |i| insert(&mut node.needed, first + i));
        }
        problem.writes[loc]
            .iter()
            .filter(|&&w| w != last)
            .all(|&w| node.order(Rel::Mo, base + usize::from(w), base + write))
    }

    /// Called when everything that matters is decided: looks whether the rest can be decided too.
    fn conclude(&mut self, depth: usize) -> Result<(), Stop> {
        let mut shown = None;
        match &self.goal {
            Goal::Any => {}
            Goal::Outcomes(known) => {
                let values = self.shown(depth, known.operands.as_deref());
                match values {
                    Some(values) if !known.seen.contains(&values) => shown = Some(values),
                    _ => return Ok(()),
                }
            }
            Goal::Execution(wanted) => match self.shown(depth, None) {
                Some(values) if wanted(&self.outcome(&values)) => {}
                _ => return Ok(()),
            },
        }
        let Some(at) = self.complete(depth)? else {
            return Ok(());
        };
        match (&self.goal, shown) {
            // The outcome is known without the execution if all of it was asked for.
            (Goal::Outcomes(Known { operands: None, .. }), Some(values)) => {
                let outcome = self.outcome(&values);
                if let Goal::Outcomes(known) = &mut self.goal {
                    known.seen.insert(values);
                    known.outcomes.insert(outcome);
                }
            }
            (_, shown) => {
                let execution = self.execution(at);
                match (&mut self.goal, shown) {
                    (Goal::Outcomes(known), Some(values)) => {
                        known.seen.insert(values);
                        known.outcomes.insert(execution.outcome);
                    }
                    _ => self.found = Some(execution),
                }
            }
        }
        Ok(())
    }

    /// Decides what is still open. Returns the depth of a complete execution that satisfies all axioms, if there is one.
    fn complete(&mut self, depth: usize) -> Result<Option<usize>, Stop> {
        if !self.settle(depth)? {
            return Ok(None);
        }
        if let Some((read, sources)) = self.next_read(depth, false) {
            for source in sources {
                self.push(depth);
                self.assign(depth + 1, read, source);
                if let Some(at) = self.complete(depth + 1)? {
                    return Ok(Some(at));
                }
            }
            return Ok(None);
        }
        if let Some(Choice { rel, a, b }) = self.pool[depth].open.pop() {
            for (first, second) in [(a, b), (b, a)] {
                self.push(depth);
                if self.pool[depth + 1].order(rel, first, second)
                    && let Some(at) = self.complete(depth + 1)?
                {
                    return Ok(Some(at));
                }
            }
            return Ok(None);
        }
        // A cycle of reads-from and data leaves values unknown. No execution has such a cycle.
        let node = &self.pool[depth];
        let known = |e: usize| node.value[e].is_some() || !self.problem.event(e).is_read();
        if !(0..self.problem.len()).all(known) {
            return Ok(None);
        }
        let model = self.model;
        let plan = &model.plan;
        self.run(&plan.late, depth);
        let consistent = plan.final_checks.iter().all(|c| self.slots.satisfies(c));
        Ok(consistent.then_some(depth))
    }

    /// Propagates values along reads-from. Returns false if a condition fails.
    fn evaluate_values(&mut self, depth: usize) -> bool {
        let problem = self.problem;
        loop {
            let mut changed = false;
            for e in 0..problem.len() {
                let node = &self.pool[depth];
                if node.value[e].is_some() || !problem.event(e).is_read() {
                    continue;
                }
                let value = match (problem.event(e).loc, node.source[e]) {
                    // The source of a constant put.
                    (None, _) => self.written(depth, e),
                    (Some(_), UNDECIDED) => None,
                    (Some(loc), INIT) => Some(self.initial(usize::from(loc.0))),
                    (Some(_), w) => self.written(depth, usize::from(w)),
                };
                if value.is_some() {
                    self.pool[depth].value[e] = value;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let node = &self.pool[depth];
        problem.conditions.iter().all(|c| {
            let first = problem.first[c.thread];
            c.sym
                .eval(&|i| node.value[first + i])
                .is_none_or(|v| c.wanted.admits(v))
        })
    }

    fn initial(&self, loc: usize) -> Value {
        self.problem.program.locations[loc].init
    }

    /// Returns the value of an event's own expression, once known.
    fn written(&self, depth: usize, e: usize) -> Option<Value> {
        let first = self.problem.first[self.problem.thread[e]];
        let node = &self.pool[depth];
        self.problem.sym(e)?.eval(&|i| node.value[first + i])
    }

    /// Returns the values of the operands, or of all registers and then all locations, if they are known.
    fn shown(&self, depth: usize, operands: Option<&[Operand]>) -> Option<Vec<Value>> {
        let (problem, node) = (self.problem, &self.pool[depth]);
        let register = |t: usize, r: usize| {
            let sym = problem.paths.get(t)?.registers.get(r)?;
            sym.eval(&|i| node.value[problem.first[t] + i])
        };
        let location = |loc: usize| match *node.last.get(loc)? {
            INIT => Some(self.initial(loc)),
            w => self.written(depth, usize::from(w)),
        };
        match operands {
            Some(operands) => operands
                .iter()
                .map(|o| match o {
                    Operand::Reg(t, r) => register(usize::from(t.0), usize::from(r.0)),
                    Operand::Loc(l) => location(usize::from(l.0)),
                })
                .collect(),
            None => {
                let paths = problem.paths.iter().enumerate();
                let registers = paths.flat_map(|(t, p)| (0..p.registers.len()).map(move |r| (t, r)));
                registers
                    .map(|(t, r)| register(t, r))
                    .chain((0..node.last.len()).map(location))
                    .collect()
            }
        }
    }

    /// Makes an outcome of the values of all registers and locations.
    fn outcome(&self, values: &[Value]) -> Outcome {
        let mut rest = values.iter().copied();
        let mut take = |count: usize| rest.by_ref().take(count).collect::<Vec<Value>>();
        let registers = self
            .problem
            .paths
            .iter()
            .map(|p| take(p.registers.len()))
            .collect();
        let memory = take(self.problem.writes.len());
        Outcome { registers, memory }
    }

    fn execution(&self, depth: usize) -> Execution {
        let node = &self.pool[depth];
        let base = self.base;
        let source = |&s: &u16| if s == UNDECIDED { INIT } else { s };
        let sources: Vec<u16> = node.source.iter().map(source).collect();
        graph::build(
            self.problem,
            &sources,
            |a, b| has(&node.mo[base + a], base + b) || has(&node.rao[base + a], base + b),
            |read, write| has(&node.nfo[base + read], base + write),
        )
    }

    /// Makes the node at `depth + 1` a copy of the one at `depth`.
    fn push(&mut self, depth: usize) {
        if self.pool.len() == depth + 1 {
            let copy = self.pool[depth].clone();
            self.pool.push(copy);
        } else {
            let (head, tail) = self.pool.split_at_mut(depth + 1);
            tail[0].copy_from(&head[depth]);
        }
    }

    fn tick(&mut self) -> Result<(), Stop> {
        *self.states += 1;
        let look = self.states.is_multiple_of(256) || self.budget.states_max.is_some();
        if look && let Some(limit) = self.budget.exceeded(*self.states) {
            return Err(Stop::Limit(limit));
        }
        Ok(())
    }
}
