//! Turns an execution of object code into an execution graph of the declarative models, the graph that
//! `mowgli explain` draws.
//!
//! The recorder repeats a schedule and follows each value to its origin; it searches for nothing. The graph
//! omits the reads of a failed evaluation of a wait's condition, and words that only one thread's CPU ever
//! touches: neither says anything about memory. It also omits locks of the platform, which are no memory
//! events. Used on request, after an exploration.

pub(crate) mod film;
mod recorder;

use std::collections::{BTreeMap, BTreeSet};

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
    walker.wake_threads(&mut at)?;
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

/// Relations of events by the times at which they took effect.
struct Orders {
    mo: Relation,
    nfo: Relation,
    rao: Relation,
}

/// The places of words, threads and events in the graph.
struct Places {
    /// The words, numbered from 0 in ascending order.
    words: BTreeMap<u32, u16>,
    /// The threads, numbered from 0 in ascending order.
    threads: BTreeMap<u16, u8>,
    /// The index of the first recorded event: the initial write of each word comes before it.
    base: usize,
    /// The index of each recorded event in the graph, by its id. Events left out of the recording have none.
    event: BTreeMap<usize, usize>,
    /// The number of events.
    len: usize,
}

impl Places {
    fn of(recorded: &[Recorded]) -> Places {
        let used: BTreeSet<u32> = recorded.iter().filter_map(|e| e.word).map(|w| w.0).collect();
        let words: BTreeMap<u32, u16> = used.into_iter().zip(0..).collect();
        let used: BTreeSet<u16> = recorded.iter().map(|e| e.thread).collect();
        let base = words.len();
        Places {
            words,
            threads: used.into_iter().zip(0..).collect(),
            base,
            event: recorded
                .iter()
                .enumerate()
                .map(|(i, e)| (e.id, base + i))
                .collect(),
            len: base + recorded.len(),
        }
    }

    fn location(&self, word: Option<Addr>) -> Option<Loc> {
        word.and_then(|w| self.words.get(&w.0)).map(|&l| Loc(l))
    }
}

impl Graph<'_> {
    /// Makes the graph: its events, then one relation after the other.
    fn build(self) -> ExecutionGraph {
        let places = Places::of(&self.recorded);
        let events = self.events(&places);
        let orders = self.orders(&places, &events);
        let execution = Execution {
            pf: self.polls_from(&places),
            po: self.program_order(&places),
            reads: vec![None; places.base]
                .into_iter()
                .chain(self.recorded.iter().map(|e| e.read))
                .collect(),
            writes: places
                .words
                .keys()
                .map(|&w| Some(self.initial(w)))
                .chain(self.recorded.iter().map(|e| e.written))
                .collect(),
            events,
            rf: self.reads_from(&places),
            mo: orders.mo,
            nfo: orders.nfo,
            rao: orders.rao,
            outcome: Outcome {
                registers: vec![Vec::new(); places.threads.len()],
                memory: places
                    .words
                    .keys()
                    .map(|&w| self.state.machine.memory()[w as usize])
                    .collect(),
            },
        };
        ExecutionGraph {
            program: self.program(&places.words, &places.threads),
            witness: Witness { execution },
            model: self.model,
            atomicity: self.atomicity,
        }
    }

    /// Returns the value of a word before the first event.
    fn initial(&self, word: u32) -> i64 {
        self.initial.get(word as usize).copied().unwrap_or(0)
    }

    /// Returns the events: the initial writes of the words, then what was recorded.
    fn events(&self, places: &Places) -> Vec<Event> {
        let mut events: Vec<Event> = (0..places.base as u16).map(initial_write).collect();
        events.extend(self.recorded.iter().map(|e| Event {
            thread: places.threads.get(&e.thread).map(|&t| ThreadId(t)),
            kind: e.kind,
            loc: places.location(e.word),
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
        events
    }

    /// Relates each read to the write whose value it has; a read without a recorded source has the initial value.
    fn reads_from(&self, places: &Places) -> Relation {
        let mut rf = Relation::empty(places.len);
        for (i, e) in self.recorded.iter().enumerate() {
            if let (Some(_), Some(loc)) = (e.read, places.location(e.word)) {
                let source = e.source.and_then(|id| places.event.get(&id).copied());
                rf.insert(source.unwrap_or(usize::from(loc.0)), places.base + i);
            }
        }
        rf
    }

    /// Relates each operation to the poll that took its completion.
    fn polls_from(&self, places: &Places) -> Relation {
        let polls = self.recorded.iter().enumerate().filter_map(|(i, e)| {
            let completion = (e.kind == Kind::Poll).then_some(e.source).flatten()?;
            Some((*places.event.get(&completion)?, places.base + i))
        });
        Relation::from_pairs(places.len, polls)
    }

    /// Orders the events of each thread, and the initial writes before all others.
    fn program_order(&self, places: &Places) -> Relation {
        let (base, events) = (places.base, &self.recorded);
        Relation::from_fn(places.len, |a, b| {
            match (a.checked_sub(base), b.checked_sub(base)) {
                (None, Some(_)) => true,
                (Some(a), Some(b)) => {
                    a < b && events[a].thread == events[b].thread && !events[a].is_unordered(&events[b])
                }
                _ => false,
            }
        })
    }

    /// Orders events by the times at which they took effect: the writes of a word, the pairs that a flush relates, and the atomics
    /// of a node.
    fn orders(&self, places: &Places, all: &[Event]) -> Orders {
        let n = places.len;
        let mut orders = Orders {
            mo: Relation::empty(n),
            nfo: Relation::empty(n),
            rao: Relation::empty(n),
        };
        let spec = Spec::of(self.model, self.atomicity);
        for (i, a) in self.recorded.iter().enumerate() {
            let x = places.base + i;
            if let (Some(_), Some(loc)) = (a.written, places.location(a.word)) {
                orders.mo.insert(usize::from(loc.0), x);
            }
            for (j, b) in self.recorded.iter().enumerate() {
                let y = places.base + j;
                let writes = a.written.is_some() && b.written.is_some();
                if writes && a.word == b.word && a.time < b.time {
                    orders.mo.insert(x, y);
                }
                if spec.flush_pair(&all[x], &all[y]) {
                    let (first, second) = if a.time < b.time { (x, y) } else { (y, x) };
                    orders.nfo.insert(first, second);
                }
                let atomics = a.kind == Kind::NicAtomicRead && b.kind == Kind::NicAtomicRead;
                if spec.orders_atomics() && atomics && a.peer == b.peer && a.time < b.time {
                    orders.rao.insert(x, y);
                }
            }
        }
        orders
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
