//! The set-up service: answers joins and connects, runs callbacks, keeps the quarantine.

use loco_fabric::{Control, Fabric, FabricError, Lock, NodeId, PeerState, RegionKey};

use super::message::{Difference, Greeting, Message};
use super::registry::{Buried, Registry};
use super::state::Setup;
use crate::operations::region::Region;
use crate::{Error, Result};

/// Runs the service thread.
pub(crate) fn serve<F: Fabric>(setup: &Setup<F>) {
    loop {
        match setup.fabric().control().receive(None) {
            Ok(Some((from, payload))) => match postcard::from_bytes::<Message>(&payload) {
                Ok(message) => handle(setup, from, message),
                Err(error) => tracing::warn!(%from, %error, "unreadable set-up message dropped"),
            },
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "the control plane is broken: set-up ends");
                return;
            }
        }
        if setup.network().stopped() {
            return;
        }
    }
}

/// Sends a new endpoint's join to the other participants.
pub(crate) fn announce<F: Fabric>(setup: &Setup<F>, channel: &str) {
    let registry = setup.registry().lock();
    let Some(endpoint) = registry.endpoints.get(channel) else {
        return;
    };
    let peers: Vec<NodeId> = endpoint.links.keys().copied().collect();
    let join = Message::Join(endpoint.greeting(channel, None));
    drop(registry);
    for peer in peers {
        send(setup, peer, &join);
    }
    setup.changed();
}

/// Takes an endpoint out of service and puts its memory into quarantine. `drained` says that none of this
/// node's operations is outstanding.
pub(crate) fn bury<F: Fabric>(setup: &Setup<F>, channel: &str, drained: bool) {
    let mut registry = setup.registry().lock();
    let Some(endpoint) = registry.endpoints.remove(channel) else {
        return;
    };
    let peers: Vec<NodeId> = endpoint.links.keys().copied().collect();
    registry.buried.push(Buried {
        channel: channel.to_owned(),
        incarnation: endpoint.incarnation,
        _regions: endpoint.regions.clone(),
        waiting: peers.clone(),
    });
    let free = registry.sweep(setup.fabric().control());
    drop(registry);
    drop(free);
    for peer in peers {
        let link = &endpoint.links[&peer];
        if !drained {
            // Peers keep their memory, because one of our operations may still change it.
            tracing::warn!(channel, %peer, "operations did not drain: memory stays in quarantine");
        } else if let (true, Some(incarnation)) = (link.left, link.connected) {
            let channel = channel.to_owned();
            send(setup, peer, &Message::LeaveAck { channel, incarnation });
        }
        let leave = Message::Leave {
            channel: channel.to_owned(),
            incarnation: endpoint.incarnation,
        };
        send(setup, peer, &leave);
    }
    // Callbacks may own sub-channels, whose end takes the lock again.
    drop(endpoint);
    setup.changed();
}

fn handle<F: Fabric>(setup: &Setup<F>, from: NodeId, message: Message) {
    match message {
        Message::Join(greeting) => {
            if let Some(answer) = meet(setup, from, &greeting) {
                send(setup, from, &answer);
            }
        }
        Message::Connect(greeting) => match meet(setup, from, &greeting) {
            None => {}
            Some(Message::Connect(_)) => {
                if let Some(incarnation) = greeting.answers {
                    let mut registry = setup.registry().lock();
                    registry.acknowledged(&greeting.channel, incarnation, from);
                }
                let ack = Message::Ack {
                    channel: greeting.channel,
                    incarnation: greeting.incarnation,
                };
                send(setup, from, &ack);
            }
            Some(problem) => send(setup, from, &problem),
        },
        Message::Ack { channel, incarnation } => {
            setup.registry().lock().acknowledged(&channel, incarnation, from);
        }
        Message::Mismatch {
            channel,
            incarnation,
            difference,
        } => {
            let error = difference.reversed().error(&channel, setup.fabric().node(), from);
            fail(setup, &channel, incarnation, error);
        }
        Message::Refused {
            channel,
            incarnation,
            reason,
        } => {
            let error = Error::Refused {
                channel: channel.clone(),
                peer: from,
                reason,
            };
            fail(setup, &channel, incarnation, error);
        }
        Message::Leave { channel, incarnation } => leave(setup, from, channel, incarnation),
        Message::LeaveAck { channel, incarnation } => {
            let mut registry = setup.registry().lock();
            for buried in &mut registry.buried {
                if buried.channel == channel && buried.incarnation == incarnation {
                    buried.waiting.retain(|&peer| peer != from);
                }
            }
        }
    }
    let free = setup.registry().lock().sweep(setup.fabric().control());
    drop(free);
    setup.changed();
}

