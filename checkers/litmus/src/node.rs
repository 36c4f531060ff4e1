//! A node of a job that runs litmus tests: its memory, its threads, and the way in which nodes go through a batch together.
//!
//! Node 0 leads. It commands a batch by words that it puts into the other nodes' memory; nodes set the words of all
//! runs, synchronize, make the runs, place what is under way, synchronize again, and report registers and memory to the leader.
//! Connections, regions and threads are made once for all tests. Relies on [`Worker`] and [`Shared`]. Used by
//! [`crate::job`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loco_fabric::{
    Caps, Fabric, FabricError, Local, Memory, Peers, Platform, QueuePair, Result, Std, Target, Wait, WordCell,
};
use loco_job::Mesh;
use mowgli::outcome::Outcome;
use mowgli::program::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::code::Code;
use crate::line::CONTROL;
use crate::pin;
use crate::shared::{
    COMMAND_AT, DATA, GO_AT, REPORT, REPORT_AT, Shared, THREADS_MAX, arrived_at, bytes_of, inbox_at,
};
use crate::stress::{Stress, Traffic};
use crate::traffic::flood;
use crate::worker::{Batch, Share, Status, Worker};

/// The time that a node waits beyond the deadline of a batch, for operations under way and for peers that share its
/// processors.
const SLACK: Duration = Duration::from_secs(120);

/// The words of a command.
const COMMAND_WORDS: usize = 5;
/// The bytes of a report that its seal leaves.
const REPORTED: usize = REPORT - 8;

/// A command of the leader to every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The test, or `None` at the end of the job.
    pub test: Option<usize>,
    /// The number of runs. A node makes fewer if its memory is too small for them.
    pub runs: usize,
    /// The conditions.
    pub stress: Stress,
    /// The seed of delays.
    pub seed: u64,
    /// The longest time of one run, and the time after which no further run of the batch is begun.
    pub patience: Duration,
}

/// The outcomes of a batch.
#[derive(Debug, Default)]
pub struct Shown {
    /// The final state of each run that was completed.
    pub outcomes: Vec<Outcome>,
    /// The number of runs in which an `assume` failed or a loop met its bound.
    pub discarded: u64,
    /// The thread that hung.
    pub hung: Option<usize>,
}

/// A task for a thread of the node.
enum Task {
    Run(Batch, usize),
    Flood(Stress, Arc<AtomicBool>),
}

