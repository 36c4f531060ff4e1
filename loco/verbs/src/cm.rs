//! A safe form of the connection manager (librdmacm): event sources, identifiers, events.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::time::Duration;

use super::ffi::device_name;
use super::ffi::types::*;
use super::ffi::{Api, errno, ok};
use loco_fabric::{FabricError, Result};

/// The time that the kernel may take to find a device and a route for an address, in ms.
const RESOLVE_TIMEOUT_MS: c_int = 5000;

/// A channel on which the events of identifiers arrive.
pub(super) struct EventSource {
    api: &'static Api,
    channel: *mut EventChannel,
}

// SAFETY: librdmacm is thread-safe.
unsafe impl Send for EventSource {}
// SAFETY: as above.
unsafe impl Sync for EventSource {}

impl EventSource {
    pub(super) fn new(api: &'static Api) -> Result<EventSource> {
        // SAFETY: no preconditions.
        let channel = unsafe { (api.create_event_channel)() };
        if channel.is_null() {
            let error = errno();
            let remedy = match error.kind() {
                io::ErrorKind::NotFound => "load the kernel module `rdma_ucm`",
                io::ErrorKind::PermissionDenied => {
                    "make /dev/infiniband/rdma_cm readable and writable for this user"
                }
                _ => "`loco doctor` checks the host",
            };
            return Err(FabricError::os(
                format!("opening the RDMA connection manager ({remedy})"),
                &error,
            ));
        }
        let source = EventSource { api, channel };
        // SAFETY: the channel's descriptor is open as long as the channel.
        let fd = unsafe { BorrowedFd::borrow_raw(source.fd()) };
        // Reading must never block: the code waits by poll(2), with a deadline.
        rustix::fs::fcntl_setfl(fd, rustix::fs::OFlags::NONBLOCK)
            .map_err(|e| FabricError::os("making the connection manager's events non-blocking", &e.into()))?;
        Ok(source)
    }

    pub(super) fn fd(&self) -> RawFd {
        // SAFETY: live until `self` is dropped.
        unsafe { (*self.channel).fd }
    }

    /// Waits for the next event for at most `patience`; returns `None` when none came.
    pub(super) fn next(&self, patience: Duration) -> Result<Option<Event>> {
        if !readable(&[self.fd()], patience)? {
            return Ok(None);
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the channel is live; on success `raw` is an event until it is acknowledged.
        if unsafe { (self.api.get_cm_event)(self.channel, &raw mut raw) } == 0 {
            // SAFETY: as above.
            return Ok(Some(unsafe { Event::take(self.api, raw) }));
        }
        let error = errno();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(FabricError::os(
                "reading an event of the RDMA connection manager",
                &error,
            )),
        }
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        // SAFETY: identifiers are dropped before their source (fields of the owners are in that order), and events
        // are acknowledged as they are read.
        unsafe { (self.api.destroy_event_channel)(self.channel) };
    }
}

/// Waits until one of `fds` is readable. Returns false when `patience` has passed.
pub(super) fn readable(fds: &[RawFd], patience: Duration) -> Result<bool> {
    let mut polled: smallvec::SmallVec<[libc::pollfd; 3]> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let ms = c_int::try_from(patience.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: `polled` has as many entries as said.
    match unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) } {
        n if n >= 0 => Ok(n > 0),
        _ => match errno() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(FabricError::os("waiting for connection events", &error)),
        },
    }
}

/// An event that has been copied out and acknowledged.
pub(super) struct Event {
    /// `RDMA_CM_EVENT_*`
    pub(super) kind: u32,
    pub(super) status: c_int,
    /// The identifier of the event. The identifier of a connection request is new, and ours to destroy.
    pub(super) id: *mut CmId,
    pub(super) private_data: Vec<u8>,
    /// For a connection request: the number of reads that the requester wants to have answered at once.
    pub(super) reads_wanted: u8,
}

