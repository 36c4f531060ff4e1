//! Decides local soundness (LOCO'26 Def. 3.13) on bounded executions, with the `g` of appendix G.
//!
//! By monotonicity, the largest `hb'` decides the third condition. It consists of the pairs whose images
//! under `g` are in `hb`. It is transitive, and by the first two conditions contains `ppo' ∪ so'`. The
//! smallest `hb` of the implementation is the worst case for the first two conditions.

use mowgli::explain::Drawing;
use mowgli::outcome::{Budget, Limit};

use crate::client::Client;
use crate::draw::drawing;
use crate::event::{Event, Stamp};
use crate::execution::{Edge, Flow, Graph, State};
use crate::implementation::{Implementation, Rules};
use crate::justified::{Justified, Watch};
use crate::library::{Libraries, Specification};
use crate::order::Order;
use crate::outcomes::{Asked, search_order};
use crate::plain::runs;

/// An implementation, and the library that it should implement.
pub struct LocalSoundness<'a> {
    /// The implementation.
    pub implementation: &'a dyn Implementation,
    /// The specification that it implements.
    pub specification: &'a dyn Specification,
    /// The implementation with the libraries that it uses.
    pub rules: &'a Rules<'a>,
    /// The most executions of the implementation that are judged for a client.
    pub executions_max: u64,
}

/// An execution of the implementation for which the definition does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The client.
    pub client: Client,
    /// The abstract calls.
    pub calls: Vec<Event>,
    /// The implementation's events.
    pub events: Vec<Event>,
    /// The condition that fails, in words.
    pub why: String,
    /// The implementation's execution.
    pub execution: Drawing,
    /// The abstract calls with the order between them that the implementation gives, in which no abstract execution is
    /// consistent. `None` if a call has no abstract subevents.
    pub missing: Option<Drawing>,
}

/// The condition that fails for an execution, and the abstract calls as [`Failure`] draws them.
struct Unsound {
    why: String,
    missing: Option<Drawing>,
}

/// The finding about a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The definition holds for every execution.
    Sound,
    /// The definition does not hold for some execution.
    Fails(Box<Failure>),
    /// A limit was reached.
    Unknown(Limit),
}

