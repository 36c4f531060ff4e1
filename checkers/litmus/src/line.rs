//! A worker's queue pairs, with the number of operations posted and ended on each.
//!
//! Completions of one queue pair come in the order of its operations, so the number that has come says which have ended.
//! Relies on [`Shared`] for completions. Used by workers and traffic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loco_fabric::{
    Completion, Fabric, FabricError, Local, Peers, Platform, Posted, QueuePair, Result, Std, Target, Wait,
    Work, WorkRequestId,
};

use crate::shared::{LINES_MAX, SCRATCH, SCRATCH_AT, Shared, bytes_of};

/// The number of the set of queue pairs through which the nodes synchronize.
pub const CONTROL: usize = usize::MAX;
/// The number of the set of the queue pair whose completions are left in the completion queue.
pub const UNPOLLED: usize = usize::MAX - 1;
/// The number of the first set of queue pairs that carry traffic beside the test. Others count down from it.
pub const TRAFFIC: usize = usize::MAX - 2;

/// One queue pair of a worker.
struct Line<F: Fabric> {
    node: usize,
    /// The number of the set that the queue pair belongs to.
    set: usize,
    queue_pair: F::QueuePair,
    posted: u64,
    /// The operations that ended within the posting call.
    at_once: u64,
    fenced: bool,
}

/// The queue pairs of a worker. They are made when they are first used and kept for all tests.
pub struct Lines<F: Fabric> {
    /// State that the node's threads share.
    pub shared: Arc<Shared<F>>,
    worker: usize,
    lines: Vec<Line<F>>,
    buffer: Vec<Completion>,
    round_trip: Option<Duration>,
    /// The line on which operations were left unpolled and are not flushed.
    unpolled: Option<usize>,
}

/// The gets of which the shortest is the round trip.
const ROUND_TRIPS: usize = 16;

impl<F: Fabric> Lines<F> {
    /// Makes a worker's set of queue pairs, which is empty at first.
    pub fn new(shared: Arc<Shared<F>>, worker: usize) -> Lines<F> {
        Lines {
            shared,
            worker,
            lines: Vec::new(),
            buffer: Vec::new(),
            round_trip: None,
            unpolled: None,
        }
    }

    /// Returns the index of the queue pair of set `set` towards `node`, and makes that queue pair at its first use.
    ///
    /// # Errors
    /// Fails if the fabric makes no further queue pair.
    pub fn line(&mut self, node: usize, set: usize) -> Result<usize> {
        if let Some(line) = self.lines.iter().position(|l| l.node == node && l.set == set) {
            return Ok(line);
        }
        if self.lines.len() == LINES_MAX {
            return Err(FabricError::Config(format!(
                "a thread of a test uses more than {LINES_MAX} queue pairs"
            )));
        }
        self.lines.push(Line {
            node,
            set,
            queue_pair: self.shared.fabric.queue_pair(self.shared.nodes[node])?,
            posted: 0,
            at_once: 0,
            fenced: false,
        });
        Ok(self.lines.len() - 1)
    }

    /// Returns the number of operations posted on a line.
    pub fn posted(&self, line: usize) -> u64 {
        self.lines[line].posted
    }

    /// Returns the number of operations ended on a line, as far as completions were taken.
    pub fn ended(&self, line: usize) -> u64 {
        self.shared.ended(self.worker, line) + self.lines[line].at_once
    }

    /// Takes completions, then returns whether everything posted on a line has ended.
    ///
    /// # Errors
    /// Fails if an operation of this node has failed.
    pub fn is_idle(&mut self, line: usize) -> Result<bool> {
        if self.ended(line) < self.posted(line) {
            self.shared.take(&mut self.buffer)?;
        }
        Ok(self.ended(line) == self.posted(line))
    }

    /// Makes the next operation of a line wait for earlier gets and atomics (remote fence).
    pub fn fence(&mut self, line: usize) {
        self.lines[line].fenced = true;
    }

    /// Returns whether the next operation of a line waits for earlier gets and atomics.
    pub fn is_fenced(&self, line: usize) -> bool {
        self.lines[line].fenced
    }

