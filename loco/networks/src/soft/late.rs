//! Plays devices of other tiers than `ibta`, and of that one if asked for ([`SoftLimits::late`](super::SoftLimits::late)):
//! work requests wait in their queue pair, and are carried out in every order that the tier allows (`docs/ordering-models.md`).
//!
//! The source of a write is read when it is posted, or when its fence lets it begin. On `ibta` and `pcie-relaxed` requests are carried
//! out one after the other, but a write may pass reads. A write that is carried out is on the bus, and may complete before it is
//! placed. The bus places writes in the order in which they came to it, and a read or an atomic is carried out when nothing of its
//! queue pair is on the bus. On `pcie-relaxed` the bus places writes in any order, and a read pushes none (`ibv_reg_mr(3)`). On
//! `unordered` a write is placed when it is carried out. Completions come in the order of the requests on every tier.
//!
//! Requests are carried out by a thread of the device, and within calls that post and poll, so that races do not depend
//! on when the host runs the thread.

use std::ptr;
use std::sync::{Arc, PoisonError};

use loco_fabric::Tier;
use loco_host::bytes;
use loco_verbs::ffi::types::*;
use rand::Rng;

use super::handles::{Ended, Late, QpState, Request, SoftQp, carry_out, complete_all, end, lock};
use super::shared::{Shared, zeroed};

/// The number of powers of two to choose from: a turn has 1, 2 or 4 steps.
const BURST_DOUBLINGS: u32 = 3;

/// The next step of a queue pair: an index of `waiting`, or of `bus`.
#[derive(Clone, Copy)]
enum Step {
    CarryOut(usize),
    Place(usize),
}

impl Request {
    fn of(wr: &SendWr) -> Request {
        let sge = match wr.num_sge {
            0 => zeroed(),
            // SAFETY: a work request with elements points to them.
            _ => unsafe { *wr.sg_list },
        };
        Request {
            wr: *wr,
            sge,
            data: Vec::new(),
            status: None,
            has_source: false,
        }
    }

    fn is_write(&self) -> bool {
        self.wr.opcode == IBV_WR_RDMA_WRITE
    }

    fn is_atomic(&self) -> bool {
        matches!(
            self.wr.opcode,
            IBV_WR_ATOMIC_FETCH_AND_ADD | IBV_WR_ATOMIC_CMP_AND_SWP
        )
    }

    /// Copies the data of a write, which the poster may change when it has completed.
    fn read_source(&mut self, shared: &Shared, inline_max: u32) -> Result<(), u32> {
        self.has_source = true;
        if self.wr.num_sge == 0 || self.sge.length == 0 {
            return Ok(());
        }
        let len = self.sge.length as usize;
        self.data = vec![0; len];
        if self.wr.send_flags & IBV_SEND_INLINE == 0 {
            let registered = shared.registered();
            let from = registered.resolve(self.sge.lkey, self.sge.addr, len, 0);
            let from = from.ok_or(IBV_WC_LOC_PROT_ERR)?;
            // SAFETY: resolved within registered memory, which `registered` keeps mapped.
            unsafe { bytes::read(from, &mut self.data) };
        } else if self.sge.length > inline_max {
            return Err(IBV_WC_LOC_LEN_ERR);
        } else {
            let from = ptr::with_exposed_provenance::<u8>(usize::try_from(self.sge.addr).unwrap_or(0));
            // SAFETY: inline data are `len` readable bytes, by the meaning of the flag.
            self.data
                .copy_from_slice(unsafe { std::slice::from_raw_parts(from, len) });
        }
        self.wr.send_flags |= IBV_SEND_INLINE;
        Ok(())
    }

    fn carry_out(&mut self, shared: &Shared, state: &QpState) -> u32 {
        if self.is_write() {
            self.sge.addr = self.data.as_ptr().expose_provenance() as u64;
        }
        let mut wr = self.wr;
        wr.sg_list = &raw mut self.sge;
        // The length of inline data was checked when they were copied.
        carry_out(shared, state, &wr, u32::MAX)
    }
}

impl Late {
    /// Returns the steps that the tier allows.
    fn steps(&self, tier: Tier) -> Vec<Step> {
        let next = match tier {
            Tier::PcieRelaxed => self.bus.len(),
            _ => self.bus.len().min(1),
        };
        let mut steps: Vec<Step> = (0..next).map(Step::Place).collect();
        let (mut any, mut writes, mut atomics, mut results) = (false, false, false, false);
        for (at, request) in self.waiting.iter().enumerate() {
            if request.status.is_some() {
                continue;
            }
            let (write, atomic) = (request.is_write(), request.is_atomic());
            if results && request.wr.send_flags & IBV_SEND_FENCE != 0 {
                break; // Nothing passes a fence.
            }
            let waits = match tier {
                Tier::Ibta | Tier::PcieRelaxed if write => writes || atomics,
                Tier::Ibta | Tier::PcieRelaxed => any,
                Tier::OooRw => atomic && (writes || atomics),
                Tier::OooAll | Tier::Unordered => false,
            };
            if !waits {
                steps.push(Step::CarryOut(at));
            }
            any = true;
            writes |= write;
            atomics |= atomic;
            results |= !write;
        }
        steps
    }
}

/// Takes a work request, which is carried out later.
pub(super) fn post(qp: &SoftQp, state: &mut QpState, wr: &SendWr) {
    let mut request = Request::of(wr);
    if state.state != IBV_QPS_RTS {
        request.status = Some(IBV_WC_WR_FLUSH_ERR);
    } else if request.wr.send_flags & IBV_SEND_INLINE != 0 {
        request.status = request.read_source(&qp.shared, state.cap.max_inline_data).err();
    }
    state.late.waiting.push_back(request);
    read_sources(&qp.shared, state);
}

