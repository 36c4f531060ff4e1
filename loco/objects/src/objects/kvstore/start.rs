//! Updates that are started, and completed individually.
//!
//! Where operations are done when they are posted, an update is done when it is started. On networks it goes on as a state machine
//! (`under_way`) that any wait of its thread moves on.
//!
//! Used by the calls of the store that update.

use loco_fabric::Fabric;

use crate::fabric::AnyFabric;
use crate::{Result, Thread};

use super::KvStore;
use super::under_way::{Number, UnderWay};
use super::value::Encode;

/// An update under way, which [`KvStore::update_start`] has started.
///
/// Dropping it takes the update back if it has not begun to write, though it may hold its lock: the value is the old one. Otherwise the
/// update goes on to its end, which the drop waits for: the value is the new one, as a whole. In either case the lock is released, or
/// given up, whatever the deadline.
#[must_use = "wait for the update: dropped, it is taken back if it has not begun"]
pub struct PendingUpdate<'a, K: Encode + Eq, V: Encode, F: Fabric = AnyFabric> {
    store: &'a KvStore<K, V, F>,
    thread: &'a Thread<F>,
    state: State,
}

enum State {
    /// It was over when it was started.
    Known(Result<bool>),
    UnderWay(Number),
    /// The outcome was taken.
    Taken,
}

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Starts an update, so that many overlap: hundreds for each thread. Each is completed by itself, by
    /// [`wait`](PendingUpdate::wait). Updates of one key by one thread take effect in the order in which they were started. Two of one
    /// thread under one lock share the lock. Those under way may be completed in any order, and more may be started in between.
    ///
    /// An update goes on while its thread waits for it or for another one, or for a [lookup](KvStore::get_start) that was started, asks
    /// for one ([`query`](PendingUpdate::query)), or tries for a lock. It also does in a call that waits for what other threads do, which
    /// ends those under way before it waits, until its own deadline, and fails with `Timeout` then. Others may see what the call has done by
    /// then, such as its arrival at a barrier. A thread that is dropped ends them until theirs.
    ///
    /// Waits for posted operations and fences do not move it on, and neither do calls that return at once, such as
    /// [`try_pop`](crate::SharedQueue::try_pop). A program that makes them again and again until another thread has done something also
    /// asks for its updates.
    ///
    /// An update may hold its lock from this call on, with nothing written until the thread waits or asks the next time, and a lock that
    /// it has released may not be known to be free by then. Do so soon: others wait for the lock meanwhile. After the loss of a node
    /// they also wait for a lock that the update has asked for and has not got.
    ///
    /// Over shared memory, and where values have [copies](super::KvConfig::copies), the update is over when the call returns.
    ///
    /// # Errors
    /// Returns [`TooLarge`](crate::Error::TooLarge). [`wait`](PendingUpdate::wait) returns all others.
    pub fn update_start<'a>(
        &'a self,
        thread: &'a Thread<F>,
        key: &K,
        value: &V,
    ) -> Result<PendingUpdate<'a, K, V, F>> {
        let _call = thread.call(self.shared.channel.name(), "update_start");
        self.start_update(thread, key, value)
    }

    /// Starts an update as [`update_start`](KvStore::update_start) does, within a call that a timeline shows already.
    pub(super) fn start_update<'a>(
        &'a self,
        thread: &'a Thread<F>,
        key: &K,
        value: &V,
    ) -> Result<PendingUpdate<'a, K, V, F>> {
        self.shared.check_value(value.bytes())?;
        let state = if thread.reads_at_once() || self.shared.copies.is_some() {
            State::Known(self.update(thread, key, value))
        } else {
            let start = |all: &mut UnderWay<F, K>| all.start(thread, &self.shared, key, value.bytes());
            State::UnderWay(self.under_way(thread, start))
        };
        Ok(PendingUpdate {
            store: self,
            thread,
            state,
        })
    }

    /// Calls `with` with what `thread` has under way in this store.
    fn under_way<T>(&self, thread: &Thread<F>, with: impl FnOnce(&mut UnderWay<F, K>) -> T) -> T {
        let is_it = |all: &UnderWay<F, K>| all.is_of(&self.shared);
        thread.machine(is_it, UnderWay::is_free, UnderWay::new, with)
    }
}

