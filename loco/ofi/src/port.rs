//! A node's endpoint of libfabric, with its domain, address vector and completion queue, and registered memory.
//!
//! One endpoint serves all threads of the node and all peers: connections are made by the provider, at the first use. Every
//! call is made under the node's one lock (`engine`), so the provider is asked for no locks of its own
//! (`FI_THREAD_DOMAIN`).
//!
//! Relies on `ffi` and `provider`. Used by `engine`.

use std::ffi::c_void;
use std::io;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};

use loco_fabric::{FabricError, Result};
use smallvec::SmallVec;

use crate::ffi::Api;
use crate::ffi::types::*;
use crate::order::Words;
use crate::provider::Offer;

/// The longest name of an endpoint.
const NAME_BYTES_MAX: usize = 256;
/// The most ranges of a peer's memory in one piece.
pub(crate) const PARTS_MAX: usize = 4;
/// The offsets of the values to compare with and of the results in the data of read-modify-writes. The operands come first.
pub(crate) const COMPARISONS_AT: usize = 8 * PARTS_MAX;
pub(crate) const RESULTS_AT: usize = 2 * COMPARISONS_AT;
/// The number of completions taken at once.
pub(crate) const BATCH: usize = 64;

/// An open endpoint.
pub(crate) struct Port {
    api: &'static Api,
    ep: *mut FidEp,
    cq: *mut FidCq,
    av: *mut FidAv,
    domain: *mut FidDomain,
    fabric: *mut FidFabric,
    /// Readable when there may be something to do, if the provider has it.
    wait_fd: Option<RawFd>,
    /// Whether registrations must be bound to the endpoint.
    binds_registrations: bool,
    pub(crate) offer: Offer,
}

// SAFETY: libfabric's objects may be used by any thread, one at a time, which the engine's lock sees to.
unsafe impl Send for Port {}

/// Registered memory, until dropped. It must be dropped before its port.
pub(crate) struct Registration(*mut FidMr);

// SAFETY: as for `Port`.
unsafe impl Send for Registration {}

/// The effect of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Writes.
    Write,
    /// Reads.
    Read,
    /// Adds the operand, and returns the old value.
    FetchAdd,
    /// Stores the operand if the word is the one compared with, and returns the old value.
    CompareSwap,
}

/// A range of a peer's memory, at the address as the peer registered it.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) len: usize,
}

/// A piece to be posted.
pub(crate) struct Posting {
    pub(crate) verb: Verb,
    pub(crate) words: Words,
    pub(crate) to: Addr,
    /// The ranges that the piece accesses, in their order: one, unless words travel as elements of atomics.
    pub(crate) remote: SmallVec<[Range; PARTS_MAX]>,
    pub(crate) key: u64,
    /// The data or the place for the results of all ranges, or for read-modify-writes the operands, the values to compare with
    /// ([`COMPARISONS_AT`]) and the results ([`RESULTS_AT`]).
    pub(crate) local: *mut u8,
    pub(crate) desc: *mut c_void,
    /// The number of bytes of all ranges.
    pub(crate) len: usize,
    /// The size of the words, where they travel as elements of atomics.
    pub(crate) word_bytes: usize,
    pub(crate) context: *mut c_void,
    /// Completes only when the data are placed.
    pub(crate) delivered: bool,
}

/// The end of a piece.
pub(crate) struct Event {
    pub(crate) context: *mut c_void,
    pub(crate) status: io::Result<()>,
}

// SAFETY: the context is only an address here.
unsafe impl Send for Event {}

