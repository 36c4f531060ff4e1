//! Time and loss: which deadlines pass, which nodes stop or are thought lost, and who knows of it.
//!
//! Each is a move of its own ([`Fault`]). How many an execution has is bounded by [`Faults`]; without any, clocks
//! stand still and nobody is lost. Used by [`super::State`], which lists these moves beside those of threads and
//! of the machine.

use std::fmt;

use mowgli::machine::QpId;
use serde::Serialize;
use smallvec::SmallVec;

use super::{Move, State, Status};
use crate::fabric::request::{Kind, NodeSet};

/// What may go wrong in an execution, and how often. The default is nothing: no deadline passes, no node is lost.
///
/// Reduction: of two executions that differ only in whether a lost node's last write to a word that nobody reads has
/// arrived, or in notes ([`note`](crate::note)) that a node made just before it stopped, one is explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Most waits of an execution that end by their deadline while something else could still happen.
    ///
    /// Clocks promise order only: a node's clock never goes back, and when a wait has ended by its deadline the node's
    /// clock has reached that deadline. Nothing relates clocks of different nodes, or a duration to what else happens
    /// meanwhile. A wait whose deadline has passed already may end at any time, which does not count.
    pub expiries: u32,
    /// Most nodes of an execution that stop for good, at any step. What a stopped node has posted arrives or does not.
    pub crashes: u32,
    /// Most nodes of an execution that are declared lost although they live.
    ///
    /// Membership is enforced and agreed, as the fabric contract says: a node is cut off first, from when on none of its
    /// operations takes effect at others, those under way included, and its own next call fails; then each survivor
    /// learns of it, at any later time. A node that stopped is cut off before anybody learns of it, too.
    pub suspicions: u32,
    /// Membership is not enforced, as it was before the contract said so: a suspected node is not told and goes on
    /// writing, and survivors may learn of a loss while the lost node's operations are still under way.
    pub unenforced: bool,
    /// Time passes when nothing else can happen: then the earliest deadline of some node passes, which does not count.
    /// The clocks of the other nodes move by as much, so that a wait that was to end sooner ends before time passes again.
    /// Otherwise an execution in which only deadlines could end the waits is a deadlock.
    pub idle_expiries: bool,
}

impl Faults {
    /// Whether deadlines may pass.
    pub(crate) fn timed(self) -> bool {
        self.expiries > 0 || self.idle_expiries
    }

    /// Whether nodes may be lost.
    pub(crate) fn lossy(self) -> bool {
        self.crashes > 0 || self.suspicions > 0
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.expiries, "expiry", "expiries"),
            (self.crashes, "crash", "crashes"),
            (self.suspicions, "suspicion", "suspicions"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|&(n, ..)| n > 0)
            .map(|(n, one, more)| format!("{n} {}", if n == 1 { one } else { more }))
            .collect();
        match parts.is_empty() {
            true => write!(f, "no fault"),
            false => write!(f, "{}", parts.join(" and ")),
        }
    }
}

/// Something that goes wrong, or becomes known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// The wait that the thread is in ends by its deadline.
    Expire(u16),
    /// The same when nothing else can happen.
    Idle(u16),
    /// A node stops for good.
    Crash(u16),
    /// A node is thought lost.
    Suspect(u16),
    /// A node is cut off: what it has under way is discarded.
    Revoke(u16),
    /// A node learns that another is lost.
    Learn { node: u16, lost: u16 },
}

impl Fault {
    /// What happens, in words.
    pub(crate) fn describe(self, state: &State) -> String {
        match self {
            Fault::Expire(thread) => format!("P{thread} ({}): its deadline passes", state.info(thread).name),
            Fault::Idle(thread) => format!(
                "P{thread} ({}): its deadline passes, as nothing else can happen",
                state.info(thread).name
            ),
            Fault::Crash(node) => format!("node {node} stops"),
            Fault::Suspect(node) => format!("node {node} is thought lost"),
            Fault::Revoke(node) => format!("node {node} is cut off"),
            Fault::Learn { node, lost } => format!("node {node} learns that node {lost} is lost"),
        }
    }
}

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Up,
    /// Stopped; what it has posted may still take effect.
    Stopped,
    /// Stopped and cut off.
    Gone,
    /// Lives on, thought lost by others, not told.
    Suspected,
    /// Lives on, cut off, told by its next call.
    Excluded,
}

