//! Helps to grant the requests that reach the network card (completions and operations) and locked instructions.

use mowgli::machine::{Action, Addr, Issued, RemoteOp};
use smallvec::SmallVec;

use super::{Common, State};
use crate::fabric::request::{Completed, NicOp, NodeSet, Rmw};

impl State {
    /// Returns whether the thread would take nothing if it polled now.
    pub(crate) fn polls_in_vain(&self, thread: u16) -> bool {
        let node = self.node_of(thread);
        self.losses.refusal(node, NodeSet::default()).is_none() && !self.can_poll(node)
    }

    pub(super) fn can_poll(&self, node: u16) -> bool {
        self.losses.has_failed(node)
            || self
                .threads_of(node)
                .any(|thread| self.machine.has_notification(thread))
    }

    fn threads_of(&self, node: u16) -> impl Iterator<Item = u16> + '_ {
        (0..self.threads.len() as u16).filter(move |&t| self.node_of(t) == node)
    }

    pub(super) fn queue_pairs_of(&self, node: u16) -> impl Iterator<Item = (u16, u16)> + '_ {
        let peers = self.mail.len() as u16;
        self.threads_of(node)
            .flat_map(move |t| (0..peers).map(move |peer| (t, peer)))
    }

    pub(super) fn poll(&mut self, node: u16) -> SmallVec<[Completed; 2]> {
        let mut completions = SmallVec::new();
        for t in 0..self.threads.len() as u16 {
            if self.node_of(t) != node {
                continue;
            }
            for peer in 0..self.mail.len() as u16 {
                while let Ok(Issued::Completion(tag)) = self.machine.issue(t, Action::Poll { peer }) {
                    completions.push(Completed {
                        tag,
                        peer,
                        failed: false,
                    });
                }
            }
        }
        let failed = self.losses.take_failed(node).into_iter();
        completions.extend(failed.map(|(tag, peer)| Completed {
            tag,
            peer,
            failed: true,
        }));
        completions
    }

    pub(super) fn locked(&mut self, thread: u16, loc: Addr, rmw: Rmw) -> Option<u64> {
        let old = self.machine.load(thread, loc)?;
        if let Some(new) = rmw.apply(old as u64) {
            self.machine
                .issue(
                    thread,
                    Action::Cas {
                        loc,
                        expected: old,
                        new: new as i64,
                    },
                )
                .ok()?;
        }
        Some(old as u64)
    }

    pub(super) fn remote_op(&mut self, common: &Common, op: NicOp) -> RemoteOp {
        match op {
            NicOp::Put { dst, src } => RemoteOp::Put {
                dst: self.addr(common, dst),
                src: self.addr(common, src),
            },
            NicOp::PutInline { dst, value } => RemoteOp::PutInline {
                dst: self.addr(common, dst),
                value: value as i64,
            },
            NicOp::Get { dst, src } => RemoteOp::Get {
                dst: self.addr(common, dst),
                src: self.addr(common, src),
            },
            NicOp::FetchAdd { dst, target, add } => RemoteOp::FetchAdd {
                dst: self.addr(common, dst),
                target: self.addr(common, target),
                add: add as i64,
            },
            NicOp::CompareSwap {
                dst,
                target,
                expected,
                new,
            } => RemoteOp::CompareSwap {
                dst: self.addr(common, dst),
                target: self.addr(common, target),
                expected: expected as i64,
                new: new as i64,
            },
            NicOp::Fence => RemoteOp::Fence,
        }
    }
}
