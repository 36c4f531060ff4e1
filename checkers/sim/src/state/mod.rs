//! A state of the world: the machine, the progress of each thread, locks and set-up messages, and the moves
//! that can come next.
//!
//! Relies on `mowgli::machine` for memory and NICs and on [`crate::state::behaviour`] for threads. Used by every strategy.

pub(crate) mod allowed;
pub(crate) mod behaviour;
pub(crate) mod chunks;
pub(crate) mod copies;
mod encode;
pub(crate) mod faults;
mod future;
mod grant;
mod links;
pub(crate) mod names;
mod nic;
pub(crate) mod rounds;
pub(crate) mod sharing;
mod symmetry;
pub(crate) mod waits;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mowgli::machine::{Addr, Machine, Step};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::fabric::coroutine::Labels;
use crate::fabric::request::{LockId, LockMode, ModelThreadKind, Reply, Request, VirtualWord};
use crate::state::allowed::Faults;
use crate::state::behaviour::{Behaviour, Past};
use crate::state::copies::{share, share_any};
use crate::state::faults::{Fault, Losses};
use crate::state::names::Names;
use crate::state::sharing::Agent;
use crate::state::waits::{Waiting, Waits};

/// The knowledge that all explorers of one exploration share.
pub(crate) struct Common {
    pub(crate) behaviour: Behaviour,
    pub(crate) words: Names,
    pub(crate) locks: Names,
    /// `None` if the values that locks protect are taken to be always the same.
    versions: Option<Versions>,
    pub(crate) waits: Waits,
    /// The words at which checks of complete executions have looked.
    checked: Mutex<FxHashSet<Addr>>,
    /// The names that the set-up gave to words.
    labels: OnceLock<Labels>,
}

impl Default for Common {
    fn default() -> Common {
        Common::new(Waits::default())
    }
}

impl Common {
    /// Begins with no knowledge.
    pub(crate) fn new(waits: Waits) -> Common {
        Common {
            behaviour: Behaviour::default(),
            words: Names::default(),
            locks: Names::default(),
            versions: Some(Versions::default()),
            waits,
            checked: Mutex::default(),
            labels: OnceLock::new(),
        }
    }

    /// Begins with no knowledge, and takes the values that locks protect to be always the same. They then do not tell the rounds of
    /// a loop apart.
    pub(crate) fn without_versions(waits: Waits) -> Common {
        Common {
            versions: None,
            ..Common::new(waits)
        }
    }

    /// Returns the number of the value that a holder who releases in `past` has made of the value with the number `before`.
    fn version_after(&self, before: u64, past: Past) -> u64 {
        self.versions
            .as_ref()
            .map_or(before, |versions| versions.after(before, past))
    }

    /// Keeps the names that the set-up, which is always the same, gave to words.
    pub(crate) fn keep_labels(&self, labels: Labels) {
        let _ = self.labels.set(labels);
    }

    /// Returns the name of the words among which this one was allocated, if the set-up named them, and its place there.
    pub(crate) fn label(&self, word: VirtualWord) -> Option<(&str, u64)> {
        let (first, (words, name)) = self.labels.get()?.range(..=word).next_back()?;
        let place = word.0 - first.0;
        (place < *words).then_some((name, place))
    }

    /// Notes that a check of a complete execution looks at the word.
    pub(crate) fn check(&self, word: Addr) {
        lock(&self.checked).insert(word);
    }

    /// Returns whether checks of complete executions have looked at the word.
    pub(crate) fn is_checked(&self, word: Addr) -> bool {
        lock(&self.checked).contains(&word)
    }

    /// Returns the number of words at which checks of complete executions have looked.
    pub(crate) fn checked(&self) -> usize {
        lock(&self.checked).len()
    }
}

/// Numbers for the values that locks protect. Each value is what a holder in some past made of the value
/// before.
#[derive(Default)]
struct Versions(Mutex<FxHashMap<(u64, Past), u64>>);

impl Versions {
    /// Returns the number of the value that a holder who releases in `past` has made of `before`. It is odd,
    /// to differ from a refusal, and above 1, which a try that finds the first value is told.
    fn after(&self, before: u64, past: Past) -> u64 {
        let mut known = lock(&self.0);
        let next = known.len() as u64 + 1;
        *known.entry((before, past)).or_insert(next << 1 | 1)
    }
}