/// An update without its borrows, which a task keeps between the calls of its thread.
#[cfg(feature = "async")]
pub(crate) enum Kept {
    /// It is over, with this outcome.
    Over(Result<bool>),
    /// It has to be [taken up](KvStore::take_up) again with the same thread.
    UnderWay(Number),
}

#[cfg(feature = "async")]
impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Takes up an update of `thread` that was [kept](PendingUpdate::keep).
    pub(crate) fn take_up<'a>(&'a self, thread: &'a Thread<F>, kept: Kept) -> PendingUpdate<'a, K, V, F> {
        let state = match kept {
            Kept::Over(outcome) => State::Known(outcome),
            Kept::UnderWay(number) => State::UnderWay(number),
        };
        PendingUpdate {
            store: self,
            thread,
            state,
        }
    }
}

#[cfg(feature = "async")]
impl<F: Fabric, K: Encode + Eq, V: Encode> PendingUpdate<'_, K, V, F> {
    /// Leaves the update under way. The caller must take it up later, unless it is over.
    pub(crate) fn keep(mut self) -> Kept {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Known(outcome) => Kept::Over(outcome),
            State::UnderWay(number) => Kept::UnderWay(number),
            State::Taken => Kept::Over(Err(crate::Error::Closed)), // not reached: `wait` takes `self`
        }
    }
}

#[cfg(feature = "async")]
impl Kept {
    /// Takes the outcome if the update is over. Does not wait, and moves nothing on.
    pub(crate) fn take_if_over<F: Fabric, K: Encode + Eq, V: Encode>(
        &mut self,
        store: &KvStore<K, V, F>,
        thread: &Thread<F>,
    ) {
        let &mut Kept::UnderWay(number) = self else { return };
        let over = store.under_way(thread, |all| all.is_over(number).then(|| all.take(number)));
        if let Some(outcome) = over {
            *self = Kept::Over(outcome);
        }
    }
}

impl<F: Fabric, K: Encode + Eq, V: Encode> PendingUpdate<'_, K, V, F> {
    /// Moves on what the thread has under way, without a wait for other threads. Returns true if this update is over, so that
    /// [`wait`](PendingUpdate::wait) returns at once. It is over at its deadline too, and after a loss that it cannot survive.
    pub fn query(&self) -> bool {
        let State::UnderWay(number) = self.state else {
            return true;
        };
        if !self.is_over(number) {
            self.thread.go_on();
        }
        self.is_over(number)
    }

    /// Waits for the update. Returns false, and has changed nothing, if the key is absent.
    ///
    /// # Errors
    /// Returns the errors of [`KvStore::update`]. The deadline is that of the thread when the update was started.
    ///
    /// # After a timeout
    /// Nothing has changed; with copies, the value may have. Update again. Once the value is being written, the update goes on, whatever
    /// the deadline.
    pub fn wait(mut self) -> Result<bool> {
        if let State::UnderWay(number) = self.state {
            // If the key type panics in there, the drop frees the number.
            self.thread.finish(|| self.is_over(number));
        }
        match std::mem::replace(&mut self.state, State::Taken) {
            State::Known(outcome) => outcome,
            State::UnderWay(number) => self.store.under_way(self.thread, |all| all.take(number)),
            State::Taken => Err(crate::Error::Closed), // not reached: `wait` takes `self`
        }
    }

    fn is_over(&self, number: Number) -> bool {
        self.store.under_way(self.thread, |all| all.is_over(number))
    }
}

impl<F: Fabric, K: Encode + Eq, V: Encode> Drop for PendingUpdate<'_, K, V, F> {
    fn drop(&mut self) {
        let State::UnderWay(number) = self.state else {
            return;
        };
        let (store, thread) = (self.store, self.thread);
        let lock = store.under_way(thread, |all| all.take_back(number));
        thread.finish_unwinding(|| match lock {
            // Nobody may need the lock that was asked for.
            Some(lock) => store.under_way(thread, |all| all.is_settled(lock)),
            None => self.is_over(number),
        });
        let _ = store.under_way(thread, |all| all.take(number));
    }
}