impl Port {
    /// Opens an endpoint at what `offer` says.
    pub(crate) fn open(offer: Offer) -> Result<Port> {
        let api = offer.api;
        let mut port = Port {
            api,
            ep: ptr::null_mut(),
            cq: ptr::null_mut(),
            av: ptr::null_mut(),
            domain: ptr::null_mut(),
            fabric: ptr::null_mut(),
            wait_fd: None,
            binds_registrations: offer.registers_with(FI_MR_ENDPOINT),
            offer,
        };
        let name = port.offer.name();
        port.open_parts().map_err(|error| {
            let hint = match name.as_str() {
                // Its completion queue is as long as `FI_UNIVERSE_SIZE` peers need, 256 unless told.
                "verbs;ofi_rxm" => " (can the device's queues be that long? try `FI_UNIVERSE_SIZE=16`)",
                _ => "",
            };
            FabricError::os(
                format!("opening an endpoint of libfabric's provider `{name}`{hint}"),
                &error,
            )
        })?;
        Ok(port)
    }

    fn open_parts(&mut self) -> io::Result<()> {
        let api = self.api;
        let info = self.offer.info();
        // SAFETY: `info` is a live and complete offer of this library; each object is opened from the ones before it, and
        // all are closed by `drop`, whatever fails here.
        unsafe {
            api.ok((api.fabric)(
                (*info).fabric_attr,
                &raw mut self.fabric,
                ptr::null_mut(),
            ))?;
            let ops = (*self.fabric).ops;
            api.ok(((*ops).domain)(
                self.fabric,
                info,
                &raw mut self.domain,
                ptr::null_mut(),
            ))?;
            let ops = (*self.domain).ops;

            let mut attr: AvAttr = zeroed();
            attr.av_type = match self.offer.domain().av_type {
                FI_AV_UNSPEC => FI_AV_TABLE,
                offered => offered,
            };
            api.ok(((*ops).av_open)(
                self.domain,
                &raw mut attr,
                &raw mut self.av,
                ptr::null_mut(),
            ))?;

            let mut attr: CqAttr = zeroed();
            attr.size = self.offer.tx().size.max(1024);
            attr.format = FI_CQ_FORMAT_CONTEXT;
            attr.wait_obj = FI_WAIT_FD;
            let mut opened = api.ok(((*ops).cq_open)(
                self.domain,
                &raw mut attr,
                &raw mut self.cq,
                ptr::null_mut(),
            ));
            if opened.is_err() {
                attr.wait_obj = FI_WAIT_NONE;
                opened = api.ok(((*ops).cq_open)(
                    self.domain,
                    &raw mut attr,
                    &raw mut self.cq,
                    ptr::null_mut(),
                ));
            }
            opened?;

            api.ok(((*ops).endpoint)(
                self.domain,
                info,
                &raw mut self.ep,
                ptr::null_mut(),
            ))?;
            let fid = &raw mut (*self.ep).fid;
            api.ok(((*(*fid).ops).bind)(fid, &raw mut (*self.av).fid, 0))?;
            api.ok(((*(*fid).ops).bind)(
                fid,
                &raw mut (*self.cq).fid,
                FI_TRANSMIT | FI_RECV,
            ))?;
            api.ok(((*(*fid).ops).control)(fid, FI_ENABLE, ptr::null_mut()))?;

            if attr.wait_obj == FI_WAIT_FD {
                let mut fd: RawFd = -1;
                let cq = &raw mut (*self.cq).fid;
                api.ok(((*(*cq).ops).control)(cq, FI_GETWAIT, (&raw mut fd).cast()))?;
                self.wait_fd = Some(fd);
            }
        }
        Ok(())
    }

    /// Returns the name by which peers reach the endpoint.
    pub(crate) fn name(&self) -> Result<Vec<u8>> {
        let mut name = vec![0; NAME_BYTES_MAX];
        let mut len = name.len();
        // SAFETY: the endpoint is open; `len` is the room.
        let status = unsafe {
            let cm = (*self.ep).cm;
            ((*cm).getname)(&raw mut (*self.ep).fid, name.as_mut_ptr().cast(), &raw mut len)
        };
        self.api
            .ok(status)
            .map_err(|error| FabricError::os("asking for the endpoint's address (fi_getname)", &error))?;
        name.truncate(len);
        Ok(name)
    }

