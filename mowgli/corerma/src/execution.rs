//! The executions that the rules allow (coreRMA'16 section 5).
//!
//! An execution chooses, for each location, an order of its atomic writes (WS) and, for each atomic read, the write that it
//! reads from. Happens-before is the least transitive relation that the rules ask for, kept closed in bit sets while the
//! choices are made; a choice that closes a cycle is given up at once. One application of a rule can be left out, and a pair
//! demanded in its stead: this is how the generator looks for pivots.
//!
//! Initial writes precede everything and are no actions here. A read without a conflict that is not atomic returns the
//! latest write before it in happens-before.

use mowgli::program::{Loc, Node};
use smallvec::SmallVec;

use crate::action::{Action, Kind};
use crate::closure::Closure;
use crate::rules::{Order, Rule, orders};
use crate::switches::Switches;

/// Source of an atomic read's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The initial value.
    Init,
    /// An atomic write.
    Write(u8),
    /// Writes that are not atomic: happens-before decides which.
    Plain,
}

/// An application of a rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftOut {
    /// A pair of [`orders`], whatever rule gives it.
    Pair(Order),
    /// R1 for this read and this later write.
    R1 {
        /// The read.
        read: u8,
        /// The write.
        write: u8,
    },
    /// R2 for this write and this read, which reads from it.
    R2 {
        /// The write.
        write: u8,
        /// The read.
        read: u8,
    },
    /// WS for these two writes, and R1 across them.
    Ws {
        /// The earlier write by WS.
        from: u8,
        /// The later write by WS.
        to: u8,
    },
}

impl LeftOut {
    /// Returns the pair that the application gives.
    pub fn pair(self) -> (usize, usize) {
        let (from, to) = match self {
            LeftOut::Pair(order) => (order.from, order.to),
            LeftOut::R1 { read, write } => (read, write),
            LeftOut::R2 { write, read } => (write, read),
            LeftOut::Ws { from, to } => (from, to),
        };
        (usize::from(from), usize::from(to))
    }
}

/// Tells which of the writes that a process sends itself its local reads may read, in the execution of a pivot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reading {
    /// All such writes.
    #[default]
    Any,
    /// Those after which the process flushes their statement's target before the read.
    Flushed,
}

/// The part of happens-before that does not depend on choices, and what there is to choose.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The actions.
    pub actions: &'a [Action],
    /// The node of happens-before of each action: its own index, or the first action of an atomic get accumulate.
    node: SmallVec<[u8; 16]>,
    base: Option<Closure>,
    /// Atomic writes by location.
    writes: SmallVec<[(Loc, SmallVec<[u8; 8]>); 4]>,
    /// Atomic reads.
    reads: SmallVec<[u8; 16]>,
    has_plain: bool,
    left_out: Option<LeftOut>,
    reading: Option<Reading>,
    switches: Switches,
}

/// An execution.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// The problem.
    pub problem: &'a Problem<'a>,
    /// Happens-before.
    pub before: &'a Closure,
    /// The source of each action that is an atomic read.
    pub sources: &'a [Source],
}

/// Whether to go on after an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Find further executions.
    Continue,
    /// Stop.
    Stop,
}

impl<'a> Problem<'a> {
    /// Prepares the executions of actions under the rules of `switches`. `home` is the node of each process.
    pub fn new(actions: &'a [Action], home: impl Fn(u8) -> Node, switches: Switches) -> Problem<'a> {
        Problem::with_orders(actions, &orders(actions, home, switches), switches, None)
    }

    /// Prepares the executions in which one application of a rule is left out; `orders` are the pairs of all rules.
    pub fn with_orders(
        actions: &'a [Action],
        orders: &[Order],
        switches: Switches,
        left_out: Option<LeftOut>,
    ) -> Problem<'a> {
        let node = nodes(actions, switches);
        let mut problem = Problem {
            actions,
            node,
            base: Some(Closure::new(actions.len())),
            writes: SmallVec::new(),
            reads: SmallVec::new(),
            has_plain: false,
            left_out,
            reading: None,
            switches,
        };
        let mut base = Closure::new(actions.len());
        let dropped =
            |o: &Order| matches!(left_out, Some(LeftOut::Pair(p)) if (p.from, p.to) == (o.from, o.to));
        for order in orders.iter().filter(|o| !dropped(o)) {
            if !problem.add(&mut base, order.from, order.to) {
                problem.base = None;
                return problem;
            }
        }
        problem.base = Some(base);
        for (at, action) in actions.iter().enumerate() {
            let Some(loc) = action.loc else { continue };
            problem.has_plain |= !action.atomic;
            if action.atomic && action.reads() {
                problem.reads.push(at as u8);
            }
            if action.atomic && action.writes() {
                match problem.writes.iter_mut().find(|(of, _)| *of == loc) {
                    Some((_, writes)) => writes.push(at as u8),
                    None => problem.writes.push((loc, SmallVec::from_slice(&[at as u8]))),
                }
            }
        }
        problem
    }

