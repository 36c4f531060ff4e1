//! The results of pushes and pops.

/// The result of a push. A value that the queue did not take is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the queue may be closed or full, and then gives the value back"]
pub enum Pushed<T> {
    /// The value is in the queue.
    Done,
    /// The queue holds as many values as it has room for. This value is not among them.
    Full(T),
    /// The queue is closed. This value is not in it.
    Closed(T),
}

impl<T> Pushed<T> {
    /// Returns true if the value is in the queue.
    pub fn is_done(&self) -> bool {
        matches!(self, Pushed::Done)
    }

    /// Returns the value, if the queue did not take it.
    #[must_use = "the queue did not take this value"]
    pub fn refused(self) -> Option<T> {
        match self {
            Pushed::Done => None,
            Pushed::Full(value) | Pushed::Closed(value) => Some(value),
        }
    }
}

/// The result of a pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Popped<T> {
    /// The oldest value.
    Value(T),
    /// The queue holds no value.
    Empty,
    /// The queue is closed, and holds no value.
    Closed,
}

impl<T> Popped<T> {
    /// Returns the value, if there was one.
    pub fn value(self) -> Option<T> {
        match self {
            Popped::Value(value) => Some(value),
            Popped::Empty | Popped::Closed => None,
        }
    }
}

/// The result of one attempt.
pub(super) enum Once<T> {
    Done(T),
    /// The queue is full or empty, as the cell of this index shows by this word.
    Blocked((u64, u64)),
}

impl<T> Once<T> {
    pub(super) fn unwrap_or(self, blocked: T) -> T {
        match self {
            Once::Done(outcome) => outcome,
            Once::Blocked(_) => blocked,
        }
    }
}

/// The outcome of an attempt to push.
pub(super) enum Push {
    Done,
    Closed,
}
