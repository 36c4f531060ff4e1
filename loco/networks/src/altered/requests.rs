//! Posting and polling: requests are counted, kept, broken or refused before the NIC has them, and the completions of broken ones get
//! the status that the test wants.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Mutex, MutexGuard};

use loco_verbs::ffi::types::*;

use super::nic::nic;
use super::state::{Shared, lock, zeroed};

/// A key that no region has.
const NO_KEY: u32 = u32::MAX;

/// Keeps the state of a queue pair of an altered device. The queue pair's `qp_context` points to it.
pub(super) struct AlteredQp {
    pub(super) device: &'static Shared,
    state: Mutex<QpState>,
}

#[derive(Default)]
struct QpState {
    /// The requests that the NIC does not have yet, oldest first.
    kept: Vec<Kept>,
    /// True once the queue pair is in the error state, or will be: the NIC flushes what is posted.
    is_failed: bool,
}

/// A copy of a request, and of what it points to.
struct Kept {
    wr: SendWr,
    element: Sge,
    /// The data of an inline request.
    inline: Vec<u8>,
}

impl AlteredQp {
    pub(super) fn new(device: &'static Shared) -> AlteredQp {
        AlteredQp {
            device,
            state: Mutex::default(),
        }
    }

    /// Returns what is known of a queue pair.
    ///
    /// # Safety
    /// `qp` is a live queue pair of an altered device.
    pub(super) unsafe fn of<'a>(qp: *mut Qp) -> &'a AlteredQp {
        // SAFETY: by the caller's promise its context was set when it was made, and is freed after it.
        unsafe { &*(*qp).qp_context.cast::<AlteredQp>() }
    }
}

impl Kept {
    /// # Safety
    /// `wr` is a request of one element at most, as `ibv_post_send` has it.
    unsafe fn of(wr: &SendWr) -> Kept {
        // SAFETY: by the caller's promise; the data of inline requests may be read.
        unsafe {
            assert!(
                wr.num_sge <= 1,
                "a request of {} elements cannot be kept",
                wr.num_sge
            );
            let element = if wr.num_sge == 0 { zeroed() } else { *wr.sg_list };
            let mut inline = Vec::new();
            if wr.send_flags & IBV_SEND_INLINE != 0 && element.length > 0 {
                let from = ptr::with_exposed_provenance::<u8>(element.addr as usize);
                inline.extend_from_slice(std::slice::from_raw_parts(from, element.length as usize));
            }
            Kept {
                wr: *wr,
                element,
                inline,
            }
        }
    }

    /// Returns a request in the place of `wr` that the NIC cannot carry out: its data are in no memory that is registered.
    fn broken(wr: &SendWr) -> Kept {
        let mut wr = *wr;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags &= !IBV_SEND_INLINE;
        wr.num_sge = 1;
        let element = Sge {
            addr: 0,
            length: 8,
            lkey: NO_KEY,
        };
        Kept {
            wr,
            element,
            inline: Vec::new(),
        }
    }

    /// # Safety
    /// As for [`pass`].
    unsafe fn pass(mut self, qp: *mut Qp) -> c_int {
        if !self.inline.is_empty() {
            self.element.addr = self.inline.as_ptr().expose_provenance() as u64;
        }
        self.wr.sg_list = &raw mut self.element;
        // SAFETY: by the caller's promise; the request lives for the call.
        unsafe { pass(qp, &self.wr) }
    }
}

/// Gives the NIC one request.
///
/// # Safety
/// `qp` is live, and `wr` as `ibv_post_send` has it.
unsafe fn pass(qp: *mut Qp, wr: &SendWr) -> c_int {
    let mut one = *wr;
    one.next = ptr::null_mut();
    let mut bad = ptr::null_mut();
    // SAFETY: by the caller's promise; the request has no next one, and the NIC's context is open.
    unsafe {
        let Some(post) = (*nic().context).ops.post_send else {
            return libc::EOPNOTSUPP;
        };
        let errno = post(qp, &raw mut one, &raw mut bad);
        if errno == libc::ENOMEM {
            AlteredQp::of(qp).device.overflows.fetch_add(1, SeqCst);
        }
        errno
    }
}

/// Gives the NIC what was kept from it.
///
/// # Safety
/// `qp` is live, and `state` its own.
unsafe fn release(qp: *mut Qp, state: &mut MutexGuard<'_, QpState>) {
    for kept in std::mem::take(&mut state.kept) {
        // SAFETY: by the caller's promise; a source of a request stays until the request completes.
        let errno = unsafe { kept.pass(qp) };
        // The program was told that it is posted.
        assert_eq!(errno, 0, "the NIC refuses a request that was kept from it");
    }
}

/// Gives the NIC what was kept from it by the queue pairs of a device.
pub(super) fn release_all(device: &Shared) {
    let all = lock(&device.queue_pairs);
    for &qp in &*all {
        let qp: *mut Qp = ptr::with_exposed_provenance_mut(qp);
        // SAFETY: a queue pair leaves the list before it is destroyed, and the list is locked.
        unsafe { release(qp, &mut lock(&AlteredQp::of(qp).state)) };
    }
}