    /// Asks only for executions in which each local read of a location reads from a different write, and from no
    /// initial one.
    pub fn each_write_read_once(mut self, reading: Reading) -> Problem<'a> {
        self.reading = Some(reading);
        self
    }

    /// Returns the happens-before of the program alone, unless it has a cycle.
    pub fn base(&self) -> Option<&Closure> {
        self.base.as_ref()
    }

    /// Returns the rules.
    pub fn switches(&self) -> Switches {
        self.switches
    }

    /// Returns whether some access is not atomic.
    pub fn has_plain(&self) -> bool {
        self.has_plain
    }

    /// Returns the node of happens-before of an action: itself, or the first action of an atomic get accumulate.
    pub fn node(&self, action: u8) -> u8 {
        self.node[usize::from(action)]
    }

    /// Adds a pair, unless it closes a cycle. Returns whether the relation is still acyclic with the pair. Inside one
    /// node of happens-before only program order remains.
    #[inline]
    pub fn add(&self, closure: &mut Closure, a: u8, b: u8) -> bool {
        let (x, y) = (self.node[usize::from(a)], self.node[usize::from(b)]);
        if x == y && a != b {
            return a < b;
        }
        closure.add(usize::from(x), usize::from(y))
    }

    /// Returns whether `a` happens before `b`.
    #[inline]
    pub fn is_before(&self, closure: &Closure, a: usize, b: usize) -> bool {
        let (x, y) = (self.node[a], self.node[b]);
        if x == y {
            return a < b;
        }
        closure.has(usize::from(x), usize::from(y))
    }

    /// Visits every execution until `visit` says to stop. Returns whether `visit` said so.
    pub fn visit(&self, visit: &mut dyn FnMut(Execution<'_>) -> Next) -> bool {
        let Some(base) = &self.base else { return false };
        let mut choice = Choice {
            problem: self,
            orders: self.writes.iter().map(|_| SmallVec::new()).collect(),
            sources: SmallVec::from_elem(Source::Init, self.actions.len()),
            used: 0,
            visit,
        };
        match self.switches.has(Rule::Ws) {
            true => choice.order(0, base) == Next::Stop,
            // The writes of a location have no order; any list of them offers the reads their sources.
            false => {
                choice.orders = self.writes.iter().map(|(_, of)| of.clone()).collect();
                choice.read(0, base) == Next::Stop
            }
        }
    }

    /// Returns whether the write was flushed before the read, if this is demanded: with [`Reading::Flushed`], of
    /// writes that the reading process sent itself.
    fn is_flushed(&self, write: u8, read: u8) -> bool {
        if self.reading != Some(Reading::Flushed) {
            return true;
        }
        let (from, to) = (usize::from(write), usize::from(read));
        let (w, r) = (&self.actions[from], &self.actions[to]);
        if w.is_local() || w.process != r.process {
            return true;
        }
        let statement = self.actions[usize::from(w.first)..]
            .iter()
            .take_while(|a| a.first == w.first);
        let target = statement.clone().find_map(|a| a.target);
        let between = self.actions.iter().take(to).skip(from);
        between
            .clone()
            .any(|a| a.kind == Kind::Flush && a.target == target)
    }

    /// Returns the index of a location in `writes`, if it has atomic writes.
    fn place(&self, loc: Loc) -> Option<usize> {
        self.writes.iter().position(|(of, _)| *of == loc)
    }
}

/// Returns the node of each action.
fn nodes(actions: &[Action], switches: Switches) -> SmallVec<[u8; 16]> {
    let is_rga = |first: u8| {
        let of = actions[usize::from(first)..]
            .iter()
            .take_while(|a| a.first == first);
        of.count() == 3
    };
    let merged = |a: &Action| switches.atomic_rga && is_rga(a.first);
    let own = actions.iter().enumerate();
    own.map(|(at, a)| if merged(a) { a.first } else { at as u8 })
        .collect()
}

/// Choices under way.
struct Choice<'a, 'v> {
    problem: &'a Problem<'a>,
    orders: SmallVec<[SmallVec<[u8; 8]>; 4]>,
    sources: SmallVec<[Source; 16]>,
    /// Writes that a local read already reads from.
    used: u64,
    visit: &'v mut dyn FnMut(Execution<'_>) -> Next,
}

