//! Events, stamps and subevents: the vocabulary of executions (LOCO'26 3.1).

use std::fmt;

use smallvec::SmallVec;

use crate::client::{Client, Method, Node, NodeSet, ObjectId, ObjectKind};
use crate::value::Value;

/// A location that a method call names: an object of the client, or a part of one that an implementation made.
///
/// Implementations name their locations after the object that they implement and a part of it. The locations
/// are then disjoint from the client's, which are part 0 (as LOCO'26 Def. 3.10 demands).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loc {
    /// The client's object, or [`Loc::SHARED`] for locations of an implementation that belong to no object.
    pub object: u16,
    /// The part; 0 for the object itself.
    pub part: u32,
    /// The node, or [`Loc::EVERYWHERE`] for locations with a copy on every node.
    pub node: u8,
}

impl Loc {
    /// The `object` of locations that belong to none.
    pub const SHARED: u16 = u16::MAX;
    /// The `node` of locations with a copy on every node.
    pub const EVERYWHERE: u8 = u8::MAX;

    /// Returns the location of a client's object.
    pub fn of(client: &Client, object: ObjectId) -> Loc {
        let node = match client.object(object).kind {
            ObjectKind::Word { node, .. } | ObjectKind::MixedSize { node, .. } => node.0,
            _ => Loc::EVERYWHERE,
        };
        Loc {
            object: object.0,
            part: 0,
            node,
        }
    }

    /// Returns a part of the object, on one node or everywhere.
    pub fn part(self, part: u32, node: u8) -> Loc {
        Loc { part, node, ..self }
    }

    /// Returns the copy on a node.
    pub fn at(self, node: Node) -> Loc {
        Loc { node: node.0, ..self }
    }

    /// Returns the client's object, if the location is one.
    pub fn client_object(self) -> Option<ObjectId> {
        (self.part == 0 && self.object != Loc::SHARED).then_some(ObjectId(self.object))
    }

    /// Prints the location's name: `x`, `x.3`, and the copy's node where it has one.
    pub fn display(self, client: &Client) -> String {
        let name = match client.objects.get(usize::from(self.object)) {
            Some(object) => object.name.as_str(),
            None => "_",
        };
        let part = match self.part {
            0 => String::new(),
            part => format!(".{part}"),
        };
        match self.client_object() {
            Some(_) => name.to_owned(),
            None if self.node == Loc::EVERYWHERE => format!("{name}{part}"),
            None => format!("{name}{part}@{}", Node(self.node)),
        }
    }
}

/// A work identifier of a thread: the client's, or an implementation's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wid(pub u32);

impl Wid {
    /// An identifier that nothing waits for.
    pub const NONE: Wid = Wid(u32::MAX);

    /// Returns an implementation's identifier for an object, in a namespace of its own.
    pub fn of(object: u16) -> Wid {
        Wid(1 << 20 | u32::from(object))
    }
}

/// An argument of a call that was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Arg {
    /// A location.
    Loc(Loc),
    /// A value.
    Value(Value),
    /// A work identifier.
    Work(Wid),
    /// A node.
    Node(Node),
    /// A set of nodes.
    Nodes(NodeSet),
}

/// An event: a call that was made, with its result. Its place among the thread's events is its place in
/// program order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The thread.
    pub thread: u8,
    /// The method called.
    pub method: Method,
    /// The arguments.
    pub args: SmallVec<[Arg; 3]>,
    /// The result.
    pub result: Value,
    /// For an event of an implementation, the number of the client's call that it serves, among those of its
    /// thread. For a client's own call, that call's number (`f` of LOCO'26 Def. 3.11).
    pub serves: u16,
}

impl Event {
    /// Returns the location at position `at` of the arguments.
    pub fn loc(&self, at: usize) -> Option<Loc> {
        match self.args.get(at) {
            Some(Arg::Loc(loc)) => Some(*loc),
            _ => None,
        }
    }

    /// Returns the value at position `at` of the arguments, or `()` if there is none.
    pub fn value(&self, at: usize) -> Value {
        match self.args.get(at) {
            Some(Arg::Value(value)) => value.clone(),
            _ => Value::Unit,
        }
    }

    /// Returns the first work identifier.
    pub fn work(&self) -> Option<Wid> {
        self.args.iter().find_map(|arg| match arg {
            Arg::Work(work) => Some(*work),
            _ => None,
        })
    }

