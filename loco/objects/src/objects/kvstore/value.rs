//! Keys and values of a key-value store: plain data of fixed size, or bytes.

use crate::Value;

/// A type of keys or values of a [`KvStore`](super::KvStore). Plain data ([`Value`]) and [`Bytes`] implement
/// it.
pub trait Encode: Clone + Send + Sync + 'static {
    /// The length of every encoding, if all have the same length. A lookup then reads no more than that.
    const BYTES: Option<usize>;

    /// Returns the encoding. Equal keys have equal encodings.
    fn bytes(&self) -> &[u8];

    /// Decodes a value. Returns `None` if these bytes are not an encoding.
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
