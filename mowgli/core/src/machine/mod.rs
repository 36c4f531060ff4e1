//! The operational machine: memory, store buffers, and network interface cards with their queue pairs.
//!
//! One state type serves every operational model:
//!
//! * RDMA^TSO (RDMA-TSO'24 section 3), with the *simplified* queue pair (a pipe and two write-back buffers,
//!   Figs. 19, 20) or the *concrete* one (six buffers, Figs. 6 to 8), each with or without the PCIe guarantee
//!   that reads flush writes;
//! * RDMA^WAIT (LOCO'26 3.3): the same hardware, with [`Action::Wait`] instead of [`Action::Poll`];
//! * RDMA^SC (Robust'25 3.2): no store buffers;
//! * x86-TSO: a store buffer for each thread and no remote operations;
//! * SC: no store buffers, and remote operations in program order (Robust'25 Def. 5), where each read and each write is one
//!   step.
//!
//! Remote read-modify-writes follow `docs/rmw.md`, and networks that order less `docs/ordering-models.md` (`tiered`).
//!
//! The machine knows nothing of programs. Its user adds words and threads, calls [`Machine::issue`] for the actions of threads, lists the
//! steps that the hardware may take with [`Machine::steps`], and takes one of them with [`Machine::apply`]. The users are
//! [`crate::explore`], which runs litmus programs, and the model fabric of `loco-sim`, which runs object code. States are cheap to
//! clone (`clone_from` reuses storage) and have a canonical encoding ([`Machine::encode`]).

mod buffers;
mod concrete;
mod cut;
mod encode;
mod footprint;
mod independence;
mod ops;
mod outstanding;
mod rules;
mod simplified;
mod step;
mod tiered;
mod trace;
mod view;

use smallvec::SmallVec;

pub use independence::Commutes;
pub use ops::{Action, Addr, IssueError, Issued, MessagePart, Post, QpId, RemoteOp};
pub use outstanding::{Access, Next};
pub use step::{Footprint, Rule, Step};
pub use view::{Buffer, EntryView, QueuePairView, ThreadView, View};

pub(crate) use encode::{number, value};

use buffers::ThreadState;
pub(crate) use buffers::{Delayed, Entry, LocalBack, QueuePair, Source, Stage};

use crate::model::{Model, RmwAtomicity, Tier};
use crate::program::Value;

/// Node numbers are below this.
pub const NODES_MAX: u16 = 64;

/// The form of the queue pairs. Both give the same outcomes (RDMA-TSO'24 Thm. 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pipeline {
    /// One pipe and two write-back buffers (RDMA-TSO'24 Fig. 19): fewer states.
    #[default]
    Simplified,
    /// Six buffers (RDMA-TSO'24 Fig. 7).
    Concrete,
}

/// The memory of the CPUs of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cpu {
    /// x86-TSO: stores and remote operations pass through a store buffer.
    #[default]
    Tso,
    /// Sequentially consistent: stores take effect at once, and remote operations reach the queue pair at once.
    Sc,
}

/// The variant of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Store buffers or none.
    pub cpu: Cpu,
    /// True if NIC reads flush the writes buffered on their side of the queue pair (RDMA-TSO'24 section 2,
    /// PCIe).
    pub pcie: bool,
    /// Form of the queue pairs.
    pub pipeline: Pipeline,
    /// Atomicity of remote read-modify-writes.
    pub atomicity: RmwAtomicity,
    /// True if a thread's next action waits until its remote operations are done, in order (SC).
    pub in_order: bool,
    /// The order of the network. Tiers other than [`Tier::Ibta`] have the simplified pipeline only.
    pub tier: Tier,
}

impl Config {
    /// Returns the machine of a model, with the simplified pipeline.
    pub const fn new(model: Model, atomicity: RmwAtomicity) -> Config {
        Config {
            cpu: match model.base() {
                Model::Sc | Model::RdmaSc => Cpu::Sc,
                _ => Cpu::Tso,
            },
            pcie: !matches!(model, Model::RdmaTsoNoPcie),
            pipeline: Pipeline::Simplified,
            atomicity,
            in_order: matches!(model, Model::Sc),
            tier: model.tier(),
        }
    }

