//! Prepares a program for a job: which node of the job plays which node of the program, and where each location lies.
//!
//! A job with fewer nodes than the program wraps round: node `k` of the program is played by node `k % n` of the job,
//! and its threads keep queue pairs of their own towards it. Relies on `mowgli`'s programs. Used by the node and by the
//! worker.

use mowgli::check::Features;
use mowgli::program::{Instr, Loc, Program, PutSrc};

use crate::shared::{DATA, REPORT, THREADS_MAX};
use crate::stress::{CONSTANTS, Constant, Placement};

/// The maximum number of nodes of a program.
pub const NODES_MAX: usize = 8;
/// The maximum number of puts of constants from memory that one thread makes in one run. Further instructions are posted
/// inline ([`as_run`]).
const CONSTANTS_MAX: usize = 8;
/// The bytes of a cache line.
const LINE: usize = 64;
/// The bytes of a page, the minimum distance of two locations under [`Placement::Page`].
const PAGE: usize = 4096;

/// A program and its places in a job.
#[derive(Clone, Debug)]
pub struct Code {
    /// The program.
    pub program: Program,
    /// The program as it is run for each [`Constant`], which says of each put of a constant whether its data are inlined.
    made: [Program; 2],
    /// For each location, whether the gets into it move nothing.
    idle: Vec<bool>,
    /// For each location, the node of the job that has it and its slot there.
    pub places: Vec<Place>,
    /// For each thread, the node of the job that runs it and its position among the threads there.
    pub threads: Vec<Seat>,
    /// The number of slots of each node of the job.
    pub slots: Vec<usize>,
}

/// The place of a location in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the node of the job.
    pub node: usize,
    /// The number of the queue pair set. If several nodes of the program are mapped to one node of the job, each has a set
    /// of queue pairs of its own.
    pub set: usize,
    /// The slot.
    pub slot: usize,
}

/// The place of a thread in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Index of the node of the job.
    pub node: usize,
    /// The worker of that node.
    pub worker: usize,
    /// The first slot for constants that the thread puts.
    pub constants: usize,
    /// The number of these slots.
    pub constants_len: usize,
}

/// The reason that a program cannot be run on a fabric.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotRunnable(pub String);

loco_fabric::debug_as_display!(NotRunnable);

impl Code {
    /// Prepares a program for a job of `nodes` nodes.
    ///
    /// # Errors
    /// Returns an error if the program chooses (`choose`), which threads on a fabric do not; if it has messages or remote exchanges; if it has both
    /// `poll` and `wait`; or if it has more threads, nodes or locations than a job supports.
    pub fn new(program: &Program, nodes: usize) -> Result<Code, NotRunnable> {
        let refuse = |text: String| Err(NotRunnable(text));
        if program.threads.len() > THREADS_MAX {
            return refuse(format!(
                "{} threads: at most {THREADS_MAX} can run",
                program.threads.len()
            ));
        }
        if usize::from(program.nodes) > NODES_MAX {
            return refuse(format!("{} nodes: at most {NODES_MAX} can run", program.nodes));
        }
        if program.has(&|instr| matches!(instr, Instr::Choose(_))) {
            return refuse("it has `choose`: split it into a test for each block".into());
        }
        if program.has_messages() {
            let text = "it has messages (`send`, `recv`, `imm`), which no fabric has: write a put and a flag in their place";
            return refuse(text.into());
        }
        if program.has(&|instr| matches!(instr, Instr::RemoteSwap { .. })) {
            let text = "it has a remote exchange (`rswap`), which no fabric has: write `rcas` with the value that is expected";
            return refuse(text.into());
        }
        let features = Features::of(program);
        if features.poll && features.wait {
            return refuse("it has both `poll` and `wait`, which no model of RDMA judges: use one".into());
        }
        let mut slots = vec![0; nodes];
        let mut take = |node: usize, count: usize| {
            slots[node] += count;
            slots[node] - count
        };
        let places = program.locations.iter().map(|location| {
            let node = usize::from(location.node.0);
            Place {
                node: node % nodes,
                set: node / nodes,
                slot: take(node % nodes, 1),
            }
        });
        let places = places.collect();
        let mut workers = vec![0; nodes];
        let threads = program.threads.iter().map(|thread| {
            let node = usize::from(thread.node.0) % nodes;
            let constants_len = from_memory(&mut thread.code.clone(), 0, 1);
            workers[node] += 1;
            Seat {
                node,
                worker: workers[node] - 1,
                constants: take(node, constants_len),
                constants_len,
            }
        });
        let code = Code {
            threads: threads.collect(),
            program: program.clone(),
            made: CONSTANTS.map(|constant| as_run(program, constant)),
            idle: idle(program),
            places,
            slots,
        };
        // One run must fit, at whatever distance its words lie.
        let slots = code.slots.iter().copied().max().unwrap_or(0);
        let reported = (0..nodes).map(|node| code.width(node)).max().unwrap_or(0);
        match slots * PAGE <= DATA && reported * 8 <= REPORT {
            true => Ok(code),
            false => refuse(format!(
                "{slots} locations on one node: at most {} can run",
                DATA / PAGE
            )),
        }
    }