    /// Returns the number by which the endpoint called `name` is addressed.
    pub(crate) fn insert(&self, name: &[u8]) -> Result<Addr> {
        let mut addr: Addr = 0;
        // SAFETY: the address vector is open; the name is one that `name` of a peer returned.
        let inserted = unsafe {
            let ops = (*self.av).ops;
            ((*ops).insert)(
                self.av,
                name.as_ptr().cast(),
                1,
                &raw mut addr,
                0,
                ptr::null_mut(),
            )
        };
        if inserted == 1 {
            return Ok(addr);
        }
        let error = self.api.error(i64::from(inserted));
        Err(FabricError::os("adding a peer's address (fi_av_insert)", &error))
    }

    /// Registers `len` bytes from `start` for this node's and remote access, under `key` if the key is ours to choose.
    ///
    /// # Safety
    /// The bytes stay mapped as long as the result.
    pub(crate) unsafe fn register(&self, start: NonNull<u8>, len: usize, key: u64) -> Result<Registration> {
        let mut mr = ptr::null_mut();
        let access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        // SAFETY: the domain is open; the memory is mapped, by the caller's promise.
        let status = unsafe {
            ((*(*self.domain).mr).reg)(
                &raw mut (*self.domain).fid,
                start.as_ptr().cast(),
                len,
                access,
                0,
                key,
                0,
                &raw mut mr,
                ptr::null_mut(),
            )
        };
        let failed = |error: io::Error| {
            FabricError::os(
                format!(
                    "registering {len} bytes with libfabric (is the limit on locked memory high enough? `ulimit -l`; and \
                     does the provider keep registrations? `FI_MR_CACHE_MAX_COUNT=0`)"
                ),
                &error,
            )
        };
        self.api.ok(status).map_err(failed)?;
        let registration = Registration(mr);
        if self.binds_registrations {
            // SAFETY: both are live.
            unsafe {
                let fid = &raw mut (*mr).fid;
                let ops = (*fid).ops;
                let bound = ((*ops).bind)(fid, &raw mut (*self.ep).fid, 0);
                self.api.ok(bound).map_err(failed)?;
                let enabled = ((*ops).control)(fid, FI_ENABLE, ptr::null_mut());
                self.api.ok(enabled).map_err(failed)?;
            }
        }
        Ok(registration)
    }

    /// Returns the most words of `word_bytes` in one atomic write and one atomic read, or `None` if there are none.
    pub(crate) fn words_max(&self, word_bytes: usize) -> Option<usize> {
        let datatype = datatype(word_bytes);
        let (mut write, mut read) = (0, 0);
        // SAFETY: the endpoint is open.
        unsafe {
            let ops = (*self.ep).atomic;
            let valid = ((*ops).writevalid)(self.ep, datatype, FI_ATOMIC_WRITE, &raw mut write);
            self.api.ok(valid).ok()?;
            let valid = ((*ops).readwritevalid)(self.ep, datatype, FI_ATOMIC_READ, &raw mut read);
            self.api.ok(valid).ok()?;
        }
        Some(write.min(read)).filter(|&count| count > 0)
    }

    /// Returns true if the provider has fetch-and-add and compare-and-swap of 8-byte words.
    pub(crate) fn has_read_modify_writes(&self) -> bool {
        let mut count = 0;
        // SAFETY: the endpoint is open.
        unsafe {
            let ops = (*self.ep).atomic;
            ((*ops).readwritevalid)(self.ep, FI_UINT64, FI_SUM, &raw mut count) == 0
                && ((*ops).compwritevalid)(self.ep, FI_UINT64, FI_CSWAP, &raw mut count) == 0
        }
    }

