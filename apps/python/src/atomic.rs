//! The atomic variable: `loco.AtomicVar`.

use std::sync::Arc;

use loco::fabric::NodeId;
use pyo3::prelude::*;

use crate::calls::{Base, limit};
use crate::node::Node;

/// A word of 64 bits without a sign that all nodes change. Node `home` has it.
#[pyclass(frozen, module = "loco")]
pub(crate) struct AtomicVar {
    base: Arc<Base>,
    variable: loco::AtomicVar<u64>,
}

#[pymethods]
impl AtomicVar {
    #[new]
    fn new(py: Python<'_>, node: &Node, name: &str, home: u16) -> PyResult<AtomicVar> {
        let parent = node.parent();
        let variable = parent.make(py, |among| loco::AtomicVar::new(among, name, NodeId(home)))?;
        Ok(AtomicVar {
            base: parent.base.clone(),
            variable,
        })
    }

    /// The node that has the word.
    #[getter]
    fn home(&self) -> u16 {
        self.variable.home().0
    }

    /// Returns the value.
    #[pyo3(signature = (timeout = None))]
    fn read(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<u64> {
        self.base
            .call(py, limit(timeout)?, |thread| self.variable.read(thread))
    }

    /// Sets the value, and returns when all nodes find it.
    #[pyo3(signature = (value, timeout = None))]
    fn write(&self, py: Python<'_>, value: u64, timeout: Option<f64>) -> PyResult<()> {
        self.swap(py, value, timeout).map(drop)
    }

    /// Sets the value and returns the former one.
    #[pyo3(signature = (value, timeout = None))]
    fn swap(&self, py: Python<'_>, value: u64, timeout: Option<f64>) -> PyResult<u64> {
        self.base
            .call(py, limit(timeout)?, |thread| self.variable.swap(thread, value))
    }

    /// Adds to the value, modulo 2**64, and returns the former one.
    #[pyo3(signature = (add, timeout = None))]
    fn fetch_add(&self, py: Python<'_>, add: u64, timeout: Option<f64>) -> PyResult<u64> {
        self.base
            .call(py, limit(timeout)?, |thread| self.variable.fetch_add(thread, add))
    }

    /// Sets the value to `desired` if it is `expected`. Returns the former value in any case.
    #[pyo3(signature = (expected, desired, timeout = None))]
    fn compare_swap(
        &self,
        py: Python<'_>,
        expected: u64,
        desired: u64,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        self.base.call(py, limit(timeout)?, |thread| {
            self.variable.compare_swap(thread, expected, desired)
        })
    }
}
