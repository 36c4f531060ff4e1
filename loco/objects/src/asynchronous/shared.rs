//! An object that tasks share.

use std::ops::Deref;
use std::sync::Arc;

/// An object with its asynchronous forms, which have the names of the blocking ones. It is a cheap handle. The
/// blocking forms are available through [`Deref`].
#[derive(Debug)]
pub struct Async<T>(Arc<T>);

impl<T> Async<T> {
    /// Makes an object ready to be used by tasks.
    pub fn new(object: T) -> Async<T> {
        Async(Arc::new(object))
    }

    /// Returns the object, for a call.
    pub(super) fn share(&self) -> Arc<T> {
        self.0.clone()
    }
}

impl<T> Deref for Async<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Async<T> {
    fn clone(&self) -> Self {
        Async(self.0.clone())
    }
}

impl<T> From<Arc<T>> for Async<T> {
    fn from(object: Arc<T>) -> Self {
        Async(object)
    }
}
