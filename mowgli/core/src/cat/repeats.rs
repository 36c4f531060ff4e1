//! Decides whether iterations of loops may be left out under a model file, so that loops are decided whatever their bounds.
//!
//! [`crate::declarative::unfold::Repeats`] leaves out iterations without effect. Two facts about a model permit it, and both are read off the file:
//!
//! - *An execution stays one when events are left out from which no other reads.* Of the relation of each axiom there must remain the pairs
//!   of the events that remain, or fewer ([`Left`]). Closures, sequences, `domain` and `range` may lose pairs, where the events between are
//!   gone; what is subtracted must not.
//! - *A scratch location forgets.* A thread that writes such a location again, and waits until it is written, reads the new value
//!   or a later one. The file is asked about every small execution in which it would not ([`forgets`]). Any larger execution in
//!   which it does not has a small one in it, and by the first fact that would be an execution too.
//!
//! Where a file permits neither, loops run up to their bounds.

use std::ops::ControlFlow;

use super::graph::{Graph, NodeId, Op};
use super::{Axiom, ModelFile};
use crate::check::Features;
use crate::declarative::reference::each_execution;
use crate::declarative::unfold::{Path, Repeats};
use crate::declarative::unfold_all;
use crate::event::{Execution, Kind};
use crate::litmus;
use crate::model::RmwAtomicity;
use crate::models::Spec;
use crate::outcome::{Budget, Limit};
use crate::program::Program;
use crate::relation::Relation;

/// The value of an expression after events are left out, beside the pairs of the earlier value whose events remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// These pairs.
    Same,
    /// These pairs or fewer.
    Fewer,
    /// These pairs or more.
    More,
    /// Neither is known.
    Unclear,
}

impl Left {
    /// Returns what is known of an operation that grows with both operands and looks at the events of a pair only.
    fn and(self, other: Left) -> Left {
        match (self, other) {
            (a, b) if a == b => a,
            (Left::Same, known) | (known, Left::Same) => known,
            _ => Left::Unclear,
        }
    }

    /// Returns what is known of what is not in it.
    fn contrary(self) -> Left {
        match self {
            Left::Fewer => Left::More,
            Left::More => Left::Fewer,
            known => known,
        }
    }

    /// Returns what is known of pairs that need other events between or beside theirs.
    fn through_others(self) -> Left {
        match self {
            Left::Same | Left::Fewer => Left::Fewer,
            Left::More | Left::Unclear => Left::Unclear,
        }
    }

    /// Returns whether there are no pairs that were not there before.
    fn gains_nothing(self) -> bool {
        matches!(self, Left::Same | Left::Fewer)
    }
}

/// Computes what is known of every node.
///
/// The predefined relations keep the pairs of the events that remain: those that an execution chooses are chosen pair by pair, and a read
/// that remains keeps its source.
fn left(graph: &Graph) -> Vec<Left> {
    let mut left = vec![Left::Same; graph.ops.len()];
    // A name of a recursive group has what is known of its body. What is known only gets less, so this ends.
    loop {
        let before = left.clone();
        for (i, &op) in graph.ops.iter().enumerate() {
            let of = |id: NodeId| left[id.index()];
            let is_filter = |id: NodeId| matches!(graph.ops[id.index()], Op::Identity(_));
            let now = match op {
                Op::Set(_) | Op::Rel(_) | Op::Nothing(_) | Op::Everything => Left::Same,
                Op::Union(a, b) | Op::Intersection(a, b) | Op::Product(a, b) => of(a).and(of(b)),
                Op::Difference(a, b) => of(a).and(of(b).contrary()),
                Op::Complement(a) => of(a).contrary(),
                // `[S]; r` has pairs of `r`.
                Op::Sequence(a, b) if is_filter(a) || is_filter(b) => of(a).and(of(b)),
                Op::Sequence(a, b) => of(a).and(of(b)).through_others(),
                Op::Inverse(a) | Op::Optional(a) | Op::Identity(a) => of(a),
                Op::Plus(a) | Op::Star(a) | Op::Domain(a) | Op::Range(a) => of(a).through_others(),
                Op::Rec { group, index } | Op::Fix { group, index } => {
                    let bodies = &graph.groups[group as usize].bodies;
                    of(bodies[index as usize])
                }
            };
            left[i] = left[i].and(now);
        }
        if left == before {
            return left;
        }
    }
}

impl ModelFile {
    /// Unfolds the paths of all threads that a question needs, or all up to the bounds of loops where the file does not permit to leave
    /// some out.
    ///
    /// # Errors
    /// Returns the limit that the unfolding exceeded.
    pub(super) fn unfold(
        &self,
        program: &Program,
        spec: &Spec,
        question: Repeats,
        budget: &Budget<'_>,
    ) -> Result<Vec<Vec<Path>>, Limit> {
        unfold_all(program, spec, self.repeats(program, question), budget)
    }

    /// Returns the iterations that are unfolded for a question.
    pub(super) fn repeats(&self, program: &Program, question: Repeats) -> Repeats {
        match program.has_loops() && self.leaves_out_iterations(program) {
            true => question,
            false => Repeats::All,
        }
    }

