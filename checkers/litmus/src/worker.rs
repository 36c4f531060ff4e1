//! A thread of a node: executes one thread of a test, run after run, by the [`interpreter`].
//!
//! `poll(n)` waits for the n-th completion of the run, `wait(d)` for the last operation with that identifier, `rfence`
//! fences the next operation, `strong` asks for strong order, and a put of a constant comes from a word that nobody else
//! writes, or carries its data inline. It is the program of [`Code::as_run`] that is executed, which says so of each put. Between accesses of
//! the test nothing happens that would order them: handles on words are made before the batch. Relies on [`Lines`].
//! Used by the node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loco_fabric::{Fabric, FabricError, Local, Memory, QueuePair, Result, Target, WordCell, Work};
use mowgli::generate::Random;
use mowgli::program::{Instr, Loc, Node, PutSrc, Value, WorkId};

use crate::code::Code;
use crate::interpreter::{self, Cell, Operation, Request, Stand, Stop, far_side};
use crate::line::{CONTROL, Lines};
use crate::shared::{Shared, progress_at};
use crate::stress::{Cache, Delay, Flush, Length, Start, Stress, Traffic, WITHIN_DRAWN};

/// The number of looks at the others' progress before a thread yields, and the number of times that it yields.
const LOOKS: u32 = 300;
const YIELDS: u32 = 3;
/// The maximum number of bytes of traffic before a run, if that is more than one operation.
const TRAFFIC_BYTES: usize = 1 << 15;
/// The number of iterations that a loop may make at least, where a test states fewer: it may wait for a thread that has not begun.
const ITERATIONS: u32 = 4096;
/// The distance, in runs, by which words are loaded or flushed ahead.
const AHEAD: usize = 2;

/// A number of runs of a test under one stress.
#[derive(Clone)]
pub struct Batch {
    /// The number of the batch in the job, from 1.
    pub number: u64,
    /// The program.
    pub code: Arc<Code>,
    /// The number of runs.
    pub runs: usize,
    /// The conditions.
    pub stress: Stress,
    /// The seed of delays.
    pub seed: u64,
    /// The longest time of a run, and the time after which no further run is begun.
    pub patience: Duration,
}

/// The end of one run of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The thread has executed its code.
    Complete = 0,
    /// An `assume` failed.
    Discarded = 1,
    /// A loop would need more iterations than it may make.
    LoopBound = 2,
    /// The run was not made, because an earlier one hung or the time of the batch was over.
    NotRun = 3,
    /// A `poll` or `wait` did not end by the deadline.
    Hung = 4,
}

/// The part of a batch that one thread has made.
pub struct Share {
    /// For each run, its end.
    pub statuses: Vec<Status>,
    /// For each run, the registers.
    pub registers: Vec<Value>,
}

/// A thread of a node.
pub struct Worker<F: Fabric> {
    /// Its queue pairs.
    pub lines: Lines<F>,
}

impl<F: Fabric> Worker<F> {
    /// Makes the worker of this index.
    pub fn new(shared: Arc<Shared<F>>, index: usize) -> Worker<F> {
        Worker {
            lines: Lines::new(shared, index),
        }
    }

    /// Makes the runs of a batch for one thread of the program. All operations that it posted are placed at the end.
    ///
    /// # Errors
    /// Fails if the fabric fails. A thread that hangs is a [`Status`].
    pub fn run(&mut self, batch: &Batch, thread: usize) -> Result<Share> {
        let mut execution = Execution::new(&mut self.lines, batch, thread)?;
        let share = execution.all()?;
        let lines = std::mem::take(&mut execution.lines);
        // The time allowed for operations under way does not shrink with the duration of the runs.
        let deadline = Instant::now() + Duration::from_secs(30);
        for (_, _, line) in lines {
            self.lines.flush(line, deadline)?;
        }
        self.lines.flush_unpolled(deadline)?;
        Ok(share)
    }
}

/// The runs of a batch by one thread.
struct Execution<'a, F: Fabric> {
    queues: &'a mut Lines<F>,
    batch: &'a Batch,
    code: &'a Code,
    thread: usize,
    /// For each location that the thread's CPU can access, its word in each run.
    cells: Vec<Vec<Cell<F>>>,
    /// The words from which constants are put.
    constants: Vec<Cell<F>>,
    /// For each peer, its node in the job, the number of the queue pair set, and the index of the queue pair in `queues`.
    lines: Vec<(usize, usize, usize)>,
    /// For each peer, the numbers of the operations of this run that a poll can take, the next one first.
    pollable: Vec<VecDeque<u64>>,
    /// The operations of this run that have an identifier.
    works: Vec<(WorkId, usize, u64)>,
    /// The number of constants put in this run.
    put: usize,
    run: usize,
    random: Random,
    start: Meet<F>,
    /// The time at which this run is given up.
    deadline: Instant,
    /// The operations of this run up to the one before which its queue pair is flooded; 0 when that is done, or never.
    flooded: usize,
    /// The round trip, if delays are measured by it.
    round_trip: Duration,
}

