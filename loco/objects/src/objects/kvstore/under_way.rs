//! The updates that a thread has under way, as state machines: one for each lock that they need.
//!
//! The machine of a lock takes the lock, writes the values of all updates that wait for it by then, and releases it. That is two round
//! trips for all of them if the lock is free and the values are on its home. If not, the claim, the grant and a fence come in between.
//! Updates that come meanwhile are next. So those of one thread under one lock are served in their order,
//! and share the lock and its release.
//!
//! A machine that has a lock waits for the network alone, never for another lock. So updates under way cannot wait for each other in a
//! circle, whatever the locks, the threads and the order.
//!
//! Relies on the acquisition of a lock (`ticket_lock`) and on the steps of a write (`write`). Used by the calls that start updates.

use std::any::Any;
use std::sync::Arc;

use loco_fabric::{Fabric, FabricError, NodeId, Time};
use smallvec::SmallVec;

use crate::objects::locks::ticket_lock::{Acquisition, Progress, Release};
use crate::operations::ack::AckKey;
use crate::operations::machines::{self, Awaited};
use crate::{Error, Result, Thread, TicketLock};

use super::Shared;
use super::shared_fences::{BegunFences, Fences, fence_towards, have_ended};
use super::value::Encode;

/// The length of a value for which there is room beside its update.
const USUAL_BYTES: usize = 32;

/// The number of an update among those of its thread.
pub(super) type Number = u32;
/// Numbers of updates, in the order of their start.
type Numbers = SmallVec<[Number; 4]>;
/// Places of machines.
type Places = SmallVec<[usize; 16]>;

/// The updates of one store that a thread has under way.
pub(super) struct UnderWay<F: Fabric, K: Encode + Eq> {
    /// The store, as long as there are updates.
    store: Option<Arc<Shared<F, K>>>,
    updates: Vec<Update<K>>,
    /// The numbers that are free.
    free: Vec<Number>,
    machines: Vec<Machine<F>>,
    /// The lock of each machine, at the same place. To find one of many, these are fewer lines than the machines.
    locks: Vec<u32>,
}

/// An update that was started.
struct Update<K> {
    /// The key; `None` if the number is free.
    key: Option<K>,
    value: SmallVec<[u8; USUAL_BYTES]>,
    /// The time of its start, and the time at which it gives up.
    times: (Time, Time),
    /// The node to which it has written, once it has; or its failure, for which the lock is released all the same.
    written: Result<Option<NodeId>>,
    outcome: Option<Result<bool>>,
}

/// The updates under one lock.
struct Machine<F: Fabric> {
    /// The number of the lock.
    lock: u32,
    acquisition: Acquisition<F>,
    /// Set once the lock was held.
    held: bool,
    stage: Stage<F>,
    /// The updates that wait for the lock.
    waiting: Numbers,
    /// The updates that are being done under the lock.
    doing: Numbers,
    /// The puts of values that have a buffer.
    puts: AckKey<F>,
    /// The fence of the announcement of the ticket, if the release may hand the lock to another thread of the node.
    announced: Option<AckKey<F>>,
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

impl<F: Fabric, K: Encode + Eq> UnderWay<F, K> {
    pub(super) fn new() -> UnderWay<F, K> {
        UnderWay {
            store: None,
            updates: Vec::new(),
            free: Vec::new(),
            machines: Vec::new(),
            locks: Vec::new(),
        }
    }

    /// Returns true if these are updates of `store`, or of none.
    pub(super) fn is_of(&self, store: &Arc<Shared<F, K>>) -> bool {
        self.store.as_ref().is_none_or(|mine| Arc::ptr_eq(mine, store))
    }

    /// Starts an update.
    pub(super) fn start(
        &mut self,
        thread: &Thread<F>,
        store: &Arc<Shared<F, K>>,
        key: &K,
        value: &[u8],
    ) -> Number {
        let lock = store.lock_number(key) as u32;
        self.store.get_or_insert_with(|| store.clone());
        let update = Update {
            key: Some(key.clone()),
            value: SmallVec::from_slice(value),
            times: (thread.now(), thread.deadline()),
            written: Ok(None),
            outcome: None,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.updates[number as usize] = update;
                number
            }
            None => {
                self.updates.push(update);
                self.updates.len() as Number - 1
            }
        };
        match self.place_of(lock) {
            Some(i) => self.machines[i].waiting.push(number),
            None => self.begin(thread, store, lock, Numbers::from_slice(&[number])),
        }
        number
    }

    /// Returns the place of the machine of a lock.
    fn place_of(&self, lock: u32) -> Option<usize> {
        self.locks.iter().position(|&of| of == lock)
    }