    /// Returns the program as it is run under a stress: what the threads execute, and what the model must judge.
    pub fn as_run(&self, constant: Constant) -> &Program {
        &self.made[constant as usize]
    }

    /// Returns whether a strong get into `location` only flushes: its result changes nothing, and no fence waits for it. The end of such a
    /// get tells what the end of a flush tells, that the earlier writes of the queue pair are placed.
    pub fn flushes(&self, location: Loc) -> bool {
        self.idle[usize::from(location.0)]
    }

    /// Returns the place of a location.
    pub fn place(&self, loc: Loc) -> Place {
        self.places[usize::from(loc.0)]
    }

    /// Returns the place of the node that a `poll` or `rfence` names: the node of the job, and the number of the queue pair set.
    pub fn peer(&self, node: mowgli::program::Node) -> (usize, usize) {
        let nodes = self.slots.len();
        (usize::from(node.0) % nodes, usize::from(node.0) / nodes)
    }

    /// Returns the locations and the threads of a node of the job, each in the order of the program.
    pub fn of_node(&self, node: usize) -> (Vec<usize>, Vec<usize>) {
        let locations = (0..self.places.len()).filter(|&l| self.places[l].node == node);
        let threads = (0..self.threads.len()).filter(|&t| self.threads[t].node == node);
        (locations.collect(), threads.collect())
    }

    /// Returns the number of words that a node reports of each run: a status, the registers of its threads, and its locations.
    pub fn width(&self, node: usize) -> usize {
        let (locations, threads) = self.of_node(node);
        let registers = threads.iter().map(|&t| self.program.threads[t].registers.len());
        1 + registers.sum::<usize>() + locations.len()
    }

    /// Returns the most runs that fit side by side into `bytes` of each node's memory and into `report` bytes of its report.
    pub fn runs_max(&self, placement: Placement, bytes: usize, report: usize) -> usize {
        let slots = self.slots.iter().copied().max().unwrap_or(0).max(1);
        let by_memory = match placement {
            Placement::Line => bytes / (slots * LINE),
            Placement::Same => bytes / (slots.div_ceil(8) * LINE),
            Placement::Packed => bytes / (slots * 8),
            Placement::Page => bytes / slots / PAGE * (PAGE / LINE),
        };
        let widest = (0..self.slots.len())
            .map(|node| self.width(node))
            .max()
            .unwrap_or(1);
        by_memory.min(report / (8 * widest)).max(1)
    }

    /// Returns the offset of a slot of a node in run `run` of `runs`.
    pub fn offset(&self, placement: Placement, node: usize, slot: usize, run: usize, runs: usize) -> usize {
        let slots = self.slots[node].max(1);
        match placement {
            Placement::Line => (run * slots + slot) * LINE,
            Placement::Same => run * slots.div_ceil(8) * LINE + slot * 8,
            Placement::Packed => (slot * runs + run) * 8,
            Placement::Page => slot * (runs * LINE).next_multiple_of(PAGE) + run * LINE,
        }
    }
}