/// The words by which threads begin runs together.
struct Meet<F: Fabric> {
    mine: Cell<F>,
    others: Vec<Cell<F>>,
    /// Lines towards the nodes of other threads.
    lines: Vec<usize>,
}

impl<'a, F: Fabric> Execution<'a, F> {
    fn new(queues: &'a mut Lines<F>, batch: &'a Batch, thread: usize) -> Result<Execution<'a, F>> {
        let code = &*batch.code;
        let seat = code.threads[thread];
        let node = code.program.threads[thread].node;
        let memory = queues.shared.memory.clone();
        let at =
            |slot: usize, run: usize| code.offset(batch.stress.placement, seat.node, slot, run, batch.runs);
        let word = |slot: usize, run: usize| memory.cell::<u64>(at(slot, run));
        let words = |slot: usize| {
            (0..batch.runs)
                .map(|run| word(slot, run))
                .collect::<Result<Vec<_>>>()
        };
        let own = |(l, location): (usize, &mowgli::program::Location)| match location.node == node {
            true => words(code.places[l].slot),
            false => Ok(Vec::new()),
        };
        let cells = code
            .program
            .locations
            .iter()
            .enumerate()
            .map(own)
            .collect::<Result<_>>()?;
        let slots = seat.constants..seat.constants + seat.constants_len;
        let constants = slots.flat_map(|slot| (0..batch.runs).map(move |run| (slot, run)));
        let constants = constants
            .map(|(slot, run)| word(slot, run))
            .collect::<Result<_>>()?;
        let mut others = Vec::new();
        let mut nodes: Vec<usize> = Vec::new();
        for (other, seat) in code
            .threads
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != thread)
        {
            others.push(memory.cell(progress_at(other))?);
            if seat.node != queues.shared.me && !nodes.contains(&seat.node) {
                nodes.push(seat.node);
            }
        }
        let start = Meet {
            mine: memory.cell(progress_at(thread))?,
            others,
            lines: nodes
                .iter()
                .map(|&node| queues.line(node, CONTROL))
                .collect::<Result<_>>()?,
        };
        let round_trip = match batch.stress.delay_length {
            Length::RoundTrips => queues.round_trip(Instant::now() + batch.patience)?,
            Length::Decades(_) => Duration::ZERO,
        };
        let mut execution = Execution {
            cells,
            constants,
            lines: Vec::new(),
            pollable: Vec::new(),
            works: Vec::new(),
            put: 0,
            run: 0,
            random: Random::new(batch.seed ^ (thread as u64 + 1).rotate_left(40)),
            start,
            deadline: Instant::now(),
            flooded: 0,
            round_trip,
            queues,
            batch,
            code,
            thread,
        };
        execution.connect(&code.program.threads[thread].code)?;
        Ok(execution)
    }

    /// Makes the queue pairs that the code uses.
    fn connect(&mut self, code: &[Instr]) -> Result<()> {
        for instr in code {
            match instr {
                Instr::Poll { node } | Instr::Rfence { node } => {
                    let (node, set) = self.code.peer(*node);
                    self.peer(node, set)?;
                }
                Instr::If { then, otherwise, .. } => {
                    self.connect(then)?;
                    self.connect(otherwise)?;
                }
                Instr::While { body, .. } => self.connect(body)?,
                _ => {
                    if let Some((far, _)) = far_side(instr.request().0) {
                        let place = self.code.place(far);
                        self.peer(place.node, place.set)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the position of a peer in `lines` and `pollable`.
    fn peer(&mut self, node: usize, set: usize) -> Result<usize> {
        if let Some(peer) = self.lines.iter().position(|&(n, l, _)| (n, l) == (node, set)) {
            return Ok(peer);
        }
        let line = self.queues.line(node, set)?;
        self.lines.push((node, set, line));
        self.pollable.push(VecDeque::new());
        Ok(self.lines.len() - 1)
    }

    fn all(&mut self) -> Result<Share> {
        let code = self.code;
        let thread = &code.as_run(self.batch.stress.constant).threads[self.thread];
        let mut share = Share {
            statuses: Vec::with_capacity(self.batch.runs),
            registers: Vec::with_capacity(self.batch.runs * thread.registers.len()),
        };
        let mut registers = vec![0; thread.registers.len()];
        let begun = Instant::now();
        for run in 0..self.batch.runs {
            let now = Instant::now();
            self.deadline = now + self.batch.patience;
            let status = match share.statuses.last() {
                Some(Status::Hung | Status::NotRun) => Status::NotRun,
                Some(_) if now - begun > self.batch.patience => Status::NotRun,
                _ => {
                    self.begin(run)?;
                    registers.fill(0);
                    match interpreter::run(self, &thread.code, &mut registers) {
                        Ok(()) => Status::Complete,
                        Err(Stop::Discarded) => Status::Discarded,
                        Err(Stop::LoopBound) => Status::LoopBound,
                        Err(Stop::Failed(FabricError::Timeout { .. })) => Status::Hung,
                        Err(Stop::Failed(error)) => return Err(error),
                    }
                }
            };
            share.statuses.push(status);
            share.registers.extend_from_slice(&registers);
        }
        Ok(share)
    }

    fn begin(&mut self, run: usize) -> Result<()> {
        self.run = run;
        self.put = 0;
        self.works.clear();
        let stress = self.batch.stress;
        if stress.traffic == Traffic::Same {
            for at in 0..self.lines.len() {
                self.flood(self.lines[at].2)?;
            }
        }
        self.flooded = match (stress.traffic, usize::from(stress.traffic_detail)) {
            (Traffic::Within, 0) => 1 + self.random.below(WITHIN_DRAWN),
            (Traffic::Within, at) => at,
            _ => 0,
        };
        if stress.cache != Cache::Any {
            self.prepare_caches(run + AHEAD);
        }
        // The control lines poll when they are looked at, so that comes before the completion queue is filled.
        for at in 0..self.start.lines.len() {
            self.queues.is_idle(self.start.lines[at])?;
        }
        self.queues.leave_unpolled(stress.unpolled())?;
        if stress.start == Start::Run {
            self.start_together()?;
        }
        for (at, &(_, _, line)) in self.lines.iter().enumerate() {
            self.queues.unfence(line);
            self.pollable[at].clear();
        }
        if stress.delay != Delay::None {
            self.delay();
        }
        Ok(())
    }

    /// Posts the traffic of the test's queue pairs to one of them.
    fn flood(&mut self, line: usize) -> Result<()> {
        let stress = self.batch.stress;
        let fit = (TRAFFIC_BYTES / stress.traffic_bytes()).max(1);
        for _ in 0..fit.min(1 + usize::from(stress.traffic_depth)) {
            let is_get = self.random.once_in(4);
            let bytes = stress.traffic_bytes();
            self.queues.traffic(line, bytes, is_get, self.deadline)?;
        }
        Ok(())
    }

    /// Floods a queue pair if the run is to be flooded before this operation. A remote fence stays before the operation.
    fn flood_before(&mut self, line: usize) -> Result<()> {
        self.flooded -= 1;
        if self.flooded > 0 {
            return Ok(());
        }
        let fenced = self.queues.is_fenced(line);
        self.queues.unfence(line);
        self.flood(line)?;
        if fenced {
            self.queues.fence(line);
        }
        Ok(())
    }

    fn prepare_caches(&self, run: usize) {
        if run >= self.batch.runs {
            return;
        }
        let node = self.code.threads[self.thread].node;
        let own = self.code.program.threads[self.thread].node;
        for (l, place) in self.code.places.iter().enumerate() {
            if self.code.program.locations[l].node == own {
                let stress = &self.batch.stress;
                let at = self
                    .code
                    .offset(stress.placement, node, place.slot, run, self.batch.runs);
                match stress.cache {
                    Cache::Owned => self.queues.shared.memory.prefetch_write(at),
                    Cache::Flushed => self.queues.shared.memory.evict(at),
                    _ => self.queues.shared.memory.prefetch(at),
                }
            }
        }
    }

    /// Waits briefly for the other threads to come to this run. A thread may not be running at all.
    fn start_together(&mut self) -> Result<()> {
        let now = self.batch.number << 24 | (self.run as u64 + 1);
        self.start.mine.store(now);
        for at in 0..self.start.lines.len() {
            let line = self.start.lines[at];
            if self.queues.ended(line) == self.queues.posted(line) {
                self.queues
                    .put_words(line, progress_at(self.thread), &[now], self.deadline)?;
            }
        }
        let here = |others: &[Cell<F>]| others.iter().all(|other| other.load() >= now);
        for _ in 0..=YIELDS {
            for _ in 0..LOOKS {
                if here(&self.start.others) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Returns at once, or waits for a time whose decade is drawn first.
    #[cold]
    fn delay(&mut self) {
        let bits = self.random.bits();
        if bits & 1 == 0 {
            return;
        }
        let wait = match self.batch.stress.delay_length {
            Length::Decades(decades) => {
                let decade = (bits >> 8) % (u64::from(decades) + 1);
                Duration::from_nanos((bits >> 16) % 10u64.pow(decade as u32))
            }
            Length::RoundTrips if bits & 2 == 0 => self.round_trip / 2,
            Length::RoundTrips => self.round_trip,
        };
        let start = Instant::now();
        while start.elapsed() < wait {
            std::hint::spin_loop();
        }
    }
}

/// Returns whether a block puts constants from memory.
fn puts_from_memory(code: &[Instr]) -> bool {
    code.iter().any(|instr| match instr.request().0 {
        Instr::Put { src, .. } => matches!(src, PutSrc::Value(_)),
        Instr::If { then, otherwise, .. } => puts_from_memory(then) || puts_from_memory(otherwise),
        Instr::While { body, .. } => puts_from_memory(body),
        _ => false,
    })
}

impl<F: Fabric> Stand for Execution<'_, F> {
    type Fabric = F;
    type Error = FabricError;

    #[inline]
    fn pause(&mut self) {
        if self.batch.stress.delay == Delay::Between {
            self.delay();
        }
    }

    fn iterations(&self, body: &[Instr], bound: u32) -> u32 {
        // Each put from memory has a word of its own in each iteration that the test states.
        if puts_from_memory(body) {
            bound
        } else {
            bound.max(ITERATIONS)
        }
    }

    #[inline]
    fn cell(&self, location: Loc) -> &Cell<F> {
        &self.cells[usize::from(location.0)][self.run]
    }

    #[inline]
    fn cpu_fence(&mut self) {
        self.queues.shared.fabric.cpu_fence();
    }

    #[inline]
    fn post(&mut self, request: Request) -> Result<()> {
        let (code, run, runs) = (self.code, self.run, self.batch.runs);
        let placement = self.batch.stress.placement;
        let place = code.place(request.far);
        let at = self.peer(place.node, place.set)?;
        let line = self.lines[at].2;
        let seat = code.threads[self.thread];
        let near = |slot: usize| code.offset(placement, seat.node, slot, run, runs);
        let offset = code.offset(placement, place.node, place.slot, run, runs);
        if self.flooded > 0 {
            self.flood_before(line)?;
        }
        // Earlier polls of the run, of any thread of the node, have taken what was left there.
        self.queues.leave_unpolled(self.batch.stress.unpolled())?;
        // A constant lies in a word of its own, unless it is inlined.
        let mut constant = None;
        if let Operation::PutValue(value) = request.operation {
            self.constants[self.put * runs + run].store(value);
            constant = Some(near(seat.constants + self.put));
            self.put += 1;
        }
        let flushes = match request.operation {
            Operation::Get(to) => {
                request.strong && self.batch.stress.flush == Flush::Call && code.flushes(to)
            }
            _ => false,
        };
        let number = self
            .queues
            .post(line, self.deadline, |queue_pair, shared, work| {
                if flushes {
                    return queue_pair.flush(work);
                }
                let work = Work {
                    strong: request.strong,
                    ..work
                };
                let target = Target {
                    remote: &shared.remotes[place.node],
                    offset,
                };
                let local = |offset: usize| Local {
                    memory: &shared.memory,
                    offset,
                    len: 8,
                };
                let of = |location: Loc| local(near(code.place(location).slot));
                request
                    .operation
                    .post(queue_pair, target, of, constant.map(local), work)
            })?;
        if request.signaled {
            self.pollable[at].push_back(number);
        }
        if let Some(work) = request.work {
            self.works.push((work, line, number));
        }
        Ok(())
    }

    fn fence(&mut self, node: Node) -> Result<()> {
        let (node, set) = self.code.peer(node);
        let at = self.peer(node, set)?;
        self.queues.fence(self.lines[at].2);
        Ok(())
    }

    #[inline]
    fn poll(&mut self, node: Node) -> Result<()> {
        let (node, set) = self.code.peer(node);
        let at = self.peer(node, set)?;
        let line = self.lines[at].2;
        // A poll for which there is no operation waits for one that is never posted. Completions come in order.
        let none = self.queues.posted(line) + 1;
        let number = self.pollable[at].pop_front().unwrap_or(none);
        self.queues.until(line, number, self.deadline)
    }

    #[inline]
    fn wait(&mut self, work: WorkId) -> Result<()> {
        for at in 0..self.works.len() {
            let (of, line, number) = self.works[at];
            if of == work {
                self.queues.until(line, number, self.deadline)?;
            }
        }
        Ok(())
    }
}