    /// Begins to take a lock for the updates that wait for it.
    fn begin(&mut self, thread: &Thread<F>, store: &Shared<F, K>, lock: u32, waiting: Numbers) {
        self.leave_closed(&waiting);
        // Others wait for the end of what is begun here.
        let begun = thread.to_the_end(|| Acquisition::begin(&store.locks[lock as usize], thread));
        match begun {
            Ok((acquisition, progress)) => {
                for &number in &waiting {
                    self.updates[number as usize].outcome = None;
                }
                let mut machine = Machine {
                    lock,
                    acquisition,
                    held: false,
                    stage: Stage::Takes,
                    waiting,
                    doing: Numbers::new(),
                    puts: AckKey::done(),
                    announced: None,
                    nodes: SmallVec::new(),
                    lost: SmallVec::new(),
                    failed: None,
                };
                machine.note(progress);
                self.machines.push(machine);
                self.locks.push(lock);
            }
            Err(error) => {
                for number in waiting {
                    self.updates[number as usize].outcome = Some(Err(error.clone()));
                }
            }
        }
    }

    /// Leaves an outcome for updates of which nothing else would be left if the next step panicked.
    fn leave_closed(&mut self, numbers: &[Number]) {
        for &number in numbers {
            self.updates[number as usize].outcome = Some(Err(Error::Closed));
        }
    }

    /// Returns true if the update is over.
    pub(super) fn is_over(&self, number: Number) -> bool {
        self.updates[number as usize].outcome.is_some()
    }

    /// Returns the outcome of an update that is over, and frees its number.
    pub(super) fn take(&mut self, number: Number) -> Result<bool> {
        let update = &mut self.updates[number as usize];
        update.key = None;
        let outcome = update.outcome.take().unwrap_or(Err(Error::Closed));
        self.free.push(number);
        if self.machines.is_empty() && self.free.len() == self.updates.len() {
            self.store = None;
        }
        outcome
    }

    /// Takes an update back whose lock is not held yet. Returns its lock, which the thread then does not need for it any more, or `None` if
    /// the update goes on.
    pub(super) fn take_back(&mut self, number: Number) -> Option<u32> {
        let machine = self.machines.iter_mut().find_map(|machine| {
            let at = machine.waiting.iter().position(|&waiting| waiting == number)?;
            machine.waiting.remove(at);
            Some(machine.lock)
        })?;
        self.updates[number as usize].outcome = Some(Err(Error::Closed));
        Some(machine)
    }

    /// Returns true if some update needs the lock, or nothing is done about it.
    pub(super) fn is_settled(&self, lock: u32) -> bool {
        self.place_of(lock).is_none_or(|i| self.machines[i].is_needed())
    }

    /// Takes what is left of machines whose locks are released, or which have not got them: the outcomes of their updates. Updates that wait
    /// go on with a new machine. Returns true if there was such a machine.
    fn end_machines(&mut self, thread: &Thread<F>, store: &Shared<F, K>) -> bool {
        let mut some = false;
        let mut i = 0;
        while i < self.machines.len() {
            if !matches!(self.machines[i].stage, Stage::Released(..)) {
                i += 1;
                continue;
            }
            some = true;
            let machine = self.machines.swap_remove(i);
            self.locks.swap_remove(i);
            self.leave_closed(&machine.doing);
            self.leave_closed(&machine.waiting);
            let (lock, waiting) = (machine.lock, machine.end(thread, store, &mut self.updates));
            if !waiting.is_empty() {
                self.begin(thread, store, lock, waiting);
            }
        }
        some
    }
}

impl<F: Fabric, K: Encode + Eq> machines::UnderWay<Thread<F>> for UnderWay<F, K> {
    fn go_on(&mut self, thread: &Thread<F>) {
        let Some(store) = self.store.clone() else { return };
        // Others wait for the end of these steps.
        thread.to_the_end(|| {
            loop {
                let places = 0..self.machines.len();
                let able: Places = places.filter(|&i| self.machines[i].is_able(&store)).collect();
                // The values of all locks first, so that locks share the fences that follow.
                for &i in &able {
                    let machine = &mut self.machines[i];
                    machine.take_lock(thread, &store);
                    machine.write(thread, &store, &mut self.updates);
                }
                // The fences before the first release: where order is bought by waits, they do not wait for one another then.
                let mut fences = BegunFences::new();
                for &i in &able {
                    self.machines[i].begin_fences(thread, &store, &mut fences);
                }
                for &i in &able {
                    self.machines[i].release(thread, &store);
                }
                if !self.end_machines(thread, &store) {
                    break;
                }
            }
        });
    }

    fn has_ended(&self) -> bool {
        let store = self.store.as_deref();
        store.is_some_and(|store| self.machines.iter().any(|machine| machine.has_ended(store)))
    }

