//! A node's view of the others: the present and departed nodes, the data that each sent at set-up, and the waiting
//! loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

use crate::backoff::last_look::{LastLook, last_look};
use crate::backoff::{Backoff, Patience};
#[cfg(feature = "fibers")]
use crate::fiber::{self, Resume};
use crate::interrupt;
use loco_fabric::{Armed, Control, Doorbell, FabricError, NodeId, Peers, Platform, Result, Std, Time, Wait};
use loco_job::{Mesh, Revoke};
use loco_trace::timeline::{self, Span};
use loco_trace::waits::{self, SHOWN_AFTER, Stage, Waiting};

/// The longest sleep of a waiting thread by the doorbell. It bounds the cost of a long wait, and the delay if the
/// process that should have woken the thread was killed in between.
const SLEEP_BY_BELL_MAX: Duration = Duration::from_millis(20);

/// The label of the exchange of cards.
const LABEL: &str = "fabric";

/// Stands for the version of a node that has no fabric and gives its reason for the name.
const FAILED: u32 = u32::MAX;

/// A node's view of the job.
#[derive(Debug)]
pub struct Membership {
    /// The control plane.
    pub mesh: Mesh,
    /// Clock and threads.
    pub platform: Std,
    patience: Patience,
}

impl Membership {
    /// Returns the view of the node that has `mesh`.
    pub fn new(mesh: Mesh) -> Membership {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Membership {
            platform: Std,
            patience: Patience::new(mesh.nodes().len() > cores),
            mesh,
        }
    }

    /// Returns this view with waits that spin for at most `spins` rounds.
    #[must_use]
    pub fn spinning_at_most(self, spins: u32) -> Membership {
        Membership {
            patience: self.patience.at_most(spins),
            ..self
        }
    }

    /// Returns true if there are more nodes than this host has cores.
    pub fn is_crowded(&self) -> bool {
        self.patience.is_crowded()
    }

    /// Gives `card` to every node, and returns the cards of all nodes in the order of the mesh's nodes. This
    /// is a collective call. `fabric` names the fabric; `version` changes when the type of card or its
    /// meaning does.
    ///
    /// All fabrics exchange their cards in the same rounds. Nodes that bring up different fabrics therefore get the error at once
    /// and do not wait for one another.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] for nodes of another fabric or version, which it names on every node;
    /// [`FabricError::PeerLost`] and [`FabricError::Timeout`].
    pub fn exchange<C: Serialize + DeserializeOwned>(
        &self,
        fabric: &str,
        version: u32,
        card: &C,
        timeout: Duration,
    ) -> Result<Vec<C>> {
        // Name and version come first, so that they can be read whatever follows.
        let bytes = postcard::to_stdvec(&(fabric, version, card))
            .map_err(|error| FabricError::Config(error.to_string()))?;
        let deadline = self.platform.now().after(timeout);
        let answers = self.mesh.allgather(LABEL, &bytes, deadline)?;
        let mut cards = Vec::with_capacity(answers.len());
        let mut failed = Vec::new();
        let mut nodes_of: BTreeMap<(&str, u32), Vec<NodeId>> = BTreeMap::new();
        for (node, bytes) in &answers {
            let ((name, version), card) = postcard::take_from_bytes::<(&str, u32)>(bytes)
                .map_err(|error| FabricError::Config(format!("bring-up data of {node}: {error}")))?;
            match version {
                FAILED => failed.push((*node, name)),
                _ => nodes_of.entry((name, version)).or_default().push(*node),
            }
            cards.push((*node, card));
        }
        if nodes_of.len() > 1 || !failed.is_empty() {
            // All come to this outcome, once they have heard all. A node that left before would be one that is lost.
            let _ = self.mesh.allgather(LABEL, &[], deadline);
            return Err(if failed.is_empty() {
                differ(&nodes_of)
            } else {
                unusable(&failed)
            });
        }
        let read = |(node, card)| {
            postcard::from_bytes(card)
                .map_err(|error| FabricError::Config(format!("bring-up data of {node}: {error}")))
        };
        cards.into_iter().map(read).collect()
    }

