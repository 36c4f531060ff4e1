//! The shared state table (LOCO'25 5.1.2): one register per participant, which that participant writes and
//! all read.
//!
//! LOCO'25 and LOCO'26 compose the table of owned variables. So does this one, as far as its use goes: each row is an
//! [`OwnedVar`]. But the rows are not channels. They lie in one region of the table's channel, each on lines of its own. A
//! channel for each row would have made the set-up of a table of n nodes cost n times the messages, keys and
//! endpoints of any other channel. Only the owner of a row has the means to post it
//! ([`Published`](crate::operations::published)), and it has those for that row only, so one region gives nobody more
//! rights than n regions did.
//!
//! Used by [`Barrier`](crate::Barrier) and [`Collective`](crate::Collective), and by programs.

use std::sync::{Arc, OnceLock};

use loco_fabric::{Fabric, NodeId};

use crate::channels::channel::region_bytes;
use crate::fabric::AnyFabric;
use crate::objects::variables::value::AtomicValue;
use crate::{AckKey, Channel, Error, OwnedVar, Parent, Participants, Region, Result, Thread};

/// The distance of two rows in bytes: two cache lines, which processors fetch together, so that writers of different rows
/// do not disturb one another.
const ROW_STRIDE: usize = 128;

// A row fits, and no two of them are in one pair of lines.
const _: () = assert!(ROW_STRIDE >= size_of::<u64>() && ROW_STRIDE.is_multiple_of(128));

/// A table with one [owned variable](OwnedVar) per participant.
///
/// ```
/// use loco::{Manager, Sst, testing};
///
/// let sums = testing::run(3, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let load = Sst::<u64>::new(&manager, "load")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///
///     load.store_mine(10 + u64::from(manager.node().0))?;
///     load.push(&thread)?.wait(&thread)?;
///
///     load.wait_for_each(&thread, |row| row != 0)?;
///     Ok(load.rows()?.map(|row| row.load()).sum::<u64>())
/// });
/// assert_eq!(sums, [33, 33, 33]);
/// ```
///
/// # Strength
///
/// Weak on purpose, as owned variables are: two nodes that each push their row and then read the other's can both read
/// the old one. A fence after the push ([`fence::thread`](crate::fence::thread)) prevents that. `loco check sst --robust`
/// shows both.
pub struct Sst<T: AtomicValue, F: Fabric = AnyFabric> {
    channel: Arc<Channel<F>>,
    region: Region<F>,
    table: Table<F, T>,
    /// Set once all participants were found connected.
    connected: OnceLock<()>,
}

/// The rows by position among the participants.
struct Table<F: Fabric, T: AtomicValue> {
    participants: Participants,
    rows: Box<[OwnedVar<T, F>]>,
}

