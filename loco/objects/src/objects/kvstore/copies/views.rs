//! Views: the participants that are gone, as each node sees it, and the moment at which all have seen it.
//!
//! A node takes a loss into its view when its fabric reports it. From then on no call of it begins that writes, until every
//! node that is left has *turned* to that view; and once the calls that began in an earlier view are over, it announces that it has
//! turned. A call writes only between [`enter`](Views::enter) and the end of its [`Entered`].
//!
//! So at any time all calls that write, on all nodes, are in one view: a call that has entered a view knows that everybody
//! else has turned to it, and who has turned has no call of an earlier view left. A lock that has moved is therefore
//! not held at its former home any more, by anybody, and a copy that is read after a loss is written by nobody who knows only the
//! copy before it. A lookup takes part by [`settled`](Views::settled) only if it needs something that has moved. One that
//! reads the memory of a lost node began before its node turned, so it overlaps with everything that others do after that.
//!
//! Views only grow. Two losses may be taken in in either order: who has turned to a view has turned to every smaller one.
//!
//! Relies on a word of each node at every other ([`REGION`]), by which it announces the view that it has turned to, and on the store's
//! monitor, which [turns](Views::turn) without waiting for calls of others, so that nobody waits for it in a circle. A node whose monitor has
//! failed for good turns no more: others that need it are refused.

use loco_fabric::{AtomicCell, Control, Fabric, Memory, NodeId, PeerState, Peers};
use smallvec::SmallVec;

use crate::error::have;
use crate::operations::peers::is_gone;
use crate::operations::platform::AtomicU64Of;
use crate::{Channel, Error, Parent, Region, Result, Thread};

use super::super::slot::WORD_BYTES;
use super::super::tracker::{FAILED, refused_by};
use super::words::Words;

/// The name of the region of the views that nodes have turned to: a word of each, by position.
pub(in super::super) const REGION: &str = "turned";

/// The most participants of a store with copies: a view is one word, so that it is announced as a whole.
pub(super) const VIEW_NODES_MAX: usize = u64::BITS as usize;

/// Names what the nodes that are behind have not done, in the text of a timeout.
const NOT_TURNED: &str = "not turned away from lost nodes yet";

/// Some of the participants.
pub(super) type Nodes = SmallVec<[NodeId; 8]>;

/// The participants that are gone, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct View(u64);

impl View {
    /// Returns true if the participant at `position` is gone.
    pub(super) fn has(self, position: usize) -> bool {
        self.0 & 1 << position != 0
    }

    /// Returns the view in which the participant at `position` is gone, too.
    pub(super) fn with(self, position: usize) -> View {
        View(self.0 | 1 << position)
    }

    /// Returns true if everybody who is gone in `other` is gone in this view.
    fn covers(self, other: View) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the word that announces this view.
    pub(super) fn word(self) -> u64 {
        self.0
    }
}

/// This node's view, and what it knows of those of others.
pub(in super::super) struct Views<F: Fabric> {
    nodes: Box<[NodeId]>,
    here: usize,
    view: AtomicU64Of<F>,
    /// The number of calls that have entered and are not over.
    active: AtomicU64Of<F>,
    /// The view that this node has announced to all who are left. Only the monitor touches it.
    announced: AtomicU64Of<F>,
    /// The views that the nodes have turned to.
    turned: Words<F>,
    /// The nodes' acknowledgements, which tell of monitors that have failed.
    acks: Region<F>,
    /// The name of the store.
    store: Box<str>,
}

/// A call that may write. It is over when this is dropped.
pub(super) struct Entered<'a, F: Fabric> {
    views: &'a Views<F>,
    pub(super) view: View,
}

impl<F: Fabric> Views<F> {
    /// Makes this node's part of the views of the store in `channel`.
    pub(super) fn new(channel: &Channel<F>) -> Result<Views<F>> {
        let nodes: Box<[NodeId]> = channel.participants().nodes().into();
        let here = nodes.iter().position(|&node| node == channel.node());
        // Not reached: only a participant joins.
        let here = here.ok_or(Error::Closed)?;
        Ok(Views {
            here,
            nodes,
            turned: Words::new(channel, REGION, here)?,
            acks: channel.published("acks")?.clone(),
            store: channel.name().into(),
            view: AtomicCell::new(0),
            active: AtomicCell::new(0),
            announced: AtomicCell::new(0),
        })
    }

    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns the position of this node.
    pub(super) fn here(&self) -> usize {
        self.here
    }

