//! Enumerates every client of some libraries up to a size, once up to symmetry, small ones first.
//!
//! A *shape* is a set of threads on nodes and of objects with their roles. The clients of a shape are all
//! ways to give each thread a sequence of calls. Two clients are equal up to symmetry if a renaming of
//! threads, nodes and objects that keeps the shape turns one into the other. Of such clients, the one whose
//! calls come first in the order of the alphabet stands for all. Values are not enumerated: the k-th write of a
//! client writes the k-th value, so that a reader can tell writes apart.

mod random;
mod symmetry;

use std::ops::ControlFlow;

pub use random::RandomClients;
use rustc_hash::FxHashSet;
use symmetry::{canonical, symmetries};

use crate::client::{
    Arg, Call, Client, Expr, Library, Method, Node, NodeSet, Object, ObjectId, ObjectKind, Reg, Stmt, Thread,
    ThreadId, WorkId,
};
use crate::execution::Flow;
use crate::justified::product;
use crate::value::Value;

/// The most threads of a client that commands enumerate. All renamings of threads and nodes are tried.
pub const THREADS_MAX: usize = 4;
/// The most nodes of a client that commands enumerate.
pub const NODES_MAX: u8 = 4;
/// The most objects of each library, or words of each node, of a client that commands enumerate.
pub const OBJECTS_MAX: usize = 4;
/// The most calls of a client that commands enumerate. A call has up to four subevents, and
/// [`SUBEVENTS_MAX`](crate::order::SUBEVENTS_MAX) are the most of an execution.
pub const CALLS_MAX: usize = 32;

/// The clients to enumerate.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The libraries whose methods are called.
    pub libraries: Vec<Library>,
    /// If not empty, the only methods that are called. Otherwise all are that do not ask for strong order.
    pub methods: Vec<Method>,
    /// The most threads.
    pub threads_max: usize,
    /// The fewest calls of a client, over all threads.
    pub calls_min: usize,
    /// The most calls of a client, over all threads.
    pub calls_max: usize,
    /// The most calls of each thread.
    pub calls_each_max: usize,
    /// The most nodes.
    pub nodes_max: u8,
    /// The most objects of each library, where the library's shape does not fix it.
    pub objects_max: usize,
    /// True if clients without a result are left out. Their outcomes show nothing.
    pub results: bool,
}

impl Bounds {
    /// Returns the bounds of clients of these libraries: up to two threads, so many calls, two nodes, one
    /// object of each library.
    pub fn of(libraries: &[Library], calls_max: usize) -> Bounds {
        Bounds {
            libraries: libraries.to_vec(),
            methods: Vec::new(),
            threads_max: 2,
            calls_min: 1,
            calls_max,
            calls_each_max: calls_max,
            nodes_max: 2,
            objects_max: 1,
            results: true,
        }
    }

    /// Returns these bounds for clients of so many calls.
    pub fn with_calls(&self, calls: usize) -> Bounds {
        Bounds {
            calls_min: calls,
            calls_max: calls,
            calls_each_max: self.calls_each_max.max(calls),
            ..self.clone()
        }
    }

    /// Returns whether clients call this method.
    pub fn has(&self, method: Method) -> bool {
        let listed = match self.methods.is_empty() {
            true => !method.is_strong(),
            false => self.methods.contains(&method),
        };
        listed && method.is_of_clients() && self.libraries.contains(&method.library())
    }
}

/// Threads on nodes, and objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    nodes: Vec<Node>,
    node_count: u8,
    objects: Vec<ObjectKind>,
}

/// Asks whether to give up: the time is over, or the caller has what it wants.
pub type Stop<'a> = &'a dyn Fn() -> bool;

/// Calls `visit` with every client within the bounds, until it breaks. Clients with fewer calls come first.
pub fn for_each_client(bounds: &Bounds, visit: &mut dyn FnMut(Client) -> ControlFlow<()>) -> ControlFlow<()> {
    for_each_client_until(bounds, &|| false, visit)
}

