//! Finds a thread that polls without the primitive for it, and says so.
//!
//! No time passes in the model, so a thread that polls must park until something has changed: by a wait, or by
//! [`Fabric::pause`](loco_fabric::Fabric::pause). A thread that reads in a loop of its own makes executions without end. When a
//! limit ends an exploration, the last requests of each thread tell whether it was at that.

use rustc_hash::FxHashMap;

use crate::exploring::walk::Answered;
use crate::fabric::request::Request;
use crate::state::Common;

/// The most requests of a round of a loop.
const ROUND_MAX: usize = 64;
/// The number of rounds in a row, with the same requests and the same replies, that count as polling.
const ROUNDS: usize = 8;

/// Returns the thread whose last requests on the path are the same again and again, if there is one.
pub(super) fn thread(common: &Common, path: &[Answered]) -> Option<u16> {
    let mut last: FxHashMap<u16, Vec<String>> = FxHashMap::default();
    for &(thread, past) in path.iter().rev() {
        let steps = last.entry(thread).or_default();
        if steps.len() < ROUND_MAX * ROUNDS {
            // A thread that is woken makes no request.
            let before = past.and_then(|past| common.behaviour.parent(past));
            let request = before.and_then(|before| common.behaviour.request(before));
            steps.push(request.map_or_else(String::new, shown));
        }
    }
    let mut loops: Vec<u16> = last
        .iter()
        .filter(|(_, steps)| repeats(steps))
        .map(|(&thread, _)| thread)
        .collect();
    loops.sort_unstable();
    loops.first().copied()
}

/// Shows a request without what differs from one time to the next.
fn shown(request: &Request) -> String {
    match request {
        Request::Post { peer, op, .. } => format!("{peer} {op:?}"),
        Request::WaitBegin { what, .. } => what.to_string(),
        request => format!("{request:?}"),
    }
}

/// Returns whether the newest steps, which come first, are rounds of the same steps. A thread that pauses between them goes on
/// only when something has changed, so that its rounds end.
fn repeats(steps: &[String]) -> bool {
    (1..=ROUND_MAX).any(|round| {
        let rounds = steps.get(..round * ROUNDS);
        rounds.is_some_and(|steps| steps[round..].iter().zip(steps).all(|(a, b)| a == b))
    })
}

/// Says what the thread does.
pub(super) fn says(thread: u16, name: &str, place: Option<&str>) -> String {
    let at = place.map_or_else(String::new, |place| format!(", at {place}"));
    format!(
        "P{thread} ({name}) polls without `pause`{at}: call `Fabric::pause` between two reads, or wait for the word, so \
         that the model parks the thread until something has changed"
    )
}
