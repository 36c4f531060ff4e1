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
use crate::rung::Rung;

pub(crate) use robust::asked;

/// Returns the rungs of an object, cheapest world first.
pub fn rungs(object: Object) -> Vec<Rung> {
    match object {
        Object::Fence => fence::rungs(),
        Object::Region => region::rungs(),
        Object::SharedVar => shared_var::rungs(),
        Object::OwnedVar => owned_var::rungs(),
        Object::WideOwnedVar => wide_owned_var::rungs(),
        Object::Sst => sst::rungs(),
        Object::Msw => msw::rungs(),
        Object::Barrier => barrier::rungs(),
        Object::Collective => collective::rungs(),
        Object::RingBuffer => ring_buffer::rungs(),
        Object::Atomic => atomic::rungs(),
        Object::TicketLock => locks::ticket_rungs(),
        Object::TasLock => locks::tas_rungs(),
        Object::Queue => queue::rungs(),
        Object::Kv => kv::rungs(),
        Object::Log => log::rungs(),
    }
}
