//! The functions that the objects of a domain get: those by which its endpoint posts, and its completion queue reports.
//!
//! The endpoint of a domain and its completion queue have one set of operations held back. A program that waits for the queue's
//! descriptor is woken by a timer as long as there are some: the real provider does not know of them.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use loco_ofi::ffi::types::*;

use super::held::{AGAIN, Held};
use super::message::{Message, Real, Words};
use super::table;

/// The time after which the timer wakes the program.
const TURN: Duration = Duration::from_micros(200);
/// The time for which an endpoint that is closed hands operations on that were reported before.
const FAREWELL: Duration = Duration::from_secs(1);

/// A domain: its endpoint and completion queue.
pub(super) struct Domain {
    held: Mutex<Held>,
    /// The domain's own functions.
    pub(super) ops: *const OpsDomain,
    /// The offer with which the domain was opened, as the real provider made it.
    offer: *mut Info,
    /// The timer, once the program has asked for the queue's descriptor.
    timer: Mutex<Option<RawFd>>,
}

// SAFETY: the tables of a provider do not change; the rest is behind locks.
unsafe impl Sync for Domain {}
// SAFETY: as above.
unsafe impl Send for Domain {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Domain {
    /// Puts functions into a domain that was opened from `offer`.
    ///
    /// # Safety
    /// The domain is open; `offer` lives as long as the process.
    pub(super) unsafe fn wrap(domain: *mut FidDomain, offer: *mut Info, held: Held) {
        // SAFETY: by the caller's promise.
        unsafe {
            let own: &'static Domain = Box::leak(Box::new(Domain {
                held: Mutex::new(held),
                ops: (*domain).ops,
                offer,
                timer: Mutex::new(None),
            }));
            let ops = table::copy::<OpsDomain, Domain>((*domain).ops, own);
            (*ops).cq_open = open_cq;
            (*ops).endpoint = open_endpoint;
            (*domain).ops = ops;
        }
    }

    /// Lets the timer run while there is something to do.
    fn set_timer(&self, held: &Held) {
        let Some(timer) = *lock(&self.timer) else { return };
        let nanoseconds = if held.holds_back() { TURN.as_nanos() } else { 0 };
        let spec = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: 0,
                tv_nsec: libc::c_long::try_from(nanoseconds).unwrap_or(0),
            },
        };
        // SAFETY: the descriptor is a timer of ours.
        unsafe { libc::timerfd_settime(timer, 0, &raw const spec, std::ptr::null_mut()) };
    }

    /// Takes an operation of the endpoint.
    ///
    /// # Safety
    /// See [`Held::post`].
    unsafe fn post(&self, message: Message, context: *mut c_void, flags: u64) -> isize {
        let mut held = lock(&self.held);
        // SAFETY: the caller's promise.
        let status = unsafe { held.post(message, context, flags) };
        self.set_timer(&held);
        status
    }
}

unsafe extern "C" fn open_cq(
    domain: *mut FidDomain,
    attr: *mut CqAttr,
    out: *mut *mut FidCq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: a call of libfabric's manual, to the object whose functions these are.
    unsafe {
        let own: &Domain = table::own((*domain).ops);
        let status = ((*own.ops).cq_open)(domain, attr, out, context);
        if status == 0 {
            let cq = *out;
            let mut held = lock(&own.held);
            (held.cq, held.cq_ops) = (cq, (*cq).ops);
            let ops = table::copy::<OpsCq, Domain>((*cq).ops, own);
            (*ops).read = read;
            (*ops).readerr = read_error;
            (*cq).ops = ops;
            let general = table::copy::<Ops, Queue>(
                (*cq).fid.ops,
                Box::leak(Box::new(Queue {
                    domain: own,
                    ops: (*cq).fid.ops,
                })),
            );
            (*general).control = control;
            (*cq).fid.ops = general;
        }
        status
    }
}

/// A completion queue, for the functions that every object has.
struct Queue {
    domain: &'static Domain,
    /// The queue's own functions.
    ops: *const Ops,
}

unsafe extern "C" fn open_endpoint(
    domain: *mut FidDomain,
    _offer: *mut Info,
    out: *mut *mut FidEp,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as in `open_cq`; the offer is the one with which the domain was opened.
    unsafe {
        let own: &Domain = table::own((*domain).ops);
        let status = ((*own.ops).endpoint)(domain, own.offer, out, context);
        if status == 0 {
            let ep = *out;
            lock(&own.held).real = Some(Real {
                ep,
                rma: (*ep).rma,
                atomic: (*ep).atomic,
            });
            let rma = table::copy::<OpsRma, Domain>((*ep).rma, own);
            ((*rma).readmsg, (*rma).writemsg) = (read_message, write_message);
            (*ep).rma = rma;
            let atomic = table::copy::<OpsAtomic, Domain>((*ep).atomic, own);
            (*atomic).writemsg = atomic_write;
            (*atomic).readwritemsg = atomic_read;
            (*atomic).compwritemsg = atomic_compare;
            (*ep).atomic = atomic;
            let endpoint = Endpoint {
                domain: own,
                ops: (*ep).fid.ops,
            };
            let general = table::copy::<Ops, Endpoint>((*ep).fid.ops, Box::leak(Box::new(endpoint)));
            (*general).close = close_endpoint;
            (*ep).fid.ops = general;
        }
        status
    }
}