    /// Returns the first set of nodes, or the first node as a set.
    pub fn nodes(&self) -> NodeSet {
        let found = self.args.iter().find_map(|arg| match arg {
            Arg::Nodes(nodes) => Some(*nodes),
            Arg::Node(node) => Some(NodeSet::default().with(*node)),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Prints the event as `P0: r = m(..)`, with the result where it has one.
    pub fn display(&self, client: &Client) -> String {
        let args: Vec<String> = self
            .args
            .iter()
            .map(|arg| match arg {
                Arg::Loc(loc) => loc.display(client),
                Arg::Value(value) => value.to_string(),
                Arg::Work(work) => {
                    let thread = client.threads.get(usize::from(self.thread));
                    match thread.and_then(|t| t.work_ids.get(work.0 as usize)) {
                        Some(name) => name.clone(),
                        None if *work == Wid::NONE => "_".to_owned(),
                        None => "d".to_owned(),
                    }
                }
                Arg::Node(node) => node.to_string(),
                Arg::Nodes(nodes) => crate::client::node_set(*nodes),
            })
            .collect();
        let result = match (&self.result, self.method.signature().returns) {
            (result, true) => format!(" = {result}"),
            _ => String::new(),
        };
        format!(
            "P{}: {}({}){result}",
            self.thread,
            self.method.name(),
            args.join(", ")
        )
    }
}

/// A stamp (LOCO'26 3.1): the kind of effect of a subevent. All libraries share the stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The kind.
    pub kind: StampKind,
    /// The node of a stamp that belongs to a family; 0 for others.
    pub node: u8,
    /// True if the call asks for strong order: it is placed after the earlier writes towards the node (ours,
    /// `docs/ordering-models.md`).
    pub strong: bool,
}

/// A kind of stamp, in the order of the rows of LOCO'26 Fig. 10. The last two are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StampKind {
    /// `aCR`: CPU read.
    Cr,
    /// `aCW`: CPU write.
    Cw,
    /// `aCAS`: CPU read-modify-write.
    Cas,
    /// `aMF`: CPU fence.
    Mf,
    /// `aWT`: wait.
    Wt,
    /// `aNLR`: NIC local read.
    Nlr,
    /// `aNRW`: NIC remote write.
    Nrw,
    /// `aNRR`: NIC remote read.
    Nrr,
    /// `aNLW`: NIC local write.
    Nlw,
    /// `aRF`: NIC remote fence.
    Rf,
    /// `aGF`: global fence.
    Gf,
    /// `aNAR`: NIC atomic read (ours, `docs/rmw.md`).
    Nar,
    /// `aPF`: fence of the operations towards a node that leaves CPU stores in their buffer (ours). It is
    /// ordered as `aGF`, but not after `aCW`.
    Pf,
}

impl StampKind {
    /// Returns whether there is one stamp of this kind for each node.
    pub const fn is_family(self) -> bool {
        self as usize >= StampKind::Nlr as usize
    }

    /// Returns the papers' name.
    pub const fn label(self) -> &'static str {
        match self {
            StampKind::Cr => "aCR",
            StampKind::Cw => "aCW",
            StampKind::Cas => "aCAS",
            StampKind::Mf => "aMF",
            StampKind::Wt => "aWT",
            StampKind::Nlr => "aNLR",
            StampKind::Nrw => "aNRW",
            StampKind::Nrr => "aNRR",
            StampKind::Nlw => "aNLW",
            StampKind::Rf => "aRF",
            StampKind::Gf => "aGF",
            StampKind::Nar => "aNAR",
            StampKind::Pf => "aPF",
        }
    }
}

impl Stamp {
    /// Returns a stamp that is in no family.
    pub const fn cpu(kind: StampKind) -> Stamp {
        Stamp {
            kind,
            node: 0,
            strong: false,
        }
    }

    /// Returns the stamp of a family for a node.
    pub const fn at(kind: StampKind, node: Node) -> Stamp {
        Stamp {
            kind,
            node: node.0,
            strong: false,
        }
    }

    /// Returns the stamp of a call that asks for strong order.
    #[must_use]
    pub const fn asking(self) -> Stamp {
        Stamp { strong: true, ..self }
    }

    /// Returns every stamp for so many nodes.
    pub fn all(nodes: u8) -> impl Iterator<Item = Stamp> {
        use StampKind::{Cas, Cr, Cw, Gf, Mf, Nar, Nlr, Nlw, Nrr, Nrw, Pf, Rf, Wt};
        let single = [Cr, Cw, Cas, Mf, Wt].into_iter().map(Stamp::cpu);
        let families = [Nlr, Nrw, Nrr, Nlw, Rf, Gf, Nar, Pf];
        (0..nodes)
            .map(Node)
            .flat_map(move |n| {
                let asking = [Nrw, Nrr, Nar].map(|k| Stamp::at(k, n).asking());
                families.into_iter().map(move |k| Stamp::at(k, n)).chain(asking)
            })
            .chain(single)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind.is_family() {
            let strong = if self.strong { "strong " } else { "" };
            write!(f, "{strong}{}_{}", self.kind.label(), Node(self.node))
        } else {
            f.write_str(self.kind.label())
        }
    }
}
