//! Fences by scope (ours): the thread's earlier remote operations are finished and placed before later ones
//! begin.
//!
//! Unlike a global fence, they leave CPU stores in their buffer, because a fence that finds nothing
//! outstanding does nothing. `fence_node` is specified only for the operations of its own thread.

use crate::client::{Client, Library, Method, NodeSet};
use crate::event::{Arg, Event, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification};
use crate::past::Past;
use crate::value::Value;

/// The specification.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fences;

impl Specification for Fences {
    fn library(&self) -> Library {
        Library::Fence
    }

    fn stamps(&self, client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let nodes = match e.method {
            Method::FencePair => e.nodes(),
            _ => NodeSet::all(client.nodes),
        };
        Some(nodes.iter().map(|n| Stamp::at(StampKind::Pf, n)).collect())
    }

    fn order(&self, _g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        next(state)
    }

    fn results(&self, _past: &Past<'_>, _method: Method, _args: &[Arg]) -> Vec<Value> {
        vec![Value::Unit]
    }

    fn effects(&self, _past: &Past<'_>, _event: &Event) -> Vec<Effect> {
        Vec::new()
    }
}
