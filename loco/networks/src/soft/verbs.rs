//! Plays verbs in software: devices, memory regions, queues.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use loco_fabric::Tier;
use loco_verbs::ffi::types::*;

use super::handles::{
    CqState, Late, QpState, SoftContext, SoftCq, SoftQp, carry_out, complete, complete_all, device, end,
    lock, register,
};
use super::shared::{Shared, set_errno, zeroed};
use super::{channel, device_memory, late};

/// Returns a new opened device.
pub(super) fn context(shared: Arc<Shared>) -> *mut Context {
    let mut soft = Box::new(SoftContext {
        verbs: zeroed(),
        device: zeroed(),
        shared,
    });
    for (to, from) in soft.device.name.iter_mut().zip(b"soft0") {
        *to = *from as c_char;
    }
    soft.verbs.sz = size_of::<VerbsContext>();
    soft.verbs.query_device_ex = Some(query_device_ex);
    soft.verbs.alloc_dm = Some(device_memory::alloc);
    soft.verbs.free_dm = Some(device_memory::free);
    soft.verbs.reg_dm_mr = Some(device_memory::register);
    soft.verbs.context.abi_compat = ptr::without_provenance_mut(usize::MAX);
    soft.verbs.context.ops.poll_cq = Some(poll_cq);
    soft.verbs.context.ops.req_notify_cq = Some(req_notify_cq);
    soft.verbs.context.ops.post_send = Some(post_send);
    let soft = Box::into_raw(soft);
    // SAFETY: just allocated.
    unsafe {
        (*soft).verbs.context.device = &raw mut (*soft).device;
        &raw mut (*soft).verbs.context
    }
}

pub(super) unsafe extern "C" fn device_name(device: *mut Device) -> *const c_char {
    // SAFETY: the caller passes a live device, whose name ends with a zero.
    unsafe { (&raw const (*device).name).cast() }
}

fn attr(shared: &Shared) -> DeviceAttr {
    let int = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    DeviceAttr {
        max_qp_wr: int(shared.limits.queue_depth_max),
        max_cqe: int(shared.limits.cq_entries_max),
        max_qp_rd_atom: 16,
        max_qp_init_rd_atom: 16,
        atomic_cap: shared.limits.atomic_cap,
        ..zeroed()
    }
}

pub(super) unsafe extern "C" fn query_device(context: *mut Context, out: *mut DeviceAttr) -> c_int {
    // SAFETY: the caller passes a context of ours and room for the result.
    unsafe { *out = attr(&device(context).shared) };
    0
}

unsafe extern "C" fn query_device_ex(
    context: *mut Context,
    _input: *const c_void,
    out: *mut DeviceAttrEx,
    _len: usize,
) -> c_int {
    // SAFETY: as for `query_device`.
    unsafe {
        let shared = &device(context).shared;
        *out = DeviceAttrEx {
            orig_attr: attr(shared),
            max_dm_size: shared.limits.device_memory_bytes,
            ..zeroed()
        };
    }
    0
}

pub(super) unsafe extern "C" fn alloc_pd(context: *mut Context) -> *mut Pd {
    Box::into_raw(Box::new(Pd { context, handle: 0 }))
}

pub(super) unsafe extern "C" fn dealloc_pd(pd: *mut Pd) -> c_int {
    // SAFETY: the caller passes what `alloc_pd` made, once.
    drop(unsafe { Box::from_raw(pd) });
    0
}

pub(super) unsafe extern "C" fn reg_mr(
    pd: *mut Pd,
    start: *mut c_void,
    len: usize,
    access: c_int,
) -> *mut Mr {
    let start = start.expose_provenance();
    // SAFETY: the caller passes a live domain.
    unsafe { register(pd, start, start, len, access.cast_unsigned()) }
}

pub(super) unsafe extern "C" fn dereg_mr(mr: *mut Mr) -> c_int {
    // SAFETY: the caller passes what registration made, once.
    let mr = unsafe { Box::from_raw(mr) };
    // SAFETY: contexts are ours.
    unsafe { device(mr.context) }.shared.remove_region(mr.handle);
    0
}

pub(super) unsafe extern "C" fn create_comp_channel(context: *mut Context) -> *mut CompChannel {
    // SAFETY: the caller passes a context of ours.
    channel::new(context, unsafe { &device(context).shared })
}

pub(super) unsafe extern "C" fn create_cq(
    context: *mut Context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    _vector: c_int,
) -> *mut Cq {
    let capacity = usize::try_from(entries).unwrap_or(0);
    let soft = SoftCq {
        cq: Cq {
            context,
            channel,
            cq_context,
            cqe: entries,
            ..zeroed()
        },
        queue: Mutex::new(CqState {
            entries: VecDeque::with_capacity(capacity),
            capacity,
            notify: false,
        }),
    };
    Box::into_raw(Box::new(soft)).cast()
}