    /// Returns the position of a participant.
    pub(super) fn position(&self, node: NodeId) -> usize {
        // A location names a participant, because the messages of one store stay in it.
        node.position_in(&self.nodes).unwrap_or(0)
    }

    /// Returns the position of the lost participant that an error names.
    pub(super) fn lost_in(&self, error: &Error) -> Option<usize> {
        error.lost_peer()?.position_in(&self.nodes).ok()
    }

    /// Returns this node's view.
    pub(super) fn view(&self) -> View {
        View(self.view.load())
    }

    /// Begins a call that writes: waits until everybody has turned to this node's view, in which everybody is gone who is in
    /// `least`.
    ///
    /// # Errors
    /// Returns `Timeout` while some node has not turned, and `Refused` if it never will.
    pub(super) fn enter(&self, thread: &Thread<F>, least: View) -> Result<Entered<'_, F>> {
        loop {
            let view = self.settled(thread, least)?;
            // A full fence, as is the monitor's change of the view: it sees this call, or the call sees the change.
            self.active.fetch_add(1);
            let entered = Entered { views: self, view };
            if self.view() == view {
                return Ok(entered);
            }
        }
    }

    /// Waits until everybody has turned to this node's view, in which everybody is gone who is in `least`. Returns the view.
    ///
    /// # Errors
    /// Returns `Timeout` while some node has not turned, and `Refused` if it never will.
    pub(super) fn settled(&self, thread: &Thread<F>, least: View) -> Result<View> {
        loop {
            let view = self.view();
            // Nobody turns to the first view.
            if view == View::default() && view == least || self.is_settled(view, least)? {
                return Ok(view);
            }
            self.wait(thread, view, least)?;
        }
    }

    /// Returns true if `view` has everybody who is gone in `least`, and all who are left in it have turned to it.
    pub(super) fn is_settled(&self, view: View, least: View) -> Result<bool> {
        Ok(view.covers(least) && self.all_have_turned(view)?)
    }

    /// Returns true if all who are left in `view` have turned to it.
    fn all_have_turned(&self, view: View) -> Result<bool> {
        self.is_nobody_behind(&self.behind(view)?)
    }

    /// Returns true if nobody is `behind`.
    ///
    /// # Errors
    /// Returns `Refused` if one of them does not come after, since its monitor has failed for good.
    fn is_nobody_behind(&self, behind: &[NodeId]) -> Result<bool> {
        let acks = self.acks.local()?;
        for &node in behind {
            if acks.load_word(self.position(node) * WORD_BYTES)? == FAILED {
                return Err(refused_by(&self.store, node));
            }
        }
        Ok(behind.is_empty())
    }

    /// Returns the participants that are left in `view` and have not turned to it.
    pub(super) fn behind(&self, view: View) -> Result<Nodes> {
        self.behind_in(&self.turned, view)
    }

    /// Returns the participants that are left in `view`, and whose word among `words` is of an earlier one.
    fn behind_in(&self, words: &Words<F>, view: View) -> Result<Nodes> {
        let mut behind = Nodes::new();
        for (position, &node) in self.nodes.iter().enumerate().filter(|left| !view.has(left.0)) {
            if !View(words.of(position)?).covers(view) {
                behind.push(node);
            }
        }
        Ok(behind)
    }

    /// Waits until this node's view has everybody whom its fabric has reported as lost, and the words of all who are left are of that view
    /// or of a later one. Returns the view.
    ///
    /// # Errors
    /// Returns `Timeout`, which names who is `late` and with what, and `Refused` if somebody will always be.
    pub(super) fn all_are_at(&self, thread: &Thread<F>, words: &Words<F>, late: &str) -> Result<View> {
        loop {
            let others = self.others(thread);
            let at = || -> Result<Option<View>> {
                let view = self.view();
                // Of this very view: the monitor may take a loss into the next one meanwhile.
                let mut left = self.left_in(view);
                let is_complete = !left.any(|node| is_gone(thread.fabric(), node));
                let all = || self.is_nobody_behind(&self.behind_in(words, view)?);
                Ok((is_complete && (view == View::default() || all()?)).then_some(view))
            };
            let waited = thread.wait_for(true, &self.store, Peers::These(&others), || at().transpose());
            match waited {
                // This node's monitor takes it into the view.
                Err(error) if is_of_a_loss(thread, &error) => {}
                Err(error) if error.is_timeout() => {
                    let behind = self.behind_in(words, self.view())?;
                    return Err(error.because(&behind, format!("{} {late}", have(&behind))));
                }
                waited => return waited?,
            }
        }
    }

    /// Waits until all who are left have turned away from everybody whom this node's fabric has reported as lost.
    ///
    /// # Errors
    /// Returns the errors of [`all_are_at`](Views::all_are_at).
    pub(super) fn all_have_turned_away(&self, thread: &Thread<F>) -> Result<View> {
        self.all_are_at(thread, &self.turned, NOT_TURNED)
    }

    /// Returns true if a node that is gone in `view`, and was not in `before`, is lost and has not left with a goodbye.
    pub(super) fn has_lost_since(&self, fabric: &F, view: View, before: View) -> bool {
        let nodes = self.nodes.iter().enumerate();
        let mut gone = nodes.filter(|&(position, _)| view.has(position) && !before.has(position));
        gone.any(|(_, &node)| fabric.control().peer_state(node) != PeerState::Left)
    }

    /// Returns the other nodes that are not gone.
    fn others(&self, thread: &Thread<F>) -> Nodes {
        let others = self.nodes.iter().copied();
        others
            .filter(|&node| node != self.nodes[self.here] && !is_gone(thread.fabric(), node))
            .collect()
    }

    /// Waits until [`settled`](Views::settled) may find something else.
    #[cold]
    fn wait(&self, thread: &Thread<F>, view: View, least: View) -> Result<()> {
        let others = self.others(thread);
        let changed = || match self.view() == view {
            true => match self.is_settled(view, least) {
                Ok(false) => None,
                settled => Some(settled.map(drop)),
            },
            false => Some(Ok(())),
        };
        match thread.wait_for(true, &self.store, Peers::These(&others), changed) {
            // This node's monitor takes it into the view.
            Err(error) if is_of_a_loss(thread, &error) => Ok(()),
            Err(error) if error.is_timeout() => {
                let behind = self.behind(view)?;
                let what = format!("{} {NOT_TURNED}", have(&behind));
                Err(error.because(&behind, what))
            }
            waited => waited?,
        }
    }

    /// Returns the peers whose loss this node has not taken into its view.
    pub(in super::super) fn peers(&self) -> Nodes {
        self.left_in(self.view()).collect()
    }

    /// Returns the peers that are left in `view`.
    fn left_in(&self, view: View) -> impl Iterator<Item = NodeId> {
        let peers = self.nodes.iter().enumerate();
        let peers = peers.filter(move |&(position, _)| position != self.here && !view.has(position));
        peers.map(|(_, &node)| node)
    }

    /// Returns true if it is time for this node to announce its view.
    pub(in super::super) fn may_announce(&self) -> bool {
        self.announced.load() != self.view.load() && self.active.load() == 0
    }

    /// Takes the losses that this node has heard of into its view, and announces the view if the calls of earlier ones are over. Called
    /// by the monitor alone. Waits for no call of another node: at most for room in the queue towards one that lives, as every post does.
    ///
    /// # Errors
    /// Returns the first error of posting the announcement to a node that lives. It was posted to the others. Call again.
    pub(in super::super) fn turn(&self, thread: &Thread<F>) -> Result<()> {
        let mut view = self.view();
        for node in self.peers() {
            if is_gone(thread.fabric(), node) {
                view = view.with(self.position(node));
            }
        }
        if view != self.view() {
            // A full fence: see `enter`.
            self.view.swap(view.0);
            thread.ring();
        }
        if !self.may_announce() {
            return Ok(());
        }
        self.turned
            .announce(thread, view.word(), |node| view.has(self.position(node)))?;
        self.announced.store(view.0);
        Ok(())
    }
}

/// Returns true if the error is that of a wait which a loss has ended.
fn is_of_a_loss<F: Fabric>(thread: &Thread<F>, error: &Error) -> bool {
    error
        .lost_peer()
        .is_some_and(|node| is_gone(thread.fabric(), node))
}

impl<F: Fabric> Drop for Entered<'_, F> {
    fn drop(&mut self) {
        self.views.active.fetch_add(u64::MAX);
    }
}
