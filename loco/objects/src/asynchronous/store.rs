//! The key-value store, awaited.

use loco_fabric::Fabric;

use crate::asynchronous::shared::Async;
use crate::asynchronous::thread::AsyncThread;
use crate::{Encode, Inserted, KvStore, Result};

impl<K, V, F> Async<KvStore<K, V, F>>
where
    K: Encode + Eq,
    V: Encode,
    F: Fabric,
{
    /// Returns the value of `key`, or `None`: [`KvStore::get`].
    ///
    /// # Errors
    /// See [`KvStore::get`].
    ///
    /// # After a timeout, or if the future was dropped
    /// Nothing has changed. Get again.
    pub async fn get(&self, thread: &AsyncThread<F>, key: K) -> Result<Option<V>> {
        let store = self.share();
        thread.retry(move |thread| store.get(thread, &key)).await
    }

    /// Adds a key that is absent, with its value on this node: [`KvStore::insert`].
    ///
    /// # Errors
    /// See [`KvStore::insert`].
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`KvStore::insert`]. If the future was dropped, the insert may also have succeeded.
    pub async fn insert(&self, thread: &AsyncThread<F>, key: K, value: V) -> Result<Inserted> {
        let store = self.share();
        // Does not try without waiting first: acknowledgements always take time.
        let insert = thread.call(move |thread| store.insert(thread, &key, &value));
        insert.await
    }

    /// Changes the value of a key. Returns false, and changes nothing, if the key is absent: [`KvStore::update`].
    ///
    /// # Errors
    /// See [`KvStore::update`].
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`KvStore::update`]. If the future was dropped, the update may also have succeeded.
    pub async fn update(&self, thread: &AsyncThread<F>, key: K, value: V) -> Result<bool> {
        let store = self.share();
        let update = thread.retry(move |thread| store.update(thread, &key, &value));
        update.await
    }

    /// Removes a key. Returns false if the key is absent: [`KvStore::delete`].
    ///
    /// # Errors
    /// See [`KvStore::delete`].
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`KvStore::delete`].
    pub async fn delete(&self, thread: &AsyncThread<F>, key: K) -> Result<bool> {
        let store = self.share();
        thread.call(move |thread| store.delete(thread, &key)).await
    }
}
