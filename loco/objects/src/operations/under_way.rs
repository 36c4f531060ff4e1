//! What a thread has under way beyond a call: state machines of objects, which its waits for what is started move on.
//!
//! An object leaves a state machine ([`UnderWay`]) with the thread. [`Thread::finish`] moves all of them on until a condition holds: each
//! takes the steps that need no wait, and then the thread waits for whatever ends first. So no machine stands still while the thread waits
//! for another. A thread that waits for what other threads do ([`Thread::settle`]) ends all of them first, since those threads may wait
//! for a lock that a machine has asked for.
//!
//! A machine that holds what others need never waits for them, so that machines, of whatever threads, cannot wait for each other in a circle.
//!
//! Relies on [`machines`](super::machines) and on the waits of the fabric. Used by the key-value store.

use std::time::Duration;

use loco_fabric::{Control, Fabric, FabricError, NodeId, Peers, Time, Wait};
use smallvec::SmallVec;

use crate::Error;
use crate::operations::ack::AckKey;
use crate::operations::machines::{Awaited, Taken, UnderWay};
use crate::operations::panics;
use crate::operations::thread::Thread;

/// What a wait for machines waits for, unless they wait for an object.
const UNDER_WAY: &str = "operations under way";

/// Why a wait for machines has failed.
enum WaitFailed {
    /// The wait itself ended so.
    Waits(FabricError),
    /// The fabric cannot tell any more how operations end.
    Broken(FabricError),
}

impl<F: Fabric> Thread<F> {
    /// Calls `with` with the machine of type `M` of this thread for which `is_it` holds. If there is none, takes one for which `is_free`
    /// holds, else one that `make` makes.
    pub(crate) fn machine<M: UnderWay<Thread<F>>, T>(
        &self,
        is_it: impl Fn(&M) -> bool,
        is_free: impl Fn(&M) -> bool,
        make: impl FnOnce() -> M,
        with: impl FnOnce(&mut M) -> T,
    ) -> T {
        let mut taken = Taken::new(self.under_way());
        let mut find = |is_right: &dyn Fn(&M) -> bool| {
            let mut machines = taken.machines.iter_mut();
            machines.position(|machine| machine.as_any().downcast_ref::<M>().is_some_and(is_right))
        };
        let there = find(&is_it).or_else(|| find(&is_free));
        match there.and_then(|i| taken.machines[i].as_any().downcast_mut::<M>()) {
            Some(machine) => with(machine),
            None => {
                let mut machine = Box::new(make());
                let result = with(&mut machine);
                taken.machines.push(machine);
                result
            }
        }
    }

    /// Moves on what this thread has under way, without a wait for what others do. What waits for them ends at its deadline and after
    /// a loss, so that a program may ask again and again.
    pub(crate) fn go_on(&self) {
        let polled = self.poll_completions();
        let mut taken = Taken::new(self.under_way());
        for machine in &mut taken.machines {
            machine.go_on(self);
        }
        let failed = match polled {
            Ok(()) => self.look_at_waits(&taken.machines).map_err(WaitFailed::Waits),
            Err(error) => Err(WaitFailed::Broken(error)),
        };
        if let Err(failed) = failed {
            self.tell(&mut taken.machines, &failed);
            for machine in &mut taken.machines {
                machine.go_on(self);
            }
        }
    }

    /// Moves on what this thread has under way, if there is something, before a call that others may make again and again until
    /// another thread has done something.
    #[inline]
    pub(crate) fn move_on(&self) {
        if self.under_way().some.get() {
            self.go_on();
        }
    }

    /// Fails as a wait for the machines would that ends now.
    fn look_at_waits(&self, machines: &[Box<dyn UnderWay<Self>>]) -> Result<(), FabricError> {
        let control = self.fabric().control();
        let mut alive = control.check_in();
        let mut check = |node| {
            if alive.is_ok() {
                alive = control.check_alive(node);
            }
        };
        let awaited = Awaited::first(machines.iter().filter_map(|machine| machine.waits(&mut check)));
        alive?;
        match awaited {
            Some(first) if first.deadline <= self.now() || self.given_up() => Err(FabricError::Timeout {
                what: first.what.to_owned(),
                after: Duration::ZERO,
            }),
            _ => Ok(()),
        }
    }

    /// Moves on what this thread has under way until `over` returns true. It must come true when all machines are idle.
    pub(crate) fn finish(&self, mut over: impl FnMut() -> bool) {
        while !over() {
            // What these steps have ended may be what the caller wants.
            if self.take_steps() {
                continue;
            }
            if over() {
                return;
            }
            self.wait_for_machines(None, Time::NEVER);
        }
    }

    /// [Finishes](Thread::finish) for a value that is dropped. If the thread unwinds, perhaps since what the program compares its keys by has
    /// panicked, that may panic again, which would end the process. Each such panic is caught, and ends what was to be written under the
    /// lock that is held then, as the first one did; the lock is released.
    pub(crate) fn finish_unwinding(&self, mut over: impl FnMut() -> bool) {
        if !std::thread::panicking() {
            return self.finish(over);
        }
        let platform = self.fabric().platform();
        while panics::catch(platform, || self.finish(&mut over)).is_err() {}
    }

    /// Ends what this thread has under way, for a thread that is dropped.
    pub(crate) fn end_under_way(&self) {
        if self.under_way().some.get() {
            self.finish_unwinding(|| !self.under_way().some.get());
        }
    }

