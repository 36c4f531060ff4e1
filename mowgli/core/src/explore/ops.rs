//! The instructions of flattened threads, and what they may access.
//!
//! Made by [`super::code`], run by [`super::state`].

use super::access::Access;
use crate::machine::{Addr, MessagePart};
use crate::outcome::Growth;
use crate::program::Expr;

/// An instruction or a jump.
#[derive(Debug)]
pub(super) enum Op {
    Assign {
        reg: usize,
        value: Expr,
    },
    /// Continues at the next position if the condition is not 0.
    Branch {
        cond: Expr,
        otherwise: usize,
    },
    Jump(usize),
    /// Starts a loop's iteration. If the condition is 0, leaves to `exit`.
    Loop {
        cond: Expr,
        count: Count,
        exit: usize,
    },
    Assume(Expr),
    Choose(Vec<usize>),
    Act(Act),
    End,
}

/// The count of a loop's iterations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    /// The register that counts, if iterations must stay within the bound.
    pub(super) counter: Option<usize>,
    /// Set if the loop stops where states have no end.
    pub(super) is_watched: bool,
    pub(super) bound: u32,
    /// The part of the state that may grow from one iteration to the next.
    pub(super) growth: Growth,
}

/// Instructions that reach the machine.
#[derive(Debug)]
pub(super) enum Act {
    Store {
        loc: Addr,
        value: Expr,
    },
    Load {
        reg: usize,
        loc: Addr,
    },
    Cas {
        reg: Option<usize>,
        loc: Addr,
        expected: Expr,
        new: Expr,
    },
    Swap {
        reg: Option<usize>,
        loc: Addr,
        new: Expr,
    },
    Mfence,
    Poll {
        peer: u16,
    },
    Wait {
        tag: u64,
    },
    Post {
        peer: u16,
        tag: u64,
        signaled: bool,
        strong: bool,
        op: PostOp,
        message: Option<MessagePart>,
    },
}

/// Remote operations with their operands still to be evaluated.
#[derive(Debug)]
pub(super) enum PostOp {
    Put {
        dst: Addr,
        src: Addr,
    },
    PutValue {
        dst: Addr,
        value: Expr,
        inline: bool,
    },
    Get {
        dst: Addr,
        src: Addr,
    },
    FetchAdd {
        dst: Addr,
        target: Addr,
        add: Expr,
    },
    CompareSwap {
        dst: Addr,
        target: Addr,
        expected: Expr,
        new: Expr,
    },
    Swap {
        dst: Addr,
        target: Addr,
        new: Expr,
    },
    Fence,
}

/// Computes the accesses that are possible from each position on, as a backwards fixpoint.
pub(super) fn futures(ops: &[Op], thread: u16) -> Vec<Access> {
    let mut future = vec![Access::NONE; ops.len()];
    loop {
        let mut changed = false;
        for at in (0..ops.len()).rev() {
            let next = |to: usize| future.get(to).copied().unwrap_or(Access::NONE);
            let access = match &ops[at] {
                Op::Assign { .. } | Op::Assume(_) => next(at + 1),
                Op::Branch { otherwise, .. } => next(at + 1).and(next(*otherwise)),
                Op::Jump(to) => next(*to),
                Op::Loop { exit, .. } => next(at + 1).and(next(*exit)),
                Op::Choose(starts) => starts
                    .iter()
                    .fold(Access::NONE, |access, start| access.and(next(*start))),
                Op::Act(act) => next(at + 1).and(act.access(thread)),
                Op::End => Access::NONE,
            };
            changed |= access != future[at];
            future[at] = access;
        }
        if !changed {
            return future;
        }
    }
}

impl Act {
    /// Returns the accesses of the instruction, including those that it makes the NIC do.
    pub(super) fn access(&self, thread: u16) -> Access {
        match *self {
            Act::Store { loc, .. } => Access::write(loc),
            Act::Load { loc, .. } => Access::read(loc),
            Act::Cas { loc, .. } | Act::Swap { loc, .. } => Access::read(loc).and(Access::write(loc)),
            Act::Mfence | Act::Poll { .. } | Act::Wait { .. } => Access::NONE,
            Act::Post {
                peer,
                ref op,
                message,
                ..
            } => match *op {
                PostOp::Put { dst, src } => Access::put(thread, peer, dst)
                    .and(Access::read(src))
                    .and(Access::receive(message)),
                PostOp::PutValue { dst, .. } => Access::put(thread, peer, dst).and(Access::receive(message)),
                PostOp::Get { dst, src } => Access::get(thread, peer, dst, src),
                PostOp::FetchAdd { dst, target, .. }
                | PostOp::CompareSwap { dst, target, .. }
                | PostOp::Swap { dst, target, .. } => Access::rmw(thread, peer, dst, target),
                PostOp::Fence => Access::NONE,
            },
        }
    }
}
