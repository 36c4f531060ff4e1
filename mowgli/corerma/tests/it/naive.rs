//! The rules of coreRMA read once more, and evaluated by brute force: no bit sets, no incremental closure, no pruning.
//!
//! Every order of the atomic writes and every source of the reads is tried, happens-before is closed anew for each (Warshall's
//! algorithm), and what the rules forbid is thrown away at the end. Nothing is given up early, and nothing is kept from one choice to the next.
//! A value that depends on itself, which only a model without some rule allows, is undefined.

use std::collections::{BTreeMap, BTreeSet};

use mowgli::program::{BinaryOp, Expr, Loc, Reg};
use mowgli_corerma::outcome::Outcome;
use mowgli_corerma::program::{Access, Program, Statement};
use mowgli_corerma::rules::Rule;
use mowgli_corerma::switches::Switches;
use mowgli_corerma::value::{UNDEFINED, Value};

/// An action, as its number.
type Id = usize;

/// A relation over at most 64 actions: bit `b` of row `a` says that `a` is before `b`.
#[derive(Clone, PartialEq)]
struct Pairs(Vec<u64>);

impl Pairs {
    fn insert(&mut self, a: Id, b: Id) {
        self.0[a] |= 1 << b;
    }

    fn contains(&self, a: Id, b: Id) -> bool {
        self.0[a] >> b & 1 == 1
    }