impl<F: Fabric, T: AtomicValue> Sst<T, F> {
    /// Makes this node's endpoint of the table called `name`.
    ///
    /// # Errors
    /// Returns the errors of [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str) -> Result<Self> {
        Sst::of_kind(parent, name, format!("sst<{}>", T::NAME))
    }

    /// Makes a table that is an object of type `kind`.
    pub(crate) fn of_kind(parent: &impl Parent<F>, name: &str, kind: String) -> Result<Self> {
        let participants = parent.participants();
        let nodes = participants.nodes();
        let channel = Channel::builder(parent, name)
            .kind(kind)
            .published("rows", region_bytes(name, nodes.len(), ROW_STRIDE)?)
            .join()?;
        let channel = Arc::new(channel);
        let region = channel.published("rows")?.clone();
        let rows = nodes.iter().enumerate();
        let rows = rows.map(|(row, &node)| OwnedVar::at(&channel, &region, row * ROW_STRIDE, node));
        let rows = rows.collect::<Result<_>>()?;
        Ok(Sst {
            table: Table { participants, rows },
            channel,
            region,
            connected: OnceLock::new(),
        })
    }

    /// Returns the row that `node` writes.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected) before the table is ready, and
    /// [`NotParticipant`](crate::Error::NotParticipant).
    #[inline]
    pub fn row(&self, node: NodeId) -> Result<&OwnedVar<T, F>> {
        match self.table.row(node) {
            Some(row) if self.connected.get().is_some() => Ok(row),
            row => self.early_row(node, row),
        }
    }

    /// Returns this node's row.
    ///
    /// # Errors
    /// Does not fail on a table that was made; see [`row`](Sst::row).
    #[inline]
    pub fn mine(&self) -> Result<&OwnedVar<T, F>> {
        self.row(self.channel.node())
    }

    /// Returns all rows, in the order of the participants.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected) before the table is ready.
    pub fn rows(&self) -> Result<impl Iterator<Item = &OwnedVar<T, F>> + Clone> {
        self.check_connected()?;
        Ok(self.table.rows.iter())
    }

    /// Sets this node's row, on this node.
    ///
    /// # Errors
    /// Returns the errors of [`mine`](Sst::mine).
    #[inline]
    pub fn store_mine(&self, value: T) -> Result<()> {
        self.mine()?.store(value)
    }

    /// Sends this node's row, as of now, to every other participant.
    ///
    /// # Errors
    /// Returns the errors of [`OwnedVar::push`].
    ///
    /// # After a timeout
    /// See [`OwnedVar::push`].
    #[inline]
    pub fn push(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
        self.mine()?.push(thread)
    }

    /// Sends this node's row without a key, for rows whose next value replaces this one.
    ///
    /// # Errors
    /// Returns the errors of [`OwnedVar::push`].
    ///
    /// # After a timeout
    /// See [`OwnedVar::push`].
    #[inline]
    pub fn push_untracked(&self, thread: &Thread<F>) -> Result<()> {
        self.mine()?.push_untracked(thread)
    }

    /// Waits until each row has satisfied `condition`, not necessarily all at one time.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) for a node whose row has not satisfied it,
    /// [`Timeout`](crate::ErrorKind::Timeout), and [`NotConnected`](crate::Error::NotConnected).
    ///
    /// # After a timeout
    /// Nothing has changed. Wait again.
    pub fn wait_for_each(&self, thread: &Thread<F>, condition: impl Fn(T) -> bool) -> Result<()> {
        let _call = thread.call(self.channel.name(), "wait_for_each");
        self.wait_for_all(thread, false, condition)
    }

    /// Waits as [`wait_for_each`](Sst::wait_for_each) does. `by_puts` says that this node's row satisfies the condition
    /// already, and that the condition depends on the row alone.
    pub(crate) fn wait_for_all(
        &self,
        thread: &Thread<F>,
        by_puts: bool,
        condition: impl Fn(T) -> bool,
    ) -> Result<()> {
        self.check_connected()?;
        self.channel.wait_for_all(thread, by_puts, |node| {
            self.table.row(node).is_some_and(|row| condition(row.load()))
        })
    }

    /// Returns the endpoint, to wait until this table alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.channel
    }

    /// Returns the participants.
    pub fn participants(&self) -> &Participants {
        &self.table.participants
    }

    /// Returns the row of `node`, if that node is a participant and connected. Used before the whole table is known
    /// to be connected.
    #[cold]
    fn early_row<'a>(&self, node: NodeId, row: Option<&'a OwnedVar<T, F>>) -> Result<&'a OwnedVar<T, F>> {
        let row = row.ok_or_else(|| Error::NotParticipant {
            channel: self.channel.name().to_owned(),
            node,
        })?;
        self.region.remote(node)?;
        // A failure is not about this row.
        let _ = self.check_connected();
        Ok(row)
    }

    /// Checks that all participants are connected.
    ///
    /// # Errors
    /// Returns `NotConnected` for the first participant that is not.
    #[inline]
    fn check_connected(&self) -> Result<()> {
        match self.connected.get() {
            Some(()) => Ok(()),
            None => self.look_for_connections(),
        }
    }

    #[cold]
    fn look_for_connections(&self) -> Result<()> {
        let nodes = self.table.participants.nodes().iter();
        nodes
            .copied()
            .try_for_each(|node| self.region.remote(node).map(drop))?;
        let _ = self.connected.set(());
        Ok(())
    }
}

impl<F: Fabric, T: AtomicValue> Table<F, T> {
    #[inline]
    fn row(&self, node: NodeId) -> Option<&OwnedVar<T, F>> {
        self.rows.get(self.position(node)?)
    }

    #[inline]
    fn position(&self, node: NodeId) -> Option<usize> {
        let nodes = self.participants.nodes();
        let guess = usize::from(node.0);
        // Ids are usually 0, 1, 2, ...
        if nodes.get(guess) == Some(&node) {
            return Some(guess);
        }
        nodes.binary_search(&node).ok()
    }
}