/// Locks a mutex whatever its poisoning says: the explorer that panicked reports the panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The thread's request is granted.
    Thread(u16),
    /// The machine takes a step.
    Machine(Step),
    /// Time passes, a node is lost, or a loss becomes known.
    Fault(Fault),
}

/// A state. It is small, because it is moved about. Copying into an old state reuses its storage.
pub(crate) struct State {
    pub(crate) machine: Box<Machine>,
    pub(crate) threads: Vec<Thread>,
    /// The constant facts about the threads, shared by states.
    infos: Arc<Vec<Info>>,
    locks: Vec<Lock>,
    mail: Arc<Vec<Mailbox>>,
    pub(crate) losses: Losses,
}

impl Clone for State {
    fn clone(&self) -> State {
        State {
            machine: self.machine.clone(),
            threads: self.threads.clone(),
            infos: self.infos.clone(),
            locks: self.locks.clone(),
            mail: self.mail.clone(),
            losses: self.losses.clone(),
        }
    }

    fn clone_from(&mut self, source: &State) {
        self.machine.clone_from(&source.machine);
        self.threads.truncate(source.threads.len());
        let common = self.threads.len();
        for (mine, theirs) in self.threads.iter_mut().zip(&source.threads) {
            mine.become_copy(theirs);
        }
        self.threads.extend_from_slice(&source.threads[common..]);
        share(&mut self.infos, &source.infos);
        self.locks.clone_from(&source.locks);
        share(&mut self.mail, &source.mail);
        self.losses.clone_from(&source.losses);
    }
}

/// The constant facts about a thread.
#[derive(Clone)]
pub(crate) struct Info {
    pub(crate) node: u16,
    pub(crate) kind: ModelThreadKind,
    pub(crate) name: Arc<str>,
    /// The numbers of the threads that are [symmetric](symmetry) with this one, itself among them.
    pub(crate) symmetric: Range<u16>,
}

/// The progress of a thread.
#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) past: Past,
    pub(crate) status: Status,
    /// The wait that the thread is in. Most threads of a state are parked, and copies of the state share their waits.
    pub(crate) wait: Option<Arc<Waiting>>,
    /// The number of calls of its history that have returned.
    finished: u16,
    /// Set once a call of its history has begun: histories tell this thread from others.
    called: bool,
    /// The number of requests granted, without those that only read. It follows from the past.
    phase: u32,
}

impl Thread {
    fn become_copy(&mut self, source: &Thread) {
        share_any(&mut self.wait, &source.wait);
        (self.past, self.status) = (source.past, source.status);
        (self.finished, self.called, self.phase) = (source.finished, source.called, source.phase);
    }

    /// Returns the wait that the thread is in, to change it.
    fn wait_mut(&mut self) -> Option<&mut Waiting> {
        self.wait.as_mut().map(Arc::make_mut)
    }
}

/// The ability of a thread to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Ready,
    /// Stopped until something that its wait looked at changes.
    Parked,
    Done,
    Failed,
    /// Stopped with its node.
    Stopped,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Lock {
    writer: Option<u16>,
    readers: u16,
    /// The number that stands for the value which the lock protects ([`Versions`]).
    version: u64,
}

#[derive(Clone, Default)]
struct Mailbox {
    messages: VecDeque<(u16, Arc<[u8]>)>,
    closed: bool,
}

impl State {
    pub(crate) fn new(machine: Machine, nodes: usize, faults: Faults) -> State {
        State {
            machine: Box::new(machine),
            threads: Vec::new(),
            infos: Arc::default(),
            locks: Vec::new(),
            mail: Arc::new(vec![Mailbox::default(); nodes]),
            losses: Losses::new(faults, nodes),
        }
    }

    /// Adds a thread at the start of its body: one of the world, or one that another thread starts.
    pub(crate) fn add_thread(
        &mut self,
        common: &Common,
        by: Option<u16>,
        node: u16,
        kind: ModelThreadKind,
        name: Arc<str>,
    ) -> u16 {
        let thread = self.machine.add_thread();
        let past = match by {
            Some(by) => common
                .behaviour
                .started(self.threads[usize::from(by)].past, thread),
            None => common.behaviour.root(thread),
        };
        Arc::make_mut(&mut self.infos).push(Info {
            node,
            kind,
            name,
            symmetric: thread..thread + 1,
        });
        self.threads.push(Thread {
            past,
            status: Status::Ready,
            wait: None,
            finished: 0,
            called: false,
            phase: 0,
        });
        thread
    }

