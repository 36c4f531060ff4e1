//! A read/write register, which specifies LOCO's shared and owned variables where these are atomic.

use std::fmt::Debug;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::Spec;

/// A register that holds a `V`.
#[derive(Clone, Debug, Default)]
pub struct Register<V> {
    initial: V,
}

/// A call of a register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegisterCall<V> {
    /// Reads the value.
    Read,
    /// Writes a value.
    Write(V),
}

/// A result of a register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegisterRet<V> {
    /// The value read.
    Value(V),
    /// The write is done.
    Written,
}

impl<V> Register<V> {
    /// Makes a register that starts with `initial`.
    pub fn new(initial: V) -> Self {
        Register { initial }
    }
}

impl<V: Clone + Eq + Hash + Debug> Spec for Register<V> {
    type State = V;
    type Call = RegisterCall<V>;
    type Ret = RegisterRet<V>;
    type Key = &'static str;

    fn partition(&self, _: &RegisterCall<V>) -> &'static str {
        "register"
    }

    fn initial(&self, _: &&'static str) -> V {
        self.initial.clone()
    }

    fn step(&self, state: &V, call: &RegisterCall<V>, ret: Option<&RegisterRet<V>>, next: &mut Vec<V>) {
        match (call, ret) {
            (RegisterCall::Read, Some(RegisterRet::Value(value))) if value == state => {
                next.push(state.clone())
            }
            (RegisterCall::Read, None) => next.push(state.clone()),
            (RegisterCall::Write(value), Some(RegisterRet::Written) | None) => next.push(value.clone()),
            _ => {}
        }
    }

    fn read_only(&self, call: &RegisterCall<V>, _: Option<&RegisterRet<V>>) -> bool {
        matches!(call, RegisterCall::Read)
    }
}
