//! Plain executions (LOCO'26 Def. 3.2): what a thread may do, for all results that its calls might return.
//!
//! The paper lets a call return any value; here it returns those that some consistent execution can justify. What reads may
//! find is computed first: a set of values for each location, grown until nothing is added, as often as there are
//! writes, since every value read stems from a chain of different writes. A location that only its own thread's CPU
//! writes holds the last such write, so that counters and heads of implementations need no guess.
//!
//! Threads are run, not unfolded: the code of a client or an implementation asks for the result of a call and gets one
//! after the other, by running again from the start with the next choice.

use std::collections::BTreeSet;

use mowgli::outcome::Limit;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::client::{self, Client, Expr, Method, Node, Stmt};
use crate::event::{Arg, Event, Loc, Wid};
use crate::implementation::Implementation;
use crate::library::{Effect, Libraries, initial};
use crate::value::Value;

/// Most runs of a thread that are considered.
pub const RUNS_MAX: usize = 50_000;
/// Most events of a run.
pub const EVENTS_MAX: usize = 96;

/// What runs: libraries, and implementations above them, each of which may call those after it.
#[derive(Default)]
pub struct Rules<'a> {
    /// Specifications of the libraries that are called.
    pub libraries: Libraries<'a>,
    /// Implementations, upper ones first.
    pub implementations: Vec<&'a dyn Implementation>,
    /// Most iterations of a client's loop.
    pub iterations_max: u32,
}

/// Why a run ends before its code does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It waits for ever: there is no execution with this choice.
    Blocked,
    /// It is longer than what is considered.
    Bound,
}

/// A result, unless the run was cut.
pub type Run<T> = Result<T, Cut>;

/// What one thread did, to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRun {
    /// Its events, in program order.
    pub events: Vec<Event>,
    /// The calls of the client's text that it made, in program order, with their results: what the events are when
    /// nothing is implemented (`E'` of LOCO'26 Def. 3.11).
    pub calls: Vec<Event>,
    /// Its registers at the end.
    pub registers: Vec<Value>,
}

/// Everything that the threads may do.
#[derive(Debug)]
pub struct Plain {
    /// By thread.
    pub runs: Vec<Vec<ThreadRun>>,
    /// What was left out, if something was.
    pub limit: Option<Limit>,
}

/// What may be found at a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    values: BTreeSet<Value>,
    writer: Writer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Nobody,
    /// The CPU of this thread only.
    Cpu(u8),
    Several,
}

type Domain = FxHashMap<Loc, Entry>;

/// What a call's results may depend on: what its thread did before, and what may be found where.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// The client.
    pub client: &'a Client,
    /// The thread.
    pub thread: u8,
    events: &'a [Event],
    own: &'a FxHashMap<Loc, Value>,
    domain: &'a Domain,
}

impl Past<'_> {
    /// The thread's node.
    pub fn node(&self) -> Node {
        self.client.threads[usize::from(self.thread)].node
    }

    /// The values that a CPU read of the location may return.
    pub fn read(&self, loc: Loc, init: Value) -> Vec<Value> {
        let entry = self.domain.get(&loc);
        match entry.map_or(Writer::Nobody, |e| e.writer) {
            Writer::Cpu(thread) if thread == self.thread => {
                vec![self.own.get(&loc).cloned().unwrap_or(init)]
            }
            Writer::Nobody if self.own.contains_key(&loc) => vec![self.own[&loc].clone()],
            _ => {
                let mut out: Vec<Value> = entry.map_or_else(Vec::new, |e| e.values.iter().cloned().collect());
                if !out.contains(&init) {
                    out.push(init);
                }
                out
            }
        }
    }

    /// The values that are written to the location by anybody.
    pub fn written(&self, loc: Loc) -> Vec<Value> {
        self.domain
            .get(&loc)
            .map_or_else(Vec::new, |e| e.values.iter().cloned().collect())
    }

    /// How many of the thread's earlier events are so.
    pub fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|e| is(e)).count()
    }
}

/// A thread that runs: what code calls.
pub struct Caller<'a> {
    client: &'a Client,
    rules: &'a Rules<'a>,
    thread: u8,
    domain: &'a Domain,
    /// The choices of this run: which of how many.
    choices: Vec<(usize, usize)>,
    chosen: usize,
    level: usize,
    events: Vec<Event>,
    calls: Vec<Event>,
    own: FxHashMap<Loc, Value>,
    effects: Vec<Effect>,
}

