//! Clients of the objects that are built on remote read-modify-writes.

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{
    AtomicVar, KvStore, LockGuard, Manager, Result, SharedQueue, TasLock, Thread, TicketLock, Unlock,
};
use loco_sim::call;

use super::{Place, Size, ended, in_time, made, made_once, nothing};
use crate::stage::{Fabric, least_store, unless_lost};
use crate::worlds::kv::inserted;
use crate::worlds::queue::{popped, pushed};

/// The home node of the objects.
const HOME: NodeId = NodeId(0);
/// The number of values that the queue has room for.
pub(super) const QUEUE_CAPACITY: usize = 2;
/// The key that all threads use.
const KEY: u64 = 1;

pub(super) type Atomic = AtomicVar<u64, Fabric>;

pub(super) fn atomic(manager: &Manager<Fabric>, _: Size) -> Result<Atomic> {
    AtomicVar::new(manager, "atomic", HOME)
}

/// Adds, reads and swaps.
pub(super) fn use_atomic(variable: &Atomic, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    for operation in 0..at.size.ops {
        let value = at.value(operation);
        match operation % 3 {
            0 => made_once(thread, "add 1", || variable.fetch_add(thread, 1), u64::to_string),
            1 => made_once(thread, "read", || variable.read(thread), u64::to_string),
            _ => made_once(
                thread,
                format!("swap {value}"),
                || variable.swap(thread, value),
                u64::to_string,
            ),
        }?;
    }
    Some(())
}

pub(super) fn ticket_lock(manager: &Manager<Fabric>, _: Size) -> Result<TicketLock<Fabric>> {
    TicketLock::new(manager, "lock", HOME)
}

pub(super) fn use_ticket_lock(lock: &TicketLock<Fabric>, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    hold(thread, at, || lock.lock(thread, Scope::Thread))
}

pub(super) fn tas_lock(manager: &Manager<Fabric>, _: Size) -> Result<TasLock<Fabric>> {
    TasLock::new(manager, "lock", HOME)
}

pub(super) fn use_tas_lock(lock: &TasLock<Fabric>, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    hold(thread, at, || lock.lock(thread, Scope::Thread))
}

fn hold<'a, L: Unlock<Fabric> + 'a>(
    thread: &Thread<Fabric>,
    at: Place,
    lock: impl Fn() -> Result<LockGuard<'a, L, Fabric>>,
) -> Option<()> {
    for _ in 0..at.size.ops {
        let guard = ended(thread, in_time(thread, &lock))?;
        call("hold", || (), nothing);
        unless_lost(guard.release())?;
    }
    Some(())
}

pub(super) type Queue = SharedQueue<u64, Fabric>;

pub(super) fn queue(manager: &Manager<Fabric>, _: Size) -> Result<Queue> {
    SharedQueue::new(manager, "queue", HOME, QUEUE_CAPACITY)
}

pub(super) fn use_queue(queue: &Queue, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    for operation in 0..at.size.ops {
        if at.node.is_multiple_of(2) {
            let value = at.value(operation);
            let push = || queue.try_push(thread, value);
            made(thread, format!("push {value}"), push, pushed)?;
        } else {
            made(thread, "pop", || queue.try_pop(thread), popped)?;
        }
    }
    Some(())
}

pub(super) type Store = KvStore<u64, u64, Fabric>;

pub(super) fn kv(manager: &Manager<Fabric>, _: Size) -> Result<Store> {
    KvStore::new(manager, "kv", least_store(8))
}

pub(super) fn use_kv(store: &Store, thread: &Thread<Fabric>, at: Place) -> Option<()> {
    for operation in 0..at.size.ops {
        let value = at.value(operation);
        match (at.node, operation % 3) {
            (0, 0) => {
                let insert = || store.insert(thread, &KEY, &value);
                made(thread, format!("insert {KEY} {value}"), insert, inserted)
            }
            (0, 1) => {
                let update = || store.update(thread, &KEY, &value);
                made(thread, format!("update {KEY} {value}"), update, bool::to_string)
            }
            (0, _) => {
                let delete = || store.delete(thread, &KEY);
                made_once(thread, format!("delete {KEY}"), delete, bool::to_string)
            }
            _ => {
                let shown = |found: &Option<u64>| found.map_or("none".to_owned(), |value| value.to_string());
                made_once(thread, format!("get {KEY}"), || store.get(thread, &KEY), shown)
            }
        }?;
    }
    Some(())
}
