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
    fn node(&self, node: Node) -> Node {
        Node(self.nodes[usize::from(node.0)])
    }

    fn object_kind(&self, kind: &ObjectKind) -> ObjectKind {
        let node = |n: Node| self.node(n);
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
            ObjectKind::SharedVariable
            | ObjectKind::MixedVariable { .. }
            | ObjectKind::Sst
            | ObjectKind::Store => {}
        }
        out
    }

    /// Returns the nodes of a shape's threads and its objects as they are after the renaming.
    fn image(&self, shape: &Shape) -> (Vec<Node>, Vec<ObjectKind>) {
        let mut nodes = vec![Node(0); shape.nodes.len()];
        for (&t, &node) in self.threads.iter().zip(&shape.nodes) {
            nodes[t] = self.node(node);
        }
        let objects = shape.objects.iter().map(|kind| self.object_kind(kind));
        (nodes, objects.collect())
    }

    pub(super) fn call(&self, call: &Call) -> Call {
        let args = call.args.iter().map(|arg| match arg {
            Arg::Object(o) => Arg::Object(ObjectId(self.objects[usize::from(o.0)] as u16)),
            Arg::Node(n) => Arg::Node(self.node(*n)),
            Arg::Nodes(set) => Arg::Nodes(set.iter().map(|n| self.node(n)).collect()),
            other => other.clone(),
        });
        Call {
            method: call.method,
            args: args.collect(),
        }
    }
}

/// The most symmetries of a shape that are looked at. With fewer than all, some clients are enumerated more than once.
const SYMMETRIES_MAX: usize = 4096;

/// Returns the renamings that turn a shape into itself, at most [`SYMMETRIES_MAX`].
pub(super) fn symmetries(shape: &Shape) -> Vec<Renaming> {
    let mut out = Vec::new();
    let kinds = sorted(shape.objects.clone());
    for mut renaming in placed(shape) {
        let (nodes, images) = renaming.image(shape);
        // Objects of one kind can stand for each other, so a choice for each object succeeds if the kinds are the same.
        if nodes == shape.nodes && sorted(images.clone()) == kinds {
            assign(shape, &images, &mut renaming, &mut out);
        }
    }
    out
}

/// Adds the renaming with every choice of an object of the right kind for each object that has none yet.
fn assign(shape: &Shape, images: &[ObjectKind], renaming: &mut Renaming, out: &mut Vec<Renaming>) {
    let Some(image) = images.get(renaming.objects.len()) else {
        out.push(renaming.clone());
        return;
    };
    for (o, kind) in shape.objects.iter().enumerate() {
        if out.len() < SYMMETRIES_MAX && kind == image && !renaming.objects.contains(&o) {
            renaming.objects.push(o);
            assign(shape, images, renaming, out);
            renaming.objects.pop();
        }
    }
}

/// Returns a name that a shape shares with those that a renaming of threads and nodes turns into it, and with no others.
pub(super) fn canonical(shape: &Shape) -> (u8, Vec<Node>, Vec<ObjectKind>) {
    let names = placed(shape).into_iter().map(|renaming| {
        let (nodes, objects) = renaming.image(shape);
        (shape.node_count, nodes, sorted(objects))
    });
    names.min().unwrap_or_default()
}

fn sorted(mut objects: Vec<ObjectKind>) -> Vec<ObjectKind> {
    objects.sort_unstable();
    objects
}

/// Returns every renaming of a shape's threads and nodes. Objects are not renamed.
fn placed(shape: &Shape) -> Vec<Renaming> {
    let mut out = Vec::new();
    for threads in permutations(shape.nodes.len()) {
        for nodes in permutations(usize::from(shape.node_count)) {
            out.push(Renaming {
                threads: threads.clone(),
                nodes: nodes.iter().map(|&n| n as u8).collect(),
                objects: Vec::new(),
            });
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
