//! Makes reliable connections between nodes. This is the active side: the thread that wants a queue pair
//! connects. The passive side is the peer's `service`.

use std::ffi::c_void;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{Control, FabricError, NodeId, Platform, Result, Std, Time};
use loco_job::Mesh;
use serde::{Deserialize, Serialize};

use super::cm::{CmAddress, Event, EventSource, Id, unexpected};
use super::device::Device;
use super::ffi::types::*;

/// The protocol version. It changes when [`Hello`] or the bring-up data do.
pub(super) const VERSION: u32 = 3;
/// The retries of a packet before the operation fails; 3 bits.
pub(super) const RETRIES: u8 = 7;
/// The time between two looks of a waiting thread at the mesh.
const GLANCE: Duration = Duration::from_millis(50);
/// The data by which the active side introduces itself. They fit the 56 bytes of private data that a request
/// can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    /// A token that the accepting node gave at set-up. It proves that the requester belongs to this job and
    /// to this run of it.
    pub(super) token: u64,
    pub(super) from: NodeId,
}

/// The reason why a request was rejected.
#[derive(Clone, Copy)]
pub(super) enum Reason {
    Version = 1,
    Token = 2,
    Failed = 3,
    /// The requester was declared lost.
    Lost = 4,
}

/// The active side of a connection. Fields are dropped in order: the identifier before its events.
pub(super) struct Connection {
    pub(super) qp: *mut Qp,
    pub(super) depth: u32,
    pub(super) id: Id,
    _events: EventSource,
    _device: Arc<Device>,
}

// SAFETY: see `Device`; `qp` belongs to `id`.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        self.id.disconnect();
    }
}

/// The node to connect to, and how long to try.
pub(super) struct Dial<'a> {
    pub(super) device: &'a Arc<Device>,
    pub(super) to: SocketAddr,
    pub(super) peer: NodeId,
    pub(super) hello: Hello,
    pub(super) ack_timeout: u8,
    pub(super) mesh: &'a Mesh,
    pub(super) timeout: Duration,
}

impl Dial<'_> {
    /// Connects, with a send queue of at least the device's depth.
    pub(super) fn connect(&self) -> Result<Connection> {
        let start = Std.now();
        let deadline = start.after(self.timeout);
        let device = self.device;
        let events = EventSource::new(device.api)?;
        let id = Id::new(device.api, &events)?;
        let from = CmAddress::new(SocketAddr::new(device.choice.address, 0));
        id.resolve_address(&from, &CmAddress::new(self.to))?;
        self.expect(&events, RDMA_CM_EVENT_ADDR_RESOLVED, start, deadline)?;
        if self.ack_timeout > 0 {
            id.set_ack_timeout(self.ack_timeout);
        }
        id.resolve_route()?;
        self.expect(&events, RDMA_CM_EVENT_ROUTE_RESOLVED, start, deadline)?;

        let depth = device.limits.queue_depth;
        let mut attr = device.queue_pair_attr(depth, device.limits.inline_bytes_max);
        // SAFETY: domain and queue live as long as the device, which the connection keeps; the identifier is bound to
        // the device by its source address.
        let qp = unsafe { id.create_queue_pair(device.pd, &mut attr) }?;
        let hello = postcard::to_stdvec(&self.hello).map_err(|e| FabricError::Config(e.to_string()))?;
        let mut parameters = ConnParam {
            private_data: hello.as_ptr().cast::<c_void>(),
            private_data_len: u8::try_from(hello.len()).unwrap_or(u8::MAX),
            // The peer never reads through this queue pair, but some devices refuse zero.
            responder_resources: 1,
            initiator_depth: device.limits.reads_started,
            retry_count: RETRIES,
            rnr_retry_count: RETRIES,
            ..zeroed()
        };
        id.connect(&mut parameters)?;
        self.expect(&events, RDMA_CM_EVENT_ESTABLISHED, start, deadline)?;
        Ok(Connection {
            qp,
            depth,
            id,
            _events: events,
            _device: Arc::clone(device),
        })
    }

    /// Waits for an event of `kind`. Any other event is an error.
    fn expect(&self, events: &EventSource, kind: u32, start: Time, deadline: Time) -> Result<()> {
        loop {
            if let Some(event) = events.next(GLANCE)? {
                return self.check(kind, &event);
            }
            if self.mesh.is_gone(self.peer) {
                return Err(FabricError::PeerLost(self.peer));
            }
            let now = Std.now();
            if now >= deadline {
                return Err(FabricError::Timeout {
                    what: format!("an RDMA connection to {} at {}", self.peer, self.to),
                    after: now.since(start),
                });
            }
        }
    }

    fn check(&self, kind: u32, event: &Event) -> Result<()> {
        if event.kind == kind && event.status == 0 {
            return Ok(());
        }
        if self.mesh.is_gone(self.peer) {
            return Err(FabricError::PeerLost(self.peer));
        }
        let refused =
            |why: &str| FabricError::Refused(format!("{} refused an RDMA connection: {why}", self.peer));
        match (event.kind, event.private_data.first()) {
            (RDMA_CM_EVENT_REJECTED, Some(&r)) if r == Reason::Version as u8 => {
                Err(refused("it runs another version"))
            }
            (RDMA_CM_EVENT_REJECTED, Some(&r)) if r == Reason::Token as u8 => Err(refused(
                "it does not know this job: is another program at that address?",
            )),
            (RDMA_CM_EVENT_REJECTED, Some(&r)) if r == Reason::Lost as u8 => Err(FabricError::DeclaredLost),
            (RDMA_CM_EVENT_REJECTED, Some(&r)) if r == Reason::Failed as u8 => {
                Err(refused("it could not make a queue pair; its log says why"))
            }
            _ => Err(unexpected(
                &format!(
                    "connecting to {} at {} (can the hosts reach each other through these RDMA ports? `rping` and \
                     `ping` test it)",
                    self.peer, self.to
                ),
                event,
            )),
        }
    }
}
