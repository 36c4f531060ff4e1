//! Collective operations besides the barrier: broadcast of a value, gather, reduce, and their variants for all nodes.
//!
//! Each participant has a slot for each participant's value, twice, for even and odd rounds. It also has a row of a
//! shared state table ([`Sst`]) that says which round it has begun. A node puts its value, then its row, whose put is
//! in strong order, so a node that sees the row sees the value. A node begins a round when all have begun the round
//! before. By then all have read everything of the round before that, whose slots the node now overwrites. A node
//! whose call fails for the loss of another writes that into its row, so that the others do not wait in vain for its
//! next round.
//!
//! Relies on regions and the table; used by programs.

use loco_fabric::{Fabric, Local, Memory, NodeId, Peers, Target};
use smallvec::SmallVec;

use crate::channels::channel::region_bytes;
use crate::error::have;
use crate::fabric::AnyFabric;
use crate::operations::operation::{Flags, Operation};
use crate::operations::timing::Timing;
use crate::{Channel, Error, Parent, Region, Result, Sst, Thread, Value};

const WORD_BYTES: usize = 8;
/// The low bits of a row, which are the root. A row consists of the round, the operation and its root.
const ROOT_BITS: u32 = 16;
const OPERATION_BITS: u32 = 2;
const CALL_BITS: u32 = ROOT_BITS + OPERATION_BITS;
/// The operation in the row of a node that makes no further call. Its root is the lost node for which it stopped.
const STOPPED: u64 = 3;

const _: () = assert!(ROOT_BITS == u16::BITS && CALL_BITS < u64::BITS && STOPPED < 1 << OPERATION_BITS);

/// Collective operations on values of one type among the participants of a channel.
///
/// Every participant calls the same operations in the same order: the n-th calls of all participants belong together.
/// As in MPI, a call is no barrier: it returns as soon as this node has its result. Values travel directly between
/// the nodes, each to all that need it. That suits the sizes of jobs whose nodes are all connected anyway.
///
/// Only one thread of a node makes calls at a time, which `&mut` ensures. It need not be the same thread each time.
///
/// ```
/// use loco::{Collective, Manager, testing};
///
/// let sums = testing::run(3, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let mut work = Collective::<u64>::new(&manager, "work")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///
///     let mine = u64::from(manager.node().0) + 1;
///     let first = manager.nodes()[0];
///     assert_eq!(work.broadcast(&thread, first, mine)?, 1);
///     assert_eq!(work.all_gather(&thread, mine)?, [1, 2, 3]);
///     work.all_reduce(&thread, mine, |sum, value| sum + value)
/// });
/// assert_eq!(sums, [6, 6, 6]);
/// ```
///
/// # Strength
///
/// Robust: the result of a call consists of the values of its round, so no client sees more than on a strong memory
/// (`loco check collective --robust`). A call is no fence.
///
/// # After a timeout
/// A call that failed with [`Timeout`](crate::ErrorKind::Timeout) has taken part: its value may have reached others.
/// The next call must name the same operation and root. It continues the round with the first value; its own value is
/// ignored. Another operation is refused with [`Config`](crate::Error::Config).
///
/// # After the loss of a node
/// A call that needs something of the lost node fails with [`PeerLost`](crate::ErrorKind::PeerLost), as does every
/// later one, and every call of another node that needs something which this node has not given. Calls of other nodes may have
/// succeeded. The remaining nodes make another `Collective` among themselves.
pub struct Collective<T: Value, F: Fabric = AnyFabric> {
    channel: Channel<F>,
    region: Region<F>,
    rows: Sst<u64, F>,
    nodes: Vec<NodeId>,
    /// The position of this node.
    here: usize,
    /// The number of rounds that this node has begun.
    round: u64,
    /// The call that has begun and has not ended.
    open: Option<Open<T>>,
    /// Why a call failed for the loss of a node, and every later one does.
    lost: Option<Error>,
}

/// A call under way.
#[derive(Clone, Copy)]
struct Open<T> {
    call: Call,
    /// The value of this node.
    value: T,
    stage: Stage,
}

/// The progress of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not all have begun the round before, so that the slots of this one may still be read.
    Early,
    /// The value is in this node's slot.
    Begun,
    /// The value and the row have been posted.
    Posted,
}

/// The operation, and the node that it goes to or comes from, if that matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Broadcast(NodeId),
    Gather(NodeId),
    AllGather,
}

impl Call {
    /// Returns the row of a node that has begun `round` with this call.
    fn row(self, round: u64) -> u64 {
        let (operation, root) = match self {
            Call::AllGather => (0, 0),
            Call::Broadcast(root) => (1, root.0),
            Call::Gather(root) => (2, root.0),
        };
        debug_assert_eq!(round << CALL_BITS >> CALL_BITS, round, "rounds fit for ages");
        debug_assert!(operation < STOPPED, "{STOPPED} is no operation");
        round << CALL_BITS | operation << ROOT_BITS | u64::from(root)
    }
}