impl Choice<'_, '_> {
    /// Orders the writes of location `at` and of those after it.
    fn order(&mut self, at: usize, closure: &Closure) -> Next {
        let problem = self.problem;
        let Some((_, writes)) = problem.writes.get(at) else {
            return self.read(0, closure);
        };
        if self.orders[at].len() == writes.len() {
            return self.order(at + 1, closure);
        }
        for &write in writes {
            let chosen = &self.orders[at];
            let others = || writes.iter().filter(|&&w| w != write && !chosen.contains(&w));
            let too_early = |&w: &u8| problem.is_before(closure, usize::from(w), usize::from(write));
            if chosen.contains(&write) || others().any(too_early) {
                continue;
            }
            let mut closure = closure.clone();
            let kept = |w: u8| !self.is_pair(w, write);
            // Without a left-out pair the last one is enough, because the others are before it.
            let ordered = chosen
                .iter()
                .filter(|&&w| kept(w))
                .all(|&w| problem.add(&mut closure, w, write));
            // A pair that is left out is looked at in one order only, the opposite of its own.
            let wrong_way = chosen.iter().any(
                |&w| matches!(problem.left_out, Some(LeftOut::Ws { from, to }) if (from, to) == (w, write)),
            );
            if !ordered || wrong_way {
                continue;
            }
            self.orders[at].push(write);
            let next = self.order(at, &closure);
            self.orders[at].pop();
            if next == Next::Stop {
                return next;
            }
        }
        Next::Continue
    }

    /// Returns whether WS and R1 are left out for these writes.
    fn is_pair(&self, w: u8, v: u8) -> bool {
        matches!(self.problem.left_out, Some(LeftOut::Ws { from, to }) if (from, to) == (w, v) || (from, to) == (v, w))
    }

    /// Chooses the source of read `at` and of those after it.
    fn read(&mut self, at: usize, closure: &Closure) -> Next {
        let problem = self.problem;
        let Some(&read) = problem.reads.get(at) else {
            return self.end(closure);
        };
        let action = &problem.actions[usize::from(read)];
        let once = problem.reading.is_some() && action.is_local();
        let place = action.loc.and_then(|loc| problem.place(loc));
        let writes = place.map(|p| self.orders[p].clone()).unwrap_or_default();
        if !once {
            let mut closure = closure.clone();
            if self.before_all(read, None, &writes, &mut closure) {
                self.sources[usize::from(read)] = Source::Init;
                if self.read(at + 1, &closure) == Next::Stop {
                    return Next::Stop;
                }
            }
        }
        for (index, &write) in writes.iter().enumerate() {
            if write == read || (once && (self.used >> write & 1 == 1 || !problem.is_flushed(write, read))) {
                continue;
            }
            let mut closure = closure.clone();
            let applies =
                problem.switches.has(Rule::R2) && problem.left_out != Some(LeftOut::R2 { write, read });
            if applies && !problem.add(&mut closure, write, read) {
                continue;
            }
            if !self.before_all(read, Some(write), &writes[index + 1..], &mut closure) {
                continue;
            }
            self.sources[usize::from(read)] = Source::Write(write);
            let used = self.used;
            if once {
                self.used |= 1 << write;
            }
            let next = self.read(at + 1, &closure);
            self.used = used;
            if next == Next::Stop {
                return next;
            }
        }
        let plain = |a: &Action| !a.atomic && a.writes() && a.loc == action.loc;
        if problem.has_plain && problem.actions.iter().any(plain) {
            self.sources[usize::from(read)] = Source::Plain;
            return self.read(at + 1, closure);
        }
        Next::Continue
    }

    /// Applies R1: the read, which reads from `source`, precedes the later writes. Without WS happens-before says which these are, when
    /// all choices are made ([`Self::ordered_reads`]).
    fn before_all(&self, read: u8, source: Option<u8>, later: &[u8], closure: &mut Closure) -> bool {
        let switches = self.problem.switches;
        if !switches.has(Rule::R1) || !switches.has(Rule::Ws) {
            return true;
        }
        later.iter().all(|&write| {
            let left_out = self.problem.left_out == Some(LeftOut::R1 { read, write })
                || source.is_some_and(|source| self.is_pair(source, write));
            write == read || left_out || self.problem.add(closure, read, write)
        })
    }

    /// Returns whether the rule that is left out would apply with the choices made.
    fn is_applied(&self, left_out: LeftOut) -> bool {
        match left_out {
            LeftOut::Pair(_) | LeftOut::Ws { .. } => true,
            LeftOut::R2 { write, read } => self.sources[usize::from(read)] == Source::Write(write),
            LeftOut::R1 { read, write } => match self.sources[usize::from(read)] {
                Source::Init => true,
                Source::Plain => false,
                // R1 is about writes after the one that the read reads from.
                Source::Write(source) => self.orders.iter().any(|order| {
                    let place = |w: u8| order.iter().position(|&v| v == w);
                    matches!((place(source), place(write)), (Some(s), Some(w)) if s < w)
                }),
            },
        }
    }

