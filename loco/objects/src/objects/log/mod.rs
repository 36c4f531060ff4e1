//! The log: records in one order on all participants, which outlive the loss of any of them.
//!
//! Every participant has a copy of the log ([`copy`]) and nobody but the leader writes into the copies of others, by
//! one-sided operations. One participant *leads*: the lowest that is neither lost nor has left. It writes a record
//! into its copy, puts it into the copy of every other live participant, and waits until all have it. Only then is
//! the record *committed*: the leader announces the position after it in a table ([`Sst`]), and readers look at no
//! record before that. So what a reader has seen, and what an append has returned for, is on all nodes that live
//! ([`lead`]).
//!
//! When the leader is lost, the next participant leads. The loss is reported only when the lost node can change no
//! memory any more ([`Membership`](crate::fabric::Membership)), so from then on the copies stand still. The new
//! leader takes the longest of them, gives every participant what it lacks, and commits. A record has one author and
//! one place, so copies differ only in how far they go, and a record that was not committed ends up on all nodes or
//! on none.
//!
//! Other nodes send the leader their records ([`requests`]), one at a time, with a number. A record keeps the number. So
//! a request that is sent again to the next leader is appended once.
//!
//! A copy is a ring: a slot is used again when every live participant has read its record, as a second table says.
//!
//! Mu (OSDI'20) replicates a log by one-sided writes of a leader, to a majority. Here the leader writes to all that live, so that any of
//! them can lead without asking the others what was committed, and a lost node is shut out by the membership instead of by
//! permissions of the log's memory.
//!
//! Relies on regions, two tables and the fabric's membership; used by programs.

mod append;
mod copy;
mod cursor;
mod lead;
mod requests;
mod service;

use std::sync::Arc;

use loco_fabric::{AtomicCell, Control as _, Fabric, NodeId, Platform as _, Task as _, ThreadKind};
use smallvec::SmallVec;

use crate::fabric::AnyFabric;
use crate::operations::exclusive::Exclusive;
use crate::operations::peers::is_gone;
use crate::operations::platform::{AtomicU64Of, TaskOf};
use crate::operations::published::Poster;
use crate::{Channel, Error, Parent, Result, Sst, Thread};

use append::Sender;
use copy::{Copy, RECORD_BYTES_MAX};
use cursor::Cursor;
use lead::Lead;
use requests::Requests;

/// The settings of a log, which must be the same on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// The number of records that a copy has room for, at least 1. An append waits while some live participant has so many left to
    /// read and makes no call.
    pub capacity: usize,
    /// The longest record in bytes, below 16 MiB. Each record takes so much room.
    pub record_bytes_max: usize,
    /// The number of participants that must live for a record to be committed, at least 1 (the default). With more than half
    /// of the participants no two parts of a job that have lost sight of each other can both go on.
    pub members_min: usize,
    /// Starts a thread on each node that leads when its turn comes (the default). Without it a node leads only during its
    /// calls: a program whose nodes may be waited for must then call [`lead`](Log::lead), or wait in [`append`](Log::append)
    /// or [`read`](Log::read).
    pub service: bool,
}

loco_fabric::setters!(LogConfig {
    capacity: usize,
    record_bytes_max: usize,
    members_min: usize,
    service: bool,
});

impl LogConfig {
    /// Returns the settings of a log of `capacity` records of up to `record_bytes_max` bytes, with defaults for the rest.
    pub fn new(capacity: usize, record_bytes_max: usize) -> LogConfig {
        LogConfig {
            capacity,
            record_bytes_max,
            members_min: 1,
            service: true,
        }
    }

    fn check(&self, name: &str, nodes: usize) -> Result<()> {
        let wrong = if self.capacity == 0 {
            "no room for a record: take a `capacity` of 1 at least".to_owned()
        } else if self.members_min == 0 || self.members_min > nodes {
            format!(
                "`members_min` is {}; take 1 to {nodes}, the number of participants",
                self.members_min
            )
        } else if self.record_bytes_max > RECORD_BYTES_MAX {
            return Err(Error::TooLarge {
                what: format!("a record of log `{name}`"),
                len: self.record_bytes_max,
                max: RECORD_BYTES_MAX,
            });
        } else {
            return Ok(());
        };
        Err(Error::Config(format!("log `{name}`: {wrong}")))
    }
}

