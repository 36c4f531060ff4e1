//! A state of the world: the machine, where each thread is, locks and set-up messages; and what can happen next.
//!
//! Relies on `mowgli::machine` for memory and NICs and on [`crate::state::behaviour`] for threads. Used by every strategy.

pub(crate) mod behaviour;
pub(crate) mod chunks;
mod encode;
pub(crate) mod names;
mod nic;

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mowgli::machine::{Action, Addr, Machine, Post, Step};
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use crate::exploring::sharing::{Agent, Seen};
use crate::fabric::request::{Kind, LockMode, Note, Reply, Request, VirtualWord};
use crate::state::behaviour::{Behaviour, Past};
use crate::state::names::Names;

/// What all explorers of one exploration share.
#[derive(Default)]
pub(crate) struct Common {
    pub(crate) behaviour: Behaviour,
    pub(crate) words: Names,
    pub(crate) locks: Names,
}

/// A mutex whose poisoning says nothing: the panic is reported by the explorer that had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The thread's request is granted.
    Thread(u16),
    /// The machine takes a step.
    Machine(Step),
}

/// A state. Small itself, as it is moved about; copying into an old one reuses its storage.
pub(crate) struct State {
    pub(crate) machine: Box<Machine>,
    pub(crate) threads: Vec<Thread>,
    /// What does not change about them. Shared by states.
    infos: Arc<Vec<Info>>,
    locks: Vec<Lock>,
    mail: Arc<Vec<Mailbox>>,
}

impl Clone for State {
    fn clone(&self) -> State {
        State {
            machine: self.machine.clone(),
            threads: self.threads.clone(),
            infos: self.infos.clone(),
            locks: self.locks.clone(),
            mail: self.mail.clone(),
        }
    }

    fn clone_from(&mut self, source: &State) {
        self.machine.clone_from(&source.machine);
        self.threads.clone_from(&source.threads);
        self.infos.clone_from(&source.infos);
        self.locks.clone_from(&source.locks);
        self.mail.clone_from(&source.mail);
    }
}

/// What does not change about a thread.
#[derive(Clone)]
pub(crate) struct Info {
    pub(crate) node: u16,
    pub(crate) kind: Kind,
    pub(crate) name: Arc<str>,
}

/// Where a thread is.
#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) past: Past,
    pub(crate) status: Status,
    /// The wait that it is in.
    pub(crate) wait: Option<Box<Waiting>>,
    /// Calls of its history that have returned.
    finished: u16,
}

/// Whether a thread can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Ready,
    /// Until something that its wait looked at changes.
    Parked,
    Done,
    Failed,
}

/// A wait under way.
#[derive(Clone)]
pub(crate) struct Waiting {
    /// Where it was asked for: its request has what is waited for.
    begin: Past,
    /// Where its evaluation began.
    pub(crate) entry: Past,
    /// Where an evaluation that only read has failed.
    failed: Option<Past>,
    /// The same, once it is evaluated again for the first time after that.
    resumes: Option<Past>,
    /// The evaluation so far only read.
    pure: bool,
    polled: bool,
    reads: SmallVec<[(VirtualWord, u64); 4]>,
    /// Locks that it found taken.
    locks: SmallVec<[usize; 1]>,
}

