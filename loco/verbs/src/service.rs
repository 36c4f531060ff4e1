//! The service thread of a node. It accepts its peers' connections (the passive side), and destroys queue
//! pairs away from the polling path.
//!
//! Nothing is ever posted on the passive end of a connection: it only gives the peer access to this node's
//! memory. The end is destroyed when the active side disconnects, or when the peer is lost. The thread also
//! watches the port. When the device reports a completion event, the thread rings the node's doorbell, and looks after the
//! operations that are held back (`line`): their owner may not look at the fabric for long.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use loco_fabric::{Control, Doorbell, FabricError, NodeId, PeerState, Platform, Result, Std, Time};
use loco_job::Mesh;

use super::bell::CompletionBell;
use super::cm::{Event, Id, readable};
use super::connect::{Hello, RETRIES, Reason, VERSION};
use super::device::Device;
use super::ffi::types::*;
use super::mailbox::{Inbox, Mailbox};
use super::outage::Outage;
use super::send_queue::{Poller, Task};
use super::sysfs;

/// The time between two looks at the port.
const LINK_GLANCE: Duration = Duration::from_secs(1);
/// The time between two checks for lost peers.
const SERVICE_GLANCE: Duration = Duration::from_millis(200);

/// The time between two looks after operations that are held back, on a device without completion events.
const HELD_GLANCE: Duration = Duration::from_millis(1);

/// The thread that accepts connections, and that destroys queue pairs away from the polling path.
pub(super) struct Service {
    mailbox: Arc<Mailbox<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Starts the thread. The thread fails the queue pairs of `poller` when the port has been down for the
    /// time that `watch` says.
    pub(super) fn start(
        device: Arc<Device>,
        mesh: Mesh,
        token: u64,
        poller: Arc<Mutex<Poller>>,
        watch: Option<Duration>,
        outage: Arc<Outage>,
        bell: Option<Arc<CompletionBell>>,
    ) -> Result<Service> {
        let (mailbox, inbox) = Mailbox::new()?;
        let mailbox = Arc::new(mailbox);
        let waiting = poller.lock().unwrap_or_else(PoisonError::into_inner).waiting();
        let acceptor = Acceptor {
            mailbox: Arc::clone(&mailbox),
            passive: HashMap::new(),
            revoked: HashSet::new(),
            departures_seen: 0,
            link: LinkWatch {
                limit: watch,
                looked: Std.now(),
                down_since: None,
                outage,
            },
            waiting,
            poller,
            bell,
            device,
            mesh,
            token,
        };
        let thread = std::thread::Builder::new()
            .name("loco-verbs".to_owned())
            .spawn(move || acceptor.run(&inbox))
            .map_err(|e| FabricError::os("starting the thread that accepts RDMA connections", &e))?;
        Ok(Service {
            mailbox,
            thread: Some(thread),
        })
    }

    /// Returns the mailbox for the thread's tasks.
    pub(super) fn mailbox(&self) -> &Mailbox<Task> {
        &self.mailbox
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.mailbox.give(Task::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that accepts RDMA connections panicked");
        }
    }
}

/// The service thread's state: the passive ends of peers' connections.
struct Acceptor {
    mailbox: Arc<Mailbox<Task>>,
    passive: HashMap<*mut CmId, (NodeId, Id)>,
    /// The peers that are thought lost.
    revoked: HashSet<NodeId>,
    departures_seen: u64,
    link: LinkWatch,
    poller: Arc<Mutex<Poller>>,
    waiting: Arc<AtomicUsize>,
    bell: Option<Arc<CompletionBell>>,
    device: Arc<Device>,
    mesh: Mesh,
    token: u64,
}

/// A watch on the port: the time since which it has been down.
struct LinkWatch {
    limit: Option<Duration>,
    looked: Time,
    down_since: Option<Time>,
    outage: Arc<Outage>,
}

// SAFETY: the pointers are keys only, and the identifiers are `Send`.
unsafe impl Send for Acceptor {}

impl Acceptor {
    fn run(mut self, inbox: &Inbox<Task>) {
        let device = Arc::clone(&self.device);
        let mut fds = vec![inbox.fd(), device.listener_events.fd()];
        fds.extend(device.events_fd());
        loop {
            let patience = match self.advance() && device.events_fd().is_none() {
                true => HELD_GLANCE,
                false => SERVICE_GLANCE,
            };
            let mut failure = readable(&fds, patience).err();
            if device.clear_events() {
                self.ring();
            }
            for task in inbox.take() {
                match task {
                    Task::Destroy(queue) => drop(queue),
                    Task::Revoke(peer, done) => {
                        self.revoke(peer);
                        drop(done);
                    }
                    Task::Advance => {} // See above.
                    Task::Stop => return,
                }
            }
            loop {
                match device.listener_events.next(Duration::ZERO) {
                    Ok(Some(event)) => self.handle(&event),
                    Ok(None) => break,
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
            if let Some(error) = failure {
                tracing::error!("{}: {error}", self.mesh.node());
                // What has failed may stay ready, so that without a pause the loop would spin.
                std::thread::sleep(SERVICE_GLANCE);
            }
            self.drop_lost();
            self.watch_link();
        }
    }

    /// Lets operations that are held back go on. Returns true if some still are.
    fn advance(&self) -> bool {
        // Relaxed: whoever holds an operation back brings an event about, or gives a task, after it is counted.
        let holds = || self.waiting.load(Ordering::Relaxed) > 0;
        if !holds() {
            return false;
        }
        let mut poller = self.poller.lock().unwrap_or_else(PoisonError::into_inner);
        let advanced = poller.advance(&self.device, &self.mesh, &self.mailbox);
        drop(poller);
        match advanced {
            Ok(true) => self.ring(),
            Ok(false) => {}
            Err(error) => tracing::error!("{}: {error}", self.mesh.node()),
        }
        holds()
    }

    /// Wakes the threads that sleep.
    fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
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
            source: format!("its state is {state}; check the cable, `ip link` and `rdma link`").into(),
        };
        let poller = self.poller.lock().unwrap_or_else(PoisonError::into_inner);
        poller.link_lost(&error, &self.device);
        drop(poller);
        self.link.outage.begins(error);
        self.ring();
    }

    /// Destroys the ends of `peer`'s connections, so that the device accepts nothing more from it. The peer
    /// can make no new ones.
    fn revoke(&mut self, peer: NodeId) {
        self.revoked.insert(peer);
        self.passive.retain(|_, (its, _)| *its != peer);
    }

    /// Drops the ends of lost peers: if the peer's host is gone, there is no disconnect.
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
        if self.revoked.contains(&hello.from) {
            return Err((Reason::Lost, format!("{} was declared lost", hello.from)));
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
