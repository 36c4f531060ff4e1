//! A FIFO queue, optionally bounded, that can be closed: LOCO's shared queue and, with one writer, its ring buffer.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::Spec;

/// A queue of `V`. A closed queue takes no more entries and hands out those that it has.
///
/// Pushed values should be distinct: the search is then far quicker, and a violation names the push whose value a pop took.
#[derive(Clone, Debug, Default)]
pub struct Queue<V> {
    capacity: Option<usize>,
    types: std::marker::PhantomData<fn(V)>,
}

/// A call of a queue. Blocking calls are recorded as these calls too. A blocking call that ran into its deadline
/// returns `Full` or `Empty` if the queue checked at the deadline; otherwise it is pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueCall<V> {
    /// Appends a value.
    Push(V),
    /// Takes the oldest value.
    Pop,
    /// Closes the queue. Closing a closed queue changes nothing.
    Close,
}

/// A result of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueRet<V> {
    /// The push is done.
    Pushed,
    /// The push was refused: the queue holds as many values as its capacity.
    Full,
    /// The pop took this value.
    Popped(V),
    /// The pop found an open queue without values.
    Empty,
    /// `Close`: done. `Push`: refused, the queue is closed. `Pop`: closed and without values.
    Closed,
}

impl<V> Queue<V> {
    /// Makes a queue without bound, in which a push never returns `Full`.
    pub fn unbounded() -> Self {
        Queue {
            capacity: None,
            types: std::marker::PhantomData,
        }
    }

    /// Makes a queue that holds at most `capacity` values.
    pub fn bounded(capacity: usize) -> Self {
        Queue {
            capacity: Some(capacity),
            types: std::marker::PhantomData,
        }
    }
}

impl<V: Clone + Eq + Hash + Debug> Spec for Queue<V> {
    type State = (VecDeque<V>, bool);
    type Call = QueueCall<V>;
    type Ret = QueueRet<V>;
    type Key = &'static str;

    fn partition(&self, _: &QueueCall<V>) -> &'static str {
        "queue"
    }

    fn initial(&self, _: &&'static str) -> Self::State {
        (VecDeque::new(), false)
    }

    fn step(
        &self,
        state: &Self::State,
        call: &QueueCall<V>,
        ret: Option<&QueueRet<V>>,
        next: &mut Vec<Self::State>,
    ) {
        use QueueRet::{Closed, Empty, Full, Popped, Pushed};
        let (values, closed) = state;
        // The state determines the result; a pending call takes this result.
        let fits = |expected: &QueueRet<V>| ret.is_none_or(|ret| ret == expected);
        match call {
            QueueCall::Push(_) if *closed => {
                if fits(&Closed) {
                    next.push(state.clone());
                }
            }
            QueueCall::Push(_) if self.capacity.is_some_and(|capacity| values.len() >= capacity) => {
                if fits(&Full) {
                    next.push(state.clone());
                }
            }
            QueueCall::Push(value) => {
                if fits(&Pushed) {
                    let mut values = values.clone();
                    values.push_back(value.clone());
                    next.push((values, false));
                }
            }
            QueueCall::Pop => match values.front() {
                Some(front) => {
                    if ret.is_none_or(|ret| matches!(ret, Popped(value) if value == front)) {
                        next.push((values.iter().skip(1).cloned().collect(), *closed));
                    }
                }
                None => {
                    if fits(if *closed { &Closed } else { &Empty }) {
                        next.push(state.clone());
                    }
                }
            },
            QueueCall::Close => {
                if fits(&Closed) {
                    next.push((values.clone(), true));
                }
            }
        }
    }

    fn state_bytes(&self, state: &Self::State) -> usize {
        size_of_val(state) + state.0.capacity() * size_of::<V>()
    }

    fn read_only(&self, call: &QueueCall<V>, ret: Option<&QueueRet<V>>) -> bool {
        match call {
            QueueCall::Push(_) => matches!(ret, Some(QueueRet::Full | QueueRet::Closed)),
            QueueCall::Pop => matches!(ret, Some(QueueRet::Empty | QueueRet::Closed)),
            QueueCall::Close => false,
        }
    }
}