/// Returns for each location whether gets into it are its only writes, each from a location of the same value that nobody writes, and in a
/// thread without fences.
fn idle(program: &Program) -> Vec<bool> {
    let mut written = vec![false; program.locations.len()];
    let mut gets = Vec::new();
    for thread in &program.threads {
        let fenced = thread.has(&|instr| matches!(instr, Instr::Rfence { .. }));
        written_by(&thread.code, &mut written, &mut |src, dst| {
            gets.push((src, dst, fenced))
        });
    }
    let mut idle: Vec<bool> = written.iter().map(|written| !written).collect();
    let value = |location: Loc| program.locations[usize::from(location.0)].init;
    // A source is no target of a get either.
    let targets: Vec<Loc> = gets.iter().map(|&(_, dst, _)| dst).collect();
    for (src, dst, fenced) in gets {
        let moves = written[usize::from(src.0)] || targets.contains(&src) || value(src) != value(dst);
        idle[usize::from(dst.0)] &= !(moves || fenced);
    }
    idle
}

/// Marks what a block writes other than by gets, and calls `get` with the source and the target of each get.
fn written_by(code: &[Instr], written: &mut [bool], get: &mut dyn FnMut(Loc, Loc)) {
    for instr in code {
        match instr.request().0 {
            Instr::Store { loc, .. }
            | Instr::Cas { loc, .. }
            | Instr::Swap { loc, .. }
            | Instr::Put { dst: loc, .. } => written[usize::from(loc.0)] = true,
            Instr::RemoteFaa { dst, target, .. }
            | Instr::RemoteCas { dst, target, .. }
            | Instr::RemoteSwap { dst, target, .. } => {
                written[usize::from(dst.0)] = true;
                written[usize::from(target.0)] = true;
            }
            Instr::Get { dst, src, .. } => get(*src, *dst),
            _ => {}
        }
        for block in instr.blocks() {
            written_by(block, written, get);
        }
    }
}

/// Returns a program as it is run: with [`Constant::Inline`] all puts of constants are inlined, with [`Constant::Memory`]
/// those for which no word is left.
pub fn as_run(program: &Program, constant: Constant) -> Program {
    match constant {
        Constant::Inline => program.inlined(),
        Constant::Memory => {
            let mut program = program.clone();
            for thread in &mut program.threads {
                from_memory(&mut thread.code, 0, 1);
            }
            program
        }
    }
}

