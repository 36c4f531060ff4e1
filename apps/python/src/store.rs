//! The key-value store: `loco.KvStore`.

use std::sync::Arc;

use loco::{Bytes, Inserted, KvConfig};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::calls::{Base, Failure, bytes, limit};
use crate::errors::Kind;
use crate::node::Node;

/// A linearizable map from bytes to bytes, which all nodes read and change.
#[pyclass(frozen, module = "loco")]
pub(crate) struct KvStore {
    base: Arc<Base>,
    store: loco::KvStore<Bytes, Bytes>,
    name: String,
}

#[pymethods]
impl KvStore {
    #[new]
    #[pyo3(signature = (
        node, name, *, slots_per_node = None, value_bytes_max = None, key_bytes_max = None, locks = None, tracker_bytes = None,
        copies = None, spare_homes = None, copies_per_second = None
    ))]
    #[allow(clippy::too_many_arguments)] // settings by name
    fn new(
        py: Python<'_>,
        node: &Node,
        name: &str,
        slots_per_node: Option<u32>,
        value_bytes_max: Option<usize>,
        key_bytes_max: Option<usize>,
        locks: Option<u32>,
        tracker_bytes: Option<usize>,
        copies: Option<usize>,
        spare_homes: Option<usize>,
        copies_per_second: Option<u32>,
    ) -> PyResult<KvStore> {
        let parent = node.parent();
        let defaults = KvConfig::default();
        let config = KvConfig::default()
            .slots_per_node(slots_per_node.unwrap_or(defaults.slots_per_node))
            .value_bytes_max(value_bytes_max.unwrap_or(defaults.value_bytes_max))
            .key_bytes_max(key_bytes_max.unwrap_or(defaults.key_bytes_max))
            .locks(locks.unwrap_or(defaults.locks))
            .tracker_bytes(tracker_bytes.unwrap_or(defaults.tracker_bytes))
            .copies(copies.unwrap_or(defaults.copies))
            .spare_homes(spare_homes.unwrap_or(defaults.spare_homes))
            .copies_per_second(copies_per_second.unwrap_or(defaults.copies_per_second));
        Ok(KvStore {
            base: parent.base.clone(),
            store: parent.make(py, |among| loco::KvStore::new(among, name, config))?,
            name: name.to_owned(),
        })
    }

    /// Returns the value of a key, or None if the store does not have it.
    #[pyo3(signature = (key, timeout = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = Bytes(bytes(key)?);
        let value = self
            .base
            .call(py, limit(timeout)?, |thread| self.store.get(thread, &key))?;
        Ok(value.map(|Bytes(value)| PyBytes::new(py, &value)))
    }

    /// Adds a key with its value. Returns False if the store has the key already.
    #[pyo3(signature = (key, value, timeout = None))]
    fn insert(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let (key, value) = (Bytes(bytes(key)?), Bytes(bytes(value)?));
        self.base.call_anyhow(py, limit(timeout)?, |thread| {
            match self.store.insert(thread, &key, &value)? {
                Inserted::Done => Ok(true),
                Inserted::Duplicate => Ok(false),
                Inserted::Full => Err(Failure::Found(
                    Kind::Exhausted,
                    format!(
                        "store `{}` has no slot left on {}: delete a key that this node has inserted, or make \
                         `slots_per_node` larger",
                        self.name,
                        thread.node_id()
                    ),
                )),
            }
        })
    }

    /// Changes the value of a key. Returns False if the store does not have the key.
    #[pyo3(signature = (key, value, timeout = None))]
    fn update(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let (key, value) = (Bytes(bytes(key)?), Bytes(bytes(value)?));
        self.base.call(py, limit(timeout)?, |thread| {
            self.store.update(thread, &key, &value)
        })
    }

    /// Removes a key. Returns False if the store does not have it.
    #[pyo3(signature = (key, timeout = None))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<bool> {
        let key = Bytes(bytes(key)?);
        self.base
            .call(py, limit(timeout)?, |thread| self.store.delete(thread, &key))
    }

    /// Waits until the copies are made again that were lost with the nodes that this one knows to be lost.
    #[pyo3(signature = (timeout = None))]
    fn wait_until_whole(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.base
            .call(py, limit(timeout)?, |thread| self.store.wait_until_whole(thread))
    }

    /// Returns the keys that this node knows of. Others may be on their way.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let keys = self.base.call(py, None, |_| Ok(self.store.keys()))?;
        Ok(keys.iter().map(|Bytes(key)| PyBytes::new(py, key)).collect())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        self.get(py, key, None)?
            .ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get(py, key, None)?.is_some())
    }
}
