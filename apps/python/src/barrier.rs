//! The barrier: `loco.Barrier`.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::calls::{Base, limit};
use crate::node::Node;

/// A point at which all nodes meet.
#[pyclass(frozen, module = "loco")]
pub(crate) struct Barrier {
    base: Arc<Base>,
    barrier: loco::Barrier,
}

#[pymethods]
impl Barrier {
    #[new]
    fn new(py: Python<'_>, node: &Node, name: &str) -> PyResult<Barrier> {
        let parent = node.parent();
        let barrier = parent.make(py, |among| loco::Barrier::new(among, name))?;
        Ok(Barrier {
            base: parent.base.clone(),
            barrier,
        })
    }

    /// Waits until every node has called this. Who leaves it sees what the others put before.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.base
            .call(py, limit(timeout)?, |thread| self.barrier.wait(thread))
    }
}
