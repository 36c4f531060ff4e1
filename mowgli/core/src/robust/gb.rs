//! *Guaranteed-before*: the pairs of program order that every consistent execution observes in order (Robust'25 Def. 6, Def. 12).
//!
//! The definition is data, a table and a list of [`Rule`]s, whose union is closed transitively. Def. 6 as printed is too large in one
//! line: a poll is on the queue pair, but a remote fence does not order a poll (Fig. 4, F1), so [`RULES`] restrict the target of that
//! line to events of the network card, as Fig. 5 has it (D6 to D8). With that line as printed, Theorems 1, 3 and 5 fail
//! (`litmus/robust25/ROB-D6-poll`).

use crate::event::{Event, Kind};
use crate::models::tables::{Cell, Order};
use crate::models::{Kinds, Part, Spec};
use crate::relation::Relation;

use super::clauses::Clauses;

/// One step of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `[A]`: the event is of one of these kinds.
    Is(Kinds),
    /// The event is of no remote read-modify-write, and of no put with inlined data.
    Plain,
    /// `po|imm` inside one put, get or read-modify-write: to a later event of the instruction.
    Half,
    /// `po ∩ sqp`: to a later event of the queue pair.
    Later,
    /// `pf`: from the write that ends an operation to the poll, or to every wait that names it.
    Polled,
}

/// A line of the definition: a path from the earlier to the later event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The cells of Fig. 5 that it gives.
    pub cells: &'static str,
    /// The line as the paper writes it.
    pub line: &'static str,
    /// Whether the line is our extension to remote read-modify-writes (`docs/rmw.md`).
    pub ours: bool,
    /// The steps of the path.
    pub steps: &'static [Step],
}

const NLR: Step = Step::Is(Kinds::of(&[Kind::NicLocalRead]));
const NRW: Step = Step::Is(Kinds::of(&[Kind::NicRemoteWrite]));
const NRR: Step = Step::Is(Kinds::of(&[Kind::NicRemoteRead]));
const NLW: Step = Step::Is(Kinds::of(&[Kind::NicLocalWrite]));
const NAR: Step = Step::Is(Kinds::of(&[Kind::NicAtomicRead]));
const NF: Step = Step::Is(Kinds::of(&[Kind::NicFence]));
/// The events of the network card that a remote fence orders after what comes before it (Fig. 5, columns 6 to 9, and our `nAR`).
const NIC: Step = Step::Is(Kinds::of(&[
    Kind::NicLocalRead,
    Kind::NicRemoteWrite,
    Kind::NicRemoteRead,
    Kind::NicLocalWrite,
    Kind::NicAtomicRead,
]));
const NLR_NRW: Step = Step::Is(Kinds::of(&[Kind::NicLocalRead, Kind::NicRemoteWrite]));

/// Def. 6 below its first line, `oppo`, which is [`Definition::spec`].
pub const RULES: &[Rule] = &[
    Rule {
        cells: "B1-B5",
        line: "[nlR]; po|imm; [nrW]; pf",
        ours: false,
        steps: &[NLR, Step::Half, NRW, Step::Polled],
    },
    Rule {
        cells: "C1-C6",
        line: "[nrW]; (po ∩ sqp); [nlW]; pf",
        ours: false,
        steps: &[NRW, Step::Later, NLW, Step::Polled],
    },
    Rule {
        cells: "D1-D8",
        line: "[nrR]; po|imm; [nlW]; pf",
        ours: false,
        steps: &[NRR, Step::Half, NLW, Step::Polled],
    },
    Rule {
        cells: "D6-D8",
        line: "[nrR]; (po ∩ sqp); [nF]; (po ∩ sqp); [nlR ∪ nrW ∪ nrR ∪ nlW]",
        ours: false,
        steps: &[NRR, Step::Later, NF, Step::Later, NIC],
    },
    Rule {
        cells: "E1-E8",
        line: "[nlW]; pf",
        ours: false,
        steps: &[NLW, Step::Polled],
    },
    Rule {
        // The remote write of a put is reached through the put's local read. That of a read-modify-write has none before it,
        // and that of inlined data flushes nothing.
        cells: "E6-E7",
        line: "[nlW]; (po ∩ sqp); [nF]; (po ∩ sqp); [nlR ∪ nrW]",
        ours: false,
        steps: &[NLW, Step::Later, NF, Step::Later, NLR_NRW, Step::Plain],
    },
    Rule {
        cells: "F1-F6",
        line: "[nAR]; po|imm; [nlW]; pf",
        ours: true,
        steps: &[NAR, Step::Half, NLW, Step::Polled],
    },
    Rule {
        cells: "F6",
        line: "[nAR]; (po ∩ sqp); [nF]; (po ∩ sqp); [nlR]",
        ours: true,
        steps: &[NAR, Step::Later, NF, Step::Later, NLR],
    },
];

