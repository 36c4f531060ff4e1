//! Compiles a model to steps that the search runs: once for each choice of paths, at every partial execution, or at complete ones.
//!
//! An axiom can *prune* if its relation only grows while the search adds pairs to `rf`, `mo`, `nfo` and `rao`: what violates it stays
//! violated. Difference and complement of such a relation can shrink, so axioms on those wait for complete executions.

use super::ast::Test;
use super::graph::{Flags, Graph, NodeId, Op, Type};
use super::predefined::{Rel, Set};
use super::resolver::Axiom;

/// One operation on slots. A slot holds the value of a node or of a part of one.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Set {
        to: usize,
        set: Set,
    },
    Rel {
        to: usize,
        rel: Rel,
    },
    Nothing {
        to: usize,
    },
    Everything {
        to: usize,
    },
    Union {
        to: usize,
        of: Vec<usize>,
    },
    Intersection {
        to: usize,
        of: Vec<usize>,
    },
    /// `left` without the pairs that all of `minus` have.
    Difference {
        to: usize,
        left: usize,
        minus: Vec<usize>,
    },
    Complement {
        to: usize,
        of: usize,
    },
    Sequence {
        to: usize,
        left: usize,
        right: usize,
    },
    /// `[set]; of`.
    From {
        to: usize,
        set: usize,
        of: usize,
    },
    /// `of; [set]`.
    Into {
        to: usize,
        of: usize,
        set: usize,
    },
    Inverse {
        to: usize,
        of: usize,
    },
    Plus {
        to: usize,
        of: usize,
    },
    Star {
        to: usize,
        of: usize,
    },
    Optional {
        to: usize,
        of: usize,
    },
    Identity {
        to: usize,
        of: usize,
    },
    Product {
        to: usize,
        left: usize,
        right: usize,
    },
    Domain {
        to: usize,
        of: usize,
    },
    Range {
        to: usize,
        of: usize,
    },
    Copy {
        to: usize,
        of: usize,
    },
    /// Iterates `steps` and copies the bodies to the names, from the empty relation on, until nothing changes.
    Solve {
        names: usize,
        bodies: Vec<usize>,
        steps: Vec<Step>,
    },
}

/// An axiom as a property of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) slot: usize,
    /// [`Test::Acyclic`] is irreflexivity of the slot of the closure.
    pub(super) test: Test,
    pub(super) negated: bool,
    /// Position among the axioms or requirements.
    pub(super) axiom: usize,
}

/// A closure that must stay irreflexive, and the expression that it closes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    pub(super) closure: usize,
    pub(super) expr: NodeId,
}

/// The steps and checks of a model.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// For each slot, whether it holds a set.
    pub(super) is_set: Vec<bool>,
    /// Steps that depend on the paths only.
    pub(super) fixed: Vec<Step>,
    /// Steps for every partial execution.
    pub(super) moving: Vec<Step>,
    /// Steps for complete executions.
    pub(super) late: Vec<Step>,
    pub(super) pruning: Vec<Check>,
    pub(super) final_checks: Vec<Check>,
    pub(super) requirements: Vec<Check>,
    pub(super) guards: Vec<Guard>,
}

/// The time at which the value of a node of the graph is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NeededWhen {
    Unused,
    Late,
    Moving,
}

struct Compiler<'g> {
    graph: &'g Graph,
    flags: Flags,
    stage: Vec<NeededWhen>,
    plan: Plan,
    /// Steps of the group being compiled.
    inner: Vec<Step>,
}

/// Compiles a model.
pub(super) fn compile(graph: &Graph, axioms: &[Axiom], requirements: &[Axiom]) -> Plan {
    let n = graph.ops.len();
    let mut compiler = Compiler {
        graph,
        flags: graph.flags(),
        stage: vec![NeededWhen::Unused; n],
        plan: Plan {
            is_set: (0..n)
                .map(|i| graph.type_of(NodeId(i as u32)) == Type::Set)
                .collect(),
            ..Plan::default()
        },
        inner: Vec::new(),
    };
    let can_prune = |flags: &Flags, a: &Axiom| flags.monotone[a.expr.index()] && !a.negated;
    for axiom in axioms.iter().chain(requirements) {
        let stage = match can_prune(&compiler.flags, axiom) {
            true => NeededWhen::Moving,
            false => NeededWhen::Late,
        };
        compiler.need(axiom.expr, stage);
    }
    for i in 0..n {
        if compiler.stage[i] != NeededWhen::Unused {
            compiler.node(i);
        }
    }
    for (at, axiom) in axioms.iter().enumerate() {
        let prunes = can_prune(&compiler.flags, axiom);
        let check = compiler.check(at, axiom, prunes);
        match prunes {
            true => compiler.plan.pruning.push(check),
            false => compiler.plan.final_checks.push(check),
        }
    }
    for (at, requirement) in requirements.iter().enumerate() {
        let check = compiler.check(at, requirement, true);
        compiler.plan.requirements.push(check);
    }
    compiler.plan
}

