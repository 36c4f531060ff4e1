//! The structures behind the handles of verbs, and how work requests of a queue pair are carried out and end.
//!
//! Used by `verbs`, the functions that a program calls, and by what plays single parts of them.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use loco_verbs::ffi::types::*;

use super::channel;
use super::execute::execute;
use super::shared::{Region, Shared, set_errno, zeroed};

/// A device, in the form that providers have around the context that the program sees.
#[repr(C)]
pub(super) struct SoftContext {
    pub(super) verbs: VerbsContext,
    pub(super) device: Device,
    pub(super) shared: Arc<Shared>,
}

#[repr(C)]
pub(super) struct SoftCq {
    pub(super) cq: Cq,
    pub(super) queue: Mutex<CqState>,
}

pub(super) struct CqState {
    pub(super) entries: VecDeque<Entry>,
    pub(super) capacity: usize,
    /// True if the next completion is an event of the queue's channel.
    pub(super) notify: bool,
}

/// A completion, and the send queue whose slots it frees.
pub(super) struct Entry {
    pub(super) wc: Wc,
    pub(super) slots: u32,
    pub(super) qp: *mut SoftQp,
}

#[repr(C)]
pub(super) struct SoftQp {
    pub(super) qp: Qp,
    pub(super) state: Mutex<QpState>,
    /// Locked around ends of late requests and their completions, which several threads bring about and which stay in
    /// order. Locked before `state`.
    pub(super) turn: Mutex<()>,
    /// True until the queue pair enters the error state: then the other end reaches nothing through it. The
    /// other end holds the lock while it accesses memory.
    pub(super) answers: Arc<RwLock<bool>>,
    pub(super) shared: Arc<Shared>,
}

pub(super) struct QpState {
    pub(super) cap: QpCap,
    pub(super) state: u32,
    /// The number of send queue slots in use. A slot is freed when a completion that covers it is polled.
    pub(super) in_use: u32,
    /// The number of work requests since the last completion.
    pub(super) uncovered: u32,
    pub(super) held: Vec<(Wc, u32)>,
    /// The requests that a device of a weak tier has yet to carry out.
    pub(super) late: Late,
    /// `answers` of the other end, once connected.
    pub(super) remote: Option<Arc<RwLock<bool>>>,
}

/// The requests of a queue pair that are not over.
#[derive(Default)]
pub(super) struct Late {
    /// Those that have not completed, oldest first.
    pub(super) waiting: VecDeque<Request>,
    /// Those that are carried out and not placed.
    pub(super) bus: Vec<Request>,
}

pub(super) struct Request {
    pub(super) wr: SendWr,
    pub(super) sge: Sge,
    /// The data of a write.
    pub(super) data: Vec<u8>,
    /// The status, once it is carried out.
    pub(super) status: Option<u32>,
    /// Whether the data of a write have been read.
    pub(super) has_source: bool,
}

/// Returns the device around `context`.
///
/// # Safety
/// `context` was made by [`context`](super::verbs::context).
pub(super) unsafe fn device<'a>(context: *mut Context) -> &'a SoftContext {
    // SAFETY: by the caller's promise the context lies at this place in a `SoftContext`, which is never freed.
    unsafe {
        &*context
            .byte_sub(std::mem::offset_of!(VerbsContext, context))
            .cast::<SoftContext>()
    }
}

/// Registers `len` bytes from `start`. Work requests address them from `base`.
pub(super) unsafe fn register(pd: *mut Pd, start: usize, base: usize, len: usize, access: u32) -> *mut Mr {
    // SAFETY: the caller passes a live domain.
    let context = unsafe { (*pd).context };
    // SAFETY: contexts are ours.
    let shared = unsafe { &device(context).shared };
    let errno = shared.refuse_registration.load(Ordering::SeqCst);
    if errno != 0 {
        set_errno(errno);
        return ptr::null_mut();
    }
    let key = shared.add_region(Region {
        base,
        start,
        len,
        access,
    });
    Box::into_raw(Box::new(Mr {
        context,
        pd,
        addr: ptr::with_exposed_provenance_mut(start),
        length: len,
        handle: key,
        lkey: key,
        rkey: key,
    }))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Completions, each with the number of slots that it frees.
pub(super) type Ended = Vec<(Wc, u32)>;

pub(super) fn complete_all(qp: &SoftQp, ended: impl IntoIterator<Item = (Wc, u32)>) {
    for (wc, slots) in ended {
        complete(qp, wc, slots);
    }
}

pub(super) fn complete(qp: &SoftQp, wc: Wc, slots: u32) {
    // SAFETY: the completion queue outlives its queue pairs.
    let cq = unsafe { &*qp.qp.send_cq.cast::<SoftCq>() };
    let mut queue = lock(&cq.queue);
    if queue.entries.len() >= queue.capacity {
        qp.shared.overflows.fetch_add(1, Ordering::SeqCst);
    }
    let raw = ptr::from_ref(qp).cast_mut();
    queue.entries.push_back(Entry { wc, slots, qp: raw });
    let notify = std::mem::take(&mut queue.notify);
    drop(queue);
    if notify && !cq.cq.channel.is_null() {
        // SAFETY: a channel outlives its queues.
        unsafe { channel::notify(cq.cq.channel, qp.qp.send_cq) };
    }
}

/// Carries a work request out and returns its status. The other end must answer.
pub(super) fn carry_out(shared: &Shared, state: &QpState, wr: &SendWr, inline_max: u32) -> u32 {
    let remote = state.remote.as_ref();
    let remote = remote.map(|r| r.read().unwrap_or_else(PoisonError::into_inner));
    match remote {
        Some(answers) if !*answers => IBV_WC_RETRY_EXC_ERR,
        _ => execute(shared, wr, inline_max).err().unwrap_or(IBV_WC_SUCCESS),
    }
}

/// Ends a work request: returns the completions that come now.
pub(super) fn end(
    shared: &Shared,
    state: &mut QpState,
    wr: &SendWr,
    status: u32,
) -> impl Iterator<Item = (Wc, u32)> + use<> {
    let mut held = Vec::new();
    let mut last = None;
    if status != IBV_WC_SUCCESS || wr.send_flags & IBV_SEND_SIGNALED != 0 {
        if status != IBV_WC_SUCCESS {
            state.state = IBV_QPS_ERR;
        }
        let slots = std::mem::take(&mut state.uncovered);
        let wc = Wc {
            wr_id: wr.wr_id,
            status,
            ..zeroed()
        };
        if shared.hold_completions.load(Ordering::Relaxed) && status == IBV_WC_SUCCESS {
            state.held.push((wc, slots));
        } else {
            held = std::mem::take(&mut state.held);
            last = Some((wc, slots));
        }
    }
    held.into_iter().chain(last)
}
