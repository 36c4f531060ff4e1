//! The set-up service: tells the peers of endpoints that are made and dropped, answers joins and connects, runs
//! callbacks, keeps the quarantine.
//!
//! Only the service thread sends messages to the peers. It handles one frame, and then looks for endpoints that were
//! made or dropped in the meantime. The messages to one peer that result from both go in one frame. The more there is
//! to do, the more messages therefore share a frame. What others have acknowledged is noted after that, so that no endpoint is ready
//! before its node has answered.

use std::borrow::Cow;
use std::collections::BTreeMap;

use loco_fabric::{Control, Fabric, Lock, NodeId, PeerState, RegionKey};

use super::message::{Difference, Hello, Message};
use super::registry::{Endpoint, EndpointChange, OnPeer, Registry};
use super::state::Setup;
use crate::operations::region::Region;
use crate::{Error, Result};

/// The length from which on a frame is sent before the batch is complete.
const FRAME_BYTES: usize = 1 << 20;

/// Runs the service thread, until the network stops it or the control plane is closed.
pub(crate) fn serve<F: Fabric>(setup: &Setup<F>) {
    let mut outbox = Outbox {
        setup,
        frames: BTreeMap::new(),
        acknowledged: Vec::new(),
    };
    loop {
        match setup.fabric().control().receive(None) {
            Ok(Some((from, frame))) => read(setup, &mut outbox, from, &frame),
            // There is no deadline, so the control plane is closed. It brings nothing any more, and takes nothing.
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "the control plane is broken: set-up ends");
                return;
            }
        }
        if setup.network().stopped() {
            return;
        }
        send_changes(setup, &mut outbox);
        outbox.flush();
        let free = setup.registry().lock().sweep(setup.fabric().control());
        drop(free);
        setup.report_change();
    }
}

/// Enters a new endpoint. The service tells the other participants.
pub(crate) fn enter<F: Fabric>(setup: &Setup<F>, channel: &str, endpoint: Endpoint<F>) -> Result<()> {
    let here = setup.fabric().node();
    let wake = setup.registry().lock().enter(channel, endpoint, here)?;
    if wake {
        wake_service(setup);
    }
    setup.report_change();
    Ok(())
}

/// Takes an endpoint out of service and puts its memory into quarantine. `drained` says that none of this
/// node's operations is outstanding. The service tells the other participants.
pub(crate) fn retire<F: Fabric>(setup: &Setup<F>, channel: &str, drained: bool) {
    if !drained {
        tracing::warn!(
            channel,
            "operations did not drain: memory of its peers stays in quarantine"
        );
    }
    let retired = setup
        .registry()
        .lock()
        .retire(channel, drained, setup.fabric().control());
    let Some((endpoint, wake)) = retired else {
        return;
    };
    if wake {
        wake_service(setup);
    }
    // Callbacks may own sub-channels, whose end takes the lock again.
    drop(endpoint);
    setup.report_change();
}

/// Makes the service look for changes: an empty frame to this node itself.
fn wake_service<F: Fabric>(setup: &Setup<F>) {
    let control = setup.fabric().control();
    if let Err(error) = control.send(setup.fabric().node(), &[]) {
        tracing::debug!(%error, "the set-up service was not woken");
    }
}

/// The frames that the service puts together.
struct Outbox<'a, F: Fabric> {
    setup: &'a Setup<F>,
    frames: BTreeMap<NodeId, Vec<u8>>,
    /// The endpoints that have been acknowledged, with the peer. It is noted when the frames have been sent: an endpoint that is then
    /// ready may be all that its node waits for, and a node that ends sends no more answers.
    acknowledged: Vec<(String, u64, NodeId)>,
}

impl<F: Fabric> Outbox<'_, F> {
    /// Adds a message to the frame for `to`.
    fn push(&mut self, to: NodeId, message: &Message<'_>) {
        // Encoding into a growing buffer fails for no value of these types.
        match postcard::to_stdvec(message) {
            Ok(message) => self.push_encoded(to, &message),
            Err(error) => tracing::error!(%to, %error, "a set-up message cannot be encoded"),
        }
    }

    fn push_encoded(&mut self, to: NodeId, message: &[u8]) {
        let frame = self.frames.entry(to).or_default();
        frame.extend_from_slice(message);
        if frame.len() >= FRAME_BYTES {
            send(self.setup, to, frame);
            frame.clear();
        }
    }

    /// Sends at once a message that says why the counterpart's endpoint cannot become ready. The caller sends it before
    /// the endpoint here fails, because a thread that sees the failure may end the node.
    fn send_now(&mut self, to: NodeId, message: &Message<'_>) {
        self.push(to, message);
        self.flush();
    }

    fn flush(&mut self) {
        for (to, frame) in std::mem::take(&mut self.frames) {
            if !frame.is_empty() {
                send(self.setup, to, &frame);
            }
        }
        if !self.acknowledged.is_empty() {
            let mut registry = self.setup.registry().lock();
            for (channel, incarnation, from) in self.acknowledged.drain(..) {
                registry.acknowledged(&channel, incarnation, from);
            }
        }
    }
}