    /// Returns the time that a get of a word takes: the shortest of a few, measured once.
    ///
    /// # Errors
    /// Returns the errors of [`Self::post`] and [`Self::until`].
    pub fn round_trip(&mut self, deadline: Instant) -> Result<Duration> {
        if let Some(measured) = self.round_trip {
            return Ok(measured);
        }
        let (nodes, me) = (self.shared.nodes.len(), self.shared.me);
        let line = self.line((me + 1) % nodes, CONTROL)?;
        let mut shortest = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            let begun = Instant::now();
            let number = self.traffic(line, size_of::<u64>(), true, deadline)?;
            self.until(line, number, deadline)?;
            shortest = shortest.min(begun.elapsed());
        }
        self.round_trip = Some(shortest);
        Ok(shortest)
    }

    /// Drops a remote fence that was not followed by an operation.
    pub fn unfence(&mut self, line: usize) {
        self.lines[line].fenced = false;
    }

    /// Posts an operation, as soon as there is room. Returns its number on the line, from 1.
    ///
    /// # Errors
    /// Returns the errors of the operation, and `Timeout` if there is no room until `deadline`.
    #[inline]
    pub fn post(
        &mut self,
        line: usize,
        deadline: Instant,
        operation: impl Fn(&mut F::QueuePair, &Shared<F>, Work) -> Result<Posted>,
    ) -> Result<u64> {
        loop {
            match self.try_post(line, &operation) {
                Err(FabricError::QueueFull(_)) => {
                    // On some fabrics the queue is full of operations that have ended and were not polled. Any
                    // progress then makes room.
                    let ended = self.ended(line);
                    let posted = self.posted(line);
                    if ended < posted {
                        self.until(line, ended + 1, deadline)?;
                    } else {
                        self.shared.take(&mut self.buffer)?;
                        std::thread::yield_now();
                        if Instant::now() > deadline {
                            return Err(FabricError::QueueFull(self.shared.nodes[self.lines[line].node]));
                        }
                    }
                }
                posted => return posted,
            }
        }
    }

    /// Posts an operation if there is room, and polls nothing. Returns its number on the line, from 1.
    ///
    /// # Errors
    /// Returns the errors of the operation, among them `QueueFull`.
    #[inline]
    fn try_post(
        &mut self,
        line: usize,
        operation: impl Fn(&mut F::QueuePair, &Shared<F>, Work) -> Result<Posted>,
    ) -> Result<u64> {
        let it = &mut self.lines[line];
        let work = Work {
            fenced: it.fenced,
            ..Work::signaled(WorkRequestId((self.worker as u64) << 32 | line as u64))
        };
        let posted = operation(&mut it.queue_pair, &self.shared, work)?;
        it.fenced = false;
        it.posted += 1;
        it.at_once += u64::from(posted == Posted::Done);
        Ok(it.posted)
    }

    /// Waits until the operation of this number has ended.
    ///
    /// # Errors
    /// Returns `Timeout` at `deadline`, `PeerLost`, and the failure of an operation.
    #[inline]
    pub fn until(&mut self, line: usize, number: u64, deadline: Instant) -> Result<()> {
        if self.ended(line) >= number {
            return Ok(());
        }
        self.wait(line, number, deadline)
    }

    #[cold]
    fn wait(&mut self, line: usize, number: u64, deadline: Instant) -> Result<()> {
        let (shared, worker) = (Arc::clone(&self.shared), self.worker);
        let at_once = self.lines[line].at_once;
        let buffer = &mut self.buffer;
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = Wait {
            what: "the end of an operation",
            peers: Peers::One(shared.nodes[self.lines[line].node]),
            deadline: Some(Std.now().after(left)),
        };
        shared.fabric.wait(wait, || match shared.take(buffer) {
            Err(error) => Some(Err(error)),
            Ok(()) => (shared.ended(worker, line) + at_once >= number).then_some(Ok(())),
        })?
    }

    /// Waits until everything posted on a line is placed.
    ///
    /// # Errors
    /// Returns the errors of [`Self::until`].
    pub fn flush(&mut self, line: usize, deadline: Instant) -> Result<()> {
        self.lines[line].fenced = false;
        let number = self.post(line, deadline, |qp, _, work| qp.flush(work))?;
        self.until(line, number, deadline)
    }

    /// Puts words into a node's region, by the data in the work request.
    ///
    /// # Errors
    /// Returns the errors of [`Self::post`].
    pub fn put_words(&mut self, line: usize, at: usize, words: &[u64], deadline: Instant) -> Result<u64> {
        let node = self.lines[line].node;
        let bytes = bytes_of(words);
        self.post(line, deadline, |qp, shared, work| {
            let target = Target {
                remote: &shared.remotes[node],
                offset: at,
            };
            qp.put_inline(&bytes, target, work)
        })
    }

    /// Posts an operation of traffic, which moves `bytes` of scratch memory.
    ///
    /// # Errors
    /// Returns the errors of [`Self::post`].
    pub fn traffic(&mut self, line: usize, bytes: usize, is_get: bool, deadline: Instant) -> Result<u64> {
        self.post(
            line,
            deadline,
            transfer::<F>(self.lines[line].node, bytes.min(SCRATCH), is_get),
        )
    }

    /// Posts small puts on a queue pair of their own until so many of its operations are in the completion queue, or on their way
    /// to it, and polls nothing: what is posted next tends to complete behind them. Posts fewer if the queue pair has no
    /// room for them. A [synchronous](loco_fabric::Caps::synchronous) fabric has no completion queue to fill.
    ///
    /// # Errors
    /// Returns the errors of a put, except that there is no room, and of [`Self::line`].
    pub fn leave_unpolled(&mut self, number: u64) -> Result<()> {
        if number == 0 || self.shared.fabric.caps().synchronous {
            return Ok(());
        }
        let node = (self.shared.me + 1) % self.shared.nodes.len();
        let line = self.line(node, UNPOLLED)?;
        self.unpolled = Some(line);
        for _ in self.posted(line) - self.ended(line)..number {
            match self.try_post(line, transfer::<F>(node, size_of::<u64>(), false)) {
                Err(FabricError::QueueFull(_)) => break,
                posted => posted?,
            };
        }
        Ok(())
    }

    /// Polls until the operations of [`Self::leave_unpolled`] are placed.
    ///
    /// # Errors
    /// Returns the errors of [`Self::flush`].
    pub fn flush_unpolled(&mut self, deadline: Instant) -> Result<()> {
        match self.unpolled.take() {
            Some(line) => self.flush(line, deadline),
            None => Ok(()),
        }
    }
}

