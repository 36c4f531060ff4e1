//! The shared queue (LOCO'25 5.4): a bounded FIFO among all nodes, an adaptation of the cyclic ring queue (Morrison and
//! Afek 2013) to one-sided operations.
//!
//! The ring's cells are striped over the participants. Head and tail are atomic variables on one of them. As
//! in the original, a cell goes through rounds, and its word says which round it is in and whether it is
//! empty or full. Three things differ. There is no double-width compare-and-swap, so a cell is *claimed* by
//! one on its word, and then filled or drained. The claim names the node, so a node that is lost in between
//! leaves no hole that stops the others. Finally, head and tail are not drawn by fetch-and-add but follow the
//! claims, which are what counts: a drawn index of a lost node could not be told from one of a slow node.
//! That costs retries where many threads push at a time, and makes `Full` and `Empty` exact.
//!
//! Linearization: a push takes effect where it claims the cell at the tail, a pop where it claims the cell at
//! the head. A cell is claimed for a push only when all cells before it are, and likewise for pops, because
//! head and tail move only past claimed cells. If a pop finds the cell at the head empty, in the round of the
//! head, it has found the queue empty. If a push finds the cell at the tail with the value of the round
//! before, it has found the queue full. Closing the queue marks the cell at the tail, which no push can then
//! pass.
//!
//! Cells are read by gets, which can miss a read-modify-write that has completed but is not placed. Head and tail
//! therefore move only past placed claims. The claimer moves them after ending its claim on the same queue pair;
//! other nodes move them once a get has shown the claim. Otherwise a caller could find the queue full by its tail,
//! and then empty by a cell whose claim it misses. Missing the end of a claim only delays others. A fence places the
//! mark of a closed queue.
//!
//! Others wait for the end of a claim. So a caller claims a cell only when it has everything that it needs afterwards:
//! the value in registered memory, or memory for it, and queue pairs.

mod cell;
mod outcome;

use std::marker::PhantomData;
use std::time::Duration;

use loco_fabric::{AtomicCell, Fabric, NodeId, Target};

use crate::channels::channel::region_bytes;
use crate::fabric::AnyFabric;
use crate::objects::variables::value::Value;
use crate::operations::peers::is_gone;
use crate::operations::platform::AtomicU64Of;
use crate::operations::timing::Timing;
use crate::operations::words::{Pause, Words};
use crate::{Channel, Error, MemRef, Parent, Region, Result, Thread, fence};

use cell::{Cell, Stage};

use outcome::{Once, Push};

pub use outcome::{Popped, Pushed};

const WORD_BYTES: usize = 8;
/// The distance of head and tail in words, a cache line each.
const LINE_WORDS: usize = 8;
const HEAD: usize = 0;
const TAIL: usize = LINE_WORDS;

// Head and tail are on lines of their own.
const _: () = assert!(TAIL.abs_diff(HEAD) >= LINE_WORDS && LINE_WORDS * WORD_BYTES == 64);

/// The first pause of a waiting caller, and then the longest.
const PAUSE_MIN: Duration = Duration::from_micros(1);
const PAUSE_MAX: Duration = Duration::from_micros(256);

