//! The types of values that variables can have.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Plain data of a fixed size that every node lays out in the same way: integers, floats, arrays and
/// `repr(C)` structures of them without padding. Such a structure derives `FromBytes`, `IntoBytes` and `Immutable` of
/// [`loco::zerocopy`](crate::zerocopy), which a program need not depend on by itself:
///
/// ```
/// use loco::zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[zerocopy(crate = "loco::zerocopy")]
/// #[repr(C)]
/// struct Reading {
///     volts: f64,
///     amperes: f64,
/// }
///
/// fn is_a_value<T: loco::Value>() {}
/// is_a_value::<Reading>();
/// ```
pub trait Value: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static> Value for T {}

/// A value that fits into one 8-byte word, which neither CPU nor NIC tears.
pub trait AtomicValue: Value + Default + PartialEq + std::fmt::Debug {
    /// The name in channel types (`u64`).
    const NAME: &'static str;
    /// Returns a word with the value in its low bytes.
    fn to_word(self) -> u64;
    /// Returns the value in the low bytes of a word.
    fn from_word(word: u64) -> Self;
}

macro_rules! atomic_value {
    ($($t:ident),*) => {$(
        const _: () = assert!(size_of::<$t>() <= size_of::<u64>());
        impl AtomicValue for $t {
            const NAME: &'static str = stringify!($t);
            #[inline]
            fn to_word(self) -> u64 {
                let mut bytes = [0; 8];
                bytes[..size_of::<$t>()].copy_from_slice(&self.to_le_bytes());
                u64::from_le_bytes(bytes)
            }
            #[inline]
            fn from_word(word: u64) -> Self {
                let mut bytes = [0; size_of::<$t>()];
                bytes.copy_from_slice(&word.to_le_bytes()[..size_of::<$t>()]);
                <$t>::from_le_bytes(bytes)
            }
        }
    )*};
}
atomic_value!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        assert_eq!(i16::from_word((-2i16).to_word()), -2);
        assert_eq!(u8::from_word(200u8.to_word()), 200);
        assert_eq!(f64::from_word(0.25f64.to_word()), 0.25);
        assert_eq!(u64::from_word(u64::MAX.to_word()), u64::MAX);
    }
}
