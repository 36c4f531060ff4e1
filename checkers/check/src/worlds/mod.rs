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
mod tasks;
pub(crate) mod wide_owned_var;

use crate::Object;
use crate::named_world::NamedWorld;

pub(crate) use robust::asked;

/// Returns the worlds of an object, cheapest world first.
pub fn worlds(object: Object) -> Vec<NamedWorld> {
    match object {
        Object::Fence => with_tasks(fence::worlds(), tasks::fence()),
        Object::Region => region::worlds(),
        Object::SharedVar => shared_var::worlds(),
        Object::OwnedVar => owned_var::worlds(),
        Object::WideOwnedVar => wide_owned_var::worlds(),
        Object::Sst => sst::worlds(),
        Object::Msw => msw::worlds(),
        Object::Barrier => with_tasks(barrier::worlds(), tasks::barrier()),
        Object::Collective => collective::worlds(),
        Object::RingBuffer => with_tasks(ring_buffer::worlds(), tasks::ring_buffer()),
        Object::Atomic => atomic::worlds(),
        Object::TicketLock => with_tasks(locks::ticket_worlds(), tasks::ticket_lock()),
        Object::TasLock => with_tasks(locks::tas_worlds(), tasks::tas_lock()),
        Object::Queue => with_tasks(queue::worlds(), tasks::queue()),
        Object::Kv => with_tasks(kv::worlds(), tasks::kv()),
        Object::Log => log::worlds(),
    }
}

/// Returns the worlds of an object with those of its tasks, which come before the larger half of the others.
fn with_tasks(mut worlds: Vec<NamedWorld>, tasks: Vec<NamedWorld>) -> Vec<NamedWorld> {
    let middle = worlds.len() / 2;
    worlds.splice(middle..middle, tasks);
    worlds
}