/// A log of records in one order, of which every participant has a copy and to which every participant may append. It outlives the
/// loss of any participants, as long as one is left.
///
/// ```
/// use loco::{Log, LogConfig, Manager, testing};
///
/// let read = testing::run(3, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let log = Log::new(&manager, "log", LogConfig::new(64, 16))?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///
///     log.append(&thread, format!("from {}", manager.node()).as_bytes())?;
///     let records = (0..3).map(|_| log.read(&thread)).collect::<loco::Result<Vec<_>>>()?;
///     // No node leaves while another may need it.
///     let end = loco::Barrier::new(&manager, "end")?;
///     end.channel().wait_for_ready()?;
///     end.wait(&thread)?;
///     Ok(records)
/// });
/// assert_eq!(read[0], read[1]);
/// assert_eq!(read[1], read[2]);
/// ```
///
/// # What it promises
///
/// * All nodes read the same records in the same order, each once and without a gap. A node may be behind.
/// * A record whose [`append`](Log::append) has returned is on every participant that lives. No later loss takes it away, and
///   every participant that goes on reading reads it.
/// * No record that a node has read is taken back. A record whose append has not returned when its node or the leader is lost
///   is read by all who go on, or by none.
/// * An append that begins after another one has returned, on any node, comes after it in the log.
///
/// A node that wants to have read everything that was appended before now appends a record and reads up to it.
///
/// # Losses
///
/// A participant that is lost or leaves delays appends until the others agree about it, and no longer. A node that was declared
/// lost gets [`DeclaredLost`](crate::ErrorKind::DeclaredLost); none of its records is committed after that. Nodes of a network that falls apart
/// each take the others for lost: with the default of [`members_min`](LogConfig::members_min) each part goes on
/// with a log of its own; with more than half of the participants one part at most does, and the others get
/// [`PeerLost`](crate::ErrorKind::PeerLost).
///
/// # Strength
///
/// Appends take effect one after another, as on a strong memory. Reads are weak on purpose: a node reads its own copy, which may be behind.
///
/// # Dropping
///
/// A node that drops its log no longer leads, nor reads. Drop it when all nodes are done, or end the node.
pub struct Log<F: Fabric = AnyFabric> {
    shared: Arc<Shared<F>>,
    service: Option<TaskOf<F>>,
}

/// The state that the log and its service thread share.
struct Shared<F: Fabric> {
    channel: Channel<F>,
    config: LogConfig,
    nodes: Box<[NodeId]>,
    /// The position of this node among them.
    here: usize,
    copy: Copy<F>,
    requests: Requests<F>,
    /// How far each node has committed as the leader. The largest counts.
    commits: Sst<u64, F>,
    /// How far each node has read.
    reads: Sst<u64, F>,
    sender: Exclusive<F, Sender<F>>,
    cursor: Exclusive<F, Cursor>,
    /// The number of times that reads have let appends go on. Appends that wait for their node's reader watch it.
    waited_reads: AtomicU64Of<F>,
    /// What this node knows as the leader; `None` before it leads.
    lead: Exclusive<F, Option<Lead>>,
    /// The thread that places records in other copies.
    poster: Poster<F>,
    stop: AtomicU64Of<F>,
}

impl<F: Fabric> Log<F> {
    /// Makes this node's endpoint of the log called `name`, and starts its service thread.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) for a capacity of 0 and for a wrong
    /// [`members_min`](LogConfig::members_min), [`TooLarge`](crate::Error::TooLarge) for records or copies that are too large,
    /// [`OutOfMemory`](crate::fabric::FabricError::OutOfMemory), and the errors of
    /// [`ChannelBuilder::join`](crate::ChannelBuilder::join).
    pub fn new(parent: &impl Parent<F>, name: &str, config: LogConfig) -> Result<Self> {
        let nodes: Box<[NodeId]> = parent.participants().nodes().into();
        config.check(name, nodes.len())?;
        let (headers, bodies) = Copy::<F>::region_bytes(name, config.capacity, config.record_bytes_max)?;
        let requests = Requests::<F>::region_bytes(name, nodes.len(), config.record_bytes_max)?;
        let channel = Channel::builder(parent, name)
            .kind(format!(
                "log of {} records, {} participants at least",
                config.capacity, config.members_min
            ))
            .region("headers", headers)
            .region("bodies", bodies)
            .region("requests", requests)
            .join()?;
        let here = nodes.iter().position(|&node| node == channel.node());
        let shared = Arc::new(Shared {
            // Not reached: only a participant joins.
            here: here.ok_or(Error::Closed)?,
            copy: Copy::new(&channel)?,
            requests: Requests::new(&channel, nodes.len())?,
            commits: Sst::new(&channel, "commits")?,
            reads: Sst::new(&channel, "reads")?,
            sender: Exclusive::new(Sender::new()),
            cursor: Exclusive::new(Cursor::new(nodes.len())),
            waited_reads: AtomicCell::new(0),
            lead: Exclusive::new(None),
            poster: Poster::new(),
            stop: AtomicCell::new(0),
            nodes,
            config,
            channel,
        });
        let service = match shared.config.service {
            false => None,
            true => {
                let (fabric, served) = (parent.manager().fabric(), shared.clone());
                let task = format!("loco-log-{}", fabric.node().0);
                let body = move || service::serve(&served);
                Some(fabric.platform().spawn(&task, ThreadKind::Service, body)?)
            }
        };
        Ok(Log { shared, service })
    }

