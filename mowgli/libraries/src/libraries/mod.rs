//! The specifications of the libraries. Each has a file, to be read beside its definition.
//!
//! RDMA^WAIT, shared variables, barriers, ring buffers and mixed-size writes are specified in LOCO'26.
//! Libraries that the papers leave out have specifications of ours: owned variables and tables, atomic
//! variables, locks, queues and stores, fences by scope.

pub(crate) mod barrier;
mod fences;
mod mixed_size;
mod owned;
mod rdma_tso;
mod rdma_wait;
pub(crate) mod ring_buffer;
mod sequential;
mod shared_variable;

pub use barrier::{Barrier, Reach};
pub use fences::Fences;
pub use mixed_size::MixedSize;
pub use owned::Owned;
pub use rdma_tso::RdmaTso;
pub use rdma_wait::RdmaWait;
pub use ring_buffer::{RingBuffer, Strength};
pub use sequential::Sequential;
pub use shared_variable::SharedVariable;

use crate::client::{Library, Setting};
use crate::library::{Libraries, Specification};

/// Returns the specifications that a setting stands for. A setting of an implementation has the specifications of the
/// libraries that the implementation uses. The setting `shipped` has what the shipped objects promise: the transitive
/// barrier, and Def. 5.2 of ring buffers as printed.
pub fn libraries(setting: Setting) -> Libraries<'static> {
    let barrier: &dyn Specification = match setting {
        Setting::TransitiveBarrier | Setting::Shipped => &Barrier {
            reach: Reach::AllNodes,
        },
        _ => &Barrier {
            reach: Reach::Participants,
        },
    };
    let ring: &dyn Specification = match setting {
        Setting::WeakRing => &RingBuffer {
            strength: Strength::Weak,
        },
        Setting::PaperRing | Setting::Shipped => &RingBuffer {
            strength: Strength::Paper,
        },
        _ => &RingBuffer {
            strength: Strength::Strong,
        },
    };
    // I_W calls RDMA^TSO in its place.
    let words: &dyn Specification = match setting {
        Setting::ImplWait => &RdmaTso,
        _ => &RdmaWait,
    };
    Libraries::new([
        words,
        &SharedVariable { mixed: false },
        &SharedVariable { mixed: true },
        barrier,
        ring,
        &MixedSize,
        &Fences,
        &OWNED,
        &SST,
        &ATOMIC,
        &LOCK,
        &QUEUE,
        &STORE,
    ])
}

const OWNED: Owned = Owned {
    library: Library::Owned,
};
const SST: Owned = Owned {
    library: Library::Sst,
};
const ATOMIC: Sequential = Sequential {
    library: Library::Atomic,
};
const LOCK: Sequential = Sequential {
    library: Library::Lock,
};
const QUEUE: Sequential = Sequential {
    library: Library::Queue,
};
const STORE: Sequential = Sequential {
    library: Library::Store,
};
