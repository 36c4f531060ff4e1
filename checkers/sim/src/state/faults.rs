//! Time and loss: deadlines that pass, nodes that stop or are thought lost, and the nodes that know of it.
//!
//! A link may also be cut for a while ([`super::links`]).
//!
//! Each of these is a move of its own ([`Fault`]). [`Faults`] bounds how many of them an execution has.
//! Without faults, clocks stand still and nobody is lost. Used by [`State`], which lists these moves
//! beside those of threads and of the machine.

use loco_fabric::NodeId;
use mowgli::machine::QpId;
use smallvec::SmallVec;

use super::allowed::Faults;
use super::links::Links;
use super::{Common, Move, State, Status};
use crate::fabric::blame::Blame;
use crate::fabric::request::{ModelThreadKind, NodeSet, VirtualWord};

/// A fault, or the moment at which a node learns of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// The wait that the thread is in ends by its deadline.
    Expire(u16),
    /// The wait that the thread is in ends by its deadline because nothing else can happen.
    Idle(u16),
    /// A node stops for good.
    Crash(u16),
    /// A node is thought lost.
    Suspect(u16),
    /// A node is cut off: what it has under way is discarded.
    Revoke(u16),
    /// A node learns that another is lost.
    Learn { node: u16, lost: u16 },
    /// The link between two nodes is cut, the one with the smaller number first.
    Cut { node: u16, peer: u16 },
    /// The link between two nodes is there again.
    Heal { node: u16, peer: u16 },
}

impl Fault {
    /// Describes the fault in words.
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
            Fault::Cut { node, peer } => format!("the link between nodes {node} and {peer} is cut"),
            Fault::Heal { node, peer } => format!("the link between nodes {node} and {peer} is there again"),
        }
    }
}

impl Fault {
    /// Returns whether the fault cuts the queue pair: discards what it has under way.
    pub(crate) fn cuts(self, state: &State, qp: QpId) -> bool {
        let (of, to_peer) = match self {
            Fault::Suspect(node) => (node, state.losses.is_enforced() && qp.peer != node),
            Fault::Revoke(node) => (node, qp.peer != node),
            Fault::Learn { node, lost } => (node, qp.peer == lost),
            Fault::Crash(_) | Fault::Expire(_) | Fault::Idle(_) | Fault::Cut { .. } | Fault::Heal { .. } => {
                return false;
            }
        };
        state.info(qp.thread).node == of && to_peer
    }

    /// Returns whether the fault empties the store buffer of the thread.
    pub(crate) fn empties_buffer(self, state: &State, thread: u16) -> bool {
        matches!(self, Fault::Crash(node) if node == state.info(thread).node)
    }
}

/// The standing of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Up,
    /// The node has stopped. Its posted operations may still take effect.
    Stopped,
    /// The node has stopped and is cut off.
    Gone,
    /// The node lives on and does not know that others think it lost.
    Suspected,
    /// The node lives on and is cut off. It learns so from its next call.
    Excluded,
}

/// A node's clock, standing and knowledge.
#[derive(Clone)]
struct Site {
    clock: u64,
    standing: Standing,
    /// The nodes that this node knows to be lost.
    knows: NodeSet,
    /// The operations that failed since their peer is lost and that nobody has polled: tag and peer.
    failed: SmallVec<[(u64, u16); 2]>,
}

/// Time and loss in a state.
pub(crate) struct Losses {
    allowed: Faults,
    expiries: u32,
    crashes: u32,
    suspicions: u32,
    /// Nodes may stop by themselves, once a fault has happened.
    leave: bool,
    pub(crate) links: Links,
    /// The sites by node; empty where nothing can go wrong.
    sites: Vec<Site>,
}

impl Clone for Losses {
    fn clone(&self) -> Losses {
        Losses {
            sites: self.sites.clone(),
            links: self.links.clone(),
            ..*self
        }
    }

