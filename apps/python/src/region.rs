//! Memory on every node: `loco.SharedRegion`, and its memory as a buffer of Python.

use std::ffi::c_int;
use std::sync::Arc;

use loco::fabric::{AnyCell, Fabric as _, NodeId, WordCell as _};
use loco::raw::Flags;
use loco::{SharedRegion as Region, Thread};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::calls::{Base, bytes, limit};
use crate::errors;
use crate::node::Node;

/// Bytes on every node, which the other nodes put and get.
///
/// This node's bytes are a writable buffer: `memoryview(region)`, `numpy.frombuffer(region, dtype="uint64")`.
#[pyclass(frozen, module = "loco")]
pub(crate) struct SharedRegion {
    base: Arc<Base>,
    region: Region,
}

/// A comparison of a word with a value.
type Comparison = fn(&u64, &u64) -> bool;

/// The comparisons of `wait_until`, with their names.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", u64::eq),
    ("!=", u64::ne),
    ("<", u64::lt),
    ("<=", u64::le),
    (">", u64::gt),
    (">=", u64::ge),
];

/// Puts data and waits until the put is over, which sends a copy.
fn put(region: &Region, thread: &Thread, node: u16, offset: usize, data: &[u8]) -> loco::Result<()> {
    let target = region.target(NodeId(node), offset)?;
    if data.len() <= thread.fabric().caps().inline_bytes_max {
        let put = thread.put_inline_with(data, target, Flags::STRONG);
        return region.placed(put)?.wait(thread);
    }
    let buffer = thread.mem_ref(data.len())?;
    buffer.write(0, data)?;
    let put = buffer.put_with(target, Flags::STRONG);
    region.placed(put)?.wait().map(drop)
}

impl SharedRegion {
    /// Returns the word at `offset` of this node's memory.
    fn word(&self, py: Python<'_>, offset: usize) -> PyResult<AnyCell<u64>> {
        self.base.check(py)?;
        self.region
            .word(offset)
            .map_err(|error| errors::raise(py, &error))
    }
}

#[pymethods]
impl SharedRegion {
    #[new]
    fn new(py: Python<'_>, node: &Node, name: &str, len: usize) -> PyResult<SharedRegion> {
        let parent = node.parent();
        let region = parent.make(py, |among| Region::new(among, name, len))?;
        Ok(SharedRegion {
            base: parent.base.clone(),
            region,
        })
    }

    fn __len__(&self) -> usize {
        self.region.len()
    }

    /// Puts bytes at `offset` of another node's memory, or of this node's. The bytes have been sent when this returns, after the
    /// earlier puts of this thread to that node; `Node.fence` or a barrier waits until they are there.
    #[pyo3(signature = (node, offset, data, timeout = None))]
    fn put(
        &self,
        py: Python<'_>,
        node: u16,
        offset: usize,
        data: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let data = bytes(data)?;
        self.base.call(py, limit(timeout)?, |thread| {
            put(&self.region, thread, node, offset, &data)
        })
    }

    /// Returns `len` bytes from `offset` of a node's memory.
    #[pyo3(signature = (node, offset, len, timeout = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        node: u16,
        offset: usize,
        len: usize,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.base.call(py, limit(timeout)?, |thread| {
            let target = self.region.target(NodeId(node), offset)?;
            let get = thread.mem_ref(len)?.get_with(target, Flags::STRONG);
            let buffer = self.region.placed(get)?.wait()?;
            let mut data = vec![0; len];
            buffer.read(0, &mut data)?;
            Ok(data)
        })?;
        Ok(PyBytes::new(py, &data))
    }

    /// Puts a word of 64 bits at `offset`, a multiple of 8. It does not tear.
    #[pyo3(signature = (node, offset, value, timeout = None))]
    fn put_word(
        &self,
        py: Python<'_>,
        node: u16,
        offset: usize,
        value: u64,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        self.base.call(py, limit(timeout)?, |thread| {
            put(&self.region, thread, node, offset, &value.to_ne_bytes())
        })
    }

    /// Returns the word at `offset` of a node's memory.
    #[pyo3(signature = (node, offset, timeout = None))]
    fn get_word(&self, py: Python<'_>, node: u16, offset: usize, timeout: Option<f64>) -> PyResult<u64> {
        self.base.call(py, limit(timeout)?, |thread| {
            let word = self.region.target(NodeId(node), offset)?;
            self.region.placed(thread.read_word_strong(word))
        })
    }

    /// Adds to the word at `offset` of a node's memory, modulo 2**64, and returns the former value.
    #[pyo3(signature = (node, offset, add, timeout = None))]
    fn fetch_add(
        &self,
        py: Python<'_>,
        node: u16,
        offset: usize,
        add: u64,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        self.base.call(py, limit(timeout)?, |thread| {
            let word = self.region.target(NodeId(node), offset)?;
            self.region.placed(thread.fetch_add_word_strong(word, add))
        })
    }

    /// Sets the word at `offset` of a node's memory to `desired` if it is `expected`. Returns the former value in any case.
    #[pyo3(signature = (node, offset, expected, desired, timeout = None))]
    fn compare_swap(
        &self,
        py: Python<'_>,
        node: u16,
        offset: usize,
        expected: u64,
        desired: u64,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        self.base.call(py, limit(timeout)?, |thread| {
            let word = self.region.target(NodeId(node), offset)?;
            self.region
                .placed(thread.compare_swap_word_strong(word, expected, desired))
        })
    }

    /// Returns the word at `offset` of this node's memory.
    fn load(&self, py: Python<'_>, offset: usize) -> PyResult<u64> {
        Ok(self.word(py, offset)?.load())
    }

    /// Sets the word at `offset` of this node's memory.
    fn store(&self, py: Python<'_>, offset: usize, value: u64) -> PyResult<()> {
        self.word(py, offset)?.store(value);
        Ok(())
    }

    /// Waits until the word at `offset` of this node's memory compares with `value` as asked, and returns the word.
    #[pyo3(signature = (offset, comparison, value, timeout = None))]
    fn wait_until(
        &self,
        py: Python<'_>,
        offset: usize,
        comparison: &str,
        value: u64,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let holds = COMPARISONS.iter().find(|(name, _)| *name == comparison);
        let (_, holds) = holds.ok_or_else(|| {
            let names = COMPARISONS.map(|(name, _)| name).join("  ");
            PyValueError::new_err(format!("no comparison \"{comparison}\": there are  {names}"))
        })?;
        let word = self.word(py, offset)?;
        self.base.call(py, limit(timeout)?, |thread| {
            self.region.channel().wait_until(thread, || {
                let found = word.load();
                holds(&found, &value).then_some(found)
            })
        })
    }

    /// Fills a view of this node's memory, which keeps the region. A view that is refused has no object, as the protocol wants it.
    ///
    /// # Safety
    /// `view` is a place for a view, as the buffer protocol of Python gives one.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let region = &slf.get().region;
        let address = region.local().ok().and_then(|memory| memory.address());
        let (Some(address), Ok(len)) = (address, isize::try_from(region.len())) else {
            // SAFETY: `view` is Python's, which has it for this call only.
            unsafe { (*view).obj = std::ptr::null_mut() };
            return Err(PyBufferError::new_err(
                "the region is in no memory of this process",
            ));
        };
        // SAFETY: `view` is Python's, and it is attached. The bytes stay mapped as long as the region's handle, which lives as
        // long as `slf`, to which the view gets a reference.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address.as_ptr().cast(), len, 0, flags) };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
