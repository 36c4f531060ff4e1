//! What a key-value store holds: plain data of fixed size, or bytes.

use crate::Value;

/// A key or a value of a [`KvStore`](super::KvStore). Plain data ([`Value`]) and [`Bytes`] are.
pub trait Encode: Clone + Send + Sync + 'static {
    /// The encoding. Equal keys have equal encodings.
    fn bytes(&self) -> &[u8];

    /// From the encoding; `None` if these bytes are none.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl<T: Value> Encode for T {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        T::read_from_bytes(bytes).ok()
    }
}

/// Bytes of any length up to the store's limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Encode for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Bytes(bytes.to_vec()))
    }
}