/// A bounded first-in-first-out queue of values, which any thread of any participant pushes and pops. Each
/// value that is pushed is popped once. It is linearizable, with the errors below.
///
/// A node that is lost inside a push or a pop loses at most the one value that it was pushing or popping. Values in
/// cells of a lost node are lost: a call that comes to such a cell gets [`PeerLost`](crate::ErrorKind::PeerLost).
/// Head and tail do not move past such a cell, so later calls fail there, too. Without the home no push or pop
/// succeeds.
///
/// ```
/// use loco::{Barrier, Manager, Popped, SharedQueue, testing};
///
/// testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let queue = SharedQueue::<u64>::new(&manager, "jobs", manager.nodes()[0], 4)?;
///     let end = Barrier::new(&manager, "end")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     if manager.node() == manager.nodes()[0] {
///         for job in 1..=10 {
///             let refused = queue.push(&thread, job)?.refused(); // waits for room
///             assert_eq!(refused, None, "the queue is open");
///         }
///         queue.close(&thread)?;
///     } else {
///         let mut jobs = Vec::new();
///         while let Popped::Value(job) = queue.pop(&thread)? {
///             jobs.push(job);
///         }
///         assert_eq!(jobs, (1..=10).collect::<Vec<u64>>());
///     }
///     end.wait(&thread)
/// });
/// ```
///
/// # Strength
///
/// Robust for its own calls, which take effect one after another as on a strong memory (`loco check queue --robust`).
/// A push does not order its client's other operations: a client that pops a value need not see what was put
/// elsewhere before, unless a fence ([`fence::thread`](crate::fence::thread)) stands between the put and the push.
pub struct SharedQueue<T: Value, F: Fabric = AnyFabric> {
    channel: Channel<F>,
    nodes: Vec<NodeId>,
    indices: Words<F>,
    /// The words of the cells on each node.
    cells: Vec<Words<F>>,
    values: Region<F>,
    capacity: u64,
    /// The head as this node last knew it.
    head: AtomicU64Of<F>,
    /// The tail as this node last knew it.
    tail: AtomicU64Of<F>,
    value: PhantomData<fn() -> T>,
}