/// Sends a frame. If the peer is gone, the thread that waits for it finds out.
fn send<F: Fabric>(setup: &Setup<F>, to: NodeId, frame: &[u8]) {
    let control = setup.fabric().control();
    if control.peer_state(to) != PeerState::Alive {
        return;
    }
    if let Err(error) = control.send(to, frame) {
        tracing::debug!(%to, %error, "set-up messages not sent");
    }
}

/// Tells the peers of endpoints that were made and dropped.
fn send_changes<F: Fabric>(setup: &Setup<F>, outbox: &mut Outbox<'_, F>) {
    let changes = setup.registry().lock().drain_changes();
    for change in changes {
        match change {
            EndpointChange::Made { channel, incarnation } => {
                let registry = setup.registry().lock();
                let Some(endpoint) = registry.endpoint(&channel, incarnation) else {
                    continue;
                };
                let join = postcard::to_stdvec(&Message::Join(endpoint.hello(&channel, None)));
                // A peer whose join was answered has our hello from the answer.
                let peers: Vec<NodeId> = endpoint.unconnected().collect();
                drop(registry);
                match join {
                    Ok(join) => peers
                        .into_iter()
                        .for_each(|peer| outbox.push_encoded(peer, &join)),
                    Err(error) => tracing::error!(%channel, %error, "a join cannot be encoded"),
                }
            }
            EndpointChange::Gone {
                channel,
                incarnation,
                peers,
                acknowledged,
            } => {
                for (peer, incarnation) in acknowledged {
                    let channel = Cow::Borrowed(&*channel);
                    outbox.push(peer, &Message::LeaveAck { channel, incarnation });
                }
                for peer in peers {
                    let channel = Cow::Borrowed(&*channel);
                    outbox.push(peer, &Message::Leave { channel, incarnation });
                }
            }
        }
    }
}

/// Handles a frame.
fn read<F: Fabric>(setup: &Setup<F>, outbox: &mut Outbox<'_, F>, from: NodeId, mut frame: &[u8]) {
    while !frame.is_empty() {
        match postcard::take_from_bytes::<Message<'_>>(frame) {
            Ok((message, rest)) => {
                frame = rest;
                handle(setup, outbox, from, message);
            }
            Err(error) => {
                tracing::warn!(%from, %error, "unreadable set-up messages dropped");
                return;
            }
        }
    }
}

fn handle<F: Fabric>(setup: &Setup<F>, outbox: &mut Outbox<'_, F>, from: NodeId, message: Message<'_>) {
    match message {
        Message::Join(hello) => {
            if handshake(setup, outbox, from, &hello) {
                answer(setup, outbox, from, &hello);
            }
        }
        Message::Connect(hello) => {
            if handshake(setup, outbox, from, &hello) {
                if let Some(incarnation) = hello.answers {
                    let channel = hello.channel.clone().into_owned();
                    outbox.acknowledged.push((channel, incarnation, from));
                }
                let ack = Message::Ack {
                    channel: hello.channel,
                    incarnation: hello.incarnation,
                };
                outbox.push(from, &ack);
            }
        }
        Message::Ack { channel, incarnation } => {
            outbox
                .acknowledged
                .push((channel.into_owned(), incarnation, from));
        }
        Message::Mismatch {
            channel,
            incarnation,
            difference,
        } => {
            let error = difference.reversed().error(&channel, setup.fabric().node(), from);
            setup.registry().lock().fail(&channel, incarnation, error);
        }
        Message::Refused {
            channel,
            incarnation,
            reason,
        } => {
            let error = Error::Refused {
                channel: channel.clone().into_owned(),
                peer: from,
                reason,
            };
            setup.registry().lock().fail(&channel, incarnation, error);
        }
        Message::Leave { channel, incarnation } => leave(setup, outbox, from, channel, incarnation),
        Message::LeaveAck { incarnation, .. } => {
            let free = setup.registry().lock().released(incarnation, from);
            drop(free);
        }
    }
}

/// Answers a join to which our endpoint has connected.
fn answer<F: Fabric>(setup: &Setup<F>, outbox: &mut Outbox<'_, F>, from: NodeId, theirs: &Hello<'_>) {
    let mut registry = setup.registry().lock();
    if let Some(endpoint) = registry.current(&theirs.channel) {
        let ours = endpoint.hello(&theirs.channel, Some(theirs.incarnation));
        outbox.push(from, &Message::Connect(ours));
    }
}

