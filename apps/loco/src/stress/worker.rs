//! The threads of one node of `loco stress`: their start and end, their records, and the faults that befall
//! one node. Relies on the launcher's plan ([`Load`]). Used by the calls of each object.

use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use film::null_device;
use loco::fabric::{AnyFabric, Control, Fabric, FabricError, NodeId, PeerState, Peers, Wait};
use loco::{Barrier, Error, Manager, Parent as _, Thread};
use loco_history::{Journal, MonotonicClock, ThreadId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Signal, getpid, kill_process};
use serde::Serialize;

use super::journals;
use super::load::{Load, Moment, Object};
use super::pause;
use crate::error::CliError;

/// The time that surviving nodes wait for one another and for the end of the killed node.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// The pause between the calls of a thread that has made its own and goes on until others are killed.
const WAITING_PAUSE: Duration = Duration::from_millis(1);

/// The common data of a node's threads.
pub(super) struct Site {
    pub(super) manager: Manager<AnyFabric>,
    pub(super) load: Load,
    directory: PathBuf,
    /// The node that is stopped or killed, if the options ask for one, and those that are killed after it, in their order.
    marked: Vec<NodeId>,
    /// Set when this node may be killed as far as the losses before it are concerned.
    is_next: AtomicBool,
    /// Set when this node will not be killed, since what comes before that has failed.
    given_up: AtomicBool,
    start: Barrier<AnyFabric>,
    /// Set when the victim is to die at the next good moment.
    doomed: AtomicBool,
    /// The process that stops and resumes the victim, once it has been started.
    pauser: Mutex<Option<Child>>,
}

impl Site {
    pub(super) fn new(
        manager: Manager<AnyFabric>,
        object: Object,
        load: Load,
        directory: PathBuf,
    ) -> Result<Site, CliError> {
        let threads = usize::from(load.threads);
        let nodes = manager.nodes();
        let count = nodes.len() as u16;
        let mut marked = load.victims(object, count);
        if marked.is_empty() {
            marked.push(object.victim(count));
        }
        let marked: Vec<NodeId> = marked.into_iter().map(|node| nodes[usize::from(node)]).collect();
        Ok(Site {
            is_next: AtomicBool::new(marked[0] == manager.node()),
            marked,
            given_up: AtomicBool::new(false),
            start: Barrier::with_local_threads(&manager, "start", threads)?,
            manager,
            load,
            directory,
            doomed: AtomicBool::new(false),
            pauser: Mutex::new(None),
        })
    }

    /// Returns the node that its peers lose first, if they are to lose one.
    pub(super) fn victim(&self) -> Option<NodeId> {
        self.victims().first().copied()
    }

    /// Returns the nodes that their peers lose, in that order.
    pub(super) fn victims(&self) -> &[NodeId] {
        match self.load.loses_a_node() {
            true => &self.marked,
            false => &[],
        }
    }

    /// Returns the nodes that are lost before this one, if this one is to be lost after others.
    pub(super) fn victims_before(&self) -> &[NodeId] {
        let own = self
            .victims()
            .iter()
            .position(|&node| node == self.manager.node());
        &self.marked[..own.unwrap_or(0)]
    }

    /// Lets this node be killed: the losses before it are made up for.
    pub(super) fn be_next(&self) {
        // Relaxed: the flag only decides when a thread kills.
        self.is_next.store(true, Ordering::Relaxed);
    }

