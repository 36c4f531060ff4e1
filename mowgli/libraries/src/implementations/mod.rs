//! The implementations of LOCO'26, with the mistakes that refinement must find. Each has a file, to be read
//! beside its figure.
//!
//! A mistake is a field of the implementation. The correct one has none.

mod barrier;
pub mod list;
mod mixed_size;
mod mixed_variable;
mod ring_buffer;
mod shared_variable;
mod wait;

pub use barrier::{BarrierMistake, IBal};
pub use mixed_size::{IMsw, MswMistake};
pub use mixed_variable::{IMsv, MsvMistake};
pub use ring_buffer::{IRbl, RingMistake};
pub use shared_variable::{ISv, SvMistake};
pub use wait::{IW, WaitMistake};

use crate::client::{Method, Node, NodeSet};
use crate::event::{Arg, Event, Loc, Stamp, StampKind, Wid};
use crate::execution::Graph;
use crate::implementation::{Caller, Cut, Run};
use crate::value::Value;

/// Returns the location at position `at` of the arguments, or ends the run. Only waits have calls without a
/// location here.
fn loc(args: &[Arg], at: usize) -> Run<Loc> {
    match args.get(at) {
        Some(Arg::Loc(loc)) => Ok(*loc),
        _ => Err(Cut::Blocked),
    }
}

fn value(args: &[Arg], at: usize) -> Value {
    match args.get(at) {
        Some(Arg::Value(value)) => value.clone(),
        _ => Value::Unit,
    }
}

fn work(args: &[Arg]) -> Wid {
    let found = args.iter().find_map(|arg| match arg {
        Arg::Work(work) => Some(*work),
        _ => None,
    });
    found.unwrap_or(Wid::NONE)
}

fn nodes(args: &[Arg]) -> NodeSet {
    let found = args.iter().find_map(|arg| match arg {
        Arg::Nodes(nodes) => Some(*nodes),
        _ => None,
    });
    found.unwrap_or_default()
}

/// Calls of shared variables, as the figures write them.
impl Caller<'_> {
    /// Calls `Write_sv(x, v)`.
    fn write_sv(&mut self, x: Loc, v: i64) -> Run<()> {
        self.call(Method::WriteSv, &[Arg::Loc(x), Arg::Value(Value::Int(v))])?;
        Ok(())
    }

    /// Calls `Read_sv(x)`.
    fn read_sv(&mut self, x: Loc) -> Run<i64> {
        Ok(self.call(Method::ReadSv, &[Arg::Loc(x)])?.number())
    }

    /// Calls `Bcast_sv(x, d, nodes)`. Makes no call if there are no nodes: a broadcast to nobody has no stamp
    /// (Def. 3.3).
    fn bcast_sv(&mut self, x: Loc, d: Wid, nodes: NodeSet) -> Run<()> {
        self.bcast_sv_asking(x, d, nodes, false)
    }

    /// Calls `Bcast_sv(x, d, nodes)`, and asks for strong order if `strong`. Makes no call if there are no nodes.
    fn bcast_sv_asking(&mut self, x: Loc, d: Wid, nodes: NodeSet, strong: bool) -> Run<()> {
        let method = if strong {
            Method::StrongBcastSv
        } else {
            Method::BcastSv
        };
        if !nodes.is_empty() {
            self.call(method, &[Arg::Loc(x), Arg::Work(d), Arg::Nodes(nodes)])?;
        }
        Ok(())
    }

    /// Calls `Wait_sv(d)`.
    fn wait_sv(&mut self, d: Wid) -> Run<()> {
        self.call(Method::WaitSv, &[Arg::Work(d)])?;
        Ok(())
    }

    /// Calls `GF_sv(nodes)`. Makes no call if there are no nodes.
    fn gf_sv(&mut self, nodes: NodeSet) -> Run<()> {
        if !nodes.is_empty() {
            self.call(Method::GfSv, &[Arg::Nodes(nodes)])?;
        }
        Ok(())
    }
}

/// Returns the subevent with the stamp of the first of these events that satisfies `is` and has the stamp.
fn first(g: &Graph<'_>, events: &[usize], stamp: Stamp, is: impl Fn(&Event) -> bool) -> Option<usize> {
    let event = events.iter().copied().find(|&e| is(&g.events[e]))?;
    g.subevent(event, stamp)
}

/// Returns the subevent with the stamp of the last of these events that satisfies `is` and has the stamp.
fn last(g: &Graph<'_>, events: &[usize], stamp: Stamp, is: impl Fn(&Event) -> bool) -> Option<usize> {
    let event = events.iter().rev().copied().find(|&e| is(&g.events[e]))?;
    g.subevent(event, stamp)
}

const CR: Stamp = Stamp::cpu(StampKind::Cr);
const CW: Stamp = Stamp::cpu(StampKind::Cw);
const WT: Stamp = Stamp::cpu(StampKind::Wt);

/// Returns the node of a stamp that belongs to a family.
fn node_of(stamp: Stamp) -> Node {
    Node(stamp.node)
}
