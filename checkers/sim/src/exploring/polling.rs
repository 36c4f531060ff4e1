//! Finds a thread that polls without the primitive for it, and says so.
//!
//! No time passes in the model, so a thread that polls must park until something has changed: by a wait, or by
//! [`Fabric::pause`](loco_fabric::Fabric::pause). A thread that reads in a loop of its own makes executions without end. When a
//! limit ends an exploration, the last requests of each thread tell whether it did so.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::fabric::request::{Access, NicOp, Reply, Request, Rmw, VirtualWord};
use crate::state::Common;
use crate::state::behaviour::Past;

/// A granted request: the thread, and the past that its reply led to. `None` stands for the unit reply that wakes a
/// thread, whose past may be merged with others. The path names pasts and not replies, because paths are copied all
/// the time and replies are large.
pub(crate) type PathStep = (u16, Option<Past>);

/// The most steps of a round of a loop.
const ROUND_MAX: usize = 64;
/// The number of rounds in a row, with the same requests and the same replies, that count as polling.
const ROUNDS: usize = 8;

/// A granted request and its reply, or `None` where the thread was woken.
type Granted<'a> = Option<(&'a Request, Reply)>;

/// A step of a thread, without what differs from one round of a loop to the next though the thread learns nothing new.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Reads a word that the thread itself does not write, or tries to change a word or to take a lock.
    Looks,
    /// Changes a word of another node, or waits for somebody else: a thread that does so again and again does not poll.
    Acts,
    /// Everything else.
    Inner,
}

/// Returns the thread whose last requests on the path are the same again and again, if there is one.
pub(super) fn thread(common: &Common, path: &[PathStep]) -> Option<u16> {
    let mut last: FxHashMap<u16, Vec<Granted<'_>>> = FxHashMap::default();
    for &(thread, past) in path.iter().rev() {
        let granted = last.entry(thread).or_default();
        if granted.len() < ROUND_MAX * ROUNDS {
            granted.push(past.and_then(|past| {
                let request = common.behaviour.request(common.behaviour.parent(past)?)?;
                Some((request, common.behaviour.reply(past)))
            }));
        }
    }
    let polls = |(thread, mut granted): (u16, Vec<Granted<'_>>)| {
        granted.reverse();
        repeats(&steps(&granted)).then_some(thread)
    };
    last.into_iter().filter_map(polls).min()
}