impl<'a> Caller<'a> {
    /// The client.
    pub fn client(&self) -> &'a Client {
        self.client
    }

    /// The thread.
    pub fn thread(&self) -> u8 {
        self.thread
    }

    /// The thread's node.
    pub fn node(&self) -> Node {
        self.client.threads[usize::from(self.thread)].node
    }

    /// Calls a method: of the next implementation below that has its library, else of the library.
    ///
    /// # Errors
    ///
    /// The run ends here.
    pub fn call(&mut self, method: Method, args: &[Arg]) -> Run<Value> {
        let level = self.level;
        let below = self.rules.implementations.iter().enumerate().skip(level);
        let found = below.into_iter().find(|(_, i)| i.library() == method.library());
        let Some((at, implementation)) = found else {
            return self.event(method, args);
        };
        self.level = at + 1;
        let result = implementation.run(self, method, args);
        self.level = level;
        result
    }

    /// Waits until the condition holds. One look is enough: an execution in which it looks again, and the looks
    /// before the last found something else, stays consistent without those.
    ///
    /// # Errors
    ///
    /// The run ends here, always if the condition does not hold.
    pub fn until(&mut self, condition: impl FnOnce(&mut Self) -> Run<bool>) -> Run<()> {
        if condition(self)? {
            Ok(())
        } else {
            Err(Cut::Blocked)
        }
    }

    fn event(&mut self, method: Method, args: &[Arg]) -> Run<Value> {
        let Some(specification) = self.rules.libraries.get(method.library()) else {
            return Err(Cut::Blocked);
        };
        if self.events.len() == EVENTS_MAX {
            return Err(Cut::Bound);
        }
        let past = Past {
            client: self.client,
            thread: self.thread,
            events: &self.events,
            own: &self.own,
            domain: self.domain,
        };
        let mut results = specification.results(&past, method, args);
        if results.is_empty() {
            return Err(Cut::Blocked);
        }
        let at = match results.len() {
            1 => 0,
            n => {
                let at = self.choices.get(self.chosen).map_or(0, |c| c.0);
                if self.chosen == self.choices.len() {
                    self.choices.push((0, n));
                }
                self.chosen += 1;
                at
            }
        };
        let event = Event {
            thread: self.thread,
            method,
            args: args.iter().cloned().collect(),
            result: results.swap_remove(at),
            serves: self.calls.len() as u16,
        };
        let effects = specification.effects(&past, &event);
        for effect in &effects {
            if let Effect::Write(loc, value) = effect {
                self.own.insert(*loc, value.clone());
            }
        }
        self.effects.extend(effects);
        let result = event.result.clone();
        self.events.push(event);
        Ok(result)
    }

    /// Runs a client's code to its end or to a break, which is how many loops to leave.
    fn body(&mut self, body: &[Stmt], registers: &mut Vec<Value>) -> Run<u32> {
        for stmt in body {
            let left = match stmt {
                Stmt::Call { result, call } => {
                    let args: SmallVec<[Arg; 3]> =
                        call.args.iter().map(|arg| self.arg(arg, registers)).collect();
                    let value = self.call(call.method, &args)?;
                    self.calls.push(Event {
                        thread: self.thread,
                        method: call.method,
                        args,
                        result: value.clone(),
                        serves: self.calls.len() as u16,
                    });
                    if let Some(reg) = result {
                        registers[usize::from(reg.0)] = value;
                    }
                    0
                }
                Stmt::Assign { reg, value } => {
                    registers[usize::from(reg.0)] = value.eval(registers);
                    0
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    let branch = if cond.eval(registers).truth() {
                        then
                    } else {
                        otherwise
                    };
                    self.body(branch, registers)?
                }
                Stmt::Loop(body) => self.repeat(body, registers)?,
                Stmt::Break(levels) => *levels,
            };
            if left > 0 {
                return Ok(left);
            }
        }
        Ok(0)
    }

    fn repeat(&mut self, body: &[Stmt], registers: &mut Vec<Value>) -> Run<u32> {
        for _ in 0..self.rules.iterations_max {
            let left = self.body(body, registers)?;
            if left > 0 {
                return Ok(left - 1);
            }
        }
        Err(Cut::Bound)
    }

    fn arg(&self, arg: &client::Arg, registers: &[Value]) -> Arg {
        match arg {
            client::Arg::Object(object) => Arg::Loc(Loc::of(self.client, *object)),
            client::Arg::Value(e) => Arg::Value(plain_number(e, registers)),
            client::Arg::Work(work) => Arg::Work(Wid(u32::from(work.0))),
            client::Arg::Node(node) => Arg::Node(*node),
            client::Arg::Nodes(nodes) => Arg::Nodes(*nodes),
        }
    }
}

