//! Any client under any implementations as a program of `mowgli`: each thread chooses one of its runs, whose events are words.
//!
//! A run is a thread's events with the results that it assumes ([`mowgli_libraries::plain`]). Here the thread makes the same
//! accesses and goes on only if it finds these results. So the two engines judge the same executions, by different searches.

use std::collections::BTreeMap;

use mowgli::program::{Expr, Instr, Loc as Place, Location, Program, PutSrc, Reg, Thread, WorkId};
use mowgli_libraries::client::{Client, Method, Node};
use mowgli_libraries::event::{Arg, Event, Loc, Wid};
use mowgli_libraries::library::initial;
use mowgli_libraries::plain::{Plain, ThreadRun};
use mowgli_libraries::value::Value;

use crate::translate::{asking, is};

/// A program of `mowgli`, and the numbers that stand for values of the client's registers.
pub struct Translated {
    pub program: Program,
    values: BTreeMap<Value, i64>,
}

impl Translated {
    /// Returns the client's registers as the program ends with them.
    pub fn registers(&self, registers: &[Value]) -> Vec<i64> {
        registers.iter().map(|v| self.values[v]).collect()
    }
}

/// Translates the runs of a client, with all locations in relaxed regions or none.
pub fn translate(client: &Client, plain: &Plain, relaxed: bool) -> Translated {
    let mut locs: BTreeMap<Loc, Place> = BTreeMap::new();
    let mut values: BTreeMap<Value, i64> = BTreeMap::new();
    let mut threads = Vec::new();
    for (t, (thread, runs)) in client.threads.iter().zip(&plain.runs).enumerate() {
        let mut work: Vec<Wid> = Vec::new();
        let found = Reg(thread.registers.len() as u16);
        let blocks = runs.iter().map(|run| {
            let mut block: Vec<Instr> = run
                .events
                .iter()
                .flat_map(|e| instructions(e, found, &mut locs, &mut work))
                .collect();
            block.extend(ending(run, found, &mut values));
            block
        });
        let code = vec![Instr::Choose(blocks.collect())];
        threads.push(Thread {
            name: format!("P{t}"),
            node: thread.node,
            registers: thread
                .registers
                .iter()
                .cloned()
                .chain(["found".to_owned()])
                .collect(),
            work_ids: (0..work.len()).map(|w| format!("d{w}")).collect(),
            code,
        });
    }
    let mut places: Vec<(Place, Loc)> = locs.into_iter().map(|(loc, place)| (place, loc)).collect();
    places.sort_unstable();
    let location = |(place, loc): (Place, Loc)| Location {
        name: format!("x{}", place.0),
        node: Node(loc.node),
        init: initial(client, loc).number(),
        relaxed,
    };
    Translated {
        program: Program {
            nodes: client.nodes,
            locations: places.into_iter().map(location).collect(),
            threads,
        },
        values,
    }
}

/// Sets the client's registers to what they are at the end of a run.
fn ending(run: &ThreadRun, found: Reg, values: &mut BTreeMap<Value, i64>) -> Vec<Instr> {
    let mut number = |value: &Value| {
        let next = values.len() as i64;
        *values.entry(value.clone()).or_insert(next)
    };
    let registers = (0..).map(Reg).zip(&run.registers);
    let set = |reg, value| Instr::Assign {
        reg,
        value: Expr::Const(value),
    };
    let mut out: Vec<Instr> = registers.map(|(reg, value)| set(reg, number(value))).collect();
    out.push(set(found, 0));
    out
}

/// Translates an event of RDMA^WAIT, with the check that it finds what the run assumes.
fn instructions(e: &Event, found: Reg, locs: &mut BTreeMap<Loc, Place>, work: &mut Vec<Wid>) -> Vec<Instr> {
    let mut loc = |at: usize| {
        let next = Place(locs.len() as u16);
        *locs
            .entry(e.loc(at).expect("it names a location"))
            .or_insert(next)
    };
    let value = |at: usize| Expr::Const(e.value(at).number());
    let id = e.work().filter(|w| *w != Wid::NONE).map(|w| {
        let at = work.iter().position(|other| *other == w).unwrap_or_else(|| {
            work.push(w);
            work.len() - 1
        });
        WorkId(at as u16)
    });
    let accesses = match e.method.plain() {
        Method::Write => Instr::Store {
            loc: loc(0),
            value: value(1),
        },
        Method::Read => Instr::Load {
            reg: found,
            loc: loc(0),
        },
        Method::Cas => Instr::Cas {
            reg: Some(found),
            loc: loc(0),
            expected: value(1),
            new: value(2),
        },
        Method::Mfence => Instr::Mfence,
        Method::Put => Instr::Put {
            dst: loc(0),
            src: PutSrc::Loc(loc(1)),
            work: id,
        },
        Method::Get => Instr::Get {
            dst: loc(0),
            src: loc(1),
            work: id,
        },
        Method::Wait => Instr::Wait {
            work: id.expect("waits name an identifier"),
        },
        Method::Rfence => match e.args[0] {
            Arg::Node(node) => Instr::Rfence { node },
            ref other => panic!("{other:?} is no node"),
        },
        other => panic!("{other:?} is not of RDMA^WAIT"),
    };
    let checked = matches!(e.method, Method::Read | Method::Cas);
    let assumed = Instr::Assume(is(found, e.result.number()));
    std::iter::once(asking(accesses, e.method))
        .chain(checked.then_some(assumed))
        .collect()
}
