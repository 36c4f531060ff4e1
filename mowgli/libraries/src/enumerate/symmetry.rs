//! Symmetries of clients: renamings of threads, nodes and objects that turn one client into another.

use super::Shape;
use crate::client::{Arg, Call, Node, ObjectId, ObjectKind, ThreadId};

/// A renaming of threads, nodes and objects.
#[derive(Clone, Debug)]
pub(super) struct Renaming {
    pub(super) threads: Vec<usize>,
    nodes: Vec<u8>,
    objects: Vec<usize>,
}

impl Renaming {
    fn object_kind(&self, kind: &ObjectKind) -> ObjectKind {
        let node = |n: Node| Node(self.nodes[usize::from(n.0)]);
        let thread = |t: ThreadId| ThreadId(self.threads[usize::from(t.0)] as u8);
        let set = |ts: &[ThreadId]| {
            let mut out: Vec<ThreadId> = ts.iter().map(|&t| thread(t)).collect();
            out.sort_unstable();
            out
        };
        let mut out = kind.clone();
        match &mut out {
            ObjectKind::Word { node: n, .. }
            | ObjectKind::MixedSize { node: n, .. }
            | ObjectKind::Owned { owner: n }
            | ObjectKind::Atomic { node: n, .. }
            | ObjectKind::Lock { node: n }
            | ObjectKind::Queue { node: n, .. } => *n = node(*n),
            ObjectKind::Barrier { participants } => *participants = set(participants),
            ObjectKind::Ring { writer, readers, .. } => {
                *writer = thread(*writer);
                *readers = set(readers);
            }
            ObjectKind::SharedVariable | ObjectKind::Sst | ObjectKind::Store => {}
        }
        out
    }

    pub(super) fn call(&self, call: &Call) -> Call {
        let args = call.args.iter().map(|arg| match arg {
            Arg::Object(o) => Arg::Object(ObjectId(self.objects[usize::from(o.0)] as u16)),
            Arg::Node(n) => Arg::Node(Node(self.nodes[usize::from(n.0)])),
            Arg::Nodes(set) => Arg::Nodes(set.iter().map(|n| Node(self.nodes[usize::from(n.0)])).collect()),
            other => other.clone(),
        });
        Call {
            method: call.method,
            args: args.collect(),
        }
    }
}

/// Returns the renamings that turn one shape into the other, or only the first of them if `first` is set.
pub(super) fn isomorphisms(from: &Shape, to: &Shape, first: bool) -> Vec<Renaming> {
    let mut out = Vec::new();
    if from.nodes.len() != to.nodes.len()
        || from.node_count != to.node_count
        || from.objects.len() != to.objects.len()
    {
        return out;
    }
    for threads in permutations(from.nodes.len()) {
        for nodes in permutations(usize::from(from.node_count)) {
            let nodes: Vec<u8> = nodes.iter().map(|&n| n as u8).collect();
            let placed = |t: usize| to.nodes[threads[t]].0 == nodes[usize::from(from.nodes[t].0)];
            if !(0..from.nodes.len()).all(placed) {
                continue;
            }
            for objects in permutations(from.objects.len()) {
                let renaming = Renaming {
                    threads: threads.clone(),
                    nodes: nodes.clone(),
                    objects,
                };
                let fits =
                    |o: usize| to.objects[renaming.objects[o]] == renaming.object_kind(&from.objects[o]);
                if (0..from.objects.len()).all(fits) {
                    out.push(renaming);
                    if first {
                        return out;
                    }
                }
            }
        }
    }
    out
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new()];
    for _ in 0..n {
        out = out
            .into_iter()
            .flat_map(|p: Vec<usize>| {
                (0..n)
                    .filter(|i| !p.contains(i))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(move |i| {
                        let mut more = p.clone();
                        more.push(i);
                        more
                    })
            })
            .collect();
    }
    out
}
