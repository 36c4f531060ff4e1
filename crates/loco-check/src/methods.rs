//! Which public methods of an object the worlds' executions called.
//!
//! A world says before a call which method it is; what a ladder then reports as unreached is the object's list without
//! these. `tests/methods.rs` compares the lists with the sources of `loco`, so that a new method shows up as unreached.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::Object;

static REACHED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Notes that an execution is about to call `method`, as in `Barrier::wait`.
pub(crate) fn did(method: &'static str) {
    REACHED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(method);
}

/// The public methods of `object` that no execution of this process has called yet.
pub fn unreached(object: Object) -> Vec<&'static str> {
    let reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    methods(object)
        .iter()
        .copied()
        .filter(|method| !reached.contains(method))
        .collect()
}

/// The public methods of an object that do something under the model: neither constructors, which run in set-ups, nor those
/// that only tell a setting.
pub(crate) fn methods(object: Object) -> &'static [&'static str] {
    match object {
        Object::Fence => &["fence::pair", "fence::thread", "fence::node", "fence::global"],
        Object::Region => &[
            "SharedRegion::read",
            "SharedRegion::write",
            "SharedRegion::raw_put",
            "SharedRegion::raw_get",
            "MemRef::put",
            "MemRef::get",
            "MemRef::fetch_add",
            "MemRef::compare_swap",
        ],
        Object::SharedVar => &[
            "SharedVar::write",
            "SharedVar::read",
            "SharedVar::bcast",
            "SharedVar::bcast_all",
            "SharedVar::wait_until",
        ],
        Object::OwnedVar => &[
            "OwnedVar::store",
            "OwnedVar::load",
            "OwnedVar::push",
            "OwnedVar::push_untracked",
            "OwnedVar::pull",
            "OwnedVar::wait_until",
        ],
        Object::WideOwnedVar => &[
            "WideOwnedVar::store",
            "WideOwnedVar::push",
            "WideOwnedVar::try_load",
            "WideOwnedVar::load",
            "WideOwnedVar::try_pull",
            "WideOwnedVar::pull",
            "WideOwnedVar::wait_until",
        ],
        Object::Sst => &[
            "Sst::row",
            "Sst::mine",
            "Sst::rows",
            "Sst::store_mine",
            "Sst::push_broadcast",
            "Sst::push_untracked",
            "Sst::wait_for_each",
        ],
        Object::Msw => &["Msw::write", "Msw::try_read", "Msw::read", "Msw::put", "Msw::get"],
        Object::Barrier => &["Barrier::wait", "Barrier::wait_unfenced"],
        Object::RingBuffer => &[
            "RingWriter::try_submit",
            "RingWriter::submit",
            "RingWriter::try_submit_batch",
            "RingWriter::submit_batch",
            "RingWriter::wait_until_read",
            "RingWriter::unread_bytes",
            "RingWriter::exclude",
            "RingReader::try_receive",
            "RingReader::receive",
            "RingReader::receive_into",
            "RingReader::leave",
        ],
        Object::Atomic => &[
            "AtomicVar::read",
            "AtomicVar::write",
            "AtomicVar::swap",
            "AtomicVar::compare_swap",
            "AtomicVar::cached",
            "AtomicVar::pull",
            "AtomicVar::fetch_add",
            "AtomicArray::read",
            "AtomicArray::compare_swap",
            "AtomicArray::fetch_add",
        ],
        Object::TicketLock => &[
            "TicketLock::lock",
            "TicketLock::lock_until",
            "TicketLock::try_lock",
        ],
        Object::TasLock => &[
            "TasLock::lock",
            "TasLock::lock_until",
            "TasLock::try_lock",
            "TasLock::combine",
        ],
        Object::Queue => &[
            "SharedQueue::try_push",
            "SharedQueue::push",
            "SharedQueue::try_pop",
            "SharedQueue::pop",
            "SharedQueue::close",
        ],
        Object::Kv => &[
            "KvStore::get",
            "KvStore::get_start",
            "KvStore::get_many",
            "KvStore::get_many_into",
            "KvStore::insert",
            "KvStore::insert_many",
            "KvStore::update",
            "KvStore::update_many",
            "KvStore::delete",
        ],
    }
}