    /// Posts a piece. Returns false if there is no room now.
    ///
    /// # Safety
    /// `local` is registered memory of the length that `verb` needs, which nobody else accesses until the event of
    /// `context`, a live [`Context2`], has come.
    pub(crate) unsafe fn post(&self, posting: &Posting) -> io::Result<bool> {
        let flags = FI_COMPLETION
            | if posting.delivered {
                FI_DELIVERY_COMPLETE
            } else {
                0
            };
        let rmw = matches!(posting.verb, Verb::FetchAdd | Verb::CompareSwap);
        let status = if rmw || posting.words == Words::Atomic {
            // SAFETY: the caller's promise.
            unsafe { self.post_atomic(posting, flags) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.post_rma(posting, flags) }
        };
        match status {
            0 => Ok(true),
            status if status == -(FI_EAGAIN as isize) => Ok(false),
            status => Err(self.api.error(status as i64)),
        }
    }

    /// Posts a read or write.
    ///
    /// # Safety
    /// See [`post`](Port::post).
    unsafe fn post_rma(&self, posting: &Posting, flags: u64) -> isize {
        let local = libc::iovec {
            iov_base: posting.local.cast(),
            iov_len: posting.len,
        };
        let remote = |range: &Range| RmaIov {
            addr: range.start,
            len: range.len,
            key: posting.key,
        };
        let remote: SmallVec<[RmaIov; PARTS_MAX]> = posting.remote.iter().map(remote).collect();
        let mut desc = posting.desc;
        let message = MsgRma {
            msg_iov: &raw const local,
            desc: &raw mut desc,
            iov_count: 1,
            addr: posting.to,
            rma_iov: remote.as_ptr(),
            rma_iov_count: remote.len(),
            context: posting.context,
            ..zeroed()
        };
        // SAFETY: the endpoint is open, and has these functions, as it was asked for; the caller's promise for the rest.
        unsafe {
            let ops = (*self.ep).rma;
            match posting.verb {
                Verb::Write => ((*ops).writemsg)(self.ep, &raw const message, flags),
                _ => ((*ops).readmsg)(self.ep, &raw const message, flags),
            }
        }
    }

    /// Posts an atomic operation.
    ///
    /// # Safety
    /// See [`post`](Port::post).
    unsafe fn post_atomic(&self, posting: &Posting, flags: u64) -> isize {
        let word_bytes = posting.word_bytes;
        let count = posting.len / word_bytes;
        let words = |at: usize| Ioc {
            addr: posting.local.wrapping_add(at).cast(),
            count,
        };
        let remote = |range: &Range| RmaIoc {
            addr: range.start,
            count: range.len / word_bytes,
            key: posting.key,
        };
        let remote: SmallVec<[RmaIoc; PARTS_MAX]> = posting.remote.iter().map(remote).collect();
        let (operand, comparison) = (words(0), words(COMPARISONS_AT));
        let mut result = match posting.verb {
            Verb::FetchAdd | Verb::CompareSwap => words(RESULTS_AT),
            Verb::Write | Verb::Read => words(0),
        };
        let mut descs = [posting.desc; 3];
        let [operand_desc, comparison_desc, result_desc] = &mut descs;
        let mut message = MsgAtomic {
            msg_iov: &raw const operand,
            desc: operand_desc,
            iov_count: 1,
            addr: posting.to,
            rma_iov: remote.as_ptr(),
            rma_iov_count: remote.len(),
            datatype: datatype(word_bytes),
            op: FI_ATOMIC_WRITE,
            context: posting.context,
            ..zeroed()
        };
        // SAFETY: as in `post_rma`.
        unsafe {
            let ops = (*self.ep).atomic;
            match posting.verb {
                Verb::Write => ((*ops).writemsg)(self.ep, &raw const message, flags),
                Verb::Read | Verb::FetchAdd => {
                    message.op = FI_SUM;
                    if posting.verb == Verb::Read {
                        // A read has no operand.
                        message.op = FI_ATOMIC_READ;
                        message.msg_iov = ptr::null();
                        message.iov_count = 0;
                        message.desc = ptr::null_mut();
                    }
                    ((*ops).readwritemsg)(
                        self.ep,
                        &raw const message,
                        &raw mut result,
                        result_desc,
                        1,
                        flags,
                    )
                }
                Verb::CompareSwap => {
                    message.op = FI_CSWAP;
                    ((*ops).compwritemsg)(
                        self.ep,
                        &raw const message,
                        &raw const comparison,
                        comparison_desc,
                        1,
                        &raw mut result,
                        result_desc,
                        1,
                        flags,
                    )
                }
            }
        }
    }