pub(super) unsafe extern "C" fn resize_cq(cq: *mut Cq, entries: c_int) -> c_int {
    // SAFETY: the caller passes what `create_cq` made.
    let mut queue = lock(unsafe { &(*cq.cast::<SoftCq>()).queue });
    queue.capacity = usize::try_from(entries).unwrap_or(0);
    let more = queue.capacity.saturating_sub(queue.entries.len());
    queue.entries.reserve(more);
    0
}

pub(super) unsafe extern "C" fn destroy_cq(cq: *mut Cq) -> c_int {
    // SAFETY: the caller passes what `create_cq` made, once; its channel, if any, is live.
    unsafe {
        if !(*cq).channel.is_null() {
            channel::forget((*cq).channel, cq);
        }
        drop(Box::from_raw(cq.cast::<SoftCq>()));
    }
    0
}

unsafe extern "C" fn req_notify_cq(cq: *mut Cq, _solicited_only: c_int) -> c_int {
    // SAFETY: the caller passes what `create_cq` made.
    lock(unsafe { &(*cq.cast::<SoftCq>()).queue }).notify = true;
    0
}

unsafe extern "C" fn poll_cq(cq: *mut Cq, n: c_int, out: *mut Wc) -> c_int {
    // SAFETY: the caller passes what `create_cq` made, of a context of ours.
    let (shared, queue) = unsafe { (&device((*cq).context).shared, &(*cq.cast::<SoftCq>()).queue) };
    if !shared.limits.null {
        shared.polls.fetch_add(1, Ordering::SeqCst);
    }
    if late::is_late(shared) {
        late::turn(shared);
    }
    let mut queue = lock(queue);
    let mut taken = 0;
    while taken < n {
        let Some(entry) = queue.entries.pop_front() else {
            break;
        };
        // SAFETY: the caller has room for `n`; the queue pair takes its completions out of the queue before it goes.
        unsafe {
            *out.add(usize::try_from(taken).unwrap_or(0)) = entry.wc;
            lock(&(*entry.qp).state).in_use -= entry.slots;
        }
        taken += 1;
    }
    taken
}

pub(super) unsafe extern "C" fn create_qp(pd: *mut Pd, attr: *mut QpInitAttr) -> *mut Qp {
    // SAFETY: the caller passes a live domain and the attributes.
    let (context, attr) = unsafe { ((*pd).context, &*attr) };
    // SAFETY: contexts are ours.
    let shared = unsafe { &device(context).shared };
    let refused = match shared.refuse_queue_pairs.load(Ordering::SeqCst) {
        0 if attr.cap.max_inline_data > shared.limits.inline_bytes_max => libc::EINVAL,
        0 if attr.cap.max_send_wr > shared.limits.queue_depth_max => libc::EINVAL,
        errno => errno,
    };
    if refused != 0 {
        set_errno(refused);
        return ptr::null_mut();
    }
    shared.queue_pairs.fetch_add(1, Ordering::SeqCst);
    let soft = SoftQp {
        qp: Qp {
            context,
            pd,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            ..zeroed()
        },
        state: Mutex::new(QpState {
            cap: attr.cap,
            state: IBV_QPS_RESET,
            in_use: 0,
            uncovered: 0,
            held: Vec::new(),
            late: Late::default(),
            remote: None,
        }),
        turn: Mutex::new(()),
        answers: Arc::new(RwLock::new(true)),
        shared: Arc::clone(shared),
    };
    let raw = Box::into_raw(Box::new(soft));
    lock(&shared.holders).push(raw.expose_provenance());
    raw.cast()
}

/// Completes the operations whose completions are held back.
pub(super) fn release_held(shared: &Shared) {
    let holders = lock(&shared.holders);
    for &raw in &*holders {
        // SAFETY: a queue pair leaves the list before it is destroyed, and the list is locked.
        let qp = unsafe { &*ptr::with_exposed_provenance::<SoftQp>(raw) };
        let held = std::mem::take(&mut lock(&qp.state).held);
        for (wc, slots) in held {
            complete(qp, wc, slots);
        }
    }
}

pub(super) unsafe extern "C" fn destroy_qp(qp: *mut Qp) -> c_int {
    let raw = qp.cast::<SoftQp>();
    // SAFETY: the caller passes what `create_qp` made, once; its completion queue is live.
    unsafe {
        let shared = Arc::clone(&(*raw).shared);
        lock(&shared.holders).retain(|&holder| holder != raw.addr());
        let cq = (*qp).send_cq.cast::<SoftCq>();
        lock(&(*cq).queue).entries.retain(|entry| entry.qp != raw);
        late::place_acknowledged(&*raw);
        *(*raw).answers.write().unwrap_or_else(PoisonError::into_inner) = false;
        let soft = Box::from_raw(raw);
        soft.shared.queue_pairs.fetch_sub(1, Ordering::SeqCst);
    }
    0
}