impl LocalSoundness<'_> {
    /// Decides the definition for the executions of a client whose calls are all of the implemented library.
    pub fn check(&self, client: &Client, budget: Budget<'_>) -> Found {
        let plain = runs(client, self.rules, budget);
        let mut limit = plain.limit.clone();
        let mut failure = None;
        let mut executions = 0;
        let asked = Asked {
            total: true,
            conflicts: None,
        };
        let watch = Watch::new(budget);
        Justified::new(client, &plain, &watch).each(&mut |chosen| {
            let events: Vec<Event> = chosen.iter().flat_map(|run| run.events.iter().cloned()).collect();
            let calls: Vec<Event> = chosen.iter().flat_map(|run| run.calls.iter().cloned()).collect();
            let ended = search_order(
                client,
                &self.rules.libraries,
                events,
                budget,
                asked,
                &mut |g, state| {
                    executions += 1;
                    if executions > self.executions_max {
                        limit = Some(Limit::States(executions));
                        return Flow::Stop;
                    }
                    match self.execution(client, g, &state.hb, &calls, budget) {
                        Ok(None) => Flow::Continue,
                        Ok(Some(Unsound { why, missing })) => {
                            failure = Some(Box::new(Failure {
                                client: client.clone(),
                                calls: calls.clone(),
                                events: g.events.clone(),
                                why,
                                execution: drawing(g, &state.edges, None),
                                missing,
                            }));
                            Flow::Stop
                        }
                        Err(reached) => {
                            limit = Some(reached);
                            Flow::Stop
                        }
                    }
                },
            );
            if let Err(reached) = ended {
                limit = Some(reached);
            }
            if failure.is_some() || limit.is_some() {
                Flow::Stop
            } else {
                Flow::Continue
            }
        });
        match (failure, limit.or_else(|| watch.limit())) {
            (Some(failure), _) => Found::Fails(failure),
            (None, Some(limit)) => Found::Unknown(limit),
            (None, None) => Found::Sound,
        }
    }

    /// Returns what fails for one execution of the implementation.
    fn execution(
        &self,
        client: &Client,
        g: &Graph<'_>,
        hb: &Order,
        calls: &[Event],
        budget: Budget<'_>,
    ) -> Result<Option<Unsound>, Limit> {
        let mut refused = None;
        let abstracted = Graph::new(client, g.network, calls.to_vec(), |e| {
            let stamps = self.specification.stamps(client, e);
            if stamps.is_none() {
                refused = Some(format!("{} has no abstract execution", e.display(client)));
            }
            stamps.unwrap_or_default()
        })?;
        if let Some(why) = refused {
            return Ok(Some(Unsound { why, missing: None }));
        }
        let broken = |why| {
            let missing = Some(drawing(&abstracted, &[], None));
            Ok(Some(Unsound { why, missing }))
        };
        let mut concrete = Vec::new();
        for (s, subevent) in abstracted.subevents.iter().enumerate() {
            let call = &calls[subevent.event];
            let events = implementing(g, call);
            let chosen = self
                .implementation
                .concretise(client, call, subevent.stamp, &events, g);
            let Some(chosen) = chosen else {
                return broken(format!("nothing implements {}", abstracted.display(s)));
            };
            let own: Vec<usize> = events.iter().flat_map(|&e| g.of_event(e)).collect();
            if let Some(why) = broken_promise(client, g, hb, subevent.stamp, chosen, &own) {
                return broken(format!("{}: {why}", abstracted.display(s)));
            }
            concrete.push(chosen);
        }
        // hb': the pairs whose images are in hb.
        let n = concrete.len();
        let within: Vec<u128> = (0..n)
            .map(|a| {
                (0..n)
                    .filter(|&b| hb.has(concrete[a], concrete[b]))
                    .fold(0, |row, b| row | 1 << b)
            })
            .collect();
        let mut largest = Order::empty(n);
        for (a, &row) in within.iter().enumerate() {
            crate::order::bits(row).for_each(|b| largest.put(a, b));
        }
        let mut state = State::new(&abstracted, budget);
        state.within = Some(within);
        state.total = true;
        let mut consistent = false;
        self.specification.order(&abstracted, &mut state, &mut |_| {
            consistent = self.specification.accepts(&abstracted, &largest);
            if consistent { Flow::Stop } else { Flow::Continue }
        });
        if let Some(limit) = state.limit {
            return Err(limit);
        }
        Ok((!consistent).then(|| Unsound {
            why: "no synchronisation order of the specification is within what the implementation orders"
                .to_owned(),
            missing: Some(drawing(&abstracted, &ordered(&abstracted, &largest), None)),
        }))
    }
}

/// Returns the pairs of `hb'` of different calls that do not follow from program order and others, for a drawing.
fn ordered(g: &Graph<'_>, hb: &Order) -> Vec<Edge> {
    let n = g.subevents.len();
    let between = |a: usize, b: usize| (0..n).any(|c| hb.has(a, c) && hb.has(c, b));
    let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
    pairs
        .filter(|&(a, b)| hb.has(a, b) && g.subevents[a].event != g.subevents[b].event)
        .filter(|&(a, b)| !g.po_sub(a, b) && !between(a, b))
        .map(|(from, to)| Edge { from, to, why: "hb" })
        .collect()
}

/// Returns `f⁻¹(e')`, the events that implement a call.
fn implementing(g: &Graph<'_>, call: &Event) -> Vec<usize> {
    let of_call = |&e: &usize| g.events[e].thread == call.thread && g.events[e].serves == call.serves;
    (0..g.events.len()).filter(of_call).collect()
}

/// Returns the promise of an abstract stamp that the chosen subevent and the others of its call do not keep.
fn broken_promise(
    client: &Client,
    g: &Graph<'_>,
    hb: &Order,
    promised: Stamp,
    chosen: usize,
    own: &[usize],
) -> Option<String> {
    let reaches = |a: usize, b: usize| a == b || hb.has(a, b);
    for other in Stamp::all(client.nodes) {
        let stamp = |s: usize| g.subevents[s].stamp;
        let before = |a: Stamp, b: Stamp| g.network.before(a, b);
        if before(other, promised) && !own.iter().any(|&s| before(other, stamp(s)) && reaches(s, chosen)) {
            return Some(format!("an earlier {other} need not come before it"));
        }
        if before(promised, other) && !own.iter().any(|&s| before(stamp(s), other) && reaches(chosen, s)) {
            return Some(format!("a later {other} need not come after it"));
        }
    }
    None
}

/// Returns the specification of the implementation's library among these, if there is one.
pub fn implemented<'l>(
    implementation: &dyn Implementation,
    libraries: &Libraries<'l>,
) -> Option<&'l dyn Specification> {
    libraries.get(implementation.library())
}
