//! Records calls in memory. Relies on a clock. Each thread has its own recorder, so recording shares nothing.

use crate::{Clock, History, Operation, Response, ThreadId};

/// Records the calls of one thread. Each end of a call costs a clock reading and a vector access. Threads share nothing but the
/// clock.
///
/// Operations that are open when the recorder is finished are pending. If the process itself may die, use a
/// [`Journal`](crate::Journal).
#[derive(Debug)]
pub struct Recorder<C, R, K> {
    thread: ThreadId,
    clock: K,
    operations: Vec<Operation<C, R>>,
}

/// Names an operation between its invocation and its response.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "without a response the operation counts as pending"]
pub struct Invocation(pub(crate) usize);

impl<C, R, K: Clock> Recorder<C, R, K> {
    /// Makes an empty recorder for `thread`.
    pub fn new(thread: ThreadId, clock: K) -> Self {
        Recorder {
            thread,
            clock,
            operations: Vec::new(),
        }
    }

    /// Makes room for `operations` more calls, so that recording them does not allocate.
    pub fn reserve(&mut self, operations: usize) {
        self.operations.reserve(operations);
    }

    /// Records that `call` is about to begin.
    pub fn invoke(&mut self, call: C) -> Invocation {
        let operation = Operation::pending(self.thread, call, 0);
        self.operations.push(operation);
        let index = self.operations.len() - 1;
        // The clock is read last: a longer interval would weaken the check, so the interval must hold no more than the call.
        self.operations[index].invoked = self.clock.now();
        Invocation(index)
    }

    /// Records that the call ended with `result`. An invocation of another recorder is ignored if it names nothing.
    pub fn respond(&mut self, invocation: Invocation, result: R) {
        let at = self.clock.now();
        if let Some(operation) = self.operations.get_mut(invocation.0) {
            operation.response = Some(Response { result, at });
        }
    }

    /// Runs `body` and records it as `call`, with its return value as the result.
    pub fn record(&mut self, call: C, body: impl FnOnce() -> R) -> R
    where
        R: Clone,
    {
        let invocation = self.invoke(call);
        let result = body();
        self.respond(invocation, result.clone());
        result
    }

    /// Returns the recorded history.
    pub fn finish(self) -> History<C, R> {
        History {
            operations: self.operations,
        }
    }
}
