//! A channel of the caller's own that replaces the shipped object of a library.
//!
//! A programmer who writes a channel on `loco` and specifies it (`docs/mowgli.md`) runs clients on it with [`Own`] in
//! the [`Form`](super::Form): the calls of one library become calls of the channel.

use loco::{Manager, Result, Thread};
use loco_sim::ModelFabric;
use mowgli_libraries::client::{Library, Method, ObjectKind};
use mowgli_libraries::value::Value;

/// A channel that stands for the objects of a library.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The library.
    pub library: Library,
    /// Makes the channel of an object, by its name and kind, on the node of the manager.
    pub make: Make,
}

/// Makes a channel.
pub type Make = fn(&Manager<ModelFabric>, &str, &ObjectKind) -> Result<Box<dyn Channel>>;

/// The calls of a channel.
pub trait Channel: Send + Sync {
    /// Calls a method. `values` are the arguments that are neither objects nor identifiers nor nodes. A method
    /// without a result returns [`Value::Unit`].
    ///
    /// # Errors
    /// Returns the errors of the channel. An execution with one fails.
    fn call(&self, thread: &Thread<ModelFabric>, method: Method, values: &[Value]) -> Result<Value>;
}
