//! Recording in memory. Relies on a clock; used by one thread at a time, so that recording shares nothing.

use crate::{Clock, History, Operation, Response, ThreadId};

/// Records the calls of one thread. Costs a clock reading and a vector access at each end of a call; threads
/// share nothing but the clock.
///
/// What is still open when the recorder is finished counts as pending. Where the process itself may die, use a
/// [`Journal`](crate::Journal).
#[derive(Debug)]
pub struct Recorder<C, R, K> {
    thread: ThreadId,
    clock: K,
    operations: Vec<Operation<C, R>>,
}

/// Names an operation from invocation to response, with the recorder that gave it out.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "without a response the operation counts as pending"]
pub struct Invocation(pub(crate) usize);

impl<C, R, K: Clock> Recorder<C, R, K> {
    /// An empty recorder for `thread`.
    pub fn new(thread: ThreadId, clock: K) -> Self {
        Recorder {
            thread,
            clock,
            operations: Vec::new(),
        }
    }

    /// Room for `operations` more calls, so that recording them does not allocate.
    pub fn reserve(&mut self, operations: usize) {
        self.operations.reserve(operations);
    }

    /// Records that `call` is about to begin.
    pub fn invoke(&mut self, call: C) -> Invocation {
        let operation = Operation::pending(self.thread, call, 0);
        self.operations.push(operation);
        let index = self.operations.len() - 1;
        // Read last: a long interval only weakens the check, so neither end may hold more than the call.
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

    /// Runs `body` as the call `call`, whose result is what it returns.
    pub fn record(&mut self, call: C, body: impl FnOnce() -> R) -> R
    where
        R: Clone,
    {
        let invocation = self.invoke(call);
        let result = body();
        self.respond(invocation, result.clone());
        result
    }

    /// What was recorded.
    pub fn finish(self) -> History<C, R> {
        History {
            operations: self.operations,
        }
    }
}