/// A thread of the node besides the one that calls.
struct Helper {
    /// `None` when the thread is to end.
    tasks: Option<Sender<Task>>,
    shares: Receiver<Result<Option<Share>>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    fn start<F: Fabric>(shared: &Arc<Shared<F>>, index: usize) -> Result<Helper> {
        let (tasks, theirs) = channel::<Task>();
        let (results, shares) = channel();
        let (shared, seat) = (Arc::clone(shared), shared.me);
        let body = move || {
            let mut worker = Worker::new(shared, index);
            for task in theirs {
                let result = match task {
                    Task::Run(batch, thread) => {
                        pin::apply(batch.stress.pin, seat + index);
                        worker.run(&batch, thread).map(Some)
                    }
                    Task::Flood(stress, stop) => flood(&mut worker.lines, stress, &stop).map(|()| None),
                };
                if results.send(result).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(format!("litmus {index}"))
            .spawn(body)
            .map_err(|source| FabricError::os("starting a thread", &source))?;
        Ok(Helper {
            tasks: Some(tasks),
            shares,
            thread: Some(thread),
        })
    }

    fn give(&self, task: Task) {
        // If a helper has ended, the receipt of its share fails.
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(task));
    }

    fn take(&self) -> Result<Option<Share>> {
        let gone = || FabricError::Config("a thread of this node ended by a panic, see above".into());
        self.shares.recv().map_err(|_| gone())?
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// A node of the job.
pub struct Node<F: Fabric> {
    shared: Arc<Shared<F>>,
    /// The thread that calls is the first worker.
    first: Worker<F>,
    helpers: Vec<Helper>,
    flooder: Option<Helper>,
    /// The number of batches.
    batches: u64,
    /// The number of times that the nodes have synchronized.
    synchronizations: u64,
}

impl<F: Fabric<Control = Mesh, Platform = Std>> Node<F> {
    /// Brings a node up. Every node of the job must call it.
    ///
    /// # Errors
    /// Fails if a node does not take part within the time of set-up, or if the fabric has too little memory.
    pub fn new(fabric: F) -> Result<Node<F>> {
        let shared = Arc::new(Shared::new(fabric)?);
        Ok(Node {
            first: Worker::new(Arc::clone(&shared), 0),
            shared,
            helpers: Vec::new(),
            flooder: None,
            batches: 0,
            synchronizations: 0,
        })
    }

    /// Gives `bytes` to every node, and returns the bytes of every node.
    ///
    /// # Errors
    /// Fails if a node does not come.
    pub fn exchange(&self, label: &str, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        exchange(&self.shared, label, bytes)
    }

    /// Ends the node when every node has the command that ends the job. Until then each stays in the job, so that no
    /// node sees another one leave as a loss, and each can answer the leader. Each also polls: a network that keeps less than
    /// it says may still hold the word that another node waits for, and moves it only in calls.
    ///
    /// # Errors
    /// Fails if a node does not come.
    pub fn end(self) -> Result<()> {
        let shared = &*self.shared;
        std::thread::scope(|scope| {
            let gathering = scope.spawn(|| exchange(shared, "litmus tests over", &[]));
            let wait = Wait {
                what: "the other nodes at the end",
                peers: Peers::None,
                // The exchange has one.
                deadline: None,
            };
            let polled = shared.fabric.wait(wait, || gathering.is_finished().then_some(()));
            let panicked = || FabricError::Config("the exchange at the end panicked, see above".into());
            gathering.join().map_err(|_| panicked())??;
            polled
        })
    }
}

/// Gives `bytes` to every node, and returns the bytes of every node.
fn exchange<F>(shared: &Shared<F>, label: &str, bytes: &[u8]) -> Result<Vec<Vec<u8>>>
where
    F: Fabric<Control = Mesh, Platform = Std>,
{
    let deadline = Std.now().after(SLACK);
    let given = shared.fabric.control().allgather(label, bytes, deadline)?;
    Ok(given.into_iter().map(|(_, bytes)| bytes).collect())
}

impl<F: Fabric> Node<F> {
    /// Returns whether this node leads.
    pub fn leads(&self) -> bool {
        self.shared.me == 0
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.shared.nodes.len()
    }

    /// Returns the id of the node of this index.
    pub fn id(&self, index: usize) -> loco_fabric::NodeId {
        self.shared.nodes[index]
    }

    /// Returns the capabilities of the fabric.
    pub fn caps(&self) -> &Caps {
        self.shared.fabric.caps()
    }

    /// Tells the other nodes what to do next. Called on the leader.
    ///
    /// # Errors
    /// Fails if the fabric fails.
    pub fn command(&mut self, command: &Command) -> Result<()> {
        let words: [u64; COMMAND_WORDS] = [
            command.test.map_or(0, |test| test as u64 + 1),
            command.runs as u64,
            command.stress.to_bits(),
            command.seed,
            command.patience.as_nanos() as u64,
        ];
        let words = sealed(&words, self.batches + 1);
        for node in 1..self.nodes() {
            let deadline = Instant::now() + SLACK;
            let line = self.first.lines.line(node, CONTROL)?;
            self.first.lines.put_words(line, COMMAND_AT, &words, deadline)?;
            if command.test.is_none() {
                self.first.lines.flush(line, deadline)?;
            }
        }
        Ok(())
    }

    /// Waits for the leader's next command. Called on the other nodes.
    ///
    /// # Errors
    /// Fails if the leader is lost.
    pub fn commanded(&mut self) -> Result<Command> {
        // The leader may spend any time on the model.
        let mut words = [0; COMMAND_WORDS];
        self.unseal(
            "the leader's next command",
            COMMAND_AT,
            self.batches + 1,
            0,
            None,
            &mut words,
        )?;
        let [test, runs, stress, seed, patience] = words;
        Ok(Command {
            test: test.checked_sub(1).map(|test| test as usize),
            runs: runs as usize,
            stress: Stress::from_bits(stress),
            seed,
            patience: Duration::from_nanos(patience),
        })
    }

    /// Makes the runs of a command. The leader gets the outcomes of all nodes.
    ///
    /// # Errors
    /// Fails if the fabric fails, or if a peer is lost.
    pub fn batch(&mut self, command: &Command, code: &Arc<Code>) -> Result<Shown> {
        self.batches += 1;
        let stress = command.stress;
        let runs = command
            .runs
            .min(code.runs_max(stress.placement, DATA, REPORTED))
            .max(1);
        self.set(code, stress, runs)?;
        self.synchronize()?;
        let batch = Batch {
            number: self.batches,
            code: Arc::clone(code),
            runs,
            stress,
            seed: command.seed,
            patience: command.patience,
        };
        let shares = self.run(&batch)?;
        self.synchronize()?;
        self.first.lines.flush_unpolled(Instant::now() + SLACK)?;
        self.report(&batch, &shares)?;
        self.synchronize()?;
        match self.leads() {
            true => self.gather(&batch),
            false => Ok(Shown::default()),
        }
    }

    /// Gives the locations of this node their initial values.
    fn set(&self, code: &Code, stress: Stress, runs: usize) -> Result<()> {
        let me = self.shared.me;
        let (locations, _) = code.of_node(me);
        for l in locations {
            let init = code.program.locations[l].init as u64;
            for run in 0..runs {
                let at = code.offset(stress.placement, me, code.places[l].slot, run, runs);
                self.shared.memory.cell::<u64>(at)?.store(init);
            }
        }
        self.shared.fabric.cpu_fence();
        Ok(())
    }

    /// Makes the runs of this node's threads, and places the operations that they posted.
    fn run(&mut self, batch: &Batch) -> Result<Vec<Share>> {
        let (_, threads) = batch.code.of_node(self.shared.me);
        while self.helpers.len() + 1 < threads.len() {
            let index = self.helpers.len() + 1;
            self.helpers.push(Helper::start(&self.shared, index)?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let floods = batch.stress.traffic == Traffic::Other;
        if floods {
            if self.flooder.is_none() {
                self.flooder = Some(Helper::start(&self.shared, THREADS_MAX)?);
            }
            if let Some(flooder) = &self.flooder {
                flooder.give(Task::Flood(batch.stress, Arc::clone(&stop)));
            }
        }
        for (helper, &thread) in self.helpers.iter().zip(threads.iter().skip(1)) {
            helper.give(Task::Run(batch.clone(), thread));
        }
        let mine = match threads.first() {
            Some(&thread) => {
                pin::apply(batch.stress.pin, self.shared.me);
                self.first.run(batch, thread).map(Some)
            }
            // Nobody here polls before the other nodes are done.
            None => self
                .first
                .lines
                .leave_unpolled(batch.stress.unpolled())
                .map(|()| None),
        };
        let helped = self
            .helpers
            .iter()
            .take(threads.len().saturating_sub(1))
            .map(Helper::take);
        let helped: Vec<_> = helped.collect();
        stop.store(true, Ordering::Relaxed);
        if let Some(flooder) = self.flooder.as_ref().filter(|_| floods) {
            flooder.take()?;
        }
        let helped = helped.into_iter().map(|share| share.map(Option::into_iter));
        let helped: Vec<_> = helped.collect::<Result<Vec<_>>>()?;
        mine.transpose()
            .into_iter()
            .chain(helped.into_iter().flatten().map(Ok))
            .collect()
    }

    /// Sends the leader a status, the registers and the memory of each run.
    fn report(&mut self, batch: &Batch, shares: &[Share]) -> Result<()> {
        let (code, me, runs) = (&batch.code, self.shared.me, batch.runs);
        let (locations, _) = code.of_node(me);
        let mut words: Vec<u64> = Vec::with_capacity(runs * code.width(me));
        let mut places = Vec::with_capacity(locations.len());
        for &l in &locations {
            let at = |run| code.offset(batch.stress.placement, me, code.places[l].slot, run, runs);
            let cells = (0..runs).map(|run| self.shared.memory.cell::<u64>(at(run)));
            places.push(cells.collect::<Result<Vec<_>>>()?);
        }
        for run in 0..runs {
            // The number of the thread that hung is in the upper half.
            let status = shares.iter().enumerate().map(|(at, share)| {
                let status = share.statuses[run] as u64;
                status
                    | if status == Status::Hung as u64 {
                        (at as u64) << 32
                    } else {
                        0
                    }
            });
            words.push(status.max_by_key(|status| status & 0xFF).unwrap_or(0));
            for share in shares {
                let width = share.registers.len() / runs;
                let registers = &share.registers[run * width..][..width];
                words.extend(registers.iter().map(|&value| value as u64));
            }
            words.extend(places.iter().map(|cells| cells[run].load()));
        }
        let bytes = bytes_of(&sealed(&words, batch.number));
        self.shared.memory.write(REPORT_AT, &bytes)?;
        if me != 0 {
            let deadline = Instant::now() + SLACK;
            let line = self.first.lines.line(0, CONTROL)?;
            self.first.lines.post(line, deadline, |qp, shared, work| {
                let target = Target {
                    remote: &shared.remotes[0],
                    offset: inbox_at(me),
                };
                let local = Local {
                    memory: &shared.memory,
                    offset: REPORT_AT,
                    len: bytes.len(),
                };
                qp.put(local, target, work)
            })?;
            self.first.lines.flush(line, deadline)?;
        }
        Ok(())
    }

    /// Combines the reports of all nodes.
    fn gather(&self, batch: &Batch) -> Result<Shown> {
        let (code, runs) = (&batch.code, batch.runs);
        let mut reports = Vec::new();
        for node in 0..self.nodes() {
            let mut words = vec![0; runs * code.width(node)];
            let at = if node == 0 { REPORT_AT } else { inbox_at(node) };
            self.unseal(
                "the reports of the batch",
                at,
                batch.number,
                node,
                Some(SLACK),
                &mut words,
            )?;
            reports.push((words, code.width(node), code.of_node(node)));
        }
        let mut shown = Shown::default();
        for run in 0..runs {
            let mut outcome = Outcome {
                registers: vec![Vec::new(); code.threads.len()],
                memory: vec![0; code.places.len()],
            };
            let (mut complete, mut unmade) = (true, false);
            for (words, width, (locations, threads)) in &reports {
                let mut row = words[run * width..][..*width].iter();
                let status = row.next().copied().unwrap_or_default();
                complete &= status == 0;
                unmade |= status & 0xFF >= Status::NotRun as u64;
                if status & 0xFF == Status::Hung as u64 {
                    shown.hung = threads.get((status >> 32) as usize).copied();
                }
                for &thread in threads {
                    let count = code.program.threads[thread].registers.len();
                    let values = row.by_ref().take(count).map(|&word| word as Value);
                    outcome.registers[thread] = values.collect();
                }
                for &l in locations {
                    outcome.memory[l] = row.next().map_or(0, |&word| word as Value);
                }
            }
            if complete {
                shown.outcomes.push(outcome);
            } else if !unmade {
                shown.discarded += 1;
            }
        }
        Ok(shown)
    }

    /// Waits until the words that were [sealed] with this number have come to a place of this node's memory.
    fn unseal(
        &self,
        what: &str,
        at: usize,
        number: u64,
        peer: usize,
        within: Option<Duration>,
        words: &mut [u64],
    ) -> Result<()> {
        let mut bytes = vec![0; 8 * (words.len() + 1)];
        self.watch(what, peer, within, || {
            self.shared.memory.read(at, &mut bytes)?;
            let (seal, payload) = bytes.split_at(8);
            Ok(seal == xxh3_64_with_seed(payload, number).to_le_bytes())
        })?;
        for (word, bytes) in words.iter_mut().zip(bytes[8..].chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        Ok(())
    }

    /// Waits until all nodes have called this.
    fn synchronize(&mut self) -> Result<()> {
        self.synchronizations += 1;
        let (number, deadline) = (self.synchronizations, Instant::now() + SLACK);
        if self.leads() {
            for node in 1..self.nodes() {
                self.watch_word(arrived_at(node), number, node)?;
            }
            for node in 1..self.nodes() {
                let line = self.first.lines.line(node, CONTROL)?;
                self.first.lines.put_words(line, GO_AT, &[number], deadline)?;
            }
            return Ok(());
        }
        let line = self.first.lines.line(0, CONTROL)?;
        let at = arrived_at(self.shared.me);
        self.first.lines.put_words(line, at, &[number], deadline)?;
        self.watch_word(GO_AT, number, 0)
    }

    /// Waits until a word of this node's memory has reached a number.
    fn watch_word(&self, at: usize, number: u64, peer: usize) -> Result<()> {
        let cell = self.shared.memory.cell::<u64>(at)?;
        let reached = || Ok(cell.load() >= number);
        self.watch("the other nodes of the batch", peer, Some(SLACK), reached)
    }

    /// Waits until something has come from a peer.
    fn watch(
        &self,
        what: &str,
        peer: usize,
        within: Option<Duration>,
        mut has_come: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let peers = match peer == self.shared.me {
            true => Peers::None,
            false => Peers::All,
        };
        let deadline = within.map(|within| Std.now().after(within));
        let wait = Wait {
            what,
            peers,
            deadline,
        };
        self.shared.fabric.wait(wait, || match has_come() {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        })?
    }
}

/// Returns words that prove themselves, with the number of the batch: a network that keeps less than it says may place any
/// part of them late, whatever was asked. The nodes then still go through the batches together.
fn sealed(words: &[u64], number: u64) -> Vec<u64> {
    let seal = xxh3_64_with_seed(&bytes_of(words), number);
    std::iter::once(seal).chain(words.iter().copied()).collect()
}
