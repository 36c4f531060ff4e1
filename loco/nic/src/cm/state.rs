//! Holds the state behind identifiers, event channels and events.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::frames::{Frame, Letter};
use crate::events::Events;
use crate::ffi::*;

/// An event channel.
#[repr(C)]
pub(super) struct ChannelObject {
    pub channel: EventChannel,
    pub events: Arc<Events<Arrived>>,
}

/// An identifier.
#[repr(C)]
pub(super) struct IdObject {
    pub id: CmId,
    pub shared: Arc<Shared>,
}

/// An event, as the program has it.
#[repr(C)]
pub(super) struct EventObject {
    pub event: CmEvent,
    pub private: Vec<u8>,
}

/// Something that has happened to an identifier, and is not yet an event.
#[derive(Clone)]
pub(super) struct Arrived {
    pub shared: Arc<Shared>,
    pub what: What,
}

#[derive(Clone)]
pub(super) enum What {
    /// An event of this type and status.
    Event(u32, i32),
    /// A message of the peer.
    Letter(Box<Letter>),
    /// Somebody connects: what is known of the new connection.
    Request(Box<Letter>, Arc<Shared>),
}

/// What threads know of an identifier.
pub(super) struct Shared {
    pub inner: Mutex<Inner>,
}

/// The state of an identifier.
pub(super) struct Inner {
    /// The program's object, or 0 when there is none.
    pub address: usize,
    pub events: Arc<Events<Arrived>>,
    pub stream: Option<Arc<UnixStream>>,
    /// What the peer has said of itself.
    pub peer: Option<Frame>,
    /// What this side wants.
    pub own: Wanted,
    pub connected: bool,
    /// The file of a listener.
    pub listens: Option<PathBuf>,
    /// True if calls wait for their events.
    pub waits: bool,
    /// The encoding of the time that a peer may take to answer.
    pub ack_timeout: Option<u8>,
}

/// The parameters that a program gives for a connection.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted {
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    /// The number of a queue pair that the program has made by itself.
    pub qpn: u32,
}

impl Shared {
    /// Makes the state of a new identifier.
    pub fn new(events: Arc<Events<Arrived>>, waits: bool) -> Arc<Shared> {
        Arc::new(Shared {
            inner: Mutex::new(Inner {
                address: 0,
                events,
                stream: None,
                peer: None,
                own: Wanted::default(),
                connected: false,
                listens: None,
                waits,
                ack_timeout: None,
            }),
        })
    }

    /// Notes that something has happened.
    pub fn happens(self: &Arc<Shared>, what: What) {
        let events = Arc::clone(&crate::events::lock(&self.inner).events);
        events.push(Arrived {
            shared: Arc::clone(self),
            what,
        });
    }
}

/// Makes an identifier.
pub(super) fn make_id(shared: Arc<Shared>, channel: *mut EventChannel, space: u32) -> *mut CmId {
    let mut id: CmId = zeroed();
    id.channel = channel;
    id.ps = space;
    id.qp_type = if space == RDMA_PS_UDP {
        IBV_QPT_UD
    } else {
        IBV_QPT_RC
    };
    let object = Box::into_raw(Box::new(IdObject {
        id,
        shared: Arc::clone(&shared),
    }));
    crate::events::lock(&shared.inner).address = object.expose_provenance();
    object.cast()
}

/// Returns the state of an identifier.
///
/// # Safety
/// `id` is the program's own.
pub(super) unsafe fn shared_of(id: *mut CmId) -> Arc<Shared> {
    // SAFETY: as the caller's; every identifier is the first field of such an object.
    Arc::clone(&unsafe { &*id.cast::<IdObject>() }.shared)
}