impl<F: Fabric, T: Value> SharedQueue<T, F> {
    /// Makes this node's endpoint of the queue called `name`, for up to `capacity` values. Its head and tail
    /// are on `home`.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) for a capacity of zero, [`TooLarge`](crate::Error::TooLarge) for one
    /// beyond all addresses, [`Unsupported`](crate::fabric::FabricError::Unsupported) where the fabric has no atomics,
    /// [`NotParticipant`](crate::Error::NotParticipant) for a home outside, and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, home: NodeId, capacity: usize) -> Result<Self> {
        if capacity == 0 {
            return Err(Error::Config(format!(
                "queue `{name}`: it has no room for a value; give it a capacity of 1 at least"
            )));
        }
        let participants = parent.participants();
        participants.require(name, home)?;
        let nodes = participants.nodes().to_vec();
        let each = capacity.div_ceil(nodes.len().max(1));
        let cell_bytes = region_bytes(name, each, WORD_BYTES)?;
        let value_bytes = region_bytes(name, each, stride::<T>())?;
        let channel = Channel::builder(parent, name)
            .kind(format!("shared_queue of {capacity} on {home}"))
            .region("indices", 2 * LINE_WORDS * WORD_BYTES)
            .region("cells", cell_bytes)
            .region("values", value_bytes)
            .join()?;
        let fabric = parent.manager().fabric();
        let words = |&node| Words::new(fabric, channel.region("cells")?, node);
        Ok(SharedQueue {
            indices: Words::new(fabric, channel.region("indices")?, home)?,
            cells: nodes.iter().map(words).collect::<Result<_>>()?,
            values: channel.region("values")?.clone(),
            channel,
            nodes,
            capacity: capacity as u64,
            head: AtomicCell::new(0),
            tail: AtomicCell::new(0),
            value: PhantomData,
        })
    }

    /// Returns the number of values that the queue has room for.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Appends a value if there is room.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if the home or the node of the next cell is gone. Returns
    /// [`Timeout`](crate::ErrorKind::Timeout) if another caller's claim is in the way and makes no progress. Returns
    /// [`OutOfMemory`](crate::fabric::FabricError::OutOfMemory) if there is no registered memory for a copy of the value, and
    /// [`NotConnected`](crate::Error::NotConnected) before the queue is ready: the value is not in the queue then.
    ///
    /// # After a timeout
    /// The value is not in the queue. Push again.
    ///
    /// # After the loss of a node
    /// After [`PeerLost`](crate::ErrorKind::PeerLost) it is unknown whether the value was pushed. Another call may
    /// have popped it before the loss.
    pub fn try_push(&self, thread: &Thread<F>, value: T) -> Result<Pushed<T>> {
        let _call = thread.call(self.channel.name(), "try_push");
        let mut timing = thread.timing();
        let outcome = thread.to_the_end(|| self.push_once(thread, &value, &mut None, &mut timing))?;
        Ok(match outcome {
            Once::Done(Push::Done) => Pushed::Done,
            Once::Done(Push::Closed) => Pushed::Closed(value),
            Once::Blocked(_) => Pushed::Full(value),
        })
    }

    /// Appends a value, waiting for room for the thread's deadline at most. Never returns [`Pushed::Full`].
    ///
    /// # Errors
    /// Returns the errors of [`try_push`](SharedQueue::try_push), and [`Timeout`](crate::ErrorKind::Timeout) if there
    /// is no room until the deadline.
    ///
    /// # After a timeout
    /// The value is not in the queue. Push again.
    ///
    /// # After the loss of a node
    /// See [`try_push`](SharedQueue::try_push).
    pub fn push(&self, thread: &Thread<F>, value: T) -> Result<Pushed<T>> {
        let _call = thread.call(self.channel.name(), "push");
        let (mut timing, mut buffer) = (thread.timing(), None);
        let mut back_off = PAUSE_MIN;
        loop {
            match thread.to_the_end(|| self.push_once(thread, &value, &mut buffer, &mut timing))? {
                Once::Done(Push::Done) => return Ok(Pushed::Done),
                Once::Done(Push::Closed) => return Ok(Pushed::Closed(value)),
                Once::Blocked(cell) => {
                    let waited = self.wait(thread, self.indices.home(), cell, &mut back_off, &mut timing);
                    waited.map_err(|error| {
                        let full = format!(
                            "queue {} stayed full: no call pops; pop, or make its capacity larger",
                            self.channel.name()
                        );
                        error.because(&[], full)
                    })?;
                }
            }
        }
    }

    /// Takes the oldest value if there is one.
    ///
    /// # Errors
    /// Returns the errors of [`try_push`](SharedQueue::try_push).
    ///
    /// # After a timeout
    /// No value was taken. Pop again.
    ///
    /// # After the loss of a node
    /// After [`PeerLost`](crate::ErrorKind::PeerLost) no value was taken, or the value that this call had claimed is
    /// lost: no other call returns it.
    pub fn try_pop(&self, thread: &Thread<F>) -> Result<Popped<T>> {
        let _call = thread.call(self.channel.name(), "try_pop");
        let mut timing = thread.timing();
        let outcome = thread.to_the_end(|| self.pop_once(thread, &mut timing))?;
        Ok(outcome.unwrap_or(Popped::Empty))
    }

    /// Takes the oldest value, waiting for one for the thread's deadline at most. Never returns
    /// [`Popped::Empty`].
    ///
    /// # Errors
    /// Returns the errors of [`try_push`](SharedQueue::try_push), and [`Timeout`](crate::ErrorKind::Timeout) if there
    /// is none until the deadline.
    ///
    /// # After a timeout
    /// No value was taken. Pop again.
    ///
    /// # After the loss of a node
    /// See [`try_pop`](SharedQueue::try_pop).
    pub fn pop(&self, thread: &Thread<F>) -> Result<Popped<T>> {
        let _call = thread.call(self.channel.name(), "pop");
        let mut timing = thread.timing();
        let mut back_off = PAUSE_MIN;
        loop {
            match thread.to_the_end(|| self.pop_once(thread, &mut timing))? {
                Once::Done(popped) => return Ok(popped),
                Once::Blocked(cell) => {
                    let waited = self.wait(thread, self.indices.home(), cell, &mut back_off, &mut timing);
                    waited.map_err(|error| {
                        let empty = format!(
                            "queue {} stayed empty: no call pushes; push, or close it",
                            self.channel.name()
                        );
                        error.because(&[], empty)
                    })?;
                }
            }
        }
    }

    /// Closes the queue: later pushes are refused, and the values in it can still be popped. Closing a closed
    /// queue changes nothing.
    ///
    /// # Errors
    /// Returns the errors of [`try_push`](SharedQueue::try_push).
    ///
    /// # After a timeout
    /// The queue may be closed, or be closed later. Close it again.
    ///
    /// # After the loss of a node
    /// After [`PeerLost`](crate::ErrorKind::PeerLost) it is unknown whether the queue is closed. If the cell at the
    /// tail was on the lost node, the mark is lost with it, but no push passes that cell.
    pub fn close(&self, thread: &Thread<F>) -> Result<()> {
        let mut at = self.tail.load();
        loop {
            let word = self.read(thread, at)?;
            let cell = Cell::from_word(word);
            if cell.round > self.round(at) || self.is_pushed(cell, at) {
                at = self.advance(thread, TAIL, at)?;
            } else if cell.closed {
                return Ok(());
            } else if self.exchange(thread, at, word, Cell { closed: true, ..cell })? {
                return fence::pair(thread, self.node_of(at));
            }
        }
    }

    /// Returns the endpoint, to wait until this queue alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Tries to push. `buffer` is for a copy of the value, and is kept from one attempt to the next. What the steps after a claim
    /// need is there before the cell is read: between read and claim another node could take the cell.
    fn push_once<'t>(
        &self,
        thread: &'t Thread<F>,
        value: &T,
        buffer: &mut Option<MemRef<'t, F>>,
        timing: &mut Timing,
    ) -> Result<Once<Push>> {
        let mut back_off = PAUSE_MIN;
        if buffer.is_none() {
            let filled = self.buffer(thread)?;
            filled.write(0, value.as_bytes())?;
            *buffer = Some(filled);
        }
        // This is a hint, whatever its value.
        let mut at = self.tail.load();
        loop {
            self.prepare(thread, at)?;
            let word = self.read(thread, at)?;
            let cell = Cell::from_word(word);
            if cell.round > self.round(at) || self.is_pushed(cell, at) {
                at = self.advance(thread, TAIL, at)?;
                continue;
            }
            if cell.closed {
                return Ok(Once::Done(Push::Closed));
            }
            match cell.stage {
                Stage::Empty if cell.round == self.round(at) => {
                    debug_assert!(buffer.is_some(), "the copy was made before the claim");
                    let claim = cell.to(Stage::Filling(self.channel.node()));
                    let claimed = self.exchange(thread, at, word, claim)?;
                    if let Some(filled) = buffer.take_if(|_| claimed) {
                        self.fill(thread, at, filled, claim)?;
                        self.advance(thread, TAIL, at)?;
                        return Ok(Once::Done(Push::Done));
                    }
                }
                // The value of a whole ring ago is still there, or on its way. If its push was lost, it stays
                // until the pop that comes to it skips it.
                Stage::Full | Stage::Filling(_) => return Ok(Once::Blocked((at, word))),
                // The pop will never end: its value is lost with it.
                Stage::Draining(node) if is_gone(thread.fabric(), node) => {
                    self.exchange(thread, at, word, cell.next_round())?;
                }
                // The cell was popped, and will soon be free.
                Stage::Draining(_) | Stage::Empty => {
                    let waited = self.wait(thread, self.node_of(at), (at, word), &mut back_off, timing);
                    waited.map_err(|error| self.in_the_way(cell, error))?;
                }
            }
        }
    }

    fn pop_once(&self, thread: &Thread<F>, timing: &mut Timing) -> Result<Once<Popped<T>>> {
        let mut back_off = PAUSE_MIN;
        let buffer = self.buffer(thread)?;
        // This is a hint, whatever its value.
        let mut at = self.head.load();
        loop {
            self.prepare(thread, at)?;
            let word = self.read(thread, at)?;
            let cell = Cell::from_word(word);
            if cell.round != self.round(at) {
                if cell.round > self.round(at) {
                    at = self.advance(thread, HEAD, at)?;
                    continue;
                }
                // The value of a whole ring ago is being read, and nothing was pushed since.
                return Ok(if cell.closed {
                    Once::Done(Popped::Closed)
                } else {
                    Once::Blocked((at, word))
                });
            }
            match cell.stage {
                Stage::Empty if cell.closed => return Ok(Once::Done(Popped::Closed)),
                Stage::Empty => return Ok(Once::Blocked((at, word))),
                Stage::Full => {
                    let claim = cell.to(Stage::Draining(self.channel.node()));
                    if self.exchange(thread, at, word, claim)? {
                        let value = self.drain(thread, at, buffer, claim)?;
                        self.advance(thread, HEAD, at)?;
                        return Ok(Once::Done(Popped::Value(value)));
                    }
                }
                Stage::Draining(_) => at = self.advance(thread, HEAD, at)?,
                // The push never came to its end: its value is lost with it. The next read shows that the cell is freed.
                Stage::Filling(node) if is_gone(thread.fabric(), node) => {
                    self.exchange(thread, at, word, cell.next_round())?;
                }
                Stage::Filling(node) => match self.wait(thread, node, (at, word), &mut back_off, timing) {
                    Err(error) if error.lost_peer() == Some(node) => {}
                    outcome => outcome.map_err(|error| self.in_the_way(cell, error))?,
                },
            }
        }
    }

    /// Gets what the steps after the claim of a cell need, apart from memory for its value.
    fn prepare(&self, thread: &Thread<F>, at: u64) -> Result<()> {
        self.value_at(at)?;
        self.indices.prepare(thread)?;
        thread.prepare(&[self.node_of(at)])
    }

    /// Returns memory for a value.
    fn buffer<'t>(&self, thread: &'t Thread<F>) -> Result<MemRef<'t, F>> {
        thread.mem_ref(size_of::<T>().max(1))
    }

    /// Puts the value of a claimed cell, and then marks it as there.
    fn fill(&self, thread: &Thread<F>, at: u64, buffer: MemRef<'_, F>, claim: Cell) -> Result<()> {
        debug_assert_eq!(
            claim.stage,
            Stage::Filling(self.channel.node()),
            "the cell is claimed"
        );
        let _buffer = buffer.put(self.value_at(at)?)?.wait()?;
        // The mark comes after the value: as a strong exchange on the same queue pair, or after a fence where the home's CPU
        // makes the exchange.
        if self.node_of(at) == self.channel.node() {
            fence::pair(thread, self.channel.node())?;
        }
        self.finish::<true>(thread, at, claim, |claim| claim.to(Stage::Full))
    }

    /// Reads the value of a claimed cell, and then frees the cell.
    fn drain(&self, thread: &Thread<F>, at: u64, buffer: MemRef<'_, F>, claim: Cell) -> Result<T> {
        debug_assert_eq!(
            claim.stage,
            Stage::Draining(self.channel.node()),
            "the cell is claimed"
        );
        let buffer = buffer.get(self.value_at(at)?)?.wait()?;
        let mut bytes = smallvec::SmallVec::<[u8; 64]>::from_elem(0, size_of::<T>());
        buffer.read(0, &mut bytes)?;
        self.finish::<false>(thread, at, claim, Cell::next_round)?;
        // There are as many bytes as the type has.
        T::read_from_bytes(&bytes).map_err(|_| Error::Closed)
    }

    /// Ends a claim, in which only the mark of a closed queue can have changed the word. With `AFTER_PUTS` the end comes after
    /// this thread's earlier puts to the cell's node.
    fn finish<const AFTER_PUTS: bool>(
        &self,
        thread: &Thread<F>,
        at: u64,
        claim: Cell,
        to: impl Fn(Cell) -> Cell,
    ) -> Result<()> {
        let exchange = |old: Cell| match AFTER_PUTS {
            true => self.exchange_strong(thread, at, old.to_word(), to(old)),
            false => self.exchange(thread, at, old.to_word(), to(old)),
        };
        if exchange(claim)? {
            return Ok(());
        }
        let closed = Cell {
            closed: true,
            ..claim
        };
        if exchange(closed)? {
            return Ok(());
        }
        // The claim can be taken only from a node that the others consider lost.
        Err(loco_fabric::FabricError::PeerLost(self.channel.node()).into())
    }

    /// Returns true if `cell`, which index `at` names, is in the round of `at` and shows that the push of that index
    /// has taken effect.
    fn is_pushed(&self, cell: Cell, at: u64) -> bool {
        cell.round == self.round(at) && cell.stage != Stage::Empty
    }

    /// Moves head or tail past `at`, which is claimed. Returns the new index.
    fn advance(&self, thread: &Thread<F>, index: usize, at: u64) -> Result<u64> {
        let found = self.indices.compare_swap(thread, index, at, at + 1)?;
        let now = if found == at { at + 1 } else { found.max(at + 1) };
        // The hint never goes back by much, and every value was the index at some time. Release, as all
        // stores on TSO.
        debug_assert!(index == HEAD || index == TAIL, "there are two indices");
        let hint = if index == HEAD { &self.head } else { &self.tail };
        hint.store(now);
        Ok(now)
    }

    /// Waits for `on` to change the word of a cell.
    fn wait(
        &self,
        thread: &Thread<F>,
        on: NodeId,
        (at, word): (u64, u64),
        back_off: &mut Duration,
        timing: &mut Timing,
    ) -> Result<()> {
        // Before the pause, which is a part of the call.
        timing.begin(thread);
        let pause = Pause {
            what: self.channel.name(),
            on,
            time: *back_off,
            deadline: timing.deadline,
        };
        let (stripe, cell) = self.place(at);
        let paused = self.cells[stripe].pause(thread, pause, cell, &[word]);
        timing.of_call(thread, paused)?;
        *back_off = (*back_off * 2).min(PAUSE_MAX);
        Ok(())
    }

    /// Names the node whose claim of `cell` is in the way, if `error` is a timeout.
    #[cold]
    fn in_the_way(&self, cell: Cell, error: Error) -> Error {
        let (node, what) = match cell.stage {
            Stage::Filling(node) => (node, "push"),
            Stage::Draining(node) => (node, "pop"),
            Stage::Empty | Stage::Full => return error,
        };
        error.because(
            &[node],
            format!("{node} has not ended its {what} on queue {}", self.channel.name()),
        )
    }

    fn read(&self, thread: &Thread<F>, at: u64) -> Result<u64> {
        let (stripe, cell) = self.place(at);
        // Asks for no order: a claim is placed when its end has exchanged the same word, so a cell shows the claims of all calls that
        // have returned, this thread's own among them. A claim whose end is missing is waited for.
        self.cells[stripe].glance(thread, cell)
    }

    fn exchange(&self, thread: &Thread<F>, at: u64, old: u64, new: Cell) -> Result<bool> {
        let (stripe, cell) = self.place(at);
        let found = self.cells[stripe].compare_swap(thread, cell, old, new.to_word())?;
        Ok(found == old)
    }

    /// Exchanges as [`exchange`](SharedQueue::exchange) does, after this thread's earlier puts to the cell's node are placed.
    fn exchange_strong(&self, thread: &Thread<F>, at: u64, old: u64, new: Cell) -> Result<bool> {
        let (stripe, cell) = self.place(at);
        let found = self.cells[stripe].compare_swap_strong(thread, cell, old, new.to_word())?;
        Ok(found == old)
    }

    fn round(&self, at: u64) -> u64 {
        at / self.capacity
    }

    /// Returns the participant that has the cell of index `at`, and the number of the cell there.
    fn place(&self, at: u64) -> (usize, usize) {
        let (position, nodes) = ((at % self.capacity) as usize, self.nodes.len());
        (position % nodes, position / nodes)
    }

    fn node_of(&self, at: u64) -> NodeId {
        self.nodes[self.place(at).0]
    }

    fn value_at(&self, at: u64) -> Result<Target<'_, F::Remote>> {
        let (stripe, cell) = self.place(at);
        Ok(Target {
            remote: self.values.remote(self.nodes[stripe])?,
            offset: cell * stride::<T>(),
        })
    }
}

/// Returns the bytes from one value to the next, in whole words.
const fn stride<T>() -> usize {
    let len = size_of::<T>().next_multiple_of(WORD_BYTES);
    if len == 0 { WORD_BYTES } else { len }
}
