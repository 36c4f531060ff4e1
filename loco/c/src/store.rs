//! The key-value store: `loco_store`, with keys and values of any bytes.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use loco::{Bytes, Inserted, KvConfig, KvStore};

use crate::border::{Need, Out, bytes, bytes_mut, call, handle, text};
use crate::status::{BUFFER_TOO_SMALL, DUPLICATE, FULL, Failure, NOT_FOUND, OK, Status};
use crate::thread::Thread;

/// Settings: `loco_store_options`.
#[repr(C)]
pub struct StoreOptions {
    pub(crate) size: usize,
    pub(crate) value_bytes_max: usize,
    pub(crate) key_bytes_max: usize,
    pub(crate) tracker_bytes: usize,
    pub(crate) copies: usize,
    pub(crate) spare_homes: usize,
    pub(crate) slots_per_node: u32,
    pub(crate) locks: u32,
    pub(crate) copies_per_second: u32,
}

/// The store of the Rust library.
pub(crate) type Map = KvStore<Bytes, Bytes>;

/// A store, as C holds it. Operations under way keep it up.
pub struct Store(Arc<Map>);

impl Store {
    /// Returns a handle that can be kept.
    pub(crate) fn share(&self) -> Arc<Map> {
        self.0.clone()
    }
}

impl StoreOptions {
    fn config(&self) -> Result<KvConfig, Failure> {
        if self.size != size_of::<StoreOptions>() {
            return Err(Failure::usage(format!(
                "options->size is {}, and {} in this library: begin with LOCO_STORE_OPTIONS_INIT, and compile with the \
                 header of this version",
                self.size,
                size_of::<StoreOptions>()
            )));
        }
        let or = |given: usize, default| if given == 0 { default } else { given };
        let or_u32 = |given: u32, default| if given == 0 { default } else { given };
        let defaults = KvConfig::default();
        Ok(KvConfig::default()
            .slots_per_node(or_u32(self.slots_per_node, defaults.slots_per_node))
            .value_bytes_max(or(self.value_bytes_max, defaults.value_bytes_max))
            .key_bytes_max(or(self.key_bytes_max, defaults.key_bytes_max))
            .locks(or_u32(self.locks, defaults.locks))
            .tracker_bytes(or(self.tracker_bytes, defaults.tracker_bytes))
            .copies(or(self.copies, defaults.copies))
            .spare_homes(or(self.spare_homes, defaults.spare_homes))
            .copies_per_second(or_u32(self.copies_per_second, defaults.copies_per_second)))
    }
}

handle! {
    new loco_store_new(options: Option<&StoreOptions>) -> store: Store = |parent, name| {
        let config = options.map_or_else(|| Ok(KvConfig::default()), StoreOptions::config)?;
        Store(Arc::new(KvStore::new(parent, name, config)?))
    };
    free loco_store_free;
}

/// Implements `loco_store_get` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_store_get(
    store: Option<&Store>,
    thread: Option<&Thread>,
    key: *const c_void,
    key_len: usize,
    value: *mut c_void,
    capacity: usize,
    len: Out<'_, usize>,
) -> Status {
    call(|| {
        let (store, access) = (store.need("store")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let (key, to) = unsafe { (owned(key, key_len, "key")?, bytes_mut(value, capacity, "value")?) };
        let len = len.need("len")?;
        let Some(Bytes(value)) = store.0.get(access.thread(), &key)? else {
            return Ok(NOT_FOUND);
        };
        len.write(value.len());
        let Some(to) = to.get_mut(..value.len()) else {
            return Err(Failure::new(
                BUFFER_TOO_SMALL,
                format!(
                    "the value has {} bytes, and there is room for {capacity}",
                    value.len()
                ),
            ));
        };
        to.copy_from_slice(&value);
        Ok(OK)
    })
}

/// Implements `loco_store_insert` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_store_insert(
    store: Option<&Store>,
    thread: Option<&Thread>,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> Status {
    call(|| {
        let (store, access) = (store.need("store")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (owned(key, key_len, "key")?, owned(value, value_len, "value")?) };
        Ok(match store.0.insert(access.thread(), &key, &value)? {
            Inserted::Done => OK,
            Inserted::Duplicate => DUPLICATE,
            Inserted::Full => FULL,
        })
    })
}

/// Implements `loco_store_update` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_store_update(
    store: Option<&Store>,
    thread: Option<&Thread>,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
) -> Status {
    call(|| {
        let (store, access) = (store.need("store")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (owned(key, key_len, "key")?, owned(value, value_len, "value")?) };
        let found = store.0.update(access.thread(), &key, &value)?;
        Ok(if found { OK } else { NOT_FOUND })
    })
}

/// Implements `loco_store_delete` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_store_delete(
    store: Option<&Store>,
    thread: Option<&Thread>,
    key: *const c_void,
    key_len: usize,
) -> Status {
    call(|| {
        let (store, access) = (store.need("store")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let key = unsafe { owned(key, key_len, "key") }?;
        let found = store.0.delete(access.thread(), &key)?;
        Ok(if found { OK } else { NOT_FOUND })
    })
}

/// Implements `loco_store_wait_until_whole` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_store_wait_until_whole(
    store: Option<&Store>,
    thread: Option<&Thread>,
) -> Status {
    call(|| {
        let (store, access) = (store.need("store")?, thread.need("thread")?.enter()?);
        store.0.wait_until_whole(access.thread())?;
        Ok(OK)
    })
}

/// Implements `loco_store_snapshot` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_store_snapshot(
    store: Option<&Store>,
    thread: Option<&Thread>,
    path: *const c_char,
    keys: Out<'_, u64>,
) -> Status {
    call(|| {
        let (store, access) = (store.need("store")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let path = unsafe { text(path, "path") }?;
        let written = store.0.snapshot(access.thread(), path)?;
        if let Some(keys) = keys {
            keys.write(written.keys);
        }
        Ok(OK)
    })
}

/// Implements `loco_store_restore` of `loco.h`.
///
/// # Safety
/// See `loco.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn loco_store_restore(
    store: Option<&Store>,
    thread: Option<&Thread>,
    path: *const c_char,
    part: usize,
    parts: usize,
    keys: Out<'_, u64>,
) -> Status {
    call(|| {
        let (store, access) = (store.need("store")?, thread.need("thread")?.enter()?);
        // SAFETY: the caller's promise.
        let path = unsafe { text(path, "path") }?;
        let restored = store.0.restore_part(access.thread(), path, part, parts)?;
        if let Some(keys) = keys {
            keys.write(restored.inserted + restored.updated);
        }
        Ok(OK)
    })
}

/// Copies a key or value into the form that the store takes.
///
/// # Safety
/// See [`bytes`].
pub(crate) unsafe fn owned(data: *const c_void, len: usize, name: &str) -> Result<Bytes, Failure> {
    // SAFETY: the caller's promise.
    Ok(Bytes(unsafe { bytes(data, len, name) }?.to_vec()))
}
