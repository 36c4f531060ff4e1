//! The objects that can be checked, by their names on the command line.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A family of shipped objects that share a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// Fences of every scope, over plain puts and gets.
    Fence,
    /// Raw shared regions and temporary registered memory.
    Region,
    /// The shared variable (LOCO'26 3.4).
    SharedVar,
    /// The owned variable of one word.
    OwnedVar,
    /// The owned variable of any size.
    WideOwnedVar,
    /// The shared state table.
    Sst,
    /// The mixed-size write region (LOCO'26 G.6).
    Msw,
    /// The barrier (LOCO'26 4).
    Barrier,
    /// The collective operations.
    Collective,
    /// The ring buffer (LOCO'26 5).
    RingBuffer,
    /// The atomic variable and the atomic array.
    Atomic,
    /// The ticket lock.
    TicketLock,
    /// The test-and-set lock.
    TasLock,
    /// The shared queue.
    Queue,
    /// The key-value store.
    Kv,
    /// The log.
    Log,
}

impl Object {
    /// Every object, in the order in which `loco check` takes them.
    pub const ALL: [Object; 16] = [
        Object::Fence,
        Object::Region,
        Object::SharedVar,
        Object::OwnedVar,
        Object::WideOwnedVar,
        Object::Sst,
        Object::Msw,
        Object::Barrier,
        Object::Collective,
        Object::RingBuffer,
        Object::Atomic,
        Object::TicketLock,
        Object::TasLock,
        Object::Queue,
        Object::Kv,
        Object::Log,
    ];

    /// Returns whether there are worlds of chosen size ([`crate::sized`]).
    pub fn has_sizes(self) -> bool {
        !matches!(
            self,
            Object::Fence | Object::Region | Object::Collective | Object::Log
        )
    }

    /// Returns whether several threads of a node use it at a time in worlds of chosen size.
    pub fn is_for_threads(self) -> bool {
        matches!(
            self,
            Object::Barrier
                | Object::Atomic
                | Object::TicketLock
                | Object::TasLock
                | Object::Queue
                | Object::Kv
        )
    }

    /// Returns the name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Object::Fence => "fence",
            Object::Region => "region",
            Object::SharedVar => "shared-var",
            Object::OwnedVar => "owned-var",
            Object::WideOwnedVar => "wide-owned-var",
            Object::Sst => "sst",
            Object::Msw => "msw",
            Object::Barrier => "barrier",
            Object::Collective => "collective",
            Object::RingBuffer => "ring-buffer",
            Object::Atomic => "atomic",
            Object::TicketLock => "ticket-lock",
            Object::TasLock => "tas-lock",
            Object::Queue => "queue",
            Object::Kv => "kv",
            Object::Log => "log",
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no object has.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("no object `{0}`; the objects are {names}", names = Object::ALL.map(Object::name).join(", "))]
pub struct UnknownObject(String);

impl fmt::Debug for UnknownObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Object {
    type Err = UnknownObject;

    fn from_str(name: &str) -> Result<Object, UnknownObject> {
        Object::ALL
            .into_iter()
            .find(|object| object.name() == name)
            .ok_or_else(|| UnknownObject(name.to_owned()))
    }
}
