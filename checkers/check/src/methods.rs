//! Lists the public methods of an object that the executions of its worlds called.
//!
//! A world names each method before it calls it. A ladder reports the rest of the object's list as unreached. A test
//! compares the lists with the sources of `loco`, so that a new method shows up as unreached.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::Object;

static REACHED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Notes that an execution is about to call `method`, such as `Barrier::wait`.
pub(crate) fn did(method: &'static str) {
    REACHED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(method);
}

/// Returns the public methods of `object` that no execution of this process has called yet.
pub fn unreached(object: Object) -> Vec<&'static str> {
    let reached = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    methods(object)
        .iter()
        .copied()
        .filter(|method| !reached.contains(method))
        .collect()
}

/// Returns the public methods of an object that act under the model: neither constructors, which run in set-ups, nor
/// methods that only return a setting.
pub(crate) fn methods(object: Object) -> &'static [&'static str] {
    match object {
        Object::Fence => &[
            "fence::pair",
            "fence::thread",
            "fence::all_threads",
            "fence::towards",
            "AsyncThread::call",
            "AsyncThread::with",
        ],
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
            "SharedVar::broadcast_to",
            "SharedVar::broadcast",
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
            "Sst::push",
            "Sst::push_untracked",
            "Sst::wait_for_each",
        ],
        Object::Msw => &["Msw::write", "Msw::try_read", "Msw::read", "Msw::put", "Msw::get"],
        Object::Barrier => &[
            "Barrier::wait",
            "Barrier::wait_fencing_all_threads",
            "Barrier::wait_unfenced",
            "Async<Barrier>::wait",
        ],
        Object::Collective => &[
            "Collective::broadcast",
            "Collective::gather",
            "Collective::all_gather",
            "Collective::reduce",
            "Collective::all_reduce",
        ],
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
            "RingStream::next",
            "RingSink::submit",
            "RingSink::wait_until_read",
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
            "Async<TicketLock>::lock",
        ],
        Object::TasLock => &[
            "TasLock::lock",
            "TasLock::lock_until",
            "TasLock::try_lock",
            "TasLock::combine",
            "Async<TasLock>::lock",
        ],
        Object::Queue => &[
            "SharedQueue::try_push",
            "SharedQueue::push",
            "SharedQueue::try_pop",
            "SharedQueue::pop",
            "SharedQueue::close",
            "Async<SharedQueue>::push",
            "Async<SharedQueue>::pop",
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
            "KvStore::update_start",
            "KvStore::delete",
            "KvStore::entries",
            "KvStore::snapshot",
            "KvStore::restore",
            "KvStore::restore_part",
            "Async<KvStore>::get",
            "Async<KvStore>::insert",
            "Async<KvStore>::update",
            "Async<KvStore>::update_start",
            "AsyncUpdate::wait",
            "Async<KvStore>::delete",
        ],
        Object::Log => &[
            "Log::append",
            "Log::read",
            "Log::read_into",
            "Log::try_read",
            "Log::unread",
            "Log::lead",
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The sources of the objects, each with the type whose methods it has.
    const SOURCES: [(&str, &str); 26] = [
        ("variables/shared_var.rs", "SharedVar"),
        ("variables/owned_var.rs", "OwnedVar"),
        ("variables/wide_owned_var.rs", "WideOwnedVar"),
        ("variables/sst.rs", "Sst"),
        ("variables/msw.rs", "Msw"),
        ("variables/atomic_var.rs", "AtomicVar"),
        ("variables/atomic_array.rs", "AtomicArray"),
        ("variables/shared_region.rs", "SharedRegion"),
        ("barrier.rs", "Barrier"),
        ("collective.rs", "Collective"),
        ("ring_buffer/writer.rs", "RingWriter"),
        ("ring_buffer/reader.rs", "RingReader"),
        ("locks/ticket_lock/mod.rs", "TicketLock"),
        ("locks/tas_lock.rs", "TasLock"),
        ("shared_queue/mod.rs", "SharedQueue"),
        ("kvstore/read.rs", "KvStore"),
        ("kvstore/write.rs", "KvStore"),
        ("kvstore/batch.rs", "KvStore"),
        ("kvstore/start.rs", "KvStore"),
        ("kvstore/updates.rs", "KvStore"),
        ("kvstore/scan.rs", "KvStore"),
        ("kvstore/snapshot/mod.rs", "KvStore"),
        ("log/mod.rs", "Log"),
        ("log/append.rs", "Log"),
        ("log/cursor.rs", "Log"),
        ("log/lead.rs", "Log"),
    ];

    /// Returns the public methods in a source that take the calling thread: those that can act under the model.
    fn with_thread(source: &str) -> impl Iterator<Item = &str> {
        source.split("pub fn ").skip(1).filter_map(|rest| {
            let head = &rest[..rest.find('{')?];
            let name = head.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
            head.contains("thread: &").then_some(name)
        })
    }

    #[test]
    fn every_public_method_that_takes_a_thread_is_listed() {
        let listed: Vec<&str> = Object::ALL
            .iter()
            .flat_map(|&object| methods(object))
            .copied()
            .collect();
        let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../loco/objects/src/objects");
        let mut seen = 0;
        for (file, of) in SOURCES {
            let source =
                fs::read_to_string(objects.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            for name in with_thread(&source) {
                let method = format!("{of}::{name}");
                assert!(
                    listed.contains(&method.as_str()),
                    "{method} is in no list of methods"
                );
                seen += 1;
            }
        }
        assert!(seen > 40, "only {seen} methods were found");
    }
}
