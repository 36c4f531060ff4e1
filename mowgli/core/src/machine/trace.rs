//! Describes steps in words.
//!
//! A description needs the state *before* the step, because a step alone names only an entry of a buffer. Used by [`crate::explore`] and by
//! `loco-sim` for failing schedules.

use super::buffers::{Delayed, LocalBack, QueuePair, Source, Stage};
use super::{Addr, Machine, QpId, Rule, Step};
use crate::model::RmwAtomicity;

impl Machine {
    /// Describes the effect of the step in this state: `P0->2: get reads x (=3)`. `name` gives the names of words.
    /// Nodes are written from 1, as in litmus files.
    pub fn describe(&self, step: Step, name: &dyn Fn(Addr) -> String) -> String {
        self.describe_from(1, step, name)
    }

    /// Describes the effect of the step as [`describe`](Machine::describe) does, with nodes written from `first`.
    pub fn describe_from(&self, first: u16, step: Step, name: &dyn Fn(Addr) -> String) -> String {
        match step {
            Step::Drain { thread } => {
                let head = self
                    .threads
                    .get(thread as usize)
                    .and_then(|t| t.store_buffer.first())
                    .map(|e| match *e {
                        Delayed::Store { loc, value } => {
                            format!("store buffer writes {} := {value} to memory", name(loc))
                        }
                        Delayed::Remote { peer, entry } => format!(
                            "store buffer hands {} to the queue pair to node {}",
                            describe_stage(&entry.stage, name),
                            peer + first
                        ),
                    });
                format!(
                    "P{thread}: {}",
                    head.unwrap_or_else(|| "nothing to drain".to_owned())
                )
            }
            Step::Nic { qp: id, rule, index } => {
                let what = self
                    .queue_pair(id)
                    .and_then(|qp| self.describe_rule(qp, rule, index, name));
                let QpId { thread, peer } = id;
                format!(
                    "P{thread}->{}: {}",
                    peer + first,
                    what.unwrap_or_else(|| rule.name().to_owned())
                )
            }
        }
    }

    fn describe_rule(
        &self,
        qp: &QueuePair,
        rule: Rule,
        index: u16,
        name: &dyn Fn(Addr) -> String,
    ) -> Option<String> {
        let memory = |loc: Addr| self.memory.get(loc.0 as usize).copied();
        let stage = qp.pipe.get(index as usize).map(|e| e.stage);
        Some(match (rule, stage) {
            (Rule::PlaceRemote, _) => {
                let write = qp.wb_r.get(index as usize)?;
                let what = if write.atomic { "write of RMW" } else { "put" };
                format!("{what} is placed: {} := {}", name(write.dst), write.value)
            }
            (Rule::PlaceLocal, _) => {
                let (dst, value) = match qp.wb_l[qp.local_write(index as usize)?] {
                    LocalBack::Write { dst, value, .. } => (dst, value),
                    LocalBack::Notification { .. } => return None,
                };
                format!("result is placed: {} := {value}", name(dst))
            }
            (
                Rule::LocalRead,
                Some(Stage::Put {
                    dst,
                    src: Source::Word(src),
                }),
            ) => {
                let value = qp.through_wb_l(src, memory(src)?);
                format!("put to {} reads {} (={value})", name(dst), name(src))
            }
            (
                Rule::LocalRead,
                Some(Stage::Put {
                    dst,
                    src: Source::Constant(v),
                }),
            ) => {
                format!("put to {} takes its constant {v}", name(dst))
            }
            (Rule::RemoteWrite, Some(Stage::PutValue { dst, value })) => {
                format!("put of {value} to {} is acknowledged, not yet placed", name(dst))
            }
            (Rule::RemoteRead, Some(Stage::Get { src, .. })) => {
                format!(
                    "get reads {} (={})",
                    name(src),
                    qp.through_wb_r(src, memory(src)?)
                )
            }
            (Rule::Respond, Some(Stage::Value { dst, value })) => {
                format!("result {value} for {} is back, not yet placed", name(dst))
            }
            (Rule::Complete, Some(Stage::Done)) => "operation completes".to_owned(),
            (Rule::Complete, _) => "put completes".to_owned(),
            (Rule::Fence, _) => "remote fence passes".to_owned(),
            (Rule::AtomicRead, Some(Stage::Rmw { target, rmw, .. })) => {
                let old = memory(target)?;
                let then = match (rmw.write(old), self.config.atomicity) {
                    (None, _) => "and does not write".to_owned(),
                    (Some(new), RmwAtomicity::Glob) => format!("and writes {new} at once"),
                    (Some(new), RmwAtomicity::Hca) => format!("and will write {new}"),
                };
                format!("RMW reads {} (={old}) {then}", name(target))
            }
            (Rule::AtomicWrite, Some(Stage::Executing { target, new, .. })) => {
                format!("RMW issues its write {} := {new}, not yet placed", name(target))
            }
            (Rule::Forward, Some(stage)) => format!("{} moves on", describe_stage(&stage, name)),
            _ => return None,
        })
    }
}

/// Describes an operation under way: `put y := x`.
pub(super) fn describe_stage(stage: &Stage, name: &dyn Fn(Addr) -> String) -> String {
    match *stage {
        Stage::Put {
            dst,
            src: Source::Word(src),
        } => format!("put {} := {}", name(dst), name(src)),
        Stage::Put {
            dst,
            src: Source::Constant(v),
        }
        | Stage::PutValue { dst, value: v } => {
            format!("put {} := {v}", name(dst))
        }
        Stage::Ack => "acknowledgement".to_owned(),
        Stage::Get { dst, src } => format!("get {} := {}", name(dst), name(src)),
        Stage::Value { dst, value } => format!("result {} := {value}", name(dst)),
        Stage::Rmw { dst, target, .. } => format!("RMW {} := rmw {}", name(dst), name(target)),
        Stage::Executing { target, new, .. } => format!("RMW write {} := {new}", name(target)),
        Stage::Fence => "remote fence".to_owned(),
        Stage::Done => "result".to_owned(),
    }
}