    /// Returns the configuration with the concrete pipeline, which is that of a network of [`Tier::Ibta`].
    pub const fn concrete(self) -> Config {
        Config {
            pipeline: Pipeline::Concrete,
            tier: Tier::Ibta,
            ..self
        }
    }
}

/// A state of the machine.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    config: Config,
    memory: SmallVec<[Value; 16]>,
    threads: SmallVec<[ThreadState; 4]>,
    /// Bit `n` is set while an RMW at node `n` is between its read and the arrival of its write. The queue pairs determine it.
    units: u64,
    /// A bit for each word: set for words in regions of relaxed ordering.
    relaxed: SmallVec<[u64; 2]>,
}

/// The step cannot be taken in this state. The machine is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("step '{0}' is not enabled in this state")]
pub struct NotEnabled(pub Step);

crate::debug_as_display!(NotEnabled);

impl Machine {
    /// Makes a machine without words or threads.
    pub fn new(config: Config) -> Machine {
        Machine {
            config,
            memory: SmallVec::new(),
            threads: SmallVec::new(),
            units: 0,
            relaxed: SmallVec::new(),
        }
    }

    /// Adds a word of memory with its initial value. The machine does not need to know its node, because actions say how they reach
    /// it.
    pub fn add_location(&mut self, init: Value) -> Addr {
        self.memory.push(init);
        Addr((self.memory.len() - 1) as u32)
    }

    /// Adds a thread and returns its number.
    pub fn add_thread(&mut self) -> u16 {
        self.threads.push(ThreadState::new());
        (self.threads.len() - 1) as u16
    }

    /// Returns the variant of the machine.
    pub fn config(&self) -> Config {
        self.config
    }

    /// Returns every word of memory, by [`Addr`].
    pub fn memory(&self) -> &[Value] {
        &self.memory
    }

    /// Returns the value that a load by this thread would read now, from its store buffer or else from memory. Returns
    /// `None` if there is no such thread or word.
    pub fn load(&self, thread: u16, loc: Addr) -> Option<Value> {
        let buffer = &self.threads.get(thread as usize)?.store_buffer;
        let newest = buffer.iter().rev().find_map(|entry| match *entry {
            Delayed::Store { loc: l, value } if l == loc => Some(value),
            _ => None,
        });
        newest.or_else(|| self.memory.get(loc.0 as usize).copied())
    }

    /// Carries out an action of a thread, if it is enabled.
    ///
    /// # Errors
    /// Returns [`IssueError::Blocked`] if other steps must come first, other variants if the action can never work.
    /// The state is then unchanged.
    pub fn issue(&mut self, thread: u16, action: Action) -> Result<Issued, IssueError> {
        self.check(thread, &action)?;
        if !self.is_enabled(thread, &action) {
            return Err(IssueError::Blocked);
        }
        let state = &mut self.threads[thread as usize];
        Ok(match action {
            Action::Store { loc, value } => {
                match self.config.cpu {
                    Cpu::Tso => state.store_buffer.push(Delayed::Store { loc, value }),
                    Cpu::Sc => self.memory[loc.0 as usize] = value,
                }
                Issued::Done
            }
            Action::Load { loc } => {
                Issued::Value(self.load(thread, loc).unwrap_or(self.memory[loc.0 as usize]))
            }
            Action::Cas { loc, expected, new } => {
                let word = &mut self.memory[loc.0 as usize];
                let old = *word;
                if old == expected {
                    *word = new;
                }
                Issued::Value(old)
            }
            Action::Swap { loc, new } => {
                Issued::Value(std::mem::replace(&mut self.memory[loc.0 as usize], new))
            }
            Action::Mfence | Action::Wait { .. } => Issued::Done,
            Action::Post(post) => {
                let (peer, entry) = (post.peer, Entry::new(post));
                match self.config.cpu {
                    Cpu::Tso => state.store_buffer.push(Delayed::Remote { peer, entry }),
                    Cpu::Sc => state.queue_pair_or_new(peer).post(entry, self.config.tier),
                }
                Issued::Done
            }
            Action::Poll { peer } => {
                let head = state.queue_pair_mut(peer).and_then(|qp| qp.wb_l.pop());
                match head {
                    Some(LocalBack::Notification { tag }) => Issued::Completion(tag),
                    // The action is enabled, so the head is a notification.
                    _ => return Err(IssueError::Blocked),
                }
            }
        })
    }

