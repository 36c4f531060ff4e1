//! Grants the requests of threads: what each request does to the world, and the reply to it.
//!
//! [`State::grant`] names the step of each request; [`Grant`] has the steps. A step notes in [`SeenAccesses`] what it touches, because
//! partial-order reduction relies on these notes.

use std::sync::Arc;

use mowgli::machine::{Action, Addr, Post, QpId, Rule};
use smallvec::SmallVec;

use super::waits::{Waiting, Waits};
use super::{Common, State, Status, Thread};
use crate::fabric::request::{Deadline, LockId, LockMode, NodeSet, Note, Reply, Request, Rmw, VirtualWord};
use crate::state::sharing::{Agent, SeenAccesses, Shared};

/// The reply to a request, and what the request was to the thread that made it.
enum Granted {
    /// The thread has done something: its phase ends, and the evaluation of a wait's condition is no longer free of effects.
    Acted(Reply),
    /// The thread has looked at something, or has entered or left a wait. The step has done all that there is to do.
    Looked(Reply),
}

/// A request under way.
struct Grant<'a> {
    state: &'a mut State,
    common: &'a Common,
    seen: &'a mut SeenAccesses,
    thread: u16,
    /// The phase of the thread before the request.
    phase: u32,
}

impl State {
    /// Grants the request. Returns the reply after every effect on this state except the thread's new past.
    /// Returns `None` if the request is not enabled.
    pub(crate) fn grant(
        &mut self,
        common: &Common,
        seen: &mut SeenAccesses,
        thread: u16,
        request: &Request,
    ) -> Option<Reply> {
        if !self.is_enabled(common, thread, request) {
            return None;
        }
        let mut grant = Grant {
            phase: self.threads[thread as usize].phase,
            state: self,
            common,
            seen,
            thread,
        };
        match grant.step(request)? {
            Granted::Looked(reply) => Some(reply),
            Granted::Acted(reply) => {
                grant.end_phase();
                Some(reply)
            }
        }
    }
}