/// A node's clock, standing, and what it knows.
#[derive(Clone)]
struct Site {
    clock: u64,
    standing: Standing,
    /// Nodes that it knows to be lost.
    knows: NodeSet,
    /// Operations that failed with a lost peer and whose failure has not been polled: tag and peer.
    failed: SmallVec<[(u64, u16); 2]>,
}

/// Time and loss in a state.
#[derive(Clone)]
pub(crate) struct Losses {
    allowed: Faults,
    expiries: u32,
    crashes: u32,
    suspicions: u32,
    /// By node; none where nothing can go wrong.
    sites: Vec<Site>,
}

impl Losses {
    pub(crate) fn new(allowed: Faults, nodes: usize) -> Losses {
        let site = Site {
            clock: 0,
            standing: Standing::Up,
            knows: NodeSet::default(),
            failed: SmallVec::new(),
        };
        Losses {
            allowed,
            expiries: allowed.expiries,
            crashes: allowed.crashes,
            suspicions: allowed.suspicions,
            sites: match allowed.timed() || allowed.lossy() {
                true => vec![site; nodes],
                false => Vec::new(),
            },
        }
    }

    /// Whether anything can go wrong at all.
    pub(crate) fn is_on(&self) -> bool {
        !self.sites.is_empty()
    }

    fn site(&self, node: u16) -> Option<&Site> {
        self.sites.get(usize::from(node))
    }

    /// Whether a lost node is cut off before anybody learns of it.
    pub(crate) fn is_enforced(&self) -> bool {
        !self.allowed.unenforced
    }

    /// The node's clock.
    pub(crate) fn clock(&self, node: u16) -> u64 {
        self.site(node).map_or(0, |site| site.clock)
    }

    /// The nodes that `node` knows to be lost, itself included once it has been cut off.
    pub(crate) fn known(&self, node: u16) -> NodeSet {
        let Some(site) = self.site(node) else {
            return NodeSet::default();
        };
        let mut knows = site.knows;
        if site.standing == Standing::Excluded {
            knows.insert(node);
        }
        knows
    }

    /// Who is to blame if a call of `node` towards `peers` fails: the node itself when it is cut off, else the first of
    /// them that it knows to be lost.
    pub(crate) fn refusal(&self, node: u16, peers: NodeSet) -> Option<u16> {
        let site = self.site(node)?;
        match site.standing {
            Standing::Excluded => Some(node),
            _ => site.knows.common(peers).first(),
        }
    }

    /// Whether the outcome of a call of `node` towards `peer` may still change by a loss.
    pub(crate) fn may_refuse(&self, node: u16, peer: u16) -> bool {
        if !self.allowed.lossy() || self.refusal(node, NodeSet::of([peer])).is_some() {
            return false;
        }
        self.suspicions > 0
            || peer != node && (self.crashes > 0 || self.sites[usize::from(peer)].standing != Standing::Up)
    }

    /// Whether nodes may still be lost, or become known to be.
    pub(crate) fn is_settling(&self) -> bool {
        self.crashes > 0
            || self.suspicions > 0
            || self.learns().next().is_some()
            || self.sites.iter().any(|site| site.standing == Standing::Stopped)
    }

    /// Failed operations of the node that nobody has polled.
    pub(crate) fn take_failed(&mut self, node: u16) -> SmallVec<[(u64, u16); 2]> {
        let site = self.sites.get_mut(usize::from(node));
        site.map(|site| std::mem::take(&mut site.failed))
            .unwrap_or_default()
    }

    /// Whether there are any.
    pub(crate) fn has_failed(&self, node: u16) -> bool {
        self.site(node).is_some_and(|site| !site.failed.is_empty())
    }

