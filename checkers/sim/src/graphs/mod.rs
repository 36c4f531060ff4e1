//! Turns an execution of object code into an execution graph of the declarative models, the graph that
//! `mowgli explain` draws.
//!
//! The recorder repeats a schedule and follows each value to its origin; it searches for nothing. The graph
//! omits the reads of a failed evaluation of a wait's condition, and words that only one thread's CPU ever
//! touches: neither says anything about memory. It also omits locks of the platform, which are no memory
//! events. Used on request, after an exploration.

pub(crate) mod film;
mod recorder;

use std::collections::BTreeMap;

use mowgli::event::{Event, Execution, Kind};
use mowgli::explain::{Drawing, Witness};
use mowgli::machine::Addr;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use mowgli::outcome::Outcome;
use mowgli::program::{Loc, Location, Node, Program, Thread, ThreadId};
use mowgli::relation::Relation;
use serde::Serialize;

use crate::exploring::script::Script;
use crate::exploring::walk::{Builder, Walker};
use crate::reports::schedule::Schedule;
use crate::reports::trace::name_of;
use crate::state::sharing::SeenAccesses;
use crate::state::{Common, State};
use crate::{Config, SimError};
use recorder::{Recorded, Recorder};

/// An execution of a world as a graph: events with values, and the relations of RDMA-TSO'24 Defs. 4.2 and 4.3.
#[derive(Clone, Debug, Serialize)]
pub struct ExecutionGraph {
    program: Program,
    witness: Witness,
    #[serde(skip)]
    model: Model,
    atomicity: RmwAtomicity,
}

impl ExecutionGraph {
    /// Returns nodes, words and threads of the graph, by the names that traces give them. The program has no
    /// code: the actions of the threads are in the execution.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the events and their relations.
    pub fn execution(&self) -> &Execution {
        &self.witness.execution
    }

    /// Returns whether the declarative model RDMA^TSO, over a network of the world's tier, accepts the execution. It must
    /// accept every execution of the machine.
    pub fn is_consistent(&self) -> bool {
        Spec::of(self.model, self.atomicity).is_consistent(self.execution())
    }

    /// Lays the graph out, with threads as columns and nodes as groups. The drawing can be printed as SVG and
    /// DOT.
    pub fn drawing(&self) -> Drawing {
        self.witness.drawing(&self.program)
    }

    /// Returns the graph as text: the events by thread, then the relations.
    pub fn text(&self) -> String {
        self.witness.render(&self.program)
    }
}

/// Returns the graph of the execution that `schedule` leads to, up to its failure or its end. Buffered writes
/// then take effect, so that each write has its place.
pub(crate) fn of(
    config: &Config,
    builder: Builder<'_>,
    schedule: &Schedule,
) -> Result<ExecutionGraph, SimError> {
    let common = Common::default();
    let mut walker = Walker::new(&common, config, builder, SeenAccesses::default());
    let mut at = walker.start()?;
    walker.settle(&mut at)?;
    let mut recorder = Recorder::new(&at.state);
    let mut script = Script::new(config, schedule);
    while let Some(what) = script.next_unless_failed(&mut walker, &mut at)? {
        recorder.see(&common, &mut at.state, what);
        walker.take(&mut at, what)?;
    }
    let mut steps = Vec::new();
    loop {
        steps.clear();
        at.state.machine.steps(&mut steps);
        let Some(&step) = steps.first() else { break };
        recorder.see_step(&at.state, step);
        at.state.take(step);
    }
    let (recorded, initial) = recorder.finish();
    Ok(Graph {
        common: &common,
        state: &at.state,
        model: config.model(),
        atomicity: config.atomicity(),
        recorded,
        initial,
    }
    .build())
}

struct Graph<'a> {
    common: &'a Common,
    state: &'a State,
    model: Model,
    atomicity: RmwAtomicity,
    /// The recorded events by thread, and within a thread in program order.
    recorded: Vec<Recorded>,
    /// The values of words before the first event; 0 for words without an entry.
    initial: Vec<i64>,
}