/// Receives the introduction of a counterpart of one of our endpoints. Returns the answer to its join.
fn meet<F: Fabric>(setup: &Setup<F>, from: NodeId, theirs: &Greeting) -> Option<Message> {
    let channel = &theirs.channel;
    let here = setup.fabric().node();
    let Visit {
        incarnation,
        answer,
        regions,
        first,
    } = {
        let mut registry = setup.registry().lock();
        match visit(&mut registry, here, from, theirs) {
            Visited::Unknown => {
                tracing::debug!(%channel, %from, "join ignored: no such channel here (yet)");
                return None;
            }
            Visited::Differs(ours, difference) => {
                drop(registry);
                fail(
                    setup,
                    channel,
                    ours,
                    difference.clone().error(channel, here, from),
                );
                return Some(Message::Mismatch {
                    channel: channel.clone(),
                    incarnation: theirs.incarnation,
                    difference,
                });
            }
            Visited::Known(answer) => return Some(answer),
            Visited::New(visit) => visit,
        }
    };
    // The lock is not held here, because callbacks make channels of their own.
    let connected = (|| {
        if first {
            callback(setup, channel, incarnation, |e| e.on_join.clone(), from)?;
        }
        import(setup, from, theirs, &regions)?;
        callback(setup, channel, incarnation, |e| e.on_connect.clone(), from)
    })();
    match connected {
        Ok(()) => {
            let mut registry = setup.registry().lock();
            let link = registry
                .endpoints
                .get_mut(channel)
                .filter(|endpoint| endpoint.incarnation == incarnation)
                .and_then(|endpoint| endpoint.links.get_mut(&from))?;
            link.connected = Some(theirs.incarnation);
            Some(answer)
        }
        Err(error) => {
            tracing::warn!(%channel, %from, %error, "connecting failed");
            let reason = error.to_string();
            fail(setup, channel, incarnation, error);
            Some(Message::Refused {
                channel: channel.clone(),
                incarnation: theirs.incarnation,
                reason,
            })
        }
    }
}

enum Visited<F: Fabric> {
    /// There is no endpoint here, or none for this counterpart.
    Unknown,
    /// The endpoint of this incarnation does not fit.
    Differs(u64, Difference),
    /// The endpoint is connected already.
    Known(Message),
    /// The endpoint is to be connected.
    New(Visit<F>),
}

struct Visit<F: Fabric> {
    incarnation: u64,
    answer: Message,
    regions: Vec<Region<F>>,
    /// Set if the callback on joining has not run for this peer.
    first: bool,
}

fn visit<F: Fabric>(registry: &mut Registry<F>, here: NodeId, from: NodeId, theirs: &Greeting) -> Visited<F> {
    let Some(endpoint) = registry.endpoints.get_mut(&theirs.channel) else {
        return Visited::Unknown;
    };
    if theirs.answers.is_some_and(|asked| asked != endpoint.incarnation) {
        return Visited::Unknown;
    }
    if let Some(difference) = Difference::between(here, &endpoint.spec, from, &theirs.spec) {
        return Visited::Differs(endpoint.incarnation, difference);
    }
    let answer = Message::Connect(endpoint.greeting(&theirs.channel, Some(theirs.incarnation)));
    // The participant lists are equal and the join came from a participant, so the link exists.
    let Some(link) = endpoint.links.get_mut(&from) else {
        return Visited::Unknown;
    };
    match link.connected {
        Some(incarnation) if incarnation == theirs.incarnation => Visited::Known(answer),
        // The counterpart was replaced. The replacement waits for our replacement.
        Some(_) => Visited::Unknown,
        None if theirs.incarnation <= link.gone => Visited::Unknown,
        None => Visited::New(Visit {
            incarnation: endpoint.incarnation,
            answer,
            regions: endpoint.regions.clone(),
            first: !std::mem::replace(&mut link.joined, true),
        }),
    }
}

fn callback<F: Fabric>(
    setup: &Setup<F>,
    channel: &str,
    incarnation: u64,
    which: impl FnOnce(&super::Endpoint<F>) -> Option<super::OnPeer>,
    peer: NodeId,
) -> Result<()> {
    let callback = {
        let registry = setup.registry().lock();
        registry
            .endpoints
            .get(channel)
            .filter(|endpoint| endpoint.incarnation == incarnation)
            .and_then(which)
    };
    callback.map_or(Ok(()), |callback| callback(peer))
}

/// Makes the regions that `from` offers accessible.
fn import<F: Fabric>(setup: &Setup<F>, from: NodeId, theirs: &Greeting, regions: &[Region<F>]) -> Result<()> {
    for region in regions {
        let offered: Option<&RegionKey> = theirs
            .spec
            .offers
            .iter()
            .zip(&theirs.keys)
            .find(|(offer, _)| offer.name == region.short_name())
            .map(|(_, key)| key);
        if let Some(key) = offered {
            let remote = setup.fabric().import(from, key)?;
            region.connect(setup.network().position(from)?, remote);
        }
    }
    Ok(())
}

fn leave<F: Fabric>(setup: &Setup<F>, from: NodeId, channel: String, incarnation: u64) {
    let mut registry = setup.registry().lock();
    if let Some(link) = registry
        .endpoints
        .get_mut(&channel)
        .and_then(|endpoint| endpoint.links.get_mut(&from))
    {
        link.gone = link.gone.max(incarnation);
        if link.connected == Some(incarnation) {
            // It is acknowledged when our endpoint goes.
            link.left = true;
            return;
        }
    }
    drop(registry);
    send(setup, from, &Message::LeaveAck { channel, incarnation });
}

fn fail<F: Fabric>(setup: &Setup<F>, channel: &str, incarnation: u64, error: Error) {
    let mut registry = setup.registry().lock();
    if let Some(endpoint) = registry.endpoints.get_mut(channel)
        && endpoint.incarnation == incarnation
        && endpoint.error.is_none()
    {
        endpoint.error = Some(error);
    }
    drop(registry);
    setup.changed();
}

/// Sends a message. If the peer is gone, the thread that waits for it finds out.
fn send<F: Fabric>(setup: &Setup<F>, to: NodeId, message: &Message) {
    let control = setup.fabric().control();
    if control.peer_state(to) != PeerState::Alive {
        return;
    }
    // Encoding into a growing buffer fails for no value of these types.
    let sent = postcard::to_stdvec(message)
        .map_err(|error| FabricError::Config(error.to_string()))
        .and_then(|payload| control.send(to, &payload));
    if let Err(error) = sent {
        tracing::debug!(%to, %error, "set-up message not sent");
    }
}
