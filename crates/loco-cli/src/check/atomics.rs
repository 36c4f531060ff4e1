//! Worlds of the objects that are built on remote read-modify-writes.

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{
    AtomicVar, Inserted, KvConfig, KvStore, LockGuard, Manager, Popped, Pushed, Result, SharedQueue, TasLock,
    Thread, TicketLock, Unlock,
};
use loco_sim::call;

use super::place::{Fabric, Place, Size, must};

/// The home node of the objects.
const HOME: NodeId = NodeId(0);
/// The number of values that the queue has room for.
pub(super) const QUEUE_CAPACITY: usize = 2;
/// The key that all threads use.
const KEY: u64 = 1;

impl Place {
    /// Returns a value that nobody else writes.
    fn value(self, operation: u64) -> u64 {
        let thread = u64::from(self.node) * self.size.threads as u64 + self.thread as u64;
        thread * self.size.ops + operation + 1
    }
}

pub(super) type Atomic = AtomicVar<u64, Fabric>;

pub(super) fn atomic(manager: &Manager<Fabric>, _: Size) -> Result<Atomic> {
    AtomicVar::new(manager, "atomic", HOME)
}

/// Adds, reads and swaps.
pub(super) fn use_atomic(variable: &Atomic, thread: &Thread<Fabric>, at: Place) {
    for operation in 0..at.size.ops {
        let value = at.value(operation);
        match operation % 3 {
            0 => call("add 1", || must(variable.fetch_add(thread, 1)), u64::to_string),
            1 => call("read", || must(variable.read(thread)), u64::to_string),
            _ => call(
                format!("swap {value}"),
                || must(variable.swap(thread, value)),
                u64::to_string,
            ),
        };
    }
}

pub(super) fn ticket_lock(manager: &Manager<Fabric>, _: Size) -> Result<TicketLock<Fabric>> {
    TicketLock::new(manager, "lock", HOME)
}

pub(super) fn use_ticket_lock(lock: &TicketLock<Fabric>, thread: &Thread<Fabric>, at: Place) {
    hold(at, || lock.lock(thread, Scope::Thread));
}

pub(super) fn tas_lock(manager: &Manager<Fabric>, _: Size) -> Result<TasLock<Fabric>> {
    TasLock::new(manager, "lock", HOME)
}

pub(super) fn use_tas_lock(lock: &TasLock<Fabric>, thread: &Thread<Fabric>, at: Place) {
    hold(at, || lock.lock(thread, Scope::Thread));
}

fn hold<'a, L: Unlock<Fabric> + 'a>(at: Place, lock: impl Fn() -> Result<LockGuard<'a, L, Fabric>>) {
    for _ in 0..at.size.ops {
        let guard = must(lock());
        call("hold", || (), |()| "");
        must(guard.release());
    }
}

pub(super) type Queue = SharedQueue<u64, Fabric>;

pub(super) fn queue(manager: &Manager<Fabric>, _: Size) -> Result<Queue> {
    SharedQueue::new(manager, "queue", HOME, QUEUE_CAPACITY)
}

pub(super) fn use_queue(queue: &Queue, thread: &Thread<Fabric>, at: Place) {
    for operation in 0..at.size.ops {
        if at.node.is_multiple_of(2) {
            let value = at.value(operation);
            let shown = |pushed: &Pushed| match pushed {
                Pushed::Done => "done",
                Pushed::Full => "full",
                Pushed::Closed => "closed",
            };
            let _ = call(
                format!("push {value}"),
                || must(queue.try_push(thread, value)),
                shown,
            );
        } else {
            let shown = |popped: &Popped<u64>| match popped {
                Popped::Value(value) => value.to_string(),
                Popped::Empty => "empty".to_owned(),
                Popped::Closed => "closed".to_owned(),
            };
            let _ = call("pop", || must(queue.try_pop(thread)), shown);
        }
    }
}

pub(super) type Store = KvStore<u64, u64, Fabric>;

pub(super) fn kv(manager: &Manager<Fabric>, _: Size) -> Result<Store> {
    // The configuration has one more field in a build with the mistakes of the tests.
    #[allow(clippy::needless_update)]
    let config = KvConfig {
        slots_per_node: 1,
        value_bytes_max: 8,
        key_bytes_max: 8,
        locks: 1,
        tracker_bytes: 128,
        ..KvConfig::default()
    };
    KvStore::new(manager, "kv", config)
}

pub(super) fn use_kv(store: &Store, thread: &Thread<Fabric>, at: Place) {
    for operation in 0..at.size.ops {
        let value = at.value(operation);
        match (at.node, operation % 3) {
            (0, 0) => {
                let shown = |inserted: &Inserted| match inserted {
                    Inserted::Done => "done",
                    Inserted::Duplicate => "duplicate",
                    Inserted::Full => "full",
                };
                let insert = || must(store.insert(thread, &KEY, &value));
                let _ = call(format!("insert {KEY} {value}"), insert, shown);
            }
            (0, 1) => {
                let update = || must(store.update(thread, &KEY, &value));
                call(format!("update {KEY} {value}"), update, bool::to_string);
            }
            (0, _) => {
                call(
                    format!("delete {KEY}"),
                    || must(store.delete(thread, &KEY)),
                    bool::to_string,
                );
            }
            _ => {
                let shown = |found: &Option<u64>| found.map_or("none".to_owned(), |value| value.to_string());
                call(format!("get {KEY}"), || must(store.get(thread, &KEY)), shown);
            }
        }
    }
}
