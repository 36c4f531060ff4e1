//! The updates that a thread has under way, as state machines: one for each lock that they need.
//!
//! The machine of a lock takes the lock, writes the values of all updates that wait for it by then, and releases it. That is two round
//! trips for all of them if the lock is free and the values are on its home. If not, the claim, the grant and a fence come in between.
//! Updates that come meanwhile are next. So those of one thread under one lock are served in their order,
//! and share the lock and its release.
//!
//! A machine that has a lock waits for the network alone, never for another lock. So updates under way cannot wait for each other in a
//! circle, whatever the locks, the threads and the order. After a loss, the machines of a thread pause together for some microseconds, as
//! often as another node's draw of a ticket keeps one of them from taking a lock over.
//!
//! Relies on the machine of one lock (`machine`). Used by the calls that start updates.

mod machine;

use std::any::Any;
use std::sync::Arc;

use loco_fabric::{Fabric, FabricError, NodeId, Time};
use smallvec::SmallVec;

use crate::objects::locks::ticket_lock::Acquisition;
use crate::operations::machines::{self, Awaited};
use crate::{Error, Result, Thread};

use super::Shared;
use super::shared_fences::BegunFences;
use super::value::Encode;
use machine::Machine;

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
    /// The node to which it has written, or `None` if the key is absent; or its failure, for which the lock is released all the same. Before
    /// either it is a failure, too.
    written: Result<Option<NodeId>>,
    outcome: Option<Result<bool>>,
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

    /// Returns true if these are updates of `store`.
    pub(super) fn is_of(&self, store: &Arc<Shared<F, K>>) -> bool {
        self.store.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, store))
    }

    /// Returns true if these are updates of no store.
    pub(super) fn is_free(&self) -> bool {
        self.store.is_none()
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
            written: Err(Error::Closed),
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
        // One that is over would leave its own end to this update.
        if self.place_of(lock).is_some_and(|i| self.machines[i].is_over()) {
            self.end_machines(thread, store);
        }
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
                self.machines
                    .push(Machine::new(lock, acquisition, progress, waiting));
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
            if !self.machines[i].is_over() {
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
                let begin = |&i: &usize| self.machines[i].begin_fences(thread, &store, &mut fences);
                let begun: Places = able.iter().copied().filter(begin).collect();
                for i in begun {
                    self.machines[i].note_fences(&fences);
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
            let waits = machine.waits(lock, &mut *living);
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
                if *error == FabricError::DeclaredLost {
                    machine.fail(lock, error);
                    continue;
                }
                // First, as a loss that others must tell of ends each wait at once. Those that have time left go on.
                machine.give_up_late(thread, lock, &mut self.updates);
                if !matches!(error, FabricError::Timeout { .. }) {
                    // Also an outage: steps under way end by themselves, and a ticket is given up.
                    machine.after_loss(thread, lock, error, &self.updates);
                }
            }
        });
    }

    fn fail(&mut self, error: &FabricError) {
        let Some(store) = self.store.clone() else { return };
        for machine in &mut self.machines {
            machine.fail(&store.locks[machine.lock as usize], error);
        }
    }

    fn is_idle(&self) -> bool {
        self.machines.is_empty()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