    fn clone_from(&mut self, source: &Losses) {
        let mut sites = std::mem::take(&mut self.sites);
        sites.clone_from(&source.sites);
        let links = source.links.clone();
        *self = Losses {
            sites,
            links,
            ..*source
        };
    }
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
            leave: false,
            links: Links::new(allowed.cuts),
            sites: match allowed.any() {
                true => vec![site; nodes],
                false => Vec::new(),
            },
        }
    }

    /// Lets nodes stop by themselves where anything can go wrong.
    pub(crate) fn let_nodes_leave(&mut self) {
        self.leave = self.is_on();
    }

    /// Returns whether a node has been lost or a deadline has passed while something else could happen.
    pub(crate) fn have_begun(&self) -> bool {
        self.crashes < self.allowed.crashes
            || self.suspicions < self.allowed.suspicions
            || self.expiries < self.allowed.expiries
    }

    /// Returns whether what an error of `node` blames has happened.
    pub(crate) fn has_happened(&self, node: u16, blame: Blame) -> bool {
        let is_lost = |node| self.site(node).is_some_and(|site| site.standing != Standing::Up);
        match blame {
            Blame::Loss(NodeId(lost)) => is_lost(lost),
            Blame::SomeLoss => self.sites.iter().any(|site| site.standing != Standing::Up),
            Blame::OwnLoss => is_lost(node),
            // The clock of a node moves only when a wait of the node ends by its deadline.
            Blame::Deadline => self.have_begun() && self.clock(node) > 0,
        }
    }

    /// Returns whether nodes are lost in some executions.
    pub(crate) fn is_lossy(&self) -> bool {
        self.allowed.lossy() || self.leave
    }

    /// Returns whether nodes may yet be lost.
    fn may_lose(&self) -> bool {
        self.crashes > 0
            || self.suspicions > 0
            || self.leave && self.sites.iter().any(|site| site.standing == Standing::Up)
    }

    /// Returns whether anything can go wrong at all.
    pub(crate) fn is_on(&self) -> bool {
        !self.sites.is_empty()
    }

    fn site(&self, node: u16) -> Option<&Site> {
        self.sites.get(usize::from(node))
    }

    /// Returns whether a lost node is cut off before anybody learns of it.
    pub(crate) fn is_enforced(&self) -> bool {
        !self.allowed.unenforced
    }

    /// Returns the node's clock.
    pub(crate) fn clock(&self, node: u16) -> u64 {
        self.site(node).map_or(0, |site| site.clock)
    }

    /// Returns the nodes that `node` knows to be lost, itself included once it has been cut off.
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

    /// Returns the node to blame if a call of `node` towards `peers` fails: the node itself when it is cut
    /// off, else the first of the peers that it knows to be lost.
    pub(crate) fn refusal(&self, node: u16, peers: NodeSet) -> Option<u16> {
        let site = self.site(node)?;
        match site.standing {
            Standing::Excluded => Some(node),
            _ => site.knows.common(peers).first(),
        }
    }

    /// Returns whether the outcome of a call of `node` towards `peer` may still change by a loss.
    pub(crate) fn may_refuse(&self, node: u16, peer: u16) -> bool {
        if !self.is_lossy() || self.refusal(node, NodeSet::of([peer])).is_some() {
            return false;
        }
        let may_go = self.crashes > 0 || self.leave;
        self.suspicions > 0
            || peer != node && (may_go || self.sites[usize::from(peer)].standing != Standing::Up)
    }

    /// Returns whether the node may still stop.
    fn may_stop(&self, node: u16) -> bool {
        self.crashes > 0 && self.is_up(node) || self.may_leave(node)
    }

    fn is_up(&self, node: u16) -> bool {
        self.site(node).is_some_and(|site| site.standing == Standing::Up)
    }

    /// Returns whether the node's program may end and the others go on without it.
    fn may_leave(&self, node: u16) -> bool {
        self.leave && self.is_up(node)
    }

    /// Returns whether nodes may still be lost, or become known to be.
    pub(crate) fn is_settling(&self) -> bool {
        self.may_lose()
            || self.learns().next().is_some()
            || self.sites.iter().any(|site| site.standing == Standing::Stopped)
    }

    /// Takes the failed operations of the node that nobody has polled.
    pub(crate) fn take_failed(&mut self, node: u16) -> SmallVec<[(u64, u16); 2]> {
        let site = self.sites.get_mut(usize::from(node));
        site.map(|site| std::mem::take(&mut site.failed))
            .unwrap_or_default()
    }

    /// Returns whether the node has failed operations that nobody has polled.
    pub(crate) fn has_failed(&self, node: u16) -> bool {
        self.site(node).is_some_and(|site| !site.failed.is_empty())
    }

    /// Lists the losses that nodes can learn of now.
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
        self.links.encode(out);
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
    /// Returns whether an execution may end without this move, however long one waits. Other moves must
    /// happen sooner or later.
    pub(crate) fn is_optional(self, state: &State) -> bool {
        match self {
            Move::Fault(Fault::Crash(_) | Fault::Suspect(_) | Fault::Cut { .. }) => true,
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
    /// Returns the deadline of the wait in which the thread is parked.
    fn deadline(&self, thread: u16) -> Option<u64> {
        let thread = &self.threads[usize::from(thread)];
        let wait = thread.wait.as_ref().filter(|_| thread.status == Status::Parked);
        wait.and_then(|wait| wait.deadline)
    }

    /// Appends the faults that can happen now. `idle` says that no thread and no part of the machine can
    /// move.
    pub(crate) fn faults(&self, common: &Common, idle: bool, out: &mut Vec<Move>) {
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
        losses
            .links
            .cut()
            .for_each(|(node, peer)| add(Fault::Heal { node, peer }));
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
            // These moves let time pass without being counted, so counted expiries would add nothing.
            if out.len() > begin {
                self.losable(common, out);
                return;
            }
        }
        self.links_to_cut(|node, peer| out.push(Move::Fault(Fault::Cut { node, peer })));
        if losses.expiries > 0 {
            for (thread, node, deadline) in parked {
                if deadline > losses.clock(node) {
                    out.push(Move::Fault(Fault::Expire(thread)));
                }
            }
        }
        self.losable(common, out);
    }

    /// Returns whether the thread's node may still stop, before or after the thread's next move.
    pub(crate) fn may_stop(&self, thread: u16) -> bool {
        self.losses.may_stop(self.info(thread).node)
    }

    /// Returns whether another thread of the thread's node may end the node's program.
    pub(crate) fn may_leave_others(&self, thread: u16) -> bool {
        let node = self.info(thread).node;
        let mut others = (0..self.threads.len() as u16).filter(|&other| other != thread);
        self.losses.may_leave(node) && others.any(|other| self.node_of(other) == node)
    }

    /// Returns whether no node can be lost any more once the thread has ended, and some still can until then.
    pub(crate) fn ends_faults(&self, thread: u16) -> bool {
        self.losses.may_lose() && self.busy().eq([thread])
    }

    /// Returns the threads whose end an execution waits for, of nodes that are up.
    fn busy(&self) -> impl Iterator<Item = u16> + '_ {
        let threads = (0u16..).zip(&self.threads);
        let busy = threads.filter(|(t, thread)| {
            let info = self.info(*t);
            let up = self.losses.is_up(info.node);
            info.kind == ModelThreadKind::Worker && up && thread.status != Status::Done
        });
        busy.map(|(t, _)| t)
    }

    /// Appends the nodes that can be lost, as long as something is still to be done.
    fn losable(&self, common: &Common, out: &mut Vec<Move>) {
        let losses = &self.losses;
        let exhausted = losses.crashes == 0 && losses.suspicions == 0;
        if exhausted || self.busy().next().is_none() {
            return;
        }
        let up = |&node: &u16| losses.sites[usize::from(node)].standing == Standing::Up;
        for node in (0..losses.sites.len() as u16).filter(up) {
            if losses.crashes > 0 {
                out.push(Move::Fault(Fault::Crash(node)));
            }
            let busy = || self.holds_unit(node) || self.stores_afar(common, node);
            if losses.suspicions > 0 && (losses.allowed.unenforced || !busy()) {
                out.push(Move::Fault(Fault::Suspect(node)));
            }
        }
    }

    /// Returns the node to blame if a post of the thread towards `peer` fails.
    pub(crate) fn post_refusal(&self, thread: u16, peer: u16) -> Option<u16> {
        self.losses.refusal(self.info(thread).node, NodeSet::of([peer]))
    }

    /// Returns whether another node is carrying out a read-modify-write of this node. The other node's card
    /// finishes it in any case.
    fn holds_unit(&self, node: u16) -> bool {
        self.queue_pairs_of(node)
            .any(|(thread, peer)| peer != node && self.machine.holds_unit(QpId { thread, peer }))
    }

    /// Returns whether a store of the node to another node's memory is still in a store buffer, as on a synchronous fabric. The
    /// gate of `loco-shm` waits for it: it keeps a node from being shut out in the middle of an operation.
    fn stores_afar(&self, common: &Common, node: u16) -> bool {
        let threads = (0..self.threads.len() as u16).filter(|&t| self.info(t).node == node);
        let mut words = threads.flat_map(|t| self.machine.buffered(t));
        words.any(|word| {
            let owner = common.words.name(word.0).map(|name| VirtualWord(name).owner());
            owner.is_some_and(|owner| self.info(owner).node != node)
        })
    }

    /// Carries a fault out. Returns false if it cannot happen now.
    pub(crate) fn fail(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Expire(thread) | Fault::Idle(thread) => {
                let Some(deadline) = self.deadline(thread) else {
                    return false;
                };
                let node = usize::from(self.info(thread).node);
                let passes = deadline.saturating_sub(self.losses.sites[node].clock);
                if matches!(fault, Fault::Idle(_)) {
                    // Nothing else happens, so the same time passes on every node.
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
                if let Some(wait) = self.threads[usize::from(thread)].wait_mut() {
                    wait.expired = true;
                }
            }
            Fault::Crash(node) => {
                self.losses.crashes = self.losses.crashes.saturating_sub(1);
                self.stop(node);
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
            Fault::Cut { node, peer } => return self.losses.links.fail(node, peer),
            Fault::Heal { node, peer } => return self.losses.links.heal(node, peer),
        }
        true
    }

    /// Stops a node for good, with its threads and what their store buffers hold.
    pub(crate) fn stop(&mut self, node: u16) {
        if let Some(site) = self.losses.sites.get_mut(usize::from(node)) {
            site.standing = Standing::Stopped;
        }
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

    /// Discards the operations that the node has under way towards others.
    fn cut_off(&mut self, node: u16) {
        let pairs: SmallVec<[(u16, u16); 8]> = self.queue_pairs_of(node).collect();
        for (thread, peer) in pairs {
            if peer != node {
                self.machine.cut(QpId { thread, peer }, &mut Vec::new());
            }
        }
    }
}