    /// Who can learn of which loss now.
    fn learns(&self) -> impl Iterator<Item = Fault> + '_ {
        let lost = |site: &Site| match site.standing {
            Standing::Up => false,
            Standing::Stopped => self.allowed.unenforced,
            Standing::Gone | Standing::Suspected | Standing::Excluded => true,
        };
        let lost = (0u16..).zip(&self.sites).filter(move |(_, site)| lost(site));
        lost.flat_map(move |(lost, _)| {
            (0u16..).zip(&self.sites).filter_map(move |(node, site)| {
                let learns = matches!(site.standing, Standing::Up | Standing::Suspected)
                    && node != lost
                    && !site.knows.contains(lost);
                learns.then_some(Fault::Learn { node, lost })
            })
        })
    }

    /// Appends an exact encoding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if !self.is_on() {
            return;
        }
        for left in [self.expiries, self.crashes, self.suspicions] {
            out.extend_from_slice(&left.to_le_bytes());
        }
        for site in &self.sites {
            out.extend_from_slice(&site.clock.to_le_bytes());
            out.push(site.standing as u8);
            out.extend_from_slice(&site.knows.bits().to_le_bytes());
            out.push(site.failed.len() as u8);
            for (tag, peer) in &site.failed {
                out.extend_from_slice(&tag.to_le_bytes());
                out.extend_from_slice(&peer.to_le_bytes());
            }
        }
    }
}

impl Move {
    /// Whether an execution may end without this move, however long one waits: others must happen sooner or later.
    pub(crate) fn is_optional(self, state: &State) -> bool {
        match self {
            Move::Fault(Fault::Crash(_) | Fault::Suspect(_)) => true,
            Move::Fault(Fault::Expire(thread)) => {
                let node = state.info(thread).node;
                state
                    .deadline(thread)
                    .is_some_and(|deadline| deadline > state.losses.clock(node))
            }
            _ => false,
        }
    }
}

impl State {
    /// The deadline of the wait in which the thread is parked.
    fn deadline(&self, thread: u16) -> Option<u64> {
        let thread = &self.threads[usize::from(thread)];
        let wait = thread.wait.as_ref().filter(|_| thread.status == Status::Parked);
        wait.and_then(|wait| wait.deadline)
    }

    /// Appends what can go wrong or become known. `idle`: no thread and no part of the machine can move.
    pub(crate) fn faults(&self, idle: bool, out: &mut Vec<Move>) {
        let losses = &self.losses;
        if !losses.is_on() {
            return;
        }
        let begin = out.len();
        let mut add = |fault| out.push(Move::Fault(fault));
        for (node, site) in (0u16..).zip(&losses.sites) {
            let discards = site.standing == Standing::Stopped;
            if discards && !self.holds_unit(node) {
                add(Fault::Revoke(node));
            }
        }
        losses.learns().for_each(&mut add);
        let parked =
            (0..self.threads.len() as u16).filter_map(|t| Some((t, self.info(t).node, self.deadline(t)?)));
        for (thread, node, deadline) in parked.clone() {
            if deadline <= losses.clock(node) {
                add(Fault::Expire(thread));
            }
        }
        if losses.allowed.idle_expiries && idle && out.len() == begin {
            for (thread, node, deadline) in parked.clone() {
                let first = parked
                    .clone()
                    .all(|(_, other, at)| other != node || deadline <= at);
                if first {
                    out.push(Move::Fault(Fault::Idle(thread)));
                }
            }
            // Time passes by that; nothing is gained by counting it.
            if out.len() > begin {
                self.losable(out);
                return;
            }
        }
        if losses.expiries > 0 {
            for (thread, node, deadline) in parked {
                if deadline > losses.clock(node) {
                    out.push(Move::Fault(Fault::Expire(thread)));
                }
            }
        }
        self.losable(out);
    }

