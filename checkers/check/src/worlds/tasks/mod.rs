//! Tasks: the asynchronous forms of the calls (`loco::asynchronous`), polled by an executor on a thread of the model. A call is
//! the blocking one. What these worlds add is everything around it: calls of one `AsyncThread` run one at a time and in order; a
//! task that waits keeps no other from going on; an outcome reaches its task; a future that is dropped ends its call, which
//! leaves behind what a timeout does; and a guard that nobody has any more is released.
//!
//! The model has no fibers. Each call runs on a thread of its own in place of the driver's, and may be left at any step. So the
//! executions are those of the driver and more. The driver's rounds, pauses and sleeps are not among them.
//!
//! Each function gives the ladder of one object its worlds of tasks.

mod executor;
mod locks;
mod objects;

pub(crate) use locks::{tas_lock, ticket_lock};
pub(crate) use objects::{barrier, fence, kv, queue, ring_buffer};

use loco::asynchronous::{AsyncThread, Driver};
use loco::{Manager, Result};

use crate::stage::Fabric;

use executor::{Task, run};

/// An object of one node, with what its tasks need beside it.
struct Node<T> {
    object: T,
    fabric: Fabric,
    /// One for each task.
    threads: Vec<AsyncThread<Fabric>>,
}

impl<T> Node<T> {
    /// Runs tasks on the calling thread until all have ended.
    fn run<'a>(&self, tasks: impl IntoIterator<Item = Task<'a>>) {
        run(&self.fabric, tasks);
    }
}

/// Returns a maker of nodes with so many `AsyncThread`s, each with the object that `make` makes.
fn node<T>(
    threads: usize,
    make: impl Fn(&Manager<Fabric>) -> Result<T> + Clone + Send + 'static,
) -> impl Fn(&Manager<Fabric>) -> Result<Node<T>> + Clone + Send + 'static {
    move |manager| {
        let driver = Driver::new(manager)?;
        Ok(Node {
            object: make(manager)?,
            fabric: manager.fabric().clone(),
            threads: (0..threads).map(|_| driver.thread()).collect::<Result<_>>()?,
        })
    }
}
