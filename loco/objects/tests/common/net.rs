//! The objects on the fabric of the tests, by the names that programs know them by.

#![allow(dead_code)] // Each test file uses its part.

use super::Net;

macro_rules! on_net {
    ($($name:ident<$($of:ident),*>,)*) => {$(
        /// See the type of this name in `loco`.
        pub type $name<$($of,)* F = Net> = loco::$name<$($of,)* F>;
    )*};
}

on_net! {
    AckFuture<>,
    AckKey<>,
    AtomicArray<T>,
    AtomicVar<T>,
    Barrier<>,
    Channel<>,
    Collective<T>,
    KvStore<K, V>,
    Log<>,
    Manager<>,
    Msw<>,
    OwnedVar<T>,
    Region<>,
    RingBuffer<>,
    RingReader<>,
    RingWriter<>,
    SharedQueue<T>,
    SharedRegion<>,
    SharedVar<T>,
    Sst<T>,
    TasLock<>,
    Thread<>,
    TicketLock<>,
    WideOwnedVar<T>,
}

/// See `loco::LockGuard`.
pub type LockGuard<'a, L, F = Net> = loco::LockGuard<'a, L, F>;

/// The types of `loco::asynchronous`, whose feature is on in tests.
macro_rules! asynchronous_on_net {
    ($($name:ident,)*) => {$(
        /// See the type of this name in `loco::asynchronous`.
        pub type $name<F = Net> = loco::asynchronous::$name<F>;
    )*};
}

asynchronous_on_net! {
    AsyncThread,
    Driver,
    RingSink,
    RingStream,
}
