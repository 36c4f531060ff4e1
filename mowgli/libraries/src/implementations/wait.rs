//! I_W: RDMA^WAIT over RDMA^TSO (LOCO'26 Fig. 24).
//!
//! A put or get adds its identifier to the set `d^n` of its work identifier and node. A wait polls each node until the set of
//! its identifier is empty, and removes what a poll returns from whichever set has it. The sets are not written down here: as
//! polls come in the order of posting, `d^n` is empty when every operation with `d` towards `n` has been polled.
//!
//! Theorem F.3 is about the outcomes of clients that use RDMA^WAIT only.

use super::{WT, first, last, work};
use crate::client::{Client, Library, Method, Node, NodeSet};
use crate::event::{Arg, Event, Stamp, Wid};
use crate::execution::Graph;
use crate::implementation::{Caller, Implementation, Run};
use crate::value::Value;

/// The implementation.
#[derive(Clone, Copy, Debug, Default)]
pub struct IW {
    /// The mistake in it, if any.
    pub mistake: Option<WaitMistake>,
}

/// Mistakes of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMistake {
    /// A wait polls each node at most once.
    OnePoll,
    /// A wait polls the first node only.
    FirstNodeOnly,
    /// A wait does not poll.
    NoPoll,
}

/// Returns the identifiers of the thread's operations towards a node that have not been polled, oldest first.
fn outstanding(c: &Caller<'_>, node: Node) -> Vec<Wid> {
    let towards = |e: &&Event| match e.method.plain() {
        Method::Put => e.loc(0).is_some_and(|x| x.node == node.0),
        Method::Get | Method::RemoteFaa | Method::RemoteCas => e.loc(1).is_some_and(|x| x.node == node.0),
        _ => false,
    };
    let polls = |e: &&Event| e.method == Method::Poll && e.nodes() == NodeSet::default().with(node);
    let polled = c.made().iter().filter(polls).count();
    let operations = c.made().iter().filter(towards).skip(polled);
    operations.map(|e| e.work().unwrap_or(Wid::NONE)).collect()
}

impl IW {
    fn wait(self, c: &mut Caller<'_>, d: Wid) -> Run<Value> {
        for node in (0..c.client().nodes).map(Node) {
            if self.mistake == Some(WaitMistake::FirstNodeOnly) && node.0 > 0
                || self.mistake == Some(WaitMistake::NoPoll)
            {
                break;
            }
            while outstanding(c, node).contains(&d) {
                c.call(Method::Poll, &[Arg::Node(node)])?;
                if self.mistake == Some(WaitMistake::OnePoll) {
                    break;
                }
            }
        }
        c.call(Method::SetIsEmpty, &[Arg::Work(d)])
    }
}

impl Implementation for IW {
    fn name(&self) -> &str {
        "I_W"
    }

    fn library(&self) -> Library {
        Library::RdmaWait
    }

    fn run(&self, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        match method {
            Method::Wait => self.wait(c, work(args)),
            _ => c.call(method, args),
        }
    }

    /// Implements appendix G.5: a wait is its last check that a set is empty, and any other call is the one that it makes.
    fn concretise(
        &self,
        _: &Client,
        call: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize> {
        match call.method {
            Method::Wait => last(g, events, WT, |e| e.method == Method::SetIsEmpty),
            _ => first(g, events, stamp, |_| true),
        }
    }
}