    /// Runs `bring_up`, which brings a fabric up, and returns its outcome. If it fails before it
    /// [exchanges](Membership::exchange) cards, this node sends the others the reason in place of its card. They then
    /// fail with that reason and the name of this node, instead of with its loss. In this case the call returns when
    /// all nodes have come to the exchange, or after `timeout`.
    ///
    /// # Errors
    /// Returns the errors of `bring_up`.
    pub fn bring_up_or_report<T>(
        mesh: &Mesh,
        timeout: Duration,
        bring_up: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let before = mesh.gathers_begun(LABEL);
        bring_up().inspect_err(|error| {
            if mesh.gathers_begun(LABEL) != before {
                return;
            }
            let Ok(bytes) = postcard::to_stdvec(&(error.to_string(), FAILED)) else {
                return;
            };
            let deadline = Std.now().after(timeout);
            // Nothing more can be done for a node that does not hear of it.
            let sent = mesh.allgather(LABEL, &bytes, deadline);
            if sent.is_ok() {
                let _ = mesh.allgather(LABEL, &[], deadline);
            }
        })
    }

    /// Returns the card of `node`. The `cards` are in the order of the mesh's nodes.
    ///
    /// # Errors
    /// Returns [`FabricError::UnknownPeer`] for a node that is not of the job.
    pub fn card<'a, C>(&self, cards: &'a [C], node: NodeId) -> Result<&'a C> {
        let index = node.position_in(self.mesh.nodes())?;
        cards.get(index).ok_or(FabricError::UnknownPeer(node))
    }

    /// Registers `revoker`, which shuts lost nodes out of this node's memory. This is a collective call: it returns when
    /// every node of the job has registered its revoker. Only then may a node write to others. `label` names the call
    /// of the fabric.
    ///
    /// # Errors
    /// Returns [`FabricError::PeerLost`] and [`FabricError::Timeout`] when a node does not take part.
    pub fn enforce_losses(&self, label: &str, revoker: Arc<dyn Revoke>, timeout: Duration) -> Result<()> {
        self.mesh.add_revoker(revoker);
        self.mesh
            .allgather(label, &[], self.platform.now().after(timeout))
            .map(drop)
    }

    fn gone_among(&self, peers: Peers<'_>) -> Option<NodeId> {
        let peers = peers.among(self.mesh.nodes());
        peers.iter().copied().find(|&peer| self.mesh.is_gone(peer))
    }

    /// Returns the pauses for a wait that cannot use [`wait`](Membership::wait).
    pub fn backoff(&self) -> Backoff<'_> {
        self.patience.backoff()
    }

    /// Implements [`Fabric::wait`](loco_fabric::Fabric::wait), whose errors it returns. So do the other forms below.
    #[inline]
    pub fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.wait_or(wait, None, Bell::Silent, ready)
    }

    /// Waits as [`wait`](Membership::wait) does, for a change for which the node's doorbell rings. Implements
    /// [`Fabric::wait_for_arrival`](loco_fabric::Fabric::wait_for_arrival) where the doorbell rings for arrivals, and
    /// [`Fabric::wait_for_completion`](loco_fabric::Fabric::wait_for_completion) where it rings for completions. When
    /// the wait has lasted some time, a thread sleeps by `bell`, if one is given. In a fiber, the driver's thread may
    /// sleep by the node's doorbell, whether `bell` is given or not.
    #[inline]
    pub fn wait_by_bell<T>(
        &self,
        wait: Wait<'_>,
        bell: Option<&dyn Doorbell>,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.wait_or(wait, None, Bell::Rings(bell), ready)
    }

    /// Waits as [`wait_by_bell`](Membership::wait_by_bell) does, for `within` at most. Implements
    /// [`Fabric::wait_for_arrival_within`](loco_fabric::Fabric::wait_for_arrival_within).
    #[inline]
    pub fn wait_by_bell_within<T>(
        &self,
        wait: Wait<'_>,
        bell: Option<&dyn Doorbell>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let wait = Wait {
            deadline: None,
            ..wait
        };
        self.wait_or(wait, Some(within), Bell::Rings(bell), ready)
    }

    /// Implements [`Fabric::wait_within`](loco_fabric::Fabric::wait_within).
    #[inline]
    pub fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.wait_or(
            Wait {
                deadline: None,
                ..wait
            },
            Some(within),
            Bell::Silent,
            ready,
        )
    }

    /// Waits until `wait.deadline`, or for `within` if that is given, as [`wait`](Membership::wait) does, but sleeps by `bell`
    /// as soon as it has spun: for fabrics on which whoever sleeps by the doorbell takes in what arrives meanwhile. `rings`
    /// says that the doorbell rings after every awaited change. Elsewhere the sleeps are short at first.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Membership::wait).
    #[inline]
    pub fn wait_asleep<T>(
        &self,
        wait: Wait<'_>,
        within: Option<Duration>,
        bell: &dyn Doorbell,
        rings: bool,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let wait = Wait {
            deadline: wait.deadline.filter(|_| within.is_none()),
            ..wait
        };
        self.wait_or(wait, within, Bell::Serves { bell, rings }, ready)
    }

    /// Waits until `wait.deadline`, or for `within` if that is given.
    #[inline]
    fn wait_or<T>(
        &self,
        wait: Wait<'_>,
        within: Option<Duration>,
        bell: Bell<'_>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        if let Some(value) = ready() {
            return Ok(value);
        }
        let _shown = self.show(&wait);
        let mut course = Course::default();
        let mut backoff = self.patience.backoff();
        // Nodes that left before the wait count too, so the first comparison is with 0.
        let mut departures_seen = 0;
        let mut armed_before = None;
        loop {
            if let Err(error) = self.check_departures(wait.peers, &mut departures_seen) {
                return ready().ok_or(error);
            }
            let end = course.end(&wait, within);
            let next = match bell {
                Bell::Rings(Some(bell)) if backoff.is_long() && !in_fiber() => {
                    match last_look(bell, &mut ready, || self.mesh.departures(), departures_seen) {
                        LastLook::Ready(value) => return Ok(value),
                        LastLook::Departed => {}
                        LastLook::Nothing(armed) => {
                            self.sleep(&mut backoff, bell, armed, &mut armed_before, end);
                        }
                    }
                    Next::LookAtTheClockToo
                }
                Bell::Serves { bell, rings } if backoff.has_spun() && !in_fiber() => {
                    if end.is_none()
                        && let Some(error) = self.over(&wait, within, Next::LookAtTheClockToo, &mut course)
                    {
                        return ready().ok_or(error);
                    }
                    match last_look(bell, &mut ready, || self.mesh.departures(), departures_seen) {
                        LastLook::Ready(value) => {
                            succeeded(&backoff);
                            return Ok(value);
                        }
                        LastLook::Nothing(Some(armed)) => {
                            let end = course.end(&wait, within);
                            self.sleep_and_serve(&mut backoff, (bell, rings), armed, end);
                        }
                        LastLook::Departed | LastLook::Nothing(None) => {}
                    }
                    Next::LookAtTheClockToo
                }
                _ => pause(&mut backoff, end.filter(|_| bell.rings())),
            };
            if next != Next::Look
                && let Some(error) = self.over(&wait, within, next, &mut course)
            {
                return ready().ok_or(error);
            }
            if let Some(value) = ready() {
                succeeded(&backoff);
                return Ok(value);
            }
        }
    }

    /// Fails if a node has departed since `seen` and this node was declared lost, or one of `peers` is gone.
    #[inline]
    fn check_departures(&self, peers: Peers<'_>, seen: &mut u64) -> Result<()> {
        let departures = self.mesh.departures();
        if departures == *seen {
            return Ok(());
        }
        *seen = departures;
        self.mesh.check_in()?;
        self.gone_among(peers)
            .map_or(Ok(()), |peer| Err(FabricError::PeerLost(peer)))
    }

    /// Begins the wait in the timeline, if that is on. It leaves out the waits of fibers: a thread has many of them at a time.
    #[inline]
    fn show(&self, wait: &Wait<'_>) -> Span {
        if !timeline::is_on() || in_fiber() {
            return Span::default();
        }
        timeline::wait(self.mesh.node(), wait.what, wait.peers.among(self.mesh.nodes()))
    }

    /// Shows a wait that has lasted to those who look from outside.
    fn show_long(&self, wait: &Wait<'_>, (start, now, end): (Time, Time, Time), waiting: &mut Waiting) {
        if waiting.is_seen() {
            waiting.look();
        } else if now.since(start) >= SHOWN_AFTER {
            let (node, nodes) = (self.mesh.node(), wait.peers.among(self.mesh.nodes()));
            let left = (end != Time::NEVER).then(|| end.since(now));
            let times = (now.since(start), left);
            *waiting = waits::begin(node, Stage::Use, wait.what, nodes, times, in_fiber());
        }
    }

    /// Sleeps by the doorbell until it rings or the wait ends at `end`. If it rang before without helping, the thread
    /// only pauses: while many unrelated changes arrive, others would spend their time on waking it.
    #[cold]
    fn sleep(
        &self,
        backoff: &mut Backoff<'_>,
        bell: &dyn Doorbell,
        armed: Option<Armed>,
        armed_before: &mut Option<Armed>,
        end: Option<Time>,
    ) {
        match armed {
            None => {
                backoff.pause();
            }
            Some(_) if armed_before.is_some() && *armed_before != armed => {
                backoff.restart_sleeps();
                backoff.pause();
            }
            Some(announced) => {
                let left = end.map_or(SLEEP_BY_BELL_MAX, |end| end.since(self.platform.now()));
                bell.sleep(announced, left.min(SLEEP_BY_BELL_MAX));
            }
        }
        *armed_before = armed;
    }

    /// Sleeps by the doorbell, once, while whoever sleeps by it takes in what arrives. `rings` says that it rings after every awaited
    /// change; without that the sleeps are short at first.
    fn sleep_and_serve(
        &self,
        backoff: &mut Backoff<'_>,
        (bell, rings): (&dyn Doorbell, bool),
        armed: Armed,
        end: Option<Time>,
    ) {
        let limit = match rings {
            true => SLEEP_BY_BELL_MAX,
            false => backoff.next_sleep(),
        };
        let left = end.map_or(limit, |end| end.since(self.platform.now()));
        bell.sleep(armed, left.min(limit));
    }

    /// Looks at the clock. Returns the error if the wait has an end, and the end has come. Shows the wait to those who look from
    /// outside if it has lasted.
    #[cold]
    fn over(
        &self,
        wait: &Wait<'_>,
        within: Option<Duration>,
        next: Next,
        course: &mut Course,
    ) -> Option<FabricError> {
        let now = self.platform.now();
        let (start, end) = *course.start_and_end.get_or_insert_with(|| {
            let end = within.map_or(Time::NEVER, |within| now.after(within));
            (now, wait.deadline.unwrap_or(end))
        });
        self.show_long(wait, (start, now, end), &mut course.waiting);
        // Steps that others rely on are not given up in the middle: their deadline is never.
        let given_up = end != Time::NEVER && (next == Next::GiveUp || interrupt::look(now));
        (now >= end || given_up).then(|| FabricError::Timeout {
            what: wait.what.to_owned(),
            after: now.since(start),
        })
    }
}