impl Compiler<'_> {
    /// Marks what a node is made of.
    fn need(&mut self, root: NodeId, stage: NeededWhen) {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let i = id.index();
            if self.stage[i] == stage || self.stage[i] == NeededWhen::Moving {
                continue;
            }
            self.stage[i] = stage;
            match self.graph.ops[i] {
                Op::Union(..) => open.extend(self.terms(id)),
                Op::Difference(a, b) => {
                    open.push(a);
                    open.extend(self.subtrahends(a, b));
                }
                Op::Rec { group, .. } | Op::Fix { group, .. } => {
                    let group = &self.graph.groups[group as usize];
                    open.extend(group.bodies.iter().copied());
                    // All names of a group are solved together.
                    let first = group.first.0;
                    open.extend((0..group.bodies.len() as u32).map(|k| NodeId(first + k)));
                    open.extend(self.fix_of(id));
                }
                op => open.extend(op.operands()),
            }
        }
    }

    /// Returns the node that triggers the solution of the group to which a name belongs.
    fn fix_of(&self, id: NodeId) -> Option<NodeId> {
        let (Op::Rec { group, .. } | Op::Fix { group, .. }) = self.graph.ops[id.index()] else {
            return None;
        };
        self.graph.find(Op::Fix { group, index: 0 })
    }

    /// Returns the terms of a union; a union of fixed relations is one term.
    fn terms(&self, root: NodeId) -> Vec<NodeId> {
        let (mut terms, mut open) = (Vec::new(), vec![root]);
        while let Some(id) = open.pop() {
            match self.graph.ops[id.index()] {
                Op::Union(a, b) if id == root || !self.flags.fixed[id.index()] => open.extend([b, a]),
                _ if !terms.contains(&id) => terms.push(id),
                _ => {}
            }
        }
        terms
    }

    /// Returns the relations whose common pairs `a \ b` leaves out: `a \ (a & c)` is `a \ c`, which grows with `a`.
    fn subtrahends(&self, a: NodeId, b: NodeId) -> Vec<NodeId> {
        self.graph.subtrahends(a, b)
    }

    fn slot(&mut self, is_set: bool) -> usize {
        self.plan.is_set.push(is_set);
        self.plan.is_set.len() - 1
    }

    fn push(&mut self, node: usize, step: Step) {
        let list = if self.flags.inner[node] {
            &mut self.inner
        } else if self.flags.fixed[node] {
            &mut self.plan.fixed
        } else if self.stage[node] == NeededWhen::Moving {
            &mut self.plan.moving
        } else {
            &mut self.plan.late
        };
        list.push(step);
    }

    fn node(&mut self, i: usize) {
        let to = i;
        let at = NodeId::index;
        let identity = |id: NodeId| match self.graph.ops[at(id)] {
            Op::Identity(set) => Some(at(set)),
            _ => None,
        };
        let step = match self.graph.ops[i] {
            Op::Set(set) => Step::Set { to, set },
            Op::Rel(rel) => Step::Rel { to, rel },
            Op::Nothing(_) => Step::Nothing { to },
            Op::Everything => Step::Everything { to },
            Op::Union(..) => {
                let terms = self.terms(NodeId(i as u32));
                let fixed = |id: &NodeId| self.flags.fixed[at(*id)] && !self.flags.inner[at(*id)];
                let (fixed, moving): (Vec<NodeId>, Vec<NodeId>) = terms.into_iter().partition(fixed);
                let mut of: Vec<usize> = moving.into_iter().map(at).collect();
                if of.is_empty() || fixed.len() < 2 {
                    of.extend(fixed.into_iter().map(at));
                } else {
                    let part = self.slot(self.plan.is_set[i]);
                    self.plan.fixed.push(Step::Union {
                        to: part,
                        of: fixed.into_iter().map(at).collect(),
                    });
                    of.push(part);
                }
                Step::Union { to, of }
            }
            Op::Intersection(a, b) => Step::Intersection {
                to,
                of: vec![at(a), at(b)],
            },
            Op::Difference(a, b) => Step::Difference {
                to,
                left: at(a),
                minus: self.subtrahends(a, b).into_iter().map(at).collect(),
            },
            Op::Complement(a) => Step::Complement { to, of: at(a) },
            Op::Sequence(a, b) => match (identity(a), identity(b)) {
                (Some(set), _) => Step::From { to, set, of: at(b) },
                (None, Some(set)) => Step::Into { to, of: at(a), set },
                (None, None) => Step::Sequence {
                    to,
                    left: at(a),
                    right: at(b),
                },
            },
            Op::Inverse(a) => Step::Inverse { to, of: at(a) },
            Op::Plus(a) => Step::Plus { to, of: at(a) },
            Op::Star(a) => Step::Star { to, of: at(a) },
            Op::Optional(a) => Step::Optional { to, of: at(a) },
            Op::Identity(a) => Step::Identity { to, of: at(a) },
            Op::Product(a, b) => Step::Product {
                to,
                left: at(a),
                right: at(b),
            },
            Op::Domain(a) => Step::Domain { to, of: at(a) },
            Op::Range(a) => Step::Range { to, of: at(a) },
            // `Solve` sets the names.
            Op::Rec { .. } => return,
            Op::Fix { group, index } => {
                let group = &self.graph.groups[group as usize];
                let names = at(group.first);
                if index == 0 {
                    let steps = std::mem::take(&mut self.inner);
                    let bodies = group.bodies.iter().copied().map(at).collect();
                    self.push(i, Step::Solve { names, bodies, steps });
                }
                Step::Copy {
                    to,
                    of: names + index as usize,
                }
            }
        };
        self.push(i, step);
    }

    fn check(&mut self, at: usize, axiom: &Axiom, prunes: bool) -> Check {
        let node = axiom.expr.index();
        let mut check = Check {
            slot: node,
            test: axiom.test,
            negated: axiom.negated,
            axiom: at,
        };
        match (axiom.test, self.graph.ops[node]) {
            (Test::Acyclic, _) => {
                check.slot = self.slot(false);
                let step = Step::Plus {
                    to: check.slot,
                    of: node,
                };
                self.push(node, step);
                if prunes {
                    self.plan.guards.push(Guard {
                        closure: check.slot,
                        expr: axiom.expr,
                    });
                }
            }
            (Test::Irreflexive, Op::Plus(expr)) if prunes => {
                self.plan.guards.push(Guard { closure: node, expr });
            }
            _ => {}
        }
        check
    }
}
