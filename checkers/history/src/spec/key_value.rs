//! A map with insert, update, delete and get: LOCO's key-value store (LOCO'25 section 6, appendix C).

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use super::Spec;

/// A map from `K` to `V` that is empty at first. Each key is a partition.
///
/// Whether a store is full depends on all keys together, so `Full` is legal whenever the key is absent. A test of the
/// capacity must count entries itself.
#[derive(Clone, Debug, Default)]
pub struct KeyValue<K, V> {
    types: PhantomData<fn(K, V)>,
}

/// A call of a key-value store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyValueCall<K, V> {
    /// Looks the key up.
    Get(K),
    /// Adds the key, which must be absent.
    Insert(K, V),
    /// Changes the value of the key, which must be present.
    Update(K, V),
    /// Removes the key, which must be present.
    Delete(K),
}

/// A result of a key-value store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyValueRet<V> {
    /// The value that `Get` found.
    Found(V),
    /// `Get`, `Update`, `Delete`: the key is absent; nothing changed.
    Missing,
    /// `Insert`: the key is present already; nothing changed.
    Duplicate,
    /// `Insert`: there is no room; nothing changed.
    Full,
    /// `Insert`, `Update`, `Delete`: done.
    Done,
    /// A node that the call needs was lost, and the call did nothing; only a `Delete` may have removed the key. (If the
    /// effect of a call is unknown, it is pending.)
    Lost,
}

impl<K, V> KeyValue<K, V> {
    /// Makes an empty map.
    pub fn new() -> Self {
        KeyValue { types: PhantomData }
    }
}

impl<K, V> Spec for KeyValue<K, V>
where
    K: Clone + Eq + Hash + Debug + Display,
    V: Clone + Eq + Hash + Debug,
{
    type State = Option<V>;
    type Call = KeyValueCall<K, V>;
    type Ret = KeyValueRet<V>;
    type Key = K;

    fn partition(&self, call: &KeyValueCall<K, V>) -> K {
        let (KeyValueCall::Get(key)
        | KeyValueCall::Insert(key, _)
        | KeyValueCall::Update(key, _)
        | KeyValueCall::Delete(key)) = call;
        key.clone()
    }

    fn initial(&self, _: &K) -> Option<V> {
        None
    }

    fn step(
        &self,
        state: &Option<V>,
        call: &Self::Call,
        ret: Option<&KeyValueRet<V>>,
        next: &mut Vec<Option<V>>,
    ) {
        use KeyValueRet::{Done, Duplicate, Found, Full, Lost, Missing};
        let after = match (call, state, ret) {
            (KeyValueCall::Delete(_), Some(_), Some(Lost)) => {
                next.push(state.clone());
                None
            }
            (_, _, Some(Lost)) => state.clone(),
            (KeyValueCall::Get(_), Some(value), Some(Found(found))) if value == found => state.clone(),
            (KeyValueCall::Get(_), _, None) | (KeyValueCall::Get(_), None, Some(Missing)) => state.clone(),
            (KeyValueCall::Insert(_, value), None, Some(Done)) => Some(value.clone()),
            (KeyValueCall::Insert(_, value), None, None) => {
                next.push(None);
                Some(value.clone())
            }
            (KeyValueCall::Insert(..), None, Some(Full)) => None,
            (KeyValueCall::Insert(..), Some(_), Some(Duplicate) | None) => state.clone(),
            (KeyValueCall::Update(_, value), Some(_), Some(Done) | None) => Some(value.clone()),
            (KeyValueCall::Delete(_), Some(_), Some(Done) | None) => None,
            (KeyValueCall::Update(..) | KeyValueCall::Delete(_), None, Some(Missing) | None) => None,
            _ => return,
        };
        next.push(after);
    }

    fn read_only(&self, call: &Self::Call, ret: Option<&KeyValueRet<V>>) -> bool {
        match ret {
            _ if matches!(call, KeyValueCall::Get(_)) => true,
            Some(KeyValueRet::Lost) => !matches!(call, KeyValueCall::Delete(_)),
            Some(KeyValueRet::Done) | None => false,
            Some(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::KeyValueCall::{Delete, Get, Insert, Update};
    use super::*;

    fn after(state: Option<u8>, call: KeyValueCall<u8, u8>, ret: Option<KeyValueRet<u8>>) -> Vec<Option<u8>> {
        let mut next = Vec::new();
        KeyValue::new().step(&state, &call, ret.as_ref(), &mut next);
        next
    }

    #[test]
    fn a_call_that_a_loss_made_fail_has_changed_nothing() {
        for state in [None, Some(1)] {
            for call in [Get(0), Insert(0, 2), Update(0, 2)] {
                assert!(
                    KeyValue::new().read_only(&call, Some(&KeyValueRet::Lost)),
                    "{call:?}"
                );
                assert_eq!(after(state, call, Some(KeyValueRet::Lost)), [state]);
            }
        }
    }

    #[test]
    fn or_it_was_a_delete_and_the_key_may_be_gone() {
        assert_eq!(
            after(Some(1), Delete(0), Some(KeyValueRet::Lost)),
            [Some(1), None]
        );
        assert_eq!(after(None, Delete(0), Some(KeyValueRet::Lost)), [None]);
        assert!(!KeyValue::<u8, u8>::new().read_only(&Delete(0), Some(&KeyValueRet::Lost)));
    }

    /// A call that never ended, however, may have changed it.
    #[test]
    fn a_call_without_an_end_is_another_matter() {
        assert_eq!(after(None, Insert(0, 2), None), [None, Some(2)]);
        assert_eq!(after(Some(1), Update(0, 2), None), [Some(2)]);
    }
}