/// The value of an argument: truth values and `⊥` as the numbers that they count for.
fn plain_number(e: &Expr, registers: &[Value]) -> Value {
    match e.eval(registers) {
        tuple @ Value::Tuple(_) => tuple,
        other => Value::Int(other.number()),
    }
}

/// All that a client's threads may do.
pub fn runs(client: &Client, rules: &Rules<'_>) -> Plain {
    let mut domain = Domain::default();
    let mut rounds = 0;
    loop {
        let mut found = Found::default();
        let mut out = Plain {
            runs: Vec::new(),
            limit: None,
        };
        for thread in 0..client.threads.len() {
            let limit = thread_runs(client, rules, thread as u8, &domain, &mut found, &mut out.runs);
            out.limit = out.limit.or(limit);
        }
        let grown = found.domain(client);
        rounds += 1;
        if out.limit.is_some() || grown == domain || rounds > found.writes_max + 1 {
            return out;
        }
        domain = grown;
    }
}

/// Effects found in a round.
#[derive(Default)]
struct Found {
    writes: Vec<(u8, Effect)>,
    writes_max: usize,
}

impl Found {
    fn add(&mut self, thread: u8, effects: &[Effect]) {
        for effect in effects {
            if !self.writes.iter().any(|(t, e)| *t == thread && e == effect) {
                self.writes.push((thread, effect.clone()));
            }
        }
    }

    fn domain(&self, client: &Client) -> Domain {
        let mut out = Domain::default();
        for (thread, effect) in &self.writes {
            let (loc, value, cpu) = match effect {
                Effect::Write(loc, value) => (loc, Some(value), true),
                Effect::Place(loc, value) => (loc, Some(value), false),
                Effect::Copy { to, .. } => (to, None, false),
            };
            let entry = out.entry(*loc).or_default();
            entry.values.extend(value.cloned());
            entry.writer = match (entry.writer, cpu) {
                (Writer::Nobody, true) => Writer::Cpu(*thread),
                (Writer::Cpu(t), true) if t == *thread => Writer::Cpu(t),
                _ => Writer::Several,
            };
        }
        loop {
            let mut grown = false;
            for (_, effect) in &self.writes {
                let Effect::Copy { to, from } = effect else {
                    continue;
                };
                let mut values = out.get(from).map(|e| e.values.clone()).unwrap_or_default();
                values.insert(initial(client, *from));
                let entry = out.entry(*to).or_default();
                let before = entry.values.len();
                entry.values.extend(values);
                grown |= entry.values.len() != before;
            }
            if !grown {
                return out;
            }
        }
    }
}

/// The runs of one thread, added to `out`.
fn thread_runs(
    client: &Client,
    rules: &Rules<'_>,
    thread: u8,
    domain: &Domain,
    found: &mut Found,
    out: &mut Vec<Vec<ThreadRun>>,
) -> Option<Limit> {
    let code = &client.threads[usize::from(thread)];
    let mut runs: Vec<ThreadRun> = Vec::new();
    let mut limit = None;
    let mut choices: Vec<(usize, usize)> = Vec::new();
    let mut writes = 0;
    let mut considered = 0;
    loop {
        let mut caller = Caller {
            client,
            rules,
            thread,
            domain,
            choices: std::mem::take(&mut choices),
            chosen: 0,
            level: 0,
            events: Vec::new(),
            calls: Vec::new(),
            own: FxHashMap::default(),
            effects: Vec::new(),
        };
        let mut registers = vec![Value::Int(0); code.registers.len()];
        let ended = caller.body(&code.body, &mut registers);
        // Cut runs count too: what they have written so far, others may read.
        found.add(thread, &caller.effects);
        writes = writes.max(caller.effects.len());
        match ended {
            Ok(_) => runs.push(ThreadRun {
                events: caller.events,
                calls: caller.calls,
                registers,
            }),
            Err(Cut::Blocked) => {}
            Err(Cut::Bound) => {
                limit = Some(Limit::LoopBound {
                    thread: usize::from(thread),
                    bound: rules.iterations_max,
                });
            }
        }
        considered += 1;
        choices = caller.choices;
        while let Some((at, of)) = choices.pop() {
            if at + 1 < of {
                choices.push((at + 1, of));
                break;
            }
        }
        if choices.is_empty() {
            break;
        }
        if considered == RUNS_MAX {
            limit = Some(Limit::TooLarge(format!(
                "more than RUNS_MAX ({RUNS_MAX}) runs of thread P{thread}"
            )));
            break;
        }
    }
    found.writes_max += writes;
    out.push(runs);
    limit
}