impl Grant<'_> {
    /// Takes the step of the request.
    fn step(&mut self, request: &Request) -> Option<Granted> {
        Some(match *request {
            Request::Load { word } => self.load(word)?,
            Request::Store { word, value } => self.store(word, value)?,
            Request::Rmw { word, rmw } => self.rmw(word, rmw)?,
            Request::Direct { peer, word, access } => {
                // A condition that makes such an access depends on the losses that its node knows.
                self.state.look(self.thread);
                match self.refused(peer) {
                    Some(refused) => refused,
                    None => self.step(&access.to(word))?,
                }
            }
            Request::Post {
                owner,
                peer,
                op,
                tag,
                signaled,
                strong,
                transfer,
            } => match self.refused(peer) {
                Some(refused) => refused,
                None => {
                    let op = self.state.remote_op(self.common, op);
                    let post = Post {
                        peer,
                        op,
                        tag,
                        signaled,
                        transfer,
                        strong,
                        message: None,
                    };
                    self.post(owner, post)?
                }
            },
            Request::Poll => self.poll(),
            Request::Now => self.now(),
            Request::Lost => self.lost(),
            Request::Reach { peer } => self.reach(peer),
            Request::WaitBegin { deadline, peers, .. } => self.begin_wait(deadline, peers),
            Request::WaitEnd => self.end_wait(),
            Request::Park => self.park(),
            Request::Lock { lock, mode } => self.lock(lock, mode),
            Request::TryLock { lock } => self.try_lock(lock),
            Request::Unlock { lock, mode } => self.unlock(lock, mode),
            Request::Spawn { node, kind, ref name } => {
                let by = Some(self.thread);
                let thread = self.state.add_thread(self.common, by, node, kind, name.clone());
                Granted::Acted(Reply::Value(u64::from(thread)))
            }
            Request::Send { to, ref payload } => self.send(to.0, payload),
            Request::Receive => self.receive(),
            Request::Close => self.close(),
            Request::Note(ref note) => self.note(note),
            Request::Faulted => Granted::Acted(Reply::Value(u64::from(self.state.losses.have_begun()))),
            Request::HasHappened(blame) => {
                let has = self.state.losses.has_happened(self.node(), blame);
                Granted::Acted(Reply::Value(u64::from(has)))
            }
            Request::Leave => {
                self.state.stop(self.node());
                Granted::Looked(Reply::Unit)
            }
            Request::End(ref end) => self.end(end.is_ok()),
            // That they are enabled says all.
            Request::Fence | Request::Join { .. } => Granted::Acted(Reply::Unit),
        })
    }

    /// Begins the thread's next phase. The wait that the thread is in, if any, has had an effect.
    fn end_phase(&mut self) {
        let thread = self.thread_mut();
        thread.phase += 1;
        if let Some(wait) = thread.wait.as_mut().filter(|wait| wait.pure) {
            Arc::make_mut(wait).pure = false;
        }
    }

    /// Counts what the thread uses as used by each of its [symmetric threads](super::symmetry).
    fn touch(&mut self, touch: impl Fn(&mut SeenAccesses, u16, u32)) {
        for thread in self.state.symmetric(self.thread) {
            touch(self.seen, thread, self.phase);
        }
    }

    /// Counts an access of the processor to a word.
    fn touch_word(&mut self, word: Addr, write: bool) {
        self.touch(|seen, thread, phase| seen.touch(word, Agent::cpu(thread), write, phase));
    }

    fn thread_mut(&mut self) -> &mut Thread {
        &mut self.state.threads[self.thread as usize]
    }

    /// Returns the wait whose condition the thread evaluates.
    fn wait_mut(&mut self) -> Option<&mut Waiting> {
        self.thread_mut().wait_mut()
    }

    fn node(&self) -> u16 {
        self.state.node_of(self.thread)
    }

    fn load(&mut self, word: VirtualWord) -> Option<Granted> {
        let addr = self.state.addr(self.common, word);
        self.touch_word(addr, false);
        let value = self.state.machine.load(self.thread, addr)? as u64;
        if let Some(wait) = self.wait_mut() {
            wait.reads.push((addr, value));
        }
        Some(Granted::Looked(Reply::Value(value)))
    }

    fn store(&mut self, word: VirtualWord, value: u64) -> Option<Granted> {
        let loc = self.state.addr(self.common, word);
        self.touch_word(loc, true);
        let value = value as i64;
        let store = Action::Store { loc, value };
        self.state.machine.issue(self.thread, store).ok()?;
        Some(Granted::Acted(Reply::Unit))
    }

    fn rmw(&mut self, word: VirtualWord, rmw: Rmw) -> Option<Granted> {
        let loc = self.state.addr(self.common, word);
        self.touch_word(loc, false);
        self.touch_word(loc, true);
        let old = self.state.locked(self.thread, loc, rmw)?;
        if let Some(wait) = self.wait_mut() {
            wait.reads.push((loc, rmw.apply(old).unwrap_or(old)));
        }
        Some(Granted::Acted(Reply::Value(old)))
    }

    /// Returns the refusal of an operation towards a node, if this node knows that one of the two is lost.
    fn refused(&self, peer: u16) -> Option<Granted> {
        let lost = self.state.post_refusal(self.thread, peer)?;
        Some(Granted::Looked(Reply::Lost(lost)))
    }

    /// Posts an operation to a queue pair of thread `owner`, which may be another.
    fn post(&mut self, owner: u16, post: Post) -> Option<Granted> {
        let qp = QpId {
            thread: owner,
            peer: post.peer,
        };
        self.touch(|seen, thread, phase| seen.touch_shared(Shared::QueuePair(qp), thread, phase));
        // An access through another thread's queue pair counts for ever: its phase says nothing of this one.
        let phase = if owner == self.thread {
            self.phase
        } else {
            u32::MAX
        };
        let reorders = self.state.machine.reorders_writes();
        post.op.accesses(|access| {
            let agent = Agent::nic(qp, access.rule);
            self.seen.touch(access.word, agent, access.writes, phase);
            // A strong put does not overtake earlier writes.
            let places = access.rule == Rule::PlaceLocal || access.rule == Rule::PlaceRemote && !post.strong;
            if reorders && places {
                self.seen.touch_out_of_order(access.word, agent, phase);
            }
        });
        self.state.machine.issue(owner, Action::Post(post)).ok()?;
        Some(Granted::Acted(Reply::Unit))
    }

    /// Takes all completions that the node can take. In a wait, a poll that takes none only looks.
    fn poll(&mut self) -> Granted {
        let node = self.node();
        if self.state.losses.refusal(node, NodeSet::default()).is_some() {
            return Granted::Looked(Reply::Lost(node));
        }
        self.touch(|seen, thread, phase| seen.touch_shared(Shared::Completions(node), thread, phase));
        let completions = self.state.poll(node);
        let none = completions.is_empty();
        let reply = Reply::Completions(completions);
        match self.wait_mut() {
            Some(wait) => {
                wait.polled = true;
                match none {
                    true => Granted::Looked(reply),
                    false => Granted::Acted(reply),
                }
            }
            None => Granted::Acted(reply),
        }
    }

    fn now(&mut self) -> Granted {
        self.state.look(self.thread);
        Granted::Looked(Reply::Value(self.state.losses.clock(self.node())))
    }

    fn lost(&mut self) -> Granted {
        self.state.look(self.thread);
        Granted::Looked(Reply::Value(self.state.losses.known(self.node()).bits()))
    }

    fn reach(&mut self, peer: u16) -> Granted {
        let lost = self.state.losses.refusal(self.node(), NodeSet::of([peer]));
        Granted::Acted(lost.map_or(Reply::Unit, Reply::Lost))
    }

    fn begin_wait(&mut self, deadline: Deadline, peers: NodeSet) -> Granted {
        let clock = self.state.losses.clock(self.node());
        let deadline = match deadline {
            Deadline::Never => None,
            Deadline::At(time) => Some(time),
            Deadline::Within(time) => Some(clock.saturating_add(time)),
        };
        let reply = deadline.map_or(Reply::Unit, Reply::Value);
        let common = self.common;
        let thread = self.thread_mut();
        thread.phase += 1;
        let entry = common.behaviour.after(thread.past, &reply);
        thread.wait = Some(Arc::new(Waiting {
            begin: thread.past,
            entry,
            failed: None,
            resumes: None,
            pure: true,
            polled: false,
            reads: SmallVec::new(),
            locks: SmallVec::new(),
            looked: None,
            deadline,
            expired: false,
            peers,
        }));
        Granted::Looked(reply)
    }

    fn end_wait(&mut self) -> Granted {
        let thread = self.thread_mut();
        thread.phase += 1;
        thread.wait = None;
        Granted::Looked(Reply::Unit)
    }

    /// Parks the thread. Its reply comes when it is woken. A failed evaluation that only read is forgotten: the thread goes back to
    /// where the condition is evaluated again.
    fn park(&mut self) -> Granted {
        let common = self.common;
        let counts = common.waits == Waits::Apart;
        let thread = self.thread_mut();
        thread.status = Status::Parked;
        if let Some(wait) = thread.wait.as_mut().filter(|wait| wait.pure && !counts) {
            let wait = Arc::make_mut(wait);
            wait.failed = Some(thread.past);
            thread.past = common.behaviour.resumption(thread.past).unwrap_or(wait.entry);
            wait.entry = thread.past;
        }
        Granted::Looked(Reply::Unit)
    }

    fn lock(&mut self, lock: LockId, mode: LockMode) -> Granted {
        let index = self.state.lock_index(self.common, lock.0);
        self.touch(|seen, thread, phase| seen.touch_lock(index, thread, false, phase));
        let lock = &mut self.state.locks[index];
        match mode {
            LockMode::Exclusive => lock.writer = Some(self.thread),
            LockMode::Shared => lock.readers += 1,
        }
        Granted::Acted(Reply::Value(lock.version))
    }

    fn try_lock(&mut self, lock: LockId) -> Granted {
        let index = self.state.lock_index(self.common, lock.0);
        self.touch(|seen, thread, phase| seen.touch_lock(index, thread, true, phase));
        let lock = &mut self.state.locks[index];
        if lock.writer.is_none() && lock.readers == 0 {
            lock.writer = Some(self.thread);
            // The value is odd, to differ from the refusal.
            return Granted::Acted(Reply::Value(lock.version | 1));
        }
        if let Some(wait) = self.wait_mut() {
            wait.locks.push(index);
        }
        Granted::Acted(Reply::Value(0))
    }

    fn unlock(&mut self, lock: LockId, mode: LockMode) -> Granted {
        let index = self.state.lock_index(self.common, lock.0);
        self.touch(|seen, thread, phase| seen.touch_lock(index, thread, false, phase));
        let past = self.thread_mut().past;
        let lock = &mut self.state.locks[index];
        match mode {
            LockMode::Exclusive => {
                lock.writer = None;
                lock.version = self.common.version_after(lock.version, past);
            }
            LockMode::Shared => lock.readers = lock.readers.saturating_sub(1),
        }
        Granted::Acted(Reply::Unit)
    }

    fn send(&mut self, to: u16, payload: &Arc<[u8]>) -> Granted {
        if let Some(refused) = self.refused(to) {
            return refused;
        }
        let from = self.node();
        self.touch(|seen, thread, phase| seen.touch_shared(Shared::Mailbox(to), thread, phase));
        if let Some(mailbox) = Arc::make_mut(&mut self.state.mail).get_mut(to as usize) {
            mailbox.messages.push_back((from, payload.clone()));
        }
        Granted::Acted(Reply::Unit)
    }

    fn receive(&mut self) -> Granted {
        let node = self.node();
        self.touch(|seen, thread, phase| seen.touch_shared(Shared::Mailbox(node), thread, phase));
        let mailbox = &mut Arc::make_mut(&mut self.state.mail)[node as usize];
        Granted::Acted(Reply::Message(mailbox.messages.pop_front()))
    }

    fn close(&mut self) -> Granted {
        let node = self.node();
        self.touch(|seen, thread, phase| seen.touch_shared(Shared::Mailbox(node), thread, phase));
        Arc::make_mut(&mut self.state.mail)[node as usize].closed = true;
        Granted::Acted(Reply::Unit)
    }

    fn note(&mut self, note: &Note) -> Granted {
        match note {
            Note::Call(_) => {
                self.touch(|seen, thread, phase| seen.touch_history(thread, false, phase));
                self.thread_mut().called = true;
                let finished = self.state.threads.iter().map(|t| t.finished).collect();
                Granted::Acted(Reply::Finished(finished))
            }
            Note::Return(_) => {
                self.touch(|seen, thread, phase| seen.touch_history(thread, true, phase));
                self.thread_mut().finished += 1;
                Granted::Acted(Reply::Unit)
            }
            Note::Mark(_) => Granted::Acted(Reply::Unit),
        }
    }

    fn end(&mut self, returned: bool) -> Granted {
        self.thread_mut().status = match returned {
            true => Status::Done,
            false => Status::Failed,
        };
        Granted::Looked(Reply::Unit)
    }
}
