//! The edges of an order problem with the reason for each, and the decisions on which it depends.

use std::collections::VecDeque;

use crate::declarative::problem::Problem;
use crate::event::Kind;
use crate::explain::cycle::Side;
use crate::models::Part;
use crate::outcome::Limit;

/// A set of decisions, each by its depth in the search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels([u64; LEVELS_MAX / 64]);

/// The deepest search.
const LEVELS_MAX: usize = 512;

impl Levels {
    /// Returns the set of one decision.
    ///
    /// # Errors
    /// Fails if the search is too deep.
    pub(super) fn of(level: usize) -> Result<Levels, Limit> {
        if level >= LEVELS_MAX {
            let text = format!("an explanation needs more than {LEVELS_MAX} decisions");
            return Err(Limit::TooLarge(text));
        }
        let mut levels = Levels::default();
        levels.0[level / 64] |= 1 << (level % 64);
        Ok(levels)
    }

    pub(super) fn and(self, other: Levels) -> Levels {
        let mut both = self;
        for (mine, theirs) in both.0.iter_mut().zip(other.0) {
            *mine |= theirs;
        }
        both
    }

    pub(super) fn without(self, other: Levels) -> Levels {
        let mut rest = self;
        for (mine, theirs) in rest.0.iter_mut().zip(other.0) {
            *mine &= !theirs;
        }
        rest
    }

    pub(super) fn is_within(self, other: Levels) -> bool {
        self.without(other) == Levels::default()
    }

    pub(super) fn has(self, other: Levels) -> bool {
        self.0
            .iter()
            .zip(other.0)
            .any(|(mine, theirs)| mine & theirs != 0)
    }
}

/// An edge between two points in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    from: u16,
    to: u16,
    /// The term of `ib` or `ob`; `None` for the step from issue to observation of one event.
    label: Option<(Part, Side)>,
    /// The two events.
    events: (u16, u16),
    /// The decisions on which it depends.
    pub(super) needs: Levels,
}

/// An edge of a cycle: two events and the term that orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) part: Part,
    pub(super) is_issue: bool,
}

impl Link {
    pub(super) fn ends(&self) -> (u16, u16) {
        (self.from, self.to)
    }

    fn step(&self) -> Option<Step> {
        let (part, side) = self.label?;
        let (from, to) = self.events;
        Some(Step {
            from,
            to,
            part,
            is_issue: side == Side::Issue,
        })
    }
}

/// Returns the link between two events for a term of one of the orders.
pub(super) fn link(p: &Problem<'_>, (a, b): (usize, usize), part: Part, side: Side, needs: Levels) -> Link {
    let point = |e: usize| match side {
        Side::Issue => p.issue[e],
        Side::Observe => p.observe[e],
    };
    Link {
        from: point(a),
        to: point(b),
        label: Some((part, side)),
        events: (a as u16, b as u16),
        needs,
    }
}

/// Returns the links that a part gives two events, in each order of which it is a term. Observation comes first, because it says
/// more about an edge between two instantaneous events.
pub(super) fn both(p: &Problem<'_>, pair: (usize, usize), part: Part, needs: Levels) -> Vec<Link> {
    let sides = [(p.spec.ob, Side::Observe), (p.spec.ib, Side::Issue)];
    let sides = sides.into_iter().filter(|(parts, _)| parts.contains(part));
    sides.map(|(_, side)| link(p, pair, part, side, needs)).collect()
}

/// Returns the links that every execution has.
pub(super) fn fixed(p: &Problem<'_>) -> Vec<Link> {
    let (spec, none) = (p.spec, Levels::default());
    let mut links = Vec::new();
    for side in [Side::Observe, Side::Issue] {
        for (thread, path) in p.paths.iter().enumerate() {
            let first = p.first[thread];
            for (j, later) in path.events.iter().enumerate() {
                for (i, earlier) in path.events[..j].iter().enumerate() {
                    let parts = if side == Side::Issue { spec.ib } else { spec.ob };
                    let keeps = |part: &Part| match (part, side) {
                        (Part::Iso, Side::Issue) => spec.iso_issue(earlier, later),
                        (Part::Iso, Side::Observe) => spec.iso_observe(earlier, later),
                        _ => spec.preserves(*part, earlier, later),
                    };
                    let kept = parts.iter().filter(keeps);
                    links.extend(kept.map(|part| link(p, (first + i, first + j), part, side, none)));
                }
            }
        }
    }
    for (path, first) in p.paths.iter().zip(&p.first) {
        for &(write, poll) in &path.pf {
            let of_get = path.events[write].kind == Kind::NicLocalWrite;
            for part in [Part::Pf, if of_get { Part::PfGet } else { Part::PfPut }] {
                links.extend(both(p, (first + write, first + poll), part, none));
            }
        }
    }
    for e in 0..p.len() {
        if p.issue[e] != p.observe[e] && spec.joint {
            links.push(Link {
                from: p.issue[e],
                to: p.observe[e],
                label: None,
                events: (e as u16, e as u16),
                needs: none,
            });
        }
    }
    links
}

/// Returns the event that ends a read-modify-write whose atomic read is `e`.
pub(super) fn end_of_rmw(p: &Problem<'_>, e: usize) -> usize {
    let is_end = |next: usize| {
        let event = p.event(next);
        event.rmw && event.kind == Kind::NicRemoteWrite && event.same_instruction(p.event(e))
    };
    if e + 1 < p.len() && is_end(e + 1) {
        e + 1
    } else {
        e
    }
}

/// Closes `last` by a shortest way back through the links. Returns the steps of the cycle and what they depend on; `None` if there is
/// no way back.
pub(super) fn close(points: usize, links: &[&[Link]], last: &Link) -> Option<(Vec<Step>, Levels)> {
    let mut out: Vec<Vec<&Link>> = vec![Vec::new(); points];
    for link in links.iter().flat_map(|links| links.iter()) {
        out[usize::from(link.from)].push(link);
    }
    let mut cost = vec![u32::MAX; points];
    let mut came_by: Vec<Option<&Link>> = vec![None; points];
    let start = usize::from(last.to);
    cost[start] = 0;
    let mut queue = VecDeque::from([(start, 0)]);
    while let Some((at, paid)) = queue.pop_front() {
        if paid > cost[at] {
            continue;
        }
        for link in &out[at] {
            let (to, next) = (usize::from(link.to), paid + u32::from(link.label.is_some()));
            if next < cost[to] {
                cost[to] = next;
                came_by[to] = Some(link);
                match link.label {
                    Some(_) => queue.push_back((to, next)),
                    None => queue.push_front((to, next)),
                }
            }
        }
    }
    let mut at = usize::from(last.from);
    (cost[at] < u32::MAX).then_some(())?;
    let mut steps: Vec<Step> = last.step().into_iter().collect();
    let mut needs = last.needs;
    while at != start {
        let link = came_by[at]?;
        steps.extend(link.step());
        needs = needs.and(link.needs);
        at = usize::from(link.from);
    }
    steps.reverse();
    Some((steps, needs))
}

/// Returns whether the steps contain only one choice, of an order of memory or of a source, against program order of one thread.
pub(super) fn is_contrary(steps: &[Step]) -> bool {
    let count = |wanted: &[Part]| steps.iter().filter(|s| wanted.contains(&s.part)).count();
    let chosen = count(&[Part::Mo, Part::Nfo, Part::Rao, Part::Rf, Part::RfExternal]);
    chosen == 1 && count(&[Part::Po, Part::Ippo, Part::Oppo, Part::Iso]) + 1 == steps.len()
}