impl Waiting {
    /// What is waited for.
    pub(crate) fn what<'a>(&self, common: &'a Common) -> &'a Arc<str> {
        match common.behaviour.request(self.begin) {
            Some(Request::WaitBegin { what }) => what,
            // A wait is made by granting just that request.
            _ => unreachable!("a wait without its beginning"),
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Lock {
    writer: Option<u16>,
    readers: u16,
    /// Stands for the value that the lock protects: a function of who held it, in which past.
    version: u64,
}

#[derive(Clone, Default)]
struct Mailbox {
    messages: VecDeque<(u16, Arc<[u8]>)>,
    closed: bool,
}

impl State {
    pub(crate) fn new(machine: Machine, nodes: usize) -> State {
        State {
            machine: Box::new(machine),
            threads: Vec::new(),
            infos: Arc::default(),
            locks: Vec::new(),
            mail: Arc::new(vec![Mailbox::default(); nodes]),
        }
    }

    /// Adds a thread at the start of its body.
    pub(crate) fn add_thread(&mut self, common: &Common, node: u16, kind: Kind, name: Arc<str>) -> u16 {
        let thread = self.machine.add_thread();
        Arc::make_mut(&mut self.infos).push(Info { node, kind, name });
        self.threads.push(Thread {
            past: common.behaviour.root(thread),
            status: Status::Ready,
            wait: None,
            finished: 0,
        });
        thread
    }

    /// The machine's word for a name, made now if it has none.
    pub(crate) fn addr(&mut self, common: &Common, word: VirtualWord) -> Addr {
        let addr = Addr(common.words.index(word.0));
        while self.machine.memory().len() <= addr.0 as usize {
            self.machine.add_location(0);
        }
        addr
    }

    /// Where the thread's requests come from, if it can be granted any.
    pub(crate) fn request<'a>(&self, common: &'a Common, thread: u16) -> Option<&'a Request> {
        let t = &self.threads[thread as usize];
        match t.status {
            Status::Ready => common.behaviour.request(t.past),
            Status::Parked | Status::Done | Status::Failed => None,
        }
    }

    /// The index of a lock, made now if it has none.
    pub(crate) fn lock_index(&mut self, common: &Common, lock: u64) -> usize {
        let index = common.locks.index(lock) as usize;
        if self.locks.len() <= index {
            self.locks.resize(index + 1, Lock::default());
        }
        index
    }

    /// Whether the thread's store buffer is empty: locked instructions need it.
    fn drained(&self, thread: u16) -> bool {
        self.machine.is_enabled(thread, &Action::Mfence)
    }

    /// Whether the request could be granted now.
    pub(crate) fn is_enabled(&mut self, common: &Common, thread: u16, request: &Request) -> bool {
        match request {
            Request::Fence | Request::Rmw { .. } | Request::TryLock { .. } | Request::Unlock { .. } => {
                self.drained(thread)
            }
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
                .is_some_and(|t| matches!(t.status, Status::Done | Status::Failed)),
            Request::Receive => {
                let mailbox = &self.mail[self.node_of(thread) as usize];
                mailbox.closed || !mailbox.messages.is_empty()
            }
            _ => true,
        }
    }

    /// Grants the request: the reply, with every effect on this state but the thread's new past. Nothing if it is not
    /// enabled.
    pub(crate) fn grant(
        &mut self,
        common: &Common,
        seen: &mut Seen,
        thread: u16,
        request: &Request,
    ) -> Option<Reply> {
        if !self.is_enabled(common, thread, request) {
            return None;
        }
        let cpu = Agent::cpu(thread);
        let reply = match *request {
            Request::Load { word } => {
                let addr = self.addr(common, word);
                seen.touch(addr, cpu, false);
                let value = self.machine.load(thread, addr)? as u64;
                if let Some(wait) = &mut self.threads[thread as usize].wait {
                    wait.reads.push((word, value));
                }
                return Some(Reply::Value(value));
            }
            Request::Store { word, value } => {
                let loc = self.addr(common, word);
                seen.touch(loc, cpu, true);
                self.machine
                    .issue(
                        thread,
                        Action::Store {
                            loc,
                            value: value as i64,
                        },
                    )
                    .ok()?;
                Reply::Unit
            }
            Request::Rmw { word, rmw } => {
                let loc = self.addr(common, word);
                seen.touch(loc, cpu, false);
                seen.touch(loc, cpu, true);
                let old = self.locked(thread, loc, rmw)?;
                if let Some(wait) = &mut self.threads[thread as usize].wait {
                    wait.reads.push((word, rmw.apply(old).unwrap_or(old)));
                }
                Reply::Value(old)
            }
            Request::Fence => Reply::Unit,
            Request::Post {
                owner,
                peer,
                op,
                tag,
                signaled,
            } => {
                let op = self.remote_op(common, op);
                self.machine
                    .issue(
                        owner,
                        Action::Post(Post {
                            peer,
                            op,
                            tag,
                            signalled: signaled,
                        }),
                    )
                    .ok()?;
                Reply::Unit
            }
            Request::Poll => {
                let completions = self.poll(self.node_of(thread));
                let none = completions.is_empty();
                let reply = Reply::Completions(completions);
                if let Some(wait) = &mut self.threads[thread as usize].wait {
                    wait.polled = true;
                    if none {
                        return Some(reply);
                    }
                }
                reply
            }
            Request::WaitBegin { .. } => {
                let t = &mut self.threads[thread as usize];
                let entry = common.behaviour.after(t.past, &Reply::Unit);
                t.wait = Some(Box::new(Waiting {
                    begin: t.past,
                    entry,
                    failed: None,
                    resumes: None,
                    pure: true,
                    polled: false,
                    reads: SmallVec::new(),
                    locks: SmallVec::new(),
                }));
                return Some(Reply::Unit);
            }
            Request::WaitEnd => {
                self.threads[thread as usize].wait = None;
                return Some(Reply::Unit);
            }
            // Granted when the thread is woken.
            Request::Park => {
                let t = &mut self.threads[thread as usize];
                t.status = Status::Parked;
                if let Some(wait) = t.wait.as_mut().filter(|wait| wait.pure) {
                    wait.failed = Some(t.past);
                    t.past = common.behaviour.resumption(t.past).unwrap_or(wait.entry);
                    wait.entry = t.past;
                }
                return Some(Reply::Unit);
            }
            Request::Lock { lock, mode } => {
                let index = self.lock_index(common, lock.0);
                seen.touch_lock(index, thread, false);
                let lock = &mut self.locks[index];
                match mode {
                    LockMode::Exclusive => lock.writer = Some(thread),
                    LockMode::Shared => lock.readers += 1,
                }
                Reply::Value(lock.version)
            }
            Request::TryLock { lock } => {
                let index = self.lock_index(common, lock.0);
                seen.touch_lock(index, thread, true);
                let lock = &mut self.locks[index];
                if lock.writer.is_none() && lock.readers == 0 {
                    lock.writer = Some(thread);
                    // Odd, so that it differs from the refusal.
                    Reply::Value(lock.version | 1)
                } else {
                    if let Some(wait) = &mut self.threads[thread as usize].wait {
                        wait.locks.push(index);
                    }
                    Reply::Value(0)
                }
            }
            Request::Unlock { lock, mode } => {
                let index = self.lock_index(common, lock.0);
                let past = self.threads[thread as usize].past;
                let lock = &mut self.locks[index];
                match mode {
                    LockMode::Exclusive => {
                        lock.writer = None;
                        let mut hasher = FxHasher::default();
                        (lock.version, past).hash(&mut hasher);
                        lock.version = hasher.finish() | 1;
                    }
                    LockMode::Shared => lock.readers = lock.readers.saturating_sub(1),
                }
                Reply::Unit
            }
            Request::Spawn { node, kind, ref name } => {
                Reply::Value(u64::from(self.add_thread(common, node, kind, name.clone())))
            }
            Request::Join { .. } => Reply::Unit,
            Request::Send { to, ref payload } => {
                let from = self.node_of(thread);
                if let Some(mailbox) = Arc::make_mut(&mut self.mail).get_mut(to.0 as usize) {
                    mailbox.messages.push_back((from, payload.clone()));
                }
                Reply::Unit
            }
            Request::Receive => {
                let node = self.node_of(thread);
                let mailbox = &mut Arc::make_mut(&mut self.mail)[node as usize];
                Reply::Message(mailbox.messages.pop_front())
            }
            Request::Close => {
                let node = self.node_of(thread) as usize;
                Arc::make_mut(&mut self.mail)[node].closed = true;
                Reply::Unit
            }
            Request::Note(Note::Call(_)) => {
                Reply::Finished(self.threads.iter().map(|t| t.finished).collect())
            }
            Request::Note(Note::Return(_)) => {
                self.threads[thread as usize].finished += 1;
                Reply::Unit
            }
            Request::Note(Note::Mark(_)) => Reply::Unit,
            Request::End(ref end) => {
                self.threads[thread as usize].status =
                    if end.is_ok() { Status::Done } else { Status::Failed };
                return Some(Reply::Unit);
            }
        };
        if let Some(wait) = &mut self.threads[thread as usize].wait {
            wait.pure = false;
        }
        Some(reply)
    }

    /// Moves the thread on after a granted request. A parked thread moves on when it is woken.
    pub(crate) fn advance(&mut self, common: &Common, thread: u16, reply: &Reply) {
        let t = &mut self.threads[thread as usize];
        if t.status == Status::Ready {
            t.past = common.behaviour.after(t.past, reply);
        }
    }

    /// Wakes a parked thread whose wait may have come true.
    pub(crate) fn wake(&mut self, common: &Common) -> Option<u16> {
        for thread in 0..self.threads.len() as u16 {
            let t = &self.threads[thread as usize];
            if t.status != Status::Parked {
                continue;
            }
            let Some(wait) = &t.wait else { continue };
            let changed = wait.reads.iter().any(|&(word, value)| {
                self.machine.load(thread, Addr(common.words.index(word.0))) != Some(value as i64)
            });
            let released = wait
                .locks
                .iter()
                .any(|&l| self.locks[l].writer.is_none() && self.locks[l].readers == 0);
            let may_hold = changed || released || (wait.polled && self.can_poll(self.node_of(thread)));
            if !may_hold {
                continue;
            }
            let t = &mut self.threads[thread as usize];
            t.status = Status::Ready;
            if let Some(wait) = &mut t.wait {
                match wait.failed.take() {
                    Some(failed) => match common.behaviour.resumption(failed) {
                        Some(past) => t.past = past,
                        None => {
                            t.past = common.behaviour.after(failed, &Reply::Unit);
                            wait.resumes = Some(failed);
                        }
                    },
                    None => t.past = common.behaviour.after(t.past, &Reply::Unit),
                }
                if wait.resumes.is_none() {
                    wait.entry = t.past;
                }
                wait.pure = true;
                wait.polled = false;
                wait.reads.clear();
                wait.locks.clear();
            }
            return Some(thread);
        }
        None
    }

    /// Whether a thread that the end waits for has not ended.
    pub(crate) fn is_unfinished(&self) -> bool {
        let ended = |t: &Thread| t.status == Status::Done;
        self.threads
            .iter()
            .zip(self.infos.iter())
            .any(|(t, info)| info.kind == Kind::Worker && !ended(t))
    }

    /// What does not change about a thread.
    pub(crate) fn info(&self, thread: u16) -> &Info {
        &self.infos[usize::from(thread)]
    }

    fn node_of(&self, thread: u16) -> u16 {
        self.info(thread).node
    }

    /// Number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.mail.len()
    }

    /// What a parked thread waits for: words, whether completions, locks.
    pub(crate) fn parked_on(&self, common: &Common, thread: u16) -> (Vec<Addr>, bool, Vec<usize>) {
        let Some(wait) = &self.threads[usize::from(thread)].wait else {
            return Default::default();
        };
        let words = wait
            .reads
            .iter()
            .map(|(word, _)| Addr(common.words.index(word.0)))
            .collect();
        (words, wait.polled, wait.locks.to_vec())
    }

    /// Settles where threads are that evaluate their conditions again, once it is known what they ask for. Whatever the
    /// failed evaluation read, it has left only its progress behind, if any, and that shows in the next request: so the
    /// past is where the wait began, or the point after it that begins with this request.
    pub(crate) fn resume(&mut self, common: &Common) {
        for t in &mut self.threads {
            let Some(wait) = &mut t.wait else { continue };
            let (Some(failed), Some(request)) = (wait.resumes, common.behaviour.request(t.past)) else {
                continue;
            };
            wait.resumes = None;
            if common.behaviour.request(wait.entry) != Some(request) {
                wait.entry = common.behaviour.resumed(wait.begin, request);
            }
            common.behaviour.resumes(failed, wait.entry);
            t.past = wait.entry;
        }
    }

    /// Takes a step of the machine.
    pub(crate) fn take(&mut self, seen: &mut Seen, step: Step) -> bool {
        let touched = self.machine.footprint(step);
        let agent = agent_of(step);
        if let Some(word) = touched.reads {
            seen.touch(word, agent, false);
        }
        if let Some(word) = touched.writes {
            seen.touch(word, agent, true);
        }
        self.machine.apply(step).is_ok()
    }
}

/// Whose access a machine step is.
pub(crate) fn agent_of(step: Step) -> Agent {
    match step {
        Step::Drain { thread } => Agent::cpu(thread),
        Step::Nic { qp, rule, .. } => Agent::nic(qp, rule),
    }
}
