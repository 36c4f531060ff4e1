//! Tasks that want a lock. Each holder finds the count that the one before it left.

use std::sync::Arc;

use loco::asynchronous::{Async, AsyncGuard, AsyncThread};
use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{Manager, Result, SharedRegion, TasLock, Thread, TicketLock, Unlock};
use loco_sim::{World, note};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, get_word, here, must, put_word};
use crate::worlds::locks::distinct;

use super::executor::once;
use super::{Node, node};

/// The lock's home. The count is on another node, so the release of the lock places it by its fence alone.
const HOME: NodeId = NodeId(1);

/// The two locks as one.
trait Lock: Unlock<Fabric> + Sized + Send + Sync + 'static {
    fn new(manager: &Manager<Fabric>) -> Result<Self>;
    fn wait(
        lock: &Async<Self>,
        thread: &AsyncThread<Fabric>,
        scope: Scope,
    ) -> impl Future<Output = Result<AsyncGuard<Self, Fabric>>>;
    fn blocking(&self, thread: &Thread<Fabric>, section: impl FnOnce());
}

macro_rules! lock {
    ($lock:ident) => {
        impl Lock for $lock<Fabric> {
            fn new(manager: &Manager<Fabric>) -> Result<Self> {
                $lock::new(manager, "lock", HOME)
            }

            fn wait(
                lock: &Async<Self>,
                thread: &AsyncThread<Fabric>,
                scope: Scope,
            ) -> impl Future<Output = Result<AsyncGuard<Self, Fabric>>> {
                did(concat!("Async<", stringify!($lock), ">::lock"));
                lock.lock(thread, scope)
            }

            fn blocking(&self, thread: &Thread<Fabric>, section: impl FnOnce()) {
                let guard = must(self.lock(thread, Scope::Thread));
                section();
                must(guard.release());
            }
        }
    };
}
lock!(TicketLock);
lock!(TasLock);

struct Objects<L> {
    lock: Async<L>,
    /// The count is in the first word of node 0.
    data: Arc<SharedRegion<Fabric>>,
}

fn make<L: Lock>(manager: &Manager<Fabric>) -> Result<Objects<L>> {
    Ok(Objects {
        lock: Async::new(L::new(manager)?),
        data: Arc::new(SharedRegion::new(manager, "data", 64)?),
    })
}

/// Adds one to the count, as a holder does.
fn count(data: &SharedRegion<Fabric>, thread: &Thread<Fabric>) {
    let count = match thread.node_id() {
        NodeId(0) => here(data, 0),
        _ => get_word(thread, data, 0, 0),
    };
    note(format!("count {count}"));
    match thread.node_id() {
        NodeId(0) => must(data.write(0, &(count + 1).to_ne_bytes())),
        _ => put_word(thread, data, 0, 0, count + 1),
    }
}

impl<L: Lock> Node<Objects<L>> {
    /// Waits for the lock in the task of number `task`, and counts. Says only when it holds the lock what the release is to fence.
    async fn hold(&self, task: usize) -> AsyncGuard<L, Fabric> {
        let thread = &self.threads[task];
        let mut guard = must(L::wait(&self.object.lock, thread, Scope::Nothing).await);
        guard.set_scope(Scope::Thread);
        let data = self.object.data.clone();
        let counted = thread.call(move |thread| {
            count(&data, thread);
            Ok(())
        });
        must(counted.await);
        guard
    }

    async fn hold_and_release(&self, task: usize) {
        must(self.hold(task).await.release().await);
    }
}

/// Checks that there were so many holders, one after another.
fn counted<L: Lock>(stage: &mut Stage<'_, Node<Objects<L>>>, holders: u64) {
    stage.notes(move |lines| distinct(lines, "count", Some(holders)));
}

/// Builds a world of two tasks of one thread. One releases the lock, and the other drops its guard.
fn two<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(2, make::<L>));
    stage.run(1, 0, "executor", |node, _| {
        node.run([
            Box::pin(node.hold_and_release(0)) as _,
            Box::pin(async { drop(node.hold(1).await) }) as _,
        ]);
    });
    counted(&mut stage, 2);
}

/// Builds a world of a task and of a thread of another node.
fn beside_a_thread<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(1, make::<L>));
    stage.run(0, 0, "thread", |node: &Node<Objects<L>>, thread| {
        let data = &node.object.data;
        node.object.lock.blocking(thread, || count(data, thread));
    });
    stage.run(1, 0, "executor", |node, _| {
        node.run([Box::pin(node.hold_and_release(0)) as _]);
    });
    counted(&mut stage, 2);
}

/// Builds a world in which a task is dropped while it waits for the lock, or before, or when it has it. Afterwards another task gets
/// the lock, and then the same `AsyncThread`.
fn dropped<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(2, make::<L>));
    stage.run(1, 0, "executor", |node, _| {
        let task = async {
            // The lock is free, and the guard is dropped in any case.
            drop(once(L::wait(&node.object.lock, &node.threads[0], Scope::Thread)).await);
            node.hold_and_release(1).await;
            node.hold_and_release(0).await;
        };
        node.run([Box::pin(task) as _]);
    });
    counted(&mut stage, 2);
}

/// Builds a world in which a task waits for a lock that another task of the same thread holds, and is dropped.
fn dropped_in_line<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, node(2, make::<L>));
    stage.run(1, 0, "executor", |node, _| {
        let task = async {
            let guard = node.hold(0).await;
            if let Some(got) = once(L::wait(&node.object.lock, &node.threads[1], Scope::Thread)).await {
                assert!(got.is_err(), "another task holds the lock");
            }
            must(guard.release().await);
            node.hold_and_release(1).await;
        };
        node.run([Box::pin(task) as _]);
    });
    counted(&mut stage, 2);
}

fn worlds<L: Lock>() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("tasks", two::<L>).small(),
        NamedWorld::new("task-and-thread", beside_a_thread::<L>),
        NamedWorld::new("task-dropped", dropped::<L>),
        NamedWorld::new("task-dropped-in-line", dropped_in_line::<L>),
    ]
}

/// Returns the worlds of tasks that want a ticket lock.
pub(crate) fn ticket_lock() -> Vec<NamedWorld> {
    worlds::<TicketLock<Fabric>>()
}

/// Returns the worlds of tasks that want a test-and-set lock.
pub(crate) fn tas_lock() -> Vec<NamedWorld> {
    worlds::<TasLock<Fabric>>()
}