/// The course of one wait.
#[derive(Default)]
struct Course {
    /// The start and the end of the wait, set at the first look at the clock. A look takes as long as a message, so a wait that is
    /// soon answered avoids it.
    start_and_end: Option<(Time, Time)>,
    /// What those see of the wait who look from outside.
    waiting: Waiting,
}

impl Course {
    /// Returns the end of the wait. The deadline of a wait with a duration is fixed at the first look at the clock. Until then the
    /// end is `None`: a fiber without an end is resumed by polling, and so reaches that look.
    #[inline]
    fn end(&self, wait: &Wait<'_>, within: Option<Duration>) -> Option<Time> {
        match (self.start_and_end, wait.deadline, within) {
            (Some((_, end)), _, _) | (None, Some(end), _) => Some(end),
            (None, None, None) => Some(Time::NEVER),
            (None, None, Some(_)) => None,
        }
    }
}

/// Returns the error of a job of which some nodes have no fabric.
fn unusable(failed: &[(NodeId, &str)]) -> FabricError {
    let one = |(node, reason): &(NodeId, &str)| format!("{node} has no fabric: {reason}");
    let list: Vec<_> = failed.iter().map(one).collect();
    FabricError::Config(format!(
        "{}; set a LOCO_FABRIC that every node can use (`loco run --fabric`)",
        list.join("; ")
    ))
}

