//! I_SV: shared variables over RDMA^WAIT (LOCO'26 section 3.5).

use super::{WT, first, last, loc, node_of, nodes, work};
use crate::client::{Client, Library, Method, Node, NodeSet};
use crate::event::{Arg, Event, Loc, Stamp, StampKind, Wid};
use crate::execution::Graph;
use crate::implementation::{Caller, Cut, Implementation, Run};
use crate::value::Value;

/// The implementation.
#[derive(Clone, Copy, Debug, Default)]
pub struct ISv {
    /// True if the global fence asks for strong order, so that it is one on every network (ours). The papers' fence
    /// relies on a get that comes after the earlier puts of its queue pair.
    pub strong: bool,
    /// The mistake in it, if any.
    pub mistake: Option<SvMistake>,
}

/// Mistakes of the shared variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SvMistake {
    /// The global fence does not wait for its gets.
    FenceWithoutWait,
    /// The global fence waits before its gets.
    FenceWaitsFirst,
    /// The global fence makes puts instead of gets.
    FenceByPuts,
    /// The global fence leaves out the first of its nodes, unless it is the only one.
    FenceLeavesOut,
    /// A wait waits for another identifier.
    WaitForOther,
    /// A broadcast leaves out the last of its nodes, unless it is the only one.
    BroadcastLeavesOut,
}

/// Returns `⊥_n`, a word on each node that only fences touch.
fn dummy(node: Node) -> Loc {
    Loc {
        object: Loc::SHARED,
        part: 0,
        node: node.0,
    }
}

/// Returns `d_0`, the identifier of a fence.
fn fence_id() -> Wid {
    Wid::of(Loc::SHARED)
}

/// Returns the identifiers of the thread's earlier gets and read-modify-writes towards these nodes, except those of
/// fences, which have been waited for.
fn fetching(c: &Caller<'_>, nodes: NodeSet) -> Vec<Wid> {
    let fetches = |e: &&Event| {
        let result = matches!(
            e.method.plain(),
            Method::Get | Method::RemoteFaa | Method::RemoteCas
        );
        result && e.loc(1).is_some_and(|x| nodes.contains(Node(x.node)))
    };
    let mut out: Vec<Wid> = c.made().iter().filter(fetches).filter_map(Event::work).collect();
    out.sort_unstable();
    out.dedup();
    out.retain(|id| *id != fence_id());
    out
}

impl ISv {
    /// Returns the nodes that are served. With this mistake, `left` is left out, unless it is the only one.
    fn served(self, mistake: SvMistake, nodes: NodeSet, left: Option<Node>) -> NodeSet {
        match left.map(|node| nodes.without(node)) {
            Some(fewer) if self.mistake == Some(mistake) && !fewer.is_empty() => fewer,
            _ => nodes,
        }
    }

    fn fence(self, c: &mut Caller<'_>, nodes: NodeSet) -> Run<()> {
        let own = dummy(c.node());
        let wait = |c: &mut Caller<'_>| c.call(Method::Wait, &[Arg::Work(fence_id())]);
        if self.mistake == Some(SvMistake::FenceWaitsFirst) {
            wait(c)?;
        }
        if self.strong {
            // Strong order comes after earlier writes at the peer, and says nothing of results that are under way.
            for id in fetching(c, nodes) {
                c.call(Method::Wait, &[Arg::Work(id)])?;
            }
        }
        for node in self
            .served(SvMistake::FenceLeavesOut, nodes, nodes.iter().next())
            .iter()
        {
            let far = dummy(node);
            let (method, to, from) = match self.mistake {
                Some(SvMistake::FenceByPuts) => (Method::Put, far, own),
                _ if self.strong => (Method::StrongGet, own, far),
                _ => (Method::Get, own, far),
            };
            c.call(method, &[Arg::Loc(to), Arg::Loc(from), Arg::Work(fence_id())])?;
        }
        match self.mistake {
            Some(SvMistake::FenceWithoutWait | SvMistake::FenceWaitsFirst) => Ok(()),
            _ => wait(c).map(drop),
        }
    }
}

impl Implementation for ISv {
    fn name(&self) -> &str {
        "I_SV"
    }

    fn library(&self) -> Library {
        Library::SharedVariable
    }

    fn run(&self, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        let own = c.node();
        match method {
            Method::WriteSv => c.call(Method::Write, &[Arg::Loc(loc(args, 0)?.at(own)), args[1].clone()]),
            Method::ReadSv => c.call(Method::Read, &[Arg::Loc(loc(args, 0)?.at(own))]),
            Method::BcastSv | Method::StrongBcastSv => {
                let x = loc(args, 0)?;
                let asked = nodes(args);
                let targets = self.served(SvMistake::BroadcastLeavesOut, asked, asked.iter().last());
                let put = if method.is_strong() {
                    Method::StrongPut
                } else {
                    Method::Put
                };
                for node in targets.iter() {
                    let args = [Arg::Loc(x.at(node)), Arg::Loc(x.at(own)), Arg::Work(work(args))];
                    c.call(put, &args)?;
                }
                // A broadcast to nobody has no execution.
                if targets.is_empty() {
                    Err(Cut::Blocked)
                } else {
                    Ok(Value::Unit)
                }
            }
            Method::WaitSv => {
                let other = Wid(work(args).0 ^ 1 << 19);
                let id = match self.mistake {
                    Some(SvMistake::WaitForOther) => other,
                    _ => work(args),
                };
                c.call(Method::Wait, &[Arg::Work(id)])
            }
            Method::GfSv => {
                if nodes(args).is_empty() {
                    return Err(Cut::Blocked);
                }
                self.fence(c, nodes(args))?;
                Ok(Value::Unit)
            }
            _ => Err(Cut::Blocked),
        }
    }

    /// Implements appendix G.1. A stamp stands for itself, except that the wait of a fence stands for each
    /// `aGF_n`.
    fn concretise(
        &self,
        _: &Client,
        _: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize> {
        match stamp.kind {
            StampKind::Gf => last(g, events, WT, |e| e.method == Method::Wait)
                .or_else(|| events.last().and_then(|&e| g.of_event(e).last())),
            StampKind::Nlr | StampKind::Nrw => first(g, events, stamp, |e| {
                e.method.plain() == Method::Put && e.loc(0).is_some_and(|x| x.node == node_of(stamp).0)
            }),
            _ => first(g, events, stamp, |_| true),
        }
    }
}
