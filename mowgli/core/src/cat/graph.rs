//! The meaning of a model file: a graph of operations on sets and relations, in which equal expressions are one node.
//!
//! The resolver builds it; [`super::eval`] evaluates it plainly and [`super::search`] in parts. Operands come before the nodes that use
//! them. A `let rec` is a *group*: nodes [`Op::Rec`] stand for its names inside the bodies, nodes [`Op::Fix`] for its solution.

use rustc_hash::FxHashMap;

use super::predefined::{RELATIONS, Rel, SETS, Set};

/// Index of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A set of events.
    Set,
    /// A relation on events.
    Relation,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// A predefined set.
    Set(Set),
    /// A predefined relation.
    Rel(Rel),
    /// The empty set or relation.
    Nothing(Type),
    /// All events.
    Everything,
    Union(NodeId, NodeId),
    Intersection(NodeId, NodeId),
    Difference(NodeId, NodeId),
    Complement(NodeId),
    Sequence(NodeId, NodeId),
    Inverse(NodeId),
    Plus(NodeId),
    Star(NodeId),
    Optional(NodeId),
    /// `[S]`.
    Identity(NodeId),
    /// `S * T`.
    Product(NodeId, NodeId),
    Domain(NodeId),
    Range(NodeId),
    /// A name of a group, inside its bodies.
    Rec {
        group: u32,
        index: u32,
    },
    /// The least solution of a group.
    Fix {
        group: u32,
        index: u32,
    },
}

impl Op {
    /// Returns the operands.
    pub(super) fn operands(self) -> impl Iterator<Item = NodeId> {
        let pair = match self {
            Op::Union(a, b)
            | Op::Intersection(a, b)
            | Op::Difference(a, b)
            | Op::Sequence(a, b)
            | Op::Product(a, b) => [Some(a), Some(b)],
            Op::Complement(a)
            | Op::Inverse(a)
            | Op::Plus(a)
            | Op::Star(a)
            | Op::Optional(a)
            | Op::Identity(a)
            | Op::Domain(a)
            | Op::Range(a) => [Some(a), None],
            Op::Set(_) | Op::Rel(_) | Op::Nothing(_) | Op::Everything | Op::Rec { .. } | Op::Fix { .. } => {
                [None, None]
            }
        };
        pair.into_iter().flatten()
    }
}

/// A group of mutually recursive definitions.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The bodies, in the order of the names.
    pub(super) bodies: Vec<NodeId>,
    /// The node that stands for the first name; the others follow it.
    pub(super) first: NodeId,
}

/// The nodes of a model.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) ops: Vec<Op>,
    types: Vec<Type>,
    /// The name by which a definition of the file first called the node.
    names: Vec<Option<String>>,
    /// Whether a node depends on a name of the group whose bodies are being built.
    recursive: Vec<bool>,
    pub(super) groups: Vec<Group>,
    known: FxHashMap<Op, NodeId>,
}

/// Properties of nodes that decide when the search can evaluate them.
#[derive(Clone, Debug)]
pub(super) struct Flags {
    /// Depends on no relation that an execution chooses.
    pub(super) fixed: Vec<bool>,
    /// Only grows while the chosen relations grow.
    pub(super) monotone: Vec<bool>,
    /// Depends on a name of a recursive group, so it has a value only inside.
    pub(super) inner: Vec<bool>,
}

impl Graph {
    /// Returns the node of an operation, which is new unless the graph has it.
    pub(super) fn add(&mut self, op: Op) -> NodeId {
        if let Some(&id) = self.known.get(&op) {
            return id;
        }
        let id = NodeId(self.ops.len() as u32);
        self.types.push(self.type_of_op(op));
        let recursive = match op {
            Op::Rec { .. } => true,
            _ => op.operands().any(|o| self.recursive[o.index()]),
        };
        self.recursive.push(recursive);
        self.names.push(None);
        self.ops.push(op);
        self.known.insert(op, id);
        id
    }

    /// Starts a group of so many relations; returns its number.
    pub(super) fn open_group(&mut self, count: usize) -> (u32, Vec<NodeId>) {
        let group = self.groups.len() as u32;
        let ids: Vec<NodeId> = (0..count as u32)
            .map(|index| self.add(Op::Rec { group, index }))
            .collect();
        self.groups.push(Group {
            bodies: Vec::new(),
            first: ids[0],
        });
        (group, ids)
    }

    /// Ends a group; returns the nodes of its solution.
    pub(super) fn close_group(&mut self, group: u32, bodies: Vec<NodeId>) -> Vec<NodeId> {
        let count = bodies.len() as u32;
        self.groups[group as usize].bodies = bodies;
        (0..count)
            .map(|index| self.add(Op::Fix { group, index }))
            .collect()
    }

    pub(super) fn type_of(&self, id: NodeId) -> Type {
        self.types[id.index()]
    }

    /// Returns whether the node depends on a name of the group whose bodies are being built.
    pub(super) fn is_recursive(&self, id: NodeId) -> bool {
        self.recursive[id.index()]
    }

    /// Names a node, unless it has a name.
    pub(super) fn name(&mut self, id: NodeId, name: &str) {
        self.names[id.index()].get_or_insert_with(|| name.to_owned());
    }

    pub(super) fn name_of(&self, id: NodeId) -> Option<&str> {
        self.names[id.index()].as_deref()
    }

    fn type_of_op(&self, op: Op) -> Type {
        match op {
            Op::Set(_) | Op::Everything | Op::Domain(_) | Op::Range(_) => Type::Set,
            Op::Nothing(t) => t,
            Op::Union(a, _) | Op::Intersection(a, _) | Op::Difference(a, _) | Op::Complement(a) => {
                self.types[a.index()]
            }
            _ => Type::Relation,
        }
    }