/// Returns the error of nodes that bring up different fabrics, or different versions of one.
fn differ(nodes_of: &BTreeMap<(&str, u32), Vec<NodeId>>) -> FabricError {
    let versions = nodes_of.keys().any(|(name, version)| {
        nodes_of
            .keys()
            .any(|(other, its)| name == other && version != its)
    });
    let one = |(&(name, version), nodes): (&(&str, u32), &Vec<NodeId>)| {
        let nodes = NodeId::list(nodes.iter().copied());
        match versions {
            true => format!("{name} of version {version} on {nodes}"),
            false => format!("{name} on {nodes}"),
        }
    };
    let list: Vec<_> = nodes_of.iter().map(one).collect();
    let remedy = match versions {
        true => "build all nodes from the same sources",
        false => "set the same LOCO_FABRIC on all nodes (`loco run --fabric`)",
    };
    FabricError::Config(format!(
        "the nodes bring up different fabrics: {}; {remedy}",
        list.join(", ")
    ))
}

/// The use of the node's doorbell in a wait.
#[derive(Clone, Copy)]
enum Bell<'a> {
    /// The doorbell may not ring for the awaited change, so the wait must poll.
    Silent,
    /// The doorbell rings after every awaited change. If it is given, a thread may sleep until it rings.
    Rings(Option<&'a dyn Doorbell>),
    /// Whoever sleeps by the doorbell takes in what arrives, so a thread sleeps as soon as it has spun. `rings` says that it
    /// rings after every awaited change.
    Serves { bell: &'a dyn Doorbell, rings: bool },
}

impl Bell<'_> {
    /// Returns true if the doorbell rings after every awaited change.
    fn rings(self) -> bool {
        matches!(self, Bell::Rings(_) | Bell::Serves { rings: true, .. })
    }
}

