//! Worlds with a chosen number of nodes, of threads on each node, and of calls of an object by each thread.
//!
//! Every execution is checked against the object's specification, also when waits are late and nodes are lost. A call
//! that is late is made again. A thread whose call fails because of a loss ends there, and that call may have taken
//! effect or not.
//!
//! Relies on `stage`. Used by `loco check` with `--nodes`, `--ops` and the like.

mod atomics;
mod variables;

use std::fmt::Display;

use loco::fabric::{Control, Fabric as _};
use loco::{Error, Manager, Result, Thread};
use loco_sim::spec::{self, Operation, Violation};
use loco_sim::{Config, World, call};
use serde::Serialize;

use crate::named_world::STEPS_MAX;
use crate::object::Object;
use crate::stage::{Fabric, Stage, UNKNOWN, known, outcome, unless_lost, until_in_time};
use crate::worlds::queue::with_lost_values;

/// The size of a world.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    /// The number of nodes.
    pub nodes: u16,
    /// The number of threads on each node.
    pub threads: usize,
    /// The number of operations of each thread.
    pub ops: u64,
}

impl Size {
    /// Builds the object's world of this size. Returns false if the object has none, because its promises depend on
    /// how it is used.
    pub fn build(self, object: Object, world: &mut World) -> bool {
        use {atomics as a, variables as v};
        match object {
            Object::Fence | Object::Region | Object::Collective | Object::Log => return false,
            Object::Barrier => self.populate(world, v::barrier, v::use_barrier, spec::barrier),
            Object::SharedVar => self.populate(world, v::shared_var, v::use_shared_var, |calls| {
                spec::shared_variable(calls, "0")
            }),
            Object::OwnedVar => self.populate(world, v::owned_var, v::use_owned_var, |calls| {
                spec::single_writer(calls, "0")
            }),
            Object::WideOwnedVar => self.populate(world, v::wide_owned_var, v::use_wide_owned_var, |calls| {
                spec::single_writer(calls, "[0, 0, 0]")
            }),
            Object::Sst => self.populate(world, v::sst, v::use_sst, v::rows),
            Object::Msw => self.populate(world, v::msw, v::use_msw, |calls| {
                spec::mixed_size_writes(calls, "[0, 0]")
            }),
            Object::RingBuffer => {
                self.populate(world, v::ring_buffer, v::use_ring_buffer, spec::ring_buffer);
            }
            Object::Atomic => self.populate(world, a::atomic, a::use_atomic, |calls| {
                spec::atomic_variable(calls, 0)
            }),
            Object::TicketLock => {
                self.populate(world, a::ticket_lock, a::use_ticket_lock, spec::mutual_exclusion);
            }
            Object::TasLock => self.populate(world, a::tas_lock, a::use_tas_lock, spec::mutual_exclusion),
            Object::Queue => self.populate(world, a::queue, a::use_queue, |calls| {
                spec::shared_queue(&with_lost_values(calls), a::QUEUE_CAPACITY)
            }),
            Object::Kv => self.populate(world, a::kv, a::use_kv, spec::key_value_store),
        }
        true
    }

    /// Adds the nodes and their threads.
    fn populate<T: Send + Sync + 'static>(
        self,
        world: &mut World,
        make: fn(&Manager<Fabric>, Size) -> Result<T>,
        body: fn(&T, &Thread<Fabric>, Place) -> Option<()>,
        check: fn(&[Operation]) -> Result<(), Violation>,
    ) {
        let mut stage = Stage::new(world, self.nodes, self.threads, move |manager| {
            make(manager, self)
        });
        stage.everywhere(self.threads, move |objects, own, (node, thread)| {
            let size = self;
            body(objects, own, Place { node, thread, size })
        });
        stage.promise(move |calls| check(&known(calls)));
    }
}

/// Sets what worlds of chosen size need in an explorer's configuration, besides its faults.
pub fn configure(config: &mut Config) {
    // Objects wait for a while for messages of lost nodes.
    config.faults.idle_expiries |= config.faults.crashes + config.faults.suspicions > 0;
    config.steps_max = STEPS_MAX;
    config.longer_fails = true;
}

/// One thread's place in the world.
#[derive(Clone, Copy)]
struct Place {
    node: u16,
    thread: usize,
    size: Size,
}

impl Place {
    /// Returns a value that no other call writes.
    fn value(self, operation: u64) -> u64 {
        let thread = u64::from(self.node) * self.size.threads as u64 + self.thread as u64;
        thread * self.size.ops + operation + 1
    }
}

/// Makes a call of the history, and repeats it if it is late and has then changed nothing. Returns `None` if a node
/// is lost.
fn made<T, S: ToString>(
    thread: &Thread<Fabric>,
    name: impl Display,
    attempt: impl FnMut() -> Result<T>,
    shown: impl Fn(&T) -> S,
) -> Option<()> {
    ended(
        thread,
        call(name, || in_time(thread, attempt), outcome(UNKNOWN, shown)),
    )
    .map(drop)
}

/// Makes a call of the history once. The call may have taken effect although it is late, and it may find a value torn
/// because the value's writer is late or lost. Returns `None` if a node is lost.
fn made_once<T, S: ToString>(
    thread: &Thread<Fabric>,
    name: impl Display,
    attempt: impl FnOnce() -> Result<T>,
    shown: impl Fn(&T) -> S,
) -> Option<()> {
    match call(name, attempt, outcome(UNKNOWN, shown)) {
        Err(error) if error.is_timeout() || matches!(error, Error::Torn { .. }) => Some(()),
        made => ended(thread, made).map(drop),
    }
}

/// Calls again until the call does not time out, or until a loss is known: waiting for a thread that has ended would
/// not return.
fn in_time<T>(thread: &Thread<Fabric>, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    until_in_time(|| match attempt() {
        Err(error) if error.is_timeout() && knows_of_a_loss(thread) => Ok(Err(error)),
        Err(error) if error.is_timeout() => Err(error),
        made => Ok(made),
    })?
}

/// Unwraps the result of [`in_time`]. Returns `None` if a node is lost.
fn ended<T>(thread: &Thread<Fabric>, made: Result<T>) -> Option<T> {
    match made {
        Err(error) if error.is_timeout() && knows_of_a_loss(thread) => None,
        made => unless_lost(made),
    }
}

fn knows_of_a_loss(thread: &Thread<Fabric>) -> bool {
    thread.fabric().control().departures() > 0
}

/// Shows nothing of a call's value.
fn nothing<T>(_: &T) -> &'static str {
    ""
}