/// Reads the data of writes, in their order, up to one whose fence is up: its data may be a result that is still to come.
fn read_sources(shared: &Shared, state: &mut QpState) {
    let inline_max = state.cap.max_inline_data;
    let mut results = false;
    for request in state
        .late
        .waiting
        .iter_mut()
        .filter(|request| request.status.is_none())
    {
        if results && request.wr.send_flags & IBV_SEND_FENCE != 0 {
            return;
        }
        if !request.is_write() {
            results = true;
        } else if !request.has_source {
            request.status = request.read_source(shared, inline_max).err();
        }
    }
}

/// Makes a step after a request was posted, or not, and leaves the others to the device's thread.
pub(super) fn posted(qp: &SoftQp) {
    let turn = lock(&qp.turn);
    let failed = take_ended(&qp.shared, &mut lock(&qp.state));
    complete_all(qp, failed);
    drop(turn);
    if lock(&qp.shared.dice).random_bool(0.5) {
        step(qp);
    }
    *lock(&qp.shared.late_work) = true;
    qp.shared.late_posted.notify_one();
}

/// Makes one step of a queue pair, chosen at random. Returns false if there is none.
fn step(qp: &SoftQp) -> bool {
    let shared = &*qp.shared;
    let _turn = lock(&qp.turn);
    let mut state = lock(&qp.state);
    let steps = state.late.steps(shared.limits.tier);
    if steps.is_empty() {
        return false;
    }
    let chosen = lock(&shared.dice).random_range(0..steps.len());
    match steps[chosen] {
        Step::Place(at) => {
            let mut write = state.late.bus.remove(at);
            write.carry_out(shared, &state);
        }
        Step::CarryOut(at) => {
            carry_out_waiting(shared, &mut state, at);
            read_sources(shared, &mut state);
        }
    }
    let ended = take_ended(shared, &mut state);
    drop(state);
    complete_all(qp, ended);
    true
}

fn carry_out_waiting(shared: &Shared, state: &mut QpState, at: usize) {
    let Some(mut request) = state.late.waiting.remove(at) else {
        return;
    };
    let pushes = match shared.limits.tier {
        Tier::PcieRelaxed => request.is_atomic(),
        _ => !request.is_write(),
    };
    if pushes {
        place_all(shared, state);
    }
    let status = match shared.injected() {
        IBV_WC_SUCCESS if request.is_write() && shared.limits.tier != Tier::Unordered => {
            state.late.bus.push(Request {
                wr: request.wr,
                sge: request.sge,
                data: std::mem::take(&mut request.data),
                status: None,
                has_source: true,
            });
            IBV_WC_SUCCESS
        }
        IBV_WC_SUCCESS => request.carry_out(shared, state),
        injected => injected,
    };
    request.status = Some(status);
    state.late.waiting.insert(at, request);
}

/// Places what is on the bus.
fn place_all(shared: &Shared, state: &mut QpState) {
    for mut write in std::mem::take(&mut state.late.bus) {
        write.carry_out(shared, state);
    }
}

/// Takes the oldest requests that are carried out. One that failed takes all later ones with it.
fn take_ended(shared: &Shared, state: &mut QpState) -> Ended {
    let mut ended = Ended::new();
    while let Some(status) = state.late.waiting.front().and_then(|request| request.status) {
        let Some(request) = state.late.waiting.pop_front() else {
            break;
        };
        if status != IBV_WC_SUCCESS {
            fail(state);
        }
        state.uncovered += 1;
        ended.extend(end(shared, state, &request.wr, status));
    }
    ended
}

/// Ends the requests that are not carried out.
fn fail(state: &mut QpState) {
    for request in &mut state.late.waiting {
        request.status.get_or_insert(IBV_WC_WR_FLUSH_ERR);
    }
}

/// Flushes the requests of a queue pair that has entered the error state, and returns their completions.
pub(super) fn flush(shared: &Shared, state: &mut QpState) -> Ended {
    fail(state);
    take_ended(shared, state)
}

/// Places what was acknowledged and is not placed, when the queue pair goes.
pub(super) fn place_acknowledged(qp: &SoftQp) {
    place_all(&qp.shared, &mut lock(&qp.state));
}

/// Gives every queue pair of the device a turn. Returns false if none made a step.
pub(super) fn turn(shared: &Shared) -> bool {
    let holders = lock(&shared.holders);
    let mut made = false;
    for &raw in &*holders {
        // SAFETY: a queue pair leaves the list before it is destroyed, and the list is locked.
        let qp = unsafe { &*ptr::with_exposed_provenance::<SoftQp>(raw) };
        let burst = 1 << lock(&shared.dice).random_range(0..BURST_DOUBLINGS);
        for _ in 0..burst {
            made |= step(qp);
        }
    }
    made
}

/// Starts the thread of a device that carries requests out late. Like the device, it lives as long as the process.
pub(super) fn start(shared: &Arc<Shared>) {
    if !is_late(shared) {
        return;
    }
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        loop {
            let mut work = lock(&shared.late_work);
            while !*work {
                work = shared
                    .late_posted
                    .wait(work)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            *work = false;
            drop(work);
            while turn(&shared) {
                std::thread::yield_now();
            }
        }
    });
}

/// Returns true if the device carries requests out late.
pub(super) fn is_late(shared: &Shared) -> bool {
    (shared.limits.tier != Tier::Ibta || shared.limits.late) && !shared.limits.null
}