    /// Returns whether [`Machine::issue`] would carry out the action now.
    pub fn is_enabled(&self, thread: u16, action: &Action) -> bool {
        let Some(state) = self.threads.get(thread as usize) else {
            return false;
        };
        if self.config.in_order && !state.queue_pairs.iter().all(QueuePair::is_idle) {
            return false;
        }
        match *action {
            Action::Cas { .. } | Action::Swap { .. } | Action::Mfence => state.store_buffer.is_empty(),
            Action::Poll { peer } => state
                .queue_pair(peer)
                .is_some_and(|qp| matches!(qp.wb_l.first(), Some(LocalBack::Notification { .. }))),
            Action::Wait { tag } => !self.is_outstanding(thread, tag),
            Action::Store { .. } | Action::Load { .. } | Action::Post(_) => true,
        }
    }

    /// Returns whether the thread's store buffer is empty.
    #[inline]
    pub fn is_drained(&self, thread: u16) -> bool {
        self.threads
            .get(usize::from(thread))
            .is_some_and(|state| state.store_buffer.is_empty())
    }

    /// Returns whether some queue pair of the thread has a notification that can be polled now.
    #[inline]
    pub fn has_notification(&self, thread: u16) -> bool {
        self.threads.get(usize::from(thread)).is_some_and(|state| {
            let mut heads = state.queue_pairs.iter().map(|qp| qp.wb_l.first());
            heads.any(|head| matches!(head, Some(LocalBack::Notification { .. })))
        })
    }

    /// Returns whether an operation of this thread with this tag has yet to complete in the sense of RDMA^WAIT (LOCO'26 Def. F.2). A
    /// put completes when its remote write is issued (is in `wb_R`), a get or RMW when its result is in memory.
    pub fn is_outstanding(&self, thread: u16, tag: u64) -> bool {
        self.threads.get(thread as usize).is_some_and(|state| {
            state.queue_pairs.iter().any(|qp| qp.is_outstanding(tag))
                || state.store_buffer.iter().any(|entry| match entry {
                    Delayed::Remote { entry, .. } => entry.tag == tag && entry.is_outstanding(),
                    Delayed::Store { .. } => false,
                })
        })
    }

    /// Returns whether nothing is buffered or under way. Unpolled notifications may be left. Memory then stays as it is until a thread
    /// acts.
    pub fn is_quiescent(&self) -> bool {
        self.threads
            .iter()
            .all(|t| t.store_buffer.is_empty() && t.queue_pairs.iter().all(QueuePair::is_idle))
    }

    /// Returns the number of stores, operations, writes and notifications of a thread that are in a buffer.
    pub(crate) fn under_way(&self, thread: u16) -> usize {
        let state = &self.threads[thread as usize];
        let queued = |qp: &QueuePair| qp.pipe.len() + qp.wb_r.len() + qp.wb_l.len();
        state.store_buffer.len() + state.queue_pairs.iter().map(queued).sum::<usize>()
    }

    /// Drops empty queue pairs, which makes copies cheaper. A queue pair is made again when it is used.
    pub fn forget_idle(&mut self) {
        for thread in &mut self.threads {
            thread.queue_pairs.retain(|qp| !qp.is_empty());
        }
    }

    /// Appends every enabled step, in a fixed order (threads, then their queue pairs by peer).
    pub fn steps(&self, out: &mut Vec<Step>) {
        for thread in 0..self.threads.len() as u16 {
            self.drain_step(thread, out);
            for qp in &self.threads[thread as usize].queue_pairs {
                self.queue_pair_steps(thread, qp, out);
            }
        }
    }