/// Gives words to the puts of constants of a block that is run up to `times` times in a run, as long as there are any, and
/// inlines the other puts. `used` words are taken already. Returns how many are taken afterwards.
fn from_memory(code: &mut [Instr], used: usize, times: usize) -> usize {
    code.iter_mut()
        .fold(used, |used, instr| match instr.request_mut() {
            Instr::Put { src, .. } => match src {
                PutSrc::Value(value) => {
                    let wanted = used.saturating_add(times);
                    if wanted <= CONSTANTS_MAX {
                        return wanted;
                    }
                    *src = PutSrc::Inline(value.clone());
                    used
                }
                _ => used,
            },
            // One of the two blocks is run.
            Instr::If { then, otherwise, .. } => {
                from_memory(then, used, times).max(from_memory(otherwise, used, times))
            }
            Instr::While { body, bound, .. } => {
                from_memory(body, used, times.saturating_mul(*bound as usize))
            }
            _ => used,
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::stress::PLACEMENTS;

    /// Each put of a constant that is run from memory has a word of its own in each iteration. The other puts of constants are
    /// inlined in the program that threads run, which is also the one that the model judges.
    #[test]
    fn puts_without_a_word_are_inlined() {
        let run = |code: &str| {
            let text = format!("RDMA t\n{{ x@2=0; }}\nP0@1 ;\nr := 1 ;\n{code} ;\n\nexists (x=1)\n");
            let program = mowgli::litmus::parse(&text).unwrap().litmus.program;
            let made = as_run(&program, Constant::Memory);
            let made = crate::Test::of_program("t".to_owned(), "t", made).litmus.print();
            let words = Code::new(&program, 2).unwrap().threads[0].constants_len;
            (made.matches("inline").count(), words)
        };
        assert_eq!(run("x^2 := 1 ;\nx^2 := inline(2)"), (1, 1));
        assert_eq!(run("while (r) bound 8 { x^2 := 1; r := 0 }"), (0, 8));
        assert_eq!(run("while (r) bound 9 { x^2 := 1; r := 0 }"), (1, 0));
        assert_eq!(
            run("if (r) { x^2 := 1; x^2 := 2 } else { x^2 := 3 } ;\nx^2 := r"),
            (0, 3)
        );
        assert_eq!(
            run("while (r) bound 4 { x^2 := 1; x^2 := 2; x^2 := 3; r := 0 }"),
            (1, 8)
        );
    }

    #[test]
    fn a_get_flushes_if_it_moves_nothing_and_no_fence_waits_for_it() {
        let flushes = |code: &str| {
            let text =
                format!("RDMA t\n{{ c@1=0; z@2=0; x@2=0; u@2=1; }}\nP0@1 ;\n{code} ;\n\nexists (x=1)\n");
            let program = mowgli::litmus::parse(&text).unwrap().litmus.program;
            Code::new(&program, 2).unwrap().flushes(Loc(0))
        };
        assert!(flushes("x^2 := 1 ;\nstrong c := z^2"));
        assert!(!flushes("x^2 := 1 ;\nstrong c := x^2"), "it reads what was put");
        assert!(!flushes("strong c := u^2"), "it changes its target");
        assert!(
            !flushes("strong c := z^2 ;\nc := 3"),
            "the target has another value later"
        );
        assert!(
            !flushes("strong c := z^2 ;\nrfence(2) ;\nx^2 := 1"),
            "the fence waits for it"
        );
        assert!(
            !flushes("strong c := z^2 ;\nif (1) { c := rfaa(z^2, 1) } else { }"),
            "its source changes"
        );
    }

    #[test]
    fn what_fabrics_lack_is_refused_by_name() {
        let lacking = [
            ("send(2, 1) | recv(P0, x)", "messages"),
            ("r := rswap(x^2, 1) |", "`rswap`"),
            ("if (1) { strong r := rswap(x^2, 1) } |", "`rswap`"),
        ];
        for (row, word) in lacking {
            let text = format!("RDMA t\n{{ r@1=0; x@2=0; }}\nP0@1 | P1@2 ;\n{row} ;\nexists (x=1)\n");
            let program = mowgli::litmus::parse(&text).unwrap().litmus.program;
            let refused = Code::new(&program, 2).unwrap_err();
            assert!(refused.0.contains(word), "{refused}");
        }
    }

    #[test]
    fn slots_of_all_runs_are_apart_and_inside() {
        for entry in mowgli::catalogue::entries() {
            let program = entry.parse().unwrap_or_else(|e| panic!("{e:?}")).program;
            for nodes in 1..=3 {
                let Ok(code) = Code::new(&program, nodes) else {
                    continue;
                };
                for placement in PLACEMENTS {
                    let bytes = DATA;
                    let runs = code.runs_max(placement, bytes, REPORT).min(70);
                    for node in 0..nodes {
                        let mut taken = BTreeSet::new();
                        for run in 0..runs {
                            for slot in 0..code.slots[node] {
                                let offset = code.offset(placement, node, slot, run, runs);
                                assert!(offset.is_multiple_of(8) && offset + 8 <= bytes, "{}", entry.name);
                                assert!(taken.insert(offset), "{}: {placement:?}", entry.name);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_into_the_memory_of_a_node_is_refused() {
        let names: Vec<String> = (0..=DATA / PAGE).map(|i| format!("x{i}@1=0;")).collect();
        let runnable = |names: &[String]| {
            let text = format!(
                "RDMA many\n{{ {} }}\nP0@1 ;\nx1 := 1 ;\nexists ([x1]=1)\n",
                names.join(" ")
            );
            let litmus = mowgli::litmus::parse(&text)
                .unwrap_or_else(|e| panic!("{e:?}"))
                .litmus;
            Code::new(&litmus.program, 1).map(|_| ())
        };
        assert_eq!(runnable(&names[1..]), Ok(()));
        assert!(runnable(&names).is_err_and(|why| why.0.contains("at most 256")));
    }

    #[test]
    fn a_small_job_plays_several_nodes() {
        let entry = mowgli::catalogue::find("IRIW1").unwrap_or_else(|| panic!("IRIW1 is in the catalogue"));
        let program = entry.parse().unwrap_or_else(|e| panic!("{e:?}")).program;
        let code = Code::new(&program, 1).unwrap_or_else(|e| panic!("{e}"));
        let sets: BTreeSet<_> = code.places.iter().map(|place| place.set).collect();
        assert!(
            sets.len() > 1,
            "nodes of the program keep queue pairs of their own: {sets:?}"
        );
        assert!(code.threads.iter().all(|seat| seat.node == 0));
    }
}
