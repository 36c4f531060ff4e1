//! The machine of one lock: it takes the lock, writes the values of the updates that wait for it by then, and releases it.
//!
//! Its steps are taken together with those of the thread's other machines, in four rounds: the lock, the values, the fences, the release.
//!
//! Relies on the acquisition of a lock (`ticket_lock`), on the steps of a write (`write`) and on shared fences. Used by the updates under
//! way, which keep the machines.

use loco_fabric::{Fabric, FabricError, NodeId};
use smallvec::SmallVec;

use crate::objects::kvstore::Shared;
use crate::objects::kvstore::shared_fences::{BegunFences, Fences, fence_towards, have_ended, is_of_values};
use crate::objects::kvstore::value::Encode;
use crate::objects::locks::ticket_lock::{Acquisition, Progress, Release};
use crate::operations::ack::AckKey;
use crate::{Error, Result, Thread, TicketLock, fence};

use super::{Number, Numbers, Update};

/// The updates under one lock.
pub(super) struct Machine<F: Fabric> {
    /// The number of the lock.
    pub(super) lock: u32,
    acquisition: Acquisition<F>,
    /// Set once the lock was held.
    held: bool,
    stage: Stage<F>,
    /// The updates that wait for the lock.
    pub(super) waiting: Numbers,
    /// The updates that are being done under the lock.
    pub(super) doing: Numbers,
    /// The puts of values that have a buffer.
    puts: AckKey<F>,
    /// The fence of the announcement of the ticket, if the release may hand the lock to another thread of the node.
    announced: Option<AckKey<F>>,
    /// Set if that is also the fence of values, of this lock or another one.
    announced_with_values: bool,
    /// The nodes written to.
    nodes: SmallVec<[NodeId; 4]>,
    /// Those of them that are lost.
    lost: SmallVec<[NodeId; 2]>,
    /// The failure that concerns all updates.
    failed: Option<Error>,
}

enum Stage<F: Fabric> {
    /// It takes the lock.
    Takes,
    /// It holds the lock. True if what the lock protects is in doubt.
    Holds(bool),
    /// It has posted the values. True if the release places them.
    Written(bool),
    /// The fences between the values and the release are under way, and that of the announcement.
    Fences(Fences<F>),
    /// The release is under way. True if it places the values.
    Releases(bool),
    /// The lock is released, with this outcome.
    Released(bool, Result<()>),
}

impl<F: Fabric> Machine<F> {
    /// Makes the machine of a lock that `acquisition` takes, which has come so far, for the updates that wait for it.
    pub(super) fn new(
        lock: u32,
        acquisition: Acquisition<F>,
        progress: Progress,
        waiting: Numbers,
    ) -> Machine<F> {
        let mut machine = Machine {
            lock,
            acquisition,
            held: false,
            stage: Stage::Takes,
            waiting,
            doing: Numbers::new(),
            puts: AckKey::done(),
            announced: None,
            announced_with_values: false,
            nodes: SmallVec::new(),
            lost: SmallVec::new(),
            failed: None,
        };
        machine.note(progress);
        machine
    }

    /// Returns true if some update waits for the lock or is being done under it.
    pub(super) fn is_needed(&self) -> bool {
        !self.waiting.is_empty() || !self.doing.is_empty()
    }

    /// Notes what the acquisition of the lock has come to.
    fn note(&mut self, progress: Progress) {
        match progress {
            Progress::UnderWay => {}
            Progress::Holds(in_doubt) => {
                self.held = true;
                self.stage = Stage::Holds(in_doubt);
            }
            Progress::Over(outcome) => {
                let placing = matches!(self.stage, Stage::Releases(true));
                self.stage = Stage::Released(placing, outcome);
            }
        }
    }

    /// Returns true if there is a step to take: one has ended, or the lock is taken for nobody any more.
    pub(super) fn is_able<K: Encode + Eq>(&self, store: &Shared<F, K>) -> bool {
        self.has_ended(store) || matches!(self.stage, Stage::Takes) && !self.is_needed()
    }

