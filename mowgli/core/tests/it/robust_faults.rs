//! Fault seeding for robustness: every cell of Fig. 5, every line of guaranteed-before and every clause of the conditions, changed one
//! at a time, must be noticed. What is not noticed is listed with the reason why the change leaves everything as it is.

use mowgli::catalogue;
use mowgli::event::Kind;
use mowgli::generate::families::Family;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::Budget;
use mowgli::program::{Expr, Instr, Loc, Location, Node, Program, PutSrc, Thread};
use mowgli::robust::clauses::{Clause, Clauses};
use mowgli::robust::fig5::{self, Cell, FIG5, Need};
use mowgli::robust::gb::RULES;
use mowgli::robust::{self, Definition, Question, Trace, Traces};

fn suite() -> impl Iterator<Item = (Family, Program)> {
    (0..100u64).flat_map(|seed| Family::ALL.map(|family| (family, family.program(seed))))
}

fn model(family: Family) -> Model {
    match family {
        Family::Waiting => Model::RdmaWait,
        _ => Model::RdmaTso,
    }
}

/// The tests of the paper and of the ordering tables, and each of them without one of its instructions.
fn neighbours() -> impl Iterator<Item = Program> {
    let all = catalogue::entries()
        .iter()
        .filter(|e| ["robust25", "tables"].contains(&e.folder));
    all.flat_map(|entry| {
        let program = entry.parse().unwrap().program;
        let mut out = vec![program.clone()];
        for thread in 0..program.threads.len() {
            for at in 0..program.threads[thread].code.len() {
                let mut smaller = program.clone();
                smaller.threads[thread].code.remove(at);
                out.push(smaller);
            }
        }
        out
    })
}

#[test]
fn every_dropped_clause_is_noticed() {
    let random = suite().map(|(family, program)| (model(family), program));
    let cases: Vec<_> = random
        .chain(neighbours().map(|program| (Model::RdmaTso, program)))
        .map(|(model, program)| {
            let naive = crate::robust_naive::verdicts(&program, model, RmwAtomicity::Hca, false);
            (program, model, naive)
        })
        .collect();
    let notices = |clauses: Clauses| {
        cases.iter().any(|(program, model, naive)| {
            let question = Question::of(*model);
            let definition = Definition {
                clauses,
                ..Definition::of(&question.spec())
            };
            let found = robust::conditions_by(program, &question, &definition, &Budget::default());
            let known = found.tree_fenced.holds() || found.tree_fenced.reason().is_some();
            let same = (
                found.ldrf.holds(),
                found.fenced.holds(),
                found.tree_fenced.holds(),
            ) == (naive.ldrf, naive.fenced, naive.tree_fenced);
            known && found.pre_executions > 0 && !same
        })
    };
    assert!(!notices(Clauses::ALL));
    for clause in Clause::ALL {
        assert!(notices(Clauses::ALL.without(clause)), "{clause:?} can be dropped");
    }
}

/// Lines of guaranteed-before that the closure of the others contains.
const HARMLESS_LINES: [(&str, &str); 5] = [
    (
        "C1-C6",
        "oppo C9 leads to the local write, and its poll is the line E1-E8",
    ),
    (
        "D1-D8",
        "oppo D9 leads to the local write, and its poll is the line E1-E8",
    ),
    ("D6-D8", "oppo D6 leads to the fence, and oppo F2 to F5 from it"),
    (
        "F1-F6",
        "oppo orders the atomic read before the local write, and its poll is the line E1-E8",
    ),
    (
        "F6",
        "oppo orders the atomic read before the fence, and oppo F2 leads from it",
    ),
];

#[test]
fn every_dropped_line_of_guaranteed_before_is_noticed_or_redundant() {
    let traces: Vec<(Definition, Vec<Trace>)> = suite()
        .map(|(family, program)| {
            let definition = Definition::of(&Spec::of(model(family), RmwAtomicity::Hca));
            let traces = Traces::new(&program, &definition, &Budget::default()).unwrap();
            (definition, traces.threads.into_iter().flatten().collect())
        })
        .collect();
    for (line, rule) in RULES.iter().enumerate() {
        let noticed = traces.iter().any(|(definition, traces)| {
            let mut changed = definition.clone();
            changed.rules.remove(line);
            traces
                .iter()
                .any(|t| changed.guaranteed_before(&t.events, &t.pf) != t.gb)
        });
        let harmless = HARMLESS_LINES.iter().any(|(cells, _)| *cells == rule.cells);
        assert_eq!(noticed, !harmless, "the line {} is dropped", rule.cells);
    }
}

/// Decides by one entry of the figure whether a pair is ordered.
fn satisfied(trace: &Trace, need: Need, a: usize, b: usize) -> bool {
    let events = &trace.events;
    let polled = |e: usize| {
        trace
            .pf
            .iter()
            .any(|&(w, p)| p < b && events[w].same_instruction(&events[e]))
    };
    let fence = || (a..b).any(|f| events[f].kind == Kind::NicFence && events[f].same_queue_pair(&events[a]));
    // A get or read-modify-write after the earlier operation on its queue pair, and a poll of it.
    let flushed = || {
        trace.pf.iter().any(|&(w, p)| {
            let later =
                a < w && events[w].kind == Kind::NicLocalWrite && events[w].same_queue_pair(&events[a]);
            later && p < b && !events[w].same_instruction(&events[a])
        })
    };
    match need {
        Need::Given => true,
        Need::Poll => polled(a),
        Need::Fence => polled(a) || fence(),
        Need::GetAndPoll => flushed(),
        Need::MemoryFence | Need::Impossible => unreachable!("not in the figure"),
    }
}

