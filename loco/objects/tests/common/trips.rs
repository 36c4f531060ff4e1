//! Counts the round trips of a thread: the batches of operations that it posts and awaits one after another.
//!
//! A batch begins with the first operation that a thread posts after a wait, and ends when the thread begins to wait. Everything is
//! counted by thread, so what a service thread of the node does meanwhile falls into no call.

use std::cell::Cell;

use loco::fabric::{Cost, Order, Posted, Work};

/// The round trips that this thread has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trips {
    /// Batches after which the thread waited for the end of operations of its own.
    pub own: u64,
    /// Waits, at most, that the network inserts between operations because one of them asks for an order.
    pub bought: u64,
    /// Batches after which the thread waited for what another node does about them.
    pub others: u64,
    /// Operations.
    pub operations: u64,
}

impl Trips {
    /// Begins a call: no later wait is for what was posted before. Returns the round trips of this thread so far.
    pub fn begin() -> Trips {
        change(|now| (now.posted, now.pending) = (false, false));
        Trips::so_far()
    }

    /// Returns the round trips of this thread so far.
    pub fn so_far() -> Trips {
        NOW.get().trips
    }

    /// Returns those that were made after `before`.
    pub fn since(self, before: Trips) -> Trips {
        Trips {
            own: self.own - before.own,
            bought: self.bought - before.bought,
            others: self.others - before.others,
            operations: self.operations - before.operations,
        }
    }

    /// Returns the greater of each count.
    pub fn max(self, other: Trips) -> Trips {
        Trips {
            own: self.own.max(other.own),
            bought: self.bought.max(other.bought),
            others: self.others.max(other.others),
            operations: self.operations.max(other.operations),
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy, Default)]
struct Now {
    trips: Trips,
    /// Whether an operation was posted since the last wait, and whether one of these is pending.
    posted: bool,
    pending: bool,
    /// The number of waits for operations of its own.
    waits: u64,
}

thread_local! {
    static NOW: Cell<Now> = const {
        Cell::new(Now {
            trips: Trips { own: 0, bought: 0, others: 0, operations: 0 },
            posted: false,
            pending: false,
            waits: 0,
        })
    };
}

fn change(what: impl FnOnce(&mut Now)) {
    let mut now = NOW.get();
    what(&mut now);
    NOW.set(now);
}

/// Notes that this thread begins to wait for the end of its operations.
pub fn waits_for_own() {
    change(|now| {
        now.trips.own += u64::from(now.pending);
        now.waits += 1;
        (now.posted, now.pending) = (false, false);
    });
}

/// Notes that this thread begins to wait for something else.
pub fn waits_for_others() {
    change(|now| {
        now.trips.others += u64::from(now.posted);
        (now.posted, now.pending) = (false, false);
    });
}

/// The kinds of operations, by what others may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// Puts and read-modify-writes.
    Write,
    Read,
    Flush,
}

/// What is known of a queue pair.
pub struct Pair {
    order: Order,
    /// The number of waits of the thread when it posted a write that it has not awaited since.
    written: Option<u64>,
}

impl Pair {
    pub fn new(order: Order) -> Pair {
        Pair { order, written: None }
    }

    /// Notes that this thread has posted an operation.
    pub fn posted(&mut self, kind: Post, work: Work, posted: Posted) {
        change(|now| {
            now.trips.operations += 1;
            now.posted = true;
            now.pending |= posted == Posted::Pending;
            let asks = work.strong || kind == Post::Flush;
            if asks && self.written == Some(now.waits) {
                let cost = match kind {
                    Post::Flush => self.order.flush,
                    _ => self.order.strong,
                };
                let bought = match cost {
                    Cost::Free | Cost::Flag | Cost::Read => 0,
                    Cost::Wait => 1,
                    // The read of a flush is the flush, which the thread awaits itself.
                    Cost::WaitAndRead => 1 + u64::from(kind != Post::Flush),
                };
                now.trips.bought += bought;
                if bought > 0 {
                    self.written = None;
                }
            }
            if kind == Post::Write {
                self.written = Some(now.waits);
            }
        });
    }
}