/// Destroys the queue pair of an identifier.
///
/// # Safety
/// `qp` was made by [`create_qp`] and is destroyed once.
pub(super) unsafe fn destroy(qp: *mut Qp) {
    // SAFETY: by the caller's promise.
    unsafe { destroy_qp(qp) };
}

/// Makes a queue pair ready to post.
///
/// # Safety
/// `qp` was made by [`create_qp`].
pub(super) unsafe fn ready(qp: *mut Qp) {
    // SAFETY: by the caller's promise.
    lock(unsafe { &(*qp.cast::<SoftQp>()).state }).state = IBV_QPS_RTS;
}

pub(super) unsafe extern "C" fn modify_qp(qp: *mut Qp, attr: *mut QpAttr, mask: c_int) -> c_int {
    // SAFETY: the caller passes what `create_qp` made and the attributes.
    let (soft, to) = unsafe { (&*qp.cast::<SoftQp>(), (*attr).qp_state) };
    if mask.cast_unsigned() & IBV_QP_STATE != 0 && to == IBV_QPS_ERR {
        enter_error(soft);
    }
    0
}

/// Connects two ends. Operations that one end posts fail once the other is in the error state.
///
/// # Safety
/// Both are live queue pairs of software devices.
pub(super) unsafe fn link(a: *mut Qp, b: *mut Qp) {
    // SAFETY: by the caller's promise.
    let (a, b): (&SoftQp, &SoftQp) = unsafe { (&*a.cast(), &*b.cast()) };
    lock(&a.state).remote = Some(Arc::clone(&b.answers));
    lock(&b.state).remote = Some(Arc::clone(&a.answers));
}

/// Enters the error state and flushes the completions that were held back.
pub(super) fn enter_error(qp: &SoftQp) {
    *qp.answers.write().unwrap_or_else(PoisonError::into_inner) = false;
    let _turn = lock(&qp.turn);
    let mut state = lock(&qp.state);
    state.state = IBV_QPS_ERR;
    let held = std::mem::take(&mut state.held);
    let late = late::flush(&qp.shared, &mut state);
    drop(state);
    for (mut wc, slots) in held {
        wc.status = IBV_WC_WR_FLUSH_ERR;
        complete(qp, wc, slots);
    }
    complete_all(qp, late);
}

unsafe extern "C" fn post_send(qp: *mut Qp, wr: *mut SendWr, bad: *mut *mut SendWr) -> c_int {
    // SAFETY: the caller passes what `create_qp` made.
    let soft = unsafe { &*qp.cast::<SoftQp>() };
    if !soft.shared.limits.null {
        soft.shared.doorbells.fetch_add(1, Ordering::SeqCst);
    }
    let mut next = wr;
    while !next.is_null() {
        // SAFETY: a chain of live work requests.
        let wr = unsafe { &*next };
        let errno = post_one(soft, wr);
        if errno != 0 {
            // SAFETY: the caller has room for the result.
            unsafe { *bad = next };
            return errno;
        }
        next = wr.next;
    }
    0
}

fn post_one(qp: &SoftQp, wr: &SendWr) -> c_int {
    let shared = &*qp.shared;
    let errno = shared.refuse_posts.load(Ordering::Relaxed);
    if errno != 0 {
        return errno;
    }
    let mut state = lock(&qp.state);
    if state.in_use >= state.cap.max_send_wr {
        shared.overflows.fetch_add(1, Ordering::SeqCst);
        return libc::ENOMEM;
    }
    state.in_use += 1;
    if late::is_late(shared) {
        late::post(qp, &mut state, wr);
        drop(state);
        late::posted(qp);
        return 0;
    }
    state.uncovered += 1;
    let status = match state.state {
        IBV_QPS_RTS if shared.limits.null => IBV_WC_SUCCESS,
        IBV_QPS_RTS => match shared.injected() {
            IBV_WC_SUCCESS => carry_out(shared, &state, wr, state.cap.max_inline_data),
            injected => injected,
        },
        _ => IBV_WC_WR_FLUSH_ERR,
    };
    let ended = end(shared, &mut state, wr, status);
    drop(state);
    complete_all(qp, ended);
    0
}

/// Answers whether the words of one operation are placed in order.
pub(super) unsafe extern "C" fn data_in_order(qp: *mut Qp, _opcode: c_uint, _flags: u32) -> c_int {
    // SAFETY: the caller passes what `create_qp` made.
    let soft = unsafe { &*qp.cast::<SoftQp>() };
    c_int::from(soft.shared.limits.tier == Tier::Ibta)
}

/// Returns the counter of a device's identifiers.
///
/// # Safety
/// `context` was made by [`context`].
pub(super) unsafe fn identifiers<'a>(context: *mut Context) -> &'a AtomicU64 {
    // SAFETY: by the caller's promise.
    unsafe { &device(context).shared.identifiers }
}