    fn waits(&self, living: &mut dyn FnMut(NodeId)) -> Option<Awaited<'_>> {
        let store = self.store.as_deref()?;
        let waiting = self.machines.iter().filter_map(|machine| {
            let lock = &store.locks[machine.lock as usize];
            let waits =
                matches!(machine.stage, Stage::Takes) && machine.acquisition.waits(lock, &mut *living);
            let deadlines = machine
                .waiting
                .iter()
                .map(|&number| self.updates[number as usize].times.1);
            deadlines.min().filter(|_| waits).map(|deadline| Awaited {
                what: lock.channel().name(),
                deadline,
            })
        });
        Awaited::first(waiting)
    }

    fn after_failed_wait(&mut self, thread: &Thread<F>, error: &FabricError) {
        let Some(store) = self.store.clone() else { return };
        // Others wait for the end of these steps: a ticket that is served though it was given up would be served for nobody. The
        // deadline has passed by now.
        thread.to_the_end(|| {
            for machine in &mut self.machines {
                let lock = &store.locks[machine.lock as usize];
                match error {
                    FabricError::Timeout { .. } => machine.give_up_late(thread, lock, &mut self.updates),
                    FabricError::PeerLost(_) => machine.after_loss(thread, lock, error, &self.updates),
                    error => machine.fail(lock, error),
                }
            }
        });
    }

    fn is_idle(&self) -> bool {
        self.machines.is_empty()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl<F: Fabric> Machine<F> {
    /// Returns true if some update waits for the lock or is being done under it.
    fn is_needed(&self) -> bool {
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
    fn is_able<K: Encode + Eq>(&self, store: &Shared<F, K>) -> bool {
        self.has_ended(store) || matches!(self.stage, Stage::Takes) && !self.is_needed()
    }

    fn has_ended<K: Encode + Eq>(&self, store: &Shared<F, K>) -> bool {
        match &self.stage {
            Stage::Takes | Stage::Releases(_) => {
                let lock = &store.locks[self.lock as usize];
                self.acquisition.has_ended(lock)
            }
            Stage::Fences(fences) => have_ended(fences, &self.announced),
            Stage::Holds(_) | Stage::Written(_) | Stage::Released(..) => true,
        }
    }

    /// Goes on to take the lock, or gives it up if no update needs it any more.
    fn take_lock<K: Encode + Eq>(&mut self, thread: &Thread<F>, store: &Shared<F, K>) {
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
    fn write<K: Encode + Eq>(&mut self, thread: &Thread<F>, store: &Shared<F, K>, updates: &mut [Update<K>]) {
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
        let Some(key) = &update.key else { return Ok(None) };
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
    /// the failure of an operation is told to one fence alone.
    fn begin_fences<K: Encode + Eq>(
        &mut self,
        thread: &Thread<F>,
        store: &Shared<F, K>,
        fences: &mut BegunFences<F>,
    ) {
        let Stage::Written(_) = self.stage else { return };
        let lock = &store.locks[self.lock as usize];
        if lock.places_and_leaves(&self.nodes) {
            self.stage = Stage::Written(true);
            return;
        }
        let mut mine = Fences::new();
        for node in self.nodes.clone() {
            match fence_towards(thread, node, fences) {
                Ok(fence) => mine.push((node, fence)),
                Err(error) => self.note_failure(thread, node, error),
            }
        }
        // A hand-over to another thread of the node needs no further fence then.
        self.announced = lock
            .announced_at()
            .and_then(|home| fence_towards(thread, home, fences).ok());
        self.stage = Stage::Fences(mine);
    }

    /// Begins to release the lock, if the values are placed or the release places them, and goes on with it.
    fn release<K: Encode + Eq>(&mut self, thread: &Thread<F>, store: &Shared<F, K>) {
        let lock = &store.locks[self.lock as usize];
        match &mut self.stage {
            Stage::Written(true) => self.begin_release(thread, lock, Release::Places),
            Stage::Fences(fences) if have_ended(fences, &self.announced) => {
                let announced = self
                    .announced
                    .as_ref()
                    .is_some_and(|fence| fence.outcome() == Some(Ok(())));
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
    fn end<K>(mut self, thread: &Thread<F>, store: &Shared<F, K>, updates: &mut [Update<K>]) -> Numbers
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
    fn give_up_late<K>(&mut self, thread: &Thread<F>, lock: &TicketLock<F>, updates: &mut [Update<K>]) {
        if !matches!(self.stage, Stage::Takes) || !self.acquisition.waits(lock, |_| {}) {
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

    /// Goes on after the loss of a node that had to live.
    fn after_loss<K>(
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
        let first = self.waiting.first();
        let times = first.map_or((now, now), |&first| updates[first as usize].times);
        let progress = self.acquisition.after_loss(lock, thread, error, times);
        self.note(progress);
    }

    /// Ends the machine for good: this node is out, or its fabric is broken.
    fn fail(&mut self, lock: &TicketLock<F>, error: &FabricError) {
        let error: Error = error.clone().into();
        self.failed.get_or_insert(error.clone());
        if !matches!(self.stage, Stage::Released(..)) {
            self.acquisition.abandon(lock);
            self.stage = Stage::Released(false, Err(error));
        }
    }
}