    /// Ends the calls of this node, which will not be killed.
    pub(super) fn give_up(&self) {
        // Relaxed: the flag only ends calls.
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Returns whether this node has given its kill up.
    pub(super) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Returns whether this node makes more calls than it must, because nodes are still to be killed while their peers make calls: itself after
    /// others, or one of a store with copies, on which the others go on.
    fn waits_for_kills(&self) -> bool {
        if self.has_given_up() {
            return false;
        }
        match self.suffers() {
            true => !self.victims_before().is_empty(),
            false => self.load.copies > 1 && !self.victims().iter().all(|&victim| self.has_lost(victim)),
        }
    }

    /// Returns whether this node has heard that `victim` is dead.
    fn has_lost(&self, victim: NodeId) -> bool {
        self.manager.fabric().control().peer_state(victim) != PeerState::Alive
    }

    /// Returns whether this is a node that is stopped or killed.
    pub(super) fn suffers(&self) -> bool {
        self.marked.contains(&self.manager.node())
    }

    /// Starts the process that stops this one and resumes it. Only the first call does so.
    fn pause(&self) -> Result<(), CliError> {
        let mut pauser = self.pauser.lock().unwrap_or_else(PoisonError::into_inner);
        if pauser.is_none() {
            let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
            let mut command = Command::new(own);
            command.args(pause::arguments(getpid(), self.load.pause_for()));
            let null = || null_device().map_err(CliError::os("starting the process that stops this node"));
            command.stdin(null()?).stdout(null()?);
            let child = command.spawn();
            *pauser = Some(child.map_err(CliError::os("starting the process that stops this node"))?);
        }
        Ok(())
    }

    /// Returns whether this node has started its own stop and has not been resumed yet.
    fn is_pausing(&self) -> bool {
        self.pauser_runs() == Some(true)
    }

    /// Returns whether this node was stopped and has been resumed.
    fn was_paused(&self) -> bool {
        self.pauser_runs() == Some(false)
    }

    /// Returns whether the process that stops this one still runs; `None` if it has not been started.
    fn pauser_runs(&self) -> Option<bool> {
        let mut pauser = self.pauser.lock().unwrap_or_else(PoisonError::into_inner);
        // If the pauser cannot be queried now, the wait at the end reports the error.
        let pauser = pauser.as_mut()?;
        Some(matches!(pauser.try_wait(), Ok(None)))
    }

    /// Makes sure that this node was stopped or killed, as the options ask, while its threads made calls.
    fn settle_faults(&self) -> Result<(), CliError> {
        let late = |option: &str| {
            Err(CliError::Usage(format!(
                "{option}: the calls were over before that; give more --ops or an earlier time"
            )))
        };
        let pauser = self.pauser.lock().unwrap_or_else(PoisonError::into_inner).take();
        match pauser {
            Some(mut pauser) => drop(pauser.wait().map_err(CliError::os("waiting to be resumed"))?),
            None if self.load.pause.is_some() => return late("--pause"),
            None => {}
        }
        if self.load.kill.is_some() {
            return late("--kill");
        }
        if self.load.loses_a_node() {
            // The peers have given this node up, so whatever it does next is an error.
            self.start.wait(&self.manager.thread()?)?;
        }
        Ok(())
    }

    /// Runs `work` in every thread of this node, from a common start, and then waits until the other nodes
    /// are done too. `parts` are the journals that each thread fills. All exist before the first call, as any thread may
    /// kill the process.
    pub(super) fn work(
        &self,
        parts: &[&str],
        work: impl Fn(&mut Worker<'_>) -> Result<(), CliError> + Sync,
    ) -> Result<(), CliError> {
        self.manager.wait_for_ready()?;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.load.threads)
                .map(|number| {
                    let work = &work;
                    scope.spawn(move || {
                        let mut worker = self.worker(number)?;
                        for part in parts {
                            File::create(worker.journal_path(part))
                                .map_err(CliError::os("making a journal"))?;
                        }
                        self.start.wait(&worker.thread)?;
                        worker.begin = Instant::now();
                        work(&mut worker)
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().try_for_each(join)
        })?;
        if self.suffers() {
            self.settle_faults()?;
        }
        self.leave_together()
    }

    /// Waits until this node has heard that `victim` is dead.
    pub(super) fn outlive(&self, victim: NodeId) -> Result<(), CliError> {
        let fabric = self.manager.fabric();
        let wait = Wait {
            what: "the end of the killed node",
            peers: Peers::These(&[victim]),
            deadline: Some(self.manager.thread()?.now().after(PATIENCE)),
        };
        match fabric.wait(wait, || None) {
            Err(FabricError::PeerLost(_)) => Ok(()),
            outcome => outcome.map_err(|error| Error::from(error).into()),
        }
    }

    fn worker(&self, number: u16) -> Result<Worker<'_>, CliError> {
        let node = self.manager.node().0;
        let total = u64::from(self.load.threads) * self.manager.nodes().len() as u64;
        Ok(Worker {
            site: self,
            thread: self.manager.thread()?,
            id: ThreadId { node, thread: number },
            calls: self.load.ops.div_ceil(total),
            made: Cell::new(0),
            random: random(self.load.seed, node, number),
            begin: Instant::now(),
            last: 0,
        })
    }

    /// Leaves when all survivors are done and the victim is dead. The victim makes its calls only while it
    /// has peers.
    pub(super) fn leave_together(&self) -> Result<(), CliError> {
        let victims = self.victims();
        for &victim in victims {
            self.outlive(victim)?;
        }
        let left = self
            .manager
            .nodes()
            .iter()
            .copied()
            .filter(|node| !victims.contains(node));
        let end = Barrier::new(&self.manager.among(left), "end")?;
        let thread = self.manager.thread()?;
        let deadline = thread.now().after(PATIENCE);
        thread.set_deadline(Some(deadline));
        end.channel().wait_for_ready_until(deadline)?;
        match end.wait(&thread) {
            // The barrier's fence reports once the operations that were outstanding towards the dead node.
            Err(error) if error.lost_peer().is_some_and(|lost| victims.contains(&lost)) => {
                end.wait(&thread)?
            }
            outcome => outcome?,
        }
        Ok(())
    }
}

/// Ends this process as a `kill -9` does.
fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort()
}

/// One thread at work.
pub(super) struct Worker<'a> {
    pub(super) site: &'a Site,
    pub(super) thread: Thread<AnyFabric>,
    pub(super) id: ThreadId,
    /// The number of calls to make.
    calls: u64,
    /// The number of calls begun.
    made: Cell<u64>,
    pub(super) random: SmallRng,
    begin: Instant,
    last: u64,
}

