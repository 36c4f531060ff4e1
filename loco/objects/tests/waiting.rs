//! Threads that wait for long over shared memory take next to nothing of a core, and hear of what they wait for all the
//! same. (Over verbs nobody rings for a put, and threads look in rounds: `ci/vm/suite` does not run these tests.)

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use common::net::{Barrier, Manager, RingBuffer, RingReader, TasLock, Thread, TicketLock};
use common::{Cluster, wait_until};
use loco::Result;
use loco::fabric::NodeId;
use loco::fence::Scope;
use rustix::time::{ClockId, clock_gettime};

const HOME: NodeId = NodeId(0);
/// A wait that is long: the pauses of a thread grow in its first milliseconds.
const LONG: Duration = Duration::from_secs(1);
/// Processor time that a long wait may take. It was 140 ms when a thread looked every 100 us.
const COST_MAX: Duration = Duration::from_millis(50);

/// Waits of which the least cost counts.
const TRIES: usize = 4;

/// A wait with the name of its object.
type Waiting<'a> = (
    &'static str,
    Box<dyn Fn(&Thread) -> Result<()> + Send + Sync + 'a>,
);

/// The objects at which threads of node 1 wait for node 0.
struct Kit {
    barrier: Barrier,
    ring: RingBuffer,
    /// The reader of node 1.
    reader: Mutex<Option<RingReader>>,
    ticket: TicketLock,
    tas: TasLock,
    meet: Barrier,
}

impl Kit {
    fn new(manager: &Manager) -> Result<Kit> {
        let mut kit = Kit {
            barrier: Barrier::new(manager, "barrier")?,
            ring: RingBuffer::new(manager, "ring", HOME, 64)?,
            reader: Mutex::new(None),
            ticket: TicketLock::new(manager, "ticket", HOME)?,
            tas: TasLock::new(manager, "tas", HOME)?,
            meet: Barrier::new(manager, "meet")?,
        };
        manager.wait_for_ready()?;
        if manager.node() != HOME {
            kit.reader = Mutex::new(Some(kit.ring.reader()?));
        }
        Ok(kit)
    }

    fn receive(&self, own: &Thread) -> Result<()> {
        let mut reader = self.reader.lock().unwrap();
        reader.as_mut().unwrap().receive(own).map(drop)
    }

    /// Each wait ends when node 0 does its part.
    fn waits(&self) -> [Waiting<'_>; 4] {
        [
            ("barrier", Box::new(|own| self.barrier.wait(own))),
            ("ring", Box::new(|own| self.receive(own))),
            (
                "ticket lock",
                Box::new(|own| self.ticket.lock(own, Scope::Thread)?.release()),
            ),
            (
                "test-and-set lock",
                Box::new(|own| self.tas.lock(own, Scope::Thread)?.release()),
            ),
        ]
    }
}

/// Returns the processor time that this thread has taken.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Returns the processor time of one wait in vain: the least of a few, as the kernel's own work on a busy machine counts, too.
fn cost(own: &Thread, name: &str, wait: impl Fn(&Thread) -> Result<()>) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..TRIES {
        own.set_deadline(Some(own.now().after(LONG)));
        let before = processor_time();
        let error = wait(own).unwrap_err();
        assert!(error.is_timeout(), "{name}: {error}");
        least = least.min(processor_time() - before);
        if least < COST_MAX {
            break;
        }
    }
    least
}

/// Each wait lasts [`LONG`] in vain, costs little, and is begun again. Then node 0 does what all wait for.
fn waits_cost_little(cluster: Cluster) {
    cluster.run(2, |manager| {
        let kit = Kit::new(&manager)?;
        let own = manager.thread()?;
        if manager.node() == HOME {
            let held = (
                kit.ticket.lock(&own, Scope::Thread)?,
                kit.tas.lock(&own, Scope::Thread)?,
            );
            kit.meet.wait(&own)?;
            // Node 1 waits in vain here.
            kit.meet.wait(&own)?;
            kit.barrier.wait(&own)?;
            kit.ring.writer()?.submit(&own, b"news")?;
            held.0.release()?;
            held.1.release()?;
        } else {
            kit.meet.wait(&own)?;
            let costs: Vec<(&str, Duration)> = thread::scope(|scope| {
                let waits = kit.waits().map(|(name, wait)| {
                    let manager = &manager;
                    scope.spawn(move || (name, cost(&manager.thread().unwrap(), name, &wait)))
                });
                waits.map(|wait| wait.join().unwrap()).into()
            });
            for (name, cost) in costs {
                assert!(cost < COST_MAX, "{cluster:?}: {name}: {cost:?} of {LONG:?}");
            }
            kit.meet.wait(&own)?;
            for (_, wait) in kit.waits() {
                wait(&own)?;
            }
        }
        kit.meet.wait(&own)
    });
}

#[test]
fn a_long_wait_costs_little() {
    waits_cost_little(Cluster::Synchronous);
}

#[test]
fn a_long_wait_costs_little_where_operations_end_late() {
    waits_cost_little(Cluster::Deferred(5));
}

/// Returns true if a thread of this process has that name.
fn runs(name: &str) -> bool {
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    names
        // A thread may end between the two looks.
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .any(|comm| comm.trim_end() == name)
}

/// It would look for messages again and again, which cannot come any more.
#[test]
fn the_set_up_of_a_node_that_failed_ends() {
    let met = std::sync::Barrier::new(3);
    // No other test here has a third node.
    Cluster::Synchronous.run(3, |manager| {
        manager.wait_for_ready()?;
        met.wait();
        if manager.node() == NodeId(2) {
            wait_until("the set-up", || runs("loco-setup-2"));
            manager.fabric().mesh().fail();
            wait_until("the end of the set-up", || !runs("loco-setup-2"));
        }
        Ok(())
    });
}