    /// Applies R1 without WS: a read precedes the writes that happen after the one that it reads from. Returns nothing if this closes a
    /// cycle.
    fn ordered_reads(&self, closure: &Closure) -> Option<Closure> {
        let problem = self.problem;
        let mut closure = closure.clone();
        loop {
            let before = closure.clone();
            for &read in &problem.reads {
                let place = problem.actions[usize::from(read)]
                    .loc
                    .and_then(|l| problem.place(l));
                let writes = place.map_or(&[][..], |place| problem.writes[place].1.as_slice());
                for &write in writes.iter().filter(|&&write| write != read) {
                    let is_later = match self.sources[usize::from(read)] {
                        Source::Init => true,
                        Source::Write(source) => {
                            problem.is_before(&before, usize::from(source), usize::from(write))
                        }
                        Source::Plain => false,
                    };
                    if is_later && !problem.add(&mut closure, read, write) {
                        return None;
                    }
                }
            }
            if closure == before {
                return Some(closure);
            }
        }
    }

    /// Visits the execution if it is one: what was demanded holds, and reads of writes that are not atomic are possible.
    fn end(&mut self, closure: &Closure) -> Next {
        let problem = self.problem;
        let ordered;
        let closure = match problem.switches {
            switches if switches.has(Rule::R1) && !switches.has(Rule::Ws) => {
                ordered = self.ordered_reads(closure);
                match &ordered {
                    Some(closure) => closure,
                    None => return Next::Continue,
                }
            }
            _ => closure,
        };
        if let Some(left_out) = problem.left_out {
            if !self.is_applied(left_out) {
                return Next::Continue;
            }
            let (from, to) = left_out.pair();
            if !problem.is_before(closure, to, from) {
                return Next::Continue;
            }
        }
        let execution = Execution {
            problem,
            before: closure,
            sources: &self.sources,
        };
        if problem.has_plain && !execution.plain_reads_are_possible() {
            return Next::Continue;
        }
        (self.visit)(execution)
    }
}

impl Execution<'_> {
    /// Returns whether action `at` conflicts with a write: one to its location that happens-before does not order with it, one
    /// of the two not being atomic (coreRMA'16 section 5.2: `conflict` of a read, `wconflict` of a write).
    pub fn conflicts(&self, at: usize) -> bool {
        self.conflict(at).is_some()
    }

    /// Returns the first write with which action `at` conflicts.
    pub fn conflict(&self, at: usize) -> Option<u8> {
        if !self.problem.has_plain {
            return None;
        }
        let action = &self.problem.actions[at];
        let is_conflict = |(other, b): (usize, &Action)| {
            other != at
                && b.loc == action.loc
                && b.writes()
                && (!action.atomic || !b.atomic)
                && !self.problem.is_before(self.before, at, other)
                && !self.problem.is_before(self.before, other, at)
        };
        // ACTIONS_MAX is 64.
        let found = self.problem.actions.iter().enumerate().position(is_conflict);
        found.map(|other| other as u8)
    }

    /// Returns the writes of a location that happen before `at` and before no other such write.
    pub fn latest(&self, loc: Loc, at: Option<usize>) -> SmallVec<[u8; 4]> {
        let earlier = |w: &usize| at.is_none_or(|at| self.problem.is_before(self.before, *w, at));
        let writes = || {
            let all = self.problem.actions.iter().enumerate();
            all.filter(|(_, a)| a.writes() && a.loc == Some(loc))
                .map(|(w, _)| w)
                .filter(earlier)
        };
        let is_last = |&w: &usize| !writes().any(|v| self.problem.is_before(self.before, w, v));
        writes().filter(is_last).map(|w| w as u8).collect()
    }

    /// Returns whether each atomic read without a conflict reads from a write that happens-before leaves visible.
    fn plain_reads_are_possible(&self) -> bool {
        self.problem.reads.iter().all(|&read| {
            let at = usize::from(read);
            let Some(loc) = self.problem.actions[at].loc else {
                return true;
            };
            if self.conflicts(at) {
                return true;
            }
            // Writes that are not atomic are all ordered with the read.
            let latest = self.latest(loc, Some(at));
            let is_atomic = |w: &u8| self.problem.actions[usize::from(*w)].atomic;
            let is_free = !self.problem.switches.reads_are_coherent();
            match self.sources[at] {
                Source::Init => is_free || latest.is_empty(),
                Source::Write(w) => is_free || latest.contains(&w),
                Source::Plain => latest.iter().any(|w| !is_atomic(w)),
            }
        })
    }
}
