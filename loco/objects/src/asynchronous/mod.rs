//! Asynchronous forms of everything that waits, on any executor. Built with the feature `async`.
//!
//! ```
//! use loco::asynchronous::{Async, Driver};
//! use loco::{Barrier, Manager, TicketLock, fence::Scope, testing};
//!
//! testing::run(2, |fabric| {
//!     let manager = Manager::new(fabric)?;
//!     let lock = Async::new(TicketLock::new(&manager, "lock", manager.nodes()[0])?);
//!     let barrier = Async::new(Barrier::new(&manager, "barrier")?);
//!     manager.wait_for_ready()?;
//!
//!     let driver = Driver::new(&manager)?; // one thread, which waits for all tasks of the node
//!     let thread = driver.thread()?; // what a task uses in place of a `Thread`
//!     pollster::block_on(async {
//!         let guard = lock.lock(&thread, Scope::Thread).await?;
//!         guard.release().await?;
//!         barrier.wait(&thread).await
//!     })
//! });
//! ```
//!
//! # How it works
//!
//! There is no second form of the calls for tasks. An asynchronous call is the
//! blocking call, made on a stack of its own ([`loco_host::fiber`]). Where it would wait, the stack is set aside,
//! and the thread of the node's [`Driver`] turns to the other calls under way. One thread therefore waits for
//! thousands of calls, and no waiting call keeps another from running: there is no pool that could be full of calls
//! which wait for one that has not begun.
//!
//! On a fabric whose operations are done when they are posted (shared memory), a call that need not wait is made on
//! the thread that polls the future, without the driver.
//!
//! # Who wakes a task
//!
//! A task is woken once, when its call is over, and not before: executors never poll in vain. The driver finds out
//! that a call can continue. While events arrive, it checks the conditions of all calls under way in rounds, without
//! pauses. Then it sleeps until the node's [doorbell](loco_fabric::Doorbell) rings, where the fabric has one and
//! rings it for everything that the calls wait for: over shared memory, for operations of other nodes; over verbs,
//! for completions. Elsewhere it checks with pauses that grow to 100 us, as a single blocked thread does in its first
//! second. Completions of operations (see [`AckKey`](crate::AckKey), which can be awaited without this feature) are
//! polled in the same rounds.
//!
//! # Deadlines and cancellation
//!
//! Calls have the deadlines that blocking calls have: [`Config::deadline`](crate::Config::deadline), unless the
//! thread was given [another](crate::Thread::set_deadline). Dropping a future gives its call up: the present wait of
//! the call ends as if its deadline had come, and the call ends as after a timeout, which each blocking form
//! documents. The call first takes the steps on which others depend. A later call of the same [`AsyncThread`] waits
//! for that.
//!
//! `docs/async.md` has a tour, and the costs.

mod barrier;
mod call;
mod call_queue;
mod driver;
mod lock;
mod ring;
mod shared;
mod shared_queue;
mod store;
mod thread;
mod update;

pub use driver::Driver;
pub use lock::AsyncGuard;
pub use ring::{RingSink, RingStream};
pub use shared::Async;
pub use thread::AsyncThread;
pub use update::AsyncUpdate;