impl Graph<'_> {
    fn build(self) -> ExecutionGraph {
        let words = self.words();
        let threads = self.threads();
        let base = words.len();
        let n = base + self.recorded.len();
        let initial = |w: Addr| self.initial.get(w.0 as usize).copied().unwrap_or(0);
        let location = |word: &Option<Addr>| word.and_then(|w| words.get(&w.0)).map(|&l| Loc(l));
        let events = &self.recorded;
        // The index of each event in the graph. Events left out of the recording have none.
        let place: BTreeMap<usize, usize> =
            events.iter().enumerate().map(|(i, e)| (e.id, base + i)).collect();

        let mut all: Vec<Event> = (0..base as u16).map(initial_write).collect();
        all.extend(events.iter().map(|e| Event {
            thread: threads.get(&e.thread).map(|&t| ThreadId(t)),
            kind: e.kind,
            loc: location(&e.word),
            peer: e.peer.map(|p| Node(p as u8)),
            work: None,
            rmw: e.rmw,
            inlined: e.inlined,
            strong: e.strong,
            announces: false,
            relaxed: e.word.is_some() && self.model.tier().has_relaxed_regions(),
            writes: e.written.is_some(),
            instance: e.instance,
            path: Vec::new(),
        }));
        let mut rf = Relation::empty(n);
        for (i, e) in events.iter().enumerate() {
            if let (Some(_), Some(loc)) = (e.read, location(&e.word)) {
                let source = e.source.and_then(|id| place.get(&id).copied());
                rf.insert(source.unwrap_or(usize::from(loc.0)), base + i);
            }
        }
        let mut mo = Relation::empty(n);
        let mut nfo = Relation::empty(n);
        let mut rao = Relation::empty(n);
        let spec = Spec::of(self.model, self.atomicity);
        for (i, a) in events.iter().enumerate() {
            if let (Some(_), Some(loc)) = (a.written, location(&a.word)) {
                mo.insert(usize::from(loc.0), base + i);
            }
            for (j, b) in events.iter().enumerate() {
                let (x, y) = (base + i, base + j);
                let writes = a.written.is_some() && b.written.is_some();
                if writes && a.word == b.word && a.time < b.time {
                    mo.insert(x, y);
                }
                if spec.flush_pair(&all[x], &all[y]) {
                    let (first, second) = if a.time < b.time { (x, y) } else { (y, x) };
                    nfo.insert(first, second);
                }
                let atomics = a.kind == Kind::NicAtomicRead && b.kind == Kind::NicAtomicRead;
                if spec.orders_atomics() && atomics && a.peer == b.peer && a.time < b.time {
                    rao.insert(x, y);
                }
            }
        }
        let pf = events.iter().enumerate().filter_map(|(i, e)| {
            let completion = (e.kind == Kind::Poll).then_some(e.source).flatten()?;
            Some((*place.get(&completion)?, base + i))
        });
        let initial_values: Vec<Option<i64>> = words.keys().map(|&w| Some(initial(Addr(w)))).collect();
        let execution = Execution {
            pf: Relation::from_pairs(n, pf),
            po: Relation::from_fn(n, |a, b| match (a.checked_sub(base), b.checked_sub(base)) {
                (None, Some(_)) => true,
                (Some(a), Some(b)) => {
                    a < b && events[a].thread == events[b].thread && !events[a].is_unordered(&events[b])
                }
                _ => false,
            }),
            reads: vec![None; base]
                .into_iter()
                .chain(events.iter().map(|e| e.read))
                .collect(),
            writes: initial_values
                .into_iter()
                .chain(events.iter().map(|e| e.written))
                .collect(),
            events: all,
            rf,
            mo,
            nfo,
            rao,
            outcome: Outcome {
                registers: vec![Vec::new(); threads.len()],
                memory: words
                    .keys()
                    .map(|&w| self.state.machine.memory()[w as usize])
                    .collect(),
            },
        };
        ExecutionGraph {
            program: self.program(&words, &threads),
            witness: Witness { execution },
            model: self.model,
            atomicity: self.atomicity,
        }
    }

    /// Numbers the words of the graph from 0.
    fn words(&self) -> BTreeMap<u32, u16> {
        let used: BTreeMap<u32, ()> = self
            .recorded
            .iter()
            .filter_map(|e| e.word)
            .map(|w| (w.0, ()))
            .collect();
        used.into_keys().zip(0..).collect()
    }

    /// Numbers the threads of the graph from 0.
    fn threads(&self) -> BTreeMap<u16, u8> {
        let used: BTreeMap<u16, ()> = self.recorded.iter().map(|e| (e.thread, ())).collect();
        used.into_keys().zip(0..).collect()
    }

    fn program(&self, words: &BTreeMap<u32, u16>, threads: &BTreeMap<u16, u8>) -> Program {
        let location = |&word: &u32| {
            let owner = self.common.words.name(word).map_or(0, |name| name >> 40);
            let known = (owner as usize) < self.state.threads.len();
            Location {
                name: name_of(self.common, Addr(word)),
                node: Node(if known {
                    self.state.info(owner as u16).node as u8
                } else {
                    0
                }),
                init: self.initial.get(word as usize).copied().unwrap_or(0),
                relaxed: false,
            }
        };
        Program {
            nodes: self.state.node_count() as u8,
            locations: words.keys().map(location).collect(),
            threads: threads
                .keys()
                .map(|&t| Thread {
                    name: format!("P{t} {}", self.state.info(t).name),
                    node: Node(self.state.info(t).node as u8),
                    registers: Vec::new(),
                    work_ids: Vec::new(),
                    code: Vec::new(),
                })
                .collect(),
        }
    }
}

/// Returns the initial write of a location.
fn initial_write(loc: u16) -> Event {
    Event {
        thread: None,
        kind: Kind::LocalWrite,
        loc: Some(Loc(loc)),
        peer: None,
        work: None,
        rmw: false,
        inlined: false,
        announces: false,
        strong: false,
        relaxed: false,
        writes: true,
        instance: 0,
        path: Vec::new(),
    }
}