    /// Returns the node that leads as far as this node knows: the lowest participant that is neither lost nor has left.
    pub fn leader(&self) -> NodeId {
        self.shared.leader()
    }

    /// Returns the number of records that this node knows to be committed.
    pub fn committed(&self) -> u64 {
        self.shared.committed()
    }

    /// Returns the number of records that this node has left to read, of those that it knows to be committed.
    ///
    /// # Errors
    /// Returns [`Timeout`](crate::ErrorKind::Timeout) if other threads of this node read all the time.
    pub fn unread(&self, thread: &Thread<F>) -> Result<u64> {
        let cursor = self.shared.cursor.enter(thread, self.shared.channel.name())?;
        Ok(cursor.unread(self.shared.committed()))
    }

    /// Returns the endpoint, to wait until this log alone is ready.
    pub fn channel(&self) -> &Channel<F> {
        &self.shared.channel
    }
}

impl<F: Fabric> Drop for Log<F> {
    fn drop(&mut self) {
        self.shared.stop.store(1);
        if let Some(bell) = self.shared.channel.manager().network().bell() {
            bell.ring();
        }
        if let Some(service) = self.service.take()
            && let Err(error) = service.join()
        {
            tracing::error!(log = self.shared.channel.name(), %error, "the service thread");
        }
    }
}

impl<F: Fabric> Shared<F> {
    fn node(&self) -> NodeId {
        self.nodes[self.here]
    }

    fn is_gone(&self, node: NodeId) -> bool {
        node != self.node() && is_gone(self.channel.manager().fabric(), node)
    }

    /// Returns the lowest participant that is not gone.
    fn leader(&self) -> NodeId {
        let fabric = self.channel.manager().fabric();
        if fabric.control().departures() == 0 {
            return self.nodes[0];
        }
        let before = self.nodes[..self.here].iter();
        before
            .copied()
            .find(|&node| !self.is_gone(node))
            .unwrap_or(self.node())
    }

    /// Returns the other participants that are not gone.
    fn peers(&self) -> SmallVec<[NodeId; 16]> {
        let others = self.channel.peers().iter().copied();
        others.filter(|&node| !self.is_gone(node)).collect()
    }

    /// Returns the position after the last record that this node knows to be committed.
    fn committed(&self) -> u64 {
        // A former leader had committed less than its successor, or it had not been heard of.
        let rows = self.commits.rows().into_iter().flatten();
        rows.map(|row| row.load()).max().unwrap_or(0)
    }

    /// Returns the position up to which every live participant has read, as far as this node knows.
    fn read_by_all(&self) -> u64 {
        let rows = self.reads.rows().into_iter().flatten().zip(&self.nodes);
        let live = rows.filter(|&(_, &node)| !self.is_gone(node));
        live.map(|(row, _)| row.load()).min().unwrap_or(0)
    }

    /// Returns the live participants that keep the record at `position` from being appended, since they have not read that in
    /// whose slot it goes.
    fn behind(&self, position: u64) -> SmallVec<[NodeId; 16]> {
        let Some(needed) = (position + 1).checked_sub(self.copy.capacity() as u64) else {
            return SmallVec::new();
        };
        let rows = self.reads.rows().into_iter().flatten().zip(&self.nodes);
        let slow = rows.filter(|&(row, &node)| row.load() < needed && !self.is_gone(node));
        slow.map(|(_, &node)| node).collect()
    }

    /// Stores `value` in this node's row of `table` and sends it to the others. A lost peer needs it no more.
    fn announce(&self, thread: &Thread<F>, table: &Sst<u64, F>, value: u64) -> Result<()> {
        table.store_mine(value)?;
        let pushed = match table.push_untracked(thread) {
            Err(error) if error.lost_peer().is_some() => Ok(()),
            pushed => pushed,
        };
        // Another thread of this node may wait for it.
        thread.ring();
        pushed
    }
}
