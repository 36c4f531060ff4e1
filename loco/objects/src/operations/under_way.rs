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

use crate::operations::ack::AckKey;
use crate::operations::machines::{Awaited, Taken, UnderWay};
use crate::operations::thread::Thread;

/// What a wait for machines waits for, unless they wait for an object.
const UNDER_WAY: &str = "operations under way";

impl<F: Fabric> Thread<F> {
    /// Calls `with` with the machine of type `M` of this thread for which `is_it` holds, or with one that `make` makes.
    pub(crate) fn machine<M: UnderWay<Thread<F>>, T>(
        &self,
        is_it: impl Fn(&M) -> bool,
        make: impl FnOnce() -> M,
        with: impl FnOnce(&mut M) -> T,
    ) -> T {
        let mut taken = Taken::new(self.under_way());
        let there = taken.machines.iter_mut().position(|machine| {
            let machine = machine.as_any().downcast_ref::<M>();
            machine.is_some_and(&is_it)
        });
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
        let failed = polled.and_then(|()| self.look_at_waits(&taken.machines));
        if let Err(error) = failed {
            for machine in &mut taken.machines {
                machine.after_failed_wait(self, &error);
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
            self.wait_for_machines(None);
        }
    }

    /// Moves on what this thread has under way until the operations of `key` have ended, or nothing is under way any more, or until
    /// `deadline`.
    pub(crate) fn finish_beside(&self, key: &AckKey<F>, deadline: Time) {
        while self.under_way().some.get() && !key.query() && !self.given_up() && self.now() < deadline {
            if !self.take_steps() {
                self.wait_for_machines(Some((key, deadline)));
            }
        }
    }

    /// Takes the steps of the machines that need no wait. Returns true if there are more.
    fn take_steps(&self) -> bool {
        let mut taken = Taken::new(self.under_way());
        for machine in &mut taken.machines {
            machine.go_on(self);
        }
        taken.machines.iter().any(|machine| machine.has_ended())
    }

    /// Ends what this thread has under way. Called before the thread waits for what other threads do.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.under_way().some.get() {
            self.finish(|| !self.under_way().some.get());
        }
    }

    /// Waits until a step of some machine has ended, or tells the machines why it has not. The wait also ends with the operations of
    /// the key `beside`, and at the time beside it.
    fn wait_for_machines(&self, beside: Option<(&AckKey<F>, Time)>) {
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
        let end = deadline.into_iter().chain(beside.map(|(_, end)| end)).min();
        let wait = Wait {
            what: awaited.map_or(UNDER_WAY, |first| first.what),
            peers: Peers::These(&living),
            deadline: Some(end.unwrap_or(Time::NEVER)),
        };
        let ended = || {
            let some = taken.machines.iter().any(|machine| machine.has_ended());
            some || beside.is_some_and(|(key, _)| key.query())
        };
        if let Err(error) = self.wait_for_ends(deadline.is_some(), wait, ended) {
            for machine in &mut taken.machines {
                machine.after_failed_wait(self, &error);
            }
        }
    }

    /// Waits until `ended` returns true, which looks at recorded completions and, if `arrives`, at what
    /// [`wait_for`](Thread::wait_for) may wait for. Polls as [`wait_completion`](Thread::wait_completion) does.
    ///
    /// # Errors
    /// Returns the errors of the fabric's wait as they are.
    fn wait_for_ends(
        &self,
        arrives: bool,
        wait: Wait<'_>,
        ended: impl Fn() -> bool,
    ) -> Result<(), FabricError> {
        let completions = self.network().completions();
        let mut scratch = self.scratch.borrow_mut();
        let ready = || match completions.poll_waiting(&mut scratch) {
            Err(error) => Some(Err(error)),
            Ok(()) => ended().then_some(Ok(())),
        };
        match arrives {
            true => self.fabric().wait_for_arrival(wait, ready)?,
            false => self.fabric().wait_for_completion(wait, ready)?,
        }
    }

    /// Records the completions that the fabric has, unless the polling thread does.
    fn poll_completions(&self) -> Result<(), FabricError> {
        self.network()
            .completions()
            .poll_waiting(&mut self.scratch.borrow_mut())
    }
}