    /// Appends which nodes can be lost. Without somebody left who still has something to do, it makes no difference.
    fn losable(&self, out: &mut Vec<Move>) {
        let losses = &self.losses;
        let up = |node: u16| losses.sites[usize::from(node)].standing == Standing::Up;
        let busy: NodeSet = (0u16..)
            .zip(&self.threads)
            .filter(|(t, thread)| {
                let info = self.info(*t);
                info.kind == Kind::Worker && up(info.node) && thread.status != Status::Done
            })
            .map(|(t, _)| self.info(t).node)
            .collect();
        for node in (0..losses.sites.len() as u16).filter(|&n| up(n)) {
            if busy.without(node).first().is_none() {
                continue;
            }
            if losses.crashes > 0 {
                out.push(Move::Fault(Fault::Crash(node)));
            }
            if losses.suspicions > 0 && (losses.allowed.unenforced || !self.holds_unit(node)) {
                out.push(Move::Fault(Fault::Suspect(node)));
            }
        }
    }

    /// Whether a read-modify-write of the node is being carried out at another: its card finishes that in any case.
    fn holds_unit(&self, node: u16) -> bool {
        self.queue_pairs_of(node)
            .any(|(thread, peer)| peer != node && self.machine.holds_unit(QpId { thread, peer }))
    }

    /// Carries a fault out; false if it cannot happen now.
    pub(crate) fn fail(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Expire(thread) | Fault::Idle(thread) => {
                let Some(deadline) = self.deadline(thread) else {
                    return false;
                };
                let node = usize::from(self.info(thread).node);
                let passes = deadline.saturating_sub(self.losses.sites[node].clock);
                if matches!(fault, Fault::Idle(_)) {
                    // Nodes that do nothing all wait as long.
                    for site in &mut self.losses.sites {
                        site.clock = site.clock.saturating_add(passes);
                    }
                } else if passes > 0 {
                    let Some(left) = self.losses.expiries.checked_sub(1) else {
                        return false;
                    };
                    self.losses.expiries = left;
                    self.losses.sites[node].clock = deadline;
                }
                if let Some(wait) = &mut self.threads[usize::from(thread)].wait {
                    wait.expired = true;
                }
            }
            Fault::Crash(node) => {
                self.losses.crashes = self.losses.crashes.saturating_sub(1);
                self.losses.sites[usize::from(node)].standing = Standing::Stopped;
                for thread in 0..self.threads.len() as u16 {
                    if self.info(thread).node != node {
                        continue;
                    }
                    self.machine.discard_store_buffer(thread);
                    let t = &mut self.threads[usize::from(thread)];
                    if matches!(t.status, Status::Ready | Status::Parked) {
                        t.status = Status::Stopped;
                        t.wait = None;
                    }
                }
            }
            Fault::Suspect(node) => {
                self.losses.suspicions = self.losses.suspicions.saturating_sub(1);
                if self.losses.allowed.unenforced {
                    self.losses.sites[usize::from(node)].standing = Standing::Suspected;
                } else {
                    self.losses.sites[usize::from(node)].standing = Standing::Excluded;
                    self.cut_off(node);
                }
            }
            Fault::Revoke(node) => {
                self.losses.sites[usize::from(node)].standing = Standing::Gone;
                self.cut_off(node);
            }
            Fault::Learn { node, lost } => {
                let mut tags = Vec::new();
                for thread in 0..self.threads.len() as u16 {
                    if self.info(thread).node == node {
                        self.machine.cut(QpId { thread, peer: lost }, &mut tags);
                    }
                }
                let site = &mut self.losses.sites[usize::from(node)];
                site.knows.insert(lost);
                site.failed.extend(tags.into_iter().map(|tag| (tag, lost)));
            }
        }
        true
    }

    /// Discards what the node has under way towards others.
    fn cut_off(&mut self, node: u16) {
        let pairs: SmallVec<[(u16, u16); 8]> = self.queue_pairs_of(node).collect();
        for (thread, peer) in pairs {
            if peer != node {
                self.machine.cut(QpId { thread, peer }, &mut Vec::new());
            }
        }
    }
}
