//! The concrete queue pair: six FIFO buffers, RDMA-TSO'24 Fig. 7, and `docs/rmw.md` for read-modify-writes.
//!
//! Relies on [`super::buffers`]: `rsp_L`, `out_R`, `in_R` and `req_L` are consecutive ranges of the pipe, oldest first. A rule
//! concerns the head of a buffer, with one exception: the read of a get may happen anywhere in `out_R`.

use super::buffers::{Bounds, QueuePair, Stage};
use super::{Config, Rule};

/// Calls `push` with every enabled rule of the four main buffers and the index of its entry in the pipe.
pub(super) fn enabled(qp: &QueuePair, config: Config, unit_free: bool, push: &mut impl FnMut(Rule, usize)) {
    let Bounds { rsp, out, inbox } = qp.bounds;
    let (rsp, out, inbox) = (rsp as usize, out as usize, inbox as usize);
    // req_L
    match qp.pipe.get(inbox).map(|e| e.stage) {
        Some(Stage::Put { .. }) if !config.pcie || !qp.has_local_write() => push(Rule::LocalRead, inbox),
        // The value of an inlined put has been read when the put was posted.
        Some(Stage::PutValue { .. } | Stage::Get { .. } | Stage::Rmw { .. }) => push(Rule::Forward, inbox),
        Some(Stage::Fence) if inbox == 0 => push(Rule::Fence, 0),
        _ => {}
    }
    // in_R
    if out < inbox {
        match qp.pipe[out].stage {
            Stage::PutValue { .. } => push(Rule::RemoteWrite, out),
            Stage::Get { .. } => push(Rule::Forward, out),
            Stage::Rmw { .. } if qp.wb_r.is_empty() && unit_free => push(Rule::AtomicRead, out),
            Stage::Executing { .. } => push(Rule::AtomicWrite, out),
            _ => {}
        }
    }
    // out_R
    for (i, entry) in qp.pipe[..out].iter().enumerate().skip(rsp) {
        match entry.stage {
            Stage::Get { .. } if !config.pcie || qp.wb_r.is_empty() => push(Rule::RemoteRead, i),
            Stage::Ack | Stage::Value { .. } if i == rsp => push(Rule::Forward, i),
            _ => {}
        }
    }
    // rsp_L
    if rsp > 0 {
        match qp.pipe[0].stage {
            Stage::Ack => push(Rule::Complete, 0),
            // The write of an RMW is placed before its result is written.
            Stage::Value { .. } if !config.in_order || qp.wb_r.is_empty() => push(Rule::Respond, 0),
            _ => {}
        }
    }
}

/// Returns whether the entry at `at` is where `rule` works: the rules move entries only between neighbouring buffers.
pub(super) fn is_in_place(qp: &QueuePair, rule: Rule, at: usize) -> bool {
    let Bounds { rsp, out, inbox } = qp.bounds;
    let (rsp, out, inbox) = (rsp as usize, out as usize, inbox as usize);
    match rule {
        Rule::LocalRead => at == inbox,
        Rule::RemoteWrite | Rule::AtomicWrite | Rule::AtomicRead => at == out && at < inbox,
        Rule::RemoteRead => (rsp..out).contains(&at),
        Rule::Forward => at < qp.pipe.len() && [inbox, out, rsp].contains(&at),
        Rule::Complete | Rule::Respond => rsp > 0,
        Rule::Fence => inbox == 0,
        Rule::PlaceRemote | Rule::PlaceLocal => true,
    }
}

/// Moves the boundaries after `rule` has changed the entry at `at`, which [`is_in_place`].
pub(super) fn shift(qp: &mut QueuePair, rule: Rule, at: usize) {
    let at = at as u16;
    let bounds = &mut qp.bounds;
    match rule {
        Rule::LocalRead => bounds.inbox += 1,
        Rule::RemoteWrite | Rule::AtomicWrite => bounds.out += 1,
        // The entry stays at the head of in_R if its write is a step of its own.
        Rule::AtomicRead if matches!(qp.pipe[at as usize].stage, Stage::Executing { .. }) => {}
        Rule::AtomicRead => bounds.out += 1,
        // Where boundaries coincide, the buffers between them are empty, so the entry is in the last of them.
        Rule::Forward if at == bounds.inbox => bounds.inbox += 1,
        Rule::Forward if at == bounds.out => bounds.out += 1,
        Rule::Forward => bounds.rsp += 1,
        Rule::Complete | Rule::Respond => {
            bounds.rsp -= 1;
            bounds.out -= 1;
            bounds.inbox -= 1;
        }
        Rule::Fence | Rule::RemoteRead | Rule::PlaceRemote | Rule::PlaceLocal => {}
    }
}
