//! The history of an object: for each call its arguments, its result, and its times. The recorders make it; the checker and the
//! reports read it. Relies on nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{HistoryError, Result};

/// The thread that made a call. A thread with several operations in flight may use one id for all of them: the checker
/// looks only at intervals, and ids are for the reader of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadId {
    /// The node.
    pub node: u16,
    /// The thread in it.
    pub thread: u16,
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.thread)
    }
}

/// One call of the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation<C, R> {
    /// The caller.
    pub thread: ThreadId,
    /// The operation with its arguments.
    pub call: C,
    /// The time of the invocation, read from the history's clock before the operation began.
    pub invoked: u64,
    /// The result and its time, or `None` if the operation is pending because its thread or node died or the run ended. A pending
    /// operation may have taken effect at any time after the invocation, or never.
    pub response: Option<Response<R>>,
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response<R> {
    /// The result.
    pub result: R,
    /// The time of the response, read from the history's clock after the operation ended.
    pub at: u64,
}

impl<C, R> Operation<C, R> {
    /// Makes a completed operation.
    pub fn new(thread: ThreadId, call: C, invoked: u64, result: R, responded: u64) -> Self {
        let response = Some(Response {
            result,
            at: responded,
        });
        Operation {
            thread,
            call,
            invoked,
            response,
        }
    }

    /// Makes an operation without response.
    pub fn pending(thread: ThreadId, call: C, invoked: u64) -> Self {
        Operation {
            thread,
            call,
            invoked,
            response: None,
        }
    }

    /// Returns the result, if there is one.
    pub fn result(&self) -> Option<&R> {
        self.response.as_ref().map(|r| &r.result)
    }

    /// Returns whether this operation responded before `other` was invoked. Equal times overlap.
    pub fn precedes(&self, other: &Self) -> bool {
        self.response.as_ref().is_some_and(|r| r.at < other.invoked)
    }
}

/// A set of operations timed by one clock. The order of the list carries no meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History<C, R> {
    /// The operations. Reports name them by their index in this list.
    pub operations: Vec<Operation<C, R>>,
}

impl<C, R> Default for History<C, R> {
    fn default() -> Self {
        History {
            operations: Vec::new(),
        }
    }
}

impl<C, R> From<Vec<Operation<C, R>>> for History<C, R> {
    fn from(operations: Vec<Operation<C, R>>) -> Self {
        History { operations }
    }
}

impl<C, R> History<C, R> {
    /// Merges the histories of threads or processes, which must have used one clock, and sorts by the time of invocation.
    pub fn merge(parts: impl IntoIterator<Item = History<C, R>>) -> Self {
        let mut operations: Vec<_> = parts.into_iter().flat_map(|part| part.operations).collect();
        operations.sort_by_key(|op| op.invoked);
        History { operations }
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the history as it was known at time `at`: later invocations are left out, and operations with a later response are
    /// pending.
    pub fn until(&self, at: u64) -> Self
    where
        C: Clone,
        R: Clone,
    {
        let known = self
            .operations
            .iter()
            .filter(|op| op.invoked <= at)
            .map(|op| Operation {
                response: op.response.clone().filter(|r| r.at <= at),
                ..op.clone()
            });
        History {
            operations: known.collect(),
        }
    }

    /// Checks that every response comes at or after its invocation.
    ///
    /// # Errors
    /// Returns [`HistoryError::TimeRunsBackwards`], which names the first operation whose response comes before. The checker treats
    /// such a response as if it came at the time of the invocation.
    pub fn validate(&self) -> Result<()> {
        for (index, op) in self.operations.iter().enumerate() {
            if let Some(response) = op.response.as_ref().filter(|r| r.at < op.invoked) {
                let (invoked, responded) = (op.invoked, response.at);
                return Err(HistoryError::TimeRunsBackwards {
                    index,
                    invoked,
                    responded,
                });
            }
        }
        Ok(())
    }
}