/// The definitions as data: guaranteed-before and the clauses of the conditions. Tests change them to see what each part is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The model, whose observation-preserved program order is the first line.
    pub spec: Spec,
    /// The other lines.
    pub rules: Vec<Rule>,
    /// The clauses of the conditions that are in force.
    pub clauses: Clauses,
}

impl Definition {
    /// Returns the definition for a model: Def. 6 for RDMA^SC, Def. 12 for RDMA^TSO, and the like for the other models.
    pub fn of(spec: &Spec) -> Definition {
        Definition {
            spec: spec.clone(),
            rules: RULES.to_vec(),
            clauses: Clauses::ALL,
        }
    }

    /// Returns the definition in which the CPU's events stay in order. Of RDMA^TSO this makes Def. 6, which local data-race freedom
    /// uses: within one thread, TSO shows nothing that SC does not.
    #[must_use]
    pub fn with_strong_cpu(&self) -> Definition {
        let cpu = |kind: &Kind| kind.is_cpu();
        let mut definition = self.clone();
        for earlier in Kind::ALL.into_iter().filter(cpu) {
            for later in Kind::ALL.into_iter().filter(cpu) {
                let cell = Cell { earlier, later };
                definition.spec.oppo = definition.spec.oppo.with(cell, Order::Yes);
            }
        }
        definition
    }

    /// Computes guaranteed-before of one thread: the transitive closure of the lines.
    pub fn guaranteed_before(&self, events: &[Event], pf: &[(usize, usize)]) -> Relation {
        self.base(events, pf).plus()
    }

    /// Computes guaranteed-before and, with the first line of `local`, a definition with the same other lines, that of `local`.
    pub(super) fn guaranteed_before_and(
        &self,
        local: &Definition,
        events: &[Event],
        pf: &[(usize, usize)],
    ) -> (Relation, Relation) {
        let others = self.other_lines(events, pf);
        let closed = |definition: &Definition| definition.first_line(events).union(&others).plus();
        (closed(self), closed(local))
    }

    /// Computes the union of the lines.
    pub fn base(&self, events: &[Event], pf: &[(usize, usize)]) -> Relation {
        self.first_line(events).union(&self.other_lines(events, pf))
    }

    fn first_line(&self, events: &[Event]) -> Relation {
        Relation::from_fn(events.len(), |a, b| {
            a < b
                && (self.spec.preserves(Part::Oppo, &events[a], &events[b])
                    || self.spec.iso_observe(&events[a], &events[b]))
        })
    }

    fn other_lines(&self, events: &[Event], pf: &[(usize, usize)]) -> Relation {
        let trace = Lines::new(events, pf);
        let rules = self.rules.iter().map(|rule| trace.rule(rule));
        rules.fold(Relation::empty(events.len()), |all, line| all.union(&line))
    }
}

/// A thread's events on which rules are evaluated.
struct Lines<'t> {
    events: &'t [Event],
    half: Relation,
    later: Relation,
    pf: Relation,
}

impl<'t> Lines<'t> {
    fn new(events: &'t [Event], pf: &[(usize, usize)]) -> Lines<'t> {
        let n = events.len();
        Lines {
            events,
            half: Relation::from_fn(n, |a, b| a < b && events[a].same_instruction(&events[b])),
            later: Relation::from_fn(n, |a, b| {
                a < b
                    && events[a].same_queue_pair(&events[b])
                    && !Spec::returns_unplaced(&events[a], &events[b])
            }),
            pf: Relation::from_pairs(n, pf.iter().copied()),
        }
    }

    /// Composes the steps of a rule.
    fn rule(&self, rule: &Rule) -> Relation {
        let n = self.events.len();
        rule.steps
            .iter()
            .fold(Relation::identity(n, |_| true), |path, step| match step {
                Step::Is(kinds) => path.then(&self.those(|e| kinds.contains(e.kind))),
                Step::Plain => path.then(&self.those(|e| !e.rmw && !e.inlined)),
                Step::Half => path.then(&self.half),
                Step::Later => path.then(&self.later),
                Step::Polled => path.then(&self.pf),
            })
    }

    /// Returns the identity on some events.
    fn those(&self, of: impl Fn(&Event) -> bool) -> Relation {
        Relation::identity(self.events.len(), |e| of(&self.events[e]))
    }
}
