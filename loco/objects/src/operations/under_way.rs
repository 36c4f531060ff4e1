//! What a thread has under way beyond a call: state machines of objects, which any of its waits moves on.
//!
//! An object leaves a state machine ([`UnderWay`]) with the thread. [`Thread::finish`] moves all of them on until a condition holds: each
//! takes the steps that need no wait, and then the thread waits for whatever ends first. So no machine stands still while the thread waits
//! for another. A thread that waits for what other threads do ([`Thread::settle`]) ends all of them first, since those threads may wait
//! for a lock that a machine has asked for.
//!
//! A machine that holds what others need never waits for them, so that machines, of whatever threads, cannot wait for each other in a circle.
//!
//! Relies on [`machines`](super::machines) and on the waits of the fabric. Used by the key-value store.

use loco_fabric::{Fabric, NodeId, Peers, Time, Wait};
use smallvec::SmallVec;

use crate::operations::counts::Count;
use crate::operations::machines::{Taken, UnderWay};
use crate::operations::thread::Thread;

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

    /// Moves on what this thread has under way, without a wait.
    pub(crate) fn go_on(&self) {
        // A machine finds a fabric that is broken when it waits.
        let _ = self.poll_completions();
        let mut taken = Taken::new(self.under_way());
        for machine in &mut taken.machines {
            machine.go_on(self);
        }
    }

    /// Moves on what this thread has under way until `over` returns true. It must come true when all machines are idle.
    pub(crate) fn finish(&self, mut over: impl FnMut() -> bool) {
        while !over() {
            let mut taken = Taken::new(self.under_way());
            for machine in &mut taken.machines {
                machine.go_on(self);
            }
            // What these steps have ended may be what the caller wants.
            if taken.machines.iter().any(|machine| machine.has_ended()) {
                continue;
            }
            drop(taken);
            if over() {
                return;
            }
            self.wait_for_machines();
        }
    }

    /// Ends what this thread has under way. Called before the thread waits for what other threads do.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.under_way().some.get() {
            self.finish(|| !self.under_way().some.get());
        }
    }

    /// Waits until a step of some machine has ended, or tells the machines why it has not.
    fn wait_for_machines(&self) {
        let mut taken = Taken::new(self.under_way());
        let mut living: SmallVec<[NodeId; 8]> = SmallVec::new();
        let mut add = |node| {
            if !living.contains(&node) {
                living.push(node);
            }
        };
        let machines = taken.machines.iter();
        let deadline = machines.filter_map(|machine| machine.waits(&mut add)).min();
        if deadline.is_some() {
            self.counts().add(Count::LockWaits, 1);
        }
        let wait = Wait {
            what: "operations under way",
            peers: Peers::These(&living),
            deadline: Some(deadline.unwrap_or(Time::NEVER)),
        };
        let ended = || taken.machines.iter().any(|machine| machine.has_ended());
        if let Err(error) = self.wait_for_ends(deadline.is_some(), wait, ended) {
            for machine in &mut taken.machines {
                machine.after_failed_wait(self, &error);
            }
        }
    }
}
