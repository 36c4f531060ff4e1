//! One node of `loco stress`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loco::fabric::{AnyFabric, Control, Fabric, NodeId, PeerState};
use loco::{Barrier, Error, Manager, Participants, Thread};
use loco_history::{Journal, MonotonicClock, ThreadId};
use serde::Serialize;

use super::{Load, Object, calls, journal_path};
use crate::error::CliError;
use crate::meet;

/// Name of the subcommand.
pub const NAME: &str = "stress-node";

/// Be one node of `loco stress`.
#[derive(clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    object: Object,
    directory: PathBuf,
    #[command(flatten)]
    load: Load,
}

/// What the threads of a node have in common.
pub(super) struct Site {
    pub(super) manager: Manager<AnyFabric>,
    pub(super) load: Load,
    directory: PathBuf,
    start: Barrier<AnyFabric>,
    /// Set when the victim is to die at the next good moment.
    doomed: AtomicBool,
}

/// Meets the others and works; the history is in the directory.
pub fn node(args: &Args) -> Result<u8, CliError> {
    let manager = Manager::new(meet::fabric()?)?;
    let threads = usize::from(args.load.threads);
    let site = Site {
        start: Barrier::with_participants(&manager, "start", &Participants::all(&manager), threads)?,
        manager,
        load: args.load.clone(),
        directory: args.directory.clone(),
        doomed: AtomicBool::new(false),
    };
    match args.object {
        Object::Atomic => calls::atomic(&site),
        Object::TicketLock => calls::ticket_lock(&site),
        Object::TasLock => calls::tas_lock(&site),
        Object::Queue => calls::queue(&site),
        Object::Kv => calls::kv(&site),
    }?;
    Ok(0)
}

impl Site {
    /// The node that dies, if one is to.
    pub(super) fn victim(&self) -> Option<NodeId> {
        self.load.kill.and_then(|_| self.manager.nodes().last().copied())
    }

    fn is_victim(&self) -> bool {
        self.victim() == Some(self.manager.node())
    }

    /// Runs `work` in every thread of this node, from a common start on, then waits until the other nodes are done too.
    pub(super) fn work(
        &self,
        work: impl Fn(&mut Worker<'_>) -> Result<(), CliError> + Sync,
    ) -> Result<(), CliError> {
        self.manager.wait_for_ready()?;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.load.threads)
                .map(|number| {
                    let work = &work;
                    scope.spawn(move || {
                        let mut worker = self.worker(number)?;
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
        if self.is_victim() {
            // Too quick to be killed at work.
            self.die();
        }
        self.leave_together()
    }

    fn worker(&self, number: u16) -> Result<Worker<'_>, CliError> {
        let node = self.manager.node().0;
        let total = u64::from(self.load.threads) * self.manager.nodes().len() as u64;
        Ok(Worker {
            site: self,
            thread: self.manager.thread()?,
            id: ThreadId { node, thread: number },
            calls: self.load.ops.div_ceil(total),
            random: Random::new(self.load.seed, node, number),
            begin: Instant::now(),
            last: 0,
        })
    }

    /// Those left go when all of them are done.
    pub(super) fn leave_together(&self) -> Result<(), CliError> {
        let victim = self.victim();
        let left = self
            .manager
            .nodes()
            .iter()
            .copied()
            .filter(|&node| Some(node) != victim);
        let end = Barrier::with_participants(&self.manager, "end", &Participants::of(left), 1)?;
        end.channel().wait_for_ready()?;
        let thread = self.manager.thread()?;
        thread.set_deadline(Some(thread.now().after(Duration::from_secs(300))));
        match end.wait(&thread) {
            // Its fence says once what was outstanding towards the dead.
            Err(error) if victim.is_some() && error.lost_peer() == victim => end.wait(&thread)?,
            outcome => outcome?,
        }
        Ok(())
    }

    /// As of a `kill -9`.
    fn die(&self) -> ! {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::abort()
    }
}

/// One thread at work.
pub(super) struct Worker<'a> {
    pub(super) site: &'a Site,
    pub(super) thread: Thread<AnyFabric>,
    pub(super) id: ThreadId,
    /// How many to make.
    pub(super) calls: u64,
    pub(super) random: Random,
    begin: Instant,
    last: u64,
}

/// What becomes of a call that failed.
pub(super) enum Failed {
    /// It is the victim's fault: the call stays open.
    Expected,
}

impl Worker<'_> {
    pub(super) fn journal<C: Serialize, R: Serialize>(
        &self,
        part: &str,
    ) -> Result<Journal<C, R, MonotonicClock, File>, CliError> {
        let path = journal_path(&self.site.directory, part, self.id.node, self.id.thread);
        let file = File::create(path).map_err(CliError::os("making a journal"))?;
        Ok(Journal::new(self.id, MonotonicClock, file))
    }

    /// A number that no other thread has.
    pub(super) fn unique(&mut self) -> u64 {
        self.last += 1;
        u64::from(self.id.node + 1) << 48 | u64::from(self.id.thread) << 40 | self.last
    }

    /// Dies here if it is time and this is the victim.
    pub(super) fn die_here(&self) {
        if self.is_time() {
            self.site.die();
        }
    }

    /// Dies a little later, in the middle of what comes next, if it is time and this is the victim.
    pub(super) fn die_soon(&mut self) {
        // Relaxed: decides who kills, nothing else.
        if self.is_time() && !self.site.doomed.swap(true, Ordering::Relaxed) {
            let delay = Duration::from_nanos(self.random.below(40_000));
            let killer = move || {
                let begin = Instant::now();
                while begin.elapsed() < delay {
                    std::hint::spin_loop();
                }
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            };
            std::thread::spawn(killer);
        }
    }

    /// Whether this thread is to die, and had better be in what it is to die in.
    pub(super) fn is_time(&self) -> bool {
        let after = self.site.load.kill.filter(|_| self.site.is_victim());
        after.is_some_and(|after| self.begin.elapsed() >= Duration::from_millis(after))
    }

    /// Whether the victim is dead, as every operation that begins now knows.
    pub(super) fn bereft(&self) -> bool {
        let control = self.site.manager.fabric().control();
        self.site
            .victim()
            .is_some_and(|victim| control.departures() != 0 && control.peer_state(victim) != PeerState::Alive)
    }

    /// An error that the victim's death explains is none of this run.
    pub(super) fn excuse(&self, error: Error) -> Result<Failed, CliError> {
        let victim = self.site.victim();
        let explained = match &error {
            Error::HolderLost { node, .. } => Some(*node) == victim,
            // Of a value that the victim was writing.
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

/// A small generator (xorshift64*): the same calls for the same seed.
pub(super) struct Random(u64);

impl Random {
    fn new(seed: u64, node: u16, thread: u16) -> Random {
        let mixed = (seed << 32 | u64::from(node) << 16 | u64::from(thread)).wrapping_add(1);
        Random(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}
