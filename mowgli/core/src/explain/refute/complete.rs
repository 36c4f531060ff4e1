//! Completes what a branch of the refutation has decided to an execution with the outcome, to be shown.

use crate::declarative::graph;
use crate::declarative::problem::{INIT, Problem};
use crate::event::{Execution, Kind};
use crate::litmus::Formula;
use crate::models::Part;

use super::links::Levels;
use super::state::{Decision, State, sources};

/// The most choices of sources that are tried, unless a test says otherwise.
pub(in crate::explain) const TRIES_MAX: u32 = 10_000;

/// No execution was found, and there may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unshown;

/// Returns an execution with what was decided and with the outcome; `None` if there is none.
///
/// # Errors
/// If none was found among the first `tries` choices.
pub(super) fn execution(
    p: &Problem<'_>,
    wanted: &Formula,
    state: &State,
    mut tries: u32,
) -> Result<Option<Execution>, Unshown> {
    match with_sources(p, wanted, state.clone(), &mut tries)? {
        None => Ok(None),
        // The one choice of sources that was made may fail where another would do.
        Some(state) => with_orders(p, wanted, &state).map(Some).ok_or(Unshown),
    }
}

/// Returns an execution with the sources of a state; `None` if the orders that follow time give none.
fn with_orders(p: &Problem<'_>, wanted: &Formula, state: &State) -> Option<Execution> {
    let n = p.len();
    let line = state.order.linear_extension();
    let mut time = vec![0; p.points];
    for (at, &point) in line.iter().enumerate() {
        time[usize::from(point)] = at;
    }
    // A read that does not matter reads what is there at its time.
    let newest = |read: usize| {
        let loc = p.event(read).loc.map_or(0, |l| usize::from(l.0));
        let observed = |w: u16| time[usize::from(p.observe[usize::from(w)])];
        let before = |&w: &u16| usize::from(w) != read && observed(w) < time[usize::from(p.observe[read])];
        let writes = p.writes[loc].iter().copied().filter(before);
        writes.max_by_key(|&w| observed(w)).unwrap_or(INIT)
    };
    let source = |e: usize| match p.is_sourced_read(e) {
        true => state.source(e).unwrap_or_else(|| newest(e)),
        false => INIT,
    };
    let rf: Vec<u16> = (0..n).map(source).collect();
    let mut rank = vec![0; n];
    for writes in &p.writes {
        let events = writes.iter().map(|&w| usize::from(w)).collect();
        sort(p, state, Part::Mo, events, &time, &mut rank)?;
    }
    let mut atomic = vec![0; n];
    for node in 0..p.program.nodes {
        let is_here = |&e: &usize| {
            let event = p.event(e);
            event.kind == Kind::NicAtomicRead && event.peer.is_some_and(|peer| peer.0 == node)
        };
        let events = (0..n).filter(is_here).collect();
        sort(p, state, Part::Rao, events, &time, &mut atomic)?;
    }
    let observed = |a: usize, b: usize| {
        // Under `glob` an atomic read is a write, too, and `rao` is not asked for.
        match p.spec.orders_atomics() && p.event(a).kind == Kind::NicAtomicRead {
            true => atomic[a] < atomic[b],
            false => rank[a] < rank[b],
        }
    };
    let flushed = |read: usize, write: usize| {
        let decided = state.orders(Part::Nfo, read, write);
        let earlier = time[usize::from(p.observe[read])] < time[usize::from(p.observe[write])];
        decided || earlier && !state.orders(Part::Nfo, write, read)
    };
    let execution = graph::build(p, &rf, observed, flushed);
    wanted.holds(&execution.outcome).then_some(execution)
}

/// Decides the sources and last writes that are open such that the values fit the conditions and the outcome. Returns `None` if no
/// choice does.
///
/// # Errors
/// If more than `tries` choices would have to be made.
fn with_sources(
    p: &Problem<'_>,
    wanted: &Formula,
    state: State,
    tries: &mut u32,
) -> Result<Option<State>, Unshown> {
    *tries = tries.checked_sub(1).ok_or(Unshown)?;
    if state.contradiction(p, wanted).is_some() {
        return Ok(None);
    }
    let none = Levels::default();
    match state.open(p).into_iter().next() {
        Some(Decision::Source(read)) => {
            for source in sources(p, read) {
                let mut next = state.clone();
                next.set_source(p, read, source, none);
                if let Some(found) = with_sources(p, wanted, next, tries)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
        Some(Decision::Last(loc)) => {
            for &last in &p.writes[loc] {
                let is_last = |&w: &u16| !state.orders(Part::Mo, usize::from(last), usize::from(w));
                if !p.writes[loc].iter().all(is_last) {
                    continue;
                }
                let mut next = state.clone();
                for &other in p.writes[loc].iter().filter(|&&w| w != last) {
                    next.place(usize::from(other), usize::from(last));
                }
                next.set_last(p, loc, last, none);
                if let Some(found) = with_sources(p, wanted, next, tries)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
        _ => Ok(state.is_known(p).then_some(state)),
    }
}

/// Ranks events by an order of which some pairs are decided; the others follow time. Fails if the pairs are no order.
fn sort(
    p: &Problem<'_>,
    state: &State,
    part: Part,
    mut left: Vec<usize>,
    time: &[usize],
    rank: &mut [usize],
) -> Option<()> {
    left.sort_by_key(|&e| time[usize::from(p.observe[e])]);
    let mut place = 0;
    while !left.is_empty() {
        let is_first = |&e: &usize| left.iter().all(|&other| !state.orders(part, other, e));
        let at = left.iter().position(is_first)?;
        rank[left.remove(at)] = place;
        place += 1;
    }
    Some(())
}
