//! The ring buffer: `loco.RingBuffer`, its writer and its readers.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use loco::RingConfig;
use loco::fabric::NodeId;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::calls::{Base, Failure, bytes, is_interrupted, limit};
use crate::errors;
use crate::node::Node;

/// Messages from one node, `writer`, to all readers, in order.
#[pyclass(frozen, module = "loco")]
pub(crate) struct RingBuffer {
    base: Arc<Base>,
    ring: Arc<loco::RingBuffer>,
}

/// The writer of a ring buffer. When it is collected, the ring buffer has a writer again.
#[pyclass(frozen, module = "loco")]
pub(crate) struct RingWriter {
    base: Arc<Base>,
    ring: Arc<loco::RingBuffer>,
    /// `None` when it is being dropped.
    writer: Mutex<Option<loco::RingWriter>>,
}

/// A reader of a ring buffer.
#[pyclass(frozen, module = "loco")]
pub(crate) struct RingReader {
    base: Arc<Base>,
    /// `None` when it has left.
    reader: Mutex<Option<Received>>,
}

/// A reader, and what it has received that nobody has got.
struct Received {
    reader: loco::RingReader,
    /// The message of a call that a handler of a signal has ended.
    kept: Option<Vec<u8>>,
}

impl Received {
    /// Receives by `receive`, or returns the message that was kept. Keeps the message of a call that nobody gets.
    fn take(
        &mut self,
        receive: impl FnOnce(&mut loco::RingReader) -> loco::Result<Option<Vec<u8>>>,
    ) -> loco::Result<Option<Vec<u8>>> {
        let message = match self.kept.take() {
            Some(message) => Some(message),
            None => receive(&mut self.reader)?,
        };
        if is_interrupted() {
            self.kept = message;
            return Ok(None);
        }
        Ok(message)
    }
}

#[pymethods]
impl RingBuffer {
    #[new]
    #[pyo3(signature = (node, name, writer, capacity_bytes, *, readers = None))]
    fn new(
        py: Python<'_>,
        node: &Node,
        name: &str,
        writer: u16,
        capacity_bytes: usize,
        readers: Option<Vec<u16>>,
    ) -> PyResult<RingBuffer> {
        let parent = node.parent();
        let mut config = RingConfig::new(capacity_bytes);
        if let Some(readers) = readers {
            config = config.readers(readers.into_iter().map(NodeId));
        }
        let ring = parent.make(py, |among| {
            loco::RingBuffer::with_config(among, name, NodeId(writer), &config)
        })?;
        Ok(RingBuffer {
            base: parent.base.clone(),
            ring: Arc::new(ring),
        })
    }

    /// The longest message, in bytes.
    #[getter]
    fn message_bytes_max(&self) -> usize {
        self.ring.message_bytes_max()
    }

    /// Takes the writer, on the node that writes.
    fn writer(&self, py: Python<'_>) -> PyResult<RingWriter> {
        self.base.check(py)?;
        let writer = self.ring.writer().map_err(|error| errors::raise(py, &error))?;
        Ok(RingWriter {
            base: self.base.clone(),
            ring: self.ring.clone(),
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Takes the reader of this node.
    fn reader(&self, py: Python<'_>) -> PyResult<RingReader> {
        self.base.check(py)?;
        let reader = self.ring.reader().map_err(|error| errors::raise(py, &error))?;
        Ok(RingReader {
            base: self.base.clone(),
            reader: Mutex::new(Some(Received { reader, kept: None })),
        })
    }
}

/// Takes what one thread at a time uses, for one call.
fn hold<T>(handle: &Mutex<Option<T>>) -> Result<MutexGuard<'_, Option<T>>, Failure> {
    handle.try_lock().map_err(|error| {
        Failure::usage(match error {
            TryLockError::WouldBlock => {
                "another thread is in the middle of a call on this end of the ring buffer"
            }
            TryLockError::Poisoned(_) => {
                "a call on this end of the ring buffer panicked, and may have left it half done"
            }
        })
    })
}

fn left() -> Failure {
    Failure::usage("this reader has left its ring buffer")
}

#[pymethods]
impl RingWriter {
    /// Submits a message, and waits while the ring is full.
    #[pyo3(signature = (message, timeout = None))]
    fn submit(&self, py: Python<'_>, message: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let message = bytes(message)?;
        self.base.call_anyhow(py, limit(timeout)?, |thread| {
            let mut writer = hold(&self.writer)?;
            Ok(writer.as_mut().ok_or_else(left)?.submit(thread, &message)?)
        })
    }

    /// Submits a message, or returns False if the ring is full.
    fn try_submit(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<bool> {
        let message = bytes(message)?;
        self.base.call_anyhow(py, None, |thread| {
            let mut writer = hold(&self.writer)?;
            Ok(writer.as_mut().ok_or_else(left)?.try_submit(thread, &message)?)
        })
    }

    /// Waits until all readers have received every message.
    #[pyo3(signature = (timeout = None))]
    fn wait_until_read(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.base.call_anyhow(py, limit(timeout)?, |thread| {
            let mut writer = hold(&self.writer)?;
            Ok(writer.as_mut().ok_or_else(left)?.wait_until_read(thread)?)
        })
    }

    /// Waits for a reader no more, for example because its node is lost.
    fn exclude(&self, py: Python<'_>, node: u16) -> PyResult<()> {
        self.base.check(py)?;
        let mut writer = hold(&self.writer).map_err(|failure| failure.raise(py))?;
        if let Some(writer) = writer.as_mut() {
            writer.exclude(NodeId(node));
        }
        Ok(())
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        // A writer that a panic may have left half done is not used again.
        if let Ok(Some(writer)) = self.writer.get_mut().map(Option::take) {
            // It is the ring's own writer.
            let _ = self.ring.return_writer(writer);
        }
    }
}

#[pymethods]
impl RingReader {
    /// Waits for the next message and returns it. A call that a handler of a signal ends receives nothing: the message is for the
    /// next call.
    #[pyo3(signature = (timeout = None))]
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let message = self.base.call_anyhow(py, limit(timeout)?, |thread| {
            let mut reader = hold(&self.reader)?;
            let reader = reader.as_mut().ok_or_else(left)?;
            Ok(reader.take(|reader| reader.receive(thread).map(Some))?)
        })?;
        // There is one, unless a handler of a signal has raised.
        Ok(PyBytes::new(py, &message.unwrap_or_default()))
    }

    /// Returns the next message, or None if there is none yet.
    fn try_receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let message = self.base.call_anyhow(py, None, |thread| {
            let mut reader = hold(&self.reader)?;
            let reader = reader.as_mut().ok_or_else(left)?;
            Ok(reader.take(|reader| {
                let mut message = Vec::new();
                let is_there = reader.try_receive(thread, &mut message)?;
                Ok(is_there.then_some(message))
            })?)
        })?;
        Ok(message.map(|message| PyBytes::new(py, &message)))
    }

    /// Leaves the ring buffer: the writer waits for this reader no more.
    #[pyo3(signature = (timeout = None))]
    fn leave(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.base.call_anyhow(py, limit(timeout)?, |thread| {
            let Received { reader, .. } = hold(&self.reader)?.take().ok_or_else(left)?;
            Ok(reader.leave(thread)?)
        })
    }
}