    /// Makes progress, and appends the ends of pieces that it finds to `events`. Returns true if there may be more.
    pub(crate) fn read(&self, events: &mut Vec<Event>) -> Result<bool> {
        let mut contexts = [ptr::null_mut::<c_void>(); BATCH];
        // SAFETY: the queue is open, and its entries are pointers, as asked for.
        let n = unsafe { ((*(*self.cq).ops).read)(self.cq, contexts.as_mut_ptr().cast(), BATCH) };
        if let Ok(n) = usize::try_from(n) {
            let ended = contexts.iter().take(n).map(|&context| Event {
                context,
                status: Ok(()),
            });
            events.extend(ended);
            return Ok(n == BATCH);
        }
        if n == -(FI_EAGAIN as isize) {
            return Ok(false);
        }
        if n != -(FI_EAVAIL as isize) {
            return Err(FabricError::os(
                "reading libfabric's completion queue",
                &self.api.error(n as i64),
            ));
        }
        let mut entry: CqErrEntry = zeroed();
        // SAFETY: the queue is open; a zeroed entry asks for no further data.
        let n = unsafe { ((*(*self.cq).ops).readerr)(self.cq, &raw mut entry, 0) };
        if n == 1 {
            events.push(Event {
                context: entry.op_context,
                status: Err(self.api.error(i64::from(entry.err))),
            });
        }
        Ok(n == 1)
    }

    /// Returns the descriptor that becomes readable when there may be something to do, if the provider has one and says
    /// that waiting for it now misses nothing.
    pub(crate) fn may_wait(&self) -> Option<RawFd> {
        let fd = self.wait_fd?;
        // SAFETY: the fabric and the queue are open.
        let status = unsafe {
            let mut fid = &raw mut (*self.cq).fid;
            ((*(*self.fabric).ops).trywait)(self.fabric, &raw mut fid, 1)
        };
        (status == 0).then_some(fd)
    }

    /// Returns true if the provider has a descriptor to wait for.
    pub(crate) fn can_wait(&self) -> bool {
        self.wait_fd.is_some()
    }
}

impl Registration {
    /// Returns the key for peers.
    pub(crate) fn key(&self) -> u64 {
        // SAFETY: live until dropped.
        unsafe { (*self.0).key }
    }

    /// Returns the descriptor for this node's own operations.
    pub(crate) fn desc(&self) -> *mut c_void {
        // SAFETY: as for `key`.
        unsafe { (*self.0).mem_desc }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: made by `register`, dropped once, before its domain.
        unsafe { close(&raw mut (*self.0).fid) };
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: each object was opened here, or is null; they are closed in the order that libfabric asks for.
        unsafe {
            if !self.ep.is_null() {
                close(&raw mut (*self.ep).fid);
            }
            if !self.cq.is_null() {
                close(&raw mut (*self.cq).fid);
            }
            if !self.av.is_null() {
                close(&raw mut (*self.av).fid);
            }
            if !self.domain.is_null() {
                close(&raw mut (*self.domain).fid);
            }
            if !self.fabric.is_null() {
                close(&raw mut (*self.fabric).fid);
            }
        }
    }
}

/// Closes an object of libfabric.
///
/// # Safety
/// `fid` is an open object that nobody uses any more.
unsafe fn close(fid: *mut Fid) {
    // SAFETY: the caller's promise.
    let status = unsafe { ((*(*fid).ops).close)(fid) };
    if status != 0 {
        tracing::warn!("closing an object of libfabric: status {status}");
    }
}

fn datatype(word_bytes: usize) -> u32 {
    match word_bytes {
        1 => FI_UINT8,
        2 => FI_UINT16,
        4 => FI_UINT32,
        _ => FI_UINT64,
    }
}
