//! A lock: mutual exclusion, with holders that may die (LOCO'25 section 5.1.1, ticket lock; test-and-set lock).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Spec;

/// A lock that is free at first. Owners are numbers that the test gives to its threads.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// Owners that died while they may have held the lock. The lock can be recovered from these owners only.
    pub dead: BTreeSet<u32>,
    /// True if `TryAcquire` may fail although the lock is free, as a try that gives up under contention does.
    pub spurious_failure: bool,
}

/// A call of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockCall {
    /// Takes the lock; waits until it is free.
    Acquire {
        /// The owner.
        owner: u32,
    },
    /// Takes the lock if it is free.
    TryAcquire {
        /// The owner.
        owner: u32,
    },
    /// Gives the lock back.
    Release {
        /// The owner.
        owner: u32,
    },
}

/// A result of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockRet {
    /// The caller holds the lock.
    Acquired,
    /// The caller holds the lock, whose last holder died without giving it back.
    Recovered,
    /// The caller does not hold the lock: a failed try.
    Busy,
    /// The wait ended without the lock (at its deadline, or because the holder was lost) and had no effect.
    GaveUp,
    /// The lock is given back.
    Released,
}

impl Spec for Lock {
    type State = Option<u32>;
    type Call = LockCall;
    type Ret = LockRet;
    type Key = &'static str;

    fn partition(&self, _: &LockCall) -> &'static str {
        "lock"
    }

    fn initial(&self, _: &&'static str) -> Option<u32> {
        None
    }

    fn step(
        &self,
        &holder: &Option<u32>,
        call: &LockCall,
        ret: Option<&LockRet>,
        next: &mut Vec<Option<u32>>,
    ) {
        let may = |expected: LockRet| ret.is_none_or(|&ret| ret == expected);
        match *call {
            LockCall::Release { owner } => {
                if holder == Some(owner) && may(LockRet::Released) {
                    next.push(None);
                }
            }
            LockCall::Acquire { owner } | LockCall::TryAcquire { owner } => {
                if (holder.is_none() && may(LockRet::Acquired))
                    || (holder.is_some_and(|h| self.dead.contains(&h)) && may(LockRet::Recovered))
                {
                    next.push(Some(owner));
                }
                let failed = match *call {
                    LockCall::TryAcquire { .. } if holder.is_some() || self.spurious_failure => {
                        may(LockRet::Busy)
                    }
                    LockCall::Acquire { .. } => may(LockRet::GaveUp),
                    _ => false,
                };
                if failed {
                    next.push(holder);
                }
            }
        }
    }

    fn read_only(&self, _: &LockCall, ret: Option<&LockRet>) -> bool {
        matches!(ret, Some(LockRet::Busy | LockRet::GaveUp))
    }
}
