//! Keeps operations in order when an object moves from one thread to another.

use std::sync::Arc;

use loco_fabric::Fabric;

use crate::Result;
use crate::operations::completion::Window;
use crate::operations::fence;
use crate::operations::thread::Thread;

/// The thread that an object posted from last. Operations of one thread towards a peer are ordered; those of two are
/// not, so what the former thread posted is placed before the next one posts.
pub(crate) struct Home<F: Fabric> {
    last: Option<Arc<Window<F>>>,
}

impl<F: Fabric> Home<F> {
    pub(crate) fn new() -> Home<F> {
        Home { last: None }
    }

    /// `thread` is about to post.
    ///
    /// # Errors
    /// See [`fence::node`].
    #[inline]
    pub(crate) fn enter(&mut self, thread: &Thread<F>) -> Result<()> {
        match &self.last {
            Some(last) if Arc::ptr_eq(last, thread.window()) => Ok(()),
            _ => self.move_to(thread),
        }
    }

    #[cold]
    fn move_to(&mut self, thread: &Thread<F>) -> Result<()> {
        if self.last.is_some() {
            fence::node(thread)?;
        }
        self.last = Some(thread.window().clone());
        Ok(())
    }
}