    /// Returns whether a predefined relation is used by one of the nodes, also through definitions.
    pub(super) fn use_of(&self, nodes: impl Iterator<Item = NodeId>, rel: Rel) -> bool {
        let mut open: Vec<NodeId> = nodes.collect();
        let mut seen = vec![false; self.ops.len()];
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            match self.ops[id.index()] {
                Op::Rel(found) if found == rel => return true,
                Op::Fix { group, .. } => open.extend(&self.groups[group as usize].bodies),
                op => open.extend(op.operands()),
            }
        }
        false
    }

    /// Returns the node of an operation, if the graph has it.
    pub(super) fn find(&self, op: Op) -> Option<NodeId> {
        self.known.get(&op).copied()
    }

    /// Returns the relations whose common pairs `a \ b` leaves out. These are `c` and `d` if `b` is `a & c & d`, since
    /// `a \ (a & c)` is `a \ c`; otherwise `b` alone.
    pub(super) fn subtrahends(&self, a: NodeId, b: NodeId) -> Vec<NodeId> {
        let (mut rest, mut open, mut found) = (Vec::new(), vec![b], false);
        while let Some(id) = open.pop() {
            match self.ops[id.index()] {
                _ if id == a => found = true,
                Op::Intersection(x, y) => open.extend([y, x]),
                _ => rest.push(id),
            }
        }
        match found && !rest.is_empty() {
            true => rest,
            false => vec![b],
        }
    }

    /// Computes the flags of all nodes.
    pub(super) fn flags(&self) -> Flags {
        let n = self.ops.len();
        let mut flags = Flags {
            fixed: vec![true; n],
            monotone: vec![true; n],
            inner: vec![false; n],
        };
        // A group is fixed if its bodies are, on the assumption that its names are. The first round finds the groups
        // that are not fixed, and the second uses this to compute the flags of all nodes.
        let mut open = vec![false; self.groups.len()];
        for _ in 0..2 {
            for (i, &op) in self.ops.iter().enumerate() {
                let operands = || op.operands().map(NodeId::index);
                flags.fixed[i] = match op {
                    Op::Rel(rel) => rel.is_static(),
                    Op::Rec { group, .. } => !open[group as usize],
                    Op::Fix { group, .. } => {
                        let bodies = &self.groups[group as usize].bodies;
                        open[group as usize] |= bodies.iter().any(|b| !flags.fixed[b.index()]);
                        !open[group as usize]
                    }
                    _ => operands().all(|o| flags.fixed[o]),
                };
                flags.inner[i] = match op {
                    Op::Rec { .. } => true,
                    _ => operands().any(|o| flags.inner[o]),
                };
                flags.monotone[i] = match op {
                    Op::Complement(a) => flags.fixed[a.index()],
                    Op::Difference(a, b) => {
                        let minus = self.subtrahends(a, b);
                        flags.monotone[a.index()] && minus.iter().all(|m| flags.fixed[m.index()])
                    }
                    Op::Fix { group, .. } => {
                        let bodies = &self.groups[group as usize].bodies;
                        bodies.iter().all(|b| flags.monotone[b.index()])
                    }
                    _ => operands().all(|o| flags.monotone[o]),
                };
            }
        }
        flags
    }

    /// Writes a node as an expression, by the names of its parts.
    pub(super) fn text(&self, id: NodeId) -> String {
        match self.name_of(id) {
            Some(name) => name.to_owned(),
            None => self.expression(id, 0),
        }
    }

    /// Writes a node as an expression inside an operator of this strength.
    fn expression(&self, id: NodeId, outer: u8) -> String {
        if let Some(name) = self.name_of(id) {
            return name.to_owned();
        }
        let binary = |a: NodeId, symbol: &str, b: NodeId, strength: u8| {
            let text = format!(
                "{}{symbol}{}",
                self.expression(a, strength),
                self.expression(b, strength + 1)
            );
            match strength < outer {
                true => format!("({text})"),
                false => text,
            }
        };
        match self.ops[id.index()] {
            Op::Union(a, b) => binary(a, " | ", b, 1),
            Op::Sequence(a, b) => binary(a, ";", b, 2),
            Op::Difference(a, b) => binary(a, " \\ ", b, 3),
            Op::Intersection(a, b) => binary(a, " & ", b, 4),
            Op::Product(a, b) => binary(a, "*", b, 5),
            Op::Complement(a) => format!("~{}", self.expression(a, 6)),
            Op::Inverse(a) => format!("{}^-1", self.expression(a, 7)),
            Op::Plus(a) => format!("{}+", self.expression(a, 7)),
            Op::Star(a) => format!("{}*", self.expression(a, 7)),
            Op::Optional(a) => format!("{}?", self.expression(a, 7)),
            Op::Identity(a) => format!("[{}]", self.expression(a, 0)),
            Op::Domain(a) => format!("domain({})", self.expression(a, 0)),
            Op::Range(a) => format!("range({})", self.expression(a, 0)),
            Op::Nothing(Type::Set) => "{}".to_owned(),
            Op::Nothing(Type::Relation) => "0".to_owned(),
            Op::Everything => "_".to_owned(),
            Op::Set(set) => SETS.iter().find(|s| s.1 == set).map_or("?", |s| s.0).to_owned(),
            Op::Rel(rel) => RELATIONS
                .iter()
                .find(|r| r.1 == rel)
                .map_or("?", |r| r.0)
                .to_owned(),
            // The resolver names both.
            Op::Rec { .. } | Op::Fix { .. } => "?".to_owned(),
        }
    }
}