    fn drain_step(&self, thread: u16, out: &mut Vec<Step>) {
        if !self.threads[thread as usize].store_buffer.is_empty() {
            out.push(Step::Drain { thread });
        }
    }

    /// Appends every enabled step of one queue pair.
    pub(crate) fn queue_pair_steps(&self, thread: u16, qp: &QueuePair, out: &mut Vec<Step>) {
        let id = QpId {
            thread,
            peer: qp.peer,
        };
        let mut push = |rule, index: usize| {
            // The peer has not posted the receive.
            if rule == Rule::RemoteWrite && !qp.pipe[index].is_received(&self.memory) {
                return;
            }
            out.push(Step::Nic {
                qp: id,
                rule,
                index: index as u16,
            })
        };
        let unit_free = !self.is_unit_held(qp.peer);
        match self.config.pipeline {
            Pipeline::Simplified if self.config.tier != Tier::Ibta => {
                tiered::enabled(
                    qp,
                    self.config.tier,
                    &|word| self.is_relaxed(word),
                    unit_free,
                    &mut push,
                );
                return;
            }
            Pipeline::Simplified => simplified::enabled(qp, self.config, unit_free, &mut push),
            Pipeline::Concrete => concrete::enabled(qp, self.config, unit_free, &mut push),
        }
        for at in 0..qp.placeable() {
            push(Rule::PlaceRemote, at);
        }
        if qp.has_local_write() {
            push(Rule::PlaceLocal, 0);
        }
    }

    /// Takes a step. Only steps that [`Machine::steps`] lists in this state are meaningful.
    ///
    /// # Errors
    /// Returns [`NotEnabled`] if the step's entry does not exist or is not in the right stage. Premises about *other* buffers are not checked
    /// again.
    pub fn apply(&mut self, step: Step) -> Result<(), NotEnabled> {
        self.take(step).ok_or(NotEnabled(step))
    }

