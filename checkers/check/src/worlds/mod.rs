//! The worlds, with a file for each object (or family of objects). Each file opens with the promises of the object that
//! its worlds check.

pub(crate) mod atomic;
mod awaiting;
pub(crate) mod barrier;
pub(crate) mod collective;
pub(crate) mod fence;
pub(crate) mod kv;
mod last_nodes;
pub(crate) mod locks;
pub(crate) mod log;
pub(crate) mod msw;
pub(crate) mod owned_var;
pub(crate) mod queue;
pub(crate) mod region;
pub(crate) mod ring_buffer;
mod robust;
pub(crate) mod shared_var;
pub(crate) mod sst;
pub(crate) mod wide_owned_var;

use crate::Object;
use crate::named_world::NamedWorld;

pub(crate) use robust::asked;

/// Returns the worlds of an object, cheapest world first.
pub fn worlds(object: Object) -> Vec<NamedWorld> {
    match object {
        Object::Fence => fence::worlds(),
        Object::Region => region::worlds(),
        Object::SharedVar => shared_var::worlds(),
        Object::OwnedVar => owned_var::worlds(),
        Object::WideOwnedVar => wide_owned_var::worlds(),
        Object::Sst => sst::worlds(),
        Object::Msw => msw::worlds(),
        Object::Barrier => barrier::worlds(),
        Object::Collective => collective::worlds(),
        Object::RingBuffer => ring_buffer::worlds(),
        Object::Atomic => atomic::worlds(),
        Object::TicketLock => locks::ticket_worlds(),
        Object::TasLock => locks::tas_worlds(),
        Object::Queue => queue::worlds(),
        Object::Kv => kv::worlds(),
        Object::Log => log::worlds(),
    }
}