/// The consequence of a failed call.
pub(super) enum Failed {
    /// The victim caused the failure: the call stays open.
    Expected,
}

impl Worker<'_> {
    /// Opens one of the thread's journals, to be filled.
    pub(super) fn journal<C: Serialize, R: Serialize>(
        &self,
        part: &str,
    ) -> Result<Journal<C, R, MonotonicClock, File>, CliError> {
        let file = File::options().append(true).open(self.journal_path(part));
        let file = file.map_err(CliError::os("opening a journal"))?;
        Ok(Journal::new(self.id, MonotonicClock, file))
    }

    fn journal_path(&self, part: &str) -> PathBuf {
        journals::path(&self.site.directory, part, self.id.node, self.id.thread)
    }

    /// Returns whether there is a call left to make, and counts it. The marked node stops itself here when it
    /// is time.
    ///
    /// While it is stopped or about to be killed, the marked node makes more calls than it must, so that it is
    /// in one of them.
    pub(super) fn goes_on(&self) -> Result<bool, CliError> {
        if self.made.get() >= self.calls && !self.site.is_pausing() && !self.is_time() {
            if !self.site.waits_for_kills() {
                return Ok(false);
            }
            // A loss takes a second or more, and the history is to be judged.
            std::thread::sleep(WAITING_PAUSE);
        }
        self.one_more();
        if self.site.suffers() && self.site.load.pause.is_some_and(|moment| self.is_past(moment)) {
            self.site.pause()?;
        }
        Ok(true)
    }

    /// Counts a call that [`goes_on`](Worker::goes_on) has not counted.
    pub(super) fn one_more(&self) {
        self.made.set(self.made.get() + 1);
    }

    /// Returns a number below `bound`, which must not be zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.random_range(0..bound)
    }

    /// Returns a number that no other thread has.
    pub(super) fn unique(&mut self) -> u64 {
        self.last += 1;
        u64::from(self.id.node + 1) << 48 | u64::from(self.id.thread) << 40 | self.last
    }

    /// Kills this process if it is time and this is the victim.
    pub(super) fn die_here(&self) {
        if self.is_time() {
            die();
        }
    }

    /// Kills this process a little later, in the middle of the next call, if it is time and this is the
    /// victim.
    pub(super) fn die_soon(&mut self) {
        // Relaxed: the flag only decides who kills.
        if self.is_time() && !self.site.doomed.swap(true, Ordering::Relaxed) {
            let delay = Duration::from_nanos(self.below(40_000));
            std::thread::spawn(move || {
                let begin = Instant::now();
                while begin.elapsed() < delay {
                    std::hint::spin_loop();
                }
                die();
            });
        }
    }

    /// Returns whether this thread is to die. If it is to be stopped before, this is true only once it has
    /// been resumed. From then on the thread should choose the calls that it is to die in.
    pub(super) fn is_time(&self) -> bool {
        self.site.suffers()
            // Relaxed: see `be_next`.
            && self.site.is_next.load(Ordering::Relaxed)
            && self.site.load.kill.is_some_and(|moment| self.is_past(moment))
            && (self.site.load.pause.is_none() || self.site.was_paused())
    }

    fn is_past(&self, moment: Moment) -> bool {
        match moment {
            Moment::After(time) => self.begin.elapsed() >= time,
            // The moment is in the first half, so that there are calls left to be in.
            Moment::Random => {
                let number = random(self.site.load.seed, u16::MAX, 0).random_range(0..self.calls.div_ceil(2));
                self.made.get() > number
            }
        }
    }

    /// Returns whether this node has heard that the victim is dead, so that every operation that begins now
    /// knows.
    pub(super) fn bereft(&self) -> bool {
        let control = self.site.manager.fabric().control();
        self.site
            .victim()
            .is_some_and(|victim| control.departures() != 0 && self.site.has_lost(victim))
    }

    /// Decides whether the victim's death explains an error. If it does not, the run fails with it.
    pub(super) fn excuse(&self, error: Error) -> Result<Failed, CliError> {
        let victim = self.site.victim();
        let explained = match &error {
            Error::HolderLost { node, .. } => Some(*node) == victim,
            // The victim was writing this value.
            Error::Torn { .. } => self.bereft(),
            error => error.lost_peer().is_some() && error.lost_peer() == victim,
        };
        if explained {
            Ok(Failed::Expected)
        } else {
            Err(error.into())
        }
    }
}

/// Returns the generator of a thread, which draws the same calls for the same seed.
fn random(seed: u64, node: u16, thread: u16) -> SmallRng {
    SmallRng::seed_from_u64(seed.rotate_left(32) ^ (u64::from(node) << 16 | u64::from(thread)))
}
