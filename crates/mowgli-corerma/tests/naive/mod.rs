//! The rules of coreRMA read once more, and evaluated by brute force: no bit sets, no incremental closure, no pruning.
//!
//! Every order of the atomic writes and every source of the atomic reads is tried, happens-before is closed by repeated
//! composition until nothing changes, and what the rules forbid is thrown away at the end.
#![allow(clippy::unwrap_used, dead_code)] // Helpers of tests are tests; each test crate uses its part.

use std::collections::{BTreeMap, BTreeSet};

use mowgli::program::{BinaryOp, Expr, Loc, Reg};
use mowgli_corerma::outcome::Outcome;
use mowgli_corerma::program::{Access, Program, Statement};
use mowgli_corerma::switches::Switches;
use mowgli_corerma::value::{UNDEFINED, Value};

/// An action: process, statement, position in the statement.
type Id = (usize, usize, usize);
type Pairs = BTreeSet<(Id, Id)>;

#[derive(Clone, Copy, PartialEq)]
struct Event {
    id: Id,
    read: Option<Access>,
    write: Option<Access>,
}

/// The actions of a statement, and which of them is at the target.
fn split(statement: &Statement) -> (Vec<(Option<Access>, Option<Access>)>, Option<usize>) {
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
        &self.program.processes[id.0].code[id.1]
    }

    fn is_local(&self, id: Id) -> bool {
        matches!(
            self.statement(id),
            Statement::Read { .. } | Statement::Write { .. }
        )
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
        let mut out = Pairs::new();
        for (p, process) in self.program.processes.iter().enumerate() {
            for (s, first) in process.code.iter().enumerate() {
                let (actions, remote) = split(first);
                let ids = |s: usize, n: usize| (0..n).map(move |i| (p, s, i)).collect::<Vec<Id>>();
                match actions.len() {
                    2 => drop(out.insert(((p, s, 0), (p, s, 1)))),
                    3 => out.extend([((p, s, 0), (p, s, 1)), ((p, s, 1), (p, s, 2))]),
                    4 => out.extend([
                        ((p, s, 0), (p, s, 2)),
                        ((p, s, 1), (p, s, 2)),
                        ((p, s, 2), (p, s, 3)),
                    ]),
                    _ => {}
                }
                for (t, second) in process.code.iter().enumerate().skip(s + 1) {
                    let (later, later_remote) = split(second);
                    let all = ids(t, later.len());
                    let is_flush = |x: &Statement| matches!(x, Statement::Flush { .. });
                    if self.is_local((p, s, 0)) {
                        out.extend(all.iter().map(|&b| ((p, s, 0), b)));
                    }
                    if is_flush(first) && self.is_local((p, t, 0)) {
                        out.insert(((p, s, 0), (p, t, 0)));
                    }
                    if matches!(first, Statement::Put { .. }) && self.switches.inlined_put {
                        out.extend(all.iter().map(|&b| ((p, s, 0), b)));
                    }
                    let same = self.target(p, s).is_some() && self.target(p, s) == self.target(p, t);
                    if !same {
                        continue;
                    }
                    match (is_flush(first), is_flush(second)) {
                        (false, true) => {
                            out.extend(ids(s, actions.len()).into_iter().map(|a| (a, (p, t, 0))))
                        }
                        (true, false) => out.extend(all.iter().map(|&b| ((p, s, 0), b))),
                        (true, true) => {}
                        (false, false) => {
                            let own = usize::from(process.node.0);
                            let routed = self.switches.in_order
                                && (self.switches.in_order_self || self.target(p, s) != Some(own));
                            let puts =
                                matches!((first, second), (Statement::Put { .. }, Statement::Put { .. }));
                            let gets =
                                matches!((first, second), (Statement::Get { .. }, Statement::Get { .. }));
                            if routed || (puts && self.switches.put_put) || (gets && self.switches.get_get) {
                                out.insert(((p, s, remote.unwrap()), (p, t, later_remote.unwrap())));
                            }
                        }
                    }
                }
            }
        }
        out
    }
}

