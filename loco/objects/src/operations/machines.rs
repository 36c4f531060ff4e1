//! The state machines of objects that a thread keeps beyond a call, as it stores them.
//!
//! They know the thread by the type parameter alone, since the thread has them. Used by the thread, which moves them on
//! ([`under_way`](super::under_way)).

use std::any::Any;
use std::cell::{Cell, RefCell};

use loco_fabric::{FabricError, NodeId, Time};

/// What a state machine waits for that others do.
pub(crate) struct Awaited<'a> {
    /// The object, as reports of waits show it.
    pub(crate) what: &'a str,
    /// The time at which to give up.
    pub(crate) deadline: Time,
}

impl<'a> Awaited<'a> {
    /// Returns what is awaited by several: the object of the one that gives up first.
    pub(crate) fn first(all: impl Iterator<Item = Awaited<'a>>) -> Option<Awaited<'a>> {
        all.min_by_key(|awaited| awaited.deadline)
    }
}

/// A state machine of an object, for one thread, of type `T`.
pub(crate) trait UnderWay<T>: Any + Send {
    /// Takes the steps that need no wait.
    fn go_on(&mut self, thread: &T);

    /// Returns true if [`go_on`](UnderWay::go_on) has something to do. Looks at memory alone.
    fn has_ended(&self) -> bool;

    /// Returns what the machine waits for, if it waits for what other threads do. Calls `living` with the nodes that all must live
    /// meanwhile.
    fn waits(&self, living: &mut dyn FnMut(NodeId)) -> Option<Awaited<'_>>;

    /// Goes on after a wait for all machines of the thread has failed.
    fn after_failed_wait(&mut self, thread: &T, error: &FabricError);

    /// Ends at once: the fabric cannot tell any more how operations end.
    fn fail(&mut self, error: &FabricError);

    /// Returns true if nothing is under way.
    fn is_idle(&self) -> bool;

    /// Returns the machine as a value whose type can be asked for.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// The state machines of a thread.
type Machines<T> = Vec<Box<dyn UnderWay<T>>>;

/// What a thread has under way.
pub(crate) struct OfThread<T: 'static> {
    pub(super) machines: RefCell<Machines<T>>,
    /// Set if some machine is not idle, and no step of one is being taken.
    pub(super) some: Cell<bool>,
}

impl<T: 'static> OfThread<T> {
    pub(crate) fn new() -> OfThread<T> {
        OfThread {
            machines: RefCell::new(Vec::new()),
            some: Cell::new(false),
        }
    }
}

/// The machines while their steps are taken. They go back to the thread when it is dropped, also when a step panics.
pub(super) struct Taken<'a, T: 'static> {
    of: &'a OfThread<T>,
    pub(super) machines: Machines<T>,
}

impl<'a, T: 'static> Taken<'a, T> {
    pub(super) fn new(of: &'a OfThread<T>) -> Taken<'a, T> {
        // A wait within a step moves nothing on.
        of.some.set(false);
        let machines = of.machines.take();
        Taken { of, machines }
    }
}

impl<T: 'static> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let machines = std::mem::take(&mut self.machines);
        self.of
            .some
            .set(machines.iter().any(|machine| !machine.is_idle()));
        *self.of.machines.borrow_mut() = machines;
    }
}
