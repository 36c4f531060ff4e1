//! Reliable connections between nodes.
//!
//! The thread that wants a queue pair connects (active side); the peer's service thread accepts and keeps the other end
//! (passive side), on which nothing is ever posted: it only lets the peer at this node's memory. It goes when
//! the active side disconnects, or when the peer is lost.

use std::collections::HashMap;
use std::ffi::c_void;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cm::{CmAddress, Event, EventSource, Id, readable, unexpected};
use super::device::{Device, os};
use super::ffi::types::*;
use super::outage::Outage;
use super::send_queue::{Poller, SendQueue};
use super::sysfs;
use crate::{Control, FabricError, Mesh, NodeId, PeerState, Platform, Result, Std, Time};

/// Changes when [`Hello`] or the bring-up data do.
pub(super) const VERSION: u32 = 1;
/// Retries of a packet before the operation fails; 3 bits.
const RETRIES: u8 = 7;
/// How often waiting threads look at the mesh.
const GLANCE: Duration = Duration::from_millis(50);
/// How often the service thread looks at the port.
const LINK_GLANCE: Duration = Duration::from_secs(1);
/// How often the service thread looks for lost peers.
const SERVICE_GLANCE: Duration = Duration::from_millis(200);

/// What the active side says of itself; fits the 56 bytes of private data that a request can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    /// Given by the accepting node at set-up: proves that the requester belongs to this job, and this run of it.
    pub(super) token: u64,
    pub(super) from: NodeId,
}

/// Why a request was rejected.
#[derive(Clone, Copy)]
enum Reason {
    Version = 1,
    Token = 2,
    Failed = 3,
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

/// Whom to connect to, and how long to try.
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
            // The peer never reads through this queue pair; zero is refused by some devices.
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

