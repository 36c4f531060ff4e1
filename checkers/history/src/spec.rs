//! Sequential specifications: the trait over which the checker searches, and the objects of LOCO in one file each. Used
//! by the checker and by the reports; authors of objects write their own. Relies on nothing.

use std::fmt::{Debug, Display};
use std::hash::Hash;

mod atomic;
mod key_value;
mod lock;
mod queue;
mod register;

pub use atomic::{Atomic, AtomicCall, AtomicRet};
pub use key_value::{KeyValue, KeyValueCall, KeyValueRet};
pub use lock::{Lock, LockCall, LockRet};
pub use queue::{Queue, QueueCall, QueueRet};
pub use register::{Register, RegisterCall, RegisterRet};

/// A sequential specification: a set of states, and the states to which a call with a result leads from a state.
///
/// A specification may be nondeterministic: a step may lead to several states. A history is linearizable with respect to it if
/// *some* choice explains the history.
pub trait Spec {
    /// A state of one partition. It should be small and cheap to clone and hash, because the search remembers many.
    type State: Clone + Eq + Hash + Debug;
    /// An operation with its arguments.
    type Call: Debug;
    /// A result.
    type Ret: Debug;
    /// Names a part of the object that behaves as an object of its own; `&'static str` or the like if there is
    /// only one. By locality (Herlihy and Wing 1990, section 3.2) a history is linearizable if each part is.
    type Key: Clone + Eq + Hash + Display;

    /// Returns the part of the object that `call` concerns.
    fn partition(&self, call: &Self::Call) -> Self::Key;

    /// Returns the state in which the part `key` starts.
    fn initial(&self, key: &Self::Key) -> Self::State;

    /// Pushes onto `next` every state in which the part can be after `call` in `state`. `ret` is the result seen, or
    /// `None` if the call is pending and may have any result. Pushes nothing if the call with this result is impossible
    /// in this state.
    fn step(
        &self,
        state: &Self::State,
        call: &Self::Call,
        ret: Option<&Self::Ret>,
        next: &mut Vec<Self::State>,
    );

    /// Returns whether `call` with `ret` leaves the state as it is *in every state in which it is legal*. The
    /// checker takes such a call as early as it can and never takes it back, which saves most of the search
    /// in histories with many reads. A write that happens to write the present value is not such a call. The
    /// default is false.
    fn read_only(&self, _call: &Self::Call, _ret: Option<&Self::Ret>) -> bool {
        false
    }

    /// Estimates the bytes that `state` takes with everything that it owns. The search needs this for its memory limit.
    fn state_bytes(&self, state: &Self::State) -> usize {
        size_of_val(state)
    }

    /// Describes the call and its result in words, for reports.
    fn describe(&self, call: &Self::Call, ret: Option<&Self::Ret>) -> String {
        match ret {
            Some(ret) => format!("{call:?} -> {ret:?}"),
            None => format!("{call:?} -> ?"),
        }
    }
}
