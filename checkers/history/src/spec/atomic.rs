//! LOCO's atomic variable (LOCO'25 section 5.1.1): a 64-bit word with read-modify-writes.

use serde::{Deserialize, Serialize};

use super::Spec;

/// A 64-bit atomic variable.
#[derive(Clone, Debug, Default)]
pub struct Atomic {
    initial: u64,
}

/// A call of an atomic variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtomicCall {
    /// Reads the value.
    Read,
    /// Writes a value.
    Write(u64),
    /// Adds (wrapping) and returns the old value.
    FetchAdd(u64),
    /// Writes `new` if the value is `expected`. Returns the old value in both cases.
    CompareSwap {
        /// The value that must be there.
        expected: u64,
        /// The value to write.
        new: u64,
    },
    /// Writes a value and returns the old one.
    Swap(u64),
}

/// A result of an atomic variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtomicRet {
    /// The value read, or the old value for a read-modify-write.
    Value(u64),
    /// The write is done.
    Written,
}

impl Atomic {
    /// Makes a variable that starts with `initial`.
    pub fn new(initial: u64) -> Self {
        Atomic { initial }
    }
}

impl Spec for Atomic {
    type State = u64;
    type Call = AtomicCall;
    type Ret = AtomicRet;
    type Key = &'static str;

    fn partition(&self, _: &AtomicCall) -> &'static str {
        "atomic"
    }

    fn initial(&self, _: &&'static str) -> u64 {
        self.initial
    }

    fn step(&self, &state: &u64, call: &AtomicCall, ret: Option<&AtomicRet>, next: &mut Vec<u64>) {
        let fits = match (call, ret) {
            (_, None) => true,
            (AtomicCall::Write(_), Some(ret)) => *ret == AtomicRet::Written,
            (_, Some(ret)) => *ret == AtomicRet::Value(state),
        };
        if fits {
            next.push(match *call {
                AtomicCall::Read => state,
                AtomicCall::Write(value) | AtomicCall::Swap(value) => value,
                AtomicCall::FetchAdd(add) => state.wrapping_add(add),
                AtomicCall::CompareSwap { expected, new } if state == expected => new,
                AtomicCall::CompareSwap { .. } => state,
            });
        }
    }

    fn read_only(&self, call: &AtomicCall, ret: Option<&AtomicRet>) -> bool {
        match *call {
            AtomicCall::Read | AtomicCall::FetchAdd(0) => true,
            // The result shows whether a compare-and-swap failed.
            AtomicCall::CompareSwap { expected, .. } => {
                matches!(ret, Some(&AtomicRet::Value(old)) if old != expected)
            }
            _ => false,
        }
    }
}