/// Receives the introduction of a counterpart of one of our endpoints. Returns true if our endpoint is connected to
/// it. If that is impossible, the counterpart gets the reason.
fn handshake<F: Fabric>(
    setup: &Setup<F>,
    outbox: &mut Outbox<'_, F>,
    from: NodeId,
    theirs: &Hello<'_>,
) -> bool {
    let channel = &*theirs.channel;
    let here = setup.fabric().node();
    let checked = check_hello(&mut setup.registry().lock(), here, from, theirs);
    let connecting = match checked {
        Checked::Unknown => {
            tracing::debug!(%channel, %from, "join ignored: no such channel here (yet)");
            return false;
        }
        Checked::Differs(ours, difference) => {
            let error = difference.clone().error(channel, here, from);
            let mismatch = Message::Mismatch {
                channel: channel.into(),
                incarnation: theirs.incarnation,
                difference,
            };
            outbox.send_now(from, &mismatch);
            setup.registry().lock().fail(channel, ours, error);
            return false;
        }
        Checked::Known => return true,
        Checked::New(connecting) => connecting,
    };
    // The lock is not held here, because callbacks make channels of their own.
    let connected = (|| {
        connecting
            .on_join
            .as_ref()
            .map_or(Ok(()), |callback| callback(from))?;
        import(setup, from, theirs, &connecting.regions)?;
        connecting
            .on_connect
            .as_ref()
            .map_or(Ok(()), |callback| callback(from))
    })();
    match connected {
        Ok(()) => {
            let connected = |link: &mut super::Link| link.connected = Some(theirs.incarnation);
            let mut registry = setup.registry().lock();
            registry
                .update(channel, connecting.incarnation, from, connected)
                .is_some()
        }
        Err(error) => {
            tracing::warn!(%channel, %from, %error, "connecting failed");
            let refused = Message::Refused {
                channel: channel.into(),
                incarnation: theirs.incarnation,
                reason: error.to_string(),
            };
            outbox.send_now(from, &refused);
            setup
                .registry()
                .lock()
                .fail(channel, connecting.incarnation, error);
            false
        }
    }
}

enum Checked<F: Fabric> {
    /// There is no endpoint here, or none for this counterpart.
    Unknown,
    /// The endpoint of this incarnation does not fit.
    Differs(u64, Difference),
    /// The endpoint is connected already.
    Known,
    /// The endpoint is to be connected.
    New(Connecting<F>),
}

struct Connecting<F: Fabric> {
    incarnation: u64,
    regions: Vec<Region<F>>,
    /// The callback on joining, if it has not run for this peer.
    on_join: Option<OnPeer>,
    on_connect: Option<OnPeer>,
}

fn check_hello<F: Fabric>(
    registry: &mut Registry<F>,
    here: NodeId,
    from: NodeId,
    theirs: &Hello<'_>,
) -> Checked<F> {
    let Some(endpoint) = registry.current(&theirs.channel) else {
        return Checked::Unknown;
    };
    let incarnation = endpoint.incarnation;
    if theirs.answers.is_some_and(|asked| asked != incarnation) {
        return Checked::Unknown;
    }
    if let Some(difference) = Difference::between(here, &endpoint.spec, from, &theirs.spec) {
        return Checked::Differs(incarnation, difference);
    }
    // The participant lists are equal and the join came from a participant, so the link exists.
    let Some(link) = endpoint.link(from) else {
        return Checked::Unknown;
    };
    match link.connected {
        Some(incarnation) if incarnation == theirs.incarnation => Checked::Known,
        // The counterpart was replaced. The replacement waits for our replacement.
        Some(_) => Checked::Unknown,
        None if theirs.incarnation <= link.gone => Checked::Unknown,
        None => {
            let first = !std::mem::replace(&mut link.joined, true);
            Checked::New(Connecting {
                incarnation,
                regions: endpoint.regions.clone(),
                on_join: endpoint.on_join.clone().filter(|_| first),
                on_connect: endpoint.on_connect.clone(),
            })
        }
    }
}

/// Makes the regions that `from` offers accessible.
fn import<F: Fabric>(
    setup: &Setup<F>,
    from: NodeId,
    theirs: &Hello<'_>,
    regions: &[Region<F>],
) -> Result<()> {
    for region in regions {
        let offered: Option<&RegionKey> = theirs
            .spec
            .offers
            .iter()
            .zip(&*theirs.keys)
            .find(|(offer, _)| offer.name == region.short_name())
            .map(|(_, key)| key);
        if let Some(key) = offered {
            let remote = setup.fabric().import(from, key)?;
            region.connect(setup.network().position(from)?, remote);
        }
    }
    Ok(())
}

fn leave<F: Fabric>(
    setup: &Setup<F>,
    outbox: &mut Outbox<'_, F>,
    from: NodeId,
    channel: Cow<'_, str>,
    incarnation: u64,
) {
    if let Some(endpoint) = setup.registry().lock().current(&channel)
        && let Some(link) = endpoint.link(from)
    {
        link.gone = link.gone.max(incarnation);
        if link.connected == Some(incarnation) {
            // It is acknowledged when our endpoint goes.
            link.left = true;
            return;
        }
    }
    outbox.push(from, &Message::LeaveAck { channel, incarnation });
}