/// Returns the steps of a thread's requests, oldest first.
///
/// The library under a program keeps count of operations in words of its own, and uses its slots and completion words in turn.
/// The words that the thread itself writes are therefore not told apart, nor are the values in them; the slots of its operations
/// are not told apart, but the values in them are. A wait for the thread's own operations is one step, however often it was woken.
/// A thread without operations of its own that takes completions waits for those of others.
fn steps(granted: &[Granted<'_>]) -> Vec<Step> {
    let requests = || granted.iter().flatten().map(|&(request, _)| request);
    let slots: FxHashSet<VirtualWord> = requests().filter_map(slot).collect();
    let written: FxHashSet<VirtualWord> = requests().filter_map(written).collect();
    let posts = requests().any(|request| matches!(request, Request::Post { .. }));
    let name = |word: VirtualWord| match slots.contains(&word) {
        true => "slot".to_owned(),
        false => format!("{word:?}"),
    };
    let mut steps = Vec::new();
    let mut granted = granted.iter().flatten().peekable();
    while let Some((request, reply)) = granted.next() {
        let (text, kind) = match *request {
            Request::WaitBegin { what, .. } => {
                let mut polls = false;
                let is_inside = |(request, _): &&(&Request, Reply)| {
                    matches!(request, Request::Poll | Request::Load { .. } | Request::Park)
                };
                while let Some((inside, _)) = granted.next_if(is_inside) {
                    polls |= **inside == Request::Poll;
                }
                let own = polls && posts;
                (what.to_string(), if own { Kind::Inner } else { Kind::Acts })
            }
            Request::Load { word } if written.contains(word) && !slots.contains(word) => {
                ("load".to_owned(), Kind::Inner)
            }
            Request::Load { word } => (format!("load {}: {reply:?}", name(*word)), Kind::Looks),
            Request::Direct {
                word,
                access: Access::Load,
                ..
            } => (format!("load {}: {reply:?}", name(*word)), Kind::Looks),
            Request::Direct { .. } => ("access".to_owned(), Kind::Acts),
            Request::Store { word, value } if slots.contains(word) => {
                (format!("store slot {value}"), Kind::Inner)
            }
            Request::Post { peer, op, .. } => match *op {
                NicOp::Put { .. } | NicOp::PutInline { .. } => ("put".to_owned(), Kind::Acts),
                NicOp::Get { src, .. } => (format!("{peer} get {}", name(src)), Kind::Looks),
                NicOp::FetchAdd { target, add, .. } => {
                    (format!("{peer} add {} {add}", name(target)), Kind::Looks)
                }
                NicOp::CompareSwap {
                    target,
                    expected,
                    new,
                    ..
                } => (
                    format!("{peer} swap {} {expected} {new}", name(target)),
                    Kind::Looks,
                ),
                NicOp::Fence => ("fence".to_owned(), Kind::Inner),
            },
            Request::Rmw {
                word,
                rmw: rmw @ Rmw::CompareExchange { .. },
            } if !written.contains(word) => (format!("{rmw:?} {}: {reply:?}", name(*word)), Kind::Looks),
            Request::TryLock { lock } => (format!("try {lock:?}: {reply:?}"), Kind::Looks),
            Request::Note(_) | Request::Send { .. } => (format!("{request:?}"), Kind::Inner),
            // The first word of the debugging text is the sort of the request.
            _ => {
                let text = format!("{request:?}");
                let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
                (text[..end].to_owned(), Kind::Inner)
            }
        };
        steps.push(Step { text, kind });
    }
    steps
}

/// Returns the word of the thread's own node that the posted operation uses.
fn slot(request: &Request) -> Option<VirtualWord> {
    let Request::Post { op, .. } = request else {
        return None;
    };
    match *op {
        NicOp::Put { src, .. } => Some(src),
        NicOp::Get { dst, .. } | NicOp::FetchAdd { dst, .. } | NicOp::CompareSwap { dst, .. } => Some(dst),
        NicOp::PutInline { .. } | NicOp::Fence => None,
    }
}

/// Returns the word that the thread itself writes. A failed exchange writes nothing, but that it fails may be what the thread
/// polls: a lock that spins.
fn written(request: &Request) -> Option<VirtualWord> {
    match *request {
        Request::Store { word, .. } => Some(word),
        Request::Rmw { word, rmw } if !matches!(rmw, Rmw::CompareExchange { .. }) => Some(word),
        _ => None,
    }
}

/// Returns whether the newest steps, which come last, are rounds of the same steps that look at something and change nothing. The
/// thread may be in the middle of another round, whose words it has yet to write: that round is left out.
fn repeats(steps: &[Step]) -> bool {
    (1..=ROUND_MAX).any(|round| (0..=round).any(|newest| are_rounds(steps, round, newest)))
}

/// Returns whether so many steps before the newest ones are one of several equal rounds.
fn are_rounds(steps: &[Step], round: usize, newest: usize) -> bool {
    let end = steps.len().saturating_sub(newest);
    let Some(start) = end.checked_sub(round * ROUNDS) else {
        return false;
    };
    let steps = &steps[start..end];
    let one = &steps[..round];
    one.iter().any(|step| step.kind == Kind::Looks)
        && one.iter().all(|step| step.kind != Kind::Acts)
        && steps[round..].iter().zip(steps).all(|(a, b)| a == b)
}

/// Says what the thread does.
pub(super) fn says(thread: u16, name: &str, place: Option<&str>) -> String {
    let at = place.map_or_else(String::new, |place| format!(", at {place}"));
    format!(
        "P{thread} ({name}) polls without `pause`{at}: call `Fabric::pause` between two reads, or wait for the word, so \
         that the model parks the thread until something has changed"
    )
}