    /// Returns true if a step has ended. Looks at memory alone.
    pub(super) fn has_ended<K: Encode + Eq>(&self, store: &Shared<F, K>) -> bool {
        match &self.stage {
            Stage::Takes | Stage::Releases(_) => {
                let lock = &store.locks[self.lock as usize];
                self.acquisition.has_ended(lock)
            }
            Stage::Fences(fences) => have_ended(fences, &self.announced),
            Stage::Holds(_) | Stage::Written(_) | Stage::Released(..) => true,
        }
    }

    /// Returns true if it waits for a former holder of its lock. Calls `living` with the nodes that all must live meanwhile.
    pub(super) fn waits(&self, lock: &TicketLock<F>, living: impl FnMut(NodeId)) -> bool {
        matches!(self.stage, Stage::Takes) && self.acquisition.waits(lock, living)
    }

    /// Returns true if it is at its end.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Released(..))
    }

    /// Goes on to take the lock, or gives it up if no update needs it any more.
    pub(super) fn take_lock<K: Encode + Eq>(&mut self, thread: &Thread<F>, store: &Shared<F, K>) {
        if !matches!(self.stage, Stage::Takes) {
            return;
        }
        let lock = &store.locks[self.lock as usize];
        let progress = self.acquisition.go_on(lock, thread);
        self.note(progress);
        if matches!(self.stage, Stage::Takes) && !self.is_needed() {
            let now = thread.now();
            let progress = self.acquisition.give_up(lock, thread, (now, now));
            self.note(progress);
        }
    }

    /// Posts the values of the updates that wait for the lock, if it is held.
    pub(super) fn write<K: Encode + Eq>(
        &mut self,
        thread: &Thread<F>,
        store: &Shared<F, K>,
        updates: &mut [Update<K>],
    ) {
        let Stage::Holds(in_doubt) = self.stage else {
            return;
        };
        self.doing = std::mem::take(&mut self.waiting);
        // If the key type panics, the lock is released all the same, and nothing is known of the updates that are not written by then.
        self.stage = Stage::Written(false);
        for &number in &self.doing {
            updates[number as usize].written = Err(Error::Closed);
        }
        for n in 0..self.doing.len() {
            let this = &updates[self.doing[n] as usize];
            let is_same = |number: &&Number| updates[**number as usize].key == this.key;
            // A value that a later one overwrites takes effect just before it, or fails with it. Written, it could be placed last.
            if self.doing[n + 1..].iter().any(|number| is_same(&number)) {
                continue;
            }
            let same: Numbers = self.doing[..=n].iter().filter(is_same).copied().collect();
            let written = self.write_one(thread, store, this, in_doubt);
            for number in same {
                updates[number as usize].written = written.clone();
            }
        }
    }

    /// Posts the value of one update. Returns the node to which it goes, or `None` if the key is absent.
    fn write_one<K: Encode + Eq>(
        &mut self,
        thread: &Thread<F>,
        store: &Shared<F, K>,
        update: &Update<K>,
        in_doubt: bool,
    ) -> Result<Option<NodeId>> {
        let Some(key) = &update.key else {
            return Err(Error::Closed);
        };
        let Some(at) = store.find_held(thread, key, in_doubt)? else {
            return Ok(None);
        };
        // Also if the write fails: what of it is on the way is placed before the release.
        if !self.nodes.contains(&at.node) {
            self.nodes.push(at.node);
        }
        let begun = match store.is_longer_than_a_block(thread, &update.value) {
            // Its memory is not of the pool. It is free before the next one's is taken.
            true => store.write_body(thread, at, &update.value).map(|()| None),
            false => store.begin_body(thread, at, &update.value),
        };
        match begun {
            Ok(None) => {}
            // Its buffer is kept aside until the put has read it.
            Ok(Some(put)) => self.puts.unite(put.key()),
            Err(error) => {
                if error.lost_peer() == Some(at.node) {
                    self.lost.push(at.node);
                }
                return Err(error);
            }
        }
        Ok(Some(at.node))
    }

    /// Begins the fences between the values and the release, so that the next holder, and whoever learns of the updates, finds the
    /// values placed. `fences` are those towards each node that other machines have begun since all of them have posted their values:
    /// the failure of an operation is told to one fence alone. Returns true if it has begun with some.
    pub(super) fn begin_fences<K: Encode + Eq>(
        &mut self,
        thread: &Thread<F>,
        store: &Shared<F, K>,
        fences: &mut BegunFences<F>,
    ) -> bool {
        let Stage::Written(_) = self.stage else {
            return false;
        };
        let lock = &store.locks[self.lock as usize];
        if lock.places_and_leaves(&self.nodes) {
            self.stage = Stage::Written(true);
            return false;
        }
        let mut mine = Fences::new();
        for node in self.nodes.clone() {
            match fence_towards(thread, node, true, fences) {
                Ok(fence) => mine.push((node, fence)),
                Err(error) => self.note_failure(thread, node, error),
            }
        }
        // A hand-over to another thread of the node needs no further fence then.
        self.announced = lock
            .announced_at()
            .and_then(|home| fence_towards(thread, home, false, fences).ok());
        self.stage = Stage::Fences(mine);
        true
    }

    /// Takes note of the `fences` that all machines have begun together with this one.
    pub(super) fn note_fences(&mut self, fences: &BegunFences<F>) {
        let is_shared = |fence: &AckKey<F>| fence.peers().iter().any(|&home| is_of_values(home, fences));
        self.announced_with_values = self.announced.as_ref().is_some_and(is_shared);
    }

    /// Begins to release the lock, if the values are placed or the release places them, and goes on with it.
    pub(super) fn release<K: Encode + Eq>(&mut self, thread: &Thread<F>, store: &Shared<F, K>) {
        let lock = &store.locks[self.lock as usize];
        match &mut self.stage {
            Stage::Written(true) => self.begin_release(thread, lock, Release::Places),
            Stage::Fences(fences) if have_ended(fences, &self.announced) => {
                let announced = self.announced.as_ref().is_some_and(|fence| {
                    let placed = fence.outcome() == Some(Ok(()));
                    // Where no value shares the fence, its failure is that of an operation of the program.
                    if !placed && !self.announced_with_values {
                        for &home in fence.peers().iter() {
                            fence::leave_failure(thread, home, fence);
                        }
                    }
                    placed
                });
                for (node, fence) in std::mem::take(fences) {
                    if let Some(Err(error)) = fence.outcome() {
                        self.note_failure(thread, node, error);
                    }
                }
                self.begin_release(thread, lock, Release::Placed { announced });
            }
            _ => {}
        }
        if matches!(self.stage, Stage::Releases(_)) {
            let progress = self.acquisition.go_on(lock, thread);
            self.note(progress);
        }
    }

    fn begin_release(&mut self, thread: &Thread<F>, lock: &TicketLock<F>, how: Release) {
        self.stage = Stage::Releases(how == Release::Places);
        let progress = self.acquisition.release(lock, thread, how);
        self.note(progress);
    }

    /// Notes that operations towards `node` have failed.
    fn note_failure(&mut self, thread: &Thread<F>, node: NodeId, error: Error) {
        let error = thread.operations_failed(&[node], error);
        match error.lost_peer() {
            Some(lost) if lost == node => self.lost.push(node),
            _ => {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// Leaves the outcomes of the updates, and returns those that wait for the lock again.
    pub(super) fn end<K>(
        mut self,
        thread: &Thread<F>,
        store: &Shared<F, K>,
        updates: &mut [Update<K>],
    ) -> Numbers
    where
        K: Encode + Eq,
    {
        let Stage::Released(placing, released) = std::mem::replace(&mut self.stage, Stage::Takes) else {
            return Numbers::new(); // not reached: the caller has looked
        };
        if !self.held
            && let Err(error) = &released
        {
            self.failed.get_or_insert(error.clone());
            self.doing = std::mem::take(&mut self.waiting);
        }
        // The end of a put may be recorded a moment later than that of what follows on its queue pair, a fence or the release: another thread
        // has polled it. If the put had failed, so would what follows.
        if let Some(Err(error)) = self.puts.outcome() {
            match error.lost_peer() {
                Some(node) => self.lost.push(node),
                None => drop(self.failed.get_or_insert(error)),
            }
        }
        if placing && let Some(home) = released.as_ref().err().and_then(Error::lost_peer) {
            // Values that were not placed are lost with the lock's home.
            self.lost.push(home);
        }
        let still_in = thread.still_in();
        // Each is late since its own start.
        let since = |error: &Error, (begin, deadline)| match self.held {
            true => error.clone(),
            false => error.clone().since(begin, deadline, thread.now()),
        };
        for &number in &self.doing {
            let update = &mut updates[number as usize];
            let outcome = match (&update.written, &self.failed, &released) {
                (_, Some(error), _) if !self.held => Err(since(error, update.times)),
                (Err(error), ..) | (_, Some(error), _) => Err(since(error, update.times)),
                (Ok(Some(node)), ..) if self.lost.contains(node) => Err(FabricError::PeerLost(*node).into()),
                // Only the lock's home is lost, or its next owner; the values are placed.
                (Ok(_), _, Err(error)) if error.lost_peer().is_none() => Err(error.clone()),
                (Ok(written), ..) => Ok(written.is_some()),
            };
            let outcome = outcome.and_then(|there| still_in.clone().map(|()| there));
            if outcome == Ok(true) {
                store.count_writes(1);
            }
            update.outcome = Some(outcome);
        }
        self.acquisition.end(thread);
        self.waiting
    }

    /// Gives up for the updates whose deadline has passed, if the lock is not held yet.
    pub(super) fn give_up_late<K>(
        &mut self,
        thread: &Thread<F>,
        lock: &TicketLock<F>,
        updates: &mut [Update<K>],
    ) {
        if !self.waits(lock, |_| {}) {
            return;
        }
        let (now, given_up) = (thread.now(), thread.given_up());
        let late = |&number: &Number| given_up || updates[number as usize].times.1 <= now;
        let Some(&first) = self.waiting.iter().find(|number| late(number)) else {
            return;
        };
        let times = updates[first as usize].times;
        if self.waiting.iter().all(late) {
            let progress = self.acquisition.give_up(lock, thread, times);
            self.note(progress);
            return;
        }
        let (over, waiting): (Numbers, Numbers) = self.waiting.iter().copied().partition(late);
        self.waiting = waiting;
        for number in over {
            let update = &mut updates[number as usize];
            update.outcome = Some(Err(self.acquisition.late(lock, thread, update.times)));
        }
    }

    /// Goes on after a wait has failed with the loss of a node that had to live, or otherwise before its deadline.
    pub(super) fn after_loss<K>(
        &mut self,
        thread: &Thread<F>,
        lock: &TicketLock<F>,
        error: &FabricError,
        updates: &[Update<K>],
    ) {
        if !matches!(self.stage, Stage::Takes) {
            return;
        }
        let now = thread.now();
        let times = self.waiting.iter().map(|&number| updates[number as usize].times);
        // What follows may wait for all of them, for as long as one has time.
        let all = times.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let times = all.unwrap_or((now, now));
        let progress = self.acquisition.after_loss(lock, thread, error, times);
        self.note(progress);
    }

    /// Ends the machine for good: this node is out, or its fabric is broken.
    pub(super) fn fail(&mut self, lock: &TicketLock<F>, error: &FabricError) {
        let error: Error = error.clone().into();
        self.failed.get_or_insert(error.clone());
        if !matches!(self.stage, Stage::Released(..)) {
            self.acquisition.abandon(lock);
            self.stage = Stage::Released(false, Err(error));
        }
    }
}