/// Takes note that a queue pair has entered the error state, and has the NIC flush what was kept.
///
/// # Safety
/// `qp` is a live queue pair of an altered device.
pub(super) unsafe fn failed(qp: *mut Qp) {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut state = lock(&AlteredQp::of(qp).state);
        state.is_failed = true;
        release(qp, &mut state);
    }
}

impl Shared {
    /// Returns the status with which a request is to fail, if any.
    fn fails(&self, wr: &SendWr) -> Option<u32> {
        if self.link_down.load(Relaxed) {
            return Some(IBV_WC_RETRY_EXC_ERR);
        }
        // SAFETY: a work request with elements points to them.
        let is_empty = wr.num_sge == 0 || unsafe { (*wr.sg_list).length } == 0;
        if wr.opcode == IBV_WR_RDMA_READ && is_empty && !self.limits.zero_length_reads {
            return Some(IBV_WC_REM_INV_REQ_ERR);
        }
        if self.fail_next.load(SeqCst) == IBV_WC_SUCCESS {
            return None;
        }
        let one_less = |left: u32| left.checked_sub(1);
        if self.fail_after.fetch_update(SeqCst, SeqCst, one_less).is_ok() {
            return None;
        }
        Some(self.fail_next.swap(IBV_WC_SUCCESS, SeqCst)).filter(|&status| status != IBV_WC_SUCCESS)
    }

    /// Completes requests that do not reach the NIC.
    ///
    /// # Safety
    /// `first` is a chain of live requests.
    unsafe fn complete(&self, first: *mut SendWr) {
        let mut completed = lock(&self.completed);
        let mut next = first;
        while !next.is_null() {
            // SAFETY: by the caller's promise.
            let wr = unsafe { &*next };
            if wr.send_flags & IBV_SEND_SIGNALED != 0 {
                completed.push_back(Wc {
                    wr_id: wr.wr_id,
                    ..zeroed()
                });
            }
            next = wr.next;
        }
    }
}

pub(super) unsafe extern "C" fn post_send(qp: *mut Qp, first: *mut SendWr, bad: *mut *mut SendWr) -> c_int {
    // SAFETY: the caller passes a live queue pair of an altered device, a chain of requests and room for the result.
    unsafe {
        let own = AlteredQp::of(qp);
        if own.device.limits.null {
            own.device.complete(first);
            return 0;
        }
        let mut state = lock(&own.state);
        // Under the lock: who sees the count and releases what is kept finds these requests.
        own.device.doorbells.fetch_add(1, SeqCst);
        let mut next = first;
        while !next.is_null() {
            let errno = post_one(qp, own.device, &mut state, &*next);
            if errno != 0 {
                *bad = next;
                return errno;
            }
            next = (*next).next;
        }
    }
    0
}

/// # Safety
/// As for [`pass`]; `state` is that of `qp`.
unsafe fn post_one(qp: *mut Qp, device: &Shared, state: &mut MutexGuard<'_, QpState>, wr: &SendWr) -> c_int {
    let errno = device.refuse_posts.load(SeqCst);
    if errno != 0 {
        return errno;
    }
    // SAFETY: by the caller's promise.
    unsafe {
        if state.is_failed {
            return pass(qp, wr);
        }
        if let Some(status) = device.fails(wr) {
            state.is_failed = true;
            lock(&device.failing).insert((*qp).qp_num, status);
            release(qp, state);
            return Kept::broken(wr).pass(qp);
        }
        if device.hold_requests.load(SeqCst) {
            state.kept.push(Kept::of(wr));
            return 0;
        }
        release(qp, state);
        pass(qp, wr)
    }
}

pub(super) unsafe extern "C" fn poll_cq(cq: *mut Cq, most: c_int, out: *mut Wc) -> c_int {
    // SAFETY: the caller passes a live queue of an altered device.
    let device = unsafe { &*(*cq).cq_context.cast::<Shared>() };
    if device.limits.null {
        let mut completed = lock(&device.completed);
        let mut taken = 0;
        while taken < most
            && let Some(wc) = completed.pop_front()
        {
            // SAFETY: the caller has room for `most` completions.
            unsafe { out.offset(taken as isize).write(wc) };
            taken += 1;
        }
        return taken;
    }
    device.polls.fetch_add(1, SeqCst);
    // SAFETY: as the caller's; so many completions have been written, and the NIC's context is open.
    unsafe {
        let Some(poll) = (*nic().context).ops.poll_cq else {
            return -1;
        };
        let taken = poll(cq, most, out);
        for at in 0..taken {
            let wc = &mut *out.offset(at as isize);
            if wc.status == IBV_WC_LOC_PROT_ERR
                && let Some(status) = lock(&device.failing).remove(&wc.qp_num)
            {
                wc.status = status;
            }
            if wc.status != IBV_WC_SUCCESS {
                device.errors.fetch_add(1, SeqCst);
            }
        }
        taken
    }
}