    /// Moves on what this thread has under way, if there is something, until the operations of `key` have ended, or nothing is under way any
    /// more, or until the thread's deadline. Returns that deadline if it has computed it.
    #[inline]
    pub(crate) fn finish_beside(&self, key: impl FnOnce() -> AckKey<F>) -> Option<Time> {
        self.under_way()
            .some
            .get()
            .then(|| self.finish_beside_key(&key()))
    }

    #[cold]
    fn finish_beside_key(&self, key: &AckKey<F>) -> Time {
        let deadline = self.deadline();
        while self.under_way().some.get() && !key.query() && !self.given_up() {
            if self.take_steps() {
                continue;
            }
            // As in `settle_until`.
            self.wait_for_machines(Some(key), deadline);
            if deadline <= self.now() {
                self.take_steps();
                break;
            }
        }
        deadline
    }

    /// Takes the steps of the machines that need no wait. Returns true if there are more.
    fn take_steps(&self) -> bool {
        let mut taken = Taken::new(self.under_way());
        for machine in &mut taken.machines {
            machine.go_on(self);
        }
        taken.machines.iter().any(|machine| machine.has_ended())
    }

    /// Ends what this thread has under way. Called before the thread waits for what other threads do, until `deadline`: that of the thread if
    /// none is given.
    ///
    /// # Errors
    /// Returns `Timeout`. What was under way still is.
    #[inline]
    pub(crate) fn settle(&self, deadline: Option<Time>) -> crate::Result<()> {
        match self.under_way().some.get() {
            true => self.settle_until(deadline.unwrap_or_else(|| self.deadline())),
            false => Ok(()),
        }
    }

    #[cold]
    fn settle_until(&self, deadline: Time) -> crate::Result<()> {
        let begin = self.now();
        while self.under_way().some.get() {
            if self.take_steps() || !self.under_way().some.get() {
                continue;
            }
            // This looks once also when the time is over, so that what is under way goes on in a program that calls again and again.
            self.wait_for_machines(None, deadline);
            if self.take_steps() || !self.under_way().some.get() {
                continue;
            }
            let now = self.now();
            if deadline <= now {
                return Err(Error::timeout(&self.awaited(), begin, deadline, now));
            }
        }
        Ok(())
    }

    /// Returns what the machines wait for first.
    #[cold]
    fn awaited(&self) -> String {
        let taken = Taken::new(self.under_way());
        let machines = taken.machines.iter();
        let awaited = Awaited::first(machines.filter_map(|machine| machine.waits(&mut |_| {})));
        awaited.map_or(UNDER_WAY, |first| first.what).to_owned()
    }

    /// Waits until a step of some machine has ended, or tells the machines why it has not. The wait also ends with the operations of
    /// the key `beside`, and at `end`.
    fn wait_for_machines(&self, beside: Option<&AckKey<F>>, end: Time) {
        let mut taken = Taken::new(self.under_way());
        let mut living: SmallVec<[NodeId; 8]> = SmallVec::new();
        let mut add = |node| {
            if !living.contains(&node) {
                living.push(node);
            }
        };
        let machines = taken.machines.iter();
        let awaited = Awaited::first(machines.filter_map(|machine| machine.waits(&mut add)));
        let deadline = awaited.as_ref().map(|first| first.deadline);
        let wait = Wait {
            what: awaited.map_or(UNDER_WAY, |first| first.what),
            // Operations end by themselves, also in an outage of this node's port.
            peers: match living.is_empty() {
                true => Peers::None,
                false => Peers::These(&living),
            },
            deadline: Some(deadline.map_or(end, |deadline| deadline.min(end))),
        };
        let ended = || {
            let some = taken.machines.iter().any(|machine| machine.has_ended());
            some || beside.is_some_and(AckKey::query)
        };
        let alone = matches!(wait.peers, Peers::None);
        if let Err(failed) = self.wait_for_ends(deadline.is_some(), wait, ended) {
            let failed = match failed {
                // Neither a loss nor an outage ends such a wait.
                WaitFailed::Waits(error) if alone && !matches!(error, FabricError::Timeout { .. }) => {
                    WaitFailed::Broken(error)
                }
                failed => failed,
            };
            self.tell(&mut taken.machines, &failed);
        }
    }

    /// Tells the machines why a wait for them has failed.
    fn tell(&self, machines: &mut [Box<dyn UnderWay<Self>>], failed: &WaitFailed) {
        for machine in machines {
            match failed {
                WaitFailed::Waits(error) => machine.after_failed_wait(self, error),
                WaitFailed::Broken(error) => machine.fail(error),
            }
        }
    }

    /// Waits until `ended` returns true, which looks at recorded completions and, if `arrives`, at what
    /// [`wait_for`](Thread::wait_for) may wait for. Polls as [`wait_completion`](Thread::wait_completion) does.
    fn wait_for_ends(
        &self,
        arrives: bool,
        wait: Wait<'_>,
        ended: impl Fn() -> bool,
    ) -> Result<(), WaitFailed> {
        let completions = self.network().completions();
        let mut scratch = self.scratch.borrow_mut();
        let ready = || match completions.poll_waiting(&mut scratch) {
            Err(error) => Some(Err(WaitFailed::Broken(error))),
            Ok(()) => ended().then_some(Ok(())),
        };
        let waited = match arrives {
            true => self.fabric().wait_for_arrival(wait, ready),
            false => self.fabric().wait_for_completion(wait, ready),
        };
        waited.unwrap_or_else(|error| Err(WaitFailed::Waits(error)))
    }

    /// Records the completions that the fabric has, unless the polling thread does.
    fn poll_completions(&self) -> Result<(), FabricError> {
        self.network()
            .completions()
            .poll_waiting(&mut self.scratch.borrow_mut())
    }
}
