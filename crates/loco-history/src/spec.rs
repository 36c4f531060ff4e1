//! What the sequential object does. The trait the checker searches over, and the objects of LOCO in one file each.
//! Relies on nothing; used by the checker, by the reports for their wording, and by whoever writes an object.

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

/// A sequential specification: states, and which calls with which results lead from one to which others.
///
/// Nondeterminism is allowed: a step may lead to several states. A history is linearizable with respect to the
/// specification if *some* choice explains it.
pub trait Spec {
    /// A state of one partition. Small and cheap to clone and hash: the search remembers many.
    type State: Clone + Eq + Hash + Debug;
    /// An operation with its arguments.
    type Call: Debug;
    /// A result.
    type Ret: Debug;
    /// Names a part of the object that behaves as an object of its own; `&'static str` or the like if there is
    /// only one. By locality (Herlihy and Wing 1990, section 3.2) a history is linearizable if each part is.
    type Key: Clone + Eq + Hash + Display;

    /// Which part of the object `call` concerns.
    fn partition(&self, call: &Self::Call) -> Self::Key;

    /// The state in which the part `key` starts.
    fn initial(&self, key: &Self::Key) -> Self::State;

    /// Pushes onto `next` every state in which the part can be after `call` in `state`, where `ret` is the result
    /// seen, or `None` if the call is pending and any result will do. Pushes nothing if this cannot happen.
    fn step(
        &self,
        state: &Self::State,
        call: &Self::Call,
        ret: Option<&Self::Ret>,
        next: &mut Vec<Self::State>,
    );

    /// Whether `call` with `ret` leaves the state as it is *in every state in which it is legal*. Optional, but
    /// the checker then takes such a call as early as it can, with no way back, which saves most of the search
    /// in histories with many reads. A write that happens to write the present value is no such call.
    fn read_only(&self, _call: &Self::Call, _ret: Option<&Self::Ret>) -> bool {
        false
    }

    /// About how many bytes `state` takes, with what it owns, to keep the search within its memory limit.
    fn state_bytes(&self, state: &Self::State) -> usize {
        size_of_val(state)
    }

    /// The call and its result in words, for reports.
    fn describe(&self, call: &Self::Call, ret: Option<&Self::Ret>) -> String {
        match ret {
            Some(ret) => format!("{call:?} -> {ret:?}"),
            None => format!("{call:?} -> ?"),
        }
    }
}