/// Closes a relation.
fn close(mut pairs: Pairs) -> Pairs {
    loop {
        let mut more = pairs.clone();
        for &(a, b) in &pairs {
            more.extend(pairs.iter().filter(|(c, _)| *c == b).map(|&(_, d)| (a, d)));
        }
        if more == pairs {
            return pairs;
        }
        pairs = more;
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

/// Where a read's value may come from: nothing stands for the initial write.
type Reads = BTreeMap<Id, Option<Id>>;

/// Finds the outcomes of a small program. Programs with atomic get accumulates are not covered.
pub fn outcomes(program: &Program, switches: Switches) -> BTreeSet<Outcome> {
    assert!(!switches.atomic_rga);
    let mut events = Vec::new();
    for (p, process) in program.processes.iter().enumerate() {
        for (s, statement) in process.code.iter().enumerate() {
            for (i, (read, write)) in split(statement).0.into_iter().enumerate() {
                events.push(Event {
                    id: (p, s, i),
                    read,
                    write,
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
    let mut orders: Vec<Vec<Vec<Id>>> = vec![Vec::new()];
    for l in 0..program.locations.len() {
        let writes: Vec<Id> = world
            .events
            .iter()
            .filter(|e| e.write.is_some_and(|w| w.atomic && usize::from(w.loc.0) == l))
            .map(|e| e.id)
            .collect();
        orders = orders
            .iter()
            .flat_map(|before| {
                permutations(&writes).into_iter().map(|order| {
                    let mut all = before.clone();
                    all.push(order);
                    all
                })
            })
            .collect();
    }
    // Every read chooses among all writes of its location; reads or writes that are not atomic are sorted out later.
    let mut sources: Vec<Reads> = vec![Reads::new()];
    for read in world.events.iter().filter(|e| e.read.is_some()) {
        let loc = read.read.unwrap().loc;
        let from = world
            .events
            .iter()
            .filter(|e| e.write.is_some_and(|w| w.loc == loc))
            .map(|e| Some(e.id))
            .chain([None]);
        let from: Vec<Option<Id>> = from.collect();
        sources = sources
            .iter()
            .flat_map(|before| {
                from.iter().map(|&w| {
                    let mut all = before.clone();
                    all.insert(read.id, w);
                    all
                })
            })
            .collect();
    }
    let mut out = BTreeSet::new();
    for order in &orders {
        for reads in &sources {
            out.extend(world.execution(&fixed, order, reads));
        }
    }
    out
}

impl World<'_> {
    fn event(&self, id: Id) -> Event {
        *self.events.iter().find(|e| e.id == id).unwrap()
    }

    /// The outcome of one choice, if the rules allow it.
    fn execution(&self, fixed: &Pairs, orders: &[Vec<Id>], reads: &Reads) -> Option<Outcome> {
        let mut before = fixed.clone();
        for order in orders {
            for (at, &w) in order.iter().enumerate() {
                before.extend(order[at + 1..].iter().map(|&v| (w, v)));
            }
        }
        for (&r, &source) in reads {
            if !self.event(r).read.unwrap().atomic {
                continue;
            }
            if let Some(w) = source.filter(|&w| self.event(w).write.unwrap().atomic) {
                before.insert((w, r));
            }
        }
        // R1 asks for pairs of the closed relation: apply it until nothing changes.
        loop {
            before = close(before);
            let mut more = before.clone();
            for (&r, &source) in reads {
                let read = self.event(r).read.unwrap();
                let from_atomic = source.is_none_or(|w| self.event(w).write.unwrap().atomic);
                if !read.atomic || !from_atomic {
                    continue;
                }
                for e in &self.events {
                    let is_later = source.is_none_or(|w| before.contains(&(w, e.id)));
                    if e.write.is_some_and(|w| w.atomic && w.loc == read.loc) && is_later && e.id != r {
                        more.insert((r, e.id));
                    }
                }
            }
            if more == before {
                break;
            }
            before = more;
        }
        if before.iter().any(|(a, b)| a == b) {
            return None;
        }
        self.values(&before, reads)
    }

    fn conflicts_with_write(&self, id: Id, before: &Pairs) -> bool {
        let own = self.event(id);
        let access = own.read.or(own.write).unwrap();
        self.events.iter().any(|e| {
            e.id != id
                && !before.contains(&(e.id, id))
                && !before.contains(&(id, e.id))
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
                e.write.is_some_and(|w| w.loc == loc) && at.is_none_or(|at| before.contains(&(e.id, at)))
            })
            .map(|e| e.id)
            .collect();
        let hidden = |w: &Id| writes.iter().any(|v| before.contains(&(*w, *v)));
        writes.iter().filter(|w| !hidden(w)).copied().collect()
    }

    /// Rules no-C and C, and the values that the statements pass on. Values are found by going over all actions until each
    /// has one.
    fn values(&self, before: &Pairs, reads: &Reads) -> Option<Outcome> {
        let mut source: BTreeMap<Id, Option<Option<Id>>> = BTreeMap::new();
        for (&r, &w) in reads {
            let read = self.event(r).read.unwrap();
            if self.conflicts_with_write(r, before) {
                source.insert(r, None);
                continue;
            }
            let visible = self.visible(read.loc, Some(r), before);
            let is_atomic = |w: &Id| self.event(*w).write.unwrap().atomic;
            let follows_order = match w {
                None if read.atomic => visible.is_empty(),
                None => visible.is_empty(),
                Some(w) if read.atomic && is_atomic(&w) => visible.contains(&w),
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
                [w] if !self.conflicts_with_write(*w, before) => written[w],
                _ => UNDEFINED,
            }
        };
        let memory = (0..self.program.locations.len()).map(last).collect();
        let mut registers: Vec<Vec<Value>> = Vec::new();
        for (p, process) in self.program.processes.iter().enumerate() {
            let mut values = vec![Value::Known(0); process.registers.len()];
            for (s, statement) in process.code.iter().enumerate() {
                if let Statement::Read { reg, .. } = statement {
                    values[usize::from(reg.0)] = read[&(p, s, 0)];
                }
            }
            registers.push(values);
        }
        Some(Outcome { registers, memory })
    }

    fn write_value(&self, id: Id, read: &BTreeMap<Id, Value>) -> Option<Value> {
        let (p, s, _) = id;
        let part = |i: usize| read.get(&(p, s, i)).copied();
        match (self.statement(id), id.2) {
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
                assigned.map_or(Some(0.into()), |t| read.get(&(p, t, 0)).copied())
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
