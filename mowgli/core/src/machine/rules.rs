//! The rules of the network card that more than one buffer or the memory takes part in, each on entry `at` of a queue pair. A
//! rule returns `None`, and changes nothing, if the entry is not there or in another stage.

use crate::model::RmwAtomicity;
use crate::program::Value;

use super::buffers::{LocalBack, QueuePair, RemoteWrite, Source, Stage};
use super::{Config, unit_bit};

/// Reads the source of a put.
pub(super) fn local_read(qp: &mut QueuePair, at: usize, config: &Config, memory: &[Value]) -> Option<()> {
    let Stage::Put { dst, src } = qp.pipe.get(at)?.stage else {
        return None;
    };
    let value = match src {
        Source::Word(src) if config.pcie => *memory.get(src.0 as usize)?,
        Source::Word(src) => qp.through_wb_l(src, *memory.get(src.0 as usize)?),
        Source::Constant(value) => value,
    };
    qp.pipe[at].stage = Stage::PutValue { dst, value };
    Some(())
}

/// Sends the data of a put to the peer.
pub(super) fn remote_write(qp: &mut QueuePair, at: usize, memory: &[Value]) -> Option<()> {
    let Stage::PutValue { dst, value } = qp.pipe.get(at)?.stage else {
        return None;
    };
    qp.pipe[at].is_received(memory).then_some(())?;
    let before = qp.pipe[at].completed_by();
    qp.pipe[at].message = None;
    qp.pipe[at].stage = Stage::Ack;
    let (strong, epoch) = qp.pipe[at].order;
    qp.wb_r.push(RemoteWrite {
        dst,
        value,
        atomic: false,
        transfer: qp.pipe[at].transfer,
        strong,
        epoch,
        before,
    });
    Some(())
}

/// Reads the source of a get at the peer.
pub(super) fn remote_read(qp: &mut QueuePair, at: usize, config: &Config, memory: &[Value]) -> Option<()> {
    let Stage::Get { dst, src } = qp.pipe.get(at)?.stage else {
        return None;
    };
    let value = match config.pcie {
        true => *memory.get(src.0 as usize)?,
        false => qp.through_wb_r(src, *memory.get(src.0 as usize)?),
    };
    qp.pipe[at].stage = Stage::Value { dst, value };
    Some(())
}

/// Begins a read-modify-write at the peer, whose atomics unit is taken if its write comes later.
pub(super) fn atomic_read(
    qp: &mut QueuePair,
    at: usize,
    config: &Config,
    memory: &mut [Value],
    units: &mut u64,
    peer: u16,
) -> Option<()> {
    let Stage::Rmw { dst, target, rmw } = qp.pipe.get(at)?.stage else {
        return None;
    };
    let word = memory.get_mut(target.0 as usize)?;
    let old = *word;
    qp.pipe[at].stage = match (rmw.write(old), config.atomicity) {
        (None, _) => Stage::Value { dst, value: old },
        (Some(new), RmwAtomicity::Glob) => {
            *word = new;
            Stage::Value { dst, value: old }
        }
        (Some(new), RmwAtomicity::Hca) => {
            *units |= unit_bit(peer);
            Stage::Executing {
                dst,
                old,
                target,
                new,
            }
        }
    };
    Some(())
}

/// Sends the write of a read-modify-write on its way to the peer's memory.
pub(super) fn atomic_write(qp: &mut QueuePair, at: usize) -> Option<()> {
    let Stage::Executing {
        dst,
        old,
        target,
        new,
    } = qp.pipe.get(at)?.stage
    else {
        return None;
    };
    qp.pipe[at].stage = Stage::Value { dst, value: old };
    let (_, epoch) = qp.pipe[at].order;
    qp.wb_r.push(RemoteWrite {
        dst: target,
        value: new,
        atomic: true,
        transfer: 0,
        // Its read came after the earlier writes.
        strong: false,
        epoch,
        before: None,
    });
    Some(())
}

/// Sends a result back. Data comes back in any order, and completions in that of the operations.
pub(super) fn respond(qp: &mut QueuePair, at: usize, config: &Config) -> Option<()> {
    let head = *qp.pipe.get(at)?;
    let Stage::Value { dst, value } = head.stage else {
        return None;
    };
    qp.wb_l.push(LocalBack::Write {
        dst,
        value,
        tag: head.tag,
    });
    if config.tier.reorders_network() {
        qp.pipe[at].stage = Stage::Done;
        return Some(());
    }
    qp.pipe.remove(at);
    if head.signaled {
        qp.wb_l.push(LocalBack::Notification { tag: head.tag });
    }
    Some(())
}
