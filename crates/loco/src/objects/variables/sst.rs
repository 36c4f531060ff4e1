//! The shared state table (LOCO'25 5.1.2): one register per participant, which that participant writes and
//! all read.

use std::sync::{Arc, OnceLock};

use loco_fabric::{Fabric, NodeId};

use crate::fabric::AnyFabric;
use crate::objects::variables::value::AtomicValue;
use crate::{AckKey, Channel, Error, OwnedVar, Parent, Participants, Result, Thread};

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
///     load.push_broadcast(&thread)?.wait(&thread)?;
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
    channel: Channel<F>,
    table: Arc<Table<F, T>>,
}

/// The rows by position among the participants. Each is made when its writer appears.
struct Table<F: Fabric, T: AtomicValue> {
    participants: Participants,
    rows: Box<[OnceLock<OwnedVar<T, F>>]>,
}

impl<F: Fabric, T: AtomicValue> Sst<T, F> {
    /// Makes this node's endpoint of the table called `name`.
    ///
    /// # Errors
    /// Returns the errors of [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str) -> Result<Self> {
        let participants = parent.participants();
        let table = Arc::new(Table {
            rows: participants.nodes().iter().map(|_| OnceLock::new()).collect(),
            participants,
        });
        let for_peers = table.clone();
        let channel = Channel::builder(parent, name)
            .kind(format!("sst<{}>", T::NAME))
            .on_join(move |sst, peer| for_peers.add(sst, peer))
            .join()?;
        table.add(&channel, channel.node())?;
        Ok(Sst { channel, table })
    }

    /// Returns the row that `node` writes.
    ///
    /// # Errors
    /// Returns [`NotConnected`](crate::Error::NotConnected) before the table is ready, and
    /// [`NotParticipant`](crate::Error::NotParticipant).
    #[inline]
    pub fn row(&self, node: NodeId) -> Result<&OwnedVar<T, F>> {
        match self.table.row(node) {
            Some(row) => Ok(row),
            None => Err(self.no_row(node)),
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
        let nodes = self.table.participants.nodes();
        match self.table.rows.iter().position(|row| row.get().is_none()) {
            Some(position) => Err(self.not_connected(nodes[position])),
            None => Ok(self.table.rows.iter().filter_map(OnceLock::get)),
        }
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
    pub fn push_broadcast(&self, thread: &Thread<F>) -> Result<AckKey<F>> {
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
        self.wait_for_all(thread, false, condition)
    }

    /// Waits as [`wait_for_each`](Sst::wait_for_each) does. `by_puts` says that this node's row satisfies the condition already,
    /// and that the condition depends on nothing else than the row.
    pub(crate) fn wait_for_all(
        &self,
        thread: &Thread<F>,
        by_puts: bool,
        condition: impl Fn(T) -> bool,
    ) -> Result<()> {
        if let Some(position) = self.table.rows.iter().position(|row| row.get().is_none()) {
            return Err(self.not_connected(self.table.participants.nodes()[position]));
        }
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

    #[cold]
    fn no_row(&self, node: NodeId) -> Error {
        if self.table.participants.contains(node) {
            return self.not_connected(node);
        }
        Error::NotParticipant {
            channel: self.channel.name().to_owned(),
            node,
        }
    }

    #[cold]
    fn not_connected(&self, peer: NodeId) -> Error {
        Error::NotConnected {
            region: format!("{}/ov{}.data", self.channel.name(), peer.0),
            peer,
        }
    }
}

impl<F: Fabric, T: AtomicValue> Table<F, T> {
    /// Makes the row that `node` writes.
    fn add(&self, sst: &impl Parent<F>, node: NodeId) -> Result<()> {
        if let Some(position) = self.position(node) {
            let row = OwnedVar::new(sst, &format!("ov{}", node.0), node)?;
            let _ = self.rows[position].set(row);
        }
        Ok(())
    }

    #[inline]
    fn row(&self, node: NodeId) -> Option<&OwnedVar<T, F>> {
        self.rows[self.position(node)?].get()
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
