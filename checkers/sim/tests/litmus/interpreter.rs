//! Runs litmus programs as object code: a closure for each thread that uses the fabric's contract and nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use loco_fabric::{
    Fabric, Local, Memory, MemoryKind, NodeId, Peers, QueuePair, RegionKey, Target, Wait, WordCell, Work,
    WorkRequestId,
};
use loco_sim::{Completeness, Config, ModelFabric, ModelMemory, ModelQueuePair, Tier, World, explore, note};
use mowgli::outcome::Outcome;
use mowgli::program::{Expr, Instr, Loc, Program, PutSrc, Value, WorkId};

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

/// Returns every outcome of the program on the model fabric of this tier.
pub fn outcomes(program: &Program, tier: Tier, workers: usize, reduction: bool) -> BTreeSet<Outcome> {
    let program = Arc::new(program.clone());
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let config = Config {
        tier,
        workers,
        reduction,
        ..Config::default()
    };
    let report = explore(&config, |world| build(&program, &found, world)).unwrap();
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
                let mut interpreter = Interpreter {
                    site,
                    program: &program,
                    thread: index,
                    registers: vec![0; program.threads[index].registers.len()],
                    queue_pairs: BTreeMap::new(),
                    fenced: BTreeSet::new(),
                    strong: false,
                    unpolled: BTreeMap::new(),
                    outstanding: BTreeMap::new(),
                };
                match interpreter.run(&program.threads[index].code) {
                    Some(()) => note(format!("{index} {:?}", interpreter.registers)),
                    None => note("discarded"),
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

struct Interpreter<'a> {
    site: &'a Site,
    program: &'a Program,
    thread: usize,
    registers: Vec<Value>,
    queue_pairs: BTreeMap<u8, ModelQueuePair>,
    /// Peers whose next operation is fenced.
    fenced: BTreeSet<u8>,
    /// Whether the operation that is executed asks for strong order.
    strong: bool,
    /// Completions that have arrived and that no `poll` of the program has taken, by peer.
    unpolled: BTreeMap<u8, u32>,
    /// Operations without a completion, by work identifier.
    outstanding: BTreeMap<WorkId, u32>,
}

impl Interpreter<'_> {
    /// Runs the code. Returns `None` if an assumption fails.
    fn run(&mut self, code: &[Instr]) -> Option<()> {
        code.iter().try_for_each(|instr| self.step(instr))
    }

    fn step(&mut self, instr: &Instr) -> Option<()> {
        match instr {
            Instr::Store { loc, value } => {
                let value = self.eval(value);
                self.cell(*loc).store(value as u64);
            }
            Instr::Load { reg, loc } => {
                self.registers[usize::from(reg.0)] = self.cell(*loc).load() as Value;
            }
            Instr::Assign { reg, value } => self.registers[usize::from(reg.0)] = self.eval(value),
            Instr::Cas {
                reg,
                loc,
                expected,
                new,
            } => {
                let (expected, new) = (self.eval(expected), self.eval(new));
                let old = match self.cell(*loc).compare_exchange(expected as u64, new as u64) {
                    Ok(old) | Err(old) => old as Value,
                };
                if let Some(reg) = reg {
                    self.registers[usize::from(reg.0)] = old;
                }
            }
            Instr::Mfence => self.site.fabric.cpu_fence(),
            Instr::Put { .. } | Instr::Get { .. } | Instr::RemoteFaa { .. } | Instr::RemoteCas { .. } => {
                self.post(instr);
            }
            Instr::Poll { node } => {
                let taken = self.wait("poll", |me| {
                    let ready = me.unpolled.entry(node.0).or_default();
                    ready.checked_sub(1).map(|rest| *ready = rest)
                });
                return taken;
            }
            Instr::Rfence { node } => {
                self.fenced.insert(node.0);
            }
            Instr::Strong(operation) => {
                self.strong = true;
                let step = self.step(operation);
                self.strong = false;
                return step;
            }
            Instr::Wait { work } => {
                return self.wait("wait", |me| {
                    (me.outstanding.get(work).copied().unwrap_or(0) == 0).then_some(())
                });
            }
            Instr::Assume(cond) => return (self.eval(cond) != 0).then_some(()),
            Instr::If {
                cond,
                then,
                otherwise,
            } => {
                let block = if self.eval(cond) != 0 { then } else { otherwise };
                return self.run(block);
            }
            Instr::While { cond, body, bound } => {
                for _ in 0..*bound {
                    if self.eval(cond) == 0 {
                        break;
                    }
                    self.run(body)?;
                }
                assert_eq!(
                    self.eval(cond),
                    0,
                    "the loop needs more iterations than its bound"
                );
            }
            Instr::Choose(_) => panic!("threads on a fabric make no choices of their own"),
        }
        Some(())
    }

    fn cell(&self, loc: Loc) -> impl WordCell<u64> + use<> {
        self.site
            .memory
            .cell::<u64>(8 * word_of(self.program, loc))
            .unwrap()
    }

    /// Waits until `ready`, taking completions as they come. Discards completions of other threads of the
    /// node.
    fn wait(&mut self, what: &str, mut ready: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let fabric = self.site.fabric.clone();
        let wait = Wait {
            what,
            peers: Peers::None,
            deadline: None,
        };
        let mut completions = Vec::new();
        fabric
            .wait(wait, || {
                if let Some(done) = ready(self) {
                    return Some(done);
                }
                fabric.poll(&mut completions).unwrap();
                for completion in completions.drain(..) {
                    let (thread, work) = (completion.id.0 >> 32, completion.id.0 as u32 as u16);
                    if thread as usize == self.thread {
                        *self.unpolled.entry(completion.peer.0 as u8).or_default() += 1;
                        if let Some(count) = self.outstanding.get_mut(&WorkId(work)) {
                            *count -= 1;
                        }
                    }
                }
                ready(self)
            })
            .ok()
    }

    fn post(&mut self, instr: &Instr) {
        let (far, work) = match *instr {
            Instr::Put { dst, work, .. } => (dst, work),
            Instr::Get { src, work, .. } => (src, work),
            Instr::RemoteFaa { target, work, .. } | Instr::RemoteCas { target, work, .. } => (target, work),
            _ => return,
        };
        let peer = self.program.locations[usize::from(far.0)].node.0;
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
        let remote = fabric.import(NodeId(u16::from(peer)), &key).unwrap();
        let target = Target {
            remote: &remote,
            offset: 8 * word_of(self.program, far),
        };
        let local = |loc: Loc| Local {
            memory: &self.site.memory,
            offset: 8 * word_of(self.program, loc),
            len: 8,
        };
        let name = work.map_or(u64::from(u32::MAX), |w| u64::from(w.0));
        let mut how = Work::signaled(WorkRequestId((self.thread as u64) << 32 | name));
        how.fenced = self.fenced.remove(&peer);
        how.strong = self.strong;
        if let Some(work) = work {
            *self.outstanding.entry(work).or_default() += 1;
        }
        let eval = |e: &Expr| evaluate(e, &self.registers) as u64;
        let posted = match instr {
            Instr::Put {
                src: PutSrc::Loc(src),
                ..
            } => queue_pair.put(local(*src), target, how),
            // A constant lies in a fresh word, which the NIC reads. The value of an inline put travels in the work request.
            Instr::Put {
                src: PutSrc::Value(value),
                ..
            } => {
                let constant = fabric.allocate(8, MemoryKind::Host).unwrap();
                constant.cell::<u64>(0).unwrap().store(eval(value));
                let source = Local {
                    memory: &constant,
                    offset: 0,
                    len: 8,
                };
                queue_pair.put(source, target, how)
            }
            Instr::Put {
                src: PutSrc::Inline(value),
                ..
            } => queue_pair.put_inline(&eval(value).to_le_bytes(), target, how),
            Instr::Get { dst, .. } => queue_pair.get(local(*dst), target, how),
            Instr::RemoteFaa { dst, add, .. } => queue_pair.fetch_add(target, eval(add), local(*dst), how),
            Instr::RemoteCas {
                dst, expected, new, ..
            } => queue_pair.compare_swap(target, eval(expected), eval(new), local(*dst), how),
            _ => return,
        };
        let _ = posted.unwrap();
    }

    fn eval(&self, e: &Expr) -> Value {
        evaluate(e, &self.registers)
    }
}

fn evaluate(e: &Expr, registers: &[Value]) -> Value {
    match e {
        Expr::Const(value) => *value,
        Expr::Reg(reg) => registers[usize::from(reg.0)],
        Expr::Unary(op, e) => op.apply(evaluate(e, registers)),
        Expr::Binary(op, left, right) => op.apply(evaluate(left, registers), evaluate(right, registers)),
    }
}
