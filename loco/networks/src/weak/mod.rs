//! A provider of libfabric that is as weak as its attributes allow, or as a network of a tier is: it stands before `tcp` and
//! uses all the freedom that these leave it.
//!
//! The libfabric fabric gets it as a library ([`WeakProvider::config`]): its table of functions opens the objects of the real
//! library, and puts functions of its own into those tables of theirs through which operations are posted and reported.
//! All else of the real provider stays as it is.
//!
//! From the bottom: `promises` (orders that a provider keeps), `message` (operations as libfabric gets them), `held` (the
//! operations that are held back, and the choice of the next step), `table` (functions in place of an object's own), `object`
//! (those of endpoints and completion queues), `library` (those of the library), `provider` (the handle of tests).

mod held;
mod library;
mod message;
mod object;
mod promises;
mod provider;
mod table;

pub use promises::{Keeps, Order, Orders};
pub use provider::WeakProvider;
