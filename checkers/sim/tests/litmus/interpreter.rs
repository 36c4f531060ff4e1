//! Runs litmus programs as object code on the model fabric, by the interpreter that runs them on real fabrics: a thread of
//! the world for each thread of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use loco_fabric::{
    Fabric, Local, Memory, MemoryKind, NodeId, Peers, Posted, RegionKey, Target, Wait, WordCell, Work,
    WorkRequestId,
};
use loco_litmus::interpreter::{self, Cell, Operation, Request, Stand, Stop};
use loco_sim::{Completeness, Config, ModelFabric, ModelMemory, ModelQueuePair, World, explore, note};
use mowgli::outcome::Outcome;
use mowgli::program::{Loc, Node, Program, Value, WorkId};

/// A node's memory: one word for each of its locations, in the program's order.
struct Site {
    fabric: ModelFabric,
    memory: ModelMemory,
}

/// Returns the word of a location in its node's memory.
fn word_of(program: &Program, loc: Loc) -> usize {
    let node = program.locations[usize::from(loc.0)].node;
    let before = &program.locations[..usize::from(loc.0)];
    before.iter().filter(|l| l.node == node).count()
}

fn words_on(program: &Program, node: usize) -> usize {
    program
        .locations
        .iter()
        .filter(|l| usize::from(l.node.0) == node)
        .count()
        .max(1)
}

/// Returns every outcome of the program on a fabric of the model.
pub fn outcomes(program: &Program, config: &Config) -> BTreeSet<Outcome> {
    let program = Arc::new(program.clone());
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let report = explore(config, |world| build(&program, &found, world)).unwrap();
    if let Some(failure) = report.failure {
        panic!("{failure}\nof {program:#?}");
    }
    assert_eq!(report.completeness, Completeness::Complete);
    found.lock().unwrap().clone()
}

fn build(program: &Arc<Program>, found: &Arc<Mutex<BTreeSet<Outcome>>>, world: &mut World) {
    let sites: Vec<_> = (0..usize::from(program.nodes))
        .map(|node| {
            let program = program.clone();
            world.node(move |fabric: ModelFabric| {
                let memory = fabric
                    .allocate(8 * words_on(&program, node), MemoryKind::Host)
                    .unwrap();
                for (index, location) in program.locations.iter().enumerate() {
                    if usize::from(location.node.0) == node && location.init != 0 {
                        let word = word_of(&program, Loc(index as u16));
                        memory.cell::<u64>(8 * word).unwrap().store(location.init as u64);
                    }
                }
                Site { fabric, memory }
            })
        })
        .collect();
    for (index, thread) in program.threads.iter().enumerate() {
        let program = program.clone();
        world.thread(
            &sites[usize::from(thread.node.0)],
            &thread.name,
            move |site: &Site| {
                let thread = &program.threads[index];
                let mut registers = vec![0; thread.registers.len()];
                let mut stand = ModelStand::new(site, &program, index);
                match interpreter::run(&mut stand, &thread.code, &mut registers) {
                    Ok(()) => note(format!("{index} {registers:?}")),
                    Err(Stop::Discarded) => note("discarded"),
                    Err(stop) => panic!("a thread ends before its code: {stop:?}"),
                }
            },
        );
    }
    let (program, found) = (program.clone(), found.clone());
    world.finally(move |end| {
        let mut registers = vec![Vec::new(); program.threads.len()];
        for line in end.notes() {
            if line == "discarded" {
                return;
            }
            let (thread, values) = line.split_once(' ').unwrap();
            registers[thread.parse::<usize>().unwrap()] = values
                .trim_matches(['[', ']'])
                .split(", ")
                .filter(|v| !v.is_empty())
                .map(|v| v.parse().unwrap())
                .collect();
        }
        let memory = (0..program.locations.len())
            .map(|index| {
                let site = sites[usize::from(program.locations[index].node.0)].get().unwrap();
                end.word(&site.memory, 8 * word_of(&program, Loc(index as u16))) as Value
            })
            .collect();
        found.lock().unwrap().insert(Outcome { registers, memory });
    });
}

/// The words, queue pairs and completions of a thread of the program.
struct ModelStand<'a> {
    site: &'a Site,
    program: &'a Program,
    thread: usize,
    /// For each location of the thread's node, its word.
    cells: Vec<Option<Cell<ModelFabric>>>,
    queue_pairs: BTreeMap<u8, ModelQueuePair>,
    /// Peers whose next operation is fenced.
    fenced: BTreeSet<u8>,
    /// Completions that have arrived and that no `poll` of the program has taken, by peer.
    unpolled: BTreeMap<u8, u32>,
    /// Operations without a completion, by work identifier.
    outstanding: BTreeMap<WorkId, u32>,
}

