//! Holds the state behind identifiers, event channels and events.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::frames::{Frame, Letter, kind};
use super::line::Line;
use crate::events::{Events, Unacknowledged, lock};
use crate::ffi::*;

/// The events of the channels that there are, by the address of the program's object. A program may ask for the next event of a channel
/// while another of its threads gives the channel back.
static CHANNELS: Mutex<BTreeMap<usize, Arc<Events<Arrived>>>> = Mutex::new(BTreeMap::new());

/// Makes the program's object of a channel with these events.
pub(super) fn make_channel(events: Events<Arrived>) -> *mut EventChannel {
    let channel = Box::into_raw(Box::new(EventChannel { fd: events.fd() }));
    lock(&CHANNELS).insert(channel.expose_provenance(), Arc::new(events));
    channel
}

/// Returns the events of a channel; `None` if there is no such channel, or no more. Nothing of `channel` is read.
pub(super) fn events_of(channel: *mut EventChannel) -> Option<Arc<Events<Arrived>>> {
    lock(&CHANNELS).get(&channel.addr()).cloned()
}

/// Takes a channel back, unless there is none.
///
/// # Safety
/// The program no longer uses the object, except to ask for events.
pub(super) unsafe fn drop_channel(channel: *mut EventChannel) {
    if lock(&CHANNELS).remove(&channel.addr()).is_some() {
        // SAFETY: `make_channel` made it, and it was in the map until now.
        drop(unsafe { Box::from_raw(channel) });
    }
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
    /// Keeps the event's identifier until the program acknowledges the event.
    pub delivery: Delivery,
}

/// An event on its way to the program, or with it. While there is one the object of its identifier stays.
pub(super) struct Delivery(Arc<Shared>);

impl Drop for Delivery {
    fn drop(&mut self) {
        self.0.unacknowledged.acknowledge(1);
    }
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
    /// The other process is gone, or its identifier is.
    Gone,
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none, or no more.
    None,
    /// One side has asked, and it is not decided.
    Asked,
    Connected,
}

/// What threads know of an identifier.
pub(super) struct Shared {
    pub inner: Mutex<Inner>,
    /// Counts the deliveries.
    pub unacknowledged: Unacknowledged,
}

/// The state of an identifier.
pub(super) struct Inner {
    /// The program's object, or 0 when there is none.
    pub address: usize,
    pub events: Arc<Events<Arrived>>,
    pub stream: Option<Arc<Line>>,
    /// What the peer has said of itself.
    pub peer: Option<Frame>,
    /// What this side wants.
    pub own: Wanted,
    pub phase: Phase,
    pub is_datagram: bool,
    /// True when the program has given the identifier back: nothing happens to it any more.
    pub destroyed: bool,
    /// The file of a listener, or of one that has a port and does not listen yet.
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
    pub fn new(events: Arc<Events<Arrived>>, waits: bool, is_datagram: bool) -> Arc<Shared> {
        Arc::new(Shared {
            inner: Mutex::new(Inner {
                address: 0,
                events,
                stream: None,
                peer: None,
                own: Wanted::default(),
                phase: Phase::None,
                is_datagram,
                destroyed: false,
                listens: None,
                waits,
                ack_timeout: None,
            }),
            unacknowledged: Unacknowledged::default(),
        })
    }

    /// Begins a delivery to the program's object, which it returns. Returns `None` if the identifier is destroyed.
    pub fn deliver(self: &Arc<Shared>) -> Option<(*mut CmId, Delivery)> {
        let inner = lock(&self.inner);
        if inner.address == 0 {
            return None;
        }
        // Before `destroy`, after which `destroy_id` waits for the acknowledgement.
        self.unacknowledged.taken();
        let id = std::ptr::with_exposed_provenance_mut(inner.address);
        Some((id, Delivery(Arc::clone(self))))
    }

    /// Notes that something has happened, if it is an event: the channel is readable only while it has one.
    pub fn happens(self: &Arc<Shared>, what: What) {
        let mut inner = lock(&self.inner);
        if inner.destroyed {
            return;
        }
        let what = match what {
            What::Gone => inner.ends(true),
            What::Letter(letter) => match letter.frame.kind {
                kind::DISCONNECT | kind::DISCONNECTED => inner.ends(false),
                // A sender of datagrams waits for no further letter.
                kind::READY if inner.is_datagram => None,
                kind::REPLY | kind::READY | kind::REJECT => {
                    let connects = letter.frame.kind != kind::REJECT && !inner.is_datagram;
                    inner.phase = if connects { Phase::Connected } else { Phase::None };
                    Some(What::Letter(letter))
                }
                _ => None,
            },
            other => Some(other),
        };
        if let Some(what) = what {
            inner.events.push(Arrived {
                shared: Arc::clone(self),
                what,
            });
        }
    }

    /// Lets nothing happen to the identifier any more, and ends its connection.
    pub fn destroy(&self) {
        let stream = {
            let mut inner = lock(&self.inner);
            inner.destroyed = true;
            inner.address = 0;
            inner.stream.take()
        };
        if let Some(stream) = stream {
            stream.shut();
        }
    }
}

impl Inner {
    /// Ends the connection, and returns what the program is told. A connection that was asked for and does not come about is as one
    /// that is not answered.
    fn ends(&mut self, gone: bool) -> Option<What> {
        match std::mem::replace(&mut self.phase, Phase::None) {
            Phase::Asked if gone => Some(What::Event(RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT)),
            Phase::Connected => Some(What::Event(RDMA_CM_EVENT_DISCONNECTED, 0)),
            Phase::None | Phase::Asked => None,
        }
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
    lock(&shared.inner).address = object.expose_provenance();
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
