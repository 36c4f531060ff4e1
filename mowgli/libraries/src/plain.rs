//! Finds plain executions (LOCO'26 Def. 3.2): the runs of each thread, for all results that its calls might
//! return.
//!
//! The paper lets a call return any value. Here it returns the values that some consistent execution can
//! justify. The values that reads may find are computed first, as a set for each location. The sets grow
//! until nothing is added, for at most as many rounds as there are writes, since every value read comes from
//! a chain of different writes. A location that only its own thread's CPU writes holds the last such write,
//! so that counters and heads of implementations need no guess.
//!
//! Threads are run, not unfolded. The code of a client or an implementation asks for the result of a call. It
//! gets one result after the other, by running again from the start with the next choice.

use mowgli::outcome::{Budget, Limit};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::client::{self, Client, Expr, Stmt};
use crate::event::{Arg, Event, Loc, Wid};
use crate::implementation::{Caller, Cut, Rules, Run};
use crate::library::{Effect, initial};
use crate::past::{Domain, Writer};
use crate::value::Value;

/// The most runs of a thread that are considered.
pub const RUNS_MAX: usize = 50_000;
/// A run of one thread, to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRun {
    /// The thread's events, in program order.
    pub events: Vec<Event>,
    /// The calls of the client's text that the thread made, in program order, with their results. These are
    /// the events if nothing is implemented (`E'` of LOCO'26 Def. 3.11).
    pub calls: Vec<Event>,
    /// The thread's registers at the end.
    pub registers: Vec<Value>,
    /// The values that calls have found at locations, without initial ones.
    pub needs: Vec<(Loc, Value)>,
    /// The effects of the events.
    pub effects: Vec<Effect>,
}

/// The runs that the threads may make.
#[derive(Debug)]
pub struct Plain {
    /// The runs of each thread.
    pub runs: Vec<Vec<ThreadRun>>,
    /// The limit at which runs were left out, if any were.
    pub limit: Option<Limit>,
}

impl Caller<'_> {
    /// Runs a client's code to its end or to a break. Returns the number of loops to leave.
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

/// Returns the value of an argument. Truth values and `⊥` become the numbers that they count for.
fn plain_number(e: &Expr, registers: &[Value]) -> Value {
    match e.eval(registers) {
        tuple @ Value::Tuple(_) => tuple,
        other => Value::Int(other.number()),
    }
}

/// Returns all runs that a client's threads may make, or those that were found when the budget was used up.
pub fn runs(client: &Client, rules: &Rules<'_>, budget: Budget<'_>) -> Plain {
    let mut domain = Domain::default();
    let mut rounds = 0;
    loop {
        let mut found = Found::default();
        let mut out = Plain {
            runs: Vec::new(),
            limit: None,
        };
        for thread in 0..client.threads.len() {
            let limit = thread_runs(
                client,
                rules,
                thread as u8,
                &domain,
                budget,
                &mut found,
                &mut out.runs,
            );
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

/// The effects found in a round.
#[derive(Default)]
struct Found {
    writes: FxHashSet<(u8, Effect)>,
    writes_max: usize,
}

impl Found {
    fn add(&mut self, thread: u8, effects: &[Effect]) {
        for effect in effects {
            self.writes.insert((thread, effect.clone()));
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

/// Adds the runs of one thread to `out`.
fn thread_runs(
    client: &Client,
    rules: &Rules<'_>,
    thread: u8,
    domain: &Domain,
    budget: Budget<'_>,
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
            needs: Vec::new(),
        };
        let mut registers = vec![Value::Int(0); code.registers.len()];
        let ended = caller.body(&code.body, &mut registers);
        // Cut runs count too, because others may read what they have written so far.
        found.add(thread, &caller.effects);
        writes = writes.max(caller.effects.len());
        match ended {
            Ok(_) => runs.push(ThreadRun {
                events: caller.events,
                calls: caller.calls,
                registers,
                needs: caller.needs,
                effects: caller.effects,
            }),
            Err(Cut::Blocked) => {}
            Err(Cut::Bound) => {
                limit = Some(Limit::LoopBound {
                    thread: usize::from(thread),
                    bound: rules.iterations_max,
                    at: None,
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
        if let Some(reached) = budget.exceeded(0) {
            limit = Some(reached);
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