impl Event {
    /// Copies the event, and acknowledges it.
    ///
    /// # Safety
    /// `raw` is an event that has not been acknowledged.
    unsafe fn take(api: &Api, raw: *mut CmEvent) -> Event {
        // SAFETY: the event and its private data are valid until acknowledged, which happens last.
        unsafe {
            let conn = &(*raw).conn;
            let kind = (*raw).event;
            let has_conn = matches!(
                kind,
                RDMA_CM_EVENT_CONNECT_REQUEST
                    | RDMA_CM_EVENT_CONNECT_RESPONSE
                    | RDMA_CM_EVENT_REJECTED
                    | RDMA_CM_EVENT_ESTABLISHED
            );
            let private_data = if has_conn && !conn.private_data.is_null() {
                let data = conn.private_data.cast::<u8>();
                std::slice::from_raw_parts(data, usize::from(conn.private_data_len)).to_vec()
            } else {
                Vec::new()
            };
            let event = Event {
                kind,
                status: (*raw).status,
                id: (*raw).id,
                private_data,
                reads_wanted: if has_conn { conn.responder_resources } else { 0 },
            };
            (api.ack_cm_event)(raw);
            event
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            RDMA_CM_EVENT_ADDR_RESOLVED => "address resolved",
            RDMA_CM_EVENT_ADDR_ERROR => "no device for the address",
            RDMA_CM_EVENT_ROUTE_RESOLVED => "route resolved",
            RDMA_CM_EVENT_ROUTE_ERROR => "no route to the address",
            RDMA_CM_EVENT_CONNECT_REQUEST => "connection request",
            RDMA_CM_EVENT_CONNECT_RESPONSE => "connection response",
            RDMA_CM_EVENT_CONNECT_ERROR => "connection error",
            RDMA_CM_EVENT_UNREACHABLE => "peer unreachable",
            RDMA_CM_EVENT_REJECTED => "connection rejected",
            RDMA_CM_EVENT_ESTABLISHED => "connection established",
            RDMA_CM_EVENT_DISCONNECTED => "disconnected",
            RDMA_CM_EVENT_DEVICE_REMOVAL => "device removed",
            RDMA_CM_EVENT_ADDR_CHANGE => "address changed",
            RDMA_CM_EVENT_TIMEWAIT_EXIT => "connection forgotten",
            _ => "unknown event",
        }
    }
}

/// An identifier: the connection manager's socket. Destroyed with its queue pair when dropped.
pub(super) struct Id {
    api: &'static Api,
    raw: *mut CmId,
}

// SAFETY: librdmacm is thread-safe.
unsafe impl Send for Id {}
// SAFETY: as above.
unsafe impl Sync for Id {}

impl Id {
    pub(super) fn new(api: &'static Api, events: &EventSource) -> Result<Id> {
        let mut raw = ptr::null_mut();
        // SAFETY: the channel is live.
        ok(unsafe { (api.create_id)(events.channel, &raw mut raw, ptr::null_mut(), RDMA_PS_TCP) })
            .map_err(|e| FabricError::os("creating a connection identifier", &e))?;
        Ok(Id { api, raw })
    }

    /// Takes over the identifier of a connection request.
    ///
    /// # Safety
    /// `raw` came with a connection request, and is owned by nobody else.
    pub(super) unsafe fn requested(api: &'static Api, raw: *mut CmId) -> Id {
        Id { api, raw }
    }

    pub(super) fn raw(&self) -> *mut CmId {
        self.raw
    }

    pub(super) fn bind(&self, address: &CmAddress) -> Result<()> {
        // SAFETY: the identifier is live, the address is one.
        ok(unsafe { (self.api.bind_addr)(self.raw, address.as_ptr()) }).map_err(|e| {
            let what = format!(
                "binding to {} (is it an address of an RDMA port of this host?)",
                address.address
            );
            FabricError::os(&what, &e)
        })
    }

    /// Returns the context of the device that the identifier is bound to (null if none), its name and port.
    pub(super) fn bound_to(&self) -> (*mut Context, (String, u8)) {
        // SAFETY: the identifier is live, and a context that it has is open.
        unsafe {
            let context = (*self.raw).verbs;
            if context.is_null() {
                return (context, (String::new(), 0));
            }
            (context, (device_name(self.api, context), (*self.raw).port_num))
        }
    }

    pub(super) fn listen(&self, backlog: c_int) -> Result<()> {
        // SAFETY: the identifier is live and bound.
        ok(unsafe { (self.api.listen)(self.raw, backlog) })
            .map_err(|e| FabricError::os("listening for RDMA connections", &e))
    }

    /// Returns the local port.
    pub(super) fn port(&self) -> u16 {
        // SAFETY: the identifier is live.
        u16::from_be(unsafe { (self.api.src_port)(self.raw) })
    }

    /// Starts to look up the device and the peer's address.
    pub(super) fn resolve_address(&self, from: &CmAddress, to: &CmAddress) -> Result<()> {
        // SAFETY: the identifier is live, both are addresses.
        ok(unsafe { (self.api.resolve_addr)(self.raw, from.as_ptr(), to.as_ptr(), RESOLVE_TIMEOUT_MS) })
            .map_err(|e| FabricError::os(format!("resolving {} from {}", to.address, from.address), &e))
    }

    /// Starts to look up the route.
    pub(super) fn resolve_route(&self) -> Result<()> {
        // SAFETY: the identifier is live and its address resolved.
        ok(unsafe { (self.api.resolve_route)(self.raw, RESOLVE_TIMEOUT_MS) })
            .map_err(|e| FabricError::os("resolving a route", &e))
    }