/// Returns the posting of a get or put between a node's scratch memory and this node's.
fn transfer<F: Fabric>(
    node: usize,
    len: usize,
    is_get: bool,
) -> impl Fn(&mut F::QueuePair, &Shared<F>, Work) -> Result<Posted> {
    move |qp, shared, work| {
        let target = Target {
            remote: &shared.remotes[node],
            offset: SCRATCH_AT,
        };
        let local = Local {
            memory: &shared.memory,
            offset: SCRATCH_AT + SCRATCH,
            len,
        };
        match is_get {
            true => qp.get(local, target, work),
            false => qp.put(local, target, work),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::worker::{Batch, Status, Worker};
    use loco_job::Mesh;
    use loco_shm::{ShmConfig, ShmFabric};
    use loco_test_networks::deferred::{Deferred, Nic};

    /// Returns the queue pairs of a node alone on a network whose queue pairs hold 64 operations.
    fn alone(nic: Option<Nic>) -> Lines<Deferred<ShmFabric>> {
        let mesh = Mesh::in_process(1).unwrap().remove(0);
        let shm = ShmFabric::new(mesh, ShmConfig::default().memory_limit_bytes(64 << 20)).unwrap();
        let fabric = Deferred::new(shm, nic.as_ref()).unwrap();
        Lines::new(Arc::new(Shared::new(fabric).unwrap()), 0)
    }

    #[test]
    fn completions_are_left_in_their_queue_up_to_what_it_holds() {
        let nic = Nic {
            queue_depth: 64,
            ..Nic::deferred(21)
        };
        let mut lines = alone(Some(nic));
        let unpolled = |lines: &Lines<_>| {
            let line = lines.unpolled.unwrap();
            lines.posted(line) - lines.ended(line)
        };
        for (asked, left) in [(16, 16), (16, 16), (4, 16), (32, 32), (256, 64), (256, 64)] {
            lines.leave_unpolled(asked).unwrap();
            assert_eq!(unpolled(&lines), left, "{asked} asked for");
        }
        // A test that posts and polls beside them goes on, and its polls take their completions.
        let deadline = Instant::now() + Duration::from_secs(60);
        let own = lines.line(0, 0).unwrap();
        let number = lines.traffic(own, 8, true, deadline).unwrap();
        lines.until(own, number, deadline).unwrap();
        lines.leave_unpolled(256).unwrap();
        let line = lines.unpolled.unwrap();
        lines.flush_unpolled(deadline).unwrap();
        assert_eq!(lines.ended(line), lines.posted(line));
        assert_eq!(lines.unpolled, None);
    }

    /// The switch reaches the threads: each keeps its 16 operations from its first run on, and takes them at the end.
    #[test]
    fn threads_of_tests_leave_what_the_stress_says() {
        let text = "RDMA t\n{ x@2=0; }\nP0@1 ;\nx^2 := 1 ;\npoll(2) ;\nx^2 := 2 ;\n\nexists (x=1)\n";
        let program = mowgli::litmus::parse(text).unwrap().litmus.program;
        let code = Arc::new(Code::new(&program, 1).unwrap());
        let left = |stress: &str| {
            let shared = alone(Some(Nic::deferred(22))).shared;
            let mut worker = Worker::new(shared, 0);
            let batch = Batch {
                number: 1,
                code: Arc::clone(&code),
                runs: 3,
                stress: stress.parse().unwrap(),
                seed: 1,
                patience: Duration::from_secs(60),
            };
            let share = worker.run(&batch, 0).unwrap();
            assert_eq!(share.statuses, [Status::Complete; 3]);
            let line = worker.lines.line(0, UNPOLLED).unwrap();
            assert_eq!(worker.lines.ended(line), worker.lines.posted(line));
            worker.lines.posted(line)
        };
        assert!(left("completions=4") > 16);
        assert_eq!(left("start=run"), 0);
    }

    #[test]
    fn a_synchronous_fabric_has_no_completions_to_leave() {
        let mut lines = alone(None);
        lines.leave_unpolled(16).unwrap();
        lines.flush_unpolled(Instant::now()).unwrap();
        assert!(lines.lines.is_empty());
    }
}