/// An endpoint, for the functions that every object has.
struct Endpoint {
    domain: &'static Domain,
    /// The endpoint's own functions.
    ops: *mut Ops,
}

// SAFETY: as for `Domain`.
unsafe impl Sync for Endpoint {}
// SAFETY: as for `Domain`.
unsafe impl Sync for Queue {}

/// Hands on what is held back, and closes the endpoint: what was reported happens although its poster ends.
unsafe extern "C" fn close_endpoint(fid: *mut Fid) -> c_int {
    // SAFETY: as in `open_cq`.
    unsafe {
        let own: &Endpoint = table::own((*fid).ops);
        let until = Instant::now() + FAREWELL;
        while Instant::now() < until {
            let mut held = lock(&own.domain.held);
            while held.report_next(false).is_some() || held.report_next(true).is_some() {}
            if held.progress() != 0 || !held.holds_back() {
                break;
            }
            drop(held);
            std::thread::yield_now();
        }
        (*fid).ops = own.ops;
        ((*own.ops).close)(fid)
    }
}

unsafe extern "C" fn write_message(ep: *mut FidEp, message: *const MsgRma, flags: u64) -> isize {
    // SAFETY: as in `open_cq`.
    unsafe {
        let own: &Domain = table::own((*ep).rma);
        own.post(Message::of_rma(message, true), (*message).context, flags)
    }
}

unsafe extern "C" fn read_message(ep: *mut FidEp, message: *const MsgRma, flags: u64) -> isize {
    // SAFETY: as in `open_cq`.
    unsafe {
        let own: &Domain = table::own((*ep).rma);
        own.post(Message::of_rma(message, false), (*message).context, flags)
    }
}

unsafe extern "C" fn atomic_write(ep: *mut FidEp, message: *const MsgAtomic, flags: u64) -> isize {
    // SAFETY: as in `open_cq`.
    unsafe {
        let own: &Domain = table::own((*ep).atomic);
        own.post(Message::of_atomic(message, None, None), (*message).context, flags)
    }
}

unsafe extern "C" fn atomic_read(
    ep: *mut FidEp,
    message: *const MsgAtomic,
    results: *mut Ioc,
    descs: *mut *mut c_void,
    count: usize,
    flags: u64,
) -> isize {
    // SAFETY: as in `open_cq`.
    unsafe {
        let own: &Domain = table::own((*ep).atomic);
        let message_of = Message::of_atomic(message, None, Words::of(results, descs, count));
        own.post(message_of, (*message).context, flags)
    }
}

unsafe extern "C" fn atomic_compare(
    ep: *mut FidEp,
    message: *const MsgAtomic,
    compared: *const Ioc,
    compared_descs: *mut *mut c_void,
    compared_count: usize,
    results: *mut Ioc,
    descs: *mut *mut c_void,
    count: usize,
    flags: u64,
) -> isize {
    // SAFETY: as in `open_cq`.
    unsafe {
        let own: &Domain = table::own((*ep).atomic);
        let compared = Words::of(compared, compared_descs, compared_count);
        let message_of = Message::of_atomic(message, compared, Words::of(results, descs, count));
        own.post(message_of, (*message).context, flags)
    }
}

unsafe extern "C" fn read(cq: *mut FidCq, entries: *mut c_void, count: usize) -> isize {
    // SAFETY: as in `open_cq`; the entries are pointers, as loco-ofi asks for.
    unsafe {
        let own: &Domain = table::own((*cq).ops);
        let mut held = lock(&own.held);
        let broken = held.progress();
        let mut n = 0;
        while n < count
            && let Some(end) = held.report_next(false)
        {
            entries.cast::<*mut c_void>().add(n).write(end.context);
            n += 1;
        }
        own.set_timer(&held);
        match n {
            0 if held.fails_next() => -(FI_EAVAIL as isize),
            0 if broken != 0 => broken,
            0 => AGAIN,
            n => n.cast_signed(),
        }
    }
}

unsafe extern "C" fn read_error(cq: *mut FidCq, entry: *mut CqErrEntry, _flags: u64) -> isize {
    // SAFETY: as in `open_cq`.
    unsafe {
        let own: &Domain = table::own((*cq).ops);
        match lock(&own.held).report_next(true) {
            Some(end) => {
                ((*entry).op_context, (*entry).err) = (end.context, end.error);
                1
            }
            None => AGAIN,
        }
    }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: as in `open_cq`.
    unsafe {
        let own: &Queue = table::own((*fid).ops);
        let status = ((*own.ops).control)(fid, command, argument);
        if status == 0 && command == FI_GETWAIT {
            let fd = argument.cast::<RawFd>();
            match with_timer(*fd) {
                Some((both, timer)) => {
                    *fd = both;
                    *lock(&own.domain.timer) = Some(timer);
                }
                None => return -libc::EMFILE,
            }
        }
        status
    }
}

/// Returns a descriptor that is readable when `fd` is or the timer has run out, and the timer.
fn with_timer(fd: RawFd) -> Option<(RawFd, RawFd)> {
    // SAFETY: the descriptors are open; an event is two numbers.
    unsafe {
        let both = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK);
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN.cast_unsigned(),
            u64: 0,
        };
        let joined = [fd, timer]
            .iter()
            .all(|&fd| libc::epoll_ctl(both, libc::EPOLL_CTL_ADD, fd, &raw mut event) == 0);
        joined.then_some((both, timer))
    }
}