impl<'a> ModelStand<'a> {
    fn new(site: &'a Site, program: &'a Program, thread: usize) -> ModelStand<'a> {
        let node = program.threads[thread].node;
        let cell = |(index, location): (usize, &mowgli::program::Location)| {
            let word = 8 * word_of(program, Loc(index as u16));
            (location.node == node).then(|| site.memory.cell::<u64>(word).unwrap())
        };
        ModelStand {
            site,
            program,
            thread,
            cells: program.locations.iter().enumerate().map(cell).collect(),
            queue_pairs: BTreeMap::new(),
            fenced: BTreeSet::new(),
            unpolled: BTreeMap::new(),
            outstanding: BTreeMap::new(),
        }
    }

    /// Counts an operation of the thread that has completed.
    fn completes(&mut self, peer: u8, work: WorkId) {
        *self.unpolled.entry(peer).or_default() += 1;
        if let Some(count) = self.outstanding.get_mut(&work) {
            *count -= 1;
        }
    }

    /// Waits until `ready`, taking completions as they come. Discards completions of other threads of the
    /// node.
    fn until(
        &mut self,
        what: &str,
        mut ready: impl FnMut(&mut Self) -> Option<()>,
    ) -> loco_fabric::Result<()> {
        let fabric = self.site.fabric.clone();
        let wait = Wait {
            what,
            peers: Peers::None,
            deadline: None,
        };
        let mut completions = Vec::new();
        fabric.wait(wait, || {
            if let Some(done) = ready(self) {
                return Some(done);
            }
            fabric.poll(&mut completions).unwrap();
            for completion in completions.drain(..) {
                let (thread, work) = (completion.id.0 >> 32, completion.id.0 as u32 as u16);
                if thread as usize == self.thread {
                    self.completes(completion.peer.0 as u8, WorkId(work));
                }
            }
            ready(self)
        })
    }
}

impl Stand for ModelStand<'_> {
    type Fabric = ModelFabric;
    type Error = loco_fabric::FabricError;

    fn cell(&self, location: Loc) -> &Cell<ModelFabric> {
        self.cells[usize::from(location.0)].as_ref().unwrap()
    }

    fn cpu_fence(&mut self) {
        self.site.fabric.cpu_fence();
    }

    fn post(&mut self, request: Request) -> loco_fabric::Result<()> {
        let peer = self.program.locations[usize::from(request.far.0)].node.0;
        let fabric = &self.site.fabric;
        let queue_pair = self
            .queue_pairs
            .entry(peer)
            .or_insert_with(|| fabric.queue_pair(NodeId(u16::from(peer))).unwrap());
        let len = 8 * words_on(self.program, usize::from(peer));
        // The first region of node n begins where thread n, its set-up, allocates first.
        let key = RegionKey {
            arena: 0,
            address: u64::from(peer) << 43,
            len: len as u64,
            rkey: 0,
        };
        let remote = fabric.import(NodeId(u16::from(peer)), &key)?;
        let target = Target {
            remote: &remote,
            offset: 8 * word_of(self.program, request.far),
        };
        let local = |location: Loc| Local {
            memory: &self.site.memory,
            offset: 8 * word_of(self.program, location),
            len: 8,
        };
        let name = request.work.map_or(u64::from(u32::MAX), |w| u64::from(w.0));
        let mut how = Work::signaled(WorkRequestId((self.thread as u64) << 32 | name));
        how.fenced = self.fenced.remove(&peer);
        how.strong = request.strong;
        if let Some(work) = request.work {
            *self.outstanding.entry(work).or_default() += 1;
        }
        // A constant lies in a fresh word, which the NIC reads.
        let fresh = match request.operation {
            Operation::PutValue(value) => {
                let word = fabric.allocate(8, MemoryKind::Host)?;
                word.cell::<u64>(0).unwrap().store(value);
                Some(word)
            }
            _ => None,
        };
        let constant = fresh.as_ref().map(|memory| Local {
            memory,
            offset: 0,
            len: 8,
        });
        let posted = request.operation.post(queue_pair, target, local, constant, how)?;
        if posted == Posted::Done {
            self.completes(peer, request.work.unwrap_or(WorkId(u16::MAX)));
        }
        Ok(())
    }

    fn fence(&mut self, node: Node) -> loco_fabric::Result<()> {
        self.fenced.insert(node.0);
        Ok(())
    }

    fn poll(&mut self, node: Node) -> loco_fabric::Result<()> {
        self.until("poll", |me| {
            let ready = me.unpolled.entry(node.0).or_default();
            ready.checked_sub(1).map(|rest| *ready = rest)
        })
    }

    fn wait(&mut self, work: WorkId) -> loco_fabric::Result<()> {
        self.until("wait", |me| {
            (me.outstanding.get(&work).copied().unwrap_or(0) == 0).then_some(())
        })
    }
}