    /// Returns whether loops of a program are decided under this model as under the built-in ones: an execution stays one when iterations
    /// without effect are left out. Otherwise loops run up to their bounds.
    pub fn leaves_out_iterations(&self, program: &Program) -> bool {
        let Features { poll, wait, .. } = Features::of(program);
        *self.leaves_out[usize::from(poll) + 2 * usize::from(wait)]
            .get_or_init(|| self.is_closed && forgets(self, poll, wait))
    }
}

/// Returns whether an execution of the model stays one when events are left out from which no other reads.
pub(super) fn is_closed(graph: &Graph, axioms: &[Axiom]) -> bool {
    let left = left(graph);
    let keeps = |axiom: &Axiom| !axiom.negated && left[axiom.expr.index()].gains_nothing();
    axioms.iter().all(keeps)
}

/// The operations by which a thread writes a scratch location `a`, with the wait until it is written. What is read comes from node `N`, and
/// is not what the compare-and-swap expects.
const OPERATIONS: [&str; 4] = [
    "a := zN^N; poll(N)",
    "a :=[d] zN^N; wait(d)",
    "a := rcas(zN^N, 8, 9); poll(N)",
    "a :=[d] rcas(zN^N, 8, 9); wait(d)",
];

/// Returns whether a scratch location forgets what was written before: no execution of the model has a read that comes before the write it
/// reads from, a read from a write that another came after, or two writes in the contrary order. Programs with polls or waits are asked
/// about where these are wanted.
fn forgets(model: &ModelFile, poll: bool, wait: bool) -> bool {
    let has =
        |operation: &&&str| (poll || operation.contains("wait")) && (wait || operation.contains("poll"));
    let to_each = |nodes: &[&str]| -> Vec<String> {
        let mut all = vec!["a := 1".to_owned()];
        for operation in OPERATIONS.iter().filter(has) {
            for node in nodes {
                let operation = operation.replace('N', node);
                all.extend([format!("strong {operation}"), operation]);
            }
        }
        all
    };
    let seconds = to_each(&["2", "3"]);
    let reads_the_first = |x: &Execution| {
        let read = x.events.iter().position(|e| e.kind == Kind::LocalRead);
        let pair = writes(x).next().zip(read);
        pair.is_some_and(|(write, read)| x.rf.contains(write, read))
    };
    let in_contrary_order = |x: &Execution| {
        let pair = writes(x).next().zip(writes(x).nth(1));
        pair.is_some_and(|(first, second)| x.mo.contains(second, first))
    };
    to_each(&["2"]).iter().all(|first| {
        is_ruled_out(model, &format!("r := a; {first}"), reads_the_first)
            && seconds.iter().all(|second| {
                is_ruled_out(model, &format!("{first}; {second}; r := a"), reads_the_first)
                    && is_ruled_out(model, &format!("{first}; {second}"), in_contrary_order)
            })
    })
}

/// Lists the writes to the scratch location, in program order.
fn writes(x: &Execution) -> impl Iterator<Item = usize> + '_ {
    let on_scratch = |e: &usize| matches!(x.events[*e].kind, Kind::LocalWrite | Kind::NicLocalWrite);
    (0..x.len()).filter(on_scratch)
}

/// Returns whether no execution of these instructions, without the initial writes, is both as described and one of the model. Elsewhere the
/// card's reads may have other sources, so here they have none.
fn is_ruled_out(model: &ModelFile, code: &str, describes: impl Fn(&Execution) -> bool) -> bool {
    let rows: String = code.split("; ").map(|instr| format!("{instr} ;\n")).collect();
    let mut kinds = ["a@1=0", "relaxed a@1=0"].into_iter();
    kinds.all(|scratch| {
        let text = format!("RDMA t\n{{ {scratch}; z2@2=0; z3@3=0; }}\nP0@1 ;\n{rows}exists (true)\n");
        let Ok(parsed) = litmus::parse(&text) else {
            debug_assert!(false, "{text}");
            return false;
        };
        let spec = model.candidates(RmwAtomicity::Hca);
        let mut found = false;
        let ended = each_execution(&parsed.litmus.program, &spec, &Budget::default(), |x| {
            let x = without_initial_writes(x);
            found |= describes(&x) && model.is_consistent(&x);
            match found {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        ended.is_ok() && !found
    })
}

/// Restricts an execution to the events of its threads.
fn without_initial_writes(x: &Execution) -> Execution {
    let first = x.events.iter().take_while(|e| e.thread.is_none()).count();
    let rest = |r: &Relation| Relation::from_fn(x.len() - first, |a, b| r.contains(first + a, first + b));
    Execution {
        events: x.events[first..].to_vec(),
        reads: x.reads[first..].to_vec(),
        writes: x.writes[first..].to_vec(),
        po: rest(&x.po),
        rf: rest(&x.rf),
        mo: rest(&x.mo),
        pf: rest(&x.pf),
        nfo: rest(&x.nfo),
        rao: rest(&x.rao),
        outcome: x.outcome.clone(),
    }
}
