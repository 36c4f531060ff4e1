//! What a key-value store holds: plain data of fixed size, or bytes.

use crate::Value;

/// A key or a value of a [`KvStore`](super::KvStore). Plain data ([`Value`]) and [`Bytes`] are.
pub trait Encode: Clone + Send + Sync + 'static {
    /// Length of every encoding, if all have the same: a lookup reads no more than that.
    const BYTES: Option<usize>;

    /// The encoding. Equal keys have equal encodings.
    fn bytes(&self) -> &[u8];

    /// From the encoding; `None` if these bytes are none.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl<T: Value> Encode for T {
    const BYTES: Option<usize> = Some(size_of::<T>());

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        T::read_from_bytes(bytes).ok()
    }
}

/// Bytes of any length up to the store's limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Encode for Bytes {
    const BYTES: Option<usize> = None;

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Bytes(bytes.to_vec()))
    }
}
