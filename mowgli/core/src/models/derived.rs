//! Derives the relations of an execution under a model that the predicates are written in.

use super::{Part, Parts, Spec};
use crate::event::{Event, Execution, Kind};
use crate::relation::Relation;

/// An execution with its derived relations.
#[derive(Debug)]
pub struct Derived<'a> {
    /// The execution.
    pub graph: &'a Execution,
    /// The model's data.
    pub spec: &'a Spec,
    /// `rb = (rf⁻¹; mo) \ [E]`: orders a read before the writes that overwrite the value that it read.
    pub rb: Relation,
    /// `rf_b`: reads-from where a buffer may serve the read.
    pub rf_buffer: Relation,
    /// `rb_b`: reads-before where a buffer may serve the read.
    pub rb_buffer: Relation,
    /// `[Inst]`: the identity on instantaneous events.
    pub inst: Relation,
}

impl<'a> Derived<'a> {
    /// Derives the relations of `graph` under `spec`.
    pub fn new(graph: &'a Execution, spec: &'a Spec) -> Derived<'a> {
        let n = graph.len();
        let e = |i: usize| &graph.events[i];
        let identity = Relation::identity(n, |_| true);
        let rb = graph.rf.inverse().then(&graph.mo).minus(&identity);
        let buffered = Relation::from_fn(n, |w, r| spec.forwards(e(w), e(r)));
        Derived {
            graph,
            spec,
            rf_buffer: graph.rf.intersection(&buffered),
            rb_buffer: rb.intersection(&buffered.inverse()),
            rb,
            inst: Relation::identity(n, |i| spec.is_instantaneous(e(i))),
        }
    }

    /// Returns the union of the parts, as a term of `ib`.
    pub fn issue(&self, parts: Parts) -> Relation {
        self.union(parts, true)
    }

    /// Returns the union of the parts, as a term of `ob`.
    pub fn observe(&self, parts: Parts) -> Relation {
        self.union(parts, false)
    }

    /// Returns one part as a term of `ib` (if `issue`) or of `ob`.
    pub fn part(&self, part: Part, issue: bool) -> Relation {
        let g = self.graph;
        let completing = |kind: Kind| Relation::identity(g.len(), |i| g.events[i].kind == kind);
        match part {
            Part::Po | Part::Ippo | Part::Oppo => self.program_order(|a, b| self.spec.preserves(part, a, b)),
            Part::Iso if issue => self.program_order(|a, b| self.spec.iso_issue(a, b)),
            Part::Iso => self.program_order(|a, b| self.spec.iso_observe(a, b)),
            Part::Rf => g.rf.clone(),
            Part::RfExternal => g.rf.minus(&self.rf_buffer),
            Part::Rb => self.rb.clone(),
            Part::RbBuffer => self.rb_buffer.clone(),
            Part::Mo => g.mo.clone(),
            Part::Pf => g.pf.clone(),
            Part::PfGet => completing(Kind::NicLocalWrite).then(&g.pf),
            Part::PfPut => completing(Kind::NicRemoteWrite).then(&g.pf),
            Part::Nfo => g.nfo.clone(),
            Part::Rao => g.rao.union(&self.rao_end()),
        }
    }

    /// Returns `rao_end`, which orders the end of an RMW before the start of the next RMW at its node (`docs/rmw.md`).
    fn rao_end(&self) -> Relation {
        let g = self.graph;
        let ends = Relation::from_fn(g.len(), |end, start| {
            let (a, b) = (&g.events[end], &g.events[start]);
            a.kind == Kind::NicRemoteWrite && a.rmw && b.kind == Kind::NicAtomicRead && a.same_instruction(b)
        });
        ends.then(&g.rao)
    }

    fn program_order(&self, keep: impl Fn(&Event, &Event) -> bool) -> Relation {
        let g = self.graph;
        Relation::from_pairs(
            g.len(),
            g.po.pairs().filter(|&(a, b)| keep(&g.events[a], &g.events[b])),
        )
    }

    fn union(&self, parts: Parts, issue: bool) -> Relation {
        parts.iter().fold(Relation::empty(self.graph.len()), |sum, p| {
            sum.union(&self.part(p, issue))
        })
    }
}