/// Cells that no pair is in, because a CPU event is on no queue pair.
const EMPTY_CELLS: [&str; 5] = ["A6", "A7", "A8", "A9", "A11"];

/// Every thread of an operation, up to three separators, and another operation.
fn separated() -> Vec<Trace> {
    let (near, far): ([u16; 2], [u16; 2]) = ([0, 1], [2, 3]);
    let get = |at: u16| Instr::Get {
        dst: Loc(near[0]),
        src: Loc(at),
        work: None,
    };
    let put = |at: u16| Instr::Put {
        dst: Loc(at),
        src: PutSrc::Loc(Loc(near[1])),
        work: None,
    };
    let add = |at: u16| Instr::RemoteFaa {
        dst: Loc(near[0]),
        target: Loc(at),
        add: Expr::Const(1),
        work: None,
    };
    let store = Instr::Store {
        loc: Loc(near[0]),
        value: Expr::Const(1),
    };
    let first = [store.clone(), get(far[0]), put(far[0]), add(far[0])];
    let second = [
        store,
        get(far[0]),
        put(far[0]),
        add(far[0]),
        get(far[1]),
        put(far[1]),
        add(far[1]),
    ];
    let between = [
        Instr::Rfence { node: Node(1) },
        Instr::Rfence { node: Node(2) },
        Instr::Poll { node: Node(1) },
        get(far[0]),
        put(far[0]),
    ];
    let mut middles: Vec<Vec<Instr>> = vec![Vec::new()];
    for start in 0..156 - 125 {
        for instr in &between {
            middles.push([middles[start].as_slice(), std::slice::from_ref(instr)].concat());
        }
    }
    let definition = Definition::of(&Spec::of(Model::RdmaSc, RmwAtomicity::Hca));
    let mut out = Vec::new();
    for (a, b) in first.iter().flat_map(|a| second.iter().map(move |b| (a, b))) {
        for middle in &middles {
            let code = [std::slice::from_ref(a), middle, std::slice::from_ref(b)].concat();
            let program = Program {
                nodes: 3,
                locations: [0, 0, 1, 2]
                    .map(|node| Location {
                        name: "x".to_owned(),
                        node: Node(node),
                        init: 0,
                        relaxed: false,
                    })
                    .to_vec(),
                threads: vec![Thread {
                    name: "P0".to_owned(),
                    node: Node(0),
                    registers: Vec::new(),
                    work_ids: Vec::new(),
                    code,
                }],
            };
            let traces = Traces::new(&program, &definition, &Budget::default()).unwrap();
            out.extend(traces.threads.into_iter().flatten());
        }
    }
    out
}

/// Returns whether the closure orders a pair without what the figure asks for: in C6 and E8 of the paper, and in E11, which is E8 with a
/// read-modify-write in place of the get.
fn by_closure(trace: &Trace, cell: Cell, a: usize, b: usize) -> bool {
    let events = &trace.events;
    let here = |e: usize| events[e].same_queue_pair(&events[a]);
    let fence = |f: usize| events[f].kind == Kind::NicFence && here(f);
    let flush = |e: usize| matches!(events[e].kind, Kind::NicRemoteRead | Kind::NicAtomicRead) && here(e);
    let source = |e: usize| events[e].kind == Kind::NicLocalRead && here(e);
    match cell.to_string().as_str() {
        "C6" => (a..b).any(|f| fence(f) && (a..f).any(flush)),
        "E8" | "E11" => (a..b).any(|f| fence(f) && (f..b).any(source)),
        _ => false,
    }
}

/// Returns whether a figure and guaranteed-before agree on the pairs of a cell.
fn agrees(figure: &[[Need; 11]; 6], traces: &[Trace], at: usize, cell: Cell) -> bool {
    let spec = Spec::of(Model::RdmaSc, RmwAtomicity::Hca);
    traces.iter().all(|trace| {
        trace.po().all(|(a, b)| {
            let events = (&trace.events[a], &trace.events[b]);
            if Cell::of(events.0, events.1) != Some(cell) {
                return true;
            }
            let ordered = trace.gb.contains(a, b);
            // The writes of read-modify-writes are in two cells an exception, which no change of the figure touches.
            match fig5::need(&spec, events.0, events.1) {
                Some(Need::Impossible) => !ordered,
                Some(need) if need != FIG5[at / 11][at % 11] => !satisfied(trace, need, a, b) || ordered,
                _ => {
                    let by_figure = satisfied(trace, figure[at / 11][at % 11], a, b);
                    ordered == (by_figure || by_closure(trace, cell, a, b))
                }
            }
        })
    })
}

#[test]
fn every_changed_cell_of_fig_5_is_noticed() {
    let traces = separated();
    for (at, cell) in Cell::all().enumerate() {
        assert!(
            agrees(&FIG5, &traces, at, cell),
            "the figure is wrong in cell {cell}"
        );
        if EMPTY_CELLS.contains(&cell.to_string().as_str()) {
            continue;
        }
        for entry in [Need::Given, Need::Poll, Need::Fence, Need::GetAndPoll] {
            let mut figure = FIG5;
            figure[at / 11][at % 11] = entry;
            if figure != FIG5 {
                assert!(
                    !agrees(&figure, &traces, at, cell),
                    "cell {cell} may be {entry:?}"
                );
            }
        }
    }
}