    fn take(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Drain { thread } => self.drain(thread),
            Step::Nic { qp, rule, index } => self.advance(qp, rule, index as usize),
        }
    }

    /// Lets the oldest entry of a store buffer take effect.
    fn drain(&mut self, thread: u16) -> Option<()> {
        let state = self.threads.get_mut(thread as usize)?;
        match state.store_buffer.pop()? {
            Delayed::Store { loc, value } => *self.memory.get_mut(loc.0 as usize)? = value,
            Delayed::Remote { peer, entry } => {
                state.queue_pair_or_new(peer).post(entry, self.config.tier);
            }
        }
        Some(())
    }

    /// Applies a rule of the network card to entry `at` of a queue pair.
    fn advance(&mut self, id: QpId, rule: Rule, at: usize) -> Option<()> {
        let Machine {
            config,
            memory,
            threads,
            units,
            ..
        } = self;
        let qp = threads.get_mut(id.thread as usize)?.queue_pair_mut(id.peer)?;
        if config.pipeline == Pipeline::Concrete && !concrete::is_in_place(qp, rule, at) {
            return None;
        }
        match rule {
            Rule::PlaceRemote => {
                if config.tier == Tier::Ibta && at >= qp.placeable() {
                    return None;
                }
                let write = qp.wb_r.remove(at)?;
                *memory.get_mut(write.dst.0 as usize)? = write.value;
                if write.atomic {
                    *units &= !unit_bit(id.peer);
                }
            }
            Rule::PlaceLocal => {
                let at = qp.local_write(at)?;
                if let LocalBack::Write { dst, value, .. } = qp.wb_l.remove(at)? {
                    *memory.get_mut(dst.0 as usize)? = value;
                }
            }
            Rule::LocalRead => rules::local_read(qp, at, config, memory)?,
            Rule::RemoteWrite => rules::remote_write(qp, at, memory)?,
            Rule::RemoteRead => rules::remote_read(qp, at, config, memory)?,
            Rule::AtomicRead => rules::atomic_read(qp, at, config, memory, units, id.peer)?,
            Rule::AtomicWrite => rules::atomic_write(qp, at)?,
            Rule::Fence => {
                (qp.pipe.get(at)?.stage == Stage::Fence).then_some(())?;
                qp.pipe.remove(at);
            }
            Rule::Complete => {
                let head = *qp.pipe.first()?;
                matches!(head.stage, Stage::Ack | Stage::Done).then_some(())?;
                qp.pipe.pop();
                if head.signaled {
                    qp.wb_l.push(LocalBack::Notification { tag: head.tag });
                }
            }
            Rule::Respond => {
                rules::respond(qp, at, config)?;
                // The entry stays in its place until it completes.
                if config.tier.reorders_network() {
                    return Some(());
                }
            }
            Rule::Forward => {}
        }
        if config.pipeline == Pipeline::Concrete {
            concrete::shift(qp, rule, at);
        }
        Some(())
    }

    fn check(&self, thread: u16, action: &Action) -> Result<(), IssueError> {
        if self.threads.len() <= thread as usize {
            return Err(IssueError::UnknownThread(thread as usize));
        }
        let word = |loc: Addr| match self.memory.get(loc.0 as usize) {
            Some(_) => Ok(()),
            None => Err(IssueError::UnknownWord(loc)),
        };
        match *action {
            Action::Store { loc, .. }
            | Action::Load { loc }
            | Action::Cas { loc, .. }
            | Action::Swap { loc, .. } => word(loc),
            Action::Mfence | Action::Poll { .. } | Action::Wait { .. } => Ok(()),
            Action::Post(Post { peer, .. }) if peer >= NODES_MAX => Err(IssueError::UnknownNode { peer }),
            Action::Post(Post { op, .. }) => match op {
                RemoteOp::Put { dst, src } | RemoteOp::Get { dst, src } => word(dst).and(word(src)),
                RemoteOp::PutValue { dst, .. } | RemoteOp::PutInline { dst, .. } => word(dst),
                RemoteOp::FetchAdd { dst, target, .. }
                | RemoteOp::CompareSwap { dst, target, .. }
                | RemoteOp::Swap { dst, target, .. } => word(dst).and(word(target)),
                RemoteOp::Fence => Ok(()),
            },
        }
    }

    pub(crate) fn store_buffer(&self, thread: u16) -> &[Delayed] {
        self.threads.get(thread as usize).map_or(&[], |t| &t.store_buffer)
    }

    pub(crate) fn queue_pairs(&self, thread: u16) -> &[QueuePair] {
        self.threads.get(thread as usize).map_or(&[], |t| &t.queue_pairs)
    }

    /// Returns whether an RMW is under way at the node.
    pub(crate) fn is_unit_held(&self, peer: u16) -> bool {
        self.units & unit_bit(peer) != 0
    }

    pub(crate) fn queue_pair(&self, id: QpId) -> Option<&QueuePair> {
        self.threads.get(id.thread as usize)?.queue_pair(id.peer)
    }
}

impl Clone for Machine {
    fn clone(&self) -> Machine {
        Machine {
            config: self.config,
            memory: SmallVec::from_slice(&self.memory),
            threads: self.threads.clone(),
            units: self.units,
            relaxed: self.relaxed.clone(),
        }
    }

    fn clone_from(&mut self, source: &Machine) {
        self.config = source.config;
        self.units = source.units;
        self.relaxed.clone_from(&source.relaxed);
        self.memory.clear();
        self.memory.extend_from_slice(&source.memory);
        let common = self.threads.len().min(source.threads.len());
        self.threads.truncate(common);
        for (mine, theirs) in self.threads.iter_mut().zip(&source.threads) {
            mine.clone_from(theirs);
        }
        self.threads.extend(source.threads[common..].iter().cloned());
    }
}

/// Returns the bit of a node in the mask of atomic units. Peers are below [`NODES_MAX`]: `issue` checked it.
fn unit_bit(peer: u16) -> u64 {
    1 << (peer % NODES_MAX)
}