    /// Asks for an acknowledgement timeout. Kernels and devices that cannot set it keep theirs.
    pub(super) fn set_ack_timeout(&self, exponent: u8) {
        let mut exponent = exponent;
        // SAFETY: the identifier is live; the option is one byte.
        let set = ok(unsafe {
            (self.api.set_option)(
                self.raw,
                RDMA_OPTION_ID,
                RDMA_OPTION_ID_ACK_TIMEOUT,
                (&raw mut exponent).cast::<c_void>(),
                1,
            )
        });
        if let Err(error) = set {
            tracing::debug!("acknowledgement timeout not set: {error}");
        }
    }

    /// Makes the identifier's queue pair.
    ///
    /// # Safety
    /// `pd` and the queues of `attr` are live and of the device that the identifier is bound to, and outlive it.
    pub(super) unsafe fn create_queue_pair(&self, pd: *mut Pd, attr: &mut QpInitAttr) -> Result<*mut Qp> {
        // SAFETY: by the caller's promise.
        ok(unsafe { (self.api.cm_create_qp)(self.raw, pd, attr) }).map_err(|e| {
            let remedy = match e.raw_os_error() {
                Some(libc::ENOMEM) => {
                    "the device has no queue pairs left, or locked memory ran out (`ulimit -l`)"
                }
                _ => "beyond the device's limits?",
            };
            FabricError::os(format!("creating a queue pair ({remedy})"), &e)
        })?;
        // SAFETY: the identifier is live and has its queue pair now.
        Ok(unsafe { (*self.raw).qp })
    }

    pub(super) fn connect(&self, parameters: &mut ConnParam) -> Result<()> {
        // SAFETY: the identifier is live with its route resolved; the private data are valid during the call.
        ok(unsafe { (self.api.connect)(self.raw, parameters) })
            .map_err(|e| FabricError::os("connecting a queue pair", &e))
    }

    pub(super) fn accept(&self, parameters: &mut ConnParam) -> Result<()> {
        // SAFETY: the identifier is that of a request.
        ok(unsafe { (self.api.accept)(self.raw, parameters) })
            .map_err(|e| FabricError::os("accepting a connection", &e))
    }

    pub(super) fn reject(&self, reason: u8) {
        // SAFETY: the identifier is that of a request; one byte of private data.
        if let Err(error) = ok(unsafe { (self.api.reject)(self.raw, (&raw const reason).cast(), 1) }) {
            tracing::debug!("rejecting a connection: {error}");
        }
    }

    /// Closes the connection. The peer is notified, and operations under way are flushed.
    pub(super) fn disconnect(&self) {
        // SAFETY: the identifier is live. It may never have been connected: the error says nothing new.
        let _ = unsafe { (self.api.disconnect)(self.raw) };
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the identifier is ours; its events have been acknowledged as they were read.
        unsafe {
            if !(*self.raw).qp.is_null() {
                (self.api.cm_destroy_qp)(self.raw);
            }
            (self.api.destroy_id)(self.raw);
        }
    }
}

/// A socket address in C's form.
pub(super) struct CmAddress {
    address: SocketAddr,
    raw: libc::sockaddr_storage,
}

impl CmAddress {
    pub(super) fn new(address: SocketAddr) -> CmAddress {
        // SAFETY: integers only, for which zero is a value.
        let mut raw: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        match address.ip() {
            IpAddr::V4(ip) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from(ip).to_be(),
                    },
                    sin_zero: [0; 8],
                };
                const { assert!(size_of::<libc::sockaddr_in>() <= size_of::<libc::sockaddr_storage>()) };
                // SAFETY: the storage is large enough and aligned for every address.
                unsafe { (&raw mut raw).cast::<libc::sockaddr_in>().write(v4) };
            }
            IpAddr::V6(ip) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    sin6_scope_id: 0,
                };
                const { assert!(size_of::<libc::sockaddr_in6>() <= size_of::<libc::sockaddr_storage>()) };
                // SAFETY: as above.
                unsafe { (&raw mut raw).cast::<libc::sockaddr_in6>().write(v6) };
            }
        }
        CmAddress { address, raw }
    }

    /// Returns a pointer for calls that read the address. librdmacm takes pointers to mutable but writes
    /// nothing.
    fn as_ptr(&self) -> *mut libc::sockaddr {
        (&raw const self.raw).cast_mut().cast()
    }
}

/// Returns the error for an event that was not the one awaited.
pub(super) fn unexpected(doing: &str, event: &Event) -> FabricError {
    FabricError::Os {
        what: doing.to_owned(),
        source: match event.status {
            0 => event.name().into(),
            status if status < 0 => {
                format!("{}: {}", event.name(), io::Error::from_raw_os_error(-status)).into()
            }
            status => format!("{} (reason {status})", event.name()).into(),
        },
    }
}