/// The checks to make after a pause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Look,
    LookAtTheClockToo,
    /// Nobody wants the outcome any more: the wait ends as if its deadline had come.
    #[cfg_attr(not(feature = "fibers"), allow(dead_code))]
    GiveUp,
}

/// Returns true if a fiber waits, and not this thread.
#[inline]
fn in_fiber() -> bool {
    #[cfg(feature = "fibers")]
    return fiber::running();
    #[cfg(not(feature = "fibers"))]
    false
}

/// Lets time pass, for this thread or, in a fiber, for others that share its thread. The fiber need not be resumed
/// before the doorbell rings or the time `rung_or_at` has come, if that is given.
#[inline]
fn pause(backoff: &mut Backoff<'_>, rung_or_at: Option<Time>) -> Next {
    #[cfg(not(feature = "fibers"))]
    let _ = rung_or_at;
    #[cfg(feature = "fibers")]
    if fiber::running() {
        return match fiber::suspend(rung_or_at) {
            Resume::GoOn => Next::LookAtTheClockToo,
            Resume::GiveUp => Next::GiveUp,
        };
    }
    match backoff.pause() {
        true => Next::LookAtTheClockToo,
        false => Next::Look,
    }
}

/// Notes that a wait has ended with what it waited for.
#[inline]
fn succeeded(backoff: &Backoff<'_>) {
    #[cfg(feature = "fibers")]
    if fiber::running() {
        // A fiber's wait does not show how long threads should spin.
        return fiber::note_progress();
    }
    backoff.succeeded();
}