/// Calls `visit` like [`for_each_client`], and breaks when `stop` says so. It is asked before each client, and while shapes are
/// listed, so that bounds with too many shapes to list do not outlast the caller's time.
pub fn for_each_client_until(
    bounds: &Bounds,
    stop: Stop<'_>,
    visit: &mut dyn FnMut(Client) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let tables = tables(bounds, stop)?;
    let mut number = 0;
    let room = bounds.threads_max.saturating_mul(bounds.calls_each_max);
    for calls in bounds.calls_min..=bounds.calls_max.min(room) {
        for table in &tables {
            table.each(calls, stop, &mut |sequences| {
                number += 1;
                visit(table.client(sequences, number))
            })?;
        }
    }
    ControlFlow::Continue(())
}

/// Returns the number of clients within the bounds.
pub fn count(bounds: &Bounds) -> u64 {
    let mut count = 0;
    let _ = for_each_client(bounds, &mut |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    count
}

/// Returns the tables of the shapes within the bounds.
fn tables(bounds: &Bounds, stop: Stop<'_>) -> ControlFlow<(), Vec<Table>> {
    let mut out = Vec::new();
    for shape in shapes(bounds, stop)? {
        if stop() {
            return ControlFlow::Break(());
        }
        out.push(Table::new(bounds, shape));
    }
    ControlFlow::Continue(out)
}

/// Returns the shapes within the bounds, each once up to renaming of threads and nodes.
fn shapes(bounds: &Bounds, stop: Stop<'_>) -> ControlFlow<(), Vec<Shape>> {
    let mut out: Vec<Shape> = Vec::new();
    let mut known = FxHashSet::default();
    for threads in 1..=bounds.threads_max {
        for nodes in placements(threads, bounds.nodes_max) {
            let used = nodes.iter().map(|n| n.0 + 1).max().unwrap_or(1);
            for node_count in used..=bounds.nodes_max {
                let choices: Vec<_> = bounds
                    .libraries
                    .iter()
                    .map(|&library| objects(library, &nodes, node_count, bounds))
                    .collect();
                let flow = product(&choices, &mut Vec::new(), &mut |chosen| {
                    if stop() {
                        return Flow::Stop;
                    }
                    let shape = Shape {
                        nodes: nodes.clone(),
                        node_count,
                        objects: chosen.iter().copied().flatten().cloned().collect(),
                    };
                    let callable = (0..threads).all(|t| !alphabet(bounds, &shape, t).is_empty());
                    if callable && known.insert(canonical(&shape)) {
                        out.push(shape);
                    }
                    Flow::Continue
                });
                if flow == Flow::Stop {
                    return ControlFlow::Break(());
                }
            }
        }
    }
    ControlFlow::Continue(out)
}

/// Returns the placements of threads on nodes, with nodes numbered by first use.
fn placements(threads: usize, nodes_max: u8) -> Vec<Vec<Node>> {
    let mut out = vec![Vec::new()];
    for _ in 0..threads {
        out = out
            .into_iter()
            .flat_map(|placed: Vec<Node>| {
                let used = placed.iter().map(|n| n.0 + 1).max().unwrap_or(0);
                (0..=used.min(nodes_max - 1)).map(move |n| {
                    let mut more = placed.clone();
                    more.push(Node(n));
                    more
                })
            })
            .collect();
    }
    out
}

/// Returns the possible sets of objects of a library.
fn objects(library: Library, nodes: &[Node], node_count: u8, bounds: &Bounds) -> Vec<Vec<ObjectKind>> {
    let threads: Vec<ThreadId> = (0..nodes.len()).map(|t| ThreadId(t as u8)).collect();
    let several = |kind: ObjectKind| (1..=bounds.objects_max).map(|n| vec![kind.clone(); n]).collect();
    let everywhere = || (0..node_count).map(Node);
    match library {
        Library::RdmaWait => {
            let word = |node| ObjectKind::Word { node, init: 0 };
            (1..=bounds.objects_max)
                .map(|n| everywhere().flat_map(|node| vec![word(node); n]).collect())
                .collect()
        }
        Library::MixedSize => {
            let mixed = |node| ObjectKind::MixedSize { node, size: 2 };
            (1..=bounds.objects_max)
                .map(|n| everywhere().flat_map(|node| vec![mixed(node); n]).collect())
                .collect()
        }
        Library::SharedVariable => several(ObjectKind::SharedVariable),
        Library::MixedVariable => several(ObjectKind::MixedVariable { size: 2 }),
        Library::Sst => several(ObjectKind::Sst),
        Library::Store => vec![vec![ObjectKind::Store]],
        Library::Fence => vec![Vec::new()],
        Library::Owned => everywhere()
            .map(|owner| vec![ObjectKind::Owned { owner }])
            .collect(),
        Library::Atomic => everywhere()
            .map(|node| vec![ObjectKind::Atomic { node, init: 0 }])
            .collect(),
        Library::Lock => everywhere().map(|node| vec![ObjectKind::Lock { node }]).collect(),
        Library::Queue => everywhere()
            .map(|node| vec![ObjectKind::Queue { node, size: 1 }])
            .collect(),
        Library::Barrier => {
            let barrier = |participants: &[ThreadId]| ObjectKind::Barrier {
                participants: participants.to_vec(),
            };
            let mut out = vec![vec![barrier(&threads)]];
            if threads.len() > 2 {
                out.push(vec![barrier(&threads[..2])]);
                if bounds.objects_max > 1 {
                    out.push(vec![barrier(&threads[..2]), barrier(&threads[1..])]);
                }
            }
            out
        }
        Library::RingBuffer => {
            let mut out = Vec::new();
            for readers in 1..1u32 << threads.len() {
                let readers: Vec<ThreadId> = threads
                    .iter()
                    .copied()
                    .filter(|t| readers >> t.0 & 1 == 1)
                    .collect();
                let ring = |writer: usize, size| ObjectKind::Ring {
                    writer: threads[writer],
                    readers: readers.clone(),
                    size,
                };
                out.extend([2, 3, 4].map(|size| vec![ring(0, size)]));
                if bounds.objects_max > 1 && threads.len() > 1 {
                    out.push(vec![ring(0, 4), ring(1, 4)]);
                }
            }
            out
        }
    }
}

/// Returns the calls that a thread of a shape may make, without values and registers.
fn alphabet(bounds: &Bounds, shape: &Shape, t: usize) -> Vec<Call> {
    let own = shape.nodes[t];
    let thread = ThreadId(t as u8);
    let mut out = Vec::new();
    for method in Method::ALL {
        if bounds.has(*method) {
            let mut partial: Vec<Vec<Arg>> = vec![Vec::new()];
            for param in method.signature().params {
                partial = partial
                    .iter()
                    .flat_map(|before| {
                        args(shape, *param).into_iter().map(move |arg| {
                            let mut more = before.clone();
                            more.push(arg);
                            more
                        })
                    })
                    .collect();
            }
            out.extend(partial.into_iter().map(|args| Call {
                method: *method,
                args,
            }));
        }
    }
    out.retain(|call| admitted(shape, call, thread, own));
    out
}

fn args(shape: &Shape, param: crate::client::Param) -> Vec<Arg> {
    use crate::client::Param;
    let nodes = || (0..shape.node_count).map(Node);
    match param {
        Param::Object(library) => (0..shape.objects.len())
            .filter(|&o| shape.objects[o].library() == library)
            .map(|o| Arg::Object(ObjectId(o as u16)))
            .collect(),
        Param::Work => vec![Arg::Work(WorkId(0))],
        Param::Node => nodes().map(Arg::Node).collect(),
        Param::Nodes => {
            let all = NodeSet::all(shape.node_count);
            let mut out: Vec<NodeSet> = nodes().map(|n| NodeSet::default().with(n)).collect();
            out.extend(nodes().map(|n| all.without(n)));
            out.push(all);
            out.retain(|set| !set.is_empty());
            out.sort_unstable();
            out.dedup();
            out.into_iter().map(Arg::Nodes).collect()
        }
        // The values are filled in when the client is made.
        Param::Number | Param::Message => vec![Arg::Value(Expr::Const(Value::Int(0)))],
    }
}

/// Returns whether a thread may make the call, and the call is useful.
fn admitted(shape: &Shape, call: &Call, thread: ThreadId, own: Node) -> bool {
    let object = |at: usize| match call.args.get(at) {
        Some(Arg::Object(o)) => shape.objects.get(usize::from(o.0)),
        _ => None,
    };
    let home = |at: usize| match object(at) {
        Some(ObjectKind::Word { node, .. } | ObjectKind::MixedSize { node, .. }) => Some(*node),
        _ => None,
    };
    match call.method.plain() {
        Method::Write | Method::Read | Method::Cas | Method::WriteMsw | Method::TryReadMsw => {
            home(0) == Some(own)
        }
        Method::Get | Method::GetMsw | Method::RemoteFaa | Method::RemoteCas => {
            home(0) == Some(own) && call.args[0] != call.args[1]
        }
        Method::Put | Method::PutMsw => home(1) == Some(own) && call.args[0] != call.args[1],
        Method::Barrier | Method::BarrierUnfenced => {
            matches!(object(0), Some(ObjectKind::Barrier { participants }) if participants.contains(&thread))
        }
        Method::Submit => matches!(object(0), Some(ObjectKind::Ring { writer, .. }) if *writer == thread),
        Method::Receive => {
            matches!(object(0), Some(ObjectKind::Ring { readers, .. }) if readers.contains(&thread))
        }
        Method::StoreOwned | Method::PushOwned => {
            matches!(object(0), Some(ObjectKind::Owned { owner }) if *owner == own)
        }
        _ => true,
    }
}

/// A shape with its threads' alphabets and its symmetries.
struct Table {
    shape: Shape,
    alphabets: Vec<Vec<Call>>,
    /// Each symmetry: the image of each thread, and by thread and letter the image of the letter.
    symmetries: Vec<(Vec<usize>, Vec<Vec<usize>>)>,
    calls_each_max: usize,
    results: bool,
}

impl Table {
    fn new(bounds: &Bounds, shape: Shape) -> Table {
        let alphabets: Vec<Vec<Call>> = (0..shape.nodes.len())
            .map(|t| alphabet(bounds, &shape, t))
            .collect();
        let symmetries = symmetries(&shape)
            .into_iter()
            .map(|renaming| {
                let letters = alphabets
                    .iter()
                    .enumerate()
                    .map(|(t, letters)| {
                        let there = &alphabets[renaming.threads[t]];
                        letters
                            .iter()
                            .map(|call| {
                                let image = renaming.call(call);
                                there.iter().position(|c| *c == image).unwrap_or(usize::MAX)
                            })
                            .collect()
                    })
                    .collect();
                (renaming.threads, letters)
            })
            .collect();
        Table {
            shape,
            alphabets,
            symmetries,
            calls_each_max: bounds.calls_each_max,
            results: bounds.results,
        }
    }

    /// Visits the sequences that stand for their class, with so many calls in all and at least one for each
    /// thread.
    fn each(
        &self,
        calls: usize,
        stop: Stop<'_>,
        visit: &mut dyn FnMut(&[Vec<usize>]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut sequences = vec![Vec::new(); self.alphabets.len()];
        self.fill(0, calls, &mut sequences, &mut |sequences| {
            if stop() {
                ControlFlow::Break(())
            } else if self.returns(sequences) && self.is_representative(sequences) {
                visit(sequences)
            } else {
                ControlFlow::Continue(())
            }
        })
    }

    /// Visits all sequences whose first threads are filled, with so many calls left for the others.
    fn fill(
        &self,
        t: usize,
        left: usize,
        sequences: &mut Vec<Vec<usize>>,
        visit: &mut dyn FnMut(&[Vec<usize>]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if t == self.alphabets.len() {
            return if left == 0 {
                visit(sequences)
            } else {
                ControlFlow::Continue(())
            };
        }
        let others = self.alphabets.len() - t - 1;
        if !sequences[t].is_empty() && (others > 0 || left == 0) {
            self.fill(t + 1, left, sequences, visit)?;
        }
        if left > others && sequences[t].len() < self.calls_each_max {
            for letter in 0..self.alphabets[t].len() {
                sequences[t].push(letter);
                let flow = self.fill(t, left - 1, sequences, visit);
                sequences[t].pop();
                flow?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns whether some call has a result.
    fn has_results(&self) -> bool {
        let mut calls = self.alphabets.iter().flatten();
        calls.any(|call| call.method.signature().returns)
    }

    fn returns(&self, sequences: &[Vec<usize>]) -> bool {
        let mut calls = sequences
            .iter()
            .zip(&self.alphabets)
            .flat_map(|(s, a)| s.iter().map(|&l| &a[l]));
        !self.results || calls.any(|call| call.method.signature().returns)
    }

    /// Returns whether no symmetry makes the sequences smaller.
    fn is_representative(&self, sequences: &[Vec<usize>]) -> bool {
        self.symmetries.iter().all(|(threads, letters)| {
            let mut image: Vec<(usize, Vec<usize>)> = sequences
                .iter()
                .enumerate()
                .map(|(t, sequence)| (threads[t], sequence.iter().map(|&l| letters[t][l]).collect()))
                .collect();
            image.sort_unstable();
            sequences.iter().le(image.iter().map(|(_, sequence)| sequence))
        })
    }

    /// Returns the client of these sequences.
    fn client(&self, sequences: &[Vec<usize>], number: u64) -> Client {
        let mut written = 0;
        let threads = sequences
            .iter()
            .enumerate()
            .map(|(t, sequence)| {
                let mut thread = Thread {
                    node: self.shape.nodes[t],
                    registers: Vec::new(),
                    work_ids: Vec::new(),
                    body: Vec::new(),
                };
                for &letter in sequence {
                    let call = &self.alphabets[t][letter];
                    thread.body.push(statement(
                        call,
                        &mut thread.registers,
                        &mut thread.work_ids,
                        &mut written,
                    ));
                }
                thread
            })
            .collect();
        let mut counts = std::collections::BTreeMap::new();
        let objects = self.shape.objects.iter().map(|kind| {
            let letter = kind.library().keyword().map_or("x", |k| &k[..1]);
            let n = counts.entry(letter).or_insert(0);
            *n += 1;
            Object {
                name: format!("{letter}{n}"),
                kind: kind.clone(),
            }
        });
        Client {
            name: format!("generated-{number}"),
            description: None,
            nodes: self.shape.node_count,
            objects: objects.collect(),
            threads,
            observed_words: Vec::new(),
            queries: Vec::new(),
        }
    }
}

/// Returns a call with its values and register.
fn statement(
    call: &Call,
    registers: &mut Vec<String>,
    work_ids: &mut Vec<String>,
    written: &mut i64,
) -> Stmt {
    let mut call = call.clone();
    let values = call.args.iter().filter(|a| matches!(a, Arg::Value(_))).count();
    let mut seen = 0;
    for arg in &mut call.args {
        match arg {
            Arg::Value(value) => {
                seen += 1;
                // The first of two values is the expected one, or a key. It is the initial value, or the one
                // key.
                let fixed = seen < values || call.method == Method::DeleteKv || call.method == Method::GetKv;
                *value = Expr::Const(Value::Int(0));
                if !fixed {
                    *written += 1;
                    let k = *written;
                    *value = match call.method {
                        // The sums of the words collide, and their first words differ.
                        Method::WriteMsw | Method::WriteMsv => {
                            let words = [k, 3 - 2 * k].map(|w| Expr::Const(Value::Int(w)));
                            Expr::Tuple(words.to_vec())
                        }
                        _ => Expr::Const(Value::Int(k)),
                    };
                }
            }
            Arg::Work(_) if work_ids.is_empty() => work_ids.push("d".to_owned()),
            _ => {}
        }
    }
    let result = call.method.signature().returns.then(|| {
        registers.push(format!("r{}", registers.len()));
        Reg(registers.len() as u16 - 1)
    });
    Stmt::Call { result, call }
}