    /// Returns the machine's word for a name. Makes the word if there is none yet.
    pub(crate) fn addr(&mut self, common: &Common, word: VirtualWord) -> Addr {
        let addr = Addr(common.words.index(word.0));
        while self.machine.memory().len() <= addr.0 as usize {
            let added = self.machine.add_location(0);
            // Where regions may be of relaxed ordering, all are.
            self.machine.relax(added);
        }
        addr
    }

    /// Returns the next request of a thread that is ready, if a run has seen it.
    pub(crate) fn request<'a>(&self, common: &'a Common, thread: u16) -> Option<&'a Request> {
        let t = &self.threads[thread as usize];
        match t.status {
            Status::Ready => common.behaviour.request(t.past),
            Status::Parked | Status::Done | Status::Failed | Status::Stopped => None,
        }
    }

    /// Returns the index of a lock. Makes one if there is none yet.
    pub(crate) fn lock_index(&mut self, common: &Common, lock: u64) -> usize {
        let index = common.locks.index(lock) as usize;
        if self.locks.len() <= index {
            self.locks.resize(index + 1, Lock::default());
        }
        index
    }

    /// Returns the thread that holds a lock alone, if one does.
    pub(crate) fn holder(&self, common: &Common, lock: LockId) -> Option<u16> {
        let index = common.locks.index(lock.0) as usize;
        self.locks.get(index)?.writer
    }

    /// Returns whether the thread's store buffer is empty, as locked instructions require.
    fn drained(&self, thread: u16) -> bool {
        self.machine.is_drained(thread)
    }

    /// Returns whether the request could be granted now.
    pub(crate) fn is_enabled(&mut self, common: &Common, thread: u16, request: &Request) -> bool {
        match request {
            Request::Fence | Request::Rmw { .. } | Request::TryLock { .. } | Request::Unlock { .. } => {
                self.drained(thread)
            }
            Request::Direct { word, access, .. } => self.is_enabled(common, thread, &access.to(*word)),
            Request::Post { owner, .. } => *owner == thread || self.drained(thread),
            Request::Lock { lock, mode } => {
                let index = self.lock_index(common, lock.0);
                let lock = self.locks[index];
                lock.writer.is_none()
                    && (*mode == LockMode::Shared || lock.readers == 0)
                    && self.drained(thread)
            }
            Request::Join { thread: other } => self
                .threads
                .get(*other as usize)
                .is_some_and(|t| matches!(t.status, Status::Done | Status::Failed | Status::Stopped)),
            // A process that ends leaves no store behind.
            Request::Leave => {
                let node = self.node_of(thread);
                (0..self.threads.len() as u16).all(|t| self.node_of(t) != node || self.drained(t))
            }
            Request::Receive => {
                let mailbox = &self.mail[self.node_of(thread) as usize];
                mailbox.closed || !mailbox.messages.is_empty()
            }
            _ => true,
        }
    }

    /// Moves the thread on after a granted request. A parked thread moves on when it is woken.
    pub(crate) fn advance(&mut self, common: &Common, thread: u16, reply: &Reply) {
        let t = &mut self.threads[thread as usize];
        if t.status == Status::Ready {
            t.past = common.behaviour.after(t.past, reply);
        }
    }

    /// Returns whether a thread that the end waits for has not ended.
    pub(crate) fn is_unfinished(&self) -> bool {
        let ended = |t: &Thread| matches!(t.status, Status::Done | Status::Stopped);
        self.threads
            .iter()
            .zip(self.infos.iter())
            .any(|(t, info)| info.kind == ModelThreadKind::Worker && !ended(t))
    }

    /// Returns the constant facts about a thread.
    pub(crate) fn info(&self, thread: u16) -> &Info {
        &self.infos[usize::from(thread)]
    }

    fn node_of(&self, thread: u16) -> u16 {
        self.info(thread).node
    }

    /// Returns the number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.mail.len()
    }

    /// Takes a step of the machine.
    pub(crate) fn take(&mut self, step: Step) -> bool {
        self.machine.apply(step).is_ok()
    }
}

/// Returns the agent that makes the accesses of a machine step.
pub(crate) fn agent_of(step: Step) -> Agent {
    match step {
        Step::Drain { thread } => Agent::cpu(thread),
        Step::Nic { qp, rule, .. } => Agent::nic(qp, rule),
    }
}
