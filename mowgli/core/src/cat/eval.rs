//! Evaluates a model file on one execution, node by node, with [`Relation`].
//!
//! This is the plain reading of the language. The search has an evaluator of its own, and tests compare the two. Explanations take their
//! relations from here.

use super::ast::Test;
use super::graph::{Graph, NodeId, Op, Type};
use super::predefined::Rel;
use super::resolver::Axiom;
use crate::event::Execution;
use crate::relation::Relation;

/// The value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Set(Vec<bool>),
    Relation(Relation),
}

/// The values of all nodes on an execution.
pub(super) struct Values<'a> {
    graph: &'a Graph,
    execution: &'a Execution,
    values: Vec<Value>,
}

impl<'a> Values<'a> {
    /// Evaluates every node.
    pub(super) fn new(graph: &'a Graph, execution: &'a Execution) -> Values<'a> {
        let inner = graph.flags().inner;
        let mut all = Values {
            graph,
            execution,
            values: Vec::with_capacity(graph.ops.len()),
        };
        for i in 0..graph.ops.len() {
            if let Op::Fix { group, index: 0 } = graph.ops[i] {
                all.solve(group, i, &inner);
            }
            let value = all.evaluate(i);
            all.values.push(value);
        }
        all
    }

    /// Returns the value of a relation.
    pub(super) fn relation(&self, id: NodeId) -> &Relation {
        match &self.values[id.index()] {
            Value::Relation(relation) => relation,
            Value::Set(_) => unreachable!("the resolver checked types"),
        }
    }

    /// Returns the value of a set, by event.
    pub(super) fn set(&self, id: NodeId) -> &[bool] {
        match &self.values[id.index()] {
            Value::Set(set) => set,
            Value::Relation(_) => unreachable!("the resolver checked types"),
        }
    }

    /// Returns whether the execution satisfies an axiom.
    pub(super) fn satisfies(&self, axiom: &Axiom) -> bool {
        let holds = match (&self.values[axiom.expr.index()], axiom.test) {
            (Value::Relation(r), Test::Acyclic) => r.is_acyclic(),
            (Value::Relation(r), Test::Irreflexive) => r.is_irreflexive(),
            (Value::Relation(r), Test::Empty) => r.is_empty(),
            (Value::Set(set), _) => set.iter().all(|&member| !member),
        };
        holds != axiom.negated
    }

    /// Iterates the bodies of a group from the empty relation until nothing changes. `end` is the node of its solution.
    fn solve(&mut self, group: u32, end: usize, inner: &[bool]) {
        let graph = self.graph;
        let group = &graph.groups[group as usize];
        let first = group.first.index();
        loop {
            let nodes = (first..end).filter(|&i| inner[i] && !matches!(graph.ops[i], Op::Rec { .. }));
            for i in nodes {
                self.values[i] = self.evaluate(i);
            }
            let mut changed = false;
            for (at, body) in group.bodies.iter().enumerate() {
                let next = self.values[body.index()].clone();
                changed |= self.values[first + at] != next;
                self.values[first + at] = next;
            }
            if !changed {
                return;
            }
        }
    }

    fn evaluate(&self, i: usize) -> Value {
        let n = self.execution.len();
        let events = &self.execution.events;
        let set = |id: NodeId| self.set(id);
        let relation = |id: NodeId| self.relation(id);
        let sets = |a: NodeId, b: NodeId, op: fn(bool, bool) -> bool| {
            Value::Set(set(a).iter().zip(set(b)).map(|(&a, &b)| op(a, b)).collect())
        };
        let is_set = |id: NodeId| self.graph.type_of(id) == Type::Set;
        let all = || Relation::from_fn(n, |_, _| true);
        let id = || Relation::identity(n, |_| true);
        let result = match self.graph.ops[i] {
            Op::Set(s) => return Value::Set((0..n).map(|e| s.contains(events, e)).collect()),
            Op::Nothing(Type::Set) => return Value::Set(vec![false; n]),
            Op::Everything => return Value::Set(vec![true; n]),
            Op::Union(a, b) if is_set(a) => return sets(a, b, |a, b| a | b),
            Op::Intersection(a, b) if is_set(a) => return sets(a, b, |a, b| a & b),
            Op::Difference(a, b) if is_set(a) => return sets(a, b, |a, b| a & !b),
            Op::Complement(a) if is_set(a) => return Value::Set(set(a).iter().map(|m| !m).collect()),
            Op::Domain(a) => {
                let r = relation(a);
                return Value::Set((0..n).map(|e| r.successors(e).next().is_some()).collect());
            }
            Op::Range(a) => {
                let r = relation(a).inverse();
                return Value::Set((0..n).map(|e| r.successors(e).next().is_some()).collect());
            }
            Op::Rel(rel) => self.base(rel),
            Op::Nothing(Type::Relation) => Relation::empty(n),
            Op::Union(a, b) => relation(a).union(relation(b)),
            Op::Intersection(a, b) => relation(a).intersection(relation(b)),
            Op::Difference(a, b) => relation(a).minus(relation(b)),
            Op::Complement(a) => all().minus(relation(a)),
            Op::Sequence(a, b) => relation(a).then(relation(b)),
            Op::Inverse(a) => relation(a).inverse(),
            Op::Plus(a) => relation(a).plus(),
            Op::Star(a) => relation(a).plus().union(&id()),
            Op::Optional(a) => relation(a).union(&id()),
            Op::Identity(a) => Relation::identity(n, |e| set(a)[e]),
            Op::Product(a, b) => Relation::from_fn(n, |x, y| set(a)[x] && set(b)[y]),
            // Names of a group start empty; its solution follows the last round.
            Op::Rec { .. } => Relation::empty(n),
            Op::Fix { group, index } => {
                let group = &self.graph.groups[group as usize];
                return self.values[group.first.index() + index as usize].clone();
            }
        };
        Value::Relation(result)
    }

    fn base(&self, rel: Rel) -> Relation {
        let x = self.execution;
        match rel {
            Rel::Po => x.po.clone(),
            Rel::Pf => x.pf.clone(),
            Rel::Rf => x.rf.clone(),
            Rel::Mo => x.mo.clone(),
            Rel::Rb => {
                let id = Relation::identity(x.len(), |_| true);
                x.rf.inverse().then(&x.mo).minus(&id)
            }
            Rel::Nfo | Rel::Bus => x.nfo.clone(),
            Rel::Rao => x.rao.clone(),
            rel => Relation::from_fn(x.len(), |a, b| {
                rel.between(&x.events[a], &x.events[b], a == b) == Some(true)
            }),
        }
    }
}