/// Returns the round of a row.
fn round_of(row: u64) -> u64 {
    row >> CALL_BITS
}

/// Returns the row of a node that has begun `round` and stopped for the loss of `node`.
fn stopped_row(round: u64, node: NodeId) -> u64 {
    round << CALL_BITS | STOPPED << ROOT_BITS | u64::from(node.0)
}

/// Returns the lost node for which the node with this row has stopped.
#[allow(clippy::cast_possible_truncation)] // The root has as many bits.
fn stopped_for(row: u64) -> Option<NodeId> {
    let operation = row >> ROOT_BITS & ((1 << OPERATION_BITS) - 1);
    (operation == STOPPED).then_some(NodeId(row as u16))
}

/// Returns true if the node with this row has begun `round`, or never will.
fn has_begun_or_stopped(row: u64, round: u64) -> bool {
    round_of(row) >= round || stopped_for(row).is_some()
}

impl<T: Value, F: Fabric> Collective<T, F> {
    /// Makes this node's endpoint, called `name`, among the participants of `parent`.
    ///
    /// # Errors
    /// Returns [`TooLarge`](crate::Error::TooLarge) for values beyond all memory,
    /// [`OutOfMemory`](crate::fabric::FabricError::OutOfMemory), and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str) -> Result<Self> {
        let nodes = parent.participants().nodes().to_vec();
        let slots = nodes.len().saturating_mul(2).max(1);
        let channel = Channel::builder(parent, name)
            .kind(format!("collective of {} bytes", size_of::<T>()))
            .region("values", region_bytes(name, slots, stride::<T>())?)
            .join()?;
        let here = nodes.iter().position(|&node| node == channel.node());
        Ok(Collective {
            region: channel.region("values")?.clone(),
            rows: Sst::new(&channel, "rows")?,
            // Not reached: only a participant joins.
            here: here.ok_or(Error::Closed)?,
            nodes,
            round: 0,
            open: None,
            lost: None,
            channel,
        })
    }

    /// Broadcasts the value of `root` and returns it on every participant. Other participants' values are ignored.
    /// The root returns when the value has been posted.
    ///
    /// # Errors
    /// Returns [`NotParticipant`](crate::Error::NotParticipant) for a root outside, [`Config`](crate::Error::Config)
    /// if nodes are seen to call different operations, or after a timeout of another operation,
    /// [`PeerLost`](crate::ErrorKind::PeerLost), [`Timeout`](crate::ErrorKind::Timeout), and
    /// [`NotConnected`](crate::Error::NotConnected).
    pub fn broadcast(&mut self, thread: &Thread<F>, root: NodeId, value: T) -> Result<T> {
        let _call = thread.call(self.channel.name(), "broadcast");
        let from = self.position(root)?;
        let call = Call::Broadcast(root);
        let to = if from == self.here {
            Targets::All
        } else {
            Targets::Nobody
        };
        let timing = self.begin(thread, call, value, to)?;
        if from != self.here {
            self.wait_for(thread, timing, root, call)?;
        }
        self.end();
        self.read(from)
    }

    /// Gathers the values of all participants at `root`, in ascending order of their nodes. The others return `None`
    /// when their value has been posted.
    ///
    /// # Errors
    /// Returns the errors of [`broadcast`](Collective::broadcast).
    pub fn gather(&mut self, thread: &Thread<F>, root: NodeId, value: T) -> Result<Option<Vec<T>>> {
        let _call = thread.call(self.channel.name(), "gather");
        let to = self.position(root)?;
        let call = Call::Gather(root);
        let timing = self.begin(thread, call, value, Targets::One(to))?;
        if to != self.here {
            self.end();
            return Ok(None);
        }
        self.wait_for_all(thread, timing, call)?;
        self.end();
        self.read_all().map(Some)
    }

    /// Returns the values of all participants on every participant, in ascending order of their nodes.
    ///
    /// # Errors
    /// Returns the errors of [`broadcast`](Collective::broadcast).
    pub fn all_gather(&mut self, thread: &Thread<F>, value: T) -> Result<Vec<T>> {
        let _call = thread.call(self.channel.name(), "all_gather");
        let call = Call::AllGather;
        let timing = self.begin(thread, call, value, Targets::All)?;
        self.wait_for_all(thread, timing, call)?;
        self.end();
        self.read_all()
    }

    /// Combines the values of all participants with `combine`, in ascending order of their nodes, and returns the
    /// result at `root`. The others return `None`. `combine` runs at the root only.
    ///
    /// # Errors
    /// Returns the errors of [`broadcast`](Collective::broadcast).
    pub fn reduce(
        &mut self,
        thread: &Thread<F>,
        root: NodeId,
        value: T,
        combine: impl FnMut(T, T) -> T,
    ) -> Result<Option<T>> {
        let _call = thread.call(self.channel.name(), "reduce");
        let values = self.gather(thread, root, value)?;
        Ok(values.and_then(|values| values.into_iter().reduce(combine)))
    }

    /// Combines the values of all participants with `combine`, and returns the result on every participant. Each node
    /// combines in the same order, so that all have the same result to the bit, also of floating-point numbers.
    ///
    /// # Errors
    /// Returns the errors of [`broadcast`](Collective::broadcast).
    pub fn all_reduce(&mut self, thread: &Thread<F>, value: T, combine: impl FnMut(T, T) -> T) -> Result<T> {
        let _call = thread.call(self.channel.name(), "all_reduce");
        let values = self.all_gather(thread, value)?;
        // There is at least this node's value.
        Ok(values.into_iter().reduce(combine).unwrap_or(value))
    }

    /// Returns the endpoint, to wait until this object alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Begins a round, or continues one whose call timed out. Returns the time of the call.
    fn begin(&mut self, thread: &Thread<F>, call: Call, value: T, to: Targets) -> Result<Timing> {
        let timing = thread.timing_from_now();
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let mut open = match self.open {
            Some(open) if open.call != call => {
                return Err(Error::Config(format!(
                    "collective `{}`: {call:?} while {:?} has not ended: call that one again first",
                    self.channel.name(),
                    open.call
                )));
            }
            Some(open) => open,
            None => Open {
                call,
                value,
                stage: Stage::Early,
            },
        };
        self.open = Some(open);
        if open.stage == Stage::Early {
            let before = self.round;
            let begun = self.wait_for_round(thread, before);
            if let Err(error) = begun {
                if !error.is_timeout() {
                    self.open = None;
                }
                let error = self.name_missing(error);
                return Err(self.failed(thread, error));
            }
            self.round += 1;
            open.stage = Stage::Begun;
            self.open = Some(open);
            self.region
                .local()?
                .write(self.offset(self.here), open.value.as_bytes())?;
        }
        // If posting failed in the middle, it is repeated with the same bytes.
        if open.stage == Stage::Begun {
            self.announce(thread, call, to)
                .map_err(|error| self.failed(thread, error))?;
            open.stage = Stage::Posted;
            self.open = Some(open);
        }
        Ok(timing)
    }

    /// Posts this node's value, and then its row. A node that is lost keeps them from no other.
    fn announce(&self, thread: &Thread<F>, call: Call, to: Targets) -> Result<()> {
        let lost = match self.post(thread, to) {
            Err(error) if error.lost_peer().is_some() => Err(error),
            posted => Ok(posted?),
        };
        self.rows.store_mine(call.row(self.round))?;
        self.rows.push(thread)?.forget();
        lost
    }

    fn end(&mut self) {
        self.open = None;
    }

    /// Puts this node's value of this round to the nodes that need it, also when one of them is lost, which it then reports. The source is next written two rounds later.
    /// By then those nodes have begun another round, so they have read the value.
    fn post(&self, thread: &Thread<F>, to: Targets) -> Result<()> {
        let (offset, len) = (self.offset(self.here), size_of::<T>());
        if len == 0 {
            return Ok(());
        }
        let local = self.region.local()?;
        let inline = len <= thread.fabric().caps().inline_bytes_max;
        let mut bytes: SmallVec<[u8; 64]> = SmallVec::new();
        let mut lost = Ok(());
        if inline {
            bytes.resize(len, 0);
            local.read(offset, &mut bytes)?;
        }
        for (position, &node) in self.nodes.iter().enumerate() {
            let wanted = match to {
                Targets::All => position != self.here,
                Targets::One(root) => position == root && position != self.here,
                Targets::Nobody => false,
            };
            if !wanted {
                continue;
            }
            let dst = Target {
                remote: self.region.remote(node)?,
                offset,
            };
            let put = match inline {
                true => Operation::PutInline(&bytes, dst),
                false => Operation::Put(
                    Local {
                        memory: local,
                        offset,
                        len,
                    },
                    dst,
                ),
            };
            match thread.post_untracked(&put, Flags::default()) {
                Err(error) if error.lost_peer().is_some() => lost = lost.and(Err(error)),
                posted => posted?,
            }
        }
        lost
    }

    /// Waits until `node` has begun this round.
    fn wait_for(&mut self, thread: &Thread<F>, mut timing: Timing, node: NodeId, call: Call) -> Result<()> {
        let row = self.rows.row(node)?;
        let round = self.round;
        let begun = || Some(row.load()).filter(|&row| has_begun_or_stopped(row, round));
        let seen = thread
            .wait_for(true, self.channel.name(), Peers::One(node), begun)
            .and_then(|row| self.check_goes_on(row, round).map(|()| row));
        let seen = seen.map_err(|error| {
            let error = self.name_missing(timing.late(thread, error));
            self.failed(thread, error)
        })?;
        self.check(node, seen, call)
    }

    /// Waits until all have begun `round`.
    fn wait_for_round(&self, thread: &Thread<F>, round: u64) -> Result<()> {
        let begun = |row| has_begun_or_stopped(row, round);
        self.rows.wait_for_all(thread, true, begun)?;
        for row in self.rows.rows()? {
            self.check_goes_on(row.load(), round)?;
        }
        Ok(())
    }

    /// Waits until all have begun this round.
    fn wait_for_all(&mut self, thread: &Thread<F>, mut timing: Timing, call: Call) -> Result<()> {
        let begun = self.wait_for_round(thread, self.round);
        begun.map_err(|error| {
            let error = self.name_missing(timing.late(thread, error));
            self.failed(thread, error)
        })?;
        for (&node, row) in self.nodes.iter().zip(self.rows.rows()?) {
            self.check(node, row.load(), call)?;
        }
        Ok(())
    }

    /// Fails if the node with this row has stopped before it began `round`.
    fn check_goes_on(&self, row: u64, round: u64) -> Result<()> {
        match stopped_for(row) {
            Some(node) if round_of(row) < round => Err(Error::PeerLost {
                node,
                object: Some(self.channel.name().to_owned()),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the error of the call. If it is a loss, every later call has it, and the others hear that this node has stopped.
    #[cold]
    fn failed(&mut self, thread: &Thread<F>, error: Error) -> Error {
        if error.lost_peer().is_some() || error.is_declared_lost() {
            self.lost = Some(error.clone());
        }
        if let Some(node) = error.lost_peer() {
            // Those that the row does not reach are lost, or find out at their deadline.
            let _ = self.rows.store_mine(stopped_row(self.round, node));
            if let Ok(pushed) = self.rows.push(thread) {
                pushed.forget();
            }
        }
        error
    }

    /// Says of the nodes that were waited for that they have not made their call, if `error` is a timeout.
    #[cold]
    fn name_missing(&self, error: Error) -> Error {
        let (missing, name) = (error.awaited().to_vec(), self.channel.name());
        let what = format!(
            "{} not made the call on collective {name}; all participants must make the same calls",
            have(&missing)
        );
        error.because(&missing, what)
    }

    /// Fails if the row of `node` is of this round and of another call. A row of a later round says nothing, nor does that of a
    /// node that has stopped.
    fn check(&self, node: NodeId, row: u64, call: Call) -> Result<()> {
        let other_round = round_of(row) != self.round;
        if other_round || row == call.row(self.round) || stopped_for(row).is_some() {
            return Ok(());
        }
        Err(Error::Config(format!(
            "collective `{}`: {node} makes another call than {call:?} in round {}: all participants must call the same \
             operations in the same order",
            self.channel.name(),
            self.round
        )))
    }

    fn position(&self, root: NodeId) -> Result<usize> {
        self.nodes
            .binary_search(&root)
            .map_err(|_| Error::NotParticipant {
                channel: self.channel.name().to_owned(),
                node: root,
            })
    }

    /// Returns the offset of the value of the node at `position` in this round.
    fn offset(&self, position: usize) -> usize {
        debug_assert!(position < self.nodes.len(), "each participant has a slot");
        let odd = usize::from(self.round % 2 == 1);
        (odd * self.nodes.len() + position) * stride::<T>()
    }

    fn read(&self, position: usize) -> Result<T> {
        let mut value = T::new_zeroed();
        let mut bytes: SmallVec<[u8; 64]> = SmallVec::from_elem(0, size_of::<T>());
        self.region.local()?.read(self.offset(position), &mut bytes)?;
        // The bytes have the length of a value.
        if let Ok(read) = T::read_from_bytes(&bytes) {
            value = read;
        }
        Ok(value)
    }

    fn read_all(&self) -> Result<Vec<T>> {
        (0..self.nodes.len())
            .map(|position| self.read(position))
            .collect()
    }
}

/// The nodes that need this node's value.
#[derive(Clone, Copy)]
enum Targets {
    All,
    One(usize),
    Nobody,
}

/// Returns the bytes of a slot, in whole words.
const fn stride<T>() -> usize {
    let len = size_of::<T>().next_multiple_of(WORD_BYTES);
    if len == 0 { WORD_BYTES } else { len }
}
