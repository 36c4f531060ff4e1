//! Errors as exceptions of Python.
//!
//! The classes are in `python/loco/errors.py`, one for each kind of [`loco::ErrorKind`].

use loco::ErrorKind;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exceptions that are made here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Usage,
    Exhausted,
    Closed,
    Panicked,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Usage => "Usage",
            Kind::Exhausted => "Exhausted",
            Kind::Closed => "Closed",
            Kind::Panicked => "Panicked",
        }
    }
}

/// Words that mean something in Rust only, and what they are here.
const IN_PYTHON: [(&str, &str); 4] = [
    ("`OnLoss::Recover`", "`on_loss=\"recover\"`"),
    (
        "start it with `loco run -n 3 PROGRAM`, mpirun or srun",
        "start it with `loco run -n 3 python3 PROGRAM`, mpirun or srun, or call `loco.start(alone=True)`",
    ),
    ("before `loco::run` returns", "before `close`"),
    ("drop `Thread`s that are done", "end threads that are done"),
];

/// Returns the class of this name.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("loco.errors")?.getattr(name)?.cast_into::<PyType>()?)
}

/// Returns the exception of an error, with the names and nodes that the error knows.
pub(crate) fn raise(py: Python<'_>, error: &loco::Error) -> PyErr {
    let name = match error.kind() {
        ErrorKind::PeerLost => "PeerLost",
        ErrorKind::Timeout => "Timeout",
        ErrorKind::Mismatch => "Mismatch",
        ErrorKind::Usage => "Usage",
        ErrorKind::DeclaredLost => "DeclaredLost",
        ErrorKind::Exhausted => "Exhausted",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::System => "System",
        ErrorKind::Refused => "Refused",
        ErrorKind::Poisoned => "Poisoned",
        ErrorKind::BadFile => "BadFile",
        ErrorKind::Closed => "Closed",
        ErrorKind::Panicked => "Panicked",
        _ => "Error",
    };
    // Debug has the causes, too.
    let mut message = format!("{error:?}");
    for (rust, python) in IN_PYTHON {
        message = message.replace(rust, python);
    }
    let awaited: Vec<u16> = error.awaited().iter().map(|node| node.0).collect();
    let raised = class(py, name).and_then(|class| {
        let raised = class.call1((message,))?;
        raised.setattr("object", error.object())?;
        raised.setattr("node", error.lost_peer().map(|node| node.0))?;
        raised.setattr("awaited", awaited)?;
        Ok(raised)
    });
    raised.map_or_else(|failed| failed, PyErr::from_value)
}

/// Returns an exception that this interface raises itself.
pub(crate) fn new(py: Python<'_>, kind: Kind, message: &str) -> PyErr {
    let raised = class(py, kind.name()).and_then(|class| class.call1((message,)));
    raised.map_or_else(|failed| failed, PyErr::from_value)
}
