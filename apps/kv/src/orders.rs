//! Orders of the node that reads the commands to the others: to restore their part of a snapshot, and to end. Relies on a ring
//! buffer and a collective; used by the shell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use loco::fabric::{Fabric, NodeId};
use loco::{
    Collective, Encode, KvStore, Manager, Restored, Result, RingBuffer, RingReader, RingWriter, Thread,
};
use loco_app::Stop;

/// The bytes of the ring, which holds the longest path that a line has.
const RING_BYTES: usize = 1 << 18;
/// The time between two checks whether the program was told to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The result of a node: 1 if it has failed; the keys of the file; those inserted and updated.
type Report = [u64; 4];

/// One node's part in the orders.
pub(crate) struct Orders<F: Fabric> {
    leader: NodeId,
    ring: RingBuffer<F>,
    reports: Collective<Report, F>,
    /// This node's part of a snapshot, and the number of parts.
    part: (usize, usize),
}

/// The part of the node that gives the orders.
pub(crate) struct Leader<F: Fabric> {
    writer: RingWriter<F>,
    orders: Orders<F>,
}

impl<F: Fabric> Orders<F> {
    pub(crate) fn new(manager: &Manager<F>, leader: NodeId) -> Result<Orders<F>> {
        let nodes = manager.nodes();
        let position = nodes.iter().position(|&node| node == manager.node());
        Ok(Orders {
            leader,
            ring: RingBuffer::new(manager, "orders", leader, RING_BYTES)?,
            reports: Collective::new(manager, "reports")?,
            part: (position.unwrap_or(0), nodes.len()),
        })
    }

    /// Returns the part of the leader. The channels are ready.
    pub(crate) fn lead(self) -> Result<Leader<F>> {
        Ok(Leader {
            writer: self.ring.writer()?,
            orders: self,
        })
    }

    /// Carries out orders until the end is ordered, or `stop`.
    pub(crate) fn follow<K: Encode + Eq, V: Encode>(
        mut self,
        thread: &Thread<F>,
        store: &KvStore<K, V, F>,
        stop: &Stop,
    ) -> Result<()> {
        let mut reader = self.ring.reader()?;
        while let Some(order) = next(&mut reader, thread, stop)? {
            if order.is_empty() {
                break;
            }
            let restored = self.restore(thread, store, Path::new(OsStr::from_bytes(&order)));
            if let Err(error) = &restored {
                loco_app::complain(format_args!("kv: this node has not restored its part: {error}"));
            }
            self.report(thread, &restored)?;
        }
        Ok(())
    }

    fn restore<K: Encode + Eq, V: Encode>(
        &self,
        thread: &Thread<F>,
        store: &KvStore<K, V, F>,
        path: &Path,
    ) -> Result<Restored> {
        store.restore_part(thread, path, self.part.0, self.part.1)
    }

    /// Tells the leader how this node's part went. Returns the reports of all nodes there, and nothing elsewhere.
    fn report(&mut self, thread: &Thread<F>, restored: &Result<Restored>) -> Result<Option<Vec<Report>>> {
        let report = match restored {
            Ok(done) => [0, done.keys, done.inserted, done.updated],
            Err(_) => [1, 0, 0, 0],
        };
        // The parts may take longer than a wait's deadline, each as long as its own operations succeed.
        loop {
            match self.reports.gather(thread, self.leader, report) {
                Err(error) if error.is_timeout() => {}
                outcome => return outcome,
            }
        }
    }
}

/// Returns the next order, or `None` if the program is to stop.
fn next<F: Fabric>(reader: &mut RingReader<F>, thread: &Thread<F>, stop: &Stop) -> Result<Option<Vec<u8>>> {
    while !stop.is_asked() {
        thread.set_deadline(Some(thread.now().after(LOOK)));
        let received = reader.receive(thread);
        thread.set_deadline(None);
        match received {
            Err(error) if error.is_timeout() => {}
            outcome => return outcome.map(Some),
        }
    }
    Ok(None)
}

impl<F: Fabric> Leader<F> {
    /// Restores a snapshot: each node its part. Returns what all have restored.
    pub(crate) fn restore<K: Encode + Eq, V: Encode>(
        &mut self,
        thread: &Thread<F>,
        store: &KvStore<K, V, F>,
        path: &Path,
    ) -> Result<Outcome> {
        self.writer.submit(thread, path.as_os_str().as_bytes())?;
        let mine = self.orders.restore(thread, store, path);
        let reports = self.orders.report(thread, &mine)?.unwrap_or_default();
        let mine = mine?;
        let sum = |number: usize| reports.iter().map(|report| report[number]).sum();
        Ok(Outcome {
            keys: mine.keys,
            inserted: sum(2),
            updated: sum(3),
            failed: sum(0),
        })
    }

    /// Tells the other nodes that the end has come. Those that are lost need not hear of it.
    pub(crate) fn end(mut self, thread: &Thread<F>) -> Result<()> {
        loop {
            match self.writer.submit(thread, b"") {
                Err(error) => match error.lost_peer() {
                    Some(node) => self.writer.exclude(node),
                    None => return Err(error),
                },
                Ok(()) => return loco::fence::thread(thread),
            }
        }
    }
}

/// The sum of what all nodes have restored.
pub(crate) struct Outcome {
    pub(crate) keys: u64,
    pub(crate) inserted: u64,
    pub(crate) updated: u64,
    /// The number of nodes that have failed.
    pub(crate) failed: u64,
}