    /// Waits for an event of `kind`; anything else is an error.
    fn expect(&self, events: &EventSource, kind: u32, start: Time, deadline: Time) -> Result<()> {
        loop {
            if let Some(event) = events.next(GLANCE)? {
                return self.check(kind, &event);
            }
            if self.mesh.peer_state(self.peer) != PeerState::Alive {
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
        if self.mesh.peer_state(self.peer) != PeerState::Alive {
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

/// The thread that accepts connections, and that destroys queue pairs away from the polling path.
pub(super) struct Service {
    wake: Arc<OwnedFd>,
    tasks: Mutex<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

enum Task {
    Destroy(Arc<SendQueue>),
    Stop,
}

impl Service {
    /// Starts the thread. It fails the queue pairs of `poller` when the port has been down for the time that `watch` has.
    pub(super) fn start(
        device: Arc<Device>,
        mesh: Mesh,
        token: u64,
        poller: Arc<Mutex<Poller>>,
        watch: Option<Duration>,
        outage: Arc<Outage>,
    ) -> Result<Service> {
        let wake = rustix::event::eventfd(
            0,
            rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
        )
        .map_err(|e| os("making an eventfd", &e.into()))?;
        let wake = Arc::new(wake);
        let (sender, receiver) = channel();
        let acceptor = Acceptor {
            passive: HashMap::new(),
            departures_seen: 0,
            link: LinkWatch {
                limit: watch,
                looked: Std.now(),
                down_since: None,
                outage,
            },
            poller,
            device,
            mesh,
            token,
        };
        let thread = {
            let wake = Arc::clone(&wake);
            std::thread::Builder::new()
                .name("loco-verbs".to_owned())
                .spawn(move || acceptor.run(&wake, &receiver))
                .map_err(|e| os("starting the thread that accepts RDMA connections", &e))?
        };
        Ok(Service {
            wake,
            tasks: Mutex::new(sender),
            thread: Some(thread),
        })
    }

    /// Hands over a drained queue pair.
    pub(super) fn destroy(&self, queue: Arc<SendQueue>) {
        self.give(Task::Destroy(queue));
    }

    fn give(&self, task: Task) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // The thread is gone only if it panicked: then the queue pair is destroyed here and now, by dropping it.
        let _ = tasks.send(task);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.give(Task::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that accepts RDMA connections panicked");
        }
    }
}

/// The service thread's state: the passive ends of peers' connections.
struct Acceptor {
    passive: HashMap<*mut CmId, (NodeId, Id)>,
    departures_seen: u64,
    link: LinkWatch,
    poller: Arc<Mutex<Poller>>,
    device: Arc<Device>,
    mesh: Mesh,
    token: u64,
}

/// Since when the port has been down.
struct LinkWatch {
    limit: Option<Duration>,
    looked: Time,
    down_since: Option<Time>,
    outage: Arc<Outage>,
}

// SAFETY: the pointers are keys only, and the identifiers are `Send`.
unsafe impl Send for Acceptor {}

impl Acceptor {
    fn run(mut self, wake: &OwnedFd, tasks: &Receiver<Task>) {
        let device = Arc::clone(&self.device);
        let fds = [wake.as_raw_fd(), device.listener_events.fd()];
        loop {
            let ready = readable(&fds, SERVICE_GLANCE);
            let _ = rustix::io::read(wake, &mut [0u8; 8][..]);
            while let Ok(task) = tasks.try_recv() {
                match task {
                    Task::Destroy(queue) => drop(queue),
                    Task::Stop => return,
                }
            }
            loop {
                match device.listener_events.next(Duration::ZERO) {
                    Ok(Some(event)) => self.handle(&event),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::error!("{}: {error}", self.mesh.node());
                        break;
                    }
                }
            }
            if let Err(error) = ready {
                tracing::error!("{}: {error}", self.mesh.node());
                std::thread::sleep(SERVICE_GLANCE);
            }
            self.drop_lost();
            self.watch_link();
        }
    }

    fn watch_link(&mut self) {
        let now = Std.now();
        let Some(limit) = self
            .link
            .limit
            .filter(|_| now.since(self.link.looked) >= LINK_GLANCE)
        else {
            return;
        };
        self.link.looked = now;
        let choice = &self.device.choice;
        let state = sysfs::port_state(Path::new(sysfs::ROOT), &choice.device, choice.port);
        if state == "ACTIVE" {
            self.link.down_since = None;
            self.link.outage.ends();
            return;
        }
        let since = *self.link.down_since.get_or_insert(now);
        if now.since(since) < limit {
            return;
        }
        let error = FabricError::Os {
            what: format!(
                "port {} of {} has been down for {limit:?}",
                choice.port, choice.device
            ),
            source_text: format!("its state is {state}; check the cable, `ip link` and `rdma link`"),
        };
        let poller = self.poller.lock().unwrap_or_else(PoisonError::into_inner);
        poller.link_lost(&error, &self.device);
        drop(poller);
        self.link.outage.begins(error);
    }

    /// Ends of peers whose host is gone see no disconnect.
    fn drop_lost(&mut self) {
        let departures = self.mesh.departures();
        if departures != self.departures_seen {
            self.departures_seen = departures;
            let mesh = &self.mesh;
            self.passive
                .retain(|_, (peer, _)| mesh.peer_state(*peer) != PeerState::Lost);
        }
    }

    fn handle(&mut self, event: &Event) {
        match event.kind {
            RDMA_CM_EVENT_CONNECT_REQUEST => {
                // SAFETY: the identifier of a request is new, and given to nobody else.
                let id = unsafe { Id::requested(self.device.api, event.id) };
                match self.accept(&id, event) {
                    Ok(peer) => {
                        self.passive.insert(id.raw(), (peer, id));
                    }
                    Err((reason, why)) => {
                        tracing::warn!("{}: RDMA connection rejected: {why}", self.mesh.node());
                        id.reject(reason as u8);
                    }
                }
            }
            RDMA_CM_EVENT_ESTABLISHED | RDMA_CM_EVENT_TIMEWAIT_EXIT | RDMA_CM_EVENT_ADDR_CHANGE => {}
            RDMA_CM_EVENT_DISCONNECTED | RDMA_CM_EVENT_CONNECT_ERROR | RDMA_CM_EVENT_UNREACHABLE => {
                if let Some((_, id)) = self.passive.remove(&event.id) {
                    id.disconnect();
                }
            }
            _ => tracing::warn!("{}: {} ({})", self.mesh.node(), event.name(), event.status),
        }
    }

    fn accept(&self, id: &Id, event: &Event) -> Result<NodeId, (Reason, String)> {
        // Devices pad private data with zeros, which postcard leaves unread.
        let hello: Hello = postcard::take_from_bytes(&event.private_data)
            .map(|(hello, _)| hello)
            .map_err(|_| {
                (
                    Reason::Token,
                    "the requester does not speak our protocol".to_owned(),
                )
            })?;
        if hello.version != VERSION {
            return Err((
                Reason::Version,
                format!("{} runs version {}", hello.from, hello.version),
            ));
        }
        if hello.token != self.token || !self.mesh.nodes().contains(&hello.from) {
            return Err((Reason::Token, "the requester belongs to another job".to_owned()));
        }
        let failed = |error: FabricError| (Reason::Failed, error.to_string());
        let limits = &self.device.limits;
        let mut attr = self.device.queue_pair_attr(1, 0);
        // SAFETY: the domain and the queue live as long as the device, which `self` keeps; the listener, and so this
        // identifier, is bound to that device.
        unsafe { id.create_queue_pair(self.device.pd, &mut attr) }.map_err(failed)?;
        let mut parameters = ConnParam {
            responder_resources: event.reads_wanted.min(limits.reads_answered).max(1),
            initiator_depth: 1,
            rnr_retry_count: RETRIES,
            ..zeroed()
        };
        id.accept(&mut parameters).map_err(failed)?;
        Ok(hello.from)
    }
}