    /// Closes the relation.
    fn close(&mut self) {
        for via in 0..self.0.len() {
            for a in 0..self.0.len() {
                if self.contains(a, via) {
                    self.0[a] |= self.0[via];
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Event {
    id: Id,
    /// Process, statement, position in the statement.
    place: (usize, usize, usize),
    read: Option<Access>,
    write: Option<Access>,
}

/// Returns the values that an action reads and writes.
type Part = (Option<Access>, Option<Access>);

/// The actions of a statement, and which of them is at the target.
fn split(statement: &Statement) -> (Vec<Part>, Option<usize>) {
    match *statement {
        Statement::Read { from, .. } => (vec![(Some(from), None)], None),
        Statement::Write { to, .. } => (vec![(None, Some(to))], None),
        Statement::Get { to, from } => (vec![(Some(from), None), (None, Some(to))], Some(0)),
        Statement::Put { to, from } => (vec![(Some(from), None), (None, Some(to))], Some(1)),
        Statement::Rga { to, target, addend } => (
            vec![
                (Some(addend), None),
                (Some(target), Some(target)),
                (None, Some(to)),
            ],
            Some(1),
        ),
        Statement::Cas {
            to,
            target,
            expected,
            new,
        } => (
            vec![
                (Some(expected), None),
                (Some(new), None),
                (Some(target), Some(target)),
                (None, Some(to)),
            ],
            Some(2),
        ),
        Statement::Flush { .. } => (vec![(None, None)], None),
    }
}

struct World<'a> {
    program: &'a Program,
    switches: Switches,
    events: Vec<Event>,
}

impl World<'_> {
    fn statement(&self, id: Id) -> &Statement {
        let (p, s, _) = self.events[id].place;
        &self.program.processes[p].code[s]
    }

    fn is_local(&self, id: Id) -> bool {
        matches!(
            self.statement(id),
            Statement::Read { .. } | Statement::Write { .. }
        )
    }

    /// The actions of a statement, in order.
    fn ids(&self, p: usize, s: usize) -> Vec<Id> {
        let of = |e: &&Event| (e.place.0, e.place.1) == (p, s);
        self.events.iter().filter(of).map(|e| e.id).collect()
    }

    fn home(&self, access: Access) -> usize {
        usize::from(self.program.location(access.loc).node.0)
    }

    /// The target of a remote statement or flush.
    fn target(&self, p: usize, s: usize) -> Option<usize> {
        let statement = &self.program.processes[p].code[s];
        if let Statement::Flush { node } = statement {
            return Some(usize::from(node.0));
        }
        let (actions, remote) = split(statement);
        let (read, write) = actions[remote?];
        Some(self.home(read.or(write).unwrap()))
    }

    /// The pairs that the rules about program order give.
    fn program_pairs(&self) -> Pairs {
        let mut out = Pairs(vec![0; self.events.len()]);
        for (p, process) in self.program.processes.iter().enumerate() {
            for (s, first) in process.code.iter().enumerate() {
                let own = self.ids(p, s);
                let has = |rule: Rule| self.switches.has(rule);
                let within: &[(usize, usize)] = match own.len() {
                    2 if has(Rule::Pg) => &[(0, 1)],
                    3 if has(Rule::Ga) => &[(0, 1), (1, 2)],
                    4 if has(Rule::CasF) => &[(0, 2), (1, 2), (2, 3)],
                    _ => &[],
                };
                within.iter().for_each(|&(i, j)| out.insert(own[i], own[j]));
                if has(Rule::Po) {
                    let before = |(at, &a): (usize, &Id)| own[at + 1..].iter().map(move |&b| (a, b));
                    let pairs = own.iter().enumerate().flat_map(before);
                    pairs.for_each(|(a, b)| out.insert(a, b));
                }
                if matches!(first, Statement::Put { .. }) && has(Rule::Inlined) {
                    out.insert(own[0], own[1]);
                }
                for (t, second) in process.code.iter().enumerate().skip(s + 1) {
                    let later = self.ids(p, t);
                    if has(Rule::Po) {
                        let all = |&a: &Id| later.iter().map(move |&b| (a, b));
                        own.iter().flat_map(all).for_each(|(a, b)| out.insert(a, b));
                    }
                    let before_all = |out: &mut Pairs| later.iter().for_each(|&b| out.insert(own[0], b));
                    let is_flush = |x: &Statement| matches!(x, Statement::Flush { .. });
                    if self.is_local(own[0]) && has(Rule::Lo) {
                        before_all(&mut out);
                    }
                    if is_flush(first) && self.is_local(later[0]) && has(Rule::F1) {
                        out.insert(own[0], later[0]);
                    }
                    if matches!(first, Statement::Put { .. }) && has(Rule::Inlined) {
                        before_all(&mut out);
                    }
                    let same = self.target(p, s).is_some() && self.target(p, s) == self.target(p, t);
                    if !same {
                        continue;
                    }
                    match (is_flush(first), is_flush(second)) {
                        (false, true) if !has(Rule::F2) => {}
                        (true, false) if !has(Rule::F3) => {}
                        (false, true) => own.iter().for_each(|&a| out.insert(a, later[0])),
                        (true, false) => before_all(&mut out),
                        (true, true) => {}
                        (false, false) => {
                            let home = usize::from(process.node.0);
                            let routed = has(Rule::Ir)
                                && (self.switches.in_order_self || self.target(p, s) != Some(home));
                            let puts =
                                matches!((first, second), (Statement::Put { .. }, Statement::Put { .. }));
                            let gets =
                                matches!((first, second), (Statement::Get { .. }, Statement::Get { .. }));
                            if routed || (puts && has(Rule::PutPut)) || (gets && has(Rule::GetGet)) {
                                let (a, b) = (split(first).1.unwrap(), split(second).1.unwrap());
                                out.insert(own[a], later[b]);
                            }
                        }
                    }
                }
            }
        }
        out
    }
}

fn permutations(items: &[Id]) -> Vec<Vec<Id>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut out = Vec::new();
    for (at, &item) in items.iter().enumerate() {
        let rest = [&items[..at], &items[at + 1..]].concat();
        for mut tail in permutations(&rest) {
            tail.insert(0, item);
            out.push(tail);
        }
    }
    out
}

/// Calls `visit` with every way to choose one item of each list.
fn each_choice<T: Clone>(lists: &[Vec<T>], chosen: &mut Vec<T>, visit: &mut dyn FnMut(&[T])) {
    let Some(list) = lists.get(chosen.len()) else {
        return visit(chosen);
    };
    for item in list {
        chosen.push(item.clone());
        each_choice(lists, chosen, visit);
        chosen.pop();
    }
}

/// Finds the outcomes of a small program. Programs with atomic get accumulates are not covered.
pub fn outcomes(program: &Program, switches: Switches) -> BTreeSet<Outcome> {
    assert!(!switches.atomic_rga);
    let mut events = Vec::new();
    for (p, process) in program.processes.iter().enumerate() {
        for (s, statement) in process.code.iter().enumerate() {
            for (i, (read, write)) in split(statement).0.into_iter().enumerate() {
                let taken = |access: Access| Access {
                    atomic: access.atomic || switches.all_atomic,
                    ..access
                };
                events.push(Event {
                    id: events.len(),
                    place: (p, s, i),
                    read: read.map(taken),
                    write: write.map(taken),
                });
            }
        }
    }
    let world = World {
        program,
        switches,
        events,
    };
    let fixed = world.program_pairs();
    let writes = |l: usize, any: bool| -> Vec<Id> {
        let of = |e: &&Event| {
            e.write
                .is_some_and(|w| (any || w.atomic) && usize::from(w.loc.0) == l)
        };
        world.events.iter().filter(of).map(|e| e.id).collect()
    };
    let orders: Vec<Vec<Vec<Id>>> = (0..program.locations.len())
        .map(|l| permutations(&writes(l, false)))
        .collect();
    // Every read chooses among all writes of its location; reads or writes that are not atomic are sorted out later.
    let sources: Vec<Vec<Option<Id>>> = world
        .events
        .iter()
        .map(|e| match e.read {
            None => vec![None],
            Some(read) => {
                // A read-write does not read what it writes itself.
                let others = writes(usize::from(read.loc.0), true)
                    .into_iter()
                    .filter(|&w| w != e.id);
                others.map(Some).chain([None]).collect()
            }
        })
        .collect();
    let mut out = BTreeSet::new();
    each_choice(&orders, &mut Vec::new(), &mut |order| {
        each_choice(&sources, &mut Vec::new(), &mut |reads| {
            out.extend(world.execution(&fixed, order, reads));
        });
    });
    out
}

impl World<'_> {
    /// The actions that read, with the access and the source.
    fn reads<'a>(&'a self, reads: &'a [Option<Id>]) -> impl Iterator<Item = (Id, Access, Option<Id>)> + 'a {
        let of = self.events.iter().zip(reads);
        of.filter_map(|(e, &source)| Some((e.id, e.read?, source)))
    }

    fn is_atomic_write(&self, id: Id) -> bool {
        self.events[id].write.unwrap().atomic
    }

    /// The outcome of one choice, if the rules allow it.
    fn execution(&self, fixed: &Pairs, orders: &[Vec<Id>], reads: &[Option<Id>]) -> Option<Outcome> {
        let mut before = fixed.clone();
        let has = |rule: Rule| self.switches.has(rule);
        for order in orders.iter().filter(|_| has(Rule::Ws)) {
            for (at, &w) in order.iter().enumerate() {
                order[at + 1..].iter().for_each(|&v| before.insert(w, v));
            }
        }
        for (r, read, source) in self.reads(reads) {
            if let Some(w) = source.filter(|&w| has(Rule::R2) && read.atomic && self.is_atomic_write(w)) {
                before.insert(w, r);
            }
        }
        // R1 asks for pairs of the closed relation: apply it until nothing changes.
        loop {
            before.close();
            let mut more = before.clone();
            for (r, read, source) in self.reads(reads) {
                let from_atomic = source.is_none_or(|w| self.is_atomic_write(w));
                if !has(Rule::R1) || !read.atomic || !from_atomic {
                    continue;
                }
                for e in &self.events {
                    let is_later = source.is_none_or(|w| before.contains(w, e.id));
                    if e.write.is_some_and(|w| w.atomic && w.loc == read.loc) && is_later && e.id != r {
                        more.insert(r, e.id);
                    }
                }
            }
            if more == before {
                break;
            }
            before = more;
        }
        if (0..self.events.len()).any(|a| before.contains(a, a)) {
            return None;
        }
        self.values(&before, reads)
    }

    fn conflicts_with_write(&self, id: Id, before: &Pairs) -> bool {
        let own = self.events[id];
        let access = own.read.or(own.write).unwrap();
        self.events.iter().any(|e| {
            e.id != id
                && !before.contains(e.id, id)
                && !before.contains(id, e.id)
                && e.write
                    .is_some_and(|w| w.loc == access.loc && !(w.atomic && access.atomic))
        })
    }

    /// Writes that are visible to `at`: those before it with no other between.
    fn visible(&self, loc: Loc, at: Option<Id>, before: &Pairs) -> Vec<Id> {
        let writes: Vec<Id> = self
            .events
            .iter()
            .filter(|e| {
                e.write.is_some_and(|w| w.loc == loc) && at.is_none_or(|at| before.contains(e.id, at))
            })
            .map(|e| e.id)
            .collect();
        let hidden = |w: &Id| writes.iter().any(|v| before.contains(*w, *v));
        writes.iter().filter(|w| !hidden(w)).copied().collect()
    }

    /// Rules no-C and C, and the values that the statements pass on. Values are found by going over all actions until each
    /// has one.
    fn values(&self, before: &Pairs, reads: &[Option<Id>]) -> Option<Outcome> {
        let mut source: BTreeMap<Id, Option<Option<Id>>> = BTreeMap::new();
        for (r, read, w) in self.reads(reads) {
            if self.conflicts_with_write(r, before) {
                source.insert(r, None);
                continue;
            }
            let visible = self.visible(read.loc, Some(r), before);
            let is_atomic = |w: &Id| self.is_atomic_write(*w);
            // Only R1, R2 and WS together make reads of atomic writes coherent; no-C alone says that a read returns what was written.
            let is_coherent = [Rule::R1, Rule::R2, Rule::Ws].map(|rule| self.switches.has(rule)) == [true; 3];
            let is_of_atomics = read.atomic && w.is_none_or(|w| is_atomic(&w));
            let follows_order = (is_of_atomics && !is_coherent)
                || match w {
                    None => visible.is_empty(),
                    Some(w) => visible.contains(&w),
                };
            if !follows_order {
                return None;
            }
            source.insert(
                r,
                if visible.len() > 1 && !read.atomic {
                    None
                } else {
                    Some(w)
                },
            );
        }
        let (mut read, mut written) = (BTreeMap::<Id, Value>::new(), BTreeMap::<Id, Value>::new());
        for _ in 0..=2 * self.events.len() {
            for e in &self.events {
                if let (Some(access), Some(&from)) = (e.read, source.get(&e.id)) {
                    let value = match from {
                        None => Some(UNDEFINED),
                        Some(None) => Some(self.program.location(access.loc).init.into()),
                        Some(Some(w)) if self.conflicts_with_write(w, before) => Some(UNDEFINED),
                        Some(Some(w)) => written.get(&w).copied(),
                    };
                    read.extend(value.map(|v| (e.id, v)));
                }
                if e.write.is_some() {
                    let value = self.write_value(e.id, &read);
                    written.extend(value.map(|v| (e.id, v)));
                }
            }
        }
        let last = |l: usize| {
            let loc = Loc(l as u16);
            match self.visible(loc, None, before).as_slice() {
                [] => self.program.location(loc).init.into(),
                [w] if !self.conflicts_with_write(*w, before) => written.get(w).copied().unwrap_or(UNDEFINED),
                _ => UNDEFINED,
            }
        };
        let memory = (0..self.program.locations.len()).map(last).collect();
        let mut registers: Vec<Vec<Value>> = Vec::new();
        for (p, process) in self.program.processes.iter().enumerate() {
            let mut values = vec![Value::Known(0); process.registers.len()];
            for (s, statement) in process.code.iter().enumerate() {
                if let Statement::Read { reg, .. } = statement {
                    let value = read.get(&self.ids(p, s)[0]).copied();
                    values[usize::from(reg.0)] = value.unwrap_or(UNDEFINED);
                }
            }
            registers.push(values);
        }
        Some(Outcome { registers, memory })
    }

    fn write_value(&self, id: Id, read: &BTreeMap<Id, Value>) -> Option<Value> {
        let (p, s, at) = self.events[id].place;
        let part = |i: usize| read.get(&(id - at + i)).copied();
        match (self.statement(id), at) {
            (Statement::Write { value, .. }, _) => self.expr(value, p, s, read),
            (Statement::Get { .. } | Statement::Put { .. }, _) => part(0),
            (Statement::Rga { .. }, 1) => Some(add(part(0)?, part(1)?)),
            (Statement::Rga { .. }, _) => part(1),
            (Statement::Cas { .. }, 2) => Some(match (part(0)?, part(2)?) {
                (Value::Known(a), Value::Known(b)) if a == b => part(1)?,
                (Value::Known(_), Value::Known(b)) => b.into(),
                _ => UNDEFINED,
            }),
            (Statement::Cas { .. }, _) => part(2),
            _ => None,
        }
    }

    fn expr(&self, expr: &Expr, p: usize, s: usize, read: &BTreeMap<Id, Value>) -> Option<Value> {
        match expr {
            Expr::Const(n) => Some((*n).into()),
            Expr::Reg(Reg(r)) => {
                let assigned = (0..s).rev().find(|&t| {
                    let statement = &self.program.processes[p].code[t];
                    matches!(statement, Statement::Read { reg, .. } if reg.0 == *r)
                });
                assigned.map_or(Some(0.into()), |t| read.get(&self.ids(p, t)[0]).copied())
            }
            Expr::Binary(BinaryOp::Add, a, b) => {
                Some(add(self.expr(a, p, s, read)?, self.expr(b, p, s, read)?))
            }
            _ => panic!("the random programs have no other operators"),
        }
    }
}

fn add(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Known(a), Value::Known(b)) => a.wrapping_add(b).into(),
        _ => UNDEFINED,
    }
}
